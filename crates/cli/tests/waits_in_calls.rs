//! Causes that only the call and the functions tell in which a program waits, with what looks like them: real waits on file systems of
//! their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{json, pagelab, run};

/// A file system of 1 KiB blocks on a loop device, with a journal of so many MiB, mounted for the life of a test.
struct Journaled(PathBuf);

impl Journaled {
    fn new(place: &Path, journal_mib: u32) -> Self {
        let (image, mount) = (place.join(format!("{journal_mib}.img")), place.join(format!("m{journal_mib}")));
        fs::create_dir(&mount).expect("a folder");
        fs::File::create(&image).and_then(|file| file.set_len(192 << 20)).expect("an image");
        let journal = format!("size={journal_mib}");
        run(Command::new("mkfs.ext4").args(["-q", "-F", "-b", "1024", "-N", "60000", "-J", &journal]).arg(&image), 0);
        run(Command::new("mount").args(["-o", "loop"]).args([&image, &mount]), 0);
        Self(mount)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("UTF-8")
    }
}

impl Drop for Journaled {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// The causes that comparing two commands finds, the first one first, each with its word.
fn causes(place: &Path, set: &str, base: &str, test: &str) -> Vec<(String, String)> {
    let mut command = pagelab();
    command.args(["compare", "-n", "8", "-o", set, "--json", "--", base, test]).current_dir(place);
    let output = command.output().expect("it runs");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
    let found = json(&output);
    let word = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let findings = found["findings"].as_array().expect("findings").iter();
    let causes = findings.map(|one| (word(&one["cause"]), word(&one["confidence"]))).collect();
    assert_eq!(found["primary"]["verdict"], "worse", "{set}: {}", found["primary"]);
    causes
}

fn names<'a>(causes: &'a [(String, String)], cause: &str) -> Option<&'a str> {
    causes.iter().find(|(name, _)| name == cause).map(|(_, word)| word.as_str())
}

/// Goes through a file whose pages are not in the cache: writes so many bytes of each fourth page, or reads it.
const PAGES: &str = "import os, sys
f = os.open(sys.argv[1], os.O_RDWR)
os.fsync(f)
if sys.argv[2] == 'cold': os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED)
os.posix_fadvise(f, 0, 0, os.POSIX_FADV_RANDOM)
n = int(sys.argv[4])
for i in range(6000):
    at = i * 104729 % 6000 * 16384
    if sys.argv[3] == 'write': os.pwrite(f, b'x' * n, at)
    else: os.pread(f, n, at)
";

#[test]
#[ignore = "host: compares times on file systems on loop devices, which takes a quiet machine"]
fn host_pages_that_are_read_for_a_write_are_told_from_pages_that_are_read() {
    let place = tempfile::tempdir_in("/var/tmp").expect("a folder on a disk");
    let files = Journaled::new(place.path(), 32);
    let file = format!("{}/pages", files.path());
    fs::write(&file, vec![7; 96 << 20]).expect("a file");
    fs::write(place.path().join("pages.py"), PAGES).expect("a script");
    let command = |words: &str| format!("python3 pages.py {file} {words}");
    let parts = causes(place.path(), "parts", &command("cold write 4096"), &command("cold write 3500"));
    assert_eq!(parts.first(), Some(&("write.partial".to_owned(), "mechanism".to_owned())), "{parts:?}");
    assert_ne!(names(&parts, "cache.cold"), Some("mechanism"), "{parts:?}");
    let reads = causes(place.path(), "reads", &command("warm read 4096"), &command("cold read 4096"));
    assert_eq!(names(&reads, "write.partial"), None, "{reads:?}");
    assert_eq!(reads.first().map(|(cause, _)| cause.as_str()), Some("cache.cold"), "{reads:?}");
}

/// Makes folders, and says of some of them that they are to be safe.
const FOLDERS: &str = "import os, shutil, sys
top, each = sys.argv[1], int(sys.argv[2])
shutil.rmtree(top + '/made', True)
for i in range(4000):
    os.makedirs(f'{top}/made/{i % 97}/{i}')
    if each and i % each == 0:
        f = os.open(f'{top}/made', os.O_RDONLY); os.fsync(f); os.close(f)
";

#[test]
#[ignore = "host: compares times on file systems on loop devices, which takes a quiet machine"]
fn host_a_full_journal_is_told_from_more_syncs() {
    let place = tempfile::tempdir_in("/var/tmp").expect("a folder on a disk");
    let (large, small) = (Journaled::new(place.path(), 32), Journaled::new(place.path(), 1));
    fs::write(place.path().join("folders.py"), FOLDERS).expect("a script");
    let command = |of: &Journaled, each: u32| format!("python3 folders.py {} {each}", of.path());
    let full = causes(place.path(), "full", &command(&large, 0), &command(&small, 0));
    assert_eq!(full.first(), Some(&("journal.full".to_owned(), "mechanism".to_owned())), "{full:?}");
    assert_eq!(names(&full, "sync.more"), None, "{full:?}");
    let syncs = causes(place.path(), "syncs", &command(&large, 0), &command(&large, 20));
    assert_eq!(names(&syncs, "journal.full"), None, "{syncs:?}");
    assert_eq!(syncs.first().map(|(cause, _)| cause.as_str()), Some("sync.more"), "{syncs:?}");
}
