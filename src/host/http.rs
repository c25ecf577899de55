//! Requests and responses between `event`'s plain data and what wasi-http works with.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use ::http::header::{HeaderMap, HeaderName, HeaderValue};
use ::http::uri::{Authority, PathAndQuery, Scheme, Uri};
use bytes::Bytes;
use futures_core::Stream;
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt, Empty, Full};
use tokio::sync::oneshot;
use tokio::task::coop::unconstrained;
use wasmkeep_supervisors::event::{Body, BodyError, BodyStream, Header, Reply, Request, packed};
use wasmkeep_supervisors::headers;
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi_http::p2::bindings::http::types::{ErrorCode, IoError};
use wasmtime_wasi_http::p2::body::{HyperIncomingBody, HyperOutgoingBody};

use super::state::HostState;

/// The authority of a request whose client named none.
const NO_AUTHORITY: &str = "localhost";

pub type GuestRequest = ::http::Request<HyperIncomingBody>;
pub type GuestResponse = ::http::Response<HyperOutgoingBody>;

/// Replaces `http-error-code`: wasmtime-wasi-http 48 fails a body's reads with its own error type
/// and looks for another, so that a guest could not tell a body over the limit from a lost client,
/// nor a server that fell silent from one that broke off.
pub fn link_error_codes(linker: &mut Linker<HostState>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    linker.instance("wasi:http/types@0.2.12")?.func_wrap(
        "http-error-code",
        |mut store: StoreContextMut<'_, HostState>, (error,): (Resource<IoError>,)| {
            let error = store.data_mut().table.get(&error)?;
            let code = error
                .downcast_ref::<ErrorCode>()
                .cloned()
                .or_else(|| error.downcast_ref::<wasmtime_wasi_http::Error>().map(error_code));
            Ok((code,))
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}

/// Why the read of a body failed, a request's or that of the answer to an outbound request.
fn error_code(error: &wasmtime_wasi_http::Error) -> ErrorCode {
    match error {
        wasmtime_wasi_http::Error::HttpRequestBodySize(size) => {
            ErrorCode::HttpRequestBodySize(*size)
        }
        wasmtime_wasi_http::Error::ConnectionReadTimeout => ErrorCode::ConnectionReadTimeout,
        wasmtime_wasi_http::Error::HttpResponseIncomplete => ErrorCode::HttpResponseIncomplete,
        wasmtime_wasi_http::Error::HttpProtocolError => ErrorCode::HttpProtocolError,
        wasmtime_wasi_http::Error::TlsProtocolError => ErrorCode::TlsProtocolError,
        _ => ErrorCode::ConnectionTerminated,
    }
}

/// The request as wasi-http takes it. What HTTP allows but these types refuse is left out of the
/// headers, which the edge has parsed before: it does not happen to a request from a client.
pub fn request_in(request: Request) -> Result<GuestRequest, ::http::Error> {
    let Request { head, body, caller } = request;
    let path = PathAndQuery::from_maybe_shared(Bytes::from(head.path))?;
    let authority = Authority::from_maybe_shared(Bytes::from(head.authority))
        .unwrap_or_else(|_| Authority::from_static(NO_AUTHORITY));
    let uri =
        Uri::builder().scheme(Scheme::HTTP).authority(authority).path_and_query(path).build()?;
    let mut guest = ::http::Request::new(body_in(body));
    *guest.method_mut() = ::http::Method::from_bytes(head.method.as_bytes())?;
    *guest.uri_mut() = uri;
    *guest.headers_mut() = headers_in(head.headers);
    if let Some(caller) = caller.address() {
        let caller = HeaderValue::from_str(&caller.to_string())?;
        guest.headers_mut().insert(headers::CALLER, caller);
    }
    Ok(guest)
}

fn headers_in(headers: Vec<Header>) -> HeaderMap {
    let mut map = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        let name = HeaderName::from_bytes(&name);
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_maybe_shared(value)) {
            map.append(name, value);
        }
    }
    map
}

fn body_in(body: Body) -> HyperIncomingBody {
    match body {
        Body::Empty => Empty::new().map_err(|never| match never {}).boxed_unsync(),
        Body::Whole(bytes) => Full::new(bytes).map_err(|never| match never {}).boxed_unsync(),
        Body::Stream(pieces) => RequestBody(pieces).boxed_unsync(),
    }
}

/// A body that is still arriving.
struct RequestBody(BodyStream);

impl http_body::Body for RequestBody {
    type Data = Bytes;
    type Error = wasmtime_wasi_http::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.as_mut().poll_next(context).map(|piece| {
            piece.map(|piece| match piece {
                Ok(bytes) => Ok(Frame::data(bytes)),
                Err(BodyError::TooLarge(limit)) => {
                    Err(wasmtime_wasi_http::Error::HttpRequestBodySize(Some(limit as u64)))
                }
                Err(BodyError::SenderLeft | BodyError::EventFailed) => {
                    Err(wasmtime_wasi_http::Error::ConnectionTerminated)
                }
            })
        })
    }
}

/// Says how the handler ended, for a body that is still being read then: whether it may be whole.
pub type HandlerEnd = oneshot::Sender<bool>;

/// A reply whose body follows while the guest runs.
pub fn streamed_reply(response: GuestResponse) -> (Reply, HandlerEnd) {
    let (ended, handler) = oneshot::channel();
    let (head, body) = response.into_parts();
    let body = ReplyBody { body: Some(body), handler: Handler::Running(handler) };
    (reply(&head, Body::Stream(Box::pin(body))), ended)
}

/// A reply of a handler that has returned: its body is there already. None when it is not whole.
pub fn finished_reply(response: GuestResponse) -> Option<Reply> {
    let (head, body) = response.into_parts();
    let mut body = ReplyBody { body: Some(body), handler: Handler::Returned };
    let mut pieces = Vec::new();
    let mut context = Context::from_waker(Waker::noop());
    loop {
        match Pin::new(&mut body).poll_next(&mut context) {
            Poll::Ready(Some(Ok(piece))) => pieces.push(piece),
            Poll::Ready(None) => return Some(reply(&head, whole(pieces))),
            Poll::Ready(Some(Err(_))) | Poll::Pending => return None,
        }
    }
}

fn whole(mut pieces: Vec<Bytes>) -> Body {
    match pieces.len() {
        0 => Body::Empty,
        1 => Body::Whole(pieces.remove(0)),
        _ => Body::Whole(pieces.concat().into()),
    }
}

fn reply(head: &::http::response::Parts, body: Body) -> Reply {
    let headers = packed(|| {
        let all = head.headers.iter();
        all.map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()))
    });
    Reply { status: head.status.as_u16(), headers, body }
}

enum Handler {
    Running(oneshot::Receiver<bool>),
    Returned,
    Failed,
}

/// The body a guest writes. A store that is dropped ends its bodies as if they were whole, so the
/// handler's own end decides whether an end is one.
///
/// It is polled outside tokio's cooperative budget: "pending" must mean that nothing is there, not
/// that this task has had its turn, or a body that is there would count as one that never comes.
struct ReplyBody {
    body: Option<HyperOutgoingBody>,
    handler: Handler,
}

impl ReplyBody {
    fn fail(&mut self) -> Poll<Option<Result<Bytes, BodyError>>> {
        self.body = None;
        Poll::Ready(Some(Err(BodyError::EventFailed)))
    }

    /// Learns whether the handler has ended.
    fn ask_handler(&mut self, context: &mut Context<'_>) {
        if let Handler::Running(end) = &mut self.handler
            && let Poll::Ready(end) = Pin::new(&mut unconstrained(end)).poll(context)
        {
            self.handler = if end == Ok(true) { Handler::Returned } else { Handler::Failed };
        }
    }
}

impl Stream for ReplyBody {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, BodyError>>> {
        loop {
            let Some(body) = &mut self.body else { return Poll::Ready(None) };
            let mut frame =
                unconstrained(poll_fn(|context| Pin::new(&mut *body).poll_frame(context)));
            match Pin::new(&mut frame).poll(context) {
                Poll::Ready(Some(Ok(frame))) => {
                    // Trailers have no place in the reply: they are dropped.
                    if let Ok(bytes) = frame.into_data() {
                        return Poll::Ready(Some(Ok(bytes)));
                    }
                }
                Poll::Ready(Some(Err(_))) => return self.fail(),
                Poll::Ready(None) => {
                    self.ask_handler(context);
                    if matches!(self.handler, Handler::Failed) {
                        return self.fail();
                    }
                    self.body = None;
                    return Poll::Ready(None);
                }
                Poll::Pending => match self.handler {
                    // Nobody is left who could write the rest.
                    Handler::Returned | Handler::Failed => return self.fail(),
                    Handler::Running(_) => {
                        self.ask_handler(context);
                        if matches!(self.handler, Handler::Running(_)) {
                            return Poll::Pending;
                        }
                    }
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::coop::{has_budget_remaining, poll_proceed};
    use wasmtime_wasi_http::p2::body::{HostOutgoingBody, StreamContext};

    use super::*;

    /// A response whose body the guest has written and finished.
    fn written(text: &'static str) -> GuestResponse {
        let (mut guest, body) = HostOutgoingBody::new(StreamContext::Response, None, 4, 1024);
        let mut stream = guest.take_output_stream().expect("it is taken once");
        stream.check_write().expect("it is open");
        stream.write(Bytes::from_static(text.as_bytes())).expect("there is room");
        drop(stream);
        guest.finish(None).expect("no length was declared");
        ::http::Response::new(body)
    }

    /// Uses up what tokio lets this task do before it must yield.
    async fn use_up_the_turn() {
        poll_fn(|context| {
            while let Poll::Ready(proceeds) = poll_proceed(context) {
                proceeds.made_progress();
            }
            Poll::Ready(())
        })
        .await;
        assert!(!has_budget_remaining());
    }

    /// In a busy actor one answer in some hundred thousand failed: its body was polled at the very
    /// end of the task's turn.
    #[tokio::test]
    async fn a_body_that_is_there_is_whole_at_the_end_of_a_tasks_turn_too() {
        let response = written("hello");
        use_up_the_turn().await;
        let reply = finished_reply(response).expect("the body is whole");
        assert!(matches!(reply.body, Body::Whole(bytes) if bytes == "hello"));
    }

    #[tokio::test]
    async fn a_streamed_body_that_is_there_is_read_at_the_end_of_a_tasks_turn_too() {
        let (reply, end) = streamed_reply(written("hello"));
        let Body::Stream(mut pieces) = reply.body else { panic!("it streams") };
        end.send(true).expect("the body listens");
        use_up_the_turn().await;
        let piece = poll_fn(|context| pieces.as_mut().poll_next(context)).await;
        assert_eq!(piece, Some(Ok(Bytes::from_static(b"hello"))));
        use_up_the_turn().await;
        assert_eq!(poll_fn(|context| pieces.as_mut().poll_next(context)).await, None);
    }

    #[tokio::test]
    async fn a_body_whose_handler_failed_is_cut_even_if_it_looks_whole() {
        let (reply, end) = streamed_reply(written("hello"));
        let Body::Stream(mut pieces) = reply.body else { panic!("it streams") };
        end.send(false).expect("the body listens");
        let mut next = async || poll_fn(|context| pieces.as_mut().poll_next(context)).await;
        assert_eq!(next().await, Some(Ok(Bytes::from_static(b"hello"))));
        use_up_the_turn().await;
        assert_eq!(next().await, Some(Err(BodyError::EventFailed)));
    }
}
