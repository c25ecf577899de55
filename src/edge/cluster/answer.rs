//! What goes back to the node that sent an event.

use actix_web::HttpResponse;
use actix_web::body::BodyStream;
use actix_web::http::StatusCode;
use wasmkeep_supervisors::event::{Body, Reason, Refusal, Reply};
use wasmkeep_supervisors::relay::{ANSWER, Answer, HopError, HopRefused, NotTaken};

/// An actor's answer. Its status and headers stand in one header; the response's own say how its
/// body comes.
pub fn reply(reply: Reply) -> HttpResponse {
    let Reply { status, headers, body } = reply;
    let Ok(head) = (Answer::Reply { status, headers }).encode() else {
        let detail = "the head of the answer is larger than nodes pass on";
        return refused(Refusal::ran(Reason::NoResponse).with_detail(detail));
    };
    let mut response = HttpResponse::Ok();
    response.insert_header((ANSWER, head));
    match body {
        Body::Empty => response.finish(),
        Body::Whole(bytes) => response.body(bytes),
        Body::Stream(pieces) => response.body(BodyStream::new(pieces)),
    }
}

pub fn refused(refusal: Refusal) -> HttpResponse {
    let status = StatusCode::from_u16(refusal.reason.status());
    said(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), &Answer::Refused(refusal))
}

/// Why the node has no answer to an event.
pub fn not_taken(why: NotTaken) -> HttpResponse {
    match why {
        NotTaken::Refused(refusal) => refused(refusal),
        NotTaken::Elsewhere(node) => {
            said(StatusCode::MISDIRECTED_REQUEST, &Answer::Elsewhere(node))
        }
    }
}

/// A hop that is none for this node.
pub fn no_hop(error: HopError) -> HttpResponse {
    match error {
        HopError::TooManyHops => refused(Refusal::not_run(Reason::TooManyHops)),
        HopError::TooLarge | HopError::OtherVersion | HopError::Malformed => not_understood(),
    }
}

pub fn not_understood() -> HttpResponse {
    said(StatusCode::BAD_REQUEST, &Answer::NotTaken(HopRefused::NotUnderstood))
}

/// The last answer of a connection.
pub fn stranger() -> HttpResponse {
    let mut response = said(StatusCode::FORBIDDEN, &Answer::NotTaken(HopRefused::Stranger));
    response.head_mut().set_connection_type(actix_http::ConnectionType::Close);
    response
}

fn said(status: StatusCode, answer: &Answer) -> HttpResponse {
    let mut response = HttpResponse::build(status);
    match answer.encode() {
        Ok(text) => response.insert_header((ANSWER, text)).finish(),
        // Only what a guest wrote can be so large; without the header it is an answer of nobody.
        Err(_) => response.finish(),
    }
}
