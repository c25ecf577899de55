//! The shells of WasmKeep and its commands.
//!
//! Modules are listed lowest first, and each uses only those above it. The shells (`bucket`,
//! `database`, `host`, `admin`, `peer_link`, `edge`) know the crates `supervisors` and `wit`, and never one another.

pub mod telemetry;

pub mod thread_clock;

pub mod identity;

pub mod bucket;

pub mod database;

pub mod host;

pub mod admin;

pub mod peer_link;

pub mod edge;

pub mod config;

pub mod serve;

pub mod cli;
