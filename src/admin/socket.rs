//! The socket in the data directory: where it is, and how it is reached when its path is too long
//! for a socket's address.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

const NAME: &str = "admin.sock";
/// The kernel's `sun_path`, without the NUL at its end.
const PATH_BYTES_MAX: usize = 107;

/// A path that is short enough, while this lives.
struct Reachable {
    path: PathBuf,
    _directory: Option<File>,
}

impl Reachable {
    fn new(directory: &Path) -> io::Result<Self> {
        let path = directory.join(NAME);
        if path.as_os_str().as_bytes().len() <= PATH_BYTES_MAX {
            return Ok(Self { path, _directory: None });
        }
        let directory = File::open(directory)?;
        let path = format!("/proc/self/fd/{}/{NAME}", directory.as_raw_fd());
        Ok(Self { path: path.into(), _directory: Some(directory) })
    }
}

/// Listens in a data directory whose lock is held: a socket that is there was left by a server that
/// was killed.
pub fn listen(directory: &Path) -> io::Result<UnixListener> {
    remove(directory)?;
    let reachable = Reachable::new(directory)?;
    let listener = UnixListener::bind(&reachable.path)?;
    fs::set_permissions(&reachable.path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

pub async fn connect(directory: &Path) -> io::Result<UnixStream> {
    let reachable = Reachable::new(directory)?;
    UnixStream::connect(&reachable.path).await
}

pub fn remove(directory: &Path) -> io::Result<()> {
    match fs::remove_file(directory.join(NAME)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_path_of_any_length_is_reached_and_a_stale_socket_replaced() {
        let home = tempfile::tempdir().expect("a directory");
        for name in ["short".to_owned(), "long".repeat(50)] {
            let directory = home.path().join(name);
            fs::create_dir(&directory).expect("a directory");
            drop(listen(&directory).expect("it listens"));
            assert!(connect(&directory).await.is_err(), "nobody answers on a stale socket");
            let listener = listen(&directory).expect("it replaces a stale socket");
            let (connected, accepted) = tokio::join!(connect(&directory), listener.accept());
            connected.expect("it is reached");
            accepted.expect("it is reached");
            let mode = fs::metadata(directory.join(NAME)).expect("a socket").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }
}
