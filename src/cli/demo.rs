//! `wasmkeep demo`: a server and a component in one executable, to try things with.

use anyhow::Result;
use wasmkeep_supervisors::address::Class;

use crate::config::{self, ActorArg, CommonArgs, ServeArgs};
use crate::serve::{self, Source};
use crate::telemetry;

/// Built from `examples/counter`; `cargo xtask embed` renews it, and the tests check that it is new.
const COMPONENT: &[u8] = include_bytes!("demo/counter.wasm");
const CLASS: &str = "counter";

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: CommonArgs,
}

pub fn run(args: Args) -> Result<()> {
    let class = Class::parse(CLASS)?;
    let embedded = ActorArg { class: class.clone(), file: "the embedded component".into() };
    let config = config::resolve(ServeArgs {
        actors: vec![embedded],
        common: args.common,
        ..ServeArgs::default()
    })?;
    telemetry::start(config.log_format);
    let source = Source::Embedded { class, bytes: COMPONENT };
    serve::run(&config, &source, |started| {
        let url = format!("http://{}/actor/{CLASS}/demo", started.address);
        println!("listening on http://{}", started.address);
        println!();
        println!("Try it:      curl {url}/");
        println!("Add to it:   curl -X POST '{url}/add?n=5'");
        println!("Its past:    curl {url}/history");
        println!(
            "Each name is its own actor, with its own database: replace \"demo\" by any name."
        );
        println!("The data lies in {}", started.data_dir.display());
        println!("Ctrl-C stops.");
    })
}
