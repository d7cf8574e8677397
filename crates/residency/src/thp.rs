//! Who gets transparent huge pages: the settings of the host, the switch of a process, the options of mounts, and counters.
//!
//! This is the one place that knows what the words mean. Linux 6.8 and later have a setting for each size, of which `inherit` means
//! the one for all; `deny` and `force` of `shmem_enabled` are above sizes and mounts (shmem_huge_global_enabled in mm/shmem.c).

use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::maps::Vma;
use crate::memory;
use crate::mounts::{self, Mount};
use crate::process::Asked;
use crate::reason::Switch;

const THP: &str = "sys/kernel/mm/transparent_hugepage";

/// Where transparent huge pages are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Everywhere.
    Always,
    /// Where a file has all of the huge page, and beyond its end where madvise(MADV_HUGEPAGE) asked.
    WithinSize,
    /// Where madvise(MADV_HUGEPAGE) asked.
    Advised,
    /// Nowhere.
    Never,
}

impl Rule {
    /// The rule of a word of `enabled`, `shmem_enabled` or a mount's `huge=`; `None` for others, `inherit` among them.
    pub fn of_word(word: &str) -> Option<Self> {
        match word {
            "always" | "force" => Some(Self::Always),
            "within_size" => Some(Self::WithinSize),
            "advise" | "madvise" => Some(Self::Advised),
            "never" | "deny" => Some(Self::Never),
            _ => None,
        }
    }

    /// Whether anonymous memory, which has no length that ends inside a page, gets huge pages by this rule.
    pub fn allows(self, advised: bool) -> bool {
        match self {
            Self::Always | Self::WithinSize => true,
            Self::Advised => advised,
            Self::Never => false,
        }
    }
}

/// The rule of one size: its own word, or that for all sizes where it has none (kernels before 6.8) or says `inherit`. True: it is the
/// size's own.
pub fn rule_of_size(all: Option<&str>, size: Option<&str>) -> (Option<Rule>, bool) {
    match size {
        None | Some("inherit") => (all.and_then(Rule::of_word), false),
        Some(own) => (Rule::of_word(own), true),
    }
}

/// The rule for 2 MiB of anonymous memory, and the setting that it comes from, by the words of `enabled` and of the size's `enabled`.
pub fn anonymous_rule(all: Option<&str>, size: Option<&str>) -> Option<(Rule, Switch)> {
    let (rule, is_own) = rule_of_size(all, size);
    Some((rule?, if is_own { Switch::SizeEnabled } else { Switch::Enabled }))
}

/// The same of memfd and MAP_SHARED|MAP_ANONYMOUS, by the words of `shmem_enabled` and of the size's `shmem_enabled`.
pub fn shared_rule(all: Option<&str>, size: Option<&str>) -> Option<(Rule, Switch)> {
    if let Some(rule) = above_mounts(all) {
        return Some((rule, Switch::ShmemAboveMounts));
    }
    let (rule, is_own) = rule_of_size(all, size);
    Some((rule?, if is_own { Switch::SizeShmem } else { Switch::Shmem }))
}

/// The same of files on a tmpfs by the words of `shmem_enabled` and of the mount's `huge=`, without which it is never. True: the first
/// decides.
pub fn tmpfs_rule(shmem_enabled: Option<&str>, huge: Option<&str>) -> (Rule, bool) {
    match above_mounts(shmem_enabled) {
        Some(rule) => (rule, true),
        None => (huge.and_then(Rule::of_word).unwrap_or(Rule::Never), false),
    }
}

/// `deny` and `force`, which are above all mounts and sizes.
fn above_mounts(shmem_enabled: Option<&str>) -> Option<Rule> {
    shmem_enabled.filter(|word| matches!(*word, "deny" | "force")).and_then(Rule::of_word)
}

/// What prctl(PR_SET_THP_DISABLE) forbids a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ProcessSwitch {
    /// Nothing.
    #[default]
    Open,
    /// Huge pages where no madvise(MADV_HUGEPAGE) asked (PR_THP_DISABLE_EXCEPT_ADVISED, Linux 6.18).
    ExceptAdvised,
    /// All.
    Closed,
}

impl ProcessSwitch {
    /// Whether memory may get huge pages in spite of it.
    pub fn allows(self, advised: bool) -> bool {
        match self {
            Self::Open => true,
            Self::ExceptAdvised => advised,
            Self::Closed => false,
        }
    }
}

/// The word in brackets of `always [madvise] never`; `None` if there are no brackets.
pub fn chosen_word(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0)
}

/// The settings of the host, which are the same for all processes. What cannot be read is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HostRules {
    /// For anonymous memory, and the setting that it comes from.
    anonymous: Option<(Rule, Switch)>,
    /// For memfd and MAP_SHARED|MAP_ANONYMOUS.
    shared: Option<(Rule, Switch)>,
    /// For System V segments. Only the setting for all sizes applies: vma_is_anon_shmem in mm/shmem.c holds for shared
    /// memory that is mapped with shmem's own operations, and segments have those of ipc/shm.c (measured on Linux
    /// 6.18).
    segments: Option<(Rule, Switch)>,
    /// The word of `shmem_enabled`.
    shmem_enabled: Option<String>,
    /// The word of `defrag`: which faults may compact and reclaim memory for a huge page.
    pub(crate) defrag: Option<String>,
    /// How much khugepaged puts up with when it gathers small pages.
    pub(crate) khugepaged: Khugepaged,
}

/// Limits of khugepaged, in base pages of 2 MiB; `None` where they cannot be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Khugepaged {
    /// That may be missing.
    pub(crate) max_ptes_none: Option<u64>,
    /// That may be on swap.
    pub(crate) max_ptes_swap: Option<u64>,
    /// That other processes may have, too.
    pub(crate) max_ptes_shared: Option<u64>,
}

impl HostRules {
    /// Reads them below `root` (`/` for this host).
    pub(crate) fn read(root: &Path) -> Self {
        let text = |name: &str| fs::read_to_string(root.join(THP).join(name)).ok();
        let word = |name: &str| Some(chosen_word(&text(name)?)?.to_owned());
        let limit = |name: &str| text(&format!("khugepaged/{name}"))?.trim().parse().ok();
        let shmem_enabled = word("shmem_enabled");
        Self {
            anonymous: anonymous_rule(word("enabled").as_deref(), word("hugepages-2048kB/enabled").as_deref()),
            shared: shared_rule(shmem_enabled.as_deref(), word("hugepages-2048kB/shmem_enabled").as_deref()),
            segments: shared_rule(shmem_enabled.as_deref(), None),
            shmem_enabled,
            defrag: word("defrag"),
            khugepaged: Khugepaged {
                max_ptes_none: limit("max_ptes_none"),
                max_ptes_swap: limit("max_ptes_swap"),
                max_ptes_shared: limit("max_ptes_shared"),
            },
        }
    }

    /// Whether a fault may compact and reclaim memory to make room for a huge page (vma_thp_gfp_mask in mm/huge_memory.c); `None` if
    /// the host does not say.
    pub(crate) fn may_compact(&self, advised: bool) -> Option<bool> {
        match self.defrag.as_deref()? {
            "always" => Some(true),
            "madvise" | "defer+madvise" => Some(advised),
            "defer" | "never" => Some(false),
            _ => None,
        }
    }
}

/// What decides about the huge pages of one process.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// `/` for this host.
    pub(crate) root: PathBuf,
    /// The process's folder in `/proc`.
    pub(crate) folder: PathBuf,
    /// The host's.
    pub(crate) host: Rc<HostRules>,
    /// The mounts that the process sees; `None` if they cannot be read.
    mounts: Option<Rc<Vec<Mount>>>,
    /// Whether `prctl(PR_SET_THP_DISABLE)` holds for all memory of the process.
    pub(crate) disabled_for_process: bool,
    /// `/proc/PID/status`; empty if it cannot be read.
    pub(crate) status: String,
    /// Nodes that the process may have memory of; `None` if its status does not say.
    pub(crate) nodes: Option<Vec<u32>>,
}

impl Settings {
    /// Reads them below `root` (`/` for this host), for the process whose folder in `/proc` is `folder`.
    pub(crate) fn read(root: &Path, folder: &Path) -> Self {
        let mounts = mounts::of_folder(folder).ok().map(Rc::new);
        Self::with(root, folder, Rc::new(HostRules::read(root)), mounts)
    }

    /// The same with settings of the host and mounts that are known already.
    pub(crate) fn with(root: &Path, folder: &Path, host: Rc<HostRules>, mounts: Option<Rc<Vec<Mount>>>) -> Self {
        let status = fs::read_to_string(folder.join("status")).unwrap_or_default();
        Self {
            root: root.to_owned(),
            folder: folder.to_owned(),
            host,
            mounts,
            disabled_for_process: is_disabled(&status),
            nodes: memory::allowed_nodes(&status),
            status,
        }
    }

    /// The rule for new pages of a mapping, and the setting that it comes from: that of anonymous memory, of shared
    /// memory, or the `huge=` of a tmpfs mount. `None` for files of other kinds, and where unknown.
    pub(crate) fn rule_of(&self, vma: &Vma) -> Option<(Rule, Switch)> {
        if !vma.is_file() {
            return self.host.anonymous.clone();
        }
        if vma.is_shared_memory() {
            let is_segment = vma.path.starts_with(b"/SYSV");
            return if is_segment { self.host.segments.clone() } else { self.host.shared.clone() };
        }
        let mount = self.mount_of(vma).filter(|mount| mount.fs == "tmpfs")?;
        let (rule, is_above) = tmpfs_rule(self.host.shmem_enabled.as_deref(), mount.option("huge"));
        let switch = if is_above { Switch::ShmemAboveMounts } else { Switch::Mount(mount.mountpoint.clone()) };
        Some((rule, switch))
    }

    /// How huge pages were asked for; `None` if they were not.
    pub(crate) fn asked(&self, vma: &Vma) -> Option<Asked> {
        if vma.is_hugetlb() {
            return Some(Asked::Pool { page_bytes: vma.kernel_page_bytes });
        }
        // madvise(MADV_NOHUGEPAGE): the program said no, whatever host and mount would give.
        if vma.has_flag("nh") {
            return None;
        }
        // File systems advise such mappings themselves (ext4_file_mmap, xfs_file_mmap).
        if self.is_direct_access(vma) {
            return Some(Asked::DirectAccess);
        }
        if vma.has_flag("hg") {
            return Some(Asked::Advice);
        }
        if vma.is_kernels_own() {
            return None;
        }
        match self.rule_of(vma)?.0 {
            Rule::Always if !vma.is_file() => Some(Asked::Host),
            Rule::Always | Rule::WithinSize if vma.is_file() => Some(Asked::Mount),
            _ => None,
        }
    }

    /// Whether it is a file that is mapped directly (DAX), as far as the mount says.
    pub(crate) fn is_direct_access(&self, vma: &Vma) -> bool {
        vma.is_file() && self.mount_of(vma).is_some_and(Mount::is_direct_access)
    }

    /// Whether the mapping is of something that lies in no file system: a device's or the kernel's own memory.
    pub(crate) fn is_no_file_of_a_mount(&self, vma: &Vma) -> bool {
        // Without the list of mounts nothing is known of any file.
        let is_listed = self.mounts.as_ref().is_some_and(|mounts| !mounts.is_empty());
        is_listed && vma.is_file() && !vma.is_shared_memory() && self.mount_of(vma).is_none()
    }

    /// The mount of the file under a mapping, as the process sees it.
    pub(crate) fn mount_of(&self, vma: &Vma) -> Option<&Mount> {
        mounts::of_vma(self.mounts.as_deref()?, vma)
    }
}

/// Whether transparent huge pages are off for the process (`THP_enabled` of its status, Linux 5.0).
fn is_disabled(status: &str) -> bool {
    status.lines().any(|line| line.strip_prefix("THP_enabled:").is_some_and(|value| value.trim() == "0"))
}

/// Counters that tell what has not happened since a map was made. They are the whole host's: standing still they exclude a cause,
/// moving they prove nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Faults that got no huge page, for whatever cause (`thp_fault_fallback`).
    pub(crate) fallbacks: u64,
    /// Of those, because a memory cgroup had no room (`thp_fault_fallback_charge`).
    pub(crate) charge_fallbacks: u64,
    /// How often this process's memory cgroup has been at its limit.
    pub(crate) own_limit_hits: Option<u64>,
}

impl Counters {
    /// Reads them now; `None` if `/proc/vmstat` does not have them.
    pub fn read(root: &Path) -> Option<Self> {
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

    fn settings(root: &Path) -> Settings {
        Settings::read(root, &root.join("proc/7"))
    }

    #[test]
    fn a_process_that_is_switched_off_has_huge_pages_where_its_switch_leaves_them() {
        let allows = |switch: ProcessSwitch| [false, true].map(|advised| switch.allows(advised));
        assert_eq!(allows(ProcessSwitch::Open), [true, true]);
        assert_eq!(allows(ProcessSwitch::ExceptAdvised), [false, true]);
        assert_eq!(allows(ProcessSwitch::Closed), [false, false]);
    }

    #[test]
    fn settings_for_one_size_stand_above_the_whole() {
        let dir = tempfile::tempdir().expect("tempdir");
        let root = dir.path();
        let anonymous = || HostRules::read(root).anonymous;
        write(root, "sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
        assert_eq!(anonymous(), Some((Rule::Advised, Switch::Enabled)));
        let size = "sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled";
        write(root, size, "always [inherit] madvise never\n");
        assert_eq!(anonymous(), Some((Rule::Advised, Switch::Enabled)));
        write(root, size, "always inherit madvise [never]\n");
        assert_eq!(anonymous(), Some((Rule::Never, Switch::SizeEnabled)));
        assert_eq!(HostRules::read(root).shared, None, "not there is not never");
        write(
            root,
            "sys/kernel/mm/transparent_hugepage/shmem_enabled",
            "always within_size advise never deny [force]\n",
        );
        write(root, "sys/kernel/mm/transparent_hugepage/hugepages-2048kB/shmem_enabled", "always inherit [never]\n");
        assert_eq!(HostRules::read(root).shared, Some((Rule::Always, Switch::ShmemAboveMounts)));
        assert_eq!(HostRules::read(Path::new("/nowhere")), HostRules::default());
    }

    /// As measured on Linux 6.18: with `never` for all sizes and `always` for 2 MiB memfd gets huge pages and a segment does not.
    #[test]
    fn segments_follow_the_setting_for_all_sizes() {
        let dir = tempfile::tempdir().expect("tempdir");
        let root = dir.path();
        write(root, "sys/kernel/mm/transparent_hugepage/shmem_enabled", "always advise [never] deny force\n");
        write(root, "sys/kernel/mm/transparent_hugepage/hugepages-2048kB/shmem_enabled", "[always] inherit never\n");
        let rule = |path: &str| {
            let vma = Vma { device: "00:01".to_owned(), path: path.as_bytes().to_vec(), ..Vma::default() };
            settings(root).rule_of(&vma)
        };
        assert_eq!(rule("/memfd:x (deleted)"), Some((Rule::Always, Switch::SizeShmem)));
        assert_eq!(rule("/dev/zero (deleted)"), Some((Rule::Always, Switch::SizeShmem)));
        assert_eq!(rule("/SYSV00000000 (deleted)"), Some((Rule::Never, Switch::Shmem)));
    }

    #[test]
    fn a_mount_says_what_its_files_get() {
        let dir = tempfile::tempdir().expect("tempdir");
        let root = dir.path();
        let rule_on = |line: &str, device: &str| {
            write(root, "proc/7/mountinfo", line);
            let file = Vma { device: device.to_owned(), inode: 5, path: b"/mnt/file".to_vec(), ..Vma::default() };
            settings(root).rule_of(&file)
        };
        let line = "36 35 0:43 / /mnt rw,relatime shared:1 - tmpfs none rw,size=1024k,huge=within_size";
        assert_eq!(rule_on(line, "00:2b"), Some((Rule::WithinSize, Switch::Mount("/mnt".to_owned()))));
        assert_eq!(rule_on(line, "00:2c"), None);
        let plain = rule_on(r"36 35 0:43 / /two\040words rw - tmpfs none rw", "00:2b");
        assert_eq!(plain, Some((Rule::Never, Switch::Mount("/two words".to_owned()))));
        assert_eq!(rule_on("36 35 0:43 / /mnt rw - ext4 /dev/x rw", "00:2b"), None);
    }

    #[test]
    fn deny_is_above_mounts_and_defrag_says_who_may_compact() {
        let dir = tempfile::tempdir().expect("tempdir");
        let root = dir.path();
        write(root, "proc/7/mountinfo", "36 35 0:43 / /mnt rw - tmpfs none rw,huge=always\n");
        write(root, "sys/kernel/mm/transparent_hugepage/defrag", "always defer [defer+madvise] madvise never\n");
        let file = Vma { device: "00:2b".to_owned(), inode: 5, path: b"/mnt/file".to_vec(), ..Vma::default() };
        let open = settings(root);
        assert_eq!(open.rule_of(&file), Some((Rule::Always, Switch::Mount("/mnt".to_owned()))));
        assert_eq!((open.host.may_compact(true), open.host.may_compact(false)), (Some(true), Some(false)));
        let secret = Vma { device: "00:0f".to_owned(), path: b"/secretmem (deleted)".to_vec(), ..file.clone() };
        assert!(open.is_no_file_of_a_mount(&secret) && !open.is_no_file_of_a_mount(&file));
        write(root, "sys/kernel/mm/transparent_hugepage/shmem_enabled", "always advise never [deny] force\n");
        assert_eq!(settings(root).rule_of(&file), Some((Rule::Never, Switch::ShmemAboveMounts)));
    }

    #[test]
    fn how_huge_pages_were_asked_for_has_one_answer() {
        let dir = tempfile::tempdir().expect("tempdir");
        let root = dir.path();
        write(
            root,
            "proc/7/mountinfo",
            "36 35 0:43 / /mnt rw - tmpfs none rw,huge=within_size\n37 35 8:1 / / rw - ext4 /dev/sda1 rw\n\
             38 35 259:0 / /pmem rw - ext4 /dev/pmem0 rw,dax=always\n",
        );
        let enabled = |word: &str| write(root, "sys/kernel/mm/transparent_hugepage/enabled", word);
        let asked = |flags: &str, vma: &Vma| {
            settings(root).asked(&Vma { flags: flags.to_owned(), ..vma.clone() }).map(Asked::word)
        };
        let plain = Vma { kernel_page_bytes: 4096, ..Vma::default() };
        let of = |path: &str, device: &str, inode| Vma {
            path: path.as_bytes().to_vec(),
            device: device.to_owned(),
            inode,
            ..plain.clone()
        };
        enabled("always madvise [never]\n");
        assert_eq!(asked("rd wr hg", &plain), Some("madvise"));
        assert_eq!(asked("rd ht", &plain), Some("hugetlb"));
        enabled("always [madvise] never\n");
        assert_eq!(asked("rd wr", &plain), None);
        enabled("[always] madvise never\n");
        assert_eq!(asked("rd wr", &plain), Some("always"));
        assert_eq!(asked("rd wr nh", &plain), None);
        assert_eq!(asked("rd ex", &of("[vdso]", "00:00", 0)), None);
        assert_eq!(asked("rd wr", &of("[heap]", "00:00", 0)), Some("always"));
        assert_eq!(asked("rd wr", &of("[anon:arena]", "00:00", 0)), Some("always"));
        assert_eq!(asked("rd", &of("/lib/x", "08:01", 9)), None, "files of a disk have no such setting");
        assert_eq!(asked("rd", &of("/mnt/x", "00:2b", 9)), Some("mount"));
        let direct = of("/pmem/x", "103:00", 9);
        assert_eq!((asked("rd hg", &direct), asked("rd nh", &direct)), (Some("dax"), None));
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
