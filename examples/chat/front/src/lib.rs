//! The chat's front: its page, and the way into the rooms. It keeps nothing; what lasts is with the
//! actors of class `room`.

use wasmkeep_sdk::{Error, Method, Request, Response, Result, actors, front};

const ROOM_CHARS_MAX: usize = 40;

fn handle(request: Request) -> Result<Response> {
    match request.route() {
        (Method::Get, []) => Ok(Response::redirect("/rooms/lobby")),
        (Method::Get, ["chat.css"]) => Ok(file("text/css; charset=utf-8", CSS)),
        (Method::Get, ["chat.js"]) => Ok(file("text/javascript; charset=utf-8", JS)),
        (Method::Get, ["rooms", room]) => {
            checked_room(room)?;
            Ok(file("text/html; charset=utf-8", PAGE).header("content-security-policy", POLICY))
        }
        (Method::Get, ["rooms", room, "socket"]) => {
            checked_room(room)?;
            let query = request.path_and_query().split_once('?').map_or("", |(_, query)| query);
            Ok(front::hand_off("room", room, &format!("/?{query}")))
        }
        (Method::Get, ["rooms", room, "messages"]) => {
            checked_room(room)?;
            match actors::call(format!("room/{room}")).get("/messages").send() {
                Ok(answer) => Ok(Response::new(answer.status_code())
                    .header("content-type", "application/json")
                    .body(answer.into_bytes())),
                Err(error) => Ok(front::unavailable(&error)),
            }
        }
        _ => Ok(Response::not_found()),
    }
}

const PAGE: &str = include_str!("../page/index.html");
const CSS: &str = include_str!("../page/chat.css");
const JS: &str = include_str!("../page/chat.js");
/// Nothing but what this server gives: a message that smuggles a script in does nothing.
const POLICY: &str =
    "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; img-src 'self' data:";

fn file(content_type: &str, text: &str) -> Response {
    Response::text(text)
        .header("content-type", content_type)
        .header("cache-control", "no-cache")
        .header("x-content-type-options", "nosniff")
}

/// Each new name is a new actor with a database of its own, so a front takes only what it means to.
fn checked_room(name: &str) -> Result<()> {
    let fits = |c: char| c.is_alphanumeric() || c == '-';
    if (1..=ROOM_CHARS_MAX).contains(&name.chars().count()) && name.chars().all(fits) {
        return Ok(());
    }
    Err(Error::not_found(format!(
        "a room's name has 1 to {ROOM_CHARS_MAX} letters, digits and dashes"
    )))
}

wasmkeep_sdk::front!(handle);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_has_a_plain_name() {
        for fits in ["lobby", "tea-2", "Küche", "日本", &"x".repeat(40)] {
            assert!(checked_room(fits).is_ok(), "{fits}");
        }
        for wrong in ["", "a b", "a/b", "..", "<b>", &"x".repeat(41)] {
            assert!(checked_room(wrong).is_err(), "{wrong}");
        }
    }
}
