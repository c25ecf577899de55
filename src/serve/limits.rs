//! How many actors this machine can hold in memory: its memory, descriptors and memory mappings.

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
/// What one takes with its database, in TypeScript, which takes more than Rust: measured 1.2 MiB. One
/// may take `--memory-mb` of linear memory; that all do so at once is not what a default is for.
const MEMORY_PER_ACTOR: u64 = 2 << 20;
/// The share of the machine's memory that they get: an operating system caches files with the rest.
const MEMORY_SHARE: u64 = 2;
const MAX_MAP_COUNT: &str = "/proc/sys/vm/max_map_count";
const MEMORY: &str = "/proc/meminfo";
/// What the process's group may take, in a container.
const GROUP_MEMORY: &str = "/sys/fs/cgroup/memory.max";

/// What bounds the number of actors, each with the number it allows.
struct Bounds {
    descriptors: u64,
    by_descriptors: u64,
    by_mappings: u64,
    by_memory: u64,
}

/// The number of instances to run with: what was asked for, or the most up to the default.
pub fn instances(asked: Option<usize>) -> Result<usize> {
    choose(asked, &Bounds::of_the_machine())
}

fn choose(asked: Option<usize>, bounds: &Bounds) -> Result<usize> {
    let Bounds { descriptors, by_descriptors, by_mappings, by_memory } = *bounds;
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
        // How much an actor takes is its author's to know: no refusal.
        Some(asked) => Ok(asked),
        None => {
            let bounds = [
                (INSTANCES_MAX as u64, "the default"),
                (by_memory, "memory"),
                (by_descriptors, "descriptors"),
                (by_mappings, "mappings"),
            ];
            let least = bounds.into_iter().min_by_key(|(most, _)| *most);
            let (most, bound_by) = least.unwrap_or((INSTANCES_MAX as u64, "the default"));
            let most = most.max(1) as usize;
            if most < INSTANCES_MAX {
                tracing::warn!(max_instances = most, bound_by, "fewer actors than by default");
            } else {
                tracing::info!(max_instances = most, bound_by, "actors in memory at most");
            }
            Ok(most)
        }
    }
}

impl Bounds {
    fn of_the_machine() -> Self {
        let descriptors = raise_descriptors();
        let for_actors = descriptors.saturating_sub(DESCRIPTORS_ELSE.min(descriptors / 2));
        let mappings = fs::read_to_string(MAX_MAP_COUNT).ok().and_then(|n| n.trim().parse().ok());
        let machine = fs::read_to_string(MEMORY).ok().and_then(|text| total_memory(&text));
        // It says `max` where there is no bound.
        let group = fs::read_to_string(GROUP_MEMORY).ok().and_then(|n| n.trim().parse().ok());
        let memory = machine.unwrap_or(u64::MAX).min(group.unwrap_or(u64::MAX));
        Self {
            descriptors,
            by_descriptors: for_actors / DESCRIPTORS_PER_ACTOR,
            by_mappings: mappings.unwrap_or(u64::MAX) / MAPPINGS_PER_ACTOR,
            by_memory: memory / MEMORY_SHARE / MEMORY_PER_ACTOR,
        }
    }
}

/// In bytes, from `/proc/meminfo`.
fn total_memory(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
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

#[cfg(test)]
mod tests {
    use super::*;

    const ROOMY: Bounds = Bounds {
        descriptors: 65_536,
        by_descriptors: 32_000,
        by_mappings: 8_191,
        by_memory: 6_000,
    };

    #[test]
    fn a_default_is_what_the_scarcest_thing_allows() {
        let default = |bounds: Bounds| choose(None, &bounds).expect("a default");
        assert_eq!(default(ROOMY), INSTANCES_MAX);
        assert_eq!(default(Bounds { by_memory: 120, ..ROOMY }), 120);
        assert_eq!(default(Bounds { by_descriptors: 90, by_memory: 120, ..ROOMY }), 90);
        assert_eq!(default(Bounds { by_mappings: 7, ..ROOMY }), 7);
        assert_eq!(default(Bounds { by_memory: 0, ..ROOMY }), 1);
    }

    #[test]
    fn what_is_asked_for_is_refused_where_the_system_would() {
        assert_eq!(choose(Some(8_000), &ROOMY).ok(), Some(8_000), "memory is the author's to know");
        let refused = |asked| choose(Some(asked), &ROOMY).expect_err("too many").to_string();
        assert!(refused(8_192).contains("vm.max_map_count"), "{}", refused(8_192));
        assert!(refused(40_000).contains("LimitNOFILE"), "{}", refused(40_000));
    }

    #[test]
    fn the_machines_memory_is_read() {
        let text = "MemFree: 1 kB\nMemTotal:       24689764 kB\n";
        assert_eq!(total_memory(text), Some(24_689_764 * 1024));
        assert_eq!(total_memory("none"), None);
        assert!(Bounds::of_the_machine().by_memory > 0);
    }
}
