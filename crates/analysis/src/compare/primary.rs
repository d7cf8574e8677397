//! The primary metric of many runs, chosen and read as a comparison does.

use pagelab_views::metrics::values;
use pagelab_views::run::{MetricKey, RunData};
use pagelab_vocab::metrics::{Direction, Unit};

use super::assemble::{Form, Sides};
use super::make::{choose_primary, key_of};
use super::options::CompareOptions;
use crate::error::Result;
use crate::stats::Design;

/// A metric, and how to read its number of each run.
pub(crate) struct PrimaryMetric {
    /// Its name, with the instance in brackets where one was asked for.
    pub name: String,
    /// Which way is better.
    pub direction: Direction,
    /// Unit of the numbers: that of the metric, `/s` or `/op` behind it for a counter.
    pub unit: String,
    /// It follows the clock or the host's past and not the run.
    pub always_moves: bool,
    key: MetricKey,
    form: Form,
}

impl PrimaryMetric {
    /// The metric asked for, or the default that all runs have; `None` if there is none of these.
    ///
    /// # Errors
    /// A metric that no run has.
    pub(crate) fn choose(runs: &[&RunData], options: &CompareOptions) -> Result<Option<Self>> {
        let sides = Sides::new(runs, &[], Design::Unpaired);
        let Some(choice) = choose_primary(options, &sides, &sides.keys())? else { return Ok(None) };
        let key = key_of(&choice.metric);
        let info = values::info_of(&key.name, runs.iter().copied());
        let form = Form::of(&info, sides.per_operation, runs.iter().filter_map(|run| run.metrics.get(&key)));
        Ok(Some(Self {
            name: choice.metric,
            direction: choice.direction,
            unit: form.unit(&info),
            always_moves: info.always_moves,
            key,
            form,
        }))
    }

    /// The number of one run, or why there is none.
    ///
    /// # Errors
    /// The reason in words.
    pub(crate) fn value(&self, run: &RunData) -> Result<f64, String> {
        let Some(metric) = run.metrics.get(&self.key) else { return Err(format!("the run has no {}", self.name)) };
        let sides = [run];
        let lossy = Sides::new(&sides, &[], Design::Unpaired).losses.explain(&self.key.name, metric.kind);
        if let Some(lossy) = lossy {
            return Err(lossy);
        }
        match self.form.value(metric) {
            Some(value) if value.is_finite() => Ok(value),
            Some(value) => Err(format!("the value of {} is {value}; a finite number is needed", self.name)),
            None => Err(metric.note.clone().unwrap_or_else(|| format!("{} was not measured", self.name))),
        }
    }

    /// What one run measured the metric in.
    pub(crate) fn unit_of(&self, run: &RunData) -> Option<Unit> {
        run.metrics.get(&self.key).filter(|metric| metric.value.is_some()).map(|metric| metric.unit)
    }
}
