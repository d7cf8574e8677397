//! What the page tables of a process hold: the PAGEMAP_SCAN request on `/proc/PID/pagemap` (Linux 6.7 and later; the
//! kernel's Documentation/admin-guide/mm/pagemap.rst describes it).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: libc::Ioctl = 0xC060_6610_u32 as libc::Ioctl;

/// Categories of include/uapi/linux/fs.h.
const IS_PRESENT: u64 = 1 << 3;
const IS_HUGE: u64 = 1 << 6;

/// Requests refuse a range that ends higher, on x86-64 with four levels of page tables.
const HIGHEST_END: u64 = (1 << 47) - 4096;
/// Runs that one request fills in.
const RUNS: usize = 1024;
/// One request looks at no more than this: the process cannot change its mappings meanwhile.
const STEP_BYTES: u64 = 4 << 30;

/// Neighbouring pages that are present and alike.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Run {
    /// Address of the first byte.
    pub start: u64,
    /// Address behind the last.
    pub end: u64,
    categories: u64,
}

impl Run {
    /// A run, for tests.
    #[cfg(test)]
    pub fn new(start: u64, end: u64, huge: bool) -> Self {
        Self { start, end, categories: IS_PRESENT | if huge { IS_HUGE } else { 0 } }
    }

    /// Entered in the page tables above the lowest level.
    pub fn is_huge(&self) -> bool {
        self.categories & IS_HUGE != 0
    }
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

/// Appends the present pages of `start..end` to `found`, in order.
///
/// # Errors
/// The kernel's answer; ENOTTY where it has no such request.
pub fn scan(pagemap: &File, start: u64, end: u64, found: &mut Vec<Run>) -> io::Result<()> {
    let mut runs = vec![Run::default(); RUNS];
    let end = end.min(HIGHEST_END);
    let mut from = start;
    while from < end {
        let upto = from.saturating_add(STEP_BYTES).min(end);
        let mut arg = ScanArg {
            size: size_of::<ScanArg>() as u64,
            start: from,
            end: upto,
            vec: runs.as_mut_ptr() as u64,
            vec_len: RUNS as u64,
            // Memory of a hugetlb pool that nobody has touched says HUGE alone: ask for what is there.
            category_mask: IS_PRESENT,
            return_mask: IS_PRESENT | IS_HUGE,
            ..ScanArg::default()
        };
        // SAFETY: the kernel reads `arg` and writes at most `vec_len` runs where `vec` points.
        let filled = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut arg) };
        let filled = usize::try_from(filled).map_err(|_| io::Error::last_os_error())?;
        found.extend(runs.iter().take(filled));
        // The walk ends early when the vector is full; an end that does not move would never end.
        from = if arg.walk_end > from { arg.walk_end } else { upto };
    }
    Ok(())
}
