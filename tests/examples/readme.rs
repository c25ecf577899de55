//! Runs the commands of a README against a node, and compares what they print.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value as Json;

use crate::support::Node;

/// Where the READMEs say that the server is.
const ADDRESS: &str = "127.0.0.1:8080";
/// Another each time: anything of the same kind will do.
const TIMES: [&str; 3] = ["sent_ms", "dead_ms", "expires_ms"];
/// Another each time, and named again by later commands.
const RECEIPT: &str = "receipt";

/// Runs what stands behind `$` in the README's console.
#[track_caller]
pub fn tells_the_truth(node: &Node, readme: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(readme);
    let text = fs::read_to_string(&path).expect("read the README");
    let console = text.split("```console\n").nth(1).and_then(|rest| rest.split("```").next());
    let mut receipts = HashMap::new();
    let mut ran = 0;
    for step in console.expect("a console").split("$ ").skip(1) {
        let (command, expected) = step.split_once('\n').expect("a command is a line");
        let printed = run(node, command, &receipts);
        check(command, expected.trim_end(), printed.trim_end(), &mut receipts);
        ran += 1;
    }
    assert!(ran > 5, "{readme} has only {ran} commands");
}

fn run(node: &Node, command: &str, receipts: &HashMap<String, String>) -> String {
    assert!(command.starts_with("curl "), "not a command to run in a test: {command}");
    let mut command = command.replace(ADDRESS, &node.address().to_string());
    for (written, given) in receipts {
        command = command.replace(written, given);
    }
    let shell = Command::new("sh").arg("-c").arg(format!("{command} -sS")).output();
    let done = shell.expect("run a shell");
    assert!(done.status.success(), "{command}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("it prints text")
}

#[track_caller]
fn check(command: &str, expected: &str, printed: &str, receipts: &mut HashMap<String, String>) {
    match (serde_json::from_str(expected), serde_json::from_str(printed)) {
        (Ok(mut expected), Ok(mut printed)) => {
            settle(&mut expected, &mut printed, receipts);
            assert_eq!(printed, expected, "{command}");
        }
        _ => assert_eq!(printed, expected, "{command}"),
    }
}

/// Makes equal what is another each time, and keeps which receipt stands for which.
fn settle(expected: &mut Json, printed: &mut Json, receipts: &mut HashMap<String, String>) {
    match (expected, printed) {
        (Json::Array(expected), Json::Array(printed)) => {
            for (expected, printed) in expected.iter_mut().zip(printed) {
                settle(expected, printed, receipts);
            }
        }
        (Json::Object(expected), Json::Object(printed)) => {
            for (name, expected) in expected {
                let Some(printed) = printed.get_mut(name) else { continue };
                match (name.as_str(), &*expected, &*printed) {
                    (RECEIPT, Json::String(written), Json::String(given)) => {
                        receipts.insert(written.clone(), given.clone());
                        *printed = expected.clone();
                    }
                    (name, Json::Number(_), Json::Number(_)) if TIMES.contains(&name) => {
                        *printed = expected.clone();
                    }
                    _ => settle(expected, printed, receipts),
                }
            }
        }
        _ => {}
    }
}
