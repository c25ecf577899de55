use crate::support::{Browser, Node, Setup, WebSocket, component, eventually};

/// As the README serves it.
fn todo() -> Setup {
    Node::serve()
        .flag("--front", component("wasmkeep-example-todo-front.wasm"))
        .class("account", "wasmkeep-example-todo-account.wasm")
        .class("list", "wasmkeep-example-todo-list.wasm")
        .flag("--access", "account=internal")
        .flag("--access", "list=internal")
}

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

#[test]
fn somebody_signs_up_and_two_windows_show_one_list() {
    let node = todo().start();
    let url = format!("http://{}/", node.address());
    let (first, second) = (Browser::start(), Browser::start());
    first.open(&url);
    first.type_into("form[action='/sign-up'] input", "Ann");
    first.click("form[action='/sign-up'] button");
    first.shows("Welcome, ann");
    let key = first.run("return document.getElementById('key').innerText");
    let key = key.as_str().expect("a key").to_owned();
    first.click("p a");
    first.type_into("input[name='text']", "<milk> & bread");
    first.click("form[action='/items'] button");
    first.shows("<milk> & bread");

    second.open(&url);
    second.type_into("form[action='/sign-in'] input[name='name']", "ann");
    second.type_into("form[action='/sign-in'] input[name='key']", &key);
    second.click("form[action='/sign-in'] button");
    second.shows("<milk> & bread");
    eventually("both windows listen", || node.metric("wasmkeep_sockets", &[]) == 2.0);
    second.picture("todo");
    second.click("button[aria-label^='Done']");
    eventually("the other window shows it", || {
        first.run("return document.querySelectorAll('li.done').length") == 1
    });
    first.click("button[aria-label^='Delete']");
    eventually("and this", || second.run("return document.querySelectorAll('li').length") == 0);
    first.click("form[action='/sign-out'] button");
    first.shows("Sign in");
    for browser in [&first, &second] {
        assert_eq!(browser.errors(), Vec::<String>::new());
    }
}

#[test]
fn a_list_is_reached_by_whom_it_belongs_to_alone() {
    let node = todo().start();
    let client = node.client();
    for path in ["/actor/list/ann/items", "/actor/account/ann/check"] {
        node.get(path).refused(403, "forbidden", "not-run");
    }
    let post = |path: &str, headers: &[(&str, &str)], body: &str| {
        client.send("POST", path, &[headers, &[FORM]].concat(), body.as_bytes())
    };
    let signed_up = post("/sign-up", &[], "name=ann");
    assert_eq!(signed_up.status, 200);
    let cookie = signed_up.header("set-cookie").expect("a session");
    assert!(cookie.contains("; HttpOnly; SameSite=Lax"), "{cookie}");
    let cookie = cookie.split(';').next().expect("name and value").to_owned();
    let ann = ("cookie", &*cookie);

    assert_eq!(post("/items", &[ann], "text=milk").status, 303);
    assert!(client.send("GET", "/", &[ann], &[]).text().contains("milk"));
    assert!(!node.get("/").text().contains("milk"));
    assert_eq!(post("/items", &[], "text=bread").status, 401);
    let forged = cookie.replace("ann.", "bob.");
    assert_eq!(post("/items", &[("cookie", &forged)], "text=bread").status, 401);
    let another = [ann, ("origin", "http://evil.example")];
    assert_eq!(post("/items", &another, "text=bread").status, 403);
    let empty = post("/items", &[ann], "text=");
    assert_eq!(empty.status, 422);
    assert!(empty.says("1 to 200 characters"), "{empty:?}");
    assert_eq!(post("/sign-up", &[], "name=ann").status, 409);
    assert_eq!(post("/sign-up", &[], "name=a/b").status, 422);
    assert_eq!(post("/sign-in", &[], "name=ann&key=guess").status, 403);
    assert_eq!(client.send("POST", "/sign-in", &[], b"{}").status, 415);

    let live = |headers: &str| WebSocket::try_open_at(node.address(), "/live", headers);
    assert_eq!(live("").err().expect("it is refused").status, 401);
    let origin = "origin: http://evil.example\r\n";
    let answer = live(&format!("cookie: {cookie}\r\n{origin}")).err().expect("it is refused");
    assert_eq!(answer.status, 403);
    let mut socket = live(&format!("cookie: {cookie}\r\n")).expect("it is opened");
    assert_eq!(post("/items/1/toggle", &[ann], "").status, 303);
    assert_eq!(socket.next_text(), "changed");

    assert_eq!(post("/sign-out", &[ann], "").status, 303);
    assert_eq!(post("/items", &[ann], "text=bread").status, 401);
    // A name that somebody only tried has no database.
    assert_eq!(post("/sign-in", &[], "name=nobody&key=guess").status, 403);
    eventually("its database is deleted", || node.databases().len() == 2);
}
