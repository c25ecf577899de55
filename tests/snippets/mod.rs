//! Every fenced block of the docs does what it shows.
//!
//! `RULES` says by its language how a block is checked. One that cannot be run says why behind the
//! language, `console no-run=WHY`; the `wasmkeep` commands in it are still parsed by the real
//! executable. A block without a language, or in one without a rule, is a problem.

mod blocks;
mod shell;
mod texts;
mod tutorial;
mod typescript;

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::in_parallel;
use blocks::{Block, blocks_of};
use shell::Shell;

/// What comes of a block, or what is wrong with it.
type Checked = Result<Outcome, String>;

enum Outcome {
    /// It did what it says.
    Ran,
    /// It was compiled or read by what would run it.
    Checked,
    /// Why not.
    LeftOut(String),
}

/// What the blocks of a page have in common.
struct Page {
    name: String,
    blocks: Vec<Block>,
    /// Its commands run one after the other.
    shell: Shell,
}

type Rule = fn(&mut Page, &Block) -> Checked;

const RULES: &[(&str, Rule)] = &[
    ("sh", shell::runs),
    ("console", shell::runs),
    ("rust", tutorial::compiles),
    ("ts", typescript::has_types),
    ("js", typescript::has_types),
    ("toml", texts::is_toml),
    ("json", texts::is_json),
    ("sql", texts::is_sql),
    ("http", texts::is_an_answer),
    // The names of metrics: by `cargo xtask tidy`.
    ("promql", |_, _| Ok(Outcome::Checked)),
    // No code: the forms of commands, which a test of `src/cli` holds against the commands.
    ("text", |_, _| Ok(Outcome::LeftOut("no code".to_owned()))),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn pages() -> Vec<String> {
    let readmes = ["README.md", "examples/README.md", "sdk-rust/README.md", "sdk-ts/README.md"];
    let docs = fs::read_dir(root().join("docs")).expect("list docs/");
    let docs = docs.map(|entry| entry.expect("list docs/").file_name());
    let docs = docs.filter_map(|name| name.into_string().ok().filter(|name| name.ends_with(".md")));
    let mut pages: Vec<String> = docs.map(|name| format!("docs/{name}")).collect();
    pages.extend(readmes.map(str::to_owned));
    pages.sort();
    pages
}

/// A line for each block: where it is, and what came of it.
fn check(name: &str, text: &str) -> Vec<(String, Checked)> {
    let blocks = match blocks_of(text) {
        Ok(blocks) => blocks,
        Err(wrong) => return vec![(name.to_owned(), Err(wrong))],
    };
    if blocks.is_empty() {
        return Vec::new();
    }
    let shell = Shell::new(name, &blocks);
    let mut page = Page { name: name.to_owned(), blocks: blocks.clone(), shell };
    let checked = blocks.iter().map(|block| {
        let place = format!("{name}:{} ({})", block.line, block.language);
        (place, check_block(&mut page, block))
    });
    checked.collect()
}

fn check_block(page: &mut Page, block: &Block) -> Checked {
    let Some((_, rule)) = RULES.iter().find(|(language, _)| *language == block.language) else {
        let known: Vec<&str> = RULES.iter().map(|(language, _)| *language).collect();
        return Err(format!("no rule for this language; there are {}", known.join(", ")));
    };
    match block.mark("no-run") {
        None => rule(page, block),
        Some("") => Err("say why: no-run=WHY".to_owned()),
        Some(why) => {
            shell::parses(page, block)?;
            Ok(Outcome::LeftOut(why.to_owned()))
        }
    }
}

#[test]
fn every_snippet_of_the_docs_holds() {
    let pages = pages();
    let texts: Vec<PathBuf> = pages.iter().map(|page| root().join(page)).collect();
    let checked = in_parallel(pages.len(), |i| {
        check(&pages[i], &fs::read_to_string(&texts[i]).expect("read a page"))
    });
    let (mut ran, mut compiled, mut left_out, mut problems) = (0, 0, Vec::new(), Vec::new());
    for (place, outcome) in checked.into_iter().flatten() {
        match outcome {
            Ok(Outcome::Ran) => ran += 1,
            Ok(Outcome::Checked) => compiled += 1,
            Ok(Outcome::LeftOut(why)) => left_out.push(format!("{place}: {why}")),
            Err(wrong) => problems.push(format!("{place}: {wrong}")),
        }
    }
    println!("snippets of the docs: {ran} ran, {compiled} were compiled or read");
    println!("{} were left out:\n  {}", left_out.len(), left_out.join("\n  "));
    assert!(problems.is_empty(), "snippets that do not hold:\n{}", problems.join("\n\n"));
    assert!(ran > 15 && compiled > 15 && left_out.len() < 14, "most blocks are found, and run");
}

/// What is wrong with the only block of a page.
#[track_caller]
fn wrong(page: &str, text: &str) -> String {
    let mut checked = check(page, text);
    assert_eq!(checked.len(), 1, "one block");
    match checked.remove(0).1 {
        Err(wrong) => wrong,
        Ok(_) => panic!("nothing is wrong with\n{text}"),
    }
}

#[test]
fn a_wrong_command_of_a_page_is_a_problem() {
    for (text, says) in [
        ("```sh\nwasmkeep demo --lissten 127.0.0.1:8080\n```", "--lissten"),
        ("```sh\nwasmkeep actor lst\n```", "unrecognized subcommand 'lst'"),
        ("```console no-run=made-up\n$ wasmkeep tail --clas cart\n```", "--clas"),
        ("```sh no-run=made-up\nmkdir x && wasmkeep serve --max-instances many\n```", "many"),
        ("```console\n$ wasmkeep new tally\nit is made\n```", "tally is made. Next:"),
        ("```console\n$ wasmkeep actor list\n```", "exit"),
        ("```console\n$ curl http://127.0.0.1:8080/\n```", "no server runs"),
        ("```sh no-run\nmake\n```", "say why"),
        ("```python\n```", "no rule"),
        ("```\nx\n```", "no language"),
    ] {
        let wrong = wrong("docs/a.md", text);
        assert!(wrong.contains(says), "{text}\n{wrong}");
    }
}

#[test]
fn what_a_server_answers_otherwise_than_its_page_says_is_a_problem() {
    let page = "```sh\nwasmkeep demo\n```\n```console\n$ curl http://127.0.0.1:8080/actor/counter/a\n\
                Hello from counter/a: visit 2\nSince I woke: 1\n```\n";
    let checked = check("docs/a.md", page);
    assert!(matches!(checked[0].1, Ok(Outcome::Ran)));
    assert!(matches!(&checked[1].1, Err(wrong) if wrong.contains("visit 1")));
}

#[test]
fn a_name_that_is_not_there_is_a_problem() {
    let import = "import { storage } from \"@wasmkeep/sdk\";\n";
    for (text, says) in [
        (format!("```ts\n{import}storage.execDurably(\"SELECT 1\");\n```"), "execDurably"),
        (
            format!("```ts\n{import}const n: number = storage.queryOne(\"text\", \"x\");\n```"),
            "TS2322",
        ),
        ("```js\nimport { Knot } from \"@wasmkeep/sdk/test\";\n```".to_owned(), "Knot"),
        ("```toml\n[serve]\nmax-instance = 3\n```".to_owned(), "unknown field `max-instance`"),
        ("```toml\n[serve]\nmax-instances = \"3\"\n```".to_owned(), "invalid type"),
        ("```toml\n# Cargo.toml\n[dependncies]\na = \"1\"\n```".to_owned(), "dependncies"),
        ("```json\n{\"a\": }\n```".to_owned(), "expected value"),
        ("```sql\nSELEC 1;\n```".to_owned(), "SELEC"),
        ("```http\nHTTP/1.1 500\n\n{\"reason\"}\n```".to_owned(), "status line"),
        ("```rust\nfn main() {}\n```".to_owned(), "doc test"),
        ("```rust,ignore\nfn main() {}\n```".to_owned(), "no-run=WHY"),
        ("```rust edit=end\nfn forgets() {}\n```".to_owned(), "tests/guests/tally"),
    ] {
        let wrong = wrong("docs/a.md", &text);
        assert!(wrong.contains(says), "{text}\n{wrong}");
    }
}
