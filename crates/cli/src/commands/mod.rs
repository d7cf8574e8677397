//! One file per command.

pub(crate) mod check;
pub(crate) mod compare;
mod confirm;
pub(crate) mod doctor;
pub(crate) mod experiment;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod help_files;
pub(crate) mod hidden;
pub(crate) mod hugepages;
pub(crate) mod lab;
pub(crate) mod mark;
pub(crate) mod mcp;
mod page;
pub(crate) mod query;
pub(crate) mod record;
pub(crate) mod report;
pub(crate) mod reproduce;
pub(crate) mod restore;
pub(crate) mod rollup;
pub(crate) mod run;
mod runs;
pub(crate) mod show;
pub(crate) mod trend;
pub(crate) mod ui;
pub(crate) mod watch;
