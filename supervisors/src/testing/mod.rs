//! Ports with no outside world behind them: a guest that does what its request says, and databases
//! in memory that notice when a rule about them is broken.

mod clock;
mod databases;
mod guest;
#[cfg(test)]
mod page;
mod tree;

pub use clock::ManualClock;
pub use databases::{Fault, MemoryDatabases};
pub use guest::{ScriptedGuest, Started, scripted_event};
#[cfg(test)]
pub use page::check_page;
pub use tree::TreeSetup;
