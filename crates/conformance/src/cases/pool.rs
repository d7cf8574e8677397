//! The counters of the pool at its limits: overcommit, surplus pages, shrinking, growing, and mounts with limits of their own.

use super::{PAGE, PRIVATE, SHARED};
use crate::case::{Case, Need, Topic};
use crate::child::{Context, HUGETLB};
use crate::outcome::{Outcome, Stop, equal, must, refused};
use crate::sys::{self, Ended, in_child};

const POOL_KEY: &str = "hugetlb.2M.nr_hugepages";
const NO_OVERCOMMIT: Need = Need::Setting("hugetlb.2M.nr_overcommit_hugepages", "0");

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "accounting.pool_table",
        topic: Topic::Accounting,
        proves: "With 128 pages and 128 of overcommit, touching 100, 300 and 512 MB (50, 150 and 256 pages) leaves \
                 (nr, free, resv, surplus) at (128, 78, 0, 0), (150, 0, 0, 22) and (256, 0, 0, 128).",
        like: "libhugetlbfs counters (its transitions, not this table)",
        needs: &[Need::Pool(256)],
        broken_by: "mmap.no_hugetlb",
        run: pool_table,
    },
    Case {
        name: "accounting.overcommit_refused",
        topic: Topic::Accounting,
        proves: "Without overcommit a mapping larger than the free pool is refused with ENOMEM and changes no counter.",
        like: "libhugetlbfs chunk-overcommit",
        needs: &[Need::Pool(128), NO_OVERCOMMIT],
        broken_by: "mmap.never_fails",
        run: overcommit_refused,
    },
    Case {
        name: "accounting.overcommit_limit",
        topic: Topic::Accounting,
        proves: "With overcommit the pool grows by surplus pages when a mapping reserves them, up to the limit and not by one page \
                 more.",
        like: "libhugetlbfs counters, chunk-overcommit",
        needs: &[Need::Pool(256)],
        broken_by: "mmap.never_fails",
        run: overcommit_limit,
    },
    Case {
        name: "accounting.shrink_in_use",
        topic: Topic::Accounting,
        proves: "Shrinking the pool below what is in use turns pages into surplus, which go when they are given back.",
        like: "libhugetlbfs counters",
        needs: &[Need::Pool(128)],
        broken_by: "set.another_value",
        run: shrink_in_use,
    },
    Case {
        name: "accounting.grow_takes_surplus",
        topic: Topic::Accounting,
        proves: "Growing the pool turns surplus pages into its own before new ones are made.",
        like: "libhugetlbfs counters",
        needs: &[Need::Pool(150)],
        broken_by: "set.another_value",
        run: grow_takes_surplus,
    },
    Case {
        name: "accounting.noreserve_keeps_reserve",
        topic: Topic::Accounting,
        proves: "A mapping without reserve never gets a page that another has reserved: it dies by SIGBUS first.",
        like: "libhugetlbfs noresv-preserve-resv-page",
        needs: &[Need::Pool(128), NO_OVERCOMMIT],
        broken_by: "mmap.last_is_plain",
        run: noreserve_keeps_reserve,
    },
    Case {
        name: "accounting.mount_size",
        topic: Topic::Accounting,
        proves: "A mount with size= hands out so many pages and no more, by mmap and by fallocate, and statfs says what is left.",
        like: "libhugetlbfs quota",
        needs: &[Need::Pool(12)],
        broken_by: "fsconfig.dropped",
        run: mount_size,
    },
    Case {
        name: "accounting.mount_min_size",
        topic: Topic::Accounting,
        proves: "A mount with min_size= reserves so many pages for its files when it is made and gives them back when it goes.",
        like: "new",
        needs: &[Need::Pool(12)],
        broken_by: "fsconfig.dropped",
        run: mount_min_size,
    },
];

/// (MB, change of [nr, free, resv, surplus]).
const TABLE: [(usize, [i64; 4]); 3] = [(100, [0, -50, 0, 0]), (300, [22, -128, 0, 22]), (512, [128, -128, 0, 128])];

fn pool_table(context: &mut Context) -> Outcome {
    context.start()?;
    // On a host whose pool has other users the numbers are larger by their pages, and the differences are the same.
    let begun = context.begun();
    if (begun.free - begun.resv, begun.surplus) != (128, 0) {
        let reason =
            format!("somebody else changes the pool: found {begun}, needed 128 free pages that are not reserved");
        return Err(Stop::inconclusive(reason));
    }
    for (megabytes, change) in TABLE {
        let region = context.anonymous(megabytes / 2, PRIVATE)?;
        region.touch(PAGE);
        context.at(&format!("mapping and touching {megabytes} MB"), change)?;
        must("munmap", region.unmap())?;
        context.at(&format!("unmapping {megabytes} MB"), [0, 0, 0, 0])?;
    }
    Ok(())
}

fn overcommit_refused(context: &mut Context) -> Outcome {
    context.start()?;
    refused("mmap of 129 pages", sys::map(129 * PAGE, PRIVATE | HUGETLB, None), &[libc::ENOMEM])?;
    context.at("the refusal", [0, 0, 0, 0])?;
    let region = context.anonymous(128, PRIVATE)?;
    context.at("mapping all 128", [0, 0, 128, 0])?;
    refused("mmap of one more", sys::map(PAGE, PRIVATE | HUGETLB, None), &[libc::ENOMEM])?;
    context.at("the second refusal", [0, 0, 128, 0])?;
    must("munmap", region.unmap())?;
    context.at("unmapping", [0, 0, 0, 0])
}

fn overcommit_limit(context: &mut Context) -> Outcome {
    context.start()?;
    refused("mmap of 257 pages", sys::map(257 * PAGE, PRIVATE | HUGETLB, None), &[libc::ENOMEM])?;
    context.at("the refusal", [0, 0, 0, 0])?;
    let region = context.anonymous(256, PRIVATE)?;
    context.at("mapping 256 pages", [128, 128, 256, 128])?;
    must("munmap", region.unmap())?;
    context.at("unmapping", [0, 0, 0, 0])
}

fn shrink_in_use(context: &mut Context) -> Outcome {
    context.start()?;
    let region = context.anonymous(100, PRIVATE)?;
    region.touch(PAGE);
    context.at("touching 100 pages", [0, -100, 0, 0])?;
    context.set(POOL_KEY, &(context.begun().nr - 78).to_string())?;
    context.at("shrinking the pool by 78", [-28, -128, 0, 50])?;
    region.check_zero("pages in use")?;
    must("munmap", region.unmap())?;
    context.at("unmapping", [-78, -78, 0, 0])
}

fn grow_takes_surplus(context: &mut Context) -> Outcome {
    context.start()?;
    let region = context.anonymous(150, PRIVATE)?;
    region.touch(PAGE);
    context.at("touching 150 pages", [22, -128, 0, 22])?;
    context.set(POOL_KEY, &(context.begun().nr + 22).to_string())?;
    context.at("growing the pool by 22", [22, -128, 0, 0])?;
    must("munmap", region.unmap())?;
    context.at("unmapping", [22, 22, 0, 0])
}

fn noreserve_keeps_reserve(context: &mut Context) -> Outcome {
    let file = context.file()?;
    context.start()?;
    let reserved = context.map_file(&file, 126, SHARED)?;
    let loose = context.anonymous(3, PRIVATE | libc::MAP_NORESERVE)?;
    loose.part(0, 2 * PAGE).touch(PAGE);
    context.at("reserving 126 pages, and touching 2 without reserve", [0, -2, 126, 0])?;
    let third = in_child(|| {
        loose.write(2 * PAGE, 1);
        0
    })?;
    equal("touching a third one", third, Ended::Signal(libc::SIGBUS))?;
    context.at("the third touch", [0, -2, 126, 0])?;
    reserved.touch(PAGE);
    context.at("touching all that was reserved", [0, -128, 0, 0])
}

fn mount_size(context: &mut Context) -> Outcome {
    let mount = context.mount(&[("size", (4 * PAGE).to_string())])?;
    let file = must("creating a file", mount.create(c"file"))?;
    context.start()?;
    let left = |when: &str, expected: (u64, u64)| {
        let found = must("fstatfs", mount.root().statfs())?;
        equal(&format!("(blocks, free) of statfs {when}"), (found.blocks, found.free), expected)
    };
    left("at the start", (4, 4))?;
    refused("mmap of 5 pages of a mount of 4", sys::map(5 * PAGE, SHARED, Some((&file, 0))), &[libc::ENOMEM])?;
    context.at("the refusal", [0, 0, 0, 0])?;
    let region = context.map_file(&file, 3, SHARED)?;
    left("after mapping 3", (4, 1))?;
    region.touch(PAGE);
    context.at("touching 3 pages", [0, -3, 0, 0])?;
    left("after touching 3", (4, 1))?;
    let other = must("creating another file", mount.create(c"other"))?;
    must("fallocate of the last page", other.allocate(0, 0, PAGE))?;
    left("after fallocate", (4, 0))?;
    refused("fallocate of one more", other.allocate(0, PAGE, PAGE), &[libc::ENOSPC, libc::ENOMEM])?;
    context.at("the second refusal", [0, -4, 0, 0])?;
    must("ftruncate", file.truncate(PAGE))?;
    left("after truncating 2 pages away", (4, 2))
}

fn mount_min_size(context: &mut Context) -> Outcome {
    context.start()?;
    let mount = context.mount(&[("min_size", (8 * PAGE).to_string())])?;
    context.at("mounting with min_size of 8 pages", [0, 0, 8, 0])?;
    let file = must("creating a file", mount.create(c"file"))?;
    let region = context.map_file(&file, 8, SHARED)?;
    context.at("mapping 8 pages", [0, 0, 8, 0])?;
    region.part(0, 3 * PAGE).touch(PAGE);
    context.at("touching 3", [0, -3, 5, 0])?;
    must("munmap", region.unmap())?;
    must("ftruncate", file.truncate(0))?;
    context.at("truncating", [0, 0, 8, 0])?;
    drop((file, mount));
    context.at("the end of the mount", [0, 0, 0, 0])
}
