//! Requests through the whole of this module, to a server in the test.

use std::net::SocketAddr;
use std::time::Duration;

use ::http::HeaderMap;
use bytes::Bytes;
use http_body::Frame;
use http_body_util::{BodyExt, Empty, StreamBody};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

fn outbound() -> Outbound {
    let metrics = Arc::new(Metrics::new().expect("metrics"));
    let policy = Policy::new(vec!["127.0.0.0/8".parse().expect("a range")], Vec::new());
    let tls = Tls::trusting(&[]).expect("the built-in authorities");
    Outbound::over(policy, Network::of_the_system(), tls, metrics)
}

async fn server() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

fn get(address: SocketAddr) -> Request<WasiBody> {
    let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
    Request::get(format!("http://{address}/")).body(body).expect("a request")
}

async fn accept(listener: &TcpListener) -> TcpStream {
    let (mut stream, _) = listener.accept().await.expect("a connection");
    read_until(&mut stream, b"\r\n\r\n").await;
    stream
}

async fn read_until(stream: &mut TcpStream, end: &[u8]) -> Vec<u8> {
    let mut read = Vec::new();
    while !read.ends_with(end) {
        read.push(stream.read_u8().await.expect("a byte"));
    }
    read
}

/// Whether the node closes the connection.
async fn is_closed(mut stream: TcpStream) -> bool {
    tokio::time::timeout(PATIENCE, stream.read_u8()).await.is_ok_and(|read| read.is_err())
}

impl Outbound {
    fn is_idle(&self) -> bool {
        self.0.places.available_permits() == OUTBOUND_NODE_OPEN_MAX
            && self.0.metrics.outbound_open.get() == 0
    }
}

#[tokio::test]
async fn a_request_leaves_only_once_what_has_to_end_before_has_ended_well() {
    let outbound = outbound();
    let instance = outbound.of_an_instance();
    let (listener, address) = server().await;
    let (end, before) = oneshot::channel::<Result<(), NotDurable>>();
    let before = async { before.await.expect("it ends") };
    let waiting = tokio::spawn(instance.send(get(address), None, Some(Box::pin(before))));
    let none_yet = tokio::time::timeout(Duration::from_millis(100), listener.accept()).await;
    assert!(none_yet.is_err(), "nothing leaves before");
    end.send(Ok(())).expect("somebody waits");
    let _stream = accept(&listener).await;
    waiting.abort();

    let lost = async { Err(NotDurable) };
    let refused = instance.send(get(address), None, Some(Box::pin(lost))).await;
    assert!(refused.is_err());
    let none = tokio::time::timeout(Duration::from_millis(100), listener.accept()).await;
    assert!(none.is_err(), "what tells of a lost write does not leave");
}

#[tokio::test]
async fn a_request_ends_when_the_guest_drops_what_it_waits_for() {
    let outbound = outbound();
    let instance = outbound.of_an_instance();
    let (listener, address) = server().await;
    let waiting = tokio::spawn(instance.send(get(address), None, None));
    let stream = accept(&listener).await;
    assert!(!outbound.is_idle());
    waiting.abort();
    assert!(is_closed(stream).await);
    assert!(outbound.is_idle());
}

#[tokio::test]
async fn a_request_ends_when_the_guest_drops_the_answers_body() {
    let outbound = outbound();
    let instance = outbound.of_an_instance();
    let (listener, address) = server().await;
    let waiting = tokio::spawn(instance.send(get(address), None, None));
    let mut stream = accept(&listener).await;
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nsome").await.expect("sent");
    let mut answer = waiting.await.expect("no panic").expect("an answer");
    let piece = answer.body_mut().frame().await.expect("a frame").expect("a piece");
    assert_eq!(piece.into_data().expect("data"), "some");
    assert!(!outbound.is_idle());
    drop(answer);
    assert!(is_closed(stream).await);
    assert!(outbound.is_idle());
}

#[tokio::test]
async fn a_request_ends_with_its_answer_also_when_nobody_reads_the_end() {
    let outbound = outbound();
    let instance = outbound.of_an_instance();
    let (listener, address) = server().await;
    let waiting = tokio::spawn(instance.send(get(address), None, None));
    let mut stream = accept(&listener).await;
    stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.expect("sent");
    let answer = waiting.await.expect("no panic").expect("an answer");
    assert!(outbound.is_idle());
    assert!(is_closed(stream).await);
    drop(answer);
}

#[tokio::test]
async fn the_end_of_the_event_stops_a_request_that_waits_for_its_answer() {
    let outbound = outbound();
    let instance = outbound.of_an_instance();
    let (listener, address) = server().await;
    let waiting = tokio::spawn(instance.send(get(address), None, None));
    let stream = accept(&listener).await;
    instance.end_event();
    assert!(outbound.is_idle());
    assert!(is_closed(stream).await);
    let error = waiting.await.expect("no panic").expect_err("no answer");
    assert!(matches!(error, Error::ConnectionTerminated), "{error:?}");
}

type Piece = Result<Frame<Bytes>, Error>;

/// A body that is sent piece by piece.
fn streamed() -> (mpsc::Sender<Piece>, WasiBody) {
    let (pieces, mut given) = mpsc::channel::<Piece>(1);
    let stream = std::future::poll_fn(move |context| given.poll_recv(context));
    (pieces, StreamBody::new(Pieces(Box::pin(stream))).boxed_unsync())
}

/// Asks the same future again for each piece.
struct Pieces<F>(std::pin::Pin<Box<F>>);

impl<F: Future<Output = Option<Piece>>> futures_core::Stream for Pieces<F> {
    type Item = Piece;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Piece>> {
        self.0.as_mut().poll(context)
    }
}

#[tokio::test]
async fn trailers_go_out_and_come_in() {
    let outbound = outbound();
    let instance = outbound.of_an_instance();
    let (listener, address) = server().await;
    let (pieces, body) = streamed();
    let request = Request::post(format!("http://{address}/"))
        .header("trailer", "x-sum, x-wasmkeep-evil")
        .body(body)
        .expect("a request");
    let waiting = tokio::spawn(instance.send(request, None, None));
    let mut stream = accept(&listener).await;
    // An empty piece must not look like the end.
    for data in ["one", "", "two"] {
        pieces.send(Ok(Frame::data(Bytes::from(data)))).await.expect("it is read");
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", "6".parse().expect("a value"));
    trailers.insert("x-wasmkeep-evil", "1".parse().expect("a value"));
    pieces.send(Ok(Frame::trailers(trailers))).await.expect("it is read");
    drop(pieces);
    let sent = read_until(&mut stream, b"\r\n\r\n").await;
    assert_eq!(String::from_utf8_lossy(&sent), "3\r\none\r\n3\r\ntwo\r\n0\r\nx-sum: 6\r\n\r\n");
    let said =
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nx-a: 1\r\n\r\n";
    stream.write_all(said).await.expect("sent");
    let answer = waiting.await.expect("no panic").expect("an answer");
    let whole = answer.into_body().collect().await.expect("a whole body");
    assert_eq!(whole.trailers().expect("trailers")["x-a"], "1");
    assert_eq!(whole.to_bytes(), "hi");
    assert!(outbound.is_idle());
}

#[tokio::test]
async fn a_request_that_the_guest_breaks_off_is_not_sent_as_if_it_were_whole() {
    let outbound = outbound();
    let instance = outbound.of_an_instance();
    let (listener, address) = server().await;
    let (pieces, body) = streamed();
    let request = Request::post(format!("http://{address}/")).body(body).expect("a request");
    let waiting = tokio::spawn(instance.send(request, None, None));
    let mut stream = accept(&listener).await;
    pieces.send(Ok(Frame::data(Bytes::from("one")))).await.expect("it is read");
    pieces.send(Err(Error::HttpProtocolError)).await.expect("it is read");
    let mut sent = Vec::new();
    let _ = stream.read_to_end(&mut sent).await;
    assert!(!sent.ends_with(b"0\r\n\r\n"), "{:?}", String::from_utf8_lossy(&sent));
    let error = waiting.await.expect("no panic").expect_err("no answer");
    assert!(matches!(error, Error::HttpProtocolError), "{error:?}");
    assert!(outbound.is_idle());
}

#[tokio::test]
async fn what_is_refused_takes_no_place_and_what_has_none_is_limited() {
    let outbound = outbound();
    let instance = outbound.of_an_instance();
    let refused = "10.0.0.1:80".parse().expect("an address");
    let (_listener, address) = server().await;
    let held: Vec<_> = (0..16).map(|_| instance.send(get(address), None, None)).collect();
    let error = instance.send(get(address), None, None).await.expect_err("no place");
    assert!(matches!(error, Error::ConnectionLimitReached), "{error:?}");
    let error = instance.send(get(refused), None, None).await.expect_err("refused");
    assert!(matches!(error, Error::DestinationIpProhibited), "{error:?}");
    let neighbour = outbound.of_an_instance();
    assert!(neighbour.open.open().is_some());
    drop(held);
    assert!(outbound.is_idle());
}
