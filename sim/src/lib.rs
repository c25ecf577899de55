//! Whole clusters in one thread: the real protocol of `wasmkeep-supervisors` on a simulated bucket,
//! clocks and faults. All that is left to chance comes from one seed, so a run can be had again.

pub mod dice;

pub mod trace;

pub mod image;

pub mod past;

pub mod gate;

pub mod clock;

pub mod fate;

pub mod faults;

pub mod disk;

pub mod database;
