//! Timers whose keys say what their handlers do.
//!
//! | key begins with | the handler |
//! |---|---|
//! | `fail` | writes, and fails |
//! | `twice` | fails the first time |
//! | `trap` | writes, and traps |
//! | `slow` | waits 25 s the first time |
//! | `again` | sets itself again for now until it has run three times |
//! | `cancel-KEY` | cancels another |

use std::time::{Duration, UNIX_EPOCH};

use wasmkeep_sdk::timers::{self, Timer};
use wasmkeep_sdk::{Error, Request, Response, Result, json, storage};

pub fn set(request: &Request) -> Result<Response> {
    let key = crate::parameter(request, "key")?;
    let wait = Duration::from_millis(request.parse_query("in")?.unwrap_or(0));
    let set = || -> Result<()> {
        timers::set_after(key, wait)?;
        if let Some(also) = request.query("also") {
            timers::set_after(also, wait)?;
        }
        Ok(())
    };
    match request.query("then") {
        None => set()?,
        Some(_) => storage::transaction(|| {
            set()?;
            Err(Error::status(409, "told to fail"))
        })?,
    }
    Ok(Response::json(&json!({})))
}

pub fn cancel(request: &Request) -> Result<Response> {
    let cancelled = timers::cancel(crate::parameter(request, "key")?)?;
    Ok(Response::json(&json!({ "cancelled": cancelled })))
}

pub fn list() -> Result<Response> {
    let mut rows = Vec::new();
    for timer in timers::list()? {
        let due = timer.due.duration_since(UNIX_EPOCH)?.as_millis() as u64;
        rows.push((timer.key, due, timer.attempts));
    }
    Ok(Response::json(&rows))
}

pub fn ran() -> Result<Response> {
    storage::exec("CREATE TABLE IF NOT EXISTS ran (key, attempt)", ())?;
    let ran: Vec<(String, u32)> = storage::query_as("SELECT * FROM ran ORDER BY rowid", ())?;
    Ok(Response::json(&ran))
}

pub fn run_due() -> Result<()> {
    storage::exec("CREATE TABLE IF NOT EXISTS ran (key, attempt)", ())?;
    timers::run_due(handle)
}

fn handle(timer: &Timer) -> Result<()> {
    let key = &*timer.key;
    println!("timer {key} begins, attempt {}", timer.attempts);
    storage::exec("INSERT INTO ran VALUES (?, ?)", (key, timer.attempts))?;
    let first = timer.attempts == 1;
    match key.split_once('-').unwrap_or((key, "")) {
        ("fail", _) => return Err(Error::internal("told to fail")),
        ("twice", _) if first => return Err(Error::internal("told to fail once")),
        ("trap", _) => crate::trap(),
        ("slow", _) if first => std::thread::sleep(Duration::from_secs(25)),
        ("again", _) => {
            let sql = "SELECT count(*) FROM ran WHERE key = ?";
            if storage::query_one::<u32>(sql, (key,))? < 3 {
                timers::set_after(key, Duration::ZERO)?;
            }
        }
        ("cancel", other) => {
            timers::cancel(other)?;
        }
        _ => {}
    }
    Ok(())
}
