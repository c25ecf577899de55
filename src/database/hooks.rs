//! The three places where SQLite calls back: before it does something (`Gate`), while it works
//! (`Budget`), and after a commit.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use rusqlite::{Connection, ffi};

use super::budget::Budget;
use super::sandbox::{self, Action, Control, Verdict};

/// SQLite looks at the budgets every so many steps of its virtual machine: some 10 µs, but
/// hundreds of milliseconds when each step makes a value of the greatest size.
const STEPS_BETWEEN_LOOKS: c_int = 500;

/// What compiling a statement told about it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traits {
    pub control: Option<Control>,
    pub changes_schema: bool,
}

/// Decides what the running statement may do, and remembers why it was refused.
///
/// SQLite also asks when it compiles a statement again in the middle of a step, so the mode holds
/// from before a statement is compiled until after its last step.
#[derive(Default)]
pub struct Gate {
    host: Cell<bool>,
    refusal: RefCell<Option<String>>,
    traits: Cell<Traits>,
}

impl Gate {
    /// Begins a guest's statement.
    pub fn begin(&self) {
        self.refusal.take();
        self.traits.take();
    }

    /// Why the statement was refused, if it was.
    pub fn take_refusal(&self) -> Option<String> {
        self.refusal.take()
    }

    pub fn traits(&self) -> Traits {
        self.traits.get()
    }

    fn decide(&self, action: Action<'_>, database: Option<&str>) -> c_int {
        let mut traits = self.traits.get();
        if let Action::Control(control) = action {
            traits.control = Some(control);
        }
        traits.changes_schema |= action.changes_schema();
        self.traits.set(traits);
        if self.host.get() {
            return ffi::SQLITE_OK;
        }
        match sandbox::verdict(action, database) {
            Verdict::Allow => ffi::SQLITE_OK,
            Verdict::Skip => ffi::SQLITE_IGNORE,
            Verdict::Refuse(why) => {
                self.refusal.borrow_mut().get_or_insert(why);
                ffi::SQLITE_DENY
            }
        }
    }
}

/// State that SQLite's callbacks share with the open database. Everything happens on the one
/// thread that uses the connection at the time.
pub struct Shared {
    pub gate: Gate,
    pub budget: Budget,
    /// Frames in the WAL after the last commit.
    pub wal_frames: Cell<u32>,
    /// The WAL began anew without a checkpoint of ours: what was in it is not where it was counted.
    pub wal_restarted: Cell<bool>,
    /// Something was committed since the last fsync.
    pub unsynced: Cell<bool>,
}

/// Owns `Shared` at an address that SQLite may keep. Must outlive the connection.
pub struct Hooks(NonNull<Shared>);

// SAFETY: `Shared` is reached through the connection's one user only, who is on one thread at a
// time; nothing in it is bound to a thread.
unsafe impl Send for Hooks {}

impl Hooks {
    pub fn new(budget: Budget) -> Self {
        let shared = Shared {
            gate: Gate::default(),
            budget,
            wal_frames: Cell::new(0),
            wal_restarted: Cell::new(false),
            unsynced: Cell::new(false),
        };
        Self(NonNull::from(Box::leak(Box::new(shared))))
    }

    /// Has SQLite call back for everything `connection` does from here on. The connection must
    /// be closed before `self` is dropped.
    pub fn install(&self, connection: &Connection) {
        let shared = self.0.as_ptr().cast::<c_void>();
        // SAFETY: the connection is open, and `shared` lives until it is closed (the caller's
        // promise). The callbacks only ever read it as `&Shared`.
        unsafe {
            let db = connection.handle();
            ffi::sqlite3_set_authorizer(db, Some(authorize), shared);
            ffi::sqlite3_progress_handler(db, STEPS_BETWEEN_LOOKS, Some(look), shared);
            ffi::sqlite3_wal_hook(db, Some(committed), shared);
        }
    }

    /// Runs the host's own SQL: everything is allowed and nothing is charged.
    pub fn as_host<T>(&self, work: impl FnOnce() -> T) -> T {
        struct Guest<'a>(&'a Cell<bool>);
        impl Drop for Guest<'_> {
            fn drop(&mut self) {
                self.0.set(false);
            }
        }
        self.gate.host.set(true);
        let _back_to_guest = Guest(&self.gate.host);
        work()
    }
}

impl Deref for Hooks {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        // SAFETY: allocated in `new`, freed in `drop` only.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Hooks {
    fn drop(&mut self) {
        // SAFETY: from `Box::leak` in `new`; the connection, the only other holder, is closed.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

unsafe extern "C" fn authorize(
    shared: *mut c_void,
    code: c_int,
    first: *const c_char,
    second: *const c_char,
    database: *const c_char,
    _trigger_or_view: *const c_char,
) -> c_int {
    // SAFETY: SQLite passes what `install` gave it, and strings that live for this call.
    let (shared, first, second, database) =
        unsafe { (&*shared.cast::<Shared>(), text(first), text(second), text(database)) };
    let decided = catch_unwind(AssertUnwindSafe(|| {
        let action = Action::from_sqlite(code, first.as_deref(), second.as_deref());
        shared.gate.decide(action, database.as_deref())
    }));
    decided.unwrap_or(ffi::SQLITE_DENY)
}

/// A table-valued pragma passes on whatever bytes the guest gave it, hence lossy.
unsafe fn text<'a>(pointer: *const c_char) -> Option<std::borrow::Cow<'a, str>> {
    // SAFETY: not null, so a NUL-terminated string of SQLite's.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_string_lossy())
}

unsafe extern "C" fn look(shared: *mut c_void) -> c_int {
    // SAFETY: SQLite passes what `install` gave it.
    let shared = unsafe { &*shared.cast::<Shared>() };
    c_int::from(shared.budget.must_stop())
}

unsafe extern "C" fn committed(
    shared: *mut c_void,
    _db: *mut ffi::sqlite3,
    _database: *const c_char,
    frames: c_int,
) -> c_int {
    // SAFETY: SQLite passes what `install` gave it.
    let shared = unsafe { &*shared.cast::<Shared>() };
    // Every commit adds frames; a checkpoint sets the number to 0.
    if shared.wal_frames.replace(frames.unsigned_abs()) >= frames.unsigned_abs() {
        shared.wal_restarted.set(true);
    }
    shared.unsynced.set(true);
    ffi::SQLITE_OK
}
