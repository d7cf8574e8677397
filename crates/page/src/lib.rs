//! Comparisons as one HTML file: opened from the disk, offline, and asking for nothing.
//!
//! The file holds a document ([`Page`], JSON), the script that draws it and its style sheet, which `web/` is built into and `build.rs`
//! embeds. The page computes nothing of its own: what it draws are the figures of `pagelab compare --json`, and those of views over
//! time in bins: at most 300 points to a line (100 to a thin one, of nine runs on a side) and 160 times 60 cells to a file, so that a
//! page's size does not follow the recording's. `docs/report.md` says what each section shows and what records it.
//!
//! ## What a recording cannot do to a page
//!
//! Names of programs, files and functions come from recordings. In the document no `<` is written as such, so that nothing in it can
//! end the element that holds it; the script makes text nodes of names and never markup; and the page's own policy
//! (Content-Security-Policy) allows this script and this style sheet, by their digests, and no request at all (of a page that is served,
//! requests to its server).

mod fault_map;
mod flame;
mod io_map;
mod off_cpu;
mod over_time;
mod page_sizes;
mod pictures;
mod recorders;
mod recording;
mod schema;
mod typical;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pagelab_analysis::compare::Comparison;
use pagelab_recording::isolated;
use pagelab_vocab::terminal::escape;
use pictures::Pictures;
use recording::OneRecording;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

include!(concat!(env!("OUT_DIR"), "/bundle.rs"));

pub use schema::schema;

/// Format of the document; the script of a page is of the same version.
const FORMAT: u32 = 1;

/// What a page shows.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Page<'a> {
    format: u32,
    version: &'static str,
    title: String,
    /// It is served by `pagelab ui`, which can be asked for finer pictures.
    served: bool,
    #[serde(serialize_with = "drawn")]
    #[schemars(with = "Vec<Comparison>")]
    comparisons: Vec<&'a Comparison>,
    /// What is drawn from the recordings of each comparison.
    pictures: Vec<Pictures>,
    /// Recordings that are shown by themselves.
    recordings: Vec<OneRecording>,
}

/// What of a metric is drawn; the rest is in `compare --json`.
const OF_METRIC: [&str; 12] = [
    "name",
    "instance",
    "unit",
    "base",
    "test",
    "p",
    "q",
    "ratio",
    "ratio_ci95",
    "significant",
    "follows_speed",
    "note",
];
/// Functions in the table of the page, those that moved most first.
const FUNCTIONS: usize = 500;

/// The comparisons without what is not drawn: most of a document is figures of metrics that nobody sees on a page.
fn drawn<S: serde::Serializer>(comparisons: &[&Comparison], serializer: S) -> Result<S::Ok, S::Error> {
    let slim = |one: &&Comparison| -> Result<Value, serde_json::Error> {
        let mut value = serde_json::to_value(one)?;
        for metric in value["metrics"].as_array_mut().into_iter().flatten() {
            if let Value::Object(fields) = metric {
                fields.retain(|name, _| OF_METRIC.contains(&name.as_str()));
            }
        }
        if let Some(functions) = value["profile"].as_array_mut() {
            functions.truncate(FUNCTIONS);
        }
        Ok(value)
    };
    let slim: Vec<Value> = comparisons.iter().map(slim).collect::<Result<_, _>>().map_err(serde::ser::Error::custom)?;
    slim.serialize(serializer)
}

/// Whether this program was built with the script.
///
/// # Errors
/// It was not.
pub fn is_built() -> Result<(), PageError> {
    SCRIPT.and(STYLE).map(drop).ok_or(PageError::NoBundle)
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// This program was built without the script.
    #[error(
        "this pagelab was built without its pages: found no web/dist/page.js when it was compiled; needed: npm, then make web build"
    )]
    NoBundle,
    /// A recording of the comparison cannot be read.
    #[error(transparent)]
    Recording(#[from] pagelab_analysis::AnalysisError),
    /// The document cannot be written as JSON.
    #[error("the page's document: {0}")]
    Json(#[from] serde_json::Error),
}

impl<'a> Page<'a> {
    /// A page of comparisons, the first one first, with pictures from their recordings. `title` says of what.
    ///
    /// # Errors
    /// A recording cannot be read.
    pub fn new(
        title: impl Into<String>,
        comparisons: impl IntoIterator<Item = &'a Comparison>,
    ) -> Result<Self, PageError> {
        let comparisons: Vec<&Comparison> = comparisons.into_iter().collect();
        let pictures = comparisons.iter().map(|one| Pictures::of(one)).collect::<Result<_, _>>()?;
        Ok(Self { comparisons, pictures, ..Self::empty(title.into()) })
    }

    /// A page of recordings, each by itself. Those that cannot be read are left out, and the title names them.
    ///
    /// # Errors
    /// None of them can be read.
    pub fn of_recordings(title: impl Into<String>, dirs: &[PathBuf]) -> Result<Self, PageError> {
        let mut title: String = title.into();
        let (mut recordings, mut first) = (Vec::new(), None);
        for dir in dirs {
            let reason = match isolated(|| OneRecording::of(Path::new(dir))) {
                Ok(Ok(recording)) => {
                    recordings.push(recording);
                    continue;
                }
                Ok(Err(error)) => {
                    let reason = error.to_string();
                    first.get_or_insert(error);
                    reason
                }
                Err(reason) => reason,
            };
            let _ = write!(title, "; left out: {}: {reason}", dir.display());
        }
        match first {
            Some(error) if recordings.is_empty() => Err(error.into()),
            _ => Ok(Self { recordings, ..Self::empty(title) }),
        }
    }

    fn empty(title: String) -> Self {
        Self {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION"),
            title,
            served: false,
            comparisons: Vec::new(),
            pictures: Vec::new(),
            recordings: Vec::new(),
        }
    }

    /// The same page, for `pagelab ui`: it may ask the server that it comes from, and nobody else.
    #[must_use]
    pub fn served(self) -> Self {
        Self { served: true, ..self }
    }

    /// The file.
    ///
    /// # Errors
    /// The program was built without the script.
    pub fn html(&self) -> Result<String, PageError> {
        let (Some(script), Some(style)) = (SCRIPT, STYLE) else { return Err(PageError::NoBundle) };
        let document = in_element(&serde_json::to_string(self)?);
        // The end of an element cannot stand in a script or a style sheet; the bundler writes none.
        debug_assert!(!script.contains("</script") && !style.contains("</style"));
        Ok(format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"referrer\" content=\"no-referrer\">\n<title>{}</title>\n<link rel=\"icon\" href=\"data:,\">\n\
             <style>{style}</style>\n</head>\n<body>\n\
             <div id=\"page\"><noscript>This page is drawn by a script that it holds. Switch scripts on, or see the same figures with \
             pagelab compare.</noscript></div>\n\
             <script type=\"application/json\" id=\"pagelab-document\">{document}</script>\n<script>{script}</script>\n\
             </body>\n</html>\n",
            policy(script, style, self.served),
            text(&escape(&self.title)),
        ))
    }
}

/// What the page may do: run this script, use this style sheet, show pictures that the script made; one that is served may ask its
/// server.
fn policy(script: &str, style: &str, served: bool) -> String {
    let digest = |text: &str| STANDARD.encode(Sha256::digest(text.as_bytes()));
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data: blob:; base-uri 'none'; form-action 'none'{}",
        digest(script),
        digest(style),
        if served { "; connect-src 'self'" } else { "" }
    )
}

/// JSON that nothing in it can end the element of: every `<` of JSON stands in a string, where it may be escaped.
fn in_element(json: &str) -> String {
    json.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

/// Text of an element.
fn text(plain: &str) -> String {
    plain.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_document_ends_its_element() {
        let page = Page::new("</script><script>alert(1)</script><!--", []).expect("nothing is read");
        let json = in_element(&serde_json::to_string(&page).expect("plain data"));
        assert!(!json.contains('<'), "{json}");
        let back: serde_json::Value = serde_json::from_str(&json).expect("it is JSON still");
        assert_eq!(back["title"], "</script><script>alert(1)</script><!--");
        match page.html() {
            Ok(html) => {
                assert_eq!(html.matches("</script>").count(), 2, "the document's and the script's");
                assert!(html.contains("<title>&lt;/script&gt;&lt;script&gt;"), "{}", &html[..600]);
            }
            Err(error) => assert!(error.to_string().contains("make web"), "{error}"),
        }
    }

    #[test]
    fn the_policy_names_what_it_allows_by_digest() {
        // echo -n x | openssl dgst -sha256 -binary | base64
        let policy = policy("x", "y", false);
        assert!(policy.contains("script-src 'sha256-LXEWQrcmsEQBYnyp+6wy9chTD7GQPMTbAiWHF5IaSIE='"), "{policy}");
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert!(!policy.contains("connect-src"), "a file asks for nothing: {policy}");
    }
}
