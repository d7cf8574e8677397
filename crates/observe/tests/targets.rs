//! Targets that run already, on the real kernel: processes with their threads, cgroups, everything. Needs root.
//!
//! The workload is a Python program that has mapped its memory and started its threads before it is attached to, and
//! touches that memory, in every thread, only afterwards: so each fault falls on a mapping that was there before.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pagelab_observe::bpf::{Cgroup, Event, FaultSlot, MapEvent, Members, Observer, ObserverOptions, TaskEvent, TaskOp};

const THREADS: usize = 3;
const BLOCK: usize = 8 << 20;

/// Maps a block per thread, tells where, waits for a line, touches all blocks, runs `true`, waits for another line.
const PROGRAM: &str = r"
import ctypes, mmap, os, subprocess, sys, threading
size = int(sys.argv[1])
blocks = [mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) for _ in range(int(sys.argv[2]))]
for block in blocks: block.madvise(mmap.MADV_NOHUGEPAGE)
go = threading.Event()
done = []
def touch(block):
    go.wait()
    for at in range(0, size, 4096): block[at] = 1
    done.append(1)
threads = [threading.Thread(target=touch, args=(block,)) for block in blocks]
for thread in threads: thread.start()
print(*(hex(ctypes.addressof(ctypes.c_char.from_buffer(block))) for block in blocks), flush=True)
sys.stdin.readline()
go.set()
for thread in threads: thread.join()
# Python's join returns before the kernel's thread has gone.
while len(os.listdir('/proc/self/task')) > 1: pass
subprocess.run(['true'])
print('touched', flush=True)
sys.stdin.readline()
print('unharmed', flush=True)
";

struct Workload {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    blocks: Vec<u64>,
}

impl Workload {
    fn start() -> Self {
        let mut child = Command::new("python3")
            .args(["-c", PROGRAM, &BLOCK.to_string(), &THREADS.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 (make setup-test)");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        let mut workload = Self { child, out, blocks: Vec::new() };
        let addresses = workload.line();
        let parse = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).expect("an address");
        workload.blocks = addresses.split_whitespace().map(parse).collect();
        workload
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("a line");
        line.trim().to_owned()
    }

    /// Whether it says something within a time, or has ended.
    fn has_said(&self, within: Duration) -> bool {
        let mut out = [rustix::event::PollFd::new(self.out.get_ref(), rustix::event::PollFlags::IN)];
        let within = within.try_into().expect("some milliseconds");
        !self.out.buffer().is_empty() || rustix::event::poll(&mut out, Some(&within)).is_ok_and(|ready| ready > 0)
    }

    fn say(&mut self) {
        self.child.stdin.as_mut().expect("piped").write_all(b"\n").expect("it reads");
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn pidfd(&self) -> OwnedFd {
        // SAFETY: pidfd_open returns a fresh descriptor or -1.
        unsafe {
            let fd = libc::syscall(libc::SYS_pidfd_open, self.pid(), 0) as i32;
            assert!(fd >= 0, "pidfd_open: {}", std::io::Error::last_os_error());
            OwnedFd::from_raw_fd(fd)
        }
    }

    /// Goes on after the observer is gone.
    fn goes_on(mut self) {
        self.say();
        assert_eq!(self.line(), "unharmed");
        assert!(self.child.wait().expect("our child").success());
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Default)]
struct Seen {
    faults: Vec<FaultSlot>,
    tasks: Vec<TaskEvent>,
    maps: Vec<MapEvent>,
    paths: BTreeMap<u64, String>,
}

impl Seen {
    fn drain(&mut self, observer: &mut Observer) {
        observer.drain_faults(|_, slots| self.faults.extend_from_slice(slots));
        observer.drain_events(|event| match event {
            Event::Task(task) => self.tasks.push(task),
            Event::Map(map) => self.maps.push(map),
            Event::Used(_) => {}
            Event::Path(path) => {
                _ = self
                    .paths
                    .insert(path.path_id, path.path.as_deref().unwrap_or_default().to_string_lossy().into_owned());
            }
        });
    }

    fn of(&self, op: TaskOp, pid: u32) -> Vec<&TaskEvent> {
        self.tasks.iter().filter(|task| task.op == op && task.pid == pid).collect()
    }

    /// Distinct pages of a block that faulted in the address space, and whether each lies in a mapping listed before it.
    fn pages_of(&self, block: u64, mm_id: u32) -> usize {
        let range = block..block + BLOCK as u64;
        let mine = self.faults.iter().filter(|slot| slot.mm_id == mm_id && range.contains(&slot.addr()));
        let listed = |slot: &FaultSlot| {
            self.maps.iter().any(|map| {
                map.kind == "snapshot"
                    && map.mm_id == mm_id
                    && map.ts <= slot.ts
                    && (map.addr..map.addr + map.len).contains(&slot.addr())
            })
        };
        let pages: BTreeSet<u64> = mine.filter(|slot| listed(slot)).map(|slot| slot.addr() >> 12).collect();
        pages.len()
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn observer(members: Members) -> Observer {
    let mut observer = Observer::load(ObserverOptions { members, ..ObserverOptions::default() }).expect("root and BTF");
    observer.attach().expect("the tracepoints are there");
    observer
}

/// Lets the workload touch its memory, and checks that all of it is seen.
#[track_caller]
fn touch_and_check(observer: &mut Observer, workload: &mut Workload, seen: &mut Seen) {
    seen.drain(observer);
    workload.say();
    // Others fill the rings meanwhile.
    while !workload.has_said(Duration::from_millis(10)) {
        seen.drain(observer);
    }
    assert_eq!(workload.line(), "touched");
    seen.drain(observer);
    let pid = workload.pid();
    let found = seen.of(TaskOp::Snapshot, pid);
    let tids: BTreeSet<u32> = found.iter().map(|task| task.tid).collect();
    assert_eq!((tids.len(), found.len()), (THREADS + 1, THREADS + 1), "each thread once: {found:?}");
    let leader = found.iter().find(|task| task.tid == pid).expect("the first thread");
    let exe = seen.paths.get(&leader.path_id.expect("an executable")).expect("its name");
    assert!(exe.contains("python3"), "{exe}");
    assert!(found.iter().all(|task| task.mm_id == leader.mm_id && task.mm_id.is_some()), "{found:?}");
    assert!(
        found.iter().filter(|task| task.tid != pid).all(|task| task.parent_task_id == Some(leader.task_id)),
        "{found:?}"
    );
    let mm_id = leader.mm_id.expect("a user process");
    let rows = seen.maps.iter().filter(|map| map.kind == "snapshot" && map.mm_id == mm_id);
    let starts: Vec<u64> = rows.map(|map| map.addr).collect();
    assert_eq!(starts.iter().collect::<BTreeSet<_>>().len(), starts.len(), "a mapping was listed twice");
    for block in &workload.blocks {
        let pages = seen.pages_of(*block, mm_id);
        // The page with the block's first byte may have been touched when its address was taken.
        assert!((BLOCK / 4096 - 1..=BLOCK / 4096).contains(&pages), "{pages} of {}", BLOCK / 4096);
    }
    // Others fork, too, and who was their parent may not be known.
    let own: BTreeSet<u32> = found.iter().map(|task| task.task_id).collect();
    let is_child =
        |task: &TaskEvent| task.pid != pid && task.parent_task_id.is_some_and(|parent| own.contains(&parent));
    let mut forks = seen.tasks.iter().filter(|task| task.op == TaskOp::Fork && task.comm != b"");
    assert!(forks.any(is_child), "what it forks is followed");
}

/// The kernel leaves hits of a tracepoint out now and then. Here nothing was attached yet when the threads and the child were made.
#[test]
fn tasks_whose_birth_was_not_seen_are_found() {
    if !is_root() {
        return;
    }
    let mut parent = Command::new("sh")
        .args(["-c", "sleep 600 & python3 -c 'import threading, time; threading.Thread(target=time.sleep, args=(600,)).start(); print(1, flush=True)' & wait"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("sh and python3 (make setup-test)");
    let mut line = String::new();
    BufReader::new(parent.stdout.take().expect("piped")).read_line(&mut line).expect("its thread runs");
    // SAFETY: pidfd_open returns a fresh descriptor or -1.
    let pidfd = unsafe { OwnedFd::from_raw_fd(libc::syscall(libc::SYS_pidfd_open, parent.id(), 0) as i32) };
    let mut observer = observer(Members::Started);
    observer.adopt_running(pidfd.as_fd()).expect("it lives");
    let mut seen = Seen::default();
    seen.drain(&mut observer);
    assert!(seen.tasks.is_empty(), "{:?}", seen.tasks);
    for _ in 0..3 {
        observer.find_missed(true).expect("a walk");
    }
    seen.drain(&mut observer);
    let found: Vec<&TaskEvent> = seen.tasks.iter().filter(|task| task.op == TaskOp::Fork).collect();
    assert_eq!(
        (found.len(), seen.tasks.len()),
        (3, 3),
        "the two children and the thread of one, each once: {:?}",
        seen.tasks
    );
    let of =
        |tid_is_pid: bool| found.iter().filter(move |task| (task.tid == task.pid) == tid_is_pid).collect::<Vec<_>>();
    let [thread] = of(false)[..] else { panic!("{found:?}") };
    let process = found.iter().find(|task| task.tid == thread.pid).expect("its process");
    assert_eq!((thread.parent_task_id, thread.mm_id), (Some(process.task_id), process.mm_id), "{found:?}");
    assert!(of(true).iter().all(|task| task.parent_task_id == Some(1)), "{found:?}");
    let listed = |mm_id: Option<u32>| seen.maps.iter().filter(|map| Some(map.mm_id) == mm_id).count();
    assert!(of(true).iter().all(|task| listed(task.mm_id) > 5), "their mappings are known");
    for task in of(true) {
        let pid = rustix::process::Pid::from_raw(task.pid as i32).expect("a process");
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    let _ = parent.wait();
}

#[test]
fn a_process_is_attached_to_with_all_its_threads_and_left_unharmed() {
    if !is_root() {
        return;
    }
    let (mut workload, mut other) = (Workload::start(), Workload::start());
    let mut observer = observer(Members::Processes { descendants: false });
    observer.want(workload.pidfd().as_fd()).expect("it lives");
    assert_eq!(observer.find().expect("the walk"), THREADS + 1);
    other.say();
    assert_eq!(other.line(), "touched");
    let mut seen = Seen::default();
    touch_and_check(&mut observer, &mut workload, &mut seen);
    assert!(seen.tasks.iter().all(|task| task.pid != other.pid()), "another process was recorded");
    assert_eq!(observer.find().expect("a second walk"), 0, "nothing is found twice");
    let counts = observer.event_counts();
    assert_eq!((counts.lost, counts.vma_walks_failed), (0, 0));
    drop(observer);
    workload.goes_on();
    other.goes_on();
}

/// A cgroup of version 2, and one of version 1 where this host has one, made for the test and removed.
fn cgroups() -> Vec<PathBuf> {
    let roots = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup", "/sys/fs/cgroup/freezer", "/sys/fs/cgroup/pids"];
    let own = std::process::id();
    let roots = roots.map(Path::new).into_iter().filter(|root| root.join("cgroup.procs").exists());
    roots.map(|root| root.join(format!("pagelab-test-{own}"))).collect()
}

struct Made(PathBuf);

impl Made {
    fn new(path: &Path) -> Option<Self> {
        fs::create_dir(path).ok().map(|()| Self(path.to_owned()))
    }

    fn take(&self, pid: u32) {
        fs::write(self.0.join("cgroup.procs"), pid.to_string()).expect("the process is moved");
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(5);
        // A cgroup can be removed when its last task is gone for good.
        while fs::remove_dir(&self.0).is_err() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn a_cgroups_tasks_are_recorded_while_they_are_in_it() {
    if !is_root() {
        return;
    }
    let mut tried = 0;
    for path in cgroups() {
        let Some(outer) = Made::new(&path) else { continue };
        let inner = Made::new(&path.join("below")).expect("a cgroup below");
        tried += 1;
        let (mut inside, mut moved) = (Workload::start(), Workload::start());
        inner.take(inside.pid());
        let cgroup = Cgroup::open(&path).expect("a cgroup");
        assert!(!cgroup.is_empty(), "its child has a process");
        let mut observer = observer(Members::Cgroup(cgroup));
        assert_eq!(observer.find().expect("the walk"), THREADS + 1, "{}", path.display());
        let mut seen = Seen::default();
        touch_and_check(&mut observer, &mut inside, &mut seen);
        outer.take(moved.pid());
        observer.follow_moves().expect("a walk");
        touch_and_check(&mut observer, &mut moved, &mut seen);
        // Out again: its later events are its own affair.
        fs::write(path.parent().expect("the root").join("cgroup.procs"), moved.pid().to_string()).expect("moved out");
        observer.follow_moves().expect("a walk");
        seen.drain(&mut observer);
        assert_eq!(seen.of(TaskOp::Leave, moved.pid()).len(), 1, "its threads have ended: {:?}", seen.tasks);
        let moved_pid = moved.pid();
        moved.goes_on();
        seen = Seen::default();
        seen.drain(&mut observer);
        assert!(seen.tasks.iter().all(|task| task.pid != moved_pid), "{:?}", seen.tasks);
        drop(observer);
        inside.goes_on();
    }
    assert!(tried > 0, "no cgroup file system under /sys/fs/cgroup");
}

/// `PF_EXITING` of the kernel's `include/linux/sched.h`, in the ninth field of `/proc/PID/stat`: it gives back what it has, which takes
/// a recorder with programs in the kernel a while, and becomes nobody's member any more.
const PF_EXITING: u64 = 0x4;

/// Whether a line of `/proc/PID/stat` is of a task that runs, or waits to.
fn lives(stat: &str) -> bool {
    let Some((_, rest)) = stat.rsplit_once(')') else { return false };
    let mut fields = rest.split_whitespace();
    let is_dead = fields.next().is_none_or(|state| matches!(state, "Z" | "X"));
    let flags: u64 = fields.nth(5).and_then(|flags| flags.parse().ok()).expect("flags in /proc/PID/stat");
    !is_dead && flags & PF_EXITING == 0
}

/// The threads of all processes but this one, except those that are ending. A kernel may hide a process from
/// root, too, as that of some virtual machines does with the agent of its host: whose mappings root may not read is not met by the walk.
fn living() -> BTreeSet<u32> {
    let mut tids = BTreeSet::new();
    for process in fs::read_dir("/proc").expect("/proc").flatten() {
        let pid = process.file_name().to_string_lossy().parse::<u32>();
        let Ok(tasks) = fs::read_dir(process.path().join("task")) else { continue };
        let is_hidden =
            File::open(process.path().join("maps")).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
        if pid.is_err() || pid.is_ok_and(|pid| pid == std::process::id()) || is_hidden {
            continue;
        }
        for task in tasks.flatten() {
            let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            if lives(&stat) {
                tids.extend(task.file_name().to_string_lossy().parse::<u32>());
            }
        }
    }
    tids
}

#[test]
fn the_whole_system_is_everything_but_the_recorder() {
    if !is_root() {
        return;
    }
    let mut workload = Workload::start();
    let mut observer = observer(Members::All);
    let before = living();
    let found = observer.find().expect("the walk");
    // Tasks come and go between the looks.
    let living: BTreeSet<u32> = before.intersection(&living()).copied().collect();
    let mut seen = Seen::default();
    seen.drain(&mut observer);
    assert!(seen.tasks.iter().any(|task| task.tid == 2 && task.mm_id.is_none()), "kthreadd has no address space");
    assert!(seen.of(TaskOp::Snapshot, std::process::id()).is_empty(), "the recorder is left out");
    let met: BTreeSet<u32> = seen.tasks.iter().map(|task| task.tid).collect();
    let missed: Vec<&u32> = living.difference(&met).collect();
    assert!(missed.is_empty(), "{missed:?} of {} are missing in {found} found", living.len());
    touch_and_check(&mut observer, &mut workload, &mut seen);
    assert_eq!(observer.event_counts().lost, 0);
    workload.goes_on();
}
