//! What can go wrong with a recording, each with the value found, the value needed and what to do.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pagelab_vocab::remedies::{self, Place};
use pagelab_vocab::terminal::shell_path;

use crate::absent::no_recording;

/// The newest major format this build reads, and the one it writes.
pub const FORMAT: u32 = 1;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The output directory of a new recording holds something.
    #[error(
        "output directory {dir} already exists and holds {entries} entries; a new or empty directory is needed: \
         choose another one with -o, or remove it with: rm -r {dir}", dir = dir.display()
    )]
    OutputNotEmpty {
        /// The directory asked for.
        dir: PathBuf,
        /// How many entries it has.
        entries: usize,
    },
    /// The output directory exists and is something else.
    #[error("output {path} exists and is not a directory; a new or empty directory is needed: choose another one with -o", path = path.display())]
    OutputNotDirectory {
        /// The path asked for.
        path: PathBuf,
    },
    /// `--from` or `--to` name a mark that the recording lacks.
    #[error("--from or --to: found {name:?}, needed seconds or a mark; {dir} has {known}", dir = dir.display())]
    NoSuchMark {
        /// The recording.
        dir: PathBuf,
        /// The mark asked for.
        name: String,
        /// The marks there are, in words.
        known: String,
    },
    /// `--from` is not before `--to`.
    #[error("{dir}: --from is {from_ns} ns and --to {to_ns} ns on its clock; needed: a start before the end", dir = dir.display())]
    EmptySpan {
        /// The recording.
        dir: PathBuf,
        /// The start asked for.
        from_ns: i64,
        /// The end asked for.
        to_ns: i64,
    },
    /// A file operation failed.
    #[error("cannot {action} {path}: {source}{}", hint(action, source, path))]
    Io {
        /// The attempted action.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A place to write to is not safe, or a file to read is not the expected one.
    #[error(transparent)]
    Output(pagelab_output::Error),
    /// The file system ran out of space while parts were written, or a limit of the user's was reached.
    #[error(
        "{} to write {path} ({needed} bytes needed); {}; what was written before stays readable: {}",
        no_room(*errno), waiting(*kept_rows, *dropped_rows), room(*errno, path), path = path.display()
    )]
    NoSpace {
        /// ENOSPC, EDQUOT or EFBIG.
        errno: i32,
        /// The part that did not fit.
        path: PathBuf,
        /// Its size.
        needed: u64,
        /// Rows that are kept in memory and tried again.
        kept_rows: u64,
        /// Rows that had to be given up so far; they are counted as lost.
        dropped_rows: u64,
    },
    /// The spool of a recording that is copied to a store is full, and the store has not taken enough of it.
    #[error(
        "the spool {path} is full ({max_bytes} bytes) and the store did not take enough of it; {}; recording goes on when it does: see \
         whether the store can be reached, or raise PAGELAB_SPOOL_BYTES",
        waiting(*kept_rows, *dropped_rows), path = path.display()
    )]
    SpoolFull {
        /// The folder.
        path: PathBuf,
        /// Bytes of parts that it may hold.
        max_bytes: u64,
        /// Rows that are kept in memory and tried again.
        kept_rows: u64,
        /// Rows that had to be given up so far; they are counted as lost.
        dropped_rows: u64,
    },
    /// The directory is no recording.
    #[error("{}", no_recording(dir))]
    NotARecording {
        /// The directory looked at.
        dir: PathBuf,
    },
    /// The manifest has no content: a power cut in the first moments of a recording leaves that.
    #[error(
        "{path}: the manifest is empty: the machine stopped before the first second of the recording was written; \
         needed: a recording that ran longer, record again", path = path.display()
    )]
    EmptyManifest {
        /// The manifest.
        path: PathBuf,
    },
    /// A JSON file of a recording or a set cannot be read.
    #[error("{path}: {reason}; a JSON document as docs/recording.md describes it is needed", path = path.display())]
    BadJson {
        /// The file.
        path: PathBuf,
        /// What the parser says, with line and column.
        reason: String,
    },
    /// The recording was made by a newer pagelab.
    #[error(
        "{path}: recording format {found} is newer than format {FORMAT}, the newest this pagelab reads: \
         read it with the pagelab that wrote it ({writer}) or a newer one",
        path = path.display()
    )]
    NewerFormat {
        /// The manifest.
        path: PathBuf,
        /// Major format found.
        found: u64,
        /// Version of pagelab that wrote it, as the manifest says.
        writer: String,
    },
    /// A part of a table is damaged.
    #[error("{path}: damaged at byte {offset}: {reason}; the other parts stay readable: see pagelab check {dir}",
        path = path.display(), dir = shell_path(recording_dir(path)))]
    BadPart {
        /// The part.
        path: PathBuf,
        /// Where in the file: of the column chunk or the footer that is damaged.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
    /// No such table in the registry.
    #[error("there is no table {name}; the tables are: {known}")]
    UnknownTable {
        /// The name asked for.
        name: String,
        /// All names.
        known: &'static str,
    },
    /// No such column in the registry.
    #[error("table {table} has no column {column}; its columns are: {known}")]
    UnknownColumn {
        /// The table.
        table: &'static str,
        /// The name asked for.
        column: String,
        /// All names.
        known: String,
    },
    /// A column that typed rows cannot do without is absent or null.
    #[error("column {column} of table {table} is missing or null in this recording; it is needed to read typed rows")]
    MissingColumn {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
    },
    /// Column buffers that were filled by hand have different lengths.
    #[error(
        "column {column} of table {table} holds {found} values; {rows} are needed, one per value of the table's first column"
    )]
    RaggedColumns {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// Values in it.
        found: usize,
        /// Values in the first column.
        rows: usize,
    },
    /// The Arrow library refused something that pagelab built.
    #[error("arrow: {0}")]
    Arrow(#[from] arrow::error::ArrowError),
    /// The Parquet library refused something that pagelab built.
    #[error("parquet: {0}")]
    Parquet(#[from] parquet::errors::ParquetError),
}

impl Error {
    /// Makes an [`Error::Io`]; for use with `map_err`.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    /// Whether the host cannot do it (no space, no rights, a broken disk), rather than the path or file being a wrong one.
    pub fn is_hosts_fault(&self) -> bool {
        match self {
            Self::NoSpace { .. } | Self::SpoolFull { .. } => true,
            Self::Io { source, .. } => is_hosts_fault(source),
            // Another place could be named.
            _ => false,
        }
    }

    /// Whether it concerns the content of a part: then the other parts can still be read.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::BadPart { .. } | Self::MissingColumn { .. } | Self::Arrow(_) | Self::Parquet(_))
    }

    /// Whether the cause is a full file system or an exhausted quota.
    pub fn is_no_space(&self) -> bool {
        match self {
            Self::NoSpace { .. } => true,
            Self::Io { source, .. } => io_is_no_space(source),
            _ => false,
        }
    }
}

/// Whether the kernel's answer concerns the host, and not a path that another one could take the place of.
pub fn is_hosts_fault(e: &io::Error) -> bool {
    use io::ErrorKind as K;
    !matches!(
        e.kind(),
        K::NotFound | K::NotADirectory | K::IsADirectory | K::AlreadyExists | K::InvalidFilename | K::InvalidInput
    )
}

/// Whether the kernel said that there is no room: a file system is full, a quota exhausted, or a file as large as it may be.
pub(crate) fn io_is_no_space(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG))
}

/// What there is no room for, by the kernel's error.
fn no_room(errno: i32) -> &'static str {
    match errno {
        libc::EDQUOT => "the quota of this user is used up, none left",
        libc::EFBIG => "no larger files are allowed",
        _ => "no space left",
    }
}

/// What makes room, by the kernel's error.
fn room(errno: i32, path: &Path) -> String {
    match remedies::remedy(errno, Place::Write).filter(|_| errno != libc::ENOSPC) {
        Some(needed) => format!("needed: {needed}"),
        None => format!(
            "free space on that file system (df {}) or record to another one with -o",
            shell_path(path.parent().unwrap_or(path))
        ),
    }
}

/// What the kernel said keeps the hint that it has everywhere else.
impl From<pagelab_output::Error> for Error {
    fn from(error: pagelab_output::Error) -> Self {
        match error {
            pagelab_output::Error::Io { action, path, source } => Self::Io { action, path, source },
            refused => Self::Output(refused),
        }
    }
}

/// What became of rows that did not fit.
fn waiting(kept_rows: u64, dropped_rows: u64) -> String {
    match (kept_rows, dropped_rows) {
        (0, 0) => "no row is missing".to_owned(),
        (0, dropped) => format!("{dropped} rows were given up"),
        (kept, 0) => format!("{kept} rows wait in memory to be written"),
        (kept, dropped) => format!("{kept} rows wait in memory to be written, {dropped} were given up"),
    }
}

fn hint(action: &str, e: &io::Error, path: &Path) -> String {
    let parent = shell_path(path.parent().unwrap_or(path));
    match e.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) if action.starts_with("read") || action == "open" => read_hint(path),
        Some(libc::EACCES | libc::EPERM) => {
            format!("; write permission is needed: ls -ld {parent}")
        }
        Some(libc::EROFS) => "; a writable file system is needed: choose another directory with -o".to_owned(),
        Some(libc::ENOSPC) => format!("; free space is needed: df {parent}"),
        Some(libc::EEXIST) => format!("; a directory is needed there: ls -ld {}", shell_path(path)),
        Some(libc::ENOTDIR) => format!("; a directory is needed there: ls -ld {parent}"),
        errno => remedies::ending(errno, place_of(action)),
    }
}

/// Where a failed action stands in the table of remedies.
fn place_of(action: &str) -> Place {
    match action.split(' ').next() {
        Some("write" | "sync") => Place::Write,
        Some("rename") => Place::Rename,
        Some("map") => Place::Mmap,
        _ => Place::Open,
    }
}

/// The right that a reader lacks: the file, or the directory in its way, is somebody else's.
fn read_hint(path: &Path) -> String {
    let found = path.ancestors().find_map(|path| Some((path, std::fs::metadata(path).ok()?.uid())));
    let Some((closed, owner)) = found else { return "; read permission is needed".to_owned() };
    let owner = if owner == 0 { "root".to_owned() } else { format!("user {owner}") };
    let closed = shell_path(closed);
    format!("; read permission is needed, and {closed} belongs to {owner}; type: sudo chown -R \"$(id -u)\" {closed}")
}

fn recording_dir(part: &Path) -> &Path {
    part.parent().and_then(Path::parent).unwrap_or(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_path_is_not_the_hosts_fault_and_a_full_disk_is() {
        let of = |errno| Error::io("write", Path::new("/a/b"))(io::Error::from_raw_os_error(errno)).is_hosts_fault();
        for errno in [libc::ENOSPC, libc::EDQUOT, libc::EIO, libc::EACCES, libc::EROFS, libc::EMFILE] {
            assert!(of(errno), "{}", io::Error::from_raw_os_error(errno));
        }
        for errno in [libc::ENOENT, libc::ENOTDIR, libc::EISDIR, libc::EEXIST, libc::ENAMETOOLONG] {
            assert!(!of(errno), "{}", io::Error::from_raw_os_error(errno));
        }
    }
}
