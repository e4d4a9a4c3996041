//! A directory for the files of one test.

use std::fs;
use std::path::PathBuf;

/// A directory that goes with the value.
pub(crate) struct Dir(pub(crate) PathBuf);

impl Dir {
    pub(crate) fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("egret-{test}-{}", std::process::id()));
        fs::create_dir(&path).expect("a directory of this test");
        Self(path)
    }

    /// Where a file of this name is in it.
    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a path").to_owned()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
