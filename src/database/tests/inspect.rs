//! What operators read: lists, statements that change nothing, plain copies.

use wasmkeep_supervisors::ports::{Catalogue, Databases, KnownName, Left, Meta};
use wasmkeep_supervisors::time::Timestamp;

use super::*;

fn inspected(node: &Node, name: &str) -> LocalDatabase {
    let mut database = node.open(name);
    database.begin_inspection(in_30_s(), Left::default());
    database
}

fn names(node: &Node) -> Vec<String> {
    let Address { tenant, class, .. } = address("a");
    let known = node.databases.actors(&tenant, &class).expect("a list");
    let name = |known: KnownName| match known {
        KnownName::Name(name) => name.to_string(),
        KnownName::Stem(stem) => format!("stem {stem}"),
    };
    known.into_iter().map(|known| name(known.name)).collect()
}

#[test]
fn an_operators_statement_runs_past_the_cpu_of_an_event_and_not_past_its_deadline() {
    let config =
        DatabaseConfig { sql_cpu_budget: Duration::from_millis(5), ..DatabaseConfig::default() };
    let node = Node::with(config);
    let count = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 500000) \
                 SELECT count(*) FROM c";
    let mut database = node.open("a");
    assert!(is_quota(&database.query(count, vec![]).expect_err("past the budget")));
    database.begin_inspection(in_30_s(), Left::default());
    let counted = database.query_read_only(count, vec![], 1).expect("no bound on CPU");
    assert_eq!(counted.set.rows, [[SqlValue::Integer(500_000)]]);
    database.begin_inspection(Instant::now() + Duration::from_millis(20), Left::default());
    let endless = count.replace("500000", "50000000000");
    assert!(is_quota(&database.query_read_only(&endless, vec![], 1).expect_err("too late")));
    database.begin_event(in_30_s());
    assert!(is_quota(&database.query(count, vec![]).expect_err("an event is bounded again")));
}

#[test]
fn rows_are_cut_at_their_number_and_at_the_size_of_a_result() {
    let node = Node::new();
    let mut database = inspected(&node, "a");
    let three = "VALUES (1), (2), (3)";
    for (most, rows, cut) in [(0, 0, true), (2, 2, true), (3, 3, false), (9, 3, false)] {
        let some = database.query_read_only(three, vec![], most).expect("rows");
        assert_eq!((some.set.rows.len(), some.cut), (rows, cut), "{most}");
    }
    let large = "SELECT zeroblob(6 * 1024 * 1024) UNION ALL SELECT 1 UNION ALL \
                 SELECT zeroblob(6 * 1024 * 1024) UNION ALL SELECT zeroblob(6 * 1024 * 1024)";
    let some = database.query_read_only(large, vec![], 9).expect("rows");
    assert_eq!((some.set.rows.len(), some.cut), (3, true));
}

#[test]
fn a_list_opens_only_files_whose_names_are_too_long_and_nobody_has_open() {
    let node = Node::new();
    let long = |letter: &str| letter.repeat(101);
    let mut open = node.open(&long("o"));
    open.run_ok("CREATE TABLE t (x)");
    open.set_meta(Meta::InitComponent, Some("c")).expect("the host writes");
    for name in ["short", &long("c")] {
        let mut closed = node.open(name);
        closed.set_meta(Meta::InitComponent, Some("c")).expect("the host writes");
        drop(closed);
    }
    node.databases.set_fileless_init(&address("bare"), "c").expect("the index writes");
    node.databases.index_alarm(&address("later"), Some(Timestamp(7))).expect("the index writes");
    let expected = ["bare", &long("c"), "later", &long("o"), "short"];
    assert_eq!(names(&node), expected);
    // The open one goes on as if nobody had looked, and so does the closed one.
    open.run_ok("INSERT INTO t VALUES (1)");
    assert_eq!(open.integer("SELECT count(*) FROM t"), 1);
    let meta = node.open(&long("c")).read_meta(Meta::InitComponent).expect("it reads");
    assert_eq!(meta.as_deref(), Some("c"));
    drop(open);
    assert_eq!(names(&node), expected);
    // Nothing in this one says whose it is yet. While it is open that is known without a look.
    let unnamed = node.open(&long("u"));
    assert!(names(&node).contains(&long("u")));
    drop(unnamed);
    assert!(names(&node).iter().any(|name| name.starts_with("stem 7575")));
    let Address { tenant, class, .. } = address("a");
    assert_eq!(node.databases.classes(&tenant), Ok(vec![class.clone()]));
    let known = node.databases.actors(&tenant, &class).expect("a list");
    assert_eq!(known[2].alarm, Some(Timestamp(7)));
    assert!(!known[0].has_file && known[1].has_file);
}

#[test]
fn what_is_no_actors_file_is_not_taken_for_one() {
    let node = Node::new();
    drop(node.open("a"));
    let folder = node.path("a").parent().expect("a folder").to_owned();
    std::fs::write(folder.join("readme.txt"), "").expect("write a file");
    std::fs::write(folder.join("6x.db"), "").expect("write a file");
    let stem = format!("{}-{}", "61".repeat(64), "0".repeat(64));
    std::fs::write(folder.join(format!("{stem}.db")), "no database").expect("write a file");
    assert_eq!(names(&node), ["a".to_owned(), format!("stem {stem}"), "stem 6x".to_owned()]);
    let left = std::fs::read(folder.join(format!("{stem}.db"))).expect("a file");
    assert_eq!(left, b"no database", "looking changed it");
}

#[test]
fn many_rows_of_the_index_are_listed_page_by_page() {
    let node = Node::new();
    for n in 0..2_500 {
        node.databases.set_fileless_init(&address(&format!("a{n:05}")), "c").expect("it writes");
    }
    let names = names(&node);
    assert_eq!(names.len(), 2_500);
    assert!(names.is_sorted());
}

#[test]
fn a_copy_of_a_log_that_was_not_moved_yet_is_whole_and_the_original_goes_on() {
    let node = Node::new();
    let mut database = inspected(&node, "a");
    database.run_ok("CREATE TABLE t (x PRIMARY KEY) WITHOUT ROWID");
    database.run_ok("INSERT INTO t VALUES ('one')");
    database.set_meta(Meta::InitComponent, Some("secret")).expect("the host writes");
    let file = node.databases.new_export();
    database.export_to(&file).expect("it copies");
    node.databases.finish_export(&file).expect("it is a database");
    let bytes = std::fs::read(&file).expect("a file");
    assert!(!bytes.windows(6).any(|window| window == b"secret"), "dropped rows are left in it");
    let copy = rusqlite::Connection::open(&file).expect("it opens");
    let one: String = copy.query_row("SELECT x FROM t", [], |row| row.get(0)).expect("a row");
    assert_eq!(one, "one");
    drop(copy);
    assert!(database.export_to(&file).is_err(), "a file was written over");
    database.run_ok("INSERT INTO t VALUES ('two')");
    assert_eq!(database.integer("SELECT count(*) FROM t"), 2);
}
