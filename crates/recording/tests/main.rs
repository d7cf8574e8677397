//! Tests of recordings: written, killed, damaged, read.
//!
//! One program: linking one for each file took longer than running them. Files that need a process of their own are programs of
//! their own; `Cargo.toml` names them.

mod common;
mod crash;
mod damage;
mod docs;
mod foreign;
mod full;
mod open;
mod order;
mod parts_of_time;
mod power;
mod power_cuts;
mod roundtrip;
mod schema;
mod spool;
mod stacks;
mod whole;
