//! Dependencies between the crates go one way: each may know only those that its line names.

use std::collections::{BTreeMap, BTreeSet};
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

/// Packages that `crates/` has in a lock file, with the names of what they depend on, without versions and without what only tests need.
fn locked(path: &str) -> BTreeMap<String, BTreeSet<String>> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).expect(path);
    let lock: toml::Table = text.parse().expect("a lock file");
    let packages = lock["package"].as_array().expect("packages");
    let name = |package: &toml::Value| package["name"].as_str().expect("a name").to_owned();
    let needs = |package: &toml::Value| {
        let list = package.get("dependencies").and_then(toml::Value::as_array).cloned().unwrap_or_default();
        list.iter().filter_map(|one| one.as_str()?.split(' ').next().map(str::to_owned)).collect()
    };
    packages.iter().map(|package| (name(package), needs(package))).collect()
}

/// What a crate depends on by its manifest, without what only tests need.
fn declared(name: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("Cargo.toml");
    let manifest: toml::Table = fs::read_to_string(path).expect("a manifest").parse().expect("a manifest");
    let mut found = BTreeSet::new();
    for table in ["dependencies", "build-dependencies"] {
        let dependencies = manifest.get(table).and_then(toml::Value::as_table).cloned().unwrap_or_default();
        found.extend(dependencies.keys().cloned());
    }
    found
}

/// The workspace of `fleet/` has a lock file of its own, which the rest of the tests never look at.
#[test]
fn the_lock_file_of_the_fleet_knows_what_its_crates_need() {
    let fleet = locked("fleet/Cargo.lock");
    let mut seen = 0;
    for (krate, _) in ARROWS {
        let Some(needs) = fleet.get(&format!("pagelab-{krate}")) else { continue };
        let missing: Vec<_> = declared(krate).difference(needs).cloned().collect();
        assert!(
            missing.is_empty(),
            "{krate}: {missing:?}; type: cargo update --workspace --manifest-path fleet/Cargo.toml"
        );
        seen += 1;
    }
    assert!(seen >= 4, "{seen}");
}
