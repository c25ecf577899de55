//! Somebody's to-do list. Class `list`, served as `internal`: who asks has signed in at the front.
//! Pages that show it hold a WebSocket, and are told when it has changed.

use serde::{Deserialize, Serialize};
use wasmkeep_sdk::websockets::{self, Message, OpenRequest, Socket};
use wasmkeep_sdk::{Actor, Error, Method, Request, Response, Result, storage};

const TEXT_CHARS_MAX: usize = 200;
const ITEMS_MAX: i64 = 1000;

#[derive(Default)]
struct List;

#[derive(Deserialize, Serialize)]
struct Item {
    id: i64,
    text: String,
    done: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Draft {
    text: String,
}

impl Actor for List {
    fn init(&mut self) -> Result<()> {
        storage::exec(
            "CREATE TABLE IF NOT EXISTS items (
                id INTEGER PRIMARY KEY AUTOINCREMENT,
                text TEXT NOT NULL,
                done INTEGER NOT NULL DEFAULT 0
            ) STRICT",
            (),
        )?;
        Ok(())
    }

    fn request(&mut self, mut request: Request) -> Result<Response> {
        match request.route() {
            (Method::Get, ["items"]) => {
                let items: Vec<Item> =
                    storage::query_as("SELECT id, text, done FROM items ORDER BY done, id", ())?;
                Ok(Response::json(&items))
            }
            (Method::Post, ["items"]) => {
                add(&request.json::<Draft>()?.text)?;
                changed()
            }
            (Method::Post, ["items", id, "toggle"]) => {
                storage::exec_durable("UPDATE items SET done = 1 - done WHERE id = ?", (*id,))?;
                changed()
            }
            (Method::Delete, ["items", id]) => {
                storage::exec_durable("DELETE FROM items WHERE id = ?", (*id,))?;
                changed()
            }
            _ => Ok(Response::not_found()),
        }
    }

    /// Whoever the front hands over has signed in.
    fn socket_open(&mut self, _: Socket, _: OpenRequest) -> Result<()> {
        Ok(())
    }
}

fn add(text: &str) -> Result<()> {
    let text = text.trim();
    if !(1..=TEXT_CHARS_MAX).contains(&text.chars().count()) {
        return Err(Error::status(422, format!("1 to {TEXT_CHARS_MAX} characters, please")));
    }
    let added = storage::exec_durable(
        "INSERT INTO items (text) SELECT ? WHERE (SELECT count(*) FROM items) < ?",
        (text, ITEMS_MAX),
    )?;
    match added {
        0 => Err(Error::status(422, format!("a list has at most {ITEMS_MAX} items"))),
        _ => Ok(()),
    }
}

fn changed() -> Result<Response> {
    websockets::broadcast(&Message::Text("changed".to_owned()));
    Ok(Response::empty())
}

wasmkeep_sdk::actor!(List);
