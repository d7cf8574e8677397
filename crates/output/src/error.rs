//! What can be wrong with a place to write to, each with the value found, the value needed and what to do.

use std::io;
use std::path::{Path, PathBuf};

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Io {
        /// The attempted action, as a verb.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file or folder belongs to somebody else.
    #[error(
        "{path} belongs to user {owner}, mode {mode:04o}; needed: one that belongs to user {needed} and that no one else can write to: \
         name another place, or see ls -ld {path}",
        path = path.display()
    )]
    ForeignOwner {
        /// The file or folder.
        path: PathBuf,
        /// User id found.
        owner: u32,
        /// Permission bits found.
        mode: u32,
        /// User id needed.
        needed: u32,
    },
    /// A folder of ours can be written to by others.
    #[error(
        "{path} has mode {mode:04o}: others can write to it; needed: a folder that only its owner writes to: chmod go-w {path}",
        path = path.display()
    )]
    WritableByOthers {
        /// The folder.
        path: PathBuf,
        /// Permission bits found.
        mode: u32,
    },
    /// A symbolic link that somebody else can have put there.
    #[error(
        "{path} is a symbolic link of user {owner} in a folder that others can write to, and is not followed; \
         needed: the path that it stands for: readlink -f {path}",
        path = path.display()
    )]
    ForeignLink {
        /// The link.
        path: PathBuf,
        /// User id of its owner.
        owner: u32,
    },
    /// Something of another type is in the place.
    #[error("{path} is {found}; needed: {needed}", path = path.display())]
    WrongType {
        /// The path.
        path: PathBuf,
        /// What is there, with its article.
        found: &'static str,
        /// What is needed, with its article.
        needed: &'static str,
    },
    /// A file of ours is larger than it can be.
    #[error("{path} has more than {limit} bytes, more than pagelab writes there", path = path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Most bytes allowed.
        limit: u64,
    },
    /// A name below a held folder would lead out of it.
    #[error("{name:?} is not the name of a file in {folder}; needed: one name without / that is not . or ..", folder = folder.display())]
    BadName {
        /// The held folder.
        folder: PathBuf,
        /// The name given.
        name: String,
    },
}

impl Error {
    pub(crate) fn io<E: Into<io::Error>>(action: &'static str, path: impl AsRef<Path>) -> impl FnOnce(E) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::Io { action, path, source: source.into() }
    }

    /// What the kernel said, if a system call failed.
    pub fn os_error(&self) -> Option<&io::Error> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }

    /// The kind of the kernel's answer; `PermissionDenied`, `InvalidInput` or `InvalidData` for refusals made here.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Io { source, .. } => source.kind(),
            Self::ForeignOwner { .. } | Self::WritableByOthers { .. } | Self::ForeignLink { .. } => {
                io::ErrorKind::PermissionDenied
            }
            Self::WrongType { .. } | Self::BadName { .. } => io::ErrorKind::InvalidInput,
            Self::TooLarge { .. } => io::ErrorKind::InvalidData,
        }
    }
}

/// Keeps the kernel's error number where there is one.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Io { source, .. } => source,
            refused => io::Error::new(refused.kind(), refused),
        }
    }
}
