//! Every file of tests is run: crates that name their test programs themselves (`autotests = false`) leave none out.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Files of `tests/` that neither a `[[test]]` of the manifest nor a `mod` of `tests/main.rs` names.
fn left_out(krate: &Path) -> Vec<String> {
    let manifest = fs::read_to_string(krate.join("Cargo.toml")).expect("each folder is a crate");
    let manifest: toml::Table = manifest.parse().expect("a manifest");
    if manifest["package"].get("autotests").and_then(toml::Value::as_bool) != Some(false) {
        return Vec::new();
    }
    let programs = manifest.get("test").and_then(toml::Value::as_array).cloned().unwrap_or_default();
    let mut run: BTreeSet<String> =
        programs.iter().filter_map(|program| Some(program.get("name")?.as_str()?.to_owned())).collect();
    let main = fs::read_to_string(krate.join("tests/main.rs")).expect("the modules of the test program");
    for line in main.lines() {
        if let Some(module) = line.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';')) {
            run.insert(module.to_owned());
        }
    }
    let files = fs::read_dir(krate.join("tests")).expect("tests").flatten();
    let names = files.filter_map(|file| file.file_name().into_string().ok()?.strip_suffix(".rs").map(str::to_owned));
    names.filter(|name| name != "main" && !run.contains(name)).collect()
}

#[test]
fn every_file_of_tests_is_part_of_a_program() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for entry in fs::read_dir(&crates).expect("crates/").flatten() {
        let files = left_out(&entry.path());
        assert!(
            files.is_empty(),
            "{}: tests/{}.rs is run by nobody: name it in tests/main.rs, or as a [[test]] in Cargo.toml",
            entry.path().display(),
            files.join(".rs, ")
        );
    }
}
