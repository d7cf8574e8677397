//! From jobs to workers: who works on which region of which target, in which order, with which seed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::engines::{self, Caps};
use crate::error::LoadError;
use crate::job::value::Extent;
use crate::job::words::MapOrder;
use crate::job::{JobSpec, Workload};
use crate::offsets::{Course, Order};
use crate::random::{derive_seed, system_seed};
use crate::safety::TargetKind;

/// The seed of jobs that name none and are to repeat.
const DEFAULT_SEED: u64 = 0x7061_6765_6C61_6201;

/// One worker.
#[derive(Debug, Clone)]
pub struct WorkerPlan {
    /// Its place among all workers.
    pub index: usize,
    /// The job it belongs to, by place in the workload.
    pub job: usize,
    /// Its number within the job, from 0.
    pub clone: u32,
    /// It starts when all workers of lower waves are done.
    pub wave: u32,
    /// The group of the report.
    pub group: u32,
    /// The file or device; none for engines without.
    pub path: Option<PathBuf>,
    /// Where and how it moves.
    pub course: Course,
    /// Bytes after which it ends (`io_size`), if that is not once the region.
    pub io_bytes: Option<u64>,
}

/// A target and what jobs need of it.
// Five independent facts about a file, each of which some job adds: not a state machine.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetPlan {
    /// Where.
    pub path: PathBuf,
    /// The job that first names it.
    pub job: usize,
    /// What is there.
    pub kind: TargetKind,
    /// The end of the furthest region on it.
    pub bytes_needed: u64,
    /// Whether any job writes to it.
    pub written: bool,
    /// Whether it must be full of data when the first job that uses it starts.
    pub filled: bool,
    /// Whether an engine needs it to have its full length from the start.
    pub needs_length: bool,
    /// Whether jobs remove it at the end.
    pub unlink: bool,
    /// Whether its making is left to the job's own open.
    pub create_on_open: bool,
}

/// All workers and targets.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The workers, in order of jobs.
    pub workers: Vec<WorkerPlan>,
    /// The targets, in order of first use.
    pub targets: Vec<TargetPlan>,
    /// The base seed of each job.
    pub seeds: Vec<u64>,
    /// The number of waves.
    pub waves: u32,
}

/// Plans a workload. `inspect` tells what is at a path; it gets the job's name for messages.
///
/// # Errors
/// A job whose size is not given and cannot be found out, or whose region does not fit.
pub fn plan(
    workload: &Workload,
    inspect: &dyn Fn(&std::path::Path, &str) -> Result<TargetKind, LoadError>,
) -> Result<Plan, LoadError> {
    let mut planner = Planner { inspect, targets: Vec::new(), by_path: BTreeMap::new() };
    let mut workers = Vec::new();
    let mut seeds = Vec::new();
    let mut wave = 0;
    for (job_index, job) in workload.jobs.iter().enumerate() {
        if job.stonewall && job_index > 0 {
            wave += 1;
        }
        let base = base_seed(job);
        seeds.push(base);
        for clone in 0..u32::try_from(job.options.numjobs).unwrap_or(u32::MAX) {
            let index = workers.len();
            let (path, course, io_bytes) = planner.worker(job_index, job, clone, derive_seed(base, index as u64))?;
            workers.push(WorkerPlan { index, job: job_index, clone, wave, group: job.group, path, course, io_bytes });
        }
    }
    Ok(Plan { workers, targets: planner.targets, seeds, waves: wave + 1 })
}

fn base_seed(job: &JobSpec) -> u64 {
    match (job.options.randseed, job.options.randrepeat) {
        (Some(seed), _) => seed,
        (None, true) => DEFAULT_SEED,
        (None, false) => system_seed(),
    }
}

struct Planner<'a> {
    inspect: &'a dyn Fn(&std::path::Path, &str) -> Result<TargetKind, LoadError>,
    targets: Vec<TargetPlan>,
    by_path: BTreeMap<PathBuf, usize>,
}

impl Planner<'_> {
    fn worker(
        &mut self,
        job_index: usize,
        job: &JobSpec,
        clone: u32,
        seed: u64,
    ) -> Result<(Option<PathBuf>, Course, Option<u64>), LoadError> {
        let o = &job.options;
        let caps = engines::find(&o.ioengine.0).map_or(Caps::NONE, |engine| engine.caps);
        let path = caps.contains(Caps::FILES).then(|| target_path(job, clone));
        let existing = match &path {
            Some(path) => {
                let target = self.target(path, job_index, job)?;
                self.targets.get(target).and_then(known_bytes)
            }
            None => None,
        };
        let (start, region_bytes) = region(job, existing)?;
        let course = course(job, start, region_bytes, seed)?;
        if let Some(target) =
            path.as_ref().and_then(|path| self.by_path.get(path)).and_then(|index| self.targets.get_mut(*index))
        {
            need(target, job, caps, start + region_bytes)?;
        }
        let io_bytes = match o.io_size {
            None | Some(Extent::Bytes(0)) => None,
            // As in fio a percentage of io_size is one of the region.
            Some(extent) => extent.resolve(Some(region_bytes)),
        };
        Ok((path, course, io_bytes))
    }

    fn target(&mut self, path: &std::path::Path, job_index: usize, job: &JobSpec) -> Result<usize, LoadError> {
        if let Some(index) = self.by_path.get(path) {
            return Ok(*index);
        }
        let kind = (self.inspect)(path, &job.name)?;
        let index = self.targets.len();
        self.targets.push(TargetPlan {
            path: path.to_path_buf(),
            job: job_index,
            kind,
            bytes_needed: 0,
            written: false,
            filled: false,
            needs_length: false,
            unlink: false,
            create_on_open: job.options.create_on_open,
        });
        self.by_path.insert(path.to_path_buf(), index);
        Ok(index)
    }
}

/// The size of a target that percentages and a missing size= refer to: what is there, or what an earlier job will have made.
fn known_bytes(target: &TargetPlan) -> Option<u64> {
    let there = match target.kind {
        TargetKind::Missing => 0,
        TargetKind::File { bytes } | TargetKind::BlockDevice { bytes } => bytes,
    };
    Some(there.max(target.bytes_needed)).filter(|bytes| *bytes > 0)
}

fn need(target: &mut TargetPlan, job: &JobSpec, caps: Caps, end: u64) -> Result<(), LoadError> {
    if let TargetKind::BlockDevice { bytes } = target.kind
        && end > bytes
    {
        return Err(LoadError::Target {
            job: job.name.clone(),
            reason: format!("the region ends at byte {end}, {} has {bytes}", target.path.display()),
        });
    }
    let first_use = target.bytes_needed == 0;
    target.bytes_needed = target.bytes_needed.max(end);
    target.written |= job.options.rw.0.writes();
    // What a job reads must be there; what an earlier job wrote is.
    target.filled |= (job.options.rw.0.reads() && (first_use || !target.written))
        || (job.options.overwrite && job.options.rw.0.writes());
    target.needs_length |= caps.contains(Caps::NEEDS_LENGTH);
    target.unlink |= job.options.unlink;
    target.create_on_open &= job.options.create_on_open;
    Ok(())
}

/// fio's naming: what the job names, or `JOB.WORKER.FILE` for each worker.
fn target_path(job: &JobSpec, clone: u32) -> PathBuf {
    let name = match &job.options.filename {
        Some(name) => name.replace("\\:", ":"),
        None => format!("{}.{clone}.0", job.name),
    };
    match &job.options.directory {
        Some(directory) => PathBuf::from(directory).join(name),
        None => PathBuf::from(name),
    }
}

/// Start and length of the region.
fn region(job: &JobSpec, existing: Option<u64>) -> Result<(u64, u64), LoadError> {
    let o = &job.options;
    let target = |reason: String| LoadError::Target { job: job.name.clone(), reason };
    let smallest = u64::from(block_bytes(job).into_iter().min().unwrap_or(1)).max(1);
    let share_of_nothing =
        |name: &str| target(format!("{name} is a percentage of a file that does not exist yet; give bytes"));
    let start = match o.offset {
        None => 0,
        Some(extent) => {
            let start = extent.resolve(existing).ok_or_else(|| share_of_nothing("offset"))?;
            // fio rounds a percentage up to a block.
            if matches!(extent, Extent::Percent(_)) { start.next_multiple_of(smallest) } else { start }
        }
    };
    let size = if let Some(extent) = o.size {
        extent.resolve(existing).ok_or_else(|| share_of_nothing("size"))?
    } else {
        let existing = existing.ok_or_else(|| target("the file does not exist yet; give size=".to_owned()))?;
        existing
            .checked_sub(start)
            .ok_or_else(|| target(format!("offset {start} is beyond the end of the file, {existing}")))?
    };
    // A percentage of a file ends with the file.
    let size = match (o.size, existing) {
        (Some(Extent::Percent(_)), Some(existing)) => size.min(existing.saturating_sub(start)),
        _ => size,
    };
    let largest = u64::from(block_bytes(job).into_iter().max().unwrap_or(1));
    if size < largest {
        return Err(target(format!("the region has {size} bytes and holds no block of {largest}")));
    }
    if start.checked_add(size).is_none_or(|end| i64::try_from(end).is_err()) {
        return Err(target(format!("offset {start} + size {size} is beyond what a file can have")));
    }
    Ok((start, size))
}

/// Block sizes of reads and writes; of pure patterns the one in use twice.
fn block_bytes(job: &JobSpec) -> [u32; 2] {
    let pattern = job.options.rw.0;
    // Validation keeps block sizes far below 2^32.
    let size = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
    let (read, write) = (size(job.options.bs.read.0), size(job.options.bs.write.0));
    match (pattern.reads(), pattern.writes()) {
        (true, true) => [read, write],
        (true, false) => [read, read],
        _ => [write, write],
    }
}

fn course(job: &JobSpec, start: u64, region_bytes: u64, seed: u64) -> Result<Course, LoadError> {
    let o = &job.options;
    let block_bytes = block_bytes(job);
    let piece = o.map_granularity.0;
    let order = if o.rw.0.is_random() {
        if o.norandommap { Order::Drawn } else { Order::Permuted }
    } else if o.map_order == MapOrder::Ascending {
        Order::Sequential
    } else {
        let block = u64::from(block_bytes[0].max(1));
        let blocks = if piece == 0 { region_bytes / block } else { piece / block };
        Order::Pieces { blocks: blocks.max(1), order: o.map_order }
    };
    let touch = u32::try_from(o.map_touch.0).map_err(|_| LoadError::Protocol("map_touch above 4 GiB".to_owned()))?;
    let transfer_bytes = if touch == 0 { block_bytes } else { block_bytes.map(|bytes| bytes.min(touch)) };
    Ok(Course { start, region_bytes, block_bytes, transfer_bytes, read_percent: o.read_percent(), order, seed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::parse_args;

    fn planned(arguments: &[&str], existing: u64) -> Result<Plan, String> {
        let arguments: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
        let workload = parse_args(&arguments).map_err(|error| error.to_string())?;
        let kind = if existing == 0 { TargetKind::Missing } else { TargetKind::File { bytes: existing } };
        plan(&workload, &|_, _| Ok(kind)).map_err(|error| error.to_string())
    }

    #[test]
    fn each_worker_gets_its_own_file_unless_named() {
        let plan = planned(&["--name=j", "--rw=write", "--size=1m", "--numjobs=3", "--directory=/d"], 0).expect("plan");
        let paths: Vec<_> =
            plan.workers.iter().filter_map(|w| w.path.as_ref()).map(|p| p.display().to_string()).collect();
        assert_eq!(paths, ["/d/j.0.0", "/d/j.1.0", "/d/j.2.0"]);
        assert_eq!(plan.targets.len(), 3);
        let plan =
            planned(&["--name=j", "--rw=write", "--size=1m", "--numjobs=3", "--filename=x\\:y"], 0).expect("plan");
        assert_eq!(plan.targets.len(), 1);
        assert_eq!(plan.targets[0].path, PathBuf::from("x:y"));
        let seeds: std::collections::BTreeSet<u64> = plan.workers.iter().map(|w| w.course.seed).collect();
        assert_eq!(seeds.len(), 3, "no two workers go the same random way");
    }

    #[test]
    fn regions_come_from_options_or_the_file() {
        let region = |arguments: &[&str], existing| {
            let all: Vec<&str> = [&["--name=j", "--filename=f"], arguments].concat();
            planned(&all, existing).map(|plan| {
                (plan.workers[0].course.start, plan.workers[0].course.region_bytes, plan.targets[0].bytes_needed)
            })
        };
        assert_eq!(region(&["--size=1m", "--offset=512k"], 0), Ok((512 << 10, 1 << 20, 1536 << 10)));
        assert_eq!(region(&[], 1 << 20), Ok((0, 1 << 20, 1 << 20)));
        assert_eq!(region(&["--offset=256k"], 1 << 20), Ok((256 << 10, 768 << 10, 1 << 20)));
        assert_eq!(region(&["--size=50%"], 1 << 20), Ok((0, 512 << 10, 512 << 10)));
        assert_eq!(region(&["--size=50%", "--offset=75%"], 1 << 20), Ok((768 << 10, 256 << 10, 1 << 20)));
        for (arguments, word) in [(&[][..], "give size="), (&["--size=50%"], "percentage")] {
            assert!(region(arguments, 0).expect_err(word).contains(word));
        }
        assert!(region(&["--offset=2m"], 1 << 20).expect_err("beyond").contains("beyond the end"));
        assert!(region(&[], 100).expect_err("small").contains("no block"));
    }

    #[test]
    fn walls_make_waves() {
        let plan = planned(
            &["--size=1m", "--name=a", "--name=b", "--name=c", "--stonewall", "--name=d", "--new_group"],
            1 << 20,
        )
        .expect("plan");
        let places: Vec<(u32, u32)> = plan.workers.iter().map(|w| (w.wave, w.group)).collect();
        assert_eq!(places, [(0, 0), (0, 0), (1, 1), (1, 2)]);
        assert_eq!(plan.waves, 2);
    }

    #[test]
    fn targets_are_filled_for_readers_only() {
        let flags = |arguments: &[&str]| {
            let plan = planned(arguments, 0).expect("plan");
            (plan.targets[0].written, plan.targets[0].filled)
        };
        assert_eq!(flags(&["--name=j", "--size=1m", "--rw=read"]), (false, true));
        assert_eq!(flags(&["--name=j", "--size=1m", "--rw=write"]), (true, false));
        assert_eq!(flags(&["--name=j", "--size=1m", "--rw=write", "--overwrite=1"]), (true, true));
        assert_eq!(flags(&["--name=j", "--size=1m", "--rw=rw"]), (true, true));
        assert_eq!(
            flags(&["--size=1m", "--filename=f", "--name=w", "--rw=write", "--name=r", "--rw=read", "--stonewall"]),
            (true, false)
        );
    }

    #[test]
    fn seeds_repeat_unless_told_otherwise() {
        let seed = |extra: &str| planned(&["--name=j", "--size=1m", extra], 0).expect("plan").seeds[0];
        assert_eq!(seed("--randrepeat=1"), seed("--randrepeat=1"));
        assert_eq!(seed("--randseed=7"), 7);
        assert_ne!(seed("--randrepeat=0"), seed("--randrepeat=0"));
    }
}
