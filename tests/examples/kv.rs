use serde_json::{Value as Json, json};

use super::readme;
use crate::support::{
    Actor, Disk, HOUR_MS, Node, Setup, component, eventually, in_parallel, now_ms, open,
};

/// Stores, and actors that have the SDK's client.
fn kv() -> Setup {
    Node::serve().class("kv", "wasmkeep-example-kv.wasm").class("sdk", "guest-sdk.wasm")
}

/// One operation of the client, by the actor `sdk/client`.
#[track_caller]
fn client(node: &Node, store: &str, op: Json) -> Json {
    node.actor("sdk/client").post(&format!("/kv?store={store}"), op.to_string()).json()
}

#[track_caller]
fn put(store: &Actor, key_and_options: &str, value: &str) -> u64 {
    let answer = store.send("PUT", &format!("/keys/{key_and_options}"), &[], value.as_bytes());
    assert_eq!(answer.status, 204, "{answer:?}");
    version(answer.header("etag"))
}

#[track_caller]
fn version(etag: Option<&str>) -> u64 {
    let version = etag.and_then(|etag| etag.strip_prefix('"')?.strip_suffix('"')?.parse().ok());
    version.unwrap_or_else(|| panic!("no version: {etag:?}"))
}

fn keys(store: &Actor) -> Vec<String> {
    names_of(&store.get("/keys?limit=1000").json())
}

fn names_of(page: &Json) -> Vec<String> {
    let keys = page["keys"].as_array().expect("a list").iter();
    keys.map(|key| key["key"].as_str().expect("a key").to_owned()).collect()
}

#[test]
fn the_readme_of_kv_tells_the_truth() {
    readme::tells_the_truth(&kv().start(), "examples/kv/README.md");
}

#[test]
fn a_key_is_set_only_if_it_is_as_expected() {
    let node = kv().start();
    let store = node.actor("kv/a");
    let set = |value: &str, expect: Json| {
        let op = json!({ "op": "set", "key": "k", "value": value, "expect": expect });
        client(&node, "kv/a", op)
    };
    assert_eq!(set("never", json!(1)), json!({ "conflict": null }));
    assert_eq!(store.get("/keys/k").status, 404);
    assert_eq!(set("first", json!("absent")), json!({ "ok": 1 }));
    assert_eq!(set("never", json!("absent")), json!({ "conflict": 1 }));
    assert_eq!(set("second", json!(1)), json!({ "ok": 2 }));
    assert_eq!(set("never", json!(1)), json!({ "conflict": 2 }));
    assert_eq!(store.get("/keys/k").text(), "second");
    let delete = |expect: u64| {
        client(&node, "kv/a", json!({ "op": "delete", "key": "k", "expect": expect }))
    };
    assert_eq!(delete(1), json!({ "conflict": 2 }));
    assert_eq!(delete(2), json!({ "ok": true }));
    assert_eq!(delete(2), json!({ "conflict": null }));
    let plain = json!({ "op": "delete", "key": "k" });
    assert_eq!(client(&node, "kv/a", plain), json!({ "ok": false }));
}

#[test]
fn a_version_is_never_given_twice_also_after_deletes_and_kills() {
    let mut node = kv().start();
    let mut seen = Vec::new();
    for round in 0..4 {
        let store = node.actor("kv/a");
        seen.push(put(&store, "k", "same"));
        seen.push(put(&store, "k", "same"));
        assert_eq!(store.send("DELETE", "/keys/k", &[], &[]).status, 204);
        if round % 2 == 0 {
            node.kill();
            node.start_again();
        } else {
            node.restart();
        }
    }
    assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
}

#[test]
fn many_clients_that_compare_and_set_lose_nothing() {
    const CLIENTS: usize = 6;
    const TIMES: usize = 15;
    let node = kv().start();
    in_parallel(CLIENTS, |i| {
        for _ in 0..TIMES {
            let add = json!({ "op": "add", "key": "total" }).to_string();
            let added = node.actor(&format!("sdk/c{i}")).post("/kv?store=kv/a", add).json();
            assert!(added["ok"].is_u64(), "{added}");
        }
    });
    assert_eq!(node.actor("kv/a").get("/keys/total").text(), (CLIENTS * TIMES).to_string());
}

#[test]
fn a_key_is_there_until_its_ttl_ends_and_not_after() {
    let node = kv().start();
    let store = node.actor("kv/a");
    let began = now_ms();
    put(&store, "k?ttl-ms=400", "v");
    put(&store, "kept?ttl-ms=400", "v");
    put(&store, "kept", "without");
    let mut end = None;
    eventually("it ends", || {
        let asked = now_ms();
        let answer = store.get("/keys/k");
        let expires = answer.header("kv-expires-ms").and_then(|ms| ms.parse::<u64>().ok());
        if answer.status == 200 {
            assert!(expires.is_some_and(|end| asked < end && end >= began + 400), "{answer:?}");
            end = end.or(expires);
            return false;
        }
        assert_eq!(answer.status, 404, "{answer:?}");
        assert!(now_ms() >= end.unwrap_or(began + 400), "gone before its end");
        true
    });
    assert_eq!(keys(&store), ["kept"], "a TTL that was replaced by none does not end");
    assert_eq!(store.get("/keys/kept").header("kv-expires-ms"), None);
    let delete = client(&node, "kv/a", json!({ "op": "delete", "key": "k" }));
    assert_eq!(delete, json!({ "ok": false }));
    let set = json!({ "op": "set", "key": "k", "value": "new", "expect": "absent" });
    assert_eq!(client(&node, "kv/a", set), json!({ "ok": 4 }));
}

#[test]
fn a_ttl_passes_while_the_server_is_down_and_what_has_ended_is_removed() {
    for kills in [false, true] {
        let mut node = kv().start();
        let store = node.actor("kv/a");
        put(&store, "plain", "v");
        put(&store, "later?ttl-ms=3600000", "v");
        put(&store, "soon?ttl-ms=700&durable=true", "v");
        let end = now_ms() + 700;
        if kills {
            node.kill();
        } else {
            node.stop_cleanly();
        }
        eventually("it has ended", || now_ms() >= end);
        node.start_again();
        let store = node.actor("kv/a");
        assert_eq!(store.get("/keys/soon").status, 404);
        assert_eq!(keys(&store), ["later", "plain"]);
        let fired = ["kind=\"alarm\"", "answered"];
        eventually("it is removed", || node.metric("wasmkeep_events_total", &fired) > 0.0);
        node.stop_cleanly();
        let [file] = &node.databases()[..] else { panic!("one store") };
        let left = "SELECT group_concat(CAST(key AS TEXT)) FROM
                    (SELECT key FROM entries ORDER BY key)";
        let left: String = open(file).query_row(left, [], |row| row.get(0)).expect("rows");
        assert_eq!(left, "later,plain");
        let alarms = node.indexed_alarms();
        let [(address, due)] = &alarms[..] else { panic!("one alarm: {alarms:?}") };
        assert_eq!(address, "kv/a");
        assert!(*due as u64 > now_ms() + HOUR_MS / 2, "the next is for the one that ends later");
    }
}

#[test]
fn pages_of_keys_hold_each_key_once_whatever_happens_in_between() {
    let node = kv().start();
    let store = node.actor("kv/a");
    let names = ["user%2F1", "user%2F2", "user%2Fa%2Fb", "user%2F%C3%A9", "user0", "us", "zz"];
    for name in names {
        put(&store, name, "v");
    }
    let list = |after: Json| {
        let op = json!({ "op": "list", "prefix": "user/", "after": after, "limit": 2 });
        client(&node, "kv/a", op)["ok"].clone()
    };
    let first = list(Json::Null);
    assert_eq!(names_of(&first), ["user/1", "user/2"]);
    assert_eq!(first["next"], "user/2");
    // The cursor's own key goes, and one before it comes.
    assert_eq!(store.send("DELETE", "/keys/user%2F2", &[], &[]).status, 204);
    put(&store, "user%2F0", "v");
    let second = list(first["next"].clone());
    assert_eq!(names_of(&second), ["user/a/b", "user/é"]);
    assert_eq!(second["next"], Json::Null, "{second}");
    let page = |path: &str| store.get(path).json()["keys"].as_array().map(Vec::len);
    assert_eq!(page("/keys?prefix=nothing"), Some(0));
    assert_eq!(page("/keys?prefix=us"), Some(6));
}

#[test]
fn what_a_store_does_not_take_it_says_and_changes_nothing() {
    let node = kv().class("probe", "guest-probe.wasm").start();
    let store = node.actor("kv/a");
    put(&store, "k", "v");
    let long = "k".repeat(513);
    let rows = [
        ("PUT", "/keys/k?ttl=5".to_owned(), "no query parameter \"ttl\""),
        ("PUT", "/keys/k?ttl-ms=0".to_owned(), "`ttl-ms`: \"0\" is no number from 1 to"),
        ("PUT", "/keys/k?ttl-ms=-5".to_owned(), "`ttl-ms`"),
        ("PUT", "/keys/k?expect=".to_owned(), "`expect`"),
        ("PUT", "/keys/k?expect=0".to_owned(), "`expect`"),
        ("PUT", "/keys/k?expect=1&expect=1".to_owned(), "`expect` is given 2 times"),
        ("PUT", "/keys/k?durable=yes".to_owned(), "`durable`"),
        ("PUT", "/keys/%FF".to_owned(), "no UTF-8"),
        ("PUT", format!("/keys/{long}"), "at most 512 bytes"),
        ("DELETE", "/keys/k?ttl-ms=5".to_owned(), "no query parameter \"ttl-ms\""),
        ("GET", "/keys/k?durable=true".to_owned(), "this takes none"),
        ("GET", "/keys?limit=1001".to_owned(), "`limit`"),
    ];
    for (method, path, says) in rows {
        let answer = store.send(method, &path, &[], b"");
        assert_eq!(answer.status, 400, "{method} {path}: {answer:?}");
        assert!(answer.says(&says.replace('"', "\\\"")), "{method} {path}: {answer:?}");
    }
    assert_eq!(store.post("/keys/k", "x").header("allow"), Some("GET, HEAD, PUT, DELETE"));
    for bytes in [1024 * 1024 + 1, 15 * 1024 * 1024] {
        let answer = store.send("PUT", "/keys/k", &[], &vec![0; bytes]);
        assert_eq!(answer.status, 413, "{answer:?}");
        assert!(answer.says("a value has at most 1048576 bytes"), "{answer:?}");
    }
    // What no client from outside can send, another actor can: an option said twice.
    let twice = json!({ "target": "kv/a", "method": "PUT", "path": "/keys/k?ttl-ms=5",
                        "headers": [["x-wasmkeep-kv-ttl-ms", "5"]] });
    let called = node.actor("probe/a").steps(json!([{ "op": "call", "calls": [twice] }])).remove(0);
    assert_eq!(called["status"], 400, "{called}");
    assert_eq!(store.get("/keys/k").text(), "v");
    assert_eq!(keys(&store), ["k"]);

    let large = vec![b'x'; 1024 * 1024];
    assert_eq!(store.send("PUT", "/keys/large", &[], &large).status, 204);
    assert!(store.get("/keys/large").body == large, "it comes back as it was");
    put(&store, &"k".repeat(512), "");
    assert_eq!(store.get(&format!("/keys/{}", "k".repeat(512))).text(), "");
}

#[test]
fn a_client_of_an_actor_that_is_no_store_is_told_so() {
    let node = kv().class("queue", "wasmkeep-example-queue.wasm").start();
    let ops = [
        json!({ "op": "get", "key": "k" }),
        json!({ "op": "set", "key": "k", "value": "v" }),
        json!({ "op": "delete", "key": "k" }),
        json!({ "op": "list", "prefix": "", "limit": 1 }),
    ];
    for op in ops {
        let answer = client(&node, "queue/a", op.clone());
        let failed = answer["failed"].as_str();
        assert!(
            failed.is_some_and(|how| how.contains("answered 404: try GET /")),
            "{op}: {answer}"
        );
    }
}

#[test]
fn a_front_uses_stores_and_queues_that_nobody_reaches_from_outside() {
    let node = Node::serve()
        .flag("--front", component("guest-front.wasm"))
        .class("kv", "wasmkeep-example-kv.wasm")
        .class("queue", "wasmkeep-example-queue.wasm")
        .flag("--access", "kv=internal")
        .flag("--access", "queue=internal")
        .start();
    let front = |path: &str, op: Json| node.client().post(path, op.to_string()).json();
    let set = json!({ "op": "set", "key": "k", "value": "v", "expect": "absent" });
    assert_eq!(front("/kv?store=kv/a", set.clone()), json!({ "ok": 1 }));
    assert_eq!(front("/kv?store=kv/a", set), json!({ "conflict": 1 }));
    let sent = front("/queue?queue=queue/a", json!({ "op": "send", "body": "m" }));
    assert_eq!(sent, json!({ "ok": 1 }));
    node.actor("kv/a").get("/keys/k").refused(403, "forbidden", "not-run");
}

#[test]
fn what_is_set_durably_is_on_disk_before_the_answer() {
    let disk = Disk::new();
    let node = disk.under(kv()).start();
    let store = node.actor("kv/a");
    put(&store, "k", "v");
    let synced = |done: &[String]| {
        let answer = done.iter().position(|line| line.starts_with("send HTTP/1.1 "));
        let before = &done[..answer.unwrap_or_else(|| panic!("no answer in {done:#?}"))];
        before.iter().any(|line| line.starts_with("fsync ") && line.ends_with(".db-wal"))
    };
    disk.done();
    put(&store, "k", "w");
    assert!(!synced(&disk.done()), "not asked to be durable");
    put(&store, "k?durable=true", "x");
    assert!(synced(&disk.done()));
    let set = json!({ "op": "set", "key": "k", "value": "y", "durable": true });
    node.actor("sdk/client").get("/ran").json();
    disk.done();
    assert_eq!(client(&node, "kv/a", set), json!({ "ok": 4 }));
    assert!(synced(&disk.done()), "as the client asks for it");
    assert_eq!(store.send("DELETE", "/keys/k?durable=true", &[], &[]).status, 204);
    assert!(synced(&disk.done()));
}
