//! What can go wrong with a store, in words that say what to do.

use std::path::{Path, PathBuf};

/// Result of this crate.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The URL names no store.
    #[error("{url}: {found}; needed: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or file:///FOLDER")]
    Url {
        /// As given.
        url: String,
        /// What is wrong with it.
        found: String,
    },
    /// There are no credentials, or wrong ones.
    #[error(
        "{url}: the store does not accept the credentials ({said}); needed: those of this bucket, from the environment \
         (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_PROFILE; GOOGLE_APPLICATION_CREDENTIALS; \
         AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY) or ~/.aws/credentials"
    )]
    Credentials {
        /// The place.
        url: String,
        /// What the store said.
        said: String,
    },
    /// They do not allow this.
    #[error(
        "{url}: the store forbids it ({said}); needed: permission to list and read, and to upload also to write and delete"
    )]
    Forbidden {
        /// The place, or the object.
        url: String,
        /// What the store said.
        said: String,
    },
    /// It takes no more.
    #[error("{url}: the store is full ({said}); make room or raise its quota, then go on")]
    Full {
        /// The object.
        url: String,
        /// What the store said.
        said: String,
    },
    /// There is no such bucket or object.
    #[error("{url}: not found ({said}); see what is there: pagelab-fleet ls {url}")]
    NotFound {
        /// The place, or the object.
        url: String,
        /// What the store said.
        said: String,
    },
    /// The place belongs to another recording.
    #[error(
        "{url}: holds another recording, of {theirs}; this one is of {ours}; nothing was overwritten: choose another prefix"
    )]
    Taken {
        /// The place of the recording.
        url: String,
        /// Host and start of the one that is there.
        theirs: String,
        /// Host and start of the one that was to go there.
        ours: String,
    },
    /// It did not answer for as long as it was given.
    #[error("{url}: no answer within {seconds} s ({said}); what was copied stays; go on with: the same command")]
    Away {
        /// The place.
        url: String,
        /// How long it was tried.
        seconds: u64,
        /// What the last try said.
        said: String,
    },
    /// There is nothing to copy.
    #[error(
        "{place}: no recording is here; needed: a folder that holds manifest.json, folders of recordings, or days of a compacted fleet"
    )]
    NoRecording {
        /// The folder or the URL.
        place: String,
    },
    /// There is something, and nothing of what was asked for.
    #[error("{place}: {found}; needed: {needed}; see what is there: pagelab-fleet ls {place}")]
    NotSelected {
        /// The URL.
        place: String,
        /// What is there.
        found: String,
        /// What was asked for.
        needed: String,
    },
    /// An option that makes no sense.
    #[error("found {found:?}, needed {needed}")]
    Option {
        /// As given.
        found: String,
        /// What would do.
        needed: &'static str,
    },
    /// A file of this machine.
    #[error("{}: cannot {doing}: {error}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// What the system said.
        error: std::io::Error,
    },
    /// A file or folder that is written to is not as it must be, or cannot be written.
    #[error(transparent)]
    Output(#[from] pagelab_output::Error),
    /// A manifest or journal says what it cannot.
    #[error("{what}: {said}")]
    Document {
        /// The file or object.
        what: String,
        /// What is wrong.
        said: String,
    },
    /// Anything else that the store said.
    #[error("{url}: {said}")]
    Other {
        /// The place, or the object.
        url: String,
        /// What the store said.
        said: String,
    },
}

impl StoreError {
    /// For `map_err` of what is done to a file.
    pub(crate) fn file(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::File { path, doing, error }
    }

    /// What the store said of the object or place `url`.
    pub(crate) fn of(url: &str, error: &object_store::Error) -> Self {
        use object_store::Error as Said;
        let (url, said) = (url.to_owned(), one_line(error));
        let is_any = |codes: &[&str]| codes.iter().any(|code| said.contains(code));
        match error {
            _ if is_any(FULL) => Self::Full { url, said },
            _ if is_any(CREDENTIALS) => Self::Credentials { url, said },
            _ if status(&said) == Some(404) => Self::NotFound { url, said },
            Said::NotFound { .. } => Self::NotFound { url, said },
            // The client library tells it apart for requests about one object only.
            _ if status(&said) == Some(403) => Self::Forbidden { url, said },
            Said::PermissionDenied { .. } => Self::Forbidden { url, said },
            Said::Unauthenticated { .. } => Self::Credentials { url, said },
            _ => Self::Other { url, said },
        }
    }

    /// Whether the same may work a little later: the network, throttling, an error of the server; and not a request that the server
    /// calls wrong, which it will call wrong again.
    pub(crate) fn may_pass(&self) -> bool {
        let Self::Other { said, .. } = self else { return false };
        status(said).is_none_or(|status| status >= 500 || status == 408 || status == 429)
    }
}

/// The status in what the client library says of an answer.
fn status(said: &str) -> Option<u16> {
    said.split_once("status code: ").and_then(|(_, rest)| rest.get(..3)?.parse().ok())
}

/// Codes of S3 and of what speaks its protocol, <https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html>: no room.
const FULL: &[&str] = &["QuotaExceeded", "InsufficientStorage", "XMinioStorageFull", "TooManyObjects"];
/// The same: credentials that are wrong or have ended.
const CREDENTIALS: &[&str] = &[
    "ExpiredToken",
    "InvalidToken",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "TokenRefreshRequired",
    "AuthenticationFailed",
];

/// The error and its causes in one line. Answers of servers are pages of XML at times.
fn one_line(error: &object_store::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        let said = next.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = next.source();
    }
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown: String = line.chars().filter(|letter| !letter.is_control()).take(300).collect();
    if shown.len() < line.len() { format!("{shown}...") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> StoreError {
        StoreError::of("s3://a/b", &object_store::Error::Generic { store: "S3", source: text.into() })
    }

    #[test]
    fn what_may_pass_is_tried_again_and_nothing_else() {
        let answer = |code: &str, body: &str| of(&format!("Server returned non-2xx status code: {code}: {body}"));
        for passing in ["500 Internal Server Error", "503 Slow Down", "429 Too Many Requests", "408 Request Timeout"] {
            assert!(answer(passing, "").may_pass(), "{passing}");
        }
        assert!(of("connection refused").may_pass());
        assert!(!answer("400 Bad Request", "<Code>MalformedXML</Code>").may_pass());
        assert!(matches!(answer("400 Bad Request", "<Code>ExpiredToken</Code>"), StoreError::Credentials { .. }));
        assert!(matches!(
            answer("507 Insufficient Storage", "<Code>XMinioStorageFull</Code>"),
            StoreError::Full { .. }
        ));
        let denied = answer("403 Forbidden", "<Code>AccessDenied</Code>");
        assert!(matches!(denied, StoreError::Forbidden { .. }) && denied.to_string().contains("needed: permission"));
        assert!(matches!(answer("403 Forbidden", "<Code>QuotaExceeded</Code>"), StoreError::Full { .. }));
        assert!(matches!(answer("404 Not Found", "<Code>NoSuchBucket</Code>"), StoreError::NotFound { .. }));
        let hostile = of(&format!("{}\u{1b}[2J{}", "x".repeat(200), "y".repeat(5000))).to_string();
        assert!(hostile.len() < 600 && !hostile.contains('\u{1b}'), "{hostile}");
    }
}
