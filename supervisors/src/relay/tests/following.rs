use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use crate::address::{Address, NodeId, Tenant};
use crate::event::{Caller, Event, OpenRequest, Ran, Reason, Refusal, Reply};
use crate::ports::{
    Hops, LinkFuture, NotReached, PeerAt, PeerLink, PeerSocket, RelayError, SocketAsked,
};
use crate::relay::{Relay, Returned, Unrelayed};
use crate::socket::Opened;
use crate::testing::scripted_event;

/// What a peer says to the next event it gets.
enum Says {
    Answer,
    Elsewhere(&'static str),
    Unreachable,
    Refused(Refusal),
    Lost,
}

/// Peers that do as told, and who was sent to, after how many hops.
#[derive(Default)]
struct Peers {
    says: HashMap<&'static str, Says>,
    sent: Mutex<Vec<(String, u8)>>,
}

impl Peers {
    fn of(says: impl IntoIterator<Item = (&'static str, Says)>) -> Self {
        Self { says: says.into_iter().collect(), sent: Mutex::default() }
    }

    fn sent(&self) -> Vec<(String, u8)> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn answer<T>(&self, to: &PeerAt, hops: Hops, returned: T) -> Result<Reply, RelayError<T>> {
        let sent = (to.node.to_string(), hops.count());
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).push(sent);
        match &self.says[to.node.as_str()] {
            Says::Answer => Ok(Reply::done()),
            Says::Elsewhere(node) => Err(RelayError::Elsewhere { returned, holder: node_id(node) }),
            Says::Unreachable => {
                let cause = NotReached::Unreachable(io::ErrorKind::ConnectionRefused.into());
                Err(RelayError::NotReached { returned, cause })
            }
            Says::Refused(refusal) => Err(RelayError::Refused(refusal.clone())),
            Says::Lost => Err(RelayError::Lost),
        }
    }

    async fn follow(&self, owner: &str, hops: Hops) -> Result<Reply, Unrelayed<Box<Event>>> {
        let find = |node: &NodeId| {
            let known = self.says.contains_key(node.as_str());
            let address = "127.0.0.1:1".to_owned();
            known.then(|| PeerAt { node: node.clone(), address, key: [0; 32] })
        };
        let (event, _answer) = scripted_event(actor(), "/x");
        Relay { link: self, find: &find }.event(node_id(owner), hops, event).await
    }
}

impl PeerLink for Peers {
    fn relay(
        &self,
        to: PeerAt,
        hops: Hops,
        event: Event,
    ) -> LinkFuture<'_, Result<Reply, RelayError<Box<Event>>>> {
        Box::pin(async move { self.answer(&to, hops, Box::new(event)) })
    }

    fn open_socket(
        &self,
        to: PeerAt,
        hops: Hops,
        asked: SocketAsked,
    ) -> LinkFuture<'_, Result<PeerSocket, RelayError<Box<SocketAsked>>>> {
        Box::pin(async move {
            let answer = self.answer(&to, hops, Box::new(asked));
            answer.map(|_| Box::pin(tokio::io::empty()) as PeerSocket)
        })
    }

    fn hello(&self, _: PeerAt, _: Bytes) -> LinkFuture<'_, Result<(), NotReached>> {
        Box::pin(async { Ok(()) })
    }

    fn take(&self, _: PeerAt, _: Vec<Address>) -> LinkFuture<'_, Result<(), NotReached>> {
        Box::pin(async { Ok(()) })
    }
}

fn node_id(name: &str) -> NodeId {
    NodeId::parse(name).expect("a node")
}

fn actor() -> Address {
    Address::of_the_front(Tenant::default_tenant())
}

#[tokio::test]
async fn the_owner_answers_after_one_hop() {
    let peers = Peers::of([("b", Says::Answer)]);
    let reply = peers.follow("b", Hops::NONE).await.expect("an answer");
    assert_eq!(reply.status, 204);
    assert_eq!(peers.sent(), [("b".to_owned(), 1)]);
}

#[tokio::test]
async fn who_does_not_have_the_actor_says_who_does() {
    let peers = Peers::of([("b", Says::Elsewhere("c")), ("c", Says::Answer)]);
    peers.follow("b", Hops::NONE).await.expect("an answer");
    assert_eq!(peers.sent(), [("b".to_owned(), 1), ("c".to_owned(), 2)]);
}

#[tokio::test]
async fn nodes_that_name_each_other_are_asked_three_times_in_all() {
    let peers = Peers::of([("b", Says::Elsewhere("c")), ("c", Says::Elsewhere("b"))]);
    let unrelayed = peers.follow("b", Hops::NONE).await.expect_err("nobody has it");
    let refusal = unrelayed.into_refusal();
    assert_eq!((refusal.reason, refusal.ran), (Reason::TooManyHops, Ran::NotRun));
    assert_eq!(peers.sent().len(), 3);
    // What came over all its hops is not sent at all.
    let peers = Peers::of([("b", Says::Answer)]);
    let last = Hops::counted(3).expect("the most");
    peers.follow("b", last).await.expect_err("it may not go on");
    assert_eq!(peers.sent(), []);
}

#[tokio::test]
async fn what_did_not_reach_its_owner_is_given_back_and_sent_nowhere_else() {
    let peers = Peers::of([("b", Says::Unreachable), ("c", Says::Answer)]);
    let unrelayed = peers.follow("b", Hops::NONE).await.expect_err("b is not there");
    let Unrelayed::Returned { returned, cause } = unrelayed else { panic!("{unrelayed:?}") };
    assert_eq!(returned.address, actor());
    assert!(
        matches!(cause, Returned::NotReached(node, NotReached::Unreachable(_)) if node == node_id("b"))
    );
    assert_eq!(peers.sent().len(), 1);
}

#[tokio::test]
async fn what_a_node_says_is_here_comes_back_here() {
    // `a` asks: its own name is none of a peer.
    let peers = Peers::of([("b", Says::Elsewhere("a"))]);
    let unrelayed = peers.follow("b", Hops::NONE).await.expect_err("it is here");
    assert!(
        matches!(&unrelayed, Unrelayed::Returned { cause: Returned::NoPeer(node), .. } if *node == node_id("a"))
    );
    assert_eq!(unrelayed.into_refusal(), Refusal::not_run(Reason::OwnerUnreachable));
}

#[tokio::test]
async fn what_may_have_run_is_not_sent_again() {
    let refused = Refusal::ran(Reason::Trapped).with_detail("as the owner says it");
    for (says, expected) in [
        (Says::Lost, Refusal::unknown(Reason::OwnerLost)),
        (Says::Refused(refused.clone()), refused),
    ] {
        let peers = Peers::of([("b", says), ("c", Says::Answer)]);
        let unrelayed = peers.follow("b", Hops::NONE).await.expect_err("no answer");
        assert!(matches!(unrelayed, Unrelayed::Refused(_)));
        assert_eq!(unrelayed.into_refusal(), expected);
        assert_eq!(peers.sent().len(), 1);
    }
}

#[tokio::test]
async fn a_socket_follows_its_actor_too() {
    let peers = Peers::of([("b", Says::Elsewhere("c")), ("c", Says::Answer)]);
    let find =
        |node: &NodeId| Some(PeerAt { node: node.clone(), address: String::new(), key: [0; 32] });
    let request = OpenRequest { path: "/".into(), headers: Vec::new() };
    let caller = Caller::Outside;
    let asked = SocketAsked { address: actor(), request, caller };
    let relay = Relay { link: &peers, find: &find };
    let opened = relay.socket(node_id("b"), Hops::NONE, asked.clone()).await;
    assert!(matches!(opened, Ok(Opened::Relayed(_))));
    assert_eq!(peers.sent().last(), Some(&("c".to_owned(), 2)));
    // An actor that was asked and says no is no failure: its client is told so in its own way.
    let says_no = Refusal::ran(Reason::SocketRefused).with_detail("no");
    let peers = Peers::of([("b", Says::Refused(says_no.clone()))]);
    let relay = Relay { link: &peers, find: &find };
    let opened = relay.socket(node_id("b"), Hops::NONE, asked).await;
    assert!(matches!(opened, Ok(Opened::Refused(refusal)) if refusal == says_no));
}
