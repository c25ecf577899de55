//! What is said between an operator's client and a node: one line of JSON asks, lines of JSON
//! answer. The last line is `end`, `failed` or `stopped`; without one the answer is not whole. A client
//! that closes its end for writing has left.

use serde::{Deserialize, Serialize};
use wasmkeep_supervisors::address::{ActorName, Address, App, Class, Tenant};
use wasmkeep_supervisors::ports::SqlValue;

use super::tail::{TailRecord, TailRequest};

/// Raised when an old client could misread an answer. A node answers its own version only.
pub const VERSION: u32 = 1;
/// A statement of the greatest size, escaped, with its parameters.
pub const REQUEST_BYTES_MAX: usize = 8 * 1024 * 1024;
/// A row of the greatest size, its blobs in hexadecimal, or its text escaped.
pub const LINE_BYTES_MAX: usize = 128 * 1024 * 1024;

#[derive(Debug, Serialize, Deserialize)]
pub struct Request {
    pub version: u32,
    #[serde(flatten)]
    pub command: Command,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub enum Command {
    List(ListRequest),
    Show(ActorRequest),
    Sql(SqlRequest),
    Export(ActorRequest),
    Tail(TailRequest),
    /// Has an idle actor leave memory.
    Hibernate(ActorRequest),
    /// Moves a clock that stands on.
    Advance {
        ms: u64,
    },
}

/// Whose actors are meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Which {
    pub tenant: String,
    pub app: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ListRequest {
    #[serde(flatten)]
    pub which: Which,
    pub class: Option<String>,
    pub prefix: Option<String>,
    pub min_bytes: u64,
    pub with_alarm: bool,
    pub limit: Option<u64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ActorRequest {
    #[serde(flatten)]
    pub which: Which,
    pub class: String,
    pub name: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SqlRequest {
    #[serde(flatten)]
    pub actor: ActorRequest,
    pub sql: String,
    pub params: Vec<SqlCell>,
    pub rows_max: usize,
}

/// One line of an answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "kebab-case")]
pub enum Line {
    Actor(ListedActor),
    Facts(Box<Facts>),
    Columns {
        columns: Vec<String>,
    },
    Row {
        row: Vec<SqlCell>,
    },
    /// So many bytes follow, and then the next line.
    Bytes {
        length: u64,
    },
    /// From here on records come.
    Listening,
    Record(Box<TailRecord>),
    /// So many records are missing here.
    Gap {
        lost: u64,
    },
    /// What a clock shows that was moved.
    Clock {
        now_ms: u64,
    },
    /// The node stops.
    Stopped,
    End {
        /// There is more than was asked for.
        cut: bool,
    },
    Failed(Failure),
}

impl Line {
    pub const fn end() -> Self {
        Self::End { cut: false }
    }
}

/// Why there is no answer, or no whole one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub kind: FailureKind,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The request is none.
    BadRequest,
    /// There is no such actor, or it has no database.
    NoSuchActor,
    /// By rule: a statement that writes, an actor that may not be read now.
    Refused,
    /// Tried, and it broke.
    Failed,
}

impl Failure {
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    pub fn bad_request(error: impl ToString) -> Self {
        Self::new(FailureKind::BadRequest, error.to_string())
    }

    pub fn failed(error: impl ToString) -> Self {
        Self::new(FailureKind::Failed, error.to_string())
    }
}

/// An actor in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedActor {
    pub class: String,
    /// None when the name stands neither in the file's name nor, readable, in the file.
    pub name: Option<String>,
    /// The file's name in that case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stem: Option<String>,
    /// It has a database; an actor that never stored anything has none.
    pub has_file: bool,
    pub database_bytes: u64,
    pub wal_bytes: u64,
    /// When its alarm is due, in milliseconds since 1970.
    pub alarm_ms: Option<u64>,
    /// None when no node runs.
    pub resident: Option<bool>,
    /// Its WebSockets; none when no node runs.
    pub sockets: Option<u64>,
}

/// What is known of one actor.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Facts {
    pub tenant: String,
    pub app: String,
    pub class: String,
    pub name: String,
    pub exists: bool,
    pub file: Option<String>,
    pub database_bytes: u64,
    pub wal_bytes: u64,
    /// The guest's tables.
    pub tables: Option<u64>,
    /// The component whose `on-init` succeeded last, as hexadecimal SHA-256.
    pub initialised_by: Option<String>,
    /// When the alarm is due or tried again, in milliseconds since 1970.
    pub alarm_ms: Option<u64>,
    pub failed_attempts: Option<u32>,
    /// Why the database could not be read, if it could not.
    pub unread: Option<Failure>,
    pub node: NodeFacts,
    /// What the next event meets, the first obstacle first.
    pub next_event: Vec<String>,
}

/// What a running node adds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NodeFacts {
    pub is_running: bool,
    pub is_stopping: bool,
    /// The component the class is served with; none when it is not served.
    pub component: Option<String>,
    pub access: Option<String>,
    pub resident: bool,
    /// An event runs now.
    pub is_busy: bool,
    pub queued: u64,
    pub sockets: u64,
    pub quarantined_ms: Option<u64>,
}

/// A value of SQL, as JSON has it: null, a number, a text, `{"blob": "00ff"}`, and
/// `{"real": "inf"}` for what JSON has no number for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SqlCell {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Blob { blob: String },
    NoNumber { real: String },
}

impl From<SqlValue> for SqlCell {
    fn from(value: SqlValue) -> Self {
        match value {
            SqlValue::Null => SqlCell::Null,
            SqlValue::Integer(number) => SqlCell::Integer(number),
            SqlValue::Real(number) if number.is_finite() => SqlCell::Real(number),
            SqlValue::Real(number) => SqlCell::NoNumber { real: number.to_string() },
            SqlValue::Text(text) => SqlCell::Text(text),
            SqlValue::Blob(bytes) => SqlCell::Blob { blob: hex(&bytes) },
        }
    }
}

impl TryFrom<SqlCell> for SqlValue {
    type Error = Failure;

    fn try_from(cell: SqlCell) -> Result<Self, Failure> {
        Ok(match cell {
            SqlCell::Null => SqlValue::Null,
            SqlCell::Integer(number) => SqlValue::Integer(number),
            SqlCell::Real(number) => SqlValue::Real(number),
            SqlCell::Text(text) => SqlValue::Text(text),
            SqlCell::Blob { blob } => SqlValue::Blob(
                from_hex(&blob)
                    .ok_or_else(|| Failure::bad_request(format!("{blob:?} is not hexadecimal")))?,
            ),
            SqlCell::NoNumber { real } => SqlValue::Real(
                real.parse().map_err(|_| Failure::bad_request(format!("{real:?} is no number")))?,
            ),
        })
    }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|d| u8::try_from(d).ok());
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| Some(16 * digit(*high)? + digit(*low)?)).collect()
}

impl Which {
    pub fn parse(&self) -> Result<(Tenant, App), Failure> {
        let tenant = Tenant::parse(&self.tenant).map_err(Failure::bad_request)?;
        Ok((tenant, App::parse(&self.app).map_err(Failure::bad_request)?))
    }
}

impl ActorRequest {
    pub fn parse(&self) -> Result<(Address, App), Failure> {
        let (tenant, app) = self.which.parse()?;
        let class = Class::parse(&self.class).map_err(Failure::bad_request)?;
        let name = ActorName::parse(&self.name).map_err(Failure::bad_request)?;
        Ok((Address { tenant, class, name }, app))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_sql_keep_their_kind_in_json() {
        let values = [
            (SqlValue::Null, "null"),
            (SqlValue::Integer(i64::MIN), "-9223372036854775808"),
            (SqlValue::Real(1.0), "1.0"),
            (SqlValue::Real(f64::INFINITY), r#"{"real":"inf"}"#),
            (SqlValue::Text("{\"blob\"".into()), r#""{\"blob\"""#),
            (SqlValue::Blob(vec![0, 255]), r#"{"blob":"00ff"}"#),
        ];
        for (value, json) in values {
            let written = serde_json::to_string(&SqlCell::from(value.clone())).expect("JSON");
            assert_eq!(written, json);
            let cell: SqlCell = serde_json::from_str(&written).expect("a value");
            assert_eq!(SqlValue::try_from(cell), Ok(value));
        }
        let wrong = SqlCell::Blob { blob: "0".into() };
        assert!(SqlValue::try_from(wrong).is_err());
    }

    #[test]
    fn a_request_is_one_flat_object() {
        let which = Which { tenant: "default".into(), app: "default".into() };
        let actor = ActorRequest { which, class: "a".into(), name: "b".into() };
        let request = Request { version: VERSION, command: Command::Show(actor) };
        let json = serde_json::to_value(&request).expect("JSON");
        let expected = serde_json::json!({
            "version": 1, "command": "show", "tenant": "default", "app": "default",
            "class": "a", "name": "b",
        });
        assert_eq!(json, expected);
        let read: Request = serde_json::from_value(json).expect("a request");
        assert!(matches!(read.command, Command::Show(_)));
    }
}
