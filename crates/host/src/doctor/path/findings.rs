//! What the report has to say in words: one finding for each reason, with the commands filled in.

use pagelab_vocab::terminal::shell_word;

use super::report::{PathReport, SLOT_BYTES, SlotReason, SlotRun, Stripe};
use crate::doctor::{Finding, Level};

/// The findings of a report, problems first. `barred`: why no command may put a copy in the file's place.
pub(super) fn of(report: &PathReport, advised: bool, barred: Option<&str>) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        reasons(&report.slots).map(|reason| of_reason(report, &report.slots, reason, barred)).collect();
    if report.dax.active != Some(true) {
        findings.extend(of_layout(report, barred));
    }
    findings.extend([not_dax(report, barred), empty(report), only_by_advice(report, advised)].into_iter().flatten());
    findings.sort_by_key(|finding| finding.level);
    findings
}

/// The reasons in these runs, each once.
fn reasons(runs: &[SlotRun]) -> impl Iterator<Item = SlotReason> {
    let mut found: Vec<SlotReason> = Vec::new();
    for reason in runs.iter().filter_map(|run| run.reason) {
        if !found.contains(&reason) {
            found.push(reason);
        }
    }
    found.into_iter()
}

/// What would stand in the way of direct access, once the file were on a device that has it: never more than a note.
fn of_layout(report: &PathReport, barred: Option<&str>) -> Vec<Finding> {
    let layout = report.layout.as_deref().unwrap_or_default();
    let about_file = |reason: &SlotReason| *reason != SlotReason::FileEndsInside;
    let found = reasons(layout).filter(about_file).map(|reason| {
        let finding = of_reason(report, layout, reason, barred);
        Finding { level: Level::Note, found: format!("for direct access (not in use): {}", finding.found), ..finding }
    });
    found.collect()
}

/// A command, by what it may cost.
enum Fix {
    /// Nothing that is in a file.
    Plain(String),
    /// A copy takes the file's place.
    Rewrites(String),
    /// All that is on the device: what comes before it has to be read first.
    Destroys {
        /// The losses, and what to do before.
        warning: String,
        command: String,
    },
}

impl Fix {
    /// With another command before it.
    fn after(self, before: &str) -> Self {
        match self {
            Fix::Plain(command) => Fix::Plain(format!("{before}{command}")),
            Fix::Rewrites(command) => Fix::Rewrites(format!("{before}{command}")),
            Fix::Destroys { warning, command } => Fix::Destroys { warning, command: format!("{before}{command}") },
        }
    }

    /// The command as it is printed, if it may be; otherwise why not. One that destroys is a comment to the shell, so that
    /// pasting the line does nothing.
    fn told(self, barred: Option<&str>) -> Result<String, String> {
        match (self, barred) {
            (Fix::Plain(command), _) | (Fix::Rewrites(command), None) => Ok(command),
            (Fix::Rewrites(_) | Fix::Destroys { .. }, Some(why)) => Err(why.to_owned()),
            (Fix::Destroys { warning, command }, None) => Ok(format!("# {warning}; then type: {command}")),
        }
    }
}

/// The parts of the commands.
struct Words<'a> {
    report: &'a PathReport,
    /// The file that decides: on overlayfs the one below.
    path: String,
    /// The folder that it is in.
    folder: String,
    mount_point: String,
    device: String,
}

impl<'a> Words<'a> {
    fn of(report: &'a PathReport) -> Self {
        let (path, system) = match &report.real {
            Some(real) => (&real.path, &real.file_system),
            None => (&report.path, &report.file_system),
        };
        let device = report.device.as_ref().and_then(|device| device.name.as_ref());
        Self {
            report,
            path: shell_word(path),
            folder: match path.rsplit_once('/') {
                Some((folder, _)) => shell_word(&format!("{folder}/")),
                None => "./".to_owned(),
            },
            mount_point: shell_word(system.mount_point.as_deref().unwrap_or("MOUNTPOINT")),
            device: device.map_or_else(|| "DEVICE".to_owned(), |name| shell_word(&format!("/dev/{name}"))),
        }
    }

    fn is_xfs(&self) -> bool {
        let system = self.report.real.as_ref().map_or(&self.report.file_system, |real| &real.file_system);
        system.name == "xfs"
    }

    /// Makes the file anew, of the same length, with its bytes set aside before they are written.
    fn recreate(&self) -> Fix {
        let bytes = self.report.size_bytes.next_multiple_of(SLOT_BYTES);
        let hint = if self.is_xfs() { " && xfs_io -c 'extsize 2m' \"$T/new\"" } else { "" };
        self.rewritten(&format!(
            ": > \"$T/new\"{hint} && fallocate -n -l {bytes} \"$T/new\" && \
             dd if={} of=\"$T/new\" bs=2M conv=notrunc,fsync status=none",
            self.path
        ))
    }

    /// Puts a copy in the file's place, with its owner, mode, ACL, extended attributes and times. The copy is made
    /// under an unguessable name; the original is kept next to it, so that nothing is lost whatever happens meanwhile.
    fn rewritten(&self, copy: &str) -> Fix {
        let (path, folder) = (&self.path, &self.folder);
        Fix::Rewrites(format!(
            "T=$(mktemp -d -- {folder}.pagelab-XXXXXXXX) && {copy} && \
             cp --attributes-only --preserve=mode,ownership,timestamps,xattr -- {path} \"$T/new\" && \
             cmp -- {path} \"$T/new\" && mv -n -- {path} \"$T/old\" && mv -n -- \"$T/new\" {path} && \
             echo \"the file as it was is $T/old; remove it once the new one has proved good\""
        ))
    }

    /// Makes the file system anew, so that extents can lie at multiples of 2 MiB.
    fn mkfs(&self) -> String {
        let (device, mount) = (&self.device, &self.mount_point);
        let can = self.report.device.as_ref().and_then(|device| device.dax) == Some(true);
        let option = if can { "-o dax=always " } else { "" };
        let mkfs = if self.is_xfs() {
            "mkfs.xfs -f -m reflink=0 -d su=2m,sw=1"
        } else {
            "mkfs.ext4 -F -b 4096 -E stride=512,stripe_width=512"
        };
        format!("{mkfs} {device} && mount {option}{device} {mount}")
    }

    /// What making the file system anew costs.
    fn lost(&self) -> String {
        let device = &self.device;
        format!("destroys all files on {device}: copy them away first, and back with fallocate before writing")
    }

    /// Where the partition would have to begin. Moving it destroys its contents. Only this partition is updated in the
    /// kernel: to read the whole table anew it would need all other partitions to be unused, and code for tables of
    /// this kind.
    fn move_partition(&self) -> Fix {
        let device = self.report.device.as_ref();
        let start = device.map_or(0, |device| device.partition_start_bytes);
        let name = device.and_then(|device| device.name.as_deref()).unwrap_or("DEVICE");
        let number: String = name.chars().rev().take_while(char::is_ascii_digit).collect();
        let number: String = number.chars().rev().collect();
        let disk = name.strip_suffix(number.as_str()).unwrap_or(name);
        // `nvme0n1p2` and `loop0p1`: a `p` stands between a disk whose name ends in a digit and the number.
        let disk =
            disk.strip_suffix('p').filter(|disk| disk.ends_with(|last: char| last.is_ascii_digit())).unwrap_or(disk);
        let command = format!(
            "umount {} && echo 'start={}, size=+' | sfdisk --no-reread --no-tell-kernel -N {number} /dev/{disk} && \
             partx --update --nr {number} /dev/{disk} && {}",
            self.mount_point,
            start.next_multiple_of(SLOT_BYTES) / 512,
            self.mkfs()
        );
        Fix::Destroys { warning: format!("{} (the partition began at {start} bytes)", self.lost()), command }
    }

    /// Whether the file system was made to lay data out in multiples of 2 MiB.
    fn is_striped(&self) -> bool {
        self.report.stripe.is_some_and(Stripe::is_of_slots)
    }

    fn is_tmpfs(&self) -> bool {
        let system = self.report.real.as_ref().map_or(&self.report.file_system, |real| &real.file_system);
        system.name == "tmpfs"
    }

    /// The size that a tmpfs needs so that all slots that it had no room for have some.
    fn larger_bytes(&self) -> Option<u64> {
        let kib: u64 = self.report.file_system.option("size")?.strip_suffix('k')?.parse().ok()?;
        let full = self.report.slots.iter().filter(|run| run.reason == Some(SlotReason::TmpfsFull));
        let missing = full.map(SlotRun::count).sum::<u64>().saturating_mul(SLOT_BYTES);
        Some(kib.saturating_mul(1024).saturating_add(missing))
    }

    /// More pages for a file on hugetlbfs: of the pool, or where the mount's own limit is in the way, another mount, since that
    /// limit cannot be changed.
    fn larger_pool(&self) -> Option<String> {
        let room = self.report.pool?;
        let page = self.report.file_system.block_size_bytes;
        let size = if page >= 1 << 30 { format!("{}G", page >> 30) } else { format!("{}M", page >> 20) };
        if room.missing_pages > room.available_pages {
            let pages = room.total_pages.saturating_add(room.missing_pages - room.available_pages);
            return Some(format!("pagelab hugepages set {size} {pages}"));
        }
        let bytes = room.missing_pages.saturating_mul(page);
        Some(format!("mount -t hugetlbfs -o pagesize={size},min_size={bytes} none DIR"))
    }

    /// Copies the file, so that its pages come anew.
    fn copy_anew(&self) -> Fix {
        self.rewritten(&format!("cp --sparse=never --reflink=never -- {} \"$T/new\"", self.path))
    }
}

fn of_reason(report: &PathReport, slots: &[SlotRun], reason: SlotReason, barred: Option<&str>) -> Finding {
    let runs: Vec<&SlotRun> = slots.iter().filter(|run| run.reason == Some(reason)).collect();
    let count: u64 = runs.iter().map(|run| run.count()).sum();
    let first = runs.first().map_or(0, |run| run.start);
    let found = format!("{count} of {} slots of 2 MiB, the first at offset {first}: {reason}", report.slot_count);
    let words = Words::of(report);
    let (id, level, needed, why, fix) = told(&words, reason);
    let (needed, fix) = match fix.map(|fix| fix.told(barred)) {
        Some(Err(why)) => (format!("{needed}; no command is given: {why}"), None),
        Some(Ok(fix)) => (needed.to_owned(), Some(fix)),
        None => (needed.to_owned(), None),
    };
    Finding { id, level, found, needed, why: why.to_owned(), fix }
}

type Told = (&'static str, Level, &'static str, &'static str, Option<Fix>);

const SMALL: &str = "each slot takes 512 entries and up to 512 faults instead of one, and as many places in the TLB";

/// Identifier, level, what is needed, why it matters, the command.
fn told(words: &Words<'_>, reason: SlotReason) -> Told {
    use Level::{Note, Problem};
    use SlotReason as R;
    match reason {
        R::NotAligned => {
            let needed =
                "an address that equals the offset modulo 2 MiB (reserve 2 MiB more, map with MAP_FIXED inside)";
            ("path.not_aligned", Problem, needed, SMALL, None)
        }
        R::CopiedOnWrite => ("path.copied_on_write", Problem, "a shared mapping (MAP_SHARED)", SMALL, None),
        R::LeavesMapping => {
            let needed = "pieces of a multiple of 2 MiB, or neighbours that the kernel may merge";
            ("path.leaves_mapping", Problem, needed, SMALL, None)
        }
        R::FileEndsInside => {
            // No command: zeros at its end are damage to most files, and only the program that writes it can tell.
            let needed = "a file that is a multiple of 2 MiB long, if the program that writes it can make it so";
            ("path.file_ends_inside", Note, needed, SMALL, None)
        }
        R::Hole | R::PartHole => {
            // Next to written blocks, a filled hole would leave a slot in two states.
            let fix = if words.is_striped() {
                words.recreate()
            } else {
                let bytes = words.report.size_bytes.next_multiple_of(SLOT_BYTES);
                Fix::Plain(format!("fallocate -n -l {bytes} {}", words.path))
            };
            let why = "a first write sets blocks aside one by one, wherever there is room";
            ("path.holes", Note, "bytes that are set aside before the file is written", why, Some(fix))
        }
        R::ExtentShort | R::ExtentsMixed => {
            let needed = "extents of 2 MiB and more in one state";
            ("path.extents_short", Problem, needed, SMALL, Some(words.recreate()))
        }
        R::ExtentMisaligned => {
            let needed = "extents that begin at multiples of 2 MiB on the device";
            let fix = if words.is_striped() {
                words.recreate()
            } else {
                let command = format!("umount {} && {}", words.mount_point, words.mkfs());
                Fix::Destroys { warning: words.lost(), command }
            };
            ("path.extents_misaligned", Problem, needed, SMALL, Some(fix))
        }
        R::PartitionMisaligned => {
            let needed = "a partition that begins at a multiple of 2 MiB";
            ("path.partition_misaligned", Problem, needed, SMALL, Some(words.move_partition()))
        }
        R::Shared => {
            let why = "the first write copies them";
            ("path.shared", Problem, "blocks of the file's own", why, Some(words.recreate()))
        }
        R::NoDaxPmd => ("path.kernel_no_dax_pmd", Problem, "a kernel with CONFIG_FS_DAX_PMD=y", SMALL, None),
        R::PlaceNotKnown => {
            let why = "bytes that were not written back yet get their place when they are";
            let fix = Fix::Plain(format!("sync {}", words.path));
            ("path.place_not_known", Note, "extents with a place on the device", why, Some(fix))
        }
        R::KernelHasNoThp => {
            ("path.kernel_no_thp", Problem, "a kernel with CONFIG_TRANSPARENT_HUGEPAGE=y", SMALL, None)
        }
        R::FileSystemNotKnown => {
            let needed = "a file system whose page cache is known: ext4, xfs, btrfs, tmpfs, hugetlbfs";
            ("path.fs_not_known", Note, needed, "nothing can be promised", None)
        }
        _ => told_of_memory(words, reason),
    }
}

/// The reasons that concern memory and not the device.
fn told_of_memory(words: &Words<'_>, reason: SlotReason) -> Told {
    use Level::{Note, Problem};
    let (path, mount) = (&words.path, &words.mount_point);
    match reason {
        SlotReason::PageCacheBasePages => {
            let needed = "a file on tmpfs with huge=always, hugetlbfs, DAX, or a page cache with large folios (xfs)";
            let fix = Fix::Plain(format!("mount -t tmpfs -o huge=always none DIR && cp {path} DIR/"));
            ("path.fs_has_no_huge_pages", Problem, needed, SMALL, Some(fix))
        }
        SlotReason::InSmallPages if words.is_tmpfs() => {
            let needed = "a file that was written after huge pages were allowed, or MADV_COLLAPSE on its mapping";
            let allow = match words.report.file_system.option("huge") {
                Some("always") => String::new(),
                _ => format!("mount -o remount,huge=always {mount} && "),
            };
            ("path.in_small_pages", Problem, needed, SMALL, Some(words.copy_anew().after(&allow)))
        }
        SlotReason::InSmallPages => {
            let fix = Fix::Plain(format!("sync {path} && dd if={path} iflag=nocache count=0 status=none"));
            let needed = "a file that is not in the page cache yet, so that a fault can bring it in as a whole";
            ("path.in_small_pages", Note, needed, SMALL, Some(fix))
        }
        SlotReason::NeedsAdvice => {
            let needed = "madvise(MADV_HUGEPAGE) on the mapping before it is touched";
            ("path.needs_advice", Note, needed, SMALL, None)
        }
        SlotReason::TmpfsHugeNever => {
            let fix = words.copy_anew().after(&format!("mount -o remount,huge=always {mount} && "));
            ("path.tmpfs_huge_never", Problem, "a tmpfs with huge=always, within_size or advise", SMALL, Some(fix))
        }
        SlotReason::ShmemDenied => {
            let fix = Fix::Plain("echo never > /sys/kernel/mm/transparent_hugepage/shmem_enabled".to_owned());
            let needed = "shmem_enabled other than deny; never leaves the choice to each mount";
            ("path.shmem_denied", Problem, needed, SMALL, Some(fix))
        }
        SlotReason::TmpfsFull => {
            let fix = words.larger_bytes().map(|bytes| Fix::Plain(format!("mount -o remount,size={bytes} {mount}")));
            ("path.tmpfs_full", Problem, "2 MiB of room for each slot", SMALL, fix)
        }
        _ => {
            let needed = "as many pages as the file does not have yet, in the pool and in the mount's size";
            let why = "mmap of the file fails with ENOMEM";
            ("path.pool_too_small", Problem, needed, why, words.larger_pool().map(Fix::Plain))
        }
    }
}

/// ext4 and xfs could do direct access; whether this file does is worth knowing.
fn not_dax(report: &PathReport, barred: Option<&str>) -> Option<Finding> {
    let system = report.real.as_ref().map_or(&report.file_system, |real| &real.file_system);
    if !matches!(system.name.as_str(), "ext4" | "xfs") || report.dax.active != Some(false) {
        return None;
    }
    let words = Words::of(report);
    let option = report.dax.mount_option.as_deref();
    let asked = matches!(option, Some("always")) || report.dax.inode_flag == Some(true);
    let device = report.device.as_ref().and_then(|device| device.dax);
    let (level, fix) = match (asked, device) {
        // The mount may have gone through without direct access, as xfs does on a namespace in raw mode.
        (true, _) => {
            let warning = "destroys all files on NAMESPACE: unmount it and copy them away first".to_owned();
            let command = "ndctl create-namespace -f -e NAMESPACE -m fsdax --map=mem".to_owned();
            (Level::Problem, Fix::Destroys { warning, command }.told(barred).ok())
        }
        (false, Some(true)) => (Level::Note, Some(format!("mount -o remount,dax=always {}", words.mount_point))),
        (false, _) => (Level::Note, None),
    };
    Some(Finding {
        id: "path.not_dax",
        level,
        found: format!(
            "no direct access; mount option dax={}, file flag {}, device {} {}",
            option.unwrap_or("not given"),
            report.dax.inode_flag.map_or("not known", |flag| if flag { "set" } else { "not set" }),
            words.device,
            if device == Some(true) { "can" } else { "cannot" },
        ),
        needed: "a device that can (pmem in mode fsdax), and dax=always or the file's flag".to_owned(),
        why: "without it the file is mapped through the page cache".to_owned(),
        fix,
    })
}

fn empty(report: &PathReport) -> Option<Finding> {
    (report.size_bytes == 0).then(|| Finding {
        id: "path.empty",
        level: Level::Note,
        found: "the file has 0 bytes".to_owned(),
        needed: "a file of 2 MiB and more".to_owned(),
        why: "there is no slot to tell about".to_owned(),
        fix: None,
    })
}

/// Possible, but only with madvise.
fn only_by_advice(report: &PathReport, advised: bool) -> Option<Finding> {
    let system = report.real.as_ref().map_or(&report.file_system, |real| &real.file_system);
    let page_cache = matches!(system.name.as_str(), "ext4" | "xfs") && report.dax.active != Some(true);
    let tmpfs = system.name == "tmpfs" && system.option("huge") == Some("advise");
    (advised && report.possible_slots > 0 && (page_cache || tmpfs)).then(|| Finding {
        id: "path.only_by_advice",
        level: Level::Note,
        found: format!("{} slots can be mapped by one entry if the mapping asks for it", report.possible_slots),
        needed: "madvise(MADV_HUGEPAGE) on the mapping before it is touched".to_owned(),
        why: "without it a fault brings in small pages, which then stay".to_owned(),
        fix: None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::{PathOptions, look};
    use super::*;

    const REASONS: [SlotReason; 22] = [
        SlotReason::NotAligned,
        SlotReason::CopiedOnWrite,
        SlotReason::LeavesMapping,
        SlotReason::FileEndsInside,
        SlotReason::Hole,
        SlotReason::PartHole,
        SlotReason::ExtentShort,
        SlotReason::ExtentsMixed,
        SlotReason::ExtentMisaligned,
        SlotReason::PartitionMisaligned,
        SlotReason::Shared,
        SlotReason::NoDaxPmd,
        SlotReason::PlaceNotKnown,
        SlotReason::PageCacheBasePages,
        SlotReason::InSmallPages,
        SlotReason::NeedsAdvice,
        SlotReason::TmpfsHugeNever,
        SlotReason::ShmemDenied,
        SlotReason::TmpfsFull,
        SlotReason::PoolTooSmall,
        SlotReason::KernelHasNoThp,
        SlotReason::FileSystemNotKnown,
    ];

    /// Each reason has a finding of its own name, but for those that are one to the user.
    #[test]
    fn each_reason_is_found_under_its_name() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("file");
        std::fs::write(&path, vec![1; 3 << 20]).expect("written");
        let mut report = look(&path, &PathOptions::default()).expect("a file");
        for reason in REASONS {
            report.slots = vec![SlotRun { start: 0, end: report.size_bytes, possible: false, reason: Some(reason) }];
            let needed = match reason {
                SlotReason::Hole | SlotReason::PartHole => "holes",
                SlotReason::ExtentShort | SlotReason::ExtentsMixed => "extents_short",
                SlotReason::ExtentMisaligned => "extents_misaligned",
                SlotReason::NoDaxPmd => "kernel_no_dax_pmd",
                SlotReason::KernelHasNoThp => "kernel_no_thp",
                SlotReason::PageCacheBasePages => "fs_has_no_huge_pages",
                SlotReason::FileSystemNotKnown => "fs_not_known",
                other => other.word(),
            };
            let found: Vec<&str> = of(&report, true, None).iter().map(|finding| finding.id).collect();
            assert!(found.contains(&format!("path.{needed}").as_str()), "{reason:?}: {found:?}");
        }
    }

    /// Whatever is wrong with a file, on whatever file system: no command takes its bytes or its place while somebody
    /// has it open, and none ever guesses a name or lengthens it.
    #[test]
    fn no_command_destroys_what_is_in_use() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("two words; rm -rf $HOME");
        std::fs::write(&path, vec![1; 3 << 20]).expect("written");
        let mut report = look(&path, &PathOptions::default()).expect("a file");
        let mut commands = 0;
        for system in ["ext4", "xfs", "tmpfs", "btrfs", "hugetlbfs"] {
            for (reason, size_bytes, striped) in REASONS
                .into_iter()
                .flat_map(|reason| [0, 1, 3 << 20, u64::MAX - 1].map(|size| (reason, size)))
                .flat_map(|(reason, size)| [true, false].map(|striped| (reason, size, striped)))
            {
                system.clone_into(&mut report.file_system.name);
                report.size_bytes = size_bytes.min(1 << 50);
                report.stripe = striped.then_some(Stripe { unit_bytes: SLOT_BYTES, width_bytes: SLOT_BYTES });
                let end = report.size_bytes.max(1);
                report.slots = vec![SlotRun { start: 0, end, possible: false, reason: Some(reason) }];
                report.layout = Some(report.slots.clone());
                for finding in of(&report, true, Some("process 7 (postgres) has it open")) {
                    let Some(fix) = finding.fix.map(|fix| fix.replace(&shell_word(&report.path), "PATH")) else {
                        continue;
                    };
                    for form in ["mv ", "rm ", "truncate", " of=", "mkfs", "ndctl", "sfdisk", ".new", "> \"", "cp --"] {
                        assert!(!fix.contains(form), "{system} {reason:?}: {fix}");
                    }
                }
                for finding in of(&report, true, None) {
                    let Some(fix) = finding.fix.map(|fix| fix.replace(&shell_word(&report.path), "PATH")) else {
                        continue;
                    };
                    commands += 1;
                    for form in ["rm -", "truncate", "new.", ".new", "mv -f"] {
                        assert!(!fix.contains(form), "{system} {reason:?}: {fix}");
                    }
                    let destroys = ["mkfs", "ndctl", "sfdisk"].iter().any(|form| fix.contains(form));
                    assert_eq!(destroys, fix.starts_with("# destroys all files on "), "{system} {reason:?}: {fix}");
                }
            }
        }
        assert!(commands > 100, "{commands}");
    }
}
