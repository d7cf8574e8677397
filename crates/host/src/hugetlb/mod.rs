//! Pools of huge pages and mounts of hugetlbfs: listing them, growing them, and running a program on them.
//!
//! | module | does |
//! |---|---|
//! | [`pools`](mod@pools) | lists the pools: for each page size and each NUMA node |
//! | [`set`](mod@set) | makes a pool larger or smaller for good, reads back what was granted and says why it is less |
//! | [`shortage`] | how much memory there is for huge pages, and in pieces of what size |
//! | [`mounts`] | lists, makes and removes mounts of hugetlbfs |
//! | [`plan`](mod@plan) | how large a pool has to be, and what to write where so that it lasts |
//! | [`exec`] | runs a program unchanged on huge pages and looks at what it got |
//! | [`accounting`](mod@accounting) | the counters of a pool while memory is mapped and touched |
//!
//! Everything that reads takes a root folder (`/` for this host). Results are serializable, and print as a table or as
//! lines for people. Asked is not got: each result carries what the kernel says afterwards.

pub mod accounting;
mod error;
pub mod exec;
pub mod mounts;
pub mod plan;
pub mod pools;
pub mod set;
pub mod shortage;

pub use error::HugetlbError;
pub use pools::{NodePool, PoolState, PoolTable, pools};

#[cfg(test)]
mod tests;
