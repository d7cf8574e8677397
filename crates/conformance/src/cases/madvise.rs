//! Advice on hugetlb memory.

use super::{BASE, PAGE, PRIVATE, SHARED};
use crate::case::{Case, Need, Topic};
use crate::child::Context;
use crate::outcome::{Outcome, equal, holds, must, refused};
use crate::sys::{Ended, in_child};
use crate::view;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "madvise.dontneed_private",
        topic: Topic::Madvise,
        proves: "MADV_DONTNEED of private pages gives them back to the pool at once, and zeros come next.",
        like: "selftests mm/hugetlb-madvise",
        needs: &[Need::Pool(4)],
        broken_by: "madvise.ignored",
        run: dontneed_private,
    },
    Case {
        name: "madvise.dontneed_shared",
        topic: Topic::Madvise,
        proves: "MADV_DONTNEED of a shared file mapping leaves the file its pages, and they come again as they were.",
        like: "selftests mm/hugetlb-madvise",
        needs: &[Need::Pool(4)],
        broken_by: "madvise.removes",
        run: dontneed_shared,
    },
    Case {
        name: "madvise.remove",
        topic: Topic::Madvise,
        proves: "MADV_REMOVE of a shared file mapping takes the pages out of the file.",
        like: "selftests mm/hugetlb-madvise",
        needs: &[Need::Pool(4)],
        broken_by: "madvise.ignored",
        run: remove,
    },
    Case {
        name: "madvise.misaligned",
        topic: Topic::Madvise,
        proves: "MADV_DONTNEED that begins inside a page is refused with EINVAL; one that ends inside a page spares that page.",
        like: "selftests mm/hugetlb-madvise",
        needs: &[Need::Pool(2)],
        broken_by: "madvise.rounded_up",
        run: misaligned,
    },
    Case {
        name: "madvise.willneed_keeps_reserve",
        topic: Topic::Madvise,
        proves: "MADV_WILLNEED on hugetlb memory touches neither pages nor reserve.",
        like: "libhugetlbfs madvise_reserve, readahead_reserve, fadvise_reserve",
        needs: &[Need::Pool(4)],
        broken_by: "madvise.populates",
        run: willneed_keeps_reserve,
    },
    Case {
        name: "madvise.populate_write",
        topic: Topic::Madvise,
        proves: "MADV_POPULATE_WRITE brings in every page and spends the reserve on them.",
        like: "selftests mm/madv_populate (for hugetlb: new)",
        needs: &[Need::Pool(4)],
        broken_by: "madvise.ignored",
        run: populate_write,
    },
    Case {
        name: "madvise.dontfork",
        topic: Topic::Madvise,
        proves: "Memory under MADV_DONTFORK is not there in a child, and takes no page of the pool for it.",
        like: "new",
        needs: &[Need::Pool(2)],
        broken_by: "madvise.ignored",
        run: dontfork,
    },
    Case {
        name: "madvise.refused",
        topic: Topic::Madvise,
        proves: "MADV_FREE and MADV_COLLAPSE are refused on hugetlb memory with EINVAL and change nothing.",
        like: "new",
        needs: &[Need::Pool(2)],
        broken_by: "madvise.ignored",
        run: refused_advice,
    },
];

fn dontneed_private(context: &mut Context) -> Outcome {
    context.start()?;
    let region = context.anonymous(4, PRIVATE)?;
    region.fill(1);
    context.at("writing 4 pages", [0, -4, 0, 0])?;
    must("MADV_DONTNEED", region.part(PAGE, 2 * PAGE).advise(libc::MADV_DONTNEED))?;
    equal("bytes present", view::held(&region)?.present_bytes(), 2 * PAGE as u64)?;
    region.part(0, PAGE).check("the page before", 1)?;
    region.part(PAGE, 2 * PAGE).check_zero("the emptied pages")?;
    context.at("MADV_DONTNEED of 2 and reading them", [0, -4, 0, 0])?;
    must("MADV_DONTNEED", region.advise(libc::MADV_DONTNEED))?;
    must("munmap", region.unmap())?;
    context.at("unmapping", [0, 0, 0, 0])
}

fn dontneed_shared(context: &mut Context) -> Outcome {
    let file = context.file()?;
    context.start()?;
    let region = context.map_file(&file, 4, SHARED)?;
    region.fill(2);
    must("MADV_DONTNEED", region.advise(libc::MADV_DONTNEED))?;
    equal("bytes present", view::held(&region)?.present_bytes(), 0)?;
    context.at("writing 4 pages of a file and MADV_DONTNEED", [0, -4, 0, 0])?;
    region.check("the pages come again", 2)
}

fn remove(context: &mut Context) -> Outcome {
    let file = context.file()?;
    context.start()?;
    let region = context.map_file(&file, 4, SHARED)?;
    region.fill(3);
    must("MADV_REMOVE", region.part(PAGE, 2 * PAGE).advise(libc::MADV_REMOVE))?;
    context.at("writing 4 pages of a file and removing 2", [0, -2, 0, 0])?;
    equal("size of the file", must("fstat", file.size())?, 4 * PAGE as i64)?;
    region.part(0, PAGE).check("the page before", 3)?;
    region.part(PAGE, 2 * PAGE).check_zero("the removed pages")?;
    context.at("reading them", [0, -4, 0, 0])
}

fn misaligned(context: &mut Context) -> Outcome {
    context.start()?;
    let region = context.anonymous(2, PRIVATE)?;
    region.fill(4);
    refused("MADV_DONTNEED from 4 KiB on", region.part(BASE, PAGE).advise(libc::MADV_DONTNEED), &[libc::EINVAL])?;
    must("MADV_DONTNEED of 2 MiB + 4 KiB", region.part(0, PAGE + BASE).advise(libc::MADV_DONTNEED))?;
    equal("bytes present", view::held(&region)?.present_bytes(), PAGE as u64)?;
    let second: Vec<u8> = (512..515).map(|page| region.read(page * BASE + 8)).collect();
    holds("the second page", second.iter().all(|byte| *byte != 0), format!("{second:?}"), "no zero")
}

fn willneed_keeps_reserve(context: &mut Context) -> Outcome {
    let file = context.file()?;
    context.start()?;
    let region = context.map_file(&file, 4, SHARED)?;
    context.at("mapping 4 pages of a file", [0, 0, 4, 0])?;
    // The kernel may refuse this advice; it may not act on the pool.
    let _ = region.advise(libc::MADV_WILLNEED);
    context.at("MADV_WILLNEED", [0, 0, 4, 0])?;
    region.touch(PAGE);
    context.at("touching", [0, -4, 0, 0])
}

fn populate_write(context: &mut Context) -> Outcome {
    context.start()?;
    let region = context.anonymous(4, PRIVATE)?;
    context.at("mapping 4 pages", [0, 0, 4, 0])?;
    must("MADV_POPULATE_WRITE", region.part(0, 3 * PAGE).advise(libc::MADV_POPULATE_WRITE))?;
    context.at("MADV_POPULATE_WRITE of 3", [0, -3, 1, 0])?;
    region.check_zero("populated pages")
}

fn dontfork(context: &mut Context) -> Outcome {
    context.start()?;
    let region = context.anonymous(2, PRIVATE)?;
    region.fill(5);
    must("MADV_DONTFORK", region.advise(libc::MADV_DONTFORK))?;
    let ended = in_child(|| i32::from(region.read(8)))?;
    equal("the child reads it", ended, Ended::Signal(libc::SIGSEGV))?;
    region.check("the parent's", 5)?;
    context.at("the child's end", [0, -2, 0, 0])
}

fn refused_advice(context: &mut Context) -> Outcome {
    context.start()?;
    let region = context.anonymous(2, PRIVATE)?;
    region.fill(6);
    refused("MADV_FREE", region.advise(libc::MADV_FREE), &[libc::EINVAL])?;
    refused("MADV_COLLAPSE", region.advise(libc::MADV_COLLAPSE), &[libc::EINVAL])?;
    region.check("what it holds", 6)?;
    context.at("two refusals", [0, -2, 0, 0])
}
