//! The report in fio's layouts.

pub mod json;
pub mod normal;
pub(crate) mod numbers;
mod summary;
pub mod terse;

pub use summary::{Entry, Group, entries, groups};
pub use terse::TerseVersion;

/// The program whose layouts these are, by the name that programs which read them look for.
pub(crate) const SIGNATURE: &str = "fio-3.33";

use crate::report::JobReport;

/// A layout of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// fio's text.
    Normal,
    /// fio's JSON.
    Json,
    /// fio's JSON with all latency buckets.
    JsonPlus,
    /// fio's line of fields.
    Terse,
}

impl Format {
    /// The words of fio's `--output-format`.
    const WORDS: [(&'static str, Self); 6] = [
        ("normal", Self::Normal),
        ("json", Self::Json),
        ("json+", Self::JsonPlus),
        ("terse", Self::Terse),
        ("minimal", Self::Terse),
        ("csv", Self::Terse),
    ];

    /// Its word.
    fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, format)| *format == self).map_or("normal", |(word, _)| word)
    }

    /// The layouts in a list such as `json,normal`.
    ///
    /// # Errors
    /// A word that is none, with those that there are.
    pub fn list(text: &str) -> Result<Vec<Self>, String> {
        text.split(',')
            .map(|word| {
                let known = Self::WORDS.iter().find(|(own, _)| *own == word);
                known.map(|(_, format)| *format).ok_or_else(|| {
                    let words: Vec<&str> = Self::WORDS.iter().map(|(own, _)| *own).collect();
                    pagelab_fiojob::value::not_one_of(word, &words)
                })
            })
            .collect()
    }
}

/// How reports are printed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layouts {
    /// The layouts, in any order: they are printed in fio's.
    pub formats: Vec<Format>,
    /// Which terse layout.
    pub terse_version: TerseVersion,
}

impl Layouts {
    /// The layouts as a list that [`Format::list`] reads.
    pub fn list(&self) -> String {
        self.formats.iter().map(|format| format.word()).collect::<Vec<_>>().join(",")
    }
}

/// The report in all layouts that are wanted, one after the other in fio's order: the heading of the text, terse, JSON, text.
///
/// # Errors
/// Never for a report of this crate; kept for the signature of the serialiser.
pub fn render(report: &JobReport, layouts: &Layouts) -> Result<String, serde_json::Error> {
    let formats = &layouts.formats;
    let mut out = String::new();
    if formats.contains(&Format::Normal) && !report.heading_printed {
        out.push_str(&normal::heading(report));
    }
    if formats.contains(&Format::Terse) {
        out.push_str(&terse::render(report, layouts.terse_version));
    }
    if formats.contains(&Format::JsonPlus) {
        out.push_str(&json::render(report, json::Detail::Plus)?);
    } else if formats.contains(&Format::Json) {
        out.push_str(&json::render(report, json::Detail::Plain)?);
    }
    if formats.contains(&Format::Normal) {
        out.push_str(&normal::render(report));
    }
    Ok(out)
}
