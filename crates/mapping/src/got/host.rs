//! What of the host decides about huge pages: settings, the process's own switch, counters, mount options, the frames' flags.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::scan::ENTRY_FRAME;
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
#[derive(Debug, Clone, Default)]
pub(super) struct Settings {
    /// `/proc/PID/mountinfo`.
    mounts: String,
    /// Of anonymous memory.
    pub(super) anonymous: Option<Rule>,
    /// Of shared memory that has no mount of its own: memfd, MAP_SHARED|MAP_ANONYMOUS, SysV segments.
    pub(super) shared: Option<Rule>,
    /// Whether `prctl(PR_SET_THP_DISABLE)` holds for the process.
    pub(super) disabled_for_process: bool,
    /// `/proc/PID/status`; empty if it cannot be read.
    pub(super) status: String,
}

impl Settings {
    /// Reads them below `root` (`/` for this host), for the process whose folder in `/proc` is `folder`. What cannot be read is
    /// `None`.
    pub(super) fn read(root: &Path, folder: &Path) -> Self {
        let word = |name: &str| chosen(&fs::read_to_string(root.join(THP).join(name)).ok()?);
        let combined = |whole: &str, size: &str| match word(size).as_deref() {
            // Kernels before 6.8 know no settings for each size.
            None | Some("inherit") => word(whole).as_deref().and_then(rule),
            Some(own) => rule(own),
        };
        let status = fs::read_to_string(folder.join("status")).unwrap_or_default();
        Self {
            mounts: fs::read_to_string(folder.join("mountinfo")).unwrap_or_default(),
            anonymous: combined("enabled", "hugepages-2048kB/enabled"),
            // `force` and `deny` of shmem_enabled are above the settings for each size.
            shared: match word("shmem_enabled").as_deref() {
                Some("force") => Some(Rule::Always),
                Some("deny") => Some(Rule::Never),
                _ => combined("shmem_enabled", "hugepages-2048kB/shmem_enabled"),
            },
            disabled_for_process: is_disabled(&status),
            status,
        }
    }

    /// The rule of the file under `vma`: the `huge=` of a tmpfs mount, or that of memory shared without one; `None` for files of
    /// other kinds, and where it cannot be told.
    pub(super) fn of_file(&self, vma: &Vma) -> Option<Rule> {
        if ["/memfd:", "/dev/zero", "/SYSV"].iter().any(|name| vma.path.starts_with(name))
            && vma.device.starts_with("00:")
        {
            return self.shared;
        }
        if !vma.is_file() {
            return None;
        }
        let device = mount_device(&vma.device)?;
        self.mounts.lines().find_map(|line| tmpfs_rule(line, &device))
    }
}

/// Whether transparent huge pages are off for the process (`THP_enabled` of its status, Linux 5.0).
fn is_disabled(status: &str) -> bool {
    status.lines().any(|line| line.strip_prefix("THP_enabled:").is_some_and(|value| value.trim() == "0"))
}

/// `1:2b` as smaps prints a device, in hexadecimal, to `1:43` as mountinfo does.
fn mount_device(smaps: &str) -> Option<String> {
    let (major, minor) = smaps.split_once(':')?;
    Some(format!("{}:{}", u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?))
}

/// The rule of a tmpfs mount of this device: `36 35 0:43 / /mnt rw - tmpfs name rw,huge=always`. Without the option it is never.
fn tmpfs_rule(line: &str, device: &str) -> Option<Rule> {
    let (before, after) = line.split_once(" - ")?;
    if before.split_ascii_whitespace().nth(2)? != device {
        return None;
    }
    let mut words = after.split_ascii_whitespace();
    if words.next()? != "tmpfs" {
        return None;
    }
    let options = words.nth(1)?;
    Some(options.split(',').find_map(|option| rule(option.strip_prefix("huge=")?)).unwrap_or(Rule::Never))
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
            own_limit_hits: limit_hits(root),
        })
    }
}

/// `memory.failcnt` (v1) or `max` of `memory.events` (v2) of this process's memory cgroup.
fn limit_hits(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?.trim_start_matches('/'));
        if controllers.split(',').any(|name| name == "memory") {
            let file = root.join("sys/fs/cgroup/memory").join(path).join("memory.failcnt");
            return fs::read_to_string(file).ok()?.trim().parse().ok();
        }
        if controllers.is_empty()
            && let Ok(events) = fs::read_to_string(root.join("sys/fs/cgroup").join(path).join("memory.events"))
        {
            return events.lines().find_map(|line| line.strip_prefix("max ")?.trim().parse().ok());
        }
    }
    None
}

/// Flags of frames (include/uapi/linux/kernel-page-flags.h), for those who may see frame numbers.
#[derive(Debug)]
pub(super) struct Frames {
    flags: File,
}

const FLAG_THP: u64 = 1 << 22;

impl Frames {
    /// Opens `/proc/kpageflags`; `None` without the right to it.
    pub(super) fn open(root: &Path) -> Option<Self> {
        Some(Self { flags: File::open(root.join("proc/kpageflags")).ok()? })
    }

    /// Whether the frame of a pagemap entry belongs to a transparent huge page, and its number. `None` where that is hidden.
    pub(super) fn huge_frame(&self, entry: u64) -> Option<(u64, bool)> {
        let frame = entry & ENTRY_FRAME;
        if frame == 0 {
            return None;
        }
        let mut word = [0_u8; 8];
        self.flags.read_exact_at(&mut word, frame * 8).ok()?;
        Some((frame, u64::from_ne_bytes(word) & FLAG_THP != 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().expect("parent")).expect("mkdir");
        fs::write(path, text).expect("write");
    }

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
