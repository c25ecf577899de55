//! A machine's disk: files of databases, their sidecars, and the file of the session. It outlives the
//! node; how much of it is whole after that depends on what crashed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use wasmkeep_supervisors::address::Address;
use wasmkeep_supervisors::history::{Base, Files, PAGE_BYTES, Sidecar, Written};
use wasmkeep_supervisors::lease::Session;
use wasmkeep_supervisors::ports::{LocalFiles, Restoring, StorageFault};
use wasmkeep_supervisors::twin::{Twin, is_broken};

use crate::dice::Dice;
use crate::gate::Gate;
use crate::image::Image;

#[derive(Default)]
struct File {
    inode: u64,
    image: Image,
    /// What the file was when all of it was last on the disk for certain.
    synced: Image,
    wal_frames: u64,
    sidecar: Option<String>,
}

impl File {
    fn bytes(&self) -> u64 {
        u64::from(self.image.db_pages()) * PAGE_BYTES as u64
    }
}

#[derive(Default)]
struct State {
    boot: u64,
    inodes: u64,
    files: BTreeMap<Address, File>,
    session: Option<(Session, u64)>,
}

#[derive(Default)]
pub struct Disk(Mutex<State>);

impl Disk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The machine went down and up: what was not synced is there in part.
    pub fn tear(&self, dice: &Dice) {
        let mut state = self.state();
        state.boot += 1;
        for file in state.files.values_mut() {
            let pages = file.image.db_pages().max(file.synced.db_pages());
            for number in 1..=pages {
                let old = file.synced.page(number).cloned();
                if dice.chance(0.5) {
                    file.image.set(number, old.unwrap_or_else(|| vec![0; PAGE_BYTES].into()));
                }
            }
            if dice.chance(0.5) {
                file.wal_frames = 0;
            }
            file.synced = file.image.clone();
        }
    }

    /// The file of a node that had no bucket.
    pub fn put_single(&self, address: &Address, mut image: Image) {
        image.mark(true);
        let mut state = self.state();
        state.inodes += 1;
        let file = File { inode: state.inodes, synced: image.clone(), image, ..File::default() };
        state.files.insert(address.clone(), file);
    }

    pub fn remember(&self, session: Session) {
        let mut state = self.state();
        state.session = Some((session, state.boot));
    }

    /// The session of the node that ran here before, on this boot of the machine.
    pub fn last_session(&self) -> Option<Session> {
        let state = self.state();
        state.session.filter(|(_, boot)| *boot == state.boot).map(|(session, _)| session)
    }

    pub fn forget_session(&self) {
        self.state().session = None;
    }

    /// What is in the actor's file, which is about to be used. A new one when there is none.
    pub(crate) fn opened(&self, address: &Address) -> Image {
        let mut state = self.state();
        state.inodes += 1;
        let file = File { inode: state.inodes, ..File::default() };
        let file = state.files.entry(address.clone()).or_insert(file);
        if !is_broken(Twin::TrustsFileAfterCrash) {
            file.sidecar = None;
        }
        file.image.clone()
    }

    pub(crate) fn committed(&self, address: &Address, image: &Image, frames: usize) {
        if let Some(file) = self.state().files.get_mut(address) {
            file.image = image.clone();
            file.wal_frames += frames as u64;
        }
    }

    pub(crate) fn close(&self, address: &Address, head: Option<Base>) {
        let mut state = self.state();
        let boot = state.boot;
        let Some(file) = state.files.get_mut(address) else { return };
        file.wal_frames = 0;
        file.sidecar = head.map(|head| {
            let written = Written::Under(format!("boot-{boot}"));
            Sidecar { written, head, bytes: file.bytes(), inode: file.inode }.encode()
        });
    }

    fn trusted(&self, address: &Address) -> Option<Base> {
        let state = self.state();
        let file = state.files.get(address)?;
        let boot_id = format!("boot-{}", state.boot);
        let wal_bytes = if is_broken(Twin::TrustsFileAfterCrash) { 0 } else { file.wal_frames };
        let bytes = file.bytes();
        let sidecar = Sidecar::decode(file.sidecar.as_deref()?.as_bytes()).ok()?;
        let bytes = if is_broken(Twin::TrustsFileAfterCrash) { sidecar.bytes } else { bytes };
        sidecar.trust(Files { boot_id: &boot_id, bytes, inode: file.inode, wal_bytes }).ok()
    }
}

pub fn fault(operation: &'static str, address: &Address) -> StorageFault {
    StorageFault { operation, path: address.to_string(), cause: "the node is gone".into() }
}

/// A node's view of its machine's disk.
pub struct NodeFiles {
    pub disk: Arc<Disk>,
    pub gate: Gate,
}

impl NodeFiles {
    fn alive(&self, operation: &'static str, address: &Address) -> Result<(), StorageFault> {
        if self.gate.is_dead() { Err(fault(operation, address)) } else { Ok(()) }
    }
}

impl LocalFiles for NodeFiles {
    fn trusted(&self, address: &Address) -> Result<Option<Base>, StorageFault> {
        self.alive("read", address)?;
        Ok(self.disk.trusted(address))
    }

    fn adoptable(&self, address: &Address) -> Result<bool, StorageFault> {
        self.alive("read", address)?;
        Ok(self.disk.state().files.get(address).is_some_and(|file| file.image.is_marked()))
    }

    fn restore(&self, address: &Address) -> Result<Box<dyn Restoring>, StorageFault> {
        self.alive("restore", address)?;
        let (disk, gate) = (Arc::clone(&self.disk), self.gate.clone());
        let pages = BTreeMap::new();
        Ok(Box::new(Restore { disk, gate, address: address.clone(), pages }))
    }

    fn set_aside(&self, address: &Address) -> Result<(), StorageFault> {
        self.alive("set aside", address)?;
        self.disk.state().files.remove(address);
        Ok(())
    }
}

struct Restore {
    disk: Arc<Disk>,
    gate: Gate,
    address: Address,
    pages: BTreeMap<u32, Bytes>,
}

impl Restoring for Restore {
    fn write(&mut self, page: u32, bytes: &[u8]) -> Result<(), StorageFault> {
        self.pages.insert(page, Bytes::copy_from_slice(bytes));
        Ok(())
    }

    fn finish(mut self: Box<Self>, db_pages: u32, head: Base) -> Result<(), StorageFault> {
        if self.gate.is_dead() {
            return Err(fault("restore", &self.address));
        }
        let mut state = self.disk.state();
        state.files.remove(&self.address);
        if db_pages == 0 {
            return Ok(());
        }
        state.inodes += 1;
        let mut image = Image::default();
        for (page, bytes) in std::mem::take(&mut self.pages) {
            image.set(page, bytes);
        }
        image.cut(db_pages);
        let file = File { inode: state.inodes, image, ..File::default() };
        state.files.insert(self.address.clone(), file);
        drop(state);
        self.disk.close(&self.address, Some(head));
        Ok(())
    }
}
