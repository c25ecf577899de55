use std::fs;

use tempfile::TempDir;

use super::node::Setup;
use super::shim;

/// A node's wall clock, which is off and can be set: `clock_shim.c`, loaded into its process.
pub struct WallClock {
    folder: TempDir,
    library: String,
}

impl WallClock {
    /// Off by so many seconds.
    pub fn off_by(seconds: i64) -> Self {
        let folder = tempfile::tempdir().expect("make a folder for the clock");
        let library = shim::compile("clock_shim.c", folder.path());
        let clock = Self { folder, library };
        clock.step(seconds);
        clock
    }

    /// A node that goes by it.
    pub fn under(&self, setup: Setup) -> Setup {
        let file = self.folder.path().join("off-by");
        setup
            .variable("LD_PRELOAD", &self.library)
            .variable("WASMKEEP_TEST_CLOCK", file.to_str().expect("a path of UTF-8"))
    }

    /// Sets it: off by so many seconds from now on.
    pub fn step(&self, seconds: i64) {
        let unfinished = self.folder.path().join("unfinished");
        fs::write(&unfinished, seconds.to_string()).expect("write how far it is off");
        fs::rename(unfinished, self.folder.path().join("off-by")).expect("set the clock");
    }
}
