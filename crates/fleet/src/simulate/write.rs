//! The tables of a simulated fleet, one day after another, each in the order of its file.

use std::sync::Arc;

use super::draws::Purpose;
use super::{Fleet, RunPlace};
use crate::error::Result;
use crate::rollup::{
    ComponentsRow, Day, FleetFolder, LabelsRow, MetricsRow, Row, RunsRow, SettingsRow, SortedWriter, TableDef, Text,
    WriteOptions,
};

/// The setting that the derived label `thp` is made of.
const THP: &str = "thp.enabled";

/// Columns that questions can do without, by table.
const DISPENSABLE: &[(&str, &[&str])] = &[
    ("runs", &["variant", "cpus", "virt", "pagelab_version", "command"]),
    ("metrics", &["unit", "direction"]),
    ("settings", &["recording_id"]),
];

/// Rows that were written, by table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// Rows of `runs`.
    pub runs: u64,
    /// Rows of `labels`.
    pub labels: u64,
    /// Rows of `metrics`.
    pub metrics: u64,
    /// Rows of `components`.
    pub components: u64,
    /// Rows of `settings`.
    pub settings: u64,
    /// Columns that files lack.
    pub columns_missing: u64,
}

/// A run of the day that is being written.
struct RunOfDay {
    at: RunPlace,
    start_ns: i64,
    host: Text,
    recording_id: Text,
}

impl Fleet {
    /// Writes the compacted tables of all days.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub fn write(&self, folder: &FleetFolder, options: &WriteOptions) -> Result<Written> {
        let mut written = Written::default();
        for day in 0..self.plan.days {
            DayOfFleet::of(self, folder, options, day).write(&mut written)?;
        }
        Ok(written)
    }

    /// The last day before `day` on which the host has a run.
    fn day_before(&self, host: u32, day: u32) -> Option<u32> {
        (0..day).rev().find(|day| self.runs_on(host, *day) > 0)
    }
}

struct DayOfFleet<'a> {
    fleet: &'a Fleet,
    folder: &'a FleetFolder,
    options: &'a WriteOptions,
    day: Day,
    number: u32,
    runs: Vec<RunOfDay>,
}

impl<'a> DayOfFleet<'a> {
    fn of(fleet: &'a Fleet, folder: &'a FleetFolder, options: &'a WriteOptions, number: u32) -> Self {
        let day = fleet.plan.first_day.after(number);
        let run = |at: RunPlace| {
            let host = fleet.names.get(at.host as usize).cloned().unwrap_or_else(|| Arc::from(""));
            let recording_id = Arc::from(format!("{host}.{day}.{:04}", at.run));
            RunOfDay { at, start_ns: fleet.start_ns(at), host, recording_id }
        };
        let runs = fleet.runs_of_day(number).map(run).collect();
        Self { fleet, folder, options, day, number, runs }
    }

    fn write(&self, written: &mut Written) -> Result<()> {
        written.runs += self.write_runs(written)?;
        written.labels += self.write_labels(written)?;
        written.metrics += self.write_metrics(written)?;
        written.components += self.write_components(written)?;
        written.settings += self.write_settings(written)?;
        Ok(())
    }

    /// The writer of a table, of which this day's file may lack a column.
    fn writer<R: Row>(&self, written: &mut Written) -> Result<SortedWriter<R>> {
        let columns_left_out = self.columns_left_out(R::TABLE);
        written.columns_missing += columns_left_out.len() as u64;
        self.folder.writer(self.day, &WriteOptions { columns_left_out, ..self.options.clone() })
    }

    fn columns_left_out(&self, table: &TableDef) -> Vec<&'static str> {
        let mut left_out = self.options.columns_left_out.clone();
        let Some(at) = DISPENSABLE.iter().position(|(name, _)| *name == table.name) else { return left_out };
        let columns = DISPENSABLE.get(at).map_or(&[][..], |(_, columns)| columns);
        let place = [at as u64, u64::from(self.number)];
        if self.fleet.draws.uniform(Purpose::MissingColumn, &place) < self.fleet.plan.missing.column_share {
            let number = self.fleet.draws.bits(Purpose::MissingColumn, &[u64::MAX, place[0], place[1]]);
            left_out.extend(columns.get((number % columns.len().max(1) as u64) as usize));
        }
        left_out
    }

    fn write_runs(&self, written: &mut Written) -> Result<u64> {
        let mut writer = self.writer::<RunsRow>(written)?;
        let [command, virt]: [Text; 2] = ["pagelab run fleet.fio", "kvm"].map(Arc::from);
        for run in &self.runs {
            let is_old = self.fleet.has_old_version(run.at.host);
            writer.push(RunsRow {
                recording_id: Some(run.recording_id.clone()),
                host: Some(run.host.clone()),
                variant: None,
                run: Some(u64::from(run.at.run)),
                start_ns: Some(run.start_ns),
                kernel: Some(Arc::from(self.fleet.kernel(run.at.host, self.number))),
                cpus: (!is_old).then_some(8),
                virt: Some(virt.clone()),
                pagelab_version: Some(Arc::from(if is_old { "0.0.9" } else { env!("CARGO_PKG_VERSION") })),
                command: Some(command.clone()),
                complete: Some(true),
                ..RunsRow::default()
            })?;
        }
        writer.finish()
    }

    fn write_labels(&self, written: &mut Written) -> Result<u64> {
        let mut writer = self.writer::<LabelsRow>(written)?;
        let thp = self.fleet.plan.setting_keys().position(|key| key == THP);
        for name in ["host_group", "instance_type", "kernel", "thp"] {
            let label: Text = Arc::from(name);
            for run in &self.runs {
                let group = self.fleet.group(run.at.host);
                let value = match name {
                    "host_group" => group.map(|group| group.name.as_str()),
                    "instance_type" => group.map(|group| group.instance_type.as_str()),
                    "kernel" => Some(self.fleet.kernel(run.at.host, self.number)),
                    _ => thp.and_then(|thp| self.fleet.setting(thp, run.at.host, self.number)),
                };
                let Some(value) = value else { continue };
                writer.push(LabelsRow {
                    recording_id: Some(run.recording_id.clone()),
                    name: Some(label.clone()),
                    value: Some(Arc::from(value)),
                })?;
            }
        }
        writer.finish()
    }

    fn write_metrics(&self, written: &mut Written) -> Result<u64> {
        let mut writer = self.writer::<MetricsRow>(written)?;
        let metrics = &self.fleet.plan.metrics;
        let mut order: Vec<usize> = (0..metrics.len()).collect();
        order.sort_by_key(|index| metrics.get(*index).map(|metric| (&metric.name, &metric.instance)));
        for index in order {
            let Some(metric) = metrics.get(index) else { continue };
            let [name, unit, direction]: [Text; 3] =
                [metric.name.as_str(), &metric.unit, metric.direction.name()].map(Arc::from);
            let instance: Option<Text> = metric.instance.as_deref().map(Arc::from);
            for run in &self.runs {
                writer.push(MetricsRow {
                    name: Some(name.clone()),
                    instance: instance.clone(),
                    unit: Some(unit.clone()),
                    direction: Some(direction.clone()),
                    recording_id: Some(run.recording_id.clone()),
                    host: Some(run.host.clone()),
                    start_ns: Some(run.start_ns),
                    value: self.fleet.value(index, run.at),
                    ..MetricsRow::default()
                })?;
            }
        }
        writer.finish()
    }

    fn write_components(&self, written: &mut Written) -> Result<u64> {
        let mut writer = self.writer::<ComponentsRow>(written)?;
        let components = &self.fleet.plan.components;
        let mut order: Vec<usize> = (0..components.len()).collect();
        order.sort_by_key(|index| components.get(*index).map(|component| &component.name));
        for index in order {
            let Some(component) = components.get(index) else { continue };
            let name: Text = Arc::from(component.name.as_str());
            for run in &self.runs {
                writer.push(ComponentsRow {
                    component: Some(name.clone()),
                    recording_id: Some(run.recording_id.clone()),
                    host: Some(run.host.clone()),
                    start_ns: Some(run.start_ns),
                    ns_per_operation: self.fleet.component(index, run.at),
                    ns_per_s: None,
                })?;
            }
        }
        writer.finish()
    }

    fn write_settings(&self, written: &mut Written) -> Result<u64> {
        let mut writer = self.writer::<SettingsRow>(written)?;
        let keys: Vec<&str> = self.fleet.plan.setting_keys().collect();
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_by_key(|index| keys.get(*index));
        for index in order {
            let Some(key) = keys.get(index) else { continue };
            let key: Text = Arc::from(*key);
            // Settings change between days: the first run of a day shows it.
            for run in self.runs.iter().filter(|run| run.at.run == 0) {
                let host = run.at.host;
                let value = self.fleet.setting(index, host, self.number);
                let before = self.fleet.day_before(host, self.number);
                if before.is_some_and(|before| self.fleet.setting(index, host, before) == value) {
                    continue;
                }
                writer.push(SettingsRow {
                    key: Some(key.clone()),
                    value: value.map(Arc::from),
                    recording_id: Some(run.recording_id.clone()),
                    host: Some(run.host.clone()),
                    start_ns: Some(run.start_ns),
                })?;
            }
        }
        writer.finish()
    }
}
