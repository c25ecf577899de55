//! Databases in memory. A statement is any text and adds a row of itself; `BEGIN`, `COMMIT`, `END`
//! and `ROLLBACK` do what they say, and a query returns all rows.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::captures::{Capture, Copies};
use crate::address::{Address, Class, Tenant};
use crate::history::Base;
use crate::ports::{
    Capturing, Database, Databases, Left, Meta, OpenError, RowSet, SomeRows, SqlError, SqlValue,
    StorageFault, Syncing,
};
use crate::time::Timestamp;

/// An operation that can be made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    Open,
    /// Opening finds a file that is not this actor's.
    Damaged,
    Statement,
    Commit,
    Sync,
    EndEvent,
    ReadMeta,
    WriteMeta,
    Remove,
    ReadIndex,
    WriteIndex,
    SyncIndex,
    Close,
}

#[derive(Default)]
pub(super) struct File {
    pub rows: Vec<String>,
    pub meta: HashMap<&'static str, String>,
}

#[derive(Default)]
pub(super) struct Disk {
    pub files: HashMap<Address, File>,
    pub copies: Copies,
    fileless: HashMap<Address, String>,
    alarms: BTreeMap<Address, Timestamp>,
    index_synced: usize,
    /// How often the timer read what is due.
    index_reads: usize,
    open: HashMap<Address, usize>,
    /// Times each operation still fails.
    faults: HashMap<Fault, usize>,
    broken_rules: Vec<String>,
    opened: usize,
    closed: usize,
    rested: usize,
    removed: usize,
    time_to_drop: Duration,
    /// Syncs beside a writer end when this lets them.
    sync_turns: Option<Arc<Semaphore>>,
    synced_beside: usize,
    /// Writes until the node crashes.
    writes_left: Option<usize>,
    writes: usize,
    index_is_late: bool,
    late_entries: Vec<(Address, Option<Timestamp>)>,
}

/// A node's databases. Clones are the same node's.
#[derive(Clone, Default)]
pub struct MemoryDatabases(Arc<Mutex<Disk>>);

impl MemoryDatabases {
    pub fn new() -> Self {
        Self::default()
    }

    /// Of a node in a cluster: commits are captured.
    pub fn captured() -> Self {
        let databases = Self::default();
        databases.lock().copies.are_captured = true;
        databases
    }

    /// Makes the next `times` operations of this kind fail.
    pub fn fail(&self, fault: Fault, times: usize) {
        self.lock().faults.insert(fault, times);
    }

    /// The node crashes after so many more writes: nothing of it reaches the disk any more. None
    /// ends that, as a start after the crash does.
    pub fn crash_after(&self, writes: Option<usize>) {
        self.lock().writes_left = writes;
    }

    /// Writes so far: commits, entries of the index, removals.
    pub fn writes(&self) -> usize {
        self.lock().writes
    }

    /// Syncs beside a writer end one by one, as permits are added.
    pub fn hold_syncs(&self) -> Arc<Semaphore> {
        let turns = Arc::new(Semaphore::new(0));
        self.lock().sync_turns = Some(Arc::clone(&turns));
        turns
    }

    /// Syncs beside a writer that have begun.
    pub fn synced_beside(&self) -> usize {
        self.lock().synced_beside
    }

    /// A database then takes this long to let go of its file.
    pub fn take_time_to_drop(&self, time: Duration) {
        self.lock().time_to_drop = time;
    }

    /// What is committed.
    pub fn rows(&self, address: &Address) -> Vec<String> {
        self.lock().files.get(address).map(|file| file.rows.clone()).unwrap_or_default()
    }

    /// Which component the actor's own file says initialised it.
    pub fn init_component(&self, address: &Address) -> Option<String> {
        self.meta(address, Meta::InitComponent)
    }

    /// What the index of alarms says.
    pub fn index(&self, address: &Address) -> Option<Timestamp> {
        self.lock().alarms.get(address).copied()
    }

    /// Puts an entry into the index, as a crash may leave one.
    pub fn set_index(&self, address: &Address, due: Option<Timestamp>) {
        self.lock().enter(address, due);
    }

    /// How many entries the index has.
    pub fn index_len(&self) -> usize {
        self.lock().alarms.len()
    }

    /// A broken twin: what is written to the index reaches it only after the next commit.
    pub fn write_index_late(&self, late: bool) {
        self.lock().index_is_late = late;
    }

    /// How often the index was made durable.
    pub fn index_synced(&self) -> usize {
        self.lock().index_synced
    }

    /// How often what is due was read from the index.
    pub fn index_reads(&self) -> usize {
        self.lock().index_reads
    }

    /// A value the host keeps in the actor's file.
    pub fn meta(&self, address: &Address, key: Meta) -> Option<String> {
        self.lock().files.get(address)?.meta.get(key.key()).cloned()
    }

    /// Databases open now.
    pub fn open_now(&self) -> usize {
        self.lock().open.values().sum()
    }

    /// Databases opened so far.
    pub fn opened(&self) -> usize {
        self.lock().opened
    }

    /// Databases closed in order so far; those merely dropped do not count.
    pub fn closed(&self) -> usize {
        self.lock().closed
    }

    /// How often a database was told that its actor rests.
    pub fn rested(&self) -> usize {
        self.lock().rested
    }

    /// Actors removed so far.
    pub fn removed(&self) -> usize {
        self.lock().removed
    }

    /// Fails if two databases of one address were ever open at once, or one was removed while it
    /// was open.
    pub fn assert_rules_kept(&self) {
        let broken = self.lock().broken_rules.clone();
        assert!(broken.is_empty(), "{broken:?}");
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk {
    fn enter(&mut self, address: &Address, due: Option<Timestamp>) {
        match due {
            Some(due) => self.alarms.insert(address.clone(), due),
            None => self.alarms.remove(address),
        };
    }

    fn write(&mut self, fault: Fault) -> Result<(), StorageFault> {
        self.check(fault)?;
        if let Some(left) = &mut self.writes_left {
            if *left == 0 {
                return Err(StorageFault {
                    operation: "testing",
                    path: "memory".into(),
                    cause: "the node has crashed".into(),
                });
            }
            *left -= 1;
        }
        self.writes += 1;
        Ok(())
    }

    pub fn check(&mut self, fault: Fault) -> Result<(), StorageFault> {
        match self.faults.get_mut(&fault) {
            Some(times) if *times > 0 => {
                *times -= 1;
                Err(StorageFault {
                    operation: "testing",
                    path: "memory".into(),
                    cause: format!("{fault:?} was told to fail"),
                })
            }
            _ => Ok(()),
        }
    }
}

impl Databases for MemoryDatabases {
    fn has_file(&self, address: &Address) -> bool {
        self.lock().files.contains_key(address)
    }

    fn open(&self, address: &Address) -> Result<Box<dyn Database>, OpenError> {
        let mut disk = self.lock();
        if let Err(fault) = disk.check(Fault::Damaged) {
            return Err(OpenError::Damaged { path: fault.path, cause: fault.cause });
        }
        disk.check(Fault::Open)?;
        let open = disk.open.entry(address.clone()).or_default();
        *open += 1;
        if *open > 1 {
            disk.broken_rules.push(format!("{address} was opened while it was open"));
        }
        disk.opened += 1;
        let is_new = !disk.files.contains_key(address);
        disk.copies.opened(address, is_new);
        // A first file takes over what the index knew.
        let known = disk.fileless.remove(address);
        let file = disk.files.entry(address.clone()).or_default();
        if let Some(component) = known {
            file.meta.insert(Meta::InitComponent.key(), component);
        }
        let capture = disk.capture(address);
        let (node, address) = (self.clone(), address.clone());
        Ok(Box::new(MemoryDatabase { node, address, pending: None, capture }))
    }

    fn fileless_init(&self, address: &Address) -> Result<Option<String>, StorageFault> {
        let mut disk = self.lock();
        disk.check(Fault::ReadMeta)?;
        Ok(disk.fileless.get(address).cloned())
    }

    fn set_fileless_init(&self, address: &Address, component: &str) -> Result<(), StorageFault> {
        let mut disk = self.lock();
        disk.write(Fault::WriteMeta)?;
        disk.fileless.insert(address.clone(), component.to_owned());
        Ok(())
    }

    fn indexed_alarm(&self, address: &Address) -> Result<Option<Timestamp>, StorageFault> {
        let mut disk = self.lock();
        disk.check(Fault::ReadIndex)?;
        Ok(disk.alarms.get(address).copied())
    }

    fn index_alarm(&self, address: &Address, due: Option<Timestamp>) -> Result<(), StorageFault> {
        let mut disk = self.lock();
        if disk.index_is_late {
            disk.late_entries.push((address.clone(), due));
            return Ok(());
        }
        disk.write(Fault::WriteIndex)?;
        disk.enter(address, due);
        Ok(())
    }

    fn alarms_due(
        &self,
        tenant: &Tenant,
        class: &Class,
        by: Timestamp,
        most: usize,
    ) -> Result<Vec<(Timestamp, Address)>, StorageFault> {
        let mut disk = self.lock();
        disk.index_reads += 1;
        disk.check(Fault::ReadIndex)?;
        let of_class = disk.alarms.iter().filter(|(address, due)| {
            address.tenant == *tenant && address.class == *class && **due <= by
        });
        let mut due: Vec<_> = of_class.map(|(address, due)| (*due, address.clone())).collect();
        due.sort();
        due.truncate(most);
        Ok(due)
    }

    fn next_alarm(
        &self,
        tenant: &Tenant,
        class: &Class,
        after: Timestamp,
    ) -> Result<Option<Timestamp>, StorageFault> {
        let mut disk = self.lock();
        disk.check(Fault::ReadIndex)?;
        let of_class = disk.alarms.iter().filter(|(address, due)| {
            address.tenant == *tenant && address.class == *class && **due > after
        });
        Ok(of_class.map(|(_, due)| *due).min())
    }

    fn sync_index(&self) -> Result<(), StorageFault> {
        let mut disk = self.lock();
        disk.check(Fault::SyncIndex)?;
        disk.index_synced += 1;
        Ok(())
    }

    fn remove(&self, address: &Address) -> Result<(), StorageFault> {
        let mut disk = self.lock();
        if disk.open.get(address).is_some_and(|open| *open > 0) {
            disk.broken_rules.push(format!("{address} was removed while it was open"));
        }
        disk.write(Fault::Remove)?;
        disk.files.remove(address);
        disk.fileless.remove(address);
        disk.alarms.remove(address);
        disk.copies.removed(address);
        disk.removed += 1;
        Ok(())
    }
}

pub(super) struct MemoryDatabase {
    pub node: MemoryDatabases,
    pub address: Address,
    /// The open transaction.
    pending: Option<Pending>,
    /// How far its commits are captured, if they are.
    pub capture: Option<Capture>,
}

/// What a transaction has written and not committed.
#[derive(Default)]
struct Pending {
    rows: Vec<String>,
    meta: HashMap<&'static str, Option<String>>,
}

impl MemoryDatabase {
    fn commit(&mut self) -> Result<(), StorageFault> {
        let pending = self.pending.take().unwrap_or_default();
        let mut disk = self.node.lock();
        disk.write(Fault::Commit)?;
        let file = disk.files.entry(self.address.clone()).or_default();
        file.rows.extend(pending.rows);
        for (key, value) in pending.meta {
            match value {
                Some(value) => file.meta.insert(key, value),
                None => file.meta.remove(key),
            };
        }
        for (address, due) in std::mem::take(&mut disk.late_entries) {
            disk.write(Fault::WriteIndex)?;
            disk.enter(&address, due);
        }
        Ok(())
    }
}

impl Database for MemoryDatabase {
    fn begin_event(&mut self, _deadline: Instant) {}

    fn end_event(&mut self) -> Result<bool, StorageFault> {
        self.node.lock().check(Fault::EndEvent)?;
        Ok(self.pending.take().is_some())
    }

    fn exec(&mut self, sql: &str, _params: Vec<SqlValue>) -> Result<u64, SqlError> {
        let checked = self.node.lock().check(Fault::Statement);
        checked.map_err(internal)?;
        match sql {
            "BEGIN" => self.pending = Some(Pending::default()),
            "COMMIT" | "END" => self.commit().map_err(internal)?,
            "ROLLBACK" => self.pending = None,
            row => match &mut self.pending {
                Some(pending) => pending.rows.push(row.to_owned()),
                None => {
                    let rows = vec![row.to_owned()];
                    self.pending = Some(Pending { rows, ..Pending::default() });
                    self.commit().map_err(internal)?;
                }
            },
        }
        Ok(1)
    }

    fn exec_before_sync(&mut self, sql: &str, params: Vec<SqlValue>) -> Result<u64, SqlError> {
        if self.in_transaction() && !matches!(sql, "COMMIT" | "END") {
            return Err(SqlError::NotAllowed("a transaction is open".into()));
        }
        self.exec(sql, params)
    }

    fn query(&mut self, _sql: &str, _params: Vec<SqlValue>) -> Result<RowSet, SqlError> {
        let committed = self.node.rows(&self.address);
        let rows = committed.into_iter().chain(self.pending.iter().flat_map(|p| p.rows.clone()));
        Ok(RowSet {
            columns: vec!["row".into()],
            rows: rows.map(|row| vec![SqlValue::Text(row)]).collect(),
        })
    }

    fn in_transaction(&self) -> bool {
        self.pending.is_some()
    }

    fn sync(&mut self) -> Result<(), StorageFault> {
        self.node.lock().check(Fault::Sync)
    }

    fn syncs_beside(&self) -> bool {
        true
    }

    fn sync_beside(&mut self) -> Option<Syncing> {
        let node = self.node.clone();
        let turns = {
            let mut disk = node.lock();
            disk.synced_beside += 1;
            disk.sync_turns.clone()
        };
        Some(Box::pin(async move {
            if let Some(turns) = turns {
                turns.acquire().await.expect("it stays open").forget();
            }
            node.lock().check(Fault::Sync)
        }))
    }

    fn meta(&mut self, key: Meta) -> Result<Option<String>, StorageFault> {
        let mut disk = self.node.lock();
        disk.check(Fault::ReadMeta)?;
        if let Some(pending) = self.pending.as_ref().and_then(|p| p.meta.get(key.key())) {
            return Ok(pending.clone());
        }
        Ok(disk.files.get(&self.address).and_then(|file| file.meta.get(key.key()).cloned()))
    }

    fn set_meta(&mut self, key: Meta, value: Option<&str>) -> Result<(), StorageFault> {
        self.node.lock().check(Fault::WriteMeta)?;
        let is_open = self.pending.is_some();
        let pending = self.pending.get_or_insert_default();
        pending.meta.insert(key.key(), value.map(str::to_owned));
        if is_open { Ok(()) } else { self.commit() }
    }

    fn begin_inspection(&mut self, _deadline: Instant, _left: Left) {}

    fn query_read_only(
        &mut self,
        sql: &str,
        params: Vec<SqlValue>,
        rows_max: usize,
    ) -> Result<SomeRows, SqlError> {
        let checked = self.node.lock().check(Fault::Statement);
        checked.map_err(|fault| SqlError::Internal(fault.to_string()))?;
        let mut set = self.query(sql, params)?;
        let cut = set.rows.len() > rows_max;
        set.rows.truncate(rows_max);
        Ok(SomeRows { set, cut })
    }

    fn export_to(&mut self, _file: &Path) -> Result<(), StorageFault> {
        Ok(())
    }

    fn rest(&mut self) -> bool {
        self.node.lock().rested += 1;
        self.capture.is_none()
    }

    fn close(self: Box<Self>) -> Result<(), StorageFault> {
        let mut disk = self.node.lock();
        disk.check(Fault::Close)?;
        disk.closed += 1;
        Ok(())
    }

    fn capturing(&mut self) -> Option<&mut dyn Capturing> {
        self.capture.is_some().then_some(self as &mut dyn Capturing)
    }

    fn close_at(self: Box<Self>, head: Base) -> Result<(), StorageFault> {
        let is_captured = self.is_captured();
        let (node, address) = (self.node.clone(), self.address.clone());
        self.close()?;
        if is_captured {
            node.lock().copies.trust(address, head);
        }
        Ok(())
    }
}

fn internal(fault: StorageFault) -> SqlError {
    SqlError::Internal(fault.to_string())
}

impl Drop for MemoryDatabase {
    fn drop(&mut self) {
        let time = self.node.lock().time_to_drop;
        if !time.is_zero() {
            // A real close blocks its thread, and that is what is wanted here.
            #[allow(clippy::disallowed_methods)]
            std::thread::sleep(time);
        }
        if let Some(open) = self.node.lock().open.get_mut(&self.address) {
            *open -= 1;
        }
    }
}
