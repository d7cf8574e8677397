//! The recording format: table registry, crash-safe writer, reader and checker.

pub mod attribution;
mod check;
mod compact;
pub mod docs;
mod encode;
mod error;
mod manifest;
mod merge;
mod part;
mod reader;
pub mod set;
mod storage;
pub mod tables;
mod writer;

pub use check::{CheckReport, Level, Problem, TableReport, check};
pub use error::{Error, FORMAT, Result};
pub use manifest::{Clock, Exit, MANIFEST, Manifest, Probe, ProbeState, SelfCost};
pub use reader::{BatchReader, Recording, SortedReader};
pub use storage::{FileStorage, Storage, StorageFile};
pub use writer::{LossProvider, RecordingWriter, WriterOptions, WriterStats};
