//! `show DIR io`: what processes did with files: opens, reads, writes, their sizes and their order in the file.

mod heatmap;

use std::collections::HashMap;

use pagelab_recording::Recording;
use pagelab_vocab::streams::Stream;
use pagelab_vocab::syscalls::{self, Returns, Transfer};
use serde::Serialize;

use super::faults::count::FaultScale;
use super::faults::join::{Join, Mappings};
use super::syscalls::CallFilter;
use crate::absence;
use crate::answer::Answer;
use crate::calls::{self, Call, Files};
use crate::error::Result;
use crate::iopattern::{Classifier, Direction, FileUse, Pattern, Shares};
use crate::mappings::ProfileOptions;
use crate::read::{self, PathText, Tasks};
use crate::selection::{PICTURE_COLUMNS, Selection, cut};

pub use heatmap::{Drawn, Heatmap};

/// The picture of the view: of one file, in so many rows.
const FILES: usize = 1;
const ROWS: usize = 12;

/// Reads or writes of about one size.
#[derive(Debug, Serialize)]
pub struct Size {
    /// Sizes from this power of two to twice that.
    pub from_bytes: u64,
    /// Calls.
    pub calls: u64,
}

/// Reads of a file, or writes.
#[derive(Debug, Serialize)]
pub struct OneDirection {
    /// Calls.
    pub calls: u64,
    /// Of those, calls that failed.
    pub errors: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Mean size of those that moved anything, bytes.
    pub mean_bytes: Option<f64>,
    /// Time in these calls, ns.
    pub time_ns: u64,
    /// Null if there are fewer than two operations with an offset.
    pub pattern: Option<Pattern>,
    /// Operations by kind, where the offset is known.
    pub kinds: Shares,
    /// Calls by size.
    pub sizes: Vec<Size>,
}

/// The I/O of one process on one file.
#[derive(Debug, Serialize)]
pub struct OneFile {
    /// Process id; null if the task is not known.
    pub pid: Option<i32>,
    /// Name of the task; null if it is not known.
    pub comm: Option<String>,
    /// The file, unique in the recording.
    pub file_id: u32,
    /// Its path, or what is known if it has none.
    pub name: String,
    /// Path of the file.
    #[serde(flatten)]
    pub path: PathText,
    /// File system.
    pub fs: Option<String>,
    /// Type of the file.
    #[serde(rename = "type")]
    pub file_type: Option<String>,
    /// Opens that succeeded.
    pub opens: u64,
    /// Reads.
    pub reads: OneDirection,
    /// Writes.
    pub writes: OneDirection,
    /// Copies within the kernel, such as sendfile.
    pub copies: u64,
    /// Bytes copied so.
    pub copied_bytes: u64,
}

/// A file that was read and written through memory.
#[derive(Debug, Serialize)]
pub struct Mapped {
    /// Process id; null if the task is not known.
    pub pid: Option<i32>,
    /// Path of the file.
    #[serde(flatten)]
    pub path: PathText,
    /// Mappings of the file.
    pub mappings: u64,
    /// Faults on these mappings.
    pub faults: u64,
}

/// Calls that only submit operations.
#[derive(Debug, Serialize)]
pub struct Submitted {
    /// Name of the call.
    pub name: String,
    /// Calls.
    pub calls: u64,
    /// What the calls returned, in all.
    pub operations: u64,
}

/// Reads and writes, one row per process and file.
#[derive(Debug, Serialize)]
pub struct IoView {
    /// Rows, ranked.
    pub files: Vec<OneFile>,
    /// Rows before the list was cut.
    pub files_total: usize,
    /// Sizes of all reads selected.
    pub sizes_read: Vec<Size>,
    /// Sizes of all writes selected.
    pub sizes_written: Vec<Size>,
    /// The heatmap of the first file with offsets; null if there is none.
    pub heatmap: Option<Heatmap>,
    /// Null if no faults were recorded.
    pub mapped: Option<Vec<Mapped>>,
    /// Rows before the list was cut; null without a list.
    pub mapped_total: Option<usize>,
    /// Calls that only submit operations.
    pub submitted: Vec<Submitted>,
}

type Key = (Option<i32>, u32);

/// Everything that one pass over the calls counts.
#[derive(Default)]
struct Pass {
    uses: HashMap<Key, FileUse>,
    classifier: Classifier,
    submitted: HashMap<String, (u64, u64)>,
    /// Reads and writes of descriptors whose file is not known.
    unknown: u64,
    selected: u64,
}

impl Pass {
    fn take(&mut self, call: &Call<'_>, kind: Option<Kind>, pid: Option<i32>) {
        self.selected += 1;
        let Some(kind) = kind else { return };
        if kind == Kind::Submits {
            let (calls, operations) = self.submitted.entry(call.name.to_owned()).or_default();
            *calls += 1;
            *operations += call.ret.and_then(|ret| u64::try_from(ret).ok()).unwrap_or(0);
            return;
        }
        let Some(file) = call.file_id else {
            self.unknown += u64::from(kind != Kind::Opens && call.errno().is_none());
            return;
        };
        let file_use = self.uses.entry((pid, file)).or_default();
        match kind {
            Kind::Opens => file_use.opens += u64::from(call.ret.is_some_and(|ret| ret >= 0)),
            Kind::Reads => file_use.moved(call, false, &mut self.classifier),
            Kind::Writes => file_use.moved(call, true, &mut self.classifier),
            Kind::Copies => file_use.copied(call),
            Kind::Submits => {}
        }
    }
}

/// What a call does to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Opens,
    Reads,
    Writes,
    Copies,
    Submits,
}

fn kind_of(name: &str) -> Option<Kind> {
    let def = syscalls::by_name(name)?;
    match def.transfer {
        Some(Transfer::Read) => Some(Kind::Reads),
        Some(Transfer::Write) => Some(Kind::Writes),
        Some(Transfer::Copy) => Some(Kind::Copies),
        Some(Transfer::Submit) => Some(Kind::Submits),
        None => (def.returns == Returns::Fd && def.classes.contains(syscalls::Class::File)).then_some(Kind::Opens),
    }
}

/// Makes the view.
pub fn collect(recording: &Recording, selection: &Selection) -> Result<Answer<IoView>> {
    let columns = selection.columns.unwrap_or(PICTURE_COLUMNS);
    let (mut answer, heatmaps) = collect_with(recording, selection, Drawn { files: FILES, columns, rows: ROWS })?;
    answer.data.heatmap = heatmaps.into_iter().next();
    Ok(answer)
}

/// The view without its heatmap, and the heatmaps of the first files that have offsets, as many and as large as asked for.
pub fn collect_with(
    recording: &Recording,
    selection: &Selection,
    drawn: Drawn,
) -> Result<(Answer<IoView>, Vec<Heatmap>)> {
    let sort = selection.sort_by(&["bytes", "read", "written", "reads", "writes", "opens", "time", "file"])?;
    let mut notes = Vec::new();
    let tasks = Tasks::load(recording, selection, &mut notes)?;
    let files = Files::load(recording, &mut notes)?;
    let filter = CallFilter::new(selection, &tasks, &files)?;
    let mut pass = Pass::default();
    let mut kinds: Vec<Option<Option<Kind>>> = Vec::new();
    let scanned = calls::scan(recording, false, |call| {
        if filter.wants(call) {
            if kinds.len() <= call.name_id {
                kinds.resize(call.name_id + 1, None);
            }
            let kind = kinds.get_mut(call.name_id).and_then(|known| *known.get_or_insert_with(|| kind_of(call.name)));
            pass.take(call, kind, tasks.get(call.task_id).map(|task| task.pid));
        }
    })?;
    notes.extend(scanned.left_out.iter().map(|what| format!("left out: {what}")));
    read::lost(recording, Stream::Syscalls, &mut notes)?;
    absence::nothing(recording, Stream::Syscalls, "calls", scanned.calls, pass.selected, &mut notes)?;
    let mapped = mapped(recording, selection, &tasks, &mut notes)?;
    unseen(&pass, &mut notes);
    let mut rows: Vec<OneFile> = pass.uses.iter().map(|(key, file_use)| one(*key, file_use, &files, &tasks)).collect();
    order(&mut rows, sort);
    let limit = selection.limit(true);
    let (files_shown, files_total) = cut(rows, limit);
    let heatmaps = heatmap::of_files(recording, &files_shown, &pass.uses, &filter, drawn)?;
    let (mapped, mapped_total) = mapped.map(|rows| cut(rows, limit)).unzip();
    let mut submitted: Vec<Submitted> = pass
        .submitted
        .iter()
        .map(|(name, (calls, operations))| Submitted { name: name.clone(), calls: *calls, operations: *operations })
        .collect();
    submitted.sort_by(|a, b| a.name.cmp(&b.name));
    let all = |pick: fn(&FileUse) -> &Direction| sizes_of(pass.uses.values().map(pick));
    let data = IoView {
        files: files_shown,
        files_total,
        sizes_read: all(|file_use| &file_use.reads),
        sizes_written: all(|file_use| &file_use.writes),
        heatmap: None,
        mapped,
        mapped_total,
        submitted,
    };
    Ok((Answer::new("io", recording, notes, data), heatmaps))
}

/// What the calls do not show is said.
fn unseen(pass: &Pass, notes: &mut Vec<String>) {
    if pass.unknown > 0 {
        notes.push(format!("{} reads and writes were of descriptors whose file is not known", pass.unknown));
    }
    if !pass.submitted.is_empty() {
        let mut names: Vec<&str> = pass.submitted.keys().map(String::as_str).collect();
        names.sort_unstable();
        notes.push(format!(
            "operations submitted by {} are unseen here, with their files and sizes: the calls carry none of it; what \
             of it reached a device is seen by: pagelab record --observe block",
            names.join(" and ")
        ));
    }
}

/// Faults on mapped files.
fn mapped(
    recording: &Recording,
    selection: &Selection,
    tasks: &Tasks,
    notes: &mut Vec<String>,
) -> Result<Option<Vec<Mapped>>> {
    if recording.parts("faults")?.is_empty() || recording.parts("mappings")?.is_empty() {
        let needed = "reads and writes through mapped files are unseen; their faults are recorded by: pagelab record \
                      --observe faults,maps,tasks,syscalls";
        notes.push(needed.to_owned());
        return Ok(None);
    }
    let mappings = Mappings::load(recording, notes)?;
    // Slots are not looked at here.
    let huge_bytes = ProfileOptions::of_recording(recording, &mut Vec::new())?.huge_bytes;
    let join = Join { selection, tasks, mappings: &mappings, scale: FaultScale::of(recording, huge_bytes) };
    let joined = join.run(recording, notes)?;
    let mut found: HashMap<(Option<i32>, Vec<u8>), (u64, u64)> = HashMap::new();
    for (id, on) in &joined.mappings {
        let Some(mapping) = mappings.get(*id) else { continue };
        let Some(path) = mapping.path.as_deref().filter(|path| path.starts_with(b"/")) else { continue };
        let pid = tasks.get(mapping.task_id).map(|task| task.pid);
        let (count, faults) = found.entry((pid, path.to_vec())).or_default();
        *count += 1;
        *faults += on.faults;
    }
    let mut rows: Vec<Mapped> = found
        .into_iter()
        .map(|((pid, path), (mappings, faults))| Mapped { pid, path: PathText::of(Some(&path)), mappings, faults })
        .collect();
    rows.sort_by(|a, b| (b.faults, &a.path.path, a.pid).cmp(&(a.faults, &b.path.path, b.pid)));
    Ok(Some(rows))
}

fn sizes_of<'a>(directions: impl Iterator<Item = &'a Direction>) -> Vec<Size> {
    let mut sums = [0; 64];
    for direction in directions {
        sums.iter_mut().zip(&direction.sizes).for_each(|(sum, count)| *sum += count);
    }
    let all = Direction { sizes: sums, ..Direction::default() };
    all.histogram().map(|(from_bytes, calls)| Size { from_bytes, calls }).collect()
}

fn direction(direction: &Direction) -> OneDirection {
    OneDirection {
        calls: direction.calls,
        errors: direction.errors,
        bytes: direction.bytes,
        mean_bytes: direction.mean_bytes(),
        time_ns: direction.ns,
        pattern: direction.shares.pattern(),
        kinds: direction.shares,
        sizes: sizes_of(std::iter::once(direction)),
    }
}

fn one((pid, file_id): Key, file_use: &FileUse, files: &Files, tasks: &Tasks) -> OneFile {
    let file = files.get(file_id);
    let comm = tasks.0.values().find(|task| Some(task.pid) == pid && task.tid == task.pid).and_then(|task| task.comm());
    OneFile {
        pid,
        comm: comm.map(str::to_owned),
        file_id,
        name: read::file_title(file_id, file),
        path: PathText::of(file.and_then(|file| file.path.as_deref())),
        fs: file.and_then(|file| file.fs.clone()),
        file_type: file.and_then(|file| file.file_type.clone()),
        opens: file_use.opens,
        reads: direction(&file_use.reads),
        writes: direction(&file_use.writes),
        copies: file_use.copies,
        copied_bytes: file_use.copied_bytes,
    }
}

fn order(rows: &mut [OneFile], sort: &str) {
    let key = |row: &OneFile| match sort {
        "read" => row.reads.bytes,
        "written" => row.writes.bytes,
        "reads" => row.reads.calls,
        "writes" => row.writes.calls,
        "opens" => row.opens,
        "time" => row.reads.time_ns + row.writes.time_ns,
        "file" => 0,
        _ => row.reads.bytes.saturating_add(row.writes.bytes).saturating_add(row.copied_bytes),
    };
    rows.sort_by(|a, b| (key(b), &a.name, a.pid, a.file_id).cmp(&(key(a), &b.name, b.pid, b.file_id)));
}
