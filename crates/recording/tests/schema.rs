//! Parts of one table once differed in their columns, by what their rows happened to have: polars refused a set of them, and
//! other programs dropped the columns that the first part lacked. Now every part has the registry's schema.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure that it is for")]

use crate::common;

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryArray, Int64Array, RecordBatch, UInt32Array, UInt64Array};
use arrow::datatypes::{DataType, Int32Type};
use common::scratch;
use pagelab_recording::tables::{
    self, ColType, FaultsRow, FilesRow, FramesRow, JobsRow, LossRow, MappingsRow, RegionPagesRow, StacksRow,
    SyscallsRow, TableDef, TasksRow,
};
use pagelab_recording::{Manifest, Recording, RecordingWriter, WriterOptions, check};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

const ODD: &[u8] = b"/tmp/\xff.so";
const ODD_TEXT: &str = "/tmp/\u{fffd}.so";

fn options(compact: bool) -> WriterOptions {
    WriterOptions { compact, ..WriterOptions::default() }
}

/// Rows of tables of every shape: in the first part with nothing but what is required, in the second with more.
fn record(dir: &Path, compact: bool) {
    let mut w = RecordingWriter::create(dir, Manifest::default(), options(compact)).unwrap();
    for n in 0..2_i64 {
        let path = (n == 1).then_some(ODD);
        let more = (n == 1).then_some(7);
        w.push_tasks(&TasksRow { ts: n, op: "exec", exe: path, ..TasksRow::default() });
        w.push_faults(&FaultsRow { ts: n, major: (n == 1).then_some(true), ..FaultsRow::default() });
        w.push_mappings(&MappingsRow { ts: n, op: "mmap", kind: "call", path, ..MappingsRow::default() });
        w.push_files(&FilesRow { ts: n, file_id: n as u32, path, ..FilesRow::default() });
        w.push_syscalls(&SyscallsRow { ts: n, name: "read", offset: more, ..SyscallsRow::default() });
        w.push_stacks(&StacksRow { stack_id: n as u64, frame_ids: &[1, 2] });
        w.push_frames(&FramesRow { frame_id: n as u64, module: path, ..FramesRow::default() });
        w.push_region_pages(&RegionPagesRow { ts: n, path, ..RegionPagesRow::default() });
        let depth = (n == 1).then_some(&[1_u64, 2][..]);
        w.push_jobs(&JobsRow { ts: n, job: "j", direction: "read", depth, usr: None, ..JobsRow::default() });
        w.push_loss(&LossRow { ts: n, stream: "faults", ..LossRow::default() });
        w.flush(n).unwrap();
    }
    w.close(|_| ()).unwrap();
}

/// Names, types as other programs see them, and whether there may be nulls.
fn schema(part: &Path) -> Vec<(String, DataType, bool)> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(part).unwrap()).unwrap();
    let schema = reader.schema().clone();
    schema.fields().iter().map(|f| (f.name().clone(), f.data_type().clone(), f.is_nullable())).collect()
}

/// The same as the registry says. Dictionaries are how text lies in a file, and no type of it.
fn declared(table: &TableDef) -> Vec<(String, DataType, bool)> {
    let plain = |ty: ColType| match ty.arrow() {
        DataType::Dictionary(_, value) => *value,
        // Parquet knows no lists of a fixed length.
        DataType::FixedSizeList(item, _) => DataType::List(item),
        other => other,
    };
    let words = |ty: DataType| match ty {
        DataType::List(item) => DataType::List(Arc::new(item.as_ref().clone().with_nullable(true))),
        other => other,
    };
    table.columns.iter().map(|c| (c.name.to_owned(), words(plain(c.ty)), c.nullable)).collect()
}

#[test]
fn every_part_has_the_schema_of_its_table() {
    let tmp = scratch();
    for compact in [false, true] {
        let dir = tmp.path().join(format!("rec-{compact}"));
        record(&dir, compact);
        let recording = Recording::open(&dir).unwrap();
        let found = recording.tables().unwrap();
        assert_eq!(found.len(), 10);
        for table in found {
            let parts = recording.parts(table.name).unwrap();
            assert_eq!(parts.len(), if compact { 1 } else { 2 }, "{}", table.name);
            for part in parts {
                assert_eq!(schema(&part), declared(table), "{}", part.display());
            }
        }
        let report = check(&dir).unwrap();
        assert!(report.problems.iter().all(|problem| problem.id == "manifest.key"), "{:?}", report.problems);
    }
}

/// Every value of a column of text, in order of the parts.
fn texts(dir: &Path, table: &str, column: &str) -> Vec<Option<String>> {
    let mut found = Vec::new();
    for batch in Recording::open(dir).unwrap().read(table, Some(&[column])).unwrap() {
        let batch = batch.unwrap();
        let column = batch.column(0).as_dictionary::<Int32Type>();
        let values = column.downcast_dict::<arrow::array::StringArray>().unwrap();
        found.extend(values.into_iter().map(|text| text.map(str::to_owned)));
    }
    found
}

#[test]
fn bytes_have_their_text_beside_them() {
    let tmp = scratch();
    for compact in [false, true] {
        let dir = tmp.path().join(format!("rec-{compact}"));
        record(&dir, compact);
        for table in tables::all() {
            for column in table.columns.iter().filter(|column| column.text_of.is_some()) {
                let wanted = [None, Some(ODD_TEXT.to_owned())];
                assert_eq!(texts(&dir, table.name, column.name), wanted, "{}.{}", table.name, column.name);
            }
        }
        let mut paths = Vec::new();
        let recording = Recording::open(&dir).unwrap();
        recording.for_each::<FilesRow>(|row| paths.push(row.path.map(<[u8]>::to_vec))).unwrap();
        assert_eq!(paths, [None, Some(ODD.to_vec())], "the bytes are what they were");
    }
}

/// A part as it was written before: without columns that its rows have nothing for, and without text.
fn write_old_part(path: &Path) {
    let columns: [(&str, ArrayRef); 5] = [
        ("ts", Arc::new(Int64Array::from(vec![5, 6]))),
        ("file_id", Arc::new(UInt32Array::from(vec![1, 2]))),
        ("dev", Arc::new(UInt64Array::from(vec![1, 1]))),
        ("ino", Arc::new(UInt64Array::from(vec![1, 2]))),
        ("path", Arc::new(BinaryArray::from(vec![Some(ODD), None]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

#[test]
fn the_text_of_an_older_recording_is_made_of_its_bytes() {
    let tmp = scratch();
    let dir = tmp.path().join("rec");
    RecordingWriter::create(&dir, Manifest::default(), options(false)).unwrap().close(|_| ()).unwrap();
    // Older recordings have no list of their parts.
    let mut manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(dir.join("manifest.json")).unwrap()).unwrap();
    let keys = manifest.as_object_mut().unwrap();
    keys.remove("parts");
    keys.remove("checksum");
    fs::write(dir.join("manifest.json"), manifest.to_string()).unwrap();
    fs::create_dir_all(dir.join("files")).unwrap();
    write_old_part(&dir.join("files/part-0000.parquet"));
    assert_eq!(texts(&dir, "files", "path_text"), [Some(ODD_TEXT.to_owned()), None]);
    assert_eq!(texts(&dir, "files", "fs"), [None, None]);
    let batches = Recording::open(&dir).unwrap().read("files", Some(&["path_text", "path", "ino"])).unwrap();
    let batch = batches.map(Result::unwrap).next().unwrap();
    assert_eq!(batch.num_columns(), 3);
    assert_eq!(batch.column(2).as_primitive::<arrow::datatypes::UInt64Type>().values(), &[1, 2]);
}
