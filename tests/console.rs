//! The console: a page for operators, and who may use it.

use std::fs;
use std::io::Write;

use serde_json::{Value as Json, json};
use tempfile::NamedTempFile;

use crate::support::{Actor, Answer, Browser, Node, Setup, WebSocket, eventually};

const TOKEN: &str = "a-token-for-the-console";

/// A node with a console at an address of its own.
fn with_console(setup: Setup) -> (Setup, NamedTempFile) {
    let mut file = NamedTempFile::new().expect("make a file for the token");
    writeln!(file, "{TOKEN}").expect("write the token");
    (setup.flag("--admin-listen", "127.0.0.1:0").flag("--admin-token-file", file.path()), file)
}

/// Where the console is.
fn console(node: &Node) -> String {
    let mut url = None;
    eventually("the log says where the console is", || {
        let log = node.log();
        url = log.split("the console is at ").nth(1).map(|rest| {
            rest.split_whitespace().next().expect("an address").trim_end_matches('"').to_owned()
        });
        url.is_some()
    });
    url.expect("it was found")
}

fn ask(console: &Actor, token: Option<&str>, command: &str) -> Answer {
    let authorization = token.map(|token| format!("Bearer {token}")).unwrap_or_default();
    let headers = [("authorization", &*authorization)];
    let headers = if token.is_some() { &headers[..] } else { &[] };
    console.send("POST", "/command", headers, command.as_bytes())
}

fn client(node: &Node, url: &str) -> Actor {
    let (address, path) =
        url.strip_prefix("http://").and_then(|rest| rest.split_once('/')).expect("a URL");
    node.client_of(address.parse().expect("an address"), &format!("/{path}"))
}

const LIST: &str = r#"{"version":1,"command":"list","tenant":"default","app":"default","class":null,
                       "prefix":null,"min_bytes":0,"with_alarm":false,"limit":null}"#;

#[test]
fn a_command_needs_the_token_and_the_page_holds_nothing() {
    let (setup, _token) = with_console(Node::probe());
    let node = setup.start();
    node.actor("probe/a").get("/init");
    let console = client(&node, &console(&node));
    let page = console.get("");
    assert!(page.text().contains("<title>WasmKeep console</title>"));
    assert!(
        page.header("content-security-policy").is_some_and(|p| p.contains("default-src 'self'"))
    );
    for token in [None, Some(""), Some("another"), Some("a-token-for-the-consol")] {
        let answer = ask(&console, token, LIST);
        assert_eq!(answer.status, 401, "{token:?}");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        assert!(!answer.says("probe"));
    }
    let listed = ask(&console, Some(TOKEN), &LIST.replace('\n', ""));
    let lines: Vec<Json> =
        listed.text().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((&lines[0]["name"], &lines[0]["sockets"]), (&json!("a"), &json!(0)));
    assert_eq!(lines[1]["line"], "end");
    let wrong = ask(&console, Some(TOKEN), "no JSON");
    assert!(wrong.text().contains(r#""kind":"bad-request""#), "{wrong:?}");
    assert!(!node.log().contains(TOKEN));
}

#[test]
fn an_address_for_operators_serves_no_actor_and_the_public_one_no_console() {
    let (setup, _token) = with_console(Node::probe());
    let node = setup.start();
    let url = console(&node);
    let operators = client(&node, url.trim_end_matches("_wasmkeep/console"));
    operators.get("actor/probe/a/hello").refused(404, "not-found", "not-run");
    operators.get("").refused(404, "not-found", "not-run");
    assert_eq!(operators.get("_wasmkeep/ready").text(), "ready\n");
    node.get("/_wasmkeep/console").refused(404, "not-found", "not-run");
    assert_eq!(node.actor("probe/a").get("/hello").text(), "hello");
}

#[test]
fn an_operator_looks_at_actors_in_a_browser() {
    let (setup, _token) = with_console(Node::probe());
    let mut node = setup.start();
    let actor = node.actor("probe/tea%20%26%20%3Cb%3E");
    let steps = json!({ "steps": [
        { "op": "exec", "sql": "CREATE TABLE \"odd \"\"name\" (n, text)" },
        { "op": "exec", "sql": "INSERT INTO \"odd \"\"name\" VALUES (9007199254740993, '<i>bold</i>')" },
    ] });
    actor.post("/sql", steps.to_string()).text();
    actor.post("/alarm?in=3600000", "").text();
    let mut socket = WebSocket::open(&node, "probe/tea%20%26%20%3Cb%3E?name=ann");
    let browser = Browser::start();
    browser.open(&console(&node));
    browser.shows("Who are you?");
    browser.type_into("#token", "a-wrong-token-of-some-length");
    browser.click("main button");
    browser.shows("the token is another one");
    browser.type_into("#token", TOKEN);
    browser.click("main button");
    browser.shows("probe/tea & <b>");
    browser.picture("console-actors");
    browser.click("#rows a");
    browser.shows("1 WebSocket");
    browser.shows("Alarm");
    browser.click("#tables button:last-child");
    browser.shows("9007199254740993");
    browser.shows("<i>bold</i>");
    browser.run("document.getElementById('statement').value = 'DELETE FROM init_log'");
    browser.click("#sql button");
    browser.shows("only statements that change nothing");
    socket.echoes("seen in the tail");
    browser.shows("socket-message");
    browser.picture("console-actor");
    browser.run("location.hash = '#/node'");
    browser.shows("Takes traffic");
    eventually("charts are drawn", || {
        let drawn =
            "return [...document.querySelectorAll('svg path')].every(p => p.getAttribute('d'))";
        browser.run(drawn) == true
    });
    for _ in 0..50 {
        actor.get("/hello");
    }
    browser.shows("Events a second");
    browser.picture("console-node");
    // 401s to wrong tokens are told by the browser too.
    let errors = browser.errors();
    let unexpected: Vec<_> = errors.iter().filter(|error| !error.contains("401")).collect();
    assert!(unexpected.is_empty(), "{unexpected:?}");

    browser.run("location.hash = '#/tail'");
    browser.shows("What happens now");
    node.stop_cleanly();
    browser.shows("the node stopped");
}

#[test]
fn dev_prints_the_address_of_its_console() {
    let project = tempfile::tempdir().expect("make a folder");
    let counter = crate::support::component("wasmkeep-example-counter.wasm");
    let settings = format!(
        "[build]\ncommand = \"true\"\n[actors]\ncounter = {:?}\n",
        counter.to_str().expect("UTF-8")
    );
    fs::write(project.path().join("wasmkeep.toml"), settings).expect("write the settings");
    let node = Node::dev().home(project.path().canonicalize().expect("its path")).start();
    node.actor("counter/alice").get("/");
    let printed: Vec<String> = std::iter::from_fn(|| node.printed_line()).collect();
    let url = printed.iter().find_map(|line| line.strip_prefix("Look inside: "));
    let browser = Browser::start();
    browser.open(url.expect("the console's address"));
    browser.shows("counter/alice");
    assert_eq!(browser.run("return location.hash"), "#/actors", "the token is out of sight");
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn a_console_is_not_served_half() {
    let fails = |flag: &str, value: &str, says: &str| {
        let mut serve = crate::support::wasmkeep();
        serve.args(["serve", "--actor", "a=a.wasm", flag, value]);
        let output = serve.output().expect("start it");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains(says), "{said}");
    };
    fails("--admin-listen", "127.0.0.1:0", "--admin-token-file");
    fails("--admin-token-file", "/no/such/file", "--admin-listen");
    let short = NamedTempFile::new().expect("make a file");
    fs::write(short.path(), "short").expect("write it");
    let mut serve = crate::support::wasmkeep();
    serve.args(["serve", "--actor", "a=a.wasm", "--admin-listen", "127.0.0.1:0"]);
    serve.arg("--admin-token-file").arg(short.path());
    let output = serve.output().expect("start it");
    assert!(String::from_utf8_lossy(&output.stderr).contains("one word of 16 to 1,024"));
}
