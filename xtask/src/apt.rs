//! Debian's packages, where a machine lacks them and may install them.

use std::process::Command;

use anyhow::{Result, bail};

use crate::command;

pub fn install(packages: &[&str]) -> Result<()> {
    if !command::succeeds(Command::new("apt-get").arg("--version")) {
        bail!("there is no apt-get");
    }
    let is_root = command::capture(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    if !is_root && !command::succeeds(Command::new("sudo").args(["-n", "true"])) {
        bail!("this user may not install packages");
    }
    let apt = |arguments: &[&str]| {
        let mut apt = Command::new(if is_root { "env" } else { "sudo" });
        if !is_root {
            apt.args(["-n", "env"]);
        }
        apt.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"]).args(arguments);
        command::capture(&mut apt)
    };
    println!("installing {}", packages.join(", "));
    // One source of many that does not answer is no reason to stop.
    let updated = apt(&["update"]);
    // Never at the price of a package that is there, such as Debian's own rustc.
    let options = ["install", "-y", "--no-install-recommends", "--no-remove"];
    let installed = apt(&[&options[..], packages].concat());
    installed.map(|_| ()).map_err(|error| updated.err().unwrap_or(error))
}
