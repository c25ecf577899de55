//! Values the operator gives a class: who reads them, when they are read, and where they never are.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::support::{Actor, Node, component, wasmkeep};

const SECRET: &str = "hunter2-hunter2";

/// A folder with env files, which only their owner reads.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("make a directory"))
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, content).expect("write a file");
        allow(&path, 0o600);
        path
    }
}

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("change a file's mode");
}

fn env(class: &str, file: &Path) -> String {
    format!("{class}={}", file.display())
}

fn value(actor: &Actor, name: &str) -> Json {
    actor.get(&format!("/env?name={name}")).json()
}

/// A server that must not start: what it wrote to stderr.
#[track_caller]
fn refused(env: &str) -> String {
    let home = tempfile::tempdir().expect("make a directory");
    let probe = env_actor("probe");
    let mut command = wasmkeep();
    command.current_dir(home.path());
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--actor", &probe, "--env", env];
    let Output { status, stdout, stderr } = command.args(arguments).output().expect("run wasmkeep");
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    assert_eq!(status.code(), Some(1), "{stderr}");
    assert!(stdout.is_empty(), "what failed listens to nothing");
    assert!(stderr.lines().any(|line| line.starts_with("error: ")), "{stderr}");
    stderr
}

fn env_actor(class: &str) -> String {
    env(class, &component("guest-probe.wasm"))
}

#[test]
fn every_actor_of_a_class_reads_its_values_and_no_other_class_does() {
    let files = Files::new();
    let hub = files.write("hub.env", "# of the hub\nTOKEN=\"of the hub\"\nEMPTY=\n");
    let room = files.write("room.env", "export TOKEN='of the room'\nROOM=1\n");
    let node = Node::serve()
        .class("hub", "guest-probe.wasm")
        .class("room", "guest-probe.wasm")
        .class("bare", "guest-probe.wasm")
        .flag("--env", env("hub", &hub))
        .flag("--env", env("room", &room))
        .start();
    for name in ["a", "b"] {
        let hub = node.actor(&format!("hub/{name}"));
        assert_eq!(value(&hub, "TOKEN"), "of the hub");
        assert_eq!(value(&hub, "EMPTY"), "");
        assert_eq!(value(&hub, "ROOM"), Json::Null);
    }
    assert_eq!(value(&node.actor("room/a"), "TOKEN"), "of the room");
    assert_eq!(value(&node.actor("room/a"), "EMPTY"), Json::Null);
    assert_eq!(value(&node.actor("bare/a"), "TOKEN"), Json::Null);
    assert_eq!(value(&node.actor("hub/a"), "token"), Json::Null, "names are compared exactly");
    assert_eq!(value(&node.actor("hub/a"), "PATH"), Json::Null, "the server's own are not read");
}

#[test]
fn a_later_file_of_a_class_wins() {
    let files = Files::new();
    let first = files.write("first.env", "A=first\nB=first\n");
    let second = files.write("second.env", "B=twice\nB=second\n");
    let node = Node::probe()
        .flag("--env", env("probe", &first))
        .flag("--env", env("probe", &second))
        .start();
    let actor = node.actor("probe/a");
    assert_eq!(value(&actor, "A"), "first");
    assert_eq!(value(&actor, "B"), "second");
}

#[test]
fn the_settings_file_names_env_files_beside_itself() {
    let files = Files::new();
    files.write("one.env", "A=one\nB=one\n");
    files.write("two.env", "B=two\n");
    let probe = component("guest-probe.wasm");
    let settings =
        format!("[actors]\nprobe = {probe:?}\n[env]\nprobe = [\"one.env\", \"two.env\"]\n");
    let settings = files.write("settings.toml", settings);
    let flag = files.write("flag.env", "A=flag\n");
    let setup = Node::serve().flag("--config", settings);

    let node = setup.clone().start();
    assert_eq!(value(&node.actor("probe/a"), "A"), "one");
    assert_eq!(value(&node.actor("probe/a"), "B"), "two");
    let node = setup.flag("--env", env("probe", &flag)).start();
    assert_eq!(value(&node.actor("probe/a"), "A"), "flag");
    assert_eq!(value(&node.actor("probe/a"), "B"), Json::Null, "a flag replaces the class's list");
}

#[test]
fn the_wasi_environment_stays_empty() {
    let files = Files::new();
    let file = files.write("probe.env", format!("TOKEN={SECRET}\n"));
    let node = Node::probe().flag("--env", env("probe", &file)).variable("TOKEN", "x").start();
    let reached = node.actor("probe/a").get("/wasi").json();
    assert_eq!(reached["env"], json!([]));
    assert_eq!(reached["args"], json!([]));
    assert_eq!(value(&node.actor("probe/a"), "TOKEN"), SECRET);
}

#[test]
fn a_changed_file_is_read_at_the_next_start_and_not_before() {
    let files = Files::new();
    let file = files.write("probe.env", "TOKEN=old\n");
    let mut node = Node::probe().flag("--env", env("probe", &file)).start();
    let actor = node.actor("probe/a");
    assert_eq!(value(&actor, "TOKEN"), "old");
    files.write("probe.env", "TOKEN=new\n");
    assert_eq!(value(&actor, "TOKEN"), "old");
    actor.get("/trap").refused(500, "trapped", "ran");
    assert_eq!(value(&actor, "TOKEN"), "old", "a new instance");
    assert_eq!(value(&node.actor("probe/b"), "TOKEN"), "old", "a new actor");
    node.restart();
    assert_eq!(value(&node.actor("probe/a"), "TOKEN"), "new");
}

#[test]
fn values_are_in_no_log_and_in_no_file() {
    let files = Files::new();
    let file = files.write("probe.env", format!("TOKEN={SECRET}\n"));
    let setup = Node::probe().flag("--env", env("probe", &file)).variable("WASMKEEP_LOG", "trace");
    let mut node = setup.errors_are_fine().start();
    let actor = node.actor("probe/a");
    // The guest reads it in its memory, stores, fails, sleeps and stops beside it.
    actor.exec("CREATE TABLE t (x)");
    assert_eq!(value(&actor, "TOKEN"), SECRET);
    for path in ["/trap", "/panic", "/error", "/loop", "/nothing"] {
        assert_eq!(actor.get(path).status, 500);
    }
    assert!(!node.get("/_wasmkeep/metrics").text().contains(SECRET));
    node.stop_cleanly();
    assert!(node.log().lines().count() > 10, "at this level the log tells much");
    assert!(!node.log().contains(SECRET), "{}", node.log());
    let mut seen = 0;
    each_file(&node.data_dir(), &mut |path, bytes| {
        seen += 1;
        let found = bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
        assert!(!found, "{} holds the value", path.display());
    });
    assert!(seen >= 3, "{seen} files only");
}

fn each_file(folder: &Path, look: &mut dyn FnMut(&Path, &[u8])) {
    for entry in fs::read_dir(folder).expect("read a folder of the node") {
        let path = entry.expect("read a folder of the node").path();
        if path.is_dir() {
            each_file(&path, look);
        } else {
            look(&path, &fs::read(&path).expect("read a file of the node"));
        }
    }
}

#[test]
fn a_wrong_line_is_named_by_file_and_number_and_never_shown() {
    let files = Files::new();
    for (line, name) in [
        (format!("{SECRET}\n"), "no pair"),
        (format!("1TOKEN={SECRET}\n"), "the name"),
        (format!("{SECRET} X={SECRET}\n"), "the name"),
        (format!("TOKEN=\"{SECRET}\n"), "an open quote"),
        (format!("TOKEN={SECRET}\u{7}\n"), "a control character"),
        (format!("TOKEN={SECRET}\0\n"), "a zero byte"),
    ] {
        let file = files.write("wrong.env", format!("# one\nFINE=yes\n{line}LATER=1\n"));
        let stderr = refused(&env("probe", &file));
        assert!(stderr.contains("wrong: line 3 "), "{name}: {stderr}");
        assert!(stderr.contains("wrong.env"), "{name}: {stderr}");
        for part in [SECRET, "TOKEN", "hunter2", "FINE", "LATER"] {
            assert!(!stderr.contains(part), "{name}: {part:?} is in {stderr}");
        }
    }
    let file = files.write("wrong.env", [b"A=1\nTOKEN=", SECRET.as_bytes(), b"\xff\n"].concat());
    let stderr = refused(&env("probe", &file));
    assert!(stderr.contains("line 2") && !stderr.contains("hunter2"), "{stderr}");
}

#[test]
fn a_file_that_cannot_be_used_is_named() {
    let files = Files::new();
    let fine = files.write("fine.env", "A=1\n");
    let unserved = refused(&env("prob", &fine));
    assert!(unserved.contains("--env") && unserved.contains("class prob,"), "{unserved}");
    let missing = refused(&env("probe", Path::new("missing.env")));
    assert!(missing.contains("missing.env"), "{missing}");
    let folder = refused(&env("probe", files.0.path()));
    assert!(folder.contains(&*files.0.path().to_string_lossy()), "{folder}");
    let large = files.write("large.env", vec![b'#'; (1 << 20) + 1]);
    let large = refused(&env("probe", &large));
    assert!(large.contains("large.env") && large.contains("1048576"), "{large}");
}

#[test]
fn a_file_that_everybody_can_read_is_taken_with_a_warning() {
    let files = Files::new();
    let private = files.write("private.env", "A=1\n");
    let public = files.write("public.env", format!("TOKEN={SECRET}\n"));
    allow(&public, 0o644);
    let node = Node::probe()
        .flag("--env", env("probe", &private))
        .flag("--env", env("probe", &public))
        .start();
    assert_eq!(value(&node.actor("probe/a"), "TOKEN"), SECRET);
    let log = node.log();
    let warning = log.lines().find(|line| line.contains("WARN") && line.contains("public.env"));
    assert!(warning.is_some_and(|line| line.contains("chmod")), "{log}");
    assert!(!log.contains("private.env") && !log.contains(SECRET), "{log}");
}
