//! What can be wrong with a configuration.

use std::path::PathBuf;

/// What is wrong with the configuration: what was found, what is needed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A configuration file.
    #[error("{path}: {reason}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why it cannot be used.
        reason: String,
    },
    /// Values that do not fit together.
    #[error("{0}")]
    Values(String),
}
