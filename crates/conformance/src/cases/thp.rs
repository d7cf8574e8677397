//! Transparent huge pages: when they come at a fault, when they do not, and how small pages collapse into one.

use super::{BASE, PAGE, PRIVATE, SHARED};
use crate::case::{Case, Need, Topic};
use crate::child::Context;
use crate::outcome::{Outcome, Stop, equal, holds, must};
use crate::sys::{self, Region};
use crate::view;

pub(super) const MADVISE: Need = Need::Setting("thp.enabled", "madvise");
/// With this the kernel compacts memory at the fault, where it was asked for huge pages.
pub(super) const DEFRAG: Need = Need::Setting("thp.defrag", "madvise");
pub(super) const SIZE: u64 = PAGE as u64;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "thp.fault_advised",
        topic: Topic::Thp,
        proves: "Under `madvise` one fault in advised, aligned memory brings a 2 MiB page that is zero.",
        like: "selftests mm/transhuge-stress",
        needs: &[Need::Thp, MADVISE, DEFRAG],
        broken_by: "madvise.ignored",
        run: fault_advised,
    },
    Case {
        name: "thp.fault_unadvised",
        topic: Topic::Thp,
        proves: "Under `madvise` memory that was not advised gets base pages.",
        like: "new",
        needs: &[Need::Thp, MADVISE, DEFRAG],
        broken_by: "mmap.advised",
        run: fault_unadvised,
    },
    Case {
        name: "thp.always",
        topic: Topic::Thp,
        proves: "Under `always` memory gets huge pages unasked, but not where MADV_NOHUGEPAGE was said.",
        like: "new",
        needs: &[Need::Thp, Need::Setting("thp.enabled", "always"), DEFRAG],
        broken_by: "madvise.ignored",
        run: always,
    },
    Case {
        name: "thp.never",
        topic: Topic::Thp,
        proves: "Under `never` advised memory gets base pages at a fault.",
        like: "new",
        needs: &[Need::Thp, Need::Setting("thp.enabled", "never")],
        broken_by: "madvise.collapses",
        run: never,
    },
    Case {
        name: "thp.prctl_disable",
        topic: Topic::Thp,
        proves: "PR_SET_THP_DISABLE keeps a process from huge pages whatever it advises, and can be taken back.",
        like: "selftests mm/prctl_thp_disable",
        needs: &[Need::Thp, MADVISE, DEFRAG],
        broken_by: "prctl.ignored",
        run: prctl_disable,
    },
    Case {
        name: "thp.edges",
        topic: Topic::Thp,
        proves: "Only whole aligned 2 MiB of a mapping are huge; what hangs over at its ends is base pages.",
        like: "new",
        needs: &[Need::Thp, MADVISE, DEFRAG],
        broken_by: "madvise.ignored",
        run: edges,
    },
    Case {
        name: "thp.zero_page",
        topic: Topic::Thp,
        proves: "Reading advised memory maps zeros without using memory, and the first write brings a page.",
        like: "selftests mm/cow (its huge zero pages)",
        needs: &[Need::Thp, MADVISE, DEFRAG, Need::Setting("thp.use_zero_page", "1")],
        broken_by: "madvise.ignored",
        run: zero_page,
    },
    Case {
        name: "thp.collapse_full",
        topic: Topic::Thp,
        proves: "MADV_COLLAPSE turns 512 base pages into one 2 MiB page that holds what they held.",
        like: "selftests mm/khugepaged (collapse_full)",
        needs: &[Need::Thp, MADVISE],
        broken_by: "madvise.ignored",
        run: collapse_full,
    },
    Case {
        name: "thp.collapse_holes",
        topic: Topic::Thp,
        proves: "MADV_COLLAPSE of memory of which one base page was touched gives one 2 MiB page, zero elsewhere.",
        like: "selftests mm/khugepaged (collapse_single_pte_entry)",
        needs: &[Need::Thp, MADVISE],
        broken_by: "madvise.ignored",
        run: collapse_holes,
    },
    Case {
        name: "thp.collapse_shared",
        topic: Topic::Thp,
        proves: "MADV_COLLAPSE turns base pages of shared memory into one 2 MiB page that all mappings see.",
        like: "selftests mm/khugepaged (collapse_full, shmem)",
        needs: &[Need::Thp, MADVISE],
        broken_by: "madvise.ignored",
        run: collapse_shared,
    },
    Case {
        name: "thp.collapse_after_fork",
        topic: Topic::Thp,
        proves: "MADV_COLLAPSE in a child of pages shared by fork gives the child a huge page and leaves the parent's as they were.",
        like: "selftests mm/khugepaged (collapse_fork)",
        needs: &[Need::Thp, MADVISE],
        broken_by: "madvise.ignored",
        run: collapse_after_fork,
    },
];

/// Advised private memory: this many aligned slots of 2 MiB, with a gap to its neighbours.
pub(super) fn aligned(slots: usize, advice: Option<i32>) -> Result<Region, Stop> {
    let flags = PRIVATE | libc::MAP_NORESERVE;
    let room = must("mmap", sys::map((slots + 2) * PAGE, flags, None))?;
    let start = room.addr.next_multiple_of(PAGE) - room.addr;
    // A mapping that goes on beyond the region could be collapsed with it.
    must("munmap", room.part(start + slots * PAGE, room.len - start - slots * PAGE).unmap())?;
    let region = room.part(start, slots * PAGE);
    if let Some(advice) = advice {
        must("madvise", region.advise(advice))?;
    }
    Ok(region)
}

/// Touched under MADV_HUGEPAGE, it must be huge, or what the case wants to see cannot be seen. A kernel without free memory in one
/// piece gives base pages and is right: it says so in its counters.
pub(super) fn huge(slots: usize) -> Result<Region, Stop> {
    let region = aligned(slots, Some(libc::MADV_HUGEPAGE))?;
    let before = fallbacks();
    region.fill(1);
    let (found, expected) = (view::held(&region)?.huge_2m_bytes, slots as u64 * SIZE);
    if found != expected && fallbacks() > before {
        return Err(Stop::inconclusive(format!(
            "the kernel found no free memory of 2 MiB in one piece (thp_fault_fallback grew): {found} of {expected} bytes are huge"
        )));
    }
    equal("advised memory touched, bytes on 2 MiB entries", found, expected)?;
    Ok(region)
}

/// Faults of the host that got base pages for want of huge ones.
fn fallbacks() -> Option<u64> {
    let text = sys::read_text("/proc/vmstat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("thp_fault_fallback ")?.trim().parse().ok())
}

fn fault_advised(_: &mut Context) -> Outcome {
    let region = aligned(4, Some(libc::MADV_HUGEPAGE))?;
    // Reading the counters takes memory, and so faults, of its own.
    let fallen = fallbacks();
    let before = must("getrusage", sys::minor_faults())?;
    (0..4).for_each(|slot| region.write(slot * PAGE + 3 * BASE, 1));
    let faults = must("getrusage", sys::minor_faults())? - before;
    let found = view::held(&region)?.huge_2m_bytes;
    if found < 4 * SIZE && fallbacks() > fallen {
        return Err(Stop::inconclusive(
            "the kernel found no free memory of 2 MiB in one piece (thp_fault_fallback grew)",
        ));
    }
    equal("bytes on 2 MiB entries after 4 touches", found, 4 * SIZE)?;
    holds("minor faults", (4..=12).contains(&faults), faults.to_string(), "4, at most 8 more of the process itself")?;
    region.check_zero("a fresh huge page")
}

fn fault_unadvised(_: &mut Context) -> Outcome {
    let region = aligned(2, None)?;
    region.touch(BASE);
    let held = view::held(&region)?;
    equal("(huge, base) bytes", (held.huge_2m_bytes, held.base_bytes), (0, 2 * SIZE))
}

fn always(_: &mut Context) -> Outcome {
    let (unasked, refused) = (aligned(2, None)?, aligned(2, Some(libc::MADV_NOHUGEPAGE))?);
    let fallen = fallbacks();
    unasked.touch(PAGE);
    refused.touch(PAGE);
    view::huge_is("memory with MADV_NOHUGEPAGE", &refused, 0)?;
    let found = view::held(&unasked)?.huge_2m_bytes;
    if found < 2 * SIZE && fallbacks() > fallen {
        return Err(Stop::inconclusive(
            "the kernel found no free memory of 2 MiB in one piece (thp_fault_fallback grew)",
        ));
    }
    equal("memory without advice, bytes on 2 MiB entries", found, 2 * SIZE)
}

fn never(_: &mut Context) -> Outcome {
    let region = aligned(2, Some(libc::MADV_HUGEPAGE))?;
    region.touch(PAGE);
    view::huge_is("advised memory under `never`", &region, 0)
}

fn prctl_disable(_: &mut Context) -> Outcome {
    must("prctl", sys::thp_disable(true))?;
    let region = aligned(2, Some(libc::MADV_HUGEPAGE))?;
    region.touch(PAGE);
    view::huge_is("advised memory of a process that has THP off", &region, 0)?;
    must("prctl", sys::thp_disable(false))?;
    huge(1).map(drop)
}

fn edges(_: &mut Context) -> Outcome {
    let room = aligned(4, None)?;
    // From the midst of the first slot to the midst of the last.
    let region = room.part(PAGE / 2, 3 * PAGE);
    must("munmap", room.part(0, PAGE / 2).unmap())?;
    must("munmap", room.part(7 * PAGE / 2, PAGE / 2).unmap())?;
    must("madvise", region.advise(libc::MADV_HUGEPAGE))?;
    let fallen = fallbacks();
    region.touch(BASE);
    let held = view::held(&region)?;
    if held.huge_2m_bytes < 2 * SIZE && fallbacks() > fallen {
        return Err(Stop::inconclusive(
            "the kernel found no free memory of 2 MiB in one piece (thp_fault_fallback grew)",
        ));
    }
    equal(
        "(huge, base) bytes of 3 MiB that begin in the midst",
        (held.huge_2m_bytes, held.base_bytes),
        (2 * SIZE, SIZE),
    )
}

fn zero_page(_: &mut Context) -> Outcome {
    let region = aligned(1, Some(libc::MADV_HUGEPAGE))?;
    let before = must("getrusage", sys::minor_faults())?;
    region.check_zero("memory read before it is written")?;
    let faults = must("getrusage", sys::minor_faults())? - before;
    holds("minor faults", (1..=9).contains(&faults), faults.to_string(), "1, at most 8 more of the process itself")?;
    equal("bytes resident after reading all", view::resident(&region)?, 0)?;
    region.write(8, 1);
    holds("bytes resident after one write", view::resident(&region)? > 0, "0", "at least a page")
}

fn collapse_full(_: &mut Context) -> Outcome {
    let region = aligned(1, Some(libc::MADV_NOHUGEPAGE))?;
    region.fill(2);
    view::huge_is("before", &region, 0)?;
    must("madvise", region.advise(libc::MADV_HUGEPAGE))?;
    must("MADV_COLLAPSE", region.advise(libc::MADV_COLLAPSE))?;
    view::huge_is("after MADV_COLLAPSE", &region, SIZE)?;
    region.check("the collapsed page", 2)
}

fn collapse_holes(_: &mut Context) -> Outcome {
    let region = aligned(1, None)?;
    let one = region.part(200 * BASE, BASE);
    one.fill(3);
    equal("bytes before", view::held(&region)?.present_bytes(), BASE as u64)?;
    must("MADV_COLLAPSE", region.advise(libc::MADV_COLLAPSE))?;
    view::huge_is("after MADV_COLLAPSE", &region, SIZE)?;
    one.check("the page that was there", 3)?;
    region.part(0, 200 * BASE).check_zero("before it")?;
    region.part(201 * BASE, 311 * BASE).check_zero("behind it")
}

fn collapse_shared(_: &mut Context) -> Outcome {
    let file = must("memfd_create", sys::memfd(c"conformance", 0))?;
    must("ftruncate", file.truncate(PAGE))?;
    let room = aligned(2, None)?;
    let read_write = libc::PROT_READ | libc::PROT_WRITE;
    let map = |slot: usize| {
        let at = room.part(slot * PAGE, PAGE).addr;
        must("mmap", sys::map_at(at, PAGE, read_write, SHARED | libc::MAP_FIXED, Some((&file, 0))))
    };
    let (one, other) = (map(0)?, map(1)?);
    one.fill(4);
    view::huge_is("before", &one, 0)?;
    must("MADV_COLLAPSE", one.advise(libc::MADV_COLLAPSE))?;
    view::huge_is("after MADV_COLLAPSE", &one, SIZE)?;
    other.check("the other mapping", 4)?;
    other.part(0, BASE).fill(5);
    one.part(0, BASE).check("what the other wrote", 5)
}

fn collapse_after_fork(_: &mut Context) -> Outcome {
    let region = aligned(1, None)?;
    region.fill(6);
    let ended = sys::in_child(|| {
        let work = || {
            must("MADV_COLLAPSE", region.advise(libc::MADV_COLLAPSE))?;
            view::huge_is("the child's", &region, SIZE)?;
            region.check("the child's", 6)?;
            region.fill(7);
            Ok::<(), Stop>(())
        };
        work().map_or_else(|stop| say(&stop), |()| 0)
    })?;
    equal("the child (1 if its memory is not as it should be)", ended, sys::Ended::Exit(0))?;
    let held = view::held(&region)?;
    equal("the parent's (huge, base) bytes", (held.huge_2m_bytes, held.base_bytes), (0, SIZE))?;
    region.check("the parent's", 6)
}

/// A child of the case has no other way to tell why.
fn say(stop: &Stop) -> i32 {
    eprintln!("{}", stop.reason);
    1
}
