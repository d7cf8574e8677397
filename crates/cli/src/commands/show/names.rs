//! Numbers of the kernel's interfaces by name: errnos, signals, and the bits of mapping calls.
//!
//! Values are those of x86-64 and of the generic headers (include/uapi/asm-generic/{errno-base,errno,mman,mman-common}.h,
//! include/uapi/linux/mman.h); what has no name here is printed as a number.

/// MAP_ bits above the type, which stands in the lowest four.
const MAP: [(u32, &str); 15] = [
    (0x10, "MAP_FIXED"),
    (0x20, "MAP_ANONYMOUS"),
    (0x40, "MAP_32BIT"),
    (0x80, "MAP_ABOVE4G"),
    (0x100, "MAP_GROWSDOWN"),
    (0x800, "MAP_DENYWRITE"),
    (0x1000, "MAP_EXECUTABLE"),
    (0x2000, "MAP_LOCKED"),
    (0x4000, "MAP_NORESERVE"),
    (0x8000, "MAP_POPULATE"),
    (0x1_0000, "MAP_NONBLOCK"),
    (0x2_0000, "MAP_STACK"),
    (MAP_HUGETLB, "MAP_HUGETLB"),
    (0x8_0000, "MAP_SYNC"),
    (0x10_0000, "MAP_FIXED_NOREPLACE"),
];

const MAP_TYPE: u32 = 0xf;
const MAP_HUGETLB: u32 = 0x4_0000;
/// The logarithm of the huge page size stands in six bits from here; 0 is the default size.
const MAP_HUGE_SHIFT: u32 = 26;
const MAP_HUGE_MASK: u32 = 0x3f;

const MREMAP: [(u32, &str); 3] = [(1, "MREMAP_MAYMOVE"), (2, "MREMAP_FIXED"), (4, "MREMAP_DONTUNMAP")];
const SHM: [(u32, &str); 4] =
    [(0o10_000, "SHM_RDONLY"), (0o20_000, "SHM_RND"), (0o40_000, "SHM_REMAP"), (0o100_000, "SHM_EXEC")];
const MLOCK: [(u32, &str); 1] = [(1, "MLOCK_ONFAULT")];
const PROT: [(u32, &str); 6] = [
    (1, "PROT_READ"),
    (2, "PROT_WRITE"),
    (4, "PROT_EXEC"),
    (8, "PROT_SEM"),
    (0x100_0000, "PROT_GROWSDOWN"),
    (0x200_0000, "PROT_GROWSUP"),
];

const MADV: [(i32, &str); 27] = [
    (0, "MADV_NORMAL"),
    (1, "MADV_RANDOM"),
    (2, "MADV_SEQUENTIAL"),
    (3, "MADV_WILLNEED"),
    (4, "MADV_DONTNEED"),
    (8, "MADV_FREE"),
    (9, "MADV_REMOVE"),
    (10, "MADV_DONTFORK"),
    (11, "MADV_DOFORK"),
    (12, "MADV_MERGEABLE"),
    (13, "MADV_UNMERGEABLE"),
    (14, "MADV_HUGEPAGE"),
    (15, "MADV_NOHUGEPAGE"),
    (16, "MADV_DONTDUMP"),
    (17, "MADV_DODUMP"),
    (18, "MADV_WIPEONFORK"),
    (19, "MADV_KEEPONFORK"),
    (20, "MADV_COLD"),
    (21, "MADV_PAGEOUT"),
    (22, "MADV_POPULATE_READ"),
    (23, "MADV_POPULATE_WRITE"),
    (24, "MADV_DONTNEED_LOCKED"),
    (25, "MADV_COLLAPSE"),
    (100, "MADV_HWPOISON"),
    (101, "MADV_SOFT_OFFLINE"),
    (102, "MADV_GUARD_INSTALL"),
    (103, "MADV_GUARD_REMOVE"),
];

const ERRNO: [(i64, &str); 39] = [
    (1, "EPERM"),
    (2, "ENOENT"),
    (3, "ESRCH"),
    (4, "EINTR"),
    (5, "EIO"),
    (6, "ENXIO"),
    (7, "E2BIG"),
    (8, "ENOEXEC"),
    (9, "EBADF"),
    (10, "ECHILD"),
    (11, "EAGAIN"),
    (12, "ENOMEM"),
    (13, "EACCES"),
    (14, "EFAULT"),
    (15, "ENOTBLK"),
    (16, "EBUSY"),
    (17, "EEXIST"),
    (18, "EXDEV"),
    (19, "ENODEV"),
    (20, "ENOTDIR"),
    (21, "EISDIR"),
    (22, "EINVAL"),
    (23, "ENFILE"),
    (24, "EMFILE"),
    (25, "ENOTTY"),
    (26, "ETXTBSY"),
    (27, "EFBIG"),
    (28, "ENOSPC"),
    (29, "ESPIPE"),
    (30, "EROFS"),
    (32, "EPIPE"),
    (33, "EDOM"),
    (34, "ERANGE"),
    (38, "ENOSYS"),
    (43, "EIDRM"),
    (75, "EOVERFLOW"),
    (95, "EOPNOTSUPP"),
    (132, "ERFKILL"),
    (133, "EHWPOISON"),
];

const SIGNALS: [&str; 31] = [
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
];

/// The errno in the result of a call; null if the call succeeded or its result is not known.
pub fn errno_of(ret: Option<i64>) -> Option<i64> {
    ret.filter(|ret| (-4095..0).contains(ret)).map(|ret| -ret)
}

/// The name of an errno.
pub fn errno(number: i64) -> String {
    let known = ERRNO.iter().find(|(known, _)| *known == number);
    known.map_or_else(|| format!("errno {number}"), |(_, name)| (*name).to_owned())
}

/// The name of a signal.
pub fn signal(number: i32) -> String {
    let known = usize::try_from(number).ok().and_then(|number| SIGNALS.get(number.checked_sub(1)?));
    known.map_or_else(|| format!("signal {number}"), |name| (*name).to_owned())
}

/// PROT_ bits by name.
pub fn prot(bits: u32) -> String {
    if bits == 0 { "PROT_NONE".to_owned() } else { joined(bits, &PROT) }
}

/// PROT_ bits as in /proc/PID/maps.
pub fn prot_short(bits: u32) -> String {
    [(1, 'r'), (2, 'w'), (4, 'x')].iter().map(|(bit, letter)| if bits & bit != 0 { *letter } else { '-' }).collect()
}

/// The flags of a mapping call by name; which flags they are depends on the call. Empty for none.
pub fn flags(op: &str, bits: u32) -> String {
    match op {
        "mremap" => joined(bits, &MREMAP),
        "shmat" => joined(bits, &SHM),
        "mlock" => joined(bits, &MLOCK),
        _ => map_flags(bits),
    }
}

fn map_flags(bits: u32) -> String {
    let kind = match bits & MAP_TYPE {
        0 => None,
        1 => Some("MAP_SHARED".to_owned()),
        2 => Some("MAP_PRIVATE".to_owned()),
        3 => Some("MAP_SHARED_VALIDATE".to_owned()),
        other => Some(format!("{other:#x}")),
    };
    let exponent = bits >> MAP_HUGE_SHIFT & MAP_HUGE_MASK;
    let sized = bits & MAP_HUGETLB != 0 && exponent != 0;
    let rest = if sized { bits & !(MAP_HUGE_MASK << MAP_HUGE_SHIFT) } else { bits } & !MAP_TYPE;
    let size = match exponent {
        30.. => format!("{}GB", 1u64 << (exponent - 30)),
        20.. => format!("{}MB", 1u64 << (exponent - 20)),
        10.. => format!("{}KB", 1u64 << (exponent - 10)),
        _ => format!("{}B", 1u64 << exponent),
    };
    let size = sized.then(|| format!("MAP_HUGE_{size}"));
    let others = Some(joined(rest, &MAP)).filter(|words| !words.is_empty());
    [kind, others, size].into_iter().flatten().collect::<Vec<_>>().join("|")
}

/// The advice of madvise, or of prctl(PR_SET_THP_DISABLE), by name.
pub fn advice(op: &str, number: i32) -> String {
    if op == "prctl_thp" {
        return format!("PR_SET_THP_DISABLE {number}");
    }
    let known = MADV.iter().find(|(known, _)| *known == number);
    known.map_or_else(|| format!("advice {number}"), |(_, name)| (*name).to_owned())
}

fn joined(bits: u32, names: &[(u32, &str)]) -> String {
    let (mut rest, mut words) = (bits, Vec::new());
    for (bit, name) in names {
        if rest & bit != 0 {
            words.push((*name).to_owned());
            rest &= !bit;
        }
    }
    if rest != 0 {
        words.push(format!("{rest:#x}"));
    }
    words.join("|")
}

/// How a task ended, from the wait status as the kernel keeps it: the code, or the signal's name.
pub fn exit_status(status: i32) -> String {
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
        assert_eq!(flags("mmap", 0x22 | MAP_HUGETLB | 21 << 26), "MAP_PRIVATE|MAP_ANONYMOUS|MAP_HUGETLB|MAP_HUGE_2MB");
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
        assert_eq!((signal(0), signal(64), signal(-1)), ("signal 0".into(), "signal 64".into(), "signal -1".into()));
    }
}
