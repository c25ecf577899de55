//! What an actor's objects in the bucket are, which of them is the current head, what a restore
//! fetches, and what may be erased.
//!
//! A history is a set of immutable objects. A *segment* holds the pages that one or more whole
//! commits changed; it names the segment it applies on by position and by hash, so segments form
//! chains, and the newest segment's chain is the actor's state. A *snapshot* holds every page at one
//! segment's position, a *merged* object the pages that a run of segments changed; both stand in
//! where a chain asks for that very segment, and nowhere else.
//!
//! Promised: a restore gives exactly the state of the head it found, or an error that says which
//! object is missing or wrong; it never guesses. Bytes that are damaged, cut short, swapped or
//! foreign are told from good ones, and no input makes a reader panic or take memory out of
//! proportion. What `retention` lets a holder remove is on no chain that a later restore can follow.
//!
//! Not here: who may write (`ownership`, `lease`), sending and fetching (`replica`), and SQLite's
//! side of it (the shell `database`). Everything here is a function of its arguments. The bytes are
//! in docs/internals/bucket-layout.md, the reasons in docs/adr/0016-history.md.

mod chain;
mod encode;
mod header;
mod image;
mod key;
mod object;
mod pages;
mod position;
mod progress;
mod retention;
mod segment;
mod sidecar;
mod snapshot;

#[cfg(test)]
mod tests;

pub use chain::{BrokenChain, Listing, Offered, Walk, highest_generation_in_bucket};
pub use encode::{EncodeError, encode};
pub use header::{Base, Description, Kind, Meta, ObjectError, ObjectHash};
pub use image::{Assembly, IncompleteImage};
pub use key::{HistoryPrefix, ObjectKey};
pub use object::{Object, PagesError};
pub use pages::{LOCK_PAGE, PAGE_BYTES, PageSet, page_offset, whole_pages};
pub use position::{Generation, Position};
pub use progress::{Durable, Progress};
pub use retention::{Collection, Permission, Refused, Since, collect, may_anchor, oldest_needed};
pub use segment::{delta, fence, full, reset};
pub use sidecar::{Files, Sidecar, SidecarError, Written};
pub use snapshot::{merged, snapshot};
