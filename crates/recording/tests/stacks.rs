//! Stacks get other ids when their frames are named: at a clean end every row refers to the new ones, and nothing of the
//! old ones is left; without a clean end everything is as it was while recording.
#![allow(clippy::unwrap_used, reason = "what is missing here has failed the test")]

use std::collections::BTreeSet;
use std::path::Path;

use pagelab_recording::tables::{FramesRow, MappingsRow, OffcpuRow, SamplesRow, StacksRow};
use pagelab_recording::{Manifest, NamedStacks, Recording, RecordingWriter, WriterOptions};

/// Frames 1, 2 and 3 in stacks 10 (1, 2) and 11 (3). Frame 1 becomes 101 and 102, frame 2 becomes 103; 3 stays nameless.
fn write(dir: &Path, options: WriterOptions) -> RecordingWriter {
    let mut writer = RecordingWriter::create(dir, Manifest::default(), options).unwrap();
    let frame = |frame_id, symbol| FramesRow { frame_id, symbol, ..FramesRow::default() };
    for id in [1, 2, 3] {
        writer.push(&frame(id, None));
    }
    writer.push(&StacksRow { stack_id: 10, frame_ids: &[1, 2] });
    writer.push(&StacksRow { stack_id: 11, frame_ids: &[3] });
    let sample =
        |ts, kstack_id, ustack_id| SamplesRow { ts, kstack_id, ustack_id, event: "cpu-clock", ..SamplesRow::default() };
    writer.push(&sample(1, None, Some(10)));
    writer.push(&sample(2, Some(11), Some(10)));
    writer.flush(3).unwrap();
    writer.push(&sample(4, Some(10), None));
    writer.push(&OffcpuRow { ts: 5, ustack_id: Some(10), kstack_id: Some(11), ..OffcpuRow::default() });
    writer.push(&MappingsRow { ts: 6, op: "mmap", kind: "call", ustack_id: Some(10), ..MappingsRow::default() });
    for (id, name) in [(101, "inlined"), (102, "outer"), (103, "main")] {
        writer.push(&frame(id, Some(name)));
    }
    writer.push(&StacksRow { stack_id: 20, frame_ids: &[101, 102, 103] });
    writer.set_named_stacks(NamedStacks { stacks: [(10, 20)].into(), retired_frames: [1, 2].into() });
    writer
}

/// Stack ids of samples, and of the two other tables; ids of stacks; ids of frames.
type Read = (Vec<(Option<u64>, Option<u64>)>, Vec<Option<u64>>, BTreeSet<u64>, BTreeSet<u64>);

fn read(dir: &Path) -> Read {
    let recording = Recording::open(dir).unwrap();
    let (mut samples, mut others) = (Vec::new(), Vec::new());
    let (mut stacks, mut frames) = (BTreeSet::new(), BTreeSet::new());
    recording.for_each::<SamplesRow>(|row| samples.push((row.kstack_id, row.ustack_id))).unwrap();
    recording.for_each::<OffcpuRow>(|row| others.extend([row.kstack_id, row.ustack_id])).unwrap();
    recording.for_each::<MappingsRow>(|row| others.push(row.ustack_id)).unwrap();
    recording
        .for_each::<StacksRow>(|row| assert!(stacks.insert(row.stack_id), "{} is there twice", row.stack_id))
        .unwrap();
    recording
        .for_each::<FramesRow>(|row| assert!(frames.insert(row.frame_id), "{} is there twice", row.frame_id))
        .unwrap();
    (samples, others, stacks, frames)
}

#[test]
fn a_clean_end_puts_the_new_ids_everywhere() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("rec");
    write(&dir, WriterOptions::default()).close(|_| ()).unwrap();
    let (samples, others, stacks, frames) = read(&dir);
    assert_eq!(samples, [(None, Some(20)), (Some(11), Some(20)), (Some(20), None)]);
    assert_eq!(others, [Some(11), Some(20), Some(20)]);
    assert_eq!(stacks, [11, 20].into());
    assert_eq!(frames, [3, 101, 102, 103].into());
}

#[test]
fn without_a_clean_end_the_first_ids_hold() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("rec");
    let mut writer = write(&dir, WriterOptions::default());
    writer.flush(7).unwrap();
    drop(writer);
    let (samples, _, stacks, frames) = read(&dir);
    assert_eq!(samples[0], (None, Some(10)));
    assert!(stacks.is_superset(&[10, 11].into()) && frames.is_superset(&[1, 2, 3].into()));
}
