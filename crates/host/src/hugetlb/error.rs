//! What can go wrong with pools and mounts: each message gives what was found, what is needed and what to type.

use crate::guard::GuardError;

/// Why something about pools or mounts was not done. Nothing was changed, unless the message says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HugetlbError {
    /// The kernel has no hugetlb pages at all.
    #[error("found no folder {path}, needed a kernel with CONFIG_HUGETLBFS; type: grep Huge /proc/meminfo")]
    NoPools {
        /// Where pools would be.
        path: String,
    },
    /// The text is no size.
    #[error(
        "found page size `{found}`, needed a number with a unit such as 2M, 1G or 2048kB; type: pagelab hugepages list"
    )]
    Size {
        /// The text.
        found: String,
    },
    /// The host has no pool of this page size.
    #[error("found page sizes {found}, needed {needed}, which this host does not have; type: pagelab hugepages list")]
    NoSuchSize {
        /// The sizes that there are.
        found: String,
        /// The size asked for.
        needed: String,
    },
    /// The host has no such NUMA node.
    #[error("found nodes {found}, needed node {needed}; type: ls /sys/devices/system/node")]
    NoSuchNode {
        /// The nodes that there are.
        found: String,
        /// The node asked for.
        needed: u32,
    },
    /// Two things were asked for that exclude each other, or something that makes no sense.
    #[error("{found}: needed {needed}")]
    Contradiction {
        /// The request.
        found: String,
        /// What can be asked.
        needed: String,
    },
    /// More pages were asked for than memory has room for.
    #[error(
        "{pages} pages of {size} are {needed_bytes} bytes more than the pool has; found {found_bytes} bytes {of_what}: nothing was \
         changed; at most {most_pages} pages fit; type: {command}"
    )]
    TooMuch {
        /// The pages asked for.
        pages: u64,
        /// Page size as typed in commands.
        size: String,
        /// Bytes by which the pool would have to grow.
        needed_bytes: u64,
        /// Bytes that there are.
        found_bytes: u64,
        /// The kind of memory (`of memory that can be freed (MemAvailable)`).
        of_what: &'static str,
        /// The largest pool that there is room for, in pages.
        most_pages: u64,
        /// The command that asks for those.
        command: String,
    },
    /// A file may not be written by this user.
    #[error("{path}: found {found}, needed root; type: sudo {command}")]
    NotRoot {
        /// The file or the attempted action.
        path: String,
        /// Who asked.
        found: String,
        /// The command that would do it.
        command: String,
    },
    /// The file is on a file system that is mounted read-only.
    #[error(
        "{path}: found it read-only, as in most containers, needed it writable; type on the host itself: {command}"
    )]
    ReadOnly {
        /// The file.
        path: String,
        /// The command that would do it.
        command: String,
    },
    /// The kernel refused the value.
    #[error("{path}: the kernel refused `{value}` ({reason}); {needed}")]
    Refused {
        /// The file, or the call.
        path: String,
        /// The value written.
        value: String,
        /// What the kernel said.
        reason: String,
        /// What would be needed, and what to type.
        needed: String,
    },
    /// The kernel granted less than a measurement needs.
    #[error("{key}: needed {needed}, got {got}; {why}")]
    NotGranted {
        /// The setting.
        key: String,
        /// The request.
        needed: String,
        /// The pages granted; they have been given back.
        got: String,
        /// Why, as far as known.
        why: String,
    },
    /// A file of the kernel's could not be read or understood.
    #[error("{path}: {reason}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// The place is not one where a hugetlbfs is mounted.
    #[error("{path}: found {found}, needed a mount of hugetlbfs; type: pagelab hugepages mounts list")]
    NotAMount {
        /// The place.
        path: String,
        /// What is there.
        found: String,
    },
    /// The mount is in use.
    #[error(
        "{path}: found it in use by {who}, needed nobody; end them, then type: pagelab hugepages mounts remove {path}"
    )]
    Busy {
        /// The mount.
        path: String,
        /// Processes and how they use it.
        who: String,
    },
    /// The folder cannot be mounted on.
    #[error("{path}: found {found}, needed an empty folder; {fix}")]
    Folder {
        /// The folder.
        path: String,
        /// What is there.
        found: String,
        /// What to type.
        fix: String,
    },
    /// A part of a program that cannot be put on huge pages without changing the program.
    #[error("{part} on huge pages: refused, because {why}; {instead}")]
    Part {
        /// The part: `text`, `data`, ...
        part: &'static str,
        /// Why.
        why: String,
        /// What can be done.
        instead: String,
    },
    /// The program to run was not found or could not be started.
    #[error("{program}: {reason}; needed a program that can be run")]
    Program {
        /// Its name.
        program: String,
        /// What went wrong.
        reason: String,
    },
    /// A setting could not be changed for the length of a run.
    #[error(transparent)]
    Guard(#[from] GuardError),
}

impl HugetlbError {
    /// A file that could not be read.
    pub(crate) fn unreadable(path: &str, error: &std::io::Error) -> Self {
        HugetlbError::Unreadable { path: path.to_owned(), reason: crate::settings::plain(error) }
    }

    /// What a failed write to `path` means; `value` was to be written, `command` would do it.
    pub(crate) fn writing(path: &str, value: &str, command: &str, error: &std::io::Error) -> Self {
        let (path, command) = (path.to_owned(), command.to_owned());
        match error.kind() {
            std::io::ErrorKind::PermissionDenied => {
                let found = format!("user {}", rustix::process::geteuid().as_raw());
                HugetlbError::NotRoot { path, found, command }
            }
            std::io::ErrorKind::ReadOnlyFilesystem => HugetlbError::ReadOnly { path, command },
            _ => HugetlbError::Refused {
                path,
                value: value.to_owned(),
                reason: crate::settings::plain(error),
                needed: "needed a value that this kernel takes; type: pagelab hugepages list".to_owned(),
            },
        }
    }
}

impl From<pagelab_residency::ResidencyError> for HugetlbError {
    fn from(error: pagelab_residency::ResidencyError) -> Self {
        use pagelab_residency::ResidencyError;
        match error {
            ResidencyError::NoSuchPageSize { needed_bytes, found } => {
                HugetlbError::NoSuchSize { found, needed: pagelab_vocab::settings::format_size(needed_bytes as u64) }
            }
            ResidencyError::Unreadable { path, why } => HugetlbError::Unreadable { path, reason: why },
            other => HugetlbError::Unreadable { path: "hugetlb pool".to_owned(), reason: other.to_string() },
        }
    }
}
