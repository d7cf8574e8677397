//! Real recorded cases as evidence alone (`tests/zoo/evidence/CAUSE.json`), asked again: as they are, with sides swapped, with each setting
//! turned round, and beside the causes that look alike. A change of a rule that loses what was once found on a real recording shows here.
//!
//! A file is made from a set whose cause is known, `base` and `test` below one folder:
//!
//! ```text
//! PAGELAB_KEEP=thp.disabled PAGELAB_KEEP_FROM=FOLDER cargo test --release -p pagelab-analysis --test kept_evidence -- --ignored keep
//! ```
//!
//! It is to be made again whenever the recorder changes what it records of it; [`of_today`] says when it is older than that.

#![allow(clippy::unwrap_used)]

mod compact;
mod file;
mod keep;
mod turned;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pagelab_analysis::rules::evidence::Evidence;
use pagelab_analysis::rules::{Confidence, Diagnosis, RuleOutcome, consider};
use pagelab_vocab::causes::causes;

use file::{Kept, MOST_BYTES};

/// Causes without kept evidence, and why.
const NOT_KEPT: &[(&str, &str)] = &[
    ("access.checked", "a rule since the eighth set"),
    ("block.queue_settings", "three runs a side take more than 16 KiB: their classes of mappings do"),
    ("cache.refaults", "not named first in its case of the eighth set, or not counted there"),
    ("call.dearer", "not named first in its case of the eighth set, or not counted there"),
    ("cgroup.memory_limit", "not named first in its case of the eighth set, or not counted there"),
    ("cpu.crowded", "not named first in its case of the eighth set, or not counted there"),
    ("cpu.frequency", "no case of the eighth set"),
    ("cpu.neighbour", "three runs a side take more than 16 KiB: their classes of mappings do"),
    ("data.compressed", "a rule since the eighth set"),
    ("dax.small_pages", "no case of the eighth set"),
    ("device.slower", "three runs a side take more than 16 KiB: their classes of mappings do"),
    ("faultaround.reduced", "not named first in its case of the eighth set, or not counted there"),
    ("file.fragmented", "not named first in its case of the eighth set, or not counted there"),
    ("fork.copies", "three runs a side take more than 16 KiB: their classes of mappings do"),
    ("gc.more", "a rule since the eighth set"),
    ("io.direct", "not named first in its case of the eighth set, or not counted there"),
    ("io.smaller_requests", "three runs a side take more than 16 KiB: their classes of mappings do"),
    ("device.other", "a rule since the eighth set"),
    ("journal.full", "three runs a side take more than 16 KiB: their classes of mappings do"),
    ("ksm.separated", "three runs a side take more than 16 KiB: their classes of mappings do"),
    ("map.churn", "not named first in its case of the eighth set, or not counted there"),
    ("map.misaligned", "not named first in its case of the eighth set, or not counted there"),
    ("mount.changed", "not named first in its case of the eighth set, or not counted there"),
    ("numa.balancing", "no case of the eighth set"),
    ("numa.remote", "no case of the eighth set"),
    ("observed.by_others", "a rule since the eighth set"),
    ("overlay.copy_up", "a rule since the eighth set"),
    ("program.changed", "not named first in its case of the eighth set, or not counted there"),
    ("program.starts", "not named first in its case of the eighth set, or not counted there"),
    ("readahead.lost", "three runs a side take more than 16 KiB: their classes of mappings do"),
    ("reclaim.direct", "no case of the eighth set"),
    ("shmem.small_pages", "three runs a side take more than 16 KiB: their classes of mappings do"),
    ("sync.dearer", "no case of the eighth set"),
    ("sync.more", "three runs a side take more than 16 KiB: their classes of mappings do"),
    ("thp.clearing", "a rule since the eighth set"),
    ("thp.compaction", "no case of the eighth set"),
    ("thp.fragmented", "no case of the eighth set"),
    ("write.partial", "three runs a side take more than 16 KiB: their classes of mappings do"),
    ("writeback.in_the_way", "not named first in its case of the eighth set, or not counted there"),
    ("zswap.traffic", "no case of the eighth set"),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/zoo/evidence")
}

fn all() -> Vec<Kept> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "json"));
    paths.sort();
    let kept: Vec<Kept> = paths.iter().map(|path| Kept::load(path).unwrap()).collect();
    assert!(!kept.is_empty(), "{}", folder().display());
    kept
}

/// Causes that are accused: named with more than `correlated`.
fn accused(diagnosis: &Diagnosis) -> Vec<&str> {
    let accused = diagnosis.findings.iter().filter(|finding| finding.confidence != Confidence::Correlated);
    accused.map(|finding| finding.cause.as_str()).collect()
}

/// What is wrong with a diagnosis of this evidence.
fn disagreement(kept: &Kept, evidence: &Evidence) -> Option<String> {
    let found = consider(evidence);
    let first = found.findings.first();
    if first.is_none_or(|first| first.cause != kept.cause) {
        let rule = found.considered.iter().find(|one| one.cause == kept.cause);
        return Some(format!("first is {:?}; the rule said {rule:?}", first.map(|first| &first.cause)));
    }
    let others: Vec<&str> = accused(&found).into_iter().filter(|cause| *cause != kept.cause).collect();
    if !others.is_empty() {
        return Some(format!("accused beside it: {others:?}"));
    }
    let confidence = first.map(|first| first.confidence);
    (confidence != Some(kept.confidence)).then(|| format!("found {confidence:?}, needed {:?}", kept.confidence))
}

fn assert_none(wrong: &[String]) {
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_case_has_its_cause() {
    let wrong: Vec<String> = all()
        .iter()
        .filter_map(|kept| Some(format!("{}: {}", kept.cause, disagreement(kept, &kept.evidence())?)))
        .collect();
    assert_none(&wrong);
}

/// The base is the slow side then: the same cause, of the other side.
#[test]
fn sides_can_be_swapped() {
    let mut wrong = Vec::new();
    for kept in all() {
        let (straight, swapped) = (kept.evidence(), turned::swapped(&kept.evidence()));
        let of = |evidence: &Evidence| consider(evidence).findings.first().map(|first| first.side);
        match (of(&straight), of(&swapped)) {
            (Some(one), Some(other)) if one == other.other() => {}
            (one, other) => wrong.push(format!("{}: {one:?}, swapped {other:?}", kept.cause)),
        }
        wrong.extend(disagreement(&kept, &swapped).map(|why| format!("{} swapped: {why}", kept.cause)));
    }
    assert_none(&wrong);
}

/// A setting that differs the other way round did not bring the cause about: it must not be named as what did.
#[test]
fn a_setting_that_is_turned_round_is_not_accused() {
    let mut wrong = Vec::new();
    for kept in all() {
        let evidence = kept.evidence();
        let found = consider(&evidence);
        let Some(setting) = found.findings.first().and_then(|first| first.setting.clone()) else { continue };
        // What a program asks for by a call is no setting that could be turned.
        if !kept.differing.iter().any(|change| change.key == setting.key) {
            continue;
        }
        let turned = consider(&turned::setting_turned(&evidence, &setting.key));
        let is_accused = turned.findings.iter().any(|finding| {
            let by_it = finding.setting.as_ref().is_some_and(|of| of.differs && of.key == setting.key);
            by_it && finding.confidence != Confidence::Correlated
        });
        if is_accused {
            wrong.push(kept.cause);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Causes that show in the same components have a reason not to hold.
#[test]
fn what_looks_alike_is_told_apart() {
    let mut wrong = Vec::new();
    for kept in all() {
        let own = pagelab_vocab::causes::cause(&kept.cause).unwrap();
        let shares = |other: &&pagelab_vocab::causes::CauseDef| {
            other.id != own.id && other.components.iter().any(|component| own.components.contains(component))
        };
        let found = consider(&kept.evidence());
        for other in causes().filter(shares) {
            let considered = found.considered.iter().find(|one| one.cause == other.id).unwrap();
            let holds = considered.outcome == RuleOutcome::Holds && accused(&found).contains(&other.id);
            if holds || considered.reasons.is_empty() && considered.outcome != RuleOutcome::Holds {
                wrong.push(format!("{}: {} {considered:?}", kept.cause, other.id));
            }
        }
    }
    assert_none(&wrong);
}

#[test]
fn each_cause_is_kept_or_has_a_reason() {
    let kept: BTreeSet<String> = all().into_iter().map(|kept| kept.cause).collect();
    let excused: BTreeSet<&str> = NOT_KEPT.iter().map(|(cause, _)| *cause).collect();
    for def in causes() {
        assert!(
            kept.contains(def.id) != excused.contains(def.id),
            "{}: needed one of a file in {} and a line in NOT_KEPT",
            def.id,
            folder().display()
        );
    }
    assert!(excused.iter().all(|cause| pagelab_vocab::causes::cause(cause).is_some()), "{excused:?}");
}

#[test]
fn of_today() {
    let mut wrong = Vec::new();
    for kept in all() {
        wrong.extend(kept.older_than_today().map(|why| format!("{}: {why}; make it again", kept.cause)));
        let bytes = std::fs::metadata(folder().join(format!("{}.json", kept.cause))).unwrap().len();
        if bytes > MOST_BYTES {
            wrong.push(format!("{}: found {bytes} bytes, needed at most {MOST_BYTES}", kept.cause));
        }
    }
    assert_none(&wrong);
}

#[test]
#[ignore = "writes a file of kept evidence; see the manual above"]
fn keep() {
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name}: see the manual"));
    let (cause, from) = (variable("PAGELAB_KEEP"), PathBuf::from(variable("PAGELAB_KEEP_FROM")));
    let kept = keep::of_set(&cause, &from);
    if let Some(why) = disagreement(&kept, &kept.evidence()) {
        panic!("{}: {why}", from.display());
    }
    kept.save(&folder().join(format!("{cause}.json"))).unwrap();
}
