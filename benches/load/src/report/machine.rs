//! Where figures come from: without that they say nothing.

use std::fs;
use std::process::Command;

/// One line: machine, kernel, commit.
pub fn describe() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let processor = field("/proc/cpuinfo", "model name").unwrap_or("unknown processor".into());
    let memory = field("/proc/meminfo", "MemTotal").unwrap_or("unknown memory".into());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let commit = output("git", &["rev-parse", "--short", "HEAD"]).unwrap_or("no commit".into());
    format!("{processor}, {cores} cores, {memory}, Linux {}, commit {commit}.\n", kernel.trim())
}

fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
