//! Names of the files that workers write beside the targets: logs, and what commands of the job print.

use std::path::PathBuf;

use pagelab_fiojob::JobSpec;
use pagelab_fiojob::value::LogName;

/// The logs of all workers together, by direction (`--bandwidth-log`).
pub(crate) const AGGREGATES: [&str; 3] = ["agg-read_bw.log", "agg-write_bw.log", "agg-trim_bw.log"];

/// The path of a worker's log of this kind (`clat`, `bw`); `None` if the job does not want it, or switches off the latency that it
/// would hold (`gtod_reduce` all of them). Workers of all jobs are counted from 1, as in fio.
pub(crate) fn log(job: &JobSpec, worker: usize, name: &LogName, kind: &str) -> Option<PathBuf> {
    let prefix = match name {
        LogName::None => return None,
        LogName::Job => &job.name,
        LogName::Prefix(prefix) => prefix,
    };
    let o = &job.options;
    let disabled = match kind {
        "slat" => o.disable_slat || o.gtod_reduce,
        "clat" => o.disable_clat || o.gtod_reduce,
        "lat" => o.disable_lat || o.gtod_reduce,
        _ => false,
    };
    if disabled {
        return None;
    }
    Some(PathBuf::from(if job.options.per_job_logs {
        format!("{prefix}_{kind}.{}.log", worker + 1)
    } else {
        format!("{prefix}_{kind}.log")
    }))
}

/// The paths of a worker's logs of samples.
fn logs(job: &JobSpec, worker: usize) -> impl Iterator<Item = PathBuf> {
    let o = &job.options;
    let latencies = ["clat", "lat", "slat"].map(|kind| (&o.write_lat_log, kind));
    let others = [(&o.write_bw_log, "bw"), (&o.write_iops_log, "iops"), (&o.write_hist_log, "clat_hist")];
    latencies.into_iter().chain(others).filter_map(move |(name, kind)| log(job, worker, name, kind))
}

/// The logs that all workers of the job write together, and those of other jobs that name the same (`per_job_logs=0`).
pub(crate) fn shared_logs(job: &JobSpec) -> Vec<PathBuf> {
    if job.options.per_job_logs { Vec::new() } else { logs(job, 0).collect() }
}

/// The path of a worker's log of operations; workers of a job beyond the first put their number behind the name.
pub(crate) fn iolog(name: &str, clone: u32) -> PathBuf {
    match clone {
        0 => PathBuf::from(name),
        clone => PathBuf::from(format!("{name}.{clone}")),
    }
}

/// The path of what a command prints; `when` is prerun or postrun.
pub(crate) fn printed(job: &JobSpec, when: &str) -> PathBuf {
    PathBuf::from(format!("{}.{when}.txt", job.name))
}

/// Everything that a worker will write beside its targets, with a name that is known beforehand.
pub(crate) fn of_worker(job: &JobSpec, worker: usize, clone: u32) -> Vec<PathBuf> {
    let o = &job.options;
    let commands = [(&o.exec_prerun, "prerun"), (&o.exec_postrun, "postrun")];
    let printed = commands.into_iter().filter(|(command, _)| command.is_some()).map(|(_, when)| printed(job, when));
    logs(job, worker).chain(o.write_iolog.as_deref().map(|name| iolog(name, clone))).chain(printed).collect()
}
