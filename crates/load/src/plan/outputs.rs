//! Names of the files that workers write beside the targets: logs, and what commands of the job print.

use std::path::PathBuf;

use pagelab_fiojob::JobSpec;
use pagelab_fiojob::value::LogName;

/// The logs of all workers together, by direction (`--bandwidth-log`).
pub(crate) const AGGREGATES: [&str; 3] = ["agg-read_bw.log", "agg-write_bw.log", "agg-trim_bw.log"];

/// The path of a worker's log of this kind (`clat`, `bw`); `None` if the job does not want it. Workers of all jobs are counted from 1,
/// as in fio.
pub(crate) fn log(job: &JobSpec, worker: usize, name: &LogName, kind: &str) -> Option<PathBuf> {
    let prefix = match name {
        LogName::None => return None,
        LogName::Job => &job.name,
        LogName::Prefix(prefix) => prefix,
    };
    Some(PathBuf::from(if job.options.per_job_logs {
        format!("{prefix}_{kind}.{}.log", worker + 1)
    } else {
        format!("{prefix}_{kind}.log")
    }))
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
    let latencies = ["clat", "lat", "slat"].map(|kind| (&o.write_lat_log, kind));
    let others = [(&o.write_bw_log, "bw"), (&o.write_iops_log, "iops"), (&o.write_hist_log, "clat_hist")];
    let logs = latencies.into_iter().chain(others).filter_map(|(name, kind)| log(job, worker, name, kind));
    let commands = [(&o.exec_prerun, "prerun"), (&o.exec_postrun, "postrun")];
    let printed = commands.into_iter().filter(|(command, _)| command.is_some()).map(|(_, when)| printed(job, when));
    logs.chain(o.write_iolog.as_deref().map(|name| iolog(name, clone))).chain(printed).collect()
}
