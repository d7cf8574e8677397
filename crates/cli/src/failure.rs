//! What ends a command early, and the exit status that says whose fault it is.

use std::fmt;

use pagelab_session::SessionError;
use pagelab_views::ViewError;

/// Measured, and the answer is bad.
pub(crate) const BAD: u8 = 1;

/// A failure with its exit status.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The input is wrong: status 2.
    Input(anyhow::Error),
    /// The host cannot do it: status 3.
    Host(anyhow::Error),
}

impl Failure {
    /// The input is wrong.
    pub(crate) fn input(error: impl Into<anyhow::Error>) -> Self {
        Self::Input(error.into())
    }

    /// The host cannot do it.
    pub(crate) fn host(error: impl Into<anyhow::Error>) -> Self {
        Self::Host(error.into())
    }

    /// The exit status.
    pub(crate) fn status(&self) -> u8 {
        match self {
            Self::Input(_) => 2,
            Self::Host(_) => 3,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Input(error) | Self::Host(error)) = self;
        write!(f, "{error:#}")
    }
}

impl From<pagelab_recording::Error> for Failure {
    /// A recording that cannot be written for lack of space or rights is the host's fault; all else is the input's.
    fn from(error: pagelab_recording::Error) -> Self {
        if error.is_hosts_fault() { Self::host(error) } else { Self::input(error) }
    }
}

impl From<ViewError> for Failure {
    fn from(error: ViewError) -> Self {
        match error {
            ViewError::Recording(error) => error.into(),
            other => Self::input(other),
        }
    }
}

impl From<pagelab_output::Error> for Failure {
    /// A file that cannot be written for lack of space or rights is the host's fault; another place could be named for all else.
    fn from(error: pagelab_output::Error) -> Self {
        match error.os_error().map(pagelab_recording::is_hosts_fault) {
            Some(true) => Self::host(error),
            _ => Self::input(error),
        }
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Recording(error) => error.into(),
            SessionError::Load { status: Some(3), .. } => Self::host(error),
            SessionError::Spawn(_) | SessionError::Load { .. } | SessionError::Target(_) => Self::input(error),
            SessionError::StreamRefused { .. } | SessionError::Host(_) | SessionError::System { .. } => {
                Self::host(error)
            }
        }
    }
}
