//! The points of a history, from directories.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use pagelab_recording::set::{folders, reference};
use pagelab_recording::{Bounds, isolated};
use pagelab_views::run::RunData;

use super::document::{Point, PointRun};
use super::make::{Order, TrendOptions};
use crate::compare::{PrimaryMetric, command};
use crate::error::{AnalysisError, Result};
use crate::parallel;
use crate::stats::Summary;

/// A recording that was read, or why it could not be.
pub(super) struct Loaded {
    pub dir: PathBuf,
    pub run: std::result::Result<RunData, String>,
}

impl Loaded {
    /// The run, if it counts.
    fn counted(&self) -> Option<&RunData> {
        self.run.as_ref().ok().filter(|run| run.excluded.is_none())
    }
}

/// The runs of one point.
pub(super) struct RunsOfPoint {
    pub dir: PathBuf,
    pub runs: Vec<Loaded>,
    /// Why there are none.
    pub none: Option<String>,
}

impl RunsOfPoint {
    /// When its first run began, ns since the epoch.
    fn time_ns(&self) -> Option<i64> {
        let times = self.runs.iter().filter_map(|loaded| loaded.run.as_ref().ok());
        times.filter_map(|run| run.manifest.clock.realtime_at_start_ns).min()
    }
}

/// The points at these directories, in order. What cannot be read of a point is noted in it.
///
/// # Errors
/// Directories that are not there or hold no recording, a recording of two points, points of several variants, and points
/// whose time is not known and asked for.
pub(super) fn load(dirs: &[PathBuf], options: &TrendOptions) -> Result<Vec<RunsOfPoint>> {
    let mut owners: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    let mut recordings: Vec<(usize, PathBuf)> = Vec::new();
    for (point, dir) in dirs.iter().enumerate() {
        for recording in folders(&[dir])? {
            if let Some(first) =
                owners.insert(recording.canonicalize().unwrap_or_else(|_| recording.clone()), dir.clone())
            {
                return Err(AnalysisError::TwoPoints { recording, first, second: dir.clone() });
            }
            recordings.push((point, recording));
        }
    }
    let kept = of_variant(dirs, recordings, options.variant.as_deref())?;
    let loaded = parallel::map(&kept, |(point, dir)| (*point, read(dir, &options.bounds)));
    let mut points: Vec<RunsOfPoint> =
        dirs.iter().map(|dir| RunsOfPoint { dir: dir.clone(), runs: Vec::new(), none: None }).collect();
    for (point, loaded) in loaded {
        if let Some(point) = points.get_mut(point) {
            point.runs.push(loaded);
        }
    }
    if let Some(variant) = &options.variant {
        for point in points.iter_mut().filter(|point| point.runs.is_empty()) {
            point.none = Some(format!("it has no run of variant {variant}"));
        }
    }
    in_order(points, options.order)
}

fn read(dir: &Path, bounds: &Bounds) -> Loaded {
    let run = isolated(|| RunData::load_within(dir, bounds).map_err(|error| error.to_string()));
    Loaded { dir: dir.to_owned(), run: run.unwrap_or_else(Err) }
}

/// The recordings of the variant asked for, or all if each point has one variant. A recording whose manifest cannot be
/// read is kept: it is listed with that reason.
fn of_variant(
    dirs: &[PathBuf],
    recordings: Vec<(usize, PathBuf)>,
    wanted: Option<&str>,
) -> Result<Vec<(usize, PathBuf)>> {
    let mut variants: Vec<BTreeSet<String>> = vec![BTreeSet::new(); dirs.len()];
    let mut kept = Vec::new();
    for (point, recording) in recordings {
        let variant = reference(&recording).map(|found| found.variant);
        if let Ok(Some(variant)) = &variant
            && let Some(variants) = variants.get_mut(point)
        {
            variants.insert(variant.clone());
        }
        let other = variant.is_ok_and(|variant| wanted.is_some() && variant.as_deref() != wanted);
        if !other {
            kept.push((point, recording));
        }
    }
    match wanted {
        None => {
            let several = dirs.iter().zip(&variants).find(|(_, variants)| variants.len() > 1);
            if let Some((dir, variants)) = several {
                let variants = variants.iter().cloned().collect();
                return Err(AnalysisError::SeveralVariants { dir: dir.clone(), variants });
            }
        }
        Some(wanted) if variants.iter().all(|variants| !variants.contains(wanted)) => {
            let found: BTreeSet<String> = variants.into_iter().flatten().collect();
            let found = found.into_iter().collect();
            return Err(AnalysisError::NoSuchVariant { wanted: wanted.to_owned(), found });
        }
        Some(_) => {}
    }
    Ok(kept)
}

fn in_order(mut points: Vec<RunsOfPoint>, order: Order) -> Result<Vec<RunsOfPoint>> {
    if order == Order::Given {
        return Ok(points);
    }
    if let Some(point) = points.iter().find(|point| point.time_ns().is_none()) {
        return Err(AnalysisError::NoTime { dir: point.dir.clone() });
    }
    points.sort_by_key(RunsOfPoint::time_ns);
    Ok(points)
}

/// All runs that count.
pub(super) fn counted(points: &[RunsOfPoint]) -> Vec<&RunData> {
    points.iter().flat_map(|point| point.runs.iter().filter_map(Loaded::counted)).collect()
}

/// Demands one unit of the metric in all runs.
pub(super) fn one_unit(metric: &PrimaryMetric, runs: &[&RunData]) -> Result<()> {
    let mut first = None;
    for run in runs {
        let Some(unit) = metric.unit_of(run) else { continue };
        let (known, dir) = *first.get_or_insert((unit, &run.dir));
        if known != unit {
            return Err(AnalysisError::MixedUnits {
                metric: metric.name.clone(),
                unit: known.name(),
                dir: dir.clone(),
                other_unit: unit.name(),
                other: run.dir.clone(),
            });
        }
    }
    Ok(())
}

/// A point of the document: the mean of its runs' values, or why there is none.
pub(super) fn point(of: &RunsOfPoint, metric: &PrimaryMetric) -> Point {
    let mut commands = BTreeSet::new();
    let runs: Vec<PointRun> = of
        .runs
        .iter()
        .map(|loaded| {
            let value = match &loaded.run {
                Err(error) => Err(error.clone()),
                Ok(run) => {
                    commands.extend(command(run));
                    run.excluded.as_ref().map_or_else(|| metric.value(run), |why| Err(why.to_string()))
                }
            };
            let dir = loaded.dir.display().to_string();
            PointRun { dir, value: value.as_ref().ok().copied(), reason: value.err() }
        })
        .collect();
    let values: Vec<f64> = runs.iter().filter_map(|run| run.value).collect();
    let summary = Summary::of(&values).ok();
    let value = summary.map(|summary| summary.mean()).filter(|mean| mean.is_finite());
    let first_reason = || runs.iter().find_map(|run| run.reason.clone());
    let reason = of.none.clone().or_else(first_reason).unwrap_or_else(|| "it has no run".to_owned());
    Point {
        dir: of.dir.display().to_string(),
        time_ns: of.time_ns(),
        value,
        sd: summary.and_then(|summary| summary.sd()),
        n: values.len(),
        reason: value.is_none().then_some(reason),
        outlier: false,
        commands: commands.into_iter().collect(),
        runs,
    }
}
