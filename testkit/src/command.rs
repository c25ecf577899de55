use std::path::Path;
use std::process::{Command, Stdio};

/// The server's executable: `WASMKEEP`, or `wasmkeep` where commands are found. Settings of the
/// environment do not reach it: a test says all it needs.
pub(crate) fn wasmkeep() -> Command {
    let given = std::env::var_os("WASMKEEP").filter(|path| !path.is_empty());
    let mut command = Command::new(given.unwrap_or_else(|| "wasmkeep".into()));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("WASMKEEP_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// Runs it to its end on a node's data, and gives what it printed.
#[track_caller]
pub(crate) fn run(command: &mut Command, data_dir: &Path) -> String {
    command.arg("--data-dir").arg(data_dir);
    let output = command.output().unwrap_or_else(|error| panic!("{}", not_started(&error)));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed ({}): {said}", output.status);
    String::from_utf8(output.stdout).expect("wasmkeep prints UTF-8")
}

pub(crate) fn not_started(error: &std::io::Error) -> String {
    format!(
        "wasmkeep could not be started ({error}): install it, or say where it is in the environment \
         variable WASMKEEP"
    )
}
