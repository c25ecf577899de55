use serde_json::{Value as Json, json};

use super::sdk;
use crate::support::{Node, eventually};

/// What the client of the service on `sdk/callee` says.
#[track_caller]
fn ask(node: &Node, method: &str, n: u32) -> Json {
    let path = format!("/ask?target=sdk/callee&method={method}&n={n}");
    node.actor("sdk/caller").post(&path, "").json()
}

#[test]
fn a_call_of_a_service_gives_a_value_or_the_services_own_error() {
    let node = sdk().start();
    let deposited = json!({ "ok": { "balance": 7, "note": "from é" } });
    assert_eq!(ask(&node, "deposit", 7), deposited);
    assert_eq!(ask(&node, "withdraw", 5), json!({ "ok": null }));
    assert_eq!(ask(&node, "balance", 0), json!({ "ok": 2 }));
    assert_eq!(ask(&node, "withdraw", 3), json!({ "own": { "TooLittle": { "left": 2 } } }));
}

#[test]
fn calls_of_a_service_go_on_between_the_languages() {
    let node = sdk().class("other", "guest-sdk-ts.wasm").errors_are_fine().start();
    let failed = |how: &str| json!({ "failed": how, "retry": false });
    for (caller, callee) in [("sdk/caller", "other/callee"), ("other/caller", "sdk/callee")] {
        let ask = |method: &str, n: u32| {
            let path = format!("/ask?target={callee}&method={method}&n={n}");
            node.actor(caller).post(&path, "").json()
        };
        let deposited = json!({ "ok": { "balance": 7, "note": "from é" } });
        assert_eq!(ask("deposit", 7), deposited, "{caller}");
        assert_eq!(ask("withdraw", 5), json!({ "ok": null }), "{caller}");
        assert_eq!(ask("balance", 0), json!({ "ok": 2 }), "{caller}");
        let own = json!({ "own": { "TooLittle": { "left": 2 } } });
        assert_eq!(ask("withdraw", 3), own, "{caller}");
        assert_eq!(ask("taken", 0), failed("the called actor answered 409: taken"), "{caller}");
        let trapped = "the host answered 500 in place of the called actor: trapped";
        assert_eq!(ask("trap", 0), failed(trapped), "{caller}");
    }
}

#[test]
fn other_errors_of_the_callee_and_refusals_of_the_host_are_told_apart() {
    let node = sdk().errors_are_fine().start();
    let failed = |how: &str, retry: bool| json!({ "failed": how, "retry": retry });
    let taken = "the called actor answered 409: taken";
    assert_eq!(ask(&node, "taken", 0), failed(taken, false));
    let trapped = "the host answered 500 in place of the called actor: trapped";
    assert_eq!(ask(&node, "trap", 0), failed(trapped, false));
    let caller = node.actor("sdk/caller");
    let nowhere = caller.post("/ask?target=nowhere/a&method=balance", "").json();
    let says = "no such address: a call goes to `class/name`, a class of this app";
    assert_eq!(nowhere, failed(says, false));
    let itself = caller.post("/ask?target=sdk/caller&method=balance", "").json();
    assert!(itself["failed"].as_str().is_some_and(|how| how.contains("waiting for this call")));
}

#[test]
fn a_callee_without_a_place_is_a_refusal_that_may_be_retried() {
    // The caller has the only seat.
    let node = sdk().flag("--max-instances", "1").start();
    let refused = ask(&node, "balance", 0);
    let how = "the host answered 503 in place of the called actor: no-capacity";
    assert_eq!(refused, json!({ "failed": how, "retry": true }));
}

#[test]
fn a_callee_whose_queue_is_full_is_a_refusal_that_may_be_retried() {
    let node = sdk().class("probe", "guest-probe.wasm").start();
    // The probe is no such service, which nobody learns while its queue is full.
    let _busy = node.busy("probe/callee", 8000);
    let target = "/actor/probe/callee/hello";
    let waiting: Vec<_> = (0..1100).map(|_| node.ask(target)).collect();
    let path = "/ask?target=probe/callee&method=balance";
    let full = json!({
        "failed": "the host answered 429 in place of the called actor: queue-full",
        "retry": true,
    });
    eventually("the queue is full", || {
        node.metric("wasmkeep_refusals_total", &["queue-full"]) > 0.0
    });
    assert_eq!(node.actor("sdk/caller").post(path, "").json(), full);
    drop(waiting);
}

#[test]
fn what_a_service_is_not_asked_with_is_said() {
    let node = sdk().start();
    let callee = node.actor("sdk/callee");
    let rows = [
        ("/Account/missing", "null", 404, "the service Account has no method"),
        ("/Account/deposit", "[1]", 400, "does not fit"),
        ("/Account/deposit", "[1,\"x\",2]", 400, "the request body"),
        ("/Account/deposit", "[1,", 400, "is not JSON"),
        ("/Account/balance", "[]", 400, "does not fit"),
        ("/Account", "null", 404, "this is the service Account"),
    ];
    for (path, body, status, says) in rows {
        let answer = callee.post(path, body);
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert!(answer.says(says), "{path}: {answer:?}");
    }
    assert_eq!(callee.post("/Account/deposit", "[2,\"x\"]").json()["balance"], 2);
    assert_eq!(callee.post("/Account/balance", "null").text(), "2");
}
