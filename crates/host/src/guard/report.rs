//! What setting and undoing did, as values and as text.

use std::fmt;

use serde::Serialize;

use super::undo::same;

/// What became of one setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// The key in its one spelling.
    pub key: String,
    /// The value found.
    pub previous: String,
    /// The value asked for.
    pub requested: String,
    /// The value that the kernel gives back: asked is not got (a pool of huge pages may be granted in part).
    pub got: String,
    /// Other settings that the kernel changed along with it.
    pub side_effects: Vec<SideEffect>,
}

impl Applied {
    /// Whether the kernel granted the requested value.
    pub fn granted(&self) -> bool {
        same(&self.requested, &self.got)
    }
}

/// A setting that the kernel changed along with another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SideEffect {
    /// The key.
    pub key: String,
    /// Before the change.
    pub before: Option<String>,
    /// After it; `None` if it is gone (a tunable of the previous scheduler).
    pub after: Option<String>,
}

/// What undoing did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RestoreReport {
    /// Settings put back.
    pub restored: Vec<Restored>,
    /// Settings left alone, because somebody else changed them meanwhile or the device is gone.
    pub left: Vec<Left>,
    /// Settings that could not be put back; their journal is kept for the next try.
    pub failed: Vec<Failed>,
    /// Journals that meant nothing any more, with the reason.
    pub discarded: Vec<String>,
    /// Journals of guards that are alive.
    pub alive: Vec<String>,
    /// Journals that were left as they are, because of their contents or of who could have written them.
    pub kept: Vec<String>,
}

/// A setting that was put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// The key.
    pub key: String,
    /// The value it had.
    pub from: Option<String>,
    /// The value it has again.
    pub to: String,
    /// The dead process that had changed it, where another one put it back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
}

/// A setting that was left alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Left {
    /// The key.
    pub key: String,
    /// The value it was found with before pagelab changed it.
    pub previous: String,
    /// The value that pagelab left it with, if that was journalled.
    pub expected: Option<String>,
    /// The value it has.
    pub found: Option<String>,
    /// Why it was left.
    pub why: String,
}

/// A setting that could not be put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failed {
    /// The key.
    pub key: String,
    /// The value it should have again.
    pub previous: String,
    /// What went wrong.
    pub reason: String,
    /// The command that puts it back by hand.
    pub fix: String,
}

impl RestoreReport {
    /// Whether everything that was changed is back.
    pub fn is_clean(&self) -> bool {
        self.left.is_empty() && self.failed.is_empty() && self.kept.is_empty()
    }

    /// Names the dead process that had made the changes that were put back from here on.
    pub(super) fn sign(&mut self, first: usize, pid: u32) {
        for restored in self.restored.iter_mut().skip(first) {
            restored.pid = Some(pid);
        }
    }

    /// The report without living guards, which are of no interest to a user of another command.
    pub fn without_the_living(mut self) -> Self {
        self.alive.clear();
        self
    }

    /// Adds what another report says.
    pub fn merge(&mut self, other: RestoreReport) {
        self.restored.extend(other.restored);
        self.left.extend(other.left);
        self.failed.extend(other.failed);
        self.discarded.extend(other.discarded);
        self.alive.extend(other.alive);
        self.kept.extend(other.kept);
    }
}

impl fmt::Display for RestoreReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Restored { key, from, to, pid } in &self.restored {
            let from = from.as_deref().unwrap_or("(none)");
            match pid {
                Some(pid) => {
                    writeln!(
                        out,
                        "put back {key}: {from} -> {to} (left changed by pagelab process {pid}, which died)"
                    )?;
                }
                None => writeln!(out, "put back {key}: {from} -> {to}")?,
            }
        }
        for Left { key, previous, found, why, .. } in &self.left {
            let found = found.as_deref().unwrap_or("(none)");
            writeln!(out, "left {key} at {found} ({why}); it was {previous} before pagelab")?;
        }
        for Failed { key, previous, reason, fix } in &self.failed {
            writeln!(out, "could not put back {key} = {previous}: {reason}; by hand: {fix}")?;
        }
        for note in self.kept.iter().chain(&self.discarded).chain(&self.alive) {
            writeln!(out, "{note}")?;
        }
        Ok(())
    }
}
