//! `readahead.lost`: Reads reach the device in smaller pieces although the limit is the same.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Refuter, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::quantity::{MORE_DIRECT, Quantity, falls, rises};

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "readahead.lost",
    doing: "in reads of the device",
    signs: &[
        falls("bytes of a read request", "bytes", Quantity::Ratio(&["disk.read_bytes"], &["disk.reads"]), 0.85),
        rises("reads of the device", "", Quantity::Events(&["disk.reads"]), 1.15),
    ],
    part: Part::All,
    spent: Spent::Anyhow,
    levers: &[],
    needs_lever: NeedsLever::Never,
    refuters: &[Refuter { sign: MORE_DIRECT, means: "what goes past the page cache is never read ahead" }],
    yields_to: &[
        "readahead.reduced",
        "file.fragmented",
        "cgroup.memory_limit",
        "io.direct",
        "io.smaller_requests",
        "cache.refaults",
        "swap.traffic",
    ],
    remedies: &[
        Remedy {
            reach: Reach::File,
            text: "say that the file is read in sequence",
            // Advice on a mapping outweighs that on its file.
            command: "madvise(addr, length, MADV_SEQUENTIAL);   /* a mapping; where read(2) reads: posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL) */",
        },
        Remedy { reach: Reach::File, text: "fetch what will be read", command: "readahead(fd, offset, length);" },
        Remedy {
            reach: Reach::Process,
            text: "look at the pattern of the reads",
            command: "pagelab record -o again.rec --observe default,syscalls -- COMMAND; pagelab show again.rec io",
        },
    ],
};
