//! `cargo xtask test`: everything CI runs, step by step.
//!
//! A failing step does not hide the ones after it, except those that need what it makes. The last
//! line names what failed.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::usage::UsageError;
use crate::{apt, book, command, embed, guests, repo, sim, tidy};

/// What one call of cargo works on. What shares a call shares the features of its dependencies: with
/// the SDK beside it, the server would get a wasmtime of its own, unlike that of a bare `cargo run`.
#[derive(Clone, Copy)]
enum Part {
    /// The default members: the server, and what it is made of.
    Server,
    /// SDK, guests and tasks.
    Rest,
}

impl Part {
    const SERVER: &[&str] = &["wasmkeep", "wasmkeep-supervisors", "wasmkeep-wit"];
    /// Stands on the server, and has no tests of its own.
    const MICRO: &str = "wasmkeep-micro";

    fn select(self, cargo: &mut Command) {
        if let Self::Rest = self {
            cargo.arg("--workspace");
            for package in Self::SERVER.iter().chain([&Self::MICRO]) {
                cargo.args(["--exclude", package]);
            }
        }
    }

    /// As `select`, with what is linted beside the server.
    fn select_for_lints(self, cargo: &mut Command) {
        self.select(cargo);
        if let Self::Server = self {
            for package in Self::SERVER.iter().chain([&Self::MICRO]) {
                cargo.args(["--package", package]);
            }
        }
    }
}

pub fn run(arguments: &[String]) -> Result<()> {
    let options = Options::parse(arguments)?;
    let mut steps = Steps::new();
    if !steps.run("prepare", || prepare(&options)) {
        return steps.finish("nothing was tested");
    }
    let runner = Runner::find();
    steps.run("format", || {
        let advice = "run `cargo fmt --all`";
        command::run(command::cargo().args(["fmt", "--all", "--check"])).context(advice)
    });
    steps.run("tidy", tidy::check);
    steps.run("demo components", embed::check);
    let has_guests = !options.fast
        && steps.run("guests", guests::build)
        && steps.run("guests in TypeScript", guests::typescript::build);
    steps.run("clippy", || [Part::Server, Part::Rest].into_iter().try_for_each(clippy));
    steps.run("the store of the tests", build_test_bucket);
    steps.run("unit tests", || command::run(runner.tests(Part::Server).args(["--lib", "--bins"])));
    steps.run("unit tests of the rest", || {
        command::run(runner.tests(Part::Rest).args(["--lib", "--bins"]))?;
        command::run(command::cargo().args([
            "test",
            "--doc",
            "--package",
            "wasmkeep-sdk",
            "--package",
            "wasmkeep-testkit",
        ]))
    });
    steps.run("simulated clusters", || simulation(&runner));
    if options.fast {
        return steps.finish("without guests and black-box tests, as --fast asks");
    }
    // A filter asks for a part, which the run before has tried.
    if options.filter.is_empty() {
        steps.run("book", book::build);
    }
    if has_guests {
        steps.run("black-box tests", || black_box(&runner, &options.filter));
        if options.filter.is_empty() {
            steps.run("tests of the test kit", || test_kit(&runner));
            steps.run("the load program, in short", load_program);
            steps.run("tests of the TypeScript SDK", || guests::typescript::test(&server()));
            steps.run("black-box tests of guests in TypeScript", || conformance(&runner));
        }
    } else {
        steps.skip("black-box tests", "there are no guests to run");
    }
    steps.finish("nothing left out")
}

struct Options {
    fast: bool,
    filter: Vec<String>,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self, UsageError> {
        let mut own = arguments.split(|argument| argument == "--");
        let fast = match own.next() {
            None | Some([]) => false,
            Some([only]) if only == "--fast" => true,
            Some([first, ..]) => {
                return Err(UsageError::new(format!("unexpected argument `{first}`")));
            }
        };
        let filter = arguments.iter().skip_while(|argument| *argument != "--").skip(1).cloned();
        let filter: Vec<String> = filter.collect();
        if fast && !filter.is_empty() {
            return Err(UsageError::new("a filter is for black-box tests, and --fast skips those"));
        }
        Ok(Self { fast, filter })
    }
}

/// Installs what the steps need and this machine lacks.
fn prepare(options: &Options) -> Result<()> {
    for component in ["rustfmt", "clippy"] {
        let name = component.trim_start_matches("rust");
        if !command::succeeds(command::cargo().args([name, "--version"])) {
            let mut rustup = Command::new("rustup");
            command::capture(rustup.args(["component", "add", component]))
                .with_context(|| format!("install {component}, which `cargo {name}` needs"))?;
        }
    }
    if !options.fast {
        guests::prepare()?;
        prepare_browser().context("install Chromium and ChromeDriver, for the tests of pages")?;
    }
    Ok(())
}

fn prepare_browser() -> Result<()> {
    let is_there = |program| command::succeeds(Command::new(program).arg("--version"));
    if is_there("chromedriver") && (is_there("chromium") || is_there("google-chrome")) {
        return Ok(());
    }
    apt::install(&["chromium", "chromium-driver"])
}

fn clippy(part: Part) -> Result<()> {
    let mut clippy = command::cargo();
    part.select_for_lints(clippy.arg("clippy"));
    command::run(clippy.args(["--all-targets", "--", "-D", "warnings"]))
}

/// In a call of its own: with the server's, both would get the other's features. Tests that need it
/// would build it too, each for itself.
fn build_test_bucket() -> Result<()> {
    command::run(command::cargo().args(["build", "--package", "wasmkeep-testbucket"]))
}

fn black_box(runner: &Runner, filter: &[String]) -> Result<()> {
    let mut tests = runner.tests(Part::Server);
    tests.args(["--test", "black_box", "--"]).args(filter);
    tests.env("WASMKEEP_COMPONENTS", guests::folder());
    command::run(&mut tests)
}

/// In a call of its own, for its profile.
fn simulation(runner: &Runner) -> Result<()> {
    let mut tests = sim::seeded();
    runner.begin(&mut tests);
    tests.args([runner.profile(), "sim", "--package", sim::PACKAGE]);
    command::run(&mut tests)
}

/// On the server that the black-box tests were run on. The project of docs/start.md is tested with it.
fn test_kit(runner: &Runner) -> Result<()> {
    let mut tests = command::cargo();
    runner.begin(&mut tests);
    tests.args(["--package", "wasmkeep-testkit", "--package", "guest-tally", "--tests"]);
    tests.env("WASMKEEP", server()).env("WASMKEEP_COMPONENTS", guests::folder());
    command::run(&mut tests)
}

/// Its figures mean nothing here: what is shown is that it still loads a node and its bare peers.
fn load_program() -> Result<()> {
    let mut load = command::cargo();
    load.args(["run", "--package", "wasmkeep-load", "--"]).args([
        "run",
        "--rounds",
        "1",
        "--seconds",
        "1",
    ]);
    load.args(["hello", "write", "paced-hello", "echo", "fan-out", "front"]);
    load.arg("--server").arg(server()).arg("--components").arg(guests::folder());
    command::run(&mut load)
}

/// The executable that the black-box tests were run on.
fn server() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    target.unwrap_or_else(|| repo::root().join("target")).join("debug/wasmkeep")
}

/// What a guest in TypeScript is held to: the tests that a guest in Rust is.
const TYPESCRIPT_TOPICS: &[&str] = &[
    "requests::",
    "storage::",
    "alarms::",
    "calls::",
    "websockets::",
    "env::",
    "front::",
    "outbound::bodies::",
    "outbound::reach::",
    "sdk::migrations::",
    "sdk::services::",
    "sdk::timers::",
    // The classes are in Rust; who asks them is not.
    "examples::kv::",
    "examples::queue::",
];

/// Where TypeScript differs, or a test is about Rust's guests alone. `sdk-ts/README.md` has the
/// differences.
const NOT_OF_TYPESCRIPT: &[&str] = &[
    // JavaScript calls no WASI by hand.
    "a_guest_reaches_nothing_beyond_its_own",
    "the_wasi_environment_stays_empty",
    // 1.0 and 1 are one number.
    "a_float_without_a_fraction_is_no_integer",
    // Loops of a length that takes an interpreter minutes, and texts of a megabyte in 50 ms.
    "the_front_has_a_cpu_budget_of_its_own",
    "a_client_that_does_not_read_gets_backpressure_and_takes_no_memory",
    // A thousand instances: it is the host's pool that is tried, and these are large.
    "five_hundred_actors_that_wait_in_calls_hold_nobody_up",
    // An example in Rust, whose name holds that of a topic.
    "examples::todo_front::",
    // They serve guests in both languages, one after the other.
    "_go_on_between_the_languages",
    // It expects the file's name.
    "what_is_no_front_is_refused_by_name",
];

fn conformance(runner: &Runner) -> Result<()> {
    let mut tests = runner.tests(Part::Server);
    tests.args(["--test", "black_box", "--"]).args(TYPESCRIPT_TOPICS);
    for name in NOT_OF_TYPESCRIPT {
        tests.args(["--skip", name]);
    }
    tests.env("WASMKEEP_COMPONENTS", guests::folder()).env("WASMKEEP_TEST_GUESTS", "ts");
    // The first nodes compile two megabytes of engine each, until one has done it.
    tests.env("WASMKEEP_TEST_PATIENCE_SECS", "60");
    command::run(&mut tests)
}

enum Runner {
    Nextest,
    Cargo,
}

impl Runner {
    fn find() -> Self {
        if command::succeeds(command::cargo().args(["nextest", "--version"])) {
            Self::Nextest
        } else {
            println!("cargo-nextest is not installed: `cargo test` runs the tests");
            Self::Cargo
        }
    }

    fn tests(&self, part: Part) -> Command {
        let mut tests = command::cargo();
        self.begin(&mut tests);
        tests.env("WASMKEEP_TESTBUCKET", server().with_file_name("wasmkeep-testbucket"));
        part.select(&mut tests);
        tests
    }

    /// The flag for cargo's profile; nextest has profiles of its own.
    fn profile(&self) -> &'static str {
        match self {
            Self::Nextest => "--cargo-profile",
            Self::Cargo => "--profile",
        }
    }

    fn begin(&self, tests: &mut Command) {
        match self {
            Self::Nextest => tests.args(["nextest", "run"]),
            Self::Cargo => tests.args(["test", "--no-fail-fast"]),
        };
    }
}

/// What ran, how long it took, and what came of it.
struct Steps {
    started: Instant,
    failed: Vec<&'static str>,
}

impl Steps {
    fn new() -> Self {
        Self { started: Instant::now(), failed: Vec::new() }
    }

    /// Whether the step succeeded.
    fn run(&mut self, name: &'static str, step: impl FnOnce() -> Result<()>) -> bool {
        println!("\n==> {name}");
        let started = Instant::now();
        let result = step();
        let seconds = started.elapsed().as_secs_f64();
        match &result {
            Ok(()) => println!("ok      {name} ({seconds:.1} s)"),
            Err(error) => {
                println!("FAILED  {name} ({seconds:.1} s): {error:#}");
                self.failed.push(name);
            }
        }
        result.is_ok()
    }

    fn skip(&mut self, name: &'static str, reason: &str) {
        println!("\nNOT RUN {name}: {reason}");
        self.failed.push(name);
    }

    fn finish(self, extent: &str) -> Result<()> {
        println!();
        let seconds = self.started.elapsed().as_secs_f64();
        if !self.failed.is_empty() {
            bail!("cargo xtask test ({seconds:.0} s) failed: {}", self.failed.join(", "));
        }
        println!("cargo xtask test passed in {seconds:.0} s: {extent}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<(bool, Vec<String>), UsageError> {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        Options::parse(&arguments).map(|options| (options.fast, options.filter))
    }

    #[test]
    fn arguments_after_two_dashes_are_the_filter() {
        let filter = vec!["a_test".to_owned(), "--".to_owned(), "--exact".to_owned()];
        assert_eq!(parse(&[]).ok(), Some((false, vec![])));
        assert_eq!(parse(&["--fast"]).ok(), Some((true, vec![])));
        assert_eq!(parse(&["--", "a_test", "--", "--exact"]).ok(), Some((false, filter)));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        assert!(parse(&["a_test"]).is_err());
        assert!(parse(&["--fast", "--slow"]).is_err());
        assert!(parse(&["--fast", "--", "a_test"]).is_err());
    }

    #[test]
    fn a_failed_or_skipped_step_fails_the_run_and_is_named() {
        let mut steps = Steps::new();
        assert!(steps.run("first", || Ok(())));
        assert!(!steps.run("second", || bail!("broken")));
        steps.skip("third", "needs the second");
        let error = steps.finish("all").expect_err("two steps did not succeed");
        assert!(error.to_string().ends_with("failed: second, third"), "{error}");
    }
}
