use tokio::time::Instant;

use super::*;

fn texts(all: &[&str]) -> VecDeque<Message> {
    all.iter().map(|one| text(one)).collect()
}

#[tokio::test(start_paused = true)]
async fn messages_that_came_together_are_events_of_their_own_in_their_order() {
    let room = Room::open_class().await;
    let line = open(&room.tree, "a", "/").await;
    line.bring(text("send 1"), texts(&["trap", "send 2"])).await;
    assert_eq!((sent(&line).await, sent(&line).await), ("1".into(), "2".into()));
    line.bring(text("send 3"), VecDeque::new()).await;
    let expected =
        ["init", "open /", "message send 1", "message trap", "message send 2", "message send 3"];
    assert_eq!(room.scripts("a"), expected);
    room.guest.assert_one_at_a_time();
}

#[tokio::test(start_paused = true)]
async fn what_came_together_with_one_that_closes_the_socket_is_not_heard() {
    let room = Room::open_class().await;
    let line = open(&room.tree, "a", "/").await;
    line.bring(text("close enough"), texts(&["send late"])).await;
    assert_eq!(closed(&line).await, Closing::new(4000, "enough"));
    assert_eq!(room.scripts("a"), ["init", "open /", "message close enough"]);
}

#[tokio::test(start_paused = true)]
async fn what_came_together_goes_before_what_came_later() {
    let room = Room::open_class().await;
    let line = open(&room.tree, "a", "/").await;
    let bringing = line.bring(text("send 1"), texts(&["send 2", "send 3"]));
    tokio::join!(bringing, room.request("a", "/other"));
    let expected = ["message send 1", "message send 2", "message send 3", "/other"];
    assert_eq!(room.scripts("a")[2..], expected);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_takes_long_lets_others_in_before_the_rest() {
    let room = Room::open_class().await;
    let line = open(&room.tree, "a", "/").await;
    let others = async {
        until("the first runs", || room.guest.waiting() == 1).await;
        tokio::join!(room.request("a", "/other"), async {
            advance(SOCKET_TURN_TIME).await;
            room.guest.release(1);
        });
    };
    tokio::join!(line.bring(text("wait"), texts(&["send 2", "send 3"])), others);
    let expected = ["message wait", "/other", "message send 2", "message send 3"];
    assert_eq!(room.scripts("a")[2..], expected);
}

#[tokio::test(start_paused = true)]
async fn what_came_together_and_finds_no_capacity_waits_in_its_order() {
    let mut setup = TreeSetup::new();
    setup.config.instances_max = 1;
    let room = Room::start(setup, Access::Open).await;
    let line = open(&room.tree, "a", "/").await;
    tokio::join!(room.request("b", "/wait"), async {
        until("the other holds the place", || room.guest.waiting() == 1).await;
        tokio::join!(line.bring(text("one"), texts(&["two", "three"])), async {
            sleep(Duration::from_secs(4)).await;
            room.guest.release(1);
        });
    });
    let scripts = room.scripts("a");
    assert_eq!(scripts[scripts.len() - 3..], ["message one", "message two", "message three"]);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_goes_out_with_another_waits_until_both_are_written() {
    let room = Room::open_class().await;
    let line = open(&room.tree, "a", "/").await;
    let fill = |count: usize| (0..count).map(|_| text("send 12345")).collect::<VecDeque<_>>();
    line.bring(text("send 1"), fill(SOCKET_QUEUE_MESSAGES_MAX)).await;
    assert_eq!(sent(&line).await, "1");
    assert!(line.also_message(4).is_none(), "it is too large");
    assert!(line.also_message(5).is_some());
    line.bring(text("send dropped"), VecDeque::new()).await;
    let backpressure = room.setup.metrics.socket_backpressure.get();
    assert_eq!(backpressure, 2, "one found 256 waiting, and so did the last");
    let mut left = 0;
    while !has_nothing(&line) {
        left += 1;
    }
    assert_eq!(left, SOCKET_QUEUE_MESSAGES_MAX - 2);
}

#[tokio::test(start_paused = true)]
async fn one_of_those_that_came_together_is_not_lost_when_it_cannot_be_run() {
    for (failures, heard) in
        [(1, vec!["message trap", "message two", "message three"]), (2, vec!["message trap"])]
    {
        let room = Room::open_class().await;
        let line = open(&room.tree, "a", "/").await;
        room.guest.fail_instantiations(failures);
        line.bring(text("trap"), texts(&["two", "three"])).await;
        assert_eq!(room.scripts("a")[2..], heard, "{failures}");
        if failures == 2 {
            assert_eq!(closed(&line).await.code, 1011, "offered on its own it failed as well");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_came_together_is_refused_as_one_when_the_first_cannot_be_run() {
    let room = Room::open_class().await;
    let line = open(&room.tree, "a", "/").await;
    line.bring(text("trap"), VecDeque::new()).await;
    room.guest.fail_instantiations(1);
    line.bring(text("one"), texts(&["two"])).await;
    assert_eq!(closed(&line).await.code, 1011);
    assert_eq!(room.scripts("a")[2..], ["message trap"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_handled_behind_one_that_found_no_capacity_within_the_wall() {
    let mut setup = TreeSetup::new();
    setup.config.instances_max = 1;
    setup.config.wall_budget = Duration::from_secs(5);
    let room = Room::start(setup, Access::Open).await;
    let line = open(&room.tree, "a", "/").await;
    let holds = async {
        for _ in 0..2 {
            let (event, reply) = scripted_event(address("b"), "/wait");
            let _ = room.tree.deliver(event, reply).await;
        }
    };
    let waits = async {
        until("the other holds the place", || room.guest.waiting() == 1).await;
        let began = Instant::now();
        line.bring(text("unheard"), texts(&["unheard too"])).await;
        assert!(began.elapsed() < Duration::from_secs(10), "the second did not wait as well");
        assert_eq!(closed(&line).await.code, 1013);
        room.guest.release(2);
    };
    tokio::join!(holds, waits);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(room.scripts("a"), ["init", "open /"]);
}
