//! Outliers, drift of settings, and the course over days, of a metric or of settings alone.

use serde::Serialize;

use super::asked::{Asked, MetricAsked, Question, Reading};
use crate::course::{CourseOptions, FleetCourse, course};
use crate::drift::{DriftOptions, HostSetting, SettingsDrift, drift};
use crate::error::Result;
use crate::outliers::{FleetOutliers, OutlierOptions, outliers};
use crate::questions::{host_labels, run_values, settings_between};
use crate::rollup::{Day, FleetSource, LabelsRow, SettingsRow};

/// Labels that are made of settings, or of what a run is: that a setting follows from them says nothing about hosts.
const NOT_OF_HOSTS: [&str; 5] = ["thp", "kernel", "variant", "label", "virt"];

/// Hosts that are not like the others.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outlying {
    /// The metric.
    pub metric: MetricAsked,
    /// First and last day.
    pub days: [Day; 2],
    /// The hosts.
    pub hosts: FleetOutliers,
    /// What was read.
    pub reading: Reading,
}

/// Settings that differ among hosts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Drifting {
    /// The metric that they are held to.
    pub metric: MetricAsked,
    /// First and last day.
    pub days: [Day; 2],
    /// The settings.
    pub settings: SettingsDrift,
    /// What was read.
    pub reading: Reading,
}

/// A metric over days.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Course {
    /// The metric.
    pub metric: MetricAsked,
    /// First and last day.
    pub days: [Day; 2],
    /// The course.
    pub course: FleetCourse,
    /// What was read.
    pub reading: Reading,
}

impl Asked<'_> {
    fn ends(&self) -> [Day; 2] {
        [*self.days.start(), *self.days.end()]
    }
}

/// Holds each host to the fleet.
///
/// # Errors
/// Days or a metric that the fleet has not, and files that cannot be read.
pub fn outlying(fleet: &dyn FleetSource, question: &Question, options: &OutlierOptions) -> Result<Outlying> {
    let mut asked = Asked::of(fleet, question)?;
    let (metric, rows) = asked.metric(question)?;
    let hosts = outliers(&run_values(&rows), options);
    Ok(Outlying { metric, days: asked.ends(), hosts, reading: asked.reading })
}

/// Finds settings that differ among hosts, and whether the metric goes with them.
///
/// # Errors
/// As [`outlying`].
pub fn drifting(fleet: &dyn FleetSource, question: &Question, options: &DriftOptions) -> Result<Drifting> {
    let mut asked = Asked::of(fleet, question)?;
    let (metric, rows) = asked.metric(question)?;
    let labels: Vec<LabelsRow> = asked.read(&[])?;
    let changes: Vec<SettingsRow> = asked.read_from_the_first()?;
    let of_hosts = |label: &HostSetting| !NOT_OF_HOSTS.contains(&label.key);
    let labels: Vec<HostSetting> = host_labels(&rows, &labels).into_iter().filter(of_hosts).collect();
    let held = settings_between(&changes, asked.days.start().start_ns(), asked.days.end().after(1).start_ns());
    let settings = drift(&held, &labels, &run_values(&rows), options);
    Ok(Drifting { metric, days: asked.ends(), settings, reading: asked.reading })
}

/// Follows the fleet's level over days, without the hosts' own levels.
///
/// # Errors
/// As [`outlying`].
pub fn over_days(
    fleet: &dyn FleetSource,
    question: &Question,
    detect: pagelab_analysis::trend::DetectOptions,
) -> Result<Course> {
    let mut asked = Asked::of(fleet, question)?;
    let (metric, rows) = asked.metric(question)?;
    let options = CourseOptions { detect, ..CourseOptions::new(&metric.full_name(), &metric.unit, metric.direction()) };
    let course = course(&run_values(&rows), &options);
    Ok(Course { metric, days: asked.ends(), course, reading: asked.reading })
}
