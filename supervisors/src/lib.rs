//! The processes of WasmKeep and the rules they follow.
//!
//! Modules are listed lowest first, and each uses only those above it: reading this list is
//! reading the architecture. Nothing here knows WebAssembly, HTTP, SQLite or S3; the shells in
//! the package `wasmkeep` bring those in through `ports`.

pub mod limits;

pub mod one_line;

pub mod time;

pub mod address;

pub mod headers;

pub mod values;

pub mod twin;

pub mod event;

pub mod access;

pub mod guest_log;

pub mod history;

pub mod metrics;

pub mod ports;

pub mod bucket;

pub mod lease;

pub mod node;

pub mod ownership;

pub mod replica;

pub mod tap;

pub mod call;

pub mod alarm;

pub mod socket;

pub mod relay;

pub mod actor;

pub mod front;

pub mod tree;

#[cfg(any(test, feature = "testing"))]
pub mod testing;
