//! The tool `show`: one view of one recording.

use std::fmt::Write as _;
use std::str::FromStr as _;

use pagelab_recording::{Bound, Bounds, Recording};
use pagelab_views::selection::Selection;
use pagelab_views::view::{VIEWS, ViewDef};
use rmcp::schemars;

use crate::answer::{ToolError, document};
use crate::recordings::Served;

/// The recording, the view, and which of its rows.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// The recording, by its path in `recordings`.
    recording: String,
    /// The view.
    #[schemars(extend("enum" = names()))]
    view: String,
    /// Rows of each list; 0 for all [default: 20 of a ranking, all of a listing].
    #[serde(default)]
    top: Option<usize>,
    /// Column to rank by; a wrong one is answered with those that there are [default: the view's first].
    #[serde(default)]
    sort: Option<String>,
    /// Ignore events before this time, seconds since the start of the recording [default: its start].
    #[serde(default)]
    from_s: Option<f64>,
    /// Ignore events from this time on, seconds since the start of the recording [default: its end].
    #[serde(default)]
    to_s: Option<f64>,
    /// Only names with one of these words in them, for example `vmstat.thp_` [default: all].
    #[serde(default)]
    words: Vec<String>,
    /// Only this process, by its id [default: all].
    #[serde(default)]
    pid: Option<i32>,
    /// Only tasks of this name, at the times when they had it [default: all].
    #[serde(default)]
    comm: Option<String>,
    /// Only this file, by its path as recorded, the last parts of it, or the kernel's name ([heap]) [default: all].
    #[serde(default)]
    file: Option<String>,
    /// syscalls: one row for each name, task, comm or file [default: name].
    #[serde(default)]
    by: Option<String>,
    /// syscalls: only calls of these names or classes (%desc, %file, %memory and others) [default: all].
    #[serde(default)]
    name: Vec<String>,
    /// profile: add what calls this function.
    #[serde(default)]
    callers: Option<String>,
    /// profile: add what this function calls.
    #[serde(default)]
    callees: Option<String>,
    /// profile: add up the functions that a regular expression matches, each as NAME=REGEX.
    #[serde(default)]
    group: Vec<String>,
}

fn names() -> Vec<&'static str> {
    VIEWS.iter().map(|view| view.name).collect()
}

/// What the tool says of itself: every view with its options.
pub(crate) fn description() -> String {
    let mut text = "One view of one recording, as one JSON document. Times are in ns unless a key says otherwise; \
                    `..._total` beside a list is its length before `top`; null is not known. All views take from_s and to_s. The \
                    views, and the other options that each has:"
        .to_owned();
    for ViewDef { name, about, takes, .. } in &VIEWS {
        let takes = if takes.is_empty() { "none".to_owned() } else { takes.join(", ") };
        // Writing to a string cannot fail.
        let _ = write!(text, "\n- {name}: {about} (options: {takes})");
    }
    text
}

/// How to ask a view for less.
fn smaller(view: &ViewDef) -> String {
    let narrowing = ["top", "words", "pid", "comm", "file", "name"];
    let has: Vec<&str> = narrowing.into_iter().filter(|option| view.takes.contains(option)).collect();
    format!("ask for less with {}", [&has[..], &["from_s and to_s"]].concat().join(", "))
}

impl Args {
    fn bounds(&self) -> Result<Bounds, ToolError> {
        let end = |name: &str, seconds: Option<f64>| -> Result<Option<Bound>, ToolError> {
            let Some(seconds) = seconds else { return Ok(None) };
            let bound = Bound::from_str(&seconds.to_string());
            bound.map(Some).map_err(|error| ToolError::Asked(format!("{name}: {error}")))
        };
        Ok(Bounds { from: end("from_s", self.from_s)?, to: end("to_s", self.to_s)? })
    }

    fn selection(&self) -> Result<Selection, ToolError> {
        Ok(Selection {
            pid: self.pid,
            comm: self.comm.clone(),
            file: self.file.as_ref().map(Into::into),
            words: self.words.clone(),
            top: self.top,
            sort: self.sort.clone(),
            bounds: self.bounds()?,
            callers: self.callers.clone(),
            callees: self.callees.clone(),
            groups: self.group.clone(),
            by: self.by.clone(),
            names: self.name.clone(),
            ..Selection::default()
        })
    }
}

/// Makes the view.
pub(crate) fn answer(served: &Served, args: &Args) -> Result<String, ToolError> {
    let view = ViewDef::named(&args.view)?;
    let selection = args.selection()?;
    let recording = Recording::open(&served.named(&args.recording)?)?;
    let span = selection.bounds.of(&recording)?;
    let answer = pagelab_views::view::document(view.name, &recording.within(span), &selection)?;
    document(&answer, &smaller(view))
}
