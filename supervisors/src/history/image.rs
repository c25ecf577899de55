//! Puts a database together from the objects of a chain, given newest first.
//!
//! The newest bytes of a page win. A page past the end of the database at some newer object was cut
//! off there, so what older objects hold of it no longer counts.

use thiserror::Error;

use super::object::{Object, PagesError};
use super::pages::{PageSet, whole_count};

/// Which pages of the image are written, and how long it is.
#[derive(Debug, Clone, Default)]
pub struct Assembly {
    written: PageSet,
    db_pages: Option<u32>,
    /// The database never had fewer pages at any object seen yet.
    kept: u32,
}

/// The chain is over and a page is in none of its objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{missing} of the database's {db_pages} pages are in no object of its chain")]
pub struct IncompleteImage {
    pub missing: u32,
    pub db_pages: u32,
}

impl Assembly {
    /// Takes the next older object. `write` gets each page that is not superseded, once over all
    /// objects; `body` reads the object's pages.
    pub fn apply<E>(
        &mut self,
        object: &Object,
        body: impl std::io::Read,
        mut write: impl FnMut(u32, &[u8]) -> Result<(), E>,
    ) -> Result<(), PagesError<E>> {
        let pages = object.description.db_pages;
        self.kept = if self.db_pages.is_some() { self.kept.min(pages) } else { pages };
        self.db_pages.get_or_insert(pages);
        let (kept, written) = (self.kept, &mut self.written);
        object.pages(body, |page, bytes| {
            if page <= kept && written.insert(page) { write(page, bytes) } else { Ok(()) }
        })
    }

    /// The pages of the finished image: none for a history that never held one.
    pub fn finish(self) -> Result<u32, IncompleteImage> {
        let db_pages = self.db_pages.unwrap_or_default();
        match whole_count(db_pages) - self.written.len() {
            0 => Ok(db_pages),
            missing => Err(IncompleteImage { missing, db_pages }),
        }
    }
}
