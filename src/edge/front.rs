//! Every path outside `/actor/` and `/_wasmkeep/`: the front's.

use actix_web::http::Method;
use actix_web::web::Payload;
use actix_web::{HttpRequest, HttpResponse};
use wasmkeep_supervisors::event::{Body, Caller, Reason, Refusal, Reply, Request};
use wasmkeep_supervisors::front::Front;

use super::server::EdgeState;
use super::{actor, body, respond, websocket};

pub async fn handle(
    request: HttpRequest,
    payload: Payload,
    state: &EdgeState,
    front: &Front,
    awaits_continue: bool,
) -> HttpResponse {
    if websocket::is_asked_for(&request) {
        let asked = as_guest_request(&request, Body::Empty);
        return Box::pin(websocket::at_front(&request, asked, front, state)).await;
    }
    let guest_request = match take(&request, payload, awaits_continue).await {
        Ok(request) => request,
        Err(refusal) => {
            state.metrics.refused(refusal.reason);
            return respond::refusal(&refusal);
        }
    };
    answer(front.serve(guest_request).await, &request)
}

/// A client's answer.
pub fn answer(answer: Result<Reply, Refusal>, request: &HttpRequest) -> HttpResponse {
    match answer.and_then(with_final_status) {
        Ok(reply) => respond::reply(reply, request.method()),
        Err(refusal) => respond::refusal(&refusal),
    }
}

/// The request as the front gets it.
async fn take(
    request: &HttpRequest,
    payload: Payload,
    awaits_continue: bool,
) -> Result<Request, Refusal> {
    if *request.method() == Method::CONNECT {
        return Err(Refusal::not_run(Reason::BadRequest).with_detail("this server is no proxy"));
    }
    let body = body::take(request, payload, awaits_continue).await?;
    Ok(as_guest_request(request, body))
}

fn as_guest_request(request: &HttpRequest, body: Body) -> Request {
    let path = request.uri().path_and_query().map_or("/", |target| target.as_str());
    Request { head: actor::head(request, path.to_owned()), body, caller: Caller::Outside }
}

/// Another answer would have to follow a 1xx.
fn with_final_status(reply: Reply) -> Result<Reply, Refusal> {
    if (200..600).contains(&reply.status) {
        return Ok(reply);
    }
    Err(Refusal::ran(Reason::NoResponse).with_detail(format!(
        "the front answered with status {}, which is not a final one",
        reply.status
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_that_is_no_final_one_is_the_fronts_failure() {
        let answered = |status| {
            with_final_status(Reply { status, headers: Vec::new(), body: Body::Empty })
                .map_err(|refusal| (refusal.reason, refusal.reason.status()))
                .map(|reply| reply.status)
        };
        for status in [0, 100, 101, 103, 199, 600, 999] {
            assert_eq!(answered(status), Err((Reason::NoResponse, 500)), "{status}");
        }
        for status in [200, 304, 599] {
            assert_eq!(answered(status), Ok(status));
        }
    }
}
