//! The leases that landed: a session that has ended never comes back.

use std::collections::{BTreeMap, BTreeSet};

use wasmkeep_supervisors::lease::{LeaseRecord, LeaseState, Session};

#[derive(Default)]
pub struct Leases {
    last: BTreeMap<String, Session>,
    ended: BTreeSet<Session>,
}

impl Leases {
    pub fn landed(&mut self, key: &str, body: &[u8]) -> Result<(), String> {
        let lease = LeaseRecord::decode(body).map_err(|error| format!("{key}: {error}"))?;
        let is_acting = matches!(lease.state, LeaseState::Live | LeaseState::Draining);
        if is_acting && self.ended.contains(&lease.session) {
            return Err(format!("{key}: session {} acts again", lease.session));
        }
        if !is_acting {
            self.ended.insert(lease.session);
        }
        match self.last.insert(key.to_owned(), lease.session) {
            Some(before) if before != lease.session => _ = self.ended.insert(before),
            _ => {}
        }
        Ok(())
    }

    /// The bucket shows that the session is over.
    pub fn has_ended(&self, session: Session) -> bool {
        self.ended.contains(&session)
    }
}
