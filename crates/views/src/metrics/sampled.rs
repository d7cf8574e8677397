//! The `metrics` table: kernel counters and levels, sampled about ten times a second.
//!
//! A value holds until the next row of its series, and the sampler writes no row for a value that has not changed. When a
//! source was read is therefore known from all of its series together ([`Ticks`]).

use std::collections::{BTreeMap, HashMap};

use arrow::array::{Array, AsArray, DictionaryArray, RecordBatch, StringArray};
use arrow::datatypes::{Float64Type, Int32Type, Int64Type};
use pagelab_recording::Recording;

use super::Metrics;
use super::bins::Bins;
use super::info::info;
use super::series::{Series, Ticks};
use crate::error::Result;
use crate::run::MetricKey;
use crate::window::Window;

const COLUMNS: [&str; 4] = ["ts", "name", "instance", "value"];

/// Fewer readings than this in the window make every rate depend on what happened between two of them.
const FEW_TICKS: u32 = 5;

struct State {
    key: MetricKey,
    series: Series,
    source: usize,
}

#[derive(Default)]
struct Collector<'a> {
    /// The series that are wanted by piece of the window, and its pieces.
    binned: Option<(&'a [&'a str], Bins)>,
    states: Vec<State>,
    by_key: HashMap<MetricKey, usize>,
    sources: HashMap<&'static str, usize>,
    ticks: Vec<Ticks>,
    /// Rows that say neither what they are of nor when.
    without_name: usize,
}

/// The numbers of all sampled series.
pub(super) fn collect(recording: &Recording, window: &Window, notes: &mut Vec<String>) -> Result<Metrics> {
    let mut collector = Collector::default();
    for batch in recording.read("metrics", Some(&COLUMNS))? {
        collector.take(&batch?, window);
    }
    if collector.without_name > 0 {
        notes.push(format!(
            "{} rows of the table metrics have no name or no time and were left out: it has another schema than \
             pagelab's (docs/recording.md)",
            collector.without_name
        ));
    }
    let most = collector.ticks.iter().map(Ticks::in_window).max();
    if let Some(most) = most.filter(|n| *n < FEW_TICKS) {
        let samples = match most {
            0 => "no sample".to_owned(),
            1 => "one sample".to_owned(),
            more => format!("{more} samples"),
        };
        notes.push(format!(
            "{samples} in the window of {:.3} s: rates of sampled counters are approximate",
            window.seconds()
        ));
    }
    Ok(collector.finish(window))
}

/// The values of the series of these names by piece of the window; none for a piece in which a series is not known.
pub(super) fn collect_bins(
    recording: &Recording,
    window: &Window,
    names: &[&str],
    bins: &Bins,
) -> Result<BTreeMap<MetricKey, Vec<Option<f64>>>> {
    let mut collector = Collector { binned: Some((names, bins.clone())), ..Collector::default() };
    for batch in recording.read("metrics", Some(&COLUMNS))? {
        collector.take(&batch?, window);
    }
    let Collector { states, ticks, .. } = collector;
    let values = |state: State| Some((state.key, state.series.finish_bins(ticks.get(state.source)?, window)?));
    Ok(states.into_iter().filter_map(values).collect())
}

/// The two text columns of a batch by their dictionaries, so that a row costs no comparison of text.
struct Names<'a> {
    names: &'a DictionaryArray<Int32Type>,
    name_texts: &'a StringArray,
    instances: &'a DictionaryArray<Int32Type>,
    instance_texts: &'a StringArray,
}

impl<'a> Names<'a> {
    fn of(batch: &'a RecordBatch) -> Self {
        let names = batch.column(1).as_dictionary::<Int32Type>();
        let instances = batch.column(2).as_dictionary::<Int32Type>();
        Self {
            names,
            name_texts: names.values().as_string::<i32>(),
            instances,
            instance_texts: instances.values().as_string::<i32>(),
        }
    }

    /// Dictionary keys of row `i`; -1 stands for no instance.
    fn keys(&self, i: usize) -> Option<(i32, i32)> {
        let name = self.names.keys();
        let instance = self.instances.keys();
        name.is_valid(i).then(|| (name.value(i), if instance.is_valid(i) { instance.value(i) } else { -1 }))
    }

    fn key(&self, (name, instance): (i32, i32)) -> MetricKey {
        let instance = usize::try_from(instance).ok().map(|i| self.instance_texts.value(i));
        MetricKey::new(self.name_texts.value(name as usize), instance)
    }
}

impl Collector<'_> {
    fn take(&mut self, batch: &RecordBatch, window: &Window) {
        let times = batch.column(0).as_primitive::<Int64Type>();
        let values = batch.column(3).as_primitive::<Float64Type>();
        let names = Names::of(batch);
        let mut known: HashMap<(i32, i32), usize> = HashMap::new();
        for i in 0..batch.num_rows() {
            let Some(keys) = names.keys(i).filter(|_| times.is_valid(i)) else {
                self.without_name += 1;
                continue;
            };
            let index = *known.entry(keys).or_insert_with(|| self.index(names.key(keys)));
            let Some(state) = self.states.get_mut(index) else { continue };
            let Some(ticks) = self.ticks.get_mut(state.source) else { continue };
            let ts = times.value(i);
            ticks.advance(ts, window);
            state.series.push(ts, values.is_valid(i).then(|| values.value(i)), ticks, window);
        }
    }

    fn index(&mut self, key: MetricKey) -> usize {
        if let Some(index) = self.by_key.get(&key) {
            return *index;
        }
        let info = info(&key.name);
        let next = self.sources.len();
        let source = *self.sources.entry(info.source).or_insert(next);
        if source == self.ticks.len() {
            self.ticks.push(Ticks::default());
        }
        let series = match &self.binned {
            Some((wanted, bins)) if wanted.contains(&key.name.as_str()) => {
                Series::binned(info.kind, info.unit, bins.clone())
            }
            _ => Series::new(info.kind, info.unit),
        };
        self.states.push(State { key: key.clone(), series, source });
        self.by_key.insert(key, self.states.len() - 1);
        self.states.len() - 1
    }

    fn finish(self, window: &Window) -> Metrics {
        let ticks = self.ticks;
        self.states
            .into_iter()
            // Known of the whole run only, with more about them, from the manifest.
            .filter(|state| !state.key.name.starts_with(super::values::PREFIX))
            .filter_map(|state| {
                // What the runner of a command writes once is no sample of a level.
                let one_value = state.key.name.starts_with("run.") || state.key.name.starts_with("load.");
                let metric = state.series.finish(ticks.get(state.source)?, window, one_value);
                Some((state.key, metric))
            })
            .collect()
    }
}
