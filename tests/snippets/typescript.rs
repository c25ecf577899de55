//! TypeScript and JavaScript in the docs: checked as strictly as the compiler can, in a project that
//! has the SDK installed.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::json;

use super::blocks::Block;
use super::{Checked, Outcome, Page, root};
use crate::support::run;

/// `cargo xtask guests` installs it.
const COMPILER: &str = "sdk-ts/node_modules/typescript/bin/tsc";

pub fn has_types(page: &mut Page, block: &Block) -> Checked {
    let folder = tempfile::tempdir().expect("make a folder");
    let write = |file: &str, text: &str| {
        fs::write(folder.path().join(file), text).expect("write a file of the project");
    };
    let packages = folder.path().join("node_modules");
    fs::create_dir_all(packages.join("@wasmkeep")).expect("make a folder");
    symlink(root().join("sdk-ts"), packages.join("@wasmkeep/sdk")).expect("install the SDK");
    // The settings that the page gives its readers, if it does.
    let settings = page.blocks.iter().filter(|block| block.language == "json");
    let settings = settings.map(|block| &*block.text).find(|text| text.contains("compilerOptions"));
    write("base.json", settings.unwrap_or("{}"));
    let mut options = json!({
        "target": "es2022", "module": "esnext", "moduleResolution": "bundler",
        "strict": true, "noUncheckedIndexedAccess": true, "noImplicitOverride": true,
        "exactOptionalPropertyTypes": true, "noEmit": true,
    });
    if block.language == "ts" {
        options["lib"] = json!(["es2024"]);
        options["types"] = json!(["@wasmkeep/sdk/globals"]);
    } else {
        // Tests, which Node.js runs.
        symlink(root().join("sdk-ts/node_modules/@types"), packages.join("@types")).expect("link");
        options["checkJs"] = json!(true);
        options["types"] = json!(["node"]);
    }
    let file = format!("snippet.{}", block.language);
    write(&file, &block.text);
    let project = json!({ "extends": "./base.json", "compilerOptions": options, "files": [file] });
    write("tsconfig.json", &project.to_string());
    let mut compiler = Command::new("node");
    let compiler = compiler.arg(root().join(COMPILER)).arg("-p").arg(folder.path());
    match run(compiler.current_dir(folder.path())) {
        (Some(0), _) => Ok(Outcome::Checked),
        (_, said) => Err(said),
    }
}
