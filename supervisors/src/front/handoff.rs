//! How the front hands a WebSocket over: three headers of its answer name the actor that shall have
//! it. Pure.

use bytes::Bytes;

use crate::address::{ActorName, Address, Class};
use crate::event::{Header, OpenRequest, Reason, Refusal, Reply};
use crate::headers;

/// Where a WebSocket shall be opened, in the front's words.
#[derive(Debug, PartialEq, Eq)]
pub struct HandOff {
    class: Class,
    name: ActorName,
    path: String,
}

/// The front's answer to a client that asks for a WebSocket.
#[derive(Debug)]
pub enum Offer {
    /// An actor of the front's tenant is to be asked.
    HandOff(HandOff),
    /// The client gets this, and no socket.
    Answer(Reply),
}

impl HandOff {
    /// The actor, and what it is asked: the front's path, and what the client sent beside it.
    pub fn of_client(
        self,
        front: &Address,
        mut client_headers: Vec<Header>,
    ) -> (Address, OpenRequest) {
        let caller = Bytes::from(front.to_string());
        client_headers.push((Bytes::from_static(headers::CALLER.as_bytes()), caller));
        let tenant = front.tenant.clone();
        let address = Address { tenant, class: self.class, name: self.name };
        (address, OpenRequest { path: self.path, headers: client_headers })
    }
}

/// What tells the front that its client asks for a WebSocket.
pub fn mark() -> Header {
    let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
    (bytes(headers::UPGRADE), bytes(headers::UPGRADE_WEBSOCKET))
}

/// Reads an answer to a marked request. Without any of the three headers it is an ordinary one.
pub fn read(reply: Reply) -> Result<Offer, Refusal> {
    let header = |name: &str| {
        let mut named =
            reply.headers.iter().filter(|(have, _)| have.eq_ignore_ascii_case(name.as_bytes()));
        named.next().map(|(_, value)| value.clone())
    };
    let class = header(headers::HANDOFF_CLASS);
    let name = header(headers::HANDOFF_NAME);
    let path = header(headers::HANDOFF_PATH);
    if class.is_none() && name.is_none() && path.is_none() {
        return Ok(Offer::Answer(reply));
    }
    let class = text(class, headers::HANDOFF_CLASS)?;
    let name = text(name, headers::HANDOFF_NAME)?;
    let path = text(path, headers::HANDOFF_PATH)?;
    let class = Class::parse(&class)
        .map_err(|error| Refusal::not_run(Reason::NotFound).with_detail(error.to_string()))?;
    let name = ActorName::from_url_segment(&name)
        .map_err(|error| Refusal::not_run(Reason::BadRequest).with_detail(error.to_string()))?;
    if !path.starts_with('/') {
        return Err(unfit(headers::HANDOFF_PATH, "does not start with \"/\""));
    }
    Ok(Offer::HandOff(HandOff { class, name, path }))
}

/// A header that a hand-off must have: visible ASCII, as in a request's first line.
fn text(value: Option<Bytes>, name: &str) -> Result<String, Refusal> {
    let value = value.ok_or_else(|| unfit(name, "is missing"))?;
    if !value.iter().all(u8::is_ascii_graphic) {
        return Err(unfit(name, "holds what is not visible ASCII: percent-encode it"));
    }
    Ok(String::from_utf8(value.into()).expect("ASCII is UTF-8"))
}

fn unfit(header: &str, why: &str) -> Refusal {
    Refusal::ran(Reason::NoResponse)
        .with_detail(format!("the front hands a WebSocket over, and {header} {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Tenant;
    use crate::event::{Body, Ran};

    const CLASS: &str = "x-wasmkeep-handoff-class";
    const NAME: &str = "X-Wasmkeep-Handoff-Name";
    const PATH: &str = "x-wasmkeep-handoff-path";

    fn answered(headers: &[(&str, &str)]) -> Result<Offer, Refusal> {
        let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        let headers = headers.iter().map(|(name, value)| (bytes(name), bytes(value))).collect();
        read(Reply { status: 200, headers, body: Body::Empty })
    }

    #[test]
    fn three_headers_name_the_actor_and_its_path() {
        let offer = answered(&[(CLASS, "room"), (NAME, "caf%C3%A9%20x"), (PATH, "/ws?user=ann")]);
        let Ok(Offer::HandOff(handoff)) = offer else { panic!("{offer:?}") };
        let front = Address::of_the_front(Tenant::default_tenant());
        let cookie = (Bytes::from_static(b"cookie"), Bytes::from_static(b"a=1"));
        let (address, request) = handoff.of_client(&front, vec![cookie.clone()]);
        assert_eq!(address.to_string(), "default/room/caf%C3%A9%20x");
        assert_eq!(request.path, "/ws?user=ann");
        let caller = Bytes::from_static(b"default/_front/main");
        assert_eq!(request.headers, [cookie, (Bytes::from_static(b"x-wasmkeep-caller"), caller)]);
    }

    #[test]
    fn an_answer_without_them_is_the_clients() {
        let offer = answered(&[("location", "/login"), ("x-wasmkeep-handoff", "room")]);
        assert!(matches!(offer, Ok(Offer::Answer(Reply { status: 200, .. }))), "{offer:?}");
    }

    #[test]
    fn who_wrote_what_is_wrong_decides_the_status() {
        type Row<'a> = (&'a [(&'a str, &'a str)], u16, Ran, &'a str);
        let rows: [Row; 9] = [
            (&[(CLASS, "Room"), (NAME, "a"), (PATH, "/")], 404, Ran::NotRun, "class \"Room\""),
            (&[(CLASS, "_front"), (NAME, "main"), (PATH, "/")], 404, Ran::NotRun, "_front"),
            (&[(CLASS, "room"), (NAME, ""), (PATH, "/")], 400, Ran::NotRun, "name is empty"),
            (&[(CLASS, "room"), (NAME, "a%2Fb"), (PATH, "/")], 400, Ran::NotRun, "\"/\""),
            (&[(CLASS, "room"), (NAME, "a%zz"), (PATH, "/")], 400, Ran::NotRun, "hexadecimal"),
            (&[(NAME, "a"), (PATH, "/")], 500, Ran::Ran, "handoff-class is missing"),
            (&[(CLASS, "room"), (NAME, "a")], 500, Ran::Ran, "handoff-path is missing"),
            (&[(CLASS, "room"), (NAME, "a"), (PATH, "x")], 500, Ran::Ran, "start with"),
            (&[(CLASS, "room"), (NAME, "a b"), (PATH, "/")], 500, Ran::Ran, "percent-encode"),
        ];
        for (headers, status, ran, says) in rows {
            let refusal = answered(headers).expect_err("it is refused");
            assert_eq!((refusal.reason.status(), refusal.ran), (status, ran), "{headers:?}");
            assert!(refusal.to_string().contains(says), "{refusal} says {says}");
        }
    }
}
