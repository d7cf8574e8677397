//! What calls ask for, as far as it tells causes apart: a wait for the device means one thing in fdatasync and another in openat.

/// What a call asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// That data are safe. A write asks for it, too, where the file was opened with O_SYNC or O_DSYNC or its file system is mounted with
    /// sync, and so does a request of io_uring or aio, which a thread of the kernel may carry out.
    Safety,
    /// That contents of a file are written.
    Writing,
}

/// Calls that write contents of files.
const WRITING: &[&str] =
    &["write", "pwrite64", "writev", "pwritev", "pwritev2", "sendfile", "sendfile64", "splice", "copy_file_range"];

/// Calls that ask for nothing but safety.
const ONLY_SAFETY: &[&str] = &["fsync", "fdatasync", "msync", "sync", "syncfs", "sync_file_range"];

/// Ways of asynchronous requests.
const ASYNCHRONOUS: &[&str] = &["io_uring_enter", "io_submit", "thread"];

impl Purpose {
    /// Whether a call asks for nothing else.
    pub fn is_all_of(self, call: &str) -> bool {
        match self {
            Self::Safety => ONLY_SAFETY.contains(&call),
            Self::Writing => WRITING.contains(&call),
        }
    }

    /// Whether a way into the kernel, as [`crate::mechanisms::entry_of_stack`] names it, can ask for this.
    pub fn may_be_of(self, entry: &str) -> bool {
        match self {
            Self::Safety => [ONLY_SAFETY, WRITING, ASYNCHRONOUS].iter().any(|calls| calls.contains(&entry)),
            Self::Writing => WRITING.contains(&entry),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syscalls::by_name;

    #[test]
    fn calls_are_named_as_the_table_names_them() {
        // sendfile(2) enters the kernel of x86-64 as sendfile64.
        let known = |call: &&&str| by_name(call).is_some() || **call == "sendfile64";
        let unknown: Vec<&&str> = WRITING.iter().chain(ONLY_SAFETY).filter(|call| !known(call)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    #[test]
    fn a_write_may_ask_for_safety_and_safety_is_no_write() {
        assert!(Purpose::Safety.may_be_of("pwrite64") && Purpose::Safety.may_be_of("fdatasync"));
        assert!(Purpose::Safety.may_be_of("thread") && !Purpose::Safety.may_be_of("openat"));
        assert!(Purpose::Safety.is_all_of("fdatasync") && !Purpose::Safety.is_all_of("pwrite64"));
        assert!(Purpose::Writing.may_be_of("pwrite64") && !Purpose::Writing.may_be_of("fdatasync"));
    }
}
