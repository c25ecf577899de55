//! The actor's own SQLite database. Nobody else reads or writes it.
//!
//! ```no_run
//! use wasmkeep_sdk::{Result, params, storage};
//!
//! #[derive(serde::Deserialize, serde::Serialize)]
//! struct Item {
//!     id: i64,
//!     title: String,
//!     price: Option<f64>,
//! }
//!
//! # fn example() -> Result<()> {
//! storage::exec("INSERT INTO items (title, price) VALUES (?, ?)", ("milk", 1.2))?;
//! let items: Vec<Item> = storage::query_as("SELECT id, title, price FROM items", ())?;
//! let titles: Vec<(i64, String)> = storage::query_as("SELECT id, title FROM items", ())?;
//! let count: i64 = storage::query_one("SELECT count(*) FROM items", ())?;
//! let milk: Option<Item> = storage::query_optional(
//!     "SELECT * FROM items WHERE title = ? AND price < ?",
//!     params!["milk", 2],
//! )?;
//! # Ok(())
//! # }
//! ```
//!
//! **Parameters** stand for the `?` of a statement: a tuple, an array, [`params!`](crate::params),
//! or `()` for none. See [`Value`] for what can be one.
//!
//! **Rows** are read into any type that is [`Deserialize`](serde::Deserialize): a struct takes
//! columns by name, a tuple takes them in order, a single column may be the value alone. See
//! [`Rows::decode`].
//!
//! **Transactions**: outside one, each statement commits by itself. See [`transaction`].
//!
//! **Schemas** change over the life of an actor: see [`migrate`].
//!
//! **Durability**: what [`exec`] wrote survives a crash of the server and is made durable soon
//! after; [`exec_durable`] returns only once it is. Use it before you tell somebody "done".

mod error;
mod migrate;
mod params;
mod row;
#[cfg(test)]
mod tests;
mod value;

use serde::de::DeserializeOwned;

use crate::bindings::wasmkeep::actor::storage as host;

pub use error::{ConstraintKind, SqlError};
pub use migrate::{MigrateError, Migration, migrate};
pub use params::Params;
pub use value::Value;

/// What a query gives: the columns' names, and the values of each row in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// The columns' names.
    pub columns: Vec<String>,
    /// Each row's values.
    pub rows: Vec<Vec<Value>>,
}

impl Rows {
    /// Reads every row into a `T`:
    ///
    /// - a struct takes the columns by name (`#[serde(rename)]` works, other columns are ignored);
    /// - a tuple takes them in order, and there must be as many;
    /// - a single column may be read as the value alone: a number, `bool`, `String`, `Vec<u8>`,
    ///   an enum by its name, [`Value`] for any of them, or `Option` where it may be `NULL`.
    ///
    /// A row that does not fit is [`SqlError::Mismatch`], which names row and column. For blobs of
    /// megabytes, [`Value`] is faster than `Vec<u8>`.
    pub fn decode<T: DeserializeOwned>(self) -> Result<Vec<T>, SqlError> {
        row::decode_all(self)
    }
}

/// Runs a statement and returns how many rows it inserted, updated or deleted.
///
/// Committed locally when it returns, and made durable soon after.
pub fn exec(sql: &str, params: impl Params) -> Result<u64, SqlError> {
    Ok(host::exec(sql, &params.into_values())?)
}

/// As [`exec`], and nothing leaves the actor after it before the write is durable: on disk, or in a
/// cluster's bucket. While other events wait for the actor it may return earlier, and the answer waits
/// instead.
///
/// Inside a transaction only `COMMIT` can be: see [`transaction_durable`].
pub fn exec_durable(sql: &str, params: impl Params) -> Result<u64, SqlError> {
    Ok(host::exec_durable(sql, &params.into_values())?)
}

/// Runs a statement and returns its rows as they are. It takes reads, and writes with a
/// `RETURNING` clause.
///
/// All rows of one query together hold at most 16 MiB: page through more with `LIMIT`.
pub fn query(sql: &str, params: impl Params) -> Result<Rows, SqlError> {
    Ok(host::query(sql, &params.into_values())?)
}

/// Runs a query and reads each row into a `T`: see [`Rows::decode`].
pub fn query_as<T: DeserializeOwned>(sql: &str, params: impl Params) -> Result<Vec<T>, SqlError> {
    query(sql, params)?.decode()
}

/// Runs a query that gives a row whatever happens (`SELECT count(*) …`, `INSERT … RETURNING id`)
/// and reads the first. No row at all is [`SqlError::Mismatch`].
pub fn query_one<T: DeserializeOwned>(sql: &str, params: impl Params) -> Result<T, SqlError> {
    let first = query_optional(sql, params)?;
    first.ok_or_else(|| SqlError::Mismatch("the query gave no row, one was expected".to_owned()))
}

/// Runs a query that may find nothing and reads the first row, if there is one.
pub fn query_optional<T: DeserializeOwned>(
    sql: &str,
    params: impl Params,
) -> Result<Option<T>, SqlError> {
    row::decode_first(query(sql, params)?)
}

/// Runs the closure in a transaction: all its statements take effect, or none.
///
/// When the closure returns an error, the transaction is rolled back and the error returned. A
/// transaction cannot be opened inside another.
///
/// ```no_run
/// # use wasmkeep_sdk::{Error, Result, storage};
/// fn transfer(from: &str, to: &str, amount: i64) -> Result<()> {
///     storage::transaction(|| {
///         let take = "UPDATE accounts SET balance = balance - ?2 WHERE id = ?1 AND balance >= ?2";
///         if storage::exec(take, (from, amount))? == 0 {
///             return Err(Error::status(409, "not enough money"));
///         }
///         let give = "UPDATE accounts SET balance = balance + ?2 WHERE id = ?1";
///         if storage::exec(give, (to, amount))? == 0 {
///             return Err(Error::not_found("no such account"));
///         }
///         Ok(())
///     })
/// }
/// ```
pub fn transaction<T>(work: impl FnOnce() -> crate::Result<T>) -> crate::Result<T> {
    run_transaction(work, || exec("COMMIT", ()))
}

/// As [`transaction`], and returns only once all of it is durable.
pub fn transaction_durable<T>(work: impl FnOnce() -> crate::Result<T>) -> crate::Result<T> {
    run_transaction(work, || exec_durable("COMMIT", ()))
}

fn run_transaction<T>(
    work: impl FnOnce() -> crate::Result<T>,
    commit: impl FnOnce() -> Result<u64, SqlError>,
) -> crate::Result<T> {
    exec("BEGIN IMMEDIATE", ())?;
    let result = work().and_then(|value| {
        commit()?;
        Ok(value)
    });
    if result.is_err() {
        // Fails where SQLite has rolled back already; what is still open ends with the event.
        let _ = exec("ROLLBACK", ());
    }
    result
}

/// Runs the closure as part of the open transaction, or as one of its own: all or nothing.
pub(crate) fn together<T>(work: impl FnOnce() -> crate::Result<T>) -> crate::Result<T> {
    // The outermost savepoint is a transaction, which its release commits.
    exec("SAVEPOINT _sdk_together", ())?;
    let result = work().and_then(|value| {
        exec("RELEASE _sdk_together", ())?;
        Ok(value)
    });
    if result.is_err() {
        // They fail where SQLite has rolled back all of it already.
        let _ = exec("ROLLBACK TO _sdk_together", ());
        let _ = exec("RELEASE _sdk_together", ());
    }
    result
}

/// Deletes this actor when the event ends: its database and alarm go, and the next event to the
/// address starts a new actor.
pub fn delete_self() {
    host::delete_self();
}

/// Deletes this actor now, and returns only once that is durable. Later storage calls of the event
/// are [`SqlError::NotAllowed`], and so is this one inside a transaction.
pub fn delete_self_durable() -> Result<(), SqlError> {
    Ok(host::delete_self_durable()?)
}
