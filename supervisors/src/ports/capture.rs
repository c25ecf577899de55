//! What replication needs of a database, and of the files of databases that are closed. Only a node
//! whose databases are captured has these.

use crate::address::Address;
use crate::history::Base;

use super::database::StorageFault;

/// What was committed since the last capture. The pages' bytes are asked for one by one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// The pages that changed, ascending.
    pub changed: Vec<u32>,
    /// Pages of the database after the last commit.
    pub db_pages: u32,
    /// WAL frames that were looked at.
    pub frames: u32,
    /// Every page is among them: a segment of these needs nothing older.
    pub is_whole: bool,
}

/// An open database whose commits are captured.
///
/// A capture sees whole commits only: those since the one before, each page as the last of them left
/// it. Nothing of it moves until it has been captured, so nothing can be missed.
pub trait Capturing: Send {
    /// A transaction is open: what was committed can be captured, but nothing that moves the log or
    /// writes may be asked.
    fn is_in_transaction(&self) -> bool;

    /// What was committed since the last capture; none when nothing was.
    fn capture(&mut self) -> Result<Option<Captured>, StorageFault>;

    /// Fills `to` with one page of the last capture, as it was then. That can be asked until the
    /// next capture or the end of the event.
    fn read_captured(&mut self, page: u32, to: &mut [u8]) -> Result<(), StorageFault>;

    /// Has the next capture hold every page: the database is a file of before, whose history is to
    /// begin.
    fn capture_whole(&mut self);

    /// What `capture_whole` had captured is acknowledged: from here on the file is a copy of the bucket's,
    /// and never again the beginning of a history. That is a commit, and captured as one.
    fn adopted(&mut self) -> Result<(), StorageFault>;

    /// Gives free pages back to the disk, if that is worth writing the whole database anew. All must
    /// have been captured. The next capture holds every page then.
    fn vacuum_if_sparse(&mut self) -> Result<bool, StorageFault>;

    /// The database as it is now, for a snapshot that is taken while the actor goes on. None when it
    /// cannot be had now: something is not captured, or another is held, or the disk is full.
    fn latch(&mut self) -> Result<Option<Box<dyn Latched>>, StorageFault>;
}

/// The pages of one moment. Until it is dropped the database's log grows.
pub trait Latched: Send {
    fn db_pages(&self) -> u32;

    fn read(&self, page: u32, to: &mut [u8]) -> Result<(), StorageFault>;
}

/// The files of databases that nobody has open.
pub trait LocalFiles: Send + Sync + 'static {
    /// The state of the bucket that the actor's file is exactly; none when it is not known to be
    /// one. Asked before the database is opened: an opening ends the trust.
    fn trusted(&self, address: &Address) -> Result<Option<Base>, StorageFault>;

    /// Whether the actor's file may become the beginning of its history: it was written by a node without
    /// a bucket. One that was ever opened with its commits captured may not: it may hold what was never
    /// acknowledged, or be torn.
    fn adoptable(&self, address: &Address) -> Result<bool, StorageFault>;

    /// Begins an image that will take the file's place.
    fn restore(&self, address: &Address) -> Result<Box<dyn Restoring>, StorageFault>;

    /// Moves the actor's file, with its log, to where it is not used. One such file is kept.
    fn set_aside(&self, address: &Address) -> Result<(), StorageFault>;
}

/// An image on its way. Dropped unfinished it leaves nothing.
pub trait Restoring: Send {
    fn write(&mut self, page: u32, bytes: &[u8]) -> Result<(), StorageFault>;

    /// The image has so many pages, all of them written, and is exactly the state `head`. The file that
    /// was there is set aside; an image without pages leaves none.
    fn finish(self: Box<Self>, db_pages: u32, head: Base) -> Result<(), StorageFault>;
}
