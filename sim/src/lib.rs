//! Whole clusters in one thread: the real protocol of `wasmkeep-supervisors` on a simulated bucket,
//! clocks and faults. All that is left to chance comes from one seed, so a run can be had again.
//!
//! docs/internals/simulation.md says what is simulated, what is checked, and what is not.

pub mod runtime;

pub mod dice;

pub mod trace;

pub mod image;

pub mod past;

pub mod leases;

pub mod records;

pub mod checker;

pub mod gate;

pub mod clock;

pub mod fate;

pub mod faults;

pub mod bucket;

pub mod shared;

pub mod before;

pub mod disk;

pub mod database;

pub mod node;

pub mod workload;

pub mod world;

pub mod scene;

pub mod sweep;
