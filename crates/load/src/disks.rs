//! What the disks under the targets did while the workers worked: differences of the kernel's counters in `/sys/dev/block/M:N/stat`
//! (Documentation/block/stat.rst), as fio's `disk_util` shows them. A partition counts as its whole disk; a stacked device (LVM, md)
//! is shown with the disks below it. File systems without a disk (tmpfs, hugetlbfs) have none.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::{Deserialize, Serialize};

/// Statistics of one disk. Names and units are fio's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskUse {
    /// Its name in `/sys/block`.
    pub name: String,
    /// Reads completed.
    pub read_ios: u64,
    /// Writes completed.
    pub write_ios: u64,
    /// Reads that were merged with neighbours before they were issued.
    pub read_merges: u64,
    /// Writes merged.
    pub write_merges: u64,
    /// Time that reads took, summed over reads, ms.
    pub read_ticks: u64,
    /// Time that writes took, summed over writes, ms.
    pub write_ticks: u64,
    /// Time that requests took, summed over all, ms.
    pub in_queue: u64,
    /// Share of the time in which the disk had something to do, percent.
    pub util: f64,
}

/// The fields of a stat file that are shown, in the order of [`DiskUse`], and the time with something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counters {
    shown: [u64; 7],
    io_ticks_ms: u64,
}

impl Counters {
    fn read(directory: &Path) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(directory.join("stat")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<u64> = text.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let [reads, read_merges, _, read_ms, writes, write_merges, _, write_ms, _, io_ticks_ms, queue_ms, ..] =
            fields[..]
        else {
            return None;
        };
        Some(Self { shown: [reads, writes, read_merges, write_merges, read_ms, write_ms, queue_ms], io_ticks_ms })
    }
}

/// Disks being watched.
pub(crate) struct DiskWatch {
    begun: Instant,
    disks: Vec<(String, PathBuf, Counters)>,
}

impl DiskWatch {
    /// Notes how the disks under these files and devices stand. `root` is where `/sys` is looked for.
    pub(crate) fn begin<'a>(root: &Path, targets: impl Iterator<Item = &'a Path>) -> Self {
        let mut directories = BTreeMap::new();
        for target in targets {
            if let Some(device) = device_of(target) {
                collect(&root.join(format!("sys/dev/block/{}:{}", device.0, device.1)), &mut directories);
            }
        }
        let disks = directories
            .into_iter()
            .filter_map(|(name, directory)| Some((name, directory.clone(), Counters::read(&directory)?)))
            .collect();
        Self { begun: Instant::now(), disks }
    }

    /// Their statistics since.
    pub(crate) fn so_far(&self) -> Vec<DiskUse> {
        let elapsed_ms = self.begun.elapsed().as_secs_f64() * 1e3;
        let since = |(name, directory, before): &(String, PathBuf, Counters)| {
            let after = Counters::read(directory)?;
            Some(difference(name.clone(), *before, after, elapsed_ms))
        };
        self.disks.iter().filter_map(since).collect()
    }
}

fn difference(name: String, before: Counters, after: Counters, elapsed_ms: f64) -> DiskUse {
    // Counters wrap at 32 or 64 bits, depending on the kernel; a wrapped one shows nothing rather than nonsense.
    let mut done = [0; 7];
    for (done, (after, before)) in done.iter_mut().zip(after.shown.iter().zip(&before.shown)) {
        *done = after.saturating_sub(*before);
    }
    let [read_ios, write_ios, read_merges, write_merges, read_ticks, write_ticks, in_queue] = done;
    let busy_ms = after.io_ticks_ms.saturating_sub(before.io_ticks_ms) as f64;
    let util = if elapsed_ms > 0.0 { (100.0 * busy_ms / elapsed_ms).min(100.0) } else { 0.0 };
    DiskUse { name, read_ios, write_ios, read_merges, write_merges, read_ticks, write_ticks, in_queue, util }
}

/// Number of the device that a file lies on, or that a device file is; of a file that does not exist yet, its directory's.
fn device_of(target: &Path) -> Option<(u32, u32)> {
    let parent = crate::safety::directory_of(target);
    let metadata = std::fs::metadata(target).or_else(|_| std::fs::metadata(parent)).ok()?;
    let number = if metadata.file_type().is_block_device() { metadata.rdev() } else { metadata.dev() };
    Some((rustix::fs::major(number), rustix::fs::minor(number)))
}

/// Adds the disk behind a link of `/sys/dev/block`, and those below it, by name.
fn collect(link: &Path, directories: &mut BTreeMap<String, PathBuf>) {
    let Ok(mut directory) = std::fs::canonicalize(link) else { return };
    if directory.join("partition").exists() {
        directory.pop();
    }
    let Some(name) = directory.file_name().map(|name| name.to_string_lossy().into_owned()) else { return };
    if directories.insert(name, directory.clone()).is_none() {
        let below = std::fs::read_dir(directory.join("slaves")).into_iter().flatten().flatten();
        below.for_each(|entry| collect(&entry.path(), directories));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = " 10 1 800 40  20 2 1600 50  0 60 90 0 0 0 0 0 0\n";

    /// A disk with a partition, and a volume on top of it.
    fn sysfs() -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        let block = root.path().join("sys/devices/block");
        for (directory, stat) in [("sda", STAT), ("sda/sda1", "1 1 1 1 1 1 1 1 1 1 1\n"), ("dm-0", STAT)] {
            std::fs::create_dir_all(block.join(directory)).expect("a directory");
            std::fs::write(block.join(directory).join("stat"), stat).expect("stat");
        }
        std::fs::write(block.join("sda/sda1/partition"), "1\n").expect("partition");
        std::fs::create_dir_all(block.join("dm-0/slaves")).expect("a directory");
        std::os::unix::fs::symlink(block.join("sda/sda1"), block.join("dm-0/slaves/sda1")).expect("a link");
        root
    }

    #[test]
    fn a_volume_is_shown_with_its_disk_and_a_partition_as_its_disk() {
        let root = sysfs();
        let mut directories = BTreeMap::new();
        collect(&root.path().join("sys/devices/block/dm-0"), &mut directories);
        assert_eq!(directories.keys().collect::<Vec<_>>(), ["dm-0", "sda"]);
        assert!(directories["sda"].ends_with("block/sda"));
    }

    #[test]
    fn counters_are_subtracted() {
        let before = Counters::parse(STAT).expect("eleven fields or more");
        let after = Counters::parse("15 1 900 45 30 5 1700 80 0 110 150").expect("eleven fields");
        let done = difference("sda".to_owned(), before, after, 100.0);
        let expected = DiskUse {
            name: "sda".to_owned(),
            read_ios: 5,
            write_ios: 10,
            read_merges: 0,
            write_merges: 3,
            read_ticks: 5,
            write_ticks: 30,
            in_queue: 60,
            util: 50.0,
        };
        assert_eq!(done, expected);
        assert!(Counters::parse("1 2 3").is_none());
    }
}
