mod together;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{advance, sleep};

use super::{Line, Opened, Outgoing};
use crate::access::Access;
use crate::address::{ActorName, Address, Class, Tenant};
use crate::event::{Caller, Closing, Message, OpenRequest, Ran, Reason, Refusal};
use crate::limits::{
    SOCKET_CLOSE_WAIT, SOCKET_PONG_WAIT, SOCKET_QUEUE_MESSAGES_MAX, SOCKET_SILENCE,
    SOCKET_TURN_TIME, SOCKETS_MAX, SOCKETS_PER_ACTOR_MAX,
};
use crate::testing::{ScriptedGuest, TreeSetup, scripted_event};
use crate::tree::Tree;

fn address(name: &str) -> Address {
    Address {
        tenant: Tenant::default_tenant(),
        class: Class::parse("room").expect("a legal class"),
        name: ActorName::parse(name).expect("a legal name"),
    }
}

async fn ask(tree: &Tree, name: &str, script: &str) -> Result<Opened, Refusal> {
    let request = OpenRequest { path: script.into(), headers: Vec::new() };
    tree.open_socket(&address(name), request, Caller::Outside).await
}

async fn open(tree: &Tree, name: &str, script: &str) -> Line {
    match ask(tree, name, script).await {
        Ok(Opened::Accepted(line)) => line,
        Ok(Opened::Relayed(_)) => panic!("it is on this node"),
        Ok(Opened::Refused(refusal)) | Err(refusal) => panic!("not opened: {refusal}"),
    }
}

fn text(text: &str) -> Message {
    Message::Text(text.to_owned().into())
}

async fn outgoing(line: &Line) -> Outgoing {
    poll_fn(|context| line.poll_outgoing(context)).await
}

async fn sent(line: &Line) -> String {
    loop {
        match outgoing(line).await {
            Outgoing::Message(message) => {
                return String::from_utf8_lossy(message.bytes()).into_owned();
            }
            Outgoing::Ping => line.heard(),
            Outgoing::Close(closing) => panic!("not a message: {closing:?}"),
        }
    }
}

async fn closed(line: &Line) -> Closing {
    match outgoing(line).await {
        Outgoing::Close(closing) => closing,
        other => panic!("not a close: {other:?}"),
    }
}

fn has_nothing(line: &Line) -> bool {
    line.poll_outgoing(&mut Context::from_waker(Waker::noop())).is_pending()
}

fn is_cut(line: &Line) -> bool {
    line.poll_cut(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
}

/// Waits, in the time of the test, until something holds.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if holds() {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("never: {what}");
}

struct Room {
    setup: TreeSetup,
    guest: ScriptedGuest,
    tree: Tree,
}

impl Room {
    async fn start(setup: TreeSetup, access: Access) -> Self {
        let guest = ScriptedGuest::new("one");
        let setup = setup.class_with("room", &guest, access);
        let tree = setup.start().await;
        Self { setup, guest, tree }
    }

    async fn open_class() -> Self {
        Self::start(TreeSetup::new(), Access::Open).await
    }

    fn scripts(&self, name: &str) -> Vec<String> {
        self.guest.scripts(&address(name))
    }

    fn held(&self) -> i64 {
        self.setup.metrics.sockets.get()
    }

    async fn request(&self, name: &str, script: &str) {
        let (event, reply) = scripted_event(address(name), script);
        self.tree.deliver(event, reply).await.expect("an answer");
    }
}

#[tokio::test(start_paused = true)]
async fn a_socket_is_seen_by_its_actor_once_accepted_and_until_it_closes() {
    let room = Room::open_class().await;
    let first = open(&room.tree, "a", "/send+nobody;keep+ann").await;
    assert!(has_nothing(&first), "it was not accepted yet");
    let second = open(&room.tree, "a", "/send+hello").await;
    assert_eq!(sent(&first).await, "hello");
    assert!(has_nothing(&second));
    assert!(second.id() > first.id());
    first.bring(text("close enough"), VecDeque::new()).await;
    assert_eq!(closed(&first).await, Closing::new(4000, "enough"));
    second.bring(text("send all"), VecDeque::new()).await;
    assert_eq!(sent(&second).await, "all");
    assert!(has_nothing(&first), "nothing follows a close");
    first.bring(text("unheard"), VecDeque::new()).await;
    first.end(Closing::new(4000, "enough"));
    until("its end is told", || room.held() == 1).await;
    let expected = [
        "init",
        "open /send nobody;keep ann",
        "open /send hello",
        "message close enough",
        "message send all",
        "close 4000 enough ann",
    ];
    assert_eq!(room.scripts("a"), expected);
    room.guest.assert_one_at_a_time();
}

#[tokio::test(start_paused = true)]
async fn one_that_is_refused_or_fails_to_open_leaves_nothing() {
    let room = Room::open_class().await;
    match ask(&room.tree, "a", "/refuse").await {
        Ok(Opened::Refused(refusal)) => assert_eq!(refusal.sentence(), "as asked"),
        _ => panic!("it was not refused"),
    }
    let trapped = ask(&room.tree, "a", "/trap").await.err().expect("a refusal");
    assert_eq!((trapped.reason, trapped.ran), (Reason::Trapped, Ran::Ran));
    assert_eq!(room.held(), 0);
    assert_eq!(room.scripts("a"), ["init", "open /refuse", "open /trap"]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_while_its_actor_decides_is_told_of_if_it_was_accepted() {
    for (script, expected) in [("/keep+ann;wait", true), ("/keep+ann;wait;refuse", false)] {
        let room = Room::open_class().await;
        {
            let asking = ask(&room.tree, "a", script);
            let leaves = until("the guest decides", || room.guest.waiting() == 1);
            tokio::select! {
                _ = asking => panic!("the guest has not decided"),
                () = leaves => {}
            }
        }
        room.guest.release(1);
        room.request("a", "/later").await;
        until("nothing is left", || room.held() == 0).await;
        let told = room.scripts("a").iter().any(|script| script.starts_with("close 1006"));
        assert_eq!(told, expected, "{script}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_wakes_its_actor_and_a_held_socket_takes_no_place_in_memory() {
    let room = Room::open_class().await;
    let line = open(&room.tree, "a", "/keep+ann").await;
    until("the actor sleeps", || !room.tree.is_resident(&address("a"))).await;
    assert_eq!((room.guest.alive(), room.held()), (0, 1));
    line.bring(text("send awake"), VecDeque::new()).await;
    assert_eq!(sent(&line).await, "awake");
    until("the actor sleeps", || !room.tree.is_resident(&address("a"))).await;
    drop(line);
    until("its end is told", || room.held() == 0).await;
    assert_eq!(room.scripts("a").last().map(String::as_str), Some("close 1006  ann"));
}

#[tokio::test(start_paused = true)]
async fn a_silent_client_is_pinged_and_then_cut() {
    let room = Room::open_class().await;
    let line = open(&room.tree, "a", "/").await;
    let second = Duration::from_secs(1);
    sleep(SOCKET_SILENCE - second).await;
    assert!(has_nothing(&line));
    sleep(second * 3).await;
    assert!(matches!(outgoing(&line).await, Outgoing::Ping));
    line.heard();
    sleep(SOCKET_SILENCE - second).await;
    assert!(has_nothing(&line) && !is_cut(&line), "it has answered");
    sleep(second * 3).await;
    assert!(matches!(outgoing(&line).await, Outgoing::Ping));
    sleep(SOCKET_PONG_WAIT - second * 3).await;
    assert!(!is_cut(&line));
    sleep(second * 5).await;
    assert!(is_cut(&line));
    // One that waits for its actor says nothing by being silent.
    let deaf = open(&room.tree, "a", "/").await;
    deaf.set_deaf(true);
    sleep(SOCKET_SILENCE * 4).await;
    assert!(has_nothing(&deaf) && !is_cut(&deaf));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_answer_a_close_is_cut() {
    let room = Room::open_class().await;
    let line = open(&room.tree, "a", "/").await;
    line.bring(text("close now"), VecDeque::new()).await;
    assert_eq!(closed(&line).await.code, 4000);
    sleep(SOCKET_CLOSE_WAIT / 2).await;
    assert!(!is_cut(&line));
    sleep(SOCKET_CLOSE_WAIT).await;
    assert!(is_cut(&line));
}

#[tokio::test(start_paused = true)]
async fn limits_hold_for_an_actor_and_for_the_node_until_ends_are_told() {
    let room = Room::open_class().await;
    let per_actor = SOCKETS_PER_ACTOR_MAX;
    let mut lines = Vec::new();
    for n in 0..SOCKETS_MAX {
        lines.push(open(&room.tree, &format!("a{}", n / per_actor), "/").await);
    }
    let refused = ask(&room.tree, "a0", "/").await.err().expect("a refusal");
    assert_eq!((refused.reason, refused.ran), (Reason::TooManySockets, Ran::NotRun));
    let refused = ask(&room.tree, "new", "/").await.err().expect("a refusal");
    assert_eq!((refused.reason, refused.ran), (Reason::TooManySockets, Ran::NotRun));
    // Its actor is busy: the end of the socket is still to be told, and counts.
    let busy = tokio::join!(room.request("a0", "/wait"), async {
        until("the actor is busy", || room.guest.waiting() == 1).await;
        drop(lines.swap_remove(0));
        sleep(Duration::from_secs(1)).await;
        assert!(ask(&room.tree, "new", "/").await.is_err());
        room.guest.release(1);
    });
    let ((), ()) = busy;
    until("its end is told", || room.held() < SOCKETS_MAX as i64).await;
    open(&room.tree, "new", "/").await;
}

#[tokio::test(start_paused = true)]
async fn a_close_event_waits_through_a_full_queue_and_want_of_capacity() {
    let mut setup = TreeSetup::new();
    setup.config.instances_max = 1;
    let room = Room::start(setup, Access::Open).await;
    let line = open(&room.tree, "a", "/keep+ann").await;
    let other = async {
        room.request("b", "/wait").await;
    };
    let tree = &room.tree;
    tokio::join!(other, async {
        until("the other holds the place", || room.guest.waiting() == 1).await;
        assert!(!tree.is_resident(&address("a")));
        drop(line);
        sleep(Duration::from_secs(20)).await;
        assert_eq!(room.held(), 1);
        room.guest.release(1);
    });
    until("its end is told", || room.held() == 0).await;
    assert_eq!(room.scripts("a").last().map(String::as_str), Some("close 1006  ann"));
}

#[tokio::test(start_paused = true)]
async fn a_message_without_capacity_waits_as_long_as_an_event_may_and_then_closes_with_1013() {
    let mut setup = TreeSetup::new();
    setup.config.instances_max = 1;
    setup.config.wall_budget = Duration::from_secs(5);
    let room = Room::start(setup, Access::Open).await;
    let line = open(&room.tree, "a", "/").await;
    let hold = || room.request("b", "/wait");
    tokio::join!(hold(), async {
        until("the other holds the place", || room.guest.waiting() == 1).await;
        tokio::join!(line.bring(text("patient"), VecDeque::new()), async {
            sleep(Duration::from_secs(4)).await;
            room.guest.release(1);
        });
    });
    assert!(room.scripts("a").contains(&"message patient".to_owned()));
    let waits_there = || {
        let (event, reply) = scripted_event(address("b"), "/wait");
        room.tree.deliver(event, reply)
    };
    // One behind the other: the actor never looks idle.
    let busy = async {
        tokio::join!(waits_there(), async {
            until("the first runs", || room.guest.waiting() == 1).await;
            tokio::join!(waits_there(), waits_there())
        })
    };
    let waits = async {
        until("the other holds the place", || room.guest.waiting() == 1).await;
        line.bring(text("unheard"), VecDeque::new()).await;
        assert_eq!(closed(&line).await.code, 1013);
    };
    tokio::select! {
        _ = busy => panic!("the place was free"),
        () = waits => {}
    }
    assert!(!room.scripts("a").contains(&"message unheard".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_delete_takes_the_sockets_along_where_a_client_may_not_create_actors() {
    let main = ActorName::parse("main").expect("a legal name");
    for (access, stays) in [(Access::Open, true), (Access::Existing(vec![main]), false)] {
        let room = Room::start(TreeSetup::new(), access).await;
        let line = open(&room.tree, "main", "/exec+a").await;
        room.request("main", "/delete").await;
        if stays {
            line.bring(text("send again"), VecDeque::new()).await;
            assert_eq!(sent(&line).await, "again");
            continue;
        }
        assert_eq!(closed(&line).await, Closing::new(1000, "actor deleted"));
        line.bring(text("unheard"), VecDeque::new()).await;
        line.end(Closing::new(1000, ""));
        sleep(Duration::from_secs(10)).await;
        assert_eq!(room.held(), 0);
        assert_eq!(room.scripts("main").len(), 3, "{:?}", room.scripts("main"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_socket_that_waits_behind_a_delete_is_the_next_actors() {
    let main = ActorName::parse("main").expect("a legal name");
    let room = Room::start(TreeSetup::new(), Access::Existing(vec![main])).await;
    let opens = async {
        until("the delete runs", || room.guest.waiting() == 1).await;
        let (line, ()) = tokio::join!(open(&room.tree, "main", "/keep+ann"), async {
            until("the socket waits behind it", || room.held() == 1).await;
            room.guest.release(1);
        });
        line
    };
    let ((), line) = tokio::join!(room.request("main", "/wait;delete"), opens);
    line.bring(text("send hello"), VecDeque::new()).await;
    assert_eq!(sent(&line).await, "hello");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_is_started_again_goes_on_with_every_socket() {
    let room = Room::open_class().await;
    let line = open(&room.tree, "a", "/keep+ann").await;
    room.tree.sockets().process().kill();
    drop(line);
    until("its end is told", || room.held() == 0).await;
    assert_eq!(room.scripts("a").last().map(String::as_str), Some("close 1006  ann"));
    let line = open(&room.tree, "a", "/").await;
    sleep(SOCKET_SILENCE * 2).await;
    assert!(matches!(outgoing(&line).await, Outgoing::Ping));
}

#[tokio::test(start_paused = true)]
async fn a_stop_closes_every_socket_with_1012_after_what_queued_events_sent() {
    let room = Room::open_class().await;
    let line = Arc::new(open(&room.tree, "a", "/").await);
    let bringing = tokio::spawn({
        let line = Arc::clone(&line);
        async move { line.bring(text("wait;send last"), VecDeque::new()).await }
    });
    until("its message runs", || room.guest.waiting() == 1).await;
    let stopping = room.tree.stop(Duration::from_secs(5));
    let client = async {
        advance(Duration::from_secs(1)).await;
        room.guest.release(1);
        assert_eq!(sent(&line).await, "last");
        assert_eq!(closed(&line).await.code, 1012);
        bringing.await.expect("it ended");
        drop(line);
    };
    tokio::join!(stopping, client);
    let refused = ask(&room.tree, "a", "/").await.err().expect("a refusal");
    assert_eq!(refused.reason, Reason::Stopping);
}

#[tokio::test(start_paused = true)]
async fn a_message_sent_to_many_is_kept_once() {
    let room = Room::open_class().await;
    let mut lines = Vec::new();
    for _ in 0..3 {
        lines.push(open(&room.tree, "a", "/").await);
    }
    lines[0].bring(text("send the same"), VecDeque::new()).await;
    let mut places = Vec::new();
    for line in &lines {
        match outgoing(line).await {
            Outgoing::Message(message) => places.push(message.bytes().as_ptr()),
            other => panic!("not a message: {other:?}"),
        }
    }
    assert!(places.iter().all(|place| *place == places[0]), "each has its own copy");
}
