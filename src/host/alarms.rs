//! `wasmkeep:actor/alarms`: not in this build, and it says so.

use wasmkeep_wit::actor::wasmkeep::actor::alarms as wit;
use wasmkeep_wit::actor::wasmkeep::actor::storage::SqlError;

use super::state::HostState;

fn not_in_this_build<T>() -> wasmtime::Result<Result<T, SqlError>> {
    Ok(Err(SqlError::NotAllowed("alarms are not in this build".into())))
}

impl wit::Host for HostState {
    fn set_alarm(&mut self, _at: wit::TimestampMs) -> wasmtime::Result<Result<(), SqlError>> {
        not_in_this_build()
    }

    fn get_alarm(&mut self) -> wasmtime::Result<Result<Option<wit::TimestampMs>, SqlError>> {
        not_in_this_build()
    }

    fn clear_alarm(&mut self) -> wasmtime::Result<Result<(), SqlError>> {
        not_in_this_build()
    }

    fn attempt(&mut self) -> wasmtime::Result<u32> {
        Ok(0)
    }
}
