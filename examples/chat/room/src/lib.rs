//! A chat room. Its messages lie in its database; who is there is kept with the sockets themselves,
//! so the room can sleep while everybody stays connected.

use serde::{Deserialize, Serialize};
use wasmkeep_sdk::websockets::{self, Message, OpenRequest, Socket};
use wasmkeep_sdk::{Actor, Error, Method, Request, Response, Result, storage};

const NAME_CHARS_MAX: usize = 30;
const TEXT_CHARS_MAX: usize = 2000;
/// What somebody who comes in sees of the past, at most.
const SHOWN_MAX: u32 = 100;
/// What a room keeps.
const KEPT_MAX: i64 = 10_000;

#[derive(Default)]
struct Room;

#[derive(Deserialize, Serialize)]
struct Said {
    id: i64,
    /// Milliseconds since 1970.
    at: i64,
    who: String,
    text: String,
}

/// What the room tells its people.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum News<'a> {
    Welcome {
        people: Vec<String>,
        messages: Vec<Said>,
    },
    Joined {
        who: &'a str,
        people: Vec<String>,
    },
    Left {
        who: &'a str,
        people: Vec<String>,
    },
    Message(Said),
    /// For one person: what they sent was not taken.
    Refused {
        why: String,
    },
}

/// What they send.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Say {
    text: String,
}

impl Actor for Room {
    fn init(&mut self) -> Result<()> {
        storage::exec(
            "CREATE TABLE IF NOT EXISTS messages (
                id INTEGER PRIMARY KEY AUTOINCREMENT,
                at INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER)),
                who TEXT NOT NULL,
                text TEXT NOT NULL
            ) STRICT",
            (),
        )?;
        Ok(())
    }

    fn request(&mut self, request: Request) -> Result<Response> {
        match request.route() {
            (Method::Get, ["messages"]) => {
                let after = request.parse_query("after")?.unwrap_or(0);
                Ok(Response::json(&since(after)?))
            }
            (Method::Get, ["people"]) => Ok(Response::json(&people())),
            _ => Ok(Response::not_found()),
        }
    }

    /// `?name=` says who comes, `?after=` the last message they have seen.
    fn socket_open(&mut self, socket: Socket, request: OpenRequest) -> Result<()> {
        let name = checked_name(&request.query("name").unwrap_or_default())?;
        let after = request.query("after").and_then(|after| after.parse().ok()).unwrap_or(0);
        socket.set_attachment(name.as_bytes())?;
        let mut everybody = people();
        everybody.push(name.clone());
        everybody.sort();
        tell_all(&News::Joined { who: &name, people: everybody.clone() })?;
        let welcome = News::Welcome { people: everybody, messages: since(after)? };
        socket.send(&Message::json(&welcome)?)?;
        Ok(())
    }

    fn socket_message(&mut self, socket: Socket, message: Message) -> Result<()> {
        match message.parse_json::<Say>().and_then(Say::checked) {
            Ok(text) => tell_all(&News::Message(keep(&name_of(socket), &text)?)),
            Err(error) => {
                let why = error.message().to_owned();
                socket.send(&Message::json(&News::Refused { why })?)?;
                Ok(())
            }
        }
    }

    fn socket_close(&mut self, socket: Socket, _code: u16, _reason: String) -> Result<()> {
        tell_all(&News::Left { who: &name_of(socket), people: people() })
    }
}

fn keep(who: &str, text: &str) -> Result<Said> {
    storage::transaction(|| {
        let said: Said = storage::query_one(
            "INSERT INTO messages (who, text) VALUES (?, ?) RETURNING id, at, who, text",
            (who, text),
        )?;
        storage::exec("DELETE FROM messages WHERE id <= ?", (said.id - KEPT_MAX,))?;
        Ok(said)
    })
}

/// The latest messages after one, the oldest first.
fn since(after: i64) -> Result<Vec<Said>> {
    let messages = storage::query_as(
        "SELECT id, at, who, text FROM (
            SELECT * FROM messages WHERE id > ? ORDER BY id DESC LIMIT ?
         ) ORDER BY id",
        (after, SHOWN_MAX),
    )?;
    Ok(messages)
}

/// Who is there: one name for each open socket.
fn people() -> Vec<String> {
    let mut names: Vec<String> = websockets::connections().into_iter().map(name_of).collect();
    names.sort();
    names
}

fn name_of(socket: Socket) -> String {
    let attachment = socket.attachment().unwrap_or_default();
    String::from_utf8_lossy(&attachment).into_owned()
}

fn tell_all(news: &News) -> Result<()> {
    websockets::broadcast(&Message::json(news)?);
    Ok(())
}

fn checked_name(name: &str) -> Result<String> {
    let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
    match name.chars().count() {
        0 => Err(Error::bad_request("say who you are: ?name=")),
        n if n > NAME_CHARS_MAX => {
            Err(Error::bad_request(format!("a name has at most {NAME_CHARS_MAX} characters")))
        }
        _ => Ok(name),
    }
}

impl Say {
    fn checked(self) -> Result<String> {
        let text = self.text.trim();
        match text.chars().count() {
            0 => Err(Error::bad_request("there is nothing in this message")),
            n if n > TEXT_CHARS_MAX => Err(Error::bad_request(format!(
                "a message has at most {TEXT_CHARS_MAX} characters"
            ))),
            _ => Ok(text.to_owned()),
        }
    }
}

wasmkeep_sdk::actor!(Room);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_and_on_one_line() {
        assert_eq!(checked_name("  Ann \n of\tArc ").ok().as_deref(), Some("Ann of Arc"));
        assert_eq!(checked_name(&"é".repeat(30)).ok(), Some("é".repeat(30)));
        for wrong in ["", " \n ", &"x".repeat(31)] {
            assert!(checked_name(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_message_says_something_and_not_too_much() {
        let checked = |text: &str| Say { text: text.to_owned() }.checked().ok();
        assert_eq!(checked(" hello\nyou "), Some("hello\nyou".to_owned()));
        assert_eq!(checked(" \n"), None);
        assert_eq!(checked(&"x".repeat(2001)), None);
    }
}
