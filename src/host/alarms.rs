//! `wasmkeep:actor/alarms`.

use wasmkeep_supervisors::time::Timestamp;
use wasmkeep_wit::actor::wasmkeep::actor::alarms as wit;
use wasmkeep_wit::actor::wasmkeep::actor::storage::SqlError;

use super::state::HostState;
use super::storage::error_out;

impl wit::Host for HostState {
    fn set_alarm(&mut self, at: wit::TimestampMs) -> wasmtime::Result<Result<(), SqlError>> {
        let set = self.meter.waits(|| self.actor().set_alarm(Timestamp(at)));
        Ok(set.map_err(error_out))
    }

    fn get_alarm(&mut self) -> wasmtime::Result<Result<Option<wit::TimestampMs>, SqlError>> {
        let pending = self.meter.waits(|| self.actor().get_alarm());
        Ok(pending.map(|at| at.map(|at| at.0)).map_err(error_out))
    }

    fn clear_alarm(&mut self) -> wasmtime::Result<Result<(), SqlError>> {
        let cleared = self.meter.waits(|| self.actor().clear_alarm());
        Ok(cleared.map_err(error_out))
    }

    fn attempt(&mut self) -> wasmtime::Result<u32> {
        Ok(self.actor().alarm_attempt())
    }
}
