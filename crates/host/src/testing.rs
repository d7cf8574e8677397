//! A temporary root folder into which tests write literal kernel text.

use std::path::{Path, PathBuf};

/// A folder that stands for `/`.
pub(crate) struct Root {
    folder: tempfile::TempDir,
}

impl Root {
    pub(crate) fn new() -> Self {
        Root { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn at(&self, absolute: &str) -> PathBuf {
        crate::files::under(self.folder.path(), absolute)
    }

    pub(crate) fn write(&self, absolute: &str, text: &str) {
        self.write_bytes(absolute, text.as_bytes());
    }

    pub(crate) fn write_bytes(&self, absolute: &str, bytes: &[u8]) {
        let path = self.at(absolute);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders made");
        std::fs::write(path, bytes).expect("file written");
    }
}
