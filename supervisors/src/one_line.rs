//! Texts that guests and clients wrote, on their way into a log of lines or onto a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text as part of one line: characters that are not printable, such as those that end a line,
/// move the cursor or turn the direction of writing, as escapes. Tabs stay.
pub fn in_one_line(text: &str) -> Cow<'_, str> {
    if text.chars().all(stays) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if stays(character) {
            out.push(character);
        } else {
            let _ = write!(out, "\\u{{{:x}}}", u32::from(character));
        }
    }
    Cow::Owned(out)
}

fn stays(character: char) -> bool {
    character == '\t' || is_printable(character)
}

/// Control and format characters are not: those that move the cursor, and those that turn the
/// direction of writing. Marks that combine with a letter are.
pub fn is_printable(character: char) -> bool {
    match character {
        '\'' | '"' | '\\' => true,
        ' '..='~' => true,
        _ if character.is_ascii() => false,
        // Behind a letter, `escape_debug` leaves combining marks alone.
        _ => ['a', character].iter().collect::<String>().escape_debug().count() == 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_the_line_or_moves_the_cursor() {
        for (text, shown) in [
            ("an ordinary line, e\u{301}", "an ordinary line, e\u{301}"),
            ("a\tb\\c", "a\tb\\c"),
            ("a\nERROR forged", "a\\u{a}ERROR forged"),
            ("a\rb\u{1b}[2J", "a\\u{d}b\\u{1b}[2J"),
            ("a\u{202e}b\u{2028}", "a\\u{202e}b\\u{2028}"),
        ] {
            assert_eq!(in_one_line(text), shown);
        }
    }
}
