//! What is missing where the kernel says that a limit is reached or a resource is used up, and the command to type: one table of
//! errors and places.
//!
//! A message about something that failed has a remedy of its own (a right, a kernel option, another path). It is wrong where the kernel
//! says EMFILE or ENOMEM: nobody's descriptors grow by `sudo`. So whoever writes such a message asks [`needed`] first.

/// What was being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Opening or making a file, a pipe, another descriptor.
    Open,
    /// Writing to a file.
    Write,
    /// Giving a file its name.
    Rename,
    /// Mapping memory.
    Mmap,
    /// Starting a process or a thread.
    Fork,
    /// bpf(2): loading programs, making maps.
    Bpf,
    /// perf_event_open(2).
    PerfEvent,
}

impl Place {
    /// All places.
    pub const ALL: [Self; 7] =
        [Self::Open, Self::Write, Self::Rename, Self::Mmap, Self::Fork, Self::Bpf, Self::PerfEvent];
}

const EAGAIN: i32 = 11;
const ENOMEM: i32 = 12;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const EFBIG: i32 = 27;
const ENOSPC: i32 = 28;
const EPIPE: i32 = 32;
const EDQUOT: i32 = 122;

/// The errors of the table.
pub const ERRORS: [i32; 8] = [EAGAIN, ENOMEM, ENFILE, EMFILE, EFBIG, ENOSPC, EPIPE, EDQUOT];

const FILES: &str = "more open files than the limit of this process; look: ulimit -Hn; type: ulimit -n 65536 (above the hard limit as root)";
const FILES_OF_PROBES: &str = "a descriptor for each probe, CPU and thread, more than the limit of this process allows; look: ulimit -Hn; type: ulimit -n 65536 \
     (above the hard limit as root)";
const HOST_FILES: &str =
    "room in the host's table of open files; look: cat /proc/sys/fs/file-nr; type: sudo sysctl fs.file-max=1000000";
const FILE_SIZE: &str = "files larger than the limit of this process, or than the file system allows; look: ulimit -Hf; type: ulimit -f unlimited";
const SPACE: &str = "free space on that file system; look: df -h and df -i";
const QUOTA: &str = "free quota of this user on that file system; look: quota -s";
const READER: &str = "a reader: the program at the other end has ended";
const MEMORY: &str = "free memory, of the host and of its control group; look: free -m; cat /proc/self/cgroup";
const MAPPED_MEMORY: &str =
    "free memory and address space; look: free -m; ulimit -v; sysctl vm.max_map_count vm.overcommit_memory";
const LOCKED_MEMORY: &str =
    "memory that may be locked; look: ulimit -l; for rings of perf events: sysctl kernel.perf_event_mlock_kb";
const BPF_MEMORY: &str = "memory for BPF programs and maps, of the host and of its control group; look: free -m; try a smaller --ring-bytes; before Linux 5.11 type: \
     ulimit -l unlimited";
const PROCESSES: &str = "room for one more process or thread; look: ulimit -u; cat /proc/sys/kernel/threads-max; pids.max of the control group in /proc/self/cgroup";
const AGAIN: &str = "another try: the kernel was interrupted";

/// What is needed where the kernel gave this error at this place, with the command that shows or mends it; `None` where the error says
/// nothing of limits there, so that the place's own remedy holds.
pub fn remedy(errno: i32, place: Place) -> Option<&'static str> {
    Some(match (errno, place) {
        (EMFILE, Place::Bpf | Place::PerfEvent) => FILES_OF_PROBES,
        (EMFILE, _) => FILES,
        (ENFILE, _) => HOST_FILES,
        (EFBIG, Place::Open | Place::Write | Place::Rename) => FILE_SIZE,
        (ENOSPC, Place::Open | Place::Write | Place::Rename) => SPACE,
        (EDQUOT, Place::Open | Place::Write | Place::Rename) => QUOTA,
        (EPIPE, Place::Write) => READER,
        (ENOMEM, Place::Bpf) => BPF_MEMORY,
        (ENOMEM, Place::Mmap) => MAPPED_MEMORY,
        (ENOMEM, _) => MEMORY,
        (EAGAIN, Place::Fork) => PROCESSES,
        (EAGAIN, Place::Mmap) => LOCKED_MEMORY,
        (EAGAIN, Place::Bpf) => AGAIN,
        _ => return None,
    })
}

/// The end of a message: `; needed: ...` where the table knows the error, else nothing.
pub fn ending(errno: Option<i32>, place: Place) -> String {
    let known = errno.and_then(|errno| remedy(errno, place));
    known.map_or_else(String::new, |needed| format!("; needed: {needed}"))
}

/// What is needed, where the place's own remedy is `otherwise`.
pub fn needed(errno: Option<i32>, place: Place, otherwise: &'static str) -> &'static str {
    errno.and_then(|errno| remedy(errno, place)).unwrap_or(otherwise)
}

/// The number in an error's text, `Too many open files (os error 24)`: what libraries leave of it.
pub fn errno_in(text: &str) -> Option<i32> {
    let (_, rest) = text.rsplit_once("(os error ")?;
    rest.split_once(')')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_is_named_by_what_raises_it() {
        for place in Place::ALL {
            for errno in ERRORS {
                let Some(remedy) = remedy(errno, place) else { continue };
                let names = |word: &str| remedy.contains(word);
                assert_eq!(names("ulimit -n"), errno == EMFILE, "{errno} {place:?}: {remedy}");
                assert_eq!(names("file-nr"), errno == ENFILE, "{errno} {place:?}: {remedy}");
                assert_eq!(names("ulimit -f"), errno == EFBIG, "{errno} {place:?}: {remedy}");
                assert_eq!(names("df "), errno == ENOSPC, "{errno} {place:?}: {remedy}");
                assert_eq!(names("quota"), errno == EDQUOT, "{errno} {place:?}: {remedy}");
                assert_eq!(names("free -m"), errno == ENOMEM, "{errno} {place:?}: {remedy}");
                for right in ["sudo pagelab", "CAP_", "Linux 5.18", "frequency"] {
                    assert!(!names(right), "{errno} {place:?}: a right mends no limit: {remedy}");
                }
            }
            for errno in [EMFILE, ENFILE, ENOMEM] {
                assert!(remedy(errno, place).is_some(), "{errno} {place:?}");
            }
        }
        assert_eq!(remedy(EAGAIN, Place::Write), None, "a full pipe is no limit");
        assert_eq!(remedy(1, Place::Bpf), None);
    }

    #[test]
    fn numbers_are_found_in_words() {
        assert_eq!(errno_in("failed to load: Too many open files (os error 24)"), Some(24));
        assert_eq!(errno_in("a (os error 2): b (os error 12) (said so)"), Some(12));
        assert_eq!(errno_in("no such tracepoint"), None);
        assert_eq!(errno_in("(os error x)"), None);
        assert_eq!(needed(None, Place::Bpf, "root"), "root");
        assert_eq!(needed(Some(1), Place::Bpf, "root"), "root");
    }
}
