//! `wasmkeep actor sql`.

use std::io::{self, BufWriter, Read, Write};

use anyhow::{Context, Result};
use wasmkeep_supervisors::limits::STATEMENT_BYTES_MAX;

use super::NodeArgs;
use super::node::{ActorArg, unexpected};
use super::table::{self, Format};
use crate::admin::{Command, Line, SqlCell, SqlRequest};

#[derive(Debug, clap::Args)]
#[command(after_help = PARAMETERS)]
pub struct Args {
    /// The actor, its name as it is
    #[arg(value_name = "CLASS/NAME")]
    actor: ActorArg,
    /// One statement that changes nothing; - reads it from standard input
    #[arg(value_name = "SQL")]
    sql: String,
    /// Values for its parameters
    #[arg(value_name = "VALUE", allow_negative_numbers = true)]
    params: Vec<String>,
    #[command(flatten)]
    node: NodeArgs,
    /// How rows are written
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
    /// At most so many rows
    #[arg(long, value_name = "N", default_value = "1000")]
    limit: usize,
}

const PARAMETERS: &str = "\
A value that reads as a number is one; NULL is null; x'00ff' is a blob; anything else, and
whatever stands behind text:, is text.";

pub async fn run(args: Args) -> Result<()> {
    let sql = if args.sql == "-" { from_stdin()? } else { args.sql };
    let request = SqlRequest {
        actor: args.node.actor(&args.actor),
        sql,
        params: args.params.iter().map(|param| value(param)).collect(),
        rows_max: args.limit,
    };
    let mut answer = args.node.ask(Command::Sql(request)).await?;
    let (mut columns, mut rows) = (Vec::new(), Vec::new());
    let cut = loop {
        match answer.line().await? {
            Line::Columns { columns: named } => columns = named,
            Line::Row { row } => rows.push(row),
            Line::End { cut } => break cut,
            line => return Err(unexpected(&line)),
        }
    };
    let shown = rows.len();
    let mut out = BufWriter::new(io::stdout().lock());
    table::write(&mut out, args.format, &columns, rows)?;
    out.flush()?;
    if cut {
        eprintln!(
            "these are the first {shown} rows: there are more (--limit, and 16 MiB, are the most)"
        );
    }
    Ok(())
}

fn from_stdin() -> Result<String> {
    let mut sql = String::new();
    // One byte more is refused by the other end, with the limit's name.
    let most = STATEMENT_BYTES_MAX as u64 + 1;
    io::stdin().lock().take(most).read_to_string(&mut sql).context("read standard input")?;
    Ok(sql)
}

fn value(text: &str) -> SqlCell {
    if let Some(text) = text.strip_prefix("text:") {
        return SqlCell::Text(text.to_owned());
    }
    if text.eq_ignore_ascii_case("null") {
        return SqlCell::Null;
    }
    let blob = text.strip_prefix(['x', 'X']).and_then(|rest| rest.strip_prefix('\''));
    if let Some(blob) = blob.and_then(|rest| rest.strip_suffix('\'')) {
        return SqlCell::Blob { blob: blob.to_owned() };
    }
    if let Ok(number) = text.parse() {
        return SqlCell::Integer(number);
    }
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    match text.parse::<f64>() {
        Ok(number) if is_number && number.is_finite() => SqlCell::Real(number),
        _ => SqlCell::Text(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read() {
        let text = |text: &str| SqlCell::Text(text.to_owned());
        for (given, expected) in [
            ("1", SqlCell::Integer(1)),
            ("-5", SqlCell::Integer(-5)),
            ("1.5e3", SqlCell::Real(1500.0)),
            ("9223372036854775808", SqlCell::Real(9_223_372_036_854_775_808.0)),
            ("NULL", SqlCell::Null),
            ("x'00fF'", SqlCell::Blob { blob: "00fF".into() }),
            ("text:1", text("1")),
            ("text:NULL", text("NULL")),
            ("", text("")),
            ("inf", text("inf")),
            ("nan", text("nan")),
            ("1e999", text("1e999")),
            ("x'", text("x'")),
            ("room 1", text("room 1")),
        ] {
            assert_eq!(value(given), expected, "{given:?}");
        }
    }
}
