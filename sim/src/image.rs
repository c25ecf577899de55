//! A database without SQL: pages of tokens. Each write adds one token, so what is lost, torn or mixed
//! up shows.
//!
//! ```text
//! page 1      "tokens01", how many tokens there are, how often this page was written, and whether a node
//!             without a bucket wrote it
//! page 2..    how many tokens are here, the tokens, and at the end how often it was touched
//! ```

use std::collections::BTreeSet;

use bytes::Bytes;
use wasmkeep_supervisors::history::PAGE_BYTES;

const MAGIC: [u8; 8] = *b"tokens01";
/// So few that a run of some dozens writes has several pages.
const TOKENS_PER_PAGE: usize = 5;
const TOUCHED: usize = PAGE_BYTES - 8;

/// One write, unlike every other.
pub type Token = u64;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    pages: Vec<Bytes>,
}

impl Image {
    /// What a reset leaves.
    pub fn empty() -> Self {
        let mut page = vec![0; PAGE_BYTES];
        page[..8].copy_from_slice(&MAGIC);
        Self { pages: vec![page.into()] }
    }

    pub fn db_pages(&self) -> u32 {
        self.pages.len() as u32
    }

    pub fn page(&self, number: u32) -> Option<&Bytes> {
        self.pages.get((number as usize).checked_sub(1)?)
    }

    /// Puts a page in, whatever is between it and the last one.
    pub fn set(&mut self, number: u32, bytes: Bytes) {
        let at = number as usize - 1;
        if self.pages.len() <= at {
            self.pages.resize(at + 1, Bytes::new());
        }
        self.pages[at] = bytes;
    }

    /// Says whether a node without a bucket wrote it: such a file may become the beginning of a history.
    pub fn mark(&mut self, is_of_a_single_node: bool) {
        self.change(1, |page| put(page, 24, u64::from(is_of_a_single_node)));
    }

    pub fn is_marked(&self) -> bool {
        self.page(1).is_some_and(|page| word(page, 24) == 1)
    }

    pub fn cut(&mut self, db_pages: u32) {
        self.pages.truncate(db_pages as usize);
    }

    /// Adds a token, and touches some other page. Returns the pages that it changed.
    pub fn add(&mut self, token: Token) -> BTreeSet<u32> {
        if self.pages.is_empty() {
            *self = Self::empty();
        }
        let mut changed = BTreeSet::from([1]);
        let last = self.pages.len();
        let is_full = last == 1 || word(&self.pages[last - 1], 0) as usize == TOKENS_PER_PAGE;
        if is_full {
            self.pages.push(vec![0; PAGE_BYTES].into());
        }
        let number = self.pages.len();
        self.change(number, |page| {
            let count = word(page, 0) as usize;
            put(page, 8 + 8 * count, token);
            put(page, 0, count as u64 + 1);
        });
        self.change(1, |page| {
            put(page, 8, word(page, 8) + 1);
            put(page, 16, word(page, 16) + 1);
        });
        let touched = 2 + token as usize % (number - 1);
        self.change(touched, |page| put(page, TOUCHED, word(page, TOUCHED) + 1));
        changed.extend([number as u32, touched as u32]);
        changed
    }

    /// The tokens; or why these pages are of no one moment.
    pub fn tokens(&self) -> Result<BTreeSet<Token>, String> {
        let Some((first, rest)) = self.pages.split_first() else { return Ok(BTreeSet::new()) };
        if first.len() != PAGE_BYTES || first[..8] != MAGIC {
            return Err("page 1 is no first page".into());
        }
        let mut tokens = BTreeSet::new();
        for (at, page) in rest.iter().enumerate() {
            let count = if page.len() == PAGE_BYTES { word(page, 0) as usize } else { 0 };
            if count == 0 || count > TOKENS_PER_PAGE {
                return Err(format!("page {} holds {count} tokens", at + 2));
            }
            tokens.extend((0..count).map(|at| word(page, 8 + 8 * at)));
        }
        let said = word(first, 8);
        if said != tokens.len() as u64 {
            return Err(format!("page 1 says {said} tokens, and there are {}", tokens.len()));
        }
        Ok(tokens)
    }

    fn change(&mut self, number: usize, change: impl FnOnce(&mut [u8])) {
        let mut page = self.pages[number - 1].to_vec();
        change(&mut page);
        self.pages[number - 1] = page.into();
    }
}

fn word(page: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&page[at..at + 8]);
    u64::from_le_bytes(bytes)
}

fn put(page: &mut [u8], at: usize, word: u64) {
    page[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_back_and_every_other_mix_of_pages_is_seen() {
        let mut image = Image::default();
        let mut before = image.clone();
        for token in 1..=23 {
            before = image.clone();
            let changed = image.add(token);
            assert!(changed.iter().all(|page| before.page(*page) != image.page(*page)), "{token}");
            assert_eq!(image.tokens(), Ok((1..=token).collect()));
        }
        let mut torn = image.clone();
        torn.set(1, before.page(1).expect("a page").clone());
        assert!(torn.tokens().is_err());
        let mut cut = image.clone();
        cut.cut(image.db_pages() - 1);
        assert!(cut.tokens().is_err());
        assert_eq!(Image::empty().tokens(), Ok(BTreeSet::new()));
    }
}
