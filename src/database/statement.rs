//! Runs one statement of a guest, under the sandbox and within the event's budgets.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Instant;

use wasmkeep_supervisors::limits::{RESULT_BYTES_MAX, STATEMENT_BYTES_MAX, VALUE_BYTES_MAX};
use wasmkeep_supervisors::ports::{RowSet, SqlError, SqlValue};

use super::budget::mib;
use super::connection::LocalDatabase;
use super::hooks::Traits;
use super::memory;
use super::off_runtime::{SLOW_STATEMENTS, off_runtime_if};
use super::prepared::{CompileError, Failure, Prepared};
use super::sandbox::{self, Control};

/// What is counted for a value beside the bytes it holds.
pub(super) const VALUE_OVERHEAD_BYTES: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The rows changed are wanted, not those returned.
    Exec,
    /// As `Exec`, before an fsync.
    ExecBeforeSync,
    /// The rows returned are wanted.
    Query,
}

#[derive(Default)]
pub(super) struct Answer {
    pub changed: u64,
    pub rows: RowSet,
}

/// Why a statement has no answer.
pub(super) enum Stop {
    /// By us.
    Refused(SqlError),
    /// By SQLite.
    Failed(Failure),
}

impl From<SqlError> for Stop {
    fn from(error: SqlError) -> Self {
        Self::Refused(error)
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl LocalDatabase {
    pub(super) fn run(
        &mut self,
        sql: &str,
        params: &[SqlValue],
        purpose: Purpose,
    ) -> Result<Answer, SqlError> {
        self.usable().map_err(|fault| SqlError::Internal(fault.to_string()))?;
        check_sizes(sql, params)?;
        self.hooks.budget.admit()?;
        let hash = hash(self.identity.class(), sql);
        let started = Instant::now();
        let answer = off_runtime_if(SLOW_STATEMENTS.contains(hash), || {
            self.run_charged(hash, sql, params, purpose)
        });
        SLOW_STATEMENTS.ran(hash, started.elapsed());
        answer
    }

    /// Charges the event's budgets with the statement, compiling included.
    fn run_charged(
        &mut self,
        hash: u64,
        sql: &str,
        params: &[SqlValue],
        purpose: Purpose,
    ) -> Result<Answer, SqlError> {
        self.charged(|database| database.run_cached(hash, sql, params, purpose))
    }

    /// Charges the event's budgets with `work`, which is done with a guest's rights.
    pub(super) fn charged<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, Stop>,
    ) -> Result<T, SqlError> {
        let was_in_transaction = !self.connection.is_autocommit();
        self.hooks.gate.begin();
        self.hooks.budget.start();
        let charge = memory::Charge::begin(self.hooks.budget.memory_left());
        let result = work(self);
        self.hooks.budget.set_memory_left(charge.left());
        let out_of_memory = charge.refused();
        drop(charge);
        self.hooks.budget.stop();
        match result {
            Ok(answer) => Ok(answer),
            Err(Stop::Refused(error)) => Err(error),
            Err(Stop::Failed(failure)) => {
                let error = self.sql_error(failure, out_of_memory);
                let rolled_back = was_in_transaction && self.connection.is_autocommit();
                Err(if rolled_back { with_note(error) } else { error })
            }
        }
    }

    fn run_cached(
        &mut self,
        hash: u64,
        sql: &str,
        params: &[SqlValue],
        purpose: Purpose,
    ) -> Result<Answer, Stop> {
        if let Some(mut cached) = self.statements.take(hash, sql) {
            let traits = cached.traits;
            let result = self.run_prepared(&mut cached.prepared, traits, params, purpose);
            self.statements.put(cached);
            return result;
        }
        let mut prepared = self.compile(sql)?;
        let traits = self.hooks.gate.traits();
        if traits.changes_schema
            && let Some(name) = sandbox::host_name_in(sql)
        {
            return Err(SqlError::NotAllowed(sandbox::host_name_refused(name)).into());
        }
        let result = self.run_prepared(&mut prepared, traits, params, purpose);
        self.statements.add(hash, sql, prepared, traits);
        result
    }

    pub(super) fn compile(&self, sql: &str) -> Result<Prepared, Stop> {
        Prepared::compile(&self.connection, sql).map_err(|error| match error {
            CompileError::Empty => {
                SqlError::Invalid("there is no statement in the text".into()).into()
            }
            CompileError::Several => {
                SqlError::Invalid("one statement per call; the text holds more".into()).into()
            }
            CompileError::Refused(failure) => failure.into(),
        })
    }

    fn run_prepared(
        &mut self,
        prepared: &mut Prepared,
        traits: Traits,
        params: &[SqlValue],
        purpose: Purpose,
    ) -> Result<Answer, Stop> {
        // An EXPLAIN only talks about what it explains.
        let control = traits.control.filter(|_| !prepared.is_explain());
        let writes = !prepared.is_readonly() && control.is_none();
        self.check_purpose(prepared, control, writes, purpose)?;
        check_params(prepared, params)?;
        if writes {
            self.hooks.budget.admit_write()?;
            self.hooks.budget.running_writes();
        }
        match purpose {
            Purpose::Query if writes => self.collect_or_undo(prepared, params),
            Purpose::Query => collect(prepared, params),
            Purpose::Exec | Purpose::ExecBeforeSync => {
                let changed = self.run_to_the_end(prepared, params)?;
                let counts = writes && !traits.changes_schema;
                Ok(Answer { changed: if counts { changed } else { 0 }, rows: RowSet::default() })
            }
        }
    }

    fn check_purpose(
        &self,
        prepared: &Prepared,
        control: Option<Control>,
        writes: bool,
        purpose: Purpose,
    ) -> Result<(), SqlError> {
        let why = match purpose {
            Purpose::Query if control.is_some() => {
                "query does not begin or end transactions and savepoints: use exec"
            }
            Purpose::Query if writes && prepared.columns() == 0 => {
                "query takes a write only with a RETURNING clause: use exec"
            }
            Purpose::ExecBeforeSync
                if !self.connection.is_autocommit() && control != Some(Control::Commit) =>
            {
                "inside a transaction exec-durable takes only COMMIT or END"
            }
            _ => return Ok(()),
        };
        Err(SqlError::NotAllowed(why.into()))
    }

    /// Rows changed. SQLite keeps the count of the last INSERT, UPDATE or DELETE, so it is this
    /// statement's only if this statement changed something.
    fn run_to_the_end(&self, prepared: &mut Prepared, params: &[SqlValue]) -> Result<u64, Failure> {
        let before = self.connection.total_changes();
        let mut run = prepared.run(params)?;
        while run.step()? {}
        drop(run);
        let changed = self.connection.total_changes() != before;
        Ok(if changed { self.connection.changes() } else { 0 })
    }

    /// Runs a write that returns rows. It has written everything before its first row, so when
    /// the rows turn out too large, it must be undone.
    fn collect_or_undo(
        &self,
        prepared: &mut Prepared,
        params: &[SqlValue],
    ) -> Result<Answer, Stop> {
        self.savepoint("SAVEPOINT _wk_query")?;
        let mut result = collect(prepared, params);
        if self.connection.is_autocommit() {
            // The failure rolled back the whole transaction.
            return result;
        }
        if !matches!(result, Err(Stop::Refused(_))) {
            match self.savepoint("RELEASE _wk_query") {
                Ok(()) => return result,
                // A deferred constraint does not hold.
                Err(failure) => result = result.and(Err(failure.into())),
            }
        }
        if !self.connection.is_autocommit() {
            self.savepoint("ROLLBACK TO _wk_query")?;
            self.savepoint("RELEASE _wk_query")?;
        }
        result
    }

    fn savepoint(&self, sql: &str) -> Result<(), Failure> {
        let run = || self.connection.prepare_cached(sql)?.execute([]);
        self.hooks.as_host(run).map(drop).map_err(Failure::from)
    }
}

/// Runs a statement and keeps its rows, up to the bound of a result.
fn collect(prepared: &mut Prepared, params: &[SqlValue]) -> Result<Answer, Stop> {
    let mut run = prepared.run(params)?;
    // The first step may compile the statement anew, and so change its columns.
    let mut on_row = run.step()?;
    let width = run.columns();
    let columns = (0..width).map(|column| run.column_name(column)).collect();
    let mut rows = Vec::new();
    let mut bytes = 0;
    while on_row {
        let mut row = Vec::with_capacity(width);
        for column in 0..width {
            bytes += VALUE_OVERHEAD_BYTES + run.value_bytes(column);
            if bytes > RESULT_BYTES_MAX {
                return Err(too_large("the result of a query", RESULT_BYTES_MAX).into());
            }
            row.push(run.value(column)?);
        }
        rows.push(row);
        on_row = run.step()?;
    }
    Ok(Answer { changed: 0, rows: RowSet { columns, rows } })
}

pub(super) fn check_params(prepared: &Prepared, params: &[SqlValue]) -> Result<(), SqlError> {
    if prepared.parameters() == params.len() {
        return Ok(());
    }
    Err(SqlError::Invalid(format!(
        "the statement has {} parameters, and {} values were given",
        prepared.parameters(),
        params.len()
    )))
}

pub(super) fn check_sizes(sql: &str, params: &[SqlValue]) -> Result<(), SqlError> {
    if sql.len() > STATEMENT_BYTES_MAX {
        return Err(too_large("the text of a statement", STATEMENT_BYTES_MAX));
    }
    // SQLite would stop reading there.
    if sql.contains('\0') {
        return Err(SqlError::Invalid("the text of the statement holds a NUL".into()));
    }
    let too_long = |value: &SqlValue| match value {
        SqlValue::Text(text) => text.len() > VALUE_BYTES_MAX,
        SqlValue::Blob(bytes) => bytes.len() > VALUE_BYTES_MAX,
        SqlValue::Null | SqlValue::Integer(_) | SqlValue::Real(_) => false,
    };
    if params.iter().any(too_long) {
        return Err(too_large("a value", VALUE_BYTES_MAX));
    }
    Ok(())
}

fn too_large(what: &str, bytes_max: usize) -> SqlError {
    SqlError::QuotaExceeded(format!("{what} is limited to {}", mib(bytes_max as u64)))
}

/// Says that more was undone than the statement that failed.
fn with_note(error: SqlError) -> SqlError {
    let note = |text: String| format!("{text}; the open transaction was rolled back");
    match error {
        SqlError::Invalid(text) => SqlError::Invalid(note(text)),
        SqlError::Constraint { kind, message } => {
            SqlError::Constraint { kind, message: note(message) }
        }
        SqlError::QuotaExceeded(text) => SqlError::QuotaExceeded(note(text)),
        SqlError::NotAllowed(text) => SqlError::NotAllowed(note(text)),
        SqlError::Internal(text) => SqlError::Internal(text),
    }
}

fn hash(class: &str, sql: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (class, sql).hash(&mut hasher);
    hasher.finish()
}
