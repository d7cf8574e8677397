//! One file per command.

pub mod check;
pub mod compare;
pub mod doctor;
pub mod experiment;
pub mod explain;
pub mod export;
pub mod hidden;
pub mod hugepages;
pub mod lab;
pub mod mark;
pub mod query;
pub mod record;
pub mod reproduce;
pub mod restore;
pub mod rollup;
pub mod run;
pub mod show;
