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
//! What runs already ([`Target::Processes`], [`Target::Cgroup`], [`Target::System`]) has no gate: step 3 is a walk over all
//! tasks that makes the wanted ones members and lists their mappings, with the tracepoints attached before it. It is
//! neither signalled nor waited for, and has no status. A command that is skipped over ([`SessionOptions::skip`]) is
//! found in the same way when its time has come.
//!
//! A recording may end before its target: after a duration (a command is then asked to end by SIGTERM), at a size, or, for
//! a flight recorder ([`SessionOptions::keep_last`]), on SIGUSR2. It is closed at once; [`run`] returns when the command
//! has ended, with the command's status. The manifest's `ended_by` says which it was: `target`, `signal`, `timeout`,
//! `duration`, `max_size` or `sigusr2`. A flight recorder removes events that have grown old; tasks, mappings, files and
//! settings are kept from the start, so its disk grows with what the target maps and not with what it does.
//!
//! While it records, a session listens for marks ([`mark`]) and, where a budget is given, holds its own CPU time against
//! it once a second (`cost.rs`); a stream that was shed has `shed_at_ns` and `shed_because` in its probe's entry, and a row
//! in `marks`.
//!
//! Every stream works through the first of these that the kernel gives: BPF, perf events on the target's tasks, files of `/proc`
//! ([`fallbacks`]). The manifest's `probes` say which, and why nothing better.
//!
//! Memory does not grow with the time that is recorded. Most of it are the rings, whose size goes with the number of CPUs
//! ([`SessionOptions::ring_bytes_per_cpu`]); they are gone before the recording is closed, which takes less
//! than they did. It grows with the number of files (`files.rs` of [`pagelab_observe::feed`]) and of distinct stacks that are met.
//!
//! A recorded command is never harmed: if the recorder dies the command goes on (but for one whose output is listened to,
//! [`ValueSpec`], which cannot write any more then); if the recording cannot be written any
//! more (the disk is full) the command goes on, and the session says so at the end. Workers of a load die with the recorder.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod child;
mod close;
mod compared;
mod cost;
pub mod fallbacks;
mod first_task;
mod found;
mod gate;
mod load_rows;
mod marks;
mod named_durations;
mod options;
mod output;
pub mod owner;
mod pace;
mod probes;
mod process_settings;
mod program;
mod recorder;
mod recording_loop;
mod run;
mod second_signal;
mod settings_rows;
pub mod signals;
mod subject;
mod target;
mod used;
mod values;

pub use child::{Ended, SpawnError};
pub use marks::{MarkError, Marked, mark};
pub use options::{SessionError, SessionOptions, SessionOutcome, Target};
pub use output::Output;
pub use program::MissingInterpreter;
pub use recording_loop::Progress;
pub use run::{COMMAND_SEAL, run, run_and_tell, run_watched, sealed_command};
pub use values::{Better, PREFIX as VALUE_PREFIX, ValueFound, ValueSpec};
