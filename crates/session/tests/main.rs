//! Tests of whole recorded runs, on the real kernel.
//!
//! One program: linking one for each file took longer than running them. Files that need a process of their own are programs of
//! their own; `Cargo.toml` names them.

mod common;
mod compat;
mod fault_details;
mod ladder;
mod map_stacks;
mod reference;
mod reference_machine;
mod sched;
mod sched_stacks;
mod speed;
mod syscalls;
mod targets;
mod waits;
