//! A front that does what a request tells it to. What it shares with the guests `probe` and `sdk` is
//! theirs.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use wasmkeep_sdk::{Request, Response, Result, actors, front};

#[path = "../../probe/src/calling.rs"]
mod calling;
#[path = "../../sdk/src/clients.rs"]
mod clients;
#[allow(dead_code)]
#[path = "../../probe/src/fetch.rs"]
mod fetch;
#[path = "../../probe/src/http.rs"]
mod http;
mod through;
#[allow(dead_code)]
#[path = "../../probe/src/work.rs"]
mod work;

static REQUESTS: AtomicU64 = AtomicU64::new(0);

fn handle(mut request: Request) -> Result<Response> {
    match request.segments() {
        [] => Ok(Response::html("<h1>front</h1>")),
        ["who"] => Ok(Response::json(&json!({
            "host": front::host(&request),
            "scheme": front::scheme(&request),
            "caller": format!("{:?}", front::caller(&request)),
            "self": actors::self_address().to_string(),
        }))),
        // How many requests this instance has had.
        ["count"] => Ok(Response::text((REQUESTS.fetch_add(1, Ordering::Relaxed) + 1).to_string())),
        ["env"] => Ok(calling::env(&request)),
        ["call"] => calling::call(&mut request),
        ["call-many"] => Ok(calling::call_many(&request)),
        // Passes an actor's answer on, as a front does.
        ["ask"] => Ok(through::ask(&request)),
        ["burn"] => work::burn(&request),
        ["grow"] => work::grow(&request, &mut Vec::new()),
        ["loop"] => work::spin(),
        ["wait"] => work::wait(&request),
        ["trap"] => work::trap(),
        ["fetch"] => fetch::one(&mut request),
        ["fetch-hold"] => fetch::hold(&request),
        ["kv"] => clients::kv(&mut request),
        ["queue"] => clients::queue(&mut request),
        // Hands over what is asked for, also in ways that are none.
        ["hand-off"] => Ok(through::hand_off(&request)),
        ["wants"] => Ok(Response::text(front::wants_websocket(&request).to_string())),
        ["read"] => Ok(Response::text(request.bytes()?.len().to_string())),
        _ => http::answer(request),
    }
}

wasmkeep_sdk::front!(handle);
