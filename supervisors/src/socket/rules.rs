//! What is admitted, what waits, how sockets end. Pure.

use std::time::Duration;

use crate::event::{CloseError, Closing, Ran, Reason, Refusal, SendError, SocketId};
use crate::limits::{
    CLOSE_REASON_BYTES_MAX, SOCKET_CLOSE_RETRY_FIRST, SOCKET_CLOSE_RETRY_LONGEST,
    SOCKET_MESSAGE_BYTES_MAX, SOCKET_PONG_WAIT, SOCKET_QUEUE_BYTES_MAX, SOCKET_QUEUE_MESSAGES_MAX,
    SOCKET_SILENCE, SOCKETS_MAX, SOCKETS_PER_ACTOR_MAX,
};
use crate::time::Timestamp;

/// The client went on as it should.
pub const NORMAL: u16 = 1000;
/// It broke the protocol.
pub const PROTOCOL_ERROR: u16 = 1002;
/// Its close had no code; never sent.
pub const NO_CODE: u16 = 1005;
/// Its connection was lost; never sent.
pub const LOST: u16 = 1006;
/// It sent text that is no UTF-8.
pub const NOT_UTF8: u16 = 1007;
/// The actor refused it.
pub const REFUSED: u16 = 1008;
/// It sent a message over 1 MiB.
pub const TOO_LARGE: u16 = 1009;
/// A message could not reach the actor, and a retry would not help.
pub const HOST_FAILED: u16 = 1011;
/// The node stops: come back.
pub const RESTART: u16 = 1012;
/// No capacity for a message: come back later.
pub const TRY_LATER: u16 = 1013;

/// How long a message waits before it is offered again to an actor whose queue is full: doubled each
/// time, up to the longest.
const MESSAGE_RETRY_FIRST: Duration = Duration::from_millis(20);
const MESSAGE_RETRY_LONGEST: Duration = Duration::from_secs(1);

/// The next id: later ones are higher, also across restarts, as long as the clock is not set back
/// and fewer than a thousand sockets a millisecond were opened. Below 2^53 until the year 2255, so
/// that it survives as a number in JSON.
pub fn next_id(last: SocketId, now: Timestamp) -> SocketId {
    SocketId((last.0 + 1).max(now.0.saturating_mul(1000)))
}

/// Whether there is room for one more socket.
pub fn admit(of_actor: usize, of_node: usize) -> Result<(), Refusal> {
    let full = |whose: &str, most: usize| {
        Err(Refusal::not_run(Reason::TooManySockets)
            .with_detail(format!("this {whose} has {most} WebSockets, as many as it may; retry")))
    };
    if of_actor >= SOCKETS_PER_ACTOR_MAX {
        return full("actor", SOCKETS_PER_ACTOR_MAX);
    }
    if of_node >= SOCKETS_MAX {
        return full("node", SOCKETS_MAX);
    }
    Ok(())
}

/// What waits for a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waiting {
    pub messages: usize,
    pub bytes: usize,
}

/// Whether a message of `bytes` may join what waits.
pub fn may_queue(waiting: Waiting, bytes: usize) -> Result<(), SendError> {
    if bytes > SOCKET_MESSAGE_BYTES_MAX {
        return Err(SendError::TooLarge);
    }
    if waiting.messages >= SOCKET_QUEUE_MESSAGES_MAX
        || waiting.bytes + bytes > SOCKET_QUEUE_BYTES_MAX
    {
        return Err(SendError::Backpressure);
    }
    Ok(())
}

/// Whether a guest may close with this.
pub fn check_close(code: u16, reason: &str) -> Result<(), CloseError> {
    if !matches!(code, 1000..=1003 | 1007..=1011 | 3000..=4999) {
        return Err(CloseError::InvalidCode);
    }
    if reason.len() > CLOSE_REASON_BYTES_MAX {
        return Err(CloseError::ReasonTooLong);
    }
    Ok(())
}

/// As much of a text as fits into a close frame.
pub fn shortened(text: &str) -> &str {
    let mut end = text.len().min(CLOSE_REASON_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// What is due for a client that was silent for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    Fine,
    Ping,
    /// It has left without a word.
    Lost,
}

/// `pinged` says how long ago the client was pinged, if it was since it was heard last.
pub fn silence(silent: Duration, pinged: Option<Duration>) -> Silence {
    match pinged {
        Some(waited) if waited >= SOCKET_PONG_WAIT => Silence::Lost,
        None if silent >= SOCKET_SILENCE => Silence::Ping,
        _ => Silence::Fine,
    }
}

/// What comes after a message was offered to its actor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AfterMessage {
    /// Its event has ended, well or not: the socket stays.
    Next,
    /// Offer it again after a while.
    Again(Duration),
    Close(Closing),
}

/// `patient` says that the message has not waited for as long as an event may take; `times` it was
/// offered before.
pub fn after_message(refusal: &Refusal, patient: bool, times: u32) -> AfterMessage {
    if refusal.ran != Ran::NotRun {
        return AfterMessage::Next;
    }
    let close = |code, reason: &str| AfterMessage::Close(Closing::new(code, shortened(reason)));
    match refusal.reason {
        Reason::Stopping => close(RESTART, "this node is stopping"),
        Reason::NoCapacity | Reason::QueueFull | Reason::Unavailable | Reason::Quarantined => {
            if patient {
                let wait = MESSAGE_RETRY_FIRST.saturating_mul(2_u32.saturating_pow(times));
                AfterMessage::Again(wait.min(MESSAGE_RETRY_LONGEST))
            } else {
                close(TRY_LATER, refusal.sentence())
            }
        }
        Reason::Forbidden | Reason::NoSuchActor => close(REFUSED, refusal.sentence()),
        _ => close(HOST_FAILED, refusal.sentence()),
    }
}

/// How long until a close event is offered again, if it is; `times` it was offered before.
pub fn close_retry(refusal: &Refusal, times: u32) -> Option<Duration> {
    let may_help = matches!(
        refusal.reason,
        Reason::NoCapacity | Reason::QueueFull | Reason::Unavailable | Reason::Quarantined
    );
    let wait = SOCKET_CLOSE_RETRY_FIRST.saturating_mul(2_u32.saturating_pow(times));
    (refusal.ran == Ran::NotRun && may_help).then(|| wait.min(SOCKET_CLOSE_RETRY_LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_rise_within_a_millisecond_and_across_restarts() {
        let now = Timestamp(1_700_000_000_000);
        let first = next_id(SocketId(0), now);
        let second = next_id(first, now);
        assert!(second > first);
        let after_a_restart = next_id(SocketId(0), now.plus(Duration::from_millis(1)));
        assert!(after_a_restart > second);
        let clock_set_back = next_id(second, Timestamp(5));
        assert_eq!(clock_set_back.0, second.0 + 1);
        assert!(first.0 < 1 << 53);
    }

    #[test]
    fn an_actor_and_a_node_have_as_many_sockets_as_they_may() {
        assert_eq!(admit(SOCKETS_PER_ACTOR_MAX - 1, SOCKETS_MAX - 1), Ok(()));
        for (of_actor, of_node) in [(SOCKETS_PER_ACTOR_MAX, 0), (0, SOCKETS_MAX)] {
            let refusal = admit(of_actor, of_node).expect_err("full");
            assert_eq!((refusal.reason, refusal.ran), (Reason::TooManySockets, Ran::NotRun));
        }
    }

    #[test]
    fn what_may_wait_for_a_client_is_bounded_in_messages_and_in_bytes() {
        let mib = 1024 * 1024;
        for (messages, bytes, more, expected) in [
            (0, 0, 0, Ok(())),
            (0, 0, mib, Ok(())),
            (0, 0, mib + 1, Err(SendError::TooLarge)),
            (255, 0, 1, Ok(())),
            (256, 0, 0, Err(SendError::Backpressure)),
            (3, 3 * mib, mib, Ok(())),
            (4, 3 * mib + 1, mib, Err(SendError::Backpressure)),
            (4, 4 * mib, 0, Ok(())),
            (4, 4 * mib, mib + 1, Err(SendError::TooLarge)),
        ] {
            let waiting = Waiting { messages, bytes };
            assert_eq!(may_queue(waiting, more), expected, "{waiting:?} and {more}");
        }
    }

    #[test]
    fn a_guest_closes_only_with_what_a_peer_may_send() {
        for code in [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 4000, 4999] {
            assert_eq!(check_close(code, ""), Ok(()), "{code}");
        }
        for code in [
            0,
            999,
            1004,
            1005,
            1006,
            1012,
            1013,
            1014,
            1015,
            1016,
            1999,
            2000,
            2999,
            5000,
            u16::MAX,
        ] {
            assert_eq!(check_close(code, ""), Err(CloseError::InvalidCode), "{code}");
        }
        assert_eq!(check_close(1000, &"x".repeat(123)), Ok(()));
        assert_eq!(check_close(1000, &"x".repeat(124)), Err(CloseError::ReasonTooLong));
        assert_eq!(check_close(1000, &"é".repeat(62)), Err(CloseError::ReasonTooLong));
    }

    #[test]
    fn a_reason_is_cut_between_characters() {
        assert_eq!(shortened("short"), "short");
        assert_eq!(shortened(&"x".repeat(200)).len(), 123);
        assert_eq!(shortened(&"é".repeat(100)).len(), 122);
        assert_eq!(shortened(&"€".repeat(100)).len(), 123);
    }

    #[test]
    fn a_silent_client_is_pinged_and_then_lost() {
        let secs = Duration::from_secs;
        for (silent, pinged, expected) in [
            (0, None, Silence::Fine),
            (24, None, Silence::Fine),
            (25, None, Silence::Ping),
            (26, Some(1), Silence::Fine),
            (54, Some(29), Silence::Fine),
            (55, Some(30), Silence::Lost),
        ] {
            assert_eq!(silence(secs(silent), pinged.map(secs)), expected, "{silent} {pinged:?}");
        }
    }

    #[test]
    fn what_a_refused_message_does_to_its_socket() {
        let not_run = Refusal::not_run;
        let code = |after| match after {
            AfterMessage::Next => 0,
            AfterMessage::Again(_) => 1,
            AfterMessage::Close(closing) => closing.code,
        };
        for (refusal, patient, expected) in [
            (Refusal::ran(Reason::Trapped), true, 0),
            (Refusal::ran(Reason::HandlerFailed), true, 0),
            (Refusal::ran(Reason::HostFault), true, 0),
            (Refusal::ran(Reason::InitFailed), true, 0),
            (not_run(Reason::NoCapacity), true, 1),
            (not_run(Reason::NoCapacity), false, 1013),
            (not_run(Reason::QueueFull), true, 1),
            (not_run(Reason::QueueFull), false, 1013),
            (not_run(Reason::Unavailable), true, 1),
            (not_run(Reason::Quarantined), false, 1013),
            (not_run(Reason::Stopping), true, 1012),
            (not_run(Reason::NoSuchActor), true, 1008),
            (not_run(Reason::DatabaseUnusable), true, 1011),
            (not_run(Reason::NotInstantiated), true, 1011),
        ] {
            assert_eq!(code(after_message(&refusal, patient, 0)), expected, "{refusal}");
        }
    }

    #[test]
    fn a_close_event_is_offered_again_only_where_that_can_help() {
        let first = SOCKET_CLOSE_RETRY_FIRST;
        let busy = Refusal::not_run(Reason::NoCapacity);
        assert_eq!(close_retry(&busy, 0), Some(first));
        assert_eq!(close_retry(&busy, 2), Some(first * 4));
        assert_eq!(close_retry(&busy, 40), Some(SOCKET_CLOSE_RETRY_LONGEST));
        assert_eq!(close_retry(&Refusal::ran(Reason::Trapped), 0), None);
        assert_eq!(close_retry(&Refusal::not_run(Reason::NoSuchActor), 0), None);
        assert_eq!(close_retry(&Refusal::not_run(Reason::Stopping), 0), None);
    }
}
