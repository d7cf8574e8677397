//! One recorded run: a target, the probes that watch it, the writer, and the supervision of the target's process.
//!
//! [`run`] does it all, in an order that makes failures cheap and the record whole:
//!
//! 1. everything that can fail is done before the target starts: output directory, probes, the target's process, which
//!    waits at a gate;
//! 2. settings are read, the first metrics sampled;
//! 3. the gate opens; faults and mappings are recorded from the `exec` on;
//! 4. until the target ends: rings are emptied 50 times a second, metrics sampled 10 times, parts written about once;
//! 5. last samples and settings, then the recording is closed: faults joined to mappings, parts compacted.
//!
//! A recorded command is never harmed: if the recorder dies the command goes on; if the recording cannot be written any
//! more (the disk is full) the command goes on, and the session says so at the end. Workers of a load die with the recorder.

pub mod calls;
mod child;
mod close;
mod cost;
pub mod feed;
pub mod files;
mod found;
mod load_rows;
mod marks;
mod options;
mod probes;
mod recorder;
mod run;
pub mod signals;
mod subject;
mod target;
mod watch;

pub use child::{Ended, SpawnError};
pub use marks::{MarkError, mark};
pub use options::{SessionError, SessionOptions, SessionOutcome, Target};
pub use run::{run, run_and_tell};
pub use watch::Progress;
