//! The stream `dax`: faults on files of DAX file systems.

use std::rc::Rc;

use pagelab_observe::btf::KernelTypes;
use pagelab_observe::dax::{self, DaxProbe};
use pagelab_observe::streams::Stream;
use pagelab_recording::RecordingWriter;
use pagelab_recording::tables::DaxFaultsRow;

use super::watcher::{Count, Scope, Watched, Watcher};
use crate::options::SessionOptions;

/// The streams that it fills.
pub const STREAMS: &[Stream] = &[Stream::Dax];

/// The probe, once there is a target.
struct DaxWatcher {
    kernel: Rc<KernelTypes>,
    probe: Option<DaxProbe>,
}

/// Finds out whether the kernel can be asked.
pub fn open(_: &SessionOptions) -> Result<Box<dyn Watcher>, String> {
    let kernel = dax::check()?;
    Ok(Box::new(DaxWatcher { kernel, probe: None }))
}

impl Watcher for DaxWatcher {
    fn streams(&self) -> &'static [Stream] {
        STREAMS
    }

    fn rung(&self) -> &'static str {
        "bpf"
    }

    fn takes(&self, _: &Scope<'_>) -> Result<(), String> {
        Ok(())
    }

    fn begin(&mut self, watched: &Watched<'_>) -> Result<(), String> {
        let Some(task_states) = watched.task_states else {
            return Err("the recorded tree is known to BPF only, which is not to be had".to_owned());
        };
        self.probe = Some(DaxProbe::attach(&self.kernel, task_states).map_err(|error| error.to_string())?);
        Ok(())
    }

    fn step(&mut self, _: i64, writer: &mut RecordingWriter) {
        let Some(probe) = &mut self.probe else { return };
        let columns = writer.table::<DaxFaultsRow<'_>>();
        probe.drain(|fault| {
            columns.push(&DaxFaultsRow {
                ts: fault.ts as i64,
                task_id: fault.task_id,
                kind: fault.kind,
                dev: fault.dev,
                ino: fault.ino,
                addr: fault.addr,
                vm_start: fault.area.start,
                vm_end: fault.area.end,
                vm_flags: fault.vm_flags,
                pgoff: fault.pgoff,
                max_pgoff: fault.max_pgoff,
                reason: fault.reason,
                flags: fault.flags,
                result: fault.result,
                outcome: fault.outcome.as_deref(),
            });
        });
    }

    fn counts(&self) -> Vec<Count> {
        let Some(probe) = &self.probe else { return Vec::new() };
        let counts = probe.counts();
        vec![Count { stream: Stream::Dax.name(), cpu: None, seen: counts.seen, lost: counts.lost, filtered: 0 }]
    }

    fn shed(&mut self, _: Stream) -> bool {
        self.stop();
        true
    }

    fn stop(&mut self) {
        if let Some(probe) = &mut self.probe {
            probe.detach();
        }
    }
}
