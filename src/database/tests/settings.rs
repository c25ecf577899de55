//! How the linked SQLite was built, and how a connection is set up.

use super::*;

#[test]
fn sqlite_is_the_one_this_was_written_for() {
    assert!(rusqlite::version_number() >= 3_051_003, "{}", rusqlite::version());
    drop(Node::new());
    let connection = rusqlite::Connection::open_in_memory().expect("a connection");
    let mut statement = connection.prepare("PRAGMA compile_options").expect("a statement");
    let options = statement.query_map([], |row| row.get::<_, String>(0)).expect("rows");
    let options: Vec<String> = options.map(|option| option.expect("a row")).collect();
    for wanted in [
        "THREADSAFE=1",
        "MAX_ATTACHED=1",
        "OMIT_LOAD_EXTENSION",
        "DEFAULT_LOOKASIDE=128,32",
        "DEFAULT_PCACHE_INITSZ=0",
        "ENABLE_FTS3",
        "ENABLE_FTS5",
        "ENABLE_RTREE",
        "DEFAULT_FOREIGN_KEYS",
    ] {
        assert!(options.iter().any(|option| option.starts_with(wanted)), "{wanted}: {options:?}");
    }
    for unwanted in ["ENABLE_DBSTAT_VTAB", "ENABLE_DBPAGE_VTAB", "ENABLE_BYTECODE_VTAB"] {
        assert!(!options.iter().any(|option| option.starts_with(unwanted)), "{unwanted}");
    }
}

#[test]
fn the_settings_of_a_connection_are_as_asked() {
    let node = Node::new();
    let database = node.open("a");
    let setting = |pragma: &str| {
        database.hooks.as_host(|| {
            let read = |row: &rusqlite::Row<'_>| row.get::<_, rusqlite::types::Value>(0);
            let sql = format!("PRAGMA {pragma}");
            format!("{:?}", database.connection.query_row(&sql, [], read).expect(pragma))
        })
    };
    for (pragma, value) in [
        ("journal_mode", "Text(\"wal\")"),
        ("locking_mode", "Text(\"exclusive\")"),
        ("page_size", "Integer(4096)"),
        ("synchronous", "Integer(0)"),
        ("cache_size", "Integer(-1024)"),
        ("temp_store", "Integer(2)"),
        ("mmap_size", "Integer(0)"),
        ("auto_vacuum", "Integer(0)"),
        ("foreign_keys", "Integer(1)"),
        ("max_page_count", "Integer(262144)"),
        ("trusted_schema", "Integer(0)"),
        ("writable_schema", "Integer(0)"),
    ] {
        assert_eq!(setting(pragma), value, "{pragma}");
    }
    let defensive = rusqlite::config::DbConfig::SQLITE_DBCONFIG_DEFENSIVE;
    assert!(database.connection.db_config(defensive).expect("a setting"));
    let attached = rusqlite::limits::Limit::SQLITE_LIMIT_ATTACHED;
    assert_eq!(database.connection.limit(attached).expect("a limit"), 0);
}
