use bytes::Bytes;
use tokio::io::DuplexStream;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use wasmkeep_supervisors::event::Message;

use super::*;

fn message(length: usize) -> Vec<u8> {
    let message = Message::Binary(Bytes::from(vec![0x88; length]));
    let mut frame = BytesMut::new();
    frames::put_message_head(&mut frame, &message);
    [&frame[..], message.bytes()].concat()
}

#[test]
fn a_frames_end_is_known_however_it_is_cut() {
    for length in [0, 1, 125, 126, 65_535, 65_536] {
        let frame = message(length);
        for piece in [1, 2, 3, 1000, usize::MAX] {
            let mut frames = Frames::default();
            let mut passed = 0;
            for bytes in frame.chunks(piece.min(frame.len())) {
                frames.pass(bytes);
                passed += bytes.len();
                assert_eq!(frames.is_between(), passed == frame.len(), "{length} in {piece}");
            }
            assert!(!frames.closed);
        }
    }
}

#[test]
fn a_close_is_seen_and_what_looks_like_one_within_a_message_is_not() {
    let mut frames = Frames::default();
    frames.pass(&[message(300), frames::ping().to_vec(), message(0)].concat());
    assert!(frames.is_between() && !frames.closed);
    let close = frames::close(&Closing::new(rules::NORMAL, "bye"));
    frames.pass(&close[..1]);
    assert!(!frames.is_between());
    frames.pass(&close[1..]);
    assert!(frames.is_between() && frames.closed);
}

/// A client and an owner, and what is between them.
async fn spliced(incoming: &[u8]) -> (TcpStream, DuplexStream, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let client = TcpStream::connect(address).await.expect("it listens");
    let (near, _) = listener.accept().await.expect("a connection");
    let (owner, far) = tokio::io::duplex(1024);
    let splice = splice(near, BytesMut::from(incoming), Box::pin(far));
    (client, owner, tokio::spawn(splice))
}

async fn read<R: AsyncRead + Unpin>(from: &mut R, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    from.read_exact(&mut bytes).await.expect("so many bytes");
    bytes
}

async fn read_to_end<R: AsyncRead + Unpin>(from: &mut R) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).await.map(|_| bytes)
}

#[tokio::test]
async fn bytes_pass_both_ways_more_than_either_side_holds() {
    let (client, owner, _splice) = spliced(b"early").await;
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_owner, mut to_owner) = tokio::io::split(owner);
    assert_eq!(read(&mut from_owner, 5).await, b"early");
    let (up, down) = (vec![7; 3_000_000], message(3_000_000));
    let (sent_up, sent_down) = (up.clone(), down.clone());
    let writes = async {
        tokio::try_join!(to_client.write_all(&sent_up), to_owner.write_all(&sent_down))
            .expect("both are read");
    };
    let reads =
        async { tokio::join!(read(&mut from_owner, up.len()), read(&mut from_client, down.len())) };
    let ((), (came_up, came_down)) = tokio::join!(writes, reads);
    assert!(came_up == up && came_down == down);
}

#[tokio::test]
async fn a_client_whose_actors_node_is_lost_is_told_to_come_back() {
    let (mut client, mut owner, splice) = spliced(b"").await;
    let text = message(3);
    owner.write_all(&text).await.expect("it is read");
    drop(owner);
    assert_eq!(read(&mut client, text.len()).await, text);
    let close = read_to_end(&mut client).await.expect("a regular end");
    let told = Closing::new(1012, "the node of this actor is gone");
    assert_eq!(close, frames::close(&told).to_vec());
    drop(client);
    splice.await.expect("no panic");
}

#[tokio::test]
async fn within_a_frame_a_lost_node_is_a_lost_connection() {
    let (mut client, mut owner, splice) = spliced(b"").await;
    let text = message(300);
    owner.write_all(&text[..200]).await.expect("it is read");
    assert_eq!(read(&mut client, 200).await, text[..200]);
    drop(owner);
    splice.await.expect("no panic");
    let end = read_to_end(&mut client).await.expect_err("no regular end");
    assert_eq!(end.kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn the_owners_own_close_is_the_last_that_is_passed_on() {
    let (mut client, mut owner, splice) = spliced(b"").await;
    let close = frames::close(&Closing::new(4000, "done"));
    owner.write_all(&close).await.expect("it is read");
    drop(owner);
    assert_eq!(read_to_end(&mut client).await.expect("a regular end"), close.to_vec());
    drop(client);
    splice.await.expect("no panic");
}

#[tokio::test]
async fn an_owner_learns_all_that_a_client_said_before_it_left() {
    let (mut client, mut owner, splice) = spliced(b"").await;
    client.write_all(b"goodbye").await.expect("it is read");
    drop(client);
    assert_eq!(read_to_end(&mut owner).await.expect("a regular end"), b"goodbye");
    drop(owner);
    splice.await.expect("no panic");
}
