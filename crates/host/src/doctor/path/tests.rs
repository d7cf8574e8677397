//! The rules on literal cases. There is no device with direct access on most machines, so its rule is held to a table here, and to
//! kernels in lab VMs by `crates/cli/tests/doctor_dax.rs`.

use super::judge::{DaxFile, Filling, Rule, Seen, cached, dax};
use super::report::{Extent, SlotReason};

const MIB: u64 = 1 << 20;

fn extent(start: u64, end: u64, physical: u64) -> Extent {
    Extent { start, end, physical: Some(physical), ..Extent::default() }
}

fn words(runs: &[super::SlotRun]) -> Vec<(u64, u64, &'static str)> {
    let word = |reason: Option<SlotReason>| reason.map_or("possible", SlotReason::word);
    runs.iter().map(|run| (run.start / MIB, run.end.div_ceil(MIB), word(run.reason))).collect()
}

struct Case {
    name: &'static str,
    size_bytes: u64,
    extents: Vec<Extent>,
    partition: u64,
    merges: bool,
    expected: Vec<(u64, u64, &'static str)>,
}

impl Case {
    fn new(name: &'static str, extents: Vec<Extent>, expected: &[(u64, u64, &'static str)]) -> Self {
        let size_bytes = extents.last().map_or(8 * MIB, |extent| extent.end);
        Self { name, size_bytes, extents, partition: 0, merges: true, expected: expected.to_vec() }
    }
}

fn placed_cases() -> Vec<Case> {
    let at = extent;
    let unwritten = |extent: Extent| Extent { unwritten: true, ..extent };
    vec![
        Case::new("one aligned extent", vec![at(0, 8 * MIB, 2 * MIB)], &[(0, 8, "possible")]),
        Case::new("one misaligned extent", vec![at(0, 8 * MIB, MIB)], &[(0, 8, "extent_misaligned")]),
        Case::new("off by a page", vec![at(0, 8 * MIB, 2 * MIB + 4096)], &[(0, 8, "extent_misaligned")]),
        Case::new("set aside, not written", vec![unwritten(at(0, 8 * MIB, 2 * MIB))], &[(0, 8, "possible")]),
        Case {
            partition: MIB,
            ..Case::new("partition at 1 MiB", vec![at(0, 4 * MIB, 2 * MIB)], &[(0, 4, "partition_misaligned")])
        },
        Case {
            partition: MIB,
            ..Case::new(
                "partition and extent both off, together right",
                vec![at(0, 4 * MIB, MIB)],
                &[(0, 4, "possible")],
            )
        },
        Case {
            size_bytes: 5 * MIB,
            ..Case::new(
                "the file ends inside",
                vec![at(0, 6 * MIB, 2 * MIB)],
                &[(0, 4, "possible"), (4, 5, "file_ends_inside")],
            )
        },
        Case {
            // The last page counts as a whole.
            size_bytes: 6 * MIB - 100,
            ..Case::new("the file ends in the last page", vec![at(0, 6 * MIB, 2 * MIB)], &[(0, 6, "possible")])
        },
        Case::new(
            "shared",
            vec![Extent { shared: true, ..at(0, 2 * MIB, 2 * MIB) }, at(2 * MIB, 4 * MIB, 8 * MIB)],
            &[(0, 2, "shared"), (2, 4, "possible")],
        ),
        Case::new(
            "no place yet",
            vec![Extent { delalloc: true, physical: None, ..at(0, 2 * MIB, 0) }],
            &[(0, 2, "place_not_known")],
        ),
    ]
}

fn divided_cases() -> Vec<Case> {
    let at = extent;
    let unwritten = |extent: Extent| Extent { unwritten: true, ..extent };
    vec![
        Case::new(
            "two extents in a slot",
            vec![at(0, MIB, 2 * MIB), at(MIB, 4 * MIB, 8 * MIB + MIB)],
            &[(0, 2, "extent_short"), (2, 4, "possible")],
        ),
        Case::new(
            "a part is written",
            vec![at(0, MIB, 2 * MIB), unwritten(at(MIB, 4 * MIB, 3 * MIB))],
            &[(0, 2, "extents_mixed"), (2, 4, "possible")],
        ),
        Case::new(
            "two records that continue each other",
            vec![at(0, MIB, 2 * MIB), at(MIB, 4 * MIB, 3 * MIB)],
            &[(0, 4, "possible")],
        ),
        Case {
            merges: false,
            ..Case::new(
                "the same where records are handed out as they are",
                vec![at(0, MIB, 2 * MIB), at(MIB, 4 * MIB, 3 * MIB)],
                &[(0, 2, "extent_short"), (2, 4, "possible")],
            )
        },
        Case {
            size_bytes: 12 * MIB,
            ..Case::new(
                "holes before, between and behind",
                vec![at(2 * MIB, 4 * MIB, 4 * MIB), at(6 * MIB, 7 * MIB, 8 * MIB)],
                &[(0, 2, "hole"), (2, 4, "possible"), (4, 6, "hole"), (6, 8, "part_hole"), (8, 12, "hole")],
            )
        },
        Case {
            size_bytes: 4 * MIB,
            ..Case::new(
                "a hole at the front of a slot",
                vec![at(MIB, 4 * MIB, 3 * MIB)],
                &[(0, 2, "part_hole"), (2, 4, "possible")],
            )
        },
        Case { size_bytes: 4 * MIB, ..Case::new("nothing at all", vec![], &[(0, 4, "hole")]) },
        Case { size_bytes: 0, ..Case::new("an empty file", vec![], &[]) },
        Case {
            size_bytes: 1 << 60,
            ..Case::new("an exbibyte of hole", vec![at(0, 2 * MIB, 0)], &[(0, 2, "possible"), (2, 1 << 40, "hole")])
        },
    ]
}

#[test]
fn direct_access_follows_the_extents() {
    for case in placed_cases().into_iter().chain(divided_cases()) {
        let file = DaxFile {
            size_bytes: case.size_bytes,
            extents: &case.extents,
            device_start_bytes: case.partition,
            merges: case.merges,
            filling: Filling::Open,
            pmd: Some(true),
        };
        assert_eq!(words(&dax(&file)), case.expected, "{}", case.name);
        let without = dax(&DaxFile { pmd: Some(false), ..file });
        assert!(without.iter().all(|run| run.reason == Some(SlotReason::NoDaxPmd)), "{}", case.name);
    }
}

/// Slots without blocks before, between and behind what lies aligned, or half a slot off.
#[test]
fn what_becomes_of_holes_is_the_file_systems_affair() {
    let told = |filling, physical: Option<u64>, device_start_bytes| {
        let extents: Vec<Extent> = physical.into_iter().map(|at| extent(4 * MIB, 6 * MIB, at)).collect();
        let (size_bytes, merges, pmd) = (10 * MIB, true, Some(true));
        let runs = dax(&DaxFile { size_bytes, extents: &extents, device_start_bytes, merges, filling, pmd });
        let of = |at: u64| runs.iter().find(|run| run.start <= at && at < run.end).and_then(|run| run.reason);
        [of(0), of(8 * MIB)].map(|reason| reason.map_or("possible", SlotReason::word))
    };
    let (aligned, off) = (Some(20 * MIB), Some(21 * MIB));
    for (filling, physical, expected) in [
        (Filling::Open, aligned, ["hole", "hole"]),
        (Filling::Aligned, off, ["possible", "possible"]),
        (Filling::AsNeighbour, aligned, ["possible", "possible"]),
        (Filling::AsNeighbour, off, ["hole", "hole"]),
        (Filling::AsNeighbour, None, ["possible", "possible"]),
        (Filling::AlignedAtEnd, off, ["hole", "possible"]),
        (Filling::AlignedAtEnd, None, ["possible", "possible"]),
    ] {
        assert_eq!(told(filling, physical, 0), expected, "{filling:?} {physical:?}");
    }
    assert_eq!(told(Filling::Aligned, None, MIB), ["partition_misaligned", "partition_misaligned"]);
}

#[test]
fn what_is_in_memory_stands_before_the_rule() {
    let rule = Rule::new(None, Some(SlotReason::FileEndsInside));
    let seen = [(1, Seen::Small), (2, Seen::Huge), (3, Seen::Hidden)];
    let expected = [(0, 2, "possible"), (2, 4, "in_small_pages"), (4, 10, "possible"), (10, 11, "file_ends_inside")];
    assert_eq!(words(&cached(11 * MIB, rule, &seen)), expected);
    // Where huge pages are not allowed anyway, small ones are not reported; huge ones in memory count.
    let never = Rule::all(Some(SlotReason::TmpfsHugeNever));
    let expected = [(0, 4, "tmpfs_huge_never"), (4, 6, "possible"), (6, 11, "tmpfs_huge_never")];
    assert_eq!(words(&cached(11 * MIB, never, &seen)), expected);
    // Advice comes too late for small pages.
    let advice = Rule::all(Some(SlotReason::NeedsAdvice));
    assert_eq!(
        words(&cached(4 * MIB, advice, &[(1, Seen::Small)])),
        [(0, 2, "needs_advice"), (2, 4, "in_small_pages")]
    );
}

#[test]
fn room_is_given_in_order() {
    let rule = Rule { room_slots: Some(2), ..Rule::all(None) };
    let seen = [(1, Seen::Huge)];
    assert_eq!(words(&cached(9 * MIB, rule, &seen)), [(0, 6, "possible"), (6, 9, "tmpfs_full")]);
    let all = Rule { room_slots: Some(5), ..rule };
    assert_eq!(words(&cached(9 * MIB, all, &[])), [(0, 9, "possible")]);
}
