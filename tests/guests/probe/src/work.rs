//! CPU, time, memory and stack.

use std::hint::black_box;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use wasmkeep_sdk::{Request, Response, Result, json};

const MIB: usize = 1024 * 1024;
const PAGE: usize = 4096;

/// A loop of so many rounds, without a host call: about 1 ns each.
pub fn burn(request: &Request) -> Result<Response> {
    let rounds: u64 = request.parse_query("iters")?.unwrap_or(1_000_000);
    let mut state = black_box(1u64);
    for _ in 0..rounds {
        state = black_box(state ^ (state << 13) ^ (state >> 7));
    }
    Ok(Response::json(&json!({ "iters": rounds, "state": state })))
}

pub fn spin() -> ! {
    let mut rounds = 0u64;
    loop {
        rounds = black_box(rounds.wrapping_add(1));
    }
}

pub fn wait(request: &Request) -> Result<Response> {
    let ms = request.parse_query("ms")?.unwrap_or(100);
    std::thread::sleep(Duration::from_millis(ms));
    Ok(Response::text(ms.to_string()))
}

/// When it began and ended to wait, so that events of many actors can be laid side by side.
pub fn span(request: &Request) -> Result<Response> {
    let began = now_ms()?;
    wait(request)?;
    Ok(Response::json(&json!({ "began": began, "ended": now_ms()? })))
}

pub fn now_ms() -> Result<i64> {
    Ok(i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?)
}

/// Takes memory MiB by MiB, and says how many it got: it ends where the host refuses more.
/// `keep=1` keeps them after the event. One byte of each page is written, which takes the host
/// about 1 µs of the event's CPU; `touch=0` leaves the pages alone.
pub fn grow(request: &Request, kept: &mut Vec<Vec<u8>>) -> Result<Response> {
    let asked: usize = request.parse_query("mib")?.unwrap_or(1);
    let touch = request.query("touch") != Some("0");
    let mut blocks = Vec::new();
    while blocks.len() < asked {
        let mut block: Vec<u8> = Vec::new();
        if block.try_reserve_exact(MIB).is_err() {
            break;
        }
        if touch {
            for page in block.spare_capacity_mut().chunks_mut(PAGE) {
                page[0].write(black_box(1));
            }
        }
        blocks.push(block);
    }
    let got = blocks.len();
    if request.query("keep").is_some() {
        kept.append(&mut blocks);
    }
    let keeps = kept.len();
    Ok(Response::json(&json!({ "asked": asked, "got": got, "kept": keeps })))
}

#[allow(unconditional_recursion)]
pub fn recurse(depth: u64) -> u64 {
    let frame = black_box([depth; 16]);
    recurse(depth + 1) + black_box(frame)[7]
}

pub fn trap() -> ! {
    #[cfg(target_arch = "wasm32")]
    core::arch::wasm32::unreachable();
    #[cfg(not(target_arch = "wasm32"))]
    std::process::abort();
}
