//! memfd_create with MFD_HUGETLB: files without a name and without a mount.

use super::{PAGE, PRIVATE, SHARED};
use crate::case::{Case, Need, Topic};
use crate::child::Context;
use crate::outcome::{Outcome, Stop, equal, must, refused};
use crate::sys::{self, Fd};
use crate::view;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "memfd.hugetlb",
        topic: Topic::Memfd,
        proves: "A memfd with MFD_HUGETLB is mapped by huge pages, counts as a file does, and goes with its last descriptor and mapping.",
        like: "selftests memfd/memfd_test (hugetlbfs)",
        needs: &[Need::Pool(3)],
        broken_by: "memfd.no_hugetlb",
        run: hugetlb,
    },
    Case {
        name: "memfd.unknown_size_refused",
        topic: Topic::Memfd,
        proves: "A page size that the processor does not have is refused (ENODEV) and not replaced by another.",
        like: "new",
        needs: &[Need::Pool(1)],
        broken_by: "memfd.never_fails",
        run: unknown_size_refused,
    },
    Case {
        name: "memfd.seal_size",
        topic: Topic::Memfd,
        proves: "Sealed against shrinking and growing, a file refuses ftruncate with EPERM and keeps its pages.",
        like: "selftests memfd/memfd_test (hugetlbfs)",
        needs: &[Need::Pool(2)],
        broken_by: "fcntl.unsealed",
        run: seal_size,
    },
    Case {
        name: "memfd.seal_write",
        topic: Topic::Memfd,
        proves: "F_SEAL_WRITE is refused (EBUSY) while a writable mapping exists, and afterwards refuses new ones with EPERM.",
        like: "selftests memfd/memfd_test (hugetlbfs)",
        needs: &[Need::Pool(2)],
        broken_by: "fcntl.unsealed",
        run: seal_write,
    },
    Case {
        name: "memfd.punch_hole",
        topic: Topic::Memfd,
        proves: "A punched page is zero when it comes again, and its neighbours keep what they hold.",
        like: "libhugetlbfs fallocate_basic",
        needs: &[Need::Pool(3)],
        broken_by: "fallocate.ignored",
        run: punch_hole,
    },
];

const HUGE: u32 = libc::MFD_HUGETLB | libc::MFD_HUGE_2MB | libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;

fn make(pages: usize) -> Result<Fd, Stop> {
    let file = must("memfd_create", sys::memfd(c"conformance", HUGE))?;
    must("ftruncate", file.truncate(pages * PAGE))?;
    Ok(file)
}

fn hugetlb(context: &mut Context) -> Outcome {
    context.start()?;
    let file = make(3)?;
    context.at("making a file of 3 pages", [0, 0, 0, 0])?;
    let region = context.map_file(&file, 3, SHARED)?;
    view::page_size_is(&region, PAGE)?;
    context.at("mapping it", [0, 0, 3, 0])?;
    region.fill(1);
    context.at("writing it", [0, -3, 0, 0])?;
    drop(file);
    region.check("after closing", 1)?;
    context.at("closing", [0, -3, 0, 0])?;
    must("munmap", region.unmap())?;
    context.at("unmapping", [0, 0, 0, 0])
}

fn unknown_size_refused(_: &mut Context) -> Outcome {
    let four_mib = 22 << libc::MAP_HUGE_SHIFT;
    let made = sys::memfd(c"conformance", libc::MFD_HUGETLB | four_mib);
    refused("memfd_create with 4 MiB pages", made, &[libc::ENODEV, libc::EINVAL])
}

fn seal_size(context: &mut Context) -> Outcome {
    context.start()?;
    let file = make(2)?;
    context.map_file(&file, 2, SHARED)?.touch(PAGE);
    must("sealing", file.seal(libc::F_SEAL_SHRINK | libc::F_SEAL_GROW))?;
    refused("ftruncate to 1 page", file.truncate(PAGE), &[libc::EPERM])?;
    refused("ftruncate to 3 pages", file.truncate(3 * PAGE), &[libc::EPERM])?;
    equal("size", must("fstat", file.size())?, 2 * PAGE as i64)?;
    context.at("the refusals", [0, -2, 0, 0])
}

fn seal_write(context: &mut Context) -> Outcome {
    let file = make(2)?;
    let region = context.map_file(&file, 2, SHARED)?;
    region.fill(2);
    refused("sealing what is mapped writable", file.seal(libc::F_SEAL_WRITE), &[libc::EBUSY])?;
    must("munmap", region.unmap())?;
    must("sealing", file.seal(libc::F_SEAL_WRITE))?;
    refused("a writable shared mapping", sys::map(2 * PAGE, SHARED, Some((&file, 0))), &[libc::EPERM])?;
    refused("punching", file.punch(0, PAGE), &[libc::EPERM])?;
    context.map_file(&file, 2, PRIVATE)?.check("a private mapping of the sealed file", 2)
}

fn punch_hole(context: &mut Context) -> Outcome {
    context.start()?;
    let file = make(3)?;
    let region = context.map_file(&file, 3, SHARED)?;
    region.fill(3);
    must("punching page 1", file.punch(PAGE, PAGE))?;
    context.at("punching 1 of 3 pages", [0, -2, 0, 0])?;
    region.part(0, PAGE).check("the page before", 3)?;
    region.part(PAGE, PAGE).check_zero("the punched page")?;
    context.at("reading it", [0, -3, 0, 0])?;
    must("punching 4 KiB of page 0", file.punch(0, 4096))?;
    equal("a byte of the punched 4 KiB", region.read(8), 0)?;
    context.at("punching a part of a page, which stays", [0, -3, 0, 0])
}
