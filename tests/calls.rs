//! Calls between actors: who is told what, and what a call that has no answer says.

use serde_json::{Value as Json, json};

use crate::support::{Actor, DONE, Node, eventually, in_parallel, now_ms};

const MIB: usize = 1024 * 1024;

/// One call, from this actor.
#[track_caller]
fn call(from: &Actor, call: Json) -> Json {
    from.steps(json!([{ "op": "call", "calls": [call] }])).remove(0)
}

/// Several calls at once, from this actor.
#[track_caller]
fn call_many(from: &Actor, calls: &[Json]) -> Vec<Json> {
    let many = from.steps(json!([{ "op": "call-many", "calls": calls }])).remove(0);
    many.as_array().expect("one result for each").clone()
}

/// The path that makes the probe call `target` and ask for `path` there.
fn on_to(target: &str, path: &str) -> String {
    let encoded =
        |text: &str| -> String { text.bytes().map(|byte| format!("%{byte:02x}")).collect() };
    format!("/call?target={}&path={}", encoded(target), encoded(path))
}

/// The body of a call's answer.
#[track_caller]
fn body(answer: &Json) -> Json {
    let text = answer["body"].as_str().unwrap_or_else(|| panic!("no body in {answer}"));
    serde_json::from_str(text).unwrap_or_else(|_| panic!("no JSON in {answer}"))
}

fn header<'a>(answer: &'a Json, name: &str) -> Option<&'a str> {
    let headers = answer["headers"].as_array()?;
    headers.iter().find(|header| header[0] == name).and_then(|header| header[1].as_str())
}

/// Asserts that the host answered in the callee's place, as it does to a client.
#[track_caller]
fn refused(answer: &Json, status: u16, reason: &str, event: &str) {
    assert_eq!(answer["status"], status, "{answer}");
    assert_eq!(header(answer, "x-wasmkeep-reason"), Some(reason), "{answer}");
    assert_eq!(header(answer, "x-wasmkeep-event"), Some(event), "{answer}");
    assert_eq!(header(answer, "content-type"), Some("application/json"), "{answer}");
    assert_eq!(header(answer, "retry-after"), (status == 503).then_some("1"), "{answer}");
    assert_eq!(body(answer)["reason"], reason, "{answer}");
}

#[track_caller]
fn failed(answer: &Json, how: &str) {
    assert_eq!(answer["error"], "failed", "{answer}");
    assert!(answer["message"].as_str().is_some_and(|text| text.contains(how)), "{how}: {answer}");
}

#[test]
fn a_call_is_a_request_and_brings_back_the_answer() {
    let node = Node::probe().class("other", "guest-probe.wasm").start();
    let answer = call(
        &node.actor("probe/a"),
        json!({ "target": "other/b", "method": "PATCH", "path": "/echo?x=%20y", "body": "text",
                "headers": [["X-Mine", "1"], ["accept", "text/plain"]] }),
    );
    assert_eq!(answer["status"], 200, "{answer}");
    let seen = body(&answer);
    assert_eq!(seen["method"], "PATCH");
    assert_eq!((&seen["path"], &seen["query"]), (&json!("/echo"), &json!("x=%20y")));
    assert_eq!(seen["body_utf8"], "text");
    assert_eq!(header(&seen, "x-mine"), Some("1"));
    assert_eq!(header(&seen, "accept"), Some("text/plain"));
    assert_eq!(header(&seen, "x-wasmkeep-caller"), Some("default/probe/a"));
    for status in [204, 301, 404, 418, 500, 599] {
        let path = format!("/status?code={status}");
        let answer = call(&node.actor("probe/a"), json!({ "target": "other/b", "path": path }));
        assert_eq!(answer["status"], status, "{answer}");
        assert_eq!(header(&answer, "x-wasmkeep-reason"), None, "the guest's own answer");
    }
    let answer = call(&node.actor("probe/a"), json!({ "target": "other/b", "path": "/headers" }));
    assert_eq!(header(&answer, "x-probe"), Some("kept"));
    assert_eq!(header(&answer, "x-wasmkeep-evil"), None);
    let cookies = answer["headers"].as_array().expect("a list").iter();
    assert_eq!(cookies.filter(|header| header[0] == "set-cookie").count(), 2);
}

#[test]
fn the_callee_is_told_who_calls_and_nobody_can_forge_it() {
    let node = Node::probe().start();
    for (encoded, told) in [
        ("room%201", "room%201"),
        ("100%25", "100%25"),
        ("%C3%A9", "%C3%A9"),
        ("a%3Fb", "a%3Fb"),
        ("plain-1_2.3~4", "plain-1_2.3~4"),
    ] {
        let actor = node.actor(&format!("probe/{encoded}"));
        let answer = call(
            &actor,
            json!({ "target": "probe/b", "path": "/echo", "headers": [
                ["x-wasmkeep-caller", "default/probe/admin"], ["X-WasmKeep-Caller", "a"] ] }),
        );
        let seen = body(&answer);
        let callers: Vec<&Json> = seen["headers"]
            .as_array()
            .expect("a list")
            .iter()
            .filter(|header| header[0] == "x-wasmkeep-caller")
            .collect();
        assert_eq!(callers, [&json!(["x-wasmkeep-caller", format!("default/probe/{told}")])]);
    }
    let forged = [("x-wasmkeep-caller", "default/probe/a"), ("X-WASMKEEP-CALLER", "b")];
    let seen = node.actor("probe/b").send("GET", "/echo", &forged, &[]).json();
    assert_eq!(header(&seen, "x-wasmkeep-caller"), None, "from outside nobody calls");
    let through = node.actor("probe/a").send("GET", &on_to("probe/b", "/echo"), &forged, &[]);
    let seen = body(&through.json());
    assert_eq!(header(&seen, "x-wasmkeep-caller"), Some("default/probe/a"));
}

#[test]
fn four_of_the_hosts_headers_pass_on_calls_and_no_others() {
    let node = Node::probe().start();
    let pass = [
        "x-wasmkeep-kv-expect",
        "x-wasmkeep-kv-ttl-ms",
        "X-Wasmkeep-Kv-Durable",
        "x-wasmkeep-queue-delay-ms",
    ];
    let dropped = [
        "x-wasmkeep-kv",
        "x-wasmkeep-kv-expect2",
        "x-wasmkeep-reason",
        "x-wasmkeep-event",
        "x-wasmkeep-upgrade",
        "X-WASMKEEP-anything",
        "connection",
        "transfer-encoding",
        "te",
        "upgrade",
    ];
    let all = pass.iter().chain(&dropped).map(|name| json!([name, "1"]));
    let all: Vec<Json> = all.collect();
    let answer = call(
        &node.actor("probe/a"),
        json!({ "target": "probe/b", "path": "/echo", "headers": all }),
    );
    let seen = body(&answer);
    for name in pass {
        assert_eq!(header(&seen, &name.to_ascii_lowercase()), Some("1"), "{name}: {seen}");
    }
    for name in dropped {
        assert_eq!(header(&seen, &name.to_ascii_lowercase()), None, "{name}: {seen}");
    }
    let outside: Vec<(&str, &str)> = pass.iter().map(|name| (*name, "1")).collect();
    let seen = node.actor("probe/b").send("GET", "/echo", &outside, &[]).json();
    for name in pass {
        assert_eq!(header(&seen, &name.to_ascii_lowercase()), None, "{name} from outside");
    }
}

#[test]
fn what_is_no_address_is_invalid_and_nothing_runs() {
    let node = Node::probe().class("closed", "guest-probe.wasm").start();
    let long = format!("probe/{}", "n".repeat(257));
    let wrong = [
        "",
        "/",
        "probe",
        "probe/",
        "/a",
        "probe/a/b",
        "probe//a",
        "probe/.",
        "probe/..",
        "Probe/a",
        "pro be/a",
        "absent/a",
        "_front/main",
        "default/probe/a",
        "probe/a\nb",
        "probe/\u{7f}",
        " probe/a",
        &long,
    ];
    for target in wrong {
        let answer = call(&node.actor("probe/a"), json!({ "target": target }));
        assert_eq!(answer, json!({ "error": "invalid-address" }), "{target:?}");
    }
    assert_eq!(node.databases().len(), 1);
    // The name is taken as it is: this is an actor whose name holds a percent sign.
    let answer = call(&node.actor("probe/a"), json!({ "target": "probe/%61", "path": "/address" }));
    assert_eq!(body(&answer)["name"], "%61");
}

#[test]
fn a_call_that_would_wait_for_itself_is_reentrant() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    let reentrant = json!({ "error": "reentrant" });
    assert_eq!(call(&actor, json!({ "target": "probe/a" })), reentrant);
    let back = on_to("probe/a", "/hello");
    let two = call(&actor, json!({ "target": "probe/b", "path": back }));
    assert_eq!(body(&two), reentrant);
    let three = call(&actor, json!({ "target": "probe/b", "path": on_to("probe/c", &back) }));
    assert_eq!(body(&body(&three)), reentrant);
    let middle = on_to("probe/c", &on_to("probe/b", "/hello"));
    let middle = call(&actor, json!({ "target": "probe/b", "path": middle }));
    assert_eq!(body(&body(&middle)), reentrant, "the second of the chain waits too");
    let many = call_many(&actor, &[json!({ "target": "probe/a" }), json!({ "target": "probe/b" })]);
    assert_eq!(many[0], reentrant);
    assert_eq!(many[1]["body"], "hello");
    assert_eq!(actor.get("/hello").text(), "hello");
}

#[test]
fn what_is_no_request_fails_and_nothing_runs() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    let rows = [
        json!({ "method": "" }),
        json!({ "method": "GET /" }),
        json!({ "method": "G\nT" }),
        json!({ "path": "" }),
        json!({ "path": "hello" }),
        json!({ "path": "/a b" }),
        json!({ "path": "/a\r\nx: y" }),
        json!({ "path": "/a#b" }),
        json!({ "path": "/a<b" }),
        json!({ "path": format!("/{}", "a".repeat(70_000)) }),
        json!({ "headers": [["", "x"]] }),
        json!({ "headers": [["a b", "x"]] }),
        json!({ "headers": [["a:", "x"]] }),
        json!({ "headers": [["é", "x"]] }),
        json!({ "headers": [["a", "x\r\ny: z"]] }),
        json!({ "headers": [["a", "x\u{0}"]] }),
        json!({ "headers": [["a".repeat(70_000), "x"]] }),
        json!({ "headers": [["a", "x".repeat(33_000)]] }),
    ];
    for mut row in rows {
        row["target"] = json!("probe/b");
        failed(&call(&actor, row), "nothing ran");
    }
    assert_eq!(node.databases().len(), 1, "a callee was created");
}

#[test]
fn what_the_host_answers_in_the_callees_place_comes_as_to_a_client() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    for (target, path, reason) in [
        ("probe/b", "/trap", "trapped"),
        ("probe/b", "/panic", "trapped"),
        ("probe/b", "/loop", "cpu-exceeded"),
        ("probe/b", "/nothing", "no-response"),
        ("probe/badinit-1", "/hello", "init-failed"),
    ] {
        let answer = call(&actor, json!({ "target": target, "path": path }));
        refused(&answer, 500, reason, "ran");
    }
    let broken_off = json!({ "target": "probe/b", "path": "/stream-trap?ms=300" });
    failed(&call(&actor, broken_off), "the callee ran");
    assert_eq!(call(&actor, json!({ "target": "probe/b" }))["body"], "hello");
}

#[test]
fn a_callee_without_room_is_refused_unrun() {
    let node = Node::probe().flag("--max-instances", "1").start();
    let answer = call(&node.actor("probe/a"), json!({ "target": "probe/b" }));
    refused(&answer, 503, "no-capacity", "not-run");
    assert_eq!(node.databases().len(), 1);
}

#[test]
fn a_callee_with_a_full_queue_is_refused_unrun() {
    const CALLERS: usize = 66;
    let node = Node::probe().start();
    let mut running = node.busy("probe/full", 5000);
    let targets = "&target=probe/full".repeat(16);
    let mut callers: Vec<_> = (0..CALLERS)
        .map(|i| node.ask(&format!("/actor/probe/caller{i}/call-many?path=/memory{targets}")))
        .collect();
    assert_eq!(running.chunks().expect("a regular end"), DONE);
    let answers = callers.iter_mut().flat_map(|client| {
        let answers = client.answer().expect("an answer").json();
        answers.as_array().expect("one result for each").clone()
    });
    let (ran, full): (Vec<Json>, Vec<Json>) = answers.partition(|answer| answer["status"] == 200);
    assert!(!full.is_empty(), "all {} calls found room", ran.len());
    full.iter().for_each(|answer| refused(answer, 429, "queue-full", "not-run"));
    let asked = node.actor("probe/full").get("/memory").text();
    assert_eq!(asked, (ran.len() + 1).to_string(), "each that was answered ran, and no other");
}

#[test]
fn a_call_gives_up_while_its_caller_can_still_answer() {
    let node = Node::probe().flag("--wall-budget-ms", "2000").start();
    let actor = node.actor("probe/a");
    let answers = actor.steps(json!([
        { "op": "call", "calls": [{ "target": "probe/slow", "path": "/wait?ms=1900" }] },
        { "op": "call", "calls": [{ "target": "probe/other" }] },
        { "op": "call-many", "calls": [{ "target": "probe/other" }] },
        { "op": "exec", "sql": "CREATE TABLE t (x)" },
    ]));
    let timeout = json!({ "error": "timeout" });
    assert_eq!(answers[0], timeout);
    assert_eq!(answers[1], timeout, "no time is left for another call");
    assert_eq!(answers[2], json!([timeout]));
    assert_eq!(answers[3], json!({ "changed": 0 }), "and time is left for the rest");
    // The callee had started, and ran to its end.
    eventually("it ended", || {
        node.metric("wasmkeep_events_total", &[r#"kind="call""#, "answered"]) == 1.0
    });
    assert_eq!(node.actor("probe/other").get("/memory").text(), "1");
}

#[test]
fn a_queued_call_whose_caller_timed_out_is_not_run() {
    let node = Node::probe().flag("--wall-budget-ms", "2000").start();
    let mut busy = node.busy("probe/b", 1900);
    let answer = call(&node.actor("probe/a"), json!({ "target": "probe/b", "path": "/memory" }));
    assert_eq!(answer, json!({ "error": "timeout" }));
    assert_eq!(busy.chunks().expect("a regular end"), DONE);
    assert_eq!(node.actor("probe/b").get("/memory").text(), "1", "the call ran");
    assert_eq!(node.metric("wasmkeep_events_total", &[r#"kind="call""#, "skipped"]), 1.0);
}

#[test]
fn a_client_that_leaves_stops_no_call() {
    let node = Node::probe().start();
    let leaving = node.ask(&format!("/actor/probe/a{}", on_to("probe/b", "/wait?ms=400")));
    eventually("it waits in its call", || node.metric("wasmkeep_resident_actors", &[]) == 2.0);
    drop(leaving);
    eventually("the call was answered", || {
        node.metric("wasmkeep_calls_total", &[r#"outcome="answered""#]) == 1.0
    });
}

#[test]
fn bodies_of_calls_hold_16_mib_and_no_byte_more() {
    let node = Node::probe().flag("--cpu-budget-ms", "20000").flag("--memory-mb", "512").start();
    let actor = node.actor("probe/a");
    let sends = |size: usize| {
        call(
            &actor,
            json!({ "target": "probe/b", "method": "POST", "path": "/echo", "body-size": size }),
        )
    };
    assert_eq!(body(&sends(16 * MIB))["body_len"], 16 * MIB);
    failed(&sends(16 * MIB + 1), "nothing ran");
    let gets = |chunks: usize, size: usize| {
        let path = format!("/stream?chunks={chunks}&size={size}");
        call(&actor, json!({ "target": "probe/b", "path": path }))
    };
    assert_eq!(gets(16, MIB)["body_len"], 16 * MIB);
    assert_eq!(gets(1, 16 * MIB)["body_len"], 16 * MIB);
    failed(&gets(1, 16 * MIB + 1), "the callee ran");
    failed(&gets(17, MIB), "the callee ran");
    assert_eq!(call(&actor, json!({ "target": "probe/b" }))["body"], "hello");
}

#[test]
fn a_call_from_on_init_on_alarm_and_a_streamed_body_works() {
    let node = Node::probe().start();
    let actor = node.actor("probe/callinit-1");
    let saw = actor.query("SELECT saw FROM init_saw");
    let saw: Json = serde_json::from_str(saw[0][0].as_str().expect("text")).expect("JSON");
    assert_eq!(saw[0], json!({ "tenant": "default", "class": "probe", "name": "callinit-1" }));
    assert_eq!(saw[1]["status"], 200, "{saw}");
    assert_eq!(header(&body(&saw[1]), "x-wasmkeep-caller"), Some("default/probe/callinit-1"));

    let actor = node.actor("probe/alarmed");
    actor.on_alarm(json!([
        { "op": "address" },
        { "op": "call", "calls": [{ "target": "probe/called", "path": "/echo" }] },
        { "op": "call", "calls": [{ "target": "probe/alarmed" }] },
    ]));
    actor.set_alarm_in(0);
    actor.ran(1);
    eventually("it has called", || !actor.alarms_said().is_empty());
    let said = actor.alarms_said().remove(0);
    assert_eq!(said[0]["name"], "alarmed");
    assert_eq!(header(&body(&said[1]), "x-wasmkeep-caller"), Some("default/probe/alarmed"));
    assert_eq!(said[2], json!({ "error": "reentrant" }));

    let streamed = node.actor("probe/streams").get("/stream-call?target=probe/called&path=/echo");
    let text = streamed.text();
    let answer = text.strip_prefix("chunk").unwrap_or_else(|| panic!("{text}"));
    let answer: Json = serde_json::from_str(answer).expect("JSON");
    assert_eq!(header(&body(&answer), "x-wasmkeep-caller"), Some("default/probe/streams"));
}

#[test]
fn call_many_answers_each_entry_in_its_place() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    let answers = call_many(
        &actor,
        &[
            json!({ "target": "probe/b", "path": "/wait?ms=300" }),
            json!({ "target": "absent/x" }),
            json!({ "target": "probe/c" }),
            json!({ "target": "probe/a" }),
            json!({ "target": "probe/d", "path": "/trap" }),
            json!({ "target": "probe/c", "path": "no-slash" }),
            json!({ "target": "probe/e", "path": "/status?code=404" }),
        ],
    );
    assert_eq!(answers.len(), 7);
    assert_eq!(answers[0]["body"], "300");
    assert_eq!(answers[1], json!({ "error": "invalid-address" }));
    assert_eq!(answers[2]["body"], "hello");
    assert_eq!(answers[3], json!({ "error": "reentrant" }));
    refused(&answers[4], 500, "trapped", "ran");
    failed(&answers[5], "nothing ran");
    assert_eq!(answers[6]["status"], 404);
    assert_eq!(call_many(&actor, &[]), [] as [Json; 0]);
}

#[test]
fn call_many_starts_sixteen_together_and_refuses_seventeen() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    let spans = |count: usize| -> Vec<Json> {
        (0..count)
            .map(|i| json!({ "target": format!("probe/c{i}"), "path": "/span?ms=400" }))
            .collect()
    };
    let answers: Vec<Json> = call_many(&actor, &spans(16)).iter().map(body).collect();
    let began = answers.iter().map(|span| span["began"].as_i64().expect("ms")).max();
    let ended = answers.iter().map(|span| span["ended"].as_i64().expect("ms")).min();
    assert!(began < ended, "one had ended before another began: {answers:?}");
    let started = node.metric("wasmkeep_events_total", &[r#"kind="call""#]);
    let refused = call_many(&actor, &spans(17));
    assert_eq!(refused.len(), 17);
    for answer in &refused {
        failed(answer, "nothing ran");
    }
    assert_eq!(node.metric("wasmkeep_events_total", &[r#"kind="call""#]), started);
}

#[test]
fn call_many_to_one_actor_is_served_one_after_the_other() {
    let node = Node::probe().start();
    let span = json!({ "target": "probe/b", "path": "/span?ms=50" });
    let answers = call_many(&node.actor("probe/a"), &[span.clone(), span.clone(), span]);
    let mut spans: Vec<(i64, i64)> = answers
        .iter()
        .map(|answer| {
            let span = body(answer);
            (span["began"].as_i64().expect("ms"), span["ended"].as_i64().expect("ms"))
        })
        .collect();
    spans.sort_unstable();
    assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "two at once: {spans:?}");
}

#[test]
fn the_bodies_of_call_many_together_hold_16_mib() {
    let node = Node::probe().flag("--cpu-budget-ms", "20000").flag("--memory-mb", "512").start();
    let actor = node.actor("probe/a");
    let sends = |name: &str, size: usize| json!({ "target": name, "method": "POST", "path": "/echo", "body-size": size });
    let half = 8 * MIB;
    for answer in call_many(&actor, &[sends("probe/b", half), sends("probe/c", half)]) {
        assert_eq!(body(&answer)["body_len"], half);
    }
    for answer in call_many(&actor, &[sends("probe/b", half), sends("probe/c", half + 1)]) {
        failed(&answer, "nothing ran");
    }
    let gets = |name: &str, size: usize| json!({ "target": name, "path": format!("/stream?chunks=1&size={size}") });
    for answer in call_many(&actor, &[gets("probe/b", half), gets("probe/c", half)]) {
        assert_eq!(answer["body_len"], half);
    }
    let over = call_many(&actor, &[gets("probe/b", half), gets("probe/c", half + 1)]);
    assert!(over.iter().any(|answer| answer["error"] == "failed"), "{over:?}");
    assert!(over.iter().filter(|answer| answer["body_len"].is_u64()).count() <= 1, "{over:?}");
}

#[test]
fn call_many_has_one_deadline() {
    let node = Node::probe().flag("--wall-budget-ms", "2000").start();
    let answers = call_many(
        &node.actor("probe/a"),
        &[
            json!({ "target": "probe/b", "path": "/wait?ms=1900" }),
            json!({ "target": "probe/c" }),
            json!({ "target": "probe/d", "path": "/wait?ms=1900" }),
        ],
    );
    let timeout = json!({ "error": "timeout" });
    assert_eq!((&answers[0], &answers[2]), (&timeout, &timeout));
    assert_eq!(answers[1]["body"], "hello");
}

#[test]
fn five_hundred_actors_that_wait_in_calls_hold_nobody_up() {
    const CALLERS: usize = 500;
    let node = Node::probe().flag("--max-instances", "1200").start();
    let path = on_to_each(CALLERS, "/wait?ms=4000");
    let mut waiting: Vec<_> = path.iter().map(|path| node.ask(path)).collect();
    eventually("all wait", || node.metric("wasmkeep_resident_actors", &[]) == 2.0 * CALLERS as f64);
    let since = now_ms();
    let answered = in_parallel(4, |worker| {
        let actor = node.actor(&format!("probe/other{worker}"));
        (0..50).filter(|_| actor.get("/hello").text() == "hello").count()
    });
    assert_eq!(answered.iter().sum::<usize>(), 200);
    println!("200 answers beside {CALLERS} waiting calls took {} ms", now_ms() - since);
    for client in &mut waiting {
        assert_eq!(client.answer().expect("an answer").json()["body"], "4000");
    }
}

/// For each of so many callers, the target that has it call an actor of its own.
fn on_to_each(callers: usize, path: &str) -> Vec<String> {
    let target = |i| format!("/actor/probe/caller{i}{}", on_to(&format!("probe/callee{i}"), path));
    (0..callers).map(target).collect()
}
