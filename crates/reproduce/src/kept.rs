//! The kept recordings: which ones a pattern means, and their properties.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pagelab_recording::set::{RunState, SET_JSON, SetJson};
use pagelab_recording::{MANIFEST, Manifest, Recording};

use crate::dates::date_of_ns;

/// What a pattern means.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// Recordings that ended well, sorted by path.
    pub dirs: Vec<PathBuf>,
    /// What should be there and is not, relative to what is kept.
    pub missing: Vec<String>,
    /// Runs that are there and did not end well.
    pub failed: usize,
}

/// Finds the recordings that `pattern` means within `out`. Within a set its document decides: runs that failed are left
/// out, and runs that ended well and are gone are missing.
pub(crate) fn recordings(out: &Path, pattern: &str) -> Kept {
    let parts: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty()).collect();
    let mut kept = Kept::default();
    walk(out, out, &parts, &mut kept);
    kept.dirs.sort();
    if kept.dirs.is_empty() && kept.missing.is_empty() && kept.failed == 0 {
        kept.missing.push(pattern.to_owned());
    }
    kept
}

fn walk(out: &Path, dir: &Path, parts: &[&str], kept: &mut Kept) {
    if let Ok(set) = SetJson::load(dir) {
        return of_set(out, dir, &set, parts, kept);
    }
    let [part, rest @ ..] = parts else {
        match Recording::open(dir) {
            Ok(recording) if recording.manifest().complete => kept.dirs.push(dir.to_owned()),
            Ok(_) => kept.failed += 1,
            // A folder that is none.
            Err(_) => {}
        }
        return;
    };
    if !part.contains('*') {
        let next = dir.join(part);
        if next.is_dir() {
            walk(out, &next, rest, kept);
        }
        return;
    }
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
    names.sort();
    for name in names.iter().filter(|name| matches(part, &name.to_string_lossy())) {
        let next = dir.join(name);
        if next.is_dir() {
            walk(out, &next, rest, kept);
        }
    }
}

fn of_set(out: &Path, dir: &Path, set: &SetJson, parts: &[&str], kept: &mut Kept) {
    for run in &set.order {
        let names: Vec<String> = run.dir.components().map(|part| part.as_os_str().to_string_lossy().into()).collect();
        let fits = names.len() == parts.len() && parts.iter().zip(&names).all(|(part, name)| matches(part, name));
        if !fits {
            continue;
        }
        match run.state {
            // Warm-up runs are excluded from comparisons; a pattern that names them means them.
            RunState::Done | RunState::Excluded { .. } => {
                let path = dir.join(&run.dir);
                if path.join(MANIFEST).is_file() {
                    kept.dirs.push(path);
                } else {
                    kept.missing.push(relative(out, &path));
                }
            }
            RunState::Failed { .. } => kept.failed += 1,
            RunState::Planned | RunState::Running => kept.missing.push(relative(out, &dir.join(&run.dir))),
        }
    }
}

/// A path within what is kept, as the figures name it.
pub(crate) fn relative(out: &Path, path: &Path) -> String {
    path.strip_prefix(out).unwrap_or(path).display().to_string()
}

/// Whether a name fits a pattern; `*` stands for any letters.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == name };
    let Some(rest) = name.strip_prefix(head) else { return false };
    rest.char_indices()
        .map(|(at, _)| at)
        .chain([rest.len()])
        .any(|at| matches(tail, rest.get(at..).unwrap_or_default()))
}

/// Under what something was recorded; several of one kind stand side by side.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Origin {
    kernels: BTreeSet<String>,
    versions: BTreeSet<String>,
    dates: BTreeSet<String>,
}

impl Origin {
    /// Of recordings.
    pub fn of(dirs: &[PathBuf]) -> Self {
        let mut origin = Self::default();
        for manifest in dirs.iter().filter_map(|dir| Manifest::load(dir).ok()) {
            origin.versions.insert(manifest.pagelab_version.clone());
            origin.kernels.extend(manifest.kernel.clone());
            origin.dates.extend(manifest.clock.realtime_at_start_ns.map(date_of_ns));
        }
        origin
    }

    /// The origin of a document: that of the recordings next to it if it lies in a set.
    pub fn of_document(path: &Path) -> Option<Self> {
        let set = path.parent().filter(|dir| dir.join(SET_JSON).is_file())?;
        let json = SetJson::load(set).ok()?;
        let done = json.order.iter().filter(|run| run.state == RunState::Done);
        let dirs: Vec<PathBuf> = done.map(|run| set.join(&run.dir)).collect();
        Some(Self::of(&dirs))
    }

    /// Of one step.
    pub fn single(kernel: &str, version: &str, date: &str) -> Self {
        let one = |text: &str| BTreeSet::from([text.to_owned()]);
        Self { kernels: one(kernel), versions: one(version), dates: one(date) }
    }

    /// The kernels.
    pub fn kernel(&self) -> Option<String> {
        joined(&self.kernels)
    }

    /// Versions of pagelab.
    pub fn version(&self) -> Option<String> {
        joined(&self.versions)
    }

    /// The last day.
    pub fn date(&self) -> Option<String> {
        self.dates.last().cloned()
    }
}

fn joined(texts: &BTreeSet<String>) -> Option<String> {
    let all: Vec<&str> = texts.iter().map(String::as_str).collect();
    (!all.is_empty()).then(|| all.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_letters_within_a_name() {
        for (pattern, name, fits) in [
            ("run=*", "run=001", true),
            ("run=*", "runs=1", false),
            ("*", "", true),
            ("variant=*k*", "variant=4k-base", true),
            ("a*b", "a", false),
            ("a*b*", "acb", true),
            ("run=001", "run=0012", false),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }
}
