//! Transparent huge pages: what splits them, and what they hold afterwards.

use super::thp::{DEFRAG, MADVISE, SIZE, aligned, huge};
use super::{BASE, PAGE};
use crate::case::{Case, Need, Topic};
use crate::child::Context;
use crate::outcome::{Outcome, equal, holds, must};
use crate::sys::{Ended, Gate, Process};
use crate::view;

const NEEDS: &[Need] = &[Need::Thp, MADVISE, DEFRAG];

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "thp.split_by_munmap",
        topic: Topic::Thp,
        proves: "Unmapping 4 KiB out of a huge page splits it; the other 511 keep what they hold.",
        like: "selftests mm/split_huge_page_test (by other means)",
        needs: NEEDS,
        broken_by: "munmap.ignored",
        run: by_munmap,
    },
    Case {
        name: "thp.split_by_mprotect",
        topic: Topic::Thp,
        proves: "Protecting 4 KiB of a huge page splits its entry and changes nothing that it holds.",
        like: "new",
        needs: NEEDS,
        broken_by: "mprotect.ignored",
        run: by_mprotect,
    },
    Case {
        name: "thp.split_by_dontneed",
        topic: Topic::Thp,
        proves: "MADV_DONTNEED of 4 KiB of a huge page zeroes those and no others.",
        like: "new",
        needs: NEEDS,
        broken_by: "madvise.dontneed_ignored",
        run: by_dontneed,
    },
    Case {
        name: "thp.split_and_collapse",
        topic: Topic::Thp,
        proves: "A page that was split collapses again by MADV_COLLAPSE, with zeros where it was emptied.",
        like: "selftests mm/khugepaged (collapse_full_of_compound)",
        needs: NEEDS,
        broken_by: "madvise.dontneed_ignored",
        run: and_collapse,
    },
    Case {
        name: "thp.fork_copies",
        topic: Topic::Thp,
        proves: "After fork a write to a huge page is not seen by the other side.",
        like: "selftests mm/cow (THP)",
        needs: NEEDS,
        broken_by: "mmap.shared_huge",
        run: fork_copies,
    },
    Case {
        name: "thp.mremap_keeps",
        topic: Topic::Thp,
        proves: "Moving aligned huge pages by mremap to an aligned place keeps them huge, with what they hold.",
        like: "selftests mm/mremap_test (its PMD moves)",
        needs: NEEDS,
        broken_by: "mremap.fresh",
        run: mremap_keeps,
    },
    Case {
        name: "thp.dontneed_whole",
        topic: Topic::Thp,
        proves: "MADV_DONTNEED of a whole huge page gives its memory back at once, and zeros come next.",
        like: "new",
        needs: NEEDS,
        broken_by: "madvise.dontneed_ignored",
        run: dontneed_whole,
    },
];

fn by_munmap(_: &mut Context) -> Outcome {
    let region = huge(1)?;
    must("munmap of 4 KiB", region.part(100 * BASE, BASE).unmap())?;
    let (before, behind) = (region.part(0, 100 * BASE), region.part(101 * BASE, 411 * BASE));
    for (what, part) in [("before the hole", before), ("behind the hole", behind)] {
        view::huge_is(what, &part, 0)?;
        equal(&format!("bytes present {what}"), view::held(&part)?.present_bytes(), part.len as u64)?;
    }
    before.check("before the hole", 1)?;
    // Tags count from the beginning of the region that was filled.
    let tail: Vec<u8> = (0..411).map(|page| behind.read(page * BASE + 8)).collect();
    let other = huge(1)?;
    let whole: Vec<u8> = (101..512).map(|page| other.read(page * BASE + 8)).collect();
    holds("behind the hole", tail == whole, "other bytes", "the bytes written")
}

fn by_mprotect(_: &mut Context) -> Outcome {
    let region = huge(1)?;
    let page = region.part(7 * BASE, BASE);
    must("mprotect", page.protect(libc::PROT_READ))?;
    view::huge_is("after mprotect of 4 KiB", &region, 0)?;
    region.check("what it holds", 1)?;
    let ended = crate::sys::in_child(|| {
        page.write(0, 1);
        0
    })?;
    equal("writing what may only be read", ended, Ended::Signal(libc::SIGSEGV))?;
    region.part(0, 7 * BASE).fill(2);
    region.part(0, 7 * BASE).check("its neighbours can be written", 2)
}

fn by_dontneed(_: &mut Context) -> Outcome {
    let region = huge(1)?;
    must("MADV_DONTNEED of 4 KiB", region.part(300 * BASE, BASE).advise(libc::MADV_DONTNEED))?;
    view::huge_is("after MADV_DONTNEED of 4 KiB", &region, 0)?;
    region.part(0, 300 * BASE).check("before it", 1)?;
    region.part(300 * BASE, BASE).check_zero("the emptied page")
}

fn and_collapse(_: &mut Context) -> Outcome {
    let region = huge(1)?;
    must("MADV_DONTNEED of 8 KiB", region.part(510 * BASE, 2 * BASE).advise(libc::MADV_DONTNEED))?;
    view::huge_is("after the split", &region, 0)?;
    must("MADV_COLLAPSE", region.advise(libc::MADV_COLLAPSE))?;
    view::huge_is("after MADV_COLLAPSE", &region, SIZE)?;
    region.part(0, 510 * BASE).check("what was kept", 1)?;
    region.part(510 * BASE, 2 * BASE).check_zero("what was emptied")
}

fn fork_copies(_: &mut Context) -> Outcome {
    let region = huge(2)?;
    let (written, done) = (Gate::new()?, Gate::new()?);
    let child = Process::start(|| {
        region.part(0, PAGE).fill(2);
        written.open();
        done.pass();
        let own = region.part(0, PAGE).check("its own", 2);
        let inherited = region.part(PAGE, PAGE).check("inherited", 1);
        i32::from(own.is_err()) + 2 * i32::from(inherited.is_err())
    })?;
    written.pass();
    region.check("the parent's pages after the child wrote", 1)?;
    region.part(PAGE, PAGE).fill(3);
    done.open();
    equal("the child (1 lost its writes, 2 sees the parent's)", child.wait()?, Ended::Exit(0))
}

fn mremap_keeps(_: &mut Context) -> Outcome {
    let region = huge(2)?;
    let target = aligned(2, None)?;
    let moved = must("mremap", region.move_over(&target))?;
    view::huge_is("after mremap", &moved, 2 * SIZE)?;
    moved.check("what was moved", 1)
}

fn dontneed_whole(_: &mut Context) -> Outcome {
    let region = huge(2)?;
    must("MADV_DONTNEED", region.part(0, PAGE).advise(libc::MADV_DONTNEED))?;
    equal("bytes present of 2 huge pages", view::held(&region)?.present_bytes(), SIZE)?;
    view::huge_is("the other one", &region.part(PAGE, PAGE), SIZE)?;
    region.part(0, PAGE).check_zero("the emptied page")?;
    region.part(PAGE, PAGE).check("the other one", 1)
}
