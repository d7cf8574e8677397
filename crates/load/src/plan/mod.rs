//! From jobs to workers: who works on which region of which target, in which order, with which seed.

mod course;
mod cpus;
pub(crate) mod outputs;
mod paths;
mod rivals;
pub(crate) mod spans;
mod suits;

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pagelab_fiojob::value::Extent;
use pagelab_fiojob::{Caps, JobSpec, Workload};

pub(crate) use course::ends_passes_at_size;

use crate::error::LoadError;
use crate::offsets::varied::FileSpan;
use crate::offsets::{Course, VariedCourse};
use crate::random::{derive_seed, system_seed};
use crate::replay::{Replay, Replays};
use crate::safety::{Permit, TargetKind, directory_of};

/// The seed of jobs that name none and are to repeat.
const DEFAULT_SEED: u64 = 0x7061_6765_6C61_6201;

/// A file of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePlan {
    /// The file or device; none for engines without.
    pub path: Option<PathBuf>,
    /// Where workers find it, if that is not its name: it has none.
    pub open_as: Option<PathBuf>,
    /// The right to write it, once it was checked; `None` for files that are only read.
    pub permit: Option<Permit>,
    /// What of it.
    pub span: FileSpan,
}

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
    /// Its files, at least one.
    pub files: Vec<FilePlan>,
    /// Where and how it moves on its first file, for plain walks; for the others what engines need to know of it.
    pub course: Course,
    /// Where and how it moves, if that is not a plain walk.
    pub varied: Option<VariedCourse>,
    /// The log that it replays.
    pub replay: Option<Arc<Replay>>,
    /// Bytes after which it ends (`io_size`), if that is not once the region.
    pub io_bytes: Option<u64>,
    /// Workers, by place, that have to be done before it starts (`wait_for`).
    pub waits_for: Vec<usize>,
    /// Workers that write the same bytes at the same time, where contents are verified.
    pub rivals: Vec<usize>,
    /// Why it fails without having begun.
    pub unfit: Option<String>,
}

/// A target and what jobs need of it.
// Independent facts about a file, each of which some job adds: not a state machine.
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
    /// Whether it is flushed when its layout is done: a job that lays it out says so (`create_fsync`).
    pub flushed: bool,
    /// Whether jobs remove it at the end.
    pub unlink: bool,
    /// Whether its making is left to the job's own open.
    pub create_on_open: bool,
    /// Whether it is written until the file system is full: no space is allocated before.
    pub fill_device: bool,
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
    /// Notes for the user.
    pub warnings: Vec<String>,
}

/// Plans a workload without logs. `inspect` tells what is at a path; it gets the job's name for messages.
///
/// # Errors
/// A job whose size is not given and cannot be found out, or whose region does not fit.
pub fn plan(
    workload: &Workload,
    inspect: &dyn Fn(&Path, &str) -> Result<TargetKind, LoadError>,
) -> Result<Plan, LoadError> {
    plan_with(workload, &Replays::new(), inspect)
}

/// Plans a workload, some of whose workers replay logs.
///
/// # Errors
/// As [`plan`].
pub fn plan_with(
    workload: &Workload,
    replays: &Replays,
    inspect: &dyn Fn(&Path, &str) -> Result<TargetKind, LoadError>,
) -> Result<Plan, LoadError> {
    lay_out(workload, replays, inspect, true)
}

/// The plan; `looks`: this machine is asked what it has beside the targets.
fn lay_out(
    workload: &Workload,
    replays: &Replays,
    inspect: &dyn Fn(&Path, &str) -> Result<TargetKind, LoadError>,
    looks: bool,
) -> Result<Plan, LoadError> {
    let mut planner =
        Planner { inspect, replays, targets: Vec::new(), by_path: BTreeMap::new(), warnings: Vec::new(), looks };
    let mut workers: Vec<WorkerPlan> = Vec::new();
    let mut seeds = Vec::new();
    let mut wave = 0;
    for (job_index, job) in workload.jobs.iter().enumerate() {
        if job.stonewall && job_index > 0 {
            wave += 1;
        }
        if looks {
            cpus::exist(job)?;
        }
        let base = base_seed(job);
        seeds.push(base);
        // If several jobs have that name, all must be done.
        let awaited = |worker: &&WorkerPlan| {
            let name = workload.jobs.get(worker.job).map(|job| &job.name);
            worker.job != job_index && job.options.wait_for.is_some() && name == job.options.wait_for.as_ref()
        };
        let waits_for: Vec<usize> = workers.iter().filter(awaited).map(|worker| worker.index).collect();
        for clone in clones(job) {
            let index = workers.len();
            let seed = derive_seed(base, index as u64);
            let mut worker = planner.worker(job_index, job, clone, seed)?;
            (worker.index, worker.wave, worker.group) = (index, wave, job.group);
            worker.waits_for.clone_from(&waits_for);
            workers.push(worker);
        }
    }
    let mut plan = Plan { workers, targets: planner.targets, seeds, waves: wave + 1, warnings: planner.warnings };
    let rivals = rivals::find(&mut plan, workload);
    plan.warnings.extend(rivals);
    Ok(plan)
}

/// Plans a workload without looking at files and devices: refuses what is wrong whatever lies there, as fio's `--parse-only`. Gives the
/// plan's warnings.
///
/// # Errors
/// As [`plan`].
pub fn rehearse(workload: &Workload) -> Result<Vec<String>, LoadError> {
    // Files long enough for anything: the length that they have is nothing that the job's text says.
    let supposed = |path: &Path, name: &str| {
        let is = |word: fn(&JobSpec) -> bool| workload.jobs.iter().any(|job| job.name == name && word(job));
        let dax = path.starts_with("/dev") && path.to_str().is_some_and(|path| path.starts_with("/dev/dax"));
        if dax || is(|job| job.options.caps().contains(Caps::DAX_DEVICES)) {
            return Ok(TargetKind::DaxDevice { bytes: i64::MAX.cast_unsigned(), align: 2 << 20 });
        }
        if path.starts_with("/dev") && !path.starts_with("/dev/shm") {
            return Ok(TargetKind::BlockDevice { bytes: i64::MAX.cast_unsigned() });
        }
        Ok(TargetKind::File { bytes: SUPPOSED_BYTES })
    };
    lay_out(workload, &Replays::new(), &supposed, false).map(|plan| plan.warnings)
}

/// The length of files that nobody looks at.
const SUPPOSED_BYTES: u64 = 1 << 50;

impl Plan {
    /// Grants workers the right to write the files checked, by name.
    pub fn grant(&mut self, permits: &BTreeMap<PathBuf, Permit>) {
        for file in self.workers.iter_mut().flat_map(|worker| &mut worker.files) {
            file.permit = file.path.as_ref().and_then(|path| permits.get(path)).copied();
        }
    }

    /// Lets workers find the files of these names through descriptors, which they inherit.
    pub fn open_through(&mut self, nameless: &[(PathBuf, OwnedFd)]) {
        for file in self.workers.iter_mut().flat_map(|worker| &mut worker.files) {
            let found = nameless.iter().find(|(path, _)| file.path.as_ref() == Some(path));
            file.open_as = found.map(|(_, fd)| format!("/proc/self/fd/{}", fd.as_raw_fd()).into());
        }
    }
}

/// The workers of a job, by their numbers within it, in the order in which they are numbered among all. As in fio the first one is
/// followed by the others from the last to the second: their logs are numbered so, and each finds its files as those before it
/// leave them.
fn clones(job: &JobSpec) -> impl Iterator<Item = u32> {
    let count = u32::try_from(job.options.numjobs).unwrap_or(u32::MAX);
    std::iter::once(0).chain((1..count).rev())
}

fn base_seed(job: &JobSpec) -> u64 {
    match (job.options.randseed, job.options.randrepeat) {
        (Some(seed), _) => seed,
        (None, true) => DEFAULT_SEED,
        (None, false) => system_seed(),
    }
}

struct Planner<'a> {
    inspect: &'a dyn Fn(&Path, &str) -> Result<TargetKind, LoadError>,
    replays: &'a Replays,
    targets: Vec<TargetPlan>,
    by_path: BTreeMap<PathBuf, usize>,
    warnings: Vec<String>,
    /// Whether this machine is asked what it has: free space, folders, CPUs.
    looks: bool,
}

impl Planner<'_> {
    /// A worker; its place, wave and group are filled in by the caller.
    fn worker(&mut self, job_index: usize, job: &JobSpec, clone: u32, seed: u64) -> Result<WorkerPlan, LoadError> {
        let o = &job.options;
        let caps = o.caps();
        let replay = self.replays.get(&(job_index, clone)).cloned();
        let paths: Vec<Option<PathBuf>> = match (&replay, caps.contains(Caps::FILES)) {
            (Some(replay), true) => replay.files.iter().cloned().map(Some).collect(),
            (Some(replay), false) => vec![None; replay.files.len()],
            (None, true) => paths::of_worker(job, clone)?.into_iter().map(Some).collect(),
            (None, false) => vec![None; usize::try_from(o.nrfiles).unwrap_or(usize::MAX)],
        };
        let known = paths
            .iter()
            .map(|path| match path {
                Some(path) => self.known(path, job_index, job, caps),
                None => Ok(spans::Known { bytes: None, endless: !caps.contains(Caps::MAPS), room: None }),
            })
            .collect::<Result<Vec<_>, _>>()?;
        let mut found = match &replay {
            Some(replay) => spans::of_log(replay),
            // The log says where it ends, and nobody reads it.
            None if o.read_iolog.is_some() => spans::of_unread_log(known.len(), SUPPOSED_BYTES),
            None if caps.contains(Caps::WHOLE_FILES) => spans::of_whole_files(job, known.len()),
            None => spans::of_worker(job, clone, &known, seed)?,
        };
        self.warnings.append(&mut found.warnings);
        if caps.contains(Caps::MAPS) {
            // What is not mapped cannot be touched: operations stay inside their region.
            for span in &mut found.files {
                span.file_bytes = span.start + span.region_bytes;
            }
        }
        if found.unfit.is_none() {
            self.need_all(&paths, &found.files, job)?;
        }
        let io_bytes = match o.io_size {
            None | Some(Extent::Bytes(0)) => None,
            // As in fio a percentage of io_size is one of the region.
            Some(extent) => extent.resolve(Some(found.pass_bytes)),
        };
        if clone == 0 {
            self.warnings.extend(lost_zones(job, found.files.len()));
        }
        let (course, varied) = match (&replay, &o.read_iolog) {
            (Some(_), _) | (_, Some(_)) => (course::plain(job, &found, seed)?, None),
            (None, None) => course::of_worker(job, &found, seed)?,
        };
        // What nobody looks at is supposed to be very long.
        if self.looks
            && let Some(varied) = &varied
        {
            course::check_map(job, varied)?;
        }
        let file = |(path, span)| FilePlan { path, open_as: None, permit: None, span };
        let files = paths.into_iter().zip(found.files).map(file).collect();
        Ok(WorkerPlan {
            index: 0,
            job: job_index,
            clone,
            wave: 0,
            group: 0,
            files,
            course,
            varied,
            replay,
            io_bytes,
            waits_for: Vec::new(),
            rivals: Vec::new(),
            unfit: found.unfit,
        })
    }

    /// Notes what a worker needs of its files.
    fn need_all(&mut self, paths: &[Option<PathBuf>], spans: &[FileSpan], job: &JobSpec) -> Result<(), LoadError> {
        let caps = job.options.caps();
        for (path, span) in paths.iter().zip(spans) {
            let index = path.as_ref().and_then(|path| self.by_path.get(path));
            let Some(target) = index.and_then(|index| self.targets.get_mut(*index)) else { continue };
            // Nobody knows whether a path that was not looked at is a device.
            if self.looks {
                can_be_trimmed(target, job, caps)?;
            }
            need(target, job, caps, span.start + span.region_bytes)?;
        }
        Ok(())
    }

    /// The facts known about a file before the run.
    fn known(&mut self, path: &Path, job_index: usize, job: &JobSpec, caps: Caps) -> Result<spans::Known, LoadError> {
        let index = self.target(path, job_index, job)?;
        let target = self.targets.get(index);
        target.map_or(Ok(()), |target| suits::check(target, job, caps))?;
        let device = target.is_some_and(|target| target.kind.is_device());
        if self.looks && target.is_some_and(|target| target.kind == TargetKind::Missing) {
            directories_are_there(job)?;
        }
        if !job.options.allow_file_create && target.is_some_and(|target| target.kind == TargetKind::Missing) {
            let reason = format!("{} does not exist and allow_file_create=0", path.display());
            return Err(LoadError::Target { job: job.name.clone(), reason });
        }
        let room = match job.options.fill_device && !device {
            true if self.looks => Some(free_bytes(path, job)?),
            true => Some(SUPPOSED_BYTES),
            false => None,
        };
        // A supposed length is none beside one that the job names.
        let is_named = !self.looks && !device && job.options.filesize.is_some();
        let bytes = target.and_then(known_bytes).filter(|_| !is_named);
        Ok(spans::Known { bytes, endless: device, room })
    }

    fn target(&mut self, path: &Path, job_index: usize, job: &JobSpec) -> Result<usize, LoadError> {
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
            flushed: false,
            unlink: false,
            create_on_open: job.options.create_on_open,
            fill_device: false,
        });
        self.by_path.insert(path.to_path_buf(), index);
        Ok(index)
    }
}

/// Zones of a job on several files that are open at once: it has none (fio's would be others than those that it names).
fn lost_zones(job: &JobSpec, files: usize) -> Option<String> {
    if job.options.stride(1).is_none() || job.options.stride(files).is_some() {
        return None;
    }
    Some(format!(
        "job '{}': zonemode=strided has no effect on {files} files that are open at once: each is worked on without zones; openfiles=1 has zones in one after the other",
        job.name
    ))
}

/// Folders named by `directory=` must exist, as in fio; those above other files are made.
fn directories_are_there(job: &JobSpec) -> Result<(), LoadError> {
    match paths::directories(job).into_iter().find(|directory| !directory.is_dir()) {
        None => Ok(()),
        Some(missing) => {
            let missing = missing.display();
            let reason = format!("the directory {missing} does not exist; mkdir -p {missing}");
            Err(LoadError::Target { job: job.name.clone(), reason })
        }
    }
}

/// The size of a target that percentages and a missing size= refer to: its present size, or the one an earlier job will
/// have given it.
fn known_bytes(target: &TargetPlan) -> Option<u64> {
    let there = match target.kind {
        TargetKind::Missing | TargetKind::Bottomless => 0,
        TargetKind::File { bytes } | TargetKind::BlockDevice { bytes } | TargetKind::DaxDevice { bytes, .. } => bytes,
    };
    Some(there.max(target.bytes_needed)).filter(|bytes| *bytes > 0)
}

fn need(target: &mut TargetPlan, job: &JobSpec, caps: Caps, end: u64) -> Result<(), LoadError> {
    if let TargetKind::BlockDevice { bytes } | TargetKind::DaxDevice { bytes, .. } = target.kind
        && end > bytes
    {
        return Err(LoadError::Target {
            job: job.name.clone(),
            reason: format!("the region ends at byte {end}, {} has {bytes}", target.path.display()),
        });
    }
    // Behind the end of what earlier jobs use there is nothing that they could have written.
    let beyond_others = end > target.bytes_needed;
    must_be_there(target, job, end)?;
    if caps.contains(Caps::CREATES) {
        // The job makes it, and nobody before it.
        target.unlink |= job.options.unlink;
        return Ok(());
    }
    // As in fio each job lays out what it finds too short, and flushes it or not.
    target.flushed |= end > known_bytes(target).unwrap_or(0) && lays_out(job, caps) && job.options.create_fsync;
    target.bytes_needed = target.bytes_needed.max(end);
    target.written |= job.options.changes_files();
    // What a job reads must be there; what an earlier job wrote is.
    target.filled |= (job.options.rw.0.reads() && !job.options.only_verifies() && (beyond_others || !target.written))
        || (job.options.overwrite && job.options.changes_files());
    target.needs_length |= caps.contains(Caps::NEEDS_LENGTH);
    target.unlink |= job.options.unlink;
    target.create_on_open &= job.options.create_on_open;
    target.fill_device |= job.options.fill_device;
    Ok(())
}

/// Whether a job has files written, or made as long as it needs them, before it starts.
fn lays_out(job: &JobSpec, caps: Caps) -> bool {
    let o = &job.options;
    let rewrites = o.changes_files() && o.overwrite && !o.file_append;
    o.rw.0.reads() || rewrites || caps.contains(Caps::NEEDS_LENGTH)
}

/// Trims are discards of block devices, as in fio 3.33.
fn can_be_trimmed(target: &TargetPlan, job: &JobSpec, caps: Caps) -> Result<(), LoadError> {
    // What takes part of a file's space away punches holes.
    let punches = caps.contains(Caps::ALLOCATES) || caps.contains(Caps::WHOLE_FILES);
    if !job.options.rw.0.trims() || punches || matches!(target.kind, TargetKind::BlockDevice { .. }) {
        return Ok(());
    }
    let path = target.path.display();
    Err(LoadError::Target {
        job: job.name.clone(),
        reason: format!(
            "{path} is no block device, and only these can be trimmed (BLKDISCARD); losetup --find --show FILE makes one of a file"
        ),
    })
}

/// Files that are only verified were written before: nothing is made that would then be found wrong.
fn must_be_there(target: &TargetPlan, job: &JobSpec, end: u64) -> Result<(), LoadError> {
    let there = known_bytes(target).unwrap_or(0);
    if !job.options.only_verifies() || there >= end {
        return Ok(());
    }
    let (path, option) = (target.path.display(), if job.options.verify_only { "verify_only" } else { "rw" });
    Err(LoadError::Target {
        job: job.name.clone(),
        reason: format!(
            "{path} has {there} bytes and {end} are to be verified; write them first, with the same job and {option}={}",
            if job.options.verify_only { "0" } else { "write" }
        ),
    })
}

/// Free bytes of the file system that a file lies on, and a little more, so that writing that much meets the end of it.
fn free_bytes(path: &Path, job: &JobSpec) -> Result<u64, LoadError> {
    let directory = directory_of(path);
    let directory = directory.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("."));
    let system = rustix::fs::statvfs(directory).map_err(|error| {
        LoadError::system(format!("job '{}': free space of {}", job.name, directory.display()), error)
    })?;
    Ok(system.f_bfree.saturating_add(1).saturating_mul(system.f_frsize).next_multiple_of(1 << 20) + (1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagelab_fiojob::parse_args;

    fn planned(arguments: &[&str], existing: u64) -> Result<Plan, String> {
        let arguments: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
        let workload = parse_args(&arguments).map_err(|error| error.to_string())?;
        let kind = if existing == 0 { TargetKind::Missing } else { TargetKind::File { bytes: existing } };
        plan(&workload, &|_, _| Ok(kind)).map_err(|error| error.to_string())
    }

    #[test]
    fn each_worker_gets_its_own_file_unless_named() {
        let plan =
            planned(&["--name=j", "--rw=write", "--size=1m", "--numjobs=3", "--directory=/tmp"], 0).expect("plan");
        let paths: Vec<_> = plan
            .workers
            .iter()
            .flat_map(|w| &w.files)
            .filter_map(|f| f.path.as_ref())
            .map(|p| p.display().to_string())
            .collect();
        assert_eq!(paths, ["/tmp/j.0.0", "/tmp/j.2.0", "/tmp/j.1.0"]);
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

    fn rehearsed(arguments: &[&str]) -> Result<Vec<String>, String> {
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let workload = parse_args(&arguments).map_err(|error| error.to_string())?;
        rehearse(&workload).map_err(|error| error.to_string())
    }

    /// Job files are checked on other machines than those that they are for.
    #[test]
    fn what_is_only_parsed_is_not_held_against_this_machine() {
        for arguments in [
            &["--name=j", "--size=1m", "--cpus_allowed=1023"][..],
            &["--name=j", "--size=1m", "--rw=randtrim", "--filename=/not/here/yet"],
            &["--filename=/not/here/yet", "--size=1m", "--name=w", "--rw=write", "--name=t", "--rw=randtrim"],
            &["--name=j", "--ioengine=null", "--read_iolog=not-here", "--rw=read"],
            &["--name=j", "--ioengine=libaio", "--read_iolog=not-here", "--rw=randrw"],
        ] {
            assert_eq!(rehearsed(arguments), Ok(Vec::new()), "{arguments:?}");
        }
        let trims = ["--name=j", "--size=1m", "--rw=randtrim", "--filename=f"];
        assert!(planned(&trims, 1 << 20).expect_err("a file").contains("no block device"));
        assert!(
            planned(&["--name=j", "--size=1m", "--cpus_allowed=1023"], 0).expect_err("no CPU").contains("CPU 1023")
        );
    }

    #[test]
    fn zones_that_have_no_effect_are_said_to() {
        let zones = ["--name=j", "--rw=write", "--size=128k", "--zonemode=strided", "--zonesize=32k", "--zoneskip=16k"];
        let warned = |more: &[&str]| {
            let warnings = planned(&[&zones[..], more].concat(), 0).expect("a plan").warnings;
            warnings.iter().filter(|warning| warning.contains("zonemode=strided has no effect on 2 files")).count()
        };
        assert_eq!(warned(&[]), 0);
        assert_eq!(warned(&["--nrfiles=2"]), 1);
        assert_eq!(warned(&["--nrfiles=2", "--numjobs=3"]), 1);
        assert_eq!(warned(&["--nrfiles=2", "--openfiles=1"]), 0);
    }

    /// What a job reads behind the end of what an earlier one wrote is written before the start.
    #[test]
    fn readers_beyond_the_writers_find_data() {
        let of = |size: &str| {
            let plan = planned(
                &["--filename=f", "--name=w", "--rw=write", "--size=64k", "--name=r", "--stonewall", "--rw=read", size],
                0,
            );
            plan.expect("a plan").targets[0].filled
        };
        assert!(!of("--size=64k"));
        assert!(of("--size=1m"));
    }
}
