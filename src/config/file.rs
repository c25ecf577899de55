//! `wasmkeep.toml`: the settings of `serve`, under the names of its flags.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::ConfigError;
use crate::host::AddressRange;
use crate::telemetry::LogFormat;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigFile {
    /// Class to component file; a relative one is looked for beside the settings file.
    #[serde(default)]
    pub actors: BTreeMap<String, PathBuf>,
    /// Class to access mode.
    #[serde(default)]
    pub access: BTreeMap<String, String>,
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
    #[serde(default)]
    pub allow_outbound: Vec<AddressRange>,
    #[serde(default)]
    pub allow_outbound_port: Vec<NonZeroU16>,
    /// Relative ones are looked for beside the settings file.
    #[serde(default)]
    pub outbound_ca: Vec<PathBuf>,
}

/// Reads the text of the settings file at `path`, which its relative components stand beside.
pub fn parse(text: &str, path: &Path) -> Result<ConfigFile, ConfigError> {
    let mut file: ConfigFile = toml::from_str(text)
        .map_err(|error| ConfigError::Wrong { path: path.to_owned(), cause: error.to_string() })?;
    let folder = path.parent().unwrap_or(Path::new(""));
    for named in file.actors.values_mut().chain(&mut file.serve.outbound_ca) {
        *named = folder.join(&*named);
    }
    Ok(file)
}
