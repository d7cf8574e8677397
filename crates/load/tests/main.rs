//! Tests of jobs, on the program that runs them.
//!
//! One program: linking one for each file took longer than running them. Files that need a process of their own are programs of
//! their own; `Cargo.toml` names them.

mod against_fio;
mod bad_input;
mod common;
mod devices;
mod direct_access;
mod identities;
mod kills;
mod mappings;
mod memory;
mod own_memory;
mod queues;
mod safety;
mod signals;
mod supervision;
mod terse;
