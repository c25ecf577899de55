//! What is to be done is an issue or a line of ROADMAP.md; what is done leaves no marks in the code.

use super::rust_text::find_word;
use super::sources::{Problem, Sources};

/// Put together here so that this file does not hold them.
const WORDS: &[(&str, &str)] = &[
    (concat!("TO", "DO"), "open an issue or add a line to ROADMAP.md"),
    (concat!("FIX", "ME"), "open an issue or add a line to ROADMAP.md"),
    (concat!("XX", "X"), "say what is wrong in a sentence, or in an issue"),
    (concat!("dbg", "!"), "remove it, or log with `tracing`"),
];

pub fn check(sources: &Sources) -> Vec<Problem> {
    let mut problems = Vec::new();
    for source in sources.rust_below("") {
        for (word, advice) in WORDS {
            for offset in find_word(&source.text, word) {
                problems.push(source.problem(offset, format!("has `{word}`: {advice}")));
            }
        }
        let mut offset = 0;
        for line in source.text.split_inclusive('\n') {
            if is_divider(line) {
                let message = "draws a line between parts: move the parts into files, or drop it";
                problems.push(source.problem(offset, message));
            }
            offset += line.len();
        }
    }
    problems
}

/// A plain comment that starts by drawing: `// -----`, `// ==== Tests ====`, `//////`.
fn is_divider(line: &str) -> bool {
    let Some(comment) = line.trim().strip_prefix("//") else {
        return false;
    };
    let comment = comment.trim_start();
    let Some(first) = comment.chars().next() else {
        return false;
    };
    matches!(first, '-' | '=' | '*' | '/' | '~' | '─' | '━' | '═')
        && comment.chars().take_while(|next| *next == first).count() >= 3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        check(&Sources::of(&[("src/a.rs", text)])).len()
    }

    #[test]
    fn every_leftover_is_found() {
        for (word, _) in WORDS {
            assert_eq!(count(&format!("// {word}: later\n")), 1, "{word}");
            assert_eq!(count(&format!("{word}(x);\n")), 1, "{word}");
        }
    }

    #[test]
    fn a_drawn_line_is_found() {
        let rule = "-".repeat(10);
        for line in [format!("// {rule}"), format!("  //==== {rule}"), "/".repeat(8)] {
            assert_eq!(count(&format!("{line}\n")), 1, "{line}");
        }
    }

    #[test]
    fn words_and_text_like_them_are_none() {
        let longer = WORDS[0].0.to_owned() + "S";
        for line in [&longer, "/// --- in a doc comment", "// -- aside", "//! | --- |", "a - b"] {
            assert_eq!(count(line), 0, "{line}");
        }
    }
}
