//! What of the host decides about huge pages: settings, the process's own switch, counters, mount options.

use std::fs;
use std::path::{Path, PathBuf};

use super::memory;
use super::reason::Switch;
use super::vmas::Vma;

const THP: &str = "sys/kernel/mm/transparent_hugepage";

/// A setting about transparent huge pages, the word in brackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// Everywhere.
    Always,
    /// Everywhere inside a file's length.
    WithinSize,
    /// Where madvise(MADV_HUGEPAGE) asked.
    Advised,
    /// Nowhere.
    Never,
}

/// The settings.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    /// `/` for this host.
    pub(super) root: PathBuf,
    /// The process's folder in `/proc`.
    pub(super) folder: PathBuf,
    /// `/proc/PID/mountinfo`.
    pub(super) mounts: String,
    /// Of anonymous memory.
    pub(super) anonymous: Option<Rule>,
    /// The setting that this comes from.
    pub(super) anonymous_by: Switch,
    /// Of shared memory that has no mount of its own: memfd, MAP_SHARED|MAP_ANONYMOUS, SysV segments.
    pub(super) shared: Option<Rule>,
    /// The setting that this comes from.
    shared_by: Switch,
    /// `shmem_enabled` is `deny` or `force`, which is above all mounts.
    above_mounts: Option<Rule>,
    /// Whether `prctl(PR_SET_THP_DISABLE)` holds for the process.
    pub(super) disabled_for_process: bool,
    /// `/proc/PID/status`; empty if it cannot be read.
    pub(super) status: String,
    /// The word of `defrag`: who may compact and reclaim memory for a huge page at a fault.
    pub(super) defrag: Option<String>,
    /// How much khugepaged puts up with when it gathers small pages.
    pub(super) khugepaged: Khugepaged,
    /// Nodes that the process may have memory of; `None` if its status does not say.
    pub(super) nodes: Option<Vec<u32>>,
}

/// Limits of khugepaged, in base pages of 2 MiB; `None` where they cannot be read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Khugepaged {
    /// That may be missing.
    pub(super) max_ptes_none: Option<u64>,
    /// That may be on swap.
    pub(super) max_ptes_swap: Option<u64>,
    /// That other processes may have, too.
    pub(super) max_ptes_shared: Option<u64>,
}

impl Settings {
    /// Reads them below `root` (`/` for this host), for the process whose folder in `/proc` is `folder`. What cannot be read is
    /// `None`.
    pub(super) fn read(root: &Path, folder: &Path) -> Self {
        let text = |name: &str| fs::read_to_string(root.join(THP).join(name)).ok();
        let word = |name: &str| chosen(&text(name)?);
        let combined = |whole: &str, size: &str, [of_whole, of_size]: [Switch; 2]| match word(size).as_deref() {
            // Kernels before 6.8 know no settings for each size.
            None | Some("inherit") => (word(whole).as_deref().and_then(rule), of_whole),
            Some(own) => (rule(own), of_size),
        };
        let (anonymous, anonymous_by) =
            combined("enabled", "hugepages-2048kB/enabled", [Switch::Enabled, Switch::SizeEnabled]);
        // `force` and `deny` of shmem_enabled are above the settings for each size, and above mounts.
        let above_mounts = match word("shmem_enabled").as_deref() {
            Some("force") => Some(Rule::Always),
            Some("deny") => Some(Rule::Never),
            _ => None,
        };
        let (shared, shared_by) = match above_mounts {
            Some(rule) => (Some(rule), Switch::ShmemAboveMounts),
            None => combined("shmem_enabled", "hugepages-2048kB/shmem_enabled", [Switch::Shmem, Switch::SizeShmem]),
        };
        let status = fs::read_to_string(folder.join("status")).unwrap_or_default();
        let limit = |name: &str| text(&format!("khugepaged/{name}"))?.trim().parse().ok();
        Self {
            root: root.to_owned(),
            folder: folder.to_owned(),
            mounts: fs::read_to_string(folder.join("mountinfo")).unwrap_or_default(),
            anonymous,
            anonymous_by,
            shared,
            shared_by,
            above_mounts,
            disabled_for_process: is_disabled(&status),
            defrag: word("defrag"),
            khugepaged: Khugepaged {
                max_ptes_none: limit("max_ptes_none"),
                max_ptes_swap: limit("max_ptes_swap"),
                max_ptes_shared: limit("max_ptes_shared"),
            },
            nodes: memory::allowed_nodes(&status),
            status,
        }
    }

    /// Whether a fault may compact and reclaim memory to make room for a huge page (vma_thp_gfp_mask in mm/huge_memory.c); `None` if
    /// the host does not say.
    pub(super) fn may_compact(&self, advised: bool) -> Option<bool> {
        match self.defrag.as_deref()? {
            "always" => Some(true),
            "madvise" | "defer+madvise" => Some(advised),
            "defer" | "never" => Some(false),
            _ => None,
        }
    }

    /// The rule of the file under `vma`: the `huge=` of a tmpfs mount, or that of memory shared without one; `None` for files of
    /// other kinds, and where it cannot be told.
    pub(super) fn of_file(&self, vma: &Vma) -> Option<Rule> {
        Some(self.of_file_by(vma)?.0)
    }

    /// The same with the setting that it comes from.
    pub(super) fn of_file_by(&self, vma: &Vma) -> Option<(Rule, Switch)> {
        if is_shared_memory(vma) {
            return Some((self.shared?, self.shared_by.clone()));
        }
        if !vma.is_file() {
            return None;
        }
        let device = mount_device(&vma.device)?;
        let line = self.mounts.lines().find(|line| tmpfs_rule(line, &device).is_some())?;
        match self.above_mounts {
            Some(rule) => Some((rule, Switch::ShmemAboveMounts)),
            None => Some((tmpfs_rule(line, &device)?, Switch::Mount(mount_point(line, &device, "tmpfs")?))),
        }
    }

    /// Whether the mapping is of something that lies in no file system: a device's or the kernel's own memory.
    pub(super) fn is_no_file_of_a_mount(&self, vma: &Vma) -> bool {
        let device = mount_device(&vma.device);
        let is_mounted = |device: &String| {
            self.mounts.lines().any(|line| line.split_ascii_whitespace().nth(2) == Some(device.as_str()))
        };
        // Without the list of mounts nothing is known of any file.
        vma.is_file() && !self.mounts.is_empty() && !is_shared_memory(vma) && !device.as_ref().is_some_and(is_mounted)
    }
}

/// memfd, MAP_SHARED|MAP_ANONYMOUS and SysV segments, which lie on a mount that nobody sees.
fn is_shared_memory(vma: &Vma) -> bool {
    ["/memfd:", "/dev/zero", "/SYSV"].iter().any(|name| vma.path.starts_with(name)) && vma.device.starts_with("00:")
}

/// Whether transparent huge pages are off for the process (`THP_enabled` of its status, Linux 5.0).
fn is_disabled(status: &str) -> bool {
    status.lines().any(|line| line.strip_prefix("THP_enabled:").is_some_and(|value| value.trim() == "0"))
}

/// `1:2b` as smaps prints a device, in hexadecimal, to `1:43` as mountinfo does.
pub(super) fn mount_device(smaps: &str) -> Option<String> {
    let (major, minor) = smaps.split_once(':')?;
    Some(format!("{}:{}", u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?))
}

/// The rule of a tmpfs mount of this device: `36 35 0:43 / /mnt rw - tmpfs name rw,huge=always`. Without the option it is never.
fn tmpfs_rule(line: &str, device: &str) -> Option<Rule> {
    mount_point(line, device, "tmpfs")?;
    let (_, after) = line.split_once(" - ")?;
    let options = after.split_ascii_whitespace().nth(2)?;
    Some(options.split(',').find_map(|option| rule(option.strip_prefix("huge=")?)).unwrap_or(Rule::Never))
}

/// Where a file system of this kind and device is mounted. mountinfo writes blanks and the like in octal.
pub(super) fn mount_point(line: &str, device: &str, kind: &str) -> Option<String> {
    let (before, after) = line.split_once(" - ")?;
    let mut words = before.split_ascii_whitespace();
    if words.nth(2)? != device || after.split_ascii_whitespace().next()? != kind {
        return None;
    }
    let point = words.nth(1)?;
    Some(point.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\"))
}

/// The word in brackets.
fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

fn rule(word: &str) -> Option<Rule> {
    match word {
        "always" | "force" => Some(Rule::Always),
        "within_size" => Some(Rule::WithinSize),
        "advise" | "madvise" => Some(Rule::Advised),
        "never" | "deny" => Some(Rule::Never),
        _ => None,
    }
}

/// Counters that tell what has not happened since a map was made. They are the whole host's: standing still they exclude a cause,
/// moving they prove nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Faults that got no huge page, for whatever cause (`thp_fault_fallback`).
    pub(super) fallbacks: u64,
    /// Of those, because a memory cgroup had no room (`thp_fault_fallback_charge`).
    pub(super) charge_fallbacks: u64,
    /// How often this process's memory cgroup has been at its limit.
    pub(super) own_limit_hits: Option<u64>,
}

impl Counters {
    /// Reads them now; `None` if `/proc/vmstat` does not have them.
    pub(crate) fn read(root: &Path) -> Option<Self> {
        let vmstat = fs::read_to_string(root.join("proc/vmstat")).ok()?;
        let value = |name: &str| {
            vmstat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse::<u64>().ok())
        };
        Some(Self {
            fallbacks: value("thp_fault_fallback")?,
            charge_fallbacks: value("thp_fault_fallback_charge")?,
            own_limit_hits: memory::own_limit_hits(root, &root.join("proc/self")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::write;

    #[test]
    fn settings_for_one_size_stand_above_the_whole() {
        let dir = tempfile::tempdir().expect("tempdir");
        let root = dir.path();
        write(root, "sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
        assert_eq!(Settings::read(root, &root.join("proc/self")).anonymous, Some(Rule::Advised));
        let size = "sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled";
        write(root, size, "always [inherit] madvise never\n");
        assert_eq!(Settings::read(root, &root.join("proc/self")).anonymous, Some(Rule::Advised));
        write(root, size, "always inherit madvise [never]\n");
        assert_eq!(Settings::read(root, &root.join("proc/self")).anonymous, Some(Rule::Never));
        assert_eq!(Settings::read(root, &root.join("proc/self")).shared, None, "not there is not never");
        assert_eq!(Settings::read(root, &root.join("proc/self")).anonymous_by, Switch::SizeEnabled);
        write(
            root,
            "sys/kernel/mm/transparent_hugepage/shmem_enabled",
            "always within_size advise never deny [force]\n",
        );
        write(root, "sys/kernel/mm/transparent_hugepage/hugepages-2048kB/shmem_enabled", "always inherit [never]\n");
        assert_eq!(Settings::read(root, &root.join("proc/self")).shared, Some(Rule::Always));
    }

    #[test]
    fn a_mount_says_what_its_files_get() {
        let line = "36 35 0:43 / /mnt rw,relatime shared:1 - tmpfs none rw,size=1024k,huge=within_size";
        assert_eq!(tmpfs_rule(line, "0:43"), Some(Rule::WithinSize));
        assert_eq!(tmpfs_rule(line, "0:44"), None);
        assert_eq!(tmpfs_rule("36 35 0:43 / /mnt rw - tmpfs none rw", "0:43"), Some(Rule::Never));
        assert_eq!(tmpfs_rule("36 35 0:43 / /mnt rw - ext4 /dev/x rw", "0:43"), None);
        assert_eq!(mount_device("00:2b").as_deref(), Some("0:43"));
        let line = r"36 35 0:43 / /two\040words rw - tmpfs none rw";
        assert_eq!(mount_point(line, "0:43", "tmpfs").as_deref(), Some("/two words"));
        assert_eq!((mount_point(line, "0:44", "tmpfs"), mount_point(line, "0:43", "ext4")), (None, None));
    }

    #[test]
    fn deny_is_above_mounts_and_defrag_says_who_may_compact() {
        let dir = tempfile::tempdir().expect("tempdir");
        let root = dir.path();
        write(root, "proc/7/mountinfo", "36 35 0:43 / /mnt rw - tmpfs none rw,huge=always\n");
        write(root, "sys/kernel/mm/transparent_hugepage/defrag", "always defer [defer+madvise] madvise never\n");
        let file = Vma { device: "00:2b".to_owned(), inode: 5, path: "/mnt/file".to_owned(), ..Vma::default() };
        let settings = Settings::read(root, &root.join("proc/7"));
        assert_eq!(settings.of_file_by(&file), Some((Rule::Always, Switch::Mount("/mnt".to_owned()))));
        assert_eq!((settings.may_compact(true), settings.may_compact(false)), (Some(true), Some(false)));
        let secret = Vma { device: "00:0f".to_owned(), path: "/secretmem (deleted)".to_owned(), ..file.clone() };
        assert!(settings.is_no_file_of_a_mount(&secret) && !settings.is_no_file_of_a_mount(&file));
        write(root, "sys/kernel/mm/transparent_hugepage/shmem_enabled", "always advise never [deny] force\n");
        let settings = Settings::read(root, &root.join("proc/7"));
        assert_eq!(settings.of_file_by(&file), Some((Rule::Never, Switch::ShmemAboveMounts)));
    }

    #[test]
    fn counters_of_both_cgroup_versions() {
        let dir = tempfile::tempdir().expect("tempdir");
        let root = dir.path();
        assert_eq!(Counters::read(root), None);
        write(root, "proc/vmstat", "thp_fault_alloc 7\nthp_fault_fallback 3\nthp_fault_fallback_charge 2\n");
        write(root, "proc/self/cgroup", "4:memory:/a/b\n0::/\n");
        write(root, "sys/fs/cgroup/memory/a/b/memory.failcnt", "11\n");
        let expected = Counters { fallbacks: 3, charge_fallbacks: 2, own_limit_hits: Some(11) };
        assert_eq!(Counters::read(root), Some(expected));
        write(root, "proc/self/cgroup", "0::/c\n");
        write(root, "sys/fs/cgroup/c/memory.events", "low 0\nmax 5\n");
        assert_eq!(Counters::read(root), Some(Counters { own_limit_hits: Some(5), ..expected }));
    }
}
