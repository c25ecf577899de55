//! What guests may say in SQL: everything not allowed here is refused. Pure.

use rusqlite::hooks::{AuthAction, AuthContext};

/// Prefix of the host's own tables; guests may neither read nor write nor make such names.
pub const HOST_PREFIX: &str = "_wk_";

const MODULES: [&str; 5] = ["fts3", "fts4", "fts5", "rtree", "rtree_i32"];

const FUNCTIONS_REFUSED: [&str; 4] =
    ["load_extension", "fts3_tokenizer", "sqlite_log", "sqlite_compileoption_get"];

/// Pragmas that only tell, taking no argument. FTS5 and FTS4 themselves ask for `data_version`
/// and `page_size`.
const PRAGMAS: [&str; 11] = [
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
];

/// Pragmas that tell about the table or index they are given.
const PRAGMAS_OF_TABLES: [&str; 7] = [
    "table_info",
    "table_xinfo",
    "table_list",
    "index_list",
    "index_info",
    "index_xinfo",
    "foreign_key_list",
];

/// Why a guest's statement is refused, in words for its author; none when it is allowed.
pub fn refusal(context: &AuthContext<'_>) -> Option<String> {
    if context.database_name == Some("temp") {
        return temp_refusal(&context.action);
    }
    match context.action {
        AuthAction::Select
        | AuthAction::Recursive
        | AuthAction::Transaction { .. }
        | AuthAction::Savepoint { .. } => None,
        AuthAction::Read { table_name, .. }
        | AuthAction::Insert { table_name }
        | AuthAction::Update { table_name, .. }
        | AuthAction::Delete { table_name }
        | AuthAction::CreateTable { table_name }
        | AuthAction::DropTable { table_name }
        | AuthAction::AlterTable { table_name, .. }
        | AuthAction::Analyze { table_name } => host_table(table_name),
        AuthAction::CreateIndex { index_name, table_name }
        | AuthAction::DropIndex { index_name, table_name } => {
            host_table(index_name).or_else(|| host_table(table_name))
        }
        AuthAction::CreateTrigger { trigger_name, table_name }
        | AuthAction::DropTrigger { trigger_name, table_name } => {
            host_table(trigger_name).or_else(|| host_table(table_name))
        }
        AuthAction::CreateView { view_name } | AuthAction::DropView { view_name } => {
            host_table(view_name)
        }
        AuthAction::Reindex { index_name } => host_table(index_name),
        AuthAction::CreateVtable { table_name, module_name }
        | AuthAction::DropVtable { table_name, module_name } => {
            if is_one_of(module_name, &MODULES) {
                host_table(table_name)
            } else {
                Some(format!(
                    "virtual tables of {module_name} are not allowed, only fts3, fts4, fts5 and rtree"
                ))
            }
        }
        AuthAction::Function { function_name } => is_one_of(function_name, &FUNCTIONS_REFUSED)
            .then(|| format!("the function {function_name} is not allowed")),
        AuthAction::Pragma { pragma_name, pragma_value } => pragma(pragma_name, pragma_value),
        AuthAction::Attach { .. } => Some(
            "ATTACH is not allowed, nor VACUUM, which uses it: an actor has one database".into(),
        ),
        AuthAction::Detach { .. } => Some("DETACH is not allowed: an actor has one database".into()),
        _ if is_temp(&context.action) => temp(),
        _ => Some("this kind of statement is not allowed".into()),
    }
}

/// `ALTER TABLE` looks into the temporary schema for references; nothing else may.
fn temp_refusal(action: &AuthAction<'_>) -> Option<String> {
    match action {
        AuthAction::Read { table_name, .. } | AuthAction::Update { table_name, .. }
            if is_one_of(table_name, &["sqlite_temp_master", "sqlite_temp_schema"]) =>
        {
            None
        }
        _ => temp(),
    }
}

fn temp() -> Option<String> {
    Some("TEMP tables, views, triggers and indexes are not allowed".into())
}

fn is_temp(action: &AuthAction<'_>) -> bool {
    matches!(
        action,
        AuthAction::CreateTempIndex { .. }
            | AuthAction::CreateTempTable { .. }
            | AuthAction::CreateTempTrigger { .. }
            | AuthAction::CreateTempView { .. }
            | AuthAction::DropTempIndex { .. }
            | AuthAction::DropTempTable { .. }
            | AuthAction::DropTempTrigger { .. }
            | AuthAction::DropTempView { .. }
    )
}

fn pragma(name: &str, value: Option<&str>) -> Option<String> {
    if is_one_of(name, &PRAGMAS_OF_TABLES) {
        return value.and_then(host_table);
    }
    if !is_one_of(name, &PRAGMAS) {
        return Some(format!("PRAGMA {name} is not allowed"));
    }
    value.map(|_| format!("PRAGMA {name} is allowed without an argument only"))
}

fn host_table(name: &str) -> Option<String> {
    let prefix = name.as_bytes().get(..HOST_PREFIX.len())?;
    prefix
        .eq_ignore_ascii_case(HOST_PREFIX.as_bytes())
        .then(|| format!("names beginning with {HOST_PREFIX} are the host's"))
}

fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// What a statement does to transactions, by its first word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `COMMIT` or `END`.
    Commit,
    /// `BEGIN`, `ROLLBACK`, `SAVEPOINT`, `RELEASE`.
    OtherTransaction,
    Ordinary,
}

pub fn kind(sql: &str) -> Kind {
    let sql = skip_blanks(sql);
    let end = sql.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(sql.len());
    let word = &sql[..end];
    if is_one_of(word, &["COMMIT", "END"]) {
        Kind::Commit
    } else if is_one_of(word, &["BEGIN", "ROLLBACK", "SAVEPOINT", "RELEASE"]) {
        Kind::OtherTransaction
    } else {
        Kind::Ordinary
    }
}

/// Skips what SQLite skips before a statement: white space, comments, lone semicolons.
fn skip_blanks(mut sql: &str) -> &str {
    loop {
        sql = sql.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == ';' || c == '\u{feff}');
        if let Some(comment) = sql.strip_prefix("--") {
            sql = comment.split_once('\n').map_or("", |(_, rest)| rest);
        } else if let Some(comment) = sql.strip_prefix("/*") {
            sql = comment.split_once("*/").map_or("", |(_, rest)| rest);
        } else {
            return sql;
        }
    }
}
