//! An open database of tokens, whose commits are captured.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;
use wasmkeep_supervisors::address::Address;
use wasmkeep_supervisors::history::Base;
use wasmkeep_supervisors::ports::{
    Captured, Capturing, Database, Latched, Left, Meta, RowSet, SomeRows, SqlError, SqlValue,
    StorageFault,
};

use crate::disk::{Disk, fault};
use crate::gate::Gate;
use crate::image::{Image, Token};

pub struct TokenDatabase {
    disk: Arc<Disk>,
    gate: Gate,
    address: Address,
    image: Image,
    changed: BTreeSet<u32>,
    wants_whole: bool,
    captured: BTreeMap<u32, Bytes>,
}

impl TokenDatabase {
    /// Opens the actor's database, a new one when there is none.
    pub fn open(disk: &Arc<Disk>, address: &Address, gate: &Gate) -> Self {
        Self {
            disk: Arc::clone(disk),
            gate: gate.clone(),
            address: address.clone(),
            image: disk.opened(address),
            changed: BTreeSet::new(),
            wants_whole: false,
            captured: BTreeMap::new(),
        }
    }

    /// Commits one token. A token that is there changes nothing: false then.
    pub fn add(&mut self, token: Token) -> Result<bool, StorageFault> {
        if self.has(token) {
            return Ok(false);
        }
        self.alive()?;
        let changed = self.image.add(token);
        self.disk.committed(&self.address, &self.image, changed.len());
        self.changed.extend(changed);
        Ok(true)
    }

    /// Deletes all that is in it.
    pub fn clear(&mut self) -> Result<(), StorageFault> {
        self.alive()?;
        self.image = Image::empty();
        self.changed = BTreeSet::from([1]);
        self.disk.committed(&self.address, &self.image, 1);
        Ok(())
    }

    pub fn has(&self, token: Token) -> bool {
        self.image.tokens().is_ok_and(|tokens| tokens.contains(&token))
    }

    pub fn image(&self) -> &Image {
        &self.image
    }

    fn alive(&self) -> Result<(), StorageFault> {
        if self.gate.is_dead() { Err(fault("write", &self.address)) } else { Ok(()) }
    }
}

impl Capturing for TokenDatabase {
    fn is_in_transaction(&self) -> bool {
        false
    }

    fn capture(&mut self) -> Result<Option<Captured>, StorageFault> {
        self.alive()?;
        let is_whole = std::mem::take(&mut self.wants_whole);
        let mut changed = std::mem::take(&mut self.changed);
        if is_whole {
            changed = (1..=self.image.db_pages()).collect();
        }
        if changed.is_empty() {
            return Ok(None);
        }
        let of = |page: &u32| Some((*page, self.image.page(*page)?.clone()));
        self.captured = changed.iter().filter_map(of).collect();
        let changed: Vec<u32> = self.captured.keys().copied().collect();
        let frames = changed.len() as u32;
        let is_whole = changed.len() == self.image.db_pages() as usize;
        Ok(Some(Captured { changed, db_pages: self.image.db_pages(), frames, is_whole }))
    }

    fn read_captured(&mut self, page: u32, to: &mut [u8]) -> Result<(), StorageFault> {
        let bytes = self.captured.get(&page).ok_or_else(|| fault("read", &self.address))?;
        to.copy_from_slice(bytes);
        Ok(())
    }

    fn capture_whole(&mut self) {
        self.wants_whole = true;
    }

    fn adopted(&mut self) -> Result<(), StorageFault> {
        self.alive()?;
        self.image.mark(false);
        self.changed.insert(1);
        self.disk.committed(&self.address, &self.image, 1);
        Ok(())
    }

    fn vacuum_if_sparse(&mut self) -> Result<bool, StorageFault> {
        self.alive()?;
        // Some of the time, and always the same time.
        let is_sparse = self.changed.is_empty() && self.image.db_pages() % 4 == 3;
        self.wants_whole |= is_sparse;
        Ok(is_sparse)
    }

    fn latch(&mut self) -> Result<Option<Box<dyn Latched>>, StorageFault> {
        self.alive()?;
        let is_captured = self.changed.is_empty() && !self.wants_whole;
        let latch = || Box::new(Latch(self.image.clone())) as Box<dyn Latched>;
        Ok(is_captured.then(latch))
    }
}

struct Latch(Image);

impl Latched for Latch {
    fn db_pages(&self) -> u32 {
        self.0.db_pages()
    }

    fn read(&self, page: u32, to: &mut [u8]) -> Result<(), StorageFault> {
        let no_page = || StorageFault {
            operation: "read",
            path: format!("page {page}"),
            cause: "there is no such page".into(),
        };
        to.copy_from_slice(self.0.page(page).ok_or_else(no_page)?);
        Ok(())
    }
}

const NO_SQL: &str = "tokens are no tables";

/// What replication asks of a database: to be captured and closed. Of the rest there is nothing.
impl Database for TokenDatabase {
    fn begin_event(&mut self, _: Instant) {}

    fn end_event(&mut self) -> Result<bool, StorageFault> {
        Ok(false)
    }

    fn exec(&mut self, _: &str, _: Vec<SqlValue>) -> Result<u64, SqlError> {
        Err(SqlError::NotAllowed(NO_SQL.into()))
    }

    fn exec_before_sync(&mut self, _: &str, _: Vec<SqlValue>) -> Result<u64, SqlError> {
        Err(SqlError::NotAllowed(NO_SQL.into()))
    }

    fn query(&mut self, _: &str, _: Vec<SqlValue>) -> Result<RowSet, SqlError> {
        Err(SqlError::NotAllowed(NO_SQL.into()))
    }

    fn in_transaction(&self) -> bool {
        false
    }

    fn sync(&mut self) -> Result<(), StorageFault> {
        self.alive()
    }

    fn meta(&mut self, _: Meta) -> Result<Option<String>, StorageFault> {
        Ok(None)
    }

    fn set_meta(&mut self, _: Meta, _: Option<&str>) -> Result<(), StorageFault> {
        Err(fault("write meta of", &self.address))
    }

    fn begin_inspection(&mut self, _: Instant, _: Left) {}

    fn query_read_only(
        &mut self,
        _: &str,
        _: Vec<SqlValue>,
        _: usize,
    ) -> Result<SomeRows, SqlError> {
        Err(SqlError::NotAllowed(NO_SQL.into()))
    }

    fn export_to(&mut self, _: &Path) -> Result<(), StorageFault> {
        Err(fault("export", &self.address))
    }

    fn rest(&mut self) -> bool {
        false
    }

    fn close(self: Box<Self>) -> Result<(), StorageFault> {
        self.alive()?;
        self.disk.close(&self.address, None);
        Ok(())
    }

    fn capturing(&mut self) -> Option<&mut dyn Capturing> {
        Some(self)
    }

    fn close_at(self: Box<Self>, head: Base) -> Result<(), StorageFault> {
        self.alive()?;
        let is_captured = self.changed.is_empty() && !self.wants_whole;
        self.disk.close(&self.address, is_captured.then_some(head));
        Ok(())
    }
}
