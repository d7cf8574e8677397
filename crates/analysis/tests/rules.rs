//! Each rule on recordings where its cause is there, on those where one refuter flips it, and on the other rules'
//! recordings, where it must stay silent.

#![allow(clippy::unwrap_used)]

mod rules_sim;

use pagelab_analysis::compare::{Comparison, ComparisonMethod, Verdict};
use pagelab_analysis::rules::{Confidence, Confirmation, Finding, Reach, SideName, confirm};
use rules_sim::{HUGE, Habit, PAGE, PIECES, World, causes, compare_in, compare_worlds, harmless, said};

/// A cache of 2 MiB pieces on a host with huge pages, and eight settings that do not matter.
fn good() -> World {
    World { harmless: harmless(1), label: "cold".to_owned(), ..World::default() }
}

/// The same where only advised memory gets them, and eight other values.
fn thp_off() -> World {
    World { thp: "madvise", harmless: harmless(2), label: "warm".to_owned(), ..World::default() }
}

fn refuted(comparison: &Comparison, cause: &str, because: &str) {
    assert!(!causes(comparison).contains(&cause), "{cause} is named: {}", comparison.findings[0].summary);
    let said = said(comparison, cause);
    assert!(said.starts_with("refuted") && said.contains(because), "{cause} {said}\nexpected: {because}");
}

#[test]
fn thp_disabled_is_found_with_its_chain() {
    for seed in 1..=4 {
        let comparison = compare_worlds(&good(), &thp_off(), seed);
        assert_eq!(causes(&comparison), ["thp.disabled"], "seed {seed}");
        let finding = &comparison.findings[0];
        assert_eq!(finding.rank, 1);
        assert_eq!(
            finding.confidence,
            Confidence::Mechanism,
            "harmless differences are differences: {:?}",
            finding.not_looked_at
        );
        assert_eq!(finding.side, SideName::Test);
        let setting = finding.setting.as_ref().unwrap();
        assert_eq!(
            (setting.key.as_str(), setting.base.as_deref(), setting.test.as_deref()),
            ("thp.enabled", Some("always"), Some("madvise"))
        );
        let mapping = finding.mapping.as_ref().unwrap();
        assert_eq!((mapping.len_bytes, mapping.thread.as_deref()), (HUGE, Some("cache")));
        let effect = finding.effect.as_ref().unwrap();
        assert!(effect.share > 0.9 && effect.share < 1.1, "{effect:?}");
        let [low, high] = effect.share_ci95.unwrap();
        assert!(low < effect.share && effect.share < high);
        assert!(finding.summary.starts_with("test is slower"), "{}", finding.summary);
        assert!(finding.evidence.len() >= 4 && finding.refuted.len() >= 4);
        assert!(finding.fix.first().unwrap().contains("madvise(addr, length, MADV_HUGEPAGE)"));
        assert!(finding.fixes.is_sorted_by_key(|fix| fix.reach), "narrowest first");
        assert_eq!(finding.fixes.last().unwrap().reach, Reach::System);
        assert!(finding.fix.last().unwrap().contains("echo always"));
    }
}

#[test]
fn a_gain_is_described_as_a_gain() {
    let comparison = compare_worlds(&thp_off(), &good(), 3);
    assert_eq!(causes(&comparison), ["thp.disabled"]);
    let finding = &comparison.findings[0];
    assert_eq!(finding.side, SideName::Base);
    assert!(finding.summary.starts_with("test is faster"), "{}", finding.summary);
    assert_eq!(finding.mapping.as_ref().unwrap().side, SideName::Base);
    assert!(finding.effect.as_ref().unwrap().share > 0.9);
}

#[test]
fn equal_worlds_have_no_finding() {
    for seed in 1..=6 {
        let other = World { harmless: harmless(2), ..good() };
        let comparison = compare_worlds(&good(), &other, seed);
        assert!(comparison.findings.is_empty(), "{:?}", causes(&comparison));
        assert!(comparison.considered.iter().all(|considered| considered.outcome.word() == "refuted"));
    }
}

/// The settings differ in more than one way and the work got slower, but by something that no rule knows.
#[test]
fn harmless_differences_are_never_named() {
    let slow = World { harmless: harmless(2), extra_ns: 60, ..good() };
    let comparison = compare_worlds(&good(), &slow, 1);
    assert_eq!(comparison.primary.as_ref().unwrap().verdict, Verdict::Worse);
    assert!(comparison.settings.len() >= 8);
    assert!(comparison.findings.is_empty());
    refuted(&comparison, "thp.disabled", "no whole 2 MiB slot");
    refuted(&comparison, "map.misaligned", "begin at one");
    refuted(&comparison, "hugetlb.pool_exhausted", "no request");
    refuted(&comparison, "readahead.reduced", "of no device");
}

/// The setting differs, but a piece of 4 KiB cannot hold a huge page on either side.
#[test]
fn small_pieces_refute_thp() {
    let small = |world: World| World { pieces: 4000, piece_bytes: PAGE, stride: 2 * PAGE, ..world };
    let slow = World { extra_ns: 80, ..small(thp_off()) };
    let comparison = compare_worlds(&small(good()), &slow, 1);
    assert_eq!(comparison.primary.as_ref().unwrap().verdict, Verdict::Worse, "the refuter must be asked");
    assert!(comparison.findings.is_empty());
    refuted(&comparison, "thp.disabled", "in slots that no huge page fits");
}

/// Small pieces that are mapped next to each other before they are used are one area, and huge pages fit.
#[test]
fn small_pieces_that_merge_take_huge_pages() {
    let merged =
        |world: World| World { pieces: 4096, piece_bytes: PAGE, stride: PAGE, habit: Habit::AllFirst, ..world };
    let comparison = compare_worlds(&merged(good()), &merged(thp_off()), 1);
    assert_eq!(causes(&comparison), ["thp.disabled"], "{}", said(&comparison, "thp.disabled"));
}

#[test]
fn misaligned_pieces_are_found() {
    let shifted = World { shift: PAGE, harmless: harmless(2), ..good() };
    for seed in 1..=4 {
        let comparison = compare_worlds(&good(), &shifted, seed);
        assert_eq!(causes(&comparison), ["map.misaligned"], "{}", said(&comparison, "map.misaligned"));
        let finding = &comparison.findings[0];
        assert_eq!(finding.confidence, Confidence::Mechanism, "{:?}", finding.not_looked_at);
        assert!(finding.setting.is_none(), "no setting is to blame, least of all a harmless one");
        assert!(finding.evidence[0].contains("4 KiB behind one"), "{}", finding.evidence[0]);
        refuted(&comparison, "thp.disabled", "no whole 2 MiB slot");
    }
}

/// Shifted pieces that touch each other and are mapped before use hold whole slots all the same.
#[test]
fn merging_refutes_misalignment() {
    let merged = |shift| World { shift, stride: HUGE, habit: Habit::AllFirst, ..good() };
    let slow = World { extra_ns: 80, ..merged(PAGE) };
    let comparison = compare_worlds(&merged(0), &slow, 1);
    assert_eq!(comparison.primary.as_ref().unwrap().verdict, Verdict::Worse);
    assert!(comparison.findings.is_empty());
}

#[test]
fn misalignment_on_both_sides_is_no_difference() {
    let shifted = World { shift: PAGE, ..good() };
    let slow = World { extra_ns: 80, harmless: harmless(2), ..shifted.clone() };
    let comparison = compare_worlds(&shifted, &slow, 1);
    assert!(comparison.findings.is_empty());
    refuted(&comparison, "map.misaligned", "no more than the slower side's");
}

/// Where huge pages are off on both sides, alignment changes nothing.
#[test]
fn misalignment_without_huge_pages_is_no_cause() {
    let off = World { thp: "never", ..good() };
    let shifted = World { thp: "never", shift: PAGE, extra_ns: 80, ..good() };
    let comparison = compare_worlds(&off, &shifted, 1);
    assert!(comparison.findings.is_empty(), "{:?}", causes(&comparison));
    refuted(&comparison, "map.misaligned", "filled page by page too");
}

/// Where the program itself forbids huge pages, alignment changes nothing, and is not looked at.
#[test]
fn memory_without_huge_pages_by_advice_is_not_misaligned() {
    let advised = World { advice: Some(pagelab_vocab::abi::MADV_NOHUGEPAGE), ..good() };
    let shifted = World { shift: PAGE, extra_ns: 80, ..advised.clone() };
    let comparison = compare_worlds(&advised, &shifted, 1);
    assert!(comparison.findings.is_empty(), "{:?}", causes(&comparison));
    refuted(&comparison, "map.misaligned", "makes no mappings of 2 MiB or more that huge pages exist for");
}

/// Either alone would do it: both are named, and neither claims a whole chain.
#[test]
fn misaligned_and_forbidden_at_once() {
    let both = World { shift: PAGE, ..thp_off() };
    let comparison = compare_worlds(&good(), &both, 1);
    assert_eq!(causes(&comparison), ["map.misaligned"]);
    let finding = &comparison.findings[0];
    assert_eq!(finding.confidence, Confidence::Correlated);
    assert!(finding.not_looked_at.iter().any(|text| text.contains("alignment alone would not bring them back")));
}

#[test]
fn a_pool_too_small_is_found() {
    let asks = |pool| World { thp: "madvise", pool: Some(pool), ..good() };
    for (pool, seed) in [(2, 1), (0, 2), (5, 3)] {
        let small = World { harmless: harmless(2), ..asks(pool) };
        let comparison = compare_worlds(&asks(40), &small, seed);
        assert_eq!(causes(&comparison), ["hugetlb.pool_exhausted"], "{}", said(&comparison, "hugetlb.pool_exhausted"));
        let finding = &comparison.findings[0];
        assert_eq!(finding.confidence, Confidence::Mechanism, "{:?}", finding.not_looked_at);
        assert_eq!(finding.setting.as_ref().unwrap().key, "hugetlb.2M.nr_hugepages");
        assert!(finding.fix.iter().any(|fix| fix.contains("nr_overcommit_hugepages")));
    }
}

#[test]
fn what_refutes_an_exhausted_pool() {
    let asks = |pool| World { thp: "madvise", pool: Some(pool), ..good() };
    let other_errno = World { refusal: 22, ..asks(2) };
    refuted(&compare_worlds(&asks(40), &other_errno, 1), "hugetlb.pool_exhausted", "not with ENOMEM");
    // The same pool on both sides, which had room all the time: something else refused.
    let room = |base: World| World { pool_says_left: Some(40), ..base };
    let slow = World { extra_ns: 80, ..room(asks(2)) };
    let fast = room(World { pool: None, ..good() });
    let comparison = compare_worlds(&fast, &slow, 1);
    refuted(&comparison, "hugetlb.pool_exhausted", "room for the largest refused request");
}

#[test]
fn smaller_read_ahead_is_found() {
    let reads = |kb| World { pieces: 2, file_bytes: 64 << 20, read_ahead_kb: kb, ..good() };
    let small = World { harmless: harmless(2), ..reads(16) };
    for seed in 1..=3 {
        let comparison = compare_worlds(&reads(512), &small, seed);
        assert_eq!(causes(&comparison), ["readahead.reduced"], "{}", said(&comparison, "readahead.reduced"));
        let finding = &comparison.findings[0];
        assert_eq!(finding.confidence, Confidence::Mechanism, "{:?}", finding.not_looked_at);
        assert_eq!(finding.setting.as_ref().unwrap().key, "block.loop0.read_ahead_kb");
        assert!(finding.effect.as_ref().unwrap().share > 0.8);
        assert!(finding.fix.first().unwrap().contains("readahead(fd"));
        assert!(finding.fix.iter().any(|fix| fix.contains("echo 512 |")));
    }
}

#[test]
fn what_refutes_smaller_read_ahead() {
    let reads = |kb| World { pieces: 2, file_bytes: 64 << 20, read_ahead_kb: kb, ..good() };
    let direct = |world: World| World { fixed_request: Some(8192), ..world };
    let slow = World { extra_ns: 200_000, ..direct(reads(16)) };
    refuted(&compare_worlds(&direct(reads(512)), &slow, 1), "readahead.reduced", "random or O_DIRECT");
    let vain = World { read_in_vain: 3.0, ..reads(512) };
    let slow = World { extra_ns: 200_000, ..reads(16) };
    refuted(&compare_worlds(&vain, &slow, 1), "readahead.reduced", "for the same work differ");
    let cached = |kb| World { file_bytes: 0, ..reads(kb) };
    let slow = World { extra_ns: 500, ..cached(16) };
    refuted(&compare_worlds(&cached(512), &slow, 1), "readahead.reduced", "were read from loop0");
}

#[test]
fn two_causes_are_both_named() {
    let base = World { file_bytes: 24 << 20, read_ahead_kb: 512, ..good() };
    let test = World { thp: "madvise", file_bytes: 24 << 20, read_ahead_kb: 64, harmless: harmless(2), ..good() };
    for seed in 1..=3 {
        let comparison = compare_worlds(&base, &test, seed);
        let mut found = causes(&comparison);
        found.sort_unstable();
        assert_eq!(
            found,
            ["readahead.reduced", "thp.disabled"],
            "{} / {}",
            said(&comparison, "readahead.reduced"),
            said(&comparison, "thp.disabled")
        );
        let shares: f64 = comparison.findings.iter().map(|finding| finding.effect.as_ref().unwrap().share).sum();
        assert!((0.9..1.1).contains(&shares), "the two share the loss between them: {shares}");
    }
}

/// The kernel was allowed and had no memory in one piece: that is fragmentation and not a setting.
#[test]
fn fragmentation_refutes_thp() {
    let fragmented = World { fragmented: true, harmless: harmless(2), ..good() };
    let comparison = compare_worlds(&good(), &fragmented, 1);
    refuted(&comparison, "thp.disabled", "thp_fault_fallback");
    assert!(comparison.findings.is_empty());
}

/// The counter is the host's: what other processes did not get says nothing of slots that are far more.
#[test]
fn a_few_fallbacks_elsewhere_do_not_refute_thp() {
    let off = |fallbacks_elsewhere| World { fallbacks_elsewhere, ..thp_off() };
    for few in [1, PIECES / 2 - 1] {
        assert_eq!(causes(&compare_worlds(&good(), &off(few), 1)), ["thp.disabled"], "{few} of {PIECES}");
    }
    refuted(&compare_worlds(&good(), &off(PIECES), 1), "thp.disabled", "thp_fault_fallback");
}

#[test]
fn the_faster_side_without_huge_pages_is_no_cause() {
    let slow = World { extra_ns: 3000, ..good() };
    let comparison = compare_worlds(&thp_off(), &slow, 1);
    assert_eq!(comparison.primary.as_ref().unwrap().verdict, Verdict::Worse);
    refuted(&comparison, "thp.disabled", "is the faster one");
}

/// A few slots of base pages in a run that got slower by something else explain next to nothing.
#[test]
fn a_cause_must_be_large_enough() {
    let base = World { pieces: 24, ..good() };
    let test = World { extra_ns: 40_000, ..thp_off() };
    let comparison = compare_worlds(&base, &test, 1);
    refuted(&comparison, "thp.disabled", "explains at most");
}

#[test]
fn loss_that_could_explain_it_blocks_the_conclusion() {
    // All but a few faults of the base were lost: it only looks as if it had huge pages.
    let lossy = World { thp: "madvise", lost_faults: PIECES * 512 - PIECES, ..good() };
    let slow = World { extra_ns: 100, ..thp_off() };
    let comparison = compare_worlds(&lossy, &slow, 1);
    assert!(comparison.findings.is_empty(), "{:?}", causes(&comparison));
    // Half of what the other side has could have been lost.
    let lossy = World { lost_faults: PIECES / 2, loss_said: Some(PIECES * 300), ..good() };
    let comparison = compare_worlds(&lossy, &thp_off(), 1);
    assert!(comparison.findings.is_empty(), "{:?}", causes(&comparison));
    assert!(said(&comparison, "thp.disabled").starts_with("blocked"), "{}", said(&comparison, "thp.disabled"));
    let maps = World { lost_maps: 5, ..good() };
    let comparison = compare_worlds(&maps, &thp_off(), 1);
    assert!(comparison.findings.is_empty());
    assert!(said(&comparison, "thp.disabled").starts_with("blocked"), "{}", said(&comparison, "thp.disabled"));
}

#[test]
fn the_programs_own_calls_are_named() {
    let advised = World { thp: "madvise", advice: Some(14), ..good() };
    let not = World { thp: "madvise", ..good() };
    let comparison = compare_worlds(&advised, &not, 1);
    assert_eq!(causes(&comparison), ["thp.disabled"], "{}", said(&comparison, "thp.disabled"));
    assert_eq!(comparison.findings[0].setting.as_ref().unwrap().key, "madvise(MADV_HUGEPAGE)");
    let barred = World { prctl: true, ..good() };
    let comparison = compare_worlds(&good(), &barred, 1);
    assert_eq!(causes(&comparison), ["thp.disabled"], "{}", said(&comparison, "thp.disabled"));
    assert!(comparison.findings[0].setting.as_ref().unwrap().key.starts_with("prctl"));
    let forbids = World { advice: Some(pagelab_vocab::abi::MADV_NOHUGEPAGE), ..good() };
    let comparison = compare_worlds(&good(), &forbids, 1);
    assert_eq!(causes(&comparison), ["thp.disabled"], "{}", said(&comparison, "thp.disabled"));
    assert_eq!(comparison.findings[0].setting.as_ref().unwrap().key, "madvise(MADV_NOHUGEPAGE)");
    assert!(comparison.findings[0].fix.first().unwrap().contains("madvise(addr, length, MADV_HUGEPAGE)"));
}

/// Without the streams of faults and maps the counters of the host are a hint and no more.
#[test]
fn without_faults_it_is_only_correlated() {
    let blind = |world: World| World { faults_recorded: false, ..world };
    let comparison = compare_worlds(&blind(good()), &blind(thp_off()), 1);
    assert_eq!(causes(&comparison), ["thp.disabled"], "{}", said(&comparison, "thp.disabled"));
    assert_eq!(comparison.findings[0].confidence, Confidence::Correlated);
    let no_settings = |world: World| World { settings_recorded: false, ..world };
    let comparison = compare_worlds(&no_settings(good()), &no_settings(thp_off()), 1);
    assert!(comparison.findings.is_empty());
    assert!(said(&comparison, "thp.disabled").starts_with("unknown"), "{}", said(&comparison, "thp.disabled"));
}

/// Work is mixed and runs for a fixed time: the slow side does fewer operations of one sort and as many of the other.
/// Bytes per operation differ then, although the same file was read.
#[test]
fn mixed_work_is_compared_by_what_was_read() {
    let base = World { pieces: 16, file_bytes: 24 << 20, read_ahead_kb: 512, ..good() };
    let test = World { pieces: 8, thp: "madvise", file_bytes: 24 << 20, read_ahead_kb: 64, ..good() };
    let comparison = compare_worlds(&base, &test, 1);
    assert!(causes(&comparison).contains(&"readahead.reduced"), "{}", said(&comparison, "readahead.reduced"));
    assert!(causes(&comparison).contains(&"thp.disabled"), "{}", said(&comparison, "thp.disabled"));
}

/// Without times of its own a load tells no share: the cause is named, and less certain.
#[test]
fn unknown_times_weaken_the_claim() {
    let silent = |world: World| World { times_known: false, ..world };
    let comparison = compare_worlds(&silent(good()), &silent(thp_off()), 1);
    let finding = &comparison.findings[0];
    assert_eq!((finding.cause.as_str(), finding.confidence), ("thp.disabled", Confidence::Correlated));
    assert!(finding.effect.is_none() && finding.not_looked_at.iter().any(|text| text.contains("time that it costs")));
}

#[test]
fn a_clean_toggle_confirms() {
    let same = |thp| World { thp, harmless: harmless(1), ..good() };
    let toggle = compare_worlds(&same("always"), &same("madvise"), 1);
    assert_eq!(toggle.findings[0].confidence, Confidence::Confirmed, "nothing else differs, in blocks");
    let first = compare_worlds(&good(), &thp_off(), 2);
    let finding = &first.findings[0];
    assert_eq!(finding.confidence, Confidence::Mechanism);
    let Confirmation::Confirmed(confirmed) = confirm(finding, &toggle) else { panic!("the toggle confirms it") };
    assert_eq!(confirmed.confidence, Confidence::Confirmed);
    let reversed = compare_worlds(&same("madvise"), &same("always"), 3);
    assert!(matches!(confirm(finding, &reversed), Confirmation::Confirmed(_)), "whichever side is the base");
    assert!(matches!(confirm(finding, &first), Confirmation::Undecided(_)), "eight other settings differ");
    let small = |thp| World { pieces: 4000, piece_bytes: PAGE, stride: 2 * PAGE, ..same(thp) };
    let nothing = compare_worlds(&small("always"), &small("madvise"), 4);
    assert_eq!(nothing.primary.as_ref().unwrap().verdict, Verdict::NoDifference);
    assert!(matches!(confirm(finding, &nothing), Confirmation::Refuted(_)));
}

/// Two rounds do not refute a tenth, and a loss of a few percent refutes three quarters.
#[test]
fn a_toggle_decides_by_the_size_of_the_claim() {
    let first = compare_worlds(&good(), &thp_off(), 2);
    let finding = &first.findings[0];
    // Beside other work that takes so long, the same faults are a few percent of the time.
    let same = |thp| World { thp, extra_ns: 9000, harmless: harmless(1), ..good() };
    let dir = tempfile::tempdir().unwrap();
    let coarse = compare_in(dir.path(), &same("always"), &same("madvise"), 1, 2);
    let judged = confirm(&claiming(finding, 1.1), &coarse);
    assert!(matches!(judged, Confirmation::Undecided(_)), "{judged:?}");
    let toggle = compare_worlds(&same("always"), &same("madvise"), 3);
    assert_eq!(toggle.primary.as_ref().unwrap().verdict, Verdict::Worse);
    let judged = confirm(finding, &toggle);
    assert!(matches!(judged, Confirmation::Refuted(_)), "{judged:?}");
}

/// The finding with a claim that the work became so many times as slow.
fn claiming(finding: &Finding, times: f64) -> Finding {
    let mut finding = finding.clone();
    let effect = finding.effect.as_mut().unwrap();
    let lost = 100.0 * (times - 1.0);
    (effect.slow_ns, effect.change_ns, effect.attributed_ns) = (Some(100.0 * times), lost, lost);
    finding
}

fn word(confirmation: &Confirmation) -> &'static str {
    match confirmation {
        Confirmation::Confirmed(_) => "confirmed",
        Confirmation::Refuted(_) => "refuted",
        Confirmation::Undecided(_) => "undecided",
    }
}

/// The work is claimed to take twice its time, so that one and a half times is half of the claim: intervals below it, above it
/// and across.
#[test]
fn half_of_the_claim_decides() {
    let same = |thp| World { thp, harmless: harmless(1), ..good() };
    let toggle = compare_worlds(&same("always"), &same("madvise"), 1);
    let finding = claiming(&compare_worlds(&good(), &thp_off(), 2).findings[0], 2.0);
    let judged = |ratio_ci95: Option<[f64; 2]>, verdict: Verdict| {
        let mut toggle = toggle.clone();
        let primary = toggle.primary.as_mut().unwrap();
        primary.direction = "lower".to_owned();
        (primary.ratio_ci95, primary.verdict) = (ratio_ci95, verdict);
        confirm(&finding, &toggle)
    };
    for (interval, verdict, wanted) in [
        ([1.51, 1.9], Verdict::Worse, "confirmed"),
        ([2.5, 3.5], Verdict::Worse, "confirmed"),
        ([1.49, 1.9], Verdict::Worse, "undecided"),
        ([1.1, 1.51], Verdict::Worse, "undecided"),
        ([1.1, 1.49], Verdict::Worse, "refuted"),
        ([0.9, 1.1], Verdict::NoDifference, "refuted"),
        ([0.9, 1.6], Verdict::NoDifference, "undecided"),
        ([0.5, 0.6], Verdict::Better, "refuted"),
        // No loss was shown, whatever the interval is.
        ([1.6, 1.9], Verdict::NoDifference, "undecided"),
        ([1.6, 1.9], Verdict::NotTested, "undecided"),
    ] {
        let found = judged(Some(interval), verdict);
        assert_eq!(word(&found), wanted, "{interval:?} {verdict:?}: {found:?}");
    }
    let found = judged(None, Verdict::Worse);
    assert_eq!(word(&found), "undecided", "{found:?}");
}

/// What differs beside the setting, one or more, and runs that were not made in blocks: no toggle, however clear its loss is.
#[test]
fn a_toggle_of_more_than_the_setting_decides_nothing() {
    let finding = compare_worlds(&good(), &thp_off(), 2).findings[0].clone();
    let same = |thp| World { thp, harmless: harmless(1), ..good() };
    let judged = |others: &[&str]| {
        let mut test = same("madvise");
        for other in others {
            test.harmless.insert((*other).to_owned(), "another value".to_owned()).expect("one of the harmless");
        }
        confirm(&finding, &compare_worlds(&same("always"), &test, 1))
    };
    let found = judged(&[]);
    assert_eq!(word(&found), "confirmed", "{found:?}");
    let undecided = |others: &[&str]| match judged(others) {
        Confirmation::Undecided(said) => said,
        other => panic!("{others:?}: {other:?}"),
    };
    assert_eq!(undecided(&["env.TZ"]), "env.TZ differs too");
    let said = undecided(&["env.TZ", "env.LANG"]);
    assert!(said.ends_with(" and 1 more differ too"), "{said}");
    let mut unpaired = compare_worlds(&same("always"), &same("madvise"), 1);
    unpaired.method = ComparisonMethod::Welch;
    let found = confirm(&finding, &unpaired);
    assert_eq!(word(&found), "undecided", "{found:?}");
}

/// A toggle that makes the work four times as slow is most of the slower time, and a sixth of what a claim of twenty times says.
#[test]
fn a_large_claim_is_not_confirmed_by_a_small_part_of_it() {
    let same = |thp| World { thp, harmless: harmless(1), ..good() };
    let toggle = compare_worlds(&same("always"), &same("madvise"), 1);
    let mut finding = compare_worlds(&good(), &thp_off(), 2).findings[0].clone();
    assert!(matches!(confirm(&finding, &toggle), Confirmation::Confirmed(_)));
    let effect = finding.effect.as_mut().unwrap();
    (effect.slow_ns, effect.change_ns, effect.attributed_ns) = (Some(2000.0), 1900.0, 1900.0);
    let judged = confirm(&finding, &toggle);
    assert!(matches!(judged, Confirmation::Refuted(_)), "{judged:?}");
    // A profile that credits more to the cause than the sides differ by claims no more than that.
    let effect = finding.effect.as_mut().unwrap();
    (effect.change_ns, effect.attributed_ns) = (1500.0, 1900.0);
    let judged = confirm(&finding, &toggle);
    assert!(matches!(judged, Confirmation::Confirmed(_)), "{judged:?}");
}

/// Fifty slots filled page by page take 15 ms; ten million calls that became 200 ns slower take two seconds.
#[test]
fn dearer_calls_are_not_credited_to_a_few_faults() {
    let base = World { pieces: 50, passes: 390, ..good() };
    let test = World { thp: "madvise", foreign_kernel_ns: 200, harmless: harmless(2), ..base.clone() };
    let comparison = compare_worlds(&base, &test, 1);
    for finding in &comparison.findings {
        assert_eq!(finding.confidence, Confidence::Correlated, "{finding:?}");
        assert!(finding.effect.as_ref().unwrap().share < 0.15, "{finding:?}");
        assert!(finding.not_looked_at.iter().any(|doubt| doubt.contains("other work rose")), "{finding:?}");
        assert!(comparison.unexplained.as_ref().unwrap().share > 0.8);
    }
    // A profile says what the faults took, and that is too little to matter.
    let profiled = |world: &World| World { profiled: true, ..world.clone() };
    let comparison = compare_worlds(&profiled(&base), &profiled(&test), 1);
    refuted(&comparison, "thp.disabled", "explains at most");
}

/// With a profile a plain cause is as certain as without, and other work is kept apart from it.
#[test]
fn a_profile_tells_faults_from_other_kernel_work() {
    let profiled = |world: World| World { profiled: true, ..world };
    let comparison = compare_worlds(&profiled(good()), &profiled(thp_off()), 1);
    assert_eq!(comparison.findings[0].confidence, Confidence::Mechanism, "{:?}", comparison.findings[0]);
    let beside = World { foreign_kernel_ns: 600, ..profiled(thp_off()) };
    let comparison = compare_worlds(&profiled(good()), &beside, 1);
    let finding = &comparison.findings[0];
    let share = finding.effect.as_ref().unwrap().share;
    assert_eq!(finding.confidence, Confidence::Mechanism);
    assert!((0.35..0.55).contains(&share), "faults took 480 of the 1080 ns lost: {share}");
    assert!((comparison.unexplained.as_ref().unwrap().share - (1.0 - share)).abs() < 1e-9);
}

/// Half the read-ahead costs 512 requests; ten thousand flushes that became 2 ms slower cost twenty seconds.
#[test]
fn dearer_flushes_are_not_credited_to_read_ahead() {
    let reads = |kb| World { pieces: 2, file_bytes: 64 << 20, read_ahead_kb: kb, ..good() };
    let slow = World { foreign_wait_ns: 20_000_000_000, harmless: harmless(2), ..reads(64) };
    let comparison = compare_worlds(&reads(128), &slow, 1);
    refuted(&comparison, "readahead.reduced", "explains at most");
    // Without the device's times nothing tells the two apart, and the claim says so.
    let blind = |world: World| World { disk_times: false, ..world };
    let comparison = compare_worlds(&blind(reads(128)), &blind(slow), 1);
    let finding = &comparison.findings[0];
    assert_eq!((finding.cause.as_str(), finding.confidence), ("readahead.reduced", Confidence::Correlated));
    assert!(finding.not_looked_at.iter().any(|doubt| doubt.contains("disk.read_ns")), "{finding:?}");
}

/// With an account of time both of these come to next to nothing, whatever else is recorded, and what took the time is named.
#[test]
fn the_account_holds_causes_to_what_their_components_moved() {
    let accounted = |world: &World| World { accounted: true, ..world.clone() };
    let base = World { pieces: 50, passes: 390, ..good() };
    let calls = World { thp: "madvise", foreign_kernel_ns: 200, harmless: harmless(2), ..base.clone() };
    let reads = World { pieces: 2, file_bytes: 64 << 20, disk_times: false, ..good() };
    let flushes = World { read_ahead_kb: 64, foreign_wait_ns: 20_000_000_000, harmless: harmless(2), ..reads.clone() };
    let scenes = [(base, calls, "thp.disabled", "run.file.call"), (reads, flushes, "readahead.reduced", "off.flush")];
    for (base, test, cause, component) in scenes {
        let comparison = compare_worlds(&accounted(&base), &accounted(&test), 1);
        let credited: f64 = comparison.findings.iter().filter_map(|one| Some(one.effect.as_ref()?.share)).sum();
        assert!(credited < 0.03, "{cause}: {credited}: {:?}", comparison.findings);
        let unknown = comparison.unknown.expect("most of it is");
        assert!(unknown.share > 0.97, "{unknown:?}");
        assert_eq!(unknown.components[0].component, component, "{unknown:?}");
        assert!(unknown.components[0].share > 0.9, "{unknown:?}");
    }
}

/// The account leaves a true cause what it is due.
#[test]
fn the_account_leaves_a_cause_its_own() {
    let accounted = |world: World| World { accounted: true, ..world };
    let comparison = compare_worlds(&accounted(good()), &accounted(thp_off()), 1);
    let finding = &comparison.findings[0];
    assert_eq!((finding.cause.as_str(), finding.confidence), ("thp.disabled", Confidence::Mechanism), "{finding:?}");
    assert!(finding.effect.as_ref().unwrap().share > 0.85, "{finding:?}");
    // Beside as much other work of the kernel it gets its part, and the rest is unknown.
    let beside = World { foreign_kernel_ns: 480, ..accounted(thp_off()) };
    let comparison = compare_worlds(&accounted(good()), &beside, 1);
    let share = comparison.findings[0].effect.as_ref().unwrap().share;
    assert!((0.4..0.6).contains(&share), "faults took 480 of the 960 ns lost: {share}");
    assert_eq!(comparison.unknown.expect("half of it is").components[0].component, "run.file.call");
}

/// Waits of any length hide what 8 % more time for faults cost the whole; the faults' own time does not vary so.
#[test]
fn a_cause_is_found_below_the_noise_of_the_whole() {
    let unsteady = |world: World| World { accounted: true, passes: 40, unsteady_ns: 20_000_000, ..world };
    let (base, test) = (unsteady(good()), unsteady(thp_off()));
    let dir = tempfile::tempdir().unwrap();
    let comparison = compare_in(dir.path(), &base, &test, 1, 8);
    assert_eq!(comparison.primary.as_ref().unwrap().verdict, Verdict::NoDifference);
    let mechanism = comparison.budget.as_ref().unwrap().mechanisms.first().expect("causes have time");
    assert!(mechanism.significant == Some(true) && mechanism.q.unwrap() < 0.002, "{mechanism:?}");
    let finding = &comparison.findings[0];
    assert_eq!((finding.cause.as_str(), finding.confidence), ("thp.disabled", Confidence::Mechanism), "{finding:?}");
    let effect = finding.effect.as_ref().unwrap();
    assert_eq!(effect.of, "components", "its share is not of the whole, which shows nothing: {effect:?}");
    assert!(effect.share > 0.8 && effect.attributed_ns < 0.2 * effect.slow_ns.unwrap(), "{effect:?}");
    assert!(finding.summary.contains("shows no difference"), "{}", finding.summary);
    let dir = tempfile::tempdir().unwrap();
    let alike = compare_in(dir.path(), &base, &unsteady(World { harmless: harmless(2), ..good() }), 2, 8);
    assert!(alike.findings.is_empty() && alike.unknown.is_none(), "{:?}", alike.findings);
}

/// What one kernel has inlined counts with its caller on both sides; where a recording does not say what its kernel has, what was
/// done in the kernel is not compared.
#[test]
fn of_two_kernels_what_both_have_tells_the_components() {
    let of = |kernel, absent| World { accounted: true, kernel, absent, ..thp_off() };
    let (newer, older) = (of("6.18.0", Some(&[][..])), of("6.1.0", Some(&["clear_page_erms"][..])));
    let comparison = compare_worlds(&newer, &older, 1);
    let budget = comparison.budget.expect("both sides have an account");
    assert!(budget.components.iter().all(|one| one.component != "run.memory.clear"), "{:?}", budget.components);
    let entry = budget.components.iter().find(|one| one.component == "run.fault.entry").expect("faults");
    let (base, test) = (entry.base_ns.expect("told"), entry.test_ns.expect("told"));
    assert!(base > 100.0 && (test / base - 1.0).abs() < 0.1, "{entry:?}");
    assert!(!budget.is_lower_bound && budget.missing.is_empty(), "{:?}", budget.missing);
    let said = |notes: &[String], words: &str| notes.iter().any(|note| note.contains(words));
    assert!(said(&comparison.notes, "the kernels differ (6.1.0, 6.18.0): functions"), "{:?}", comparison.notes);

    let comparison = compare_worlds(&newer, &of("6.1.0", None), 1);
    let budget = comparison.budget.expect("both sides have an account");
    let entry = budget.components.iter().find(|one| one.component == "run.memory.clear").expect("named");
    assert_eq!((entry.base_ns, entry.test_ns, entry.difference_ns), (None, None, None));
    assert!(budget.is_lower_bound && budget.missing[0].reason.contains("the kernels differ"), "{:?}", budget.missing);
    assert!(said(&comparison.notes, "not every recording says"), "{:?}", comparison.notes);
}

/// Two causes that both cost faults share the time in the kernel: not each has all of it.
#[test]
fn causes_of_one_resource_share_it() {
    let base = World { pool: Some(4), ..good() };
    let test = World { thp: "madvise", pool: Some(0), harmless: harmless(2), ..base.clone() };
    for seed in 1..=4 {
        let comparison = compare_worlds(&base, &test, seed);
        let shares: f64 = comparison.findings.iter().filter_map(|one| Some(one.effect.as_ref()?.share)).sum();
        assert!(shares <= 1.0 + 1e-9, "{shares}: {:?}", causes(&comparison));
    }
}

/// Commands that differ beyond the setting may do other work, whatever the setting did.
#[test]
fn other_work_is_no_mechanism() {
    let other = World { work: "another", ..thp_off() };
    let comparison = compare_worlds(&good(), &other, 1);
    let finding = &comparison.findings[0];
    assert_eq!((finding.cause.as_str(), finding.confidence), ("thp.disabled", Confidence::Correlated));
    assert!(finding.not_looked_at.iter().any(|doubt| doubt.contains("different commands or jobs")));
    assert!(comparison.notes.iter().any(|note| note.contains("different jobs")), "{:?}", comparison.notes);
    // Where the program's own call is the difference, the commands differ with it.
    let barred = World { prctl: true, work: "wrapped", ..good() };
    let comparison = compare_worlds(&good(), &barred, 1);
    assert_eq!(comparison.findings[0].confidence, Confidence::Mechanism, "{:?}", comparison.findings[0].not_looked_at);
}

#[test]
fn another_host_is_said() {
    let comparison = compare_worlds(&good(), &World { host: "elsewhere", ..thp_off() }, 1);
    assert!(comparison.notes.iter().any(|note| note.contains("differ in host: host on base, elsewhere on test")));
}

/// With one run a side nothing is tested and nothing is refuted; the rules judge either side alone.
#[test]
fn one_good_and_one_bad_recording() {
    let dir = tempfile::tempdir().unwrap();
    let comparison = compare_in(dir.path(), &good(), &thp_off(), 1, 1);
    assert_eq!(comparison.primary.as_ref().unwrap().verdict, Verdict::NotTested);
    assert!(comparison.considered.iter().all(|one| one.outcome.word() == "not_tested"), "{:?}", comparison.considered);
    assert_eq!(causes(&comparison), ["thp.disabled"]);
    let finding = &comparison.findings[0];
    assert_eq!((finding.confidence, finding.side), (Confidence::SeenOnce, SideName::Test));
    assert_eq!(
        (finding.called().as_str(), finding.effect.as_ref().and_then(|effect| effect.share_ci95)),
        ("seen once on test", None)
    );
    assert_eq!(serde_json::to_value(finding).unwrap()["confidence"], "seen_once");
    let setting = finding.setting.as_ref().unwrap();
    assert_eq!((setting.base.as_deref(), setting.test.as_deref()), (Some("always"), Some("madvise")));
    // The other way round it is the base's.
    let other = tempfile::tempdir().unwrap();
    let swapped = compare_in(other.path(), &thp_off(), &good(), 1, 1);
    assert_eq!(causes(&swapped), ["thp.disabled"]);
    assert_eq!(swapped.findings[0].called(), "seen once on base");
    let largest: Vec<&str> = comparison.largest_changes.iter().map(|change| change.name.as_str()).collect();
    assert!(largest.iter().take(6).any(|name| name.starts_with("faults.")), "{largest:?}");
    assert!(comparison.bad_answer().unwrap().contains("nothing was tested"));
    // What holds on both sides explains no difference.
    let both = tempfile::tempdir().unwrap();
    assert!(compare_in(both.path(), &thp_off(), &thp_off(), 1, 1).findings.is_empty());
}

/// Every run of the test side crashed, or ran into the timeout: that is an answer, and a bad one.
#[test]
fn failing_runs_are_a_bad_answer() {
    let all = 0b11110;
    let crashed = World { failing_rounds: all, ..good() };
    let comparison = compare_worlds(&good(), &crashed, 1);
    assert_eq!((comparison.test.n, comparison.failures.test.failed), (0, 4));
    assert_eq!(comparison.failures.verdict, Verdict::Worse, "p = 1/35");
    assert!(comparison.bad_answer().unwrap().contains("all 4 test runs failed"));
    let dir = tempfile::tempdir().unwrap();
    let two = compare_in(dir.path(), &good(), &crashed, 1, 2);
    assert!(two.bad_answer().unwrap().contains("all 2 test runs failed"), "too few for a test, and plain enough");
    let slow = World { timed_out_rounds: all, ..good() };
    assert!(compare_worlds(&good(), &slow, 1).bad_answer().unwrap().contains("failed or timed out"));
    // The base's failures are not held against the test side; nor are two of four.
    assert_eq!(compare_worlds(&crashed, &good(), 1).failures.verdict, Verdict::Better);
    let half = World { failing_rounds: 0b110, ..good() };
    let comparison = compare_worlds(&good(), &half, 1);
    assert_eq!(comparison.failures.verdict, Verdict::NoDifference);
    assert_eq!(comparison.bad_answer(), None);
    assert!(comparison.notes.iter().any(|note| note.contains("2 of 4 test runs failed")), "{:?}", comparison.notes);
}

/// Huge pages are off by two settings, and either alone keeps them off: both are named.
#[test]
fn settings_that_suffice_only_together_are_both_named() {
    let with = |world: World, disable: &str| {
        let mut world = world;
        world.harmless.insert("thp.2M.enabled".to_owned(), disable.to_owned());
        world
    };
    let base = with(good(), "inherit");
    let test = with(World { thp: "never", prctl: true, ..thp_off() }, "inherit");
    let comparison = compare_worlds(&base, &test, 1);
    let finding = &comparison.findings[0];
    assert_eq!(finding.cause, "thp.disabled", "{}", said(&comparison, "thp.disabled"));
    assert_eq!(finding.setting.as_ref().unwrap().key, "thp.enabled");
    assert_eq!(finding.together_with.len(), 1);
    assert!(finding.together_with[0].key.starts_with("prctl"));
    assert!(finding.summary.contains("none of these alone"), "{}", finding.summary);
    // Nothing that one of the two undoes is offered as the remedy.
    assert!(
        !finding.fix.iter().any(|fix| fix.contains("echo always") || fix.contains("GLIBC_TUNABLES")),
        "{:?}",
        finding.fix
    );
}

/// The prohibition is the process's: what the memory or the host allow does not lift it.
#[test]
fn remedies_that_cannot_work_are_not_listed() {
    let comparison = compare_worlds(&good(), &World { prctl: true, ..good() }, 1);
    let fixes = &comparison.findings[0].fix;
    assert!(fixes[0].contains("PR_SET_THP_DISABLE, 0"), "{fixes:?}");
    assert_eq!(fixes.len(), 1, "{fixes:?}");
    let never = compare_worlds(&good(), &World { thp: "never", harmless: harmless(2), ..good() }, 1);
    let fixes = &never.findings[0].fix;
    assert!(fixes[0].contains("MADV_COLLAPSE"), "{fixes:?}");
    assert!(!fixes.iter().any(|fix| fix.contains("GLIBC_TUNABLES")), "{fixes:?}");
}

/// The limit on reservations can refuse an mmap; the limit on use cannot, however small it is.
#[test]
fn limits_of_the_group_count_by_what_the_kernel_enforces() {
    let limited = |key: &str, value: &str| {
        let mut world = World { thp: "madvise", pool: Some(2), pool_says_left: Some(40), ..good() };
        world.harmless.insert(key.to_owned(), value.to_owned());
        world
    };
    let fast = World { pool: None, ..good() };
    let on_use = limited("cgroup.hugetlb.2M.max", "2097152");
    refuted(&compare_worlds(&fast, &on_use, 1), "hugetlb.pool_exhausted", "room for the largest refused request");
    let wide = limited("cgroup.hugetlb.2M.rsvd.max", "1099511627776");
    refuted(&compare_worlds(&fast, &wide, 1), "hugetlb.pool_exhausted", "room for the largest refused request");
    let comparison = compare_worlds(&fast, &limited("cgroup.hugetlb.2M.rsvd.max", "4194304"), 1);
    assert!(causes(&comparison).contains(&"hugetlb.pool_exhausted"), "{}", said(&comparison, "hugetlb.pool_exhausted"));
    let barred = limited("rlimit.as", "1048576");
    refuted(&compare_worlds(&fast, &barred, 1), "hugetlb.pool_exhausted", "rlimit.as");
}

/// Labels, variants, threads and names of jobs say the opposite of the truth; the findings are the same.
#[test]
fn names_do_not_matter() {
    let named = |world: World, label: &str, comm: &'static str| World { label: label.to_owned(), comm, ..world };
    let plain = compare_worlds(&named(good(), "a", "cache"), &named(thp_off(), "b", "cache"), 1);
    let lying = compare_worlds(&named(good(), "thp never", "bad"), &named(thp_off(), "thp always", "good"), 1);
    let text = |comparison: &Comparison| {
        let finding = &comparison.findings[0];
        serde_json::to_string(&(
            &finding.evidence,
            &finding.refuted,
            &finding.numbers,
            &finding.effect,
            &finding.setting,
        ))
        .unwrap()
    };
    assert_eq!(causes(&plain), causes(&lying));
    assert_eq!(text(&plain), text(&lying));
}

/// The document survives its own form.
#[test]
fn findings_are_serialised_whole() {
    let dir = tempfile::tempdir().unwrap();
    let comparison = compare_in(dir.path(), &good(), &thp_off(), 1, 4);
    let text = serde_json::to_string(&comparison.findings).unwrap();
    let back: Vec<pagelab_analysis::rules::Finding> = serde_json::from_str(&text).unwrap();
    // Numbers in JSON may differ in the last digit; everything else is as it was.
    let parts = |finding: &pagelab_analysis::rules::Finding| {
        let kept = (finding.evidence.clone(), finding.refuted.clone(), finding.fixes.clone());
        (finding.cause.clone(), finding.confidence, finding.mapping.clone(), finding.setting.clone(), kept)
    };
    assert_eq!(back.iter().map(parts).collect::<Vec<_>>(), comparison.findings.iter().map(parts).collect::<Vec<_>>());
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    for key in ["rank", "cause", "confidence", "summary", "evidence", "refuted", "fix"] {
        assert!(value[0].get(key).is_some(), "{key}");
    }
    assert!(value[0]["fix"][0].is_string() && value[0]["confidence"] == "mechanism");
}
