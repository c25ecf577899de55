//! Against an application that answers what no guest can.

use std::io::{Read, Write};
use std::net::TcpStream;

use actix_http::{KeepAlive, ServiceConfigBuilder};
use actix_service::{IntoServiceFactory, ServiceFactory};
use actix_web::body::{BodyStream, SizedStream};
use actix_web::dev::AppConfig;
use actix_web::web::{self, Payload};
use actix_web::{App, HttpRequest, HttpResponse};
use tokio::net::TcpListener;
use wasmkeep_supervisors::limits::HEAD_BYTES_MAX;

use super::*;

async fn answer(request: HttpRequest, payload: Payload) -> HttpResponse {
    match request.path() {
        "/longer" => HttpResponse::Ok().body(SizedStream::new(3, payload)),
        "/shorter" => HttpResponse::Ok().body(SizedStream::new(30, payload)),
        "/pieces" => HttpResponse::Ok().body(BodyStream::new(payload)),
        "/upgrade" => {
            HttpResponse::SwitchingProtocols().upgrade("echo").body(BodyStream::new(payload))
        }
        "/whole" => match payload.to_bytes().await {
            Ok(body) => HttpResponse::Ok().body(body),
            Err(error) => HttpResponse::InternalServerError().body(error.to_string()),
        },
        path => HttpResponse::Ok().body(path.to_owned()),
    }
}

/// Serves one connection, whose client is `talk`.
fn served<T: Send + 'static>(talk: impl FnOnce(TcpStream) -> T + Send + 'static) -> T {
    actix_web::rt::System::new().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let client = std::thread::spawn(move || {
            let stream = TcpStream::connect(address).expect("connect");
            stream.set_nodelay(true).expect("set an option of a socket");
            talk(stream)
        });
        let app = App::new().default_service(web::to(answer)).into_factory();
        let app = app.new_service(AppConfig::default()).await.expect("an application");
        let config = ServiceConfigBuilder::new().keep_alive(KeepAlive::Os).build();
        let (stream, _) = listener.accept().await.expect("a connection");
        let (app, config) = (&app, &config);
        let handling = Handling { app, config, head_bytes_max: HEAD_BYTES_MAX, mark: &|_| {} };
        serve(stream, handling, |_| {}, std::future::pending()).await;
        client.join().expect("the client")
    })
}

/// Sends `bytes`; what came back until the end of the connection, and whether that was a regular
/// one.
fn exchange(bytes: impl Into<Vec<u8>>) -> (String, bool) {
    let bytes = bytes.into();
    served(move |mut stream| {
        stream.write_all(&bytes).expect("send");
        let mut came = Vec::new();
        let regular = stream.read_to_end(&mut came).is_ok();
        (String::from_utf8_lossy(&came).into_owned(), regular)
    })
}

fn post(path: &str, body: &str, more: &str) -> String {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nhost: test\r\n{more}content-length: {length}\r\n\r\n{body}")
}

const LAST: &str = "GET /last HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n";

#[test]
fn an_answer_longer_than_declared_does_not_run_into_the_next() {
    let (came, regular) = exchange(post("/longer", "hello", "") + LAST);
    assert!(regular);
    let (first, next) = came.split_once("hel").expect("what was declared");
    assert!(first.contains("content-length: 3\r\n"), "{came}");
    assert!(next.starts_with("HTTP/1.1 200 OK\r\n"), "{came}");
    assert!(next.ends_with("\r\n\r\n/last"), "{came}");
}

#[test]
fn an_answer_shorter_than_declared_ends_the_connection() {
    let (came, _) = exchange(post("/shorter", "hello", "") + LAST);
    assert!(came.contains("content-length: 30\r\n"), "{came}");
    assert!(came.ends_with("\r\n\r\nhello"), "{came}");
}

#[test]
fn a_request_that_names_no_host_gets_an_answer_of_its_own_after_the_one_before_it() {
    let (came, regular) = exchange(post("/pieces", "hello", "") + "HEAD / HTTP/1.1\r\n\r\n");
    assert!(regular);
    let (first, next) = came.split_once("0\r\n\r\n").expect("the last chunk");
    assert!(first.ends_with("5\r\nhello\r\n"), "{came}");
    assert!(next.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{came}");
    assert!(next.ends_with('}'), "its body is there, though it may have been a HEAD: {came}");
}

#[test]
fn after_an_upgrade_bytes_pass_in_both_directions() {
    let request = "GET /upgrade HTTP/1.1\r\nhost: test\r\nconnection: upgrade\r\n\
                   upgrade: websocket\r\n\r\nraw \0 bytes";
    let came = served(move |mut stream| {
        stream.write_all(request.as_bytes()).expect("send");
        let mut came = Vec::new();
        let mut piece = [0; 1024];
        while !came.ends_with(b"raw \0 bytes") {
            let read = stream.read(&mut piece).expect("the connection is open");
            assert_ne!(read, 0, "{}", String::from_utf8_lossy(&came));
            came.extend_from_slice(&piece[..read]);
        }
        String::from_utf8_lossy(&came).into_owned()
    });
    assert!(came.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{came}");
    assert!(!came.contains("chunked"), "{came}");
}

/// One request, and its answer without the date.
fn request_and_answer(kind: usize, body: &str) -> (String, String) {
    let length = body.len();
    let ok = |version, more, body: &str| {
        let length = body.len();
        format!("HTTP/{version} 200 OK\r\ncontent-length: {length}\r\n{more}\r\n{body}")
    };
    let whole = ok("1.1", "", body);
    match kind {
        0 => ("GET /a HTTP/1.1\r\nhost: test\r\n\r\n".to_owned(), ok("1.1", "", "/a")),
        1 => {
            let head = ok("1.1", "", "/b").replace("\r\n/b", "\r\n");
            ("HEAD /b HTTP/1.1\r\nhost: test\r\n\r\n".to_owned(), head)
        }
        2 => {
            let keeps = "connection: keep-alive\r\n";
            (format!("GET /c HTTP/1.0\r\n{keeps}\r\n"), ok("1.0", keeps, "/c"))
        }
        3 => (post("/whole", body, ""), whole),
        4 => (post("/unread", body, ""), ok("1.1", "", "/unread")),
        _ => {
            let (first, rest) = body.split_at(length / 3);
            let chunk = |text: &str| match text.len() {
                0 => String::new(),
                length => format!("{length:x};extension\r\n{text}\r\n"),
            };
            let head = "POST /whole HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n\r\n";
            (format!("{head}{}{}0\r\ntrailer: x\r\n\r\n", chunk(first), chunk(rest)), whole)
        }
    }
}

#[test]
fn answers_fit_their_requests_however_those_are_mixed_and_cut_into_pieces() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as usize % below
    };
    for round in 0..40 {
        let (mut sent, mut expected) = (String::new(), String::new());
        for _ in 0..=random(12) {
            let body = "GET / HTTP/1.1\r\n\r\n".repeat([0, 1, 9, 4000][random(4)]);
            let (request, answer) = request_and_answer(random(6), &body);
            sent.push_str(&request);
            expected.push_str(&answer);
        }
        sent.push_str(LAST);
        let mut pieces = Vec::new();
        let mut rest = sent.as_bytes();
        while !rest.is_empty() {
            let most = 16 << random(14);
            let (piece, later) = rest.split_at(rest.len().min(1 + random(most)));
            pieces.push(piece.to_vec());
            rest = later;
        }
        let came = served(move |mut stream| {
            let mut sending = stream.try_clone().expect("share a socket");
            let sender = std::thread::spawn(move || {
                pieces.iter().try_for_each(|piece| sending.write_all(piece))
            });
            let mut came = String::new();
            stream.read_to_string(&mut came).expect("a regular end");
            sender.join().expect("the sender").expect("all is read");
            came
        });
        let came: String =
            came.split_inclusive("\r\n").filter(|line| !line.starts_with("date: ")).collect();
        expected.push_str("HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\n/last");
        let same = came.bytes().zip(expected.bytes()).take_while(|(a, b)| a == b).count();
        assert!(
            came == expected,
            "round {round}, after {same} bytes: {:?} instead of {:?}",
            &came[same..came.len().min(same + 200)],
            &expected[same..expected.len().min(same + 200)]
        );
    }
}
