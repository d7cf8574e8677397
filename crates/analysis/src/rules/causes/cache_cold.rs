//! `cache.cold`: Files are read from the device that were in the page cache on the other side.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Refuter, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::lever::{Lever, Worse};
use crate::rules::quantity::{Quantity, Way, rises};
use pagelab_vocab::syscalls::Purpose;

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "cache.cold",
    doing: "reading files from the device",
    signs: &[rises("bytes read from the device", "bytes", Quantity::Events(&["disk.read_bytes"]), 1.2)],
    part: Part::All,
    spent: Spent::InIfTold(Way::NotAskingFor(Purpose::Writing)),
    levers: &[Lever { pattern: "sysctl.vm.drop_caches", worse: Worse::Any }],
    needs_lever: NeedsLever::Never,
    refuters: &[
        Refuter {
            sign: rises("bytes that the program read", "bytes", Quantity::Events(&["target.io.rchar"]), 1.5),
            means: "the program reads more",
        },
        Refuter {
            sign: rises(
                "pages of files dropped and read again",
                "",
                Quantity::Events(&["vmstat.workingset_refault_file"]),
                1.5,
            ),
            means: "the cache is too small",
        },
    ],
    yields_to: &["cgroup.memory_limit", "cache.refaults", "readahead.reduced", "swap.traffic", "io.direct"],
    remedies: &[
        Remedy {
            reach: Reach::File,
            text: "read the file before it is needed",
            command: "vmtouch -t FILE   # or: cat FILE > /dev/null",
        },
        Remedy {
            reach: Reach::Process,
            text: "do not drop what is read again: look for POSIX_FADV_DONTNEED",
            command: "pagelab record --observe syscalls:fadvise64 -- COMMAND",
        },
    ],
};
