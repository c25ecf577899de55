//! What happened in a run, line by line, for whoever replays its seed.

use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

pub struct Trace {
    began: Instant,
    lines: Option<Mutex<Vec<String>>>,
}

impl Trace {
    /// `is_kept`: lines cost time, and most runs are read by nobody.
    pub fn new(is_kept: bool) -> Self {
        Self { began: Instant::now(), lines: is_kept.then(Mutex::default) }
    }

    pub fn note(&self, line: impl FnOnce() -> String) {
        let Some(lines) = &self.lines else { return };
        let line = format!("{:10.3}  {}", self.began.elapsed().as_secs_f64(), line());
        lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    pub fn take(&self) -> Vec<String> {
        let lines = self.lines.as_ref();
        lines.map_or_else(Vec::new, |lines| {
            std::mem::take(&mut lines.lock().unwrap_or_else(PoisonError::into_inner))
        })
    }
}
