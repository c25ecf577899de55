//! Black-box tests: they drive the real executable with the guests of `WASMKEEP_COMPONENTS`
//! (`target/components`; `cargo xtask guests` makes them) and link nothing of this package.

mod access;
mod alarm_faults;
mod alarm_restarts;
mod alarms;
mod bucket;
mod calls;
mod cli;
mod clock;
mod cluster;
mod console;
mod deletes;
mod dev;
mod durability;
mod env;
mod events;
mod examples;
mod framing;
mod front;
mod fuzz;
mod life_cycle;
mod limits;
mod metrics;
mod operator;
mod outbound;
mod requests;
mod robustness;
mod sdk;
mod snippets;
mod storage;
mod support;
mod tail;
mod websockets;
