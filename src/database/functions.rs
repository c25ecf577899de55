//! SQL functions that SQLite computes in time that grows with the product of their arguments'
//! lengths, and never stops in between: `trim('…', '…')` on two values of 16 MiB takes days, and
//! no budget can end it. Guests get the same functions with a bound.
//!
//! The results are SQLite's own to the byte (`tests/functions.rs` compares them): a database may
//! have indexes on them, and must mean the same when it is exported.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use rusqlite::{Connection, ffi};

/// Product of the lengths of two arguments, for loops of about 3 ns a turn: a second at most.
const TURNS_MAX: usize = 1 << 28;

/// As `TURNS_MAX`, for the merge of two JSON documents: 0.25 ns per product of bytes.
const JSON_BYTES_PRODUCT_MAX: usize = 1 << 32;

/// The subtype by which SQLite's JSON functions know each other's results.
const JSON_SUBTYPE: u32 = b'J' as u32;

type Function =
    unsafe extern "C" fn(*mut ffi::sqlite3_context, c_int, *mut *mut ffi::sqlite3_value);

const LEFT: usize = 1;
const RIGHT: usize = 2;

/// Name, number of arguments, ends to trim, and what computes it.
const FUNCTIONS: [(&CStr, c_int, usize, Function); 8] = [
    (c"instr", 2, 0, instr),
    (c"replace", 3, 0, replace),
    (c"ltrim", 2, LEFT, trim),
    (c"rtrim", 2, RIGHT, trim),
    (c"trim", 2, LEFT | RIGHT, trim),
    (c"unhex", 2, 0, unhex),
    (c"json_patch", 2, 0, json_patch),
    (c"jsonb_patch", 2, 0, jsonb_patch),
];

/// Puts the bounded functions in place of SQLite's.
pub fn install(connection: &Connection) -> rusqlite::Result<()> {
    let flags = ffi::SQLITE_UTF8
        | ffi::SQLITE_DETERMINISTIC
        | ffi::SQLITE_INNOCUOUS
        | ffi::SQLITE_RESULT_SUBTYPE;
    for (name, arguments, ends, function) in FUNCTIONS {
        // SAFETY: the connection is open; the functions live as long as the program, and take
        // what SQLite gives them.
        let code = unsafe {
            ffi::sqlite3_create_function_v2(
                connection.handle(),
                name.as_ptr(),
                arguments,
                flags,
                ends as *mut c_void,
                Some(function),
                None,
                None,
                None,
            )
        };
        if code != ffi::SQLITE_OK {
            return Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
        }
    }
    Ok(())
}

/// One call of a function.
struct Call<'a> {
    context: *mut ffi::sqlite3_context,
    arguments: &'a [*mut ffi::sqlite3_value],
}

enum Outcome {
    Null,
    Integer(i64),
    Text(Vec<u8>),
    /// The result is set.
    Done,
    TooBig,
    Refused(String),
    NoMemory,
}

impl Call<'_> {
    fn kind(&self, argument: usize) -> c_int {
        // SAFETY: SQLite's value, alive during the call.
        unsafe { ffi::sqlite3_value_type(self.arguments[argument]) }
    }

    /// The argument as SQLite turns it into text; none for NULL, or without memory. The bytes
    /// stay where they are while the argument is read as text only.
    fn text(&self, argument: usize) -> Option<&[u8]> {
        let value = self.arguments[argument];
        // SAFETY: SQLite's value, alive during the call; the length is asked for after the text.
        unsafe {
            let text = ffi::sqlite3_value_text(value);
            bytes_of(text, ffi::sqlite3_value_bytes(value))
        }
    }

    fn blob(&self, argument: usize) -> &[u8] {
        let value = self.arguments[argument];
        // SAFETY: as in `text`. An empty blob is a null pointer.
        unsafe {
            let blob = ffi::sqlite3_value_blob(value).cast::<u8>();
            bytes_of(blob, ffi::sqlite3_value_bytes(value)).unwrap_or_default()
        }
    }

    fn bytes_max(&self) -> usize {
        // SAFETY: the context's connection is open; -1 only asks.
        let limit = unsafe {
            let db = ffi::sqlite3_context_db_handle(self.context);
            ffi::sqlite3_limit(db, ffi::SQLITE_LIMIT_LENGTH, -1)
        };
        usize::try_from(limit).unwrap_or_default()
    }
}

unsafe fn bytes_of<'a>(start: *const u8, length: c_int) -> Option<&'a [u8]> {
    let length = usize::try_from(length).ok()?;
    // SAFETY: the caller's promise: `start`, unless null, has `length` bytes.
    (!start.is_null()).then(|| unsafe { std::slice::from_raw_parts(start, length) })
}

/// Runs `compute` and hands SQLite its outcome.
unsafe fn answer(
    context: *mut ffi::sqlite3_context,
    count: c_int,
    arguments: *mut *mut ffi::sqlite3_value,
    compute: impl FnOnce(&Call<'_>) -> Outcome,
) {
    let count = usize::try_from(count).unwrap_or_default();
    // SAFETY: SQLite passes `count` arguments.
    let arguments = unsafe { std::slice::from_raw_parts(arguments, count) };
    let call = Call { context, arguments };
    let outcome = catch_unwind(AssertUnwindSafe(|| compute(&call)));
    // SAFETY: the context is alive; texts are copied during the calls.
    unsafe {
        match outcome.unwrap_or_else(|_| Outcome::Refused("the function failed".into())) {
            Outcome::Null => ffi::sqlite3_result_null(context),
            Outcome::Integer(number) => ffi::sqlite3_result_int64(context, number),
            Outcome::Text(text) => ffi::sqlite3_result_text64(
                context,
                text.as_ptr().cast::<c_char>(),
                text.len() as u64,
                ffi::SQLITE_TRANSIENT(),
                ffi::SQLITE_UTF8 as u8,
            ),
            Outcome::Done => {}
            Outcome::TooBig => ffi::sqlite3_result_error_toobig(context),
            Outcome::NoMemory => ffi::sqlite3_result_error_nomem(context),
            Outcome::Refused(why) => ffi::sqlite3_result_error(
                context,
                why.as_ptr().cast::<c_char>(),
                c_int::try_from(why.len()).unwrap_or(c_int::MAX),
            ),
        }
    }
}

fn too_long(function: &str) -> Outcome {
    Outcome::Refused(format!("{function}: the arguments are too long together"))
}

/// The first place of `needle`, in time linear in both.
fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    // SAFETY: both have the lengths given.
    let found = unsafe {
        libc::memmem(
            haystack.as_ptr().cast::<c_void>(),
            haystack.len(),
            needle.as_ptr().cast::<c_void>(),
            needle.len(),
        )
    };
    (!found.is_null()).then(|| found.addr() - haystack.as_ptr().addr())
}

fn continues(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

unsafe extern "C" fn instr(
    context: *mut ffi::sqlite3_context,
    count: c_int,
    arguments: *mut *mut ffi::sqlite3_value,
) {
    // SAFETY: as SQLite called this.
    unsafe {
        answer(context, count, arguments, |call| {
            let kinds = [call.kind(0), call.kind(1)];
            if kinds.contains(&ffi::SQLITE_NULL) {
                return Outcome::Null;
            }
            // A blob beside a text is searched as one, byte by byte the same.
            let read = |argument: usize| match kinds[argument] {
                ffi::SQLITE_BLOB => Some(call.blob(argument)),
                _ => call.text(argument),
            };
            let (Some(haystack), Some(needle)) = (read(0), read(1)) else {
                return Outcome::NoMemory;
            };
            Outcome::Integer(position(haystack, needle, kinds != [ffi::SQLITE_BLOB; 2]))
        });
    }
}

/// Counted from 1, in characters when `is_text`; 0 when there is none.
fn position(haystack: &[u8], needle: &[u8], is_text: bool) -> i64 {
    let Some(first) = needle.first() else { return 1 };
    let at = if is_text && continues(*first) {
        // Only whole characters are looked at, and the first byte whatever it is.
        haystack.starts_with(needle).then_some(0)
    } else {
        find(haystack, needle)
    };
    let Some(at) = at else { return 0 };
    let before = haystack.iter().skip(1).take(at);
    1 + before.filter(|byte| !is_text || !continues(**byte)).count() as i64
}

unsafe extern "C" fn replace(
    context: *mut ffi::sqlite3_context,
    count: c_int,
    arguments: *mut *mut ffi::sqlite3_value,
) {
    // SAFETY: as SQLite called this.
    unsafe {
        answer(context, count, arguments, |call| {
            let Some(text) = call.text(0) else { return Outcome::Null };
            let Some(pattern) = call.text(1) else { return Outcome::Null };
            // SQLite takes a pattern that starts with a NUL for an empty one.
            if pattern.first().is_none_or(|byte| *byte == 0) {
                return Outcome::Text(text.to_vec());
            }
            let Some(with) = call.text(2) else { return Outcome::Null };
            let bytes_max = call.bytes_max();
            let mut rest = text;
            let mut replaced = Vec::new();
            while let Some(at) = find(rest, pattern) {
                replaced.extend_from_slice(&rest[..at]);
                replaced.extend_from_slice(with);
                rest = &rest[at + pattern.len()..];
                if replaced.len() > bytes_max {
                    return Outcome::TooBig;
                }
            }
            replaced.extend_from_slice(rest);
            Outcome::Text(replaced)
        });
    }
}

unsafe extern "C" fn trim(
    context: *mut ffi::sqlite3_context,
    count: c_int,
    arguments: *mut *mut ffi::sqlite3_value,
) {
    // SAFETY: as SQLite called this; the user data is the number given in `install`.
    unsafe {
        let ends = ffi::sqlite3_user_data(context).addr();
        answer(context, count, arguments, |call| {
            let Some(text) = call.text(0) else { return Outcome::Null };
            let Some(set) = call.text(1) else { return Outcome::Null };
            if text.len().saturating_mul(set.len()) > TURNS_MAX {
                return too_long("trim");
            }
            Outcome::Text(trimmed(text, &characters(set), ends).to_vec())
        });
    }
}

/// Splits as SQLite does, which stops at a NUL and takes any bytes for characters.
fn characters(set: &[u8]) -> Vec<&[u8]> {
    let end = set.iter().position(|byte| *byte == 0).unwrap_or(set.len());
    let mut rest = &set[..end];
    let mut characters = Vec::new();
    while let Some(first) = rest.first() {
        let more = rest[1..].iter().take_while(|byte| *first >= 0xc0 && continues(**byte)).count();
        let (character, after) = rest.split_at(1 + more);
        characters.push(character);
        rest = after;
    }
    characters
}

fn trimmed<'a>(mut text: &'a [u8], set: &[&[u8]], ends: usize) -> &'a [u8] {
    while ends & LEFT != 0
        && let Some(rest) = set.iter().find_map(|character| text.strip_prefix(*character))
    {
        text = rest;
    }
    while ends & RIGHT != 0
        && let Some(rest) = set.iter().find_map(|character| text.strip_suffix(*character))
    {
        text = rest;
    }
    text
}

unsafe extern "C" fn unhex(
    context: *mut ffi::sqlite3_context,
    count: c_int,
    arguments: *mut *mut ffi::sqlite3_value,
) {
    // SAFETY: as SQLite called this.
    unsafe {
        answer(context, count, arguments, |call| {
            let length = |argument| call.text(argument).unwrap_or_default().len();
            if length(0).saturating_mul(length(1)) > TURNS_MAX {
                return too_long("unhex");
            }
            as_sqlite_does(call, c"SELECT unhex(?1, ?2)", 0)
        });
    }
}

unsafe extern "C" fn json_patch(
    context: *mut ffi::sqlite3_context,
    count: c_int,
    arguments: *mut *mut ffi::sqlite3_value,
) {
    // SAFETY: as SQLite called this.
    unsafe {
        answer(context, count, arguments, |call| {
            patch(call, c"SELECT json_patch(?1, ?2)", JSON_SUBTYPE)
        });
    }
}

unsafe extern "C" fn jsonb_patch(
    context: *mut ffi::sqlite3_context,
    count: c_int,
    arguments: *mut *mut ffi::sqlite3_value,
) {
    // SAFETY: as SQLite called this.
    unsafe {
        answer(context, count, arguments, |call| patch(call, c"SELECT jsonb_patch(?1, ?2)", 0));
    }
}

fn patch(call: &Call<'_>, sql: &CStr, subtype: u32) -> Outcome {
    // Of a text or a blob this is the length as it is.
    let length = |argument| call.blob(argument).len();
    if length(0).saturating_mul(length(1)) > JSON_BYTES_PRODUCT_MAX {
        return too_long("json_patch");
    }
    as_sqlite_does(call, sql, subtype)
}

thread_local! {
    /// A connection whose functions are SQLite's own, for those that are rarely called.
    static PLAIN: RefCell<Option<Connection>> = const { RefCell::new(None) };
}

/// Computes `sql` with the call's arguments on a connection without these functions.
fn as_sqlite_does(call: &Call<'_>, sql: &CStr, subtype: u32) -> Outcome {
    PLAIN.with_borrow_mut(|plain| {
        let opened = plain.take().map_or_else(Connection::open_in_memory, Ok);
        let Ok(connection) = opened else { return Outcome::NoMemory };
        // SAFETY: the handle is used while `connection` is held.
        let outcome = unsafe { computed(call, connection.handle(), sql, subtype) };
        *plain = Some(connection);
        outcome
    })
}

unsafe fn computed(call: &Call<'_>, db: *mut ffi::sqlite3, sql: &CStr, subtype: u32) -> Outcome {
    let mut statement = std::ptr::null_mut();
    // SAFETY: `db` is open and this thread's; values are copied in and out while both sides live;
    // the statement is finalised before the end.
    unsafe {
        ffi::sqlite3_limit(db, ffi::SQLITE_LIMIT_LENGTH, call.bytes_max() as c_int);
        let code =
            ffi::sqlite3_prepare_v2(db, sql.as_ptr(), -1, &raw mut statement, std::ptr::null_mut());
        if code != ffi::SQLITE_OK {
            return Outcome::NoMemory;
        }
        for (index, argument) in (1..).zip(call.arguments) {
            ffi::sqlite3_bind_value(statement, index, *argument);
        }
        let outcome = match ffi::sqlite3_step(statement) & 0xff {
            ffi::SQLITE_ROW => {
                let value = ffi::sqlite3_column_value(statement, 0);
                ffi::sqlite3_result_value(call.context, value);
                if subtype != 0 && ffi::sqlite3_column_type(statement, 0) != ffi::SQLITE_NULL {
                    ffi::sqlite3_result_subtype(call.context, subtype);
                }
                Outcome::Done
            }
            ffi::SQLITE_NOMEM => Outcome::NoMemory,
            ffi::SQLITE_TOOBIG => Outcome::TooBig,
            _ => {
                let why = CStr::from_ptr(ffi::sqlite3_errmsg(db));
                Outcome::Refused(why.to_string_lossy().into_owned())
            }
        };
        ffi::sqlite3_finalize(statement);
        outcome
    }
}
