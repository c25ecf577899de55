//! `wasmkeep.toml`: the settings of `serve`, under the names of its flags.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;

use crate::telemetry::LogFormat;

#[derive(Debug, Error)]
pub enum ConfigFileError {
    #[error("the settings file {path} cannot be read: {cause}")]
    Unreadable { path: PathBuf, cause: io::Error },
    #[error("the settings file {path} is wrong: {cause}")]
    Wrong { path: PathBuf, cause: String },
    #[error("no class is served: give --actor CLASS=FILE.wasm, or [actors] in wasmkeep.toml")]
    NoClass,
    #[error("the class {class} is served twice: {first} and {second}; give it once")]
    ClassTwice { class: String, first: PathBuf, second: PathBuf },
    #[error("--{flag} is {given}; {expected}")]
    OutOfRange { flag: &'static str, given: u64, expected: &'static str },
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigFile {
    /// Class to component file; a relative one is looked for beside the settings file.
    #[serde(default)]
    pub actors: BTreeMap<String, PathBuf>,
    #[serde(default)]
    pub serve: ServeTable,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ServeTable {
    pub listen: Option<SocketAddr>,
    pub data_dir: Option<PathBuf>,
    pub log_format: Option<LogFormat>,
    pub max_instances: Option<u32>,
    pub idle_timeout_secs: Option<u64>,
    pub cpu_budget_ms: Option<u64>,
    pub wall_budget_ms: Option<u64>,
    pub sql_cpu_budget_ms: Option<u64>,
    pub memory_mb: Option<u64>,
    pub shutdown_grace_secs: Option<u64>,
}

pub fn read(path: &Path) -> Result<ConfigFile, ConfigFileError> {
    let text = fs::read_to_string(path)
        .map_err(|cause| ConfigFileError::Unreadable { path: path.to_owned(), cause })?;
    let mut file: ConfigFile = toml::from_str(&text).map_err(|error| ConfigFileError::Wrong {
        path: path.to_owned(),
        cause: error.to_string(),
    })?;
    let folder = path.parent().unwrap_or(Path::new(""));
    for component in file.actors.values_mut() {
        *component = folder.join(&*component);
    }
    Ok(file)
}
