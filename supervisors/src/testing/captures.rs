//! Databases in memory as pages, so that they are shipped and restored like real ones: the first page
//! is what the host keeps, each further one a row. A database without either has no pages.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::databases::{Disk, File, MemoryDatabase, MemoryDatabases};
use crate::address::Address;
use crate::history::{Base, PAGE_BYTES};
use crate::ports::{
    Captured, Capturing, Database as _, Latched, LocalFiles, Meta, Restoring, StorageFault,
};
use crate::twin::{Twin, is_broken};

/// Pages by number, each without the zeros at its end.
pub type Pages = BTreeMap<u32, Vec<u8>>;

/// What a node's disk says of its files as copies of the bucket's.
#[derive(Default)]
pub(super) struct Copies {
    pub are_captured: bool,
    trusted: HashMap<Address, Base>,
    /// Files that a node without a bucket did not write.
    copies: HashSet<Address>,
    replaced: HashMap<Address, File>,
}

impl Copies {
    pub fn opened(&mut self, address: &Address, is_new: bool) {
        // From here on the file is nobody's head.
        if !is_broken(Twin::TrustsFileAfterCrash) {
            self.trusted.remove(address);
        }
        if self.are_captured && is_new {
            self.copies.insert(address.clone());
        }
    }

    pub fn removed(&mut self, address: &Address) {
        self.trusted.remove(address);
        self.copies.remove(address);
        self.replaced.remove(address);
    }

    pub fn trust(&mut self, address: Address, head: Base) {
        self.trusted.insert(address, head);
    }
}

/// How far an open database is captured.
pub(super) struct Capture {
    done: Pages,
    last: Pages,
    whole_is_due: bool,
    latch: Arc<()>,
}

impl MemoryDatabases {
    /// From here on commits are captured, of files that were written without that.
    pub fn joins_a_cluster(&self) {
        self.lock().copies.are_captured = true;
    }

    /// The actor's file as it would be shipped whole.
    pub fn pages(&self, address: &Address) -> Pages {
        self.lock().pages(address)
    }

    /// The rows of the file that was set aside.
    pub fn replaced_rows(&self, address: &Address) -> Option<Vec<String>> {
        self.lock().copies.replaced.get(address).map(|file| file.rows.clone())
    }
}

impl Disk {
    fn pages(&self, address: &Address) -> Pages {
        let Some(file) = self.files.get(address) else { return Pages::new() };
        if file.rows.is_empty() && file.meta.is_empty() {
            return Pages::new();
        }
        let mut meta: Vec<_> =
            file.meta.iter().map(|(key, value)| format!("{key}={value}")).collect();
        meta.sort();
        let texts = std::iter::once(meta.join("\n")).chain(file.rows.iter().cloned());
        (1..).zip(texts.map(String::into_bytes)).collect()
    }

    pub fn capture(&self, address: &Address) -> Option<Capture> {
        self.copies.are_captured.then(|| Capture {
            done: self.pages(address),
            last: Pages::new(),
            whole_is_due: false,
            latch: Arc::new(()),
        })
    }

    fn set_aside(&mut self, address: &Address) {
        self.copies.trusted.remove(address);
        if let Some(file) = self.files.remove(address) {
            self.copies.replaced.insert(address.clone(), file);
        }
    }
}

impl MemoryDatabase {
    pub fn is_captured(&self) -> bool {
        let pages = self.node.pages(&self.address);
        let is = |capture: &Capture| {
            capture.done == pages && !capture.whole_is_due && Arc::strong_count(&capture.latch) == 1
        };
        self.capture.as_ref().is_some_and(is)
    }

    /// As SQLite, which moves no log while a transaction is open.
    fn check_outside(&self) -> Result<(), StorageFault> {
        if self.in_transaction() { Err(self.fault("a transaction is open")) } else { Ok(()) }
    }

    fn fault(&self, cause: &str) -> StorageFault {
        let path = self.address.to_string();
        StorageFault { operation: "capture", path, cause: cause.into() }
    }
}

impl Capturing for MemoryDatabase {
    fn is_in_transaction(&self) -> bool {
        self.in_transaction()
    }

    fn capture(&mut self) -> Result<Option<Captured>, StorageFault> {
        let pages = self.node.pages(&self.address);
        let fault = self.fault("commits are not captured");
        let capture = self.capture.as_mut().ok_or(fault)?;
        let is_whole = std::mem::take(&mut capture.whole_is_due);
        if pages == capture.done && !is_whole {
            return Ok(None);
        }
        let is_new = |(page, bytes): &(&u32, &Vec<u8>)| capture.done.get(page) != Some(bytes);
        let new: Vec<u32> = pages.iter().filter(is_new).map(|(page, _)| *page).collect();
        capture.done = pages.clone();
        capture.last = pages;
        if is_whole && capture.last.is_empty() {
            // A file has a first page, whatever is in it.
            capture.last.insert(1, Vec::new());
        }
        let db_pages = capture.last.len() as u32;
        let changed = if is_whole { (1..=db_pages).collect() } else { new };
        let frames = if is_whole { 0 } else { changed.len() as u32 };
        Ok(Some(Captured { changed, db_pages, frames, is_whole }))
    }

    fn read_captured(&mut self, page: u32, to: &mut [u8]) -> Result<(), StorageFault> {
        let fault = self.fault("the page is not captured");
        fill(self.capture.as_ref().and_then(|capture| capture.last.get(&page)).ok_or(fault)?, to);
        Ok(())
    }

    fn capture_whole(&mut self) {
        if let Some(capture) = &mut self.capture {
            capture.whole_is_due = true;
        }
    }

    fn adopted(&mut self) -> Result<(), StorageFault> {
        self.check_outside()?;
        self.node.lock().copies.copies.insert(self.address.clone());
        Ok(())
    }

    fn vacuum_if_sparse(&mut self) -> Result<bool, StorageFault> {
        Ok(false)
    }

    fn latch(&mut self) -> Result<Option<Box<dyn Latched>>, StorageFault> {
        self.check_outside()?;
        if !self.is_captured() {
            return Ok(None);
        }
        let pages = self.node.pages(&self.address);
        let latch = self.capture.as_ref().map(|capture| Arc::clone(&capture.latch));
        Ok(Some(Box::new(LatchedPages { pages, _latch: latch })))
    }
}

struct LatchedPages {
    pages: Pages,
    _latch: Option<Arc<()>>,
}

impl Latched for LatchedPages {
    fn db_pages(&self) -> u32 {
        self.pages.len() as u32
    }

    fn read(&self, page: u32, to: &mut [u8]) -> Result<(), StorageFault> {
        fill(self.pages.get(&page).map_or(&[], Vec::as_slice), to);
        Ok(())
    }
}

/// A page as it is shipped: its text, and zeros.
fn fill(text: &[u8], to: &mut [u8]) {
    assert!(text.len() <= PAGE_BYTES, "a row is at most a page");
    to.fill(0);
    to[..text.len()].copy_from_slice(text);
}

impl LocalFiles for MemoryDatabases {
    fn trusted(&self, address: &Address) -> Result<Option<Base>, StorageFault> {
        let disk = self.lock();
        Ok(disk.copies.trusted.get(address).copied().filter(|_| disk.files.contains_key(address)))
    }

    fn adoptable(&self, address: &Address) -> Result<bool, StorageFault> {
        let disk = self.lock();
        Ok(disk.files.contains_key(address) && !disk.copies.copies.contains(address))
    }

    fn restore(&self, address: &Address) -> Result<Box<dyn Restoring>, StorageFault> {
        let (node, address) = (self.clone(), address.clone());
        Ok(Box::new(Image { node, address, pages: Pages::new() }))
    }

    fn set_aside(&self, address: &Address) -> Result<(), StorageFault> {
        self.lock().set_aside(address);
        Ok(())
    }
}

struct Image {
    node: MemoryDatabases,
    address: Address,
    pages: Pages,
}

impl Restoring for Image {
    fn write(&mut self, page: u32, bytes: &[u8]) -> Result<(), StorageFault> {
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        self.pages.insert(page, bytes[..end].to_vec());
        Ok(())
    }

    fn finish(mut self: Box<Self>, db_pages: u32, head: Base) -> Result<(), StorageFault> {
        self.pages.retain(|page, _| *page <= db_pages);
        let mut disk = self.node.lock();
        disk.set_aside(&self.address);
        if db_pages == 0 {
            return Ok(());
        }
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let mut texts = std::mem::take(&mut self.pages).into_values().map(text);
        let known = [Meta::InitComponent, Meta::Alarm, Meta::NextAlarm].map(Meta::key);
        let meta = texts.next().unwrap_or_default();
        let meta = meta.lines().filter_map(|line| line.split_once('='));
        let meta = meta.filter_map(|(key, value)| {
            let key = known.into_iter().find(|known| *known == key)?;
            Some((key, value.to_owned()))
        });
        let file = File { meta: meta.collect(), rows: texts.collect() };
        disk.files.insert(self.address.clone(), file);
        disk.copies.copies.insert(self.address.clone());
        disk.copies.trust(self.address.clone(), head);
        Ok(())
    }
}
