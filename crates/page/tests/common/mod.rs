//! Recordings written by the real writer.

use std::path::{Path, PathBuf};

use pagelab_recording::{Clock, Exit, Manifest, RecordingWriter, WriterOptions};
use serde_json::Value;

/// A run without an error whose measured time is `measured` in the manifest; of a load, or of `command`.
pub(crate) fn record(
    dir: &Path,
    command: Option<&str>,
    measured: Value,
    fill: impl FnOnce(&mut RecordingWriter),
) -> PathBuf {
    let manifest = Manifest {
        command: command.map(|word| vec![word.to_owned()]),
        exit: Some(Exit { code: Some(0), ..Exit::default() }),
        clock: Clock { id: "CLOCK_MONOTONIC".to_owned(), ..Clock::default() },
        extra: [("measured".to_owned(), measured)].into_iter().collect(),
        ..Manifest::default()
    };
    let options = WriterOptions { compact: false, ..WriterOptions::default() };
    let mut writer = RecordingWriter::create(dir, manifest, options).unwrap();
    fill(&mut writer);
    writer.close(|_| {}).unwrap();
    dir.to_owned()
}
