//! Each option of the job language under fio 3.33 and under pagelab, with equal jobs: the same operations in the same order where
//! the order is determined, the same distribution where chance decides, the same files on disk.
//!
//! fio's own seed is fixed (`randrepeat` is on by default) and so is pagelab's: samples are the same in every run, and a test that
//! passes today passes tomorrow.

#[path = "../common/mod.rs"]
mod common;

mod buffers;
mod disks;
mod files;
mod flow;
mod passes;
mod public;
mod queues;
mod random;
mod replays;
mod reports;
mod sizes;
mod steady;
mod strides;
mod together;
mod trims;
