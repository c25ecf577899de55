//! What the processes need of the world, as traits; the shells implement them.
//!
//! `Databases` and `Database` keep an actor's data, `Capturing` and `LocalFiles` bring it to the
//! bucket and back, `Catalogue` tells operators what is there, `Guest` and `Instance` run its code, and
//! `EventScope` is everything that code may ask of the host during one event. `FrontGuest` runs the
//! front's, which may ask what `GuestScope` has and no more. The processes hold
//! these as trait objects, so no shell's type reaches into the tree. `Bucket` is what nodes share, `PeerLink`
//! brings an event to the node that has its actor. `Deliver` is the tree's own: it
//! hands up what timers and calls bring, to modules above the one that brings it.

mod bucket;
mod capture;
mod catalogue;
mod database;
mod guest;
mod peer_link;
mod world;

pub use crate::event::Hops;
pub use bucket::{
    Bucket, BucketFuture, BucketTime, Cond, DeleteError, Denial, Doubt, ETag, GetError, ListError,
    ListFrom, Listed, Object, Page, PutError, Wait, Written,
};
pub use capture::{Captured, Capturing, Latched, LocalFiles, Restoring};
pub use catalogue::{Catalogue, FileSizes, KnownActor, KnownName};
pub use database::{
    ConstraintKind, Database, Databases, Left, Meta, OpenError, RowSet, SomeRows, SqlError,
    SqlValue, StorageFault, Syncing,
};
pub use guest::{
    CallError, CallRequest, CallResponse, EventScope, FrontGuest, Guest, GuestCall, GuestFault,
    GuestFuture, GuestScope, Instance, ScopeFuture,
};
pub use peer_link::{
    Duplex, LinkFuture, NotReached, PeerAt, PeerKey, PeerLink, PeerSocket, RelayError, SocketAsked,
};
pub use world::{Clock, Deliver, Random, Steady};
