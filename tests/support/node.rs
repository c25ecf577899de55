use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value as Json, json};
use tempfile::TempDir;

use super::wait::{eventually, patience};
use super::{Answer, Raw};

const PROBE: &str = "guest-probe.wasm";
/// Lines of its log a node shows when its test fails.
const LOG_LINES_SHOWN: usize = 60;
/// Any answer of these tests comes sooner.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
const BODY_READ_MAX: u64 = 256 * 1024 * 1024;

/// The executable, with an environment that says nothing about WasmKeep.
pub fn wasmkeep() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wasmkeep"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("WASMKEEP_") {
            command.env_remove(&name);
        }
    }
    command.env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

/// Runs a command to its end: its exit code, and all that it said.
pub fn run(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().expect("start it");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

/// `ts`: the guests that `tests/guests-ts` has too are those.
const GUESTS: &str = "WASMKEEP_TEST_GUESTS";
const IN_TYPESCRIPT: [&str; 3] = ["guest-probe", "guest-front", "guest-sdk"];

fn in_chosen_language(file: &str) -> String {
    let stem = file.trim_end_matches(".wasm");
    match std::env::var(GUESTS).as_deref() {
        Ok("ts") if IN_TYPESCRIPT.contains(&stem) => format!("{stem}-ts.wasm"),
        Ok("ts" | "") | Err(_) => file.to_owned(),
        Ok(other) => panic!("{GUESTS} is `ts` or not set, not {other:?}"),
    }
}

/// A guest's file.
#[track_caller]
pub fn component(file: &str) -> PathBuf {
    let file = in_chosen_language(file);
    let folder = std::env::var_os("WASMKEEP_COMPONENTS").map(PathBuf::from);
    let folder = folder
        .unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("target").join("components"));
    let path = folder.join(&file);
    assert!(path.is_file(), "{} is missing: run `cargo xtask guests` first", path.display());
    path
}

/// How a node is started, each time it is.
#[derive(Clone)]
pub struct Setup {
    arguments: Vec<OsString>,
    listen: SocketAddr,
    variables: Vec<(String, String)>,
    descriptors_max: Option<u64>,
    errors_are_fine: bool,
    home: Option<PathBuf>,
    starts_within: Duration,
}

impl Setup {
    fn new(command: &str) -> Self {
        Self {
            arguments: vec![command.into()],
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            variables: Vec::new(),
            descriptors_max: None,
            errors_are_fine: false,
            home: None,
            starts_within: patience(),
        }
    }

    /// Serves one of the guests' files as this class.
    pub fn class(self, class: &str, file: &str) -> Self {
        let mut served = OsString::from(format!("{class}="));
        served.push(component(file));
        self.flag("--actor", served)
    }

    pub fn flag(mut self, flag: &str, value: impl Into<OsString>) -> Self {
        self.arguments.extend([flag.into(), value.into()]);
        self
    }

    /// Listens there, and not on a free port.
    pub fn at(self, listen: SocketAddr) -> Self {
        Self { listen, ..self }
    }

    pub fn argument(mut self, value: impl Into<OsString>) -> Self {
        self.arguments.push(value.into());
        self
    }

    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn descriptors_max(mut self, most: u64) -> Self {
        self.descriptors_max = Some(most);
        self
    }

    /// The test provokes lines of level ERROR in the log.
    pub fn errors_are_fine(mut self) -> Self {
        self.errors_are_fine = true;
        self
    }

    /// Keeps the node's data in this folder instead of one of its own.
    pub fn home(mut self, folder: PathBuf) -> Self {
        self.home = Some(folder);
        self
    }

    /// A component takes longer to compile than a test has patience.
    pub fn starts_within(self, time: Duration) -> Self {
        Self { starts_within: time.max(self.starts_within), ..self }
    }

    /// Starts the node in a directory of its own, and returns once it is ready.
    pub fn start(self) -> Node {
        let own = tempfile::tempdir().expect("make a directory for the node");
        let home = self.home.clone().unwrap_or_else(|| own.path().to_owned());
        let running = Running::start(&self, &home);
        Node { setup: self, home, running, _own: own }
    }
}

/// A server process with a data directory of its own, killed when it goes out of scope.
pub struct Node {
    setup: Setup,
    home: PathBuf,
    running: Running,
    _own: TempDir,
}

impl Node {
    pub fn serve() -> Setup {
        Setup::new("serve")
    }

    /// A node of `wasmkeep dev`, whose project is to be its home.
    pub fn dev() -> Setup {
        Setup::new("dev")
    }

    pub fn demo() -> Setup {
        Setup::new("demo")
    }

    /// A node that serves the probe as class `probe`.
    pub fn probe() -> Setup {
        Self::serve().class("probe", PROBE)
    }

    /// `class/name`, the name as it is written in URLs.
    pub fn actor(&self, address: &str) -> Actor {
        Actor {
            base: format!("/actor/{address}"),
            address: self.running.address,
            agent: self.running.agent.clone(),
        }
    }

    pub fn get(&self, path: &str) -> Answer {
        self.client().get(path)
    }

    /// A client whose paths are the node's own.
    pub fn client(&self) -> Actor {
        Actor { base: String::new(), ..self.actor("") }
    }

    /// A client of another address of the node.
    pub fn client_of(&self, address: SocketAddr, base: &str) -> Actor {
        Actor { base: base.to_owned(), address, ..self.actor("") }
    }

    pub fn raw(&self) -> Raw {
        Raw::connect(self.running.address)
    }

    /// Sends a request for this target, and reads nothing yet.
    pub fn ask(&self, target: &str) -> Raw {
        let mut client = self.raw();
        client.send(format!("GET {target} HTTP/1.1\r\nhost: test\r\n\r\n"));
        client
    }

    /// Has the probe's actor run an event of that length, and returns once it runs. Its answer's
    /// chunks are `DONE`.
    #[track_caller]
    pub fn busy(&self, address: &str, ms: u64) -> Raw {
        let mut client = self.ask(&format!("/actor/{address}/stream?chunks=1&size=4&ms={ms}"));
        assert_eq!(client.head().expect("the head comes before the wait").status, 200);
        client
    }

    pub fn address(&self) -> SocketAddr {
        self.running.address
    }

    pub fn data_dir(&self) -> PathBuf {
        data_dir(&self.home)
    }

    /// The actors' database files.
    pub fn databases(&self) -> Vec<PathBuf> {
        let mut folders = vec![self.data_dir().join("state")];
        let mut found = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("read a folder of the node") {
                let path = entry.expect("read a folder of the node").path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension() == Some(OsStr::new("db")) {
                    found.push(path);
                }
            }
        }
        found
    }

    pub fn log(&self) -> String {
        self.running.log()
    }

    /// Waits until a guest has logged that.
    #[track_caller]
    pub fn logged(&self, text: &str) {
        eventually(&format!("the log says {text:?}"), || self.log().contains(text));
    }

    /// The next line on standard output after `listening on …`; none when there is no other.
    pub fn printed_line(&self) -> Option<String> {
        let printed = self.running.printed.lock().unwrap_or_else(PoisonError::into_inner);
        printed.recv_timeout(Duration::from_secs(1)).ok()
    }

    pub fn pid(&self) -> u32 {
        self.running.child.id()
    }

    /// The sum of a metric's samples whose labels hold all of `labels` (`class="probe"`).
    #[track_caller]
    pub fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        let text = self.get("/_wasmkeep/metrics").text();
        let samples = text.lines().filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            let (series, have) = series.split_once('{').unwrap_or((series, ""));
            let wanted = series == name && labels.iter().all(|label| have.contains(label));
            wanted.then(|| value.parse::<f64>().expect("a sample is a number"))
        });
        samples.sum()
    }

    /// Memory the process holds now.
    pub fn resident_kib(&self) -> u64 {
        self.status("VmRSS:")
    }

    pub fn threads(&self) -> u64 {
        self.status("Threads:")
    }

    fn status(&self, field: &str) -> u64 {
        let path = format!("/proc/{}/status", self.pid());
        let status = fs::read_to_string(path).expect("read the status of the node's process");
        let line = status.lines().find(|line| line.starts_with(field)).expect("such a field");
        line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).expect("a number")
    }

    /// Files and sockets the process has open.
    pub fn descriptors(&self) -> usize {
        let open = fs::read_dir(format!("/proc/{}/fd", self.pid()));
        open.expect("read what the node's process has open").count()
    }

    pub fn terminate(&self) {
        self.running.signal(libc::SIGTERM);
    }

    /// Waits for the end of the process.
    #[track_caller]
    pub fn wait_for_exit(&mut self) -> ExitStatus {
        self.running.wait_for_exit()
    }

    /// As an operator stops it.
    #[track_caller]
    pub fn stop_cleanly(&mut self) {
        self.terminate();
        let status = self.wait_for_exit();
        assert_eq!(status.code(), Some(0), "a clean stop ends with 0, not {status}");
    }

    /// As a crash of the machine's power stops it, but for what the system's cache keeps.
    pub fn kill(&mut self) {
        self.running.signal(libc::SIGKILL);
        self.running.wait_for_exit();
    }

    /// Stops the process as a machine does that is paused: it learns nothing of it.
    pub fn pause(&self) {
        self.running.signal(libc::SIGSTOP);
    }

    pub fn go_on(&self) {
        self.running.signal(libc::SIGCONT);
    }

    /// Starts a stopped node on the same data.
    pub fn start_again(&mut self) {
        self.running = Running::start(&self.setup, &self.home);
    }

    /// Starts a stopped node on the same data, with other flags.
    pub fn start_again_as(&mut self, setup: Setup) {
        self.setup = setup;
        self.start_again();
    }

    #[track_caller]
    pub fn restart(&mut self) {
        self.stop_cleanly();
        self.start_again();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.running.end();
        let log = self.log();
        if std::thread::panicking() {
            let lines: Vec<&str> = log.lines().collect();
            let shown = lines.len().saturating_sub(LOG_LINES_SHOWN);
            eprintln!("--- the node's log, its end:\n{}", lines[shown..].join("\n"));
        } else if !self.setup.errors_are_fine {
            let host = log.lines().filter(|line| !line.contains("wasmkeep::guest"));
            let errors: Vec<&str> =
                host.filter(|line| line.contains("ERROR") || line.contains("panicked")).collect();
            assert!(errors.is_empty(), "errors in the node's log:\n{}", errors.join("\n"));
        }
    }
}

struct Running {
    child: Child,
    address: SocketAddr,
    agent: ureq::Agent,
    /// What it prints after it has said where it listens.
    printed: Mutex<mpsc::Receiver<String>>,
    log: Arc<Mutex<String>>,
    log_reader: Option<std::thread::JoinHandle<()>>,
}

impl Running {
    fn start(setup: &Setup, home: &Path) -> Self {
        let data_dir = data_dir(home);
        // A home that a test chose may be small, and what all tests compiled is not.
        if setup.home.is_none() {
            lend_compiled_components(&data_dir);
        }
        let mut command = wasmkeep();
        command
            .args(&setup.arguments)
            .arg("--listen")
            .arg(setup.listen.to_string())
            .arg("--data-dir")
            .arg(&data_dir)
            .current_dir(home);
        if std::env::var(GUESTS).as_deref() == Ok("ts") {
            // An interpreter on a slow machine: what these tests are about is another thing.
            command.env("WASMKEEP_CPU_BUDGET_MS", "400");
            command.env("WASMKEEP_FRONT_CPU_BUDGET_MS", "400");
        }
        command.envs(setup.variables.iter().map(|(name, value)| (name, value)));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(most) = setup.descriptors_max {
            limit_descriptors(&mut command, most);
        }
        let mut child = command.spawn().expect("start wasmkeep");
        let log = Arc::new(Mutex::new(String::new()));
        let stderr = child.stderr.take().expect("stderr is piped");
        let log_reader = std::thread::spawn({
            let log = Arc::clone(&log);
            move || collect(stderr, &log)
        });
        let stdout = child.stdout.take().expect("stdout is piped");
        let (to_printed, printed) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = to_printed.send(line);
            }
        });
        let mut said = Vec::new();
        let address = std::iter::from_fn(|| printed.recv_timeout(setup.starts_within).ok())
            .inspect(|line| said.push(line.clone()))
            .find_map(|line| listens_at(&line));
        let Some(address) = address else {
            let _ = child.kill();
            let _ = child.wait();
            let _ = log_reader.join();
            let log = log.lock().unwrap_or_else(PoisonError::into_inner);
            panic!("the node did not start: it printed {said:?} and logged\n{log}");
        };
        keep_compiled_components(&data_dir);
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .allow_non_standard_methods(true)
            .timeout_global(Some(REQUEST_TIMEOUT))
            .build()
            .into();
        Self {
            child,
            address,
            agent,
            printed: Mutex::new(printed),
            log,
            log_reader: Some(log_reader),
        }
    }

    fn signal(&self, signal: i32) {
        let pid = i32::try_from(self.child.id()).expect("a process id fits");
        // SAFETY: a child that was not waited for keeps its id.
        unsafe { libc::kill(pid, signal) };
    }

    #[track_caller]
    fn wait_for_exit(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("the node's process ends", || {
            status = self.child.try_wait().expect("ask for the end of the node");
            status.is_some()
        });
        self.join_log();
        status.expect("it ended")
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.join_log();
    }

    fn join_log(&mut self) {
        if let Some(reader) = self.log_reader.take() {
            let _ = reader.join();
        }
    }

    fn log(&self) -> String {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// Where a line says that a node listens: `n1: listening on http://…` where there are several.
pub fn listens_at(line: &str) -> Option<SocketAddr> {
    line.split_once("listening on http://")?.1.parse().ok()
}

fn collect(mut from: impl Read, log: &Mutex<String>) {
    let mut piece = [0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut piece) {
        let text = String::from_utf8_lossy(&piece[..length]);
        log.lock().unwrap_or_else(PoisonError::into_inner).push_str(&text);
    }
}

fn limit_descriptors(command: &mut Command, most: u64) {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: between fork and exec this only makes a system call.
    unsafe {
        command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
}

fn data_dir(home: &Path) -> PathBuf {
    home.join("data")
}

/// Compiling the probe takes a second, and hundreds of nodes start: each is given what an earlier
/// one compiled. The name of such a file says what made it.
fn lend_compiled_components(data_dir: &Path) {
    let to = data_dir.join("components");
    private_folder(&to);
    copy_missing(&compiled_components(), &to);
}

fn keep_compiled_components(data_dir: &Path) {
    let to = compiled_components();
    private_folder(&to);
    copy_missing(&data_dir.join("components"), &to);
}

fn compiled_components() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled-components")
}

fn private_folder(path: &Path) {
    let mut folder = fs::DirBuilder::new();
    folder.recursive(true).mode(0o700).create(path).expect("make a folder");
}

fn copy_missing(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let target = to.join(&name);
        if Path::new(&name).extension() != Some(OsStr::new("cwasm")) || target.exists() {
            continue;
        }
        let Ok(mut unfinished) = tempfile::NamedTempFile::new_in(to) else { continue };
        let copied = fs::File::open(entry.path())
            .and_then(|mut file| std::io::copy(&mut file, unfinished.as_file_mut()));
        if copied.is_ok() {
            let _ = unfinished.persist(target);
        }
    }
}

/// One actor, as an ordinary client reaches it.
#[derive(Clone)]
pub struct Actor {
    base: String,
    address: SocketAddr,
    agent: ureq::Agent,
}

impl Actor {
    #[track_caller]
    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], &[])
    }

    #[track_caller]
    pub fn post(&self, path: &str, body: impl AsRef<[u8]>) -> Answer {
        self.send("POST", path, &[], body.as_ref())
    }

    #[track_caller]
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.try_send(method, path, headers, body).expect("an answer of the node")
    }

    /// An error when no whole answer came.
    pub fn try_send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Answer, ureq::Error> {
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("http://{}{}{path}", self.address, self.base));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut response = if body.is_empty() && method != "POST" {
            self.agent.run(request.body(()).expect("a request"))?
        } else {
            self.agent.run(request.body(body).expect("a request"))?
        };
        let headers = response.headers().iter();
        let headers =
            headers.map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()));
        Ok(Answer {
            status: response.status().as_u16(),
            headers: headers.collect(),
            body: response.body_mut().with_config().limit(BODY_READ_MAX).read_to_vec()?,
        })
    }

    /// Runs the probe's storage calls in one event: `[{"op": "exec", "sql": "…"}, …]`.
    #[track_caller]
    pub fn steps(&self, steps: Json) -> Vec<Json> {
        let answer = self.post("/sql", json!({ "steps": steps }).to_string()).json();
        answer.as_array().expect("one result for each step").clone()
    }

    /// One statement that must succeed; the number of rows it changed.
    #[track_caller]
    pub fn exec(&self, sql: &str) -> u64 {
        let done = self.one("exec", sql);
        done["changed"].as_u64().unwrap_or_else(|| panic!("{sql}: {done}"))
    }

    /// The rows of a query that must succeed.
    #[track_caller]
    pub fn query(&self, sql: &str) -> Json {
        let done = self.one("query", sql);
        assert!(done["rows"].is_array(), "{sql}: {done}");
        done["rows"].clone()
    }

    /// One storage call, in an event of its own.
    #[track_caller]
    pub fn one(&self, op: &str, sql: &str) -> Json {
        self.steps(json!([{ "op": op, "sql": sql }])).remove(0)
    }
}
