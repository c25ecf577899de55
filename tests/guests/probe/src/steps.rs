//! `POST /sql`: what one event does, as data. `POST /on-alarm` keeps such a body for `on-alarm`.
//!
//! The body: `{"steps": [{"op": "exec", "sql": "…", "params": […]}, …]}`. All steps run, also after
//! an error. The answer has an entry for each.
//!
//! | op | does |
//! |---|---|
//! | `exec`, `query`, `exec-durable` | storage: see [`sql`] |
//! | `delete-self`, `delete-self-durable` | `{deleted}` |
//! | `set-alarm`, with `in` or `at` in ms; `clear-alarm`, `get-alarm` | `{at, attempt}` |
//! | `call`, with `calls`: one; `call-many` | what [`host`] makes of an answer, a list of them |
//! | `address` | `{tenant, class, name}` |
//! | `wait`, with `ms`; `log`, with `text` | as it says |
//! | `trap`, `fail` | ends the event there |
//!
//! A step with `attempts` or `runs` is for `on-alarm`: it is left out after so many attempts of this
//! alarm, after so many runs of the handler since the script was kept.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value as Json, json};
use wasmkeep_sdk::storage::{self, Value};
use wasmkeep_sdk::{Error, Request, Response, Result, alarms, calls};

use crate::host::{self, CallStep};
use crate::{calling, sql, work};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    op: Op,
    #[serde(default)]
    sql: String,
    #[serde(default)]
    params: Vec<sql::Param>,
    #[serde(default)]
    calls: Vec<CallStep>,
    #[serde(rename = "in")]
    after: Option<u64>,
    at: Option<u64>,
    #[serde(default)]
    ms: u64,
    #[serde(default)]
    text: String,
    attempts: Option<u32>,
    runs: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Op {
    Exec,
    Query,
    ExecDurable,
    DeleteSelf,
    DeleteSelfDurable,
    SetAlarm,
    ClearAlarm,
    GetAlarm,
    Call,
    CallMany,
    Address,
    Wait,
    Log,
    Trap,
    Fail,
}

pub fn run(request: &mut Request) -> Result<Response> {
    let Script { steps } = request.json()?;
    let answers = steps.into_iter().map(step).collect::<Result<Vec<Json>>>()?;
    Ok(Response::json(&answers))
}

/// Keeps the body for the alarms to come, and forgets what those before did.
pub fn keep(request: &mut Request) -> Result<Response> {
    let script = request.text()?;
    serde_json::from_str::<Script>(&script)?;
    storage::exec("CREATE TABLE IF NOT EXISTS on_alarm (id INTEGER PRIMARY KEY, script)", ())?;
    storage::exec("REPLACE INTO on_alarm VALUES (1, ?)", (script,))?;
    storage::exec("DROP TABLE IF EXISTS alarm_log", ())?;
    storage::exec("DROP TABLE IF EXISTS alarm_said", ())?;
    Ok(Response::text("kept"))
}

/// The script kept for `on-alarm`, if there is one. What it answers is kept in `alarm_said`.
pub fn alarm_script() -> Result<()> {
    storage::exec("CREATE TABLE IF NOT EXISTS on_alarm (id INTEGER PRIMARY KEY, script)", ())?;
    let kept: Vec<String> = storage::query_as("SELECT script FROM on_alarm", ())?;
    let Some(script) = kept.first() else { return Ok(()) };
    let runs: i64 = storage::query_one("SELECT count(*) FROM alarm_log", ())?;
    let Script { steps } = serde_json::from_str(script)?;
    let mut answers = Vec::new();
    for one in steps {
        let late = one.attempts.is_some_and(|most| alarms::attempt() > most);
        if !late && one.runs.is_none_or(|most| runs <= most) {
            answers.push(step(one)?);
        }
    }
    storage::exec("CREATE TABLE IF NOT EXISTS alarm_said (answers)", ())?;
    storage::exec("INSERT INTO alarm_said VALUES (?)", (json!(answers).to_string(),))?;
    Ok(())
}

fn step(step: Step) -> Result<Json> {
    let Step { op, sql, params, calls, after, at, ms, text, .. } = step;
    let params = params.into_iter().map(sql::value).collect::<Result<Vec<Value>>>()?;
    let mut calls = calls.into_iter().map(CallStep::call);
    Ok(match op {
        Op::Exec => sql::changed(storage::exec(&sql, params)),
        Op::ExecDurable => sql::changed(storage::exec_durable(&sql, params)),
        Op::Query => sql::queried(storage::query(&sql, params)),
        Op::DeleteSelf => {
            storage::delete_self();
            json!({ "deleted": true })
        }
        Op::DeleteSelfDurable => match storage::delete_self_durable() {
            Ok(()) => json!({ "deleted": true }),
            Err(error) => sql::failed(error),
        },
        Op::SetAlarm => host::pending(match (after, at) {
            (Some(ms), _) => alarms::set_after(Duration::from_millis(ms)),
            (None, Some(at)) => alarms::set_at_ms(at),
            (None, None) => return Err(Error::bad_request("say in or at")),
        }),
        Op::ClearAlarm => host::pending(alarms::clear()),
        Op::GetAlarm => host::pending(Ok(())),
        Op::Call => {
            let call = calls.next().ok_or_else(|| Error::bad_request("say whom to call"))?;
            calling::answered(call.send())
        }
        Op::CallMany => calls::call_many(calls).into_iter().map(calling::answered).collect(),
        Op::Address => host::address_json(),
        Op::Wait => {
            std::thread::sleep(Duration::from_millis(ms));
            json!({ "waited": ms })
        }
        Op::Log => {
            println!("{text}");
            json!({ "logged": text })
        }
        Op::Trap => work::trap(),
        Op::Fail => return Err(Error::internal("told to fail")),
    })
}
