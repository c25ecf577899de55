//! What the processes need of the world, as traits; the shells implement them.
//!
//! `Databases` and `Database` keep an actor's data, `Guest` and `Instance` run its code, and
//! `EventScope` is everything that code may ask of the host during one event. The processes hold
//! these as trait objects, so no shell's type reaches into the tree.

mod database;
mod guest;

pub use database::{
    ConstraintKind, Database, Databases, Meta, OpenError, RowSet, SqlError, SqlValue, StorageFault,
};
pub use guest::{EventScope, Guest, GuestCall, GuestFault, GuestFuture, Instance, ScopeFuture};
