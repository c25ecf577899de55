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

use super::*;

async fn answer(request: HttpRequest, payload: Payload) -> HttpResponse {
    match request.path() {
        "/longer" => HttpResponse::Ok().body(SizedStream::new(3, payload)),
        "/shorter" => HttpResponse::Ok().body(SizedStream::new(30, payload)),
        "/pieces" => HttpResponse::Ok().body(BodyStream::new(payload)),
        "/upgrade" => {
            HttpResponse::SwitchingProtocols().upgrade("echo").body(BodyStream::new(payload))
        }
        path => HttpResponse::Ok().body(path.to_owned()),
    }
}

/// Serves one connection, sends it `bytes`, and returns what came back until its end, and whether
/// that was a regular one.
fn exchange(bytes: impl AsRef<[u8]>) -> (String, bool) {
    actix_web::rt::System::new().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let bytes = bytes.as_ref().to_vec();
        let client = std::thread::spawn(move || {
            let mut stream = TcpStream::connect(address).expect("connect");
            stream.write_all(&bytes).expect("send");
            let mut came = Vec::new();
            let regular = stream.read_to_end(&mut came).is_ok();
            (String::from_utf8_lossy(&came).into_owned(), regular)
        });
        let app = App::new().default_service(web::to(answer)).into_factory();
        let app = app.new_service(AppConfig::default()).await.expect("an application");
        let config = ServiceConfigBuilder::new().keep_alive(KeepAlive::Os).build();
        let (stream, _) = listener.accept().await.expect("a connection");
        serve(stream, &config, &app, |_| {}, std::future::pending()).await;
        client.join().expect("the client")
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
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let client = std::thread::spawn(move || {
        let mut stream = TcpStream::connect(address).expect("connect");
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
    actix_web::rt::System::new().block_on(async {
        let app = App::new().default_service(web::to(answer)).into_factory();
        let app = app.new_service(AppConfig::default()).await.expect("an application");
        let config = ServiceConfigBuilder::new().keep_alive(KeepAlive::Os).build();
        let (stream, _) = listener.accept().expect("a connection");
        stream.set_nonblocking(true).expect("set an option of a socket");
        let stream = tokio::net::TcpStream::from_std(stream).expect("a socket");
        serve(stream, &config, &app, |_| {}, std::future::pending()).await;
    });
    let came = client.join().expect("the client");
    assert!(came.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{came}");
    assert!(!came.contains("chunked"), "{came}");
}
