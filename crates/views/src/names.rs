//! Numbers of the kernel's interfaces by name: errnos, signals, and the bits of mapping calls.
//!
//! The names stand in the vocabulary ([`pagelab_vocab::syscalls`]); which of them a mapping action uses is said here.

use pagelab_vocab::syscalls::{self, Words};

/// The errno in the result of a call; null if the call succeeded or its result is not known.
pub(crate) fn errno_of(ret: Option<i64>) -> Option<i64> {
    ret.filter(|ret| (-4095..0).contains(ret)).map(|ret| -ret)
}

/// The name of an errno.
pub(crate) fn errno(number: i64) -> String {
    syscalls::errno(number).map_or_else(|| format!("errno {number}"), str::to_owned)
}

/// The name of a signal.
pub fn signal(number: i32) -> String {
    syscalls::signal(number)
}

/// PROT_ bits by name.
pub(crate) fn prot(bits: u32) -> String {
    Words::Prot.decode(bits)
}

/// PROT_ bits as in /proc/PID/maps.
pub fn prot_short(bits: u32) -> String {
    [(1, 'r'), (2, 'w'), (4, 'x')].iter().map(|(bit, letter)| if bits & bit != 0 { *letter } else { '-' }).collect()
}

/// The flags of a mapping call by name; which flags they are depends on the call. Empty for none.
pub(crate) fn flags(op: &str, bits: u32) -> String {
    let words = match op {
        "mremap" => Words::Mremap,
        "shmat" => Words::Shmat,
        "mlock" => Words::Mlock2,
        _ => Words::Map,
    };
    if bits == 0 { String::new() } else { words.decode(bits) }
}

/// The advice of madvise, or of prctl(PR_SET_THP_DISABLE), by name.
pub(crate) fn advice(op: &str, number: i32) -> String {
    if op == "prctl_thp" {
        return format!("PR_SET_THP_DISABLE {number}");
    }
    let name = Words::Madvise.decode(number as u32);
    if name.starts_with("MADV_") { name } else { format!("advice {number}") }
}

/// How a task ended, from the wait status as the kernel keeps it: the code, or the signal's name.
pub(crate) fn exit_status(status: i32) -> String {
    match status & 0x7f {
        0 => (status >> 8 & 0xff).to_string(),
        number => signal(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_named_and_none_is_lost() {
        assert_eq!(flags("mmap", 0x22), "MAP_PRIVATE|MAP_ANONYMOUS");
        assert_eq!(flags("mmap", 0x22 | 0x4_0000 | 21 << 26), "MAP_PRIVATE|MAP_ANONYMOUS|MAP_HUGETLB|MAP_HUGE_2MB");
        assert_eq!(flags("mmap", 0x0200_0002), "MAP_PRIVATE|0x2000000");
        assert_eq!(flags("mremap", 5), "MREMAP_MAYMOVE|MREMAP_DONTUNMAP");
        assert_eq!(
            (prot(0), prot(3), prot_short(5)),
            ("PROT_NONE".into(), "PROT_READ|PROT_WRITE".into(), "r-x".into())
        );
        assert_eq!((advice("madvise", 14), advice("madvise", 77)), ("MADV_HUGEPAGE".into(), "advice 77".into()));
    }

    #[test]
    fn results_and_statuses_are_told_apart() {
        assert_eq!(errno_of(Some(-12)).map(errno).as_deref(), Some("ENOMEM"));
        assert_eq!(errno_of(Some(-5000)), None, "an address in the upper half is no errno");
        assert_eq!((errno_of(Some(0)), errno_of(None)), (None, None));
        assert_eq!(
            (exit_status(0x300), exit_status(0x8b), exit_status(9)),
            ("3".into(), "SIGSEGV".into(), "SIGKILL".into())
        );
        assert_eq!((signal(0), signal(64), signal(-1)), ("signal 0".into(), "SIGRT_32".into(), "signal -1".into()));
    }
}
