//! Tasks of this repository, one file each. `cargo xtask` prints them.

mod apt;
mod bench;
mod book;
mod ceph;
mod chaos;
mod command;
mod embed;
mod fingerprint;
mod guests;
mod repo;
mod sim;
mod test;
mod tidy;
mod timings;
mod usage;

use std::process::ExitCode;

use anyhow::Result;
use usage::UsageError;

struct Task {
    name: &'static str,
    arguments: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result<()>,
}

const TASKS: &[Task] = &[
    Task {
        name: "test",
        arguments: "[--fast] [-- FILTER…]",
        about: "all that CI runs; --fast stops before what needs guests; FILTER picks black-box tests",
        run: test::run,
    },
    Task {
        name: "tidy",
        arguments: "[--write]",
        about: "check the structure of the tree; --write regenerates docs/limits.md",
        run: tidy::run,
    },
    Task {
        name: "guests",
        arguments: "[ts]",
        about: "build the components of examples/ and tests/ into target/components/; ts: TypeScript alone",
        run: guests::run,
    },
    Task {
        name: "book",
        arguments: "",
        about: "build the book of docs/ into target/book/, and look for dead links in it",
        run: book::run,
    },
    Task {
        name: "ceph-test",
        arguments: "",
        about: "check the bucket's contract on a real store: Ceph on loopback, installed if need be",
        run: ceph::run,
    },
    Task {
        name: "chaos",
        arguments: "[--minutes N]",
        about: "kill, pause and cut off the nodes of a cluster under a checked workload, for 10 minutes",
        run: chaos::run,
    },
    Task {
        name: "sim",
        arguments: "[--seeds N] [--from S] [--twin NAME] | --seed S [--twin NAME] | --twins N",
        about: "run simulated clusters; --seed prints one, --twins the first seed that catches each broken twin",
        run: sim::run,
    },
    Task {
        name: "embed",
        arguments: "",
        about: "rebuild the demo component that the binary carries, src/cli/demo/counter.wasm",
        run: embed::run,
    },
    Task {
        name: "bench",
        arguments: "[run|grow|memory|count …]",
        about: "measure a release build beside its peers; benches/README.md says how to read it",
        run: bench::run,
    },
    Task {
        name: "timings",
        arguments: "",
        about: "measure the wait after an edit, beside its budget",
        run: timings::run,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = arguments.split_first() else {
        print!("{}", list_of_tasks());
        return ExitCode::SUCCESS;
    };
    if matches!(name.as_str(), "--help" | "-h" | "help") {
        print!("{}", list_of_tasks());
        return ExitCode::SUCCESS;
    }
    let Some(task) = TASKS.iter().find(|task| task.name == name) else {
        eprintln!("error: there is no task `{name}`\n\n{}", list_of_tasks());
        return ExitCode::from(2);
    };
    if rest.first().is_some_and(|first| matches!(first.as_str(), "--help" | "-h")) {
        println!("{}", synopsis(task));
        return ExitCode::SUCCESS;
    }
    match (task.run)(rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            if error.is::<UsageError>() {
                eprintln!("usage: {}", synopsis(task));
                return ExitCode::from(2);
            }
            ExitCode::FAILURE
        }
    }
}

fn synopsis(task: &Task) -> String {
    format!("cargo xtask {} {}", task.name, task.arguments).trim_end().to_owned()
        + "\n    "
        + task.about
}

fn list_of_tasks() -> String {
    let mut list = String::from("cargo xtask <task>\n\n");
    for task in TASKS {
        let call = format!("{} {}", task.name, task.arguments);
        list += &format!("  {call:<28} {}\n", task.about);
    }
    list
}
