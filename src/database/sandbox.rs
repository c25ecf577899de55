//! What a guest's SQL may do: a verdict on every action SQLite asks about. Pure; the table of
//! forms that pass and fail on a real connection is `tests/sandbox.rs`.
//!
//! What is not named here is refused. Virtual tables prepare SQL of their own while a guest's
//! statement runs, and are asked about with the guest's rights.

use std::ffi::c_int;

use rusqlite::ffi;

/// Names the host keeps for itself start so, in any case.
const HOST_PREFIX: &str = "_wk_";

/// Pragmas that only read, without an argument. FTS5 itself asks for `data_version`, and FTS3
/// and FTS4 for `page_size`.
const PRAGMAS: [&str; 12] = [
    "page_count",
    "freelist_count",
    "page_size",
    "encoding",
    "foreign_keys",
    "user_version",
    "data_version",
    "collation_list",
    "quick_check",
    "integrity_check",
    "foreign_key_check",
    "table_list",
];

/// Pragmas that only read and take the name of a table or an index.
const PRAGMAS_OF_A_NAME: [&str; 7] = [
    "table_info",
    "table_xinfo",
    "table_list",
    "index_list",
    "index_info",
    "index_xinfo",
    "foreign_key_list",
];

const MODULES: [&str; 5] = ["fts3", "fts4", "fts5", "rtree", "rtree_i32"];

/// Modules that can be read by their name alone, without a `CREATE VIRTUAL TABLE`.
const MODULES_REFUSED: [&str; 6] =
    ["fts3tokenize", "dbstat", "sqlite_dbpage", "bytecode", "tables_used", "sqlite_stmt"];

const FUNCTIONS_REFUSED: [&str; 3] = ["load_extension", "fts3_tokenizer", "sqlite_log"];

/// The tables through which `ALTER TABLE` looks for temporary tables that name its own.
const TEMP_SCHEMA: [&str; 2] = ["sqlite_temp_master", "sqlite_temp_schema"];

/// A statement that begins or ends a transaction or a savepoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    Begin,
    /// `COMMIT` or `END`.
    Commit,
    Rollback,
    Savepoint,
}

/// What SQLite asks before it does it, as far as a verdict depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action<'a> {
    Select,
    Recursive,
    Read {
        table: &'a str,
    },
    Insert {
        table: &'a str,
    },
    Update {
        table: &'a str,
    },
    Delete {
        table: &'a str,
    },
    CreateTable {
        table: &'a str,
    },
    CreateIndex {
        index: &'a str,
        table: &'a str,
    },
    CreateView {
        view: &'a str,
    },
    CreateTrigger {
        trigger: &'a str,
        table: &'a str,
    },
    CreateVirtualTable {
        table: &'a str,
        module: &'a str,
    },
    DropTable {
        table: &'a str,
    },
    DropIndex {
        index: &'a str,
        table: &'a str,
    },
    DropView {
        view: &'a str,
    },
    DropTrigger {
        trigger: &'a str,
        table: &'a str,
    },
    DropVirtualTable {
        table: &'a str,
        module: &'a str,
    },
    AlterTable {
        database: &'a str,
        table: &'a str,
    },
    Reindex {
        index: &'a str,
    },
    Analyze {
        table: &'a str,
    },
    Control(Control),
    Pragma {
        name: &'a str,
        argument: Option<&'a str>,
    },
    Function {
        name: &'a str,
    },
    /// Creates or drops something temporary.
    Temporary,
    /// `ATTACH`, or a `VACUUM`, which attaches a database of its own.
    Attach,
    Detach,
    Unknown {
        code: c_int,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    /// The statement goes on as if this part of it had not been there.
    Skip,
    Refuse(String),
}

impl<'a> Action<'a> {
    /// Reads the arguments of SQLite's authorizer callback.
    pub fn from_sqlite(code: c_int, first: Option<&'a str>, second: Option<&'a str>) -> Self {
        Self::known(code, first, second).unwrap_or(Self::Unknown { code })
    }

    fn known(code: c_int, first: Option<&'a str>, second: Option<&'a str>) -> Option<Self> {
        Some(match code {
            ffi::SQLITE_SELECT => Self::Select,
            ffi::SQLITE_RECURSIVE => Self::Recursive,
            ffi::SQLITE_READ => Self::Read { table: first? },
            ffi::SQLITE_INSERT => Self::Insert { table: first? },
            ffi::SQLITE_UPDATE => Self::Update { table: first? },
            ffi::SQLITE_DELETE => Self::Delete { table: first? },
            ffi::SQLITE_CREATE_TABLE => Self::CreateTable { table: first? },
            ffi::SQLITE_CREATE_INDEX => Self::CreateIndex { index: first?, table: second? },
            ffi::SQLITE_CREATE_VIEW => Self::CreateView { view: first? },
            ffi::SQLITE_CREATE_TRIGGER => Self::CreateTrigger { trigger: first?, table: second? },
            ffi::SQLITE_CREATE_VTABLE => {
                Self::CreateVirtualTable { table: first?, module: second? }
            }
            ffi::SQLITE_DROP_TABLE => Self::DropTable { table: first? },
            ffi::SQLITE_DROP_INDEX => Self::DropIndex { index: first?, table: second? },
            ffi::SQLITE_DROP_VIEW => Self::DropView { view: first? },
            ffi::SQLITE_DROP_TRIGGER => Self::DropTrigger { trigger: first?, table: second? },
            ffi::SQLITE_DROP_VTABLE => Self::DropVirtualTable { table: first?, module: second? },
            ffi::SQLITE_ALTER_TABLE => Self::AlterTable { database: first?, table: second? },
            ffi::SQLITE_REINDEX => Self::Reindex { index: first? },
            ffi::SQLITE_ANALYZE => Self::Analyze { table: first? },
            ffi::SQLITE_TRANSACTION => Self::Control(match first? {
                "BEGIN" => Control::Begin,
                "COMMIT" => Control::Commit,
                "ROLLBACK" => Control::Rollback,
                _ => return None,
            }),
            ffi::SQLITE_SAVEPOINT => Self::Control(Control::Savepoint),
            ffi::SQLITE_PRAGMA => Self::Pragma { name: first?, argument: second },
            ffi::SQLITE_FUNCTION => Self::Function { name: second? },
            ffi::SQLITE_CREATE_TEMP_INDEX
            | ffi::SQLITE_CREATE_TEMP_TABLE
            | ffi::SQLITE_CREATE_TEMP_TRIGGER
            | ffi::SQLITE_CREATE_TEMP_VIEW
            | ffi::SQLITE_DROP_TEMP_INDEX
            | ffi::SQLITE_DROP_TEMP_TABLE
            | ffi::SQLITE_DROP_TEMP_TRIGGER
            | ffi::SQLITE_DROP_TEMP_VIEW => Self::Temporary,
            ffi::SQLITE_ATTACH => Self::Attach,
            ffi::SQLITE_DETACH => Self::Detach,
            _ => return None,
        })
    }

    pub fn changes_schema(&self) -> bool {
        matches!(
            self,
            Self::CreateTable { .. }
                | Self::CreateIndex { .. }
                | Self::CreateView { .. }
                | Self::CreateTrigger { .. }
                | Self::CreateVirtualTable { .. }
                | Self::DropTable { .. }
                | Self::DropIndex { .. }
                | Self::DropView { .. }
                | Self::DropTrigger { .. }
                | Self::DropVirtualTable { .. }
                | Self::AlterTable { .. }
                | Self::Reindex { .. }
                | Self::Analyze { .. }
        )
    }
}

/// The verdict on a guest's action in the database SQLite names (`main`, `temp` or none).
pub fn verdict(action: Action<'_>, database: Option<&str>) -> Verdict {
    let database = match action {
        Action::AlterTable { database, .. } => Some(database),
        _ => database,
    };
    match database {
        None | Some("main") => verdict_on_main(action),
        Some("temp") => match action {
            Action::Read { table } | Action::Update { table } if is_one_of(&TEMP_SCHEMA, table) => {
                Verdict::Allow
            }
            _ => refuse_temporary(),
        },
        Some(_) => refuse_attach(),
    }
}

fn verdict_on_main(action: Action<'_>) -> Verdict {
    match action {
        Action::Select | Action::Recursive | Action::Control(_) => Verdict::Allow,
        Action::Read { table } if is_one_of(&MODULES_REFUSED, table) => refuse_module(table),
        Action::Read { table }
        | Action::Insert { table }
        | Action::Update { table }
        | Action::Delete { table }
        | Action::CreateTable { table }
        | Action::DropTable { table }
        | Action::AlterTable { table, .. } => unless_host([table]),
        Action::CreateView { view } | Action::DropView { view } => unless_host([view]),
        Action::CreateIndex { index: item, table }
        | Action::DropIndex { index: item, table }
        | Action::CreateTrigger { trigger: item, table }
        | Action::DropTrigger { trigger: item, table } => unless_host([item, table]),
        Action::CreateVirtualTable { table, module }
        | Action::DropVirtualTable { table, module } => {
            if is_one_of(&MODULES, module) {
                unless_host([table])
            } else {
                refuse_module(module)
            }
        }
        // Asked of every table and index by a bare ANALYZE or REINDEX. The statistics hold
        // samples of the rows, so the host's tables must not be among them.
        Action::Reindex { index: name } | Action::Analyze { table: name } => {
            if is_host_name(name) {
                Verdict::Skip
            } else {
                Verdict::Allow
            }
        }
        Action::Pragma { name, argument } => verdict_on_pragma(name, argument),
        Action::Function { name } if is_one_of(&FUNCTIONS_REFUSED, name) => {
            Verdict::Refuse(format!("the function {name}() is not allowed: it reaches outside SQL"))
        }
        Action::Function { .. } => Verdict::Allow,
        Action::Temporary => refuse_temporary(),
        Action::Attach | Action::Detach => refuse_attach(),
        Action::Unknown { code } => {
            Verdict::Refuse(format!("this statement is not allowed (SQLite action {code})"))
        }
    }
}

fn verdict_on_pragma(name: &str, argument: Option<&str>) -> Verdict {
    match argument {
        None if is_one_of(&PRAGMAS, name) => Verdict::Allow,
        Some(of) if is_one_of(&PRAGMAS_OF_A_NAME, name) => unless_host([of]),
        Some(_) if is_one_of(&PRAGMAS, name) => Verdict::Refuse(format!(
            "PRAGMA {name} with an argument is not allowed: pragmas may only read"
        )),
        None if is_one_of(&PRAGMAS_OF_A_NAME, name) => {
            Verdict::Refuse(format!("PRAGMA {name} wants the name of a table or an index"))
        }
        _ => Verdict::Refuse(format!(
            "PRAGMA {name} is not allowed: the host keeps the settings of the database"
        )),
    }
}

fn unless_host<const N: usize>(names: [&str; N]) -> Verdict {
    match names.into_iter().find(|name| is_host_name(name)) {
        None => Verdict::Allow,
        Some(name) => Verdict::Refuse(host_name_refused(name)),
    }
}

fn refuse_temporary() -> Verdict {
    Verdict::Refuse("nothing temporary is allowed: an actor has one database, on disk".into())
}

fn refuse_attach() -> Verdict {
    Verdict::Refuse(
        "ATTACH, DETACH and VACUUM are not allowed: an actor has one database, and the host keeps \
         its file"
            .into(),
    )
}

fn refuse_module(module: &str) -> Verdict {
    Verdict::Refuse(format!(
        "the virtual table module {module} is not allowed: fts3, fts4, fts5 and rtree are"
    ))
}

/// The text for a statement that names something of the host's.
pub fn host_name_refused(name: &str) -> String {
    format!("{name} is not allowed: names that start with {HOST_PREFIX} belong to the host")
}

fn is_host_name(name: &str) -> bool {
    let starts = |prefix: &str| {
        name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    starts(HOST_PREFIX) || starts("sqlite_autoindex__wk_")
}

/// The first name of the host's in the text of a statement that changes the schema.
///
/// SQLite does not ask about every name such a statement brings in: the new name of an
/// `ALTER TABLE`, the parent of a foreign key, and what a view or a trigger will read. A bare
/// `_wk` counts too: a virtual table renamed to it has tables `_wk_data` and the like.
pub fn host_name_in(sql: &str) -> Option<&str> {
    const STEM: &[u8] = b"_wk";
    /// A blank to SQLite, where it does not continue a name.
    const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
    let bytes = sql.as_bytes();
    let names = |byte: u8| byte.is_ascii_alphanumeric() || b"_$".contains(&byte) || byte > 127;
    bytes.windows(STEM.len()).enumerate().find_map(|(at, window)| {
        let before = &bytes[..at];
        let starts_a_name =
            before.last().is_none_or(|byte| !names(*byte)) || before.ends_with(BYTE_ORDER_MARK);
        let is_the_hosts = bytes.get(at + STEM.len()).is_none_or(|b| *b == b'_' || !names(*b));
        if !starts_a_name || !is_the_hosts || !window.eq_ignore_ascii_case(STEM) {
            return None;
        }
        let length = bytes[at..].iter().take_while(|byte| names(**byte)).count();
        sql.get(at..at + length)
    })
}

fn is_one_of(list: &[&str], name: &str) -> bool {
    list.iter().any(|known| known.eq_ignore_ascii_case(name))
}
