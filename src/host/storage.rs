//! `wasmkeep:actor/storage`: WIT values to `ports` values and back.

use wasmkeep_supervisors::ports::{ConstraintKind, RowSet, SqlError, SqlValue};
use wasmkeep_wit::actor::wasmkeep::actor::storage as wit;

use super::state::HostState;

impl wit::Host for HostState {
    fn exec(
        &mut self,
        sql: String,
        params: Vec<wit::Value>,
    ) -> wasmtime::Result<Result<u64, wit::SqlError>> {
        let changed = self.meter.waits(|| self.actor().exec(&sql, values_in(params)));
        Ok(changed.map_err(error_out))
    }

    fn query(
        &mut self,
        sql: String,
        params: Vec<wit::Value>,
    ) -> wasmtime::Result<Result<wit::RowSet, wit::SqlError>> {
        let rows = self.meter.waits(|| self.actor().query(&sql, values_in(params)));
        Ok(rows.map(rows_out).map_err(error_out))
    }

    async fn exec_durable(
        &mut self,
        sql: String,
        params: Vec<wit::Value>,
    ) -> wasmtime::Result<Result<u64, wit::SqlError>> {
        let written = self.meter.waits(|| self.actor().exec_durable(&sql, values_in(params)));
        Ok(written.await.map_err(error_out))
    }

    fn delete_self(&mut self) -> wasmtime::Result<()> {
        self.actor().delete_self();
        Ok(())
    }

    async fn delete_self_durable(&mut self) -> wasmtime::Result<Result<(), wit::SqlError>> {
        let deleted = self.meter.waits(|| self.actor().delete_self_durable());
        Ok(deleted.await.map_err(error_out))
    }
}

fn values_in(values: Vec<wit::Value>) -> Vec<SqlValue> {
    let value_in = |value| match value {
        wit::Value::Null => SqlValue::Null,
        wit::Value::Integer(integer) => SqlValue::Integer(integer),
        wit::Value::Real(real) => SqlValue::Real(real),
        wit::Value::Text(text) => SqlValue::Text(text),
        wit::Value::Blob(blob) => SqlValue::Blob(blob),
    };
    values.into_iter().map(value_in).collect()
}

fn rows_out(set: RowSet) -> wit::RowSet {
    let value_out = |value| match value {
        SqlValue::Null => wit::Value::Null,
        SqlValue::Integer(integer) => wit::Value::Integer(integer),
        SqlValue::Real(real) => wit::Value::Real(real),
        SqlValue::Text(text) => wit::Value::Text(text),
        SqlValue::Blob(blob) => wit::Value::Blob(blob),
    };
    wit::RowSet {
        columns: set.columns,
        rows: set.rows.into_iter().map(|row| row.into_iter().map(value_out).collect()).collect(),
    }
}

pub fn error_out(error: SqlError) -> wit::SqlError {
    match error {
        SqlError::Invalid(text) => wit::SqlError::Invalid(text),
        SqlError::Constraint { kind, message } => {
            let kind = match kind {
                ConstraintKind::Unique => wit::ConstraintKind::Unique,
                ConstraintKind::PrimaryKey => wit::ConstraintKind::PrimaryKey,
                ConstraintKind::ForeignKey => wit::ConstraintKind::ForeignKey,
                ConstraintKind::NotNull => wit::ConstraintKind::NotNull,
                ConstraintKind::Check => wit::ConstraintKind::Check,
                ConstraintKind::Other => wit::ConstraintKind::Other,
            };
            wit::SqlError::Constraint(wit::ConstraintViolation { kind, message })
        }
        SqlError::QuotaExceeded(text) => wit::SqlError::QuotaExceeded(text),
        SqlError::NotAllowed(text) => wit::SqlError::NotAllowed(text),
        SqlError::Internal(text) => wit::SqlError::Internal(text),
    }
}
