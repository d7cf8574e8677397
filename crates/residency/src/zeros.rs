//! How much of the huge pages of a process holds only zeros: memory that is backed and that nobody may have touched.
//!
//! The kernel calls a transparent huge page underused when more of its parts are zero-filled than `khugepaged/max_ptes_none` says
//! (thp_underused in mm/huge_memory.c; Documentation/admin-guide/mm/transhuge.rst). This looks at the same parts from outside.
//!
//! The parts are read through `/proc/PID/mem`. process_vm_readv is not used: it pins the pages that it reads, and pinning memory that
//! is shared since a fork copies it and splits its huge pages (gup_must_unshare in mm/internal.h; measured on Linux 6.18: a child's
//! four huge pages became 2048 small ones). Before each read the page tables are asked whether the huge page is still there, since a
//! read of what is not there would bring it in. Between the two it may still go; then one page is faulted in. What is read counts as
//! used lately, as after any access.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use crate::maps::Vma;
use crate::page_size::SLOT;
use crate::page_size::base_page_bytes;
use crate::pagemap::{self, IS_HUGE, IS_PRESENT, IS_ZERO_PAGE, Region};
use crate::process::{LookOptions, Told, as_root};

/// What the parts of the huge pages of one mapping hold. A part is a base page (4 KiB on x86-64).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ZeroFilled {
    /// Bytes of the mapping in huge pages, transparent or of a pool.
    pub huge_bytes: u64,
    /// Bytes of those that were read. All of them, unless the time was over or pages went meanwhile.
    pub looked_at_bytes: u64,
    /// Bytes of those read whose part holds only zeros.
    pub zero_bytes: u64,
    /// Pieces of 2 MiB that were read (a page of 1 GiB is 512 of them).
    pub pieces: u64,
    /// Of those, transparent huge pages that the kernel calls underused: with more zero-filled parts than
    /// `khugepaged/max_ptes_none`. None are while that is 511, the kernel's default.
    pub underused_pages: u64,
    /// Sum of the squares of each piece's zero-filled bytes, for the margin.
    squares: f64,
}

impl ZeroFilled {
    /// Whether every huge page was read.
    pub fn is_exact(&self) -> bool {
        self.looked_at_bytes == self.huge_bytes
    }

    /// Zero-filled bytes of all huge pages of the mapping: counted if all were read, else in proportion to those read.
    /// `None` if none was.
    pub fn bytes(&self) -> Option<u64> {
        if self.is_exact() {
            return Some(self.zero_bytes);
        }
        let share = (self.looked_at_bytes > 0).then(|| self.zero_bytes as f64 / self.looked_at_bytes as f64)?;
        Some((share * self.huge_bytes as f64).round() as u64)
    }

    /// How far [`ZeroFilled::bytes`] may be off, in bytes; 0 if all was read.
    ///
    /// The pieces are a sample without replacement: 1.96 standard errors of their mean with the correction for a finite
    /// population (Cochran, Sampling Techniques, section 2.6), and for kinds of pages missing from the sample, 3/n of
    /// the unread bytes (the rule of three). The pieces are spread evenly, which is at least as good unless the
    /// contents repeat in step.
    pub fn margin_bytes(&self) -> Option<u64> {
        if self.is_exact() {
            return Some(0);
        }
        if self.pieces == 0 {
            return None;
        }
        let n = self.pieces as f64;
        let all = (self.huge_bytes as f64 / SLOT as f64).max(n);
        let mean = self.zero_bytes as f64 / n;
        let variance = if self.pieces > 1 { (self.squares - n * mean * mean).max(0.0) / (n - 1.0) } else { 0.0 };
        let sampled = 1.96 * all * (variance / n * (1.0 - n / all)).sqrt();
        let unseen = (self.huge_bytes - self.looked_at_bytes) as f64 * (3.0 / n).min(1.0);
        Some((sampled + unseen).round().min((self.huge_bytes - self.looked_at_bytes) as f64) as u64)
    }

    fn add(&mut self, zero_bytes: u64, bytes: u64) {
        self.looked_at_bytes += bytes;
        self.zero_bytes += zero_bytes;
        self.pieces += 1;
        self.squares += zero_bytes as f64 * zero_bytes as f64;
    }
}

/// The huge pages of one mapping, and how far the look at them has come.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    /// Each at most 2 MiB, in order of address.
    all: Vec<(u64, u64)>,
    /// In which order they are read; filled when the first is.
    order: Vec<usize>,
    is_pool: bool,
    /// Why they may not be read.
    refused: Option<String>,
    found: ZeroFilled,
    tried: usize,
    failed: Option<String>,
}

impl Pieces {
    /// The pieces of the huge pages among `regions`, all of `vma`.
    pub(crate) fn of(vma: &Vma, regions: &[Region]) -> Self {
        let is_pool = vma.is_hugetlb();
        let is_huge = |region: &&Region| {
            region.categories & IS_PRESENT != 0
                && region.categories & IS_ZERO_PAGE == 0
                && (is_pool || region.categories & IS_HUGE != 0)
        };
        let mut all = Vec::new();
        for region in regions.iter().filter(is_huge) {
            let mut from = region.start;
            while from < region.end {
                let to = ((from & !(SLOT - 1)) + SLOT).min(region.end);
                all.push((from, to));
                from = to;
            }
        }
        let huge_bytes = all.iter().map(|(from, to)| to - from).sum();
        let refused = refused(vma, huge_bytes);
        Self { all, is_pool, refused, found: ZeroFilled { huge_bytes, ..ZeroFilled::default() }, ..Self::default() }
    }

    /// What came of it.
    pub(crate) fn told(self, seconds: f64) -> Told<ZeroFilled> {
        match (self.refused, self.failed) {
            _ if self.all.is_empty() => Ok(self.found),
            (Some(why), _) => Err(why),
            _ if self.found.pieces > 0 => Ok(self.found),
            (None, Some(why)) => Err(why),
            (None, None) => Err(format!("none of its huge pages was read within {seconds} s")),
        }
    }
}

/// Why the huge pages of a mapping may not be read. Userfaultfd hands faults to another program, which must not hear of ours; memory
/// of devices may do something when it is read.
fn refused(vma: &Vma, huge_bytes: u64) -> Option<String> {
    if ["um", "uw", "ui"].iter().any(|flag| vma.has_flag(flag)) {
        return Some("userfaultfd looks after this mapping: reading it could wake its handler".to_owned());
    }
    if ["io", "pf"].iter().any(|flag| vma.has_flag(flag)) {
        return Some("memory of a device is not read".to_owned());
    }
    // smaps leaves out huge pages of devices (DAX), which the page tables show.
    if !vma.is_hugetlb() && vma.is_file() && vma.huge_bytes() < huge_bytes {
        return Some(
            "smaps counts fewer huge pages than the page tables have: memory of a device (DAX), which is not read, or they came \
             meanwhile"
                .to_owned(),
        );
    }
    None
}

/// Reads the huge pages of all mappings, those of each in an order that spreads any prefix evenly, and of mappings in
/// proportion to their size, until all are read or the time is over. `max_ptes_none` is khugepaged's: with more
/// zero-filled parts than that, the kernel calls a huge page underused.
pub(crate) fn look(
    folder: &Path,
    pagemap: &File,
    max_ptes_none: Option<u64>,
    options: &LookOptions,
    mappings: &mut [Pieces],
) {
    let mut queue: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let open = mappings.iter().enumerate().filter(|(_, one)| one.refused.is_none() && !one.all.is_empty());
    queue.extend(open.map(|(index, _)| Reverse((0, index))));
    if queue.is_empty() || options.time_limit.is_zero() {
        return;
    }
    let path = folder.join("mem");
    let memory = match File::open(&path) {
        Ok(file) => file,
        Err(error) => {
            let why = format!("{}: {error}; {}", path.display(), as_root(folder));
            return mappings.iter_mut().for_each(|one| one.failed = Some(why.clone()));
        }
    };
    let reader = Reader { pagemap, memory, limit: max_ptes_none };
    let mut buffer = vec![0_u8; SLOT as usize];
    let start = Instant::now();
    while let Some(Reverse((_, index))) = queue.pop() {
        let Some(one) = mappings.get_mut(index) else { continue };
        if one.order.is_empty() {
            one.order = order(one.all.len(), options.seed);
        }
        if let Some(&piece) = one.order.get(one.tried).and_then(|next| one.all.get(*next)) {
            match reader.read(piece, one.is_pool, &mut buffer) {
                Ok((zero_bytes, underused)) => {
                    one.found.add(zero_bytes, piece.1 - piece.0);
                    one.found.underused_pages += u64::from(underused);
                }
                Err(why) => one.failed = Some(why),
            }
        }
        one.tried += 1;
        if one.tried < one.all.len() {
            queue.push(Reverse((((one.tried as u64) << 32) / one.all.len() as u64, index)));
        }
        if start.elapsed() >= options.time_limit {
            break;
        }
    }
}

/// The numbers below `all` in the order to read them: those of the van der Corput sequence (the bits turned round), of which any
/// beginning is spread evenly, from a first one that the seed gives.
fn order(all: usize, seed: u64) -> Vec<usize> {
    let bits = all.next_power_of_two().trailing_zeros();
    // The multiplier of splitmix64: seeds that follow each other begin far apart.
    let first = (seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) % all.max(1) as u64) as usize;
    let turned = (0..all.next_power_of_two()).map(|n| n.reverse_bits().checked_shr(usize::BITS - bits).unwrap_or(0));
    turned.filter(|n| *n < all).map(|n| (n + first) % all).collect()
}

struct Reader<'a> {
    pagemap: &'a File,
    memory: File,
    limit: Option<u64>,
}

impl Reader<'_> {
    /// Zero-filled bytes of a piece, and whether the kernel would call it underused.
    fn read(&self, (from, to): (u64, u64), is_pool: bool, buffer: &mut [u8]) -> Result<(u64, bool), String> {
        let gone = || "its huge pages went while they were read".to_owned();
        let now = pagemap::scan(self.pagemap, from, to).map_err(|_| gone())?;
        let whole = |region: &Region| {
            (region.start, region.end) == (from, to)
                && region.categories & IS_PRESENT != 0
                && region.categories & IS_ZERO_PAGE == 0
                && (is_pool || region.categories & IS_HUGE != 0)
        };
        if !matches!(now.as_slice(), [region] if whole(region)) {
            return Err(gone());
        }
        let part = buffer.get_mut(..(to - from) as usize).unwrap_or_default();
        self.memory.read_exact_at(part, from).map_err(|error| format!("/proc/PID/mem: {error}"))?;
        let page = base_page_bytes();
        let zero = part.chunks(page).filter(|page| is_zero(page)).map(|page| page.len() as u64).sum::<u64>();
        let parts = SLOT / page as u64;
        // The kernel looks at no page while any number of zero-filled parts is allowed.
        let underused = |limit: u64| limit < parts - 1 && zero / page as u64 > limit;
        Ok((zero, !is_pool && self.limit.is_some_and(underused)))
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    // Most parts that hold anything say so in their first bytes.
    let (words, rest) = bytes.as_chunks::<8>();
    words.iter().all(|word| *word == [0; 8]) && rest.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::page_size::{HUGE_2M_BYTES, PageSize};
    use crate::process::{process, process_with};
    use crate::slots::inspect;
    use crate::testing::Memory;

    /// Every piece comes once, and any beginning is spread: no gap is much longer than an even one.
    #[test]
    fn pieces_come_once_and_evenly() {
        for (all, seed) in [(1, 5), (2, 0), (7, 1), (512, 0), (1000, 3), (4096, 99)] {
            let order = order(all, seed);
            assert!(order.iter().all(|piece| *piece < all));
            assert_eq!((order.len(), order.iter().collect::<BTreeSet<_>>().len()), (all, all));
            let mut first: Vec<usize> = order.iter().take(all / 8).copied().collect();
            first.sort_unstable();
            let longest = first.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default();
            assert!(longest <= 8 * 2, "{all} pieces, seed {seed}: a gap of {longest}");
        }
        assert_ne!(order(512, 0).first(), order(512, 1).first(), "the seed moves the beginning");
    }

    #[test]
    fn estimates_are_in_proportion_and_say_how_far_off_they_may_be() {
        let mut found = ZeroFilled { huge_bytes: 100 * SLOT, ..ZeroFilled::default() };
        assert_eq!((found.bytes(), found.margin_bytes()), (None, None), "nothing was read");
        for piece in 0..10_u64 {
            found.add(SLOT * (piece % 2), SLOT);
        }
        assert_eq!(found.bytes(), Some(50 * SLOT));
        // Half full, half empty: s = 0.527 of 10, finite 0.9: 1.96 * 100 * 0.527 * sqrt(0.09) + 90 * 0.3 = 31.0 + 27 pages.
        let margin = found.margin_bytes().expect("some") as f64 / SLOT as f64;
        assert!((margin - 58.0).abs() < 0.1, "{margin}");
        let alike = ZeroFilled { huge_bytes: SLOT * 100, looked_at_bytes: SLOT, pieces: 1, ..ZeroFilled::default() };
        assert_eq!(alike.margin_bytes(), Some(99 * SLOT), "one page says nothing of the others");
        assert!(ZeroFilled::default().is_exact());
    }

    #[test]
    fn what_others_look_after_is_not_read() {
        let vma = |flags: &str, huge_bytes, inode| Vma {
            flags: flags.to_owned(),
            anonymous_huge_bytes: huge_bytes,
            inode,
            ..Vma::default()
        };
        assert_eq!(refused(&vma("rd wr", SLOT, 0), SLOT), None);
        for (flags, word) in
            [("rd um", "userfaultfd"), ("rd uw", "userfaultfd"), ("ui", "userfaultfd"), ("io", "device")]
        {
            assert!(refused(&vma(flags, SLOT, 0), SLOT).is_some_and(|why| why.contains(word)), "{flags}");
        }
        assert!(refused(&vma("rd", 0, 7), SLOT).is_some_and(|why| why.contains("DAX")), "smaps knows nothing of it");
        assert_eq!(refused(&vma("rd", SLOT, 7), SLOT), None);
    }

    /// Two huge pages have one touched part each; this process sees the other 511.
    #[test]
    fn parts_of_this_process_are_counted() {
        let memory = Memory::advised(2);
        memory.touch(5);
        memory.touch(2 * HUGE_2M_BYTES - 1);
        let got = inspect(memory.address, 2 * HUGE_2M_BYTES, PageSize::Huge2M).expect("look");
        let held = got.total().expect("told");
        let of = |options: &LookOptions| {
            let seen = process_with(std::process::id(), options).expect("its own");
            let mine = seen
                .mappings
                .into_iter()
                .find(|one| one.start <= memory.address as u64 && (memory.address as u64) < one.end);
            mine.expect("a mapping of its own").zero_filled
        };
        let found = of(&LookOptions::default()).expect("read");
        // Where the host has no huge pages to give there is nothing to read.
        let pages = held.huge_2m_bytes / SLOT;
        assert_eq!((found.huge_bytes, found.zero_bytes), (pages * SLOT, pages * 511 * base_page_bytes() as u64));
        if pages > 0 {
            let none = LookOptions { time_limit: std::time::Duration::ZERO, seed: 0 };
            assert!(of(&none).is_err_and(|why| why.contains("0 s")));
        }
        assert!(process(std::process::id()).is_ok());
    }
}
