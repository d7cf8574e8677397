//! `io.direct`: Direct I/O takes the place of the page cache.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::quantity::{Quantity, falls, rises};

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "io.direct",
    doing: "in direct I/O",
    signs: &[
        rises("time in direct I/O", "ns", Quantity::Time(&["off.direct_io", "run.file.direct"]), 2.0),
        falls(
            "time in copies to and from the page cache",
            "ns",
            Quantity::Time(&["run.file.read", "run.file.write", "off.read"]),
            0.85,
        ),
    ],
    part: Part::All,
    spent: Spent::Anyhow,
    levers: &[],
    needs_lever: NeedsLever::Never,
    refuters: &[],
    yields_to: &[],
    remedies: &[Remedy {
        reach: Reach::File,
        text: "let the page cache serve the file",
        command: "fcntl(fd, F_SETFL, flags & ~O_DIRECT);",
    }],
};
