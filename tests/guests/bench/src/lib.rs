//! What the load program asks of an actor. `benches/peers/workerd/worker.js` is the same for
//! workerd: a change here is a change there.

use std::time::{Duration, SystemTime};

use wasmkeep_sdk::websockets::{self, Message, OpenRequest, Socket};
use wasmkeep_sdk::{Actor, Method, Request, Response, Result, actors, alarms, storage};

/// Rows of the table that `read` and the writes use; the load goes round them.
const ROWS: u64 = 100;

#[derive(Default)]
struct Bench {
    has_table: bool,
    next_row: u64,
}

impl Actor for Bench {
    fn request(&mut self, request: Request) -> Result<Response> {
        match request.route() {
            (Method::Get, ["hello"]) => Ok(Response::text("hello")),
            (Method::Get, ["read"]) => self.read(),
            (Method::Post, ["write"]) => self.write(storage::exec),
            (Method::Post, ["durable"]) => self.write(storage::exec_durable),
            (Method::Post, ["fill"]) => self.fill(request.parse_query("rows")?.unwrap_or(0)),
            (Method::Post, ["call", other]) => call(other),
            (Method::Post, ["alarm"]) => self.set_alarm(request.parse_query("at")?.unwrap_or(0)),
            (Method::Get, ["late"]) => late(),
            _ => Ok(Response::not_found()),
        }
    }

    fn alarm(&mut self) -> Result<()> {
        self.make_table()?;
        storage::exec("INSERT OR REPLACE INTO t VALUES (-1, ?)", (now_ms() as i64,))?;
        Ok(())
    }

    fn socket_open(&mut self, _: Socket, _: OpenRequest) -> Result<()> {
        Ok(())
    }

    /// `e…` comes back; anything else goes to everybody.
    fn socket_message(&mut self, socket: Socket, message: Message) -> Result<()> {
        match &message {
            Message::Text(text) if text.starts_with('e') => socket.send(&message)?,
            _ => {
                websockets::broadcast(&message);
            }
        }
        Ok(())
    }
}

type Exec = fn(&str, (i64, i64)) -> std::result::Result<u64, storage::SqlError>;

impl Bench {
    fn make_table(&mut self) -> Result<()> {
        if !self.has_table {
            storage::exec(
                "CREATE TABLE IF NOT EXISTS t (k INTEGER PRIMARY KEY, v INTEGER NOT NULL)",
                (),
            )?;
            self.has_table = true;
        }
        Ok(())
    }

    fn row(&mut self) -> i64 {
        self.next_row = (self.next_row + 1) % ROWS;
        self.next_row as i64
    }

    fn read(&mut self) -> Result<Response> {
        self.make_table()?;
        let row = self.row();
        let value = storage::query_optional::<i64>("SELECT v FROM t WHERE k = ?", (row,))?;
        Ok(Response::text(value.unwrap_or(0).to_string()))
    }

    /// A small write, and a read of what it wrote.
    fn write(&mut self, exec: Exec) -> Result<Response> {
        self.make_table()?;
        let row = self.row();
        exec("INSERT INTO t VALUES (?, ?) ON CONFLICT (k) DO UPDATE SET v = v + 1", (row, 1))?;
        let value: i64 = storage::query_one("SELECT v FROM t WHERE k = ?", (row,))?;
        Ok(Response::text(value.to_string()))
    }

    /// Adds rows of about a kilobyte, for a database of a given size.
    fn fill(&mut self, rows: i64) -> Result<Response> {
        storage::exec("CREATE TABLE IF NOT EXISTS filling (k INTEGER PRIMARY KEY, v BLOB)", ())?;
        storage::exec(
            "INSERT INTO filling (v)
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT ?)
             SELECT zeroblob(1000) FROM n",
            (rows,),
        )?;
        Ok(Response::text(""))
    }

    fn set_alarm(&mut self, at_ms: u64) -> Result<Response> {
        self.make_table()?;
        storage::exec("INSERT OR REPLACE INTO t VALUES (-2, ?)", (at_ms as i64,))?;
        alarms::set_at_ms(at_ms)?;
        Ok(Response::text(""))
    }
}

/// How many milliseconds after its time the last alarm ran; nothing while it has not.
fn late() -> Result<Response> {
    let late = storage::query_optional::<i64>(
        "SELECT ran.v - due.v FROM t AS ran JOIN t AS due ON ran.k = -1 AND due.k = -2",
        (),
    )?;
    Ok(Response::text(late.map(|late| late.to_string()).unwrap_or_default()))
}

fn call(other: &str) -> Result<Response> {
    let class = actors::self_address().class;
    let answer = actors::call(format!("{class}/{other}")).get("/hello").send()?.ok()?;
    Ok(Response::text(answer.text()?))
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or(Duration::ZERO).as_millis() as u64
}

wasmkeep_sdk::actor!(Bench);
