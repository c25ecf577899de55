//! One actor that uses what the SDK has above the contract, as a request tells it to.
//!
//! | request | does |
//! |---|---|
//! | `POST /migrate?steps=NAME,…` | migrates with these steps: see [`steps`]. `{}` or `{failed}` |
//! | `GET /rows?sql=` | the rows of a query |
//! | `POST /timer?key=&in=` | sets a timer in ms; `&then=fail` in a transaction that fails, `&also=KEY` two at once |
//! | `DELETE /timer?key=` | cancels it: `{cancelled}` |
//! | `GET /timers` | `[[key, due, attempts]…]` |
//! | `GET /alarm` | when the alarm is due, or null |
//! | `GET /ran` | `[[key, attempt]…]`: handlers of timers that have succeeded |
//! | `POST /Account/…` | is asked as a service: see [`account`] |
//! | `POST /ask?target=&method=&n=` | asks another actor as that service |
//! | `POST /kv?store=`, `POST /queue?queue=` | runs the client: see [`clients`] |

mod account;
mod clients;
mod steps;
mod timing;

use serde_json::Value as Json;
use wasmkeep_sdk::{Actor, Error, Method, Request, Response, Result, alarms, storage};

#[derive(Default)]
struct Sdk {
    balance: u32,
}

impl Actor for Sdk {
    fn request(&mut self, mut request: Request) -> Result<Response> {
        match request.route() {
            (Method::Post, ["migrate"]) => steps::migrate(&request),
            (Method::Get, ["rows"]) => {
                let rows: Vec<Vec<Json>> = storage::query_as(parameter(&request, "sql")?, ())?;
                Ok(Response::json(&rows))
            }
            (Method::Post, ["timer"]) => timing::set(&request),
            (Method::Delete, ["timer"]) => timing::cancel(&request),
            (Method::Get, ["timers"]) => timing::list(),
            (Method::Get, ["ran"]) => timing::ran(),
            (Method::Get, ["alarm"]) => Ok(Response::json(&alarms::get_ms()?)),
            (Method::Post, ["Account", ..]) => account::Account::serve(self, request),
            (Method::Post, ["ask"]) => account::ask(&request),
            (Method::Post, ["kv"]) => clients::kv(&mut request),
            (Method::Post, ["queue"]) => clients::queue(&mut request),
            _ => Ok(Response::not_found()),
        }
    }

    fn alarm(&mut self) -> Result<()> {
        timing::run_due()
    }
}

fn parameter<'a>(request: &Request<'a>, name: &str) -> Result<&'a str> {
    request.query(name).ok_or_else(|| Error::bad_request(format!("`{name}` is missing")))
}

/// A trap, not a panic with its hook.
fn trap() -> ! {
    #[cfg(target_arch = "wasm32")]
    core::arch::wasm32::unreachable();
    #[cfg(not(target_arch = "wasm32"))]
    unreachable!("told to trap")
}

wasmkeep_sdk::actor!(Sdk);
