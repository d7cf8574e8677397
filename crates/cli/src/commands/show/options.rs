//! What was asked for beside the view.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use pagelab_recording::Bounds;
use pagelab_vocab::nearest::hint_for;

use crate::failure::Failure;

/// Rows of a ranking unless `--top` says otherwise.
const RANKING: usize = 20;

/// An option that not every view takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    /// `--pid`
    Pid,
    /// `--comm`
    Comm,
    /// `--file`
    File,
    /// Words behind the view's name.
    Words,
    /// `--top`
    Top,
    /// `--sort`
    Sort,
    /// `--callers`, `--callees` and `--group`
    Functions,
    /// `--by`
    By,
    /// `--name`
    Name,
    /// `--log`
    Log,
}

impl Filter {
    /// The filters of views of tasks.
    pub const TASKS: [Self; 4] = [Self::Pid, Self::Comm, Self::Top, Self::Sort];
    /// The filters of views of tasks and files.
    pub const FILES: [Self; 5] = [Self::Pid, Self::Comm, Self::File, Self::Top, Self::Sort];
    /// The filters of the view of system calls.
    pub const CALLS: [Self; 8] =
        [Self::Pid, Self::Comm, Self::File, Self::Top, Self::Sort, Self::By, Self::Name, Self::Log];
}

/// The selection of rows.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The recording, for commands in messages.
    pub dir: PathBuf,
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
    /// What rows are put together by.
    pub by: Option<String>,
    /// Only system calls of these names or classes.
    pub names: Vec<String>,
    /// Each on a line of its own.
    pub log: bool,
    /// A document is wanted and no text.
    pub json: bool,
}

impl Options {
    /// An option that the view does not take is refused: rows would be shown that were asked to be left out.
    pub fn check(&self, view: &str, taken: &[Filter]) -> Result<(), Failure> {
        let given = [
            (Filter::Pid, self.pid.is_some(), "--pid"),
            (Filter::Comm, self.comm.is_some(), "--comm"),
            (Filter::File, self.file.is_some(), "--file"),
            (Filter::Words, !self.words.is_empty(), "words"),
            (Filter::Top, self.top.is_some(), "--top"),
            (Filter::Sort, self.sort.is_some(), "--sort"),
            (Filter::Functions, self.callers.is_some(), "--callers"),
            (Filter::Functions, self.callees.is_some(), "--callees"),
            (Filter::Functions, !self.groups.is_empty(), "--group"),
            (Filter::By, self.by.is_some(), "--by"),
            (Filter::Name, !self.names.is_empty(), "--name"),
            (Filter::Log, self.log, "--log"),
        ];
        let Some((_, _, wrong)) = given.iter().find(|(filter, given, _)| *given && !taken.contains(filter)) else {
            return Ok(());
        };
        let takes: Vec<&str> =
            given.iter().filter(|(filter, ..)| taken.contains(filter)).map(|(_, _, name)| *name).collect();
        let takes = if takes.is_empty() { "--json only".to_owned() } else { takes.join(" ") };
        Err(Failure::input(anyhow::anyhow!("view {view} does not take {wrong}; it takes: {takes}")))
    }

    /// Rows of a ranking (`ranked`) or of a listing. What `--sort` has put in order is a ranking.
    pub fn limit(&self, ranked: bool) -> usize {
        match self.top {
            Some(0) => usize::MAX,
            Some(top) => top,
            None if ranked || self.sort.is_some() => RANKING,
            None => usize::MAX,
        }
    }

    /// The column to rank by: the one asked for, or the first of `columns`.
    pub fn sort_by(&self, columns: &[&'static str]) -> Result<&'static str, Failure> {
        chosen("--sort", self.sort.as_deref(), columns)
    }

    /// What to put rows together by: what was asked for, or the first of `kinds`.
    pub fn group_by(&self, kinds: &[&'static str]) -> Result<&'static str, Failure> {
        chosen("--by", self.by.as_deref(), kinds)
    }

    /// Whether a name has one of the words in it. Without words every name does.
    pub fn wants_name(&self, name: &str) -> bool {
        self.words.is_empty() || self.words.iter().any(|word| name.contains(word.as_str()))
    }

    /// Whether tasks are selected.
    pub fn by_task(&self) -> bool {
        self.pid.is_some() || self.comm.is_some()
    }

    /// Whether a mapping of `path` is wanted: the path asked for is all of it, or its last components.
    pub fn wants_path(&self, path: Option<&[u8]>) -> bool {
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
fn chosen(option: &str, asked: Option<&str>, words: &[&'static str]) -> Result<&'static str, Failure> {
    let first = words.first().copied().unwrap_or_default();
    let Some(asked) = asked else { return Ok(first) };
    if let Some(found) = words.iter().find(|word| word.eq_ignore_ascii_case(asked)) {
        return Ok(found);
    }
    let near = hint_for(asked, words.iter().copied());
    let list = words.join(" ");
    Err(Failure::input(anyhow::anyhow!("{option}: found {asked:?}{near}; this view has: {list}")))
}

/// The first `limit` rows, and how many there were.
pub fn cut<T>(mut rows: Vec<T>, limit: usize) -> (Vec<T>, usize) {
    let total = rows.len();
    rows.truncate(limit);
    (rows, total)
}

/// The line below a list that was cut; empty if it was not.
pub fn more(shown: usize, total: usize) -> String {
    if shown < total { format!("  {} more of {total}; all: --top 0\n", total - shown) } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_asked_for_by_its_end() {
        let options = |file: &str| Options { file: Some(file.into()), ..Options::default() };
        assert!(options("libc.so.6").wants_path(Some(b"/lib/libc.so.6")));
        assert!(options("/lib/libc.so.6").wants_path(Some(b"/lib/libc.so.6")));
        assert!(options("[heap]").wants_path(Some(b"[heap]")));
        assert!(!options("c.so.6").wants_path(Some(b"/lib/libc.so.6")));
        assert!(!options("libc.so.6").wants_path(None));
        assert!(Options::default().wants_path(None));
    }

    #[test]
    fn listings_are_whole_and_rankings_short() {
        let with = |top, sort: Option<&str>| Options { top, sort: sort.map(str::to_owned), ..Options::default() };
        assert_eq!(with(None, None).limit(true), RANKING);
        assert_eq!(with(None, None).limit(false), usize::MAX);
        assert_eq!(with(None, Some("x")).limit(false), RANKING);
        assert_eq!(with(Some(0), None).limit(true), usize::MAX);
        assert_eq!(with(Some(3), None).limit(false), 3);
    }
}
