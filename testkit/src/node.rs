use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::de::DeserializeOwned;
use tempfile::TempDir;

use crate::command::{not_started, run, wasmkeep};
use crate::{Actor, Answer, PATIENCE, Tail, WebSocket};

/// Which node to start.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    arguments: Vec<OsString>,
}

impl Builder {
    /// Serves a component file as a class.
    pub fn class(self, class: &str, component: impl AsRef<Path>) -> Self {
        let mut served = OsString::from(format!("{class}="));
        served.push(component.as_ref());
        self.flag("--actor").flag(served)
    }

    /// Serves a component file as the front.
    pub fn front(self, component: impl AsRef<Path>) -> Self {
        self.flag("--front").flag(component.as_ref())
    }

    /// Any flag of `wasmkeep serve`, or its value.
    pub fn flag(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Starts the node, and returns once it takes requests.
    #[track_caller]
    pub fn start(self) -> Node {
        let data = tempfile::tempdir().expect("make a folder for the node's data");
        let log = Arc::default();
        let running = Running::start(&self.arguments, data.path(), &log);
        Node { arguments: self.arguments, data, log, running }
    }
}

/// A server of its own, with data of its own and a clock that stands until
/// [`advance`](Node::advance) moves it. Dropped, it is killed and its data removed.
///
/// Everything here panics with what went wrong: a test has nothing better to do.
#[derive(Debug)]
pub struct Node {
    arguments: Vec<OsString>,
    data: TempDir,
    log: Arc<Mutex<String>>,
    running: Running,
}

impl Node {
    /// What the project of this folder serves, built first: once for all tests of a process. The
    /// project is the nearest folder upwards with a `wasmkeep.toml`.
    #[track_caller]
    pub fn of_project() -> Node {
        Self::project(".").start()
    }

    /// As [`of_project`](Node::of_project), for a folder of your choice and with flags to add.
    #[track_caller]
    pub fn project(folder: impl AsRef<Path>) -> Builder {
        let folder = folder.as_ref().canonicalize().expect("the project's folder");
        let settings = folder
            .ancestors()
            .map(|folder| folder.join("wasmkeep.toml"))
            .find(|file| file.is_file())
            .unwrap_or_else(|| panic!("no wasmkeep.toml in {} or above it", folder.display()));
        build_once(&settings);
        Builder::default().flag("--config").flag(settings)
    }

    /// A node of component files.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// `class/name`, the name as it is written in URLs.
    pub fn actor(&self, address: &str) -> Actor {
        Actor::at(&self.running.url, &format!("/actor/{address}"))
    }

    /// Sends a `GET` to the front, or to any path.
    #[track_caller]
    pub fn get(&self, path: &str) -> Answer {
        self.client().get(path)
    }

    /// Requests to the front, or to any path.
    pub fn client(&self) -> Actor {
        Actor::at(&self.running.url, "")
    }

    /// Opens a WebSocket at a path: `/actor/room/tea?name=ann`, or one of the front's.
    #[track_caller]
    pub fn websocket(&self, path: &str) -> WebSocket {
        WebSocket::open(&self.running.url, path)
    }

    /// `http://127.0.0.1:PORT`. It is another one after a restart.
    pub fn url(&self) -> &str {
        &self.running.url
    }

    /// Moves the clock on. Alarms that are due then run soon, so wait for what they do
    /// ([`eventually`](crate::eventually)); actors leave memory when that is as long as the idle timeout
    /// (30 s) and they have no event.
    #[track_caller]
    pub fn advance(&self, by: Duration) {
        let by = format!("{}ms", by.as_millis());
        run(wasmkeep().args(["clock", "advance", &by]), self.data.path());
    }

    /// Has an idle actor leave memory: what its instance held is lost, its data and WebSockets stay.
    /// `class/name`, the name as it is.
    #[track_caller]
    pub fn sleep(&self, actor: &str) {
        run(wasmkeep().args(["actor", "hibernate", actor]), self.data.path());
    }

    /// Runs a statement that only reads on an actor's database: a row each, columns by name.
    #[track_caller]
    pub fn sql<T: DeserializeOwned>(&self, actor: &str, statement: &str) -> Vec<T> {
        let mut command = wasmkeep();
        command.args(["actor", "sql", "--format", "json", actor, statement]);
        let printed = run(&mut command, self.data.path());
        let rows = printed.lines().map(|line| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("the row {line}: {error}"))
        });
        rows.collect()
    }

    /// Follows what happens from now on: events, calls, lines of the log.
    #[track_caller]
    pub fn tail(&self) -> Tail {
        Tail::start(self.data.path())
    }

    /// What the server has logged so far.
    pub fn log(&self) -> String {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Kills the server, as the loss of its process would, and starts it again on the same data. The
    /// clock stands at the present then.
    #[track_caller]
    pub fn crash(&mut self) {
        self.running.kill();
        self.running = Running::start(&self.arguments, self.data.path(), &self.log);
    }

    /// Stops the server in the regular way, and starts it again on the same data. The clock stands
    /// at the present then.
    #[track_caller]
    pub fn restart(&mut self) {
        self.running.stop();
        self.running = Running::start(&self.arguments, self.data.path(), &self.log);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.running.kill();
        if std::thread::panicking() {
            eprintln!("--- the server's log:\n{}", self.log());
        }
    }
}

#[derive(Debug)]
struct Running {
    process: Child,
    url: String,
}

impl Running {
    #[track_caller]
    fn start(arguments: &[OsString], data: &Path, log: &Arc<Mutex<String>>) -> Self {
        let mut command = wasmkeep();
        command.arg("serve").args(arguments).args(["--clock", "manual"]);
        command.args(["--listen", "127.0.0.1:0", "--data-dir"]).arg(data);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap_or_else(|error| panic!("{}", not_started(&error)));
        let said = lines_of(process.stderr.take().expect("stderr is a pipe"));
        let log = Arc::clone(log);
        std::thread::spawn(move || {
            for line in said {
                let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                log.push_str(&line);
                log.push('\n');
            }
        });
        let printed = lines_of(process.stdout.take().expect("stdout is a pipe"));
        let first = printed.recv_timeout(PATIENCE).ok();
        let url = first.as_deref().and_then(|line| line.strip_prefix("listening on "));
        match url {
            Some(url) => Self { url: url.to_owned(), process },
            None => {
                let _ = process.kill();
                let _ = process.wait();
                panic!("the server did not start: it printed {first:?}; its log is below")
            }
        }
    }

    fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    #[track_caller]
    fn stop(&mut self) {
        // The standard library has no signal but the one that kills.
        let pid = self.process.id().to_string();
        let told = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(told.is_ok_and(|status| status.success()), "the server could not be told to stop");
        let status = self.process.wait().expect("wait for the server's end");
        assert!(status.success(), "the server's stop was not clean: {status}");
    }
}

/// Lines as they come.
pub(crate) fn lines_of(output: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// Builds a project, once for all tests of this process.
#[track_caller]
fn build_once(settings: &Path) {
    static BUILT: Mutex<Option<HashSet<PathBuf>>> = Mutex::new(None);
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if !built.get_or_insert_default().insert(settings.to_owned()) {
        return;
    }
    let mut build = wasmkeep();
    let output = build.args(["build", "--config"]).arg(settings).output();
    let output = output.unwrap_or_else(|error| panic!("{}", not_started(&error)));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the project was not built:\n{said}");
}
