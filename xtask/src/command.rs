//! Running other programs.

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

/// The cargo that runs this task.
///
/// Without what `cargo run` says about the package xtask: a build script that watches such a
/// variable would run again, and rebuild all above it, each time a task calls cargo.
pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&name);
        }
    }
    cargo.current_dir(crate::repo::root());
    cargo
}

/// Runs to the end and shows all output on our stdout, in order. An exit code other than 0 is an
/// error.
pub fn run(command: &mut Command) -> Result<()> {
    let stdout = io::stdout().as_fd().try_clone_to_owned().context("duplicate stdout")?;
    let line = line_of(command);
    let status = command
        .stdin(Stdio::null())
        .stderr(Stdio::from(stdout))
        .status()
        .with_context(|| format!("start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

/// Runs to the end and returns what it wrote to stdout. The error holds the end of its stderr.
pub fn capture(command: &mut Command) -> Result<String> {
    let line = line_of(command);
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("start `{line}`"))?;
    if !output.status.success() {
        bail!("`{line}` failed ({}):\n{}", output.status, last_lines(&output));
    }
    String::from_utf8(output.stdout).with_context(|| format!("read what `{line}` printed"))
}

/// Whether the program exists and succeeds. It prints nothing.
pub fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

fn last_lines(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = stderr.lines().collect();
    lines[lines.len().saturating_sub(12)..].join("\n")
}

/// The command as a person would type it.
fn line_of(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let program = program.file_name().unwrap_or(program.as_os_str());
    let words: Vec<_> =
        std::iter::once(program).chain(command.get_args()).map(OsStr::to_string_lossy).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_command_and_its_last_words() {
        let error = capture(Command::new("/bin/sh").args(["-c", "echo broken >&2; exit 3"]));
        let message = format!("{:#}", error.expect_err("exit 3 is a failure"));
        assert!(message.starts_with("`sh -c echo broken"), "{message}");
        assert!(message.ends_with("broken"), "{message}");
    }

    #[test]
    fn a_program_that_does_not_exist_does_not_succeed() {
        assert!(!succeeds(&mut Command::new("/no/such/program")));
    }
}
