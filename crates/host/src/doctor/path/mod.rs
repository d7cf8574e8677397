//! A file: where its bytes lie, and whether each 2 MiB of it can be mapped by one entry.
//!
//! [`look`] answers for a mapping that is shared, lies at an address congruent with the offset in the file modulo 2 MiB, and covers
//! the slot whole, unless [`PathOptions`] says otherwise; they say, too, whether it asks for huge pages by madvise(MADV_HUGEPAGE).
//! On direct access it answers for a file that was not mapped by small pages since it was opened first: such entries stay with the
//! file as long as the kernel remembers it, and are not to be seen from outside. "Possible" means that the file
//! and its file system allow it; a kernel that finds no 2 MiB of free memory still gives small pages.
//!
//! | file system | what decides |
//! |---|---|
//! | ext4, xfs on DAX | the extents: a whole slot in one, aligned on the device, its own, the file as long as the slot |
//! | ext4, xfs with large folios | advice: the fault reads the slot into one folio of 2 MiB, if it is not in memory in small ones yet |
//! | btrfs, ext4 with `data=journal` and others | nothing: small folios only |
//! | tmpfs | `huge=` of the mount, `shmem_enabled` if it is deny or force, room in it, what is in memory already |
//! | hugetlbfs | pages in the pool, and the mount's share of it |
//! | overlayfs | the file below |
//!
//! It looks and changes nothing: no byte of the file is read or written, nothing is written back, no time is changed.
//! [`report`] holds the results; `judge` holds the rules.

mod file_system;
mod findings;
mod ioctls;
mod judge;
mod mapped;
mod memory;
mod overlay;
mod report;
mod rewrite;
#[cfg(test)]
mod tests;
mod text;

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use pagelab_residency::{Pool, thp};
use pagelab_vocab::terminal::shell_word;

pub use self::mapped::MappedAs;
pub use self::report::{
    Dax, Device, Extent, FileSystem, NotKnown, PathReport, PoolRoom, Range, RealFile, SLOT_BYTES, SlotReason, SlotRun,
    Stripe,
};

use self::file_system::{Ext4Super, Kind, Place};
use self::judge::{DaxFile, Filling, Rule, Verdict};
use self::memory::InMemory;
use crate::settings;

/// The kind of mapping that the answer holds for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathOptions {
    /// Whether the mapping is advised by madvise(MADV_HUGEPAGE).
    pub advised: bool,
    /// How the file is mapped.
    pub mapped: MappedAs,
    /// Where `/proc` and `/sys` are looked for.
    pub root: PathBuf,
}

impl Default for PathOptions {
    /// An advised mapping on this host.
    fn default() -> Self {
        Self { advised: true, mapped: MappedAs::default(), root: PathBuf::from("/") }
    }
}

/// Why nothing can be said about a path.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// There is nothing of this name.
    #[error("{path}: found nothing of this name, needed a file; type: ls -l {}", shell_word(.path))]
    Missing {
        /// The path.
        path: String,
    },
    /// It may not be opened.
    #[error("{path}: found no permission to read, needed it to look at its extents; type: sudo pagelab doctor {}", shell_word(.path))]
    Denied {
        /// The path.
        path: String,
    },
    /// It is something else than a file.
    #[error("{path}: found a {found}, needed a regular file{}", advice(.found))]
    NotAFile {
        /// The path.
        path: String,
        /// Its kind.
        found: &'static str,
    },
    /// A call to the kernel failed.
    #[error("{path}: {what}: {error}")]
    System {
        /// The path.
        path: String,
        /// Which call.
        what: &'static str,
        /// Its error.
        error: io::Error,
    },
}

fn advice(found: &str) -> &'static str {
    match found {
        "directory" => "; name a file in it",
        "block device" => "; without a path `pagelab doctor` tells about devices",
        _ => "",
    }
}

/// Looks at a file.
///
/// # Errors
/// The path is missing, may not be read, or is no regular file; the kernel's refusals. Inputs that only a part of the
/// answer needs (FIEMAP on tmpfs, the superblock for users other than root) are a null in the report with the reason,
/// if missing.
pub fn look(path: &Path, options: &PathOptions) -> Result<PathReport, PathError> {
    let name = path.display().to_string();
    let system = |what, error: io::Error| PathError::System { path: name.clone(), what, error };
    let file = open_checked(path)?;
    let metadata = file.metadata().map_err(|error| system("fstat", error))?;
    let root = options.root.as_path();
    let place = file_system::place(root, &file).map_err(|error| system("statfs", error))?;
    let mut seen = Seen { options, size_bytes: metadata.len(), not_known: Vec::new() };
    let below = seen.below(&place, path, &metadata);
    let (real_place, real_file) = below.as_ref().map_or((&place, &file), |(_, place, file)| (place, file));

    let device = seen.device(real_place);
    let ext4 = (real_place.kind == Kind::Ext4).then(|| Ext4Super::read(root, device.as_ref()));
    let stripe = seen.stripe(real_place.kind, ext4.as_ref(), real_file);
    let dax = seen.dax(real_place, real_file);
    let extents = seen.extents(&file);
    let holes = seen.holes(extents.as_deref(), &file);
    let in_memory = seen.in_memory(real_place.kind, real_file);
    let pool = seen.pool(real_place, &metadata);
    let direct = dax.active == Some(true);
    let layout = seen.layout(real_place.kind, extents.as_deref(), device.as_ref(), stripe);
    let slots = if direct {
        let unknown = || judge::cached(seen.size_bytes, Rule::all(Some(SlotReason::PlaceNotKnown)), &[]);
        layout.clone().unwrap_or_else(unknown)
    } else {
        let rule = seen.rule(real_place, real_file, ext4.as_ref(), pool.as_ref());
        judge::cached(seen.size_bytes, rule, in_memory.as_ref().map_or(&[], |memory| memory.slots.as_slice()))
    };
    // Pages of a hugetlb pool are given whole or not at all.
    let slots = if pool.is_some() { slots } else { options.mapped.narrow(slots, seen.size_bytes) };
    let slot_count = seen.size_bytes.div_ceil(SLOT_BYTES);
    let possible_slots = slots.iter().filter(|run| run.possible).map(SlotRun::count).sum::<u64>();
    let mut report = PathReport {
        path: name,
        size_bytes: seen.size_bytes,
        allocated_bytes: metadata.blocks().saturating_mul(512),
        device,
        stripe,
        dax,
        extents,
        holes,
        cached_bytes: in_memory.map(|memory| memory.bytes),
        pool,
        slot_count,
        possible_slots,
        possible_pct: (slot_count > 0).then(|| possible_slots as f64 * 100.0 / slot_count as f64),
        slots,
        layout,
        findings: Vec::new(),
        not_known: seen.not_known,
        real: below.map(|(path, place, _)| RealFile { path: path.display().to_string(), file_system: place.told }),
        file_system: place.told,
    };
    let barred = rewrite::barred(root, path, &metadata, report.real.is_some());
    report.findings = findings::of(&report, options.advised, barred.as_deref());
    Ok(report)
}

/// Opens a regular file, and nothing else: a fifo would wait for a writer, a device may act on being opened.
fn open_checked(path: &Path) -> Result<File, PathError> {
    let name = || path.display().to_string();
    let of_error = |what, error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => PathError::Missing { path: name() },
        io::ErrorKind::PermissionDenied => PathError::Denied { path: name() },
        _ => PathError::System { path: name(), what, error },
    };
    let metadata = std::fs::metadata(path).map_err(|error| of_error("stat", error))?;
    if let Some(found) = other_kind(&metadata) {
        return Err(PathError::NotAFile { path: name(), found });
    }
    open(path).map_err(|error| of_error("open", error))
}

fn other_kind(metadata: &Metadata) -> Option<&'static str> {
    let kind = metadata.file_type();
    match () {
        () if kind.is_file() => None,
        () if kind.is_dir() => Some("directory"),
        () if kind.is_block_device() => Some("block device"),
        () if kind.is_char_device() => Some("character device"),
        () if kind.is_fifo() => Some("fifo"),
        () if kind.is_socket() => Some("socket"),
        () => Some("thing of another kind"),
    }
}

/// Opens for reading without leaving a trace in the time of last access, where that is allowed (owners and root).
fn open(path: &Path) -> io::Result<File> {
    let with = |flags| File::options().read(true).custom_flags(libc::O_NONBLOCK | flags).open(path);
    match with(libc::O_NOATIME) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => with(0),
        opened => opened,
    }
}

/// One look, while it goes on.
struct Seen<'a> {
    options: &'a PathOptions,
    size_bytes: u64,
    not_known: Vec<NotKnown>,
}

impl Seen<'_> {
    /// The value, or none and the reason noted.
    fn or_not_known<T>(&mut self, what: &'static str, found: Result<T, String>) -> Option<T> {
        found.map_err(|reason| self.not_known.push(NotKnown { what, reason })).ok()
    }

    /// The file below an overlay, and the file system it is on.
    fn below(&mut self, place: &Place, path: &Path, metadata: &Metadata) -> Option<(PathBuf, Place, File)> {
        if place.kind != Kind::Overlayfs {
            return None;
        }
        let found = overlay::below(&place.told, path, metadata).and_then(|(path, file)| {
            let place = file_system::place(&self.options.root, &file).map_err(|error| error.to_string())?;
            Ok((path, place, file))
        });
        self.or_not_known("real", found)
    }

    fn device(&mut self, place: &Place) -> Option<Device> {
        let number = place.device.as_ref();
        let found = number.and_then(|number| file_system::device(&self.options.root, number));
        let why = || format!("{} has no block device in /sys/dev/block", place.told.name);
        self.or_not_known("device", found.ok_or_else(why))
    }

    fn stripe(&mut self, kind: Kind, ext4: Option<&Result<Ext4Super, String>>, file: &File) -> Option<Stripe> {
        let found = match (kind, ext4) {
            (Kind::Ext4, Some(found)) => found.as_ref().map(|found| found.stripe).map_err(Clone::clone),
            (Kind::Xfs, _) => file_system::xfs_stripe(file),
            _ => Err("only ext4 and xfs have stripe settings".to_owned()),
        };
        self.or_not_known("stripe", found)
    }

    fn dax(&mut self, place: &Place, file: &File) -> Dax {
        use rustix::fs::{AtFlags, StatxAttributes, StatxFlags, statx};
        let statx =
            statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::empty()).map_err(|error| format!("statx: {error}"));
        let active = statx.and_then(|statx| {
            let told = statx.stx_attributes_mask.contains(StatxAttributes::DAX);
            // A file system that knows no direct access does not tell about it.
            let can = matches!(place.kind, Kind::Ext4 | Kind::Xfs | Kind::Other);
            match (told, can) {
                (true, _) => Ok(statx.stx_attributes.contains(StatxAttributes::DAX)),
                (false, false) => Ok(false),
                (false, true) => Err("statx does not tell (Linux 5.8 and later do for ext4 and xfs)".to_owned()),
            }
        });
        let flags = ioctls::FsXattr::of(file).map_err(|error| format!("FS_IOC_FSGETXATTR: {error}"));
        let flags = self.or_not_known("dax.inode_flag, dax.extent_size_hint_bytes", flags);
        let bare = place.told.mount_options.iter().any(|option| option == "dax");
        Dax {
            active: self.or_not_known("dax.active", active),
            mount_option: place.told.option("dax").map(str::to_owned).or_else(|| bare.then(|| "always".to_owned())),
            inode_flag: flags.map(|flags| flags.dax()),
            extent_size_hint_bytes: flags.map(|flags| flags.extent_size_hint_bytes()),
        }
    }

    fn extents(&mut self, file: &File) -> Option<Vec<Extent>> {
        let found = ioctls::extents(file, self.size_bytes).map_err(|error| match error.raw_os_error() {
            Some(libc::EOPNOTSUPP | libc::ENOTTY) => "the file system has no FIEMAP".to_owned(),
            _ => format!("FIEMAP: {error}"),
        });
        self.or_not_known("extents", found)
    }

    fn holes(&mut self, extents: Option<&[Extent]>, file: &File) -> Option<Vec<Range>> {
        let found = match extents {
            Some(extents) => Ok(gaps(extents, self.size_bytes)),
            None => sought(file, self.size_bytes).map_err(|error| format!("SEEK_HOLE: {error}")),
        };
        self.or_not_known("holes", found)
    }

    /// The pages in memory; hugetlbfs does not say, and needs none of that.
    fn in_memory(&mut self, kind: Kind, file: &File) -> Option<InMemory> {
        let found = match kind {
            Kind::Hugetlbfs => Err("hugetlbfs does not tell which pages a file has".to_owned()),
            _ if self.size_bytes == 0 => Ok(InMemory::default()),
            _ => memory::look(file, self.size_bytes),
        };
        self.or_not_known("cached_bytes", found)
    }

    /// What direct access makes of the extents.
    fn layout(
        &self,
        kind: Kind,
        extents: Option<&[Extent]>,
        device: Option<&Device>,
        stripe: Option<Stripe>,
    ) -> Option<Vec<SlotRun>> {
        let extents = extents.filter(|_| matches!(kind, Kind::Ext4 | Kind::Xfs))?;
        let is_striped = stripe.is_some_and(Stripe::is_of_slots);
        let filling = match (kind, is_striped) {
            (Kind::Ext4, true) => Filling::Aligned,
            (Kind::Ext4, false) => Filling::AsNeighbour,
            (_, true) => Filling::AlignedAtEnd,
            (_, false) => Filling::Open,
        };
        let pmd = settings::read(&self.options.root, "kconfig.FS_DAX_PMD").map(|value| value == "y").ok();
        Some(judge::dax(&DaxFile {
            size_bytes: self.size_bytes,
            extents,
            device_start_bytes: device.map_or(0, |device| device.partition_start_bytes),
            merges: kind == Kind::Ext4,
            filling,
            pmd,
        }))
    }

    /// What holds for slots that are not in memory.
    fn rule(
        &mut self,
        place: &Place,
        file: &File,
        ext4: Option<&Result<Ext4Super, String>>,
        pool: Option<&PoolRoom>,
    ) -> Rule {
        let root = self.options.root.as_path();
        let thp = crate::files::under(root, "/sys/kernel/mm/transparent_hugepage");
        if place.kind != Kind::Hugetlbfs && !thp.exists() {
            return Rule::all(Some(SlotReason::KernelHasNoThp));
        }
        match place.kind {
            Kind::Hugetlbfs => pool_rule(pool),
            Kind::Tmpfs => {
                let shmem = settings::read(root, "thp.shmem_enabled").ok();
                tmpfs_rule(place, shmem.as_deref(), self.options.advised)
            }
            Kind::Xfs => self.large_folios(&["page_cache_ra_order"]),
            Kind::Ext4 if journalled(place, file, ext4) => Rule::all(Some(SlotReason::PageCacheBasePages)),
            Kind::Ext4 => {
                if let Some(Err(why)) = ext4 {
                    let reason = format!("whether this ext4 can encrypt or verify, and so has small pages only: {why}");
                    self.not_known.push(NotKnown { what: "slots", reason });
                }
                self.large_folios(&["ext4_set_inode_mapping_order", "ext4_should_enable_large_folio"])
            }
            Kind::Btrfs => match settings::read(root, "kconfig.BTRFS_EXPERIMENTAL").as_deref() {
                Ok("y") => Rule::all(Some(SlotReason::FileSystemNotKnown)),
                _ => Rule::all(Some(SlotReason::PageCacheBasePages)),
            },
            Kind::Overlayfs | Kind::Other => Rule::all(Some(SlotReason::FileSystemNotKnown)),
        }
    }

    /// The rule of a page cache with large folios, which this file system has if the kernel has one of these functions: kernels
    /// differ, and so do those that vendors changed, in what their versions promise.
    fn large_folios(&mut self, functions: &[&str]) -> Rule {
        let has = file_system::kernel_has(&self.options.root, functions);
        let why = || "/proc/kallsyms cannot be read: whether this page cache has large folios is not known".to_owned();
        match self.or_not_known("slots", has.ok_or_else(why)) {
            Some(true) => {
                let whole = if self.options.advised { None } else { Some(SlotReason::NeedsAdvice) };
                Rule::new(whole, Some(SlotReason::FileEndsInside))
            }
            Some(false) => Rule::all(Some(SlotReason::PageCacheBasePages)),
            None => Rule::all(Some(SlotReason::FileSystemNotKnown)),
        }
    }

    /// The pages that a hugetlbfs file can still get from its pool.
    fn pool(&mut self, place: &Place, metadata: &Metadata) -> Option<PoolRoom> {
        if place.kind != Kind::Hugetlbfs {
            return None;
        }
        let page_bytes = place.told.block_size_bytes.max(1);
        let read = |bytes| Pool::read(&self.options.root, bytes).map_err(|error| error.to_string());
        let pool = usize::try_from(page_bytes).map_err(|error| error.to_string()).and_then(read);
        let pool = self.or_not_known("pool", pool)?;
        let missing_bytes = self.size_bytes.saturating_sub(metadata.blocks().saturating_mul(512));
        Some(PoolRoom {
            total_pages: pool.total_pages,
            available_pages: pool.available_pages(),
            mount_pages: place.told.option("size").map(|_| place.available_bytes / page_bytes),
            missing_pages: missing_bytes.div_ceil(page_bytes),
        })
    }
}

/// The rule of hugetlbfs: mmap of the whole file reserves pages for those that the file does not have yet, or fails.
fn pool_rule(room: Option<&PoolRoom>) -> Rule {
    let Some(room) = room else { return Rule::all(Some(SlotReason::FileSystemNotKnown)) };
    let available = room.available_pages.min(room.mount_pages.unwrap_or(u64::MAX));
    Rule::all(if room.missing_pages <= available { None } else { Some(SlotReason::PoolTooSmall) })
}

/// Whether data of this ext4 file goes another way than by large folios: through the journal, or on a file system that can hold
/// encrypted or verified files.
fn journalled(place: &Place, file: &File, ext4: Option<&Result<Ext4Super, String>>) -> bool {
    let special = matches!(ext4, Some(Ok(found)) if found.encrypt || found.verity);
    special || place.told.option("data") == Some("journal") || ioctls::journals_data(file)
}

/// The rule of a tmpfs: the kernel's `shmem_huge_global_enabled`.
fn tmpfs_rule(place: &Place, shmem_enabled: Option<&str>, advised: bool) -> Rule {
    // What has no mount (memfd, SysV segments, seen through /proc/PID/fd) lies on the kernel's own, for which the setting stands.
    let own = || shmem_enabled.filter(|_| place.told.mount_point.is_none());
    let huge = place.told.option("huge").or_else(own);
    let (whole, tail) = tmpfs_verdicts(huge, shmem_enabled, advised);
    // fallocate has no mapping that could be advised: pages it allocated came as without advice, and stay.
    let aside =
        |asked: Verdict, unasked: Verdict| if asked == unasked { asked } else { Some(SlotReason::InSmallPages) };
    let unasked = tmpfs_verdicts(huge, shmem_enabled, false);
    // A tmpfs without a limit says 0 blocks in all, and 0 available.
    let is_limit = |option: &String| option.starts_with("size=") || option.starts_with("nr_blocks=");
    let limited = place.told.mount_options.iter().any(is_limit);
    Rule {
        room_slots: limited.then_some(place.available_bytes / SLOT_BYTES),
        hidden: (aside(whole, unasked.0), aside(tail, unasked.1)),
        ..Rule::new(whole, tail)
    }
}

/// The answers for a slot that the file fills, and for the one in which it ends.
fn tmpfs_verdicts(huge: Option<&str>, shmem_enabled: Option<&str>, advised: bool) -> (Verdict, Verdict) {
    let (rule, is_above_mounts) = thp::tmpfs_rule(shmem_enabled, huge);
    match (rule, advised) {
        (thp::Rule::Never, _) if is_above_mounts => (Some(SlotReason::ShmemDenied), Some(SlotReason::ShmemDenied)),
        (thp::Rule::Never, _) => (Some(SlotReason::TmpfsHugeNever), Some(SlotReason::TmpfsHugeNever)),
        // Advice applies whatever the file's length, not below it.
        (thp::Rule::Always, _) | (_, true) => (None, None),
        (thp::Rule::WithinSize, false) => (None, Some(SlotReason::FileEndsInside)),
        (thp::Rule::Advised, false) => (Some(SlotReason::NeedsAdvice), Some(SlotReason::NeedsAdvice)),
    }
}

/// What lies between extents, and behind the last one.
fn gaps(extents: &[Extent], size_bytes: u64) -> Vec<Range> {
    let mut holes = Vec::new();
    let mut covered = 0;
    for extent in extents {
        if extent.start > covered {
            holes.push(Range { start: covered, end: extent.start });
        }
        covered = covered.max(extent.end);
    }
    if covered < size_bytes {
        holes.push(Range { start: covered, end: size_bytes });
    }
    holes
}

/// Holes as SEEK_HOLE tells them.
fn sought(file: &File, size_bytes: u64) -> io::Result<Vec<Range>> {
    use rustix::fs::{SeekFrom, seek};
    let mut holes = Vec::new();
    let mut from = 0;
    while from < size_bytes {
        let start = seek(file, SeekFrom::Hole(from))?.min(size_bytes);
        if start >= size_bytes {
            break;
        }
        let end = match seek(file, SeekFrom::Data(start)) {
            Ok(end) => end.min(size_bytes),
            // No data behind this offset.
            Err(rustix::io::Errno::NXIO) => size_bytes,
            Err(error) => return Err(error.into()),
        };
        holes.push(Range { start, end });
        // A file that is changed meanwhile may give the same offset again.
        from = end.max(start + 1);
    }
    Ok(holes)
}
