//! One request and its answer, on a connection of their own.

use std::sync::Arc;
use std::time::Duration;

use ::http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use wasmkeep_supervisors::limits::{
    OUTBOUND_HEAD_BYTES_MAX, OUTBOUND_STEP_WAIT, OUTBOUND_STEP_WAIT_LONGEST,
};
use wasmtime_wasi_http::{Error, RequestOptions};

use super::Shared;
use super::body::RequestBody;
use super::failure::{Failure, before_the_answer};
use super::policy::Destination;
use super::progress::Progress;
use super::stream::ReadsOn;

/// A timer of no time at all would never let anything happen.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

/// How long each step may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waits {
    /// Looking up the name, connecting and TLS together.
    pub connect: Duration,
    pub first_byte: Duration,
    pub between_bytes: Duration,
}

impl Waits {
    pub fn asked(options: Option<RequestOptions>) -> Self {
        let options = options.unwrap_or_default();
        let wait = |asked: Option<Duration>| {
            asked.unwrap_or(OUTBOUND_STEP_WAIT).clamp(SHORTEST_WAIT, OUTBOUND_STEP_WAIT_LONGEST)
        };
        Self {
            connect: wait(options.connect_timeout),
            first_byte: wait(options.first_byte_timeout),
            between_bytes: wait(options.between_bytes_timeout),
        }
    }
}

pub type AnswerTo = oneshot::Sender<Result<Response<Incoming>, Failure>>;

/// Sends a request, hands its answer's head to `answer`, and then keeps the connection going for
/// the bodies.
pub async fn exchange(
    shared: Arc<Shared>,
    to: Destination,
    request: Request<RequestBody>,
    waits: Waits,
    progress: Arc<Progress>,
    answer: AnswerTo,
) {
    let connected = connect(&shared, &to, waits.connect).await;
    let stream = match connected {
        Ok(stream) => stream,
        Err(failure) => {
            let _ = answer.send(Err(failure));
            return;
        }
    };
    progress.went_on();
    talk(stream, request, waits.first_byte, &progress, answer).await;
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

async fn connect(
    shared: &Shared,
    to: &Destination,
    wait: Duration,
) -> Result<Box<dyn Stream>, Failure> {
    let deadline = Instant::now() + wait;
    let stream = shared.network.connect(&shared.policy, to, deadline).await?;
    let stream = ReadsOn::new(stream);
    if !to.tls {
        return Ok(Box::new(stream));
    }
    match timeout_at(deadline, shared.tls.handshake(&to.host, stream)).await {
        Ok(Ok(stream)) => Ok(Box::new(stream)),
        Ok(Err(code)) => Err(Failure::failed(code)),
        Err(_) => Err(Failure::failed(Error::ConnectionTimeout)),
    }
}

async fn talk(
    stream: Box<dyn Stream>,
    request: Request<RequestBody>,
    first_byte: Duration,
    progress: &Progress,
    answer: AnswerTo,
) {
    let made = http1::Builder::new()
        .max_buf_size(OUTBOUND_HEAD_BYTES_MAX)
        .handshake(TokioIo::new(stream))
        .await;
    let (mut sender, connection) = match made {
        Ok(made) => made,
        Err(error) => {
            let _ = answer.send(Err(Failure::failed(before_the_answer(&error))));
            return;
        }
    };
    let mut connection = Some(Box::pin(connection));
    let result = {
        let mut sending = std::pin::pin!(sender.send_request(request));
        let mut silence = std::pin::pin!(progress.silent_for(first_byte));
        loop {
            tokio::select! {
                biased;
                result = &mut sending => {
                    break result.map_err(|error| before_the_answer(&error));
                }
                // Its failure, if it is one, comes to `sending`, once the connection is dropped.
                _ = async { connection.as_mut().expect("checked below").await },
                    if connection.is_some() => connection = None,
                () = &mut silence => break Err(Error::HttpResponseTimeout),
            }
        }
    };
    let result = result.and_then(|response| match response.status() {
        // No request of ours asks for another protocol.
        StatusCode::SWITCHING_PROTOCOLS => Err(Error::HttpProtocolError),
        _ => Ok(response),
    });
    if answer.send(result.map_err(Failure::failed)).is_ok()
        && let Some(connection) = connection
    {
        // How it ends is said by the answer's body.
        let _ = connection.await;
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use http_body_util::{BodyExt, Full};
    use tokio::io::ReadBuf;

    use super::*;

    /// A connection that takes nothing, and has an answer once that has been tried.
    struct TakesNothing {
        answer: &'static [u8],
        tried: bool,
        reader: Option<Waker>,
    }

    impl AsyncRead for TakesNothing {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            if !self.tried {
                self.reader = Some(context.waker().clone());
                return Poll::Pending;
            }
            buffer.put_slice(std::mem::take(&mut self.answer));
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for TakesNothing {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _context: &mut Context<'_>,
            _bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.tried = true;
            if let Some(reader) = self.reader.take() {
                reader.wake();
            }
            Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
        }

        fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn an_answer_outlives_the_failure_to_send_the_rest_of_its_request() {
        let answer = b"HTTP/1.1 413 Too Large\r\ncontent-length: 8\r\n\r\ntoo much";
        let stream = ReadsOn::new(TakesNothing { answer, tried: false, reader: None });
        let progress = Arc::new(Progress::new());
        let body = Full::new(vec![b'x'; 1 << 20].into()).map_err(|never| match never {});
        let body = RequestBody::new(body.boxed_unsync(), Arc::clone(&progress));
        let request = Request::post("/").body(body).expect("a request");
        let (answer_to, answer) = oneshot::channel();
        let talking = tokio::spawn(async move {
            talk(Box::new(stream), request, OUTBOUND_STEP_WAIT, &progress, answer_to).await;
        });
        let answer = answer.await.expect("it says").expect("an answer");
        assert_eq!(answer.status(), 413);
        let body = answer.into_body().collect().await.expect("a whole body");
        assert_eq!(body.to_bytes(), "too much");
        talking.await.expect("no panic");
    }

    #[test]
    fn a_guest_may_ask_for_less_than_the_longest_wait() {
        let asked = |wait| {
            Waits::asked(Some(RequestOptions {
                connect_timeout: wait,
                first_byte_timeout: None,
                between_bytes_timeout: wait,
            }))
        };
        let table = [
            (None, OUTBOUND_STEP_WAIT),
            (Some(Duration::from_millis(200)), Duration::from_millis(200)),
            (Some(Duration::from_secs(45)), Duration::from_secs(45)),
            (Some(Duration::from_secs(600)), OUTBOUND_STEP_WAIT_LONGEST),
            (Some(Duration::MAX), OUTBOUND_STEP_WAIT_LONGEST),
            (Some(Duration::ZERO), SHORTEST_WAIT),
        ];
        for (wait, expected) in table {
            assert_eq!(asked(wait).connect, expected, "{wait:?}");
            assert_eq!(asked(wait).between_bytes, expected, "{wait:?}");
            assert_eq!(asked(wait).first_byte, OUTBOUND_STEP_WAIT);
        }
        assert_eq!(Waits::asked(None).connect, OUTBOUND_STEP_WAIT);
    }
}
