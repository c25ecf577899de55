use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{Counts, Fault, Operation, What};

/// The faults that are left, and what came.
#[derive(Default)]
pub struct Faults(Mutex<State>);

#[derive(Default)]
struct State {
    left: Vec<Fault>,
    counts: Counts,
}

impl Faults {
    pub fn add(&self, fault: Fault) {
        self.state().left.push(fault);
    }

    pub fn clear(&self) {
        self.state().left.clear();
    }

    pub fn counts(&self) -> Counts {
        self.state().counts
    }

    /// Counts a request, and what goes wrong with it.
    pub fn next(&self, on: Operation, key: &str) -> Option<What> {
        let mut state = self.state();
        let counts = &mut state.counts;
        *match on {
            Operation::Get => &mut counts.get,
            Operation::Put => &mut counts.put,
            Operation::List => &mut counts.list,
            Operation::Delete => &mut counts.delete,
        } += 1;
        let fits = |fault: &Fault| fault.on == on && key.starts_with(&fault.key);
        let at = state.left.iter().position(fits)?;
        let fault = &mut state.left[at];
        let what = fault.what.clone();
        fault.times -= u32::from(fault.times != u32::MAX);
        if fault.times == 0 {
            state.left.remove(at);
        }
        Some(what)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
