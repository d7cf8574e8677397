//! Statistics, SQL, diffs of settings and profiles, and the rules that name a cause.

pub mod compare;
mod error;
pub mod explain;
pub mod faultmap;
pub mod mappings;
mod metrics;
pub mod rules;
pub mod run;
pub mod settings_diff;
#[cfg(feature = "sql")]
pub mod sql;
pub mod stats;
mod window;

pub use error::{AnalysisError, Result};
