use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value as Json, json};
use tempfile::TempDir;

use super::wait::within_patience;

/// Longer than any command of these tests takes.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// How WebDriver names the reference of an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
const FLAGS: [&str; 11] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--lang=en-US",
    "--window-size=1000,700",
];

/// A headless Chromium with one window, driven over WebDriver.
pub struct Browser {
    driver: Child,
    session: String,
    agent: ureq::Agent,
    _profile: TempDir,
}

impl Browser {
    #[track_caller]
    pub fn start() -> Self {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("start chromedriver: install the packages chromium and chromium-driver");
        let output = driver.stdout.take().expect("its output is a pipe");
        let port = BufReader::new(output)
            .lines()
            .map_while(Result::ok)
            .find_map(|line| {
                let (_, port) = line.split_once("started successfully on port ")?;
                Some(port.trim_end_matches('.').to_owned())
            })
            .expect("chromedriver tells its port");
        let profile = tempfile::tempdir().expect("make a directory for the browser");
        let mut flags: Vec<String> = FLAGS.iter().map(ToString::to_string).collect();
        flags.push(format!("--user-data-dir={}", profile.path().display()));
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(COMMAND_TIMEOUT))
            .build();
        let agent = ureq::Agent::new_with_config(config);
        let base = format!("http://127.0.0.1:{port}");
        let mut browser = Self { driver, session: base, agent, _profile: profile };
        let options = json!({ "args": flags });
        let wanted = json!({
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": { "browser": "ALL" },
        });
        let made = browser
            .command("session", &json!({ "capabilities": { "alwaysMatch": wanted } }))
            .expect("a session of the browser");
        let id = made["sessionId"].as_str().expect("a session's id");
        browser.session = format!("{}/session/{id}", browser.session);
        browser
    }

    #[track_caller]
    pub fn open(&self, url: &str) {
        self.command("url", &json!({ "url": url })).expect("the page opens");
    }

    /// Types into the field that `css` selects, once it can be typed into.
    #[track_caller]
    pub fn type_into(&self, css: &str, text: &str) {
        self.act(css, "value", &json!({ "text": text }));
    }

    #[track_caller]
    pub fn click(&self, css: &str) {
        self.act(css, "click", &json!({}));
    }

    /// What a person reads in the page.
    #[track_caller]
    pub fn text(&self) -> String {
        let text = self.run("return document.body.innerText");
        text.as_str().expect("a page has text").to_owned()
    }

    #[track_caller]
    pub fn shows(&self, text: &str) {
        let mut seen = String::new();
        let shown = within_patience(|| {
            seen = self.text();
            seen.contains(text)
        });
        assert!(shown, "the page does not show {text:?}:\n{seen}");
    }

    /// Runs a script in the page, and gives what it returns.
    #[track_caller]
    pub fn run(&self, script: &str) -> Json {
        self.command("execute/sync", &json!({ "script": script, "args": [] }))
            .expect("the script runs")
    }

    /// What pages said of their mistakes since the last call: exceptions, what did not load, what a
    /// policy forbade.
    #[track_caller]
    pub fn errors(&self) -> Vec<String> {
        let log = self.command("se/log", &json!({ "type": "browser" })).expect("the browser's log");
        let entries = log.as_array().expect("a list").iter();
        let severe = entries.filter(|entry| entry["level"] == "SEVERE");
        severe.map(|entry| entry["message"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Acts on an element as soon as it can be acted on.
    #[track_caller]
    fn act(&self, css: &str, action: &str, what: &Json) {
        let find = json!({ "using": "css selector", "value": css });
        let mut refused = Json::Null;
        let acted = within_patience(|| {
            let done = self.command("element", &find).and_then(|element| {
                let id = element[ELEMENT].as_str().expect("an element's id").to_owned();
                self.command(&format!("element/{id}/{action}"), what)
            });
            done.map_err(|error| refused = error).is_ok()
        });
        assert!(acted, "{action} on {css} is not possible: {refused}");
    }

    /// One command of WebDriver: its value, or the error it answered.
    fn command(&self, path: &str, body: &Json) -> Result<Json, Json> {
        let url = format!("{}/{path}", self.session);
        let mut answer = self.agent.post(&url).send_json(body).expect("chromedriver answers");
        let status = answer.status();
        let mut json: Json = answer.body_mut().read_json().expect("chromedriver answers in JSON");
        let value = json["value"].take();
        if status.is_success() { Ok(value) } else { Err(value) }
    }

    /// Writes a picture of the page, when `WASMKEEP_TEST_PICTURES` names a folder for them.
    pub fn picture(&self, name: &str) {
        let Some(folder) = std::env::var_os("WASMKEEP_TEST_PICTURES") else { return };
        let url = format!("{}/screenshot", self.session);
        let mut answer = self.agent.get(&url).call().expect("chromedriver answers");
        let json: Json = answer.body_mut().read_json().expect("chromedriver answers in JSON");
        let encoded = json["value"].as_str().expect("a picture");
        let path = Path::new(&folder).join(format!("{name}.png.base64"));
        std::fs::write(path, encoded).expect("write the picture");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Ends Chromium; killing the driver alone would leave it.
        let _ = self.agent.delete(&self.session).call();
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
