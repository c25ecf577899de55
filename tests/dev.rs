//! `wasmkeep new` and `wasmkeep dev`: a project is made, built, served, and served anew.

mod nodes;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;

use crate::support::{Node, Setup, WebSocket, component, eventually, run, wasmkeep};

/// A project whose build takes a component that is there: which one its source names.
struct Project(TempDir);

impl Project {
    fn of(file: &str) -> Self {
        let project = Self(tempfile::tempdir().expect("make a folder for the project"));
        let settings = "[build]\ncommand = \"cp \\\"$(cat source)\\\" app.wasm\"\n\
                        [actors]\napp = \"app.wasm\"\n";
        project.write("wasmkeep.toml", settings);
        project.change(file);
        project
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.path().join(file), text).expect("write a file of the project");
    }

    fn change(&self, file: &str) {
        self.write("source", component(file).to_str().expect("a path of UTF-8"));
    }

    fn dev(&self) -> Setup {
        Node::dev().home(self.path().canonicalize().expect("the project's path"))
    }
}

const COUNTER: &str = "wasmkeep-example-counter.wasm";
const PROBE: &str = "guest-probe.wasm";

/// Waits for a line that the command prints.
#[track_caller]
fn says(node: &Node, text: &str) {
    eventually(text, || node.printed_line().is_some_and(|line| line.contains(text)));
}

#[test]
fn a_change_is_served_while_data_and_sockets_stay() {
    let project = Project::of(PROBE);
    let node = project.dev().start();
    let app = node.actor("app/a");
    let mut socket = WebSocket::open(&node, "app/a?name=ann");
    assert_eq!(app.get("/init").text(), "1");
    project.change(COUNTER);
    says(&node, "serving the change of app");
    assert!(app.get("/").text().starts_with("Hello from app/a: visit 1"));
    assert_eq!(app.get("/init").status, 404, "the other version is gone");
    project.change(PROBE);
    says(&node, "serving the change of app");
    socket.echoes("still here");
    assert_eq!(app.get("/init").text(), "2", "on-init ran for the version, and the data is there");
    assert_eq!(app.get("/sockets").json()[0][1], json!("ann"));
}

#[test]
fn what_does_not_build_or_load_leaves_the_last_version_in_place() {
    let project = Project::of(COUNTER);
    let node = project.dev().start();
    let app = node.actor("app/a");
    assert!(app.get("/").text().contains("visit 1"));
    project.write("source", "/no/such/file");
    says(&node, "still serving the last version that was built");
    assert!(node.log().contains("/no/such/file"), "the build's own words are shown");
    assert!(app.get("/").text().contains("visit 2"));
    project.write("no-component", "this is no component");
    project.write("source", "no-component");
    says(&node, "is not a WebAssembly component");
    assert!(app.get("/").text().contains("Since I woke: 3"), "nothing was lost");
    project.change(PROBE);
    says(&node, "serving the change of app");
    assert_eq!(app.get("/hello").text(), "hello");
}

#[test]
fn a_build_that_changes_nothing_disturbs_nothing() {
    let project = Project::of(COUNTER);
    let node = project.dev().start();
    let app = node.actor("app/a");
    app.get("/");
    project.write("notes.txt", "a change, and no other component");
    says(&node, "no component has changed");
    assert!(app.get("/").text().contains("Since I woke: 2"));
}

#[test]
fn a_project_that_does_not_build_at_first_is_waited_for() {
    let project = Project::of(COUNTER);
    project.write("source", "/no/such/file");
    let mends = project.path().to_owned();
    let mending = std::thread::spawn(move || {
        // Whenever it comes: before the watch begins, while the build runs, or after it.
        std::thread::sleep(std::time::Duration::from_millis(300));
        let text = component(COUNTER).to_str().expect("a path of UTF-8").to_owned();
        fs::write(mends.join("source"), text).expect("mend the project");
    });
    let node = project.dev().start();
    mending.join().expect("it was mended");
    assert!(node.actor("app/a").get("/").text().contains("visit 1"));
}

#[test]
fn a_folder_that_is_no_project_is_told_what_it_lacks() {
    let folder = tempfile::tempdir().expect("make a folder");
    let dev = |expected: &str| {
        let (code, said) = run(wasmkeep().arg("dev").current_dir(folder.path()));
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(expected), "{said}");
    };
    dev("`wasmkeep new NAME` makes a project");
    fs::write(folder.path().join("wasmkeep.toml"), "[actors]\na = \"a.wasm\"\n").expect("write");
    dev("add [build] with a command");
    let wrong = "[build]\ncommand = \"true\"\nwatch = [\"src\"]\n[actors]\na = \"a.wasm\"\n";
    fs::write(folder.path().join("wasmkeep.toml"), wrong).expect("write");
    dev("watch");
    fs::write(folder.path().join("wasmkeep.toml"), "[build]\nrun = 1\n").expect("write");
    dev("unknown field `run`");
}

#[test]
fn a_new_project_is_made_once_and_under_a_plain_name() {
    let folder = tempfile::tempdir().expect("make a folder");
    let new =
        |arguments: &[&str]| run(wasmkeep().arg("new").args(arguments).current_dir(folder.path()));
    assert_eq!(new(&["my-app"]).0, Some(0));
    let (code, said) = new(&["my-app"]);
    assert!(code == Some(1) && said.contains("my-app is there already"), "{said}");
    let (code, said) = new(&["../x"]);
    assert!(code == Some(1) && said.contains("no name for a project"), "{said}");
    let (code, said) = new(&["other", "--sdk", "."]);
    assert!(code == Some(1) && said.contains("no checkout of WasmKeep"), "{said}");
    assert_eq!(new(&["other", "--template", "none"]).0, Some(2));
    let manifest = fs::read_to_string(folder.path().join("my-app/Cargo.toml")).expect("a manifest");
    assert!(manifest.contains("git = \"https://github.com/wasmkeep/wasmkeep\""), "{manifest}");
}

/// One test for all templates: they share what is compiled.
#[test]
fn every_template_builds_passes_its_tests_and_serves() {
    if !has_wasm_target() {
        println!("NOT RUN: this toolchain has no wasm32-wasip2, which `wasmkeep new` asks for");
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().expect("make a folder");
    let made = |template: &str| -> PathBuf {
        let project = format!("my-{template}");
        let mut new = wasmkeep();
        new.args(["new", &project, "--template", template, "--sdk"]).arg(root);
        let (code, said) = run(new.current_dir(folder.path()));
        assert_eq!(code, Some(0), "{said}");
        let project = folder.path().join(project).canonicalize().expect("it is made");
        fs::copy(root.join("Cargo.lock"), project.join("Cargo.lock")).expect("pin the versions");
        project
    };
    let shared = root.join("target/new-projects");
    let cargo = |project: &Path, arguments: &[&str]| {
        let mut cargo = Command::new("cargo");
        cargo.args(arguments).current_dir(project).env("CARGO_TARGET_DIR", &shared);
        cargo.env("WASMKEEP", wasmkeep().get_program());
        let (code, said) = run(&mut cargo);
        assert_eq!(code, Some(0), "cargo {arguments:?} in {}:\n{said}", project.display());
    };
    let serve = |template: &str| {
        let project = made(template);
        let link = project.join("target");
        std::os::unix::fs::symlink(&shared, link).expect("find what is built");
        // Also builds the components: the test kit does.
        cargo(&project, &["test"]);
        Node::dev().home(project).variable("CARGO_TARGET_DIR", shared.to_str().expect("UTF-8"))
    };
    let node = serve("counter").start();
    assert!(node.actor("counter/a").get("/").text().contains("visit 1"));
    let node = serve("front").start();
    assert!(node.get("/").text().contains("Visit 1"));
    assert!(node.get("/").text().contains("Visit 2"));
    let node = serve("chat").start();
    let mut socket = WebSocket::try_open_at(node.address(), "/rooms/tea/socket?name=ann", "")
        .expect("it is opened");
    assert!(socket.next_text().contains("\"welcome\""));
    assert!(node.get("/rooms/tea").text().contains("<title>Chat</title>"));
}

/// The SDK must have been built: `cargo xtask guests` does that.
#[test]
fn every_template_in_typescript_builds_passes_its_tests_and_serves() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().expect("make a folder");
    let server = wasmkeep().get_program().to_owned();
    let made = |template: &str| -> Setup {
        let project = format!("my-{template}");
        let mut new = wasmkeep();
        new.args(["new", &project, "--lang", "ts", "--template", template, "--sdk"]).arg(root);
        let (code, said) = run(new.current_dir(folder.path()));
        assert_eq!(code, Some(0), "{said}");
        let project = folder.path().join(project).canonicalize().expect("it is made");
        let npm = |arguments: &[&str]| {
            let mut npm = Command::new("npm");
            npm.args(arguments).current_dir(&project).env("WASMKEEP", &server);
            let (code, said) = run(&mut npm);
            assert_eq!(code, Some(0), "npm {arguments:?} in {}:\n{said}", project.display());
        };
        npm(&["install", "--no-audit", "--no-fund", "--prefer-offline"]);
        // Also builds the components: the test kit does.
        npm(&["test"]);
        Node::dev().home(project)
    };
    let node = made("counter").start();
    assert!(node.actor("counter/a").get("/").text().contains("visit 1"));
    let node = made("front").start();
    assert!(node.get("/").text().contains("Visit 1"));
    let node = made("chat").start();
    let mut socket = WebSocket::try_open_at(node.address(), "/rooms/tea/socket?name=ann", "")
        .expect("it is opened");
    assert!(socket.next_text().contains("\"welcome\""));
}

fn has_wasm_target() -> bool {
    let mut rustc = Command::new("rustc");
    let found = rustc.args(["--print", "target-libdir", "--target", "wasm32-wasip2"]).output();
    let path = found.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    path.is_some_and(|path| Path::new(path.trim()).is_dir())
}
