//! The reasons why a slot has smaller pages than were asked for: one word each, words for people, and the command that mends it.

use std::fmt;

use pagelab_vocab::terminal::shell_word;
use pagelab_vocab::units::format_size;

use crate::memory::GroupLimit;

/// Settings that decide which memory gets transparent huge pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Switch {
    /// For anonymous memory.
    Enabled,
    /// For anonymous memory, for pages of 2 MiB alone.
    SizeEnabled,
    /// For shared memory without a mount: memfd, MAP_SHARED|MAP_ANONYMOUS, SysV segments.
    Shmem,
    /// The same for pages of 2 MiB alone, which segments do not follow.
    SizeShmem,
    /// `deny` or `force` for shared memory, which holds for files of all tmpfs mounts, too.
    ShmemAboveMounts,
    /// The option `huge=` of the tmpfs that is mounted here.
    Mount(String),
}

impl Switch {
    /// The file under `/sys/kernel/mm/transparent_hugepage`; `None` for a mount's option.
    pub fn file(&self) -> Option<&'static str> {
        match self {
            Self::Enabled => Some("enabled"),
            Self::SizeEnabled => Some("hugepages-2048kB/enabled"),
            Self::Shmem | Self::ShmemAboveMounts => Some("shmem_enabled"),
            Self::SizeShmem => Some("hugepages-2048kB/shmem_enabled"),
            Self::Mount(_) => None,
        }
    }

    /// Where it stands.
    fn place(&self) -> String {
        match (self, self.file()) {
            (Self::Mount(point), _) => format!("huge= of the mount {point}"),
            (_, file) => format!("{THP}/{}", file.unwrap_or_default()),
        }
    }

    /// The command that sets it so that advice is enough, or so that none is needed.
    fn command(&self, everywhere: bool) -> String {
        let word = match (self, everywhere) {
            (Self::Mount(point), _) => return format!("sudo mount -o remount,huge=always {}", shell_word(point)),
            (_, true) => "always",
            (Self::Enabled | Self::SizeEnabled, false) => "madvise",
            (_, false) => "advise",
        };
        format!("echo {word} | sudo tee {}", self.place())
    }
}

const THP: &str = "/sys/kernel/mm/transparent_hugepage";

/// Why a slot has less than was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// Nothing of the slot is in memory: it has not been touched, or was given back.
    NotTouched,
    /// The 2 MiB do not lie inside the mapping.
    LeavesMapping,
    /// A part of the 2 MiB has been unmapped.
    SplitByUnmap,
    /// The 2 MiB hold mappings of different protection (mprotect).
    SplitByProtection,
    /// The 2 MiB hold mappings that differ in something else (advice, file, lock).
    SplitMapping,
    /// Address and file offset differ modulo 2 MiB.
    NotAligned,
    /// Transparent huge pages are set to never, all or those of 2 MiB.
    ThpNever(Switch),
    /// Transparent huge pages come only where madvise(MADV_HUGEPAGE) asks, which it did not here.
    ThpOnlyByAdvice(Switch),
    /// The kernel gave larger pages than 4 KiB, of sizes that are allowed where 2 MiB are not.
    SmallerSize(Switch),
    /// madvise(MADV_NOHUGEPAGE) holds here.
    AdvisedAgainst,
    /// prctl(PR_SET_THP_DISABLE) holds for this process.
    DisabledForProcess,
    /// prctl(PR_SET_THP_DISABLE) with PR_THP_DISABLE_EXCEPT_ADVISED holds for this process, and nobody advised here.
    DisabledExceptAdvised,
    /// The file system is mounted with `huge=never`, or memory of this kind is.
    FileSystemNever(Switch),
    /// With `huge=within_size`: the file ends inside the 2 MiB.
    BeyondFileSize(Switch),
    /// The kernel says (smaps, `THPeligible: 0`) that this mapping cannot have huge pages.
    NotEligible,
    /// userfaultfd brings the pages in, one by one.
    Userfaultfd,
    /// The slot had 4 KiB entries when huge pages became possible; a fault fills an empty slot only.
    EarlierBaseEntries {
        /// Blocks of 2 MiB that are free now, where this is concluded from them: there is no want of huge pages today. `None` where it
        /// was seen, from the counters since the mapping was made or from a file's huge page under 4 KiB entries.
        free_blocks: Option<u64>,
    },
    /// As [`Self::EarlierBaseEntries`], and khugepaged may not gather them.
    KhugepagedLimit {
        /// The file under `khugepaged/` that forbids it.
        file: &'static str,
        /// Its value, in base pages.
        limit: u64,
    },
    /// The file's pages in memory are small; a mapping shows them as they are.
    FileInBasePages,
    /// Pages of a private file mapping have been written, which copies them one by one.
    CopiedOnWrite,
    /// After fork a page was written: the huge page stayed with the other process as a whole, this process has a copy of a part.
    CopiedAfterFork,
    /// The memory is still one huge page, but entered as 4 KiB pages (after mprotect, munmap and the like on a part of it).
    EntriesSplit,
    /// A part of the huge page was given back, or is another page now.
    PartGivenBack,
    /// Huge pages were moved (mremap) to addresses that differ from theirs modulo 2 MiB.
    Moved,
    /// Pages are, or were, on swap; they come back one by one.
    Swapped,
    /// Pages were merged with others that hold the same (KSM).
    Merged,
    /// The memory cgroup had no room for a huge page.
    CgroupLimit {
        /// The group that is at its limit; `None` if it is not known which.
        group: Option<GroupLimit>,
    },
    /// Memory is fragmented: no huge page could be had although memory might be compacted for it.
    Fragmented {
        /// Blocks of 2 MiB that are free now.
        free_blocks: u64,
        /// MiB that are free now.
        free_mib: u64,
    },
    /// No block of 2 MiB lies ready, and `defrag` does not let a fault here compact memory to make one.
    DefragSetting {
        /// The word of the setting.
        defrag: String,
        /// Whether the mapping is advised.
        advised: bool,
        /// Blocks of 2 MiB that are free now.
        free_blocks: u64,
    },
    /// The hugetlb pool had nothing left, and ordinary memory was allowed instead.
    Pool {
        /// What the pool said.
        error: String,
    },
    /// A hugetlb mapping without a reservation: the pool has nothing left.
    PoolEmpty {
        /// Bytes of one page.
        page_bytes: u64,
        /// Pages of the pool.
        total_pages: u64,
        /// Pages that the mapping has room for.
        mapping_pages: u64,
    },
    /// A hugetlb mapping: a control group is at its limit.
    HugetlbGroupLimit {
        /// The file with the limit.
        file: String,
        /// The limit.
        limit_bytes: u64,
        /// Bytes of one page.
        page_bytes: u64,
    },
    /// A hugetlb mapping without a reservation: its mount has used up its size.
    HugetlbMountFull {
        /// Where it is mounted.
        mount: String,
        /// Its size.
        size_bytes: u64,
        /// Bytes of one page.
        page_bytes: u64,
    },
    /// Not visible to this process.
    Unknown {
        /// What is known.
        why: String,
    },
}

impl Reason {
    /// The reason as one word, which does not change between versions.
    pub fn word(&self) -> &'static str {
        match self {
            Self::NotTouched => "not_touched",
            Self::LeavesMapping => "leaves_mapping",
            Self::SplitByUnmap => "split_by_unmap",
            Self::SplitByProtection => "split_by_protection",
            Self::SplitMapping => "split_mapping",
            Self::NotAligned => "not_aligned",
            Self::ThpNever(Switch::SizeEnabled) => "thp_size_never",
            Self::ThpNever(_) => "thp_never",
            Self::ThpOnlyByAdvice(_) => "thp_only_by_advice",
            Self::SmallerSize(_) => "smaller_size",
            Self::AdvisedAgainst => "advised_against",
            Self::DisabledForProcess => "disabled_for_process",
            Self::DisabledExceptAdvised => "disabled_except_advised",
            Self::FileSystemNever(Switch::Mount(_)) => "file_system_never",
            Self::FileSystemNever(Switch::ShmemAboveMounts) => "shmem_denied",
            Self::FileSystemNever(_) => "shmem_never",
            Self::BeyondFileSize(_) => "beyond_file_size",
            Self::NotEligible => "not_eligible",
            Self::Userfaultfd => "userfaultfd",
            Self::EarlierBaseEntries { .. } => "earlier_base_entries",
            Self::KhugepagedLimit { .. } => "khugepaged_limit",
            Self::FileInBasePages => "file_in_base_pages",
            Self::CopiedOnWrite => "copied_on_write",
            Self::CopiedAfterFork => "copied_after_fork",
            Self::EntriesSplit => "entries_split",
            Self::PartGivenBack => "part_given_back",
            Self::Moved => "moved",
            Self::Swapped => "swapped",
            Self::Merged => "merged",
            Self::CgroupLimit { .. } => "cgroup_limit",
            Self::Fragmented { .. } => "fragmented",
            Self::DefragSetting { .. } => "defrag_setting",
            Self::Pool { .. } => "pool",
            Self::PoolEmpty { .. } => "pool_empty",
            Self::HugetlbGroupLimit { .. } => "hugetlb_cgroup_limit",
            Self::HugetlbMountFull { .. } => "hugetlb_mount_full",
            Self::Unknown { .. } => "unknown",
        }
    }

    /// Whether the memory is not there because a touch fails, not because nobody touched it.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::PoolEmpty { .. } | Self::HugetlbGroupLimit { .. } | Self::HugetlbMountFull { .. })
    }

    /// The command that mends it; none where no command does: there the program has to do something else, as the words say.
    pub fn fix(&self) -> Option<String> {
        Some(match self {
            Self::ThpNever(switch) | Self::FileSystemNever(switch) => switch.command(false),
            Self::ThpOnlyByAdvice(switch) | Self::BeyondFileSize(switch) | Self::SmallerSize(switch) => {
                switch.command(true)
            }
            Self::KhugepagedLimit { file, .. } => format!("echo 511 | sudo tee {THP}/khugepaged/{file}"),
            Self::Merged => "echo 2 | sudo tee /sys/kernel/mm/ksm/run".to_owned(),
            Self::CgroupLimit { group: Some(group) } => {
                format!("echo {} | sudo tee {}", group.limit_bytes.saturating_mul(2), shell_word(&group.file))
            }
            Self::Fragmented { .. } => "echo 1 | sudo tee /proc/sys/vm/compact_memory".to_owned(),
            Self::DefragSetting { advised: true, .. } => format!("echo madvise | sudo tee {THP}/defrag"),
            Self::DefragSetting { .. } => format!("echo always | sudo tee {THP}/defrag"),
            Self::Pool { .. } => "sudo pagelab hugepages set 2M N".to_owned(),
            Self::PoolEmpty { page_bytes, total_pages, mapping_pages } => {
                format!("sudo pagelab hugepages set {} {}", format_size(*page_bytes), total_pages + mapping_pages)
            }
            Self::HugetlbGroupLimit { file, limit_bytes, page_bytes } => {
                let needed = limit_bytes.saturating_mul(2).max(*page_bytes);
                format!("echo {needed} | sudo tee {}", shell_word(file))
            }
            Self::HugetlbMountFull { mount, size_bytes, page_bytes } => format!(
                // A remount with another size succeeds and changes nothing (hugetlbfs has no reconfigure).
                "sudo pagelab hugepages mounts create {} --mkdir --pagesize {} --size {}",
                shell_word(&format!("{mount}-larger")),
                format_size(*page_bytes),
                size_bytes.saturating_mul(2)
            ),
            _ => return None,
        })
    }
}

impl fmt::Display for Reason {
    /// What stands in the way; without the command, which is [`Reason::fix`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self {
            Self::NotTouched => "not touched",
            Self::LeavesMapping => "the 2 MiB leave the mapping",
            Self::SplitByUnmap => "a part of the 2 MiB is unmapped",
            Self::SplitByProtection => "split by mprotect",
            Self::SplitMapping => "split into mappings that differ",
            Self::NotAligned => "address and file offset differ modulo 2 MiB",
            Self::AdvisedAgainst => "madvise(MADV_NOHUGEPAGE)",
            Self::DisabledForProcess => "prctl(PR_SET_THP_DISABLE)",
            Self::DisabledExceptAdvised => {
                "prctl(PR_SET_THP_DISABLE, ..., PR_THP_DISABLE_EXCEPT_ADVISED); use madvise(MADV_HUGEPAGE)"
            }
            Self::NotEligible => "the kernel gives this mapping no huge pages (THPeligible: 0)",
            Self::Userfaultfd => "userfaultfd brings the pages in, one by one",
            Self::EarlierBaseEntries { free_blocks: None } => {
                "the slot had 4 KiB entries before; madvise(MADV_COLLAPSE) gathers them"
            }
            Self::FileInBasePages => "the file lies in memory in small pages",
            Self::CopiedOnWrite => "pages of a private file mapping were written",
            Self::CopiedAfterFork => "copy on write after fork",
            Self::EntriesSplit => "one huge page entered as 4 KiB pages; madvise(MADV_COLLAPSE) mends it",
            Self::PartGivenBack => {
                "a part of the huge page was given back (MADV_DONTNEED, MADV_FREE), or copied after a fork whose other process has \
                 ended; madvise(MADV_COLLAPSE) mends it"
            }
            Self::Moved => "moved by mremap to an address that differs modulo 2 MiB; madvise(MADV_COLLAPSE) mends it",
            Self::Swapped => "pages were on swap and come back one by one; madvise(MADV_COLLAPSE) gathers them",
            Self::Merged => "pages were merged with others that hold the same (KSM)",
            other => return other.with_values(f),
        };
        f.write_str(words)
    }
}

impl Reason {
    /// The words of reasons that carry values.
    fn with_values(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ThpNever(switch) => write!(f, "transparent huge pages are off ({} is never)", switch.place()),
            Self::ThpOnlyByAdvice(switch) => {
                write!(f, "huge pages need advice ({}); use madvise(MADV_HUGEPAGE)", switch.place())
            }
            Self::SmallerSize(switch) => write!(
                f,
                "the kernel gave larger pages than 4 KiB, of sizes that are allowed where 2 MiB are not ({})",
                switch.place()
            ),
            Self::FileSystemNever(Switch::ShmemAboveMounts) => {
                write!(f, "{} is deny, which holds for all tmpfs", Switch::Shmem.place())
            }
            Self::FileSystemNever(switch) => write!(f, "the file system gives no huge pages ({})", switch.place()),
            Self::BeyondFileSize(switch) => {
                write!(f, "the file ends inside the 2 MiB (within_size, {})", switch.place())
            }
            Self::EarlierBaseEntries { free_blocks } => write!(
                f,
                "the slot had 4 KiB entries before: from a time without advice, or without free huge pages, of which there are {} \
                 now; madvise(MADV_COLLAPSE) gathers them",
                free_blocks.unwrap_or_default()
            ),
            Self::KhugepagedLimit { file, limit } => {
                let which = match *file {
                    "max_ptes_none" => "are missing",
                    "max_ptes_swap" => "are on swap",
                    _ => "are shared",
                };
                write!(
                    f,
                    "the slot had 4 KiB entries before, and khugepaged may not gather them: more than {limit} of its pages {which} \
                     ({file}); madvise(MADV_COLLAPSE) gathers them all the same"
                )
            }
            Self::CgroupLimit { group } => {
                f.write_str("the memory cgroup had no room for a huge page")?;
                let Some(GroupLimit { file, limit_bytes, used_bytes }) = group else { return Ok(()) };
                write!(f, ": now {used_bytes} bytes of {limit_bytes} are in use ({file})")
            }
            Self::Fragmented { free_blocks, free_mib } => write!(
                f,
                "memory is fragmented: now {free_blocks} blocks of 2 MiB are free, of {free_mib} MiB in all, although it may be \
                 compacted for this mapping"
            ),
            Self::DefragSetting { defrag, advised, free_blocks } => write!(
                f,
                "no huge page lay ready (now {free_blocks} blocks of 2 MiB are free), and defrag={defrag} lets no fault {} compact \
                 memory",
                if *advised { "here" } else { "without advice" }
            ),
            Self::Pool { error } => write!(f, "ordinary memory instead of the pool: {error}"),
            Self::PoolEmpty { page_bytes, total_pages, .. } => write!(
                f,
                "not in memory, and a touch fails now: the pool of {} pages has nothing left of {total_pages} (MAP_NORESERVE)",
                format_size(*page_bytes)
            ),
            Self::HugetlbGroupLimit { file, limit_bytes, .. } => {
                write!(f, "not in memory, and a touch fails now: control group limit {file}: {limit_bytes} bytes")
            }
            Self::HugetlbMountFull { mount, size_bytes, .. } => write!(
                f,
                "not in memory, and a touch fails now: the mount {mount} has used all of its {size_bytes} bytes (MAP_NORESERVE); a \
                 larger mount beside it helps, its own size stays"
            ),
            Self::Unknown { why } => write!(f, "unknown: {why}"),
            other => f.write_str(other.word()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_name_the_setting_that_stands_in_the_way() {
        let fix = |reason: Reason| reason.fix().expect("a command");
        let thp = "/sys/kernel/mm/transparent_hugepage";
        assert_eq!(fix(Reason::ThpNever(Switch::Enabled)), format!("echo madvise | sudo tee {thp}/enabled"));
        let size = Reason::ThpOnlyByAdvice(Switch::SizeEnabled);
        assert_eq!(fix(size), format!("echo always | sudo tee {thp}/hugepages-2048kB/enabled"));
        let denied = Reason::FileSystemNever(Switch::ShmemAboveMounts);
        assert_eq!(denied.word(), "shmem_denied");
        assert_eq!(fix(denied), format!("echo advise | sudo tee {thp}/shmem_enabled"));
        let mount = Reason::BeyondFileSize(Switch::Mount("/it's here".to_owned()));
        assert_eq!(fix(mount), r"sudo mount -o remount,huge=always '/it'\''s here'");
        let pool = Reason::PoolEmpty { page_bytes: 1 << 30, total_pages: 3, mapping_pages: 2 };
        assert_eq!(fix(pool), "sudo pagelab hugepages set 1G 5");
        let small = Reason::PoolEmpty { page_bytes: 64 << 10, total_pages: 3, mapping_pages: 2 };
        assert_eq!(fix(small), "sudo pagelab hugepages set 64K 5", "a pool of arm64");
        let full = Reason::HugetlbMountFull { mount: "/h".to_owned(), size_bytes: 6 << 20, page_bytes: 2 << 20 };
        assert_eq!(fix(full), "sudo pagelab hugepages mounts create /h-larger --mkdir --pagesize 2M --size 12582912");
        assert_eq!(Reason::AdvisedAgainst.fix(), None);
    }
}
