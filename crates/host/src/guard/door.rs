//! The one door through which the guard touches the outside. Crash tests put another in its place that dies at the
//! n-th operation; tests of kernel behaviour put one there that grants in part or rewrites other settings.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use crate::files::under;
use crate::settings::{self, SettingError};

/// Everything that the guard does to files.
pub trait Door: Send {
    /// The present value of a setting.
    fn get(&mut self, root: &Path, key: &str) -> Result<String, SettingError>;
    /// Writes a setting.
    fn put(&mut self, root: &Path, key: &str, value: &str) -> io::Result<()>;
    /// Appends a line to a journal and waits until it is on the medium.
    fn append(&mut self, journal: &mut File, line: &[u8]) -> io::Result<()>;
    /// Removes a journal that is no longer needed.
    fn remove(&mut self, journal: &Path) -> io::Result<()>;
}

/// The real one.
#[derive(Debug, Clone, Copy, Default)]
pub struct KernelDoor;

impl Door for KernelDoor {
    fn get(&mut self, root: &Path, key: &str) -> Result<String, SettingError> {
        settings::read(root, key)
    }

    fn put(&mut self, root: &Path, key: &str, value: &str) -> io::Result<()> {
        let info = settings::known(key).map_err(io::Error::other)?;
        let path = info.path().ok_or_else(|| io::Error::other("the setting is not one file"))?;
        // One write call: the kernel takes each call for a whole value. Truncation means nothing in /proc and /sys.
        let mut file = OpenOptions::new().write(true).truncate(true).open(under(root, &path))?;
        file.write_all(format!("{value}\n").as_bytes())
    }

    fn append(&mut self, journal: &mut File, line: &[u8]) -> io::Result<()> {
        journal.write_all(line)?;
        journal.sync_data()
    }

    fn remove(&mut self, journal: &Path) -> io::Result<()> {
        std::fs::remove_file(journal)
    }
}
