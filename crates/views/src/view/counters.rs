//! `show DIR counters`: what processor and kernel counted, and what follows from it.

use std::collections::BTreeMap;

use pagelab_recording::Recording;
use pagelab_recording::tables::CountersRow;
use pagelab_vocab::counters::{self, Count, RATIOS};
use pagelab_vocab::streams::Stream;
use serde::Serialize;
use serde_json::Value;

use crate::absence;
use crate::answer::Answer;
use crate::error::Result;
use crate::read;
use crate::selection::Selection;

/// One event that was counted, or could not be.
#[derive(Debug, Serialize)]
pub struct Event {
    /// Name as `perf list` has it; `:u` behind it if user mode alone was counted.
    pub name: String,
    /// `ns` of clocks, empty of plain counts.
    pub unit: &'static str,
    /// As counted.
    pub value: Option<u64>,
    /// As it would be had it been counted all the time.
    pub estimate: Option<f64>,
    /// Whether it was counted a part of the time only.
    pub multiplexed: bool,
    /// Share of the time in which it was counted, percent.
    pub running_pct: Option<f64>,
    /// In the measured time, scaled; null if the load's operations are not known.
    pub per_operation: Option<f64>,
    /// Events of one group were counted at the same times.
    pub group_id: Option<u32>,
    /// Why there is no value.
    pub reason: Option<String>,
}

/// The quotient of two events that were counted at the same times.
#[derive(Debug, Serialize)]
pub struct Ratio {
    /// Name.
    pub name: &'static str,
    /// Its meaning, in words.
    pub help: &'static str,
    /// Names of numerator and denominator.
    pub of: [&'static str; 2],
    /// The quotient; null if it cannot be made.
    pub value: Option<f64>,
    /// Why there is no value.
    pub reason: Option<String>,
}

/// What processor and kernel counted, one row per event.
#[derive(Debug, Serialize)]
pub struct CountersView {
    /// From the first reading to the last.
    pub elapsed_ns: Option<i64>,
    /// Operations in the measured time.
    pub operations: Option<f64>,
    /// CPU time over elapsed time.
    pub cpus_utilized: Option<f64>,
    /// Events.
    pub events: Vec<Event>,
    /// What follows from them.
    pub ratios: Vec<Ratio>,
}

/// Readings of one event in order of time.
type Readings = Vec<(i64, Option<Count>)>;

/// The measured time of a load and its operations.
struct Measured {
    start_ns: i64,
    end_ns: i64,
    operations: f64,
}

/// Makes the view.
pub fn collect(recording: &Recording, selection: &Selection) -> Result<Answer<CountersView>> {
    let mut notes = Vec::new();
    let mut series: BTreeMap<String, Readings> = BTreeMap::new();
    read::each_in_time::<CountersRow>(recording, &mut notes, |row| {
        // Rows of single tasks are parts of the rows for all together.
        if row.task_id.is_none() {
            let count = row.value.map(|value| Count {
                value,
                enabled_ns: row.enabled_ns.unwrap_or(0),
                running_ns: row.running_ns.unwrap_or(0),
                group_id: row.group_id,
            });
            series.entry(row.name.to_owned()).or_default().push((row.ts, count));
        }
    })?;
    read::lost(recording, Stream::Counters, &mut notes)?;
    if series.is_empty() {
        absence::none_recorded(recording, Stream::Counters, "counters", &mut notes)?;
    }
    let data = document(recording, selection, &series);
    if !series.is_empty() && data.events.is_empty() {
        notes.push(format!("no event has {} in its name", selection.words.join(" or ")));
    }
    Ok(Answer::new("counters", recording, notes, data))
}

fn document(recording: &Recording, selection: &Selection, series: &BTreeMap<String, Readings>) -> CountersView {
    let measured = measured(recording);
    let reasons = recording.manifest().extra.get("counters").and_then(|own| own.get("not_counted"));
    let reason_of = |name: &str| {
        let said = reasons.and_then(|reasons| reasons.get(name)).and_then(Value::as_str);
        said.unwrap_or("the recording does not say").to_owned()
    };
    let mut names: Vec<&String> = series.keys().filter(|name| selection.wants_name(name)).collect();
    names.sort_by_key(|name| (counters::position(name).unwrap_or(usize::MAX), (*name).clone()));
    let events = names.into_iter().map(|name| {
        let readings = series.get(name).map(Vec::as_slice).unwrap_or_default();
        let last = last_of(readings);
        let estimate = last.and_then(|count| count.estimate());
        let no_turn = || "it was never given a counter: too many events took turns".to_owned();
        Event {
            name: name.clone(),
            unit: counters::find(name).map_or("", |event| event.unit),
            value: last.map(|count| count.value),
            estimate,
            multiplexed: last.is_some_and(|count| count.multiplexed()),
            running_pct: last.and_then(|count| count.running_pct()),
            per_operation: measured.as_ref().and_then(|measured| per_operation(readings, measured)),
            group_id: last.and_then(|count| count.group_id),
            reason: match (last, estimate) {
                (None, _) => Some(reason_of(name)),
                (Some(_), None) => Some(no_turn()),
                _ => None,
            },
        }
    });
    let events = events.collect();
    let times = || series.values().flatten().map(|(ts, _)| *ts);
    let elapsed_ns = times().max().zip(times().min()).map(|(last, first)| last - first).filter(|ns| *ns > 0);
    let find = |name: &str| series.get(name).and_then(|readings| last_of(readings));
    let clock = find("task-clock").or_else(|| find("task-clock:u"));
    CountersView {
        elapsed_ns,
        operations: measured.map(|measured| measured.operations),
        cpus_utilized: clock.zip(elapsed_ns).map(|(clock, elapsed)| clock.value as f64 / elapsed as f64),
        events,
        ratios: if series.is_empty() { Vec::new() } else { ratios(find) },
    }
}

fn ratios(find: impl Fn(&str) -> Option<Count>) -> Vec<Ratio> {
    let made = RATIOS.iter().map(|def| {
        let (value, reason) = match counters::quotient(def, &find) {
            Ok(value) => (Some(value), None),
            Err(reason) => (None, Some(reason)),
        };
        Ratio { name: def.name, help: def.help, of: [def.numerator, def.denominator], value, reason }
    });
    made.collect()
}

fn last_of(readings: &[(i64, Option<Count>)]) -> Option<Count> {
    readings.iter().rev().find_map(|(_, count)| *count)
}

/// The load's measured time, if it counted its operations.
fn measured(recording: &Recording) -> Option<Measured> {
    let measured = recording.manifest().measured.as_ref()?;
    let (start_ns, end_ns) = measured.span_ns()?;
    Some(Measured { start_ns, end_ns, operations: measured.operations_done()? })
}

/// The increase in the measured time over its operations. Between two readings the events are taken to come evenly.
fn per_operation(readings: &[(i64, Option<Count>)], measured: &Measured) -> Option<f64> {
    let known: Vec<(i64, f64)> =
        readings.iter().filter_map(|(ts, count)| Some((*ts, count.as_ref()?.estimate()?))).collect();
    let at = |time: i64| {
        let after = known.partition_point(|(ts, _)| *ts <= time);
        match (after.checked_sub(1).and_then(|before| known.get(before)), known.get(after)) {
            (Some((t0, v0)), Some((t1, v1))) => Some(v0 + (v1 - v0) * ((time - t0) as f64 / (t1 - t0) as f64)),
            // The first reading is before the target runs, the last after it has ended.
            (Some((_, only)), None) | (None, Some((_, only))) => Some(*only),
            (None, None) => None,
        }
    };
    let increase = at(measured.end_ns)? - at(measured.start_ns)?;
    // Estimates of multiplexed counts can fall a little from one reading to the next.
    Some(increase.max(0.0) / measured.operations)
}
