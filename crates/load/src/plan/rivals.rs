//! Workers that write the same bytes of a file at the same time, where contents are verified.

use std::collections::BTreeMap;
use std::path::Path;

use pagelab_fiojob::{Caps, JobSpec, Workload};

use super::{Plan, WorkerPlan};
use crate::safety::TargetKind;

/// Finds them and notes them in the plan; gives a warning for each job concerned.
pub(super) fn find(plan: &mut Plan, workload: &Workload) -> Vec<String> {
    let job_of = |worker: &WorkerPlan| workload.jobs.get(worker.job);
    // Blocks that move to others hold what they held.
    let writes = |job: &JobSpec| job.options.changes_files() && !job.options.caps().contains(Caps::DONOR);
    let changes = |worker: &&WorkerPlan| job_of(worker).is_some_and(writes);
    let verifies = |worker: &&WorkerPlan| changes(worker) && job_of(worker).is_some_and(|job| job.options.verifies());
    if !plan.workers.iter().any(|worker| verifies(&worker)) {
        return Vec::new();
    }
    let mut regions: BTreeMap<&Path, Vec<(u64, u64, usize, usize)>> = BTreeMap::new();
    for worker in plan.workers.iter().filter(changes) {
        for (place, file) in worker.files.iter().enumerate() {
            let end = file.span.start.saturating_add(file.span.region_bytes);
            if let Some(path) = &file.path {
                regions.entry(path).or_default().push((file.span.start, end, worker.index, place));
            }
        }
    }
    let mut rivals: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut warnings = Vec::new();
    for worker in plan.workers.iter().filter(verifies) {
        let Some(job) = job_of(worker) else { continue };
        let mut found: Vec<usize> = Vec::new();
        for (place, file) in worker.files.iter().enumerate() {
            let Some(path) = &file.path else { continue };
            let (start, end) = (file.span.start, file.span.start.saturating_add(file.span.region_bytes));
            let others =
                regions.get(path.as_path()).map_or(&[][..], Vec::as_slice).iter().filter(|(from, to, index, at)| {
                    *from < end
                        && start < *to
                        && (*index, *at) != (worker.index, place)
                        && at_once(plan, worker, *index)
                });
            let before = found.len();
            found.extend(others.map(|(_, _, index, _)| *index));
            if found.iter().skip(before).any(|index| *index != worker.index) {
                let shared = not_exclusive(plan, job, path).filter(|_| worker.clone == 0);
                warnings.extend(shared.filter(|words| !warnings.contains(words)));
            }
        }
        found.sort_unstable();
        found.dedup();
        if found.is_empty() {
            continue;
        }
        let others = found.iter().filter(|index| **index != worker.index).count();
        if worker.clone == 0 && others > 0 {
            warnings.push(format!(
                "job '{}': {others} other workers write the same bytes; of each block it is verified that it is one that was written, not whose",
                job.name
            ));
        }
        rivals.insert(worker.index, found);
    }
    for worker in &mut plan.workers {
        worker.rivals = rivals.remove(&worker.index).unwrap_or_default();
    }
    warnings
}

/// Whether `other` may write while `worker` does.
fn at_once(plan: &Plan, worker: &WorkerPlan, other: usize) -> bool {
    plan.workers.get(other).is_some_and(|other| {
        other.wave == worker.wave
            && !other.waits_for.contains(&worker.index)
            && !worker.waits_for.contains(&other.index)
    })
}

/// What is to be said where the kernel does not let one write to a file end before the next begins, as it does for write(2) and its kin
/// through the page cache: then no checksum may fit, as with fio.
fn not_exclusive(plan: &Plan, job: &JobSpec, path: &Path) -> Option<String> {
    let o = &job.options;
    let caps = o.caps();
    let device =
        plan.targets.iter().any(|target| target.path == path && matches!(target.kind, TargetKind::BlockDevice { .. }));
    let shared = [
        (caps.contains(Caps::MAPS), "copies to mappings"),
        (o.is_direct(), "writes with direct=1"),
        (device, "writes to a block device"),
        (o.verify_backlog > 0, "writes beside verify_backlog"),
        (!caps.contains(Caps::SYNCHRONOUS), "several writes of a worker under way"),
    ];
    let (_, what) = shared.into_iter().find(|(found, _)| *found)?;
    Some(format!(
        "job '{}': several workers write the same bytes of {}, and {what} do not exclude each other: a block may end as parts of two, \
         which no checksum fits, as with fio; give each worker its own bytes with offset_increment=",
        job.name,
        path.display()
    ))
}
