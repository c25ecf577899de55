//! Rows of SQL as a table, as JSON lines and as CSV.

use std::collections::HashSet;
use std::io::{self, Write};

use serde_json::{Map, Value as Json};

use crate::admin::SqlCell;
use crate::cli::text;

/// A longer value is cut in a table.
const CELL_CHARACTERS_MAX: usize = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Aligned columns, long values cut
    Table,
    /// One object a line; blobs as {"blob": "00ff"}
    Json,
    /// RFC 4180 with a head; NULL is empty, blobs are x'00ff'
    Csv,
}

pub fn write(
    out: &mut impl Write,
    format: Format,
    columns: &[String],
    rows: Vec<Vec<SqlCell>>,
) -> io::Result<()> {
    match format {
        Format::Table => write_table(out, columns, &rows),
        Format::Json => write_json(out, columns, rows),
        Format::Csv => write_csv(out, columns, &rows),
    }
}

fn write_table(out: &mut impl Write, columns: &[String], rows: &[Vec<SqlCell>]) -> io::Result<()> {
    if columns.is_empty() {
        return Ok(());
    }
    let head: Vec<String> = columns.iter().map(|column| cut(&text::printable(column))).collect();
    let cells: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| cut(&shown(cell))).collect()).collect();
    let width = |at: usize| {
        let of_rows = cells.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
        of_rows.chain([head[at].chars().count()]).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    let line = |out: &mut dyn Write, cells: &[String]| {
        let padded = cells.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
        writeln!(out, "{}", padded.collect::<Vec<_>>().join("  ").trim_end())
    };
    line(out, &head)?;
    line(out, &rule)?;
    cells.iter().try_for_each(|row| line(out, row))
}

fn shown(cell: &SqlCell) -> String {
    match cell {
        SqlCell::Null => "NULL".into(),
        SqlCell::Integer(number) => number.to_string(),
        SqlCell::Real(number) => format!("{number:?}"),
        SqlCell::Text(text) => text::printable(text),
        SqlCell::Blob { blob } => format!("x'{blob}'"),
        SqlCell::NoNumber { real } => real.clone(),
    }
}

fn cut(text: &str) -> String {
    if text.chars().count() <= CELL_CHARACTERS_MAX {
        return text.to_owned();
    }
    text.chars().take(CELL_CHARACTERS_MAX - 1).chain(['…']).collect()
}

fn write_json(out: &mut impl Write, columns: &[String], rows: Vec<Vec<SqlCell>>) -> io::Result<()> {
    let names = distinct(columns);
    for row in rows {
        let values = row.into_iter().map(|cell| serde_json::to_value(cell).unwrap_or(Json::Null));
        let object: Map<String, Json> = names.iter().cloned().zip(values).collect();
        writeln!(out, "{}", text::printable_json(&object)?)?;
    }
    Ok(())
}

/// A name that stands twice gets a number: an object holds each once.
fn distinct(columns: &[String]) -> Vec<String> {
    let mut taken = HashSet::new();
    let free = |column: &String| {
        let numbered = (2..).map(|number| format!("{column}:{number}"));
        let mut names = [column.clone()].into_iter().chain(numbered);
        names.find(|name| taken.insert(name.clone())).unwrap_or_default()
    };
    columns.iter().map(free).collect()
}

fn write_csv(out: &mut impl Write, columns: &[String], rows: &[Vec<SqlCell>]) -> io::Result<()> {
    let mut line = |cells: &mut dyn Iterator<Item = String>| {
        write!(out, "{}\r\n", cells.collect::<Vec<_>>().join(","))
    };
    line(&mut columns.iter().map(|column| quoted(column)))?;
    rows.iter().try_for_each(|row| {
        line(&mut row.iter().map(|cell| match cell {
            SqlCell::Null => String::new(),
            // As it is: the file is for programs.
            SqlCell::Text(text) => quoted(text),
            cell => shown(cell),
        }))
    })
}

fn quoted(text: &str) -> String {
    if text.is_empty() || text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(format: Format) -> String {
        let columns = ["id", "t", "t"].map(str::to_owned);
        let rows = vec![
            vec![SqlCell::Integer(1), SqlCell::Text("a\u{1b}\"b,".into()), SqlCell::Null],
            vec![
                SqlCell::Real(2.0),
                SqlCell::Blob { blob: "00ff".into() },
                SqlCell::Text(String::new()),
            ],
        ];
        let mut out = Vec::new();
        write(&mut out, format, &columns, rows).expect("it is written");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn rows_in_each_form() {
        let table = "id   t           t\n---  ----------  ----\n\
                     1    a\\u{1b}\"b,  NULL\n2.0  x'00ff'\n";
        assert_eq!(written(Format::Table), table);
        let json = "{\"id\":1,\"t\":\"a\\u001b\\\"b,\",\"t:2\":null}\n\
                    {\"id\":2.0,\"t\":{\"blob\":\"00ff\"},\"t:2\":\"\"}\n";
        assert_eq!(written(Format::Json), json);
        let csv = "id,t,t\r\n1,\"a\u{1b}\"\"b,\",\r\n2.0,x'00ff',\"\"\r\n";
        assert_eq!(written(Format::Csv), csv);
    }

    #[test]
    fn a_long_value_is_cut_in_a_table() {
        assert_eq!(cut(&"é".repeat(60)), "é".repeat(60));
        assert_eq!(cut(&"é".repeat(61)), "é".repeat(59) + "…");
    }
}
