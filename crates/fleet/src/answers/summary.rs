//! What is in a fleet.

use std::collections::{BTreeMap, BTreeSet};

use pagelab_analysis::trend::Scale;
use serde::Serialize;

use super::asked::{Asked, MetricAsked, Question, Reading};
use crate::error::Result;
use crate::outliers::{OutlierOptions, outliers};
use crate::questions::run_values;
use crate::rollup::{Day, FleetSource, LabelsRow, RunsRow};

/// Values of a label that are listed.
const MOST_VALUES: usize = 12;

/// One value of a label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LabelValue {
    /// The value.
    pub value: String,
    /// Hosts that have it in any run.
    pub hosts: usize,
    /// Their runs that have it.
    pub runs: usize,
}

/// What runs can be grouped by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LabelSummary {
    /// Its name.
    pub name: String,
    /// Its values, those of most hosts first.
    pub values: Vec<LabelValue>,
    /// Values that are not listed.
    pub more_values: usize,
}

/// A metric across hosts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricSummary {
    /// The metric.
    pub metric: MetricAsked,
    /// Hosts that have a value.
    pub hosts: usize,
    /// Their runs.
    pub runs: usize,
    /// The fleet's centre: weighted median of the hosts' means, in the metric's unit.
    pub centre: Option<f64>,
    /// Whether ratios or differences are looked at: the scale of the two deviations below.
    pub scale: Scale,
    /// Robust standard deviation of hosts: of natural logarithms on a log scale, else in the unit.
    pub sd_between_hosts: Option<f64>,
    /// Robust standard deviation of the runs of a host; null if no host has two.
    pub sd_within_hosts: Option<f64>,
    /// Hosts that are not like the others.
    pub outliers: usize,
}

/// What is in a fleet.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// First and last day.
    pub days: [Day; 2],
    /// Days in between that have runs.
    pub days_with_runs: usize,
    /// Hosts that have a run that counts.
    pub hosts: usize,
    /// Runs that count.
    pub runs: usize,
    /// Runs that count nowhere, by reason.
    pub excluded: BTreeMap<String, usize>,
    /// Labels.
    pub labels: Vec<LabelSummary>,
    /// The metric asked for, or the one that is chosen where none is; null if the fleet has none of these.
    pub metric: Option<MetricSummary>,
    /// Metrics that there are.
    pub metrics: usize,
    /// What was read.
    pub reading: Reading,
    /// What a reader must know.
    pub notes: Vec<String>,
}

/// Sums up the days asked for.
///
/// # Errors
/// Days or a metric that the fleet has not, and files that cannot be read.
pub fn summary(fleet: &dyn FleetSource, question: &Question) -> Result<Summary> {
    let mut asked = Asked::of(fleet, question)?;
    let days = [*asked.days.start(), *asked.days.end()];
    let runs: Vec<RunsRow> = asked.read(&[])?;
    let mut excluded: BTreeMap<String, usize> = BTreeMap::new();
    for reason in runs.iter().filter_map(|run| run.excluded.as_deref()) {
        // Details differ from run to run.
        let kind = reason.split(['(', ':', ';']).next().unwrap_or(reason).trim();
        *excluded.entry(kind.to_owned()).or_default() += 1;
    }
    let counted: Vec<&RunsRow> = runs.iter().filter(|run| run.excluded.is_none()).collect();
    let hosts: BTreeSet<&str> = counted.iter().filter_map(|run| run.host.as_deref()).collect();
    let with_runs: BTreeSet<Day> = counted.iter().filter_map(|run| run.start_ns.map(Day::of_ns)).collect();
    let labels = labels(&asked.read(&[])?, &counted);
    let metrics = asked.metric_names()?;
    let metric = match asked.metric(question) {
        Ok((metric, rows)) => {
            let values = run_values(&rows);
            let found = outliers(&values, &OutlierOptions::default());
            Some(MetricSummary {
                metric,
                hosts: found.hosts,
                runs: found.runs,
                centre: found.centre,
                scale: found.scale,
                sd_between_hosts: found.sd_between_hosts,
                sd_within_hosts: found.sd_within_hosts,
                outliers: found.outliers,
            })
        }
        Err(error) if question.metric.is_some() => return Err(error),
        Err(_) => None,
    };
    let nameless = counted.iter().filter(|run| run.host.is_none()).count();
    let notes =
        (nameless > 0).then(|| format!("{nameless} runs have no host name: no statistic of hosts can use them"));
    Ok(Summary {
        days,
        days_with_runs: with_runs.len(),
        hosts: hosts.len(),
        runs: counted.len(),
        excluded,
        labels,
        metric,
        metrics: metrics.len(),
        reading: asked.reading,
        notes: notes.into_iter().collect(),
    })
}

fn labels(rows: &[LabelsRow], runs: &[&RunsRow]) -> Vec<LabelSummary> {
    let host_of: BTreeMap<&str, Option<&str>> =
        runs.iter().filter_map(|run| Some((run.recording_id.as_deref()?, run.host.as_deref()))).collect();
    let mut found: BTreeMap<&str, BTreeMap<&str, (BTreeSet<&str>, usize)>> = BTreeMap::new();
    for row in rows {
        let (Some(name), Some(value), Some(id)) =
            (row.name.as_deref(), row.value.as_deref(), row.recording_id.as_deref())
        else {
            continue;
        };
        let Some(host) = host_of.get(id) else { continue };
        let (hosts, runs) = found.entry(name).or_default().entry(value).or_default();
        hosts.extend(*host);
        *runs += 1;
    }
    let summed = |(name, values): (&str, BTreeMap<&str, (BTreeSet<&str>, usize)>)| {
        let one = |(value, (hosts, runs)): (&str, (BTreeSet<&str>, usize))| LabelValue {
            value: value.to_owned(),
            hosts: hosts.len(),
            runs,
        };
        let mut values: Vec<LabelValue> = values.into_iter().map(one).collect();
        values.sort_by(|a, b| b.hosts.cmp(&a.hosts).then_with(|| a.value.cmp(&b.value)));
        let more_values = values.len().saturating_sub(MOST_VALUES);
        values.truncate(MOST_VALUES);
        LabelSummary { name: name.to_owned(), values, more_values }
    };
    found.into_iter().map(summed).collect()
}
