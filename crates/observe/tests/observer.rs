//! The BPF observer on the real kernel. Needs root; without it the test that says so runs instead.
//!
//! `dd` with a block of 64 MiB is the workload whose faults are known: reading /dev/zero into its fresh buffer takes one
//! kernel-mode fault for each of the 16,384 pages, because THP is forbidden to all programs that are observed here.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pagelab_observe::bpf::{Event, FaultSlot, MapEvent, Observer, ObserverOptions, TaskEvent, TaskOp};
use pagelab_observe::syscalls::{CallFilter, Shapes};

const BLOCK: u64 = 64 << 20;
const PAGES: u64 = BLOCK / 4096;

struct Seen {
    faults: Vec<FaultSlot>,
    tasks: Vec<TaskEvent>,
    maps: Vec<MapEvent>,
    paths: BTreeMap<u64, String>,
    observer: Observer,
}

/// Whatever the host gives: base pages for this process and all that it becomes.
fn without_thp() -> std::io::Result<()> {
    // SAFETY: no pointers.
    match unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn at_gate(command: &str) -> (Child, OwnedFd) {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("read go; exec {command}")]).stdin(Stdio::piped());
    // SAFETY: prctl is a system call and nothing else; it allocates nothing between fork and exec.
    unsafe { shell.pre_exec(without_thp) };
    let child = shell.spawn().expect("sh starts");
    // SAFETY: pidfd_open returns a fresh descriptor or -1.
    let pidfd = unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, child.id(), 0) as i32;
        assert!(fd >= 0, "pidfd_open: {}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(fd)
    };
    (child, pidfd)
}

/// Observes one command from its exec to its end.
fn observe(command: &str, options: ObserverOptions, drain_while_running: bool) -> Seen {
    let mut observer = Observer::load(options).expect("root and BTF are there");
    observer.attach().expect("the tracepoints are there");
    let (mut child, pidfd) = at_gate(command);
    observer.adopt(pidfd.as_fd()).expect("the child lives");
    child.stdin.take().expect("piped").write_all(b"\n").expect("sh reads");
    let mut faults = Vec::new();
    let mut events = Vec::new();
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        if drain_while_running {
            observer.drain_faults(|_, slots| faults.extend_from_slice(slots));
        }
        observer.drain_events(|event| events.push(event));
        if child.try_wait().expect("our child").is_some() {
            break;
        }
        assert!(Instant::now() < deadline, "{command} did not end");
        std::thread::sleep(Duration::from_millis(2));
    }
    observer.detach();
    observer.drain_faults(|_, slots| faults.extend_from_slice(slots));
    observer.drain_events(|event| events.push(event));
    faults.sort_by_key(|slot| slot.ts);
    let mut seen = Seen { faults, tasks: Vec::new(), maps: Vec::new(), paths: BTreeMap::new(), observer };
    for event in events {
        match event {
            Event::Task(task) => seen.tasks.push(task),
            Event::Map(map) => seen.maps.push(map),
            Event::Used(_) => {}
            Event::Path(path) => {
                _ = seen
                    .paths
                    .insert(path.path_id, path.path.as_deref().unwrap_or_default().to_string_lossy().into_owned());
            }
        }
    }
    seen
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Not a script that chooses among several, which starts processes before it is one.
fn python() -> &'static str {
    if std::path::Path::new("/usr/bin/python3").exists() { "/usr/bin/python3" } else { "python3" }
}

fn dd() -> String {
    format!("dd if=/dev/zero of=/dev/null bs={BLOCK} count=1 status=none")
}

#[test]
fn every_page_of_a_known_buffer_is_there_once() {
    if !is_root() {
        return assert!(Observer::load(ObserverOptions::default()).is_err(), "without root the load is refused");
    }
    let seen = observe(&dd(), ObserverOptions::default(), true);
    let buffer = seen
        .maps
        .iter()
        .find(|map| map.op == "mmap" && map.kind == "call" && (BLOCK..BLOCK + 65536).contains(&map.len))
        .expect("dd maps its buffer");
    let range = buffer.ret as u64..buffer.ret as u64 + buffer.len;
    let pages: Vec<u64> = seen.faults.iter().map(FaultSlot::addr).filter(|addr| range.contains(addr)).collect();
    let distinct: BTreeSet<u64> = pages.iter().map(|addr| addr >> 12).collect();
    assert_eq!(distinct.len(), pages.len(), "a page faulted twice");
    assert!((PAGES..PAGES + 4).contains(&(pages.len() as u64)), "{} faults for {PAGES} pages", pages.len());
    let counts = seen.observer.rings().total();
    assert_eq!((counts.lost, seen.observer.event_counts().lost), (0, 0));
    assert_eq!(counts.recorded as usize, seen.faults.len());
}

#[test]
fn what_a_small_ring_loses_is_counted() {
    if !is_root() {
        return;
    }
    let options = ObserverOptions { ring_bytes_per_cpu: 64 << 10, ..ObserverOptions::default() };
    let seen = observe(&dd(), options, false);
    let counts = seen.observer.rings().total();
    assert!(counts.lost > 0, "a ring of 2048 slots that nobody empties must lose");
    assert_eq!(counts.recorded as usize, seen.faults.len());
    // The buffer's pages and the few hundred faults of starting any program.
    assert!((PAGES..PAGES + 500).contains(&counts.seen()), "{counts:?}");
}

#[test]
fn counting_only_counts_the_same_and_records_nothing() {
    if !is_root() {
        return;
    }
    let options = ObserverOptions { counting_only: true, ..ObserverOptions::default() };
    let seen = observe(&dd(), options, true);
    let counts = seen.observer.rings().total();
    assert!(seen.faults.is_empty() && counts.recorded == 0);
    assert!(counts.counted >= PAGES, "{counts:?}");
}

#[test]
fn the_tree_is_followed_through_fork_and_exec() {
    if !is_root() {
        return;
    }
    let seen = observe("sh -c '(exec true); true'", ObserverOptions::default(), true);
    let of = |op: TaskOp| seen.tasks.iter().filter(move |task| task.op == op).collect::<Vec<_>>();
    let forks = of(TaskOp::Fork);
    assert_eq!(forks.len(), 1, "{forks:?}");
    assert_eq!(forks[0].parent_task_id, Some(1));
    let execs = of(TaskOp::Exec);
    let names: Vec<&str> = execs.iter().filter_map(|task| seen.paths.get(&task.path_id?)).map(String::as_str).collect();
    assert!(names.iter().any(|name| name.ends_with("/true")), "{names:?}");
    let exits = of(TaskOp::Exit);
    assert_eq!(exits.len(), 2);
    // An exec gives a new address space, a fork without shared memory another.
    let spaces: BTreeSet<u32> =
        seen.tasks.iter().filter(|task| task.op != TaskOp::Comm).filter_map(|task| task.mm_id).collect();
    assert!(spaces.len() >= 3, "{spaces:?}");
    assert!(
        seen.maps.iter().any(|map| map.kind == "fork" && Some(map.mm_id) == forks[0].mm_id),
        "inherited mappings are listed"
    );
    assert_eq!(seen.observer.event_counts().vma_walks_failed, 0);
}

#[test]
fn exec_mappings_have_names_and_cover_the_program() {
    if !is_root() {
        return;
    }
    let seen = observe("true", ObserverOptions::default(), true);
    let made: Vec<&MapEvent> = seen.maps.iter().filter(|map| map.kind == "kernel").collect();
    let name = |map: &MapEvent| map.path_id.and_then(|id| seen.paths.get(&id)).cloned().unwrap_or_default();
    assert!(made.iter().any(|map| name(map).ends_with("/true") && map.prot & 4 != 0), "the program's text");
    assert!(made.iter().any(|map| map.special == pagelab_observe::bpf::Special::Stack));
    let text = made.iter().find(|map| name(map).contains("ld-linux")).expect("the loader is mapped by exec");
    let meta = std::fs::metadata(name(text)).expect("the name leads to the file");
    assert_eq!(std::os::unix::fs::MetadataExt::ino(&meta), text.ino);
    assert_eq!(std::os::unix::fs::MetadataExt::dev(&meta), text.dev);
}

/// The length that `CALLS` maps: no other program maps that much.
const LEN: u64 = 777 * 4096;

/// Calls that take the lock of the address space, one that the kernel refuses before that, and one that needs another lock.
const CALLS: &str = "import ctypes, mmap
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = libc.mremap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
LEN = 777 * 4096
at = libc.mmap(None, LEN, 3, 0x22, -1, 0)
libc.mmap(None, LEN, 3, 0x20, -1, 0)
libc.mprotect(ctypes.c_void_p(at), ctypes.c_size_t(LEN), 1)
libc.madvise(ctypes.c_void_p(at), ctypes.c_size_t(LEN), 4)
libc.madvise(ctypes.c_void_p(at), ctypes.c_size_t(LEN), 14)
at = libc.mremap(ctypes.c_void_p(at), ctypes.c_size_t(LEN), ctypes.c_size_t(2 * LEN), 1)
libc.munmap(ctypes.c_void_p(at), ctypes.c_size_t(LEN))
libc.munmap(ctypes.c_void_p(at + LEN), ctypes.c_size_t(LEN))";

#[test]
fn mapping_calls_are_the_same_wherever_they_are_seen_to_begin() {
    if !is_root() {
        return;
    }
    let command = format!("{} -c '{CALLS}'", python());
    for begin_at_entry in [false, true] {
        let seen = observe(&command, ObserverOptions { begin_at_entry, ..ObserverOptions::default() }, true);
        let calls: Vec<&MapEvent> = seen.maps.iter().filter(|map| map.kind == "call").collect();
        let known: Vec<(&str, u32, bool)> = calls
            .iter()
            .filter(|map| map.len == LEN || map.len == 2 * LEN)
            .map(|map| (map.op, map.advice, map.ret < 0))
            .collect();
        let needed = [
            ("mmap", 0, false),
            ("mmap", 0, true),
            ("mprotect", 0, false),
            ("madvise", 4, false),
            ("madvise", 14, false),
            ("mremap", 0, false),
            ("munmap", 0, false),
            ("munmap", 0, false),
        ];
        assert_eq!(known, needed, "begin at entry: {begin_at_entry}");
        for pair in calls.windows(2) {
            assert!(pair[0].ts + pair[0].dur_ns <= pair[1].ts, "one thread's calls follow each other: {pair:?}");
        }
        let made = calls.iter().find(|map| map.op == "mmap" && map.len == LEN).expect("it is there");
        assert!(made.dur_ns > 0, "its beginning was seen: {made:?}");
        let breaks: Vec<&&MapEvent> = calls.iter().filter(|map| map.op == "brk").collect();
        let follows = |pair: &[&&MapEvent]| pair[0].mm_id != pair[1].mm_id || pair[0].ret as u64 == pair[1].old_addr;
        assert!(breaks.len() > 2 && breaks.windows(2).all(follows), "{breaks:?}");
        // The program's image is there before the first fault on it.
        for space in seen.tasks.iter().filter(|task| task.op == TaskOp::Exec).filter_map(|task| task.mm_id) {
            let image =
                seen.maps.iter().filter(|map| map.kind == "kernel" && map.mm_id == space).map(|map| map.ts).min();
            let fault = seen.faults.iter().filter(|slot| slot.mm_id == space).map(|slot| slot.ts).min();
            assert!(image.expect("mappings") <= fault.expect("faults"), "space {space}");
        }
    }
}

/// A child of this process that executes nothing, and so holds all that this process has open, until it is dropped.
struct Forked(libc::pid_t);

impl Forked {
    fn start() -> Self {
        // SAFETY: between fork and its end the child only waits.
        match unsafe { libc::fork() } {
            0 => loop {
                // SAFETY: no pointers.
                unsafe { libc::pause() };
            },
            pid => {
                assert!(pid > 0, "fork: {}", std::io::Error::last_os_error());
                Self(pid)
            }
        }
    }
}

impl Drop for Forked {
    fn drop(&mut self) {
        // SAFETY: our own child, that nobody else waits for.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

/// Maps a block, faults on its pages, and starts a process, again and again for ten seconds.
const BUSY: &str = "
import mmap, os, time
end = time.monotonic() + 10
while time.monotonic() < end:
    block = mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for at in range(0, 1 << 20, 4096): block[at] = 1
    block.close()
    os.system(\"true\")";

#[test]
fn what_is_detached_records_and_counts_nothing_while_a_forked_child_holds_its_links() {
    if !is_root() {
        return;
    }
    let options = ObserverOptions {
        calls: Some(Shapes::of(&CallFilter::default()).infos()),
        sched: true,
        ..ObserverOptions::default()
    };
    let mut observer = Observer::load(options).expect("root and BTF are there");
    observer.attach().expect("the tracepoints are there");
    let (mut child, pidfd) = at_gate(&format!("{} -c '{BUSY}'", python()));
    observer.adopt(pidfd.as_fd()).expect("the child lives");
    child.stdin.take().expect("piped").write_all(b"\n").expect("sh reads");
    std::thread::sleep(Duration::from_millis(500));
    let _holds_the_links = Forked::start();
    let counted = |observer: &Observer| {
        let (faults, calls, events) =
            (observer.rings().total(), observer.call_rings().total(), observer.event_counts());
        (faults.seen(), calls.returned, calls.off_seen, events.seen)
    };
    observer.shed(pagelab_observe::streams::Stream::Faults);
    std::thread::sleep(Duration::from_millis(20));
    let shed = counted(&observer);
    std::thread::sleep(Duration::from_millis(200));
    let goes_on = counted(&observer);
    assert_eq!(goes_on.0, shed.0, "faults that were shed");
    assert!(goes_on.3 > shed.3 + 100, "the program works: {shed:?}, {goes_on:?}");
    observer.detach();
    std::thread::sleep(Duration::from_millis(20));
    let before = counted(&observer);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(counted(&observer), before, "faults, calls, times off the CPU, events");
    assert!(before.0 > 1000, "{before:?}");
    child.kill().expect("it runs");
    child.wait().expect("our child");
}
