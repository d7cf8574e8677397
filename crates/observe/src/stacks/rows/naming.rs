//! Frames and stacks as rows, and their names, which are looked up when the workload has ended.

use std::collections::{HashMap, HashSet};

use pagelab_recording::tables::{FramesRow, StacksRow};
use pagelab_recording::{NamedStacks, Recording, RecordingWriter};
use pagelab_vocab::budget::AnchorsFound;
use serde_json::{Value, json};

use crate::stacks::{Frame, Lacks, Names, Stacks, stack_id};
use crate::watcher::Closing;

/// Stacks that are given new ids between two parts of the table, so that few of them are in memory.
const STACKS_PER_PART: usize = 20_000;
/// Modules of which the manifest says why they have frames without names: those with the most of them.
const LACKS_MAX: usize = 100;

/// Writes the frames and stacks that were met for the first time.
pub(super) fn write_new(stacks: &mut Stacks, writer: &mut RecordingWriter) {
    let (frames, new_stacks) = stacks.take_new();
    for (id, frame) in &frames {
        push_frame(*id, frame, writer);
    }
    for (stack_id, frame_ids) in &new_stacks {
        writer.push(&StacksRow { stack_id: *stack_id, frame_ids });
    }
}

fn push_frame(frame_id: u64, frame: &Frame, writer: &mut RecordingWriter) {
    writer.push(&FramesRow {
        frame_id,
        symbol: frame.symbol.as_deref(),
        module: frame.module.as_deref(),
        build_id: frame.build_id.as_deref(),
        module_offset: frame.module_offset,
        kernel: frame.kernel,
        inlined: frame.inlined,
    });
}

/// What came of looking up names.
pub(super) struct Naming {
    /// Frames that have one.
    pub named: usize,
    /// All of them.
    pub frames: usize,
    /// The anchors that the kernel has; none if its functions cannot be read.
    pub anchors: Option<AnchorsFound>,
    /// What has no name, and why.
    pub lacks: Lacks,
    /// Files in which nothing was looked up, each with the reason.
    pub unnamed: Vec<(String, &'static str)>,
}

/// What has no name, and why, for the manifest.
pub(super) fn told(lacks: &Lacks) -> Vec<Value> {
    let mut all: Vec<_> = lacks.iter().collect();
    all.sort_by_key(|((module, build_id), lack)| (std::cmp::Reverse(lack.frames), module, build_id));
    let one = |((module, build_id), lack): &(&(Vec<u8>, Option<String>), &crate::stacks::Lack)| {
        json!({
            "module": String::from_utf8_lossy(module), "build_id": build_id,
            "frames": lack.frames, "reasons": lack.reasons,
        })
    };
    all.iter().take(LACKS_MAX).map(one).collect()
}

/// Looks up the names of all frames and writes frames and stacks as they are with names.
pub(super) fn name(stacks: &mut Stacks, closing: &mut Closing<'_>) -> pagelab_recording::Result<Naming> {
    // The rows written so far are read back: a recording of any length has its stacks on disk, not in memory. Looking
    // up names takes root's rights, writing them those of the recording's owner.
    let (writer, flush) = (&mut *closing.writer, closing.flush);
    flush(writer)?;
    let recording = Recording::open(writer.dir())?;
    let (mut became, mut finals) = (HashMap::new(), HashSet::new());
    let mut named = 0;
    let Names { frames, anchors, lacks, unnamed } = stacks.name_all(closing.hurry);
    for (old, frames) in frames {
        named += usize::from(frames.iter().any(|frame| frame.symbol.is_some()));
        let ids: Vec<u64> = frames.iter().map(Frame::id).collect();
        for (id, frame) in ids.iter().zip(&frames) {
            if finals.insert(*id) {
                push_frame(*id, frame, writer);
            }
        }
        became.insert(old, ids);
    }
    let mut changes = NamedStacks::default();
    changes.retired_frames.extend(became.keys().filter(|old| !finals.contains(*old)));
    let (mut written, mut flushed) = (HashSet::new(), Ok(()));
    recording.for_each::<StacksRow>(|row| {
        let new_frames = |old| became.get(old).map_or(std::slice::from_ref(old), Vec::as_slice);
        let ids: Vec<u64> = row.frame_ids.iter().flat_map(new_frames).copied().collect();
        let new = stack_id(&ids);
        if new == row.stack_id || changes.stacks.insert(row.stack_id, new).is_some() || !written.insert(new) {
            return;
        }
        writer.push(&StacksRow { stack_id: new, frame_ids: &ids });
        if written.len() % STACKS_PER_PART == 0 && flushed.is_ok() {
            flushed = flush(writer);
        }
    })?;
    flushed?;
    writer.set_named_stacks(changes);
    Ok(Naming { named, frames: became.len(), anchors, lacks, unnamed })
}
