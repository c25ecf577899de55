//! The fenced blocks of a page.

#[derive(Clone, Debug)]
pub struct Block {
    /// Of its first fence, counted from 1.
    pub line: usize,
    /// The first word behind the fence.
    pub language: String,
    /// The other words: `no-run=WHY`.
    marks: Vec<String>,
    /// Without the indentation of its fence.
    pub text: String,
}

impl Block {
    /// The value of `name=VALUE`; empty where there is only the name.
    pub fn mark(&self, name: &str) -> Option<&str> {
        let values = self.marks.iter().filter_map(|mark| mark.strip_prefix(name));
        values
            .filter_map(|rest| if rest.is_empty() { Some("") } else { rest.strip_prefix('=') })
            .next()
    }
}

pub fn blocks_of(page: &str) -> Result<Vec<Block>, String> {
    let mut blocks = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let fence = line.trim_start();
        let Some(words) = fence.strip_prefix("```") else { continue };
        let indentation = line.len() - fence.len();
        let mut words = words.split([' ', ',']).filter(|word| !word.is_empty()).map(str::to_owned);
        let language = words.next();
        let marks = words.collect();
        let mut text = String::new();
        loop {
            let (_, line) =
                lines.next().ok_or_else(|| format!("line {}: no fence ends it", at + 1))?;
            if line.trim() == "```" {
                break;
            }
            text += line.get(indentation..).unwrap_or_default();
            text.push('\n');
        }
        let language = language.ok_or_else(|| format!("line {}: it has no language", at + 1))?;
        blocks.push(Block { line: at + 1, language, marks, text });
    }
    Ok(blocks)
}

#[test]
fn a_block_has_a_language_marks_and_its_text() {
    let page = "text\n- item\n\n  ```sh no-run=why\n  a\n    b\n  ```\n```rust,ignore\n```\n";
    let blocks = blocks_of(page).expect("two blocks");
    assert_eq!((blocks[0].line, &*blocks[0].language, &*blocks[0].text), (4, "sh", "a\n  b\n"));
    assert_eq!(blocks[0].mark("no-run"), Some("why"));
    assert_eq!((&*blocks[1].language, blocks[1].mark("ignore")), ("rust", Some("")));
    assert!(blocks_of("```sh\na\n").is_err());
    assert!(blocks_of("```\na\n```\n").is_err());
}
