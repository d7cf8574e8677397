//! Numbers in arguments and results by name. Values are those of x86-64 and of the generic headers of the kernel.

/// Names of the values of one argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WordSet {
    /// Bits that hold one of `values`; the others are flags of their own. All bits: the argument is a value.
    pub mask: u32,
    /// What no bit at all is called; empty if that is one of `values`.
    pub zero: &'static str,
    /// Values of the bits in `mask`.
    pub values: &'static [(u32, &'static str)],
    /// Flags. What is made of several bits stands before them.
    pub bits: &'static [(u32, &'static str)],
}

/// Rows `Name mask bits zero "word" values { number NAME, } bits { number NAME, };`.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident mask $mask:expr, zero $zero:literal
       values {$($value:literal $word:ident,)*} bits {$($bit:literal $flag:ident,)*};)*) => {
        /// Which names the values of an argument have.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Words {
            $($(#[$doc])* $name,)*
        }

        impl Words {
            /// Every set.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The names.
            pub const fn set(self) -> &'static WordSet {
                match self {
                    $(Self::$name => &WordSet {
                        mask: $mask,
                        zero: $zero,
                        values: &[$(($value, stringify!($word))),*],
                        bits: &[$(($bit, stringify!($flag))),*],
                    },)*
                }
            }
        }
    };
}

/// MAP_HUGETLB and MFD_HUGETLB: the logarithm of the page size asked for stands in six bits from here; 0 is the default
/// size.
const HUGE_SHIFT: u32 = 26;
const HUGE_MASK: u32 = 0x3f << HUGE_SHIFT;

impl Words {
    /// The value by name, flags with `|` between them; bits without a name are hexadecimal. Empty if no bit is set and
    /// that has no name.
    pub fn decode(self, value: u32) -> String {
        let set = self.set();
        let sized = matches!(self, Self::Map if value & 0x4_0000 != 0) || matches!(self, Self::Memfd if value & 4 != 0);
        let (value, exponent) = if sized { (value & !HUGE_MASK, value >> HUGE_SHIFT) } else { (value, 0) };
        let mut words = Vec::new();
        if set.mask != 0 {
            let chosen = value & set.mask;
            match set.values.iter().find(|(known, _)| *known == chosen) {
                Some((_, name)) => words.push((*name).to_owned()),
                None if chosen != 0 || set.mask == u32::MAX => words.push(number(chosen)),
                None => {}
            }
        }
        let mut rest = value & !set.mask;
        for (bits, name) in set.bits {
            if rest & bits == *bits {
                words.push((*name).to_owned());
                rest &= !bits;
            }
        }
        if rest != 0 {
            words.push(format!("{rest:#x}"));
        }
        if exponent != 0 {
            let (size, unit) = match exponent {
                30.. => (1u64 << (exponent - 30), "GB"),
                20.. => (1 << (exponent - 20), "MB"),
                10.. => (1 << (exponent - 10), "KB"),
                _ => (1 << exponent, "B"),
            };
            let prefix = if self == Self::Map { "MAP" } else { "MFD" };
            words.push(format!("{prefix}_HUGE_{size}{unit}"));
        }
        if words.is_empty() { set.zero.to_owned() } else { words.join("|") }
    }
}

/// A value without a name: small ones are counts more often than bits.
fn number(value: u32) -> String {
    if value < 1000 { value.to_string() } else { format!("{value:#x}") }
}

words! {
    /// `open` and what takes O_CLOEXEC and O_NONBLOCK.
    Open mask 0x3, zero ""
        values {
            0 O_RDONLY, 1 O_WRONLY, 2 O_RDWR,
        }
        bits {
            0x10_1000 O_SYNC, 0x41_0000 O_TMPFILE, 0x40 O_CREAT, 0x80 O_EXCL, 0x100 O_NOCTTY, 0x200 O_TRUNC,
            0x400 O_APPEND, 0x800 O_NONBLOCK, 0x1000 O_DSYNC, 0x2000 O_ASYNC, 0x4000 O_DIRECT, 0x1_0000 O_DIRECTORY,
            0x2_0000 O_NOFOLLOW, 0x4_0000 O_NOATIME, 0x8_0000 O_CLOEXEC, 0x20_0000 O_PATH,
        };
    /// AT_ bits of the calls on directories.
    At mask 0, zero "0"
        values {}
        bits {
            0x100 AT_SYMLINK_NOFOLLOW, 0x200 AT_REMOVEDIR, 0x400 AT_SYMLINK_FOLLOW, 0x800 AT_NO_AUTOMOUNT,
            0x1000 AT_EMPTY_PATH, 0x2000 AT_STATX_FORCE_SYNC, 0x4000 AT_STATX_DONT_SYNC,
        };
    /// `mmap` and `mprotect`.
    Prot mask 0, zero "PROT_NONE"
        values {}
        bits {
            1 PROT_READ, 2 PROT_WRITE, 4 PROT_EXEC, 8 PROT_SEM, 0x100_0000 PROT_GROWSDOWN, 0x200_0000 PROT_GROWSUP,
        };
    /// `mmap`.
    Map mask 0xf, zero ""
        values {
            1 MAP_SHARED, 2 MAP_PRIVATE, 3 MAP_SHARED_VALIDATE,
        }
        bits {
            0x10 MAP_FIXED, 0x20 MAP_ANONYMOUS, 0x40 MAP_32BIT, 0x80 MAP_ABOVE4G, 0x100 MAP_GROWSDOWN,
            0x800 MAP_DENYWRITE, 0x1000 MAP_EXECUTABLE, 0x2000 MAP_LOCKED, 0x4000 MAP_NORESERVE,
            0x8000 MAP_POPULATE, 0x1_0000 MAP_NONBLOCK, 0x2_0000 MAP_STACK, 0x4_0000 MAP_HUGETLB, 0x8_0000 MAP_SYNC,
            0x10_0000 MAP_FIXED_NOREPLACE,
        };
    /// `mremap`.
    Mremap mask 0, zero "0"
        values {}
        bits {
            1 MREMAP_MAYMOVE, 2 MREMAP_FIXED, 4 MREMAP_DONTUNMAP,
        };
    /// `madvise`.
    Madvise mask u32::MAX, zero ""
        values {
            0 MADV_NORMAL, 1 MADV_RANDOM, 2 MADV_SEQUENTIAL, 3 MADV_WILLNEED, 4 MADV_DONTNEED, 8 MADV_FREE,
            9 MADV_REMOVE, 10 MADV_DONTFORK, 11 MADV_DOFORK, 12 MADV_MERGEABLE, 13 MADV_UNMERGEABLE,
            14 MADV_HUGEPAGE, 15 MADV_NOHUGEPAGE, 16 MADV_DONTDUMP, 17 MADV_DODUMP, 18 MADV_WIPEONFORK,
            19 MADV_KEEPONFORK, 20 MADV_COLD, 21 MADV_PAGEOUT, 22 MADV_POPULATE_READ, 23 MADV_POPULATE_WRITE,
            24 MADV_DONTNEED_LOCKED, 25 MADV_COLLAPSE, 100 MADV_HWPOISON, 101 MADV_SOFT_OFFLINE,
            102 MADV_GUARD_INSTALL, 103 MADV_GUARD_REMOVE,
        }
        bits {};
    /// `msync`.
    Msync mask 0, zero "0"
        values {}
        bits {
            1 MS_ASYNC, 2 MS_INVALIDATE, 4 MS_SYNC,
        };
    /// `mlock2`.
    Mlock2 mask 0, zero "0"
        values {}
        bits {
            1 MLOCK_ONFAULT,
        };
    /// `mlockall`.
    Mlockall mask 0, zero "0"
        values {}
        bits {
            1 MCL_CURRENT, 2 MCL_FUTURE, 4 MCL_ONFAULT,
        };
    /// `fadvise64`.
    Fadvise mask u32::MAX, zero ""
        values {
            0 POSIX_FADV_NORMAL, 1 POSIX_FADV_RANDOM, 2 POSIX_FADV_SEQUENTIAL, 3 POSIX_FADV_WILLNEED,
            4 POSIX_FADV_DONTNEED, 5 POSIX_FADV_NOREUSE,
        }
        bits {};
    /// Commands of `fcntl`.
    Fcntl mask u32::MAX, zero ""
        values {
            0 F_DUPFD, 1 F_GETFD, 2 F_SETFD, 3 F_GETFL, 4 F_SETFL, 5 F_GETLK, 6 F_SETLK, 7 F_SETLKW, 8 F_SETOWN,
            9 F_GETOWN, 10 F_SETSIG, 11 F_GETSIG, 15 F_SETOWN_EX, 16 F_GETOWN_EX, 36 F_OFD_GETLK, 37 F_OFD_SETLK,
            38 F_OFD_SETLKW, 1024 F_SETLEASE, 1025 F_GETLEASE, 1026 F_NOTIFY, 1030 F_DUPFD_CLOEXEC,
            1031 F_SETPIPE_SZ, 1032 F_GETPIPE_SZ, 1033 F_ADD_SEALS, 1034 F_GET_SEALS, 1035 F_GET_RW_HINT,
            1036 F_SET_RW_HINT, 1037 F_GET_FILE_RW_HINT, 1038 F_SET_FILE_RW_HINT,
        }
        bits {};
    /// `flock`.
    Flock mask 0, zero "0"
        values {}
        bits {
            1 LOCK_SH, 2 LOCK_EX, 4 LOCK_NB, 8 LOCK_UN,
        };
    /// `lseek`.
    Whence mask u32::MAX, zero ""
        values {
            0 SEEK_SET, 1 SEEK_CUR, 2 SEEK_END, 3 SEEK_DATA, 4 SEEK_HOLE,
        }
        bits {};
    /// `fallocate`.
    Fallocate mask 0, zero "0"
        values {}
        bits {
            1 FALLOC_FL_KEEP_SIZE, 2 FALLOC_FL_PUNCH_HOLE, 4 FALLOC_FL_NO_HIDE_STALE, 8 FALLOC_FL_COLLAPSE_RANGE,
            0x10 FALLOC_FL_ZERO_RANGE, 0x20 FALLOC_FL_INSERT_RANGE, 0x40 FALLOC_FL_UNSHARE_RANGE,
        };
    /// `sync_file_range`.
    SyncFileRange mask 0, zero "0"
        values {}
        bits {
            1 SYNC_FILE_RANGE_WAIT_BEFORE, 2 SYNC_FILE_RANGE_WRITE, 4 SYNC_FILE_RANGE_WAIT_AFTER,
        };
    /// `splice`, `tee` and `vmsplice`.
    Splice mask 0, zero "0"
        values {}
        bits {
            1 SPLICE_F_MOVE, 2 SPLICE_F_NONBLOCK, 4 SPLICE_F_MORE, 8 SPLICE_F_GIFT,
        };
    /// `preadv2` and `pwritev2`.
    Rwf mask 0, zero "0"
        values {}
        bits {
            1 RWF_HIPRI, 2 RWF_DSYNC, 4 RWF_SYNC, 8 RWF_NOWAIT, 0x10 RWF_APPEND, 0x20 RWF_NOAPPEND, 0x40 RWF_ATOMIC,
            0x80 RWF_DONTCACHE,
        };
    /// `access`.
    Access mask 0, zero "F_OK"
        values {}
        bits {
            1 X_OK, 2 W_OK, 4 R_OK,
        };
    /// Families of `socket`.
    Domain mask u32::MAX, zero ""
        values {
            0 AF_UNSPEC, 1 AF_UNIX, 2 AF_INET, 3 AF_AX25, 4 AF_IPX, 5 AF_APPLETALK, 6 AF_NETROM, 7 AF_BRIDGE,
            10 AF_INET6, 15 AF_KEY, 16 AF_NETLINK, 17 AF_PACKET, 21 AF_RDS, 29 AF_CAN, 30 AF_TIPC, 31 AF_BLUETOOTH,
            38 AF_ALG, 40 AF_VSOCK, 42 AF_QIPCRTR, 44 AF_XDP,
        }
        bits {};
    /// Types and flags of `socket`.
    SockType mask 0xf, zero ""
        values {
            1 SOCK_STREAM, 2 SOCK_DGRAM, 3 SOCK_RAW, 4 SOCK_RDM, 5 SOCK_SEQPACKET, 6 SOCK_DCCP, 10 SOCK_PACKET,
        }
        bits {
            0x800 SOCK_NONBLOCK, 0x8_0000 SOCK_CLOEXEC,
        };
    /// `send` and `recv`.
    Msg mask 0, zero "0"
        values {}
        bits {
            1 MSG_OOB, 2 MSG_PEEK, 4 MSG_DONTROUTE, 8 MSG_CTRUNC, 0x20 MSG_TRUNC, 0x40 MSG_DONTWAIT, 0x80 MSG_EOR,
            0x100 MSG_WAITALL, 0x800 MSG_CONFIRM, 0x2000 MSG_ERRQUEUE, 0x4000 MSG_NOSIGNAL, 0x8000 MSG_MORE,
            0x1_0000 MSG_WAITFORONE, 0x400_0000 MSG_ZEROCOPY, 0x2000_0000 MSG_FASTOPEN, 0x4000_0000 MSG_CMSG_CLOEXEC,
        };
    /// `shutdown`.
    Shutdown mask u32::MAX, zero ""
        values {
            0 SHUT_RD, 1 SHUT_WR, 2 SHUT_RDWR,
        }
        bits {};
    /// Levels of `setsockopt`.
    SockLevel mask u32::MAX, zero ""
        values {
            0 SOL_IP, 1 SOL_SOCKET, 6 SOL_TCP, 17 SOL_UDP, 41 SOL_IPV6, 263 SOL_PACKET, 270 SOL_NETLINK,
        }
        bits {};
    /// Operations of `futex`.
    Futex mask 0x7f, zero ""
        values {
            0 FUTEX_WAIT, 1 FUTEX_WAKE, 2 FUTEX_FD, 3 FUTEX_REQUEUE, 4 FUTEX_CMP_REQUEUE, 5 FUTEX_WAKE_OP,
            6 FUTEX_LOCK_PI, 7 FUTEX_UNLOCK_PI, 8 FUTEX_TRYLOCK_PI, 9 FUTEX_WAIT_BITSET, 10 FUTEX_WAKE_BITSET,
            11 FUTEX_WAIT_REQUEUE_PI, 12 FUTEX_CMP_REQUEUE_PI, 13 FUTEX_LOCK_PI2,
        }
        bits {
            0x80 FUTEX_PRIVATE_FLAG, 0x100 FUTEX_CLOCK_REALTIME,
        };
    /// `clone`, `unshare`, `setns`; the low byte is the signal at exit.
    Clone mask 0x7f, zero ""
        values {
            17 SIGCHLD,
        }
        bits {
            0x80 CLONE_NEWTIME, 0x100 CLONE_VM, 0x200 CLONE_FS, 0x400 CLONE_FILES, 0x800 CLONE_SIGHAND,
            0x1000 CLONE_PIDFD, 0x2000 CLONE_PTRACE, 0x4000 CLONE_VFORK, 0x8000 CLONE_PARENT, 0x1_0000 CLONE_THREAD,
            0x2_0000 CLONE_NEWNS, 0x4_0000 CLONE_SYSVSEM, 0x8_0000 CLONE_SETTLS, 0x10_0000 CLONE_PARENT_SETTID,
            0x20_0000 CLONE_CHILD_CLEARTID, 0x40_0000 CLONE_DETACHED, 0x80_0000 CLONE_UNTRACED,
            0x100_0000 CLONE_CHILD_SETTID, 0x200_0000 CLONE_NEWCGROUP, 0x400_0000 CLONE_NEWUTS, 0x800_0000 CLONE_NEWIPC,
            0x1000_0000 CLONE_NEWUSER, 0x2000_0000 CLONE_NEWPID, 0x4000_0000 CLONE_NEWNET, 0x8000_0000 CLONE_IO,
        };
    /// Options of `wait4` and `waitid`.
    Wait mask 0, zero "0"
        values {}
        bits {
            1 WNOHANG, 2 WUNTRACED, 4 WEXITED, 8 WCONTINUED, 0x100_0000 WNOWAIT, 0x2000_0000 __WNOTHREAD,
            0x4000_0000 __WALL, 0x8000_0000 __WCLONE,
        };
    /// What `waitid` waits for.
    IdType mask u32::MAX, zero ""
        values {
            0 P_ALL, 1 P_PID, 2 P_PGID, 3 P_PIDFD,
        }
        bits {};
    /// `rt_sigprocmask`.
    SigHow mask u32::MAX, zero ""
        values {
            0 SIG_BLOCK, 1 SIG_UNBLOCK, 2 SIG_SETMASK,
        }
        bits {};
    /// Options of `prctl`.
    Prctl mask u32::MAX, zero ""
        values {
            1 PR_SET_PDEATHSIG, 2 PR_GET_PDEATHSIG, 3 PR_GET_DUMPABLE, 4 PR_SET_DUMPABLE,
            5 PR_GET_UNALIGN, 6 PR_SET_UNALIGN, 7 PR_GET_KEEPCAPS, 8 PR_SET_KEEPCAPS, 9 PR_GET_FPEMU,
            10 PR_SET_FPEMU, 11 PR_GET_FPEXC, 12 PR_SET_FPEXC, 13 PR_GET_TIMING, 14 PR_SET_TIMING, 15 PR_SET_NAME,
            16 PR_GET_NAME, 19 PR_GET_ENDIAN, 20 PR_SET_ENDIAN, 21 PR_GET_SECCOMP, 22 PR_SET_SECCOMP,
            23 PR_CAPBSET_READ, 24 PR_CAPBSET_DROP, 25 PR_GET_TSC, 26 PR_SET_TSC, 27 PR_GET_SECUREBITS,
            28 PR_SET_SECUREBITS, 29 PR_SET_TIMERSLACK, 30 PR_GET_TIMERSLACK, 31 PR_TASK_PERF_EVENTS_DISABLE,
            32 PR_TASK_PERF_EVENTS_ENABLE, 33 PR_MCE_KILL, 34 PR_MCE_KILL_GET, 35 PR_SET_MM,
            36 PR_SET_CHILD_SUBREAPER, 37 PR_GET_CHILD_SUBREAPER, 38 PR_SET_NO_NEW_PRIVS, 39 PR_GET_NO_NEW_PRIVS,
            40 PR_GET_TID_ADDRESS, 41 PR_SET_THP_DISABLE, 42 PR_GET_THP_DISABLE, 43 PR_MPX_ENABLE_MANAGEMENT,
            44 PR_MPX_DISABLE_MANAGEMENT, 45 PR_SET_FP_MODE, 46 PR_GET_FP_MODE, 47 PR_CAP_AMBIENT, 50 PR_SVE_SET_VL,
            51 PR_SVE_GET_VL, 52 PR_GET_SPECULATION_CTRL, 53 PR_SET_SPECULATION_CTRL, 54 PR_PAC_RESET_KEYS,
            55 PR_SET_TAGGED_ADDR_CTRL, 56 PR_GET_TAGGED_ADDR_CTRL, 57 PR_SET_IO_FLUSHER, 58 PR_GET_IO_FLUSHER,
            59 PR_SET_SYSCALL_USER_DISPATCH, 60 PR_PAC_SET_ENABLED_KEYS, 61 PR_PAC_GET_ENABLED_KEYS, 65 PR_SET_MDWE,
            66 PR_GET_MDWE, 67 PR_SET_MEMORY_MERGE, 68 PR_GET_MEMORY_MERGE, 0x5356_4d41 PR_SET_VMA,
            0x5961_6d61 PR_SET_PTRACER,
        }
        bits {};
    /// Codes of `arch_prctl`.
    ArchPrctl mask u32::MAX, zero ""
        values {
            0x1001 ARCH_SET_GS, 0x1002 ARCH_SET_FS, 0x1003 ARCH_GET_FS, 0x1004 ARCH_GET_GS, 0x1011 ARCH_GET_CPUID,
            0x1012 ARCH_SET_CPUID,
        }
        bits {};
    /// Resources.
    Rlimit mask u32::MAX, zero ""
        values {
            0 RLIMIT_CPU, 1 RLIMIT_FSIZE, 2 RLIMIT_DATA, 3 RLIMIT_STACK, 4 RLIMIT_CORE, 5 RLIMIT_RSS,
            6 RLIMIT_NPROC, 7 RLIMIT_NOFILE, 8 RLIMIT_MEMLOCK, 9 RLIMIT_AS, 10 RLIMIT_LOCKS, 11 RLIMIT_SIGPENDING,
            12 RLIMIT_MSGQUEUE, 13 RLIMIT_NICE, 14 RLIMIT_RTPRIO, 15 RLIMIT_RTTIME,
        }
        bits {};
    /// Whose resource usage.
    Rusage mask u32::MAX, zero ""
        values {
            0 RUSAGE_SELF, 1 RUSAGE_THREAD, 0xffff_ffff RUSAGE_CHILDREN,
        }
        bits {};
    /// `renameat2`.
    Rename mask 0, zero "0"
        values {}
        bits {
            1 RENAME_NOREPLACE, 2 RENAME_EXCHANGE, 4 RENAME_WHITEOUT,
        };
    /// `close_range`.
    CloseRange mask 0, zero "0"
        values {}
        bits {
            2 CLOSE_RANGE_UNSHARE, 4 CLOSE_RANGE_CLOEXEC,
        };
    /// Operations of `epoll_ctl`.
    EpollOp mask u32::MAX, zero ""
        values {
            1 EPOLL_CTL_ADD, 2 EPOLL_CTL_DEL, 3 EPOLL_CTL_MOD,
        }
        bits {};
    /// `eventfd2`.
    Eventfd mask 0, zero "0"
        values {}
        bits {
            1 EFD_SEMAPHORE, 0x800 EFD_NONBLOCK, 0x8_0000 EFD_CLOEXEC,
        };
    /// Timers: absolute times.
    TimerFd mask 0, zero "0"
        values {}
        bits {
            1 TFD_TIMER_ABSTIME, 2 TFD_TIMER_CANCEL_ON_SET,
        };
    /// Events of `inotify_add_watch`.
    Inotify mask 0, zero "0"
        values {}
        bits {
            1 IN_ACCESS, 2 IN_MODIFY, 4 IN_ATTRIB, 8 IN_CLOSE_WRITE, 0x10 IN_CLOSE_NOWRITE, 0x20 IN_OPEN,
            0x40 IN_MOVED_FROM, 0x80 IN_MOVED_TO, 0x100 IN_CREATE, 0x200 IN_DELETE, 0x400 IN_DELETE_SELF,
            0x800 IN_MOVE_SELF, 0x100_0000 IN_ONLYDIR, 0x200_0000 IN_DONT_FOLLOW, 0x400_0000 IN_EXCL_UNLINK,
            0x1000_0000 IN_MASK_CREATE, 0x2000_0000 IN_MASK_ADD, 0x8000_0000 IN_ONESHOT,
        };
    /// `memfd_create`.
    Memfd mask 0, zero "0"
        values {}
        bits {
            1 MFD_CLOEXEC, 2 MFD_ALLOW_SEALING, 4 MFD_HUGETLB, 8 MFD_NOEXEC_SEAL, 0x10 MFD_EXEC,
        };
    /// `getrandom`.
    Getrandom mask 0, zero "0"
        values {}
        bits {
            1 GRND_NONBLOCK, 2 GRND_RANDOM, 4 GRND_INSECURE,
        };
    /// `mount`.
    Mount mask 0, zero "0"
        values {}
        bits {
            1 MS_RDONLY, 2 MS_NOSUID, 4 MS_NODEV, 8 MS_NOEXEC, 0x10 MS_SYNCHRONOUS, 0x20 MS_REMOUNT,
            0x40 MS_MANDLOCK, 0x80 MS_DIRSYNC, 0x400 MS_NOATIME, 0x800 MS_NODIRATIME, 0x1000 MS_BIND,
            0x2000 MS_MOVE, 0x4000 MS_REC, 0x8000 MS_SILENT, 0x1_0000 MS_POSIXACL, 0x2_0000 MS_UNBINDABLE,
            0x4_0000 MS_PRIVATE, 0x8_0000 MS_SLAVE, 0x10_0000 MS_SHARED, 0x20_0000 MS_RELATIME,
            0x100_0000 MS_STRICTATIME, 0x200_0000 MS_LAZYTIME,
        };
    /// `umount2`.
    Umount mask 0, zero "0"
        values {}
        bits {
            1 MNT_FORCE, 2 MNT_DETACH, 4 MNT_EXPIRE, 8 UMOUNT_NOFOLLOW,
        };
    /// `shmget`, `semget`, `msgget`.
    IpcGet mask 0, zero "0"
        values {}
        bits {
            0x200 IPC_CREAT, 0x400 IPC_EXCL, 0x800 IPC_NOWAIT,
        };
    /// `shmctl`, `semctl`, `msgctl`.
    IpcCtl mask u32::MAX, zero ""
        values {
            0 IPC_RMID, 1 IPC_SET, 2 IPC_STAT, 3 IPC_INFO, 11 GETPID, 12 GETVAL, 13 GETALL, 14 GETNCNT, 15 GETZCNT,
            16 SETVAL, 17 SETALL,
        }
        bits {};
    /// `shmat`.
    Shmat mask 0, zero "0"
        values {}
        bits {
            0x1000 SHM_RDONLY, 0x2000 SHM_RND, 0x4000 SHM_REMAP, 0x8000 SHM_EXEC,
        };
    /// Clocks.
    Clock mask u32::MAX, zero ""
        values {
            0 CLOCK_REALTIME, 1 CLOCK_MONOTONIC, 2 CLOCK_PROCESS_CPUTIME_ID, 3 CLOCK_THREAD_CPUTIME_ID,
            4 CLOCK_MONOTONIC_RAW, 5 CLOCK_REALTIME_COARSE, 6 CLOCK_MONOTONIC_COARSE, 7 CLOCK_BOOTTIME,
            8 CLOCK_REALTIME_ALARM, 9 CLOCK_BOOTTIME_ALARM, 11 CLOCK_TAI,
        }
        bits {};
    /// `io_uring_enter`.
    IoUringEnter mask 0, zero "0"
        values {}
        bits {
            1 IORING_ENTER_GETEVENTS, 2 IORING_ENTER_SQ_WAKEUP, 4 IORING_ENTER_SQ_WAIT, 8 IORING_ENTER_EXT_ARG,
            0x10 IORING_ENTER_REGISTERED_RING,
        };
    /// Operations of `io_uring_register`.
    IoUringRegister mask u32::MAX, zero ""
        values {
            0 IORING_REGISTER_BUFFERS, 1 IORING_UNREGISTER_BUFFERS, 2 IORING_REGISTER_FILES,
            3 IORING_UNREGISTER_FILES, 4 IORING_REGISTER_EVENTFD, 5 IORING_UNREGISTER_EVENTFD,
            6 IORING_REGISTER_FILES_UPDATE, 7 IORING_REGISTER_EVENTFD_ASYNC, 8 IORING_REGISTER_PROBE,
            9 IORING_REGISTER_PERSONALITY, 10 IORING_UNREGISTER_PERSONALITY, 12 IORING_REGISTER_ENABLE_RINGS,
        }
        bits {};
    /// Requests of `ptrace`.
    Ptrace mask u32::MAX, zero ""
        values {
            0 PTRACE_TRACEME, 1 PTRACE_PEEKTEXT, 2 PTRACE_PEEKDATA, 3 PTRACE_PEEKUSER, 4 PTRACE_POKETEXT,
            5 PTRACE_POKEDATA, 6 PTRACE_POKEUSER, 7 PTRACE_CONT, 8 PTRACE_KILL, 9 PTRACE_SINGLESTEP,
            0xc PTRACE_GETREGS, 0xd PTRACE_SETREGS, 0x10 PTRACE_ATTACH, 0x11 PTRACE_DETACH, 0x18 PTRACE_SYSCALL,
            0x4200 PTRACE_SETOPTIONS, 0x4201 PTRACE_GETEVENTMSG, 0x4202 PTRACE_GETSIGINFO, 0x4203 PTRACE_SETSIGINFO,
            0x4204 PTRACE_GETREGSET, 0x4205 PTRACE_SETREGSET, 0x4206 PTRACE_SEIZE, 0x4207 PTRACE_INTERRUPT,
            0x4208 PTRACE_LISTEN,
        }
        bits {};
    /// Commands of `membarrier`.
    Membarrier mask u32::MAX, zero ""
        values {
            0 MEMBARRIER_CMD_QUERY, 1 MEMBARRIER_CMD_GLOBAL, 2 MEMBARRIER_CMD_GLOBAL_EXPEDITED,
            4 MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 8 MEMBARRIER_CMD_PRIVATE_EXPEDITED,
            0x10 MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED,
        }
        bits {};
    /// Commands of `bpf`.
    Bpf mask u32::MAX, zero ""
        values {
            0 BPF_MAP_CREATE, 1 BPF_MAP_LOOKUP_ELEM, 2 BPF_MAP_UPDATE_ELEM, 3 BPF_MAP_DELETE_ELEM,
            4 BPF_MAP_GET_NEXT_KEY, 5 BPF_PROG_LOAD, 6 BPF_OBJ_PIN, 7 BPF_OBJ_GET, 8 BPF_PROG_ATTACH,
            9 BPF_PROG_DETACH, 15 BPF_OBJ_GET_INFO_BY_FD, 16 BPF_PROG_QUERY, 17 BPF_RAW_TRACEPOINT_OPEN,
            18 BPF_BTF_LOAD, 28 BPF_LINK_CREATE, 33 BPF_ITER_CREATE,
        }
        bits {};
    /// Commands of `ioctl`; there are thousands, these are the common ones.
    Ioctl mask u32::MAX, zero ""
        values {
            0x1260 BLKGETSIZE, 0x1261 BLKFLSBUF, 0x1268 BLKSSZGET, 0x1277 BLKDISCARD, 0x127b BLKPBSZGET,
            0x5401 TCGETS, 0x5402 TCSETS, 0x5403 TCSETSW, 0x5404 TCSETSF, 0x540e TIOCSCTTY, 0x540f TIOCGPGRP,
            0x5410 TIOCSPGRP, 0x5413 TIOCGWINSZ, 0x5414 TIOCSWINSZ, 0x541b FIONREAD, 0x5421 FIONBIO,
            0x5422 TIOCNOTTY, 0x5450 FIONCLEX, 0x5451 FIOCLEX, 0x5452 FIOASYNC, 0x8912 SIOCGIFCONF,
            0x4004_5431 TIOCSPTLCK, 0x4004_9409 FICLONE, 0x4008_6602 FS_IOC_SETFLAGS, 0x401c_5820 FS_IOC_FSSETXATTR,
            0x4020_940d FICLONERANGE, 0x8004_5430 TIOCGPTN, 0x8008_1272 BLKGETSIZE64, 0x8008_6601 FS_IOC_GETFLAGS,
            0x801c_581f FS_IOC_FSGETXATTR, 0xc018_5879 FITRIM,
        }
        bits {};
}

macro_rules! errnos {
    ($($number:literal $name:ident,)*) => {
        /// Numbers of errors, with those that only the kernel and its tracers see.
        pub const ERRNOS: &[(u32, &str)] = &[$(($number, stringify!($name))),*];
    };
}

errnos! {
    1 EPERM, 2 ENOENT, 3 ESRCH, 4 EINTR, 5 EIO, 6 ENXIO, 7 E2BIG, 8 ENOEXEC, 9 EBADF, 10 ECHILD, 11 EAGAIN,
    12 ENOMEM, 13 EACCES, 14 EFAULT, 15 ENOTBLK, 16 EBUSY, 17 EEXIST, 18 EXDEV, 19 ENODEV, 20 ENOTDIR,
    21 EISDIR, 22 EINVAL, 23 ENFILE, 24 EMFILE, 25 ENOTTY, 26 ETXTBSY, 27 EFBIG, 28 ENOSPC, 29 ESPIPE,
    30 EROFS, 31 EMLINK, 32 EPIPE, 33 EDOM, 34 ERANGE, 35 EDEADLK, 36 ENAMETOOLONG, 37 ENOLCK, 38 ENOSYS,
    39 ENOTEMPTY, 40 ELOOP, 42 ENOMSG, 43 EIDRM, 44 ECHRNG, 45 EL2NSYNC, 46 EL3HLT, 47 EL3RST, 48 ELNRNG,
    49 EUNATCH, 50 ENOCSI, 51 EL2HLT, 52 EBADE, 53 EBADR, 54 EXFULL, 55 ENOANO, 56 EBADRQC, 57 EBADSLT,
    59 EBFONT, 60 ENOSTR, 61 ENODATA, 62 ETIME, 63 ENOSR, 64 ENONET, 65 ENOPKG, 66 EREMOTE, 67 ENOLINK,
    68 EADV, 69 ESRMNT, 70 ECOMM, 71 EPROTO, 72 EMULTIHOP, 73 EDOTDOT, 74 EBADMSG, 75 EOVERFLOW,
    76 ENOTUNIQ, 77 EBADFD, 78 EREMCHG, 79 ELIBACC, 80 ELIBBAD, 81 ELIBSCN, 82 ELIBMAX, 83 ELIBEXEC,
    84 EILSEQ, 85 ERESTART, 86 ESTRPIPE, 87 EUSERS, 88 ENOTSOCK, 89 EDESTADDRREQ, 90 EMSGSIZE,
    91 EPROTOTYPE, 92 ENOPROTOOPT, 93 EPROTONOSUPPORT, 94 ESOCKTNOSUPPORT, 95 EOPNOTSUPP, 96 EPFNOSUPPORT,
    97 EAFNOSUPPORT, 98 EADDRINUSE, 99 EADDRNOTAVAIL, 100 ENETDOWN, 101 ENETUNREACH, 102 ENETRESET,
    103 ECONNABORTED, 104 ECONNRESET, 105 ENOBUFS, 106 EISCONN, 107 ENOTCONN, 108 ESHUTDOWN,
    109 ETOOMANYREFS, 110 ETIMEDOUT, 111 ECONNREFUSED, 112 EHOSTDOWN, 113 EHOSTUNREACH, 114 EALREADY,
    115 EINPROGRESS, 116 ESTALE, 117 EUCLEAN, 118 ENOTNAM, 119 ENAVAIL, 120 EISNAM, 121 EREMOTEIO,
    122 EDQUOT, 123 ENOMEDIUM, 124 EMEDIUMTYPE, 125 ECANCELED, 126 ENOKEY, 127 EKEYEXPIRED, 128 EKEYREVOKED,
    129 EKEYREJECTED, 130 EOWNERDEAD, 131 ENOTRECOVERABLE, 132 ERFKILL, 133 EHWPOISON, 512 ERESTARTSYS,
    513 ERESTARTNOINTR, 514 ERESTARTNOHAND, 516 ERESTART_RESTARTBLOCK, 524 ENOTSUPP, 529 EIOCBQUEUED,
}

/// Names of the signals from 1.
#[rustfmt::skip]
const SIGNALS: [&str; 31] = [
    "SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGKILL", "SIGUSR1",
    "SIGSEGV", "SIGUSR2", "SIGPIPE", "SIGALRM", "SIGTERM", "SIGSTKFLT", "SIGCHLD", "SIGCONT", "SIGSTOP",
    "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGXCPU", "SIGXFSZ", "SIGVTALRM", "SIGPROF", "SIGWINCH",
    "SIGIO", "SIGPWR", "SIGSYS",
];

/// The name of an errno; `None` if it has none.
pub fn errno(number: i64) -> Option<&'static str> {
    ERRNOS.iter().find(|(known, _)| i64::from(*known) == number).map(|(_, name)| *name)
}

/// The name of a signal: `SIGSEGV`, `SIGRT_2` of the real-time ones, `signal 0` where there is none.
pub fn signal(number: i32) -> String {
    let known = usize::try_from(number).ok().and_then(|number| SIGNALS.get(number.checked_sub(1)?));
    match (known, number) {
        (Some(name), _) => (*name).to_owned(),
        (None, 32..=64) => format!("SIGRT_{}", number - 32),
        (None, _) => format!("signal {number}"),
    }
}
