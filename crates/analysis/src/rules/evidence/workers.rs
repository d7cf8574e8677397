//! Time that the workers of a load had, used and waited.

use std::collections::BTreeMap;

use pagelab_recording::Recording;
use pagelab_recording::tables::JobsRow;

use crate::error::Result;

/// All workers of a load together. Their names are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Workers {
    /// Measured time, added up over workers.
    pub runtime_ns: f64,
    /// Of that, in user mode; `None` unless every worker has it.
    pub user_ns: Option<f64>,
    /// Of that, in the kernel.
    pub system_ns: Option<f64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Worker {
    runtime_ns: f64,
    user_pct: Option<f64>,
    system_pct: Option<f64>,
}

/// Adds up the table `jobs`; `None` without rows. A worker has a row for each direction, and each of these rows gives
/// the use of the whole worker.
pub(super) fn load(recording: &Recording) -> Result<Option<Workers>> {
    let mut found: BTreeMap<(String, Option<u32>), Worker> = BTreeMap::new();
    recording.for_each::<JobsRow>(|row| {
        let worker = found.entry((row.job.to_owned(), row.thread)).or_default();
        let runtime_ns = row.runtime_ns as f64;
        if runtime_ns >= worker.runtime_ns {
            *worker = Worker { runtime_ns, user_pct: row.usr, system_pct: row.sys };
        }
    })?;
    // Rows of the whole job and of its threads say the same twice.
    let by_thread = found.keys().any(|(_, thread)| thread.is_some());
    let workers: Vec<&Worker> =
        found.iter().filter(|((_, thread), _)| !by_thread || thread.is_some()).map(|(_, worker)| worker).collect();
    if workers.is_empty() {
        return Ok(None);
    }
    let sum = |share: fn(&Worker) -> Option<f64>| -> Option<f64> {
        workers.iter().map(|worker| Some(share(worker)? / 100.0 * worker.runtime_ns)).sum()
    };
    Ok(Some(Workers {
        runtime_ns: workers.iter().map(|worker| worker.runtime_ns).sum(),
        user_ns: sum(|worker| worker.user_pct),
        system_ns: sum(|worker| worker.system_pct),
    }))
}
