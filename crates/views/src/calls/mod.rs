//! System calls of a recording, read column by column.
//!
//! [`scan`] visits the rows of `syscalls` without making a struct of text for each: names are looked up once per batch, and
//! columns that nobody asked for are not read. Ten million calls take seconds. [`Totals`] sums calls up as `strace -c`
//! does, with percentiles of their durations.

mod totals;

use std::collections::{HashMap, HashSet};

use arrow::array::{Array, AsArray, FixedSizeListArray, PrimitiveArray, RecordBatch};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Int32Type, Int64Type, UInt32Type, UInt64Type};
use pagelab_recording::{Error, Recording};

pub use totals::{Durations, Split, Totals};

use crate::error::Result;

/// Columns that [`scan`] can read; the arguments only where they are asked for.
const COLUMNS: [&str; 12] = [
    "ts",
    "dur",
    "task_id",
    "name",
    "fd",
    "file_id",
    "offset",
    "offset_kind",
    "requested",
    "ret",
    "cpu_ns",
    "blocked_ns",
];

/// One call.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// Entry.
    pub ts: i64,
    /// Time until it returned, ns; `None` if it never did, or was refused.
    pub dur: Option<i64>,
    /// Who called.
    pub task_id: u32,
    /// Its name.
    pub name: &'a str,
    /// A number for the name, the same throughout one scan, from 0.
    pub name_id: usize,
    /// The argument registers; all 0 if they were not asked for.
    pub args: [u64; 6],
    /// Descriptor.
    pub fd: Option<i32>,
    /// File behind the descriptor.
    pub file_id: Option<u32>,
    /// Where in the file.
    pub offset: Option<u64>,
    /// Whether the offset was the file position and no argument.
    pub implied: bool,
    /// Bytes asked for.
    pub requested: Option<u64>,
    /// Result.
    pub ret: Option<i64>,
    /// Time on a CPU in the call, ns.
    pub cpu_ns: Option<u64>,
    /// Time asleep in the call, ns.
    pub blocked_ns: Option<u64>,
}

impl Call<'_> {
    /// The errno if it failed.
    pub fn errno(&self) -> Option<i64> {
        self.ret.filter(|ret| (-4095..0).contains(ret)).map(|ret| -ret)
    }
}

/// What a scan looked at.
#[derive(Debug, Default)]
pub struct Scanned {
    /// Calls in the recording.
    pub calls: u64,
    /// Damaged parts, which were left out.
    pub left_out: Vec<String>,
}

/// Visits the calls in order of time. Damaged parts are left out and named in the result. `with_args` reads the argument
/// registers too, which costs as much as everything else together.
pub fn scan(recording: &Recording, with_args: bool, mut each: impl FnMut(&Call<'_>)) -> Result<Scanned> {
    let mut columns = COLUMNS.to_vec();
    if with_args {
        columns.push("args");
    }
    let mut state = (Scanned::default(), Names::default());
    // After a clean end the parts are in order of time, and reading one after the other is cheaper.
    if recording.manifest().is_compacted() {
        walk(recording.read("syscalls", Some(&columns))?, &mut state, &mut each)?;
    } else {
        walk(recording.read_sorted("syscalls", Some(&columns))?, &mut state, &mut each)?;
    }
    Ok(state.0)
}

fn walk(
    batches: impl Iterator<Item = pagelab_recording::Result<RecordBatch>>,
    (scanned, names): &mut (Scanned, Names),
    each: &mut impl FnMut(&Call<'_>),
) -> Result<()> {
    for batch in batches {
        match batch {
            Ok(batch) => {
                scanned.calls += batch.num_rows() as u64;
                visit(&batch, names, each);
            }
            Err(error) if is_damage(&error) => scanned.left_out.push(error.to_string()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Whether an error concerns the content of one part only.
pub fn is_damage(error: &Error) -> bool {
    matches!(error, Error::BadPart { .. } | Error::MissingColumn { .. } | Error::Arrow(_) | Error::Parquet(_))
}

/// Names seen so far, numbered.
#[derive(Default)]
pub(crate) struct Names {
    ids: HashMap<String, usize>,
}

impl Names {
    fn id(&mut self, name: &str) -> usize {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id = self.ids.len();
        self.ids.insert(name.to_owned(), id);
        id
    }
}

/// A column of numbers; reads as null where it is absent.
pub(crate) struct Numbers<'a, T: ArrowPrimitiveType>(Option<&'a PrimitiveArray<T>>);

impl<'a, T: ArrowPrimitiveType> Numbers<'a, T> {
    pub(crate) fn of(batch: &'a RecordBatch, name: &str) -> Self {
        Self(batch.column_by_name(name).and_then(|column| column.as_primitive_opt::<T>()))
    }

    pub(crate) fn get(&self, row: usize) -> Option<T::Native> {
        self.0.filter(|column| column.is_valid(row)).map(|column| column.value(row))
    }
}

/// A column of text out of a dictionary: the text's number in this batch.
pub(crate) struct Texts<'a> {
    keys: Option<&'a PrimitiveArray<Int32Type>>,
    /// The texts of this batch.
    pub(crate) values: Vec<&'a str>,
}

impl<'a> Texts<'a> {
    pub(crate) fn of(batch: &'a RecordBatch, name: &str) -> Self {
        let none = Self { keys: None, values: Vec::new() };
        let Some(column) = batch.column_by_name(name) else { return none };
        let DataType::Dictionary(_, _) = column.data_type() else { return none };
        let Some(column) = column.as_dictionary_opt::<Int32Type>() else { return none };
        let Some(values) = column.values().as_string_opt::<i32>() else { return none };
        Self { keys: Some(column.keys()), values: values.iter().map(Option::unwrap_or_default).collect() }
    }

    /// The number of the row's text in `values`.
    pub(crate) fn key(&self, row: usize) -> Option<usize> {
        let keys = self.keys.filter(|keys| keys.is_valid(row))?;
        usize::try_from(keys.value(row)).ok()
    }

    pub(crate) fn get(&self, row: usize) -> Option<&'a str> {
        self.values.get(self.key(row)?).copied()
    }
}

/// The argument registers of all rows, six after six; empty if they were not asked for.
fn args_of(batch: &RecordBatch) -> &[u64] {
    let list = batch.column_by_name("args").and_then(|column| column.as_any().downcast_ref::<FixedSizeListArray>());
    let words = list.and_then(|list| list.values().as_primitive_opt::<UInt64Type>());
    words.map_or(&[], |words| words.values())
}

/// Visits the calls of a batch.
pub(crate) fn visit(batch: &RecordBatch, names: &mut Names, each: &mut impl FnMut(&Call<'_>)) {
    let (ts, dur) = (Numbers::<Int64Type>::of(batch, "ts"), Numbers::<Int64Type>::of(batch, "dur"));
    let (task, file) = (Numbers::<UInt32Type>::of(batch, "task_id"), Numbers::<UInt32Type>::of(batch, "file_id"));
    let (fd, ret) = (Numbers::<Int32Type>::of(batch, "fd"), Numbers::<Int64Type>::of(batch, "ret"));
    let wide = |name| Numbers::<UInt64Type>::of(batch, name);
    let (offset, requested, cpu, blocked) = (wide("offset"), wide("requested"), wide("cpu_ns"), wide("blocked_ns"));
    let (name, kind) = (Texts::of(batch, "name"), Texts::of(batch, "offset_kind"));
    let ids: Vec<usize> = name.values.iter().map(|name| names.id(name)).collect();
    let implied: Vec<bool> = kind.values.iter().map(|kind| *kind == "implied").collect();
    let args = args_of(batch);
    for row in 0..batch.num_rows() {
        let (Some(ts), Some(task_id), Some(key)) = (ts.get(row), task.get(row), name.key(row)) else { continue };
        let (Some(text), Some(id)) = (name.values.get(key), ids.get(key)) else { continue };
        each(&Call {
            ts,
            dur: dur.get(row),
            task_id,
            name: text,
            name_id: *id,
            args: args.get(6 * row..6 * row + 6).and_then(|words| words.try_into().ok()).unwrap_or_default(),
            fd: fd.get(row),
            file_id: file.get(row),
            offset: offset.get(row),
            implied: kind.key(row).and_then(|key| implied.get(key)).copied().unwrap_or(false),
            requested: requested.get(row),
            ret: ret.get(row),
            cpu_ns: cpu.get(row),
            blocked_ns: blocked.get(row),
        });
    }
}

/// A file behind descriptors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct File {
    /// Device, as st_dev.
    pub dev: u64,
    /// Inode.
    pub ino: u64,
    /// Type of the file system.
    pub fs: Option<String>,
    /// `regular`, `socket`, ...
    pub file_type: Option<String>,
    /// Its path.
    pub path: Option<Vec<u8>>,
}

/// The files of a recording by their ids.
#[derive(Debug, Default)]
pub struct Files(pub HashMap<u32, File>);

impl Files {
    /// Reads the table `files`. Damaged parts are left out and named in `left_out`.
    pub fn load(recording: &Recording, left_out: &mut Vec<String>) -> Result<Self> {
        let mut files = HashMap::new();
        let columns = ["file_id", "dev", "ino", "fs", "type", "path"];
        for batch in recording.read("files", Some(&columns))? {
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) if is_damage(&error) => {
                    left_out.push(error.to_string());
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let id = Numbers::<UInt32Type>::of(&batch, "file_id");
            let (dev, ino) = (Numbers::<UInt64Type>::of(&batch, "dev"), Numbers::<UInt64Type>::of(&batch, "ino"));
            let (fs, kind) = (Texts::of(&batch, "fs"), Texts::of(&batch, "type"));
            let paths = batch.column_by_name("path").and_then(|column| column.as_dictionary_opt::<Int32Type>());
            let path = |row| -> Option<Vec<u8>> {
                let paths = paths.filter(|paths| paths.is_valid(row))?;
                let texts = paths.values().as_binary_opt::<i32>()?;
                Some(texts.value(usize::try_from(paths.keys().value(row)).ok()?).to_vec())
            };
            for row in 0..batch.num_rows() {
                let Some(file_id) = id.get(row) else { continue };
                files.entry(file_id).or_insert_with(|| File {
                    dev: dev.get(row).unwrap_or_default(),
                    ino: ino.get(row).unwrap_or_default(),
                    fs: fs.get(row).map(str::to_owned),
                    file_type: kind.get(row).map(str::to_owned),
                    path: path(row),
                });
            }
        }
        Ok(Self(files))
    }

    /// The file.
    pub fn get(&self, file_id: u32) -> Option<&File> {
        self.0.get(&file_id)
    }

    /// The ids of the files that `wanted` selects by their paths.
    pub fn select(&self, wanted: impl Fn(Option<&[u8]>) -> bool) -> HashSet<u32> {
        self.0.iter().filter(|(_, file)| wanted(file.path.as_deref())).map(|(id, _)| *id).collect()
    }
}
