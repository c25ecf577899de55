//! Requests, calls and alarms: who asks, what comes back, and what happens when a side leaves.

use std::sync::Arc;

use bytes::Bytes;
use wasmkeep_supervisors::event::{
    Body, CallChain, Caller, Event, Ran, Reason, Refusal, Reply, ReplyTo, Task, Ticket,
};
use wasmkeep_supervisors::limits::{PEER_CONNECTIONS_KEPT, PEER_REQUESTS_MAX};
use wasmkeep_supervisors::ports::{NotReached, PeerLink, RelayError};

use super::node::*;

#[tokio::test(flavor = "multi_thread")]
async fn an_actor_of_another_node_answers() {
    let owner = Owner::start().await;
    let sender = Sender::known_to(&owner);
    assert_eq!(sender.answer(owner.at(), "a", "/env+CLASS").await, "room");
    assert_eq!(owner.node.hops(), [1]);
    assert_eq!(owner.guest.scripts(&address("a")), ["init", "/env CLASS"]);
    assert_eq!(sender.relayed("answered"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_in_a_chain_waits_in_it_on_every_node() {
    let owner = Owner::start().await;
    let sender = Sender::known_to(&owner);
    let script = "/call+room/b+/x";
    assert_eq!(sender.answer(owner.at(), "a", script).await, "200 ");
    let chain = CallChain::of(vec![address("b"), address("c")]).expect("it has actors");
    let called = called_by(event("a", script, Body::Empty), Caller::Actor(chain));
    let reply = sender.relay(owner.at(), called).await.expect("an answer");
    assert_eq!(text_of(reply.body).await, "reentrant");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_the_owners_word_for_word() {
    let owner = Owner::start().await;
    let sender = Sender::known_to(&owner);
    for (script, reason) in [("/trap", Reason::Trapped), ("/silent", Reason::NoResponse)] {
        let error = sender.relay(owner.at(), event("a", script, Body::Empty)).await;
        let Err(RelayError::Refused(refusal)) = error else { panic!("{error:?}") };
        assert_eq!((refusal.reason, refusal.ran), (reason, Ran::Ran), "{refusal}");
    }
    let mut nowhere = event("a", "/x", Body::Empty);
    nowhere.address.class = "hall".parse().expect("a class");
    let error = sender.relay(owner.at(), nowhere).await;
    let Err(RelayError::Refused(refusal)) = error else { panic!("{error:?}") };
    let said = Refusal::not_run(Reason::NotFound);
    assert_eq!(refusal, said.with_detail("this node serves no class \"hall\""));
    assert_eq!(sender.relayed("refused"), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alarm_is_passed_on_without_a_body() {
    let owner = Owner::start().await;
    let sender = Sender::known_to(&owner);
    assert_eq!(sender.answer(owner.at(), "a", "/set+1").await, "done");
    let (reply, _answer) = ReplyTo::channel();
    let (address, ticket) = (address("a"), Ticket::default());
    let alarm = Event { address: address.clone(), task: Task::Alarm, reply, ticket };
    sender.relay(owner.at(), alarm).await.expect("it ran");
    assert!(owner.guest.scripts(&address).contains(&"alarm".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_connection_serves_one_request_after_the_other() {
    let owner = Owner::start().await;
    let sender = Sender::known_to(&owner);
    let wire = Wire::to(owner.port.address()).await;
    for _ in 0..20 {
        assert_eq!(sender.answer(owner.behind(wire.address), "a", "/env+CLASS").await, "room");
    }
    assert_eq!(wire.made(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_at_once_do_not_wait_for_one_another() {
    let owner = Owner::start().await;
    let sender = Sender::known_to(&owner);
    let waits = sender.relay(owner.at(), event("a", "/wait", Body::Empty));
    let others = async {
        for _ in 0..3 {
            assert_eq!(sender.answer(owner.at(), "b", "/env+CLASS").await, "room");
        }
        owner.guest.release(1);
    };
    let (answer, ()) = tokio::join!(waits, others);
    answer.expect("an answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_takes_its_waiting_event_along() {
    let owner = Owner::start().await;
    let sender = Sender::known_to(&owner);
    let first = sender.relay(owner.at(), event("a", "/wait", Body::Empty));
    let second = async {
        eventually("the first runs", || owner.guest.waiting() == 1).await;
        let leaves = sender.relay(owner.at(), event("a", "/second", Body::Empty));
        let there = eventually("the second waits", || owner.node.delivering() == 2);
        tokio::select! {
            answer = leaves => panic!("it ran: {answer:?}"),
            () = there => {}
        }
        // The future is dropped with the select: its client has left.
        eventually("the owner learns it", || owner.node.delivering() == 1).await;
        owner.guest.release(1);
    };
    let (answer, ()) = tokio::join!(first, second);
    answer.expect("an answer");
    sender.answer(owner.at(), "a", "/third").await;
    assert_eq!(owner.guest.scripts(&address("a")), ["init", "/wait", "/third"]);
    assert_eq!(sender.relayed("left"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_is_lost_before_its_answer_is_not_asked_again() {
    let owner = Owner::start().await;
    let sender = Sender::known_to(&owner);
    let wire = Wire::to(owner.port.address()).await;
    let lost = sender.relay(owner.behind(wire.address), event("a", "/wait", Body::Empty));
    let cut = async {
        eventually("it runs", || owner.guest.waiting() == 1).await;
        wire.cut();
    };
    let (answer, ()) = tokio::join!(lost, cut);
    let error = answer.expect_err("nobody answers");
    assert!(matches!(error, RelayError::Lost), "{error:?}");
    let refusal = error.into_refusal();
    assert_eq!((refusal.reason.status(), refusal.ran), (502, Ran::Unknown));
    assert_eq!(wire.made(), 1);
    assert_eq!(sender.relayed("lost"), 1);
    owner.guest.release(1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_connection_that_ended_costs_no_request() {
    let owner = Owner::start().await;
    let sender = Sender::known_to(&owner);
    let wire = Wire::to(owner.port.address()).await;
    let at = owner.behind(wire.address);
    sender.answer(at.clone(), "a", "/one").await;
    let line = sender.links.line(at.clone()).expect("TLS");
    assert!(line.is_in_use());
    wire.cut();
    eventually("the end is noticed", || !line.is_in_use()).await;
    sender.answer(at, "a", "/two").await;
    assert_eq!(wire.made(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_there_gets_nothing_and_the_event_comes_back() {
    let owner = Owner::start().await;
    let sender = Sender::known_to(&owner);
    let mut nobody = owner.at();
    // Bound and closed again: nobody listens there.
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    nobody.address = free.local_addr().expect("it is bound").to_string();
    drop(free);
    let error =
        sender.relay(nobody, event("a", "/x", Body::Whole(Bytes::from_static(b"body")))).await;
    let Err(RelayError::NotReached { returned, cause: NotReached::Unreachable(_) }) = error else {
        panic!("{error:?}");
    };
    let reply = sender.relay(owner.at(), *returned).await;
    assert!(matches!(reply, Ok(Reply { status: 200, .. })), "{reply:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_have_the_actor_says_who_does_before_it_reads_anything() {
    let (asked, owner) = (Owner::start().await, Owner::start().await);
    let sender = Sender::known_to(&asked);
    owner.node.knows(sender.identity.key(), node_id("sender"));
    asked.node.moves(address("a"), node_id("owner"));
    let (mut upload, body) = upload();
    upload.send("to the owner");
    upload.ends();
    let error = sender.relay(asked.at(), event("a", "/read", body)).await;
    let Err(RelayError::Elsewhere { returned, holder }) = error else { panic!("{error:?}") };
    assert_eq!(holder, node_id("owner"));
    assert!(!upload.was_asked_for());
    let reply = sender.relay(owner.at(), *returned).await.expect("an answer");
    assert_eq!(text_of(reply.body).await, "to the owner");
    assert!(asked.guest.started().is_empty());
    assert_eq!((sender.relayed("elsewhere"), sender.relayed("answered")), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_starts_is_known_once_its_lease_was_read() {
    let owner = Owner::start().await;
    let sender = Sender::unknown();
    let lease = Bytes::from_static(b"wasmkeep node 1\n");
    let refused = sender.links.hello(owner.at(), lease.clone()).await;
    assert!(matches!(refused, Err(NotReached::Stranger)), "{refused:?}");
    owner.node.finds_at_hello(node_id("sender"));
    sender.links.hello(owner.at(), lease.clone()).await.expect("it is known");
    let key = sender.identity.key();
    assert_eq!(owner.node.hellos(), [(key, lease.clone()), (key, lease)]);
    assert_eq!(sender.answer(owner.at(), "a", "/env+CLASS").await, "room");
    let actors = vec![address("a"), address("b c")];
    sender.links.take(owner.at(), actors.clone()).await.expect("a hint");
    assert_eq!(owner.node.taken(), [(node_id("sender"), actors)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_taken_for_a_stranger_says_hello_and_tries_once_more() {
    let (greeted, owner) = (Owner::start().await, Owner::start().await);
    let sender = Sender::unknown();
    let lease = Bytes::from_static(b"wasmkeep node 1\n");
    greeted.node.finds_at_hello(node_id("sender"));
    sender.links.hello(greeted.at(), lease.clone()).await.expect("it is known");
    // The owner finds no lease the first time: that is all there is to it.
    let error = sender.relay(owner.at(), event("a", "/x", Body::Empty)).await;
    let is_stranger =
        matches!(error, Err(RelayError::NotReached { cause: NotReached::Stranger, .. }));
    assert!(is_stranger, "{error:?}");
    owner.node.finds_at_hello(node_id("sender"));
    assert_eq!(sender.answer(owner.at(), "a", "/env+CLASS").await, "room");
    let key = sender.identity.key();
    assert_eq!(owner.node.hellos(), [(key, lease.clone()), (key, lease)]);
    assert_eq!(owner.guest.scripts(&address("a")), ["init", "/env CLASS"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_request_too_many_at_once_is_refused_and_given_back() {
    let owner = Owner::start().await;
    let sender = Sender::known_to(&owner);
    let line = sender.links.line(owner.at()).expect("TLS");
    let places: Vec<_> = (0..PEER_REQUESTS_MAX).map(|_| line.place().expect("room")).collect();
    let error = sender.relay(owner.at(), event("a", "/x", Body::Empty)).await;
    let Err(RelayError::NotReached { returned, cause: NotReached::Busy }) = error else {
        panic!("{error:?}");
    };
    let told = RelayError::NotReached { returned: (), cause: NotReached::Busy }.into_refusal();
    assert_eq!((told.reason, told.ran), (Reason::NoCapacity, Ran::NotRun));
    drop(places);
    sender.relay(owner.at(), *returned).await.expect("an answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_burst_only_so_many_connections_are_kept() {
    let owner = Owner::start().await;
    let sender = Sender::known_to(&owner);
    let line = sender.links.line(owner.at()).expect("TLS");
    let count = PEER_CONNECTIONS_KEPT + 10;
    let mut burst = tokio::task::JoinSet::new();
    for at in 0..count {
        let (links, to) = (Arc::clone(&sender.links), owner.at());
        let waits = event(&format!("a-{at}"), "/wait", Body::Empty);
        burst.spawn(async move { links.relay(to, one_hop(), waits).await.is_ok() });
    }
    eventually("all of them run", || owner.guest.waiting() == count).await;
    owner.guest.release(count);
    assert!(burst.join_all().await.into_iter().all(|answered| answered));
    assert_eq!(line.kept_connections(), PEER_CONNECTIONS_KEPT);
}
