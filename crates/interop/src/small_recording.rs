//! A recording with one event of each kind, for the tests of what is made of recordings.

use std::path::Path;

use pagelab_recording::tables::{FaultsRow, FramesRow, OffcpuRow, SamplesRow, StacksRow, SyscallsRow, TasksRow};
use pagelab_recording::{Manifest, Recording, RecordingWriter, WriterOptions};

/// Records into `folder`: one task, a sample and a fault at each of `sampled_ns`, a call, a wait, and what `more` adds.
pub(crate) fn small_recording(folder: &Path, sampled_ns: &[i64], more: impl FnOnce(&mut RecordingWriter)) -> Recording {
    let mut writer = RecordingWriter::create(folder, Manifest::default(), WriterOptions::default()).expect("created");
    let fork = TasksRow { op: "fork", task_id: 1, tid: 9, pid: 9, comm: Some("sh"), ..TasksRow::default() };
    writer.push(&fork);
    writer.push(&TasksRow { ts: 5, op: "exec", comm: Some("work"), ..fork });
    writer.push(&FramesRow { frame_id: 1, symbol: Some("main"), ..FramesRow::default() });
    writer.push(&StacksRow { stack_id: 7, frame_ids: &[1] });
    for &ts in sampled_ns {
        let sample = SamplesRow { ts, task_id: 1, event: "cpu-clock", weight: 10, ..SamplesRow::default() };
        writer.push(&SamplesRow { ustack_id: Some(7), ..sample });
        writer.push(&FaultsRow { ts, task_id: 1, addr: 0x1000, ..FaultsRow::default() });
    }
    let call = SyscallsRow { ts: 40, dur: Some(5), task_id: 1, name: "read", ret: Some(3), ..SyscallsRow::default() };
    writer.push(&call);
    writer.push(&OffcpuRow { ts: 50, dur: Some(8), task_id: 1, state: Some("S"), ..OffcpuRow::default() });
    more(&mut writer);
    writer.close(|_| {}).expect("closed");
    Recording::open(folder).expect("opened")
}
