use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::node::Setup;
use super::shim;

/// Watches and fails what a node does to its files: `disk_shim.c`, loaded into its process.
pub struct Disk {
    folder: TempDir,
}

impl Disk {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("make a folder for the disk's log");
        shim::compile("disk_shim.c", folder.path());
        Self { folder }
    }

    /// A node whose files this is about.
    pub fn under(&self, setup: Setup) -> Setup {
        let text = |path: &Path| path.to_str().expect("a path of UTF-8").to_owned();
        setup
            .variable("LD_PRELOAD", &text(&self.folder.path().join("shim.so")))
            .variable("WASMKEEP_TEST_DISK", &text(self.folder.path()))
    }

    /// From now on this operation fails on paths that end so: `fsync` and `unlink` with an error
    /// of input and output, `write` because the disk is full.
    pub fn fail(&self, operation: &str, end_of_path: &str) {
        self.order("fail", operation, end_of_path);
    }

    pub fn fail_once(&self, operation: &str, end_of_path: &str) {
        self.order("fail-once", operation, end_of_path);
    }

    /// From now on each fsync of paths that end so takes 100 ms longer.
    pub fn slow_fsyncs(&self, end_of_path: &str) {
        self.order("slow", "fsync", end_of_path);
    }

    fn order(&self, file: &str, operation: &str, end_of_path: &str) {
        // Whole at once: the node looks at it whenever it likes.
        let unfinished = self.folder.path().join("unfinished");
        fs::write(&unfinished, format!("{operation} {end_of_path}\n")).expect("write an order");
        fs::rename(unfinished, self.folder.path().join(file)).expect("give an order");
    }

    pub fn mend(&self) {
        for file in ["fail", "fail-once", "slow"] {
            let _ = fs::remove_file(self.folder.path().join(file));
        }
    }

    /// What was done since the last look of `done`, and is still for that to tell.
    pub fn so_far(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// What was done since the last look: `fsync PATH`, `unlink! PATH`, `send HTTP/1.1 200 OK`.
    pub fn done(&self) -> Vec<String> {
        let path = self.folder.path().join("log");
        let taken = self.folder.path().join("taken");
        if fs::rename(path, &taken).is_err() {
            return Vec::new();
        }
        let text = fs::read_to_string(&taken).expect("read the disk's log");
        text.lines().map(str::to_owned).collect()
    }
}

/// A real file system of a few MiB, for a node's data.
pub struct SmallDisk {
    folder: TempDir,
}

impl SmallDisk {
    /// None where mounting is not allowed; the reason is printed.
    pub fn mount(mib: u32) -> Option<Self> {
        let folder = tempfile::tempdir().expect("make a folder to mount on");
        let size = format!("size={mib}m");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(folder.path());
        match mount.stdin(Stdio::null()).output() {
            Ok(done) if done.status.success() => Some(Self { folder }),
            Ok(done) => {
                let why = String::from_utf8_lossy(&done.stderr).trim().to_owned();
                println!("no small file system: {why}");
                None
            }
            Err(error) => {
                println!("no small file system: mount: {error}");
                None
            }
        }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Leaves no more room than about this.
    pub fn fill(&self, left: usize) {
        let file = self.folder.path().join("filler");
        let mut length = 0;
        let piece = vec![1; 4096];
        let mut filler = fs::File::create(&file).expect("make a file");
        while std::io::Write::write_all(&mut filler, &piece).is_ok() {
            length += piece.len() as u64;
        }
        filler.set_len(length.saturating_sub(left as u64)).expect("give room back");
    }

    pub fn free(&self) {
        fs::remove_file(self.folder.path().join("filler")).expect("remove the filler");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.folder.path()).status();
    }
}
