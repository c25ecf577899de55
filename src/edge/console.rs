//! `/_wasmkeep/console`: a page for operators, and the commands it sends. The page is for everybody
//! who reaches it and holds nothing; a command needs the token.

use std::sync::Arc;

use actix_web::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use actix_web::http::{Method, StatusCode};
use actix_web::web::Payload;
use actix_web::{HttpRequest, HttpResponse};
use sha2::{Digest, Sha256};
use wasmkeep_supervisors::event::{BodyStream, Reason, Refusal};

use super::{body, respond};

const PATH: &str = "/_wasmkeep/console";
const POLICY: &str = "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; \
                      base-uri 'none'; form-action 'none'";
const PAGE: &str = include_str!("console/index.html");
const STYLE: &str = include_str!("console/console.css");
const SCRIPT: &str = include_str!("console/console.js");

/// What an operator asks, answered somewhere else.
pub trait Commands: Send + Sync {
    /// A longer command is none.
    fn request_bytes_max(&self) -> usize;

    /// Answers a command, a line of JSON, with lines of JSON; none when too many run already.
    /// Dropped, the answer is over.
    fn run(&self, line: Vec<u8>) -> Option<BodyStream>;
}

/// A console that is served.
#[derive(Clone)]
pub struct ConsoleSpec {
    pub commands: Arc<dyn Commands>,
    /// Who shows it is an operator.
    pub token: String,
}

impl ConsoleSpec {
    /// The hashes are compared, so that the time it takes says nothing about the token.
    fn admits(&self, request: &HttpRequest) -> bool {
        let given = request.headers().get(AUTHORIZATION).and_then(|given| given.to_str().ok());
        let given = given.and_then(|given| given.strip_prefix("Bearer "));
        given.is_some_and(|given| Sha256::digest(given) == Sha256::digest(&self.token))
    }
}

/// Answers what is the console's; none for any other path.
pub async fn handle(
    request: &HttpRequest,
    payload: Payload,
    console: &ConsoleSpec,
) -> Option<HttpResponse> {
    let below = request.path().strip_prefix(PATH)?;
    let answer = match (request.method(), below) {
        (&Method::GET | &Method::HEAD, "" | "/") => file("text/html; charset=utf-8", PAGE),
        (&Method::GET | &Method::HEAD, "/console.css") => file("text/css; charset=utf-8", STYLE),
        (&Method::GET | &Method::HEAD, "/console.js") => {
            file("text/javascript; charset=utf-8", SCRIPT)
        }
        (&Method::POST, "/command") if console.admits(request) => {
            match command(payload, console).await {
                Ok(answer) => answer,
                Err(refusal) => respond::refusal(&refusal),
            }
        }
        (&Method::POST, "/command") => {
            let refusal = Refusal::not_run(Reason::Forbidden)
                .with_detail("a command of the console needs its token: Authorization: Bearer …");
            let mut response = respond::refusal_as(StatusCode::UNAUTHORIZED, &refusal);
            let asks = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(WWW_AUTHENTICATE, asks);
            response
        }
        _ => return None,
    };
    Some(answer)
}

fn file(content_type: &'static str, text: &'static str) -> HttpResponse {
    HttpResponse::Ok()
        .insert_header((CONTENT_TYPE, content_type))
        .insert_header((CONTENT_SECURITY_POLICY, POLICY))
        .insert_header((X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .insert_header((CACHE_CONTROL, "no-cache"))
        .body(text)
}

async fn command(mut payload: Payload, console: &ConsoleSpec) -> Result<HttpResponse, Refusal> {
    let most = console.commands.request_bytes_max();
    let mut line = Vec::new();
    while let Some(piece) = body::next(&mut payload).await {
        let piece = piece.map_err(|error| {
            Refusal::not_run(Reason::BadRequest).with_detail(format!("the body broke off: {error}"))
        })?;
        if line.len() + piece.len() > most {
            return Err(Refusal::not_run(Reason::BodyTooLarge));
        }
        line.extend_from_slice(&piece);
    }
    let lines = console.commands.run(line).ok_or_else(|| {
        Refusal::not_run(Reason::NoCapacity).with_detail("too many commands run; try again")
    })?;
    let mut response = HttpResponse::Ok();
    response.insert_header((CONTENT_TYPE, "application/x-ndjson"));
    response.insert_header((CACHE_CONTROL, "no-store"));
    Ok(response.body(actix_web::body::BodyStream::new(lines)))
}
