//! Tests of the probes, on the real kernel.
//!
//! One program: linking one for each file took longer than running them. Files that need a process of their own are programs of
//! their own; `Cargo.toml` names them.

mod cpu;
mod dax;
mod khugepaged;
mod mechanisms;
mod observer;
mod profile_agrees;
mod profiled;
mod runtimes;
mod targets;
