//! The one door through which the guard touches the outside. Crash tests put another in its place that dies at the
//! n-th operation; tests of kernel behaviour put one there that grants in part or rewrites other settings.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use pagelab_vocab::settings::Form;

use crate::files::{bytes, under};
use crate::settings::{self, SettingError, place};

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

    /// The bytes of a setting's file, where the kernel takes the text that it gives; `None` where it does not (a list
    /// of choices, a pool), or they cannot be read.
    fn bytes(&mut self, _root: &Path, _key: &str) -> Option<Vec<u8>> {
        None
    }

    /// Writes bytes that [`Door::bytes`] gave.
    ///
    /// # Errors
    /// What the kernel says; `Unsupported` from a door that gives no bytes.
    fn put_bytes(&mut self, _root: &Path, _key: &str, _bytes: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Whether it writes settings below this root. A journal may name any.
    fn takes(&self, _root: &Path) -> bool {
        true
    }
}

/// The real one: settings of the running kernel, in /proc/sys and /sys and nowhere else.
#[derive(Debug, Clone, Copy, Default)]
pub struct KernelDoor;

/// Pages of a pool of huge pages that are both free and surplus, if there are any.
///
/// The kernel leaves such pages behind where a pool is made smaller while a process that uses it ends: it lets go of the lock
/// between taking out free pages and declaring the rest surplus (mm/hugetlb.c, `set_max_huge_pages`), and what is given back in
/// between stays allocated until somebody uses the pool again.
fn idle_surplus(key: &str) -> Option<u64> {
    settings::known(key).ok().filter(|info| info.def.form == Form::Pool && key.ends_with(".nr_hugepages"))?;
    let path = path_of(key).ok()?;
    let pages = |name: &str| -> Option<u64> {
        std::fs::read_to_string(Path::new(&path).with_file_name(name)).ok()?.trim().parse().ok()
    };
    Some(pages("free_hugepages")?.min(pages("surplus_hugepages")?)).filter(|idle| *idle > 0)
}

impl Door for KernelDoor {
    fn get(&mut self, root: &Path, key: &str) -> Result<String, SettingError> {
        settings::read(root, key)
    }

    fn put(&mut self, root: &Path, key: &str, value: &str) -> io::Result<()> {
        self.put_bytes(root, key, format!("{value}\n").as_bytes())?;
        match idle_surplus(key).zip(value.trim().parse::<u64>().ok()) {
            // Taken into the pool, they go with it.
            Some((idle, pages)) => {
                self.put_bytes(root, key, format!("{}\n", pages + idle).as_bytes())?;
                self.put_bytes(root, key, format!("{value}\n").as_bytes())
            }
            None => Ok(()),
        }
    }

    fn append(&mut self, journal: &mut File, line: &[u8]) -> io::Result<()> {
        journal.write_all(line)?;
        journal.sync_data()
    }

    fn remove(&mut self, journal: &Path) -> io::Result<()> {
        std::fs::remove_file(journal)
    }

    fn bytes(&mut self, root: &Path, key: &str) -> Option<Vec<u8>> {
        let info = settings::known(key).ok().filter(|info| info.def.form == Form::Text)?;
        place::bytes(root, &info.path()?).ok()
    }

    fn put_bytes(&mut self, root: &Path, key: &str, bytes: &[u8]) -> io::Result<()> {
        if !self.takes(root) {
            return Err(io::Error::other(format!("{} is not the root of this host", root.display())));
        }
        // One write call: the kernel takes each call for a whole value.
        let mut file = place::writable(&path_of(key)?)?;
        match file.write(bytes)? {
            written if written == bytes.len() => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()),
        }
    }

    fn takes(&self, root: &Path) -> bool {
        root == Path::new("/")
    }
}

fn path_of(key: &str) -> io::Result<String> {
    let info = settings::known(key).map_err(io::Error::other)?;
    info.path().ok_or_else(|| io::Error::other("the setting is not one file"))
}

/// For tests: settings that are plain files below a folder that stands for `/`. For `/` itself it is [`KernelDoor`].
#[derive(Debug, Clone, Copy, Default)]
pub struct FixtureDoor;

impl Door for FixtureDoor {
    fn get(&mut self, root: &Path, key: &str) -> Result<String, SettingError> {
        KernelDoor.get(root, key)
    }

    fn put(&mut self, root: &Path, key: &str, value: &str) -> io::Result<()> {
        self.put_bytes(root, key, format!("{value}\n").as_bytes())
    }

    fn append(&mut self, journal: &mut File, line: &[u8]) -> io::Result<()> {
        KernelDoor.append(journal, line)
    }

    fn remove(&mut self, journal: &Path) -> io::Result<()> {
        KernelDoor.remove(journal)
    }

    fn bytes(&mut self, root: &Path, key: &str) -> Option<Vec<u8>> {
        if KernelDoor.takes(root) {
            return KernelDoor.bytes(root, key);
        }
        let info = settings::known(key).ok().filter(|info| info.def.form == Form::Text)?;
        bytes(&under(root, &info.path()?)).ok()
    }

    fn put_bytes(&mut self, root: &Path, key: &str, bytes: &[u8]) -> io::Result<()> {
        if KernelDoor.takes(root) {
            return KernelDoor.put_bytes(root, key, bytes);
        }
        // A plain file keeps the end of a longer text, unlike a file of the kernel.
        let mut file = OpenOptions::new().write(true).truncate(true).open(under(root, &path_of(key)?))?;
        file.write_all(bytes)
    }
}
