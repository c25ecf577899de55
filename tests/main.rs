//! Black-box tests: they drive the real executable with the guests of `WASMKEEP_COMPONENTS`
//! (`target/components`; `cargo xtask guests` makes them) and link nothing of this package.

mod cli;
mod events;
mod life_cycle;
mod limits;
mod metrics;
mod operator;
mod requests;
mod storage;
mod support;
mod tail;
