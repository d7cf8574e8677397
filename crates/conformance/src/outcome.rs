//! How a case ends, and the comparisons that end it.

use std::fmt::Debug;

use serde::{Deserialize, Serialize};

use crate::sys::Errno;

/// What came out of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The kernel kept its promise.
    Pass,
    /// It did not.
    Fail,
    /// Not known: the event that the case needs to see did not happen, or cannot be seen.
    Inconclusive,
    /// The case was not run, because a requirement is missing here.
    Skip,
}

impl Verdict {
    /// The word in reports.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Fail => "fail",
            Verdict::Inconclusive => "inconclusive",
            Verdict::Skip => "skip",
        }
    }
}

/// Why a case ended before its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// Anything but pass.
    pub verdict: Verdict,
    /// One sentence with the values.
    pub reason: String,
    /// The value found, if a value was compared.
    pub found: Option<String>,
    /// The value expected.
    pub expected: Option<String>,
}

/// The result of a case.
pub type Outcome = Result<(), Stop>;

impl Stop {
    fn new(verdict: Verdict, reason: String) -> Self {
        Stop { verdict, reason, found: None, expected: None }
    }

    /// The promise was broken.
    pub(crate) fn fail(what: &str, found: impl Into<String>, expected: impl Into<String>) -> Self {
        let (found, expected) = (found.into(), expected.into());
        let reason = format!("{what}: found {found}, expected {expected}");
        Stop { verdict: Verdict::Fail, reason, found: Some(found), expected: Some(expected) }
    }

    /// Neither confirmed nor refuted.
    pub(crate) fn inconclusive(reason: impl Into<String>) -> Self {
        Stop::new(Verdict::Inconclusive, reason.into())
    }

    /// A requirement of the case is missing here.
    pub(crate) fn skip(reason: impl Into<String>) -> Self {
        Stop::new(Verdict::Skip, reason.into())
    }
}

/// Two values must be equal.
#[expect(clippy::needless_pass_by_value, reason = "the values are made for this call")]
pub(crate) fn equal<T: PartialEq + Debug>(what: &str, found: T, expected: T) -> Outcome {
    if found == expected { Ok(()) } else { Err(Stop::fail(what, format!("{found:?}"), format!("{expected:?}"))) }
}

/// Something must hold.
pub(crate) fn holds(what: &str, holds: bool, found: impl Into<String>, expected: impl Into<String>) -> Outcome {
    if holds { Ok(()) } else { Err(Stop::fail(what, found, expected)) }
}

/// A call must succeed.
pub(crate) fn must<T>(what: &str, result: Result<T, Errno>) -> Result<T, Stop> {
    result.map_err(|errno| Stop::fail(what, errno.to_string(), "success"))
}

/// A call must fail, with one of these errors.
#[expect(clippy::needless_pass_by_value, reason = "the values are made for this call")]
pub(crate) fn refused<T>(what: &str, result: Result<T, Errno>, expected: &[i32]) -> Outcome {
    let words = || expected.iter().map(|errno| Errno(*errno).name()).collect::<Vec<_>>().join(" or ");
    match result {
        Err(errno) if expected.contains(&errno.0) => Ok(()),
        Err(errno) => Err(Stop::fail(what, errno.to_string(), words())),
        Ok(_) => Err(Stop::fail(what, "success", words())),
    }
}
