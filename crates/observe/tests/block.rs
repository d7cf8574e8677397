//! Block requests on a loop device of the test's own, against what the kernel counts in `/sys/block/DEV/stat`.
//!
//! A loop device over a file in memory has nobody else's requests, so sums are equal and not only near. Needs root.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pagelab_observe::block::{self, BlockOptions, BlockProbe};
use pagelab_recording::tables::BlockIosRow;

const DEVICE_BYTES: u64 = 64 << 20;

/// What the tests look at in a row, kept.
#[derive(Debug)]
struct Request {
    dev: u64,
    sector: u64,
    bytes: u64,
    op: String,
    merged: u32,
    dur: Option<i64>,
    queue_ns: Option<u64>,
    status: Option<i32>,
}

impl From<&BlockIosRow<'_>> for Request {
    fn from(row: &BlockIosRow<'_>) -> Self {
        let &BlockIosRow { dev, sector, bytes, op, dur, queue_ns, status, .. } = row;
        let merged = row.merged.expect("the probe knows what was merged");
        Self { dev, sector, bytes, op: op.to_owned(), merged, dur, queue_ns, status }
    }
}

/// One probe at a time: while one comes or goes, the kernel may leave another's program out for an event.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn attach(recorder: u32) -> Result<BlockProbe, String> {
    let kernel = block::check()?;
    BlockProbe::attach(&kernel, BlockOptions::of(recorder), None).map_err(|error| error.to_string())
}

fn tool(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    let words = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}: {words}");
    words
}

/// A loop device, gone when dropped.
struct Loop {
    path: PathBuf,
}

impl Loop {
    fn over(image: &Path) -> Self {
        File::create(image).and_then(|file| file.set_len(DEVICE_BYTES)).expect("an image");
        let words = tool("losetup", &["--find", "--show", image.to_str().expect("UTF-8")]);
        Self { path: PathBuf::from(words.trim()) }
    }

    fn name(&self) -> &str {
        self.path.to_str().expect("UTF-8")
    }

    fn dev(&self) -> u64 {
        fs::metadata(&self.path).expect("the device").rdev()
    }

    /// Completed, merged and sectors of reads, writes and discards, and completed flushes, once they stand still: a
    /// task that waits for a request is woken before it is counted (`blk_update_request` comes before
    /// `blk_account_io_done`).
    fn stat(&self) -> [u64; 10] {
        let mut last = self.stat_now();
        loop {
            std::thread::sleep(Duration::from_millis(20));
            let now = self.stat_now();
            if now == last {
                return now;
            }
            last = now;
        }
    }

    fn stat_now(&self) -> [u64; 10] {
        let name = self.path.file_name().expect("a name").to_string_lossy().into_owned();
        let text = fs::read_to_string(format!("/sys/block/{name}/stat")).expect("statistics");
        let all: Vec<u64> = text.split_ascii_whitespace().map(|word| word.parse().expect("a number")).collect();
        [0, 1, 2, 4, 5, 6, 11, 12, 13, 15].map(|at: usize| all[at])
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.path).status();
    }
}

/// A directory in memory, gone when dropped, also when a test fails.
struct Scratch(PathBuf);

impl Scratch {
    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn scratch() -> Scratch {
    let (process, thread) = (std::process::id(), std::thread::current().id());
    let dir = PathBuf::from(format!("/dev/shm/pagelab-block-{process}-{thread:?}"));
    fs::create_dir_all(&dir).expect("/dev/shm is writable");
    Scratch(dir)
}

/// The requests recorded of a device while `work` was done to it, and by how much its statistics rose.
fn recorded(device: &Loop, recorder: u32, work: impl FnOnce()) -> (Vec<Request>, [u64; 10], BlockProbe) {
    let mut probe = attach(recorder).expect("root and BTF are there");
    let before = device.stat();
    work();
    let after = device.stat();
    probe.detach();
    let mut found: Vec<Request> = Vec::new();
    probe.drain(|row| found.push(Request::from(row)));
    found.retain(|request| request.dev == device.dev());
    let mut rise = after;
    rise.iter_mut().zip(before).for_each(|(after, before)| *after -= before);
    (found, rise, probe)
}

fn sums(requests: &[Request], op: &str) -> [u64; 3] {
    let of = || requests.iter().filter(|request| request.op == op);
    [
        of().count() as u64,
        of().map(|request| u64::from(request.merged)).sum(),
        of().map(|request| request.bytes / 512).sum(),
    ]
}

/// The recorded requests are those the kernel counted, less the lost ones: of another disk, or of this one.
fn agree(what: &str, recorded: [u64; 3], counted: [u64; 3], lost: u64) {
    if lost == 0 {
        return assert_eq!(recorded, counted, "{what}: count, merged, sectors");
    }
    assert!(recorded.iter().zip(counted).all(|(mine, all)| *mine <= all), "{what}: {recorded:?} of {counted:?}");
    assert!(counted[0] <= recorded[0] + lost, "{what}: {recorded:?} of {counted:?}, {lost} lost");
}

#[test]
fn counts_bytes_and_merges_are_those_of_the_kernel() {
    if !is_root() {
        return assert!(attach(0).is_err(), "without root the load is refused");
    }
    let _alone = alone();
    let dir = scratch();
    let device = Loop::over(&dir.join("image"));
    let fio = |rest: &[&str]| {
        let name = format!("--filename={}", device.name());
        let fixed = ["--name=j", "--direct=1", "--ioengine=libaio", "--size=16m", &name, "--output-format=terse"];
        tool("fio", &[&fixed, rest].concat());
    };
    let (requests, rise, probe) = recorded(&device, 0, || {
        // Pieces handed over together lie behind one another: the block layer merges them.
        fio(&["--rw=write", "--bs=4k", "--iodepth=16", "--iodepth_batch_submit=16"]);
        fio(&["--rw=randrw", "--bsrange=4k-64k", "--iodepth=8", "--end_fsync=1"]);
        tool("blkdiscard", &["--offset", "0", "--length", "8388608", device.name()]);
    });
    let (lost, nothing) = (probe.counts().lost, probe.counts().not_issued);
    agree("reads", sums(&requests, "read"), [rise[0], rise[1], rise[2]], lost);
    // Flushes without data are writes of nothing there.
    let [writes, merged, sectors] = sums(&requests, "write");
    assert!(
        writes <= rise[3] && rise[3] <= writes + nothing + lost,
        "{writes} and {nothing} flushes, {} in all",
        rise[3]
    );
    agree("writes", [writes, merged, sectors], [writes.max(rise[3].saturating_sub(nothing)), rise[4], rise[5]], lost);
    agree("discards", sums(&requests, "discard"), [rise[6], rise[7], rise[8]], lost);
    assert!((rise[9].saturating_sub(lost)..=rise[9]).contains(&sums(&requests, "flush")[0]), "flushes");
    assert!(rise[0] > 0 && rise[4] > 0 && rise[6] > 0 && rise[9] > 0, "the work was to do all of it: {rise:?}");
    for request in &requests {
        assert!(request.dur.is_some_and(|ns| ns > 0) && request.status == Some(0), "{request:?}");
        assert!(request.queue_ns.is_some() || request.op == "flush", "{request:?}");
        assert!(request.sector * 512 + request.bytes <= DEVICE_BYTES, "{request:?}");
    }
}

/// Reads the device's first MiB past the page cache, in 16 pieces.
fn read_direct(device: &Path) {
    let mut file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(device).expect("the device");
    let mut memory = vec![0_u8; (64 << 10) + 4096];
    let at = memory.as_ptr().align_offset(4096);
    for _ in 0..16 {
        file.read_exact(&mut memory[at..at + (64 << 10)]).expect("16 pieces of 64 KiB");
    }
}

#[test]
fn what_the_recorder_reads_itself_is_left_out_and_counted() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let dir = scratch();
    let device = Loop::over(&dir.join("image"));
    let (mine, rise, probe) = recorded(&device, std::process::id(), || read_direct(&device.path));
    assert_eq!((mine.len(), rise[0]), (0, 16));
    assert!(probe.counts().filtered >= 16 && probe.counts().seen >= probe.counts().filtered, "{:?}", probe.counts());
    let (others, rise, _) = recorded(&device, 0, || read_direct(&device.path));
    assert_eq!((others.len() as u64, rise[0]), (16, 16));
}

#[test]
fn what_a_small_ring_loses_is_counted() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let dir = scratch();
    let device = Loop::over(&dir.join("image"));
    let options = BlockOptions { ring_bytes: 4096, ..BlockOptions::of(0) };
    let kernel = block::check().expect("the kernel has the tracepoints");
    let mut probe = BlockProbe::attach(&kernel, options, None).expect("root and BTF are there");
    let before = device.stat()[0];
    for _ in 0..16 {
        read_direct(&device.path);
    }
    let read = device.stat()[0] - before;
    probe.detach();
    let mut found: Vec<Request> = Vec::new();
    probe.drain(|row| found.push(Request::from(row)));
    let (counts, all) = (probe.counts(), found.len() as u64);
    assert!(counts.lost > 0 && read == 256, "a ring of 4 KiB holds no {read} requests: {counts:?}");
    assert_eq!(all + counts.lost + counts.filtered, counts.seen);
    // Requests on other disks may be lost too, or take the room.
    let mine = found.iter().filter(|request| request.dev == device.dev()).count() as u64;
    assert!(mine < read && read <= mine + counts.lost, "{mine} of {read}, {counts:?}");
}

/// A file system that is mounted, and thawed and gone again when dropped.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("fsfreeze").arg("--unfreeze").arg(&self.0).stderr(Stdio::null()).status();
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

fn writer_to(device: &Path) -> Child {
    let mut child = Command::new("dd")
        .args(["bs=64k", "count=1", "oflag=direct", "status=none"])
        .arg(format!("of={}", device.display()))
        .stdin(Stdio::piped())
        .spawn()
        .expect("dd starts");
    child.stdin.take().expect("piped").write_all(&vec![7; 64 << 10]).expect("dd reads");
    child
}

/// The image of the inner device lies in a file system that is frozen: a write to the device has to wait in its driver.
#[test]
#[ignore = "mounts a file system of its own"]
fn host_a_request_that_does_not_complete_has_no_duration() {
    let dir = scratch();
    let outer = Loop::over(&dir.join("outer"));
    tool("mkfs.ext4", &["-q", outer.name()]);
    let mount = dir.join("mnt");
    fs::create_dir(&mount).expect("a directory");
    tool("mount", &[outer.name(), mount.to_str().expect("UTF-8")]);
    let mounted = Mounted(mount);
    File::create(mounted.0.join("inner")).expect("a file");
    tool("sync", &[]);
    let image = mounted.0.join("inner");
    File::options().write(true).open(&image).and_then(|file| file.set_len(8 << 20)).expect("an image");
    let inner =
        Loop { path: PathBuf::from(tool("losetup", &["--find", "--show", image.to_str().expect("UTF-8")]).trim()) };
    let mut probe = attach(0).expect("root and BTF are there");
    tool("fsfreeze", &["--freeze", mounted.0.to_str().expect("UTF-8")]);
    let mut child = writer_to(&inner.path);
    let mut waiting: Vec<Request> = Vec::new();
    for _ in 0..200 {
        std::thread::sleep(std::time::Duration::from_millis(10));
        waiting.clear();
        probe.unfinished(|row| waiting.push(Request::from(row)));
        waiting.retain(|request| request.dev == inner.dev());
        if !waiting.is_empty() {
            break;
        }
    }
    tool("fsfreeze", &["--unfreeze", mounted.0.to_str().expect("UTF-8")]);
    assert!(child.wait().expect("our child").success());
    let [one] = waiting.as_slice() else { panic!("{waiting:?}") };
    assert_eq!((one.op.as_str(), one.bytes, one.dur, one.status), ("write", 64 << 10, None, None));
    probe.detach();
    let mut ended: Vec<Request> = Vec::new();
    probe.drain(|row| ended.push(Request::from(row)));
    assert!(ended.iter().any(|request| request.dev == inner.dev() && request.dur.is_some()), "{ended:?}");
    let mut left = 0;
    probe.unfinished(|request| left += u64::from(request.dev == inner.dev()));
    assert_eq!(left, 0, "one that has completed is in the ring and nowhere else");
    drop(inner);
}
