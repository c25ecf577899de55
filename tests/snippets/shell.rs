//! Blocks of commands: `sh`, and `console`, which shows what they print.
//!
//! The commands of a page run by `sh` in one home, one after the other; `wasmkeep` is the real one.
//! Compilers are not run: stand-ins give what they would have made.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::blocks::Block;
use super::{Checked, Outcome, Page, root, tutorial};
use crate::support::{component, patience, wasmkeep};

/// Where the pages say that servers are.
const ADDRESSES: [&str; 2] = ["127.0.0.1:8080", "127.0.0.1:8081"];
/// Folders of the machine that commands name: they are in the home instead.
const FOLDERS: [&str; 2] = ["/etc/wasmkeep", "/var/lib/wasmkeep"];
/// What the pages' text says to write before a command, or takes as given.
const GIVEN: &[(&str, &str, &str)] = &[
    ("docs/console.md", "cart.wasm", "guest-hello.wasm"),
    ("docs/cli.md", "cart.wasm", "guest-probe.wasm"),
];
/// What has happened before a page begins.
const BEFORE: &[(&str, &[&str])] = &[("docs/cli.md", CARTS)];
/// The probe does as it is told: two large carts, of which one sleeps, and a small one.
const CARTS: &[&str] = &[
    "wasmkeep serve --actor cart=cart.wasm",
    r#"curl -f http://127.0.0.1:8080/actor/cart/alice/sql -d '{"steps": [
        {"op": "exec", "sql": "CREATE TABLE lines (item, qty)"},
        {"op": "exec", "sql": "INSERT INTO lines VALUES (?, 3), (?, 4), (?, 5), (?, 1)",
            "params": ["bread", "bread", "bread", "milk"]},
        {"op": "exec", "sql": "CREATE TABLE pictures AS SELECT zeroblob(4000000)"},
        {"op": "set-alarm", "in": 3600000}]}'"#,
    r#"curl -f http://127.0.0.1:8080/actor/cart/bob/sql -d '{"steps": [
        {"op": "exec", "sql": "CREATE TABLE pictures AS SELECT zeroblob(1900000)"}]}'"#,
    r#"curl -f http://127.0.0.1:8080/actor/cart/carol/hello"#,
    "wasmkeep actor hibernate cart/bob",
];
/// Compiling what a page serves is slow in a debug build.
const PATIENCE_MIN: Duration = Duration::from_secs(60);

/// What is installed is there, and what is built was built by `cargo xtask guests`: `BUILT`.
const STAND_INS: &[(&str, &str)] = &[
    ("rustup", "exit 0"),
    ("npm", "exit 0"),
    ("npx", "shift; exec node \"$SDK_TS/bin/wasmkeep-ts.js\" \"$@\""),
    ("curl", "PATH=${PATH#*:}; exec curl -sS \"$@\""),
    (
        "cargo",
        "case $1 in\n\
         new) PATH=${PATH#*:}; exec cargo \"$@\";;\n\
         build) to=target/wasm32-wasip2/release; mkdir -p $to\n\
         cp \"$BUILT\" $to/$(basename \"$PWD\").wasm;;\n\
         esac",
    ),
];

pub struct Shell {
    /// It stops before its home goes away.
    server: Option<Server>,
    home: TempDir,
}

/// A command, and the lines a console shows below it. Without a command they are the server's.
struct Step {
    command: String,
    shown: Option<String>,
}

pub fn runs(page: &mut Page, block: &Block) -> Checked {
    if block.mark("edit").is_some() {
        tutorial::edit(page, block)?;
    }
    let steps = steps(block);
    for step in &steps {
        page.shell.run(step)?;
    }
    if steps.iter().all(|step| is_stood_in_for(&step.command)) {
        return Ok(Outcome::LeftOut("installs or compiles".to_owned()));
    }
    Ok(Outcome::Ran)
}

/// Whether nothing has run: see `STAND_INS`.
fn is_stood_in_for(command: &str) -> bool {
    let installs = ["cargo install ", "cargo xtask ", "rustup ", "npm "];
    installs.iter().any(|program| command.starts_with(program))
}

/// Has the real executable parse the `wasmkeep` commands of a block that is not run.
pub fn parses(page: &mut Page, block: &Block) -> Result<(), String> {
    if !["sh", "console"].contains(&&*block.language) {
        return Ok(());
    }
    for Step { command, .. } in steps(block) {
        for part in command.split("&&").filter(|part| part.trim().starts_with("wasmkeep ")) {
            page.shell.parse(part.trim())?;
        }
    }
    Ok(())
}

fn steps(block: &Block) -> Vec<Step> {
    if block.language == "sh" {
        let text = block.text.replace("\\\n", " ");
        let lines = text.lines().map(|line| line.split(" #").next().unwrap_or("").trim());
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        return lines.map(|line| Step { command: line.to_owned(), shown: None }).collect();
    }
    let text = format!("\n{}", block.text);
    let mut parts = text.split("\n$ ");
    let before = parts.next().unwrap_or_default().trim();
    let before = (!before.is_empty())
        .then(|| Step { command: String::new(), shown: Some(before.to_owned()) });
    let commands = parts.map(|part| {
        let (command, shown) = part.split_once('\n').unwrap_or((part, ""));
        Step { command: command.to_owned(), shown: Some(shown.trim_end().to_owned()) }
    });
    before.into_iter().chain(commands).collect()
}

impl Shell {
    pub fn new(page: &str, blocks: &[Block]) -> Self {
        let mut shell = Self { home: tempfile::tempdir().expect("make a home"), server: None };
        let bin = shell.at("bin");
        fs::create_dir(&bin).expect("make a folder");
        for (name, script) in STAND_INS {
            let path = bin.join(name);
            fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("write a stand-in");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("make it one");
        }
        symlink(wasmkeep().get_program(), bin.join("wasmkeep")).expect("link the executable");
        for folder in FOLDERS {
            fs::create_dir_all(shell.at(&folder[1..])).expect("make a folder");
        }
        for (_, file, given) in GIVEN.iter().filter(|(of, ..)| *of == page) {
            fs::copy(component(given), shell.at(file)).expect("copy a component");
        }
        // The first module of a page is what its commands build.
        if let Some(module) = blocks.iter().find(|block| block.language == "ts") {
            fs::write(shell.at("counter.ts"), &module.text).expect("write the module");
        }
        shell.builds_make("wasmkeep-example-counter.wasm");
        shell.works_in(shell.home.path());
        let before =
            BEFORE.iter().filter(|(of, _)| *of == page).flat_map(|(_, commands)| *commands);
        for command in before {
            let step = Step { command: (*command).to_owned(), shown: None };
            shell.run(&step).expect("what comes before the page");
        }
        shell
    }

    /// What the next builds make.
    pub fn builds_make(&self, file: &str) {
        fs::copy(component(file), self.at("built.wasm")).expect("copy a component");
    }

    pub fn at(&self, path: &str) -> PathBuf {
        self.home.path().join(path)
    }

    fn works_in(&self, folder: &Path) {
        fs::write(self.at("cwd"), folder.as_os_str().as_encoded_bytes()).expect("keep the folder");
    }

    fn folder(&self) -> PathBuf {
        fs::read_to_string(self.at("cwd")).expect("where the shell is").trim_end().into()
    }

    fn sh(&self, script: &str) -> Command {
        let mut sh = Command::new("sh");
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("WASMKEEP_") {
                sh.env_remove(&name);
            }
        }
        let path = std::env::var("PATH").unwrap_or_default();
        sh.env("PATH", format!("{}:{path}", self.at("bin").display()));
        sh.env("BUILT", self.at("built.wasm")).env("SDK_TS", root().join("sdk-ts"));
        sh.args(["-ec", script]).current_dir(self.folder()).stdin(Stdio::null());
        sh
    }

    fn run(&mut self, step: &Step) -> Result<(), String> {
        let Step { command, shown } = step;
        // What the README runs from the sources.
        let command = command.replace("cargo run --release --", "wasmkeep");
        let command = self.in_home(&command);
        if command.is_empty() {
            let server = self.server.as_mut().ok_or("no server runs that could say this")?;
            return server.says(shown.as_deref().unwrap_or_default());
        }
        let (before, server) = match command.rsplit_once("&&") {
            Some((before, last)) if is_server(last) => (Some(before), Some(last)),
            None if is_server(&command) => (None, Some(&*command)),
            _ => (Some(&*command), None),
        };
        if let Some(before) = before {
            self.run_to_the_end(before, shown.as_deref())?;
        }
        if let Some(server) = server {
            // One at a time, as on a desk: the next is in the same terminal.
            self.server = None;
            let mut started = Server::start(&mut self.sh(&format!("exec {}", elsewhere(server))))?;
            started.says(shown.as_deref().unwrap_or_default())?;
            self.server = Some(started);
        }
        Ok(())
    }

    fn run_to_the_end(&self, command: &str, shown: Option<&str>) -> Result<(), String> {
        let command = match (&self.server, command.contains(ADDRESSES[0])) {
            (Some(server), _) => command.replace(ADDRESSES[0], &server.address),
            (None, false) => command.to_owned(),
            (None, true) => return Err(format!("no server runs for `{command}`")),
        };
        let script = format!("{command}\npwd > '{}'", self.at("cwd").display());
        let done = self.sh(&script).output().map_err(|error| format!("run a shell: {error}"))?;
        let printed = String::from_utf8_lossy(&done.stdout);
        if !done.status.success() {
            let error = String::from_utf8_lossy(&done.stderr);
            return Err(format!("`{command}`: {}\n{error}{printed}", done.status));
        }
        let Some(shown) = shown else { return Ok(()) };
        // What actors answer is known to the letter.
        let exactly = command.contains("curl ");
        let same =
            if exactly { printed.trim_end() == shown } else { blot(&printed) == blot(shown) };
        same.then_some(()).ok_or_else(|| format!("`{command}` printed\n{printed}and not\n{shown}"))
    }

    fn in_home(&self, command: &str) -> String {
        FOLDERS.iter().fold(command.to_owned(), |command, folder| {
            command.replace(folder, &self.at(&folder[1..]).display().to_string())
        })
    }

    /// Fails when the command line is not one of `wasmkeep`: its exit code is 2 then.
    fn parse(&self, command: &str) -> Result<(), String> {
        let empty = tempfile::tempdir().expect("make a folder");
        let mut sh = self.sh(&format!("exec {}", elsewhere(command)));
        let child =
            sh.current_dir(empty.path()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| format!("run a shell: {error}"))?;
        let began = Instant::now();
        // One that serves, or waits, was understood.
        while began.elapsed() < Duration::from_secs(10) {
            match child.try_wait().map_err(|error| error.to_string())? {
                None => std::thread::sleep(Duration::from_millis(10)),
                Some(status) if status.code() == Some(2) => {
                    let error = child.wait_with_output().map_err(|error| error.to_string())?.stderr;
                    return Err(format!("`{command}`: {}", String::from_utf8_lossy(&error)));
                }
                Some(_) => return Ok(()),
            }
        }
        let _ = child.kill();
        let _ = child.wait();
        Ok(())
    }
}

fn is_server(command: &str) -> bool {
    let mut words = command.split_whitespace();
    words.next() == Some("wasmkeep")
        && words.next().is_some_and(|word| ["serve", "dev", "demo"].contains(&word))
}

/// A server's command, on a port that is free.
fn elsewhere(command: &str) -> String {
    let free = ADDRESSES.iter().fold(command.trim().to_owned(), |command, address| {
        command.replace(address, "127.0.0.1:0")
    });
    let needs_port = is_server(&free) && !free.contains("--listen");
    if needs_port { format!("{free} --listen 127.0.0.1:0") } else { free }
}

/// Numbers, times, tokens and sizes are others each time; so is the width of a column.
fn blot(text: &str) -> Vec<String> {
    let words = |line: &str| -> Vec<String> { line.split_whitespace().map(blot_word).collect() };
    text.lines().map(|line| words(line).join(" ")).filter(|line| !line.is_empty()).collect()
}

/// Each run of hexadecimal digits that holds a decimal one is `0`; so are those with points between.
fn blot_word(word: &str) -> String {
    let mut blotted = String::new();
    let mut rest = word;
    while !rest.is_empty() {
        let is_part = |next: char| next.is_ascii_hexdigit() || next == '.';
        let run = rest.find(|next| !is_part(next)).unwrap_or(rest.len());
        let (part, after) = rest.split_at(run);
        blotted += if part.contains(|next: char| next.is_ascii_digit()) { "0" } else { part };
        let other = after.find(is_part).unwrap_or(after.len());
        blotted += &after[..other];
        rest = &after[other..];
    }
    if blotted.trim_matches('-').is_empty() { "-".to_owned() } else { blotted }
}

/// A server that a page has started. It ends with it.
pub struct Server {
    child: Child,
    address: String,
    /// What it printed, and nobody has looked at.
    printed: Vec<String>,
    lines: Receiver<String>,
}

impl Server {
    pub fn start(command: &mut Command) -> Result<Self, String> {
        let log = tempfile::NamedTempFile::new().expect("make a file for the log");
        let to = log.reopen().expect("open the log");
        let child = command.stdout(Stdio::piped()).stderr(to).spawn();
        let mut child = child.map_err(|error| format!("start a server: {error}"))?;
        let stdout = child.stdout.take().expect("stdout is piped");
        let (to_lines, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = to_lines.send(line);
            }
        });
        let mut server = Self { child, address: String::new(), printed: Vec::new(), lines };
        while server.address.is_empty() {
            let Some(line) = server.next() else {
                let log = fs::read_to_string(log.path()).unwrap_or_default();
                let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
                return Err(format!("`{}` did not listen:\n{log}", words.join(" ")));
            };
            if let Some(address) = line.strip_prefix("listening on http://") {
                server.address = address.to_owned();
            }
            server.printed.push(line);
        }
        Ok(server)
    }

    fn next(&self) -> Option<String> {
        self.lines.recv_timeout(patience().max(PATIENCE_MIN)).ok()
    }

    /// Waits until it has printed these lines, in their order and perhaps with others between.
    fn says(&mut self, shown: &str) -> Result<(), String> {
        let mut printed = std::mem::take(&mut self.printed).into_iter();
        for wanted in blot(shown) {
            let mut seen = Vec::new();
            loop {
                let Some(line) = printed.next().or_else(|| self.next()) else {
                    return Err(format!("the server did not print `{wanted}`, but {seen:?}"));
                };
                if blot(&line).first() == Some(&wanted) {
                    break;
                }
                seen.push(line);
            }
        }
        self.printed = printed.collect();
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            // SAFETY: a child that was not waited for keeps its id.
            unsafe { libc::kill(pid, libc::SIGTERM) };
        }
        let asked = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && asked.elapsed() < PATIENCE_MIN / 2 {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_differs_each_time_is_blotted_out() {
    let same = |a: &str, b: &str| assert_eq!(blot(a), blot(b));
    same("built in 251.8 s", "built in 3 s");
    same("x#token=273ed67c59", "x#token=0f");
    same("4.0 KiB    2026-11-30T01:18:46.917Z", "16.1 KiB 2027-01-01T11:18:46.1Z");
    same("----  ---", "-  -");
    assert_ne!(blot("listening on a"), blot("listening at a"));
    assert_ne!(blot("4.0 KiB"), blot("4.0 MiB"));
}
