//! `wasmkeep serve`.

use anyhow::Result;

use crate::config::{self, ServeArgs};
use crate::serve::{self, Source};
use crate::telemetry;

/// Every setting may also be an environment variable (shown with each flag) or stand in
/// wasmkeep.toml, under [serve] by its flag's name, classes under [actors]. A flag wins over the
/// environment, and that over the file.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    #[command(flatten)]
    serve: ServeArgs,
}

const EXAMPLE: &str = "\
Example:
  wasmkeep serve --actor notes=notes.wasm --data-dir /var/lib/wasmkeep
  curl http://127.0.0.1:8080/actor/notes/mine/";

pub fn run(args: Args) -> Result<()> {
    let config = config::resolve(args.serve)?;
    telemetry::start(config.log_format);
    serve::run(&config, Source::Files, |started| {
        println!("listening on http://{}", started.address);
    })
}
