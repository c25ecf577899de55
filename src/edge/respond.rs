//! Answers, the actor's and the host's, as HTTP.

use actix_web::body::{BodyStream, SizedStream};
use actix_web::http::header::{
    CONNECTION, CONTENT_LENGTH, HeaderName, HeaderValue, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use actix_web::http::{Method, StatusCode};
use actix_web::{HttpResponse, HttpResponseBuilder};
use bytes::Bytes;
use wasmkeep_supervisors::event::{Body, BodyError, Ran, Reason, Refusal, Reply};
use wasmkeep_supervisors::headers;

/// The actor's answer.
pub fn reply(reply: Reply, method: &Method) -> HttpResponse {
    let status = match StatusCode::from_u16(reply.status) {
        Ok(status) if (200..600).contains(&status.as_u16()) => status,
        _ => {
            return refusal(&Refusal::ran(Reason::NoResponse).with_detail(format!(
                "the answer's status is {}, which is not a final one",
                reply.status
            )));
        }
    };
    let mut response = HttpResponse::build(status);
    let mut length = None;
    for (name, value) in reply.headers {
        if headers::is_hosts(&name) || is_of_the_connection(&name) {
            continue;
        }
        let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(&name), HeaderValue::from_maybe_shared(value))
        else {
            continue;
        };
        if name == CONTENT_LENGTH {
            length = value.to_str().ok().and_then(|length| length.parse().ok());
        } else {
            response.append_header((name, value));
        }
    }
    body(response, status, reply.body, length, method)
}

fn body(
    mut response: HttpResponseBuilder,
    status: StatusCode,
    body: Body,
    length: Option<u64>,
    method: &Method,
) -> HttpResponse {
    if matches!(
        status,
        StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED
    ) {
        return response.finish();
    }
    match (body, length) {
        // A HEAD's length is that of the body it does not carry.
        (_, Some(length)) if *method == Method::HEAD => {
            response.no_chunking(length);
            response.body(SizedStream::new(length, Nothing))
        }
        (Body::Stream(_), None) if *method == Method::HEAD => {
            response.body(BodyStream::new(Nothing))
        }
        (Body::Empty, _) => response.body(Bytes::new()),
        (Body::Whole(bytes), _) => response.body(bytes),
        (Body::Stream(pieces), Some(length)) => {
            response.no_chunking(length);
            response.body(SizedStream::new(length, pieces))
        }
        (Body::Stream(pieces), None) => response.body(BodyStream::new(pieces)),
    }
}

/// What says how this connection goes on is not the actor's to say.
fn is_of_the_connection(name: &[u8]) -> bool {
    let theirs = [CONNECTION, TRANSFER_ENCODING, UPGRADE, TRAILER];
    theirs.iter().any(|header| header.as_str().as_bytes().eq_ignore_ascii_case(name))
}

/// The host's own answer.
pub fn refusal(refusal: &Refusal) -> HttpResponse {
    let status =
        StatusCode::from_u16(refusal.reason.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    refusal_as(status, refusal)
}

/// The host's own answer, where HTTP has a more precise status than the reason.
pub fn refusal_as(status: StatusCode, refusal: &Refusal) -> HttpResponse {
    let Reply { headers, body, .. } = refusal.to_reply();
    let mut response = HttpResponse::build(status);
    for (name, value) in headers {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(&name), HeaderValue::from_maybe_shared(value))
        {
            response.insert_header((name, value));
        }
    }
    if refusal.reason == Reason::BodyTooLarge && refusal.ran == Ran::NotRun {
        // The body is on its way and nobody reads it.
        response.force_close();
    }
    match body {
        Body::Whole(bytes) => response.body(bytes),
        Body::Empty | Body::Stream(_) => response.finish(),
    }
}

/// The body of an answer to HEAD.
struct Nothing;

impl futures_core::Stream for Nothing {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        _context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Ready(None)
    }
}

#[cfg(test)]
mod tests {
    use actix_web::body::{BodySize, MessageBody};

    use super::*;

    fn answered(status: u16, headers: &[(&'static str, &'static str)], body: Body) -> HttpResponse {
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        let headers = headers.iter().map(|(name, value)| (bytes(name), bytes(value))).collect();
        reply(Reply { status, headers, body }, &Method::GET)
    }

    #[test]
    fn a_status_that_is_no_final_one_is_the_actors_failure() {
        for status in [0, 99, 100, 101, 103, 199, 600, 999, 1000] {
            let response = answered(status, &[], Body::Empty);
            assert_eq!(response.status(), 500, "{status}");
            let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
            assert_eq!(header(headers::REASON), Some("no-response"));
            assert_eq!(header(headers::EVENT), Some("ran"));
        }
        assert_eq!(answered(599, &[], Body::Empty).status(), 599);
    }

    #[test]
    fn no_header_of_an_actor_ends_the_head_or_speaks_for_the_connection() {
        let response = answered(
            200,
            &[
                ("x-split", "a\r\nx-injected: 1"),
                ("x-split", "a\nb"),
                ("x-split: 1\r\nx-injected", "1"),
                ("x split", "1"),
                ("", "1"),
                ("Connection", "keep-alive"),
                ("transfer-encoding", "chunked"),
                ("upgrade", "websocket"),
                ("trailer", "x"),
                ("content-length", "5, 6"),
                ("x-kept", "1"),
            ],
            Body::Whole(Bytes::from_static(b"hello")),
        );
        let names: Vec<_> = response.headers().keys().map(|name| name.as_str()).collect();
        assert_eq!(names, ["x-kept"]);
        assert_eq!(response.body().size(), BodySize::Sized(5));
    }

    #[test]
    fn a_status_without_a_body_gets_none_whatever_the_actor_wrote() {
        for status in [204, 205, 304] {
            let body = Body::Whole(Bytes::from_static(b"hello"));
            let response = answered(status, &[("content-length", "5")], body);
            assert!(response.body().size().is_eof(), "{status}");
            assert!(response.headers().is_empty(), "{status}");
        }
    }
}
