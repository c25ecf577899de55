//! Files of `NAME=value` lines, as `--env` names them. A subset of what systemd's
//! `EnvironmentFile=` reads: comments, an optional `export`, one pair of quotes around a value;
//! nothing inside a value means anything, and no line continues on the next.
//!
//! A value may be a secret, and a wrong line may be one: no error holds anything of its line.

use std::fmt;

/// A line that is not of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongLine {
    /// The first is 1.
    pub line: usize,
    pub wrong: Wrong,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    ByteOrderMark,
    NotUtf8,
    ZeroByte,
    NoEquals,
    Name,
    OpenQuote,
    Control,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ByteOrderMark => "begins with a byte order mark; save the file without one",
            Self::NotUtf8 => "is not UTF-8",
            Self::ZeroByte => "holds a zero byte; the file must be UTF-8 text",
            Self::NoEquals => "has no \"=\"; write NAME=value, or # before a comment",
            Self::Name => {
                "has no legal name before its \"=\": letters, digits and _, no digit first"
            }
            Self::OpenQuote => {
                "begins its value with a quote that does not end it; quote the whole value"
            }
            Self::Control => "has a control character other than tab in its value",
        })
    }
}

/// The names and values of a file, in its order; of a name set twice the later value counts.
pub fn parse(bytes: &[u8]) -> Result<Vec<(String, String)>, WrongLine> {
    let mut pairs = Vec::new();
    for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let pair = if at == 0 { first_line(line) } else { parse_line(line) };
        pairs.extend(pair.map_err(|wrong| WrongLine { line: at + 1, wrong })?);
    }
    Ok(pairs)
}

fn first_line(line: &[u8]) -> Result<Option<(String, String)>, Wrong> {
    if line.starts_with(b"\xef\xbb\xbf") {
        return Err(Wrong::ByteOrderMark);
    }
    parse_line(line)
}

fn parse_line(line: &[u8]) -> Result<Option<(String, String)>, Wrong> {
    let line = std::str::from_utf8(line).map_err(|_| Wrong::NotUtf8)?;
    if line.contains('\0') {
        return Err(Wrong::ZeroByte);
    }
    let line = line.trim_matches(is_blank);
    if line.is_empty() || line.starts_with(['#', ';']) {
        return Ok(None);
    }
    let (name, value) = line.split_once('=').ok_or(Wrong::NoEquals)?;
    let name = without_export(name.trim_end_matches(is_blank));
    if !is_name(name) {
        return Err(Wrong::Name);
    }
    let value = unquoted(value.trim_start_matches(is_blank))?;
    if value.chars().any(|c| c.is_control() && c != '\t') {
        return Err(Wrong::Control);
    }
    Ok(Some((name.to_owned(), value.to_owned())))
}

fn is_blank(c: char) -> bool {
    c == ' ' || c == '\t'
}

/// `export` alone is a name.
fn without_export(name: &str) -> &str {
    match name.strip_prefix("export") {
        Some(rest) if rest.starts_with(is_blank) => rest.trim_start_matches(is_blank),
        _ => name,
    }
}

fn is_name(name: &str) -> bool {
    let is_part = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    name.bytes().all(is_part) && name.bytes().next().is_some_and(|b| !b.is_ascii_digit())
}

/// A quote that nothing closes is refused: elsewhere such a value goes on in the next line.
fn unquoted(value: &str) -> Result<&str, Wrong> {
    let Some(quote) = value.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
        return Ok(value);
    };
    value[1..].strip_suffix(quote).ok_or(Wrong::OpenQuote)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text:?}: {error:?}"))
    }

    fn value(text: &str) -> String {
        let pairs = pairs(&format!("A={text}"));
        assert_eq!(pairs.len(), 1, "{text:?}");
        pairs[0].1.clone()
    }

    fn wrong(bytes: &[u8]) -> (usize, Wrong) {
        let error = parse(bytes).expect_err("a wrong line");
        (error.line, error.wrong)
    }

    #[test]
    fn lines_are_pairs_comments_or_blank() {
        let text = "# a comment\n\n  ; another\n\t# indented\nA=1\n  B = two words \nexport C=3\n\
                    export\tD=4\nexport=5\n_e9=\nA=6";
        let read = pairs(text);
        let expected = [
            ("A", "1"),
            ("B", "two words"),
            ("C", "3"),
            ("D", "4"),
            ("export", "5"),
            ("_e9", ""),
            ("A", "6"),
        ];
        assert_eq!(read, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(pairs(""), []);
        assert_eq!(pairs("A=1\r\n\r\n# c\r\nB=2\r\n").len(), 2);
        assert_eq!(pairs("A=1\r\n")[0].1, "1");
    }

    #[test]
    fn the_example_of_the_docs_is_read() {
        let read = pairs(include_str!("../../docs/examples/hub.env"));
        let (greeting, url) = (&read[2].1, &read[1].1);
        assert_eq!(greeting, " Welcome to #hub, $USER! ");
        assert_eq!(url, "https://example.org/hooks?channel=ops&format=text");
        assert_eq!(read.len(), 4);
    }

    #[test]
    fn nothing_inside_a_value_is_interpreted() {
        for same in [r"a\nb", r"C:\dir\", "$HOME", "${A}", "a#b", "a # b", "x=y=z", "it's", "`a`"] {
            assert_eq!(value(same), same);
            assert_eq!(value(&format!("\"{same}\"")), same);
        }
        assert_eq!(value("  \" kept \"\t"), " kept ");
        assert_eq!(value("'\"a\"'"), "\"a\"");
        assert_eq!(value("\"'a'\""), "'a'");
        assert_eq!(value("\"\"a\"\""), "\"a\"");
        assert_eq!(value("\"a\" \"b\""), "a\" \"b");
        assert_eq!(value("\"\""), "");
        assert_eq!(value("a\tb"), "a\tb");
        assert_eq!(value("é漢🦀"), "é漢🦀");
        assert_eq!(
            pairs("A=one\\\nB=two"),
            [("A".to_owned(), "one\\".to_owned()), ("B".to_owned(), "two".to_owned())]
        );
    }

    #[test]
    fn a_wrong_line_is_told_by_its_number() {
        assert_eq!(wrong(b"A=1\n\nno pair\n"), (3, Wrong::NoEquals));
        assert_eq!(wrong(b"export A"), (1, Wrong::NoEquals));
        for name in ["", "1A", "a-b", "a b", "a.b", "é", "export a b", "A\u{b}"] {
            assert_eq!(wrong(format!("{name}=x").as_bytes()), (1, Wrong::Name), "{name:?}");
        }
        for open in ["\"", "'", "\"a", "'a", "\"a'", "\"a\" # comment", "\"a\"b"] {
            assert_eq!(wrong(format!("A={open}").as_bytes()), (1, Wrong::OpenQuote), "{open:?}");
        }
        for control in ["\u{1}", "a\rb", "\u{b}", "\u{7f}", "\u{85}", "\"a\u{1b}\""] {
            assert_eq!(wrong(format!("A={control}").as_bytes()), (1, Wrong::Control));
        }
        assert_eq!(wrong(b"\xef\xbb\xbfA=1"), (1, Wrong::ByteOrderMark));
        assert_eq!(wrong(b"A=1\n# caf\xe9"), (2, Wrong::NotUtf8));
        assert_eq!(wrong(b"A=1\nB=\0"), (2, Wrong::ZeroByte));
        assert_eq!(wrong(b"A\0=\x001\0\n\0"), (1, Wrong::ZeroByte));
    }

    /// As a careful writer writes a value.
    fn written(value: &str, quote: Option<char>) -> String {
        match quote {
            Some(quote) => format!("{quote}{value}{quote}"),
            None => value.to_owned(),
        }
    }

    prop_compose! {
        fn any_pair()(
            export in "(export[ \t]+)?",
            name in "[A-Za-z_][A-Za-z0-9_]{0,12}",
            value in r#"[^\p{Cc}]{0,20}|[ \t"'\\$#;=a]{0,8}"#,
            quote in prop_oneof![Just(None), Just(Some('"')), Just(Some('\''))],
        ) -> (String, (String, String)) {
            let bare = value.trim_matches(is_blank) == value && !value.starts_with(['"', '\'']);
            let quote = if bare { quote } else { Some(quote.unwrap_or('"')) };
            (format!("{export}{name}={}", written(&value, quote)), (name, value))
        }
    }

    proptest! {
        #[test]
        fn what_a_writer_quotes_is_read_back(
            lines in proptest::collection::vec(any_pair(), 0..6),
            end in prop_oneof![Just("\n"), Just("\r\n")],
        ) {
            let (lines, expected): (Vec<String>, Vec<_>) = lines.into_iter().unzip();
            let text = lines.join(end);
            prop_assert_eq!(parse(text.as_bytes()), Ok(expected));
        }

        #[test]
        fn any_bytes_are_read_or_refused_at_a_line(
            bytes in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..80),
                "([A-Za-z_=\"'#; \t\r\n\\\\$0-9é]|export ){0,40}".prop_map(String::into_bytes),
            ],
        ) {
            match parse(&bytes) {
                Ok(pairs) => for (name, value) in pairs {
                    prop_assert!(is_name(&name));
                    prop_assert!(!value.chars().any(|c| c.is_control() && c != '\t'));
                },
                Err(error) => {
                    let lines = bytes.split(|byte| *byte == b'\n').count();
                    prop_assert!((1..=lines).contains(&error.line));
                }
            }
        }

        #[test]
        fn no_error_holds_anything_of_its_line(
            before in "[ -~]{0,8}",
            after in "[ -~\u{1}\u{85}\"']{0,8}",
        ) {
            let secret = "hunter2hunter2";
            if let Err(error) = parse(format!("{before}{secret}{after}").as_bytes()) {
                let shown = format!("{error:?} {}", error.wrong);
                prop_assert!(!shown.contains("hunter2"), "{shown}");
            }
        }
    }
}
