//! The counters of the pool through the life of a mapping: [nr, free, resv, surplus] against the start, in pages.

use std::time::Duration;

use super::{PAGE, PRIVATE, SHARED};
use crate::case::{Case, Need, Topic};
use crate::child::Context;
use crate::outcome::{Outcome, equal, must};
use crate::sys::{self, Ended, Gate, Process};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "accounting.private_reserve",
        topic: Topic::Accounting,
        proves: "A private mapping reserves its pages; each touch turns one of them into a used page; unmapping gives all back.",
        like: "libhugetlbfs counters",
        needs: &[Need::Pool(8)],
        broken_by: "mmap.noreserve",
        run: private_reserve,
    },
    Case {
        name: "accounting.unmap_in_parts",
        topic: Topic::Accounting,
        proves: "Unmapping a part gives back that part: used pages become free, untouched ones unreserved.",
        like: "libhugetlbfs counters",
        needs: &[Need::Pool(6)],
        broken_by: "munmap.ignored",
        run: unmap_in_parts,
    },
    Case {
        name: "accounting.shared_reserves_once",
        topic: Topic::Accounting,
        proves: "Two shared mappings of the same part of a file reserve its pages once.",
        like: "libhugetlbfs counters",
        needs: &[Need::Pool(12)],
        broken_by: "mmap.shared_is_private",
        run: shared_reserves_once,
    },
    Case {
        name: "accounting.private_reserves_each",
        topic: Topic::Accounting,
        proves: "Two private mappings of the same part of a file reserve pages for each.",
        like: "libhugetlbfs counters",
        needs: &[Need::Pool(12)],
        broken_by: "mmap.private_is_shared",
        run: private_reserves_each,
    },
    Case {
        name: "accounting.file_keeps_pages",
        topic: Topic::Accounting,
        proves: "Pages of a shared file outlive its mappings, and go with its last name and descriptor.",
        like: "libhugetlbfs counters",
        needs: &[Need::Pool(4)],
        broken_by: "unlinkat.ignored",
        run: file_keeps_pages,
    },
    Case {
        name: "accounting.file_reserve_outlives_mapping",
        topic: Topic::Accounting,
        proves: "What a shared mapping reserved in a file stays reserved after unmapping, until the file is truncated.",
        like: "libhugetlbfs counters, truncate_reserve_wraparound",
        needs: &[Need::Pool(6)],
        broken_by: "ftruncate.ignored",
        run: file_reserve_outlives_mapping,
    },
    Case {
        name: "accounting.noreserve",
        topic: Topic::Accounting,
        proves: "MAP_NORESERVE reserves nothing; each touch takes a free page.",
        like: "new",
        needs: &[Need::Pool(4)],
        broken_by: "mmap.reserve",
        run: noreserve,
    },
    Case {
        name: "accounting.fallocate",
        topic: Topic::Accounting,
        proves: "fallocate takes pages without reserving; punching a hole gives exactly those pages back.",
        like: "libhugetlbfs fallocate_basic, fallocate_align",
        needs: &[Need::Pool(8)],
        broken_by: "fallocate.ignored",
        run: fallocate,
    },
    Case {
        name: "accounting.truncate_returns",
        topic: Topic::Accounting,
        proves: "Truncating a mapped file gives back the pages and the reserve beyond its new end, and no more.",
        like: "libhugetlbfs truncate",
        needs: &[Need::Pool(8)],
        broken_by: "ftruncate.ignored",
        run: truncate_returns,
    },
    Case {
        name: "accounting.mlock_fills",
        topic: Topic::Accounting,
        proves: "mlock brings in every page of the mapping at once.",
        like: "libhugetlbfs mlock",
        needs: &[Need::Pool(4)],
        broken_by: "mlock.ignored",
        run: mlock_fills,
    },
    Case {
        name: "accounting.fork_owns_no_reserve",
        topic: Topic::Accounting,
        proves: "A forked child neither takes over nor gives back the reserve of its parent's private mapping.",
        like: "libhugetlbfs counters, fork-cow",
        needs: &[Need::Pool(6)],
        broken_by: "fork.takes",
        run: fork_owns_no_reserve,
    },
    Case {
        name: "accounting.killed_process_returns",
        topic: Topic::Accounting,
        proves: "A process that is killed gives back all that it used and had reserved.",
        like: "new",
        needs: &[Need::Pool(8)],
        broken_by: "kill.ignored",
        run: killed_process_returns,
    },
];

fn private_reserve(context: &mut Context) -> Outcome {
    context.start()?;
    let region = context.anonymous(8, PRIVATE)?;
    context.at("mapping 8 pages", [0, 0, 8, 0])?;
    for touched in 1..=8_usize {
        region.write((touched - 1) * PAGE, 1);
        let left = touched as i64;
        context.at(&format!("touching {touched}"), [0, -left, 8 - left, 0])?;
    }
    must("munmap", region.unmap())?;
    context.at("unmapping", [0, 0, 0, 0])
}

fn unmap_in_parts(context: &mut Context) -> Outcome {
    context.start()?;
    let region = context.anonymous(6, PRIVATE)?;
    region.part(0, 3 * PAGE).touch(PAGE);
    context.at("mapping 6 pages and touching 3", [0, -3, 3, 0])?;
    must("munmap", region.part(0, PAGE).unmap())?;
    context.at("unmapping one that was touched", [0, -2, 3, 0])?;
    must("munmap", region.part(5 * PAGE, PAGE).unmap())?;
    context.at("unmapping one that was not", [0, -2, 2, 0])?;
    must("munmap", region.part(2 * PAGE, 2 * PAGE).unmap())?;
    context.at("unmapping one of each", [0, -1, 1, 0])?;
    must("munmap", region.part(PAGE, PAGE).unmap())?;
    must("munmap", region.part(4 * PAGE, PAGE).unmap())?;
    context.at("unmapping the rest", [0, 0, 0, 0])
}

fn shared_reserves_once(context: &mut Context) -> Outcome {
    let file = context.file()?;
    context.start()?;
    context.map_file(&file, 4, SHARED)?;
    context.at("mapping 4 pages shared", [0, 0, 4, 0])?;
    let second = context.map_file(&file, 6, SHARED)?;
    context.at("mapping 6, of which 4 are the same", [0, 0, 6, 0])?;
    second.touch(PAGE);
    context.at("touching all through the second", [0, -6, 0, 0])?;
    context.map_file(&file, 6, SHARED)?;
    context.at("mapping once more what is there", [0, -6, 0, 0])
}

fn private_reserves_each(context: &mut Context) -> Outcome {
    let file = context.file()?;
    context.start()?;
    let first = context.map_file(&file, 4, PRIVATE)?;
    context.at("mapping 4 pages private", [0, 0, 4, 0])?;
    let second = context.map_file(&file, 4, PRIVATE)?;
    context.at("mapping them again", [0, 0, 8, 0])?;
    first.touch(PAGE);
    context.at("touching the first", [0, -4, 4, 0])?;
    must("munmap", second.unmap())?;
    context.at("unmapping the second", [0, -4, 0, 0])
}

fn file_keeps_pages(context: &mut Context) -> Outcome {
    let mount = context.mount(&[])?;
    context.start()?;
    let file = must("creating a file", mount.create(c"file"))?;
    let region = context.map_file(&file, 4, SHARED)?;
    region.touch(PAGE);
    must("munmap", region.unmap())?;
    context.at("touching 4 pages of a file and unmapping", [0, -4, 0, 0])?;
    drop(file);
    context.at("closing it", [0, -4, 0, 0])?;
    must("unlink", mount.unlink(c"file"))?;
    context.at("removing its name", [0, 0, 0, 0])
}

fn file_reserve_outlives_mapping(context: &mut Context) -> Outcome {
    let file = context.file()?;
    context.start()?;
    let region = context.map_file(&file, 6, SHARED)?;
    region.part(0, 2 * PAGE).touch(PAGE);
    must("munmap", region.unmap())?;
    context.at("mapping 6 pages of a file, touching 2, unmapping", [0, -2, 4, 0])?;
    must("ftruncate to 4 pages", file.truncate(4 * PAGE))?;
    context.at("truncating to 4 pages", [0, -2, 2, 0])?;
    must("ftruncate to nothing", file.truncate(0))?;
    context.at("truncating to nothing", [0, 0, 0, 0])
}

fn noreserve(context: &mut Context) -> Outcome {
    context.start()?;
    let region = context.anonymous(4, PRIVATE | libc::MAP_NORESERVE)?;
    context.at("mapping 4 pages with MAP_NORESERVE", [0, 0, 0, 0])?;
    region.write(0, 1);
    context.at("touching 1", [0, -1, 0, 0])?;
    region.touch(PAGE);
    context.at("touching all", [0, -4, 0, 0])?;
    must("munmap", region.unmap())?;
    context.at("unmapping", [0, 0, 0, 0])
}

fn fallocate(context: &mut Context) -> Outcome {
    let file = context.file()?;
    context.start()?;
    must("fallocate of 6 pages", file.allocate(0, 0, 6 * PAGE))?;
    context.at("fallocate of 6 pages", [0, -6, 0, 0])?;
    must("fallocate of 4 KiB in page 7", file.allocate(0, 7 * PAGE, 4096))?;
    context.at("fallocate of 4 KiB, which takes a page", [0, -7, 0, 0])?;
    must("punching pages 1 and 2", file.punch(PAGE, 2 * PAGE))?;
    context.at("punching 2 pages", [0, -5, 0, 0])?;
    must("punching half a page", file.punch(4 * PAGE, PAGE / 2))?;
    context.at("punching half a page, which is zeroed and stays", [0, -5, 0, 0])?;
    must("punching all", file.punch(0, 8 * PAGE))?;
    context.at("punching all", [0, 0, 0, 0])
}

fn truncate_returns(context: &mut Context) -> Outcome {
    let file = context.file()?;
    context.start()?;
    let region = context.map_file(&file, 8, SHARED)?;
    region.part(0, 6 * PAGE).touch(PAGE);
    context.at("mapping 8 pages and touching 6", [0, -6, 2, 0])?;
    must("ftruncate to 3 pages", file.truncate(3 * PAGE))?;
    context.at("truncating to 3 pages", [0, -3, 0, 0])?;
    must("ftruncate to nothing", file.truncate(0))?;
    context.at("truncating to nothing", [0, 0, 0, 0])
}

fn mlock_fills(context: &mut Context) -> Outcome {
    context.start()?;
    let region = context.anonymous(4, PRIVATE)?;
    context.at("mapping 4 pages", [0, 0, 4, 0])?;
    must("mlock", region.lock())?;
    context.at("mlock", [0, -4, 0, 0])?;
    region.check_zero("locked pages")?;
    must("munmap", region.unmap())?;
    context.at("unmapping", [0, 0, 0, 0])
}

fn fork_owns_no_reserve(context: &mut Context) -> Outcome {
    context.start()?;
    let region = context.anonymous(6, PRIVATE)?;
    region.part(0, 2 * PAGE).touch(PAGE);
    context.at("mapping 6 pages and touching 2", [0, -2, 4, 0])?;
    let (born, done) = (Gate::new()?, Gate::new()?);
    let child = Process::start(|| {
        born.open();
        done.pass();
        0
    })?;
    born.pass();
    context.at("forking", [0, -2, 4, 0])?;
    done.open();
    equal("the child", child.wait()?, Ended::Exit(0))?;
    context.at("the child's end", [0, -2, 4, 0])?;
    region.touch(PAGE);
    context.at("touching the rest", [0, -6, 0, 0])
}

fn killed_process_returns(context: &mut Context) -> Outcome {
    context.start()?;
    let (ready, never) = (Gate::new()?, Gate::new()?);
    let child = Process::start(|| {
        let Ok(region) = sys::map(8 * PAGE, PRIVATE | crate::child::HUGETLB, None) else { return 1 };
        region.part(0, 5 * PAGE).touch(PAGE);
        ready.open();
        never.pass();
        0
    })?;
    ready.pass();
    context.at("a child has mapped 8 pages and touched 5", [0, -5, 3, 0])?;
    equal("the child", child.kill(Duration::from_secs(3))?, Ended::Signal(libc::SIGKILL))?;
    context.at("killing it", [0, 0, 0, 0])
}
