//! What every question has in common: days, a metric, and what was read for the answer.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use pagelab_vocab::metrics::Direction;
use serde::Serialize;

use crate::error::{FleetError, Result};
use crate::rollup::{Day, FleetSource, MetricsRow, Read, Row, RunsRow, Text, Where};

/// What a question is asked for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Question {
    /// The first day; that of the fleet if `None`.
    pub from: Option<Day>,
    /// The last day; that of the fleet if `None`.
    pub to: Option<Day>,
    /// The metric; chosen from what the fleet has if `None`: a number that commands print, else operations per second, else the time
    /// that runs took.
    pub metric: Option<String>,
    /// Its instance; that of all together if `None`.
    pub instance: Option<String>,
    /// Per operation rather than per second, of counters.
    pub per_operation: bool,
}

/// The metric that a question is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MetricAsked {
    /// Its name.
    pub name: String,
    /// The instance; null for all together.
    pub instance: Option<String>,
    /// Its unit, `/s` or `/op` behind it for a counter.
    pub unit: String,
    /// Which way is better: `higher`, `lower` or `neutral`.
    pub direction: &'static str,
}

impl MetricAsked {
    /// Which way is better.
    pub fn direction(&self) -> Direction {
        direction_of(Some(self.direction))
    }

    /// The name with the instance.
    pub fn full_name(&self) -> String {
        self.instance.as_ref().map_or_else(|| self.name.clone(), |instance| format!("{}[{instance}]", self.name))
    }
}

/// What was read for an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Reading {
    /// Files that were opened.
    pub files: usize,
    /// Row groups that were decoded; null where a cluster read them, which does not say.
    pub row_groups_read: Option<usize>,
    /// Row groups that these files have; null likewise.
    pub row_groups: Option<usize>,
    /// Rows that were held.
    pub rows: usize,
    /// Days that lack a table, by table: what they would say is not known.
    pub days_without: BTreeMap<&'static str, Vec<Day>>,
}

/// A fleet, some of its days, and what was read of them so far.
pub(super) struct Asked<'a> {
    pub fleet: &'a dyn FleetSource,
    pub days: RangeInclusive<Day>,
    pub reading: Reading,
}

impl<'a> Asked<'a> {
    /// The days of the fleet that a question is about.
    ///
    /// # Errors
    /// [`FleetError::NoDays`] if there are none.
    pub(super) fn of(fleet: &'a dyn FleetSource, question: &Question) -> Result<Self> {
        let none = || {
            let found = match fleet.span() {
                Ok(Some(days)) => format!("days from {} to {}", days.start(), days.end()),
                _ => "no folder day=YYYY-MM-DD".to_owned(),
            };
            FleetError::NoDays { path: fleet.place(), found }
        };
        let all = fleet.span()?.ok_or_else(none)?;
        let first = question.from.map_or(*all.start(), |from| from.max(*all.start()));
        let last = question.to.map_or(*all.end(), |to| to.min(*all.end()));
        if first > last {
            return Err(none());
        }
        let reading = Reading { row_groups_read: Some(0), row_groups: Some(0), ..Reading::default() };
        Ok(Self { fleet, days: first..=last, reading })
    }

    /// Rows of a table in these days.
    pub(super) fn read<R: Row>(&mut self, conditions: &[Where]) -> Result<Vec<R>> {
        let read: Read<R> = self.fleet.read(self.days.clone(), conditions)?;
        self.count(R::TABLE.name, &read);
        Ok(read.rows)
    }

    /// Rows of a table from the fleet's first day to the last of these, because a row there holds until the next.
    pub(super) fn read_from_the_first<R: Row>(&mut self) -> Result<Vec<R>> {
        let first = self.fleet.span()?.map_or(*self.days.start(), |days| *days.start());
        let read: Read<R> = self.fleet.read(first..=*self.days.end(), &[])?;
        self.count(R::TABLE.name, &read);
        Ok(read.rows)
    }

    fn count<R>(&mut self, table: &'static str, read: &Read<R>) {
        let sum = |sum: Option<usize>, more: Option<usize>| Some(sum? + more?);
        let (reading, opened) = (&mut self.reading, &read.opened);
        reading.files += opened.files;
        reading.row_groups_read = sum(reading.row_groups_read, opened.row_groups_read);
        reading.row_groups = sum(reading.row_groups, opened.row_groups);
        reading.rows += read.rows.len();
        if !opened.days_without.is_empty() {
            reading.days_without.insert(table, opened.days_without.clone());
        }
    }

    /// The metric asked for with its rows, values chosen: per second or per operation.
    ///
    /// # Errors
    /// [`FleetError::NoSuchMetric`] if no run has it.
    pub(super) fn metric(&mut self, question: &Question) -> Result<(MetricAsked, Vec<MetricsRow>)> {
        let name = match &question.metric {
            Some(name) => name.clone(),
            None => self.chosen_metric()?,
        };
        let conditions = [
            Where { column: "name", equals: Some(&name) },
            Where { column: "instance", equals: question.instance.as_deref() },
        ];
        let mut rows: Vec<MetricsRow> = self.read(&conditions)?;
        if rows.is_empty() {
            return Err(self.no_such_metric(&name, question.instance.as_deref())?);
        }
        let is_counter = rows.iter().any(|row| row.kind.as_deref() == Some("counter"));
        if question.per_operation {
            for row in &mut rows {
                row.value = row.per_operation;
            }
        }
        let form = match (is_counter, question.per_operation) {
            (true, true) => "/op",
            (true, false) => "/s",
            _ => "",
        };
        let first = rows.iter().find_map(|row| row.unit.as_deref()).unwrap_or_default();
        let direction = rows.iter().find_map(|row| row.direction.as_deref());
        let asked = MetricAsked {
            name,
            instance: question.instance.clone(),
            unit: format!("{first}{form}"),
            direction: direction_of(direction).name(),
        };
        Ok((asked, rows))
    }

    fn no_such_metric(&mut self, name: &str, instance: Option<&str>) -> Result<FleetError> {
        let names = self.metric_names()?;
        let instances: Vec<MetricsRow> = self.read(&[Where { column: "name", equals: Some(name) }])?;
        let known = if instances.is_empty() {
            let near = pagelab_vocab::nearest::nearest(name, names.iter().map(AsRef::as_ref));
            near.map_or_else(|| some_of(&names), str::to_owned)
        } else {
            let mut found: Vec<&str> = instances.iter().filter_map(|row| row.instance.as_deref()).collect();
            found.sort_unstable();
            found.dedup();
            found.iter().take(8).map(|one| format!("--instance {one}")).collect::<Vec<_>>().join(", ")
        };
        let name = instance.map_or_else(|| name.to_owned(), |instance| format!("{name}[{instance}]"));
        Ok(FleetError::NoSuchMetric { name, known })
    }

    /// The names of all metrics of these days.
    pub(super) fn metric_names(&mut self) -> Result<Vec<Text>> {
        self.fleet.distinct::<MetricsRow>(self.days.clone(), "name")
    }

    fn chosen_metric(&mut self) -> Result<String> {
        let names = self.metric_names()?;
        let named = |wanted: &str| names.iter().find(|name| ***name == *wanted);
        let printed = names.iter().find(|name| name.starts_with("value."));
        let chosen = printed.or_else(|| named("load.iops")).or_else(|| named("run.elapsed_ns"));
        chosen.map(|name| name.as_ref().to_owned()).ok_or_else(|| FleetError::NoSuchMetric {
            name: "value.*, load.iops or run.elapsed_ns".to_owned(),
            known: some_of(&names),
        })
    }

    /// The runs of these days that count, by id.
    pub(super) fn counted_runs(&mut self) -> Result<BTreeMap<Text, RunsRow>> {
        let rows: Vec<RunsRow> = self.read(&[])?;
        let counted = rows.into_iter().filter(|row| row.excluded.is_none());
        Ok(counted.filter_map(|row| Some((row.recording_id.clone()?, row))).collect())
    }
}

fn some_of(names: &[Text]) -> String {
    names.iter().take(8).map(AsRef::as_ref).collect::<Vec<&str>>().join(", ")
}

/// The direction of a word; neutral for what is none.
pub(super) fn direction_of(word: Option<&str>) -> Direction {
    let all = [Direction::HigherIsBetter, Direction::LowerIsBetter];
    all.into_iter().find(|direction| Some(direction.name()) == word).unwrap_or(Direction::Neutral)
}
