//! The command line: what it takes, what it refuses and how it says so, and how a server stops.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{DONE, Node, component, eventually, wasmkeep};

const SERVE_FLAGS: [&str; 13] = [
    "--actor",
    "--env",
    "--listen",
    "--data-dir",
    "--max-instances",
    "--idle-timeout-secs",
    "--cpu-budget-ms",
    "--wall-budget-ms",
    "--sql-cpu-budget-ms",
    "--memory-mb",
    "--shutdown-grace-secs",
    "--log-format",
    "--config",
];

/// `wasmkeep serve` with the probe, in an empty directory, ready for what is wrong with it.
fn serve(home: &Path) -> Command {
    let mut command = wasmkeep();
    command.current_dir(home).args(["serve", "--listen", "127.0.0.1:0"]);
    command
}

fn probe() -> String {
    format!("probe={}", component("guest-probe.wasm").display())
}

/// Runs a command that must fail, and returns what it wrote to stderr.
#[track_caller]
fn fails(command: &mut Command, code: i32) -> String {
    let Output { status, stdout, stderr } = command.output().expect("run wasmkeep");
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    assert_eq!(status.code(), Some(code), "{command:?} said {stderr}");
    assert!(stdout.is_empty(), "what failed listens to nothing: {stdout:?}");
    let error = stderr.lines().find(|line| line.starts_with("error: "));
    assert!(error.is_some(), "no line \"error: …\" in {stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
    stderr
}

fn home() -> tempfile::TempDir {
    tempfile::tempdir().expect("make a directory")
}

#[test]
fn help_names_every_flag_and_its_variable() {
    let output = wasmkeep().args(["serve", "--help"]).output().expect("run wasmkeep");
    let help = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(output.status.code(), Some(0));
    for flag in SERVE_FLAGS {
        assert!(help.contains(flag), "{flag} is not in\n{help}");
        let variable = flag.trim_start_matches('-').replace('-', "_").to_uppercase();
        let variable = format!("WASMKEEP_{variable}");
        let named = ["--actor", "--env"].contains(&flag) || help.contains(&variable);
        assert!(named, "{variable} is not in\n{help}");
    }
    let output = wasmkeep().arg("--help").output().expect("run wasmkeep");
    let help = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(help.contains("serve") && help.contains("demo"), "{help}");
}

#[test]
fn the_version_is_told() {
    let output = wasmkeep().arg("--version").output().expect("run wasmkeep");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(text.trim(), format!("wasmkeep {}", env!("CARGO_PKG_VERSION")));
}

#[test]
fn wrong_usage_ends_with_2_and_names_what_is_wrong() {
    let home = home();
    for (arguments, named) in [
        (&["--unknown"][..], "--unknown"),
        (&["--actor", "probe"], "--actor"),
        (&["--actor", "=x.wasm"], "--actor"),
        (&["--actor", "probe="], "--actor"),
        (&["--actor", "Bad_Name=x.wasm"], "Bad_Name"),
        (&["--env", "probe"], "--env"),
        (&["--env", "probe="], "--env"),
        (&["--listen", "nowhere"], "--listen"),
        (&["--max-instances", "many"], "--max-instances"),
        (&["--max-instances", "-1"], "-1"),
        (&["--log-format", "xml"], "--log-format"),
        (&["--cpu-budget-ms"], "--cpu-budget-ms"),
    ] {
        let stderr = fails(serve(home.path()).args(arguments), 2);
        assert!(stderr.contains(named), "{arguments:?}: {named} is not in\n{stderr}");
    }
    fails(wasmkeep().arg("unknown-command"), 2);
}

#[test]
fn settings_of_any_size_serve() {
    let largest = u64::MAX.to_string();
    for flag in ["idle-timeout-secs", "cpu-budget-ms", "wall-budget-ms", "sql-cpu-budget-ms"] {
        let node = Node::probe().flag(&format!("--{flag}"), &largest).start();
        let actor = node.actor("probe/a");
        assert_eq!(actor.exec("CREATE TABLE t (x)"), 0, "--{flag}");
        assert_eq!(actor.get("/wait?ms=1").text(), "1", "--{flag}");
    }
    let mut node = Node::probe().flag("--shutdown-grace-secs", &largest).start();
    assert_eq!(node.actor("probe/a").get("/hello").text(), "hello");
    node.stop_cleanly();
}

#[test]
fn a_component_that_cannot_be_served_is_named() {
    let home = home();
    fs::write(home.path().join("text.wasm"), "this is text").expect("write a file");
    fs::write(home.path().join("module.wasm"), b"\0asm\x01\0\0\0").expect("write a file");
    for file in ["missing.wasm", "text.wasm", "module.wasm", "."] {
        let stderr = fails(serve(home.path()).args(["--actor", &format!("probe={file}")]), 1);
        assert!(stderr.contains(file), "{file} is not in\n{stderr}");
    }
}

#[test]
fn settings_that_cannot_be_meant_are_named() {
    let home = home();
    let stderr = fails(&mut serve(home.path()), 1);
    assert!(stderr.contains("--actor"), "no class at all: {stderr}");
    let twice = probe();
    let stderr = fails(serve(home.path()).args(["--actor", &twice, "--actor", &twice]), 1);
    assert!(stderr.contains("probe"), "{stderr}");
    for flag in ["--max-instances", "--memory-mb", "--cpu-budget-ms", "--wall-budget-ms"] {
        let stderr = fails(serve(home.path()).args(["--actor", &probe(), flag, "0"]), 1);
        assert!(stderr.contains(flag), "{flag} is not in\n{stderr}");
    }
}

#[test]
fn a_data_directory_that_cannot_be_used_is_named() {
    let home = home();
    fs::write(home.path().join("file"), "in the way").expect("write a file");
    for directory in ["file", "file/below", "/proc/nowhere"] {
        let arguments = ["--actor", &probe(), "--data-dir", directory];
        let stderr = fails(serve(home.path()).args(arguments), 1);
        assert!(stderr.contains(directory), "{directory} is not in\n{stderr}");
    }
}

#[test]
fn a_second_server_on_the_same_data_is_refused_and_harms_nothing() {
    let node = Node::probe().start();
    node.actor("probe/a").exec("CREATE TABLE t (x)");
    let home = home();
    let data_dir = node.data_dir();
    let mut second = serve(home.path());
    let stderr = fails(second.args(["--actor", &probe(), "--data-dir"]).arg(&data_dir), 1);
    assert!(stderr.contains(&*data_dir.to_string_lossy()), "{stderr}");
    assert!(stderr.contains(&node.pid().to_string()), "it does not say by whom: {stderr}");
    assert_eq!(node.actor("probe/a").query("SELECT count(*) FROM t"), json!([[0]]));
}

#[test]
fn an_address_in_use_is_named() {
    let node = Node::probe().start();
    let home = home();
    let address = node.address().to_string();
    let mut second = wasmkeep();
    second.current_dir(home.path()).args(["serve", "--listen", &address, "--actor", &probe()]);
    let stderr = fails(&mut second, 1);
    assert!(stderr.contains(&address), "{stderr}");
}

/// How long an event that sleeps 20 s ran until its wall ended it: tells which setting won.
fn wall_of(node: &Node) -> Duration {
    let began = Instant::now();
    node.actor("probe/a").get("/wait?ms=20000").refused(500, "wall-exceeded", "ran");
    began.elapsed()
}

#[test]
fn a_flag_wins_over_the_environment_and_that_over_the_file() {
    let home = home();
    let file = home.path().join("settings.toml");
    let probe = component("guest-probe.wasm");
    let settings = format!("[actors]\nprobe = {probe:?}\n[serve]\nwall-budget-ms = 2200\n");
    fs::write(&file, settings).expect("write a file");
    let setup = Node::serve().flag("--config", &file);
    let (variable, flag) = ("WASMKEEP_WALL_BUDGET_MS", "--wall-budget-ms");

    let by_file = wall_of(&setup.clone().start());
    assert!(by_file >= Duration::from_millis(2200), "{by_file:?}");
    let by_variable = wall_of(&setup.clone().variable(variable, "1200").start());
    assert!(by_variable >= Duration::from_millis(1200), "{by_variable:?}");
    assert!(by_variable < Duration::from_millis(2200), "{by_variable:?}");
    let by_flag = wall_of(&setup.variable(variable, "1200").flag(flag, "200").start());
    assert!(by_flag < Duration::from_millis(1200), "{by_flag:?}");
}

#[test]
fn a_settings_file_in_the_working_directory_is_read() {
    let home = home();
    fs::write(home.path().join("wasmkeep.toml"), "[serve]\nlisten-on = 1\n").expect("write a file");
    let stderr = fails(serve(home.path()).args(["--actor", &probe()]), 1);
    assert!(stderr.contains("wasmkeep.toml") && stderr.contains("listen-on"), "{stderr}");
    fs::write(home.path().join("wasmkeep.toml"), "[actors]\nprobe = \"missing.wasm\"\n")
        .expect("write a file");
    let stderr = fails(&mut serve(home.path()), 1);
    assert!(stderr.contains("missing.wasm"), "{stderr}");
}

#[test]
fn what_is_wrong_in_a_settings_file_is_named() {
    let home = home();
    for (settings, named) in [
        ("[serve]\nmax_instances = 5", "max_instances"),
        ("[servers]", "servers"),
        ("[serve]\nmemory-mb = \"much\"", "memory-mb"),
        ("[serve", "settings.toml"),
        ("[actors]\nBad = \"x.wasm\"", "Bad"),
        ("[actors]\na = \"x.wasm\"\n[serve]\nmemory-mb = 0", "memory-mb"),
    ] {
        fs::write(home.path().join("settings.toml"), settings).expect("write a file");
        let stderr = fails(serve(home.path()).args(["--config", "settings.toml"]), 1);
        assert!(stderr.contains(named), "{settings:?}: {named} is not in\n{stderr}");
    }
    let stderr = fails(serve(home.path()).args(["--config", "missing.toml"]), 1);
    assert!(stderr.contains("missing.toml"), "{stderr}");
}

#[test]
fn a_stop_lets_the_running_event_finish() {
    let mut node = Node::probe().start();
    let mut client = node.busy("probe/a", 1000);
    node.terminate();
    assert_eq!(client.chunks().expect("a regular end"), DONE);
    assert_eq!(node.wait_for_exit().code(), Some(0));
}

#[test]
fn a_stop_with_nothing_running_is_quick() {
    let mut node = Node::probe().start();
    for i in 0..50 {
        node.actor(&format!("probe/a{i}")).get("/hello").text();
    }
    // A connection that says nothing holds nobody up.
    let _silent = node.raw();
    let began = Instant::now();
    node.stop_cleanly();
    let took = began.elapsed();
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[test]
fn after_the_grace_of_a_stop_queued_events_are_refused() {
    let mut node = Node::probe().flag("--shutdown-grace-secs", "1").start();
    let mut running = node.busy("probe/a", 1700);
    let mut queued = node.ask("/actor/probe/a/hello");
    // It is given time to arrive.
    std::thread::sleep(Duration::from_millis(200));
    node.terminate();
    assert_eq!(running.chunks().expect("a regular end"), DONE);
    queued.answer().expect("an answer").refused(503, "stopping", "not-run");
    assert_eq!(node.wait_for_exit().code(), Some(0));
}

#[test]
fn an_event_that_outlasts_the_grace_twice_is_cut_off() {
    let mut node = Node::probe().flag("--shutdown-grace-secs", "1").errors_are_fine().start();
    let mut client = node.busy("probe/a", 20000);
    let began = Instant::now();
    node.stop_cleanly();
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(2), "{took:?}");
    assert!(took < Duration::from_secs(8), "{took:?}");
    assert!(client.chunks().is_err(), "its client sees that the answer is not whole");
}

#[test]
fn the_log_can_be_json() {
    let node = Node::probe().flag("--log-format", "json").start();
    node.actor("probe/a").get("/log?text=hello-log").text();
    eventually("the guest's line is logged", || node.log().contains("hello-log"));
    for line in node.log().lines() {
        let parsed: Result<serde_json::Value, _> = serde_json::from_str(line);
        assert!(parsed.is_ok_and(|parsed| parsed.is_object()), "not JSON: {line}");
    }
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    let output = wasmkeep().args(["completions", "bash"]).output().expect("start wasmkeep");
    let script = String::from_utf8_lossy(&output.stdout).into_owned();
    let folder = home();
    let status = wasmkeep().arg("man").arg(folder.path().join("man1")).status();
    assert!(status.is_ok_and(|status| status.success()));
    for command in ["serve", "dev", "new", "actor", "tail", "clock"] {
        assert!(script.contains(command), "{command}");
        let page = folder.path().join(format!("man1/wasmkeep-{command}.1"));
        assert!(page.is_file(), "{}", page.display());
    }
    assert!(script.contains("--admin-token-file"));
    assert_eq!(
        wasmkeep().args(["completions", "sh"]).status().ok().and_then(|s| s.code()),
        Some(2)
    );
}
