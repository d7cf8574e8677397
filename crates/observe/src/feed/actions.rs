//! Mapping actions on their way into the table `mappings`.

use pagelab_recording::RecordingWriter;
use pagelab_recording::tables::MappingsRow;

use crate::bpf::MapEvent;

/// A mapping action that was made with a stack, while the stack is worked on.
#[derive(Debug, Clone)]
pub struct MapAction {
    pub(crate) event: MapEvent,
    pub(super) mapping_id: Option<u32>,
    pub(super) path: Option<Vec<u8>>,
    pub(super) by_perf: bool,
}

impl MapAction {
    /// When the call returned, CLOCK_MONOTONIC ns.
    pub(crate) fn returned_ns(&self) -> u64 {
        self.event.returned_ns()
    }

    /// Appends its row, with the stack that the call was made from.
    pub(crate) fn push(&self, ustack_id: Option<u64>, writer: &mut RecordingWriter) {
        let Self { event, mapping_id, path, by_perf } = self;
        Row { event, mapping_id: *mapping_id, path: path.as_deref(), by_perf: *by_perf }.push(ustack_id, writer);
    }
}

/// What a task or the kernel mapped, took away or gave advice about, with all that its row needs but the stack.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<'a> {
    /// As it was seen.
    pub event: &'a MapEvent,
    /// The mapping that it left behind.
    pub mapping_id: Option<u32>,
    /// The file's path, or the kernel's name for such memory.
    pub path: Option<&'a [u8]>,
    /// perf reports memory areas and not calls: the address that a call asked for is not known.
    pub by_perf: bool,
}

impl Row<'_> {
    /// The same, kept until its stack is known.
    pub(super) fn to_action(self) -> MapAction {
        let Self { event, mapping_id, path, by_perf } = self;
        MapAction { event: event.clone(), mapping_id, path: path.map(<[u8]>::to_vec), by_perf }
    }

    /// Appends it to the recording.
    pub(super) fn push(self, ustack_id: Option<u64>, writer: &mut RecordingWriter) {
        let Self { event, mapping_id, path, by_perf } = self;
        let called = event.kind == "call";
        // Memory that a call maps is there when it returns; memory that it unmaps is gone some time after it begins.
        let ts = if mapping_id.is_some() && called { event.returned_ns() } else { event.ts } as i64;
        let has_file = event.ino != 0 || path.is_some_and(|path| path.first() == Some(&b'/'));
        let (mremap, brk) = (event.op == "mremap", event.op == "brk");
        writer.push(&MappingsRow {
            ts,
            task_id: event.task_id,
            mm_id: event.mm_id,
            mapping_id,
            op: event.op,
            kind: event.kind,
            addr: (!by_perf || !called || !matches!(event.op, "mmap" | "brk")).then_some(event.addr),
            len: (!brk).then_some(event.len),
            old_addr: (mremap || brk).then_some(event.old_addr),
            old_len: mremap.then_some(event.offset),
            prot: matches!(event.op, "mmap" | "mprotect").then_some(event.prot),
            flags: matches!(event.op, "mmap" | "mremap" | "mlock" | "shmat").then_some(event.flags),
            fd: (event.fd >= 0).then_some(event.fd),
            offset: has_file.then_some(event.offset),
            dev: has_file.then_some(event.dev),
            ino: has_file.then_some(event.ino),
            path,
            advice: matches!(event.op, "madvise" | "process_madvise" | "prctl_thp").then_some(event.advice as i32),
            ret: called.then_some(event.ret),
            ustack_id,
        });
    }
}

/// Whether the action leaves a new mapping behind.
pub(super) fn makes_mapping(event: &MapEvent) -> bool {
    match event.op {
        "mmap" | "mremap" | "shmat" => !event.failed(),
        "brk" => event.ret as u64 > event.old_addr,
        _ => false,
    }
}
