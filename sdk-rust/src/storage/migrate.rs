use super::{exec, query_as, transaction};
use crate::{Error, Result};

/// Beside the actor's own tables. `step` is a fingerprint of what ran.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS _sdk_migrations (
    version INTEGER PRIMARY KEY,
    step INTEGER NOT NULL,
    breaking INTEGER NOT NULL,
    at INTEGER NOT NULL DEFAULT (unixepoch())
) STRICT";

/// One step of [`migrate`]: SQL, or a function where SQL alone will not do.
#[derive(Clone, Debug)]
pub struct Migration {
    work: Work,
    breaking: bool,
}

#[derive(Clone, Debug)]
enum Work {
    Statements(Vec<&'static str>),
    Function(&'static str, fn() -> Result<()>),
}

impl Migration {
    /// One statement. A plain string is the same.
    pub fn sql(statement: &'static str) -> Self {
        Migration::statements([statement])
    }

    /// Several statements, which take effect together.
    pub fn statements(statements: impl IntoIterator<Item = &'static str>) -> Self {
        Migration::of(Work::Statements(statements.into_iter().collect()))
    }

    /// A function. It runs inside the step's transaction, so it opens none itself. The name stands
    /// for it: keep the name even if the function is mended.
    pub fn function(name: &'static str, run: fn() -> Result<()>) -> Self {
        Migration::of(Work::Function(name, run))
    }

    /// Says that code from before this step cannot work with what it leaves: a column renamed, a
    /// meaning changed. Such code then refuses the database instead of misreading it.
    pub fn breaking(mut self) -> Self {
        self.breaking = true;
        self
    }

    fn of(work: Work) -> Self {
        Migration { work, breaking: false }
    }

    fn run(&self) -> Result<()> {
        match &self.work {
            Work::Statements(statements) => {
                for statement in statements {
                    exec(statement, ())?;
                }
                Ok(())
            }
            Work::Function(_, run) => run(),
        }
    }

    /// Two steps with the same one are the same step. White space does not count.
    fn fingerprint(&self) -> i64 {
        let texts = match &self.work {
            Work::Statements(statements) => statements.as_slice(),
            Work::Function(name, _) => std::slice::from_ref(name),
        };
        // FNV-1a: nobody makes collisions on purpose here.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for text in texts {
            let words = text.split_whitespace().flat_map(|word| word.bytes().chain([b' ']));
            for byte in words.chain([b';']) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        hash.cast_signed()
    }
}

impl From<&'static str> for Migration {
    fn from(statement: &'static str) -> Self {
        Migration::sql(statement)
    }
}

impl From<&&'static str> for Migration {
    fn from(statement: &&'static str) -> Self {
        Migration::sql(statement)
    }
}

/// Why [`migrate`] did not bring the database to what the code expects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MigrateError {
    /// Newer code ran a step that older code cannot work with, and this is older code. Nothing was
    /// changed: deploy newer code again.
    #[error(
        "the database is at version {database}, this code knows {code}, and step {step} is marked \
         as breaking: deploy code that has the step"
    )]
    TooNew {
        /// The last step the database has had.
        database: usize,
        /// How many steps this code has.
        code: usize,
        /// The first breaking step this code does not have.
        step: usize,
    },
    /// A step that has run here is another one in this code. Nothing was changed: put the step
    /// back as it was, and append a new one.
    #[error("step {step} is not the one that ran on this database: put it back, append a new one")]
    Changed {
        /// Which, counted from 1.
        step: usize,
    },
    /// The table of versions was changed by somebody else.
    #[error("_sdk_migrations has no version {missing}, but a later one")]
    Gap {
        /// The first version that is not there.
        missing: usize,
    },
    /// A step failed, and was rolled back. Those before it stay; the next event tries it again.
    #[error("step {step} failed: {how}")]
    Failed {
        /// Which, counted from 1.
        step: usize,
        /// What it said.
        how: String,
    },
}

/// Brings the database to what the code expects: runs the steps it has not had, each in a
/// transaction of its own. Call it in [`Actor::init`](crate::Actor::init), which runs after each
/// deploy.
///
/// ```no_run
/// # use wasmkeep_sdk::{Result, storage::{self, Migration}};
/// fn init() -> Result<()> {
///     storage::migrate([
///         Migration::sql("CREATE TABLE items (id INTEGER PRIMARY KEY, title TEXT NOT NULL)"),
///         Migration::statements([
///             "ALTER TABLE items ADD COLUMN words INTEGER NOT NULL DEFAULT 0",
///             "CREATE INDEX items_by_words ON items (words)",
///         ]),
///         Migration::function("count the words", count_words),
///     ])
/// }
///
/// fn count_words() -> Result<()> {
///     for (id, title) in storage::query_as::<(i64, String)>("SELECT id, title FROM items", ())? {
///         let words = title.split_whitespace().count() as u32;
///         storage::exec("UPDATE items SET words = ? WHERE id = ?", (words, id))?;
///     }
///     Ok(())
/// }
/// ```
///
/// Where SQL is enough: `storage::migrate(["CREATE TABLE …", "ALTER TABLE …"])`.
///
/// **Append only.** A step is known by its place and its text (white space aside). One that has
/// run somewhere is never changed, moved or removed: [`MigrateError::Changed`].
///
/// **Back to older code.** A database that is newer than the code goes on working with it: the
/// steps it lacks added things, and older code does not look at them. Mark a step that older code
/// would misread as [`breaking`](Migration::breaking): then older code fails with
/// [`MigrateError::TooNew`] and touches nothing. After a way back, new code appends behind *all*
/// steps that have ever run.
///
/// **A failure** rolls its step back; the steps before it stay, and the next event goes on there.
/// So a long migration is best several steps: each has the limits of an event to itself if need be.
///
/// What ran is in the table `_sdk_migrations`, a row for each step.
pub fn migrate<M: Into<Migration>>(steps: impl IntoIterator<Item = M>) -> Result<()> {
    let steps: Vec<Migration> = steps.into_iter().map(Into::into).collect();
    exec(TABLE, ())?;
    let had: Vec<Had> =
        query_as("SELECT version, step, breaking FROM _sdk_migrations ORDER BY version", ())?;
    let expected: Vec<i64> = steps.iter().map(Migration::fingerprint).collect();
    let done = steps_done(&had, &expected)?;
    for (at, step) in steps.iter().enumerate().skip(done) {
        let version = at + 1;
        let run = || {
            step.run()?;
            let row = (version as u32, expected[at], step.breaking);
            exec("INSERT INTO _sdk_migrations (version, step, breaking) VALUES (?, ?, ?)", row)?;
            Ok(())
        };
        transaction(run).map_err(|error: Error| MigrateError::Failed {
            step: version,
            how: error.to_string(),
        })?;
    }
    Ok(())
}

/// What a database has had: version, fingerprint, whether older code must not touch it.
type Had = (usize, i64, bool);

/// How many of the expected steps a database has had, if the code may work with it.
fn steps_done(had: &[Had], expected: &[i64]) -> Result<usize, MigrateError> {
    for (at, &(version, step, _)) in had.iter().enumerate() {
        if version != at + 1 {
            return Err(MigrateError::Gap { missing: at + 1 });
        }
        if expected.get(at).is_some_and(|&expected| expected != step) {
            return Err(MigrateError::Changed { step: version });
        }
    }
    let unknown = had.get(expected.len()..).unwrap_or_default();
    match unknown.iter().find(|(_, _, breaking)| *breaking) {
        Some(&(step, _, _)) => {
            Err(MigrateError::TooNew { database: had.len(), code: expected.len(), step })
        }
        None => Ok(had.len().min(expected.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_database_has_had_decides_what_runs() {
        use MigrateError::{Changed, Gap, TooNew};
        type Row<'a> = (&'a [Had], &'a [i64], Result<usize, MigrateError>);
        let table: [Row; 9] = [
            (&[], &[7, 8], Ok(0)),
            (&[(1, 7, false)], &[7, 8], Ok(1)),
            (&[(1, 7, false), (2, 8, true)], &[7, 8], Ok(2)),
            // Newer than the code: older code goes on, unless a step it lacks forbids it.
            (&[(1, 7, true), (2, 8, false)], &[7], Ok(1)),
            (&[(1, 7, false), (2, 8, false), (3, 9, true)], &[7], {
                Err(TooNew { database: 3, code: 1, step: 3 })
            }),
            // After a way back, another second step in place of the one that ran.
            (&[(1, 7, false), (2, 8, false)], &[7, 9, 10], Err(Changed { step: 2 })),
            (&[(1, 7, false)], &[8], Err(Changed { step: 1 })),
            (&[(2, 8, false)], &[7, 8], Err(Gap { missing: 1 })),
            (&[], &[], Ok(0)),
        ];
        for (had, expected, done) in table {
            assert_eq!(steps_done(had, expected), done, "{had:?} with {expected:?}");
        }
    }

    #[test]
    fn a_step_is_known_by_its_text_and_not_by_its_white_space() {
        let of = |step: Migration| step.fingerprint();
        let table = of("CREATE TABLE t (a, b)".into());
        assert_eq!(table, of("CREATE  TABLE t\n    (a, b)".into()));
        assert_ne!(table, of("CREATE TABLE t (a, bb)".into()));
        assert_ne!(of(Migration::statements(["a", "b"])), of(Migration::statements(["a b"])));
        assert_ne!(of(Migration::statements(["a", "b"])), of(Migration::statements(["b", "a"])));
        let function = Migration::function("fill", || Ok(()));
        assert_eq!(of(function.clone()), of(function.breaking()));
    }

    #[test]
    fn the_same_step_in_typescript_has_the_same_fingerprint() {
        // `sdk-ts/test/migrate.test.js` has these numbers too.
        let of = |step: Migration| step.fingerprint();
        assert_eq!(of("CREATE TABLE t (a, b)".into()), -4_576_431_964_475_159_892);
        let several = Migration::statements(["SELECT 'é\u{a0}日本'", "x"]);
        assert_eq!(of(several), -7_820_729_092_208_476_899);
    }

    #[test]
    fn an_error_says_what_to_do() {
        let error = MigrateError::TooNew { database: 3, code: 1, step: 2 };
        assert_eq!(
            error.to_string(),
            "the database is at version 3, this code knows 1, and step 2 is marked as breaking: \
             deploy code that has the step"
        );
    }
}
