//! `wasmkeep demo`: a server and its components in one executable, to try things with.

use anyhow::Result;
use wasmkeep_supervisors::address::Class;

use crate::config::{self, ActorArg, CommonArgs, ServeArgs};
use crate::serve::{self, Source};
use crate::telemetry;

/// Built from `examples/`; `cargo xtask embed` renews them, and the tests check that they are new.
const FILES: &[(&str, &[u8])] = &[
    (FRONT, include_bytes!("demo/chat-front.wasm")),
    ("chat-room.wasm", include_bytes!("demo/chat-room.wasm")),
    ("counter.wasm", include_bytes!("demo/counter.wasm")),
];
const FRONT: &str = "chat-front.wasm";
const CLASSES: [(&str, &str); 2] = [("room", "chat-room.wasm"), ("counter", "counter.wasm")];

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: CommonArgs,
}

pub fn run(args: Args) -> Result<()> {
    let actors = CLASSES
        .iter()
        .map(|(class, file)| Ok(ActorArg { class: Class::parse(class)?, file: file.into() }))
        .collect::<Result<_>>()?;
    let config = config::resolve(ServeArgs {
        front: Some(FRONT.into()),
        actors,
        common: args.common,
        ..ServeArgs::default()
    })?;
    telemetry::start(config.log_format);
    serve::run(&config, Source::Embedded(FILES), |started| {
        let url = format!("http://{}", started.address);
        println!("listening on {url}");
        println!();
        println!("A chat:      open {url}/ in two windows");
        println!("An actor:    curl {url}/actor/counter/demo");
        println!("Add to it:   curl -X POST '{url}/actor/counter/demo/add?n=5'");
        println!("Its past:    curl {url}/actor/counter/demo/history");
        println!(
            "Each name is its own actor, with its own database: replace \"demo\" by any name."
        );
        println!("The data lies in {}", started.data_dir.display());
        println!("Ctrl-C stops.");
    })
}
