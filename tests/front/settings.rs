//! How a front is given, and its values.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::{FRONT, front_and_probe};
use crate::support::{Node, component, wasmkeep};

/// A server that must not start: what it wrote to stderr.
#[track_caller]
fn refused(code: i32, arguments: &[&str]) -> String {
    let home = tempfile::tempdir().expect("make a directory");
    let mut command = wasmkeep();
    command.current_dir(home.path()).args(["serve", "--listen", "127.0.0.1:0"]).args(arguments);
    let output = command.output().expect("run wasmkeep");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    stderr
}

fn file(folder: &Path, name: &str, content: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, content).expect("write a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("change a file's mode");
    path
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of UTF-8")
}

#[test]
fn the_front_reads_its_own_values_and_no_class_does() {
    let folder = tempfile::tempdir().expect("make a directory");
    let first = file(folder.path(), "1.env", "A=first\nB=first\n# no\n");
    let second = file(folder.path(), "2.env", "export B='sec ret-of-the-front'\n");
    let probe = file(folder.path(), "probe.env", "A=of the probe\n");
    let mut node = front_and_probe()
        .flag("--front-env", first)
        .flag("--front-env", second)
        .flag("--env", format!("probe={}", probe.display()))
        .start();
    let value = |name: &str| node.get(&format!("/env?name={name}")).json();
    assert_eq!(value("A"), "first");
    assert_eq!(value("B"), "sec ret-of-the-front", "a later file wins");
    assert_eq!(value("C"), Json::Null);
    assert_eq!(value("PATH"), Json::Null);
    let of_the_probe = |name: &str| node.actor("probe/a").get(&format!("/env?name={name}")).json();
    assert_eq!(of_the_probe("A"), "of the probe");
    assert_eq!(of_the_probe("B"), Json::Null);
    node.stop_cleanly();
    assert!(!node.log().contains("sec ret-of-the-front"), "a value is never shown");
}

#[test]
fn a_settings_file_may_name_the_front_and_its_values() {
    let folder = tempfile::tempdir().expect("make a directory");
    file(folder.path(), "front.env", "A=filed\n");
    let front = component(FRONT);
    let settings = format!(
        "[front]\ncomponent = {front:?}\nenv = \"front.env\"\n[serve]\nmax-front-requests = 7\n"
    );
    let settings = file(folder.path(), "settings.toml", &settings);
    let node = Node::serve().flag("--config", settings).start();
    assert_eq!(node.get("/env?name=A").json(), "filed");
}

#[test]
fn what_is_no_front_is_refused_by_name() {
    let (front, probe) = (component(FRONT), component("guest-probe.wasm"));
    let stderr = refused(1, &["--front", text(&probe)]);
    assert!(stderr.contains("wasmkeep:actor/front@0.2.0"), "{stderr}");
    assert!(stderr.contains("guest-probe.wasm"), "{stderr}");
    let stderr = refused(1, &["no-such-front.wasm"]);
    assert!(stderr.contains("no-such-front.wasm"), "{stderr}");
    let stderr = refused(2, &[text(&front), "--front", text(&front)]);
    assert!(stderr.contains("--front"), "{stderr}");
    refused(2, &["--front", text(&front), "--front", text(&front)]);
}

#[test]
fn settings_that_fit_no_front_are_refused() {
    let front = component(FRONT);
    let probe = format!("probe={}", component("guest-probe.wasm").display());
    let stderr = refused(1, &["--actor", &probe, "--front-env", "x.env"]);
    assert!(stderr.contains("--front-env"), "{stderr}");
    let stderr = refused(1, &[text(&front), "--front-env", "no-such.env"]);
    assert!(stderr.contains("no-such.env"), "{stderr}");
    let stderr = refused(1, &[text(&front), "--max-front-requests", "0"]);
    assert!(stderr.contains("--max-front-requests"), "{stderr}");
    let few = ["--max-instances", "5", "--max-front-requests", "5"];
    let stderr = refused(1, &[&[text(&front), "--actor", &probe], &few[..]].concat());
    assert!(stderr.contains("--max-front-requests 5"), "{stderr}");
    let stderr = refused(1, &[text(&front), "--actor", &probe, "--max-instances", "1"]);
    assert!(stderr.contains("--max-instances"), "{stderr}");
    let stderr = refused(1, &[]);
    assert!(stderr.contains("--front"), "{stderr}");
}
