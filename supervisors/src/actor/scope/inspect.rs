//! What an operator may read of the actor between two of its events.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::ActorScope;
use crate::actor::inspection::Inspection;

impl ActorScope {
    /// Lets an operator read the database, opened if need be, but not made.
    pub fn inspect(&self, inspection: Inspection) {
        if inspection.left().load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.lock();
        let deadline = state.deadline;
        if !self.exists_now(&state) {
            return inspection.run(Ok(None));
        }
        match self.open(&mut state) {
            Ok(database) => {
                database.begin_inspection(deadline, Arc::clone(inspection.left()));
                inspection.run(Ok(Some(database)));
            }
            Err(error) => inspection.run(Err(error)),
        }
    }
}
