//! Bounds the memory that one guest's SQL makes SQLite allocate.
//!
//! SQLite itself only knows a bound for the whole process, under which one actor's sort would
//! fail the others' reads. So SQLite's allocator is wrapped, and an allocation is charged to the
//! thread that makes it while that thread runs a guest's statement. Past the bound an allocation
//! fails, which SQLite turns into `SQLITE_NOMEM` for that statement alone.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::OnceLock;

use rusqlite::ffi;

/// What a statement that was refused memory may still take, so that SQLite can undo it.
const RESERVE_BYTES: i64 = 4 * 1024 * 1024;

struct Meter {
    charging: Cell<bool>,
    left: Cell<i64>,
    refused: Cell<bool>,
}

thread_local! {
    static METER: Meter = const {
        Meter { charging: Cell::new(false), left: Cell::new(0), refused: Cell::new(false) }
    };
}

/// Charges this thread's SQLite memory until it is dropped.
pub struct Charge(());

impl Charge {
    pub fn begin(left: i64) -> Self {
        METER.with(|meter| {
            meter.left.set(left);
            meter.refused.set(false);
            meter.charging.set(true);
        });
        Self(())
    }

    pub fn left(&self) -> i64 {
        METER.with(|meter| meter.left.get())
    }

    /// Whether an allocation was refused since `begin`.
    pub fn refused(&self) -> bool {
        METER.with(|meter| meter.refused.get())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        METER.with(|meter| meter.charging.set(false));
    }
}

/// Puts the allocator in place; once per process, and before its first database is opened.
/// Without it (something else in the process opened a database earlier) memory is not bounded.
pub fn install() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let mut methods = MaybeUninit::<ffi::sqlite3_mem_methods>::zeroed();
        // SAFETY: SQLite fills `methods`, and copies ours; `BASE` is set before they can be
        // called. Both calls refuse by their result when SQLite is in use.
        let result = unsafe {
            let mut result =
                ffi::sqlite3_config(ffi::SQLITE_CONFIG_GETMALLOC, methods.as_mut_ptr());
            if result == ffi::SQLITE_OK {
                let base = methods.assume_init();
                BASE.get_or_init(|| Base(base));
                let mut ours = ffi::sqlite3_mem_methods {
                    xMalloc: Some(allocate),
                    xFree: Some(free),
                    xRealloc: Some(reallocate),
                    ..base
                };
                result = ffi::sqlite3_config(ffi::SQLITE_CONFIG_MALLOC, &raw mut ours);
            }
            if result == ffi::SQLITE_OK {
                // SQLite's own count of its memory takes one lock for the whole process at
                // every allocation, and nobody reads it.
                result = ffi::sqlite3_config(ffi::SQLITE_CONFIG_MEMSTATUS, 0 as c_int);
            }
            result
        };
        if result != ffi::SQLITE_OK {
            tracing::warn!(result, "sqlite was in use before the server: its memory is unbounded");
        }
    });
}

struct Base(ffi::sqlite3_mem_methods);

// SAFETY: SQLite's own allocator, which may be called from any thread.
unsafe impl Send for Base {}
// SAFETY: as above.
unsafe impl Sync for Base {}

static BASE: OnceLock<Base> = OnceLock::new();

fn base() -> &'static ffi::sqlite3_mem_methods {
    &BASE.get().expect("set before SQLite is given our allocator").0
}

fn size_of(memory: *mut c_void) -> i64 {
    let size = base().xSize.expect("SQLite's allocator is complete");
    // SAFETY: `memory` came from this allocator.
    i64::from(unsafe { size(memory) })
}

/// Whether `bytes` more may be taken.
fn may_take(bytes: i64) -> bool {
    METER
        .try_with(|meter| {
            if !meter.charging.get() || bytes <= meter.left.get() {
                return true;
            }
            if !meter.refused.replace(true) {
                meter.left.set(meter.left.get() + RESERVE_BYTES);
            }
            false
        })
        .unwrap_or(true)
}

fn charge(bytes: i64) {
    // A thread that ends has no meter any more, and runs no statement either.
    let _ = METER.try_with(|meter| meter.left.set(meter.left.get() - bytes));
}

unsafe extern "C" fn allocate(bytes: c_int) -> *mut c_void {
    if !may_take(i64::from(bytes)) {
        return std::ptr::null_mut();
    }
    let allocate = base().xMalloc.expect("SQLite's allocator is complete");
    // SAFETY: SQLite's allocator, called as SQLite would.
    let memory = unsafe { allocate(bytes) };
    if !memory.is_null() {
        charge(size_of(memory));
    }
    memory
}

unsafe extern "C" fn free(memory: *mut c_void) {
    if memory.is_null() {
        return;
    }
    charge(-size_of(memory));
    let free = base().xFree.expect("SQLite's allocator is complete");
    // SAFETY: `memory` came from this allocator, and SQLite gives it up.
    unsafe { free(memory) };
}

unsafe extern "C" fn reallocate(memory: *mut c_void, bytes: c_int) -> *mut c_void {
    let before = size_of(memory);
    if !may_take(i64::from(bytes) - before) {
        return std::ptr::null_mut();
    }
    let reallocate = base().xRealloc.expect("SQLite's allocator is complete");
    // SAFETY: `memory` came from this allocator.
    let moved = unsafe { reallocate(memory, bytes) };
    if !moved.is_null() {
        charge(size_of(moved) - before);
    }
    moved
}
