//! Messages of WebSockets.

use anyhow::Result;

use super::{Measured, Stage};
use crate::client::socket;

const SOCKETS: usize = 64;
const PATH: &str = "/actor/bench/a";

pub fn echo(stage: &Stage) -> Result<Measured> {
    stage.measure(|| socket::echo(stage.running.address, PATH, SOCKETS, stage.time))
}

/// The rate and the CPU are of each message received, the latencies of a whole fan-out.
pub fn fan_out(stage: &Stage, sockets: usize) -> Result<Measured> {
    stage.measure(|| socket::fan_out(stage.running.address, PATH, sockets, stage.time))
}
