//! The spool of this process: where it records while another program copies what comes into a store.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use pagelab_recording::SpoolOptions;

static SPOOL: OnceLock<(PathBuf, SpoolOptions)> = OnceLock::new();

/// Bounds the spool; there is one.
pub(crate) fn set(spool: &Path, options: SpoolOptions) {
    drop(SPOOL.set((spool.to_owned(), options)));
}

/// The bound of a recording's directory, if it is this process's spool.
pub(crate) fn of(out: &Path) -> Option<SpoolOptions> {
    SPOOL.get().filter(|(spool, _)| spool == out).map(|(_, options)| options.clone())
}
