//! Where the runs of a side were made, and what recording them cost and lost.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pagelab_analysis::AnalysisError;
use pagelab_analysis::compare::SideRuns;
use pagelab_recording::{Manifest, ProbeState, Recording};
use pagelab_views::run::load_loss;
use schemars::JsonSchema;
use serde::Serialize;

use crate::typical::counted;

/// One side's hosts and recorders.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Recorders {
    /// Facts that the runs have, each value once: `host`, `kernel`, `CPUs`, `virtualisation`, `pagelab`.
    facts: BTreeMap<&'static str, BTreeSet<String>>,
    /// CPU time of the recorder, mean of the runs that know it, ns; with loading probes and closing the recording.
    cpu_ns: Option<f64>,
    /// Events seen and lost over all runs, by stream.
    events: BTreeMap<String, [u64; 2]>,
    /// Probes that the host refused, with the reason.
    refused: BTreeMap<String, String>,
}

impl Recorders {
    /// Of the runs of a side that count.
    ///
    /// # Errors
    /// A recording cannot be read.
    pub(crate) fn of(side: &SideRuns) -> Result<Self, AnalysisError> {
        let mut recorders = Self::default();
        let mut costs = Vec::new();
        for run in counted(side) {
            let recording = Recording::open(Path::new(&run.dir))?;
            let manifest = recording.manifest();
            recorders.note(manifest);
            costs.extend(manifest.self_cost.cpu_ns);
            for (stream, loss) in load_loss(&recording)? {
                let counted = recorders.events.entry(stream).or_default();
                counted[0] = counted[0].saturating_add(loss.seen);
                counted[1] = counted[1].saturating_add(loss.lost);
            }
        }
        recorders.cpu_ns =
            (!costs.is_empty()).then(|| costs.iter().map(|ns| *ns as f64).sum::<f64>() / costs.len() as f64);
        Ok(recorders)
    }

    fn note(&mut self, manifest: &Manifest) {
        let facts = [
            ("host", manifest.host.clone()),
            ("kernel", manifest.kernel.clone()),
            ("CPUs", manifest.cpus.map(|cpus| cpus.to_string())),
            ("virtualisation", manifest.virt.clone()),
            ("pagelab", Some(manifest.pagelab_version.clone())),
        ];
        for (name, value) in facts {
            if let Some(value) = value {
                self.facts.entry(name).or_default().insert(value);
            }
        }
        for probe in manifest.probes.iter().filter(|probe| probe.state == ProbeState::Refused) {
            let reason = probe.reason.clone().unwrap_or_else(|| "no reason is recorded".to_owned());
            self.refused.entry(probe.name.clone()).or_insert(reason);
        }
    }
}
