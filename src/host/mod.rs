//! Runs guests: components under wasmtime, one store per resident actor, and one per
//! request of the front.
//!
//! Promises: guest code is charged for its own CPU only and stopped at its budget and its wall;
//! a trap never reaches beyond its instance; WASI links and reaches nothing. What a guest's calls
//! mean is decided in `supervisors`: each file here named after a WIT interface only translates.

mod actors;
mod alarms;
mod calls;
mod component;
mod engine;
mod env;
mod front;
mod http;
mod instance;
mod log;
mod meter;
mod outbound;
mod state;
mod storage;
mod websockets;

pub use component::{ComponentError, Components, InstanceConfig, component_hash};
pub use engine::{EngineConfig, EngineError, GuestEngine};
pub use outbound::{AddressRange, Outbound, OutboundConfig, OutboundError, RangeError};
