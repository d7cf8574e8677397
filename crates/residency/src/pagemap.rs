//! What the page tables hold: the PAGEMAP_SCAN request on `/proc/PID/pagemap` (Linux 6.7 and later; the kernel's
//! Documentation/admin-guide/mm/pagemap.rst describes it), and the file itself where there is no such request.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use crate::error::ResidencyError;
use crate::page_size::base_page_bytes;

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: libc::Ioctl = 0xC060_6610u32 as libc::Ioctl;

/// Categories of include/uapi/linux/fs.h.
pub(crate) const IS_FILE: u64 = 1 << 2;
pub(crate) const IS_PRESENT: u64 = 1 << 3;
pub(crate) const IS_SWAPPED: u64 = 1 << 4;
/// The kernel's page of zeros, small or huge: no memory of the process.
pub(crate) const IS_ZERO_PAGE: u64 = 1 << 5;
pub(crate) const IS_HUGE: u64 = 1 << 6;
/// madvise(MADV_GUARD_INSTALL): says SWAPPED, too, and is not. Kernels before 6.16 do not know the word.
pub(crate) const IS_GUARD: u64 = 1 << 8;

/// Requests refuse a range that ends higher, on x86-64 with four levels of page tables.
const HIGHEST_END: u64 = (1 << 47) - 4096;

/// Regions that one request fills in.
const REGIONS: usize = 1024;

/// The first request looks at no more than this, and no request at more than [`LONGEST_STEP_BYTES`]: meanwhile the process cannot
/// change its mappings. In between a step is half as long as the one before if that took long, and twice as long if it took no time.
const FIRST_STEP_BYTES: u64 = 8 << 20;
const SHORTEST_STEP_BYTES: u64 = 2 << 20;
const LONGEST_STEP_BYTES: u64 = 1 << 30;
/// CPU time of a request that is aimed at, ns.
const STEP_NS: std::ops::Range<u64> = 40_000..160_000;
/// A request ends when it has found so many pages, however long its range is: the first of them that stand behind a range that
/// was empty would hold the process as long as there are.
const STEP_PAGES: u64 = 8192;
/// The same where each page is looked at, which takes three to four times as long.
const STEP_PAGES_LOOKED_AT: u64 = 2048;
/// After a request the process has the lock to itself for so long: a reader that comes back at once gets it again.
const REST: Duration = Duration::from_micros(50);

/// Neighbouring pages that are alike.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) categories: u64,
}

#[repr(C)]
#[derive(Default)]
struct ScanArg {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// Why there are no regions.
#[derive(Debug)]
pub(crate) enum NoScan {
    /// The kernel has no such request.
    Missing,
    /// It failed.
    Failed(ResidencyError),
}

/// The present and swapped pages of `[start, end)`, in order.
pub(crate) fn scan(pagemap: &File, start: u64, end: u64) -> Result<Vec<Region>, NoScan> {
    let mut found = Vec::new();
    scan_into(pagemap, start, end, IS_FILE | QUICK, &mut found)?;
    Ok(found)
}

/// The categories that the entry of a page tells. [`IS_FILE`] takes a look at the page itself: with it a scan takes 65 ns for each
/// small page, without 14 (measured on Linux 6.18).
pub(crate) const QUICK: u64 = IS_PRESENT | IS_SWAPPED | IS_ZERO_PAGE | IS_HUGE | IS_GUARD;

/// Appends the present and swapped pages of `[start, end)` to `found`, in order, with those of `categories` that they are in.
pub(crate) fn scan_into(
    pagemap: &File,
    start: u64,
    end: u64,
    mut categories: u64,
    found: &mut Vec<Region>,
) -> Result<(), NoScan> {
    let mut regions = vec![Region::default(); REGIONS];
    let end = end.min(HIGHEST_END);
    let mut from = start;
    let mut step_bytes = FIRST_STEP_BYTES;
    let mut clock = StepClock::start();
    while from < end {
        let upto = from.saturating_add(step_bytes).min(end);
        let mut arg = ScanArg {
            size: size_of::<ScanArg>() as u64,
            start: from,
            end: upto,
            vec: regions.as_mut_ptr() as u64,
            vec_len: REGIONS as u64,
            max_pages: if categories & IS_FILE == 0 { STEP_PAGES } else { STEP_PAGES_LOOKED_AT },
            // Untouched memory of a hugetlb pool has HUGE alone: filter for present pages.
            category_anyof_mask: IS_PRESENT | IS_SWAPPED,
            return_mask: categories,
            ..ScanArg::default()
        };
        let undisturbed = Undisturbed::begin();
        // SAFETY: the kernel reads `arg` and writes at most `vec_len` regions where `vec` points.
        let filled = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut arg) };
        let error = io::Error::last_os_error();
        drop(undisturbed);
        let Ok(filled) = usize::try_from(filled) else {
            let errno = error.raw_os_error().unwrap_or(libc::EINVAL);
            return Err(match errno {
                libc::ENOTTY => NoScan::Missing,
                libc::EINVAL if categories & IS_GUARD != 0 => {
                    categories &= !IS_GUARD;
                    continue;
                }
                errno => NoScan::Failed(ResidencyError::System { what: "PAGEMAP_SCAN", errno }),
            });
        };
        for region in regions.iter().take(filled) {
            append(found, *region);
        }
        // The walk ends early when the vector is full; an end that does not move would never end.
        from = if arg.walk_end > from { arg.walk_end } else { upto };
        step_bytes = clock.next_step(step_bytes);
    }
    Ok(())
}

/// While it lives the calling thread keeps its processor, where the user may ask for that: a request that holds the lock of a map and
/// loses the processor to another program holds it until that program has had its turn (15 ms on a busy machine, seen).
struct Undisturbed {
    is_set: bool,
}

impl Undisturbed {
    fn begin() -> Self {
        // SAFETY: sched_getscheduler takes a number and touches no memory of ours.
        let is_ordinary = unsafe { libc::sched_getscheduler(0) } == libc::SCHED_OTHER;
        Self { is_set: is_ordinary && set_policy(libc::SCHED_FIFO, 1) }
    }
}

impl Drop for Undisturbed {
    fn drop(&mut self) {
        if self.is_set {
            set_policy(libc::SCHED_OTHER, 0);
        }
    }
}

/// Sets the policy of the calling thread; false if the kernel does not let this user.
fn set_policy(policy: libc::c_int, priority: libc::c_int) -> bool {
    // SAFETY: sched_param is plain numbers, for which zero is a value.
    let mut param: libc::sched_param = unsafe { std::mem::zeroed() };
    param.sched_priority = priority;
    // SAFETY: the pointer is to a local that outlives the call.
    unsafe { libc::sched_setscheduler(0, policy, &raw const param) == 0 }
}

/// Fits the length of requests to what they cost, and leaves the process time between them.
struct StepClock {
    cpu_ns: u64,
}

impl StepClock {
    fn start() -> Self {
        Self { cpu_ns: thread_cpu_ns() }
    }

    fn next_step(&mut self, step_bytes: u64) -> u64 {
        let now = thread_cpu_ns();
        let spent_ns = now.saturating_sub(self.cpu_ns);
        self.cpu_ns = now;
        if spent_ns >= STEP_NS.start {
            std::thread::sleep(REST);
        }
        next_step(step_bytes, spent_ns)
    }
}

fn next_step(step_bytes: u64, spent_ns: u64) -> u64 {
    if spent_ns > STEP_NS.end {
        return (step_bytes / 2).max(SHORTEST_STEP_BYTES);
    }
    if spent_ns < STEP_NS.start {
        return (step_bytes * 2).min(LONGEST_STEP_BYTES);
    }
    step_bytes
}

fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}

/// Appends a region; of one that begins before the last one's end, what lies behind it: pages that change while they are walked may be
/// told twice.
fn append(found: &mut Vec<Region>, mut region: Region) {
    region.start = region.start.max(found.last().map_or(0, |last| last.end));
    if region.start >= region.end {
        return;
    }
    match found.last_mut() {
        // A step may end between pages that are alike.
        Some(last) if last.end == region.start && last.categories == region.categories => last.end = region.end,
        _ => found.push(region),
    }
}

/// Entries of `/proc/self/pagemap` read at once.
const ENTRIES: usize = 4096;
pub(crate) const ENTRY_PRESENT: u64 = 1 << 63;
const ENTRY_SWAPPED: u64 = 1 << 62;
const ENTRY_FILE: u64 = 1 << 61;
/// The frame number; 0 without CAP_SYS_ADMIN.
pub(crate) const ENTRY_FRAME: u64 = (1 << 55) - 1;

/// The pagemap entries of `[start, end)`, one for each base page; fewer if the file ends.
pub(crate) fn entries(pagemap: &File, start: u64, end: u64) -> Result<Vec<u64>, ResidencyError> {
    let page = base_page_bytes() as u64;
    let pages = (end.saturating_sub(start) / page) as usize;
    let mut all = Vec::with_capacity(pages);
    let mut bytes = vec![0_u8; ENTRIES * 8];
    while all.len() < pages {
        let wanted = (pages - all.len()).min(ENTRIES) * 8;
        let at = (start / page + all.len() as u64) * 8;
        let part = bytes.get_mut(..wanted).unwrap_or_default();
        let read = pagemap.read_at(part, at).map_err(|error| ResidencyError::Unreadable {
            path: "/proc/self/pagemap".to_owned(),
            why: error.to_string(),
        })?;
        if read < 8 {
            break;
        }
        let words = part.get(..read).unwrap_or_default().chunks_exact(8);
        all.extend(words.map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default())));
    }
    Ok(all)
}

/// The same regions made from pagemap entries, which do not say what is huge.
pub(crate) fn regions_of(entries: &[u64], start: u64) -> Vec<Region> {
    let page = base_page_bytes() as u64;
    let mut found: Vec<Region> = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let bit = |mask, category| if entry & mask != 0 { category } else { 0 };
        let categories = bit(ENTRY_PRESENT, IS_PRESENT) | bit(ENTRY_SWAPPED, IS_SWAPPED) | bit(ENTRY_FILE, IS_FILE);
        if categories & (IS_PRESENT | IS_SWAPPED) == 0 {
            continue;
        }
        let at = start + index as u64 * page;
        match found.last_mut() {
            Some(last) if last.end == at && last.categories == categories => last.end += page,
            _ => found.push(Region { start: at, end: at + page, categories }),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use pagelab_testing::skipped;

    use super::*;
    use crate::page_size::PageSize;
    use crate::slots::inspect;
    use crate::testing::Memory;

    /// Guarded pages (madvise(MADV_GUARD_INSTALL), Linux 6.13) have entries that look like swap.
    #[test]
    fn guarded_pages_are_not_swap() {
        const MADV_GUARD_INSTALL: libc::c_int = 102;
        let memory = Memory::new(1);
        assert!(memory.advise(0, 2 << 20, libc::MADV_NOHUGEPAGE));
        memory.touch(0);
        if !memory.advise(1 << 19, 1 << 18, MADV_GUARD_INSTALL) {
            return skipped(format_args!("this kernel has no guarded pages: {}", io::Error::last_os_error()));
        }
        let held = inspect(memory.address, 1 << 20, PageSize::Base).expect("look").total().expect("told");
        assert_eq!((held.swapped_bytes, held.present_bytes()), (0, base_page_bytes() as u64));
    }

    #[test]
    fn regions_are_in_order_whatever_is_told() {
        let at = |start, end, categories| Region { start, end, categories };
        let mut found = Vec::new();
        for region in [
            at(5, 4, 1),
            at(10, 20, 1),
            at(20, 30, 1),
            at(12, 18, 2),
            at(25, 40, 2),
            at(50, 50, 2),
            at(60, 55, 1),
            at(70, 80, 1),
        ] {
            append(&mut found, region);
        }
        assert_eq!(found, [at(10, 30, 1), at(30, 40, 2), at(70, 80, 1)]);
    }

    #[test]
    fn steps_are_short_where_pages_are_many() {
        let settled = |spent_ns: fn(u64) -> u64| {
            let mut step = FIRST_STEP_BYTES;
            for _ in 0..40 {
                step = next_step(step, spent_ns(step));
            }
            step
        };
        // 21 ns a page of 4 KiB.
        let dense = settled(|step| step / 4096 * 21);
        assert!(STEP_NS.contains(&(dense / 4096 * 21)), "{dense}");
        assert_eq!(settled(|_| 300), LONGEST_STEP_BYTES);
        assert_eq!(settled(|_| 10_000_000), SHORTEST_STEP_BYTES);
    }

    /// What a request is cut into changes nothing of what is found.
    #[test]
    fn many_small_pages_behind_an_empty_range_are_all_found() {
        let slots = 40;
        let memory = Memory::new(slots);
        assert!(memory.advise(0, slots << 21, libc::MADV_NOHUGEPAGE));
        assert!(memory.advise(8 << 21, 32 << 21, libc::MADV_POPULATE_WRITE));
        let pagemap = File::open("/proc/self/pagemap").expect("its own");
        let (start, end) = (memory.address as u64, memory.address as u64 + (slots << 21) as u64);
        for categories in [QUICK, QUICK | IS_FILE] {
            let mut found = Vec::new();
            match scan_into(&pagemap, start, end, categories, &mut found) {
                Ok(()) => {}
                Err(NoScan::Missing) => return skipped("this kernel has no PAGEMAP_SCAN"),
                Err(error) => panic!("{error:?}"),
            }
            let [one] = found.as_slice() else { panic!("{found:?}") };
            assert_eq!((one.start - start, one.end, one.categories), (16 << 20, end, IS_PRESENT));
        }
    }

    #[test]
    fn entries_become_regions() {
        let page = base_page_bytes() as u64;
        let entries = [0, ENTRY_PRESENT | 7, ENTRY_PRESENT | 9, ENTRY_PRESENT | ENTRY_FILE, 0, ENTRY_SWAPPED];
        let at = |first: u64, end: u64, categories| Region { start: first * page, end: end * page, categories };
        assert_eq!(
            regions_of(&entries, 0),
            [at(1, 3, IS_PRESENT), at(3, 4, IS_PRESENT | IS_FILE), at(5, 6, IS_SWAPPED)]
        );
    }
}
