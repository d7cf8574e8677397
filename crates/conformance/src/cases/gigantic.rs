//! Pages of 1 GiB. The kernel may find no such piece of memory once it has run for a while: then these are skipped.

use super::{PAGE, PRIVATE, SHARED};
use crate::case::{Case, Need, Topic};
use crate::child::Context;
use crate::outcome::{Outcome, equal, must, refused};
use crate::pool::{Counters, GIGANTIC, HUGE};
use crate::sys;
use crate::view;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "gigantic.pool_of_its_own",
        topic: Topic::Gigantic,
        proves: "A 1 GiB page is reserved, used and given back in its own pool; the counters of 2 MiB pages do not move.",
        like: "selftests mm/thuge-gen",
        needs: &[Need::Gigantic(1), Need::Pool(0)],
        broken_by: "mmap.no_hugetlb",
        run: pool_of_its_own,
    },
    Case {
        name: "gigantic.exhausted",
        topic: Topic::Gigantic,
        proves: "One page more than the pool has is refused with ENOMEM, and no 2 MiB pages are given instead.",
        like: "selftests mm/thuge-gen (its sizes)",
        needs: &[Need::Gigantic(1), Need::Setting("hugetlb.1G.nr_overcommit_hugepages", "0")],
        broken_by: "mmap.never_fails",
        run: exhausted,
    },
    Case {
        name: "gigantic.memfd_shared",
        topic: Topic::Gigantic,
        proves: "A memfd of 1 GiB pages is one page for all its mappings, and is zero when it comes.",
        like: "new",
        needs: &[Need::Gigantic(1)],
        broken_by: "mmap.shared_is_private",
        run: memfd_shared,
    },
];

const HUGETLB: i32 = libc::MAP_HUGETLB | libc::MAP_HUGE_1GB;

fn pool_of_its_own(context: &mut Context) -> Outcome {
    let small = || HUGE.read().map_err(crate::outcome::Stop::inconclusive);
    let before: Counters = small()?;
    context.start_with(GIGANTIC)?;
    let region = must("mmap of 1 GiB", sys::map(GIGANTIC.page, PRIVATE | HUGETLB, None))?;
    view::page_size_is(&region, GIGANTIC.page)?;
    context.at("mapping", [0, 0, 1, 0])?;
    region.write(GIGANTIC.page - 1, 5);
    context.at("touching its last byte", [0, -1, 0, 0])?;
    equal("its first byte", region.read(0), 0)?;
    equal("a byte in the midst", region.read(PAGE * 100), 0)?;
    equal("counters of 2 MiB pages", small()?, before)?;
    must("munmap", region.unmap())?;
    context.at("unmapping", [0, 0, 0, 0])
}

fn exhausted(context: &mut Context) -> Outcome {
    context.start_with(GIGANTIC)?;
    let region = must("mmap of 1 GiB", sys::map(GIGANTIC.page, PRIVATE | HUGETLB, None))?;
    context.at("reserving the one page", [0, 0, 1, 0])?;
    refused("mmap of one more", sys::map(GIGANTIC.page, PRIVATE | HUGETLB, None), &[libc::ENOMEM])?;
    context.at("the refusal", [0, 0, 1, 0])?;
    must("munmap", region.unmap())?;
    context.at("unmapping", [0, 0, 0, 0])
}

fn memfd_shared(context: &mut Context) -> Outcome {
    context.start_with(GIGANTIC)?;
    let file = must("memfd_create", sys::memfd(c"conformance", libc::MFD_HUGETLB | libc::MFD_HUGE_1GB))?;
    must("ftruncate", file.truncate(GIGANTIC.page))?;
    let one = must("mmap", sys::map(GIGANTIC.page, SHARED, Some((&file, 0))))?;
    let other = must("mmap", sys::map(GIGANTIC.page, SHARED, Some((&file, 0))))?;
    context.at("mapping it twice", [0, 0, 1, 0])?;
    equal("a byte nobody wrote", one.read(PAGE), 0)?;
    one.write(7 * PAGE, 6);
    equal("the byte through the other mapping", other.read(7 * PAGE), 6)?;
    context.at("touching both", [0, -1, 0, 0])?;
    must("munmap", one.unmap())?;
    must("munmap", other.unmap())?;
    drop(file);
    context.at("unmapping and closing", [0, 0, 0, 0])
}
