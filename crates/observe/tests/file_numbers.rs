//! The names of the files that system calls work on, where more names were sent than a number of 24 bits, or of 32, can count.
//!
//! A program's list of files is known; every call must have the name that is its turn. Numbering begins just below the
//! limits, so that they are crossed within a second. Needs root.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pagelab_observe::bpf::{EventCounts, Observer, ObserverOptions};
use pagelab_observe::feed::{CallFeed, Feed};
use pagelab_observe::syscalls::{CallFilter, Shapes};
use pagelab_recording::tables::{FilesRow, SyscallsRow};
use pagelab_recording::{Manifest, Recording, RecordingWriter, WriterOptions};

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn now_ns() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// The line of /proc that says how much memory this process had resident at most.
fn peak_rss() -> String {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc");
    status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default().to_owned()
}

/// A python program that waits for a line before it is executed.
fn at_gate(program: &str, cwd: &Path) -> (Child, OwnedFd) {
    let child = Command::new("sh")
        .args(["-c", "read go; exec python3 -c \"$0\"", program])
        .current_dir(cwd)
        .stdin(Stdio::piped())
        .spawn()
        .expect("sh starts");
    // SAFETY: pidfd_open returns a fresh descriptor or -1.
    let pidfd = unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, child.id(), 0) as i32;
        assert!(fd >= 0, "pidfd_open: {}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(fd)
    };
    (child, pidfd)
}

/// Records the calls of a program into `out`; gives the counts.
fn record(program: &str, cwd: &Path, out: &Path, names_sent_before: u64) -> EventCounts {
    let filter = || {
        let mut filter = CallFilter::default();
        assert!(["openat", "write", "read", "pwrite64"].iter().all(|name| filter.add(name)));
        filter
    };
    let options = ObserverOptions {
        faults: false,
        maps: false,
        calls: Some(Shapes::of(&filter()).infos()),
        call_ring_bytes_per_cpu: 32 << 20,
        names_sent_before,
        ..ObserverOptions::default()
    };
    let mut observer = Observer::load(options).expect("root and BTF are there");
    observer.attach().expect("the tracepoints are there");
    let mut writer = RecordingWriter::create(out, Manifest::default(), WriterOptions::default()).expect("a writer");
    let mut feed = Feed::new(true, true, false).with_calls(Some(CallFeed::new(Shapes::of(&filter()), false)));
    let (mut child, pidfd) = at_gate(program, cwd);
    observer.adopt(pidfd.as_fd()).expect("the child lives");
    child.stdin.take().expect("piped").write_all(b"\n").expect("sh reads");
    let deadline = Instant::now() + Duration::from_mins(20);
    let mut ended = false;
    while !ended {
        ended = child.try_wait().expect("our child").is_some();
        if ended {
            observer.detach();
        }
        let mut events = Vec::new();
        observer.drain_events(|event| events.push(event));
        feed.events(&events, &mut writer, &mut Vec::new());
        let tables = writer.tables_mut();
        feed.calls(|sink| observer.drain_calls(|call| sink.take(call)), tables, &mut Vec::new());
        writer.tick(now_ns()).expect("written");
        assert!(Instant::now() < deadline, "the program did not end");
        std::thread::sleep(Duration::from_millis(2));
    }
    feed.waiting_calls(writer.table::<SyscallsRow<'_>>());
    let counts = observer.event_counts();
    assert_eq!(observer.call_rings().total().lost, 0, "the rings are large enough");
    writer.close(|_| {}).expect("closed");
    counts
}

/// Opens `count` files in turn, `rounds` times, and writes a byte to each; a descriptor made before all others is written to
/// at the end, and a read that began before them ends then.
fn program(count: usize, rounds: usize) -> String {
    format!(
        "import os, threading, time\n\
         early = os.open('early', os.O_CREAT | os.O_WRONLY)\n\
         os.write(early, b'0')\n\
         r, w = os.pipe()\n\
         began = threading.Event()\n\
         def wait():\n    began.set(); os.read(r, 77)\n\
         reader = threading.Thread(target=wait)\n\
         reader.start()\n\
         began.wait()\n\
         names = ['file%d' % i for i in range({count})]\n\
         for n in range({rounds}):\n    \
             for name in names:\n        \
                 fd = os.open(name, os.O_CREAT | os.O_WRONLY); os.pwrite(fd, b'1', 0); os.close(fd)\n\
         os.write(early, b'22')\n\
         os.write(w, b'x' * 77)\n\
         reader.join()\n"
    )
}

/// Every open and write has the name whose turn it is, and so have the calls on the descriptors that are older than all names.
/// Gives how many calls there were, and how many of them had no name.
fn check(dir: &Path, count: usize, rounds: usize) -> (usize, u64) {
    let recording = Recording::open(dir).expect("a recording");
    let mut files = BTreeMap::new();
    let last =
        |path: &[u8]| String::from_utf8_lossy(path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)).into_owned();
    recording
        .for_each::<FilesRow<'_>>(|row| _ = files.insert(row.file_id, last(row.path.unwrap_or_default())))
        .expect("files");
    let (mut calls, mut unnamed, mut turns, mut early) = (0, 0, BTreeMap::new(), BTreeMap::new());
    recording
        .for_each::<SyscallsRow<'_>>(|row| {
            calls += 1;
            let (name, file) = (row.name, row.file_id.map(|id| files[&id].as_str()));
            let Some(ret) = row.ret.filter(|ret| *ret >= 0) else { return };
            if matches!((name, ret), ("write", 1 | 2 | 77) | ("read", 77))
                && file.is_none_or(|file| !file.starts_with("file"))
            {
                let wanted = if ret == 77 { "pipe:" } else { "early" };
                if file.is_none_or(|file| file.starts_with(wanted)) {
                    early.insert((name.to_owned(), ret), file.is_some());
                }
            }
            if !matches!(name, "openat" | "pwrite64") {
                return;
            }
            let turn = turns.entry(name.to_owned()).or_insert(0);
            // The interpreter opens files before and after.
            if (*turn == 0 && file != Some("file0")) || *turn == count * rounds {
                return;
            }
            match file {
                Some(file) => assert_eq!(file, format!("file{}", *turn % count), "{name} number {turn}"),
                None => unnamed += 1,
            }
            *turn += 1;
        })
        .expect("calls");
    assert!(turns.len() == 2 && turns.values().all(|turn| *turn == count * rounds), "{turns:?}");
    assert_eq!(early.len(), 4, "{early:?}");
    (calls, unnamed + early.values().filter(|named| !**named).count() as u64)
}

#[test]
fn names_are_right_where_their_numbers_pass_24_and_32_bits() {
    if !is_root() {
        return;
    }
    for begin in [1_u64 << 24, 1 << 32] {
        let dir = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let out = dir.path().join("rec");
        let counts = record(&program(600, 3), dir.path(), &out, begin - 300);
        let (_, unnamed) = check(&out, 600, 3);
        assert!(unnamed <= counts.lost, "beyond {begin}: {unnamed} calls without a name, {counts:?}");
    }
}

/// 20,000 files are more than the program remembers, so each open sends its name again; after 160,000 names the descriptor
/// and the read that are older than all of them still have theirs. With PAGELAB_TEST_FULL the numbers pass 24 bits by counting.
#[test]
fn names_are_right_after_more_of_them_than_are_kept() {
    if !is_root() {
        return;
    }
    let (count, rounds) = if std::env::var_os("PAGELAB_TEST_FULL").is_some() { (20_000, 860) } else { (20_000, 8) };
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let recording = tempfile::tempdir().expect("a directory");
    let out = recording.path().join("rec");
    let counts = record(&program(count, rounds), dir.path(), &out, 0);
    let rss = peak_rss();
    let (calls, unnamed) = check(&out, count, rounds);
    println!("{calls} calls, {unnamed} without a name, {counts:?}, {rss}");
    assert!(counts.seen >= (count * rounds) as u64, "names were sent again: {counts:?}");
    // A name that found no room leaves its two calls without.
    assert!(unnamed <= 2 * counts.lost, "{unnamed} calls without a name, {counts:?}");
    assert_eq!(counts.calls_unnamed, 0, "the read's descriptor still means the pipe");
}
