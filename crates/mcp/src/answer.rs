//! What a tool answers: one JSON document of a bounded length, or why there is none.

use std::io::Write as _;

use pagelab_analysis::AnalysisError;
use pagelab_views::ViewError;
use pagelab_vocab::terminal::{Allow, Escaping};
use serde::Serialize;

/// Most bytes of an answer: some 30,000 tokens, a sixth of what a model of today can look at.
pub(crate) const LIMIT_BYTES: usize = 100_000;

/// Most bytes of an error: it may repeat what was asked, which has any length.
const ERROR_BYTES: usize = 4_000;

/// Why a tool has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolError {
    /// No such question can be asked.
    #[error("{0}")]
    Asked(String),
    /// A recording cannot be read.
    #[error(transparent)]
    Recording(#[from] pagelab_recording::Error),
    /// A view cannot be made.
    #[error(transparent)]
    View(#[from] ViewError),
    /// Recordings cannot be compared or explained.
    #[error(transparent)]
    Analysis(#[from] AnalysisError),
    /// A query has no answer.
    #[error("{0}")]
    Query(String),
    /// The answer is longer than anybody wants to read.
    #[error("found an answer of {}{bytes} bytes, needed at most {LIMIT_BYTES}: {smaller}", if *at_least { "more than " } else { "" })]
    TooLong {
        /// Its length.
        bytes: usize,
        /// It is longer: it was not made to its end.
        at_least: bool,
        /// Options that make it shorter.
        smaller: String,
    },
}

/// The text of a document. `smaller` says how to ask for less.
pub(crate) fn document(document: &impl Serialize, smaller: &str) -> Result<String, ToolError> {
    let text = serde_json::to_string(document).map_err(|error| ToolError::Asked(error.to_string()))?;
    bounded(&text, smaller)
}

/// The text of a document that is text already.
pub(crate) fn bounded(json: &str, smaller: &str) -> Result<String, ToolError> {
    let text = escaped(json, Allow::Json);
    if text.len() > LIMIT_BYTES {
        return Err(ToolError::TooLong { bytes: text.len(), at_least: false, smaller: smaller.to_owned() });
    }
    Ok(text)
}

/// The text of an error. Its end says so where it is cut.
pub(crate) fn error(error: &str) -> String {
    let text = escaped(error, Allow::Lines);
    match text.char_indices().find(|(at, _)| *at >= ERROR_BYTES) {
        Some((at, _)) => format!("{} ... ({} more bytes)", &text[..at], text.len() - at),
        None => text,
    }
}

/// Text without what a terminal would act on: a client may show it on one.
fn escaped(text: &str, allow: Allow) -> String {
    let mut out = Vec::new();
    let mut escaping = Escaping::new(&mut out, allow);
    // Writing to memory cannot fail.
    let _ = escaping.write_all(text.as_bytes());
    drop(escaping);
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_or_an_error_with_its_length() {
        let fits = "x".repeat(LIMIT_BYTES - 2);
        assert_eq!(document(&fits, "").expect("it fits").len(), LIMIT_BYTES);
        let said = document(&format!("{fits}x"), "ask for less").expect_err("a byte too long").to_string();
        assert_eq!(said, "found an answer of 100001 bytes, needed at most 100000: ask for less");
        // Escaping makes it longer, and the length after it counts.
        assert!(document(&"\u{9b}".repeat(LIMIT_BYTES / 4), "").is_err());
    }

    #[test]
    fn nothing_in_an_answer_moves_a_cursor() {
        let said = document(&"a\u{9b}2J\u{202e}\u{1b}[2J", "").expect("short");
        assert_eq!(said, "\"a\\u009b2J\\u202e\\u001b[2J\"");
        assert_eq!(serde_json::from_str::<String>(&said).expect("JSON"), "a\u{9b}2J\u{202e}\u{1b}[2J");
        assert_eq!(error("no\u{1b}[2J\nso"), "no\\u{1b}[2J\nso");
    }

    #[test]
    fn a_long_error_says_that_it_is_cut() {
        let said = error(&"ü".repeat(ERROR_BYTES));
        assert!(said.len() < ERROR_BYTES + 40 && said.ends_with("... (4000 more bytes)"), "{said}");
    }
}
