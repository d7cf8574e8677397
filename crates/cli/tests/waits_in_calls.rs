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
    /// A script with its words; it makes the file `ready` when it is.
    fn python(place: &Path, words: &[&str]) -> Self {
        let mut command = Command::new("python3");
        let beside = Self(command.args(words).current_dir(place).spawn().expect("it starts"));
        let begin = Instant::now();
        while !place.join("ready").exists() {
            assert!(begin.elapsed() < Duration::from_secs(20), "{words:?} is not ready");
            std::thread::sleep(Duration::from_millis(20));
        }
        beside
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
    let _scanner = Beside::python(place.path(), &["scanner.py", "asked", "ready"]);
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

/// Maps and unmaps beside much memory of its own, with so many threads that change the protection of that memory; with `seen` and
/// `cleared` it asks to be looked at.
const MAPS: &str = "import ctypes, os, sys, threading
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.madvise.argtypes = libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
mapped = lambda size: libc.mmap(None, size, 3, 0x22, -1, 0)
large, size, over = mapped(768 << 20), 768 << 20, []
libc.madvise(large, size, 15)
libc.madvise(large, size, 23)
def protect():
    while not over:
        libc.mprotect(large, 8 << 20, 1)
        libc.mprotect(large, 8 << 20, 3)
others = [threading.Thread(target=protect) for _ in range(int(sys.argv[2]))]
if sys.argv[1] != 'alone':
    with open('asked.new', 'w') as f: f.write(f'{os.getpid()} {sys.argv[1]}')
    os.rename('asked.new', 'asked')
for other in others: other.start()
for _ in range(int(sys.argv[3])):
    libc.munmap(mapped(1 << 16), 1 << 16)
over.append(True)
for other in others: other.join()
if sys.argv[1] != 'alone': os.unlink('asked')
";

/// A monitor that looks at who asks for it.
const MONITOR: &str = "import time
open('ready', 'w').close()
while True:
    try:
        pid, how = open('asked').read().split()
        if how == 'cleared':
            with open(f'/proc/{pid}/clear_refs', 'w') as f: f.write('1')
        else: open(f'/proc/{pid}/smaps_rollup').read()
        time.sleep(0.002)
    except (OSError, ValueError): time.sleep(0.02)
";

#[test]
#[ignore = "host: compares times of waits for a lock, which takes a quiet machine"]
fn host_a_lock_that_others_hold_is_told_from_one_that_threads_hold() {
    let place = tempfile::tempdir_in("/var/tmp").expect("a folder on a disk");
    fs::write(place.path().join("maps.py"), MAPS).expect("a script");
    fs::write(place.path().join("monitor.py"), MONITOR).expect("a script");
    let _monitor = Beside::python(place.path(), &["monitor.py"]);
    let maps = |how: &str, threads: u32, pairs: u32| format!("python3 maps.py {how} {threads} {pairs}");
    let first = Some(("observed.by_others".to_owned(), "mechanism".to_owned()));
    let ways: &[&str] = if std::env::var_os("PAGELAB_TEST_FULL").is_some() { &["seen", "cleared"] } else { &["seen"] };
    for how in ways {
        let found = causes(place.path(), how, &maps("alone", 0, 60000), &maps(how, 0, 60000));
        assert_eq!(found.first(), first.as_ref(), "{how}: {found:?}");
        assert_eq!(names(&found, "mmap_lock.contended"), None, "{how}: {found:?}");
    }
    let own = causes(place.path(), "own", &maps("alone", 0, 2000), &maps("alone", 1, 2000));
    assert_eq!(names(&own, "observed.by_others"), None, "{own:?}");
    assert_eq!(own.first().map(|(cause, _)| cause.as_str()), Some("mmap_lock.contended"), "{own:?}");
}

/// Makes lists and drops them, beside many that live, and looks for garbage each so many rounds; computes so much in each round.
const LISTS: &str = "import gc, sys
gc.disable()
live = [[i] for i in range(150000)]
every, work = int(sys.argv[1]), int(sys.argv[2])
for i in range(400):
    made = [[j] for j in range(200)]
    sum(j * j for j in range(work))
    if every and i % every == 0: gc.collect()
";

/// Keeps objects, and puts new ones in their places.
const OBJECTS: &str = "const live = [];
for (let i = 0; i < 600000; i++) live.push({ a: i, b: [i] });
for (let i = 0; i < 3e6; i++) live[i % live.length] = { a: i, b: [i] };
";

#[test]
#[ignore = "host: compares times of collectors, which takes a quiet machine"]
fn host_more_garbage_is_told_from_more_work() {
    let place = tempfile::tempdir().expect("a folder");
    fs::write(place.path().join("lists.py"), LISTS).expect("a script");
    fs::write(place.path().join("objects.js"), OBJECTS).expect("a script");
    let lists = |words: &str| format!("python3 lists.py {words}");
    let first = Some(&("gc.more".to_owned(), "mechanism".to_owned()));
    let python = causes(place.path(), "python", &lists("0 4000"), &lists("10 4000"));
    assert_eq!(python.first(), first, "{python:?}");
    let more = causes(place.path(), "more", &lists("20 4000"), &lists("20 12000"));
    assert_eq!(names(&more, "gc.more"), None, "{more:?}");
    if std::env::var_os("PAGELAB_TEST_FULL").is_some() {
        let node = |mib: u32| format!("node --max-old-space-size={mib} objects.js");
        let node = causes(place.path(), "node", &node(1000), &node(80));
        assert_eq!(node.first(), first, "{node:?}");
    }
}

/// Reads a file so many times from where it lies.
const COLD: &str = "import os, sys
f = os.open(sys.argv[1], os.O_RDONLY)
for i in range(int(sys.argv[2])):
    os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED)
    at = 0
    while got := os.pread(f, 1 << 20, at): at += len(got)
";

/// An image of squashfs, mounted for the life of a test.
struct Image(PathBuf);

impl Image {
    fn new(place: &Path, name: &str, words: &[&str]) -> Self {
        let (image, mount) = (place.join(format!("{name}.img")), place.join(name));
        fs::create_dir(&mount).expect("a folder");
        run(
            Command::new("mksquashfs")
                .args([&place.join("files"), &image])
                .args(["-quiet", "-no-progress"])
                .args(words),
            0,
        );
        run(Command::new("mount").args(["-o", "loop,ro"]).args([&image, &mount]), 0);
        Self(mount)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
#[ignore = "host: compares times of reads of compressed images, which takes a quiet machine"]
fn host_images_that_are_decompressed_are_told_from_images_that_are_read() {
    let place = tempfile::tempdir_in("/var/tmp").expect("a folder on a disk");
    fs::create_dir(place.path().join("files")).expect("a folder");
    let words: Vec<String> =
        (0..900_000_u64).map(|i| format!("{:x} ", i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40)).collect();
    fs::write(place.path().join("files/words"), words.concat()).expect("a file");
    fs::write(place.path().join("cold.py"), COLD).expect("a script");
    let plain = Image::new(place.path(), "plain", &["-noD", "-noF"]);
    let reads = |image: &Image, times: u32| format!("python3 cold.py {}/words {times}", image.0.display());
    let mut methods = vec!["xz"];
    if std::env::var_os("PAGELAB_TEST_FULL").is_some() {
        methods.push("gzip");
    }
    for method in methods {
        let image = Image::new(place.path(), method, &["-comp", method]);
        let found = causes(place.path(), &format!("by-{method}"), &reads(&plain, 2), &reads(&image, 2));
        assert_eq!(found.first(), Some(&("data.compressed".to_owned(), "mechanism".to_owned())), "{method}: {found:?}");
    }
    let more = causes(place.path(), "more", &reads(&plain, 5), &reads(&plain, 40));
    assert_eq!(names(&more, "data.compressed"), None, "{more:?}");
}
