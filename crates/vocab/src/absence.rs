//! Why something is not there to be shown: states that are easily taken for one another, each with its own sentence.
//!
//! "Nothing" is an answer only where somebody looked. Text, page, JSON and MCP take the sentence from here.

use std::fmt;

use crate::terminal::shell_word;

/// Why something is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Absence {
    /// No test was made, so that neither a difference nor its absence is known.
    NotTested {
        /// Why: too few runs, no metric that decides.
        reason: String,
    },
    /// It was looked for all the time, and there was none.
    NoneSeen {
        /// Plural of what was looked for: `calls`.
        what: String,
        /// The stream that looked for it.
        stream: String,
    },
    /// Events were seen, and none of them is in the recording.
    AllLost {
        /// Plural of what was looked for: `calls`.
        what: String,
        /// The stream that saw them.
        stream: String,
        /// Events that it saw.
        seen: u64,
        /// Of those, lost.
        lost: u64,
        /// Of those, left out on purpose.
        filtered: u64,
    },
    /// Events were seen, and all of them were left out on purpose.
    LeftOut {
        /// Plural of what was looked for: `calls`.
        what: String,
        /// The stream that saw them.
        stream: String,
        /// Events that it left out.
        filtered: u64,
    },
    /// Events were seen and kept, and the recording has them no more.
    Missing {
        /// Plural of what was looked for: `calls`.
        what: String,
        /// The stream that saw them.
        stream: String,
        /// Events that it saw.
        seen: u64,
    },
    /// Nobody looked for it.
    NotRecorded {
        /// Plural of what would have been recorded.
        what: String,
        /// What `--observe` takes to record it.
        observe: String,
    },
    /// The host or the rights of the user did not allow it.
    NotPermitted {
        /// What was asked for: `no calls were recorded: syscalls was refused`, or a path.
        what: String,
        /// What refused it.
        reason: String,
        /// The command or setting that mends it.
        fix: Option<String>,
    },
    /// Nothing has this name.
    NoSuchPath {
        /// The name.
        path: String,
    },
    /// The folder is a set of recordings where one is needed.
    IsASet {
        /// The folder.
        path: String,
        /// One of its recordings.
        one: Option<String>,
    },
}

impl Absence {
    /// No test was made, for `reason`.
    pub fn not_tested(reason: impl Into<String>) -> Self {
        Self::NotTested { reason: reason.into() }
    }

    /// The state in one word, as JSON has it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::NotTested { .. } => "not_tested",
            Self::NoneSeen { .. } => "none_seen",
            Self::AllLost { .. } => "all_lost",
            Self::LeftOut { .. } => "left_out",
            Self::Missing { .. } => "missing",
            Self::NotRecorded { .. } => "not_recorded",
            Self::NotPermitted { .. } => "not_permitted",
            Self::NoSuchPath { .. } => "no_such_path",
            Self::IsASet { .. } => "is_a_set",
        }
    }
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotTested { reason } => write!(f, "not tested: {reason}"),
            Self::NoneSeen { what, stream } => write!(f, "no {what} were recorded: {stream} ran and saw none"),
            Self::AllLost { what, stream, seen, lost, filtered: 0 } => {
                write!(f, "no {what} are in the recording: {lost} of the {seen} events that {stream} saw were lost")
            }
            Self::AllLost { what, stream, seen, lost, filtered } => write!(
                f,
                "no {what} are in the recording: of the {seen} events that {stream} saw {lost} were lost and {filtered} left out on purpose"
            ),
            Self::LeftOut { what, stream, filtered } => {
                write!(f, "no {what} were recorded: all {filtered} that {stream} saw were left out on purpose")
            }
            Self::Missing { what, stream, seen } => {
                write!(f, "no {what} are here: the recording lacks {stream} although {seen} were seen")
            }
            Self::NotRecorded { what, observe } => {
                write!(f, "no {what} were recorded; ask for them: pagelab record --observe {observe}")
            }
            Self::NotPermitted { what, reason, fix: None } => write!(f, "{what}: {reason}"),
            Self::NotPermitted { what, reason, fix: Some(fix) } => write!(f, "{what}: {reason}; what mends it: {fix}"),
            Self::NoSuchPath { path } => {
                write!(f, "no such path: {path}; needed the directory of a recording, which was named with -o")
            }
            Self::IsASet { path, one: None } => {
                write!(f, "{path} is a set, and one recording is needed; it has none yet")
            }
            Self::IsASet { path, one: Some(one) } => write!(
                f,
                "{path} is a set, and one recording is needed; name one of them: {}, or compare its variants: pagelab compare {}",
                shell_word(one),
                shell_word(path)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_a_word_and_a_sentence_of_its_own() {
        let (what, stream, path) = ("calls".to_owned(), "syscalls".to_owned(), "a.set".to_owned());
        let reason = "root is needed".to_owned();
        let all = [
            Absence::NotTested { reason: reason.clone() },
            Absence::NoneSeen { what: what.clone(), stream: stream.clone() },
            Absence::AllLost { what: what.clone(), stream: stream.clone(), seen: 7, lost: 7, filtered: 0 },
            Absence::AllLost { what: what.clone(), stream: stream.clone(), seen: 7, lost: 3, filtered: 4 },
            Absence::LeftOut { what: what.clone(), stream: stream.clone(), filtered: 7 },
            Absence::Missing { what: what.clone(), stream: stream.clone(), seen: 7 },
            Absence::NotRecorded { what: what.clone(), observe: "default,syscalls".to_owned() },
            Absence::NotPermitted { what, reason, fix: Some("sudo pagelab record".to_owned()) },
            Absence::NoSuchPath { path: path.clone() },
            Absence::IsASet { path, one: Some("a.set/variant=a b/run=001".to_owned()) },
        ];
        let mut words: Vec<&str> = all.iter().map(Absence::word).collect();
        let mut sentences: Vec<String> = all.iter().map(Absence::to_string).collect();
        let of_set = sentences.last().expect("the set's");
        assert!(of_set.contains("'a.set/variant=a b/run=001'"), "{of_set}");
        words.sort_unstable();
        words.dedup();
        sentences.sort();
        sentences.dedup();
        assert_eq!((words.len(), sentences.len()), (all.len() - 1, all.len()), "lost in two ways is one state");
    }
}
