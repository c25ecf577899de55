use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::types::Value;

use super::super::functions;
use super::*;

const FORMS: [&str; 10] = [
    "instr(?1, ?2)",
    "replace(?1, ?2, ?3)",
    "trim(?1, ?2)",
    "ltrim(?1, ?2)",
    "rtrim(?1, ?2)",
    "unhex(?1, ?2)",
    "json_patch(?1, ?2)",
    "hex(jsonb_patch(?1, ?2))",
    // The result is JSON for the next function.
    "json_object('a', json_patch(?1, ?2))",
    "typeof(jsonb_patch(?1, ?2)) || typeof(json_patch(?1, ?2)) || typeof(trim(?1, ?2))",
];

fn random(next: &mut impl FnMut(usize) -> usize) -> Value {
    let mut bytes = |pieces: &[&[u8]]| {
        let count = next(6);
        (0..count).flat_map(|_| pieces[next(pieces.len())].to_vec()).collect::<Vec<u8>>()
    };
    let text: &[&[u8]] = &[
        b"a",
        b"b",
        b"ab",
        b"A1",
        b" ",
        "é".as_bytes(),
        "e\u{301}".as_bytes(),
        "漢".as_bytes(),
        b"\0",
        b"\xff",
        b"\xc3",
        b"\xa9",
        b"\x80",
        b"\xe6\xbc",
    ];
    let json: &[&[u8]] = &[
        b"{\"a\":1}",
        b"{\"a\":{\"b\":2,\"c\":[1]}}",
        b"{a:null}",
        b"[1,2]",
        b"7",
        b"{",
        b"null",
        b"{\"a\":null,\"d\":\"x\"}",
    ];
    match bytes(&[b"0", b"1", b"2", b"3", b"4", b"5"]).first().unwrap_or(&b'0') {
        b'0' => Value::Text(String::from_utf8_lossy(&bytes(text)).into_owned()),
        b'1' | b'2' => Value::Blob(bytes(text)),
        b'3' => match bytes(&[b"0", b"1", b"2"]).as_slice() {
            [] => Value::Null,
            [b'0', ..] => Value::Integer(bytes(text).len() as i64 - 2),
            _ => Value::Real(1.5),
        },
        _ => {
            let one = bytes(json);
            Value::Text(String::from_utf8_lossy(&one).into_owned())
        }
    }
}

/// The same as SQLite's own to the byte, for any arguments.
#[test]
fn bounded_functions_answer_as_sqlites_own() {
    drop(Node::new());
    let plain = Connection::open_in_memory().expect("a connection");
    let ours = Connection::open_in_memory().expect("a connection");
    functions::install(&ours).expect("the functions");
    let mut state = 1_u64;
    let mut next = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % bound
    };
    let mut answered = 0;
    for _ in 0..20_000 {
        let arguments = [random(&mut next), random(&mut next), random(&mut next)];
        let form = FORMS[next(FORMS.len())];
        // As text too: a blob's bytes are how SQL gets text that is not UTF-8.
        let cast = ["?1", "CAST(?1 AS TEXT)"][next(2)];
        let sql = format!("SELECT {}, ?1, ?2, ?3", form.replace("?1", cast));
        let ask = |connection: &Connection| {
            let mut statement = connection.prepare_cached(&sql).expect("SQL");
            statement
                .query_row(arguments.each_ref(), |row| row.get_ref(0).map(|v| format!("{v:?}")))
                .map_err(|error| error.to_string())
        };
        let (expected, got) = (ask(&plain), ask(&ours));
        assert_eq!(got, expected, "{sql} of {arguments:?}");
        answered += usize::from(expected.is_ok_and(|answer| answer != "Null"));
    }
    assert!(answered > 8_000, "{answered}");
}

#[test]
fn no_arguments_make_a_function_run_away() {
    let node = Node::new();
    let mut database = node.open("a");
    let all = "(SELECT group_concat(char(0x4e00 + value), '') FROM json_each('[' || \
               (SELECT group_concat(i) FROM (WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL \
               SELECT i + 1 FROM n LIMIT 20000) SELECT i FROM n)) || ']'))";
    let a = "hex(zeroblob(4000000))";
    for sql in [
        format!("SELECT instr({a} || {a}, {a} || 'b')"),
        format!("SELECT length(replace({a} || {a}, {a} || 'b', 'x'))"),
        format!("SELECT trim({a}, {all} || '0')"),
        format!("SELECT rtrim({a}, {all} || '0')"),
        format!("SELECT unhex(replace({a}, '0', 'z'), {all} || 'z')"),
        format!("SELECT length(json_patch('[' || replace({a}, '0', '{{}},') || '1]', {a}))"),
    ] {
        let started = Instant::now();
        let _ = database.exec(&sql, vec![]);
        assert!(started.elapsed() < Duration::from_secs(5), "{sql}: {:?}", started.elapsed());
    }
    assert_eq!(database.text("SELECT trim('xxaxx', 'x')"), "a");
    assert_eq!(database.text("SELECT replace('aXbX', 'X', '--')"), "a--b--");
    assert_eq!(
        database.text("SELECT json_patch('{\"a\":1}', '{\"a\":null,\"b\":2}')"),
        "{\"b\":2}"
    );
}

#[test]
fn the_replaced_functions_serve_indexes_and_views() {
    let node = Node::new();
    let mut database = node.open("a");
    for sql in [
        "CREATE TABLE t (a, g AS (replace(a, 'x', 'y')) STORED)",
        "CREATE INDEX i ON t (instr(a, 'b'), trim(a, ' '))",
        "CREATE VIEW v AS SELECT json_patch(a, '{}') AS p FROM t WHERE json_valid(a)",
        "INSERT INTO t (a) VALUES ('abx'), (' xb '), ('{}')",
    ] {
        database.run_ok(sql);
    }
    assert_eq!(database.integer("SELECT count(*) FROM t WHERE instr(a, 'b') = 2"), 1);
    assert_eq!(database.rows("SELECT p FROM v").len(), 1);
    Box::new(database).close().expect("it closes");
    let plain = Connection::open(node.path("a")).expect("a plain connection");
    let check: String =
        plain.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("a check");
    assert_eq!(check, "ok");
}
