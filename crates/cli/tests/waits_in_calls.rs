//! Causes that only the call and the functions tell in which a program waits, with what looks like them: real waits on file systems of
//! their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

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

/// Is asked by fanotify about each open in a folder, and reads what is opened.
const SCANNER: &str = "import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
fan = libc.fanotify_init(5, os.O_RDONLY)
asked_of_files = ctypes.c_uint64(0x08010000)
if fan < 0 or libc.fanotify_mark(fan, 1, asked_of_files, -100, sys.argv[1].encode()): sys.exit(os.strerror(ctypes.get_errno()))
open(sys.argv[2], 'w').close()
while True:
    events = os.read(fan, 4096)
    while events:
        length, _, _, _, _, fd, _ = struct.unpack('=IBBHQii', events[:24])
        sum(os.pread(fd, 4096, 0))
        os.write(fan, struct.pack('=iI', fd, 1))
        os.close(fd)
        events = events[length:]
";

/// Opens each file of a folder so many times, behind so many layers of rules of Landlock that allow it.
const OPENS: &str = "import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
folder, times, layers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
libc.prctl(38, 1, 0, 0, 0)
root = os.open('/', os.O_PATH)
for _ in range(layers):
    rules = libc.syscall(444, struct.pack('=Q', 0x1fff), 8, 0)
    allowed = libc.syscall(445, rules, 1, struct.pack('=Qi', 0x1fff, root), 0)
    if rules < 0 or allowed or libc.syscall(446, rules, 0): sys.exit(os.strerror(ctypes.get_errno()))
for _ in range(times):
    for name in os.listdir(folder):
        f = os.open(f'{folder}/{name}', os.O_RDONLY); os.read(f, 4096); os.close(f)
";

/// A program beside those that are compared, for the life of a test.
struct Beside(Child);

impl Beside {
    fn scanner(place: &Path, folder: &str) -> Self {
        let mut command = Command::new("python3");
        let scanner =
            Self(command.args(["scanner.py", folder, "ready"]).current_dir(place).spawn().expect("it starts"));
        let begin = Instant::now();
        while !place.join("ready").exists() {
            assert!(begin.elapsed() < Duration::from_secs(20), "the scanner is not ready");
            std::thread::sleep(Duration::from_millis(20));
        }
        scanner
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "host: compares times beside a scanner of files, which takes a quiet machine"]
fn host_opens_that_others_check_are_told_from_more_opens() {
    let place = tempfile::tempdir_in("/var/tmp").expect("a folder on a disk");
    for folder in ["free", "asked"] {
        fs::create_dir(place.path().join(folder)).expect("a folder");
        for name in 0..300 {
            fs::write(place.path().join(folder).join(name.to_string()), vec![b'a'; 3000]).expect("a file");
        }
    }
    fs::write(place.path().join("scanner.py"), SCANNER).expect("a script");
    fs::write(place.path().join("opens.py"), OPENS).expect("a script");
    let _scanner = Beside::scanner(place.path(), "asked");
    let first = Some(("access.checked".to_owned(), "mechanism".to_owned()));
    let opens = |words: &str| format!("python3 opens.py {words}");
    let copies = |folder: &str| format!("for i in $(seq 20); do cat {folder}/*; done > /dev/null");
    let cases = [
        ("scanned", opens("free 60 0"), opens("asked 60 0")),
        ("walled", opens("free 400 0"), opens("free 400 16")),
        ("copied", copies("free"), copies("asked")),
    ];
    // The long form has the other two, the short one minutes less.
    let asked = if std::env::var_os("PAGELAB_TEST_FULL").is_some() { 3 } else { 1 };
    for (set, base, test) in cases.into_iter().take(asked) {
        let found = causes(place.path(), set, &base, &test);
        assert_eq!(found.first(), first.as_ref(), "{set}: {found:?}");
        assert_ne!(names(&found, "cpu.neighbour"), Some("mechanism"), "{set}: {found:?}");
    }
    let more = causes(place.path(), "more", &opens("asked 30 0"), &opens("asked 70 0"));
    assert_eq!(names(&more, "access.checked"), None, "{more:?}");
    assert_ne!(names(&more, "cpu.neighbour"), Some("mechanism"), "{more:?}");
}

/// What a container does with the files of its image, on an overlay of its own.
const LAYERS: &str = "import os, shutil, subprocess, sys
what = sys.argv[1]
for name in ('upper', 'work', 'merged'):
    shutil.rmtree(name, True)
    os.mkdir(name)
subprocess.run(['mount', '-t', 'overlay', 'overlay', '-o', 'lowerdir=lower,upperdir=upper,workdir=work', 'merged'], check=True)
try:
    for name in os.listdir('lower'):
        if what == 'append':
            with open('merged/' + name, 'ab') as f: f.write(b'x')
        elif what == 'make':
            with open('merged/new' + name, 'wb') as f: f.write(b'x' * 200000); f.flush(); os.fsync(f.fileno())
        else:
            with open('merged/' + name, 'rb') as f: f.read()
    if what == 'chown': subprocess.run(['chown', '-R', 'nobody', 'merged'], check=True)
finally:
    subprocess.run(['umount', 'merged'], check=True)
";

#[test]
#[ignore = "host: compares times on an overlay, which takes a quiet machine"]
fn host_files_that_are_copied_up_are_told_from_files_that_are_made() {
    let place = tempfile::tempdir_in("/var/tmp").expect("a folder on a disk");
    fs::create_dir(place.path().join("lower")).expect("a folder");
    for name in 0..240 {
        fs::write(place.path().join("lower").join(name.to_string()), vec![0; 200_000]).expect("a file");
    }
    fs::write(place.path().join("layers.py"), LAYERS).expect("a script");
    let against_reads = |what: &str| {
        let layers = |what: &str| format!("python3 layers.py {what}");
        causes(place.path(), what, &layers("read"), &layers(what))
    };
    let changes: &[&str] =
        if std::env::var_os("PAGELAB_TEST_FULL").is_some() { &["chown", "append"] } else { &["chown"] };
    for what in changes {
        let found = against_reads(what);
        assert_eq!(found.first(), Some(&("overlay.copy_up".to_owned(), "mechanism".to_owned())), "{what}: {found:?}");
    }
    let made = against_reads("make");
    assert_eq!(names(&made, "overlay.copy_up"), None, "{made:?}");
}
