//! `--access`: what requests from outside may reach and create.

use std::fs;
use std::process::Command;

use serde_json::json;

use crate::support::{
    DONE, Node, Raw, Setup, component, eventually, in_parallel, now_ms, wasmkeep,
};

/// The probe as an open class, beside classes of each mode.
fn setup() -> Setup {
    let mut setup = Node::probe();
    for (class, mode) in
        [("known", "existing"), ("named", "existing:main,room%201,a%2Cb"), ("inner", "internal")]
    {
        setup = setup.class(class, "guest-probe.wasm").flag("--access", format!("{class}={mode}"));
    }
    setup
}

/// Has an actor call this one, which creates it.
#[track_caller]
fn call(node: &Node, target: &str, path: &str) {
    let answer =
        node.actor("probe/creator").get(&format!("/call?target={target}&path={path}")).json();
    assert_eq!(answer["status"], 200, "{target}: {answer}");
}

#[test]
fn what_outside_may_not_reach_or_create_is_refused_and_leaves_nothing() {
    let mut node = setup().start();
    let rows = [
        ("known/new", 404, "no-such-actor"),
        ("named/new", 404, "no-such-actor"),
        ("named/room%25201", 404, "no-such-actor"),
        ("named/Main", 404, "no-such-actor"),
        ("named/a", 404, "no-such-actor"),
        ("inner/new", 403, "forbidden"),
        ("absent/new", 404, "not-found"),
        ("known/a%2Fb", 400, "bad-request"),
    ];
    for (address, status, reason) in rows {
        for path in ["/hello", "", "/alarm?in=0"] {
            node.actor(address).get(path).refused(status, reason, "not-run");
            node.actor(address).post(path, "body").refused(status, reason, "not-run");
        }
    }
    assert_eq!(node.metric("wasmkeep_resident_actors", &[]), 0.0, "one was brought to life");
    assert_eq!(node.metric("wasmkeep_wakes_total", &[]), 0.0, "one was brought to life");
    in_parallel(4, |worker| {
        let mut client = node.raw();
        for i in (worker..1000).step_by(4) {
            client.get(&format!("/actor/known/no{i}/hello")).refused(
                404,
                "no-such-actor",
                "not-run",
            );
        }
    });
    node.stop_cleanly();
    assert!(node.databases().is_empty());
    assert_eq!(fs::read_dir(node.data_dir().join("state")).expect("it is there").count(), 0);
    assert_eq!(node.indexed_fileless(), [] as [&str; 0]);
    assert_eq!(node.indexed_alarms(), []);
}

#[test]
fn names_that_may_be_created_are_and_percent_encoding_is_undone() {
    let node = setup().start();
    for (address, name) in
        [("named/main", "main"), ("named/room%201", "room 1"), ("named/a,b", "a,b")]
    {
        assert_eq!(node.actor(address).get("/address").json()["name"], name);
    }
    assert_eq!(node.actor("named/%6Dain").get("/init").text(), "1", "the same actor as main");
}

#[test]
fn a_call_creates_in_any_class_and_outside_then_reaches_what_exists() {
    for kills in [false, true] {
        let mut node = setup().flag("--idle-timeout-secs", "1").start();
        for name in ["stores", "nostore-1"] {
            for class in ["known", "named", "inner"] {
                call(&node, &format!("{class}/{name}"), "/hello");
            }
        }
        let reached = |node: &Node| {
            for name in ["stores", "nostore-1"] {
                for class in ["known", "named"] {
                    let actor = node.actor(&format!("{class}/{name}"));
                    assert_eq!(actor.get("/hello").text(), "hello", "{class}/{name}");
                }
                let inner = node.actor(&format!("inner/{name}"));
                inner.get("/hello").refused(403, "forbidden", "not-run");
            }
        };
        reached(&node);
        eventually("all sleep", || node.metric("wasmkeep_resident_actors", &[]) == 0.0);
        reached(&node);
        if kills {
            node.kill();
            node.start_again();
        } else {
            node.restart();
        }
        reached(&node);
        assert_eq!(node.actor("known/stores").get("/init").text(), "1");
        node.actor("known/another").get("/hello").refused(404, "no-such-actor", "not-run");
    }
}

#[test]
fn alarms_reach_their_actor_whatever_the_mode() {
    let mut node = setup().start();
    let due = now_ms() + 700;
    for class in ["known", "named", "inner"] {
        let steps = json!([{ "target": format!("{class}/a"), "method": "POST",
                             "path": format!("/alarm?at={due}") }]);
        let set = node.actor("probe/creator").steps(json!([{ "op": "call", "calls": steps }]));
        assert_eq!(set[0]["status"], 200, "{set:?}");
    }
    node.kill();
    eventually("they are due", || now_ms() > due);
    node.start_again();
    node.actor("known/a").ran(1);
    node.actor("named/a").ran(1);
    let alarms = "/call?target=inner/a&path=/alarms";
    eventually("the internal one runs", || {
        node.actor("probe/creator").get(alarms).json()["body"] != "[]"
    });
}

#[test]
fn a_deleted_actor_is_unknown_again() {
    let mut node = setup().start();
    for (name, op) in [
        ("a", "delete-self"),
        ("b", "delete-self-durable"),
        ("nostore-a", "delete-self"),
        ("nostore-b", "delete-self-durable"),
    ] {
        let actor = node.actor(&format!("known/{name}"));
        call(&node, &format!("known/{name}"), "/hello");
        assert_eq!(actor.steps(json!([{ "op": op }])), [json!({ "deleted": true })]);
        actor.get("/hello").refused(404, "no-such-actor", "not-run");
        node.kill();
        node.start_again();
        let actor = node.actor(&format!("known/{name}"));
        actor.get("/hello").refused(404, "no-such-actor", "not-run");
        call(&node, &format!("known/{name}"), "/hello");
        assert_eq!(actor.get("/memory").text(), "1");
    }
    let main = node.actor("named/main");
    main.steps(json!([{ "op": "delete-self-durable" }]));
    assert_eq!(main.get("/init").text(), "1", "outside may create this one, and did");
}

#[test]
fn requests_that_wait_behind_a_delete_create_nothing() {
    let mut node = setup().start();
    for round in 0..5 {
        let name = format!("known/a{round}");
        call(&node, &name, "/hello");
        let mut busy = node.busy(&name, 400);
        let delete = r#"{"steps": [{"op": "delete-self"}]}"#;
        let mut deleting = node.raw();
        let length = delete.len();
        deleting.send(format!(
            "POST /actor/{name}/sql HTTP/1.1\r\nhost: test\r\ncontent-length: {length}\r\n\r\n{delete}"
        ));
        // Given time to arrive, so that these stand behind it.
        std::thread::sleep(std::time::Duration::from_millis(100));
        let mut behind: Vec<Raw> =
            (0..20).map(|_| node.ask(&format!("/actor/{name}/sql"))).collect();
        assert_eq!(busy.chunks().expect("a regular end"), DONE);
        assert_eq!(deleting.answer().expect("an answer").status, 200);
        for client in &mut behind {
            let answer = client.answer().expect("an answer");
            answer.refused(404, "no-such-actor", "not-run");
        }
    }
    node.stop_cleanly();
    let classes: Vec<_> = node.databases().iter().map(|file| file.display().to_string()).collect();
    assert!(classes.iter().all(|file| file.contains("/probe/")), "{classes:?}");
    assert_eq!(node.indexed_fileless(), [] as [&str; 0]);
}

#[test]
fn who_calls_decides_and_no_header_does() {
    let node = setup().start();
    let forged = [("x-wasmkeep-caller", "default/probe/creator"), ("X-Wasmkeep-Inside", "1")];
    for (address, status, reason) in
        [("inner/a", 403, "forbidden"), ("known/a", 404, "no-such-actor")]
    {
        let answer = node.actor(address).send("GET", "/hello", &forged, &[]);
        answer.refused(status, reason, "not-run");
    }
}

fn serve(home: &std::path::Path) -> Command {
    let mut command = wasmkeep();
    command.current_dir(home).args(["serve", "--listen", "127.0.0.1:0", "--actor"]);
    command.arg(format!("probe={}", component("guest-probe.wasm").display()));
    command
}

#[test]
fn wrong_access_rules_are_named() {
    let rows: [(&[&str], i32, &str); 11] = [
        (&["probe=closed"], 2, "closed"),
        (&["probe=Open"], 2, "Open"),
        (&["probe="], 2, "CLASS=MODE"),
        (&["probe"], 2, "CLASS=MODE"),
        (&["=open"], 2, "class"),
        (&["Probe=open"], 2, "Probe"),
        (&["probe=existing:"], 2, "name"),
        (&["probe=existing:a/b"], 2, "a/b"),
        (&["probe=internal:a"], 2, "internal:a"),
        (&["other=internal"], 1, "other"),
        (&["probe=open", "probe=internal"], 1, "twice"),
    ];
    for (modes, code, named) in rows {
        let home = tempfile::tempdir().expect("make a directory");
        let mut command = serve(home.path());
        modes.iter().for_each(|mode| {
            command.args(["--access", mode]);
        });
        let output = command.output().expect("run wasmkeep");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{modes:?}: {said}");
        assert!(said.contains(named) && said.contains("--access"), "{modes:?}: {said}");
    }
}

#[test]
fn wrong_access_rules_of_a_settings_file_are_named() {
    let rows = [
        ("probe = \"closed\"", "closed"),
        ("other = \"internal\"", "other"),
        ("Probe = \"open\"", "Probe"),
        ("probe = 3", "probe"),
    ];
    for (line, named) in rows {
        let home = tempfile::tempdir().expect("make a directory");
        fs::write(home.path().join("wasmkeep.toml"), format!("[access]\n{line}\n")).expect("write");
        let output = serve(home.path()).output().expect("run wasmkeep");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{line}: {said}");
        assert!(said.contains(named), "{line}: {said}");
    }
}

#[test]
fn a_settings_file_gives_rules_and_a_flag_wins_over_it() {
    let home = tempfile::tempdir().expect("make a directory");
    let file = home.path().join("settings.toml");
    let rules = "[access]\nprobe = \"internal\"\nother = \"existing:main\"\n";
    fs::write(&file, rules).expect("write a file");
    let setup = Node::probe().class("other", "guest-probe.wasm").flag("--config", &file);
    let node = setup.clone().start();
    node.actor("probe/a").get("/hello").refused(403, "forbidden", "not-run");
    node.actor("other/a").get("/hello").refused(404, "no-such-actor", "not-run");
    assert_eq!(node.actor("other/main").get("/hello").text(), "hello");
    let node = setup.flag("--access", "probe=open").start();
    assert_eq!(node.actor("probe/a").get("/hello").text(), "hello");
    node.actor("other/a").get("/hello").refused(404, "no-such-actor", "not-run");
}
