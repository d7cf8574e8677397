//! What this host, a file or a process can do with huge pages and DAX, what is wrong, and what mends it.
//!
//! Everything the doctor has to say is a [`Finding`]. It looks and changes nothing.
//!
//! | module | looks at |
//! |---|---|
//! | [`host`] | the host: settings, pools, mounts, free memory, persistent memory, and what pagelab may do on it |
//! | [`path`] | a file: where its bytes lie, and whether each 2 MiB of it can be mapped by one entry |
//! | [`process`] | a process: what each mapping asked for, what it got, and why it is less |

pub mod host;
pub mod path;
pub mod process;
mod text;

use serde::Serialize;

pub use text::Findings;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Something that was asked for cannot be had, or not whole.
    Problem,
    /// Worth knowing.
    Note,
}

/// One thing that the doctor found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What kind of finding it is, such as `thp.never` or `path.extents_misaligned`; the same in all versions.
    pub id: &'static str,
    /// How bad it is.
    pub level: Level,
    /// What was found, with its value.
    pub found: String,
    /// What would be needed for huge pages.
    pub needed: String,
    /// Why it matters.
    pub why: String,
    /// The command that mends it; none where no command does.
    pub fix: Option<String>,
}
