//! Reading Rust without a parser: which characters of a file are code of the product.

/// The text with comments, the insides of strings and test items turned into spaces; and how many
/// lines are test items. Line ends stay, so offsets and line numbers are those of the text.
pub fn code_of(text: &str) -> (String, usize) {
    let mut code = text.as_bytes().to_vec();
    blank_comments_and_strings(text.as_bytes(), &mut code);
    let test_lines = blank_test_items(text.as_bytes(), &mut code);
    // Only whole characters were blanked: a multi-byte one lies in a comment or string as a whole.
    (String::from_utf8_lossy(&code).into_owned(), test_lines)
}

pub fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Offsets at which `word` stands, not as a part of a longer name.
pub fn find_word<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = text.as_bytes();
    let edge_is_word = |at: Option<u8>| at.is_some_and(is_word);
    text.match_indices(word).map(|(start, _)| start).filter(move |&start| {
        let end = start + word.len();
        let before = start.checked_sub(1).map(|at| bytes[at]);
        let joined_before = edge_is_word(word.bytes().next()) && edge_is_word(before);
        let joined_after =
            edge_is_word(word.bytes().last()) && edge_is_word(bytes.get(end).copied());
        !joined_before && !joined_after
    })
}

fn blank(code: &mut [u8], range: std::ops::Range<usize>) {
    for byte in &mut code[range] {
        if *byte != b'\n' {
            *byte = b' ';
        }
    }
}

fn blank_comments_and_strings(text: &[u8], code: &mut [u8]) {
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let end = if rest.starts_with(b"//") {
            at + rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len())
        } else if rest.starts_with(b"/*") {
            at + block_comment(rest)
        } else if let Some(length) = raw_string(text, at) {
            at + length
        } else if rest[0] == b'"' {
            at + quoted(rest, b'"')
        } else if rest[0] == b'\'' && is_char_literal(rest) {
            at + quoted(rest, b'\'')
        } else {
            at += 1;
            continue;
        };
        blank(code, at..end);
        at = end;
    }
}

/// Length of a comment that may hold others.
fn block_comment(rest: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// Length of the raw string that starts here: `r"…"`, `r#"…"#`.
fn raw_string(text: &[u8], at: usize) -> Option<usize> {
    let rest = &text[at..];
    if rest[0] != b'r' {
        return None;
    }
    // The `b` or `c` of `br"…"` may stand before; a longer name may not.
    let name = text[..at].iter().rev().take_while(|&&byte| is_word(byte)).count();
    if name > 1 || (name == 1 && !matches!(text[at - 1], b'b' | b'c')) {
        return None;
    }
    let hashes = rest[1..].iter().take_while(|&&byte| byte == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let body = 2 + hashes;
    let length = rest[body..].windows(close.len()).position(|window| window == close);
    Some(length.map_or(rest.len(), |length| body + length + close.len()))
}

/// Length of a literal between quotes, escapes observed.
fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// `'a'` or `'\n'`, and not the lifetime `'a`.
fn is_char_literal(rest: &[u8]) -> bool {
    match rest.get(1) {
        Some(b'\\') => true,
        Some(&first) => {
            let length = match first {
                0xf0.. => 4,
                0xe0.. => 3,
                0xc0.. => 2,
                _ => 1,
            };
            rest.get(1 + length) == Some(&b'\'')
        }
        None => false,
    }
}

/// Items under `#[cfg(test)]`, `#[cfg(any(test, …))]` or `#[cfg(feature = "testing")]`. Returns
/// how many lines they had.
fn blank_test_items(text: &[u8], code: &mut [u8]) -> usize {
    const ATTRIBUTE: &[u8] = b"#[cfg(";
    let mut at = 0;
    let mut lines = 0;
    while let Some(found) = code[at..].windows(ATTRIBUTE.len()).position(|w| w == ATTRIBUTE) {
        let start = at + found;
        at = start + ATTRIBUTE.len();
        let Some(length) = code[start..].iter().position(|&byte| byte == b']') else {
            break;
        };
        let condition = String::from_utf8_lossy(&text[start..start + length]);
        let is_test = (find_word(&condition, "test").next().is_some()
            && !condition.contains("not(test"))
            || condition.contains("feature = \"testing\"");
        if is_test {
            let end = start + length + item(&code[start + length..]);
            lines += 1 + code[start..end].iter().filter(|&&byte| byte == b'\n').count();
            blank(code, start..end);
            at = end;
        }
    }
    lines
}

/// Length of the item that follows an attribute: to its `;`, or over its `{…}`.
fn item(rest: &[u8]) -> usize {
    let (mut brackets, mut braces) = (0_i32, 0_i32);
    for (at, byte) in rest.iter().enumerate().skip(1) {
        match byte {
            b'(' | b'[' => brackets += 1,
            b')' | b']' => brackets -= 1,
            b'{' => braces += 1,
            b'}' => {
                braces -= 1;
                match braces {
                    0 => return at + 1,
                    // The attribute stood on the last field of a struct.
                    ..0 => return at,
                    _ => {}
                }
            }
            b';' if brackets == 0 && braces == 0 => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> String {
        code_of(text).0.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_and_strings_are_not_code() {
        assert_eq!(words("a /* b /* c */ d */ e // f\ng"), "a e g");
        assert_eq!(words(r#"f("x \" y", 'z', '\'', b"w") + 'life"#), "f( , , , b ) + 'life");
        assert_eq!(words("r#\"a \" b\"# + br\"c\" + r#type + for\"d\""), "+ b + r#type + for");
    }

    #[test]
    fn offsets_stay_those_of_the_text() {
        let text = "let a = \"ü\n\"; // é\nb";
        let (code, _) = code_of(text);
        assert_eq!((code.len(), code.matches('\n').count()), (text.len(), 2));
    }

    #[test]
    fn test_items_are_not_code() {
        assert_eq!(words("a #[cfg(test)] mod tests { fn f() { x } } b"), "a b");
        assert_eq!(words("#[cfg(test)]\n#[rustfmt::skip]\nuse x; b"), "b");
        assert_eq!(words("#[cfg(any(test, feature = \"testing\"))] pub mod testing; b"), "b");
        assert_eq!(words("#[cfg(feature = \"testing\")] fn f(a: [u8; 2]) { x } b"), "b");
        assert!(words("#[cfg(not(test))] fn f() {}").contains("fn f"));
        assert!(words("#[cfg(unix)] fn f() {}").contains("fn f"));
    }

    #[test]
    fn lines_of_tests_are_counted() {
        assert_eq!(code_of("a\n#[cfg(test)]\nmod tests {\n}\nb\n").1, 3);
    }

    #[test]
    fn a_word_is_not_a_part_of_another() {
        assert_eq!(find_word("async asynch _async async::x", "async").count(), 2);
        assert_eq!(find_word("tokio::x mytokio::x", "tokio::").count(), 1);
    }
}
