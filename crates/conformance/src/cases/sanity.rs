//! Sizes, alignment, reading and writing: what everything else rests on.

use super::{BASE, PAGE, PRIVATE, SHARED};
use crate::case::{Case, Need, Topic};
use crate::child::{Context, HUGETLB};
use crate::outcome::{Outcome, equal, holds, must, refused};
use crate::sys;
use crate::view;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "sanity.map_anonymous",
        topic: Topic::Sanity,
        proves: "MAP_HUGETLB gives memory on huge pages: smaps and the page tables say 2 MiB.",
        like: "selftests mm/map_hugetlb",
        needs: &[Need::Pool(2)],
        broken_by: "mmap.no_hugetlb",
        run: map_anonymous,
    },
    Case {
        name: "sanity.map_file",
        topic: Topic::Sanity,
        proves: "A file on hugetlbfs is mapped by huge pages without a flag.",
        like: "selftests mm/hugepage-mmap",
        needs: &[Need::Pool(2)],
        broken_by: "mmap.no_hugetlb",
        run: map_file,
    },
    Case {
        name: "sanity.unknown_size_refused",
        topic: Topic::Sanity,
        proves: "A page size that the processor does not have (4 MiB) is refused with EINVAL and not replaced by another.",
        like: "new",
        needs: &[Need::Pool(2)],
        broken_by: "mmap.never_fails",
        run: unknown_size_refused,
    },
    Case {
        name: "sanity.readback",
        topic: Topic::Sanity,
        proves: "What one mapping of a file wrote is read through another at another address.",
        like: "libhugetlbfs readback, shared",
        needs: &[Need::Pool(4)],
        broken_by: "mmap.shared_is_private",
        run: readback,
    },
    Case {
        name: "sanity.zeroed",
        topic: Topic::Sanity,
        proves: "A page is zero when it comes, also where it had been written by somebody before.",
        like: "new",
        needs: &[Need::Pool(8)],
        broken_by: "mmap.dirty",
        run: zeroed,
    },
    Case {
        name: "sanity.statfs_block_size",
        topic: Topic::Sanity,
        proves: "statfs of a hugetlbfs names the file system and gives the page size as block size.",
        like: "libhugetlbfs find_path, gethugepagesize",
        needs: &[Need::Pool(0)],
        broken_by: "fstatfs.small",
        run: statfs_block_size,
    },
    Case {
        name: "sanity.write_refused",
        topic: Topic::Sanity,
        proves: "write(2) to a hugetlbfs file is refused with EINVAL and leaves the file empty.",
        like: "new",
        needs: &[Need::Pool(1)],
        broken_by: "write.accepted",
        run: write_refused,
    },
    Case {
        name: "sanity.read_file",
        topic: Topic::Sanity,
        proves: "read(2) of a hugetlbfs file gives what a mapping wrote, and zeros for holes without filling them.",
        like: "selftests mm/hugetlb-read-hwpoison (its reading)",
        needs: &[Need::Pool(3)],
        broken_by: "pread.zero",
        run: read_file,
    },
    Case {
        name: "sanity.length_rounded_up",
        topic: Topic::Sanity,
        proves: "A length that is no multiple of the page size is rounded up, and a part of a page cannot be unmapped.",
        like: "libhugetlbfs misalign",
        needs: &[Need::Pool(2)],
        broken_by: "mmap.no_hugetlb",
        run: length_rounded_up,
    },
    Case {
        name: "sanity.misaligned_offset_refused",
        topic: Topic::Sanity,
        proves: "A file offset that is no multiple of the page size is refused with EINVAL.",
        like: "libhugetlbfs misaligned_offset",
        needs: &[Need::Pool(2)],
        broken_by: "mmap.never_fails",
        run: misaligned_offset_refused,
    },
    Case {
        name: "sanity.misaligned_fixed_refused",
        topic: Topic::Sanity,
        proves: "MAP_FIXED at an address that is no multiple of the page size is refused with EINVAL.",
        like: "libhugetlbfs misalign",
        needs: &[Need::Pool(2)],
        broken_by: "mmap.never_fails",
        run: misaligned_fixed_refused,
    },
    Case {
        name: "sanity.unlinked_file",
        topic: Topic::Sanity,
        proves: "A file keeps its pages after its name and its mapping are gone, for as long as it is open.",
        like: "libhugetlbfs unlinked_fd",
        needs: &[Need::Pool(2)],
        broken_by: "mmap.shared_is_private",
        run: unlinked_file,
    },
    Case {
        name: "sanity.map_grows_file",
        topic: Topic::Sanity,
        proves: "A writable mapping makes a hugetlbfs file as long as the mapping reaches; truncating makes it short again.",
        like: "new",
        needs: &[Need::Pool(3)],
        broken_by: "ftruncate.ignored",
        run: map_grows_file,
    },
];

fn map_anonymous(context: &mut Context) -> Outcome {
    let region = context.anonymous(2, PRIVATE)?;
    view::page_size_is(&region, PAGE)?;
    region.touch(PAGE);
    view::huge_is("two pages touched", &region, 2 * PAGE as u64)
}

fn map_file(context: &mut Context) -> Outcome {
    let file = context.file()?;
    let region = context.map_file(&file, 2, SHARED)?;
    view::page_size_is(&region, PAGE)?;
    holds(
        "path in maps",
        view::vma(&region)?.path_text().ends_with("/file (deleted)"),
        view::vma(&region)?.path_text(),
        "the file's",
    )?;
    region.touch(PAGE);
    view::huge_is("two pages touched", &region, 2 * PAGE as u64)
}

fn unknown_size_refused(_: &mut Context) -> Outcome {
    let four_mib = 22 << libc::MAP_HUGE_SHIFT;
    let mapped = sys::map(4 << 20, PRIVATE | libc::MAP_HUGETLB | four_mib, None);
    refused("mmap with MAP_HUGETLB and 4 MiB", mapped, &[libc::EINVAL])
}

fn readback(context: &mut Context) -> Outcome {
    let file = context.file()?;
    let one = context.map_file(&file, 4, SHARED)?;
    let other = context.map_file(&file, 4, SHARED)?;
    holds("addresses", one.addr != other.addr, "equal", "two")?;
    one.fill(1);
    other.check("read through the other mapping", 1)?;
    other.fill(2);
    one.check("read back through the first", 2)
}

fn zeroed(context: &mut Context) -> Outcome {
    // All free pages are written first, so that the ones that come next were written by this process.
    for round in 0..3 {
        let region = context.anonymous(8, PRIVATE)?;
        region.check_zero(&format!("fresh pages of round {round}"))?;
        region.fill(3);
        must("munmap", region.unmap())?;
    }
    Ok(())
}

fn statfs_block_size(context: &mut Context) -> Outcome {
    let mount = context.mount(&[])?;
    let found = must("fstatfs", mount.root().statfs())?;
    equal("f_type (hugetlbfs has 0x958458f6)", found.kind, 0x9584_58f6)?;
    equal("f_bsize", found.block, PAGE as i64)
}

fn write_refused(context: &mut Context) -> Outcome {
    let file = context.file()?;
    refused("write of 4 KiB", file.write(&[7; BASE]), &[libc::EINVAL])?;
    equal("size of the file", must("fstat", file.size())?, 0)
}

fn read_file(context: &mut Context) -> Outcome {
    let file = context.file()?;
    context.start()?;
    let region = context.map_file(&file, 3, SHARED)?;
    region.part(0, PAGE).fill(4);
    region.part(2 * PAGE, PAGE).fill(5);
    context.at("writing pages 0 and 2 of 3", [0, -2, 1, 0])?;
    let mut all = vec![0xee; 3 * PAGE];
    let got = must("pread", file.read_at(&mut all, 0))?;
    equal("bytes read", got, 3 * PAGE)?;
    for at in (0..3 * PAGE).step_by(BASE) {
        let (found, expected) = (all.get(at + 8).copied(), Some(region.read(at + 8)));
        if at / PAGE != 1 {
            equal(&format!("byte {} as read and as mapped", at + 8), found, expected)?;
        }
    }
    let hole = all.get(PAGE..2 * PAGE).unwrap_or_default();
    equal("bytes of the hole that are not zero", hole.iter().filter(|byte| **byte != 0).count(), 0)
}

fn length_rounded_up(context: &mut Context) -> Outcome {
    context.start()?;
    let region = must("mmap of 2 MiB + 4 KiB", sys::map(PAGE + BASE, PRIVATE | HUGETLB, None))?;
    equal("length of the mapping in smaps", view::vma(&region)?.len_bytes() as usize, 2 * PAGE)?;
    context.at("mapping 2 MiB + 4 KiB", [0, 0, 2, 0])?;
    let whole = sys::Region { addr: region.addr, len: 2 * PAGE };
    refused("munmap of the first 4 KiB", whole.part(0, BASE).unmap(), &[libc::EINVAL])?;
    must("munmap of the whole", whole.unmap())?;
    context.at("unmapping", [0, 0, 0, 0])
}

fn misaligned_offset_refused(context: &mut Context) -> Outcome {
    let file = context.file()?;
    for offset in [BASE, PAGE / 2, PAGE + BASE] {
        let mapped = sys::map(PAGE, SHARED, Some((&file, offset)));
        refused(&format!("mmap from offset {offset}"), mapped, &[libc::EINVAL])?;
    }
    must("mmap from offset 2 MiB", sys::map(PAGE, SHARED, Some((&file, PAGE)))).map(drop)
}

fn misaligned_fixed_refused(context: &mut Context) -> Outcome {
    let room = must("mmap of address space", sys::map(4 * PAGE, PRIVATE | libc::MAP_NORESERVE, None))?;
    let aligned = room.addr.next_multiple_of(PAGE);
    let read_write = libc::PROT_READ | libc::PROT_WRITE;
    let flags = PRIVATE | HUGETLB | libc::MAP_FIXED;
    let file = context.file()?;
    for addr in [aligned + BASE, aligned + PAGE / 2] {
        let mapped = sys::map_at(addr, PAGE, read_write, flags, None);
        refused("mmap without a file at a misaligned address", mapped, &[libc::EINVAL])?;
        let mapped = sys::map_at(addr, PAGE, read_write, SHARED | libc::MAP_FIXED, Some((&file, 0)));
        refused("mmap of a file at a misaligned address", mapped, &[libc::EINVAL])?;
    }
    let mapped = must("mmap at an aligned address", sys::map_at(aligned, PAGE, read_write, flags, None))?;
    equal("the address", mapped.addr, aligned)
}

fn unlinked_file(context: &mut Context) -> Outcome {
    let mount = context.mount(&[])?;
    let file = must("creating a file", mount.create(c"file"))?;
    let first = context.map_file(&file, 2, SHARED)?;
    must("removing its name", mount.unlink(c"file"))?;
    first.fill(6);
    must("munmap", first.unmap())?;
    context.map_file(&file, 2, SHARED)?.check("mapped again", 6)
}

fn map_grows_file(context: &mut Context) -> Outcome {
    let file = context.file()?;
    equal("size of a new file", must("fstat", file.size())?, 0)?;
    context.map_file(&file, 3, SHARED)?;
    equal("size after a mapping of 3 pages", must("fstat", file.size())?, 3 * PAGE as i64)?;
    must("ftruncate to 1 page", file.truncate(PAGE))?;
    equal("size after ftruncate", must("fstat", file.size())?, PAGE as i64)?;
    refused("ftruncate to half a page", file.truncate(PAGE / 2), &[libc::EINVAL])
}
