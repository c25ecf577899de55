//! Bodies: in pieces both ways, and no sooner than anybody asks for them.

use bytes::Bytes;
use wasmkeep_supervisors::event::{Body, BodyError};
use wasmkeep_supervisors::limits::BODY_BYTES_MAX;
use wasmkeep_supervisors::ports::RelayError;

use super::node::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_body_is_answered_while_it_still_comes() {
    let owner = Owner::start().await;
    let sender = Sender::known_to(&owner);
    let (mut upload, body) = upload();
    let reply = sender.relay(owner.at(), event("a", "/echo", body)).await.expect("an answer");
    let Body::Stream(mut pieces) = reply.body else { panic!("it streams") };
    for piece in ["one", "two"] {
        upload.send(piece);
        assert_eq!(next(&mut pieces).await, Some(Ok(Bytes::from_static(piece.as_bytes()))));
    }
    upload.ends();
    assert_eq!(next(&mut pieces).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_told_to_send_its_body_when_the_owners_actor_asks_for_it() {
    let owner = Owner::start().await;
    let sender = Sender::known_to(&owner);
    let (mut upload, body) = upload();
    upload.send("what ");
    upload.send("was awaited");
    upload.ends();
    let answer = sender.relay(owner.at(), expecting(event("a", "/wait;read", body)));
    let asks = async {
        eventually("it runs", || owner.guest.waiting() == 1).await;
        assert!(!upload.was_asked_for());
        owner.guest.release(1);
    };
    let (reply, ()) = tokio::join!(answer, asks);
    assert_eq!(text_of(reply.expect("an answer").body).await, "what was awaited");
    assert!(upload.was_asked_for());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_whose_body_nobody_reads_is_not_told_to_send_it() {
    let owner = Owner::start().await;
    let sender = Sender::known_to(&owner);
    let wire = Wire::to(owner.port.address()).await;
    let (upload, body) = upload();
    let unread = expecting(event("a", "/env+CLASS", body));
    let reply = sender.relay(owner.behind(wire.address), unread).await.expect("an answer");
    assert_eq!(text_of(reply.body).await, "room");
    assert!(!upload.was_asked_for());
    // The connection waits for a body that never comes: it is not used again.
    sender.answer(owner.behind(wire.address), "a", "/x").await;
    assert_eq!(wire.made(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_before_its_body_was_asked_for_has_sent_nothing() {
    let owner = Owner::start().await;
    let sender = Sender::known_to(&owner);
    let first = sender.relay(owner.at(), event("a", "/wait", Body::Empty));
    let second = async {
        eventually("the first runs", || owner.guest.waiting() == 1).await;
        let (upload, body) = upload();
        let leaves = sender.relay(owner.at(), event("a", "/second;read", body));
        tokio::select! {
            answer = leaves => panic!("it ran: {answer:?}"),
            () = eventually("the second waits", || owner.node.delivering() == 2) => {}
        }
        eventually("the owner learns it", || owner.node.delivering() == 1).await;
        assert!(!upload.was_asked_for());
        owner.guest.release(1);
    };
    let (answer, ()) = tokio::join!(first, second);
    answer.expect("an answer");
    sender.answer(owner.at(), "a", "/third").await;
    assert_eq!(owner.guest.scripts(&address("a")), ["init", "/wait", "/third"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_sends_without_asking_is_read_out() {
    let owner = Owner::start().await;
    let sender = Sender::known_to(&owner);
    let (mut upload, body) = upload();
    upload.send("never read");
    let reply = sender.relay(owner.at(), event("a", "/env+CLASS", body)).await;
    assert_eq!(text_of(reply.expect("an answer").body).await, "room");
    eventually("it is read", || upload.was_asked_for()).await;
    upload.ends();
}

#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_come_whole_both_ways() {
    let owner = Owner::start().await;
    let sender = Sender::known_to(&owner);
    let text = "0123456789abcdef".repeat(64 * 1024);
    let body = Body::Whole(Bytes::from(text.clone()));
    let reply = sender.relay(owner.at(), event("a", "/read", body)).await.expect("an answer");
    let length = (Bytes::from_static(b"content-length"), Bytes::from(text.len().to_string()));
    assert_eq!(reply.headers, [length]);
    assert!(text_of(reply.body).await == text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_over_the_limit_is_too_large_for_the_owners_actor_as_well() {
    let owner = Owner::start().await;
    let sender = Sender::known_to(&owner);
    let (mut upload, body) = upload();
    for _ in 0..16 {
        upload.give(Ok(Bytes::from(vec![b'x'; BODY_BYTES_MAX / 16])));
    }
    upload.give(Err(BodyError::TooLarge(BODY_BYTES_MAX)));
    upload.ends();
    let reply = sender.relay(owner.at(), event("a", "/read", body)).await.expect("an answer");
    let said = text_of(reply.body).await;
    assert_eq!(said, format!("the body is larger than {BODY_BYTES_MAX} bytes"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_within_its_body_does_not_make_it_look_whole() {
    let owner = Owner::start().await;
    let sender = Sender::known_to(&owner);
    let (mut upload, body) = upload();
    upload.send("half");
    let answer = sender.relay(owner.at(), event("a", "/wait;read;exec+after", body));
    let leaves = async {
        eventually("it runs", || owner.guest.waiting() == 1).await;
        upload.give(Err(BodyError::SenderLeft));
        upload.ends();
        owner.guest.release(1);
    };
    let (answer, ()) = tokio::join!(answer, leaves);
    assert!(matches!(answer, Err(RelayError::Lost)), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_whose_owner_is_lost_breaks_off() {
    let owner = Owner::start().await;
    let sender = Sender::known_to(&owner);
    let wire = Wire::to(owner.port.address()).await;
    let (upload, body) = upload();
    let echo = event("a", "/echo", body);
    let reply = sender.relay(owner.behind(wire.address), echo).await.expect("an answer");
    let Body::Stream(mut pieces) = reply.body else { panic!("it streams") };
    upload.send("one");
    assert_eq!(next(&mut pieces).await, Some(Ok(Bytes::from_static(b"one"))));
    wire.cut();
    assert_eq!(next(&mut pieces).await, Some(Err(BodyError::EventFailed)));
    assert_eq!(next(&mut pieces).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_nobody_reads_on_closes_its_connection() {
    let owner = Owner::start().await;
    let sender = Sender::known_to(&owner);
    let (upload, body) = upload();
    let reply = sender.relay(owner.at(), event("a", "/echo", body)).await.expect("an answer");
    let line = sender.links.line(owner.at()).expect("TLS");
    assert!(line.is_in_use());
    drop(reply);
    eventually("nothing is kept", || !line.is_in_use()).await;
    drop(upload);
}
