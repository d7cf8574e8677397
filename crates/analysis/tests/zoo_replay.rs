//! Cases with known causes that were recorded once (`tests/zoo/keep.py`), compared again: a change of a rule, of the statistics or of a
//! reader that loses a cause, or accuses another one, shows here.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use pagelab_analysis::compare::{CompareOptions, Comparison, Verdict, compare};
use pagelab_analysis::rules::Confidence;
use tempfile::TempDir;

fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/zoo/kept")
}

fn replayed(name: &str) -> Comparison {
    let folder = TempDir::new().unwrap();
    let archive = kept().join(format!("{name}.tar.xz"));
    let unpacked = Command::new("tar").arg("-xJf").arg(&archive).arg("-C").arg(folder.path()).status().unwrap();
    assert!(unpacked.success(), "{}", archive.display());
    let side = |side: &str| -> Vec<PathBuf> {
        let runs = std::fs::read_dir(folder.path().join(side)).unwrap();
        runs.map(|run| run.unwrap().path()).collect()
    };
    compare(&side("base"), &side("test"), &CompareOptions::default()).unwrap()
}

#[test]
fn kept_cases_have_the_causes_that_were_planted() {
    let text = std::fs::read_to_string(kept().join("truth.json")).unwrap();
    let truth: BTreeMap<String, String> = serde_json::from_str(&text).unwrap();
    assert!(truth.len() >= 5, "{truth:?}");
    for (name, cause) in &truth {
        let document = replayed(name);
        let found: Vec<(&str, Confidence)> =
            document.findings.iter().map(|finding| (finding.cause.as_str(), finding.confidence)).collect();
        let accused =
            found.iter().filter(|(named, confidence)| named != cause && *confidence != Confidence::Correlated);
        assert_eq!(accused.count(), 0, "{name}: {found:?}");
        if !cause.is_empty() {
            assert_eq!(found.first().map(|(named, _)| *named), Some(cause.as_str()), "{name}: {found:?}");
            assert_eq!(found[0].1, Confidence::Mechanism, "{name}: {:?}", document.findings[0].not_looked_at);
        }
        if name == "alike" {
            assert_eq!(document.primary.as_ref().unwrap().verdict, Verdict::NoDifference);
            assert!(found.is_empty() && document.significant().next().is_none(), "{found:?}");
        }
        if name == "more" {
            let left = document.unknown.as_ref().unwrap();
            assert_eq!(left.components.first().map(|part| part.component.as_str()), Some("run.user"), "{left:?}");
        }
    }
}
