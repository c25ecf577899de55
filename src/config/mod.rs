//! Settings: what flags, environment and `wasmkeep.toml` say, resolved into one `ServeConfig`.
//! A flag wins over the environment, and that over the file.

mod bucket;
mod cluster;
mod console;
mod env_file;
mod file;
mod resolve;

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use thiserror::Error;
use wasmkeep_supervisors::access::{self, Access};
use wasmkeep_supervisors::address::Class;
use wasmkeep_supervisors::limits::ENV_FILE_BYTES_MAX;
use wasmkeep_supervisors::values::Values;

pub use self::bucket::{BucketArgs, BucketConfigError};
pub use self::cluster::{Advertised, ClusterArgs, ClusterSettings, SharedBucket};
use self::cluster::{Asked, ClusterTable};
pub use self::console::{ConsoleSettings, Token};
pub use self::file::BuildTable;
use self::file::ConfigFile;
use crate::bucket::{BucketSettings, BucketUrl};
use crate::host::{AddressRange, OutboundConfig};
use crate::telemetry::LogFormat;

pub const DEFAULT_LISTEN: &str = "127.0.0.1:8080";
pub const DEFAULT_DATA_DIR: &str = "data";
/// Of `wasmkeep dev`, in the project's folder.
pub const DEV_DATA_DIR: &str = ".wasmkeep/data";
pub const DEFAULT_FILE: &str = "wasmkeep.toml";

/// How `serve` was told to run, before anything is filled in.
#[derive(Debug, Clone, Default, Args)]
pub struct ServeArgs {
    /// Serve a component as the front: it answers every path but /actor/ and /_wasmkeep/
    #[arg(value_name = "FRONT.wasm")]
    pub front: Option<PathBuf>,
    /// The same, as a flag
    #[arg(long = "front", value_name = "FILE", conflicts_with = "front")]
    pub front_flag: Option<PathBuf>,
    /// Give the front the values of a file of NAME=value lines; may be repeated, and a later file
    /// wins
    #[arg(long = "front-env", value_name = "FILE")]
    pub front_env: Vec<PathBuf>,
    /// Serve a component as a class; may be repeated
    #[arg(long = "actor", value_name = "CLASS=FILE.wasm")]
    pub actors: Vec<ActorArg>,
    /// Who may reach and create the class's actors from outside: open (the default), existing,
    /// existing:NAME,… or internal; may be repeated
    #[arg(long = "access", value_name = "CLASS=MODE")]
    pub access: Vec<AccessArg>,
    /// Give the class's actors the values of a file of NAME=value lines; may be repeated, and a
    /// later file of the same class wins
    #[arg(long = "env", value_name = "CLASS=FILE")]
    pub env: Vec<EnvArg>,
    /// Settings file [default: wasmkeep.toml, when there is one]
    #[arg(long, value_name = "FILE", env = "WASMKEEP_CONFIG")]
    pub config: Option<PathBuf>,
    /// The time of day that alarms and actors go by. For tests: manual stands, and `wasmkeep clock
    /// advance` moves it on
    #[arg(long, value_name = "CLOCK", default_value = "system")]
    pub clock: ClockKind,
    #[command(flatten)]
    pub common: CommonArgs,
    #[command(flatten)]
    pub admin: AdminArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
    #[command(flatten)]
    pub outbound: OutboundArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// What `serve` and `demo` share.
#[derive(Debug, Clone, Default, Args)]
pub struct CommonArgs {
    /// Address and port to listen on; port 0 takes a free one [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR:PORT", env = "WASMKEEP_LISTEN")]
    pub listen: Option<SocketAddr>,
    /// Where databases and compiled components are kept; one server at a time [default: data]
    #[arg(long, value_name = "DIR", env = "WASMKEEP_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
    /// How the log on standard error is written [default: text]
    #[arg(long, value_name = "FORMAT", env = "WASMKEEP_LOG_FORMAT")]
    pub log_format: Option<LogFormat>,
}

#[derive(Debug, Clone, Default, Args)]
pub struct LimitArgs {
    /// Actors in memory and requests with the front at once [default: 1000, or fewer where memory, descriptors or mappings are short]
    #[arg(long, value_name = "N", env = "WASMKEEP_MAX_INSTANCES")]
    pub max_instances: Option<u32>,
    /// Requests with the front at once; actors get the rest of --max-instances [default: a tenth of
    /// them beside actors, all of them without]
    #[arg(long, value_name = "N", env = "WASMKEEP_MAX_FRONT_REQUESTS")]
    pub max_front_requests: Option<u32>,
    /// Seconds without events after which an actor leaves memory [default: 30]
    #[arg(long, value_name = "SECS", env = "WASMKEEP_IDLE_TIMEOUT_SECS")]
    pub idle_timeout_secs: Option<u64>,
    /// Guest CPU of one event, in milliseconds; host calls are not counted [default: 50]
    #[arg(long, value_name = "MS", env = "WASMKEEP_CPU_BUDGET_MS")]
    pub cpu_budget_ms: Option<u64>,
    /// Guest CPU of one request of the front, in milliseconds [default: 50]
    #[arg(long, value_name = "MS", env = "WASMKEEP_FRONT_CPU_BUDGET_MS")]
    pub front_cpu_budget_ms: Option<u64>,
    /// Wall time of one event, in milliseconds, everything counted [default: 30000]
    #[arg(long, value_name = "MS", env = "WASMKEEP_WALL_BUDGET_MS")]
    pub wall_budget_ms: Option<u64>,
    /// CPU of all SQL statements of one event, in milliseconds [default: 2000]
    #[arg(long, value_name = "MS", env = "WASMKEEP_SQL_CPU_BUDGET_MS")]
    pub sql_cpu_budget_ms: Option<u64>,
    /// Linear memory of one instance, in MiB, at most 4096 [default: 128]
    #[arg(long, value_name = "MIB", env = "WASMKEEP_MEMORY_MB")]
    pub memory_mb: Option<u64>,
    /// Seconds that queued events may still run after a stop is asked for [default: 10]
    #[arg(long, value_name = "SECS", env = "WASMKEEP_SHUTDOWN_GRACE_SECS")]
    pub shutdown_grace_secs: Option<u64>,
}

/// The console, for operators.
#[derive(Debug, Clone, Default, Args)]
pub struct AdminArgs {
    /// Address and port of the console, for operators; not served unless it is given
    #[arg(long, value_name = "ADDR:PORT", env = "WASMKEEP_ADMIN_LISTEN")]
    pub admin_listen: Option<SocketAddr>,
    /// File with the token that the console asks for
    #[arg(long, value_name = "FILE", env = "WASMKEEP_ADMIN_TOKEN_FILE")]
    pub admin_token_file: Option<PathBuf>,
}

/// What requests of actors may reach beyond public addresses.
#[derive(Debug, Clone, Default, Args)]
pub struct OutboundArgs {
    /// Addresses that actors may reach although they are not public; may be repeated
    #[arg(long = "allow-outbound", value_name = "CIDR", env = "WASMKEEP_ALLOW_OUTBOUND")]
    #[arg(value_delimiter = ',')]
    pub ranges: Vec<AddressRange>,
    /// A port that actors may reach although it is another protocol's; may be repeated
    #[arg(long = "allow-outbound-port", value_name = "N", env = "WASMKEEP_ALLOW_OUTBOUND_PORT")]
    #[arg(value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    pub ports: Vec<u16>,
    /// PEM file of authorities to trust beside the public ones; may be repeated
    #[arg(long = "outbound-ca", value_name = "FILE", env = "WASMKEEP_OUTBOUND_CA")]
    #[arg(value_delimiter = ',')]
    pub ca_files: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum ClockKind {
    #[default]
    System,
    Manual,
}

/// `CLASS=FILE.wasm`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActorArg {
    pub class: Class,
    pub file: PathBuf,
}

impl FromStr for ActorArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (class, file) = text.split_once('=').ok_or("it is given as CLASS=FILE.wasm")?;
        if file.is_empty() {
            return Err("the file after \"=\" is missing".into());
        }
        let class = Class::parse(class).map_err(|error| error.to_string())?;
        Ok(Self { class, file: file.into() })
    }
}

/// `CLASS=MODE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessArg {
    pub class: Class,
    pub access: Access,
}

impl FromStr for AccessArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || format!("it is given as CLASS=MODE, the mode {}", access::FORM);
        let (class, access) = text.split_once('=').ok_or_else(form)?;
        let class = Class::parse(class).map_err(|error| error.to_string())?;
        Ok(Self { class, access: access.parse()? })
    }
}

/// `CLASS=FILE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvArg {
    pub class: Class,
    pub file: PathBuf,
}

impl FromStr for EnvArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (class, file) = text.split_once('=').ok_or("it is given as CLASS=FILE")?;
        if file.is_empty() {
            return Err("the file after \"=\" is missing".into());
        }
        let class = Class::parse(class).map_err(|error| error.to_string())?;
        Ok(Self { class, file: file.into() })
    }
}

/// What a node is to serve as its front.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontSettings {
    pub file: PathBuf,
    /// A later one wins.
    pub env_files: Vec<PathBuf>,
    /// What those files give it to read.
    pub values: Values,
    /// None: the default share of the instances.
    pub requests_max: Option<usize>,
    pub cpu_budget: Duration,
}

/// Everything a node needs to know to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServeConfig {
    pub actors: Vec<ActorArg>,
    pub front: Option<FrontSettings>,
    /// Of the classes that are not open.
    pub access: HashMap<Class, Access>,
    /// The `--env` files of each class; a later one wins.
    pub env_files: HashMap<Class, Vec<PathBuf>>,
    /// What those files give each class to read.
    pub values: HashMap<Class, Values>,
    /// Those of them, and of files with tokens, that everybody on the machine can read.
    pub exposed_files: Vec<PathBuf>,
    pub listen: SocketAddr,
    pub data_dir: PathBuf,
    /// Where compiled components are kept. None: in the data directory.
    pub compiled: Option<PathBuf>,
    pub log_format: LogFormat,
    /// None: as many as the default and this machine allow.
    pub instances_max: Option<usize>,
    pub idle_timeout: Duration,
    pub cpu_budget: Duration,
    pub wall_budget: Duration,
    pub sql_cpu_budget: Duration,
    pub memory_bytes_max: usize,
    pub shutdown_grace: Duration,
    pub outbound: OutboundConfig,
    pub clock: ClockKind,
    pub console: Option<ConsoleSettings>,
    /// None: a node on its own.
    pub cluster: Option<ClusterSettings>,
    /// How `wasmkeep dev` makes the components; `serve` takes them as they are.
    pub build: Option<BuildTable>,
}

#[derive(Debug, Error)]
pub enum ConfigError {
    #[error("the settings file {path} cannot be read: {cause}")]
    Unreadable { path: PathBuf, cause: io::Error },
    #[error("the settings file {path} is wrong: {cause}")]
    Wrong { path: PathBuf, cause: String },
    #[error(
        "nothing is served: give --actor CLASS=FILE.wasm or --front FILE, or [actors] or [front] in \
         wasmkeep.toml"
    )]
    NothingServed,
    #[error("--front-env is given, but no front is served: give --front FILE")]
    NoFront,
    #[error("the class {class} is served twice: {first} and {second}; give it once")]
    ClassTwice { class: String, first: PathBuf, second: PathBuf },
    #[error("--{flag} names the class {class}, which is not served; check its spelling")]
    NotServed { flag: &'static str, class: String },
    #[error("--{flag} is given twice for the class {class}; give it once")]
    Twice { flag: &'static str, class: String },
    #[error("the env file {path} cannot be read: {cause}")]
    EnvFileUnreadable { path: PathBuf, cause: io::Error },
    #[error("the env file {path} is larger than {ENV_FILE_BYTES_MAX} bytes")]
    EnvFileTooLarge { path: PathBuf },
    #[error("the env file {path} is wrong: line {line} {wrong}")]
    EnvFileWrong { path: PathBuf, line: usize, wrong: env_file::Wrong },
    #[error("the token file {path} cannot be read: {cause}")]
    TokenFileUnreadable { path: PathBuf, cause: io::Error },
    #[error(
        "the token file {path} is wrong: it holds one word of 16 to 1,024 visible ASCII characters"
    )]
    TokenFileWrong { path: PathBuf },
    #[error(transparent)]
    Bucket(#[from] BucketConfigError),
    #[error("--{flag} is given without {lacks}")]
    Lacks { flag: &'static str, lacks: &'static str },
    #[error("--{flag} is {given}; {expected}")]
    OutOfRange { flag: &'static str, given: u64, expected: &'static str },
}

/// Which data directory a command works on: as `serve` would find it.
pub fn data_dir(given: Option<PathBuf>, config: Option<PathBuf>) -> Result<PathBuf, ConfigError> {
    match given {
        Some(given) => Ok(given),
        None => {
            let (file, _) = read_file(config)?;
            Ok(file.serve.data_dir.unwrap_or_else(|| DEFAULT_DATA_DIR.into()))
        }
    }
}

/// Fills in what flags and environment left open: from the settings file, then from the defaults.
pub fn resolve(args: ServeArgs) -> Result<ServeConfig, ConfigError> {
    let (file, path) = read_file(args.config.clone())?;
    resolve_with(args, file, &path)
}

/// The same for a developer's machine: it joins no cluster that only the settings file names, which is
/// where the project is served.
pub fn resolve_for_dev(args: ServeArgs) -> Result<ServeConfig, ConfigError> {
    let (mut file, path) = read_file(args.config.clone())?;
    file.cluster = ClusterTable::default();
    resolve_with(args, file, &path)
}

fn resolve_with(
    args: ServeArgs,
    mut file: ConfigFile,
    path: &Path,
) -> Result<ServeConfig, ConfigError> {
    let listen = args.admin.admin_listen.or(file.serve.admin_listen);
    let token_file =
        args.admin.admin_token_file.clone().or_else(|| file.serve.admin_token_file.clone());
    let cluster = args.cluster.clone().filled(std::mem::take(&mut file.cluster), path)?;
    let mut config = resolve::merge(args, file, path)?;
    if let Some((url, at, Asked { node, listen, advertise })) = cluster.checked()? {
        let bucket = SharedBucket::S3(at.resolve(url)?);
        config.cluster = Some(ClusterSettings { bucket, node, listen, advertise });
    }
    if let Some((listen, file)) = console::settings(listen, token_file)? {
        let token = read_token(&file, &mut config.exposed_files)?;
        config.console = Some(ConsoleSettings { listen: Some(listen), token });
    }
    for (class, paths) in &config.env_files {
        let values = read_env_files(paths, &mut config.exposed_files)?;
        config.values.insert(class.clone(), values);
    }
    if let Some(front) = &mut config.front {
        front.values = read_env_files(&front.env_files, &mut config.exposed_files)?;
    }
    Ok(config)
}

/// The values of several files, of which a later one wins; those everybody can read are noted.
fn read_env_files(paths: &[PathBuf], exposed: &mut Vec<PathBuf>) -> Result<Values, ConfigError> {
    let mut pairs = Vec::new();
    for path in paths {
        let (read, is_exposed) = read_env_file(path)?;
        pairs.extend(read);
        if is_exposed && !exposed.contains(path) {
            exposed.push(path.clone());
        }
    }
    Ok(pairs.into_iter().collect())
}

/// How the project of a settings file is built, if the file says so.
pub fn build_settings(settings: &Path) -> Result<Option<BuildTable>, ConfigError> {
    let (file, _) = read_file(Some(settings.to_owned()))?;
    Ok(file.build)
}

/// The token of a file. One that everybody can read is noted.
fn read_token(path: &Path, exposed: &mut Vec<PathBuf>) -> Result<Token, ConfigError> {
    let unreadable = |cause| ConfigError::TokenFileUnreadable { path: path.to_owned(), cause };
    let file = fs::File::open(path).map_err(unreadable)?;
    if is_read_by_others(&file).map_err(unreadable)? {
        exposed.push(path.to_owned());
    }
    let mut text = String::new();
    let most = console::TOKEN_BYTES_MAX as u64 + 1;
    file.take(most).read_to_string(&mut text).map_err(unreadable)?;
    Token::parse(&text).ok_or_else(|| ConfigError::TokenFileWrong { path: path.to_owned() })
}

impl BucketArgs {
    /// All that is needed to reach the bucket, with what the environment says.
    pub fn resolve(&self, url: BucketUrl) -> Result<BucketSettings, BucketConfigError> {
        self.merge(url, &|name| std::env::var(name).ok(), &|path| fs::read_to_string(path))
    }
}

/// The settings file, empty when none was given and there is none, and where it is.
fn read_file(given: Option<PathBuf>) -> Result<(ConfigFile, PathBuf), ConfigError> {
    let default = Path::new(DEFAULT_FILE);
    let Some(path) = given.or_else(|| default.exists().then(|| default.to_owned())) else {
        return Ok((ConfigFile::default(), default.to_owned()));
    };
    let text = fs::read_to_string(&path)
        .map_err(|cause| ConfigError::Unreadable { path: path.clone(), cause })?;
    Ok((file::parse(&text, &path)?, path))
}

/// The names and values of a file, and whether everybody on the machine can read it.
fn read_env_file(path: &Path) -> Result<(Vec<(String, String)>, bool), ConfigError> {
    let unreadable = |cause| ConfigError::EnvFileUnreadable { path: path.to_owned(), cause };
    let file = fs::File::open(path).map_err(unreadable)?;
    let is_exposed = is_read_by_others(&file).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(ENV_FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > ENV_FILE_BYTES_MAX {
        return Err(ConfigError::EnvFileTooLarge { path: path.to_owned() });
    }
    let pairs = env_file::parse(&bytes).map_err(|env_file::WrongLine { line, wrong }| {
        ConfigError::EnvFileWrong { path: path.to_owned(), line, wrong }
    })?;
    Ok((pairs, is_exposed))
}

/// Whether everybody on the machine can read a file.
fn is_read_by_others(file: &fs::File) -> io::Result<bool> {
    const READ_BY_OTHERS: u32 = 0o004;
    Ok(file.metadata()?.mode() & READ_BY_OTHERS != 0)
}
