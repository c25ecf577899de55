//! Settings, values and statements: read by what reads them.

use std::fs;
use std::path::Path;
use std::process::Command;

use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value as Json, json};
use toml::Value as Toml;

use super::blocks::Block;
use super::{Checked, Outcome, Page, root};
use crate::support::{Node, component, run, wasmkeep};

/// The first line of a block that is a manifest, and no settings.
const MANIFEST: &str = "# Cargo.toml";

pub fn is_toml(_: &mut Page, block: &Block) -> Checked {
    let folder = tempfile::tempdir().expect("make a folder");
    if block.text.starts_with(MANIFEST) {
        is_manifest(folder.path(), &block.text)?;
        return Ok(Outcome::Checked);
    }
    // Files outside of the settings' folder are in it here.
    let text = block.text.replace("\"/", &format!("\"{}/", folder.path().display()));
    let settings = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
    make_files(folder.path(), &Toml::Table(settings), "");
    let path = folder.path().join("wasmkeep.toml");
    fs::write(&path, text).expect("write the settings");
    serves(&path)?;
    Ok(Outcome::Ran)
}

/// What settings name is there: components, values, an authority.
fn make_files(folder: &Path, settings: &Toml, name: &str) {
    match settings {
        Toml::Table(table) => {
            table.iter().for_each(|(name, value)| make_files(folder, value, name))
        }
        Toml::Array(values) => values.iter().for_each(|value| make_files(folder, value, name)),
        Toml::String(file) => {
            let path = folder.join(file);
            let parent = path.parent().expect("it is in a folder");
            let make = || fs::create_dir_all(parent).expect("make a folder");
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("wasm") => {
                    let front = name == "component";
                    let given = if front { "guest-front-hello.wasm" } else { "guest-hello.wasm" };
                    make();
                    fs::copy(component(given), &path).expect("copy a component");
                }
                Some("env") => {
                    make();
                    fs::write(&path, "A=1\n").expect("write values");
                }
                Some("pem") => {
                    let key = KeyPair::generate().expect("make a key");
                    let authority = CertificateParams::default().self_signed(&key);
                    make();
                    fs::write(&path, authority.expect("sign it").pem()).expect("write it");
                }
                _ => {}
            }
        }
        _ => {}
    }
}

/// The real server takes them, but for the port.
fn serves(settings: &Path) -> Result<(), String> {
    let mut serve = wasmkeep();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(settings);
    super::shell::Server::start(serve.current_dir(settings.parent().expect("in a folder")))
        .map(drop)
}

fn is_manifest(folder: &Path, text: &str) -> Result<(), String> {
    let sdk = format!("path = {:?}", root().join("sdk-rust"));
    let text = text.replace("git = \"https://github.com/wasmkeep/wasmkeep\"", &sdk);
    let package = "[package]\nname = \"snippet\"\nedition = \"2024\"\n";
    fs::write(folder.join("Cargo.toml"), format!("{package}\n{text}\n[workspace]\n"))
        .expect("write it");
    fs::create_dir(folder.join("src")).expect("make a folder");
    fs::write(folder.join("src/lib.rs"), "").expect("write the library");
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).expect("pin the versions");
    let mut cargo = Command::new("cargo");
    // It resolves what the manifest names, and says what it does not know.
    cargo.args(["fetch", "--offline", "--target", "x86_64-unknown-linux-gnu"]);
    let (code, said) = run(cargo.current_dir(folder));
    let is_known = code == Some(0) && !said.contains("unused manifest key");
    is_known.then_some(()).ok_or(said)
}

pub fn is_json(_: &mut Page, block: &Block) -> Checked {
    serde_json::from_str::<Json>(&block.text).map_err(|error| error.to_string())?;
    Ok(Outcome::Checked)
}

/// Its statements run in an actor, one after the other, with a 1 for each `?`.
pub fn is_sql(_: &mut Page, block: &Block) -> Checked {
    let node = Node::probe().start();
    let steps: Vec<Json> = block
        .text
        .split(';')
        .map(str::trim)
        .filter(|sql| !sql.is_empty())
        .map(|sql| {
            let op = if sql.starts_with("SELECT") { "query" } else { "exec" };
            json!({ "op": op, "sql": sql, "params": vec![1; sql.matches('?').count()] })
        })
        .collect();
    for (step, done) in steps.iter().zip(node.actor("probe/a").steps(json!(steps))) {
        if done["changed"].is_null() && done["rows"].is_null() {
            return Err(format!("{}: {done}", step["sql"]));
        }
    }
    Ok(Outcome::Ran)
}

/// A refusal: its fields and its body say the same.
pub fn is_an_answer(_: &mut Page, block: &Block) -> Checked {
    let (head, body) = block.text.split_once("\n\n").ok_or("an empty line ends the head")?;
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 "));
    status.and_then(|line| line.split_once(' ')).ok_or("no status line: HTTP/1.1 STATUS TEXT")?;
    let body: Json = serde_json::from_str(body).map_err(|error| error.to_string())?;
    for line in lines {
        let (name, value) = line.split_once(": ").ok_or_else(|| format!("no header: {line}"))?;
        if let Some(field) = name.strip_prefix("x-wasmkeep-")
            && body[field] != value
        {
            return Err(format!("`{name}` is {value}, and in the body {}", body[field]));
        }
    }
    Ok(Outcome::Checked)
}
