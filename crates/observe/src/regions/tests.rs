//! The thread and the looks, on this process and its children.

use std::process::Command;

use std::fs;
use std::io;

use super::*;

const HUGE_BYTES: u64 = HUGE_2M_BYTES as u64;

/// Looks with the page tables, where the kernel shows them, and without: with flags from smaps, which this process is too large for
/// by itself, and with flags from the walk over areas, as the thread has them.
fn glancers() -> Vec<Glancer> {
    let root = Path::new("/");
    let scanning = || Glancer::new(root).expect("this host has smaps");
    let summing = Glancer::without_page_tables(root).walking_all(true);
    if *scanning().source() != Pages::PagemapScan {
        return vec![summing];
    }
    let areas = VmaWalk::load().expect("the walk over areas is loaded");
    vec![scanning().walking_all(true), scanning().with_areas(Some(Box::new(areas))), summing]
}

fn look_at(pid: u32, glancer: &mut Glancer) -> io::Result<Vec<Region>> {
    Ok(rows(&glancer.look(pid)?))
}

fn proc_file(pid: u32, name: &str) -> String {
    format!("/proc/{pid}/{name}")
}

/// Anonymous memory of this process, aligned to a slot, gone when dropped.
struct Memory {
    at: *mut libc::c_void,
    mapped_bytes: usize,
    slot: u64,
}

impl Memory {
    /// Between pages that nobody may use: the kernel would make one area of it and of a thread's stack beside it.
    fn new(slots: usize) -> Self {
        let mapped_bytes = (slots + 2) << 21;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh mapping; nothing else refers to it.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), mapped_bytes, libc::PROT_NONE, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        let slot = (at as u64 + 4096).next_multiple_of(HUGE_BYTES);
        // SAFETY: the slots lie inside the mapping, at least a page from both of its ends.
        let opened = unsafe { libc::mprotect(slot as *mut _, slots << 21, libc::PROT_READ | libc::PROT_WRITE) };
        assert_eq!(opened, 0, "{}", io::Error::last_os_error());
        Self { at, mapped_bytes, slot }
    }

    fn advise(&self, slot: u64, advice: i32) {
        // SAFETY: the slot lies inside the mapping.
        let result = unsafe { libc::madvise((self.slot + slot * HUGE_BYTES) as *mut _, HUGE_BYTES as usize, advice) };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
    }

    fn touch(&self, slot: u64, page: u64) {
        // SAFETY: the page lies inside the mapping, which is writable.
        unsafe { ((self.slot + slot * HUGE_BYTES + page * 4096) as *mut u8).write_volatile(1) };
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped.
        unsafe { libc::munmap(self.at, self.mapped_bytes) };
    }
}

fn with(regions: &[Region], address: u64) -> Vec<&Region> {
    regions.iter().filter(|region| region.start <= address && address < region.end).collect()
}

#[test]
fn small_pages_in_a_slot_that_was_advised_against_are_counted_one_by_one() {
    let memory = Memory::new(2);
    memory.advise(0, libc::MADV_NOHUGEPAGE);
    for page in [0, 1, 7] {
        memory.touch(0, page);
    }
    for mut glancer in glancers() {
        let looked = look_at(std::process::id(), &mut glancer).expect("this process");
        let found = with(&looked, memory.slot);
        let [one] = found.as_slice() else { panic!("{:?}: {found:?}", glancer.source()) };
        let sizes = (one.page_size_bytes, one.bytes, one.asked, one.reason);
        assert_eq!(sizes, (4096, 3 * 4096, None, None), "{:?}: {one:?}", glancer.source());
    }
}

#[test]
fn advice_shows_with_what_came_of_it() {
    let memory = Memory::new(3);
    memory.advise(0, libc::MADV_HUGEPAGE);
    memory.advise(2, libc::MADV_HUGEPAGE);
    memory.touch(0, 5);
    for mut glancer in glancers() {
        let looked = look_at(std::process::id(), &mut glancer).expect("this process");
        let touched = with(&looked, memory.slot);
        let [one] = touched.as_slice() else { panic!("{:?}: {touched:?}", glancer.source()) };
        assert_eq!(one.asked, Some("madvise"));
        // Whether there was a huge page available is the host's affair; either way the words fit the sizes.
        assert_eq!(one.page_size_bytes == HUGE_BYTES, one.reason.is_none(), "{one:?}");
        assert!(one.bytes == one.page_size_bytes, "{one:?}");
        let untouched = with(&looked, memory.slot + 2 * HUGE_BYTES);
        assert!(untouched.iter().any(|one| one.reason == Some("not_touched") && one.bytes == 0), "{untouched:?}");
    }
}

/// The sums over all regions are what the kernel says of the process as a whole.
#[test]
fn regions_add_up_to_the_resident_size() {
    let mut child = Command::new("sleep").arg("60").spawn().expect("sleep starts");
    let rss = || -> u64 {
        let text = fs::read_to_string(proc_file(child.id(), "smaps_rollup")).expect("the child lives");
        let line = text.lines().find_map(|line| line.strip_prefix("Rss:")).expect("a line");
        line.trim().strip_suffix(" kB").and_then(|kib| kib.trim().parse::<u64>().ok()).expect("a number") * 1024
    };
    // It has come to rest when it waits for its time.
    let asleep = || fs::read_to_string(proc_file(child.id(), "wchan")).is_ok_and(|at| at.contains("nanosleep"));
    for _ in 0..1000 {
        if asleep() {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let before = rss();
    for mut glancer in glancers() {
        let looked = look_at(child.id(), &mut glancer).expect("the child lives");
        let sum: u64 = looked.iter().filter(|one| one.path.as_deref() != Some(b"[vvar]")).map(|one| one.bytes).sum();
        // Pages of the kernel's own ([vdso], [vvar]) are mapped and not resident; there are fewer than 16.
        assert!((before..=before + (16 << 12)).contains(&sum), "{:?}: {sum} of {before}", glancer.source());
    }
    child.kill().and_then(|()| child.wait()).expect("our child");
    for mut glancer in glancers() {
        assert!(look_at(child.id(), &mut glancer).is_err(), "who has ended cannot be looked at");
    }
}

#[test]
fn the_last_look_stays_when_the_process_is_gone() {
    let mut regions = Regions::start().expect("this host has smaps");
    let mut child = Command::new("sleep").arg("60").spawn().expect("sleep starts");
    regions.enter(7, child.id(), monotonic_ns());
    let deadline = Instant::now() + Duration::from_secs(30);
    while regions.shared.lock().targets.get(&7).is_none_or(|target| target.pending.is_none()) {
        assert!(Instant::now() < deadline, "nobody looked");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(regions.take(false, |id, _| panic!("{id} still lives")), 0);
    child.kill().and_then(|()| child.wait()).expect("our child");
    regions.leave(child.id(), monotonic_ns());
    // A process that ends at once is never looked at.
    regions.enter(8, child.id(), monotonic_ns());
    regions.leave(child.id(), monotonic_ns());
    let mut taken = Vec::new();
    let unseen = regions.take(false, |id, look| taken.push((id, look)));
    let [(7, look)] = taken.as_slice() else { panic!("{taken:?}") };
    assert!(
        look.regions.iter().any(|one| one.path.as_deref().is_some_and(|path| path.ends_with(b"/sleep"))),
        "{look:?}"
    );
    assert_eq!(unseen, 1);
    let cost = regions.cost();
    assert!(cost.looks >= 1 && cost.cpu_ns > 0, "{cost:?}");
    regions.stop();
}

#[test]
fn a_look_counts_if_no_event_of_before_takes_it_back() {
    let regions = Regions::start().expect("this host has smaps");
    let nobody = 4_000_000;
    let look = |ts| Some(Look { ts, regions: Vec::new() });
    regions.enter(1, nobody, 10);
    let with = |id: u32, set: &dyn Fn(&mut Target)| {
        let mut state = regions.shared.lock();
        set(state.targets.get_mut(&id).expect("entered"));
        state.targets[&id].clone()
    };
    with(1, &|target| target.pending = look(20));
    regions.settle(19);
    assert!(with(1, &|_| ()).look.is_none(), "an exec before 20 may still be said");
    regions.settle(20);
    assert_eq!(with(1, &|_| ()).look, look(20));
    // The exec was before the second look, which therefore saw the new address space.
    with(1, &|target| target.pending = look(40));
    regions.enter(2, nobody, 30);
    let before = with(1, &|_| ());
    assert_eq!((before.look, before.pending, before.pids.len()), (look(20), None, 0));
    // An exec behind the look leaves it.
    with(2, &|target| target.pending = look(50));
    regions.enter(3, nobody, 60);
    assert_eq!(with(2, &|_| ()).look, look(50));
}

#[test]
fn a_second_look_waits_until_its_cost_is_earned() {
    let begun = Instant::now();
    let (looked, spent) = (begun + Duration::from_millis(50), Cost { looks: 3, cpu_ns: 20_000_000 });
    let first = Target { since: looked, ..Target::new() };
    assert_eq!(first.due(begun, spent), looked + SETTLE, "whatever was spent on others");
    let second = Target { looked: Some((looked, 10_000_000)), ..first };
    assert_eq!(second.due(begun, spent), begun + Duration::from_secs(4), "30 ms less 10 ms are 0.5 % of 4 s");
    assert_eq!(second.due(begun, Cost::default()), looked + SHORTEST, "the first 10 ms are free");
    let cheap = Target { looked: Some((looked, 100)), ..second };
    assert_eq!(cheap.due(begun, Cost::default()), looked + SHORTEST);
}
