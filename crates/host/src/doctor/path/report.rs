//! The report on a file. Everything that can be missing is an `Option`, and [`PathReport::not_known`] says why it is.

use std::fmt;

use serde::Serialize;

use crate::doctor::Finding;

/// Bytes of a slot: the range of one entry of the second level of the page tables (x86-64, arm64 with 4 KiB pages).
pub const SLOT_BYTES: u64 = 2 << 20;

/// All that was found about one file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PathReport {
    /// The path as it was given; bytes that are no UTF-8 are replaced.
    pub path: String,
    /// On overlayfs the file below, which holds the bytes and decides; otherwise, or if it was not found, none.
    pub real: Option<RealFile>,
    /// Length of the file, bytes.
    pub size_bytes: u64,
    /// Bytes that the file system has set aside for it.
    pub allocated_bytes: u64,
    /// The file system that the path is on.
    pub file_system: FileSystem,
    /// The block device under the file (on overlayfs: under the file below).
    pub device: Option<Device>,
    /// The layout on the device that the file system was made with.
    pub stripe: Option<Stripe>,
    /// Everything about direct access.
    pub dax: Dax,
    /// Where the bytes lie, in order; from FIEMAP.
    pub extents: Option<Vec<Extent>>,
    /// Parts of the file where nothing lies; from the extents, or SEEK_HOLE where there are none.
    pub holes: Option<Vec<Range>>,
    /// Bytes of the file that are in memory (page cache; on tmpfs the file itself).
    pub cached_bytes: Option<u64>,
    /// On hugetlbfs, what the file can still be given.
    pub pool: Option<PoolRoom>,
    /// Number of 2 MiB slots, the last one counted even if the file ends inside.
    pub slot_count: u64,
    /// How many of them can be mapped by one entry.
    pub possible_slots: u64,
    /// Their share; none for an empty file.
    pub possible_pct: Option<f64>,
    /// The slots, neighbours with the same answer in one run.
    pub slots: Vec<SlotRun>,
    /// What direct access makes of the places where the bytes lie now, whether it is in use or not: the page cache does not mind
    /// them. Told of ext4 and xfs, the file systems that have it.
    pub layout: Option<Vec<SlotRun>>,
    /// What is wrong or worth knowing, the worst first.
    pub findings: Vec<Finding>,
    /// What could not be found out, and why.
    pub not_known: Vec<NotKnown>,
}

/// The file below an overlay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RealFile {
    /// Where it is.
    pub path: String,
    /// The file system that it is on.
    pub file_system: FileSystem,
}

/// A file system and where it is mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileSystem {
    /// Its name: ext4, xfs, btrfs, tmpfs, hugetlbfs, overlayfs, or what the kernel's table of mounts calls it.
    pub name: String,
    /// `f_type` of statfs, hexadecimal.
    pub magic: String,
    /// Where it is mounted.
    pub mount_point: Option<String>,
    /// What is mounted: a device, or a name without meaning.
    pub source: Option<String>,
    /// Options of the mount and of the file system.
    pub mount_options: Vec<String>,
    /// Block size, bytes; on hugetlbfs the size of its pages.
    pub block_size_bytes: u64,
}

impl FileSystem {
    /// The value of an option `name=value`.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.mount_options.iter().find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
    }
}

/// A block device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Device {
    /// `major:minor`.
    pub number: String,
    /// The kernel's name, such as `sda1`.
    pub name: Option<String>,
    /// Where the partition begins on its disk, bytes; 0 for a whole disk.
    pub partition_start_bytes: u64,
    /// Whether it is a partition.
    pub is_partition: bool,
    /// The file behind a loop device.
    pub loop_file: Option<String>,
    /// Where in that file the device begins, bytes.
    pub loop_offset_bytes: Option<u64>,
    /// Whether the device can give direct access (`queue/dax`).
    pub dax: Option<bool>,
}

/// What a hugetlb pool can give a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PoolRoom {
    /// Pages in the pool.
    pub total_pages: u64,
    /// Pages that it can still promise.
    pub available_pages: u64,
    /// Pages that the mount may still use; none without a limit.
    pub mount_pages: Option<u64>,
    /// Pages that the file does not have yet.
    pub missing_pages: u64,
}

/// Layout passed to mkfs, or detected; 0 is "none".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Stripe {
    /// ext4: stride; xfs: stripe unit. Bytes.
    pub unit_bytes: u64,
    /// Stripe width, bytes.
    pub width_bytes: u64,
}

impl Stripe {
    /// Whether what is set aside by its unit lies at multiples of 2 MiB.
    pub(super) fn is_of_slots(self) -> bool {
        self.unit_bytes > 0 && self.unit_bytes.is_multiple_of(SLOT_BYTES)
    }
}

/// Direct access: the processor reads and writes the device without the page cache.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Dax {
    /// Whether it holds for this file now (statx).
    pub active: Option<bool>,
    /// The mount option: `always`, `inode`, `never`; none if the mount says nothing.
    pub mount_option: Option<String>,
    /// The flag of the file (FS_XFLAG_DAX).
    pub inode_flag: Option<bool>,
    /// Size hint for new extents, bytes; 0 is none.
    pub extent_size_hint_bytes: Option<u64>,
}

/// Bytes of a file that lie together on the device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Extent {
    /// Offset of the first byte in the file.
    pub start: u64,
    /// Offset behind the last one.
    pub end: u64,
    /// Offset of the first byte on the device (from the start of the partition); none where it has no place of its own yet.
    pub physical: Option<u64>,
    /// Set aside, never written: reads as zeros.
    pub unwritten: bool,
    /// Other files have the same blocks (reflink, snapshot).
    pub shared: bool,
    /// In memory only; the place is chosen when it is written back.
    pub delalloc: bool,
    /// Compressed or encrypted: what lies on the device is not what is read.
    pub encoded: bool,
    /// Lies among the metadata.
    pub inline: bool,
    /// The last one of the file.
    pub last: bool,
}

/// Offsets of a part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Range {
    /// First byte.
    pub start: u64,
    /// Behind the last one.
    pub end: u64,
}

/// Neighbouring slots with the same answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SlotRun {
    /// Offset of the first byte, a multiple of 2 MiB.
    pub start: u64,
    /// Offset behind the last one: a multiple of 2 MiB, or the end of the file.
    pub end: u64,
    /// Whether each of these slots can be mapped by one entry.
    pub possible: bool,
    /// Why not.
    pub reason: Option<SlotReason>,
}

impl SlotRun {
    /// How many slots it has.
    pub fn count(&self) -> u64 {
        self.end.div_ceil(SLOT_BYTES) - self.start / SLOT_BYTES
    }
}

/// Something that could not be found out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotKnown {
    /// What: the name of the field.
    pub what: &'static str,
    /// Why.
    pub reason: String,
}

/// Why a slot cannot be mapped by one entry. The words do not change between versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SlotReason {
    /// The mapping: address and offset differ modulo 2 MiB.
    NotAligned,
    /// The mapping: it is private and written, which copies page by page.
    CopiedOnWrite,
    /// The mapping: no piece of it holds the slot.
    LeavesMapping,
    /// The file ends before the slot does.
    FileEndsInside,
    /// DAX: nothing lies here.
    Hole,
    /// DAX: nothing lies in a part of the slot.
    PartHole,
    /// DAX: the slot consists of several extents.
    ExtentShort,
    /// DAX: a part of the slot has been written, another has not.
    ExtentsMixed,
    /// DAX: on the device the extent does not begin at a multiple of 2 MiB.
    ExtentMisaligned,
    /// DAX: the extent lies right in the partition, but the partition begins elsewhere than at a multiple of 2 MiB.
    PartitionMisaligned,
    /// DAX: other files have the same blocks; the first write copies.
    Shared,
    /// DAX: the kernel was built without FS_DAX_PMD.
    NoDaxPmd,
    /// DAX: where the extent lies is not known.
    PlaceNotKnown,
    /// The page cache of this file system has small folios only.
    PageCacheBasePages,
    /// The slot is in memory already, in small pages; a mapping shows them as they are.
    InSmallPages,
    /// Huge pages come only where madvise(MADV_HUGEPAGE) asks, and it was said that the mapping will not.
    NeedsAdvice,
    /// tmpfs is mounted with `huge=never`, or without `huge=`.
    TmpfsHugeNever,
    /// `shmem_enabled` is `deny`, which stands above every mount.
    ShmemDenied,
    /// The tmpfs has no room for another 2 MiB.
    TmpfsFull,
    /// The hugetlb pool, or the share of it that the mount may use, has too few pages for the file; mmap fails.
    PoolTooSmall,
    /// The kernel was built without transparent huge pages.
    KernelHasNoThp,
    /// It is not known what the page cache of this file system holds.
    FileSystemNotKnown,
}

impl SlotReason {
    /// The reason as one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::NotAligned => "not_aligned",
            Self::CopiedOnWrite => "copied_on_write",
            Self::LeavesMapping => "leaves_mapping",
            Self::FileEndsInside => "file_ends_inside",
            Self::Hole => "hole",
            Self::PartHole => "part_hole",
            Self::ExtentShort => "extent_short",
            Self::ExtentsMixed => "extents_mixed",
            Self::ExtentMisaligned => "extent_misaligned",
            Self::PartitionMisaligned => "partition_misaligned",
            Self::Shared => "shared",
            Self::NoDaxPmd => "no_dax_pmd",
            Self::PlaceNotKnown => "place_not_known",
            Self::PageCacheBasePages => "page_cache_base_pages",
            Self::InSmallPages => "in_small_pages",
            Self::NeedsAdvice => "needs_advice",
            Self::TmpfsHugeNever => "tmpfs_huge_never",
            Self::ShmemDenied => "shmem_denied",
            Self::TmpfsFull => "tmpfs_full",
            Self::PoolTooSmall => "pool_too_small",
            Self::KernelHasNoThp => "kernel_has_no_thp",
            Self::FileSystemNotKnown => "file_system_not_known",
        }
    }
}

impl fmt::Display for SlotReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAligned => "the address of the mapping and the offset differ modulo 2 MiB",
            Self::CopiedOnWrite => "the mapping is private: what is written is copied page by page",
            Self::LeavesMapping => "no piece of the mapping holds the slot",
            Self::FileEndsInside => "the file ends inside the slot",
            Self::Hole => "a hole: nothing lies here, and where the block of the first write will lie is open",
            Self::PartHole => "nothing lies in a part of the slot",
            Self::ExtentShort => "the slot consists of several extents",
            Self::ExtentsMixed => "a part of the slot is written, another is set aside only",
            Self::ExtentMisaligned => "the extent is not aligned to 2 MiB on the device",
            Self::PartitionMisaligned => "the partition does not begin at a multiple of 2 MiB",
            Self::Shared => "the blocks are shared with another file",
            Self::NoDaxPmd => "the kernel was built without CONFIG_FS_DAX_PMD",
            Self::PlaceNotKnown => "where the bytes lie is not known",
            Self::PageCacheBasePages => "the page cache of this file system has small pages only",
            Self::InSmallPages => "the slot is in memory in small pages",
            Self::NeedsAdvice => "huge pages come only with madvise(MADV_HUGEPAGE)",
            Self::TmpfsHugeNever => "this tmpfs gives no huge pages (huge=never)",
            Self::ShmemDenied => "shmem_enabled is deny",
            Self::TmpfsFull => "the tmpfs has no room for a huge page",
            Self::PoolTooSmall => "the hugetlb pool has too few pages",
            Self::KernelHasNoThp => "the kernel was built without transparent huge pages",
            Self::FileSystemNotKnown => "it is not known what the page cache of this file system holds",
        })
    }
}
