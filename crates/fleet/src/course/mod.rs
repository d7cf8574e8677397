//! The course of a metric over days, without what distinguishes hosts.
//!
//! The plain mean of a day moves when other hosts run: a fast rack that is added looks like an improvement. Here each host's own
//! level is taken off first: y_jd = host_j + day_d + rest, fitted by least squares to the means of hosts on days, each
//! counting once (a two-way layout without interaction, H. Scheffé, "The Analysis of Variance", 1959, 4.4). Taking off the
//! mean of each host would not do where hosts come and go: a host that is there only after a change has the change in
//! its mean. The fit compares a day with another by the hosts that they have in common, directly or through days between. Days that
//! no chain of hosts connects with the others cannot be compared, and have no value.
//!
//! The days' levels are a history of points, and [`pagelab_analysis::trend`] looks for change points in it: the chance of any false
//! change in a whole history is alpha (1 % by default), whatever the distribution of days, and correlated days are allowed
//! for. A point is a day, however many hosts it has: what falls on all hosts of a day at once is the noise that counts.

mod additive;

use std::collections::BTreeMap;

use pagelab_analysis::compare::PrimaryChoice;
use pagelab_analysis::trend::{DetectOptions, Scale, Trend, of_values};
use pagelab_vocab::metrics::Direction;
use serde::Serialize;

use crate::hosts::{LEAST_HOSTS, RunValue, ScaleChoice, back, onto};
use crate::model::Method;
use crate::rollup::Day;
use additive::{Cell, additive_fit};

/// The method.
pub const DAYS_WITHOUT_HOSTS: Method = Method {
    name: "change_points_of_days_without_hosts",
    about: "Levels of days from a least-squares fit of hosts and days to the means of hosts on days; change points among them by a \
            permutation test with the chance of any false change held.",
    source: "H. Scheffé, The Analysis of Variance (1959); D. S. Matteson and N. A. James, JASA 109 (2014); N. Meinshausen, Biometrika 95 \
             (2008)",
};

/// What is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct CourseOptions {
    /// Name of the metric.
    pub metric: String,
    /// Unit of its values.
    pub unit: String,
    /// Which way is better.
    pub direction: Direction,
    /// The scale.
    pub scale: ScaleChoice,
    /// Levels and seed of the tests.
    pub detect: DetectOptions,
}

impl CourseOptions {
    /// The metric, with the scale told from the data and the usual levels.
    pub fn new(metric: &str, unit: &str, direction: Direction) -> Self {
        Self {
            metric: metric.to_owned(),
            unit: unit.to_owned(),
            direction,
            scale: ScaleChoice::FromData,
            detect: DetectOptions::default(),
        }
    }
}

/// A day of the course.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CourseDay {
    /// The day, UTC.
    pub day: Day,
    /// Hosts that have a value on it.
    pub hosts: usize,
    /// Their runs.
    pub runs: usize,
    /// The fleet's level on it, in the metric's unit: that of its mean host; null with the reason in `reason`.
    pub value: Option<f64>,
    /// Mean of the hosts of that day as they are, for comparison; the geometric one on a log scale.
    pub plain_mean: Option<f64>,
    /// Why there is no value.
    pub reason: Option<String>,
}

/// The course of a metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FleetCourse {
    /// How it was made.
    pub method: Method,
    /// The days from the first to the last, those without runs too.
    pub days: Vec<CourseDay>,
    /// Hosts that have a value.
    pub hosts: usize,
    /// Hosts with a value on one day only, which say nothing about a change.
    pub hosts_of_one_day: usize,
    /// Change points and levels; its points are the days, in order.
    pub trend: Trend,
    /// What a reader must know.
    pub notes: Vec<String>,
}

/// Makes the course of a metric. Runs whose time is not known are left out and counted.
pub fn course(runs: &[RunValue], options: &CourseOptions) -> FleetCourse {
    let usable = || runs.iter().filter_map(|run| Some((run.host, Day::of_ns(run.start_ns?), run.finite()?)));
    let scale = options.scale.scale_of(usable().map(|(_, _, value)| value));
    let table = Table::of(usable(), scale);
    let fit = additive_fit(&table.cells, table.hosts, table.days.len());
    let mut days: Vec<CourseDay> = Vec::with_capacity(table.days.len());
    for (at, totals) in table.days.iter().enumerate() {
        let level = fit.day_levels.get(at).copied().flatten();
        let reason = if totals.hosts == 0 {
            Some("no host has a value on it".to_owned())
        } else if totals.hosts < LEAST_HOSTS {
            Some(format!("{} hosts have a value on it; at least {LEAST_HOSTS} are needed", totals.hosts))
        } else if level.is_none() {
            Some("no chain of common hosts connects it with most other days".to_owned())
        } else {
            None
        };
        days.push(CourseDay {
            day: totals.day,
            hosts: totals.hosts,
            runs: totals.runs,
            value: level.map(|level| back(scale, level)).filter(|value| value.is_finite()),
            plain_mean: (totals.hosts > 0).then(|| back(scale, totals.sum / totals.hosts as f64)),
            reason,
        });
    }
    let trend = trend_of(&days, options);
    let mut course = FleetCourse {
        method: DAYS_WITHOUT_HOSTS,
        hosts: table.hosts,
        hosts_of_one_day: table.hosts_of_one_day(),
        days,
        trend,
        notes: Vec::new(),
    };
    course.remark(runs.len() - usable().count(), fit.is_settled);
    course
}

fn trend_of(days: &[CourseDay], options: &CourseOptions) -> Trend {
    let values: Vec<f64> = days.iter().map(|day| day.value.unwrap_or(f64::NAN)).collect();
    let metric = PrimaryChoice { metric: options.metric.clone(), direction: options.direction };
    let mut trend = of_values(&values, &metric, &options.unit, &options.detect);
    for (point, day) in trend.points.iter_mut().zip(days) {
        point.dir = day.day.to_string();
        point.time_ns = Some(day.day.start_ns());
        point.n = day.runs;
        point.reason.clone_from(&day.reason);
    }
    trend
}

impl FleetCourse {
    fn remark(&mut self, left_out: usize, is_settled: bool) {
        if left_out > 0 {
            self.notes.push(format!("{left_out} runs without a value or a time are left out"));
        }
        if self.hosts_of_one_day > 0 {
            self.notes.push(format!(
                "{} of {} hosts have a value on one day only: they say nothing about a change",
                self.hosts_of_one_day, self.hosts
            ));
        }
        if !is_settled {
            self.notes.push("the fit of hosts and days did not settle: few hosts connect the days".to_owned());
        }
        let counted = self.days.iter().filter(|day| day.value.is_some()).map(|day| day.hosts);
        if let (Some(least), Some(most)) = (counted.clone().min(), counted.max())
            && most > 4 * least
        {
            self.notes.push(format!(
                "days have {least} to {most} hosts: those with few vary more, which the tests, that take days as alike, do not know"
            ));
        }
    }
}

/// What a day has.
struct DayTotals {
    day: Day,
    hosts: usize,
    runs: usize,
    /// Sum of the hosts' means on the scale.
    sum: f64,
}

/// Means of hosts on days.
struct Table {
    hosts: usize,
    /// All days from the first to the last.
    days: Vec<DayTotals>,
    /// Of the days with enough hosts.
    cells: Vec<Cell>,
    /// Days on which each host has a value.
    days_of_host: Vec<usize>,
}

impl Table {
    fn of<'a>(runs: impl Iterator<Item = (&'a str, Day, f64)> + Clone, scale: Scale) -> Self {
        let mut hosts: BTreeMap<&str, usize> = runs.clone().map(|(host, _, _)| (host, 0)).collect();
        hosts.values_mut().enumerate().for_each(|(at, index)| *index = at);
        let mut sums: BTreeMap<(Day, usize), (f64, usize)> = BTreeMap::new();
        for (host, day, value) in runs {
            let Some(host) = hosts.get(host) else { continue };
            let cell = sums.entry((day, *host)).or_default();
            *cell = (cell.0 + onto(scale, value), cell.1 + 1);
        }
        let (first, last) = (sums.keys().next().map(|key| key.0), sums.keys().next_back().map(|key| key.0));
        let length = first.zip(last).map_or(0, |(first, last)| last.days_since(first) as u32 + 1);
        let day_at = |at: u32| first.map(|first| first.after(at));
        let mut days: Vec<DayTotals> =
            (0..length).filter_map(day_at).map(|day| DayTotals { day, hosts: 0, runs: 0, sum: 0.0 }).collect();
        let mut cells = Vec::with_capacity(sums.len());
        let mut days_of_host = vec![0; hosts.len()];
        for ((day, host), (sum, runs)) in sums {
            let at = first.map_or(0, |first| day.days_since(first) as usize);
            let value = sum / runs as f64;
            if let (Some(totals), Some(count)) = (days.get_mut(at), days_of_host.get_mut(host)) {
                totals.hosts += 1;
                totals.runs += runs;
                totals.sum += value;
                *count += 1;
                cells.push(Cell { host, day: at, value });
            }
        }
        cells.retain(|cell| days.get(cell.day).is_some_and(|day| day.hosts >= LEAST_HOSTS));
        Self { hosts: hosts.len(), days, cells, days_of_host }
    }

    fn hosts_of_one_day(&self) -> usize {
        self.days_of_host.iter().filter(|days| **days == 1).count()
    }
}
