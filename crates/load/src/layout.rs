//! Making targets ready before the first job starts: created, allocated, filled; and removed again where the job says so.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use pagelab_fiojob::words::Fallocate;
use pagelab_fiojob::{Direction, JobOptions, JobSpec, Workload};
use rustix::fs::{FallocateFlags, OFlags};

use crate::buffer::Contents;
use crate::control::Control;
use crate::error::LoadError;
use crate::hugetlb::{self, Resort};
use crate::plan::{Plan, TargetPlan, WorkerPlan, outputs};
use crate::safety::{self, Allowed, Claims, Ownership, Permit, REPLACED, TargetKind, Unopened};

/// How much is written at once when a file is filled.
const FILL_BYTES: usize = 1 << 20;

/// Files that were made ready.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    /// Files created now.
    pub created: Vec<PathBuf>,
    /// Folders made for them, each after the one that it lies in.
    pub folders: Vec<PathBuf>,
    /// Files to remove at the end, if they are pagelab's.
    pub unlink: Vec<PathBuf>,
    /// Files of jobs with `unlink=1` that have no name, by the name that they would have, and what keeps them.
    pub nameless: Vec<(PathBuf, OwnedFd)>,
    /// The files that jobs may write, by path.
    pub permits: BTreeMap<PathBuf, Permit>,
    /// The block devices that they may write, claimed until this goes.
    pub claims: Claims,
    /// Other notes for the user.
    pub warnings: Vec<String>,
    /// Whether the user asked to stop while files were being filled.
    pub stopped: bool,
}

/// Checks and makes all targets. Everything is checked before anything is changed; files created are removed again if making
/// others fails. `stop` is asked between steps of long work.
///
/// # Errors
/// A target that may not be written, or cannot be made.
pub(crate) fn prepare(
    plan: &Plan,
    workload: &Workload,
    control: &Control,
    stop: &dyn Fn() -> bool,
) -> Result<Prepared, LoadError> {
    let ownership = Ownership::new(&control.state_dir);
    let mut prepared = Prepared::default();
    // All that may not be written is said at once.
    let mut refused = Vec::new();
    for target in &plan.targets {
        let job = job_of(workload, target)?;
        let allowed = match check(target, job, control, &ownership, &mut prepared.claims) {
            Ok(Some(allowed)) => allowed,
            Ok(None) => continue,
            Err(LoadError::Refused { path, reason }) => {
                refused.push((path, reason));
                continue;
            }
            Err(error) => return Err(error),
        };
        prepared.permits.insert(target.path.clone(), allowed.permit);
        if let Some(what) = allowed.holds {
            let path = target.path.display();
            prepared.warnings.push(format!("{path} held {what}; it was named with --allow-write and written over"));
        }
    }
    refused.extend(refused_outputs(plan, workload, control, &ownership)?);
    if let Some(error) = LoadError::of_refusals(refused) {
        return Err(error);
    }
    if let Err(error) = make_shared_logs(workload, control, &mut prepared.created) {
        discard(&prepared, control);
        return Err(error);
    }
    for target in &plan.targets {
        let job = job_of(workload, target)?;
        let result = make_folders(target, job, &mut prepared.folders)
            .and_then(|()| make(target, job, &ownership, &mut prepared, stop));
        if let Err(error) = result {
            discard(&prepared, control);
            return Err(error);
        }
        let nameless = prepared.nameless.iter().any(|(path, _)| *path == target.path);
        if target.unlink && !nameless {
            prepared.unlink.push(target.path.clone());
        }
    }
    Ok(prepared)
}

/// Files beside the targets, such as logs, that exist and may not be written.
fn refused_outputs(
    plan: &Plan,
    workload: &Workload,
    control: &Control,
    ownership: &Ownership<'_>,
) -> Result<Vec<(PathBuf, String)>, LoadError> {
    let of_worker = |worker: &WorkerPlan| {
        let job = workload.jobs.get(worker.job);
        job.map_or_else(Vec::new, |job| outputs::of_worker(job, worker.index, worker.clone))
    };
    let mut all: BTreeSet<PathBuf> = plan.workers.iter().flat_map(of_worker).collect();
    if control.bandwidth_log {
        all.extend(outputs::AGGREGATES.map(PathBuf::from));
    }
    let mut refused = Vec::new();
    for path in all.into_iter().filter(|path| path.symlink_metadata().is_ok()) {
        match safety::may_write(&path, &control.allow_write, ownership, &mut Claims::default()) {
            Ok(_) => {}
            Err(LoadError::Refused { path, reason }) => refused.push((path, reason)),
            Err(error) => return Err(error),
        }
    }
    Ok(refused)
}

/// Makes or empties the logs that several workers write: each adds lines to what the others wrote.
fn make_shared_logs(workload: &Workload, control: &Control, created: &mut Vec<PathBuf>) -> Result<(), LoadError> {
    let all: BTreeSet<PathBuf> = workload.jobs.iter().flat_map(outputs::shared_logs).collect();
    for path in all {
        let missing = path.symlink_metadata().is_err();
        safety::make_own(&path, &control.state_dir, &control.allow_write)?;
        if missing {
            created.push(path);
        }
    }
    Ok(())
}

/// Makes the folders above a target that is to be made, as fio does.
fn make_folders(target: &TargetPlan, job: &JobSpec, made: &mut Vec<PathBuf>) -> Result<(), LoadError> {
    if target.kind != TargetKind::Missing {
        return Ok(());
    }
    let above = safety::directory_of(&target.path).ancestors();
    let missing: Vec<&Path> = above.take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists()).collect();
    for folder in missing.into_iter().rev() {
        std::fs::DirBuilder::new().mode(0o700).create(folder).map_err(|error| {
            LoadError::system(format!("job '{}': making the folder {}", job.name, folder.display()), error)
        })?;
        made.push(folder.to_path_buf());
    }
    Ok(())
}

/// Removes files and folders created for a run that did not come about.
pub(crate) fn discard(prepared: &Prepared, control: &Control) {
    let ownership = Ownership::new(&control.state_dir);
    for path in &prepared.created {
        // This process created it moments ago; if it is gone already, all the better.
        let _ = ownership.remove(path);
    }
    for folder in prepared.folders.iter().rev() {
        // Only if nothing is in it.
        let _ = std::fs::remove_dir(folder);
    }
}

/// Removes what jobs with `unlink=1` leave; gives a warning for each file that stays.
pub(crate) fn unlink(prepared: &Prepared, control: &Control) -> Vec<String> {
    let ownership = Ownership::new(&control.state_dir);
    let mut warnings = Vec::new();
    for path in &prepared.unlink {
        match ownership.remove(path) {
            Ok(true) => {}
            Ok(false) => warnings.push(format!("unlink=1: {} stays: pagelab did not create it", path.display())),
            Err(error) => warnings.push(format!("unlink=1: {} stays: {error}", path.display())),
        }
    }
    warnings
}

fn job_of<'a>(workload: &'a Workload, target: &TargetPlan) -> Result<&'a JobSpec, LoadError> {
    workload.jobs.get(target.job).ok_or_else(|| LoadError::Protocol(format!("no job {}", target.job)))
}

/// Whether the job may change a target as it is going to; `None` if it changes nothing that exists.
fn check(
    target: &TargetPlan,
    job: &JobSpec,
    control: &Control,
    ownership: &Ownership<'_>,
    claims: &mut Claims,
) -> Result<Option<Allowed>, LoadError> {
    let too_small = matches!(target.kind, TargetKind::File { bytes } if bytes < target.bytes_needed);
    let changes =
        target.written || (too_small && (target.filled || target.needs_length)) || target.kind == TargetKind::Missing;
    if changes && control.readonly {
        return Err(LoadError::Target {
            job: job.name.clone(),
            reason: format!("{} would be written, and --readonly forbids that", target.path.display()),
        });
    }
    if target.kind == TargetKind::Missing || !changes {
        return Ok(None);
    }
    let verdict = safety::may_write(&target.path, &control.allow_write, ownership, claims);
    match verdict {
        Err(LoadError::Refused { path, reason }) if !target.written => {
            let TargetKind::File { bytes } = target.kind else { return Err(LoadError::Refused { path, reason }) };
            let reason = format!(
                "it has {bytes} bytes, the job reads up to byte {}, and it may not be made longer: {reason}",
                target.bytes_needed
            );
            Err(LoadError::Refused { path, reason })
        }
        // The plan was made for a file, or for a device.
        Ok(allowed) if allowed.device != target.kind.is_device() => {
            Err(LoadError::Refused { path: target.path.clone(), reason: REPLACED.to_owned() })
        }
        other => other.map(Some),
    }
}

fn make(
    target: &TargetPlan,
    job: &JobSpec,
    ownership: &Ownership<'_>,
    prepared: &mut Prepared,
    stop: &dyn Fn() -> bool,
) -> Result<(), LoadError> {
    let there = match target.kind {
        TargetKind::BlockDevice { .. } | TargetKind::DaxDevice { .. } | TargetKind::Bottomless => return Ok(()),
        TargetKind::File { bytes } => bytes,
        TargetKind::Missing => 0,
    };
    if target.create_on_open && target.kind == TargetKind::Missing {
        // The job's open makes it; it is remembered here so that a failed start leaves nothing behind.
        prepared.created.push(target.path.clone());
        prepared.permits.insert(target.path.clone(), Permit::of_any_own());
        return Ok(());
    }
    if target.kind != TargetKind::Missing && there >= target.bytes_needed {
        return Ok(());
    }
    // As in fio an empty file is not laid out: a job that writes makes it, one that only reads does not find it.
    let is_empty = target.bytes_needed == 0 && !target.written && job.options.read_iolog.is_none();
    if is_empty || !(target.written || target.filled || target.needs_length) {
        return Ok(());
    }
    let failed = |what: &str, error: rustix::io::Errno| {
        LoadError::system(format!("job '{}': {what} {}", job.name, target.path.display()), error)
    };
    let missing = target.kind == TargetKind::Missing;
    if let (true, Some(fd)) = (missing && target.unlink, safety::nameless_hugetlb_file(&target.path)) {
        allocate_hugetlb(target, job, fd.as_fd())?;
        let permit = Permit::of_nameless(fd.as_fd()).map_err(|error| failed("looking at", error))?;
        prepared.permits.insert(target.path.clone(), permit);
        prepared.nameless.push((target.path.clone(), fd));
        return Ok(());
    }
    let fd = if missing {
        let Some(fd) = ownership.create(&target.path)? else {
            // It was not there when the job was planned: somebody else makes files here at this moment.
            return Err(LoadError::Refused { path: target.path.clone(), reason: REPLACED.to_owned() });
        };
        prepared.created.push(target.path.clone());
        let permit = Permit::of_own(fd.as_fd()).map_err(|error| failed("looking at", error))?;
        prepared.permits.insert(target.path.clone(), permit);
        fd
    } else {
        let permit = prepared.permits.get(&target.path).copied().unwrap_or_else(Permit::of_any_own);
        permit.open(&target.path, OFlags::RDWR, ownership).map_err(|error| match error {
            Unopened::Errno(error) => failed("opening", error),
            Unopened::Replaced => LoadError::Refused { path: target.path.clone(), reason: REPLACED.to_owned() },
        })?
    };
    if safety::is_hugetlbfs(fd.as_fd()) {
        return allocate_hugetlb(target, job, fd.as_fd());
    }
    // What is to fill the file system cannot be allocated before.
    let how = if target.fill_device { Fallocate::None } else { job.options.fallocate };
    allocate(target, how, fd.as_fd()).map_err(|error| failed("allocating space for", error))?;
    if target.filled {
        prepared.stopped |= !fill(target, &job.options, there, fd.into(), stop).map_err(|error| {
            LoadError::system(format!("job '{}': filling {}", job.name, target.path.display()), error)
        })?;
    } else if target.flushed {
        // Where a file that is filled is flushed: writing its metadata back does not run into the measured window, either.
        rustix::fs::fsync(&fd).map_err(|error| failed("flushing", error))?;
    }
    Ok(())
}

fn allocate(target: &TargetPlan, how: Fallocate, fd: rustix::fd::BorrowedFd<'_>) -> rustix::io::Result<()> {
    use rustix::io::Errno;
    let len = target.bytes_needed;
    // A size that was drawn may be below one block: such a file stays empty, and fallocate(2) of nothing is an error.
    if len == 0 {
        return Ok(());
    }
    match how {
        Fallocate::None => {}
        Fallocate::Native => match rustix::fs::fallocate(fd, FallocateFlags::empty(), 0, len) {
            // The file system has no such call: as `none`.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            other => other?,
        },
        Fallocate::Posix => match rustix::fs::fallocate(fd, FallocateFlags::empty(), 0, len) {
            // glibc then writes into every block; only the length matters from here on.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => rustix::fs::ftruncate(fd, len)?,
            other => other?,
        },
        Fallocate::Keep => rustix::fs::fallocate(fd, FallocateFlags::KEEP_SIZE, 0, len)?,
        Fallocate::Truncate => rustix::fs::ftruncate(fd, len)?,
    }
    if target.needs_length && rustix::fs::fstat(fd)?.st_size.cast_unsigned() < len {
        rustix::fs::ftruncate(fd, len)?;
    }
    Ok(())
}

/// hugetlbfs takes no write(2): space is allocated, its content is zeros.
fn allocate_hugetlb(target: &TargetPlan, job: &JobSpec, fd: rustix::fd::BorrowedFd<'_>) -> Result<(), LoadError> {
    let page = safety::mapping_page_bytes(fd);
    let len = target.bytes_needed.next_multiple_of(page);
    match rustix::fs::fallocate(fd, FallocateFlags::empty(), 0, len) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::NOSPC | rustix::io::Errno::NOMEM) => {
            Err(hugetlb::pool_too_small(Path::new("/"), &job.name, page, len / page, Resort::None))
        }
        Err(error) => {
            Err(LoadError::system(format!("job '{}': allocating {}", job.name, target.path.display()), error))
        }
    }
}

/// Writes from `from` to the needed length, with contents as the job's buffers have them, and waits until they are on the medium
/// (unless `create_fsync=0`), so that writing them back does not run into the measured window. Gives false if it was stopped.
fn fill(
    target: &TargetPlan,
    options: &JobOptions,
    from: u64,
    mut file: std::fs::File,
    stop: &dyn Fn() -> bool,
) -> std::io::Result<bool> {
    use std::io::{Seek as _, SeekFrom};
    // A pattern starts anew in each block, as it does in the blocks that jobs write.
    let patterned = options.zero_buffers || !options.buffer_pattern.0.is_empty();
    let length = options.lengths(Direction::Write).max_bytes as usize;
    let mut block = vec![0_u8; if patterned { length.max(1) } else { FILL_BYTES }];
    let mut contents = Contents::new(options, target.bytes_needed);
    contents.fill(&mut block);
    let mut at = from;
    file.seek(SeekFrom::Start(at))?;
    while at < target.bytes_needed {
        if stop() {
            return Ok(false);
        }
        let len = usize::try_from(target.bytes_needed - at).unwrap_or(block.len()).min(block.len());
        if options.refills() {
            contents.fill(&mut block);
        } else if !patterned {
            // Every block differs in its first bytes, so that no storage folds them into one.
            for (byte, number) in block.iter_mut().zip(at.to_ne_bytes()) {
                *byte = number;
            }
        }
        file.write_all(block.get(..len).unwrap_or(&[]))?;
        at += len as u64;
    }
    if target.flushed {
        file.sync_all()?;
    }
    Ok(true)
}
