//! `program.changed`: Another build of the program, or of one of its libraries, does more work of its own.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::lever::{Lever, Worse};
use crate::rules::quantity::OWN_CODE;

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "program.changed",
    doing: "in code of its own",
    signs: &[OWN_CODE],
    part: Part::All,
    spent: Spent::Anyhow,
    levers: &[
        Lever { pattern: "program.build_id", worse: Worse::AnotherBuild },
        Lever { pattern: "program.<path>.build_id", worse: Worse::AnotherBuild },
    ],
    needs_lever: NeedsLever::Always,
    refuters: &[],
    yields_to: &[],
    remedies: &[Remedy {
        reach: Reach::Process,
        text: "look at the functions that take more: the profile of the comparison lists them",
        command: "pagelab compare --json BASE TEST",
    }],
};
