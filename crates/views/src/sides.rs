//! What changed between two sides, by any view.
//!
//! Each side is one recording or several runs of the same. The view is made of every recording, whole and without a cut, and
//! rows are paired by what names them ([`lists`]): a function and its module, a path, the name of a call. A figure of a side is
//! the mean over its runs. What adds up (counts, bytes, times) is 0 where a run has no such row, because the list was recorded
//! and has none; what does not add up (means, percentiles, shares) is the mean over the runs that have it. Several rows of
//! one name in one run are added up; their means and percentiles cannot be, and are null.
//!
//! Events that were lost are no change: where a side lost a share of a stream's events, its counts are between what was recorded
//! and that divided by the share that was kept, and what differs by no more than that is not called different.
//!
//! Rows that one side alone has are kept and marked. A list that was not recorded on one side is left out with a note: its rows
//! would all look new.

pub mod lists;

use std::collections::{BTreeMap, BTreeSet};

use pagelab_recording::Recording;
use serde::Serialize;
use serde_json::Value;

use crate::error::Result;
use crate::read::loss_of;
use crate::selection::{Selection, cut};
use crate::view::ViewDef;
use lists::{Column, ListDef, NO_FIGURES, Sort};

/// A figure of both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// Mean over the runs of the base; null where none has it.
    pub base: Option<f64>,
    /// Mean over the runs of the test side; null where none has it.
    pub test: Option<f64>,
    /// Test less base; null unless both are known and events that were lost cannot explain it.
    pub difference: Option<f64>,
    /// Test by base; null unless both are known, base is not 0 and events that were lost cannot explain it.
    pub ratio: Option<f64>,
}

impl Change {
    fn of(base: Option<f64>, test: Option<f64>) -> Self {
        let both = base.zip(test);
        Self {
            base,
            test,
            difference: both.map(|(base, test)| test - base),
            ratio: both.filter(|(base, _)| *base != 0.0).map(|(base, test)| test / base),
        }
    }

    /// A figure that adds up over events of which a share was lost on each side.
    fn with_loss(base: Option<f64>, test: Option<f64>, lost: Lost) -> Self {
        let change = Self::of(base, test);
        let Some((least_base, least_test)) = base.zip(test) else { return change };
        let (most_base, most_test) = (least_base / (1.0 - lost.base), least_test / (1.0 - lost.test));
        let apart = least_base > most_test || least_test > most_base;
        if apart || least_base.total_cmp(&least_test).is_eq() || (lost.base <= 0.0 && lost.test <= 0.0) {
            return change;
        }
        Self { difference: None, ratio: None, ..change }
    }

    /// How much it changed, for ranking; 0 where it is not known.
    pub fn size(&self) -> f64 {
        self.difference.map_or(0.0, f64::abs)
    }
}

/// A word of both sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WordChange {
    /// The words of the base's runs, in order, each once; empty where none has one.
    pub base: Vec<String>,
    /// The words of the test side's runs.
    pub test: Vec<String>,
}

/// Which sides have a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// Both have it.
    Both,
    /// Only the base has it.
    Vanished,
    /// Only the test side has it.
    New,
}

/// A row of both sides.
#[derive(Debug, Clone, Serialize)]
pub struct ChangedRow {
    /// What names it, in the order of [`ChangedList::key`]; null where the view has null.
    pub key: Vec<Option<String>>,
    /// Which sides have it.
    pub presence: Presence,
    /// Its figures, by the names in [`ChangedList::figures`].
    pub figures: BTreeMap<&'static str, Change>,
    /// Its words, by column.
    pub words: BTreeMap<&'static str, WordChange>,
}

/// A list of both sides.
#[derive(Debug, Clone, Serialize)]
pub struct ChangedList {
    /// Its key in the view's document.
    pub list: &'static str,
    /// What names a row.
    pub key: &'static [&'static str],
    /// The figures of a row; the rows are ranked by the change of the first one.
    pub figures: Vec<&'static str>,
    /// Sums over all rows of the figures that add up: those of the sides' own lists.
    pub sums: BTreeMap<&'static str, Change>,
    /// Rows, largest change first.
    pub rows: Vec<ChangedRow>,
    /// Rows before the list was cut.
    pub rows_total: usize,
    /// Of those, the ones that only the base has.
    pub vanished: usize,
    /// Of those, the ones that only the test side has.
    pub new: usize,
}

/// What changed between two sides, by one view.
#[derive(Debug, Clone, Serialize)]
pub struct SidesView {
    /// The view.
    pub view: String,
    /// Runs of the base.
    pub base_runs: usize,
    /// Runs of the test side.
    pub test_runs: usize,
    /// The numbers at the head of the view's document.
    pub totals: BTreeMap<String, Change>,
    /// The view's lists.
    pub lists: Vec<ChangedList>,
    /// What a reader must know.
    pub notes: Vec<String>,
}

/// One run of a side, as a view has it.
#[derive(Debug, Clone)]
pub struct SideRun {
    /// The view's document, none of its lists cut.
    pub document: Value,
    /// Share of the events that the view counts that was lost, 0 to 1.
    pub lost_share: f64,
}

impl SideRun {
    /// The document that the view called `view` made of the recording.
    ///
    /// # Errors
    /// The recording's loss cannot be read.
    pub fn new(view: &str, recording: &Recording, document: Value) -> Result<Self> {
        let mut notes = Vec::new();
        let [seen, lost] = match ViewDef::named(view)?.stream {
            Some(stream) => loss_of(recording, stream, &mut notes)?,
            None => [0, 0],
        };
        Ok(Self { document, lost_share: if seen == 0 { 0.0 } else { (lost as f64 / seen as f64).min(1.0) } })
    }
}

/// The share of events that each side lost, the mean over its runs.
#[derive(Debug, Clone, Copy)]
struct Lost {
    base: f64,
    test: f64,
}

impl Lost {
    fn note(self) -> Option<String> {
        let pct = |share: f64| 100.0 * share;
        (self.base > 0.0 || self.test > 0.0).then(|| {
            format!(
                "{:.2} % of the base's events and {:.2} % of the test side's were lost: what differs by no more than that is not \
                 called a change; a larger ring loses fewer: pagelab record --ring-bytes 64M",
                pct(self.base),
                pct(self.test)
            )
        })
    }
}

/// Pairs the rows of a view's documents: one document per run of each side.
///
/// `selection` says by `top` how many rows of each list are kept.
pub fn changes(view: &str, base: &[SideRun], test: &[SideRun], selection: &Selection) -> SidesView {
    let share = |runs: &[SideRun]| mean(runs.iter().map(|run| run.lost_share)).unwrap_or(0.0);
    let lost = Lost { base: share(base), test: share(test) };
    let documents = |runs: &[SideRun]| -> Vec<Value> { runs.iter().map(|run| run.document.clone()).collect() };
    let (base, test) = (&documents(base)[..], &documents(test)[..]);
    let mut notes: Vec<String> = lost.note().into_iter().collect();
    let mut lists = Vec::new();
    for def in lists::of_view(view) {
        let missing = |side: &[Value]| side.iter().filter(|run| !run[def.list].is_array()).count();
        match (missing(base), missing(test)) {
            (0, 0) => lists.push(changed_list(def, base, test, lost, selection.limit(true))),
            (on_base, on_test) if on_base == base.len() && on_test == test.len() => {}
            (on_base, on_test) => notes.push(format!(
                "{}: left out, because {on_base} of {} base runs and {on_test} of {} test runs have no such list",
                def.list,
                base.len(),
                test.len()
            )),
        }
    }
    let mut said = BTreeSet::new();
    for (side, runs) in [("base", base), ("test", test)] {
        for note in runs.iter().filter_map(|run| run["notes"].as_array()).flatten().filter_map(Value::as_str) {
            if said.insert((side, note)) {
                notes.push(format!("{side}: {note}"));
            }
        }
    }
    SidesView {
        view: view.to_owned(),
        base_runs: base.len(),
        test_runs: test.len(),
        totals: totals(base, test, lost),
        lists,
        notes,
    }
}

/// The numbers at the head of the documents.
fn totals(base: &[Value], test: &[Value], lost: Lost) -> BTreeMap<String, Change> {
    let mut names = BTreeSet::new();
    for run in base.iter().chain(test) {
        for (name, value) in run.as_object().into_iter().flatten() {
            let measures = !NO_FIGURES.contains(&name.as_str()) && !name.ends_with("_total");
            if measures && value.is_number() {
                names.insert(name.clone());
            }
        }
    }
    let side = |runs: &[Value], name: &str| mean(runs.iter().filter_map(|run| run[name].as_f64()));
    names
        .into_iter()
        .map(|name| (name.clone(), Change::with_loss(side(base, &name), side(test, &name), lost)))
        .collect()
}

/// One name's values in one run: of several rows what adds up is added up.
#[derive(Debug, Clone)]
struct RunRow {
    figures: Vec<Option<f64>>,
    words: Vec<BTreeSet<String>>,
}

type Rows = BTreeMap<Vec<Option<String>>, RunRow>;

fn changed_list(def: &'static ListDef, base: &[Value], test: &[Value], lost: Lost, limit: usize) -> ChangedList {
    let numbers: Vec<&Column> = def.columns.iter().filter(|column| column.sort != Sort::Word).collect();
    let words: Vec<&Column> = def.columns.iter().filter(|column| column.sort == Sort::Word).collect();
    let read = |runs: &[Value]| -> Vec<Rows> { runs.iter().map(|run| rows_of(def, run, &numbers, &words)).collect() };
    let (base, test) = (read(base), read(test));
    let keys: BTreeSet<&Vec<Option<String>>> = base.iter().chain(&test).flat_map(BTreeMap::keys).collect();
    let mut rows = Vec::with_capacity(keys.len());
    for key in keys {
        let presence = match (has(&base, key), has(&test, key)) {
            (true, false) => Presence::Vanished,
            (false, true) => Presence::New,
            _ => Presence::Both,
        };
        let figure = |at: usize| {
            let column = numbers[at];
            let (base, test) = (side_figure(&base, key, at, column), side_figure(&test, key, at, column));
            if column.sort == Sort::Sum { Change::with_loss(base, test, lost) } else { Change::of(base, test) }
        };
        let word = |at: usize| WordChange { base: side_words(&base, key, at), test: side_words(&test, key, at) };
        rows.push(ChangedRow {
            key: key.clone(),
            presence,
            figures: numbers.iter().enumerate().map(|(at, column)| (column.path, figure(at))).collect(),
            words: words.iter().enumerate().map(|(at, column)| (column.path, word(at))).collect(),
        });
    }
    let sums = sums(&rows, &numbers, lost);
    rank(&mut rows, numbers.first().map(|column| column.path));
    let count = |presence| rows.iter().filter(|row| row.presence == presence).count();
    let (vanished, new) = (count(Presence::Vanished), count(Presence::New));
    let (rows, rows_total) = cut(rows, limit);
    let figures = numbers.iter().map(|column| column.path).collect();
    ChangedList { list: def.list, key: def.key, figures, sums, rows, rows_total, vanished, new }
}

/// Largest change first; rows that one side alone has before others that changed as much.
fn rank(rows: &mut [ChangedRow], first: Option<&str>) {
    let size = |row: &ChangedRow| {
        let figures = first.and_then(|first| row.figures.get(first)).map_or(0.0, Change::size);
        let words = row.words.values().filter(|word| word.base != word.test).count();
        (figures, row.presence != Presence::Both, words)
    };
    rows.sort_by(|a, b| {
        let (a_size, b_size) = (size(a), size(b));
        let figures = b_size.0.total_cmp(&a_size.0);
        figures.then(b_size.1.cmp(&a_size.1)).then(b_size.2.cmp(&a_size.2)).then(a.key.cmp(&b.key))
    });
}

fn sums(rows: &[ChangedRow], numbers: &[&Column], lost: Lost) -> BTreeMap<&'static str, Change> {
    let mut sums = BTreeMap::new();
    for column in numbers.iter().filter(|column| column.sort == Sort::Sum) {
        let of = |side: fn(&Change) -> Option<f64>| {
            let known: Vec<f64> = rows.iter().filter_map(|row| side(row.figures.get(column.path)?)).collect();
            (!known.is_empty()).then(|| known.iter().sum())
        };
        sums.insert(column.path, Change::with_loss(of(|change| change.base), of(|change| change.test), lost));
    }
    sums
}

fn has(runs: &[Rows], key: &[Option<String>]) -> bool {
    runs.iter().any(|rows| rows.contains_key(key))
}

/// The figure of a side: the mean over its runs. A run without the row has 0 of what adds up.
fn side_figure(runs: &[Rows], key: &[Option<String>], at: usize, column: &Column) -> Option<f64> {
    if column.sort == Sort::Level {
        return mean(runs.iter().filter_map(|rows| rows.get(key)?.figures[at]));
    }
    let mut values = Vec::with_capacity(runs.len());
    for rows in runs {
        match rows.get(key) {
            None => values.push(0.0),
            // Not measured in this run: the side's figure is the mean over those where it was.
            Some(row) => values.extend(row.figures[at]),
        }
    }
    mean(values.into_iter())
}

fn side_words(runs: &[Rows], key: &[Option<String>], at: usize) -> Vec<String> {
    let mut words = BTreeSet::new();
    for row in runs.iter().filter_map(|rows| rows.get(key)) {
        words.extend(row.words[at].iter().cloned());
    }
    words.into_iter().collect()
}

fn rows_of(def: &ListDef, run: &Value, numbers: &[&Column], words: &[&Column]) -> Rows {
    let mut rows = Rows::new();
    for row in run[def.list].as_array().into_iter().flatten() {
        let key: Vec<Option<String>> = def.key.iter().map(|path| at_path(row, path).and_then(text)).collect();
        let figures: Vec<Option<f64>> = numbers.iter().map(|column| at_path(row, column.path)?.as_f64()).collect();
        let found: Vec<BTreeSet<String>> =
            words.iter().map(|column| at_path(row, column.path).and_then(text).into_iter().collect()).collect();
        match rows.entry(key) {
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(RunRow { figures, words: found });
            }
            std::collections::btree_map::Entry::Occupied(mut entry) => {
                let known = entry.get_mut();
                for ((known, more), column) in known.figures.iter_mut().zip(figures).zip(numbers) {
                    *known = match (column.sort, *known, more) {
                        (Sort::Sum, Some(known), Some(more)) => Some(known + more),
                        (Sort::Sum, known, more) => known.or(more),
                        _ => None,
                    };
                }
                for (known, more) in known.words.iter_mut().zip(found) {
                    known.extend(more);
                }
            }
        }
    }
    rows
}

/// The value at `reads/bytes` of a row.
fn at_path<'a>(row: &'a Value, path: &str) -> Option<&'a Value> {
    let mut value = row;
    for name in path.split('/') {
        value = value.get(name)?;
    }
    (!value.is_null()).then_some(value)
}

/// A value as text: a stack's frames are joined as flame graphs join them.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(without_number(text).to_owned()),
        Value::Array(frames) => Some(frames.iter().filter_map(text).collect::<Vec<_>>().join(";")),
        Value::Object(fields) => fields.get("symbol").or(fields.get("name")).and_then(text),
        other => Some(other.to_string()),
    }
}

/// `pipe:[4711]` as `pipe:[]`: the numbers of pipes and sockets mean nothing in another recording.
fn without_number(text: &str) -> &str {
    match text.split_once(":[") {
        Some(("pipe", _)) => "pipe:[]",
        Some(("socket", _)) => "socket:[]",
        _ => text,
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0_u32);
    for value in values {
        sum += value;
        count += 1;
    }
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// As it was recorded, nothing lost.
    fn whole(document: Value) -> SideRun {
        SideRun { document, lost_share: 0.0 }
    }

    fn calls(rows: &Value) -> SideRun {
        whole(json!({ "calls": 5, "groups": rows, "notes": [] }))
    }

    fn row<'a>(view: &'a SidesView, name: &str) -> &'a ChangedRow {
        let rows = &view.lists[0].rows;
        rows.iter().find(|row| row.key[0].as_deref() == Some(name)).expect("the row")
    }

    #[test]
    fn rows_that_one_side_has_are_kept() {
        let base = [calls(&json!([{ "name": "read", "calls": 3, "total_ns": 30, "p99_ns": 12 }]))];
        let test = [calls(&json!([{ "name": "fsync", "calls": 1, "total_ns": 900, "p99_ns": 900 }]))];
        let view = changes("syscalls", &base, &test, &Selection::default());
        let (read, fsync) = (row(&view, "read"), row(&view, "fsync"));
        assert_eq!((read.presence, fsync.presence), (Presence::Vanished, Presence::New));
        // What adds up is 0 where the list was recorded and has no such row; a percentile of nothing is not known.
        assert_eq!(read.figures["calls"], Change::of(Some(3.0), Some(0.0)));
        assert_eq!(read.figures["p99_ns"], Change::of(Some(12.0), None));
        assert_eq!(view.lists[0].rows[0].key[0].as_deref(), Some("fsync"), "the largest change comes first");
        assert_eq!((view.lists[0].vanished, view.lists[0].new), (1, 1));
    }

    #[test]
    fn runs_are_averaged_and_rows_of_one_name_added() {
        let rows = json!([{ "name": "read", "calls": 2, "p99_ns": 5 }, { "name": "read", "calls": 4, "p99_ns": 7 }]);
        let base = [calls(&rows), calls(&json!([]))];
        let view = changes("syscalls", &base, &[calls(&rows)], &Selection::default());
        let read = row(&view, "read");
        assert_eq!(read.figures["calls"], Change::of(Some(3.0), Some(6.0)));
        assert_eq!(read.figures["p99_ns"], Change::of(None, None), "percentiles of two rows do not add up");
        assert_eq!(view.lists[0].sums["calls"], Change::of(Some(3.0), Some(6.0)));
    }

    #[test]
    fn a_list_that_one_side_did_not_record_is_left_out_with_a_note() {
        let base = [whole(json!({ "classes": null }))];
        let test = [whole(json!({ "classes": [{ "class": "heap", "faults": 1 }] }))];
        let view = changes("faults", &base, &test, &Selection::default());
        assert!(view.lists.iter().all(|list| list.list != "classes"));
        assert!(view.notes.iter().any(|note| note.starts_with("classes: left out")), "{:?}", view.notes);
    }

    #[test]
    fn pipes_are_one_row_whatever_their_numbers() {
        let files = |pipe: &str| whole(json!({ "files": [{ "path": pipe, "reads": { "bytes": 9 } }] }));
        let view = changes("io", &[files("pipe:[17]")], &[files("pipe:[4711]")], &Selection::default());
        let list = &view.lists[0];
        assert_eq!((list.rows_total, list.rows[0].presence), (1, Presence::Both));
    }

    #[test]
    fn words_of_both_sides_are_shown() {
        let files =
            |pattern: &str| whole(json!({ "files": [{ "path": "/a", "reads": { "bytes": 9, "pattern": pattern } }] }));
        let view = changes("io", &[files("sequential")], &[files("random")], &Selection::default());
        let words = &view.lists[0].rows[0].words["reads/pattern"];
        assert_eq!((words.base.join(" "), words.test.join(" ")), ("sequential".to_owned(), "random".to_owned()));
    }

    #[test]
    fn events_that_were_lost_are_no_change() {
        let run = |calls: u64, lost_share: f64| SideRun {
            document: json!({ "groups": [{ "name": "read", "calls": calls, "p99_ns": 7 }] }),
            lost_share,
        };
        let changed = |base: SideRun, test: SideRun| changes("syscalls", &[base], &[test], &Selection::default());
        // 10 % lost of 1000 calls on both sides alike, and on one of them.
        for lost in [0.0, 0.1] {
            let view = changed(run(1000, lost), run(900, 0.1));
            let calls = &row(&view, "read").figures["calls"];
            assert_eq!(
                (calls.base, calls.test, calls.difference, calls.ratio),
                (Some(1000.0), Some(900.0), None, None)
            );
            assert_eq!(view.lists[0].sums["calls"].ratio, None);
            assert_eq!(row(&view, "read").figures["p99_ns"].ratio, Some(1.0), "a quantile does not shrink by loss");
            assert!(view.notes[0].contains("10.00 % of the test side's"), "{:?}", view.notes);
        }
        // More than the loss can explain, either way round.
        assert_eq!(row(&changed(run(1000, 0.0), run(800, 0.1)), "read").figures["calls"].ratio, Some(0.8));
        assert_eq!(row(&changed(run(1000, 0.1), run(1200, 0.0)), "read").figures["calls"].ratio, Some(1.2));
        assert_eq!(row(&changed(run(5, 1.0), run(9, 0.0)), "read").figures["calls"].ratio, None, "all were lost");
    }
}
