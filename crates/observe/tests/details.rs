//! How page faults end, on the real kernel: a program touches memory of every kind it can make, and each touch must be
//! reported as what it was. Needs root.
//!
//! The program is this test's own binary, started a second time as [`workload`]. It says what it touches where.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

use pagelab_observe::bpf::{Event, FaultSlot, Observer, ObserverOptions, TaskOp};
use pagelab_observe::details::{FaultDetail, FaultDetails};

const PAGE: usize = 4096;
const PAGES: usize = 64;
const HUGE: usize = 2 << 20;
const READ: libc::c_int = libc::PROT_READ;
const WRITE: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;
/// Set for the program.
const DIR: &str = "PAGELAB_TEST_DIR";

/// Maps memory; never small enough for the allocator to use.
fn map(len: usize, prot: libc::c_int, flags: libc::c_int, file: Option<&File>) -> *mut u8 {
    let fd = file.map_or(-1, AsRawFd::as_raw_fd);
    let flags = if file.is_some() { flags } else { flags | libc::MAP_ANONYMOUS };
    // SAFETY: a new mapping where the kernel likes it; nothing else refers to it.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), len, prot, flags, fd, 0) };
    assert_ne!(at, libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
    at.cast()
}

fn advise(at: *mut u8, len: usize, advice: libc::c_int) {
    // SAFETY: the range is a mapping of this test's own, and none of the kinds of advice used here takes contents away.
    let done = unsafe { libc::madvise(at.cast(), len, advice) };
    assert_eq!(done, 0, "madvise: {}", std::io::Error::last_os_error());
}

fn read(at: *mut u8, step: usize, count: usize) {
    for i in 0..count {
        // SAFETY: inside the mapping that starts at `at`.
        unsafe { at.add(i * step).read_volatile() };
    }
}

fn write(at: *mut u8, step: usize, count: usize) {
    for i in 0..count {
        // SAFETY: inside the mapping that starts at `at`.
        unsafe { at.add(i * step).write_volatile(1) };
    }
}

fn major_faults() -> i64 {
    // SAFETY: getrusage fills the structure, which is plain numbers.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage.ru_majflt
    }
}

/// Says that the next touches are of `name`.
fn say(name: &str, at: *mut u8, len: usize) {
    println!("TOUCH {name} {} {len}", at as usize);
}

fn file_of(dir: &str, name: &str) -> File {
    let mut options = File::options();
    let file = options.create(true).truncate(true).read(true).write(true).open(format!("{dir}/{name}")).expect("opens");
    for page in 0..PAGES {
        // No large buffer: its address would be used again by the mapping.
        file.write_all_at(&[7; PAGE], (page * PAGE) as u64).expect("room for a file");
    }
    file.sync_all().expect("syncs");
    file
}

fn touch_anonymous() {
    let len = PAGES * PAGE;
    let fresh = || {
        let at = map(len, WRITE, libc::MAP_PRIVATE, None);
        advise(at, len, libc::MADV_NOHUGEPAGE);
        at
    };
    let (new, zero, shared) = (fresh(), fresh(), fresh());
    say("new", new, len);
    write(new, PAGE, PAGES);
    say("zero", zero, len);
    read(zero, PAGE, PAGES);
    say("cow", zero, len);
    write(zero, PAGE, PAGES);
    write(shared, PAGE, PAGES);
    say("cow", shared, len);
    // SAFETY: the child touches memory that was mapped before, and ends; both are allowed after a fork with threads.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            write(shared, PAGE, PAGES);
            libc::_exit(0);
        }
        assert_eq!(libc::waitpid(child, std::ptr::null_mut(), 0), child);
    }
    let memory = map(len, WRITE, libc::MAP_SHARED, None);
    say("page_cache", memory, len);
    write(memory, PAGE, PAGES);
}

fn touch_files(dir: &str) {
    let len = PAGES * PAGE;
    let file = file_of(dir, "cached");
    let (shared, private) =
        (map(len, READ, libc::MAP_SHARED, Some(&file)), map(len, WRITE, libc::MAP_PRIVATE, Some(&file)));
    say("page_cache", shared, len);
    read(shared, PAGE, PAGES);
    say("cow", private, len);
    write(private, PAGE, PAGES);
    let file = file_of(dir, "dropped");
    // SAFETY: advice on a descriptor that lives.
    assert_eq!(unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) }, 0);
    let dropped = map(len, READ, libc::MAP_SHARED, Some(&file));
    advise(dropped, len, libc::MADV_RANDOM);
    let before = major_faults();
    say("page_cache", dropped, len);
    read(dropped, PAGE, PAGES);
    println!("MAJOR {} {} {len}", major_faults() - before, dropped as usize);
}

/// Memory for huge pages: two of them, aligned. Whether they are had is up to the host.
fn touch_huge() {
    let aligned = || {
        let at = map(3 * HUGE, WRITE, libc::MAP_PRIVATE, None);
        // SAFETY: at most HUGE - 1 bytes into a mapping of three times that.
        let at = unsafe { at.add(at.align_offset(HUGE)) };
        advise(at, 2 * HUGE, libc::MADV_HUGEPAGE);
        at
    };
    let (new, zero) = (aligned(), aligned());
    println!("HUGE huge_new {} {}", new as usize, 2 * HUGE);
    write(new, PAGE, 2 * HUGE / PAGE);
    println!("HUGE huge_zero {} {}", zero as usize, 2 * HUGE);
    read(zero, PAGE, 2 * HUGE / PAGE);
}

#[test]
#[ignore = "the program that the other tests start"]
fn workload() {
    let Ok(dir) = std::env::var(DIR) else { return };
    touch_anonymous();
    touch_files(&dir);
    touch_huge();
    // Enough for statistics: 16,384 faults.
    let many = map(64 << 20, WRITE, libc::MAP_PRIVATE, None);
    advise(many, 64 << 20, libc::MADV_NOHUGEPAGE);
    say("new", many, 64 << 20);
    write(many, PAGE, (64 << 20) / PAGE);
    println!("ALL {}", major_faults());
}

/// What came of it.
struct Seen {
    said: Vec<String>,
    faults: Vec<(usize, u64, FaultSlot)>,
    details: Vec<FaultDetail>,
    /// Minor and major faults as the kernel counted them for the tasks of the tree.
    counted: (u64, u64),
    lost: u64,
}

impl Seen {
    /// The record of the fault that a detail is of.
    fn fault_of(&self, detail: &FaultDetail) -> Option<&FaultSlot> {
        let by_place =
            |(cpu, at, _): &&(usize, u64, FaultSlot)| *cpu == detail.cpu as usize && Some(*at) == detail.position;
        let before = |(_, _, slot): &&(usize, u64, FaultSlot)| {
            (slot.task_id, slot.addr()) == (detail.task_id, detail.addr) && slot.ts <= detail.ts
        };
        let latest = || self.faults.iter().filter(before).max_by_key(|(_, _, slot)| slot.ts);
        let found = self.faults.iter().find(by_place).or_else(latest).map(|(_, _, slot)| slot)?;
        assert_eq!((found.task_id, found.addr()), (detail.task_id, detail.addr), "the place is another fault's");
        assert!(found.ts <= detail.ts);
        Some(found)
    }

    /// Lines of the program that begin with `word`, as numbers after the words.
    fn lines<'a>(&'a self, word: &'a str) -> impl Iterator<Item = Vec<&'a str>> {
        self.said.iter().map(|line| line.split(' ').collect::<Vec<_>>()).filter(move |line| line[0] == word)
    }
}

fn number(text: &str) -> u64 {
    text.parse().expect("the program says a number")
}

/// Runs the program under an observer; `None` without root.
fn observe(name: &str, one_in: u64) -> Option<Seen> {
    if !rustix::process::geteuid().is_root() {
        assert!(Observer::load(ObserverOptions::default()).is_err(), "without root the load is refused");
        return None;
    }
    let dir = format!("{}/details-{name}-{}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    std::fs::create_dir_all(&dir).expect("a directory for files");
    let options = ObserverOptions { ring_bytes_per_cpu: 16 << 20, ..ObserverOptions::default() };
    let mut observer = Observer::load(options).expect("root and BTF are there");
    observer.attach().expect("the tracepoints are there");
    let mut probe = FaultDetails::open(&observer, one_in).expect("what the observer needs is enough");
    assert_eq!(probe.no_walk(), None, "page tables can be read");
    probe.attach().expect("software events are there");
    let own = std::env::current_exe().expect("this binary");
    let mut child = Command::new("sh")
        .args(["-c", "read go; exec \"$0\" --ignored --exact workload --nocapture"])
        .arg(own)
        .env(DIR, &dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sh starts");
    // SAFETY: pidfd_open returns a fresh descriptor or -1.
    let pidfd = unsafe { OwnedFd::from_raw_fd(libc::syscall(libc::SYS_pidfd_open, child.id(), 0) as i32) };
    observer.adopt(pidfd.as_fd()).expect("the child lives");
    child.stdin.take().expect("piped").write_all(b"\n").expect("sh reads");
    let output = child.wait_with_output().expect("our child");
    assert!(output.status.success(), "{output:?}");
    observer.detach();
    probe.detach();
    let mut seen = Seen {
        said: String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect(),
        faults: Vec::new(),
        details: Vec::new(),
        counted: (0, 0),
        lost: probe.counts().lost + observer.rings().total().lost,
    };
    observer.mark_faults();
    probe.drain(&mut seen.details);
    observer.drain_marked_faults(|cpu, first, slots| {
        seen.faults.extend(slots.iter().zip(first..).map(|(slot, at)| (cpu, at, *slot)));
    });
    observer.drain_events(|event| {
        if let Event::Task(task) = event
            && task.op == TaskOp::Exit
        {
            seen.counted.0 += task.faults.expect("counted at exit").0;
            seen.counted.1 += task.faults.expect("counted at exit").1;
        }
    });
    assert_eq!(probe.counts().seen - probe.counts().lost, seen.details.len() as u64);
    std::fs::remove_dir_all(&dir).expect("our directory");
    Some(seen)
}

#[test]
fn every_touch_is_told_as_what_it_was() {
    let Some(seen) = observe("all", 1) else { return };
    assert_eq!(seen.lost, 0);
    // The words for the memory got, per range, in the order in which the program named them.
    let mut got: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for detail in &seen.details {
        let Some(fault) = seen.fault_of(detail) else { panic!("{detail:?} belongs to no fault") };
        got.entry(detail.addr / PAGE as u64).or_default().extend(detail.got(fault.error_code()));
    }
    let words_in =
        |start: u64, len: u64| got.range(start / PAGE as u64..(start + len) / PAGE as u64).map(|(_, words)| words);
    for line in seen.lines("TOUCH") {
        let (word, start, len) = (line[1], number(line[2]), number(line[3]));
        let words: Vec<_> = words_in(start, len).collect();
        let right = words.iter().filter(|words| words.contains(&word)).count();
        assert!(right > 0 && right == words.len(), "{line:?}: {right} of {} pages; {:?}", words.len(), words.first());
        // The kernel maps the neighbours of a cached page with it, and no other page.
        assert!(word == "page_cache" || right == len as usize / PAGE, "{line:?}: {right}");
    }
    for line in seen.lines("HUGE") {
        let (word, start, len) = (line[1], number(line[2]), number(line[3]));
        for slot in (start..start + len).step_by(HUGE) {
            let words: Vec<_> = words_in(slot, HUGE as u64).collect();
            let huge = words.iter().filter(|words| words.contains(&word)).count();
            assert_eq!(huge == 1, words.len() == 1, "{line:?}: {} faults, {huge} of them huge", words.len());
        }
    }
}

#[test]
fn majors_are_all_there_however_few_minors_are_looked_at() {
    let Some(seen) = observe("majors", 1 << 40) else { return };
    assert_eq!(seen.lost, 0);
    assert!(seen.details.iter().all(|detail| detail.major), "one in a trillion is none");
    let majors_in = |start: u64, len: u64| {
        seen.details.iter().filter(|detail| (start..start + len).contains(&detail.addr)).count() as u64
    };
    let [line] = &seen.lines("MAJOR").collect::<Vec<_>>()[..] else { panic!("{:?}", seen.said) };
    let (counted, start, len) = (number(line[1]), number(line[2]), number(line[3]));
    assert_eq!(counted, PAGES as u64, "each page of a dropped file is read by itself");
    assert_eq!(majors_in(start, len), counted);
    // The kernel counts those of exec and of system calls, too.
    assert!(seen.details.len() as u64 <= seen.counted.1, "{} of {}", seen.details.len(), seen.counted.1);
    for detail in &seen.details {
        assert!(seen.fault_of(detail).is_some(), "{detail:?} belongs to no fault");
    }
}

#[test]
fn one_in_n_is_one_in_n() {
    const ONE_IN: u64 = 64;
    let Some(seen) = observe("some", ONE_IN) else { return };
    assert_eq!(seen.lost, 0);
    let minors = seen.details.iter().filter(|detail| !detail.major).count() as f64;
    // The event counts to N on each CPU, over all tasks of the system: what others do moves the phase, and so the count varies
    // no more than that of independent draws.
    let expected = (seen.faults.len() as u64 - (seen.details.len() as u64 - minors as u64)) as f64 / ONE_IN as f64;
    assert!((minors - expected).abs() <= 4.0 * expected.sqrt(), "{minors} samples, expected {expected}");
}
