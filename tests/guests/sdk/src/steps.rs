//! Steps of a schema, by names that a test puts in an order: one code has `create,words`, the next
//! `create,words,fill`.

use wasmkeep_sdk::storage::{self, Migration};
use wasmkeep_sdk::{Error, Request, Response, Result, json};

pub fn migrate(request: &Request) -> Result<Response> {
    let names = crate::parameter(request, "steps")?.split(',').filter(|name| !name.is_empty());
    let steps: Vec<Migration> = names.map(step).collect::<Result<_>>()?;
    Ok(match storage::migrate(steps) {
        Ok(()) => Response::json(&json!({})),
        Err(error) => Response::json(&json!({ "failed": error.to_string() })),
    })
}

fn step(name: &str) -> Result<Migration> {
    Ok(match name {
        "create" => Migration::statements([
            "CREATE TABLE items (title TEXT NOT NULL)",
            "INSERT INTO items VALUES ('two words')",
        ]),
        "words" => "ALTER TABLE items ADD COLUMN words INTEGER".into(),
        "fill" => Migration::function("fill", fill),
        "rename" => Migration::sql("ALTER TABLE items RENAME COLUMN title TO name").breaking(),
        "price" => "ALTER TABLE items ADD COLUMN price REAL".into(),
        "half" => {
            Migration::statements(["CREATE TABLE half (a)", "INSERT INTO nowhere VALUES (1)"])
        }
        "trap" => Migration::function("trap", || {
            storage::exec("CREATE TABLE trapped (a)", ())?;
            crate::trap()
        }),
        other => return Err(Error::bad_request(format!("no step {other:?}"))),
    })
}

fn fill() -> Result<()> {
    let titles: Vec<(i64, String)> = storage::query_as("SELECT rowid, title FROM items", ())?;
    for (row, title) in titles {
        let words = title.split_whitespace().count() as u32;
        storage::exec("UPDATE items SET words = ? WHERE rowid = ?", (words, row))?;
    }
    Ok(())
}
