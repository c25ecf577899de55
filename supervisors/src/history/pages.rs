//! Pages of a database, by number.

use std::collections::BTreeMap;

/// Every database of the product has pages of this size.
pub const PAGE_BYTES: usize = 4096;

/// The page that holds SQLite's lock byte, at 1 GiB. It is never used, so no object holds it.
pub const LOCK_PAGE: u32 = (1 << 30) / PAGE_BYTES as u32 + 1;

/// Where a page begins in the file.
pub fn page_offset(page: u32) -> u64 {
    (u64::from(page) - 1) * PAGE_BYTES as u64
}

/// The pages that a database of so many holds: all but the lock page.
pub fn whole_pages(db_pages: u32) -> impl Iterator<Item = u32> + Clone {
    (1..=db_pages).filter(|page| *page != LOCK_PAGE)
}

/// How many those are.
pub(super) fn whole_count(db_pages: u32) -> u32 {
    db_pages - u32::from(db_pages >= LOCK_PAGE)
}

const WORDS: usize = 512;
const CHUNK_PAGES: u32 = WORDS as u32 * 64;

/// A set of page numbers that takes memory for the pages in it, not for the largest number: 4 KiB
/// for each run of 32,768 that has one.
#[derive(Debug, Clone, Default)]
pub struct PageSet {
    chunks: BTreeMap<u32, Box<[u64; WORDS]>>,
    len: u32,
}

impl PageSet {
    /// Returns whether the page is new.
    pub fn insert(&mut self, page: u32) -> bool {
        let (chunk, word, bit) = place(page);
        let words = self.chunks.entry(chunk).or_insert_with(|| Box::new([0; WORDS]));
        let is_new = words[word] & bit == 0;
        words[word] |= bit;
        self.len += u32::from(is_new);
        is_new
    }

    pub fn contains(&self, page: u32) -> bool {
        let (chunk, word, bit) = place(page);
        self.chunks.get(&chunk).is_some_and(|words| words[word] & bit != 0)
    }

    pub fn len(&self) -> u32 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The pages in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + Clone + '_ {
        self.chunks.iter().flat_map(|(chunk, words)| {
            let words = words.iter().zip(0_u32..).filter(|(word, _)| **word != 0);
            words.flat_map(move |(word, at)| {
                let first = chunk * CHUNK_PAGES + at * 64;
                (0..64).filter(move |bit| word & (1 << bit) != 0).map(move |bit| first + bit)
            })
        })
    }
}

impl Extend<u32> for PageSet {
    fn extend<T: IntoIterator<Item = u32>>(&mut self, pages: T) {
        for page in pages {
            self.insert(page);
        }
    }
}

fn place(page: u32) -> (u32, usize, u64) {
    let within = page % CHUNK_PAGES;
    (page / CHUNK_PAGES, (within / 64) as usize, 1 << (within % 64))
}
