//! `file.*`: how the files that a process and its children have open lie on their devices.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use super::Collector;
use crate::fiemap::extent_count;
use crate::files::{names, regular_behind, text, under};

/// Processes, descriptors of each and files that are looked at, and the time for it: the processes are at work meanwhile.
const MOST_PROCESSES: usize = 64;
const MOST_DESCRIPTORS: usize = 4096;
const MOST_FILES: usize = 128;
const LONGEST: Duration = Duration::from_millis(20);

pub(super) fn read(out: &mut Collector, pid: u32) {
    let until = Instant::now() + LONGEST;
    for (path, link) in open_files(out.root, pid, until) {
        if Instant::now() > until {
            return;
        }
        // The link leads to the file that the descriptor is of, whatever its name means now.
        let Some(file) = regular_behind(&under(out.root, &link)) else { continue };
        let Ok(extents) = extent_count(&file) else { continue };
        let bytes = file.metadata().map(|about| about.size()).unwrap_or_default();
        out.value(format!("file.{path}.extents"), extents.to_string(), &link);
        out.value(format!("file.{path}.bytes"), bytes.to_string(), &link);
    }
}

/// Files by name that a process or its children have open, each with a link to it.
fn open_files(root: &Path, pid: u32, until: Instant) -> BTreeMap<String, String> {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for pid in with_children(root, pid) {
        let folder = format!("/proc/{pid}/fd");
        for fd in names(&under(root, &folder)).into_iter().take(MOST_DESCRIPTORS) {
            if files.len() == MOST_FILES || Instant::now() > until {
                return files;
            }
            let link = format!("{folder}/{fd}");
            // Pipes, sockets and files without a name have no slash in front.
            let Ok(path) = std::fs::read_link(under(root, &link)) else { continue };
            if let Some(path) = path.to_str().filter(|path| path.starts_with('/')) {
                files.entry(path.to_owned()).or_insert(link);
            }
        }
    }
    files
}

/// A process and those below it, the nearest first.
fn with_children(root: &Path, pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied().filter(|_| found.len() < MOST_PROCESSES) {
        at += 1;
        let tasks = format!("/proc/{parent}/task");
        for task in names(&under(root, &tasks)).into_iter().take(MOST_PROCESSES) {
            let children = text(&under(root, &format!("{tasks}/{task}/children"))).unwrap_or_default();
            let children = children.split_whitespace().filter_map(|child| child.parse::<u32>().ok());
            found.extend(children.take(MOST_PROCESSES.saturating_sub(found.len())));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_open_is_told_with_its_size() {
        let file = tempfile::Builder::new().tempfile_in("/var/tmp").expect("a file on a disk");
        std::fs::write(file.path(), vec![7; 100_000]).expect("it is ours");
        file.as_file().sync_all().expect("written");
        let mut out = Collector::new(Path::new("/"));
        read(&mut out, std::process::id());
        let rows = out.finish();
        let of = |what: &str| {
            let key = format!("file.{}.{what}", file.path().display());
            rows.iter().find(|row| row.key == key).and_then(|row| row.value.clone())
        };
        // A file system without extents, such as tmpfs, tells nothing.
        if let Some(extents) = of("extents") {
            assert!(extents.parse::<u32>().is_ok_and(|extents| extents >= 1), "{extents}");
            assert_eq!(of("bytes").as_deref(), Some("100000"));
        }
        assert!(rows.iter().all(|row| !row.key.contains("pipe:") && !row.key.contains("/dev/")), "{rows:?}");
    }
}
