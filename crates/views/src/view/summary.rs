//! `show DIR summary`: the target, the recording's quality, and what stands out.

use std::collections::BTreeMap;

use pagelab_recording::{Exit, Probe, Recording, SelfCost};
use pagelab_vocab::settings::setting;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::answer::Answer;
use crate::error::Result;
use crate::mappings::{ClassProfile, MappingProfile, ProfileOptions};
use crate::run::{RunData, StreamLoss, Window};
use crate::selection::Selection;

/// Classes of mappings named.
const CLASSES: usize = 3;

/// The target, the recording's quality, and what stands out.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SummaryView {
    /// What most readers want to know first.
    pub overview: Overview,
    /// What the user calls the recording.
    pub label: Option<String>,
    /// Variant of the plan.
    pub variant: Option<String>,
    /// Number of the run in its variant.
    pub run: Option<u64>,
    /// Round of the plan.
    pub round: Option<u64>,
    /// Position in the round.
    pub position: Option<u64>,
    /// Version that recorded.
    pub pagelab_version: String,
    /// The recorded command.
    pub command: Option<Vec<String>>,
    /// The jobs that were run, as the manifest has them.
    pub job: Option<Value>,
    /// The target, in words, where it ran already.
    pub target: Option<String>,
    /// What ended the recording.
    pub ended_by: Option<String>,
    /// Name of the host.
    pub host: Option<String>,
    /// Release of its kernel.
    pub kernel: Option<String>,
    /// Architecture.
    pub arch: Option<String>,
    /// CPUs.
    pub cpus: Option<u64>,
    /// Kind of virtualisation.
    pub virt: Option<String>,
    /// Base page size, bytes.
    pub page_size_bytes: Option<u64>,
    /// Wall clock at the start, ns since 1970.
    pub realtime_at_start_ns: Option<i64>,
    /// From the start of the recording to its end; null if it broke off.
    pub duration_ns: Option<i64>,
    /// The measured time; null if it could not be found.
    pub window: Option<Window>,
    /// How the command ended.
    pub exit: Option<Exit>,
    /// Whether a time limit ended it.
    pub timed_out: Option<bool>,
    /// Whether the user ended it.
    pub interrupted: Option<bool>,
    /// Why the run does not count in a comparison.
    pub excluded: Option<String>,
    /// Every probe, active or refused with the reason.
    pub probes: Vec<Probe>,
    /// Tables of the recording.
    pub tables: Vec<TableFacts>,
    /// Events seen and lost, by stream.
    pub loss: BTreeMap<String, StreamLoss>,
    /// What recording cost.
    pub self_cost: SelfCost,
    /// Faults in the measured time; null if they were not recorded.
    pub faults: Option<Faults>,
    /// Faults against slots; null if there are no mappings.
    pub slots: Option<Slots>,
    /// What wait4 said of the command and its children.
    pub rusage: Option<Value>,
    /// Settings with another value at the end.
    pub settings_changed: Vec<Change>,
    /// Settings that differ at the end as they always do.
    pub settings_changed_volatile: usize,
    /// Whether settings were read at start and end.
    pub settings_compared: bool,
}

/// The figures that most readers want first: for a command from the kernel's accounts at its end, for a target that ran
/// already from its metrics in the measured time. Null is not known.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Overview {
    /// Wall time, ns.
    pub elapsed_ns: Option<f64>,
    /// CPU time in user mode, ns.
    pub user_ns: Option<f64>,
    /// CPU time in the kernel, ns.
    pub system_ns: Option<f64>,
    /// Time in which no task of the target was on a CPU, at least: what is elapsed beyond all its CPU time.
    pub off_cpu_at_least_ns: Option<f64>,
    /// Times that a task gave up the CPU.
    pub voluntary_switches: Option<f64>,
    /// Times that a task was preempted.
    pub involuntary_switches: Option<f64>,
    /// Faults without I/O.
    pub minor_faults: Option<f64>,
    /// Faults that needed I/O.
    pub major_faults: Option<f64>,
    /// What the target caused to be read from and written to devices.
    pub read_bytes: Option<f64>,
    /// See `read_bytes`.
    pub written_bytes: Option<f64>,
    /// Most memory resident at a time, bytes.
    pub max_rss_bytes: Option<f64>,
}

/// One table.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TableFacts {
    /// Its name.
    pub table: &'static str,
    /// Null if a part is damaged.
    pub rows: Option<u64>,
    /// Files that it consists of.
    pub parts: usize,
    /// Their size, bytes.
    pub bytes: Option<u64>,
}

/// Faults in the measured time.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Faults {
    /// Rows in the whole recording.
    pub in_recording: Option<u64>,
    /// By kind; `all` are all.
    pub kinds: BTreeMap<&'static str, Counted>,
}

/// A number of events.
#[derive(Debug, Clone, Copy, Default, Serialize, JsonSchema)]
pub struct Counted {
    /// How many.
    pub count: Option<f64>,
    /// Per second.
    pub per_s: Option<f64>,
    /// Per operation; null where operations are not known.
    pub per_operation: Option<f64>,
}

/// Faults against the slots in which a huge page was possible, over the whole recording.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Slots {
    /// Huge page size, bytes.
    pub slot_bytes: u64,
    /// Faults.
    pub faults: u64,
    /// Of those, faults on no known mapping.
    pub unattributed: u64,
    /// Slots touched that lay whole in one memory area.
    pub whole: u64,
    /// Of those, with so few pages faulted that they look like a huge page each.
    pub whole_few_pages: u64,
    /// Of those, filled page by page.
    pub whole_many_pages: u64,
    /// Faults in whole slots.
    pub faults_in_whole: u64,
    /// Slots touched in which no huge page was possible.
    pub partial: u64,
    /// Faults in those.
    pub faults_in_partial: u64,
    /// Classes of mappings with most faults.
    pub classes: Vec<ClassFacts>,
}

/// One class of mappings.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ClassFacts {
    /// In words.
    pub class: String,
    /// Mappings.
    pub mappings: u64,
    /// Faults on them.
    pub faults: u64,
    /// Order of first touches in a word; null if there are too few faults to tell.
    pub order: Option<&'static str>,
}

/// A setting that changed.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ChangedSetting")]
pub struct Change {
    /// Its key.
    pub key: String,
    /// Value at the start.
    pub start: String,
    /// Value at the end.
    pub end: String,
}

/// Kinds of faults, in the order in which they are shown: key in [`Faults::kinds`], and name of the metric.
pub const FAULT_KINDS: [(&str, &str); 7] = [
    ("all", "faults.count"),
    ("user", "faults.user"),
    ("kernel", "faults.kernel"),
    ("write", "faults.write"),
    ("instruction", "faults.instruction"),
    ("protection", "faults.protection"),
    ("major", "faults.major"),
];

/// Makes the view.
pub fn collect(recording: &Recording, selection: &Selection) -> Result<Answer<SummaryView>> {
    let run = RunData::load_within(recording.dir(), &selection.bounds)?;
    let mut notes = run.notes.clone();
    let tables = tables(recording, &mut notes)?;
    let slots = slots(recording, &run, &mut notes)?;
    let summary = document(recording, &run, tables, slots);
    Ok(Answer::new("summary", recording, notes, summary))
}

fn document(recording: &Recording, run: &RunData, tables: Vec<TableFacts>, slots: Option<Slots>) -> SummaryView {
    let manifest = recording.manifest();
    let clock = &manifest.clock;
    let (settings_changed, settings_changed_volatile) = changes(run);
    SummaryView {
        overview: overview(run),
        label: manifest.label.clone(),
        variant: manifest.variant.clone(),
        run: manifest.run,
        round: manifest.round,
        position: manifest.position,
        pagelab_version: manifest.pagelab_version.clone(),
        command: manifest.command.clone(),
        job: manifest.job.clone(),
        target: manifest.target.as_ref().map(ToString::to_string),
        ended_by: manifest.ended_by.as_ref().map(ToString::to_string),
        host: manifest.host.clone(),
        kernel: manifest.kernel.clone(),
        arch: manifest.arch.clone(),
        cpus: manifest.cpus,
        virt: manifest.virt.clone(),
        page_size_bytes: manifest.page_size_bytes,
        realtime_at_start_ns: clock.realtime_at_start_ns,
        duration_ns: clock
            .realtime_at_end_ns
            .zip(clock.realtime_at_start_ns)
            .map(|(end, start)| end.saturating_sub(start)),
        window: (run.window.end_ns > run.window.start_ns).then(|| run.window.clone()),
        exit: manifest.exit.clone(),
        timed_out: manifest.timed_out,
        interrupted: manifest.interrupted,
        excluded: run.excluded.as_ref().map(ToString::to_string),
        probes: manifest.probes.clone(),
        faults: faults(run, &tables),
        tables,
        loss: run.loss.clone(),
        self_cost: manifest.self_cost.clone(),
        slots,
        rusage: rusage(recording),
        settings_changed,
        settings_changed_volatile,
        settings_compared: !run.settings.start.is_empty() && !run.settings.end.is_empty(),
    }
}

fn overview(run: &RunData) -> Overview {
    let of_command = |name: &str| run.metric(&format!("run.{name}"), None).and_then(|metric| metric.value);
    let in_time = |name: &str| run.metric(&format!("target.{name}"), None).and_then(|metric| metric.events);
    let with_children = |name: &str| {
        let own = in_time(&format!("stat.{name}"))?;
        Some(own + in_time(&format!("stat.child_{name}")).unwrap_or(0.0))
    };
    let window_ns = (run.window.end_ns > run.window.start_ns).then(|| run.window.seconds() * 1e9);
    let elapsed_ns = of_command("elapsed_ns").or(window_ns);
    let user_ns = of_command("utime_ns").or_else(|| with_children("utime_ns"));
    let system_ns = of_command("stime_ns").or_else(|| with_children("stime_ns"));
    let on_cpu_ns = user_ns.zip(system_ns).map(|(user, system)| user + system);
    Overview {
        elapsed_ns,
        user_ns,
        system_ns,
        off_cpu_at_least_ns: elapsed_ns.zip(on_cpu_ns).map(|(elapsed, busy)| (elapsed - busy).max(0.0)),
        voluntary_switches: of_command("voluntary_switches"),
        involuntary_switches: of_command("involuntary_switches"),
        minor_faults: of_command("minor_faults").or_else(|| with_children("minor_faults")),
        major_faults: of_command("major_faults").or_else(|| with_children("major_faults")),
        read_bytes: in_time("io.read_bytes"),
        written_bytes: in_time("io.write_bytes"),
        max_rss_bytes: of_command("max_rss_bytes"),
    }
}

/// What wait4 said of the command and its children.
fn rusage(recording: &Recording) -> Option<Value> {
    let manifest = recording.manifest();
    let found = manifest.rusage.as_ref().and_then(|rusage| serde_json::to_value(rusage).ok());
    let of_exit = || manifest.exit.as_ref().filter(|exit| !exit.extra.is_empty()).map(|exit| exit.extra.clone().into());
    found.or_else(of_exit)
}

fn tables(recording: &Recording, notes: &mut Vec<String>) -> Result<Vec<TableFacts>> {
    let mut tables = Vec::new();
    // Rollups say once more what other tables say.
    for table in recording.tables()?.into_iter().filter(|table| table.rollup.is_none()) {
        let parts = recording.parts(table.name)?;
        let rows = match recording.rows(table.name) {
            Ok(rows) => Some(rows),
            Err(error) if error.is_damage() => {
                notes.push(error.to_string());
                None
            }
            Err(error) => return Err(error.into()),
        };
        let bytes = parts.iter().map(|part| part.metadata().map(|meta| meta.len()).ok()).sum();
        tables.push(TableFacts { table: table.name, rows, parts: parts.len(), bytes });
    }
    Ok(tables)
}

fn faults(run: &RunData, tables: &[TableFacts]) -> Option<Faults> {
    let in_recording = tables.iter().find(|table| table.table == "faults").and_then(|table| table.rows);
    let kinds: BTreeMap<&'static str, Counted> = FAULT_KINDS
        .iter()
        .filter_map(|(kind, name)| {
            let metric = run.metric(name, None)?;
            let count = Counted { count: metric.events, per_s: metric.value, per_operation: metric.per_operation };
            Some((*kind, count))
        })
        .collect();
    (in_recording.is_some() || !kinds.is_empty()).then_some(Faults { in_recording, kinds })
}

fn slots(recording: &Recording, run: &RunData, notes: &mut Vec<String>) -> Result<Option<Slots>> {
    let profile = match MappingProfile::load(recording.dir(), &ProfileOptions::of_run(run)) {
        Ok(Some(profile)) => profile,
        Ok(None) => return Ok(None),
        Err(crate::ViewError::Recording(error)) if error.is_damage() => {
            notes.push(error.to_string());
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let whole = profile.whole_slots(|_| true);
    let of_class = |class: &ClassProfile| ClassFacts {
        class: class.key.to_string(),
        mappings: class.mappings,
        faults: class.faults + class.protection_faults,
        order: class.order.word(),
    };
    Ok(Some(Slots {
        slot_bytes: profile.huge_bytes,
        faults: profile.faults,
        unattributed: profile.unattributed,
        whole: whole.touched,
        whole_few_pages: whole.few,
        whole_many_pages: whole.many,
        faults_in_whole: whole.faults,
        partial: profile.classes.iter().map(|class| class.partial.touched).sum(),
        faults_in_partial: profile.classes.iter().map(|class| class.partial.faults).sum(),
        classes: profile.classes.iter().filter(|class| class.faults > 0).take(CLASSES).map(of_class).collect(),
    }))
}

/// Settings with another value at the end, and the number of those for which that is usual.
fn changes(run: &RunData) -> (Vec<Change>, usize) {
    let mut volatile = 0;
    let mut changed = Vec::new();
    // How files lie that are being written is no setting that somebody changed.
    for (key, start, end) in run.settings.changed().filter(|(key, ..)| !key.starts_with("file.")) {
        if setting(key).is_some_and(|info| info.def.volatile) {
            volatile += 1;
        } else {
            changed.push(Change { key: key.to_owned(), start: start.to_owned(), end: end.to_owned() });
        }
    }
    (changed, volatile)
}
