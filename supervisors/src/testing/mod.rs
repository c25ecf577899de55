//! Ports with no outside world behind them: a guest that does what its request says, databases in
//! memory that notice when a rule about them is broken, and a bucket in memory that fails as told.

mod bucket_contract;
mod captures;
mod clock;
mod databases;
mod faulty_bucket;
mod guest;
mod memory_bucket;
#[cfg(test)]
mod page;
mod random;
mod steady_clock;
mod tree;

pub use bucket_contract::BucketContract;
pub use clock::ManualClock;
pub use databases::{Fault, MemoryDatabases};
pub use faulty_bucket::{BucketFault, FaultyBucket, Operation};
pub use guest::{ScriptedGuest, Started, scripted_event};
pub use memory_bucket::MemoryBucket;
#[cfg(test)]
pub use page::check_page;
pub use random::SeededRandom;
pub use steady_clock::SteadyClock;
pub use tree::TreeSetup;
