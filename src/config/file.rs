//! `wasmkeep.toml`: the settings of `serve`, under the names of its flags.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::ConfigError;
use super::cluster::ClusterTable;
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
    /// Class to its files of values, relative ones beside the settings file; a later one wins.
    #[serde(default)]
    pub env: BTreeMap<String, EnvFiles>,
    #[serde(default)]
    pub front: FrontTable,
    #[serde(default)]
    pub serve: ServeTable,
    #[serde(default)]
    pub cluster: ClusterTable,
    pub build: Option<BuildTable>,
}

/// How `wasmkeep dev` makes the components.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuildTable {
    /// Run by `sh` in the folder of the settings file.
    pub command: String,
    /// Folders and files whose changes have it run again; relative ones stand beside the settings
    /// file.
    #[serde(default = "here")]
    pub watch: Vec<PathBuf>,
}

fn here() -> Vec<PathBuf> {
    vec![PathBuf::new()]
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrontTable {
    /// Its component's file; a relative one is looked for beside the settings file.
    pub component: Option<PathBuf>,
    /// Its files of values, as those of a class.
    pub env: Option<EnvFiles>,
}

/// One file, or several.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a class's env is a file, or a list of files")]
pub enum EnvFiles {
    One(PathBuf),
    Several(Vec<PathBuf>),
}

impl EnvFiles {
    pub fn into_paths(self) -> Vec<PathBuf> {
        match self {
            Self::One(path) => vec![path],
            Self::Several(paths) => paths,
        }
    }

    fn paths_mut(&mut self) -> &mut [PathBuf] {
        match self {
            Self::One(path) => std::slice::from_mut(path),
            Self::Several(paths) => paths,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ServeTable {
    pub listen: Option<SocketAddr>,
    pub data_dir: Option<PathBuf>,
    pub log_format: Option<LogFormat>,
    pub max_instances: Option<u32>,
    pub max_front_requests: Option<u32>,
    pub idle_timeout_secs: Option<u64>,
    pub cpu_budget_ms: Option<u64>,
    pub front_cpu_budget_ms: Option<u64>,
    pub wall_budget_ms: Option<u64>,
    pub sql_cpu_budget_ms: Option<u64>,
    pub memory_mb: Option<u64>,
    pub shutdown_grace_secs: Option<u64>,
    pub admin_listen: Option<SocketAddr>,
    /// A relative one is looked for beside the settings file.
    pub admin_token_file: Option<PathBuf>,
    #[serde(default)]
    pub allow_outbound: Vec<AddressRange>,
    #[serde(default)]
    pub allow_outbound_port: Vec<NonZeroU16>,
    /// Relative ones are looked for beside the settings file.
    #[serde(default)]
    pub outbound_ca: Vec<PathBuf>,
}

/// Reads the text of the settings file at `path`, which the files it names stand beside.
pub fn parse(text: &str, path: &Path) -> Result<ConfigFile, ConfigError> {
    let mut file: ConfigFile = toml::from_str(text)
        .map_err(|error| ConfigError::Wrong { path: path.to_owned(), cause: error.to_string() })?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let FrontTable { component, env } = &mut file.front;
    let env_files = file.env.values_mut().chain(env).flat_map(EnvFiles::paths_mut);
    let token = file.serve.admin_token_file.iter_mut();
    let others = file.serve.outbound_ca.iter_mut().chain(component).chain(env_files).chain(token);
    let watched = file.build.iter_mut().flat_map(|build| &mut build.watch);
    for named in file.actors.values_mut().chain(others).chain(watched) {
        *named = folder.join(&*named);
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::config::{ServeArgs, resolve};

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        serve: ServeArgs,
    }

    /// Lines of such a file, good and bad ones.
    const LINES: &[&str] = &[
        "[actors]",
        "[serve]",
        "[env]",
        "[front]",
        "component = \"f.wasm\"",
        "[build]",
        "command = \"make\"",
        "watch = [\"src\"]",
        "env = [\"f.env\"]",
        "[access]",
        "[[env]]",
        "a = \"a.wasm\"",
        "a = [\"a.env\", \"b.env\"]",
        "a = [[\"x\"]]",
        "a = \"existing:b,%2f\"",
        "a = 1979-05-27",
        "B = \"../../x\"",
        "listen = \"127.0.0.1:0\"",
        "listen = \"[::1]:99999\"",
        "max-instances = 0",
        "memory-mb = 18446744073709551615",
        "memory-mb = 9223372036854775807",
        "idle-timeout-secs = 9223372036854775807",
        "shutdown-grace-secs = -1",
        "cpu-budget-ms = 1e3",
        "log-format = \"json\"",
        "serve.data-dir = \"\\u0000\"",
        "a.b.c = {d = [1, {e = nan}]}",
        "\"\" = \"\"\"x",
        "# \u{feff}",
    ];

    fn read(text: &str) -> Result<(), ConfigError> {
        let file = parse(text, Path::new("folder/wasmkeep.toml"))?;
        let arguments = Arguments::parse_from(["serve"]);
        resolve::merge(arguments.serve, file, Path::new("wasmkeep.toml")).map(drop)
    }

    proptest! {
        #[test]
        fn any_text_is_settings_or_refused_with_words(
            text in prop_oneof![
                ".{0,80}",
                vec(select(LINES), 0..8).prop_map(|lines| lines.join("\n")),
                (vec(select(LINES), 1..5), any::<prop::sample::Index>(), ".{0,3}").prop_map(
                    |(lines, at, with)| {
                        let mut text: Vec<char> = lines.join("\n").chars().collect();
                        let at = at.index(text.len());
                        text.splice(at..=at, with.chars());
                        text.into_iter().collect()
                    },
                ),
            ],
        ) {
            if let Err(error) = read(&text) {
                prop_assert!(error.to_string().len() > 20, "{error}");
            }
        }
    }
}
