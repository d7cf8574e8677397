//! When pages come, and what happens when they cannot.

use super::{BASE, PAGE, PRIVATE, SHARED};
use crate::case::{Case, Need, Topic};
use crate::child::Context;
use crate::outcome::{Outcome, equal, holds, must, refused};
use crate::sys::{self, Ended, in_child};
use crate::view;

const NO_OVERCOMMIT: Need = Need::Setting("hugetlb.2M.nr_overcommit_hugepages", "0");

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "faults.one_per_page",
        topic: Topic::Faults,
        proves: "Touching every 4 KiB of 16 huge pages takes one fault for each huge page.",
        like: "new",
        needs: &[Need::Pool(16)],
        broken_by: "mmap.no_hugetlb",
        run: one_per_page,
    },
    Case {
        name: "faults.populate",
        topic: Topic::Faults,
        proves: "MAP_POPULATE brings in every page before mmap returns.",
        like: "new",
        needs: &[Need::Pool(6)],
        broken_by: "mmap.no_populate",
        run: populate,
    },
    Case {
        name: "faults.read_takes_page",
        topic: Topic::Faults,
        proves: "Reading an untouched page takes one from the pool: hugetlb has no zero page.",
        like: "new",
        needs: &[Need::Pool(2)],
        broken_by: "mmap.no_hugetlb",
        run: read_takes_page,
    },
    Case {
        name: "faults.beyond_end",
        topic: Topic::Faults,
        proves: "Touching a mapping beyond the end of its truncated file is SIGBUS, and takes no page.",
        like: "libhugetlbfs truncate, truncate_sigbus_versus_oom",
        needs: &[Need::Pool(4)],
        broken_by: "ftruncate.ignored",
        run: beyond_end,
    },
    Case {
        name: "faults.pool_empty",
        topic: Topic::Faults,
        proves: "Touching memory without reserve when the pool is empty is SIGBUS for the process and EFAULT for a system call.",
        like: "libhugetlbfs truncate_sigbus_versus_oom, noresv-preserve-resv-page",
        needs: &[Need::Pool(128), NO_OVERCOMMIT],
        broken_by: "mmap.last_is_plain",
        run: pool_empty,
    },
    Case {
        name: "faults.mprotect",
        topic: Topic::Faults,
        proves: "mprotect bars and allows reading and writing, page by huge page, and refuses a part of one with EINVAL.",
        like: "libhugetlbfs mprotect",
        needs: &[Need::Pool(3)],
        broken_by: "mprotect.ignored",
        run: mprotect,
    },
];

fn one_per_page(context: &mut Context) -> Outcome {
    context.start()?;
    let region = context.anonymous(16, PRIVATE)?;
    let before = must("getrusage", sys::minor_faults())?;
    region.touch(BASE);
    let faults = must("getrusage", sys::minor_faults())? - before;
    // Transparent huge pages take one fault each, too.
    context.at("touching 16 pages", [0, -16, 0, 0])?;
    // A few more can come from the case's own code and stack; base pages would make 8192.
    holds("minor faults", (16..=24).contains(&faults), faults.to_string(), "16, at most 8 more of the process itself")
}

fn populate(context: &mut Context) -> Outcome {
    context.start()?;
    let region = context.anonymous(6, PRIVATE | libc::MAP_POPULATE)?;
    context.at("mapping 6 pages with MAP_POPULATE", [0, -6, 0, 0])?;
    view::huge_is("populated", &region, 6 * PAGE as u64)?;
    must("munmap", region.unmap())?;
    context.at("unmapping", [0, 0, 0, 0])
}

fn read_takes_page(context: &mut Context) -> Outcome {
    context.start()?;
    let region = context.anonymous(2, PRIVATE)?;
    equal("the first byte", region.read(0), 0)?;
    context.at("reading one page of 2", [0, -1, 1, 0])?;
    region.write(1, 1);
    context.at("writing it", [0, -1, 1, 0])
}

fn beyond_end(context: &mut Context) -> Outcome {
    let file = context.file()?;
    context.start()?;
    let region = context.map_file(&file, 4, SHARED)?;
    region.touch(PAGE);
    must("ftruncate to 2 pages", file.truncate(2 * PAGE))?;
    context.at("touching 4 and truncating to 2", [0, -2, 0, 0])?;
    for at in [2 * PAGE, 3 * PAGE + BASE] {
        let ended = in_child(|| i32::from(region.read(at)))?;
        equal(&format!("reading byte {at} of {}", 2 * PAGE), ended, Ended::Signal(libc::SIGBUS))?;
    }
    context.at("two SIGBUS", [0, -2, 0, 0])?;
    must("ftruncate to 4 pages", file.truncate(4 * PAGE))?;
    region.part(2 * PAGE, 2 * PAGE).check_zero("the file grown again")
}

fn pool_empty(context: &mut Context) -> Outcome {
    context.start()?;
    let all = context.anonymous(127, PRIVATE)?;
    let loose = context.anonymous(2, PRIVATE | libc::MAP_NORESERVE)?;
    loose.write(0, 1);
    context.at("reserving 127 pages and touching one more", [0, -1, 127, 0])?;
    let ended = in_child(|| {
        loose.write(PAGE, 1);
        0
    })?;
    equal("touching what cannot be had", ended, Ended::Signal(libc::SIGBUS))?;
    let zeros = must("open /dev/zero", sys::open("/dev/zero", libc::O_RDONLY))?;
    refused("pread into what cannot be had", loose.part(PAGE, BASE).read_from(&zeros, 0), &[libc::EFAULT])?;
    must("munmap", all.unmap())?;
    context.at("unmapping the 127", [0, -1, 0, 0])?;
    must("pread once there are pages", loose.part(PAGE, BASE).read_from(&zeros, 0))?;
    context.at("the page has come", [0, -2, 0, 0])
}

fn mprotect(context: &mut Context) -> Outcome {
    let region = context.anonymous(3, PRIVATE)?;
    region.touch(PAGE);
    let middle = region.part(PAGE, PAGE);
    let reads = |at: usize| in_child(|| i32::from(region.read(at)));
    let writes = |at: usize| {
        in_child(|| {
            region.write(at, 2);
            0
        })
    };
    must("mprotect PROT_READ", middle.protect(libc::PROT_READ))?;
    equal("reading what may be read", reads(PAGE)?, Ended::Exit(1))?;
    equal("writing what may be read", writes(PAGE)?, Ended::Signal(libc::SIGSEGV))?;
    must("mprotect PROT_NONE", middle.protect(libc::PROT_NONE))?;
    equal("reading what is barred", reads(PAGE)?, Ended::Signal(libc::SIGSEGV))?;
    equal("writing before it", writes(PAGE - 1)?, Ended::Exit(0))?;
    equal("writing behind it", writes(2 * PAGE)?, Ended::Exit(0))?;
    must("mprotect back", middle.protect(libc::PROT_READ | libc::PROT_WRITE))?;
    equal("writing again", writes(PAGE)?, Ended::Exit(0))?;
    refused("mprotect of 4 KiB", region.part(BASE, BASE).protect(libc::PROT_READ), &[libc::EINVAL])
}
