//! What a comparison is asked for.

use pagelab_recording::Bounds;
use pagelab_vocab::metrics::Direction;

use pagelab_views::metrics::info::{info, is_declared};
use pagelab_views::metrics::values;
use pagelab_views::run::RunData;

use crate::error::{AnalysisError, Result};

/// Options of [`super::compare`].
#[derive(Debug, Clone)]
pub struct CompareOptions {
    /// Level of the decisions.
    pub alpha: f64,
    /// The primary metric, named before the runs. Default: `load.iops` for jobs, `run.elapsed_ns` for commands.
    pub primary: Option<PrimaryChoice>,
    /// Metrics to list: names, or beginnings of names that end in `*`. Empty: all. It does not shrink the family.
    pub show: Vec<String>,
    /// How the design is found.
    pub design: DesignChoice,
    /// Runs were added after looking at a result.
    pub exploratory: bool,
    /// Whether the rules look for causes.
    pub diagnose: bool,
    /// The part of each recording's time that counts; the measured time where they say nothing.
    pub bounds: Bounds,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self {
            alpha: 0.05,
            primary: None,
            show: Vec::new(),
            design: DesignChoice::FromRuns,
            exploratory: false,
            diagnose: true,
            bounds: Bounds::default(),
        }
    }
}

/// Where the design (blocks or unpaired) comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DesignChoice {
    /// Blocks if the runs were made so, see [`super::design`]; else unpaired.
    FromRuns,
    /// Unpaired, whatever the manifests say; for splits of runs that ignore the rounds.
    Unpaired,
}

/// A primary metric and which way of moving is better.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrimaryChoice {
    /// Name of the metric, with `[instance]` behind it where only one instance is meant.
    pub metric: String,
    /// Which way is better.
    pub direction: Direction,
}

impl PrimaryChoice {
    /// The number that decides if nobody says otherwise: the first of the command's own that all runs were asked for.
    pub(super) fn of_values<'a>(runs: impl Iterator<Item = &'a RunData> + Clone) -> Option<Self> {
        let metric = values::first(runs.clone())?;
        let direction = values::info_of(&metric, runs).direction;
        Some(Self { metric, direction })
    }

    /// With the direction that the user gave with a number of the command's own, where the choice has none.
    pub(super) fn with_direction_of<'a>(&self, runs: impl Iterator<Item = &'a RunData>) -> Self {
        let mut choice = self.clone();
        if choice.direction == Direction::Neutral {
            choice.direction = values::info_of(&choice.metric, runs).direction;
        }
        choice
    }

    /// The metric with the direction that the vocabulary gives it.
    pub fn of(metric: &str) -> Self {
        let name = metric.split('[').next().unwrap_or(metric);
        Self { metric: metric.to_owned(), direction: info(name).direction }
    }

    /// As a plan says it: `direction` is `higher`, `lower`, or `None` for the vocabulary's.
    pub fn parse(metric: &str, direction: Option<&str>) -> Result<Self> {
        let direction = match direction {
            None => return Ok(Self::of(metric)),
            Some("higher") => Direction::HigherIsBetter,
            Some("lower") => Direction::LowerIsBetter,
            Some(other) => {
                return Err(AnalysisError::BadDirection { direction: other.to_owned() });
            }
        };
        Ok(Self { metric: metric.to_owned(), direction })
    }
}

impl CompareOptions {
    pub(super) fn check(&self) -> Result<()> {
        if self.alpha > 0.0 && self.alpha < 1.0 { Ok(()) } else { Err(AnalysisError::BadAlpha { alpha: self.alpha }) }
    }

    /// Whether the list is to show this metric.
    pub(super) fn shows(&self, name: &str) -> bool {
        self.show.is_empty()
            || self.show.iter().any(|pattern| match pattern.strip_suffix('*') {
                Some(start) => name.starts_with(start),
                None => name == pattern,
            })
    }

    /// The patterns of [`CompareOptions::show`] that can show nothing: neither declared by a registry nor in `names`.
    pub(super) fn unknown<'a>(&'a self, names: &[&str]) -> Option<&'a str> {
        self.show.iter().map(String::as_str).find(|pattern| match pattern.strip_suffix('*') {
            Some(start) => !names.iter().any(|name| name.starts_with(start)),
            None => !names.contains(pattern) && !is_declared(pattern),
        })
    }
}
