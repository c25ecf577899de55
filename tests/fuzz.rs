//! What a client sends is nobody's to trust: requests bent out of shape, against a live node. It
//! answers or closes, and serves everybody else as before.
//!
//! `WASMKEEP_FUZZ_CASES` says how many are tried. A failure prints its case's seed, and
//! `WASMKEEP_FUZZ_SEED` with one case runs it again.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use crate::support::{Node, eventually, in_parallel};

const CASES: u64 = 3_000;
const CLIENTS: usize = 16;
/// Far longer than the node takes for anything here.
const PATIENCE: Duration = Duration::from_secs(30);
/// Long enough for most answers. A request that is not whole gets none.
const MOMENT: Duration = Duration::from_millis(20);

/// Requests that are fine, each shape that HTTP/1.1 has.
const CORPUS: &[&[u8]] = &[
    b"GET /actor/probe/fuzz/hello HTTP/1.1\r\nhost: test\r\n\r\n",
    b"GET /actor/probe/room%201/seen/a%2Fb?x=%41&y HTTP/1.1\r\nHost: test\r\nAccept: */*\r\n\r\n",
    b"HEAD /actor/probe/fuzz/hello HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n",
    b"POST /actor/probe/fuzz/echo HTTP/1.1\r\nhost: test\r\ncontent-length: 11\r\n\r\nhello world",
    b"POST /actor/probe/fuzz/echo-body?stream=1 HTTP/1.1\r\nhost: test\r\n\
      transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\ntrailer: t\r\n\r\n",
    b"POST /actor/probe/fuzz/read-part HTTP/1.1\r\nhost: test\r\nexpect: 100-continue\r\n\
      content-length: 20\r\n\r\n01234567890123456789",
    b"POST /actor/probe/fuzz/sql HTTP/1.1\r\nhost: test\r\ncontent-length: 45\r\n\r\n\
      {\"steps\": [{\"op\": \"query\", \"sql\": \"SELECT 1\"}]}",
    b"GET /actor/probe/fuzz/hello HTTP/1.0\r\n\r\n",
    b"GET /_wasmkeep/health HTTP/1.1\r\nhost: test\r\n\r\nGET /_wasmkeep/ready HTTP/1.1\r\n\
      host: test\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nhost: test\r\n\r\n",
    b"GET http://test/actor/probe/fuzz/hello HTTP/1.1\r\nhost: other\r\n\r\n",
    b"CONNECT test:80 HTTP/1.1\r\nhost: test:80\r\n\r\n",
    b"GET /actor/probe/fuzz/hello HTTP/1.1\r\nhost: test\r\nupgrade: websocket\r\n\
      connection: upgrade\r\nsec-websocket-version: 13\r\n\
      sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
    b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
];

/// What parsers stumble over.
const PIECES: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"\t",
    b":",
    b"%",
    b"%2F",
    b"%00",
    b"%ff",
    b"../",
    b"//",
    b"?",
    b"#",
    b"\xff\xfe",
    b"\xc3\xa9",
    b"transfer-encoding: chunked\r\n",
    b"transfer-encoding: gzip, chunked\r\n",
    b"content-length: 5\r\n",
    b"content-length: -1\r\n",
    b"content-length: 18446744073709551616\r\n",
    b"content-length: 99999999\r\n",
    b"expect: 100-continue\r\n",
    b"connection: keep-alive, upgrade\r\n",
    b"x-wasmkeep-caller: default/probe/admin\r\n",
    b"host: a\r\nhost: b\r\n",
    b" folded\r\n",
    b"ffffffffffffffff\r\n",
    b"0\r\n\r\n",
    b"HTTP/1.1",
    b"HTTP/9.9",
];

/// The same seed gives the same case, whatever ran before.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    fn one_of<'a>(&mut self, all: &'a [&'a [u8]]) -> &'a [u8] {
        all[self.below(all.len())]
    }

    /// A place in the bytes, and one behind it.
    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let from = self.below(length + 1);
        let most = (length - from).min(40);
        from..from + self.below(most + 1)
    }
}

fn bend(bytes: &mut Vec<u8>, random: &mut Random) {
    let range = random.range(bytes.len());
    match random.below(10) {
        0 => drop(bytes.drain(range)),
        1 => {
            let again = bytes[range.clone()].to_vec();
            bytes.splice(range.end..range.end, again);
        }
        2 => bytes.truncate(range.start),
        3 => {
            let other = random.one_of(CORPUS);
            let cut = random.range(other.len());
            bytes.splice(range, other[cut].iter().copied());
        }
        4 => {
            let made: Vec<u8> = (0..random.below(12)).map(|_| random.next() as u8).collect();
            bytes.splice(range, made);
        }
        5 => {
            let long = vec![b"ax%:\r"[random.below(5)]; 1 << random.below(18)];
            bytes.splice(range.start..range.start, long);
        }
        6 | 7 if !bytes.is_empty() => {
            let at = random.below(bytes.len());
            bytes[at] ^= 1 << random.below(8);
        }
        _ => {
            let piece = random.one_of(PIECES).to_vec();
            // Headers go where headers are.
            let line = bytes.windows(2).position(|two| two == b"\r\n").map_or(0, |at| at + 2);
            let at = if piece.ends_with(b"\r\n") { line } else { range.start };
            bytes.splice(at..at, piece);
        }
    }
}

fn request(random: &mut Random) -> Vec<u8> {
    let mut bytes = random.one_of(CORPUS).to_vec();
    if random.below(8) == 0 {
        bytes.extend(random.one_of(CORPUS));
    }
    for _ in 0..1 + random.below(6) {
        bend(&mut bytes, random);
    }
    bytes
}

/// Sends it, in a few pieces, and reads until the node closes.
fn talk(node: SocketAddr, bytes: &[u8], random: &mut Random) -> Result<Vec<u8>, String> {
    let shown = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect(node).map_err(shown)?;
    stream.set_nodelay(true).map_err(shown)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(shown)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(shown)?;
    let mut rest = bytes;
    while !rest.is_empty() {
        let length = if random.below(3) == 0 { 1 + random.below(rest.len()) } else { rest.len() };
        // It may have refused the rest already.
        if stream.write_all(&rest[..length]).is_err() {
            break;
        }
        rest = &rest[length..];
    }
    let mut answer = Vec::new();
    // A client that stops sending has left: most are given a moment for their answer.
    if random.below(4) > 0 {
        stream.set_read_timeout(Some(MOMENT)).map_err(shown)?;
        let _ = stream.read_to_end(&mut answer);
        stream.set_read_timeout(Some(PATIENCE)).map_err(shown)?;
    }
    let _ = stream.shutdown(Shutdown::Write);
    match stream.read_to_end(&mut answer) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
            Err(format!("neither answered whole nor closed within {PATIENCE:?}"))
        }
        // Closed with some of the request unread.
        _ => Ok(answer),
    }
}

/// Whether there was an answer.
fn check(node: SocketAddr, seed: u64) -> bool {
    let mut random = Random(seed);
    let bytes = request(&mut random);
    let wrong = match talk(node, &bytes, &mut random) {
        Ok(answer) if answer.is_empty() => return false,
        Ok(answer) if answer.starts_with(b"HTTP/1.") => return true,
        Ok(answer) => format!("answered {:?}", answer.escape_ascii().to_string()),
        Err(why) => why,
    };
    panic!(
        "{wrong}\nrun it again with WASMKEEP_FUZZ_SEED={seed} WASMKEEP_FUZZ_CASES=1\nsent: {}",
        bytes.escape_ascii()
    );
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn whatever_bytes_come_the_node_answers_or_closes() {
    let cases = setting("WASMKEEP_FUZZ_CASES").unwrap_or(CASES);
    let seed = setting("WASMKEEP_FUZZ_SEED").unwrap_or(1);
    let node = Node::probe().flag("--wall-budget-ms", "3000").flag("--idle-timeout-secs", "3600");
    let node = node.start();
    assert_eq!(node.actor("probe/other").get("/memory").text(), "1");
    let idle = node.descriptors();
    let answered = in_parallel(CLIENTS, |client| {
        let mine = (client as u64..cases).step_by(CLIENTS);
        mine.filter(|case| check(node.address(), seed + case)).count()
    });
    let answered: usize = answered.iter().sum();
    assert!(cases < 100 || answered as u64 > cases / 4, "{answered} of {cases} were answered");
    assert_eq!(node.get("/_wasmkeep/health").status, 200);
    assert_eq!(node.actor("probe/other").get("/memory").text(), "2", "it was left alone");
    assert_eq!(node.actor("probe/fuzz").get("/hello").text(), "hello");
    // Each actor that was reached may have a database open.
    eventually("its sockets are closed", || {
        let resident = node.metric("wasmkeep_resident_actors", &[]) as usize;
        node.descriptors() <= idle + 2 * resident + 8
    });
}

/// actix-http's parser takes a name of 64 KiB for one, and panics since it is not.
#[test]
fn a_header_name_longer_than_any_is_refused() {
    let node = Node::probe().start();
    for length in [60_000, 65_535, 65_536, 70_000, 130_000, 200_000] {
        let mut client = node.raw();
        let name = "x".repeat(length);
        let head = format!("GET /_wasmkeep/health HTTP/1.1\r\nhost: test\r\n{name}: y\r\n\r\n");
        client.send_beside(head.into_bytes());
        let answer = client.answer().expect("an answer");
        let expected = if length < 65_000 { 200 } else { 431 };
        assert_eq!(answer.status, expected, "{length}: {answer:?}");
    }
    assert_eq!(node.get("/_wasmkeep/health").status, 200);
    assert!(!node.log().contains("panicked"), "{}", node.log());
}
