//! Real nodes that share a real bucket: a store in a process of its own.

mod adoption;
mod outages;
mod ownership;
mod relays;
mod settings;
mod takeover;
