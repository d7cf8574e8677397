//! The difference of settings: joined twins, no volatile keys, ranked by what changed in the runs.

#![allow(clippy::unwrap_used)]

#[path = "../../views/tests/run_support/mod.rs"]
mod run_support;

use pagelab_analysis::settings_diff::{SettingsDiff, settings_diff};
use pagelab_views::run::RunData;
use run_support::{SECOND, job, record, setting};

type Setting = (&'static str, Option<&'static str>);

fn runs(all: &[&[Setting]]) -> Vec<RunData> {
    let tmp = tempfile::tempdir().unwrap();
    all.iter()
        .enumerate()
        .map(|(i, settings)| {
            let dir = record(&tmp.path().join(i.to_string()), job(0, SECOND, 1), |w| {
                settings.iter().for_each(|(key, value)| setting(w, key, *value));
            });
            RunData::load(&dir).unwrap()
        })
        .collect()
}

/// Two equal runs a side.
fn diff(base: &[Setting], test: &[Setting], symptoms: &[&str]) -> SettingsDiff {
    of(&[base, base], &[test, test], symptoms)
}

fn of(base: &[&[Setting]], test: &[&[Setting]], symptoms: &[&str]) -> SettingsDiff {
    let (base, test) = (runs(base), runs(test));
    let (base, test): (Vec<&RunData>, Vec<&RunData>) = (base.iter().collect(), test.iter().collect());
    settings_diff(&base, &test, symptoms)
}

fn keys(diff: &SettingsDiff) -> Vec<&str> {
    diff.differing.iter().map(|d| d.key.as_str()).collect()
}

#[test]
fn only_what_differs_and_means_something_is_listed() {
    let base = [
        ("thp.enabled", Some("always")),
        ("sysctl.vm.swappiness", Some("60")),
        ("sysctl.fs.file-nr", Some("1 2 3")),
        ("env.PWD", Some("/a")),
    ];
    let test = [
        ("thp.enabled", Some("madvise")),
        ("sysctl.vm.swappiness", Some("60")),
        ("sysctl.fs.file-nr", Some("4 5 6")),
        ("env.PWD", Some("/b")),
    ];
    let diff = diff(&base, &test, &["thp"]);
    assert_eq!(keys(&diff), ["thp.enabled"]);
    let thp = &diff.differing[0];
    assert_eq!((thp.base.as_deref(), thp.test.as_deref()), (Some("always"), Some("madvise")));
    assert!(diff.varying.is_empty());
}

#[test]
fn a_key_that_varies_within_a_side_is_no_difference() {
    let a = [("sysctl.vm.swappiness", Some("10"))];
    let b = [("sysctl.vm.swappiness", Some("60"))];
    let diff = of(&[&a, &b], &[&b, &b], &[]);
    assert!(diff.differing.is_empty());
    assert_eq!(diff.varying.len(), 1);
    assert_eq!((diff.varying[0].base.len(), diff.varying[0].test.len()), (2, 1));
}

#[test]
fn build_options_and_their_run_time_twin_are_one_entry() {
    let base = [
        ("kconfig.TRANSPARENT_HUGEPAGE_ALWAYS", Some("y")),
        ("kconfig.TRANSPARENT_HUGEPAGE_MADVISE", Some("n")),
        ("thp.enabled", Some("always")),
    ];
    let test = [
        ("kconfig.TRANSPARENT_HUGEPAGE_ALWAYS", Some("n")),
        ("kconfig.TRANSPARENT_HUGEPAGE_MADVISE", Some("y")),
        ("thp.enabled", Some("madvise")),
    ];
    let joined = diff(&base, &test, &["thp"]);
    assert_eq!(keys(&joined), ["thp.enabled"]);
    assert_eq!(joined.differing[0].also.len(), 2);
    assert_eq!(joined.differing[0].equivalent_of, None);
    // Without the run-time key the options stand for it, as one entry.
    let options_only = diff(&base[..2], &test[..2], &["thp"]);
    assert_eq!(options_only.differing.len(), 1);
    assert_eq!(options_only.differing[0].equivalent_of.as_deref(), Some("thp.enabled"));
    assert_eq!(options_only.differing[0].also.len(), 1);
    // With the same value set at run time, the built-in one no longer matters.
    let same = |side: &[Setting; 3]| vec![side[0], side[1], ("thp.enabled", Some("never"))];
    let overruled = diff(&same(&base), &same(&test), &["thp"]);
    assert_eq!(overruled.differing.len(), 1);
    assert!(overruled.differing[0].relevance < options_only.differing[0].relevance);
    assert!(overruled.differing[0].note.as_deref().unwrap().contains("never on both sides"));
}

/// What one side had not loaded yet is not known to differ; what it loaded from elsewhere is.
#[test]
fn a_library_of_another_folder_took_the_place_of_the_first_one() {
    let base =
        [("program./new/libscore.so.build_id", Some("ab12")), ("program./usr/lib/libm.so.6.build_id", Some("77"))];
    let diff = diff(&base, &[("program./old/libscore.so.build_id", Some("cd34"))], &[]);
    let mut found: Vec<_> =
        diff.differing.iter().map(|d| (d.key.as_str(), d.base.as_deref(), d.test.as_deref())).collect();
    found.sort_unstable();
    let needed = [
        ("program./new/libscore.so.build_id", Some("ab12"), None),
        ("program./old/libscore.so.build_id", None, Some("cd34")),
    ];
    assert_eq!(found, needed);
}

#[test]
fn the_ranking_follows_what_changed() {
    let base = [
        ("thp.enabled", Some("always")),
        ("block.vda.read_ahead_kb", Some("128")),
        ("sysctl.net.core.somaxconn", Some("1")),
        ("env.LANG", Some("C")),
    ];
    let test = [
        ("thp.enabled", Some("never")),
        ("block.vda.read_ahead_kb", Some("0")),
        ("sysctl.net.core.somaxconn", Some("2")),
        ("env.LANG", Some("de")),
    ];
    assert_eq!(keys(&diff(&base, &test, &["thp", "faults"]))[0], "thp.enabled");
    assert_eq!(keys(&diff(&base, &test, &["readahead", "io"]))[0], "block.vda.read_ahead_kb");
    let none = diff(&base, &test, &[]);
    assert_eq!(none.differing.len(), 4, "nothing is left out for being irrelevant");
    assert!(none.differing.iter().all(|d| (0.0..=1.0).contains(&d.relevance)));
}

#[test]
fn a_value_the_kernel_derives_ranks_below_its_source() {
    let base = [("thp.enabled", Some("always")), ("sysctl.vm.min_free_kbytes", Some("67584"))];
    let test = [("thp.enabled", Some("never")), ("sysctl.vm.min_free_kbytes", Some("5632"))];
    let diff = diff(&base, &test, &["reclaim"]);
    let derived = diff.differing.iter().find(|d| d.key == "sysctl.vm.min_free_kbytes").unwrap();
    assert_eq!(derived.derived_from.as_deref(), Some("thp.enabled"));
    assert_eq!(keys(&diff)[0], "thp.enabled");
}

#[test]
fn not_there_is_a_value_and_not_readable_is_none() {
    let base = [
        ("env.A", Some("masked:3fa2")),
        ("env.LANG", Some("C")),
        ("thp.enabled", Some("always")),
        ("thp.defrag", Some("madvise")),
    ];
    let test = [("env.A", Some("masked:0001")), ("thp.enabled", None)];
    let diff = diff(&base, &test, &[]);
    let mut found = keys(&diff);
    found.sort_unstable();
    assert_eq!(found, ["env.A", "env.LANG", "thp.defrag"], "thp.enabled is not known on the test side");
    let of = |key: &str| diff.differing.iter().find(|d| d.key == key).unwrap();
    assert_eq!((of("env.LANG").base.as_deref(), of("env.LANG").test.as_deref()), (Some("C"), None));
    assert!(of("env.LANG").note.as_deref().unwrap().contains("not there on the test side"));
    assert!(of("env.A").note.as_deref().unwrap().contains("not shown"));
}

/// The runs of two kernels differ in thousands of build options and dozens of knobs; the list names the few that matter.
#[test]
fn what_follows_from_the_kernel_is_set_apart() {
    let base = [
        ("kernel", Some("6.1")),
        ("kernel.release", Some("6.1.0-56-amd64")),
        ("kconfig.HZ", Some("250")),
        ("kconfig.SND_HDA", Some("m")),
        ("kconfig.GONE", Some("n")),
        ("sysctl.vm.swappiness", Some("60")),
        ("mm.lru_gen.enabled", Some("0x0000")),
        ("mm.total_bytes", Some("1005031424")),
        ("thp.enabled", Some("always")),
        ("env.LANG", Some("C")),
    ];
    let test = [
        ("kernel", Some("6.12")),
        ("kernel.release", Some("6.12.117+deb12-amd64")),
        ("kconfig.HZ", Some("250")),
        ("kconfig.SND_HDA", Some("y")),
        ("kconfig.NEW", Some("n")),
        ("kconfig.PER_VMA_LOCK", Some("y")),
        ("sysctl.vm.swappiness", Some("60")),
        ("sysctl.kernel.io_uring_group", Some("-1")),
        ("mm.lru_gen.enabled", Some("0x0007")),
        ("mm.total_bytes", Some("1012215808")),
        ("thp.enabled", Some("always")),
        ("thp.64K.enabled", Some("never")),
        ("thp.128K.enabled", Some("never")),
        ("thp.2M.enabled", Some("inherit")),
        ("env.LANG", Some("C")),
        ("env.NEW", Some("1")),
    ];
    let diff = diff(&base, &test, &["thp", "faults"]);
    let following: Vec<&str> = diff.following.iter().map(|following| following.key.as_str()).collect();
    assert_eq!(following, ["kconfig.SND_HDA", "sysctl.kernel.io_uring_group"]);
    assert!(diff.following.iter().all(|following| following.follows == "kernel"));
    // Nobody but the kernel decided any of it, so it ranks as high as what follows from it.
    assert_eq!(keys(&diff)[0], "kernel");
    let of = |key: &str| diff.differing.iter().find(|d| d.key == key);
    assert_eq!(of("thp.128K.enabled").unwrap().also, ["thp.64K.enabled"], "one entry for all sizes");
    for key in ["thp.128K.enabled", "thp.2M.enabled", "kconfig.PER_VMA_LOCK", "mm.total_bytes", "kernel.release"] {
        assert_eq!(of(key).unwrap().derived_from.as_deref(), Some("kernel"), "{key}");
    }
    // What both have, with another value, may be the cause; what a process is given is nobody's doing but ours.
    for key in ["mm.lru_gen.enabled", "env.NEW"] {
        assert_eq!(of(key).unwrap().derived_from, None, "{key}");
    }
    // An option that a kernel does not know is not built in.
    assert!(of("kconfig.GONE").is_none() && of("kconfig.NEW").is_none());
}

#[test]
fn one_kernel_built_in_two_ways_keeps_its_list() {
    let base = [("kernel", Some("6.1")), ("kconfig.SND_HDA", Some("m")), ("kconfig.A", Some("y"))];
    let test = [("kernel", Some("6.1")), ("kconfig.SND_HDA", Some("y")), ("kconfig.B", Some("y"))];
    let diff = diff(&base, &test, &[]);
    assert!(diff.following.is_empty());
    assert_eq!(keys(&diff).len(), 3);
}
