//! Findings as text for people.

use std::fmt::{self, Display, Formatter};

use super::{Finding, Level};

/// Findings one below the other: finding, need, reason and command.
#[derive(Debug, Clone, Copy)]
pub struct Findings<'a>(pub &'a [Finding]);

impl Display for Findings<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for finding in self.0 {
            let level = match finding.level {
                Level::Problem => "PROBLEM",
                Level::Note => "note",
            };
            writeln!(f, "{level}: {} ({})", finding.found, finding.id)?;
            writeln!(f, "    needed: {}", finding.needed)?;
            writeln!(f, "    because: {}", finding.why)?;
            // A comment to the shell: it is to be read before it is typed.
            match &finding.fix {
                Some(fix) if fix.starts_with('#') => writeln!(f, "    {fix}")?,
                Some(fix) => writeln!(f, "    type: {fix}")?,
                None => {}
            }
        }
        Ok(())
    }
}
