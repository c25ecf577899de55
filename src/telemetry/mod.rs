//! The log: one line an event on standard error, as text or JSON.

use tracing_subscriber::EnvFilter;

/// The variable that chooses what is logged, in `tracing`'s filter syntax: `info`,
/// `warn,wasmkeep::guest=info`.
pub const LOG_VARIABLE: &str = "WASMKEEP_LOG";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// What is logged unless the variable says otherwise. ractor names each process in a span, which
/// would stand in every line and says less than the actor's address.
/// actix reports its clients' mistakes as errors.
const DEFAULT_FILTER: &str = "info,ractor=warn,actix_server=warn,actix_http=off";

/// For a command that ends by itself: what is wrong, and no more.
const COMMAND_FILTER: &str = "warn";

/// Starts logging. A second call changes nothing.
pub fn start(format: LogFormat) {
    start_with(DEFAULT_FILTER, format);
}

/// Starts logging for a command that is no server.
pub fn start_for_command() {
    start_with(COMMAND_FILTER, LogFormat::Text);
}

fn start_with(default: &str, format: LogFormat) {
    let filter = EnvFilter::try_from_env(LOG_VARIABLE).unwrap_or_else(|_| EnvFilter::new(default));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let _ = match format {
        LogFormat::Text => log.with_ansi(false).try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
}
