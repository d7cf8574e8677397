//! Which rows of a view are asked for: a part of the time, tasks, files, names, an order and how many.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use pagelab_recording::Bounds;
use pagelab_vocab::nearest::hint_for;

use crate::error::{Result, ViewError};

/// Rows of a ranking unless `--top` says otherwise.
const RANKING: usize = 20;

/// Columns of a picture where nobody says how wide it is drawn.
pub(crate) const PICTURE_COLUMNS: usize = 87;

/// Which rows of a view are asked for, and in what order. A view reads the fields that it knows and leaves the others alone.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Only this process.
    pub pid: Option<i32>,
    /// Only tasks while they have this name.
    pub comm: Option<String>,
    /// Only this file.
    pub file: Option<PathBuf>,
    /// Only names with one of these in them.
    pub words: Vec<String>,
    /// Rows of each list; 0 for all.
    pub top: Option<usize>,
    /// Column to rank by.
    pub sort: Option<String>,
    /// The part of the time that counts.
    pub bounds: Bounds,
    /// The function whose callers are shown.
    pub callers: Option<String>,
    /// The function whose callees are shown.
    pub callees: Option<String>,
    /// Groups of functions, `NAME=REGEX`.
    pub groups: Vec<String>,
    /// The grouping of rows.
    pub by: Option<String>,
    /// Only system calls of these names or classes.
    pub names: Vec<String>,
    /// Places in the kernel that are to tell nothing, by the newest of their names (`pagelab_vocab::budget::AnchorsFound`): what
    /// they stand for counts with their callers.
    pub places_untold: BTreeSet<String>,
    /// Columns that a picture may have; `None` for [`PICTURE_COLUMNS`].
    pub columns: Option<usize>,
}

impl Selection {
    /// Rows of a ranking (`ranked`) or of a listing. What `--sort` has put in order is a ranking.
    pub(crate) fn limit(&self, ranked: bool) -> usize {
        match self.top {
            Some(0) => usize::MAX,
            Some(top) => top,
            None if ranked || self.sort.is_some() => RANKING,
            None => usize::MAX,
        }
    }

    /// The column to rank by: the one asked for, or the first of `columns`.
    pub(crate) fn sort_by(&self, columns: &[&'static str]) -> Result<&'static str> {
        chosen("--sort", self.sort.as_deref(), columns)
    }

    /// The grouping of rows: the one requested, or the first of `kinds`.
    pub(crate) fn group_by(&self, kinds: &[&'static str]) -> Result<&'static str> {
        chosen("--by", self.by.as_deref(), kinds)
    }

    /// Whether a name has one of the words in it. Without words every name does.
    pub(crate) fn wants_name(&self, name: &str) -> bool {
        self.words.is_empty() || self.words.iter().any(|word| name.contains(word.as_str()))
    }

    /// Whether tasks are selected.
    pub(crate) fn by_task(&self) -> bool {
        self.pid.is_some() || self.comm.is_some()
    }

    /// Whether a mapping of `path` is wanted: the path asked for is all of it, or its last components.
    pub(crate) fn wants_path(&self, path: Option<&[u8]>) -> bool {
        let Some(asked) = &self.file else { return true };
        let asked = asked.as_os_str().as_bytes();
        path.is_some_and(|path| {
            path.strip_suffix(asked).is_some_and(|before| {
                before.is_empty() || before.ends_with(b"/") || (asked.starts_with(b"/") && before == b"...")
            })
        })
    }
}

/// The word asked for, or the first of those that there are.
fn chosen(option: &str, asked: Option<&str>, words: &[&'static str]) -> Result<&'static str> {
    let first = words.first().copied().unwrap_or_default();
    let Some(asked) = asked else { return Ok(first) };
    if let Some(found) = words.iter().find(|word| word.eq_ignore_ascii_case(asked)) {
        return Ok(found);
    }
    let near = hint_for(asked, words.iter().copied());
    let list = words.join(" ");
    Err(ViewError::Asked(format!("{option}: found {asked:?}{near}; needed one of: {list}")))
}

/// The first `limit` rows, and how many there were.
pub(crate) fn cut<T>(mut rows: Vec<T>, limit: usize) -> (Vec<T>, usize) {
    let total = rows.len();
    rows.truncate(limit);
    (rows, total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_asked_for_by_its_end() {
        let selection = |file: &str| Selection { file: Some(file.into()), ..Selection::default() };
        assert!(selection("libc.so.6").wants_path(Some(b"/lib/libc.so.6")));
        assert!(selection("/lib/libc.so.6").wants_path(Some(b"/lib/libc.so.6")));
        assert!(selection("[heap]").wants_path(Some(b"[heap]")));
        assert!(!selection("c.so.6").wants_path(Some(b"/lib/libc.so.6")));
        assert!(!selection("libc.so.6").wants_path(None));
        assert!(Selection::default().wants_path(None));
    }

    #[test]
    fn listings_are_whole_and_rankings_short() {
        let with = |top, sort: Option<&str>| Selection { top, sort: sort.map(str::to_owned), ..Selection::default() };
        assert_eq!(with(None, None).limit(true), RANKING);
        assert_eq!(with(None, None).limit(false), usize::MAX);
        assert_eq!(with(None, Some("x")).limit(false), RANKING);
        assert_eq!(with(Some(0), None).limit(true), usize::MAX);
        assert_eq!(with(Some(3), None).limit(false), 3);
    }
}
