//! Dependencies between the crates go one way: each may know only those that its line names.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Crates that know nothing of ours, and that every crate may know: the words, the one way to write files, and what tests share.
const LEAVES: [&str; 3] = ["vocab", "output", "testing"];

/// Crate, and the crates it may know besides the [`LEAVES`].
const ARROWS: [(&str, &[&str]); 27] = [
    ("testing", &[]),
    ("vocab", &[]),
    ("output", &[]),
    ("recording", &[]),
    ("residency", &[]),
    ("mapping", &["residency"]),
    ("host", &["mapping", "residency"]),
    ("conformance", &["residency", "host"]),
    ("fiojob", &[]),
    ("load", &["fiojob", "mapping", "residency", "host", "recording"]),
    ("observe", &["recording", "residency", "host"]),
    // `views` for the rollups, which are written when a recording is closed.
    ("session", &["fiojob", "load", "observe", "host", "recording", "residency", "views"]),
    // Without `session`: it starts `pagelab record`, a process for each recording.
    ("agent", &["recording", "host", "residency"]),
    // Without `views`, which ask recordings: what happens now is in none yet.
    ("watch", &["session", "observe", "host", "recording"]),
    ("views", &["recording"]),
    ("sql", &["recording"]),
    // `residency` for the policy of huge pages, which rules apply to settings of the past.
    ("analysis", &["views", "recording", "residency"]),
    // A disposable VM knows nothing of what is done in it.
    ("lab", &[]),
    // `fiojob` and `observe` for the words of plans: jobs and streams are checked before anything runs.
    ("experiment", &["session", "lab", "host", "analysis", "recording", "fiojob", "observe", "residency"]),
    ("reproduce", &["experiment", "analysis", "recording"]),
    ("interop", &["views", "recording"]),
    ("report", &["views", "analysis", "recording", "fleet"]),
    ("fleet", &["analysis", "recording", "views"]),
    ("page", &["analysis", "interop", "views", "recording"]),
    ("ui", &["views", "recording"]),
    ("mcp", &["analysis", "sql", "views", "host", "recording"]),
    (
        "cli",
        &[
            "host",
            "conformance",
            "lab",
            "recording",
            "fiojob",
            "residency",
            "load",
            "observe",
            "session",
            "agent",
            "views",
            "sql",
            "analysis",
            "experiment",
            "reproduce",
            "interop",
            "page",
            "ui",
            "mcp",
            "watch",
            "report",
            "fleet",
        ],
    ),
];

#[test]
fn arrows_point_one_way() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(&crates).expect("crates/").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let text = fs::read_to_string(entry.path().join("Cargo.toml")).expect("each folder is a crate");
        let manifest: toml::Table = text.parse().expect("a manifest");
        let (_, allowed) = ARROWS.iter().find(|(krate, _)| *krate == name).expect("each crate has a line in ARROWS");
        let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table).cloned().unwrap_or_default();
        for dependency in dependencies.keys().filter_map(|key| key.strip_prefix("pagelab-")) {
            let leaf = LEAVES.contains(&dependency) && !LEAVES.contains(&name.as_str());
            assert!(leaf || allowed.contains(&dependency), "{name} may not know {dependency}");
        }
        found.insert(name);
    }
    assert_eq!(found.len(), ARROWS.len(), "every line is a crate");
}
