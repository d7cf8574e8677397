//! What happens between planning and reading.

#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use pagelab_recording::tables::FaultsRow;
use pagelab_recording::{Manifest, Recording, RecordingWriter, WriterOptions};
use tempfile::TempDir;

use pagelab_sql::internals::{Catalogue, Held, Query, check_planned, context, join};
use pagelab_sql::{Damaged, Format, HELD_BYTES, QueryOptions};

/// A number without a pattern that an encoding could use.
fn mixed(number: u64) -> u64 {
    let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (spread ^ (spread >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// A recording of `parts` parts of `faults` faults each.
fn recording(dir: &Path, parts: i64, faults: i64) -> PathBuf {
    let options = WriterOptions { compact: false, ..WriterOptions::default() };
    let mut writer = RecordingWriter::create(dir, Manifest::default(), options).unwrap();
    for part in 0..parts {
        for i in 0..faults {
            let (ts, addr) = (part * faults + i, mixed(i as u64));
            writer.push_faults(&FaultsRow { ts, addr, ip: addr, ..FaultsRow::default() });
        }
        writer.flush((part + 1) * faults).unwrap();
    }
    writer.close(|_| ()).unwrap();
    dir.to_owned()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap().block_on(future)
}

fn catalogue(dir: &Path) -> Arc<Catalogue> {
    let recordings = pagelab_recording::set::discover(&[dir]).unwrap();
    Arc::new(Catalogue::new(&recordings, pagelab_recording::Bounds::default(), Damaged::LeaveOut))
}

fn planned(catalogue: &Arc<Catalogue>, sql: &str) -> Arc<dyn ExecutionPlan> {
    let context = context(catalogue, 2, &QueryOptions::default()).unwrap();
    block_on(async { context.sql(sql).await.unwrap().create_physical_plan().await.unwrap() })
}

/// The plan, its scans changed.
fn changed(plan: &Arc<dyn ExecutionPlan>, change: fn(&mut FileScanConfig)) -> Arc<dyn ExecutionPlan> {
    let rewrite = |node: Arc<dyn ExecutionPlan>| {
        let Some(source) = node.downcast_ref::<DataSourceExec>() else { return Ok(Transformed::no(node)) };
        let mut config = source.data_source().downcast_ref::<FileScanConfig>().unwrap().clone();
        change(&mut config);
        Ok(Transformed::yes(DataSourceExec::from_data_source(config) as Arc<dyn ExecutionPlan>))
    };
    plan.clone().transform_up(rewrite).data().unwrap()
}

#[test]
fn files_planned_are_files_catalogued() {
    let tmp = TempDir::new().unwrap();
    let dir = recording(&tmp.path().join("r"), 3, 100_000);
    // Other files next to the parts are not parts.
    std::fs::write(dir.join("faults/part-0001.parquet.tmp"), b"not yet").unwrap();
    let catalogue = catalogue(&dir);
    let parts = Recording::open(&dir).unwrap().parts("faults").unwrap();
    let files = catalogue.files(pagelab_recording::tables::table("faults").unwrap()).unwrap();
    let listed: Vec<PathBuf> = files.iter().map(|file| file.part.path().to_owned()).collect();
    assert_eq!((listed.len(), &listed), (3, &parts));
    let plan = planned(&catalogue, "SELECT a.addr FROM faults a JOIN faults b ON a.ts = b.ts WHERE a.ip > 7");
    check_planned(&plan).unwrap();
    // Each part has more than the megabyte from which files are split.
    let shown = displayable(plan.as_ref()).indent(true).to_string();
    assert!(shown.contains(".parquet:0.."), "no file is split among the threads: {shown}");
    let refused = |change| check_planned(&changed(&plan, change)).unwrap_err().to_string();
    let lacking = refused(|config| {
        config.file_groups.pop();
    });
    assert!(lacking.contains("not those catalogued") && lacking.contains("faults/part-"), "{lacking}");
    let twice = refused(|config| config.file_groups.push(config.file_groups[0].clone()));
    assert!(twice.contains("not those catalogued"), "{twice}");
    let foreign = refused(|config| {
        let file = datafusion::datasource::listing::PartitionedFile::new("other.parquet", 7);
        config.file_groups.push(datafusion::datasource::physical_plan::FileGroup::new(vec![file]));
    });
    assert!(foreign.contains("other.parquet"), "{foreign}");
}

/// The files are listed and their footers read; then one is cut off.
#[test]
fn a_part_that_is_truncated_after_planning_is_left_out_and_named() {
    let tmp = TempDir::new().unwrap();
    let dir = recording(&tmp.path().join("r"), 3, 1000);
    let catalogue = catalogue(&dir);
    let mut out = Vec::new();
    let context = context(&catalogue, 2, &QueryOptions::default()).unwrap();
    planned(&catalogue, "SELECT addr FROM faults");
    let part = dir.join("faults/part-0001.parquet");
    let file = std::fs::OpenOptions::new().write(true).open(&part).unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    let sql = "SELECT count(addr) AS n, max(ts) AS last FROM faults";
    let mut query = Query::new(context, catalogue, sql, Format::Csv, &mut out);
    let answer = block_on(query.answer()).unwrap();
    assert_eq!(answer.left_out.len(), 1, "{answer:?}");
    assert!(answer.left_out[0].contains(&part.display().to_string()), "{answer:?}");
    assert_eq!(String::from_utf8(out).unwrap(), "n,last\n2000,2999\n");
}

#[test]
fn a_short_result_can_be_taken_back_and_a_long_one_not() {
    let mut out = Vec::new();
    let mut held = Held::new(&mut out);
    held.write_all(b"wrong").unwrap();
    held.flush().unwrap();
    assert!(held.take_back());
    held.write_all(b"right").unwrap();
    held.release().unwrap();
    assert_eq!(out, b"right");

    let mut out = Vec::new();
    let mut held = Held::new(&mut out);
    let block = vec![b'x'; HELD_BYTES / 2];
    for _ in 0..3 {
        held.write_all(&block).unwrap();
    }
    assert!(!held.take_back());
    assert_eq!(out.len(), block.len() * 3);
}

#[test]
fn only_ranges_that_touch_are_joined() {
    assert_eq!(join(&[(0, 5), (5, 9)]), [(0, 9)]);
    assert_eq!(join(&[(0, 5), (6, 9)]), [(0, 5), (6, 9)], "a byte is missing");
    assert_eq!(join(&[(0, 5), (4, 9)]), [(0, 5), (4, 9)], "a byte is there twice");
}
