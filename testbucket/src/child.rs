//! The store as a child process.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::{Dialect, Fault};

/// The bucket there is.
pub const BUCKET: &str = "wasmkeep-test";
/// Who may use it.
pub const ACCESS_KEY: &str = "test-access-key";
/// And with which secret.
pub const SECRET_KEY: &str = "test-secret-key-1b09d3";

/// How many requests came, by operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    pub get: u64,
    pub put: u64,
    pub list: u64,
    pub delete: u64,
}

/// A store with a port of its own. It ends when this goes out of scope, and also when this process
/// dies.
pub struct TestBucket {
    child: Child,
    // Its end is what the child waits for.
    _stdin: Option<ChildStdin>,
    endpoint: String,
}

impl TestBucket {
    /// Starts the executable that `WASMKEEP_TESTBUCKET` names, or else builds and starts this
    /// workspace's.
    pub fn start(dialect: Dialect) -> Self {
        static EXECUTABLE: OnceLock<PathBuf> = OnceLock::new();
        Self::run(EXECUTABLE.get_or_init(executable), dialect)
    }

    pub fn run(executable: &Path, dialect: Dialect) -> Self {
        let mut child = Command::new(executable)
            .args(["--dialect", dialect.as_str()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("start {}: {error}", executable.display()));
        let stdin = child.stdin.take();
        let mut line = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("read its first line");
        let endpoint = line.trim().strip_prefix("listening on ").map(str::to_owned);
        let endpoint = endpoint.unwrap_or_else(|| panic!("the store said {line:?}"));
        Self { child, _stdin: stdin, endpoint }
    }

    /// `http://127.0.0.1:<port>`
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Adds a fault. Of several that fit a request, the first has it.
    pub fn fails(&self, fault: &Fault) {
        let url = format!("{}/_control/faults", self.endpoint);
        ureq::post(url).send_json(fault).expect("the store takes faults");
    }

    /// Forgets all faults that are left.
    pub fn mend(&self) {
        let url = format!("{}/_control/faults", self.endpoint);
        ureq::delete(url).call().expect("the store takes faults");
    }

    pub fn keys(&self) -> Vec<String> {
        self.ask("keys")
    }

    pub fn counts(&self) -> Counts {
        self.ask("counts")
    }

    fn ask<T: serde::de::DeserializeOwned>(&self, what: &str) -> T {
        let url = format!("{}/_control/{what}", self.endpoint);
        let mut answer = ureq::get(url).call().expect("the store answers");
        answer.body_mut().read_json().expect("JSON")
    }
}

impl Drop for TestBucket {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn executable() -> PathBuf {
    if let Some(path) = std::env::var_os("WASMKEEP_TESTBUCKET") {
        return path.into();
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(root)
        .args(["build", "--quiet", "--package", "wasmkeep-testbucket"])
        .status();
    assert!(status.is_ok_and(|status| status.success()), "build wasmkeep-testbucket");
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    target.unwrap_or_else(|| root.join("target")).join("debug/wasmkeep-testbucket")
}
