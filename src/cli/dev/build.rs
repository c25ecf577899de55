//! Runs a project's build.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Whether the command succeeded. What it writes a person sees as it comes, on standard error.
pub fn build(command: &str, folder: &Path) -> bool {
    println!("building: {command}");
    let began = Instant::now();
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(folder).stdin(Stdio::null());
    shell.stdout(std::io::stderr());
    match shell.status() {
        Ok(status) if status.success() => {
            println!("built in {:.1} s", began.elapsed().as_secs_f64());
            true
        }
        Ok(status) => {
            println!("the build failed ({status}): see above");
            false
        }
        Err(error) => {
            println!("the build could not be started: {error}");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_runs_in_the_projects_folder_and_may_fail() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(build("echo made > it && test -f it", folder.path()));
        assert!(folder.path().join("it").is_file());
        assert!(!build("exit 3", folder.path()));
        assert!(!build("true", Path::new("/no/such/folder")));
    }
}
