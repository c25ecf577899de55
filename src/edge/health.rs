//! `/_wasmkeep/`: what load balancers and monitoring ask.

use std::sync::atomic::Ordering;

use actix_web::http::header::{CONTENT_TYPE, RETRY_AFTER};
use actix_web::{HttpResponse, web::Data};
use prometheus::{Encoder, TextEncoder};
use wasmkeep_supervisors::event::{Reason, Refusal};

use super::respond;
use super::server::EdgeState;

pub const PREFIX: &str = "/_wasmkeep/";

pub fn handle(path: &str, state: &Data<EdgeState>) -> HttpResponse {
    match path.strip_prefix(PREFIX) {
        Some("health") => text(HttpResponse::Ok(), "alive\n"),
        Some("ready") if state.ready.load(Ordering::Relaxed) => text(HttpResponse::Ok(), "ready\n"),
        Some("ready") => {
            let mut response = HttpResponse::ServiceUnavailable();
            response.insert_header((RETRY_AFTER, "1"));
            text(response, "not ready: the node is starting or stopping, or has no lease\n")
        }
        Some("metrics") => metrics(state),
        _ => respond::refusal(
            &Refusal::not_run(Reason::NotFound)
                .with_detail("the server has /_wasmkeep/health, /ready and /metrics"),
        ),
    }
}

fn text(mut response: actix_web::HttpResponseBuilder, text: &'static str) -> HttpResponse {
    response.insert_header((CONTENT_TYPE, "text/plain; charset=utf-8")).body(text)
}

fn metrics(state: &EdgeState) -> HttpResponse {
    let encoder = TextEncoder::new();
    let mut text = Vec::new();
    match encoder.encode(&state.metrics.registry.gather(), &mut text) {
        Ok(()) => {
            HttpResponse::Ok().insert_header((CONTENT_TYPE, encoder.format_type())).body(text)
        }
        Err(error) => {
            tracing::error!(%error, "metrics not encoded");
            respond::refusal(&Refusal::not_run(Reason::HostFault))
        }
    }
}
