//! Fills in what flags and environment left open: from the file, then from the defaults.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::time::Duration;

use wasmkeep_supervisors::access::Access;
use wasmkeep_supervisors::address::Class;
use wasmkeep_supervisors::limits;
use wasmkeep_supervisors::values::Values;

use super::file::{ConfigFile, EnvFiles};
use super::{
    AccessArg, ActorArg, ConfigError, DEFAULT_DATA_DIR, DEFAULT_LISTEN, EnvArg, FrontSettings,
    ServeArgs, ServeConfig,
};
use crate::host::OutboundConfig;

const MIB: u64 = 1024 * 1024;
const MEMORY_MIB_MAX: u64 = 4096;

pub fn merge(args: ServeArgs, file: ConfigFile, path: &Path) -> Result<ServeConfig, ConfigError> {
    let actors = actors(args.actors, file.actors, path)?;
    let front = args.front.or(args.front_flag).or(file.front.component);
    if actors.is_empty() && front.is_none() {
        return Err(ConfigError::NothingServed);
    }
    let filed_env = file.front.env.map(EnvFiles::into_paths).unwrap_or_default();
    let front_env = given_or(args.front_env, filed_env);
    if front.is_none() && !front_env.is_empty() {
        return Err(ConfigError::NoFront);
    }
    let access = access(args.access, file.access, path, &actors)?;
    let env_files = env_files(args.env, file.env, path, &actors)?;
    let (common, limits_given, table) = (args.common, args.limits, file.serve);
    let outbound = args.outbound;
    let ports = table.allow_outbound_port.into_iter().map(NonZeroU16::get).collect();
    let milliseconds =
        |flag, given: Option<u64>, filed: Option<u64>, default: Duration| match given.or(filed) {
            Some(0) => {
                Err(ConfigError::OutOfRange { flag, given: 0, expected: "it must be at least 1" })
            }
            given => Ok(given.map_or(default, Duration::from_millis)),
        };
    let memory_mib = limits_given.memory_mb.or(table.memory_mb);
    if let Some(given) = memory_mib
        && !(1..=MEMORY_MIB_MAX).contains(&given)
    {
        return Err(ConfigError::OutOfRange {
            flag: "memory-mb",
            given,
            expected: "it must be between 1 and 4096",
        });
    }
    let instances_max = limits_given.max_instances.or(table.max_instances);
    if instances_max == Some(0) {
        return Err(ConfigError::OutOfRange {
            flag: "max-instances",
            given: 0,
            expected: "it must be at least 1",
        });
    }
    let front_requests_max = limits_given.max_front_requests.or(table.max_front_requests);
    if front_requests_max == Some(0) {
        return Err(ConfigError::OutOfRange {
            flag: "max-front-requests",
            given: 0,
            expected: "it must be at least 1",
        });
    }
    let front_cpu_budget = milliseconds(
        "front-cpu-budget-ms",
        limits_given.front_cpu_budget_ms,
        table.front_cpu_budget_ms,
        limits::FRONT_CPU_BUDGET,
    )?;
    let front = front.map(|file| FrontSettings {
        file,
        env_files: front_env,
        values: Values::default(),
        requests_max: front_requests_max.map(|given| given as usize),
        cpu_budget: front_cpu_budget,
    });
    let seconds = |given: Option<u64>, filed: Option<u64>, default: Duration| {
        given.or(filed).map_or(default, Duration::from_secs)
    };
    Ok(ServeConfig {
        actors,
        front,
        access,
        env_files,
        values: HashMap::new(),
        exposed_files: Vec::new(),
        listen: common.listen.or(table.listen).unwrap_or_else(default_listen),
        data_dir: common.data_dir.or(table.data_dir).unwrap_or_else(|| DEFAULT_DATA_DIR.into()),
        compiled: None,
        log_format: common.log_format.or(table.log_format).unwrap_or_default(),
        instances_max: instances_max.map(|given| given as usize),
        idle_timeout: seconds(
            limits_given.idle_timeout_secs,
            table.idle_timeout_secs,
            limits::IDLE_TIMEOUT,
        ),
        cpu_budget: milliseconds(
            "cpu-budget-ms",
            limits_given.cpu_budget_ms,
            table.cpu_budget_ms,
            limits::CPU_BUDGET,
        )?,
        wall_budget: milliseconds(
            "wall-budget-ms",
            limits_given.wall_budget_ms,
            table.wall_budget_ms,
            limits::WALL_BUDGET,
        )?,
        sql_cpu_budget: milliseconds(
            "sql-cpu-budget-ms",
            limits_given.sql_cpu_budget_ms,
            table.sql_cpu_budget_ms,
            limits::SQL_CPU_BUDGET,
        )?,
        memory_bytes_max: memory_mib.map_or(limits::GUEST_MEMORY_BYTES, |mib| (mib * MIB) as usize),
        shutdown_grace: seconds(
            limits_given.shutdown_grace_secs,
            table.shutdown_grace_secs,
            limits::SHUTDOWN_GRACE,
        ),
        clock: args.clock,
        console: None,
        cluster: None,
        build: file.build,
        outbound: OutboundConfig {
            ranges: given_or(outbound.ranges, table.allow_outbound),
            ports: given_or(outbound.ports, ports),
            ca_files: given_or(outbound.ca_files, table.outbound_ca),
        },
    })
}

fn given_or<T>(given: Vec<T>, filed: Vec<T>) -> Vec<T> {
    if given.is_empty() { filed } else { given }
}

fn default_listen() -> std::net::SocketAddr {
    DEFAULT_LISTEN.parse().expect("the default is an address")
}

/// The classes of the command line, or else those of the file.
fn actors(
    given: Vec<ActorArg>,
    filed: BTreeMap<String, PathBuf>,
    path: &Path,
) -> Result<Vec<ActorArg>, ConfigError> {
    let mut actors = given;
    if actors.is_empty() {
        for (class, file) in filed {
            let class = Class::parse(&class).map_err(|error| ConfigError::Wrong {
                path: path.to_owned(),
                cause: error.to_string(),
            })?;
            actors.push(ActorArg { class, file });
        }
    }
    for (at, actor) in actors.iter().enumerate() {
        if let Some(earlier) = actors[..at].iter().find(|earlier| earlier.class == actor.class) {
            return Err(ConfigError::ClassTwice {
                class: actor.class.to_string(),
                first: earlier.file.clone(),
                second: actor.file.clone(),
            });
        }
    }
    Ok(actors)
}

/// The access modes of the command line, and those of the file for the other classes.
fn access(
    given: Vec<AccessArg>,
    filed: BTreeMap<String, String>,
    path: &Path,
    actors: &[ActorArg],
) -> Result<HashMap<Class, Access>, ConfigError> {
    let mut modes = HashMap::new();
    for AccessArg { class, access } in given {
        if modes.insert(class.clone(), access).is_some() {
            return Err(ConfigError::Twice { flag: "access", class: class.to_string() });
        }
    }
    for (class, mode) in filed {
        let wrong = |cause| ConfigError::Wrong { path: path.to_owned(), cause };
        let class = Class::parse(&class).map_err(|error| wrong(error.to_string()))?;
        let mode = mode.parse().map_err(|error| wrong(format!("access of {class}: {error}")))?;
        modes.entry(class).or_insert(mode);
    }
    if let Some(class) = modes.keys().find(|class| !is_served(actors, class)) {
        return Err(ConfigError::NotServed { flag: "access", class: class.to_string() });
    }
    Ok(modes)
}

/// The env files of the command line, and those of the settings file for the other classes.
fn env_files(
    given: Vec<EnvArg>,
    filed: BTreeMap<String, EnvFiles>,
    path: &Path,
    actors: &[ActorArg],
) -> Result<HashMap<Class, Vec<PathBuf>>, ConfigError> {
    let mut files: HashMap<Class, Vec<PathBuf>> = HashMap::new();
    for EnvArg { class, file } in given {
        files.entry(class).or_default().push(file);
    }
    for (class, paths) in filed {
        let class = Class::parse(&class).map_err(|error| ConfigError::Wrong {
            path: path.to_owned(),
            cause: format!("env: {error}"),
        })?;
        files.entry(class).or_insert_with(|| paths.into_paths());
    }
    if let Some(class) = files.keys().find(|class| !is_served(actors, class)) {
        return Err(ConfigError::NotServed { flag: "env", class: class.to_string() });
    }
    Ok(files)
}

fn is_served(actors: &[ActorArg], class: &Class) -> bool {
    actors.iter().any(|actor| actor.class == *class)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> ConfigFile {
        toml::from_str(text).expect("a good file")
    }

    #[test]
    fn a_flag_wins_over_the_file_and_the_file_over_the_default() {
        let filed = "[actors]\na = \"a.wasm\"\n[serve]\nmemory-mb = 64\nidle-timeout-secs = 5\n";
        let mut args = ServeArgs::default();
        args.limits.idle_timeout_secs = Some(7);
        let config = merge(args, file(filed), Path::new("wasmkeep.toml")).expect("resolves");
        assert_eq!(config.idle_timeout, Duration::from_secs(7));
        assert_eq!(config.memory_bytes_max, 64 << 20);
        assert_eq!(config.cpu_budget, limits::CPU_BUDGET);
        assert_eq!(config.actors.len(), 1);
    }

    #[test]
    fn what_is_opened_for_outbound_requests_comes_whole_from_one_place() {
        let filed = "[actors]\na = \"a.wasm\"\n[serve]\nallow-outbound = [\"10.1.0.0/16\"]\n\
                     allow-outbound-port = [587, 25]\noutbound-ca = [\"ca.pem\"]\n";
        let filed = || super::super::file::parse(filed, Path::new("etc/wasmkeep.toml"));
        let merged = |args| {
            let config = merge(args, filed().expect("a good file"), Path::new("f"));
            config.expect("resolves").outbound
        };
        let outbound = merged(ServeArgs::default());
        assert_eq!(outbound.ranges, ["10.1.0.0/16".parse().expect("a range")]);
        assert_eq!(outbound.ports, [587, 25]);
        assert_eq!(outbound.ca_files, [Path::new("etc/ca.pem")]);

        let mut args = ServeArgs::default();
        args.outbound.ranges = vec!["fd00::/8".parse().expect("a range")];
        let outbound = merged(args.clone());
        assert_eq!(outbound.ranges, args.outbound.ranges);
        assert_eq!(outbound.ports, [587, 25]);
    }

    #[test]
    fn env_files_of_a_flag_replace_those_of_the_file_for_their_class() {
        let filed = "[actors]\na = \"a.wasm\"\nb = \"b.wasm\"\n\
                     [env]\na = \"filed.env\"\nb = [\"one.env\", \"/etc/two.env\"]\n";
        let filed = super::super::file::parse(filed, Path::new("/home/wasmkeep.toml"));
        let env = ["a=flag1.env", "a=flag2.env"].map(|arg| arg.parse().expect("CLASS=FILE"));
        let args = ServeArgs { env: env.to_vec(), ..ServeArgs::default() };
        let config = merge(args, filed.expect("a good file"), Path::new("f")).expect("resolves");
        let files = |class: &str| config.env_files[class].clone();
        assert_eq!(files("a"), [Path::new("flag1.env"), Path::new("flag2.env")]);
        assert_eq!(files("b"), [Path::new("/home/one.env"), Path::new("/etc/two.env")]);
    }

    #[test]
    fn a_front_may_be_all_that_is_served() {
        let filed = "[front]\ncomponent = \"f.wasm\"\nenv = \"f.env\"\n\
                     [serve]\nmax-front-requests = 5\nfront-cpu-budget-ms = 20\n";
        let filed = || super::super::file::parse(filed, Path::new("etc/wasmkeep.toml"));
        let merged = |args| {
            let config = merge(args, filed().expect("a good file"), Path::new("f"));
            config.expect("resolves").front.expect("it has a front")
        };
        let front = merged(ServeArgs::default());
        assert_eq!(front.file, Path::new("etc/f.wasm"));
        assert_eq!(front.env_files, [Path::new("etc/f.env")]);
        assert_eq!(front.requests_max, Some(5));
        assert_eq!(front.cpu_budget, Duration::from_millis(20));

        let args = ServeArgs {
            front_flag: Some("given.wasm".into()),
            front_env: vec!["a.env".into(), "b.env".into()],
            ..ServeArgs::default()
        };
        let front = merged(args);
        assert_eq!(front.file, Path::new("given.wasm"));
        assert_eq!(front.env_files, [Path::new("a.env"), Path::new("b.env")]);
    }

    #[test]
    fn wrong_settings_are_named() {
        let wrong = |text: &str| {
            let error = merge(ServeArgs::default(), file(text), Path::new("f")).expect_err("wrong");
            error.to_string()
        };
        assert!(wrong("").contains("--actor"));
        assert!(wrong("").contains("--front"));
        assert!(wrong("[actors]\na = \"x\"\n[front]\nenv = \"x.env\"").contains("--front-env"));
        let few = "[front]\ncomponent = \"x\"\n[serve]\nmax-front-requests = 0";
        assert!(wrong(few).contains("--max-front-requests"));
        assert!(wrong("[actors]\nBad = \"x\"").contains("\"Bad\""));
        assert!(wrong("[actors]\na = \"x\"\n[serve]\nmemory-mb = 0").contains("--memory-mb"));
        assert!(wrong("[actors]\na = \"x\"\n[serve]\ncpu-budget-ms = 0").contains("--cpu-budget"));
        let unserved = wrong("[actors]\na = \"x\"\n[env]\nb = \"b.env\"");
        assert!(unserved.contains("--env") && unserved.contains("class b"), "{unserved}");
        assert!(toml::from_str::<ConfigFile>("[serve]\nlisten-on = 1").is_err());
    }
}
