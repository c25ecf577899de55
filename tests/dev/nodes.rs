//! `wasmkeep dev --nodes`: the app on several nodes of this machine.

use super::*;
use crate::support::{Actor, listens_at};

/// An actor, through each of the nodes.
#[track_caller]
fn through_each(node: &Node, nodes: usize, actor: &str) -> Vec<Actor> {
    let base = format!("/actor/{actor}");
    let others = (1..nodes).map(|_| {
        let line = node.printed_line().expect("each node says where it listens");
        listens_at(&line).unwrap_or_else(|| panic!("{line:?} does not say where a node listens"))
    });
    let addresses: Vec<_> = std::iter::once(node.address()).chain(others).collect();
    addresses.into_iter().map(|address| node.client_of(address, &base)).collect()
}

#[track_caller]
fn visits(actors: &[Actor], first: usize) {
    for (visit, actor) in (first..).zip(actors) {
        let text = actor.get("/").text();
        assert!(text.contains(&format!(": visit {visit}\n")), "not visit {visit}: {text}");
    }
}

#[test]
fn an_actor_is_one_through_every_node_and_keeps_its_data() {
    let project = Project::of(COUNTER);
    let mut node = project.dev().flag("--nodes", "3").start();
    let all = through_each(&node, 3, "app/a");
    visits(&all, 1);
    visits(&all, 4);
    node.restart();
    // Whichever node held it, another one may hold it from here on.
    let mut all = through_each(&node, 3, "app/a");
    all.reverse();
    visits(&all, 7);
    node.stop_cleanly();
    assert!(!node.log().contains("told again"), "one signal stops them all");
}

#[test]
fn what_a_killed_process_had_made_durable_is_there_at_the_next_start() {
    let project = Project::of(PROBE);
    let mut node = project.dev().flag("--nodes", "2").start();
    let all = through_each(&node, 2, "app/a");
    all[1].exec("CREATE TABLE t (x)");
    let done = all[0].one("exec-durable", "INSERT INTO t VALUES (1)");
    assert_eq!(done["changed"], json!(1), "{done}");
    node.kill();
    node.start_again();
    for actor in through_each(&node, 2, "app/a") {
        assert_eq!(actor.query("SELECT x FROM t"), json!([[1]]));
    }
}

#[test]
fn a_change_is_served_by_every_node() {
    let project = Project::of(COUNTER);
    let node = project.dev().flag("--nodes", "3").start();
    let all = through_each(&node, 3, "app");
    // Each holds one actor: the one that it was asked for first.
    for (number, app) in all.iter().enumerate() {
        assert!(app.get(&format!("/a{number}/")).text().contains("visit 1"));
    }
    for data in ["data", "data-n2", "data-n3"] {
        let class = project.path().join(data).join("state/default/default/app");
        assert!(class.is_dir(), "{data} holds no actor");
    }
    project.change(PROBE);
    says(&node, "serving the change of app");
    for number in 0..all.len() {
        for app in &all {
            assert_eq!(app.get(&format!("/a{number}/hello")).text(), "hello");
        }
    }
}

#[test]
fn a_project_of_one_node_goes_to_several_and_comes_back_whole() {
    let project = Project::of(COUNTER);
    let mut node = project.dev().start();
    visits(&[node.actor("app/old")], 1);
    node.stop_cleanly();

    // Asked is the node that never saw the first one's disk.
    node.start_again_as(project.dev().flag("--nodes", "2"));
    let app = through_each(&node, 2, "app");
    assert!(app[1].get("/old/").text().contains(": visit 2\n"), "what one node had is lost");
    assert!(app[1].get("/new/").text().contains(": visit 1\n"));
    node.stop_cleanly();

    node.start_again_as(project.dev());
    visits(&[node.actor("app/old")], 3);
    visits(&[node.actor("app/new")], 2);
    node.stop_cleanly();

    let bucket = ["dev", "--bucket", "s3://abc", "--node", "n1", "--cluster-listen", "127.0.0.1:0"];
    let refused = refused(&project, &[&bucket[..], &["--endpoint", "http://127.0.0.1:1"]].concat());
    assert!(refused.contains("data-bucket") && refused.contains("--data-dir"), "{refused}");
}

/// What a command says that does not start.
#[track_caller]
fn refused(project: &Project, arguments: &[&str]) -> String {
    let data = project.path().join("data");
    let mut command = wasmkeep();
    command.args(arguments).arg("--data-dir").arg(data).current_dir(project.path());
    command.env("AWS_ACCESS_KEY_ID", "id").env("AWS_SECRET_ACCESS_KEY", "secret");
    let (code, said) = run(&mut command);
    assert!(matches!(code, Some(1 | 2)), "{arguments:?} ended with {code:?}: {said}");
    said
}

#[test]
fn what_does_not_go_with_several_nodes_is_refused() {
    let project = Project::of(COUNTER);
    for (arguments, expected) in [
        (&["dev", "--nodes", "3", "--bucket", "s3://abc"][..], "leave out --bucket"),
        (&["dev", "--nodes", "3", "--advertise", "a:1"], "leave out --advertise"),
        (&["dev", "--nodes", "2", "--clock", "manual"], "--clock manual"),
        (&["dev", "--nodes", "10"], "10 is not in 1..=9"),
        (&["dev", "--nodes", "0"], "0 is not in 1..=9"),
    ] {
        let said = refused(&project, arguments);
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().map(|address| (taken, address.to_string())).expect("an address");
    let said = refused(&project, &["dev", "--nodes", "2", "--listen", &taken.1]);
    assert!(said.contains("run the node n1") && said.contains(&taken.1), "{said}");
}

#[test]
fn a_developer_joins_no_cluster_that_the_settings_name() {
    let project = Project::of(COUNTER);
    let mut settings = fs::read_to_string(project.path().join("wasmkeep.toml")).expect("read");
    settings += "[cluster]\nbucket = \"s3://production\"\nendpoint = \"http://127.0.0.1:1\"\n\
                 node = \"n1\"\nlisten = \"127.0.0.1:0\"\n";
    project.write("wasmkeep.toml", &settings);
    let node = project.dev().start();
    visits(&[node.actor("app/a")], 1);
    assert!(!project.path().join("data-bucket").exists(), "one node needs no bucket");
}
