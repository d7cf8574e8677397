//! `dax.small_pages`: Faults on DAX files fall back to base pages.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy, Spent};
use crate::rules::evidence::DAX_PAGE;
use crate::rules::finding::Reach;
use crate::rules::lever::{Lever, Worse};
use crate::rules::quantity::{Quantity, rises};

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "dax.small_pages",
    doing: "in faults on DAX files",
    signs: &[rises("faults that mapped one base page of a DAX file", "", Quantity::Faults(DAX_PAGE), 1.2)],
    part: Part::MoreOf(Quantity::Faults(DAX_PAGE)),
    spent: Spent::Anyhow,
    levers: &[Lever { pattern: "mount.<mountpoint>.options", worse: Worse::Any }],
    needs_lever: NeedsLever::Never,
    refuters: &[],
    yields_to: &[],
    remedies: &[
        Remedy {
            reach: Reach::File,
            text: "find out which of the conditions does not hold",
            command: "pagelab doctor FILE",
        },
        Remedy {
            reach: Reach::Mapping,
            text: "let the mapping begin where a huge page can",
            command: "mmap(aligned_to_2M, length, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE | MAP_SYNC, fd, 0);",
        },
    ],
};
