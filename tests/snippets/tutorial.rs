//! Rust in the docs.
//!
//! Whole files are doc tests of the SDK, and so are not compiled here. The parts of a project that
//! docs/start.md has its reader write are put together, in their places in what `wasmkeep new`
//! makes. The result has to be the project in tests/guests/tally, which is built, tested and served
//! with all others.

use std::fs;

use super::blocks::Block;
use super::{Checked, Outcome, Page, root};

const TALLY: &str = "tests/guests/tally";
/// The edits after which a file is complete.
const COMPLETE: [&str; 2] = ["end", "test"];
/// Where the SDK's documentation takes in pages.
const DOC_TESTS: &str = "sdk-rust/src/lib.rs";

pub fn compiles(page: &mut Page, block: &Block) -> Checked {
    if block.mark("ignore").is_some() {
        return Err("`ignore` has it compiled by nobody: say why, with no-run=WHY".to_owned());
    }
    match block.mark("edit") {
        None => is_doc_test(&page.name)?,
        Some(_) => edit(page, block)?,
    }
    Ok(Outcome::Checked)
}

/// Changes the project as the page says, which its server sees.
pub fn edit(page: &mut Page, block: &Block) -> Result<(), String> {
    let edit = block.mark("edit").unwrap_or_default();
    let file = if edit == "test" { "tests/counter.rs" } else { "src/lib.rs" };
    let path = page.shell.at("tally").join(file);
    let made = fs::read_to_string(&path);
    let made = made.map_err(|_| format!("`wasmkeep new tally` was not run before; see {TALLY}"))?;
    // From the first change on, builds make what the last one leads to.
    page.shell.builds_make("guest-tally.wasm");
    let edited = edited(&made, edit, &block.text)?;
    fs::write(&path, &edited).expect("write the project's source");
    if COMPLETE.contains(&edit) { same(file, &edited) } else { Ok(()) }
}

fn is_doc_test(page: &str) -> Result<(), String> {
    let text = fs::read_to_string(root().join(DOC_TESTS)).expect("read the SDK's first file");
    let included = match page.strip_prefix("sdk-rust/") {
        Some(own) => format!("include_str!(\"../{own}\")"),
        None => format!("include_str!(\"../../{page}\")"),
    };
    let is_there = text.contains(&included);
    is_there.then_some(()).ok_or(format!("no doc test: {DOC_TESTS} does not have {included}"))
}

/// The file with one more change of the page, where the page says that it goes.
fn edited(made: &str, edit: &str, part: &str) -> Result<String, String> {
    let mut text = made.to_owned();
    let place = |mark: &str| made.find(mark).ok_or(format!("the project has no `{mark}`"));
    let behind = |at: usize, mark: &str| at + made[at..].find(mark).unwrap_or(0) + 1;
    let indented = |by: usize| {
        let lines = part.lines().map(|line| format!("{:by$}{line}", ""));
        lines.map(|line| line.trim_end().to_owned() + "\n").collect::<String>()
    };
    match edit {
        "greeting" => text = made.replace("Hello from", "Welcome to"),
        "uses" => {
            let uses = place("use ")?;
            text.replace_range(uses..behind(uses, "\n\n"), part);
        }
        "routes" => text.insert_str(behind(place("[\"history\"]")?, "\n"), &indented(12)),
        "handlers" => {
            let end = behind(place("impl Actor for Counter")?, "\n}\n");
            text.insert_str(end, &format!("\n{}", indented(4)));
        }
        "end" => text.insert_str(place("wasmkeep_sdk::actor!")?, &format!("{part}\n")),
        "test" => {
            let (uses, test) = part.split_once("#[test]").ok_or("it has no test")?;
            let old = place("use ")?;
            text.replace_range(old..place("#[test]")?, uses);
            text += &format!("\n#[test]{test}");
        }
        other => return Err(format!("no such edit: {other}")),
    }
    Ok(text)
}

fn same(file: &str, text: &str) -> Result<(), String> {
    let path = format!("{TALLY}/{file}");
    let have = fs::read_to_string(root().join(&path)).unwrap_or_default();
    let same = have == text;
    same.then_some(()).ok_or_else(|| format!("{path} is to be what this page makes:\n{text}"))
}
