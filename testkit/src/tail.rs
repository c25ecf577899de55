use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::Receiver;

use serde_json::Value;

use crate::PATIENCE;
use crate::command::{not_started, wasmkeep};
use crate::node::lines_of;

/// What happens on a node, as `wasmkeep tail --json` tells it.
#[derive(Debug)]
pub struct Tail {
    process: Child,
    records: Receiver<String>,
}

impl Tail {
    #[track_caller]
    pub(crate) fn start(data_dir: &Path) -> Self {
        let mut command = wasmkeep();
        command.args(["tail", "--json", "--data-dir"]).arg(data_dir);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap_or_else(|error| panic!("{}", not_started(&error)));
        let said = lines_of(process.stderr.take().expect("stderr is a pipe"));
        let records = lines_of(process.stdout.take().expect("stdout is a pipe"));
        // It says so once it listens.
        let listens = said.recv_timeout(PATIENCE);
        assert!(listens.is_ok(), "the node is not followed");
        Self { process, records }
    }

    /// The next record that fits, others passed over. Its fields are those that the page of the
    /// command line lists: `kind`, `class`, `name`, and more for each kind.
    #[track_caller]
    pub fn wait_for(&mut self, what: &str, mut fits: impl FnMut(&Value) -> bool) -> Value {
        let mut others = Vec::new();
        while let Ok(line) = self.records.recv_timeout(PATIENCE) {
            let record: Value = serde_json::from_str(&line).expect("a record is JSON");
            if fits(&record) {
                return record;
            }
            others.push(line);
        }
        panic!("no record within {PATIENCE:?}: {what}; there were {others:#?}")
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
