//! How many actors this machine can hold in memory: descriptors and memory mappings.

use std::fs;

use anyhow::{Result, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use wasmkeep_supervisors::limits::INSTANCES_MAX;

/// A resident actor's database and its WAL.
const DESCRIPTORS_PER_ACTOR: u64 = 2;
/// Connections, the runtime, the log, components.
const DESCRIPTORS_ELSE: u64 = 1024;
/// Mappings of one pooled instance and its stack, with room to spare.
const MAPPINGS_PER_ACTOR: u64 = 8;
const MAX_MAP_COUNT: &str = "/proc/sys/vm/max_map_count";

/// The number of instances to run with: what was asked for, or the most up to the default.
pub fn instances(asked: Option<usize>) -> Result<usize> {
    let descriptors = raise_descriptors();
    let by_descriptors =
        descriptors.saturating_sub(DESCRIPTORS_ELSE.min(descriptors / 2)) / DESCRIPTORS_PER_ACTOR;
    let mappings = fs::read_to_string(MAX_MAP_COUNT).ok().and_then(|n| n.trim().parse().ok());
    let by_mappings = mappings.unwrap_or(u64::MAX) / MAPPINGS_PER_ACTOR;
    match asked {
        Some(asked) if asked as u64 > by_descriptors => bail!(
            "--max-instances {asked} needs {} file descriptors and this process may have \
             {descriptors}: raise `ulimit -n` (LimitNOFILE= in systemd), or ask for at most \
             {by_descriptors}",
            asked as u64 * DESCRIPTORS_PER_ACTOR + DESCRIPTORS_ELSE.min(descriptors / 2),
        ),
        Some(asked) if asked as u64 > by_mappings => bail!(
            "--max-instances {asked} needs {} memory mappings: raise the sysctl \
             vm.max_map_count, or ask for at most {by_mappings}",
            asked as u64 * MAPPINGS_PER_ACTOR,
        ),
        Some(asked) => Ok(asked),
        None => {
            let most = by_descriptors.min(by_mappings).min(INSTANCES_MAX as u64).max(1) as usize;
            if most < INSTANCES_MAX {
                tracing::warn!(max_instances = most, "few descriptors or mappings: fewer actors");
            }
            Ok(most)
        }
    }
}

/// Raises the soft limit on descriptors to the hard one, and returns what holds.
fn raise_descriptors() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    current.unwrap_or(u64::MAX)
}
