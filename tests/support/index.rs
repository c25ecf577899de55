//! What is on the disk of a node that does not run: it holds its databases to itself while it does.

use std::path::Path;

use rusqlite::Connection;

use super::Node;

/// A file of SQLite, of a node that is stopped.
#[track_caller]
pub fn open(path: &Path) -> Connection {
    let opened = Connection::open(path).and_then(|connection| {
        // Some tests change thousands of files, and none of them cuts the power.
        connection.execute_batch("PRAGMA locking_mode = EXCLUSIVE; PRAGMA synchronous = OFF")?;
        Ok(connection)
    });
    opened.unwrap_or_else(|error| panic!("open {}: {error}", path.display()))
}

impl Node {
    /// Changes the index of a node that is stopped.
    #[track_caller]
    pub fn change_index(&self, sql: &str) -> usize {
        open(&self.index()).execute(sql, []).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// `class/name` and when it is due, of every alarm in the index of a node that is stopped.
    #[track_caller]
    pub fn indexed_alarms(&self) -> Vec<(String, i64)> {
        self.index_rows("SELECT class || '/' || name, due FROM alarms ORDER BY due, name")
    }

    /// `class/name` of every actor without a file in the index of a node that is stopped.
    #[track_caller]
    pub fn indexed_fileless(&self) -> Vec<String> {
        let rows = self.index_rows("SELECT class || '/' || name, 0 FROM fileless ORDER BY name");
        rows.into_iter().map(|(address, _)| address).collect()
    }

    fn index_rows(&self, sql: &str) -> Vec<(String, i64)> {
        let index = open(&self.index());
        let mut statement = index.prepare(sql).expect("the index has its tables");
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        rows.and_then(Iterator::collect).expect("read the index")
    }

    fn index(&self) -> std::path::PathBuf {
        self.data_dir().join("index.db")
    }
}
