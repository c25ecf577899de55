//! Enough of Markdown for the checks: where a page links to, and which anchors it has.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, PartialEq, Eq)]
pub struct Link<'a> {
    pub target: &'a str,
    /// Where the target stands in the text.
    pub offset: usize,
}

/// Every link, image and reference of a page, but for what stands in code and comments.
pub fn links(text: &str) -> Vec<Link<'_>> {
    let prose = without_spans(&without_blocks(text));
    let mut links: Vec<Link> = prose
        .match_indices("](")
        .map(|(start, opening)| start + opening.len())
        .filter_map(|start| link_at(text, &prose, start))
        .collect();
    let mut offset = 0;
    for line in prose.split_inclusive('\n') {
        if let Some(start) = definition(line) {
            links.extend(link_at(text, &prose, offset + start));
        }
        offset += line.len();
    }
    links
}

/// The link whose target begins at `start`, after blanks; its end is a blank, or the bracket that
/// no bracket inside opens.
fn link_at<'a>(text: &'a str, prose: &str, start: usize) -> Option<Link<'a>> {
    let rest = &prose[start..];
    let skipped = rest.len() - rest.trim_start().len();
    let (start, rest) = (start + skipped, rest.trim_start());
    if let Some(inside) = rest.strip_prefix('<') {
        let length = inside.find(['>', '\n'])?;
        return Some(Link { target: &text[start + 1..][..length], offset: start + 1 });
    }
    let mut depth = 0;
    let end = rest.find(|next: char| {
        depth += i32::from(next == '(') - i32::from(next == ')');
        depth < 0 || next.is_whitespace()
    });
    let length = end.unwrap_or(rest.len());
    (length > 0).then(|| Link { target: &text[start..][..length], offset: start })
}

/// Of a line `[label]: target`, where what follows the colon begins.
fn definition(line: &str) -> Option<usize> {
    let label = line.trim_start().strip_prefix('[')?;
    let (label, target) = label.split_once("]:")?;
    let is_reference = !label.contains(['[', ']']) && !label.starts_with('^');
    (is_reference && !target.trim().is_empty()).then(|| line.len() - target.len())
}

/// The anchors of a page by GitHub's rule: of each heading its letters, digits, `-` and `_` in lower
/// case, blanks as `-`, and a number behind what was there before. Also what HTML names itself.
pub fn anchors(text: &str) -> BTreeSet<String> {
    let prose = without_blocks(text);
    let mut anchors = BTreeSet::new();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for heading in prose.lines().filter_map(heading) {
        let slug = slug(heading);
        let times = seen.entry(slug.clone()).or_default();
        anchors.insert(if *times == 0 { slug } else { format!("{slug}-{times}") });
        *times += 1;
    }
    for attribute in [" id=\"", " name=\""] {
        for (start, _) in prose.match_indices(attribute) {
            let value = &prose[start + attribute.len()..];
            anchors.extend(value.split_once('"').map(|(value, _)| value.to_owned()));
        }
    }
    anchors
}

fn heading(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches('#');
    let level = line.len() - rest.len();
    let is_heading = (1..=6).contains(&level) && rest.starts_with([' ', '\t']);
    is_heading.then(|| rest.trim().trim_end_matches('#').trim_end())
}

fn slug(heading: &str) -> String {
    let mut shown = String::new();
    let mut rest = heading;
    // Of a link, the text is shown and the target is not.
    while let Some((before, after)) = rest.split_once("](") {
        shown += before;
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    shown += rest;
    let kept =
        shown.chars().filter(|next| next.is_alphanumeric() || matches!(next, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|next| if next == ' ' { '-' } else { next }).collect()
}

/// The text with blanks for fenced code and comments, each character where it stands.
fn without_blocks(text: &str) -> String {
    let mut prose = String::with_capacity(text.len());
    let mut fence: Option<&str> = None;
    let mut in_comment = false;
    for line in text.split_inclusive('\n') {
        let start = line.trim_start().trim_start_matches(['>', '-', ' ']);
        let length = start.len() - start.trim_start_matches(['`', '~']).len();
        let mark = (length >= 3).then(|| &start[..length]);
        match (fence, mark) {
            (None, Some(mark)) if !in_comment => {
                fence = Some(mark);
                blank(&mut prose, line);
            }
            (Some(open), _) => {
                let closes = mark.is_some_and(|mark| mark.starts_with(open));
                if closes && start[length..].trim().is_empty() {
                    fence = None;
                }
                blank(&mut prose, line);
            }
            _ => in_comment = without_comments(&mut prose, line, in_comment),
        }
    }
    prose
}

/// Adds a line without its comments, and says whether one is open at its end.
fn without_comments(prose: &mut String, line: &str, was_open: bool) -> bool {
    let (mut rest, mut is_open) = (line, was_open);
    loop {
        let end = if is_open { "-->" } else { "<!--" };
        let length = rest.find(end).map_or(rest.len(), |start| start + end.len());
        let (part, after) = rest.split_at(length);
        if is_open {
            blank(prose, part);
        } else {
            prose.push_str(part);
        }
        if after.is_empty() {
            return is_open != part.ends_with(end);
        }
        is_open = !is_open;
        rest = after;
    }
}

/// The text with blanks for what stands between equal numbers of backticks within a paragraph.
fn without_spans(text: &str) -> String {
    let mut prose = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('`') {
        let (before, code) = rest.split_at(start);
        prose.push_str(before);
        let ticks = code.len() - code.trim_start_matches('`').len();
        let (mark, inside) = code.split_at(ticks);
        let length = span_length(inside, ticks);
        blank(&mut prose, mark);
        blank(&mut prose, &inside[..length]);
        rest = &inside[length..];
    }
    prose + rest
}

/// How long a span of code is with the ticks that end it; 0 when nothing ends it.
fn span_length(inside: &str, ticks: usize) -> usize {
    let paragraph = inside.find("\n\n").unwrap_or(inside.len());
    let mut at = 0;
    while let Some(start) = inside[at..paragraph].find('`') {
        let rest = &inside[at + start..paragraph];
        let found = rest.len() - rest.trim_start_matches('`').len();
        at += start + found;
        if found == ticks {
            return at;
        }
    }
    0
}

fn blank(prose: &mut String, text: &str) {
    prose.extend(text.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(text: &str) -> Vec<&str> {
        links(text).into_iter().map(|link| link.target).collect()
    }

    #[test]
    fn links_images_and_references_are_found() {
        let text = "[a](a.md#x) ![b](b.png \"title\"), [`c`](../c) [d]( <d e.md> ) [f](f_(g).md)\n\n\
                    [label]: h.md\n[^1]: a note\n- [ ]: none\n";
        assert_eq!(targets(text), ["a.md#x", "b.png", "../c", "d e.md", "f_(g).md", "h.md"]);
    }

    #[test]
    fn a_link_knows_where_it_stands() {
        let text = "é `x` <!-- é --> [a](b.md)";
        assert_eq!(&text[links(text)[0].offset..], "b.md)");
    }

    #[test]
    fn code_and_comments_hold_no_links() {
        for text in [
            "```\n[a](b.md)\n```\n",
            "~~~ md\n```\n[a](b.md)\n~~~\n",
            "> ````\n> ```\n> [a](b.md)\n> ````\n",
            "`[a](b.md)` and ``[a](`b.md)``",
            "<!-- [a](b.md)\n[a](b.md) -->",
        ] {
            assert_eq!(targets(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_tick_that_nothing_ends_hides_nothing() {
        assert_eq!(targets("a ` b [a](b.md)\n\n`c`"), ["b.md"]);
        assert_eq!(targets("`a` <!-- x --> [a](b.md) `c`\n```\n```\n[c](d.md)"), ["b.md", "d.md"]);
    }

    #[test]
    fn anchors_follow_githubs_rule() {
        let text = "# The `log`, and *what* it_holds!\n## Twice\n## Twice\n### [Linked](x.md) ##\n\
                    #No heading\n```\n# code\n```\n## Größe: 2 – 3\n<a id=\"own\"></a>\n";
        let found: Vec<String> = anchors(text).into_iter().collect();
        let expected =
            ["größe-2--3", "linked", "own", "the-log-and-what-it_holds", "twice", "twice-1"];
        assert_eq!(found, expected);
    }
}
