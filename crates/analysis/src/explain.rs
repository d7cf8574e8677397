//! What one recording alone shows: the rules without a baseline, said with less confidence.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::rules::evidence::of_run;
use crate::rules::{Considered, Finding, consider};
use pagelab_recording::Recording;
use pagelab_views::absence;
use pagelab_views::mappings::{ClassKey, MappingProfile};
use pagelab_views::run::RunData;
use pagelab_views::selection::Selection;
use pagelab_views::view::budget;
use pagelab_vocab::streams::Stream;

/// Format of the document.
pub const EXPLAIN_FORMAT: u32 = 1;

/// Components of the account of time that are listed.
const COMPONENTS: usize = 8;
/// Classes of mappings listed, those with most faults.
const CLASSES: usize = 8;

/// The document that `explain --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Explanation {
    /// Major format of the document.
    pub format: u32,
    /// The recording's directory.
    pub dir: String,
    /// The recording's name, for display only.
    pub label: Option<String>,
    /// Whether its recorder reached a clean end.
    pub complete: bool,
    /// Measured time, seconds.
    pub seconds: f64,
    /// Causes, best first. Without a baseline none is better than `correlated`.
    pub findings: Vec<Finding>,
    /// Every rule with its outcome.
    pub considered: Vec<Considered>,
    /// Where the faults were, most first; empty if there are none, for the reason in `no_mappings`.
    pub mappings: Vec<MappingLine>,
    /// Why `mappings` is empty; null if it is not.
    #[serde(default)]
    pub no_mappings: Option<Absent>,
    /// Where the time went; null unless the states of tasks or samples were recorded.
    #[serde(default)]
    pub budget: Option<TimeAccount>,
    /// Notes a reader must know.
    pub notes: Vec<String>,
}

/// Why something is not there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct Absent {
    /// `none_seen`, `all_lost`, `left_out`, `missing`, `not_recorded` or `not_permitted`.
    pub state: String,
    /// The same in a sentence, with what to look at or to type next.
    pub text: String,
}

/// The account of time in short: the view `budget` has all of it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct TimeAccount {
    /// Sum of the lives of all tasks, ns; null where states were not recorded, and shares are of samples.
    pub lives_ns: Option<u64>,
    /// Components, longest first.
    pub components: Vec<TimeLine>,
    /// Components that are not listed.
    pub others: usize,
    /// What is not known: part and reason.
    pub missing: Vec<String>,
}

/// One component of the account.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct TimeLine {
    /// Its name in the vocabulary.
    pub component: String,
    /// What the time was spent on.
    pub about: String,
    /// Whether it was spent for the tasks' work or taken from it; waiting for others is not.
    pub active: bool,
    /// Time summed over tasks, ns.
    pub ns: u64,
    /// Percent of the lives, or of the samples.
    pub pct: f64,
    /// Standard error of `ns` from sampling.
    pub error_ns: u64,
}

/// One class of mappings in short.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct MappingLine {
    /// In words.
    pub what: String,
    /// The class.
    pub class: ClassKey,
    /// Mappings.
    pub mappings: u64,
    /// Bytes mapped.
    pub bytes: u64,
    /// Faults.
    pub faults: u64,
    /// Whole slots touched.
    pub whole_slots: u64,
    /// Of those, filled by a fault or two.
    pub whole_slots_few_faults: u64,
    /// Of those, filled page by page.
    pub whole_slots_many_faults: u64,
    /// Faults where no huge page fits.
    pub faults_outside_whole_slots: u64,
    /// Order of the faults in a word; null if there were too few.
    pub order: Option<String>,
    /// Most frequent step between faults, in pages.
    pub step_pages: Option<i64>,
}

/// Explains the recording in `dir`.
pub fn explain(dir: &Path) -> Result<Explanation> {
    let run = RunData::load(dir)?;
    let evidence = of_run(&run)?;
    let diagnosis = consider(&evidence);
    let one = evidence.test.runs.first();
    let mut notes = run.notes.clone();
    if let Some(excluded) = &run.excluded {
        notes.push(format!("a comparison would leave this run out: {excluded}"));
    }
    notes.extend(one.iter().flat_map(|one| one.unreadable.iter().cloned()));
    for (stream, loss) in run.loss.iter().filter(|(_, loss)| loss.lost > 0) {
        notes.push(format!("stream {stream} lost {} of {} events", loss.lost, loss.seen));
    }
    let profile = one.and_then(|one| one.profile.as_ref());
    let mappings: Vec<MappingLine> = profile.map(lines).unwrap_or_default();
    let faults = profile.map_or(0, |profile| profile.faults);
    let no_mappings = if mappings.is_empty() { Some(why_no_mappings(dir, faults)?) } else { None };
    Ok(Explanation {
        format: EXPLAIN_FORMAT,
        dir: dir.display().to_string(),
        label: run.manifest.label.clone(),
        complete: run.manifest.complete,
        seconds: run.window.seconds(),
        findings: diagnosis.findings,
        considered: diagnosis.considered,
        mappings,
        no_mappings,
        budget: account(dir)?,
        notes,
    })
}

fn why_no_mappings(dir: &Path, faults: u64) -> Result<Absent> {
    if faults > 0 {
        let text = format!("no mapping is known that the {faults} page faults hit");
        return Ok(Absent { state: "none_seen".to_owned(), text });
    }
    let recording = Recording::open(dir)?;
    let absence = absence::absence(&recording, Stream::Faults, "page faults", &mut Vec::new())?;
    Ok(Absent { state: absence.word().to_owned(), text: absence::sentence(&recording, &absence) })
}

fn account(dir: &Path) -> Result<Option<TimeAccount>> {
    let recording = Recording::open(dir)?;
    let view = budget::collect(&recording, &Selection { top: Some(COMPONENTS), ..Selection::default() })?.data;
    let line = |row: &budget::OneComponent| TimeLine {
        component: row.component.to_owned(),
        about: row.about.to_owned(),
        active: row.active,
        ns: row.ns,
        pct: row.pct,
        error_ns: row.error_ns,
    };
    let missing = view.missing.iter().map(|missing| format!("{}: {}", missing.part, missing.reason));
    Ok((!view.components.is_empty()).then(|| TimeAccount {
        lives_ns: view.lives_ns,
        components: view.components.iter().map(line).collect(),
        others: view.components_total - view.components.len(),
        missing: missing.collect(),
    }))
}

fn lines(profile: &MappingProfile) -> Vec<MappingLine> {
    let with_faults = profile.classes.iter().filter(|class| class.faults > 0);
    with_faults
        .take(CLASSES)
        .map(|class| MappingLine {
            what: class.key.to_string(),
            class: class.key.clone(),
            mappings: class.mappings,
            bytes: class.bytes,
            faults: class.faults,
            whole_slots: class.whole.touched,
            whole_slots_few_faults: class.whole.few,
            whole_slots_many_faults: class.whole.many,
            faults_outside_whole_slots: class.partial.faults,
            order: class.order.word().map(str::to_owned),
            step_pages: class.order.step_pages,
        })
        .collect()
}
