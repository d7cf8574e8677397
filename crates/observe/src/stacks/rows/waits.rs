//! Waits, with the kernel's stack that they ended with.

use pagelab_recording::RecordingWriter;
use pagelab_recording::tables::WaitStacksRow;

use crate::stacks::Stacks;
use crate::watcher::WaitStack;

/// Writes the waits that are there, and empties the list.
pub(super) fn write(waits: &mut Vec<WaitStack>, stacks: &mut Stacks, writer: &mut RecordingWriter) {
    for wait in waits.drain(..) {
        writer.push(&WaitStacksRow {
            ts: wait.ts,
            task_id: wait.task_id,
            off_state: wait.off_state,
            iowait: wait.iowait,
            call: wait.call,
            by: wait.by,
            kstack_id: stacks.kernel_only(&wait.addrs),
            samples: wait.samples,
            weight_ns: wait.weight_ns,
        });
    }
}
