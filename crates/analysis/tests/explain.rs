//! One recording alone, and the picture of its faults.

#![allow(clippy::unwrap_used)]

mod rules_sim;

use pagelab_analysis::explain::{Explanation, explain};
use pagelab_analysis::faultmap::of_comparison;
use pagelab_analysis::rules::{Confidence, RULES};
use pagelab_views::faultmap::{PointKind, of_dir};
use rules_sim::{HUGE, PAGE, PIECES, World, compare_in, play};

fn alone(world: &World) -> Explanation {
    let dir = tempfile::tempdir().unwrap();
    explain(&play(world, &dir.path().join("run"), 1, 1, 1)).unwrap()
}

fn causes(explanation: &Explanation) -> Vec<&str> {
    explanation.findings.iter().map(|finding| finding.cause.as_str()).collect()
}

#[test]
fn each_cause_shows_alone_and_with_less_confidence() {
    let off = World { thp: "madvise", ..World::default() };
    let shifted = World { shift: PAGE, ..World::default() };
    let pool = World { thp: "madvise", pool: Some(4), ..World::default() };
    for (world, cause) in [(off, "thp.disabled"), (shifted, "map.misaligned"), (pool, "hugetlb.pool_exhausted")] {
        let explanation = alone(&world);
        assert_eq!(causes(&explanation), [cause], "{:#?}", explanation.considered);
        let finding = &explanation.findings[0];
        assert_eq!(finding.confidence, Confidence::Correlated);
        assert!(finding.not_looked_at.iter().any(|text| text.contains("nothing to compare with")));
        assert!(finding.summary.starts_with("this recording alone"));
        assert_eq!(finding.effect.as_ref().unwrap().of, "time");
        let said =
            format!("{} {:?} {:?} {:?}", finding.summary, finding.evidence, finding.refuted, finding.not_looked_at);
        let considered = explanation.considered.iter().flat_map(|one| one.reasons.iter().cloned());
        for text in considered.chain([said]) {
            // Base pages are the kernel's word, not a side's.
            let text = text.replace("base page", "small page");
            let mut words = text.split(|letter: char| !letter.is_alphanumeric());
            assert!(words.all(|word| word != "test" && word != "base"), "a lone recording is no side: {text}");
        }
    }
}

#[test]
fn a_healthy_recording_has_no_finding() {
    let explanation = alone(&World { file_bytes: 8 << 20, ..World::default() });
    assert!(explanation.findings.is_empty(), "{:?}", causes(&explanation));
    assert_eq!(explanation.considered.len(), RULES.len());
    let line = &explanation.mappings[0];
    assert_eq!((line.mappings, line.whole_slots, line.whole_slots_few_faults), (PIECES, PIECES, PIECES));
    assert_eq!(line.faults_outside_whole_slots, 0);
}

#[test]
fn small_pieces_alone_are_nobodys_fault() {
    let small = World { thp: "madvise", pieces: 4000, piece_bytes: PAGE, stride: 2 * PAGE, ..World::default() };
    let explanation = alone(&small);
    assert!(explanation.findings.is_empty(), "{:?}", causes(&explanation));
}

#[test]
fn descending_use_is_seen_as_such() {
    let explanation = alone(&World { thp: "never", ..World::default() });
    let line = &explanation.mappings[0];
    assert_eq!((line.order.as_deref(), line.step_pages), (Some("descending"), Some(-1)));
    assert_eq!((line.whole_slots_many_faults, line.faults), (PIECES, PIECES * 512));
}

#[test]
fn the_picture_shows_a_chain_or_a_point() {
    let dir = tempfile::tempdir().unwrap();
    let off = World { thp: "madvise", ..World::default() };
    let comparison = compare_in(dir.path(), &World::default(), &off, 1, 4);
    let [Some(base), Some(test)] = of_comparison(&comparison).unwrap() else { panic!("a picture of each side") };
    assert_eq!((base.fills(), test.fills()), (1, 512));
    for map in [&base, &test] {
        assert_eq!(map.len, HUGE);
        assert_eq!(map.points.iter().filter(|point| point.kind == PointKind::Map).count(), 1, "the mmap itself");
        assert!(map.points.is_sorted_by_key(|point| point.t_ns));
        assert!(map.points.iter().all(|point| point.offset < map.len && (0..=map.span_ns).contains(&point.t_ns)));
    }
    let fills: Vec<u64> = test.points.iter().filter(|p| p.kind == PointKind::Fault).map(|p| p.offset).collect();
    assert!(fills.is_sorted_by(|a, b| a > b), "descending, 4 KiB apart");
    assert_eq!(fills.first().unwrap() - fills.last().unwrap(), HUGE - PAGE);
}

#[test]
fn of_a_long_mapping_one_slot_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let long = World { thp: "never", pieces: 1, piece_bytes: 16 * HUGE, stride: 32 * HUGE, ..World::default() };
    let map = of_dir(&play(&long, &dir.path().join("run"), 1, 1, 1), None).unwrap().unwrap();
    assert_eq!((map.len, map.mapping_len, map.faults, map.mapping_faults), (HUGE, 16 * HUGE, 512, 16 * 512));
    assert_eq!(map.start % HUGE, 0);
}
