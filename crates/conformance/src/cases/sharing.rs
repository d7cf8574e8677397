//! Who sees whose writes: fork, private and shared mappings, moves, direct I/O.

use super::{BASE, PAGE, PRIVATE, SHARED};
use crate::case::{Case, Need, Topic};
use crate::child::{Context, HUGETLB};
use crate::outcome::{Outcome, Stop, equal, must};
use crate::sys::{self, Ended, Gate, Process, in_child};
use crate::view;

const NO_OVERCOMMIT: Need = Need::Setting("hugetlb.2M.nr_overcommit_hugepages", "0");

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "sharing.fork_private",
        topic: Topic::Sharing,
        proves: "After fork the first write to a private page copies it, for one page of the pool, and the other side does not \
                 see it.",
        like: "libhugetlbfs fork-cow; selftests mm/cow",
        needs: &[Need::Pool(4)],
        broken_by: "mmap.private_is_shared",
        run: fork_private,
    },
    Case {
        name: "sharing.fork_shared",
        topic: Topic::Sharing,
        proves: "After fork both sides see what either writes to a shared mapping without a file, on the same pages.",
        like: "libhugetlbfs shared",
        needs: &[Need::Pool(2)],
        broken_by: "mmap.shared_is_private",
        run: fork_shared,
    },
    Case {
        name: "sharing.private_file",
        topic: Topic::Sharing,
        proves: "A write to a private mapping of a file goes to a copy, one page of the pool, and never to the file.",
        like: "libhugetlbfs private, mmap-cow",
        needs: &[Need::Pool(6)],
        broken_by: "mmap.private_is_shared",
        run: private_file,
    },
    Case {
        name: "sharing.read_before_write",
        topic: Topic::Sharing,
        proves: "A private page that was read before it is written is copied too: the file's page is not taken over.",
        like: "libhugetlbfs corrupt-by-cow-opt",
        needs: &[Need::Pool(3)],
        broken_by: "mmap.private_is_shared",
        run: read_before_write,
    },
    Case {
        name: "sharing.owner_wins",
        topic: Topic::Sharing,
        proves: "If a copy is due and the pool is empty, the parent, who reserved, goes on, and the child loses its page (SIGBUS).",
        like: "new",
        needs: &[Need::Pool(128), NO_OVERCOMMIT],
        broken_by: "mmap.private_is_shared",
        run: owner_wins,
    },
    Case {
        name: "sharing.mremap_moves",
        topic: Topic::Sharing,
        proves: "mremap moves huge pages with what they hold, without taking or giving back any.",
        like: "selftests mm/hugepage-mremap",
        needs: &[Need::Pool(6)],
        broken_by: "mremap.fresh",
        run: mremap_moves,
    },
    Case {
        name: "sharing.direct_io",
        topic: Topic::Sharing,
        proves: "Direct I/O reads into huge pages and writes from them, and keeps none of them afterwards.",
        like: "libhugetlbfs direct; selftests mm/hugetlb_dio",
        needs: &[Need::Pool(2)],
        broken_by: "pread.zero",
        run: direct_io,
    },
];

fn fork_private(context: &mut Context) -> Outcome {
    context.start()?;
    let region = context.anonymous(2, PRIVATE)?;
    region.fill(1);
    context.at("writing 2 pages", [0, -2, 0, 0])?;
    let (written, done) = (Gate::new()?, Gate::new()?);
    let child = Process::start(|| {
        let inherited = region.check("what the child inherits", 1);
        region.part(0, PAGE).fill(2);
        written.open();
        done.pass();
        i32::from(inherited.is_err() || region.part(0, PAGE).check("its own", 2).is_err())
    })?;
    written.pass();
    context.at("the child writes one of them", [0, -3, 0, 0])?;
    region.check("the parent's pages", 1)?;
    region.part(0, PAGE).fill(3);
    done.open();
    equal("the child, who sees its own writes only", child.wait()?, Ended::Exit(0))?;
    context.at("the child's end", [0, -2, 0, 0])
}

fn fork_shared(context: &mut Context) -> Outcome {
    context.start()?;
    let region = context.anonymous(2, SHARED)?;
    context.at("mapping 2 pages shared", [0, 0, 2, 0])?;
    let ended = in_child(|| {
        region.fill(1);
        0
    })?;
    equal("the child", ended, Ended::Exit(0))?;
    context.at("the child has written both", [0, -2, 0, 0])?;
    region.check("the child's writes", 1)
}

fn private_file(context: &mut Context) -> Outcome {
    let file = context.file()?;
    context.start()?;
    let shared = context.map_file(&file, 2, SHARED)?;
    shared.fill(1);
    let private = context.map_file(&file, 2, PRIVATE)?;
    private.check("the file through a private mapping", 1)?;
    context.at("the file has 2 pages, a private mapping reserved 2", [0, -2, 2, 0])?;
    shared.part(PAGE, PAGE).fill(2);
    private.part(PAGE, PAGE).check("a page not written privately follows the file", 2)?;
    private.part(0, PAGE).fill(3);
    context.at("writing one privately", [0, -3, 1, 0])?;
    shared.part(0, PAGE).check("the file", 1)?;
    shared.part(0, PAGE).fill(4);
    private.part(0, PAGE).check("the private copy", 3)?;
    must("munmap", private.unmap())?;
    context.at("unmapping the copy", [0, -2, 0, 0])
}

fn read_before_write(context: &mut Context) -> Outcome {
    let file = context.file()?;
    let private = context.map_file(&file, 1, PRIVATE)?;
    // The read brings the page into the file's cache; only this mapping knows it.
    private.check_zero("a hole")?;
    private.fill(1);
    let later = context.map_file(&file, 1, PRIVATE)?;
    later.check_zero("the file after a private write")?;
    private.check("the private page", 1)
}

fn owner_wins(context: &mut Context) -> Outcome {
    context.start()?;
    let region = context.anonymous(128, PRIVATE)?;
    region.fill(1);
    context.at("writing all pages of the pool", [0, -128, 0, 0])?;
    let (born, written) = (Gate::new()?, Gate::new()?);
    let child = Process::start(|| {
        born.open();
        written.pass();
        i32::from(region.read(8))
    })?;
    born.pass();
    region.write(8, 7);
    written.open();
    equal("the child reads the page that the parent wrote", child.wait()?, Ended::Signal(libc::SIGBUS))?;
    equal("the parent's byte", region.read(8), 7)?;
    region.part(PAGE, 127 * PAGE).check("the other pages", 1)?;
    context.at("the child's end", [0, -128, 0, 0])
}

fn mremap_moves(context: &mut Context) -> Outcome {
    context.start()?;
    let region = context.anonymous(3, PRIVATE)?;
    region.part(0, 2 * PAGE).fill(5);
    let target = context.anonymous(3, PRIVATE)?;
    context.at("mapping 3 pages twice and writing 2", [0, -2, 4, 0])?;
    let moved = must("mremap", region.move_over(&target))?;
    equal("the new address", moved.addr, target.addr)?;
    context.at("moving one over the other", [0, -2, 1, 0])?;
    view::page_size_is(&moved, PAGE)?;
    moved.part(0, 2 * PAGE).check("what was moved", 5)?;
    moved.part(2 * PAGE, PAGE).check_zero("the page not written before")?;
    context.at("touching the third", [0, -3, 0, 0])
}

fn direct_io(context: &mut Context) -> Outcome {
    let folder = std::env::temp_dir();
    let flags = libc::O_RDWR | libc::O_TMPFILE | libc::O_DIRECT;
    let file = sys::open(&folder.to_string_lossy(), flags);
    let file = file.map_err(|errno| Stop::skip(format!("{} takes no direct I/O: {errno}", folder.display())))?;
    context.start()?;
    let from = must("mmap", sys::map(PAGE, PRIVATE | HUGETLB, None))?;
    let to = must("mmap", sys::map(PAGE, PRIVATE | HUGETLB, None))?;
    from.fill(6);
    equal("bytes written from a huge page", must("pwrite", from.write_to(&file, 0))?, PAGE)?;
    equal("bytes read into a huge page", must("pread", to.read_from(&file, 0))?, PAGE)?;
    to.check("what was written and read", 6)?;
    let part = to.part(3 * BASE, 2 * BASE);
    equal("bytes read into the midst of it", must("pread", part.read_from(&file, 0))?, 2 * BASE)?;
    part.check("the midst", 6)?;
    must("munmap", from.unmap())?;
    must("munmap", to.unmap())?;
    context.at("unmapping both", [0, 0, 0, 0])
}
