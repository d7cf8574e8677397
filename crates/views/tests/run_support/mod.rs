//! Small recordings, written by the real writer, for tests of what is read back out of them.

#![allow(dead_code, clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use pagelab_recording::tables::{FaultsRow, MetricsRow, SettingsRow};
use pagelab_recording::{Clock, Exit, Manifest, Recording, RecordingWriter, WriterOptions};
use serde_json::json;

pub(crate) const SECOND: i64 = 1_000_000_000;

/// A manifest of a job that measured from `start` to `end` and did `operations`.
pub(crate) fn job(start: i64, end: i64, operations: u64) -> Manifest {
    let mut manifest = plain("job", start, end);
    manifest.extra.get_mut("measured").unwrap()["operations"] = json!(operations);
    manifest
}

/// A manifest of a command that ran from `start` to `end`.
pub(crate) fn command(start: i64, end: i64) -> Manifest {
    Manifest { command: Some(vec!["true".to_owned()]), ..plain("command", start, end) }
}

fn plain(source: &str, start: i64, end: i64) -> Manifest {
    let measured = json!({"start_ns": start, "end_ns": end, "operations": null, "source": source});
    Manifest {
        host: Some("h".to_owned()),
        exit: Some(Exit { code: Some(0), ..Exit::default() }),
        clock: Clock { id: "CLOCK_MONOTONIC".to_owned(), ..Clock::default() },
        extra: [("measured".to_owned(), measured)].into_iter().collect(),
        ..Manifest::default()
    }
}

/// Writes a recording in `dir` and ends it cleanly.
pub(crate) fn record(dir: &Path, manifest: Manifest, fill: impl FnOnce(&mut RecordingWriter)) -> PathBuf {
    let options = WriterOptions { compact: false, ..WriterOptions::default() };
    let mut writer = RecordingWriter::create(dir, manifest, options).unwrap();
    fill(&mut writer);
    writer.close(|_| {}).unwrap();
    assert!(Recording::open(dir).unwrap().manifest().complete);
    dir.to_owned()
}

/// Appends one sample.
pub(crate) fn sample(writer: &mut RecordingWriter, ts: i64, name: &str, value: impl Into<Option<f64>>) {
    writer.push_metrics(&MetricsRow { ts, name, instance: None, value: value.into() });
}

/// Appends one setting, as read at the start.
pub(crate) fn setting(writer: &mut RecordingWriter, key: &str, value: impl Into<Option<&'static str>>) {
    writer.push_settings(&SettingsRow { ts: 0, key, value: value.into(), source: "test", at: "start" });
}

/// Appends one user-mode write fault.
pub(crate) fn fault(writer: &mut RecordingWriter, ts: i64, error_code: u32) {
    writer.push_faults(&FaultsRow {
        ts,
        task_id: 1,
        mm_id: 1,
        addr: 4096,
        ip: 1,
        error_code: Some(error_code),
        ..FaultsRow::default()
    });
}
