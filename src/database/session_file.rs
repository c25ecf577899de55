//! `session` in the data directory: the last session this node wrote a lease with, and the start of the
//! machine it did that in.
//!
//! ```text
//! wasmkeep session 1
//! <session>
//! <boot id of the kernel>
//! ```
//!
//! A process that finds its predecessor's session there need not wait for that lease to expire: the
//! lock of the data directory says that the predecessor is gone. It says so on one machine only: a
//! volume may have been attached elsewhere while its old machine runs on, so another boot id counts
//! for nothing.

use std::fs;
use std::io::ErrorKind;

use wasmkeep_supervisors::lease::Session;

use super::data_dir::{DataDir, DataDirError, write_whole};
use super::index_trust::this_boot;

const FORMAT: &str = "wasmkeep session 1";
const NAME: &str = "session";

impl DataDir {
    /// The session of the process before this one, if that is known to be gone. A file that says
    /// nothing of use is no error: the node waits then.
    pub fn last_session(&self) -> Result<Option<Session>, DataDirError> {
        let path = self.path().join(NAME);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(this_boot().and_then(|boot| session_of(&text, &boot))),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidData) => {
                Ok(None)
            }
            Err(source) => Err(DataDirError::Io { operation: "read", path, source }),
        }
    }

    /// Called before a lease with this session is written to the bucket.
    pub fn remember_session(&self, session: Session) -> Result<(), DataDirError> {
        let Some(boot) = this_boot() else { return Ok(()) };
        let path = self.path().join(NAME);
        write_whole(&path, &format!("{FORMAT}\n{session}\n{boot}\n"))
            .map_err(|source| DataDirError::Io { operation: "write", path, source })
    }
}

fn session_of(text: &str, boot: &str) -> Option<Session> {
    let lines: Vec<&str> = text.lines().collect();
    match lines.as_slice() {
        [FORMAT, session, of] if *of == boot && text.ends_with('\n') => session.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: Session = Session::from_bytes([7; 16]);

    #[test]
    fn only_a_session_of_this_start_of_the_machine_counts() {
        let text = format!("{FORMAT}\n{SESSION}\nthis\n");
        assert_eq!(session_of(&text, "this"), Some(SESSION));
        assert_eq!(session_of(&text, "another"), None);
        for damaged in ["", "x", text.trim_end(), &text.replace("session 1", "session 2")] {
            assert_eq!(session_of(damaged, "this"), None, "{damaged:?}");
        }
        assert_eq!(session_of(&format!("{text}more\n"), "this"), None);
    }

    #[test]
    fn the_next_process_finds_the_last_session() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let open = || DataDir::open(folder.path()).expect("a data directory");
        let data_dir = open();
        assert_eq!(data_dir.last_session().expect("it reads"), None);
        for byte in [1, 7] {
            data_dir.remember_session(Session::from_bytes([byte; 16])).expect("it writes");
        }
        drop(data_dir);
        assert_eq!(open().last_session().expect("it reads"), Some(SESSION));
        fs::write(folder.path().join(NAME), [0xff, 0xfe]).expect("it writes");
        assert_eq!(open().last_session().expect("it reads"), None);
    }
}
