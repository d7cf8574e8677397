//! Verdicts as text: everything that a reader needs is there, and it fits the terminal.

#![allow(clippy::unwrap_used)]

#[path = "../../analysis/tests/rules_sim/mod.rs"]
mod rules_sim;

use pagelab_analysis::compare::LatencyChange;
use pagelab_analysis::explain::explain;
use pagelab_analysis::stats::Side;
use pagelab_report::{Glyphs, Style, pictures, short, verdict};
use pagelab_views::run::Exclusion;
use rules_sim::{World, compare_in, compare_worlds, harmless, play};

fn style(width: usize) -> Style {
    Style { width, height: 12, glyphs: Glyphs::Braille, colour: false }
}

fn good() -> World {
    World { harmless: harmless(1), label: "good".to_owned(), ..World::default() }
}

fn bad() -> World {
    World { thp: "madvise", harmless: harmless(2), label: "bad".to_owned(), ..World::default() }
}

/// Lines that may be longer than the terminal: a command is not broken, so that it can be copied.
fn too_long(text: &str, width: usize) -> Vec<&str> {
    let commands = ["madvise(", "echo ", "GLIBC_TUNABLES", "mmap("];
    text.lines().filter(|line| line.chars().count() > width && !commands.iter().any(|c| line.contains(c))).collect()
}

#[test]
fn a_regression_is_told_whole() {
    let dir = tempfile::tempdir().unwrap();
    let comparison = compare_in(dir.path(), &good(), &bad(), 1, 4);
    for width in [60, 80, 120] {
        let text = verdict::comparison(&comparison, &style(width));
        assert!(too_long(&text, width).is_empty(), "{:?}", too_long(&text, width));
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "Test is worse: load.iops",
            "ratio",
            "95 % interval",
            "1. thp.disabled [mechanism]",
            "thp.enabled: always on base, madvise on test",
            "mappings of 2 MiB each",
            "of the lost time",
            "madvise(addr, length, MADV_HUGEPAGE);",
            "echo always | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
        ] {
            assert!(flat.contains(part), "{part} is missing at width {width}:\n{text}");
        }
    }
    let drawn = pictures(&comparison, &style(80)).unwrap();
    assert!(drawn.contains("base (good)") && drawn.contains("test (bad)") && drawn.contains("512 faults"), "{drawn}");
    println!("{}\n{drawn}", verdict::comparison(&comparison, &style(100)));
}

#[test]
fn the_short_form_fits_a_screen() {
    let accounted = |world: World| World { accounted: true, ..world };
    let comparison = compare_worlds(&accounted(good()), &accounted(bad()), 1);
    for width in [60, 80, 100] {
        let text = short(&comparison, &style(width));
        assert!(too_long(&text, width).is_empty(), "{:?}", too_long(&text, width));
        assert!(width < 80 || text.lines().count() <= 25, "{}\n{text}", text.lines().count());
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "Test is worse: load.iops",
            "Where the time of an operation went",
            "run.memory.clear",
            "1. thp.disabled [mechanism]",
            "of the lost time",
            "Fix (mapping):",
            "madvise(addr, length, MADV_HUGEPAGE);",
            "--confirm toggles the setting",
            "-v shows the evidence",
        ] {
            let is_cut = width < 80 && part.starts_with("run.");
            assert!(is_cut || flat.contains(part), "{part} is missing at width {width}:\n{text}");
        }
        assert!(!flat.contains("Ruled out"), "{text}");
    }
    let same = compare_worlds(&accounted(good()), &accounted(World { harmless: harmless(2), ..good() }), 1);
    let text = short(&same, &style(100));
    assert!(text.starts_with("No difference was shown") && text.contains("causes were not analysed"), "{text}");
    assert!(text.contains("With so many runs a difference of") && !text.contains("--confirm"), "{text}");
}

#[test]
fn no_difference_and_no_cause_are_said_so() {
    let same = compare_worlds(&good(), &World { harmless: harmless(2), ..good() }, 1);
    let text = verdict::comparison(&same, &style(100));
    assert!(text.starts_with("No difference was shown, equivalent within "), "{text}");
    assert!(text.contains(" %: load.iops"), "{text}");
    assert!(text.contains("causes were not analysed"));
    assert!(text.contains("With so many runs a difference of"), "{text}");
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("side runs mean median sd lowest highest"), "{text}");
    assert!(verdict::each_run(&same, &style(100)).lines().count() >= 6);
    let other = compare_worlds(&good(), &World { extra_ns: 90, ..good() }, 1);
    let text = verdict::comparison(&other, &style(100));
    assert!(text.contains("No cause was found") && text.contains("thp.disabled (refuted)"), "{text}");
}

/// Why runs count nowhere is said where their number is, and the command stands on a line of its own to be copied.
#[test]
fn excluded_runs_have_their_reasons() {
    let mut comparison = compare_worlds(&good(), &World { harmless: harmless(2), ..good() }, 1);
    let dir = "/a/folder/with a long name/of/a/set/whose/runs/did/not/get/through/variant=bad/run=001";
    for run in &mut comparison.test.runs {
        run.excluded = Some(Exclusion::Failed { code: Some(3), signal: None });
        dir.clone_into(&mut run.dir);
    }
    let n = comparison.test.runs.len();
    for width in [60, 80, 120] {
        let text = short(&comparison, &style(width));
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let caution = format!("CAUTION: {n} of {n} test runs are excluded: exit status 3 ({n} runs)");
        assert!(flat.contains(&caution), "{text}");
        assert!(text.lines().any(|line| line.trim() == format!("pagelab show '{dir}'")), "{text}");
        assert!(!text.contains("base runs are excluded"), "{text}");
    }
}

/// What bears on every number is said before them, and a distribution has its table; both fit the terminal.
#[test]
fn cautions_come_first_and_latency_has_a_table() {
    let mut comparison = compare_worlds(&good(), &World { harmless: harmless(2), ..good() }, 1);
    let stability = comparison.stability.as_mut().unwrap();
    assert!(stability.notes.is_empty(), "clean sides: {:?}", stability.notes);
    stability.notes = vec!["the base runs have two modes: 3 near 3 s and 7 near 1 s \u{1b}[31m".to_owned()];
    let side = |mean| Side { n: 10, mean: Some(mean), sd: Some(100.0) };
    comparison.latency = vec![LatencyChange {
        instance: Some("j/read".to_owned()),
        kind: "lat".to_owned(),
        quantile: "p99.9".to_owned(),
        unit: "ns".to_owned(),
        base: side(812_000.0),
        test: side(1_624_000.0),
        ratio: Some(2.0),
        ratio_ci95: Some([1.81, 2.21]),
        p: Some(0.001),
        q: Some(0.004),
        significant: Some(true),
        note: None,
    }];
    for width in [60, 80, 120] {
        let text = verdict::comparison(&comparison, &style(width));
        assert!(text.starts_with("CAUTION: the base runs have two modes"), "{text}");
        assert!(!text.contains('\u{1b}'), "a name cannot draw: {text}");
        assert!(text.find("two modes") < text.find("No difference was shown"), "{text}");
        assert!(too_long(&text, width).is_empty(), "{:?}", too_long(&text, width));
        let row = text.lines().find(|line| line.contains("j/read")).unwrap();
        for part in ["p99.9", "812 us", "1.624 ms", "2 (1.81 to 2.21)", "0.004"] {
            assert!(row.contains(part), "{part} is missing: {row}");
        }
    }
}

#[test]
fn a_lone_recording_is_told_with_less_confidence() {
    let dir = tempfile::tempdir().unwrap();
    let run = play(&bad(), &dir.path().join("run"), 1, 1, 1);
    let text = verdict::explanation(&explain(&run).unwrap(), &style(100));
    assert!(text.contains("1. thp.disabled  [correlated]") && text.contains("thp.enabled = madvise"), "{text}");
    assert!(text.contains("Where the faults were"));
    println!("{text}");
    let run = play(&good(), &dir.path().join("other"), 1, 1, 1);
    let text = verdict::explanation(&explain(&run).unwrap(), &style(100));
    assert!(text.contains("Nothing stands out"), "{text}");
}
