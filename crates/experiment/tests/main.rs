//! Tests of plans, and of the runs that they ask for.
//!
//! One program: linking one for each file took longer than running them. Files that need a process of their own are programs of
//! their own; `Cargo.toml` names them.

mod lab_plans;
mod plans;
mod runs;
mod support;
mod values;
