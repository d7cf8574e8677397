//! Runs fio jobs: engines, workers and latency histograms.
//!
//! # From a job to a report
//! ```text
//! pagelab_fiojob             Workload      every option read, defaulted, checked; nothing of the machine looked at
//! replay::read               Replays        logs to be done again, and the jobs that they make
//! plan                       Plan          regions, targets, seeds: who works where
//! layout                     Prepared      files made ready; nothing that pagelab did not create is touched unasked
//! worker::spawn              WorkerReport  processes or threads, a barrier per wave, the loop around the engine
//! worker::told               lines         every second as it passes, the report at the end
//! run_workload               JobReport     everything measured, on CLOCK_MONOTONIC
//! output, rows                             fio's text and JSON; rows of the recording's tables
//! ```
//! Modules know each other one way: [`engines`] know files, buffers and faults but no worker; `worker` has the table
//! that says which loop carries out the jobs of which engine. [`offsets`] give operations and know nothing of
//! verifying, which [`verify`] adds around them.
//!
//! [`run_workload`] belongs into a process of its own, because it forks and handles signals: the binary's hidden command `__load`
//! is [`process::main`]. Where nothing is recorded its caller is [`front::run`].
//!
//! # While it runs
//! SIGUSR1, and `--status-interval`, print a report of what was measured so far, and the work goes on: workers are asked through the
//! page that they share with the supervisor, answer between two operations, and a worker in the middle of a long one is not waited
//! for. SIGINT and SIGTERM end the work with its report. Each worker process has a session of its own, as fio's have, so that
//! sched_autogroup gives it a share of the CPUs of its own; it dies with its supervisor.
//!
//! # What is measured
//! `report.window` is the measured window in nanoseconds of `CLOCK_MONOTONIC` (the clock of BPF probes): it leaves out layout, ramp and
//! tear-down, and `report.operations` are exactly the operations completed within it. Latencies follow fio's definitions: `clat` from
//! handing an operation over to its completion, `lat` from the moment its preparation began (opening its file, filling its
//! buffer); `slat` exists only for engines that submit without waiting. See [`histogram`] for the error bound and [`clock`] for the choice of the clock.
//!
//! # Where it differs from fio, on purpose
//! - Writing jobs touch files that pagelab made; others, and block devices, only if they are named outside the job.
//! - Random blocks come from a permutation computed on the fly and not from a map that grows with the file. Each still comes once;
//!   the order is another one than fio's for the same seed.
//! - Workers of all waves are started at once and wait at their gates, so that probes can be attached before the first operation.
//! - Operations are chosen, and latencies put into histograms, some tens at a time; neither is part of a latency.
//! - A mapping ends with SIGBUS as an error of one operation; the job says where, and what is missing.
//! - With operations in flight (`io_uring`, `libaio`) a flush waits for the writes it covers; fio submits it at once.
//! - What jobs write is opened by a permit for what was checked before the start (see [`safety`]): a file that is replaced while the job
//!   runs ends it, and a link is followed only where the user names it.
//! - What `verify` finds wrong ends a job after its pass, with all of it counted, and the command with 1 in any case (see [`verify`]).
//! - Trims (`BLKDISCARD`) need a block device, which is looked at before the start; `direct=1` holds for the writes of `trimwrite`, which fio
//!   opens without; random ones with an `offset` write the block that was trimmed, where fio 3.33 counts the offset twice.
//! - `libpmem` works on files without direct access too: MAP_SYNC is then refused, msync(2) makes writes durable, and the report says so.
//! - Of `sync_file_range` as of flushes: what is under way is completed before. `filecreate`, `filestat` and `filedelete` count one
//!   operation for each file, and `filedelete` removes files that pagelab made, and others only if they are named.
//! - Options that have no effect are named in the report's warnings, and what pagelab does not have is refused.
//! - A job of `trimwrite` whose time is over writes the block that it has trimmed; fio 3.33 leaves it trimmed.
//!
//! # Refusals
//! What may be written, without `--allow-write`, is what pagelab made. See [`safety`].
//!
//! | refused | test |
//! |---|---|
//! | a file that pagelab did not make; a log or state that it did not | `tests/safety.rs::other_peoples_files_are_not_written`, `tests/safety.rs::all_that_needs_to_be_named_is_said_at_once` |
//! | to remove such a file | `tests/safety.rs::own_files_are_written_again_and_unlinked_only_if_own` |
//! | a file that a folder or pattern does not name | `src/safety.rs::folders_and_patterns_are_for_the_files_in_them`, `tests/safety.rs::all_that_needs_to_be_named_is_said_at_once` |
//! | a link that is not named itself | `tests/safety.rs::links_are_followed_where_the_user_names_them` |
//! | another file in the place of the one checked | `tests/safety.rs::another_file_in_the_place_of_the_named_one_is_not_written`, `tests/safety.rs::a_file_that_is_replaced_between_passes_ends_the_job_with_words`, `tests/safety.rs::a_neighbour_that_renames_turns_no_write_elsewhere` |
//! | one that has its inode number | `tests/safety.rs::loop_another_file_with_the_inode_number_of_the_named_one_is_not_written`, `src/safety.rs::a_file_with_the_same_inode_number_and_another_birth_time_is_not_opened` |
//! | a list of made files that others could have written, or names another file | `src/safety.rs::the_registry_answers_where_attributes_cannot` |
//! | any write with `--readonly` | `tests/safety.rs::readonly_means_that` |
//! | a device that is not named itself | `tests/devices.rs::host_empty_devices_need_to_be_named` |
//! | one with a file system, a volume or a partition table | `tests/devices.rs::host_file_systems_and_volumes_are_not_written_over`, `tests/devices.rs::host_partition_tables_are_not_written_over` |
//! | one in use, whatever is named; one under another name | `tests/devices.rs::host_devices_in_use_are_never_written`, `tests/devices.rs::host_a_device_under_another_name_is_not_written` |
//! | others while the job has the device | `tests/devices.rs::host_a_device_is_the_jobs_alone_while_it_runs` |
//! | what is neither file nor device for jobs | `tests/safety.rs::devices_need_to_be_named_and_empty` |
//!
//! # Identities that hold, and are tested
//! In each direction, when every operation is timed: number of latencies = operations; operations x block size = bytes (with
//! `map_touch`, x bytes touched); sum of the intervals = total; `lat` >= `clat` of the same operation, so their sums are ordered; the sum of `lat` is
//! at most the window, with a queue at most `iodepth` windows; there `lat` = `slat` + `clat`.

// The loop around the engines is one function per engine by design: two time stamps around one operation, with everything else
// in registers. What is marked is called from there and nowhere else that matters; without the mark the compiler shares some of it
// between engines and the calls show in the latency of small copies.
#![allow(clippy::inline_always)]

pub mod buffer;
pub mod clock;
pub mod control;
mod dax_device;
pub mod disks;
pub mod engines;
pub mod error;
pub mod fault;
pub mod front;
pub mod histogram;
pub mod hugetlb;
mod layout;
pub mod offsets;
pub mod output;
pub mod plan;
pub mod process;
pub mod random;
pub mod replay;
pub mod report;
mod run;
pub mod safety;
mod segments;
mod shared;
mod signals;
mod signatures;
pub mod verify;
pub mod worker;

pub use control::Control;
pub use error::LoadError;
pub use report::JobReport;
pub use run::{must_not_write, run_workload};
