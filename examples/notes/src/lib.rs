//! A notebook for each name: notes over JSON, with full-text search.

use serde::{Deserialize, Serialize};
use wasmkeep_sdk::{Actor, Error, Method, Request, Response, Result, storage};

const NOTES_DEFAULT: u32 = 50;
const NOTES_MAX: u32 = 500;

/// `init` runs these after every deploy, so each must bear being run again.
const SCHEMA: [&str; 5] = [
    "CREATE TABLE IF NOT EXISTS notes (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        title TEXT NOT NULL CHECK (length(title) BETWEEN 1 AND 200),
        text TEXT NOT NULL DEFAULT '',
        changed TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
    ) STRICT",
    // The index holds no copy of the notes: the triggers keep it in step with the table.
    "CREATE VIRTUAL TABLE IF NOT EXISTS notes_index
     USING fts5 (title, text, content = 'notes', content_rowid = 'id')",
    "CREATE TRIGGER IF NOT EXISTS notes_created AFTER INSERT ON notes BEGIN
        INSERT INTO notes_index (rowid, title, text) VALUES (new.id, new.title, new.text);
    END",
    "CREATE TRIGGER IF NOT EXISTS notes_deleted AFTER DELETE ON notes BEGIN
        INSERT INTO notes_index (notes_index, rowid, title, text)
        VALUES ('delete', old.id, old.title, old.text);
    END",
    "CREATE TRIGGER IF NOT EXISTS notes_updated AFTER UPDATE ON notes BEGIN
        INSERT INTO notes_index (notes_index, rowid, title, text)
        VALUES ('delete', old.id, old.title, old.text);
        INSERT INTO notes_index (rowid, title, text) VALUES (new.id, new.title, new.text);
    END",
];

#[derive(Default)]
struct Notes;

#[derive(Deserialize, Serialize)]
struct Note {
    id: i64,
    title: String,
    text: String,
    changed: String,
}

/// What a client sends.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Draft {
    title: String,
    #[serde(default)]
    text: String,
}

#[derive(Deserialize, Serialize)]
struct Found {
    id: i64,
    title: String,
    /// Where the words are, between `[` and `]`.
    excerpt: String,
}

impl Actor for Notes {
    fn init(&mut self) -> Result<()> {
        storage::transaction(|| {
            for statement in SCHEMA {
                storage::exec(statement, ())?;
            }
            Ok(())
        })
    }

    fn request(&mut self, mut request: Request) -> Result<Response> {
        match request.route() {
            (Method::Get, ["notes"]) => list(&request),
            (Method::Post, ["notes"]) => create(request.json()?),
            (Method::Get, ["notes", id]) => read(parse_id(id)?),
            (Method::Put, ["notes", id]) => update(parse_id(id)?, request.json()?),
            (Method::Delete, ["notes", id]) => delete(parse_id(id)?),
            (_, ["notes"]) => Ok(not_allowed("GET, HEAD, POST")),
            (_, ["notes", _]) => Ok(not_allowed("GET, HEAD, PUT, DELETE")),
            (Method::Get, ["search"]) => search(&request),
            _ => Ok(Response::not_found()),
        }
    }
}

/// The newest first; `?before=ID` goes on where a page ended.
fn list(request: &Request) -> Result<Response> {
    let before: i64 = request.parse_query("before")?.unwrap_or(i64::MAX);
    let notes: Vec<Note> = storage::query_as(
        "SELECT id, title, text, changed FROM notes WHERE id < ? ORDER BY id DESC LIMIT ?",
        (before, limit(request)?),
    )?;
    Ok(Response::json(&notes))
}

fn create(draft: Draft) -> Result<Response> {
    let draft = draft.checked()?;
    let note: Note = storage::query_one(
        "INSERT INTO notes (title, text) VALUES (?, ?) RETURNING id, title, text, changed",
        (draft.title, draft.text),
    )?;
    // Relative to the URL that was asked: this actor's own path need not be known.
    let location = format!("notes/{}", note.id);
    Ok(Response::json(&note).status(201).header("location", location))
}

fn read(id: i64) -> Result<Response> {
    answer(
        id,
        storage::query_optional("SELECT id, title, text, changed FROM notes WHERE id = ?", (id,))?,
    )
}

fn update(id: i64, draft: Draft) -> Result<Response> {
    let draft = draft.checked()?;
    answer(
        id,
        storage::query_optional(
            "UPDATE notes SET title = ?, text = ?, changed = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
             WHERE id = ? RETURNING id, title, text, changed",
            (draft.title, draft.text, id),
        )?,
    )
}

fn delete(id: i64) -> Result<Response> {
    match storage::exec("DELETE FROM notes WHERE id = ?", (id,))? {
        0 => Err(no_note(id)),
        _ => Ok(Response::empty()),
    }
}

fn search(request: &Request) -> Result<Response> {
    let words = request.query("q").unwrap_or_default();
    let Some(expression) = match_expression(words) else {
        return Err(Error::bad_request("say what to look for: /search?q=words"));
    };
    let found: Vec<Found> = storage::query_as(
        "SELECT rowid AS id, title, snippet(notes_index, -1, '[', ']', '…', 12) AS excerpt
         FROM notes_index WHERE notes_index MATCH ? ORDER BY rank LIMIT ?",
        (expression, limit(request)?),
    )?;
    Ok(Response::json(&found))
}

impl Draft {
    /// A mistake the client can mend is told in words; the table's `CHECK` is the last resort.
    fn checked(self) -> Result<Self> {
        match self.title.chars().count() {
            0 => Err(Error::status(422, "a note needs a title")),
            201.. => Err(Error::status(422, "a title has at most 200 characters")),
            _ => Ok(self),
        }
    }
}

/// Every word has to be there, the last one may be unfinished. Each is quoted, so that what
/// somebody types is never FTS5 syntax.
fn match_expression(words: &str) -> Option<String> {
    let quoted: Vec<String> = words
        .split_whitespace()
        .filter(|word| word.contains(char::is_alphanumeric))
        .map(|word| format!("\"{}\"", word.replace('"', "\"\"")))
        .collect();
    (!quoted.is_empty()).then(|| format!("{}*", quoted.join(" ")))
}

fn answer(id: i64, note: Option<Note>) -> Result<Response> {
    match note {
        Some(note) => Ok(Response::json(&note)),
        None => Err(no_note(id)),
    }
}

fn no_note(id: i64) -> Error {
    Error::not_found(format!("there is no note {id}"))
}

fn parse_id(id: &str) -> Result<i64> {
    id.parse().map_err(|_| Error::not_found(format!("{id:?} is no note")))
}

fn limit(request: &Request) -> Result<u32> {
    let limit = request.parse_query("limit")?.unwrap_or(NOTES_DEFAULT);
    Ok(limit.min(NOTES_MAX))
}

fn not_allowed(allow: &str) -> Response {
    Response::from(Error::status(405, format!("only {allow}"))).header("allow", allow)
}

wasmkeep_sdk::actor!(Notes);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_types_is_never_search_syntax() {
        let expression = |words| match_expression(words).unwrap_or_default();
        assert_eq!(expression("milk"), "\"milk\"*");
        assert_eq!(expression(" two  words "), "\"two\" \"words\"*");
        assert_eq!(expression("a\"b OR NEAR("), "\"a\"\"b\" \"OR\" \"NEAR(\"*");
        assert_eq!(expression(" \" * ( "), "");
    }

    #[test]
    fn a_title_is_needed_and_has_a_limit() {
        let status = |title: &str| {
            let draft = Draft { title: title.to_owned(), text: String::new() };
            draft.checked().err().map(|error| error.status_code())
        };
        assert_eq!(status("é".repeat(200).as_str()), None);
        assert_eq!(status("é".repeat(201).as_str()), Some(422));
        assert_eq!(status(""), Some(422));
    }
}
