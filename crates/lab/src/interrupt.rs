//! Breaking off, as by Ctrl-C.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{LabError, Result};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Ends what is being done in this process, as soon as that is possible: `up` takes back what it has done and fails with
/// `interrupted`, `run` kills its command and returns what it had printed. May be called from a signal handler.
pub fn interrupt() {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

pub(crate) fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Fails if somebody has interrupted.
pub(crate) fn check() -> Result<()> {
    if is_interrupted() { Err(LabError::Interrupted) } else { Ok(()) }
}
