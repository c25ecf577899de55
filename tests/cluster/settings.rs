//! Half a cluster is refused, and what is missing is named.

use wasmkeep_testbucket::{ACCESS_KEY, BUCKET, Dialect, SECRET_KEY, TestBucket};

use crate::support::{Cluster, component, run, wasmkeep};

#[track_caller]
fn refused(flags: &[&str], code: i32, parts: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = wasmkeep();
    let served = format!("probe={}", component("guest-probe.wasm").display());
    command.args(["serve", "--listen", "127.0.0.1:0", "--actor", &served]).args(flags);
    command.current_dir(folder.path()).env("HOME", "/nonexistent");
    command.env("AWS_ACCESS_KEY_ID", ACCESS_KEY).env("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
    let (exit, said) = run(&mut command);
    assert_eq!(exit, Some(code), "{flags:?}: {said}");
    for part in parts {
        assert!(said.contains(part), "{flags:?}: {part:?} is not in\n{said}");
    }
    assert!(!said.contains(SECRET_KEY), "{said}");
}

#[test]
fn what_a_cluster_lacks_is_named() {
    refused(&["--node", "n1"], 1, &["--node", "--bucket"]);
    refused(&["--endpoint", "http://127.0.0.1:1"], 1, &["--endpoint", "--bucket"]);
    let bucket = ["--bucket", "s3://abc", "--endpoint", "http://127.0.0.1:1"];
    refused(&bucket, 1, &["--node NAME"]);
    let named = [&bucket[..], &["--node", "n1"]].concat();
    refused(&named, 1, &["--cluster-listen ADDR:PORT"]);
    let everywhere = [&named[..], &["--cluster-listen", "0.0.0.0:0"]].concat();
    refused(&everywhere, 1, &["--advertise HOST:PORT"]);
    refused(&["--bucket", "http://abc"], 2, &["s3://BUCKET"]);
    refused(&["--bucket", "s3://abc", "--node", "N1"], 2, &["[a-z][a-z0-9-]"]);
}

#[test]
fn a_bucket_whose_conditions_do_not_hold_is_no_clusters() {
    let store = TestBucket::start(Dialect::IgnoresMatch);
    let url = format!("s3://{BUCKET}/c");
    let flags = ["--bucket", &url, "--endpoint", store.endpoint(), "--node", "n1"];
    let flags = [&flags[..], &["--cluster-listen", "127.0.0.1:0"]].concat();
    refused(&flags, 3, &[store.endpoint(), "is not fit for a cluster", "If-Match is ignored"]);
    assert!(store.keys().is_empty(), "{:?}", store.keys());
}

#[test]
fn nobody_but_nodes_reaches_the_cluster_port() {
    let cluster = Cluster::new();
    let node = cluster.node("n1").start();
    let log = node.log();
    let joined = log.lines().find(|line| line.contains("joined the cluster")).expect("it joined");
    let (_, port) = joined.split_once("cluster=").expect("where it listens");
    let address = port.trim().parse().expect("an address");
    let answer = node.client_of(address, "").try_send("GET", "/_wasmkeep/metrics", &[], &[]);
    assert!(answer.is_err(), "a plain client got {answer:?}");
    let refused = node.metric("wasmkeep_peer_connections_refused_total", &["plain-text"]);
    assert!(refused >= 1.0, "{refused}");
}
