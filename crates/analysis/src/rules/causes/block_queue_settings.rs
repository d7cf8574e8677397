//! `block.queue_settings`: A setting of the block queue holds requests back.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part};
use crate::rules::lever::{Lever, Worse};

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "block.queue_settings",
    doing: "handing requests to the device and waiting for them",
    signs: &[],
    part: Part::All,
    levers: &[
        Lever { pattern: "block.<dev>.nr_requests", worse: Worse::Lower },
        Lever { pattern: "block.<dev>.scheduler", worse: Worse::Any },
        Lever { pattern: "block.<dev>.nomerges", worse: Worse::Any },
        Lever { pattern: "block.<dev>.iosched.<name>", worse: Worse::Any },
        Lever { pattern: "block.<dev>.rq_affinity", worse: Worse::Any },
        Lever { pattern: "block.<dev>.io_poll", worse: Worse::Any },
    ],
    needs_lever: NeedsLever::Always,
    refuters: &[],
    yields_to: &["readahead.reduced"],
    remedies: &[],
};
