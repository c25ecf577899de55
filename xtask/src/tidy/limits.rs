//! Every limit says what it is for, and docs/limits.md is the list of them.

use super::sources::{Problem, Sources};

pub const SOURCE: &str = "supervisors/src/limits.rs";
pub const PAGE: &str = "docs/limits.md";

const INTRODUCTION: &str = "\
<!-- Written by `cargo xtask tidy --write` from supervisors/src/limits.rs. Edit that file. -->

# Limits and defaults

Everything WasmKeep bounds, and what it assumes unless told otherwise. Where a flag is named, the
value is that flag's default.

| limit | value | meaning |
| --- | --- | --- |
";

struct Limit {
    name: String,
    value: String,
    meaning: String,
    line: usize,
}

pub fn check(sources: &Sources) -> Vec<Problem> {
    let Some(source) = sources.get(SOURCE) else {
        return vec![Problem::of_file(SOURCE, "is missing: every limit is a constant there")];
    };
    let limits = parse(&source.text);
    if limits.is_empty() {
        return vec![Problem::of_file(SOURCE, "has no `pub const NAME: Type = value;`")];
    }
    let mut problems: Vec<Problem> = limits
        .iter()
        .filter(|limit| limit.meaning.is_empty())
        .map(|limit| Problem {
            path: SOURCE.to_owned(),
            line: limit.line,
            message: format!("`{}` has no doc comment: say what it bounds and why", limit.name),
        })
        .collect();
    if sources.get(PAGE).is_none_or(|written| written.text != page(&source.text)) {
        let message = "does not match limits.rs: run `cargo xtask tidy --write` and commit it";
        problems.push(Problem::of_file(PAGE, message));
    }
    problems
}

/// The page that the text of limits.rs asks for.
pub fn page(source: &str) -> String {
    let mut page = INTRODUCTION.to_owned();
    for limit in parse(source) {
        let meaning = limit.meaning.replace('|', "\\|");
        page += &format!("| `{}` | {} | {meaning} |\n", limit.name, readable(&limit.value));
    }
    page
}

/// Reads `/// doc` lines followed by `pub const NAME: Type = value;`.
fn parse(source: &str) -> Vec<Limit> {
    let mut limits = Vec::new();
    let mut meaning: Vec<&str> = Vec::new();
    let mut lines = source.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        if let Some(doc) = line.strip_prefix("///") {
            meaning.push(doc.trim());
        } else if let Some(constant) = line.strip_prefix("pub const ") {
            let mut text = constant.to_owned();
            while !text.ends_with(';') {
                let Some((_, line)) = lines.next() else { break };
                text = format!("{text} {}", line.trim());
            }
            let (declared, value) = text.split_once('=').unwrap_or((&text, ""));
            let (name, _) = declared.split_once(':').unwrap_or((declared, ""));
            limits.push(Limit {
                name: name.trim().to_owned(),
                value: value.trim().trim_end_matches(';').to_owned(),
                meaning: std::mem::take(&mut meaning).join(" "),
                line: index + 1,
            });
        } else if !line.starts_with("#[") {
            meaning.clear();
        }
    }
    limits
}

/// A value as people write it, where its form is one of the usual; else the expression itself.
fn readable(value: &str) -> String {
    let call = value.strip_prefix("Duration::from_").and_then(|call| call.strip_suffix(')'));
    let (number, unit) = if let Some((kind, argument)) = call.and_then(|call| call.split_once('('))
    {
        let unit = match kind {
            "micros" => "µs",
            "millis" => "ms",
            "secs" => "s",
            "mins" => "min",
            "hours" => "h",
            _ => return format!("`{value}`"),
        };
        (argument, unit)
    } else {
        let (number, factor) = value.split_once(" * ").unwrap_or((value, ""));
        let unit = match if number.ends_with("IB") { number } else { factor } {
            "KIB" => "KiB",
            "MIB" => "MiB",
            "GIB" => "GiB",
            "" => "",
            _ => return format!("`{value}`"),
        };
        (if number.ends_with("IB") { "1" } else { number }, unit)
    };
    match grouped(number) {
        Some(number) => format!("{number} {unit}").trim_end().to_owned(),
        None => format!("`{value}`"),
    }
}

/// `1_000` and `1000` as `1,000`.
fn grouped(number: &str) -> Option<String> {
    let number: u64 = number.replace('_', "").parse().ok()?;
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "/// How many.\n/// Really.\npub const A_MAX: u32 = 1024;\n";

    fn messages(source: &str, page: &str) -> Vec<String> {
        let sources = Sources::of(&[(SOURCE, source), (PAGE, page)]);
        check(&sources).iter().map(Problem::to_string).collect()
    }

    #[test]
    fn the_page_follows_the_constants() {
        assert!(page(GOOD).ends_with("| `A_MAX` | 1,024 | How many. Really. |\n"));
        assert!(messages(GOOD, &page(GOOD)).is_empty());
    }

    #[test]
    fn a_page_out_of_date_is_a_problem() {
        let changed = GOOD.replace("1024", "1025");
        let found = messages(&changed, &page(GOOD));
        assert!(found.len() == 1 && found[0].contains("tidy --write"), "{found:?}");
    }

    #[test]
    fn a_limit_without_words_is_a_problem() {
        let bare = format!("{GOOD}\npub const B: u32 = 1;\n");
        let found = messages(&bare, &page(&bare));
        assert!(found.len() == 1 && found[0].contains("limits.rs:5: `B`"), "{found:?}");
    }

    #[test]
    fn no_limits_at_all_is_a_problem() {
        assert_eq!(messages("//! Nothing yet.\n", "").len(), 1);
        assert_eq!(check(&Sources::of(&[])).len(), 1);
    }

    #[test]
    fn usual_values_are_readable_and_others_are_shown_as_they_are() {
        for (value, text) in [
            ("Duration::from_millis(250)", "250 ms"),
            ("Duration::from_secs(86_400)", "86,400 s"),
            ("16 * MIB", "16 MiB"),
            ("MIB", "1 MiB"),
            ("8 * 1024", "`8 * 1024`"),
            ("Duration::from_secs(2 * 60)", "`Duration::from_secs(2 * 60)`"),
            ("QUEUE_EVENTS_MAX", "`QUEUE_EVENTS_MAX`"),
        ] {
            assert_eq!(readable(value), text);
        }
    }
}
