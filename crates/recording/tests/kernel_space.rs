//! The replay of address spaces against the kernel: calls are made for real, replayed from the rows that they would be
//! recorded as, and compared with `/proc/self/maps` and with what the memory holds.
//!
//! Everything lies in a window far below the addresses that the kernel chooses by itself, so that other threads of this
//! process map nothing there.

#![allow(clippy::cast_possible_truncation)] // numbers of pages

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use pagelab_recording::space::{Change, Made, PageSizes, Space};
use pagelab_recording::tables::MappingsRow;
use proptest::prelude::*;

const PAGE: u64 = 4096;
const HUGE: u64 = 2 << 20;
const WINDOW: u64 = 0x10_0000_0000;
const ANONYMOUS: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// A part of the window that one test has for itself, with the replay of what is done there. Mappings hold the tag that the
/// test gave them.
struct Kernel {
    window: Range<u64>,
    sizes: PageSizes,
    space: Space<u32>,
    tags: u32,
}

impl Kernel {
    fn new(number: u64, len: u64) -> Self {
        let start = WINDOW + number * (16 << 30);
        let mut kernel =
            Self { window: start..start + len, sizes: PageSizes::new(PAGE), space: Space::default(), tags: 0 };
        kernel.clear();
        kernel
    }

    /// Nothing is mapped in the window any more, nor where the kernel has moved something out of it.
    fn clear(&mut self) {
        let mapped: Vec<Range<u64>> = self.space.iter().map(|(range, _)| range).collect();
        for range in mapped.into_iter().chain([self.window.clone()]) {
            // SAFETY: only ranges that this test has mapped are unmapped, and nothing refers to them.
            unsafe { libc::munmap(range.start as *mut libc::c_void, (range.end - range.start) as usize) };
        }
        self.space = Space::default();
    }

    fn replay(&mut self, row: &MappingsRow<'_>) -> i64 {
        self.tags += 1;
        let tag = self.tags;
        if let Some(change) = Change::of(row, &self.sizes) {
            self.space.apply(&change, |made| match made {
                Made::Mapped(_) | Made::Grown(_) | Made::Moved(None, _) => Some(tag),
                Made::Moved(before, _) => before,
            });
        }
        row.ret.unwrap_or_default()
    }

    fn mmap(&mut self, at: u64, len: u64, flags: i32, fd: i32) -> i64 {
        // SAFETY: the address is in the window, where only this test maps anything.
        let ret = unsafe { libc::syscall(libc::SYS_mmap, at, len, READ_WRITE, flags, fd, 0) };
        let made =
            MappingsRow { addr: Some(at), len: Some(len), flags: Some(flags as u32), ..row("mmap", failed(ret)) };
        let ret = self.replay(&made);
        if ret > 0 && flags & libc::MAP_HUGETLB == 0 && fd < 0 {
            let pages = self.space.at(ret as u64).map_or(0..0, |(range, _)| range);
            for page in pages.step_by(PAGE as usize) {
                // SAFETY: the page was mapped for writing just now.
                unsafe { (page as *mut u32).write_volatile(self.tags) };
            }
        }
        ret
    }

    fn munmap(&mut self, at: u64, len: u64) -> i64 {
        // SAFETY: as for `mmap`.
        let ret = unsafe { libc::syscall(libc::SYS_munmap, at, len) };
        self.replay(&MappingsRow { addr: Some(at), len: Some(len), ..row("munmap", failed(ret)) })
    }

    fn mremap(&mut self, old: u64, old_len: u64, len: u64, flags: i32, to: u64) -> i64 {
        // SAFETY: as for `mmap`.
        let ret = unsafe { libc::syscall(libc::SYS_mremap, old, old_len, len, flags, to) };
        let (old_addr, old_len, flags) = (Some(old), Some(old_len), Some(flags as u32));
        let addr = Some(to);
        self.replay(&MappingsRow { addr, old_addr, old_len, len: Some(len), flags, ..row("mremap", failed(ret)) })
    }

    fn mprotect(&mut self, at: u64, len: u64, prot: i32) -> i64 {
        // SAFETY: as for `mmap`.
        let ret = unsafe { libc::syscall(libc::SYS_mprotect, at, len, prot) };
        self.replay(&MappingsRow {
            addr: Some(at),
            len: Some(len),
            prot: Some(prot as u32),
            ..row("mprotect", failed(ret))
        })
    }

    fn shmat(&mut self, pages: u64, huge: i32, at: u64) -> i64 {
        // SAFETY: plain system calls; the segment goes with its last mapping.
        let ret = unsafe {
            let id = libc::shmget(libc::IPC_PRIVATE, (pages * PAGE) as usize, 0o600 | huge);
            assert!(id >= 0, "shmget: {}", std::io::Error::last_os_error());
            let ret = libc::syscall(libc::SYS_shmat, id, at, 0);
            let ret = failed(ret);
            libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut());
            ret
        };
        // The recorder asks the kernel how long it is.
        let mapped = maps().into_iter().find(|range| range.start == ret as u64);
        let len = mapped.map(|range| range.end - range.start);
        self.replay(&MappingsRow { addr: Some(at), len, ..row("shmat", ret) })
    }

    fn shmdt(&mut self, at: u64) -> i64 {
        // SAFETY: the segment is this test's.
        let ret = unsafe { libc::syscall(libc::SYS_shmdt, at) };
        self.replay(&MappingsRow { addr: Some(at), ..row("shmdt", failed(ret)) })
    }

    /// The replay and the kernel have the same mapped.
    fn check(&self, what: &str) {
        assert_eq!(self.differs(), None, "{what}");
    }

    fn differs(&self) -> Option<String> {
        let pages = |ranges: Vec<Range<u64>>| {
            let mut joined: Vec<(i64, i64)> = Vec::new();
            for range in ranges {
                let page = |addr: u64| addr.wrapping_sub(self.window.start) as i64 / PAGE as i64;
                match joined.last_mut().filter(|last| last.1 == page(range.start)) {
                    Some(last) => last.1 = page(range.end),
                    None => joined.push((page(range.start), page(range.end))),
                }
            }
            joined
        };
        let inside = |range: &Range<u64>| self.window.start <= range.start && range.end <= self.window.end;
        let all = maps();
        let kernel = pages(all.iter().filter(|range| inside(range)).cloned().collect());
        let replayed: Vec<Range<u64>> = self.space.iter().map(|(range, _)| range).collect();
        let outside: Vec<&Range<u64>> = replayed.iter().filter(|range| !inside(range)).collect();
        let replayed = pages(replayed.iter().filter(|range| inside(range)).cloned().collect());
        if kernel != replayed {
            return Some(format!("the kernel has {kernel:?}, the replay {replayed:?}"));
        }
        // What the kernel has moved elsewhere may have grown together with a neighbour of ours.
        let is_mapped = |range: &&&Range<u64>| covered(&all, range);
        outside.iter().find(|range| !is_mapped(range)).map(|range| format!("{range:x?} is not mapped"))
    }

    /// The memory holds what the replay says: the tag of the mapping, or nothing where pages went elsewhere.
    fn contents_differ(&self) -> Option<String> {
        let memory = File::open("/proc/self/mem").expect("own memory");
        for (range, tag) in self.space.iter() {
            for page in range.clone().step_by(PAGE as usize) {
                let mut word = [0; 4];
                // A page without rights can be read here, too. One behind the end of shared memory cannot.
                if memory.read_exact_at(&mut word, page).is_err() {
                    continue;
                }
                let found = u32::from_ne_bytes(word);
                if found != 0 && found != *tag {
                    return Some(format!("page {page:x} was mapped by {found}, the replay says {tag}"));
                }
            }
        }
        None
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The result of a call as the kernel gives it.
fn failed(ret: i64) -> i64 {
    if ret != -1 {
        return ret;
    }
    -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL))
}

fn row(op: &'static str, ret: i64) -> MappingsRow<'static> {
    MappingsRow { op, kind: "call", task_id: 1, mm_id: 1, ret: Some(ret), ..MappingsRow::default() }
}

fn maps() -> Vec<Range<u64>> {
    let mut text = String::new();
    File::open("/proc/self/maps").and_then(|mut file| file.read_to_string(&mut text)).expect("own maps");
    ranges(&text)
}

fn ranges(maps: &str) -> Vec<Range<u64>> {
    let range = |line: &str| {
        let (start, end) = line.split(' ').next()?.split_once('-')?;
        Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
    };
    maps.lines().filter_map(range).collect()
}

fn covered(all: &[Range<u64>], range: &Range<u64>) -> bool {
    let mut at = range.start;
    while at < range.end {
        match all.iter().find(|one| one.contains(&at)) {
            Some(one) => at = one.end,
            None => return false,
        }
    }
    true
}

#[test]
fn hugetlb_memory_is_mapped_and_moved_by_its_pages() {
    let mut kernel = Kernel::new(0, 32 * HUGE);
    let fixed = ANONYMOUS | libc::MAP_FIXED;
    let huge = fixed | libc::MAP_HUGETLB;
    let at = |pages: u64| WINDOW + pages * HUGE;
    // Untouched memory needs no pool.
    assert_eq!(kernel.mmap(at(0), 5000, huge, -1), at(0) as i64, "the kernel knows hugetlb memory");
    kernel.check("5000 bytes of the default size");
    assert!(kernel.munmap(at(0), 5000) < 0);
    kernel.check("a part of a huge page cannot be unmapped");
    assert_eq!(kernel.mmap(at(4), 3 * HUGE + 1, huge | libc::MAP_HUGE_2MB, -1), at(4) as i64);
    kernel.check("a size that is named");
    assert!(kernel.mmap(at(4), 5000, fixed, -1) < 0);
    kernel.check("nothing can be mapped over a part of a huge page");
    kernel.mmap(at(5), HUGE, fixed, -1);
    kernel.check("over a whole one");
    assert_eq!(kernel.mremap(at(6), 5000, 5000, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, at(16)), at(16) as i64);
    kernel.check("a move of 5000 bytes takes the page along");
    assert!(kernel.mremap(at(7), HUGE, 2 * HUGE, libc::MREMAP_MAYMOVE, 0) < 0);
    kernel.check("hugetlb memory does not grow");
    assert_eq!(kernel.munmap(at(0), HUGE), 0);
    kernel.check("whole pages go");
    kernel.shmat(2, libc::SHM_HUGETLB | libc::SHM_NORESERVE, at(20));
    kernel.check("a segment of huge pages");
    kernel.shmdt(at(20));
    kernel.check("and without it");
}

#[test]
fn a_segment_is_detached_wherever_it_is_left() {
    let mut kernel = Kernel::new(1, 256 * PAGE);
    let at = |page: u64| kernel_page(1, page);
    let fixed = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    kernel.shmat(8, 0, at(0));
    kernel.munmap(at(2), PAGE);
    kernel.mmap(at(4), PAGE, ANONYMOUS | libc::MAP_FIXED, -1);
    kernel.check("with a hole and another mapping in it");
    assert_eq!(kernel.shmdt(at(0)), 0);
    kernel.check("both parts and the rest are gone, the other mapping is not");

    kernel.shmat(8, 0, at(16));
    kernel.munmap(at(16), PAGE);
    assert_eq!(kernel.shmdt(at(16)), 0);
    kernel.check("its first page was gone");

    kernel.shmat(8, 0, at(32));
    kernel.mremap(at(33), 4 * PAGE, 4 * PAGE, fixed, at(64));
    assert_eq!(kernel.shmdt(at(32)), 0);
    kernel.check("a part was moved away and stays");

    kernel.shmat(8, 0, at(80));
    kernel.mremap(at(80), 8 * PAGE, 8 * PAGE, fixed, at(96));
    assert!(kernel.shmdt(at(80)) < 0);
    assert_eq!(kernel.shmdt(at(96)), 0);
    kernel.check("it was moved as a whole");

    kernel.shmat(8, 0, at(112));
    kernel.mremap(at(112), 8 * PAGE, 4 * PAGE, 0, 0);
    assert_eq!(kernel.shmdt(at(112)), 0);
    kernel.check("it was shrunk");
}

fn kernel_page(number: u64, page: u64) -> u64 {
    WINDOW + number * (16 << 30) + page * PAGE
}

#[test]
fn moves_keep_what_the_kernel_keeps() {
    let mut kernel = Kernel::new(2, 256 * PAGE);
    let at = |page: u64| kernel_page(2, page);
    let fixed = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    let shared = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    kernel.mmap(at(0), 6 * PAGE, ANONYMOUS | libc::MAP_FIXED, -1);
    kernel.mremap(at(1), 2 * PAGE, 2 * PAGE, fixed | libc::MREMAP_DONTUNMAP, at(32));
    kernel.check("MREMAP_DONTUNMAP leaves the old range");
    assert_eq!(kernel.contents_differ(), None);
    kernel.mmap(at(16), 6 * PAGE, shared, -1);
    kernel.mremap(at(16), 0, 4 * PAGE, fixed, at(48));
    kernel.check("a second mapping of shared memory");
    assert_eq!(kernel.contents_differ(), None);
    // Kernels before 6.17 refuse this; the replay then has nothing to do.
    kernel.munmap(at(2), PAGE);
    kernel.mprotect(at(4), PAGE, libc::PROT_READ);
    kernel.mremap(at(0), 6 * PAGE, 6 * PAGE, fixed, at(64));
    kernel.check("several mappings with a gap");
    assert_eq!(kernel.contents_differ(), None);
    let start = kernel.space.iter().map(|found| found.0.start).next().expect("something is mapped");
    kernel.mremap(start, 6 * PAGE, 4 * PAGE, 0, 0);
    kernel.check("what shrinks where it is keeps its gap");
}

#[test]
fn advice_with_a_gap_is_given_and_that_to_another_process_changes_nothing() {
    let mut kernel = Kernel::new(3, 64 * PAGE);
    let at = |page: u64| kernel_page(3, page);
    let advised = |page: u64| smaps_flags(at(page)).split(' ').any(|flag| flag == "hg");
    kernel.mmap(at(0), 2 * PAGE, ANONYMOUS | libc::MAP_FIXED, -1);
    kernel.mmap(at(4), 2 * PAGE, ANONYMOUS | libc::MAP_FIXED, -1);
    // SAFETY: advice about own memory.
    let ret = failed(unsafe { libc::syscall(libc::SYS_madvise, at(0), 6 * PAGE, libc::MADV_HUGEPAGE) });
    assert_eq!(ret, -i64::from(libc::ENOMEM));
    assert!(advised(0) && advised(4), "the kernel goes on behind the gap");
    let (addr, len, advice) = (Some(at(0)), Some(6 * PAGE), Some(libc::MADV_HUGEPAGE));
    let given = MappingsRow { addr, len, advice, ..row("madvise", ret) };
    let change = Change::of(&given, &kernel.sizes);
    assert_eq!(change, Some(Change::Advise(at(0)..at(6), libc::MADV_HUGEPAGE)));

    let mut child = std::process::Command::new("sleep").arg("100").spawn().expect("a child");
    let vector = [libc::iovec { iov_base: at(0) as *mut libc::c_void, iov_len: 2 * PAGE as usize }];
    let advise = |pid: u32, advice: i32| {
        // SAFETY: the vector outlives the call, and the descriptor is closed.
        unsafe {
            let pidfd = libc::syscall(libc::SYS_pidfd_open, pid, 0);
            let ret = failed(libc::syscall(libc::SYS_process_madvise, pidfd, vector.as_ptr(), 1, advice, 0));
            libc::close(pidfd as i32);
            ret
        }
    };
    // All advice that changes a property of mappings, by its number.
    for number in [1, 2, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19] {
        assert!(advise(child.id(), number) < 0, "advice {number} to another process");
    }
    // About own memory any advice is allowed since Linux 6.13, and its result is the bytes that it was given for.
    let ret = advise(std::process::id(), libc::MADV_NOHUGEPAGE);
    assert!(ret == 2 * PAGE as i64 || ret < 0);
    assert_eq!(advised(0), ret < 0);
    child.kill().and_then(|()| child.wait()).expect("the child is ended");
    let (addr, len) = (Some(vector.as_ptr() as u64), Some(1));
    let told = MappingsRow { addr, len, advice: Some(15), fd: Some(7), ..row("process_madvise", 8192) };
    let change = Change::of(&told, &kernel.sizes);
    assert_eq!(change, Some(Change::AdviseElsewhere { pidfd: Some(7), advice: 15, bytes: 8192 }));
}

fn smaps_flags(addr: u64) -> String {
    let text = std::fs::read_to_string("/proc/self/smaps").expect("own smaps");
    let mut lines = text.lines().skip_while(|line| !line.starts_with(&format!("{addr:x}-")));
    lines.find(|line| line.starts_with("VmFlags:")).unwrap_or_default().to_owned()
}

#[test]
fn a_failed_move_onto_itself_unmaps_its_target() {
    let mut kernel = Kernel::new(6, 64 * PAGE);
    let at = |page: u64| kernel_page(6, page);
    kernel.mmap(at(9), 7 * PAGE, libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_FIXED, -1);
    let fixed = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    for page in [14, 20] {
        let ret = kernel.mremap(at(page), 0, 2 * PAGE, fixed, at(page));
        assert_eq!(ret, -i64::from(libc::EFAULT));
        kernel.check("a move onto itself");
    }
    assert!(kernel.space.find(at(13)).is_some() && kernel.space.find(at(14)).is_none());
}

#[test]
fn a_moved_stack_still_grows_down() {
    let mut kernel = Kernel::new(4, 64 * PAGE);
    let at = |page: u64| kernel_page(4, page);
    kernel.mmap(at(8), 4 * PAGE, ANONYMOUS | libc::MAP_FIXED | libc::MAP_GROWSDOWN, -1);
    let fixed = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    kernel.mremap(at(8), 4 * PAGE, 4 * PAGE, fixed | libc::MREMAP_DONTUNMAP, at(32));
    for page in [8, 32] {
        let grows = smaps_flags(at(page)).split(' ').any(|flag| flag == "gd");
        assert!(grows, "{}", smaps_flags(at(page)));
        assert!(kernel.space.find(at(page) - 1).is_some(), "page {page}");
    }
}

/// Runs in a child that uses nothing but system calls: the heap's end is the allocator's.
#[test]
fn the_heap_grows_and_shrinks_by_whole_pages() {
    let mut space: Space<u32> = Space::default();
    let sizes = PageSizes::new(PAGE);
    let mut buffers = [vec![0_u8; 1 << 20], vec![0_u8; 1 << 20]];
    let mut fds = [0; 2];
    // SAFETY: between fork and exit the child makes system calls on memory that is there already, and nothing else.
    let (start, texts) = unsafe {
        assert_eq!(libc::pipe(fds.as_mut_ptr()), 0);
        let start = libc::sbrk(0) as u64;
        let pid = libc::fork();
        if pid == 0 {
            for (buffer, end) in buffers.iter_mut().zip([start + 10_000, start + 3_000]) {
                libc::syscall(libc::SYS_brk, end);
                let fd = libc::open(c"/proc/self/maps".as_ptr(), libc::O_RDONLY);
                let mut len = 0;
                loop {
                    let n = libc::read(fd, buffer.as_mut_ptr().add(len).cast(), buffer.len() - len);
                    if n <= 0 {
                        break;
                    }
                    len += n as usize;
                }
                libc::write(fds[1], (&raw const len).cast(), 8);
                libc::write(fds[1], buffer.as_ptr().cast(), len);
            }
            libc::_exit(0);
        }
        libc::close(fds[1]);
        let mut pipe = <File as std::os::fd::FromRawFd>::from_raw_fd(fds[0]);
        let texts = [(); 2].map(|()| {
            let mut len = [0; 8];
            pipe.read_exact(&mut len).expect("a length");
            let mut text = vec![0; usize::from_ne_bytes(len)];
            pipe.read_exact(&mut text).expect("a text");
            String::from_utf8(text).expect("text")
        });
        libc::waitpid(pid, std::ptr::null_mut(), 0);
        (start, texts)
    };
    let mut before = start;
    for (text, end) in texts.iter().zip([start + 10_000, start + 3_000]) {
        let moved = MappingsRow { addr: Some(end), old_addr: Some(before), ..row("brk", end as i64) };
        space.apply(&Change::of(&moved, &sizes).expect("a change"), |_| Some(1));
        before = end;
        let replayed = space.iter().map(|(range, _)| range.end).last().unwrap_or(start);
        let heap = ranges(text).into_iter().find(|range| range.contains(&start)).expect("the heap");
        assert_eq!(replayed, heap.end);
    }
    // The beginning of a call that was not seen is written as 0, and maps nothing from there on.
    let mut found: Space<u32> = Space::default();
    let unseen = MappingsRow { old_addr: Some(0), ..row("brk", start as i64) };
    found.apply(&Change::of(&unseen, &sizes).expect("a change"), |_| Some(1));
    assert_eq!(found.iter().count(), 0);
}

/// Pages that random calls act on.
const PAGES: u64 = 64;

#[derive(Debug, Clone)]
enum Act {
    Map { at: u64, bytes: u64, flags: i32 },
    Unmap { at: u64, bytes: u64 },
    Remap { old: u64, old_bytes: u64, to: u64, bytes: u64, flags: i32 },
    Protect { at: u64, bytes: u64, prot: i32 },
}

fn act() -> impl Strategy<Value = Act> {
    let at = || 0..PAGES - 16;
    // Lengths are not multiples of the page size.
    let bytes = || (0..16_u64, 0..3_u64).prop_map(|(pages, odd)| (pages * PAGE).saturating_sub(odd * 1000));
    let move_flags = prop::sample::select(vec![
        0,
        libc::MREMAP_MAYMOVE,
        libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED,
        libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP,
        libc::MREMAP_MAYMOVE | libc::MREMAP_DONTUNMAP,
    ]);
    let map_flags = prop::sample::select(vec![
        ANONYMOUS | libc::MAP_FIXED,
        ANONYMOUS,
        ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
        libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
    ]);
    prop_oneof![
        4 => (at(), bytes(), map_flags).prop_map(|(at, bytes, flags)| Act::Map { at, bytes, flags }),
        2 => (at(), bytes()).prop_map(|(at, bytes)| Act::Unmap { at, bytes }),
        4 => (at(), bytes(), at(), prop::option::of(bytes()), move_flags).prop_map(|(old, old_bytes, to, bytes, flags)| {
            Act::Remap { old, old_bytes, to, bytes: bytes.unwrap_or(old_bytes), flags }
        }),
        1 => (at(), bytes(), 0..4).prop_map(|(at, bytes, prot)| Act::Protect { at, bytes, prot }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_is_replayed_is_what_the_kernel_has(acts in prop::collection::vec(act(), 1..40)) {
        let mut kernel = Kernel::new(5, PAGES * PAGE);
        for act in &acts {
            let page = |page: u64| kernel_page(5, page);
            match *act {
                Act::Map { at, bytes, flags } => kernel.mmap(page(at), bytes, flags, -1),
                Act::Unmap { at, bytes } => kernel.munmap(page(at), bytes),
                Act::Remap { old, old_bytes, to, bytes, flags } => {
                    kernel.mremap(page(old), old_bytes, bytes, flags, page(to))
                }
                Act::Protect { at, bytes, prot } => kernel.mprotect(page(at), bytes, prot),
            };
            prop_assert_eq!(kernel.differs(), None, "after {:?}", act);
        }
        prop_assert_eq!(kernel.contents_differ(), None);
    }
}
