//! `show DIR summary`: what was recorded, how well, and what stands out.

mod text;

use std::collections::BTreeMap;

use pagelab_analysis::mappings::{ClassProfile, MappingProfile, ProfileOptions};
use pagelab_analysis::run::{RunData, StreamLoss, Window};
use pagelab_recording::{Exit, Probe, Recording, SelfCost};
use pagelab_vocab::settings::setting;
use serde::Serialize;
use serde_json::Value;

use super::View;
use super::options::Options;
use super::read;
use crate::failure::Failure;

/// Classes of mappings named.
const CLASSES: usize = 3;

#[derive(Debug, Serialize)]
struct Summary {
    overview: Overview,
    label: Option<String>,
    variant: Option<String>,
    run: Option<u64>,
    round: Option<u64>,
    position: Option<u64>,
    pagelab_version: String,
    command: Option<Vec<String>>,
    job: Option<Value>,
    /// What was recorded where that ran already, in words.
    target: Option<String>,
    /// What ended the recording.
    ended_by: Option<String>,
    host: Option<String>,
    kernel: Option<String>,
    arch: Option<String>,
    cpus: Option<u64>,
    virt: Option<String>,
    page_size_bytes: Option<u64>,
    realtime_at_start_ns: Option<i64>,
    /// From the start of the recording to its end; null if it broke off.
    duration_ns: Option<i64>,
    /// The measured time; null if it could not be found.
    window: Option<Window>,
    exit: Option<Exit>,
    timed_out: Option<bool>,
    interrupted: Option<bool>,
    /// Why the run does not count in a comparison.
    excluded: Option<String>,
    probes: Vec<Probe>,
    tables: Vec<TableFacts>,
    loss: BTreeMap<String, StreamLoss>,
    self_cost: SelfCost,
    faults: Option<Faults>,
    slots: Option<Slots>,
    rusage: Option<Value>,
    settings_changed: Vec<Change>,
    /// Settings that differ at the end as they always do.
    settings_changed_volatile: usize,
    /// Whether settings were read at start and end.
    settings_compared: bool,
}

/// What most readers want to know first. Of a command by what the kernel says of it when it has ended, of what ran
/// already by the target's metrics in the measured time. Null is not known.
#[derive(Debug, Serialize)]
struct Overview {
    elapsed_ns: Option<f64>,
    user_ns: Option<f64>,
    system_ns: Option<f64>,
    /// Time in which no task of the target was on a CPU, at least: what is elapsed beyond all its CPU time.
    off_cpu_at_least_ns: Option<f64>,
    voluntary_switches: Option<f64>,
    involuntary_switches: Option<f64>,
    minor_faults: Option<f64>,
    major_faults: Option<f64>,
    /// What the target caused to be read from and written to devices.
    read_bytes: Option<f64>,
    written_bytes: Option<f64>,
    max_rss_bytes: Option<f64>,
}

#[derive(Debug, Serialize)]
struct TableFacts {
    table: &'static str,
    /// Null if a part is damaged.
    rows: Option<u64>,
    parts: usize,
    bytes: Option<u64>,
}

/// Faults in the measured time.
#[derive(Debug, Serialize)]
struct Faults {
    in_recording: Option<u64>,
    kinds: BTreeMap<&'static str, Counted>,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Counted {
    count: Option<f64>,
    per_s: Option<f64>,
    per_operation: Option<f64>,
}

/// Faults against the slots in which a huge page was possible, over the whole recording.
#[derive(Debug, Serialize)]
struct Slots {
    slot_bytes: u64,
    faults: u64,
    unattributed: u64,
    /// Slots touched that lay whole in one memory area.
    whole: u64,
    /// Of those, with so few pages faulted that they look like a huge page each.
    whole_few_pages: u64,
    /// Of those, filled page by page.
    whole_many_pages: u64,
    /// Faults in whole slots.
    faults_in_whole: u64,
    partial: u64,
    faults_in_partial: u64,
    classes: Vec<ClassFacts>,
}

#[derive(Debug, Serialize)]
struct ClassFacts {
    class: String,
    mappings: u64,
    faults: u64,
    order: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct Change {
    key: String,
    start: String,
    end: String,
}

/// The metrics counted from faults: key of this view, and the analysis' name.
const FAULT_KINDS: [(&str, &str); 7] = [
    ("all", "faults.count"),
    ("user", "faults.user"),
    ("kernel", "faults.kernel"),
    ("write", "faults.write"),
    ("instruction", "faults.instruction"),
    ("protection", "faults.protection"),
    ("major", "faults.major"),
];

/// Makes the view.
pub fn view(recording: &Recording, options: &Options) -> Result<View, Failure> {
    let run = RunData::load_within(recording.dir(), &options.bounds).map_err(read::analysis)?;
    let mut notes = run.notes.clone();
    let tables = tables(recording, &mut notes)?;
    let slots = slots(recording, &run, &mut notes)?;
    let summary = collect(recording, &run, tables, slots);
    View::new("summary", recording, &notes, &summary, &text::text(&summary, recording.manifest().clock.start_ns))
}

fn collect(recording: &Recording, run: &RunData, tables: Vec<TableFacts>, slots: Option<Slots>) -> Summary {
    let manifest = recording.manifest();
    let clock = &manifest.clock;
    let (settings_changed, settings_changed_volatile) = changes(run);
    Summary {
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

fn tables(recording: &Recording, notes: &mut Vec<String>) -> Result<Vec<TableFacts>, Failure> {
    let mut tables = Vec::new();
    for table in recording.tables()? {
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

fn slots(recording: &Recording, run: &RunData, notes: &mut Vec<String>) -> Result<Option<Slots>, Failure> {
    let profile = match MappingProfile::load(recording.dir(), &ProfileOptions::of_run(run)) {
        Ok(Some(profile)) => profile,
        Ok(None) => return Ok(None),
        Err(pagelab_analysis::AnalysisError::Recording(error)) if error.is_damage() => {
            notes.push(error.to_string());
            return Ok(None);
        }
        Err(error) => return Err(read::analysis(error)),
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
    for (key, start, end) in run.settings.changed() {
        if setting(key).is_some_and(|info| info.def.volatile) {
            volatile += 1;
        } else {
            changed.push(Change { key: key.to_owned(), start: start.to_owned(), end: end.to_owned() });
        }
    }
    (changed, volatile)
}
