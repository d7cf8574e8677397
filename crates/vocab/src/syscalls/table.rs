//! The calls themselves. Numbers are those of x86-64; names of arguments are those of the manual pages, or the kernel's
//! where there is no page. Numbers 335 and 336 are made by the kernel's probes in user space, not by programs.

use super::{Arg, ArgKind, Class, Classes, Returns, SyscallDef, Transfer, Words};

/// The word given, or the one that holds where none is.
macro_rules! or {
    ($type:ident $default:expr;) => {
        $default
    };
    (Some $default:expr; $word:ident) => {
        Some(Transfer::$word)
    };
    (Returns $default:expr; $word:ident) => {
        Returns::$word
    };
}

/// Rows `number name [classes] (argument: kind, ...) -> what it returns moves direction;`, where a call that only succeeds
/// or fails says nothing of what it returns.
macro_rules! calls {
    ($($number:literal $name:ident [$($class:ident)*] ($($arg:ident: $kind:ident $(($words:ident))?),*)
       $(-> $returns:ident)? $(moves $transfer:ident)?;)*) => {
        &[$(SyscallDef {
            number: $number,
            name: stringify!($name),
            classes: Classes::of(&[$(Class::$class),*]),
            args: &[$(Arg { name: stringify!($arg), kind: ArgKind::$kind $((Words::$words))? }),*],
            returns: or!(Returns Returns::Status; $($returns)?),
            transfer: or!(Some None; $($transfer)?),
        }),*]
    };
}

/// All of them, by number.
pub(super) const CALLS: &[SyscallDef] = calls! {
    0 read [Desc] (fd: Fd, buf: Buffer, count: Count) -> Bytes moves Read;
    1 write [Desc] (fd: Fd, buf: Buffer, count: Count) -> Bytes moves Write;
    2 open [Desc File] (pathname: Path, flags: Flags(Open), mode: Mode) -> Fd;
    3 close [Desc] (fd: Fd);
    4 stat [File] (pathname: Path, statbuf: Address);
    5 fstat [Desc] (fd: Fd, statbuf: Address);
    6 lstat [File] (pathname: Path, statbuf: Address);
    7 poll [Desc] (fds: Address, nfds: Int, timeout_ms: Int);
    8 lseek [Desc] (fd: Fd, offset: FileOffset, whence: Flags(Whence)) -> Offset;
    9 mmap [Desc Memory] (addr: Address, length: Length, prot: Flags(Prot), flags: Flags(Map), fd: Fd, offset:
        FileOffset) -> Address;
    10 mprotect [Memory] (addr: Address, length: Length, prot: Flags(Prot));
    11 munmap [Memory] (addr: Address, length: Length);
    12 brk [Memory] (addr: Address) -> Address;
    13 rt_sigaction [Signal] (sig: Signal, act: Address, oldact: Address, sigsetsize: Length);
    14 rt_sigprocmask [Signal] (how: Flags(SigHow), set: Address, oldset: Address, sigsetsize: Length);
    15 rt_sigreturn [Signal] ();
    16 ioctl [Desc] (fd: Fd, cmd: Flags(Ioctl), arg: Hex);
    17 pread64 [Desc] (fd: Fd, buf: Buffer, count: Count, offset: Offset) -> Bytes moves Read;
    18 pwrite64 [Desc] (fd: Fd, buf: Buffer, count: Count, offset: Offset) -> Bytes moves Write;
    19 readv [Desc] (fd: Fd, iov: Iovec, iovcnt: IovCount) -> Bytes moves Read;
    20 writev [Desc] (fd: Fd, iov: Iovec, iovcnt: IovCount) -> Bytes moves Write;
    21 access [File] (pathname: Path, mode: Flags(Access));
    22 pipe [Desc] (pipefd: Address);
    23 select [Desc] (nfds: Int, readfds: Address, writefds: Address, exceptfds: Address, timeout: Address);
    24 sched_yield [] ();
    25 mremap [Memory] (old_addr: Address, old_size: Length, new_size: Length, flags: Flags(Mremap), new_addr:
        Address) -> Address;
    26 msync [Memory] (addr: Address, length: Length, flags: Flags(Msync));
    27 mincore [Memory] (addr: Address, length: Length, vec: Address);
    28 madvise [Memory] (addr: Address, length: Length, advice: Flags(Madvise));
    29 shmget [Ipc] (key: Hex, size: Length, shmflg: Flags(IpcGet));
    30 shmat [Memory Ipc] (shmid: Int, shmaddr: Address, shmflg: Flags(Shmat)) -> Address;
    31 shmctl [Ipc] (shmid: Int, cmd: Flags(IpcCtl), buf: Address);
    32 dup [Desc] (oldfd: Fd) -> Fd;
    33 dup2 [Desc] (oldfd: Fd, newfd: Fd) -> Fd;
    34 pause [Signal] ();
    35 nanosleep [] (request: Address, remain: Address);
    36 getitimer [] (which: Int, value: Address);
    37 alarm [] (seconds: Int);
    38 setitimer [] (which: Int, value: Address, ovalue: Address);
    39 getpid [] () -> Pid;
    40 sendfile [Desc Network] (out_fd: Fd, in_fd: Fd, offset: Address, count: Count) -> Bytes moves Copy;
    41 socket [Network] (domain: Flags(Domain), type: Flags(SockType), protocol: Int) -> Fd;
    42 connect [Network] (sockfd: Fd, addr: Address, addrlen: Int);
    43 accept [Network] (sockfd: Fd, addr: Address, addrlen: Address) -> Fd;
    44 sendto [Network] (sockfd: Fd, buf: Buffer, count: Count, flags: Flags(Msg), addr: Address, addrlen: Int)
        -> Bytes moves Write;
    45 recvfrom [Network] (sockfd: Fd, buf: Buffer, count: Count, flags: Flags(Msg), addr: Address, addrlen:
        Address) -> Bytes moves Read;
    46 sendmsg [Network] (sockfd: Fd, msg: Address, flags: Flags(Msg)) -> Bytes moves Write;
    47 recvmsg [Network] (sockfd: Fd, msg: Address, flags: Flags(Msg)) -> Bytes moves Read;
    48 shutdown [Network] (sockfd: Fd, how: Flags(Shutdown));
    49 bind [Network] (sockfd: Fd, addr: Address, addrlen: Int);
    50 listen [Network] (sockfd: Fd, backlog: Int);
    51 getsockname [Network] (sockfd: Fd, addr: Address, addrlen: Address);
    52 getpeername [Network] (sockfd: Fd, addr: Address, addrlen: Address);
    53 socketpair [Network] (domain: Flags(Domain), type: Flags(SockType), protocol: Int, sv: Address);
    54 setsockopt [Network] (sockfd: Fd, level: Flags(SockLevel), optname: Int, optval: Address, optlen: Int);
    55 getsockopt [Network] (sockfd: Fd, level: Flags(SockLevel), optname: Int, optval: Address, optlen: Address);
    56 clone [Process] (flags: Flags(Clone), stack: Address, parent_tid: Address, child_tid: Address, tls:
        Address) -> Pid;
    57 fork [Process] () -> Pid;
    58 vfork [Process] () -> Pid;
    59 execve [File Process] (pathname: Path, argv: Address, envp: Address);
    60 exit [Process] (status: Int) -> Never;
    61 wait4 [Process] (pid: Pid, wstatus: Address, options: Flags(Wait), rusage: Address) -> Pid;
    62 kill [Process Signal] (pid: Pid, sig: Signal);
    63 uname [] (buf: Address);
    64 semget [Ipc] (key: Hex, nsems: Int, semflg: Flags(IpcGet));
    65 semop [Ipc] (semid: Int, tsops: Address, nsops: Int);
    66 semctl [Ipc] (semid: Int, semnum: Int, cmd: Flags(IpcCtl), arg: Hex);
    67 shmdt [Memory Ipc] (shmaddr: Address);
    68 msgget [Ipc] (key: Hex, msgflg: Flags(IpcGet));
    69 msgsnd [Ipc] (msqid: Int, msgp: Buffer, msgsz: Count, msgflg: Flags(IpcGet)) moves Write;
    70 msgrcv [Ipc] (msqid: Int, msgp: Buffer, msgsz: Count, msgtyp: Int, msgflg: Flags(IpcGet)) -> Bytes moves
        Read;
    71 msgctl [Ipc] (msqid: Int, cmd: Flags(IpcCtl), buf: Address);
    72 fcntl [Desc] (fd: Fd, cmd: Flags(Fcntl), arg: Hex);
    73 flock [Desc] (fd: Fd, operation: Flags(Flock));
    74 fsync [Desc] (fd: Fd);
    75 fdatasync [Desc] (fd: Fd);
    76 truncate [File] (path: Path, length: Length);
    77 ftruncate [Desc] (fd: Fd, length: Length);
    78 getdents [Desc] (fd: Fd, dirp: Buffer, count: Count) -> Bytes;
    79 getcwd [File] (buf: Buffer, size: Count) -> Bytes;
    80 chdir [File] (path: Path);
    81 fchdir [Desc] (fd: Fd);
    82 rename [File] (oldpath: Path, newpath: Path);
    83 mkdir [File] (pathname: Path, mode: Mode);
    84 rmdir [File] (pathname: Path);
    85 creat [Desc File] (pathname: Path, mode: Mode) -> Fd;
    86 link [File] (oldpath: Path, newpath: Path);
    87 unlink [File] (pathname: Path);
    88 symlink [File] (target: Path, linkpath: Path);
    89 readlink [File] (pathname: Path, buf: Buffer, bufsiz: Count) -> Bytes;
    90 chmod [File] (filename: Path, mode: Mode);
    91 fchmod [Desc] (fd: Fd, mode: Mode);
    92 chown [File] (filename: Path, user: Int, group: Int);
    93 fchown [Desc] (fd: Fd, user: Int, group: Int);
    94 lchown [File] (filename: Path, user: Int, group: Int);
    95 umask [] (mask: Hex) -> Mode;
    96 gettimeofday [] (tv: Address, tz: Address);
    97 getrlimit [] (resource: Flags(Rlimit), rlim: Address);
    98 getrusage [] (who: Flags(Rusage), usage: Address);
    99 sysinfo [] (info: Address);
    100 times [] (buf: Address);
    101 ptrace [] (request: Flags(Ptrace), pid: Pid, addr: Address, data: Hex);
    102 getuid [] ();
    103 syslog [] (type: Int, buf: Address, len: Length);
    104 getgid [] ();
    105 setuid [] (uid: Int);
    106 setgid [] (gid: Int);
    107 geteuid [] ();
    108 getegid [] ();
    109 setpgid [] (pid: Pid, pgid: Pid);
    110 getppid [] () -> Pid;
    111 getpgrp [] () -> Pid;
    112 setsid [] () -> Pid;
    113 setreuid [] (ruid: Int, euid: Int);
    114 setregid [] (rgid: Int, egid: Int);
    115 getgroups [] (gidsetsize: Int, grouplist: Address);
    116 setgroups [] (gidsetsize: Int, grouplist: Address);
    117 setresuid [] (ruid: Int, euid: Int, suid: Int);
    118 getresuid [] (ruidp: Address, euidp: Address, suidp: Address);
    119 setresgid [] (rgid: Int, egid: Int, sgid: Int);
    120 getresgid [] (rgidp: Address, egidp: Address, sgidp: Address);
    121 getpgid [] (pid: Pid) -> Pid;
    122 setfsuid [] (uid: Int);
    123 setfsgid [] (gid: Int);
    124 getsid [] (pid: Pid) -> Pid;
    125 capget [] (header: Address, dataptr: Address);
    126 capset [] (header: Address, data: Address);
    127 rt_sigpending [Signal] (set: Address, sigsetsize: Length);
    128 rt_sigtimedwait [Signal] (set: Address, info: Address, timeout: Address, sigsetsize: Length);
    129 rt_sigqueueinfo [Process Signal] (pid: Pid, sig: Signal, info: Address);
    130 rt_sigsuspend [Signal] (set: Address, sigsetsize: Length);
    131 sigaltstack [Signal] (ss: Address, old_ss: Address);
    132 utime [File] (filename: Path, times: Address);
    133 mknod [File] (filename: Path, mode: Mode, dev: Int);
    134 uselib [File] (library: Path);
    135 personality [] (persona: Hex);
    136 ustat [] (dev: Int, buf: Address);
    137 statfs [File] (pathname: Path, buf: Address);
    138 fstatfs [Desc] (fd: Fd, buf: Address);
    139 sysfs [] (option: Int, arg1: Hex, arg2: Hex);
    140 getpriority [] (which: Int, who: Int);
    141 setpriority [] (which: Int, who: Int, prio: Int);
    142 sched_setparam [] (pid: Pid, param: Address);
    143 sched_getparam [] (pid: Pid, param: Address);
    144 sched_setscheduler [] (pid: Pid, policy: Int, param: Address);
    145 sched_getscheduler [] (pid: Pid);
    146 sched_get_priority_max [] (policy: Int);
    147 sched_get_priority_min [] (policy: Int);
    148 sched_rr_get_interval [] (pid: Pid, interval: Address);
    149 mlock [Memory] (addr: Address, length: Length);
    150 munlock [Memory] (addr: Address, length: Length);
    151 mlockall [Memory] (flags: Flags(Mlockall));
    152 munlockall [Memory] ();
    153 vhangup [] ();
    154 modify_ldt [] (func: Int, ptr: Address, bytecount: Length);
    155 pivot_root [File] (new_root: Path, put_old: Path);
    156 _sysctl [] (args: Address);
    157 prctl [] (option: Flags(Prctl), arg2: Hex, arg3: Hex, arg4: Hex, arg5: Hex);
    158 arch_prctl [] (code: Flags(ArchPrctl), addr: Address);
    159 adjtimex [] (txc_p: Address);
    160 setrlimit [] (resource: Flags(Rlimit), rlim: Address);
    161 chroot [File] (filename: Path);
    162 sync [] ();
    163 acct [File] (name: Path);
    164 settimeofday [] (tv: Address, tz: Address);
    165 mount [File] (source: Path, target: Path, fstype: Path, flags: Flags(Mount), data: Address);
    166 umount2 [File] (target: Path, flags: Flags(Umount));
    167 swapon [File] (specialfile: Path, swap_flags: Hex);
    168 swapoff [File] (specialfile: Path);
    169 reboot [] (magic: Hex, magic2: Hex, cmd: Hex, arg: Address);
    170 sethostname [] (name: Path, len: Length);
    171 setdomainname [] (name: Path, len: Length);
    172 iopl [] (level: Int);
    173 ioperm [] (from: Int, num: Int, turn_on: Int);
    174 create_module [] (name: Path, size: Length);
    175 init_module [] (module: Address, len: Length, params: Address);
    176 delete_module [] (name: Path, flags: Flags(Open));
    177 get_kernel_syms [] (table: Address);
    178 query_module [] (name: Path, which: Int, buf: Address, size: Length, ret: Address);
    179 quotactl [File] (cmd: Int, special: Path, id: Int, addr: Address);
    180 nfsservctl [] (cmd: Int, argp: Address, resp: Address);
    181 getpmsg [Network] ();
    182 putpmsg [Network] ();
    183 afs_syscall [] ();
    184 tuxcall [] ();
    185 security [] ();
    186 gettid [] () -> Pid;
    187 readahead [Desc] (fd: Fd, offset: FileOffset, count: Length);
    188 setxattr [File] (pathname: Path, name: Path, value: Address, size: Length, flags: Hex);
    189 lsetxattr [File] (pathname: Path, name: Path, value: Address, size: Length, flags: Hex);
    190 fsetxattr [Desc] (fd: Fd, name: Path, value: Address, size: Length, flags: Hex);
    191 getxattr [File] (pathname: Path, name: Path, value: Address, size: Length) -> Bytes;
    192 lgetxattr [File] (pathname: Path, name: Path, value: Address, size: Length) -> Bytes;
    193 fgetxattr [Desc] (fd: Fd, name: Path, value: Address, size: Length) -> Bytes;
    194 listxattr [File] (pathname: Path, list: Address, size: Length) -> Bytes;
    195 llistxattr [File] (pathname: Path, list: Address, size: Length) -> Bytes;
    196 flistxattr [Desc] (fd: Fd, list: Address, size: Length) -> Bytes;
    197 removexattr [File] (pathname: Path, name: Path);
    198 lremovexattr [File] (pathname: Path, name: Path);
    199 fremovexattr [Desc] (fd: Fd, name: Path);
    200 tkill [Process Signal] (tid: Pid, sig: Signal);
    201 time [] (tloc: Address);
    202 futex [] (uaddr: Address, op: Flags(Futex), val: Int, timeout: Address, uaddr2: Address, val3: Hex);
    203 sched_setaffinity [] (pid: Pid, cpusetsize: Length, mask: Address);
    204 sched_getaffinity [] (pid: Pid, cpusetsize: Length, mask: Address);
    205 set_thread_area [] (info: Address);
    206 io_setup [Memory] (nr_events: Int, ctxp: Address);
    207 io_destroy [Memory] (ctx_id: Hex);
    208 io_getevents [] (ctx_id: Hex, min_nr: Int, nr: Int, events: Address, timeout: Address);
    209 io_submit [] (ctx_id: Hex, nr: Int, iocbpp: Address) moves Submit;
    210 io_cancel [] (ctx_id: Hex, iocb: Address, result: Address);
    211 get_thread_area [] (info: Address);
    212 lookup_dcookie [] (cookie: Hex, buffer: Address, len: Length);
    213 epoll_create [Desc] (size: Length) -> Fd;
    214 epoll_ctl_old [] ();
    215 epoll_wait_old [] ();
    216 remap_file_pages [Memory] (addr: Address, size: Length, prot: Flags(Prot), pgoff: Int, flags: Flags(Map));
    217 getdents64 [Desc] (fd: Fd, dirp: Buffer, count: Count) -> Bytes;
    218 set_tid_address [] (tidptr: Address) -> Pid;
    219 restart_syscall [] ();
    220 semtimedop [Ipc] (semid: Int, tsops: Address, nsops: Int, timeout: Address);
    221 fadvise64 [Desc] (fd: Fd, offset: FileOffset, length: Length, advice: Flags(Fadvise));
    222 timer_create [] (clockid: Flags(Clock), sevp: Address, timerid: Address);
    223 timer_settime [] (timer_id: Int, flags: Hex, new_setting: Address, old_setting: Address);
    224 timer_gettime [] (timer_id: Int, setting: Address);
    225 timer_getoverrun [] (timer_id: Int);
    226 timer_delete [] (timer_id: Int);
    227 clock_settime [] (clockid: Flags(Clock), tp: Address);
    228 clock_gettime [] (clockid: Flags(Clock), tp: Address);
    229 clock_getres [] (clockid: Flags(Clock), res: Address);
    230 clock_nanosleep [] (clockid: Flags(Clock), flags: Flags(TimerFd), request: Address, remain: Address);
    231 exit_group [Process] (status: Int) -> Never;
    232 epoll_wait [Desc] (epfd: Fd, events: Address, maxevents: Int, timeout_ms: Int);
    233 epoll_ctl [Desc] (epfd: Fd, op: Flags(EpollOp), fd: Fd, event: Address);
    234 tgkill [Process Signal] (tgid: Pid, tid: Pid, sig: Signal);
    235 utimes [File] (filename: Path, utimes: Address);
    236 vserver [] ();
    237 mbind [Memory] (addr: Address, length: Length, mode: Int, nodemask: Address, maxnode: Int, flags: Hex);
    238 set_mempolicy [Memory] (mode: Int, nmask: Address, maxnode: Int);
    239 get_mempolicy [Memory] (policy: Address, nmask: Address, maxnode: Int, addr: Address, flags: Hex);
    240 mq_open [Desc] (name: Path, oflag: Flags(Open), mode: Mode, attr: Address) -> Fd;
    241 mq_unlink [] (name: Path);
    242 mq_timedsend [Desc] (mqdes: Fd, msg_ptr: Buffer, msg_len: Count, msg_prio: Int, abs_timeout: Address)
        moves Write;
    243 mq_timedreceive [Desc] (mqdes: Fd, msg_ptr: Buffer, msg_len: Count, msg_prio: Address, abs_timeout:
        Address) -> Bytes moves Read;
    244 mq_notify [Desc] (mqdes: Fd, sevp: Address);
    245 mq_getsetattr [Desc] (mqdes: Fd, newattr: Address, oldattr: Address);
    246 kexec_load [] (entry: Address, segments: Int, segment: Address, flags: Hex);
    247 waitid [Process] (idtype: Flags(IdType), id: Pid, infop: Address, options: Flags(Wait), rusage: Address);
    248 add_key [] (type: Path, description: Path, payload: Address, plen: Length, ringid: Int);
    249 request_key [] (type: Path, description: Path, callout_info: Path, destringid: Int);
    250 keyctl [] (option: Int, arg2: Hex, arg3: Hex, arg4: Hex, arg5: Hex);
    251 ioprio_set [] (which: Int, who: Int, ioprio: Hex);
    252 ioprio_get [] (which: Int, who: Int);
    253 inotify_init [Desc] () -> Fd;
    254 inotify_add_watch [Desc File] (fd: Fd, pathname: Path, mask: Flags(Inotify));
    255 inotify_rm_watch [Desc] (fd: Fd, wd: Int);
    256 migrate_pages [Memory] (pid: Pid, maxnode: Int, old_nodes: Address, new_nodes: Address);
    257 openat [Desc File] (dirfd: DirFd, pathname: Path, flags: Flags(Open), mode: Mode) -> Fd;
    258 mkdirat [Desc File] (dirfd: DirFd, pathname: Path, mode: Mode);
    259 mknodat [Desc File] (dirfd: DirFd, filename: Path, mode: Mode, dev: Int);
    260 fchownat [Desc File] (dirfd: DirFd, pathname: Path, owner: Int, group: Int, flags: Flags(At));
    261 futimesat [Desc File] (dirfd: DirFd, filename: Path, utimes: Address);
    262 newfstatat [Desc File] (dirfd: DirFd, pathname: Path, statbuf: Address, flags: Flags(At));
    263 unlinkat [Desc File] (dirfd: DirFd, pathname: Path, flags: Flags(At));
    264 renameat [Desc File] (olddirfd: DirFd, oldpath: Path, newdirfd: DirFd, newpath: Path);
    265 linkat [Desc File] (olddirfd: DirFd, oldpath: Path, newdirfd: DirFd, newpath: Path, flags: Flags(At));
    266 symlinkat [Desc File] (target: Path, newdirfd: DirFd, linkpath: Path);
    267 readlinkat [Desc File] (dirfd: DirFd, pathname: Path, buf: Buffer, bufsiz: Count) -> Bytes;
    268 fchmodat [Desc File] (dirfd: DirFd, pathname: Path, mode: Mode);
    269 faccessat [Desc File] (dirfd: DirFd, pathname: Path, mode: Flags(Access));
    270 pselect6 [Desc] (nfds: Int, readfds: Address, writefds: Address, exceptfds: Address, timeout: Address,
        sigmask: Address);
    271 ppoll [Desc] (fds: Address, nfds: Int, timeout: Address, sigmask: Address, sigsetsize: Length);
    272 unshare [] (flags: Flags(Clone));
    273 set_robust_list [] (head: Address, len: Length);
    274 get_robust_list [] (pid: Pid, head_ptr: Address, len_ptr: Address);
    275 splice [Desc] (fd_in: Fd, off_in: Address, fd_out: Fd, off_out: Address, count: Count, flags:
        Flags(Splice)) -> Bytes moves Copy;
    276 tee [Desc] (fd_in: Fd, fd_out: Fd, count: Count, flags: Flags(Splice)) -> Bytes moves Copy;
    277 sync_file_range [Desc] (fd: Fd, offset: FileOffset, nbytes: Length, flags: Flags(SyncFileRange));
    278 vmsplice [Desc] (fd: Fd, iov: Iovec, iovcnt: IovCount, flags: Flags(Splice)) -> Bytes moves Copy;
    279 move_pages [Memory] (pid: Pid, count: Int, pages: Address, nodes: Address, status: Address, flags: Hex);
    280 utimensat [Desc File] (dirfd: DirFd, pathname: Path, times: Address, flags: Flags(At));
    281 epoll_pwait [Desc] (epfd: Fd, events: Address, maxevents: Int, timeout_ms: Int, sigmask: Address,
        sigsetsize: Length);
    282 signalfd [Desc Signal] (fd: Fd, mask: Address, sizemask: Length) -> Fd;
    283 timerfd_create [Desc] (clockid: Flags(Clock), flags: Flags(Open)) -> Fd;
    284 eventfd [Desc] (initval: Int) -> Fd;
    285 fallocate [Desc] (fd: Fd, mode: Flags(Fallocate), offset: FileOffset, length: Length);
    286 timerfd_settime [Desc] (fd: Fd, flags: Flags(TimerFd), new_value: Address, old_value: Address);
    287 timerfd_gettime [Desc] (fd: Fd, curr_value: Address);
    288 accept4 [Network] (sockfd: Fd, addr: Address, addrlen: Address, flags: Flags(SockType)) -> Fd;
    289 signalfd4 [Desc Signal] (fd: Fd, mask: Address, sizemask: Length, flags: Flags(Open)) -> Fd;
    290 eventfd2 [Desc] (initval: Int, flags: Flags(Eventfd)) -> Fd;
    291 epoll_create1 [Desc] (flags: Flags(Open)) -> Fd;
    292 dup3 [Desc] (oldfd: Fd, newfd: Fd, flags: Flags(Open)) -> Fd;
    293 pipe2 [Desc] (pipefd: Address, flags: Flags(Open));
    294 inotify_init1 [Desc] (flags: Flags(Open)) -> Fd;
    295 preadv [Desc] (fd: Fd, iov: Iovec, iovcnt: IovCount, offset: Offset, pos_h: Unused) -> Bytes moves Read;
    296 pwritev [Desc] (fd: Fd, iov: Iovec, iovcnt: IovCount, offset: Offset, pos_h: Unused) -> Bytes moves Write;
    297 rt_tgsigqueueinfo [Process Signal] (tgid: Pid, pid: Pid, sig: Signal, info: Address);
    298 perf_event_open [Desc] (attr: Address, pid: Pid, cpu: Int, group_fd: Fd, flags: Hex) -> Fd;
    299 recvmmsg [Network] (sockfd: Fd, msgvec: Address, vlen: Int, flags: Flags(Msg), timeout: Address) moves Read;
    300 fanotify_init [Desc] (flags: Hex, event_f_flags: Hex) -> Fd;
    301 fanotify_mark [Desc File] (fanotify_fd: Fd, flags: Hex, mask: Hex, dirfd: DirFd, pathname: Path);
    302 prlimit64 [] (pid: Pid, resource: Flags(Rlimit), new_limit: Address, old_limit: Address);
    303 name_to_handle_at [Desc File] (dirfd: DirFd, pathname: Path, handle: Address, mount_id: Address, flags:
        Flags(At));
    304 open_by_handle_at [Desc] (mount_fd: Fd, handle: Address, flags: Flags(Open)) -> Fd;
    305 clock_adjtime [] (clockid: Flags(Clock), buf: Address);
    306 syncfs [Desc] (fd: Fd);
    307 sendmmsg [Network] (sockfd: Fd, msgvec: Address, vlen: Int, flags: Flags(Msg)) moves Write;
    308 setns [Desc] (fd: Fd, nstype: Flags(Clone));
    309 getcpu [] (cpup: Address, nodep: Address, unused: Address);
    310 process_vm_readv [] (pid: Pid, local_iov: Iovec, liovcnt: IovCount, remote_iov: Address, riovcnt: Int,
        flags: Hex) -> Bytes;
    311 process_vm_writev [] (pid: Pid, local_iov: Iovec, liovcnt: IovCount, remote_iov: Address, riovcnt: Int,
        flags: Hex) -> Bytes;
    312 kcmp [] (pid1: Pid, pid2: Pid, type: Int, idx1: Hex, idx2: Hex);
    313 finit_module [Desc] (fd: Fd, params: Address, flags: Hex);
    314 sched_setattr [] (pid: Pid, attr: Address, flags: Hex);
    315 sched_getattr [] (pid: Pid, attr: Address, size: Length, flags: Hex);
    316 renameat2 [Desc File] (olddirfd: DirFd, oldpath: Path, newdirfd: DirFd, newpath: Path, flags:
        Flags(Rename));
    317 seccomp [] (operation: Int, flags: Hex, args: Address);
    318 getrandom [] (buf: Buffer, count: Count, flags: Flags(Getrandom)) -> Bytes;
    319 memfd_create [Desc] (name: Path, flags: Flags(Memfd)) -> Fd;
    320 kexec_file_load [Desc] (kernel_fd: Fd, initrd_fd: Fd, cmdline_len: Length, cmdline: Address, flags: Hex);
    321 bpf [Desc] (cmd: Flags(Bpf), attr: Address, size: Length);
    322 execveat [Desc File Process] (dirfd: DirFd, pathname: Path, argv: Address, envp: Address, flags: Flags(At));
    323 userfaultfd [Desc] (flags: Flags(Open)) -> Fd;
    324 membarrier [] (cmd: Flags(Membarrier), flags: Hex, cpu_id: Int);
    325 mlock2 [Memory] (addr: Address, length: Length, flags: Flags(Mlock2));
    326 copy_file_range [Desc] (fd_in: Fd, off_in: Address, fd_out: Fd, off_out: Address, count: Count, flags:
        Hex) -> Bytes moves Copy;
    327 preadv2 [Desc] (fd: Fd, iov: Iovec, iovcnt: IovCount, offset: Offset, pos_h: Unused, flags: Flags(Rwf))
        -> Bytes moves Read;
    328 pwritev2 [Desc] (fd: Fd, iov: Iovec, iovcnt: IovCount, offset: Offset, pos_h: Unused, flags: Flags(Rwf))
        -> Bytes moves Write;
    329 pkey_mprotect [Memory] (addr: Address, length: Length, prot: Flags(Prot), pkey: Int);
    330 pkey_alloc [] (flags: Hex, init_val: Int);
    331 pkey_free [] (pkey: Int);
    332 statx [Desc File] (dirfd: DirFd, pathname: Path, flags: Flags(At), mask: Hex, statxbuf: Address);
    333 io_pgetevents [] (ctx_id: Hex, min_nr: Int, nr: Int, events: Address, timeout: Address, usig: Address);
    334 rseq [] (rseq: Address, rseq_len: Length, flags: Hex, sig: Hex);
    335 uretprobe [] ();
    336 uprobe [] ();
    424 pidfd_send_signal [Desc Process Signal] (pidfd: Fd, sig: Signal, info: Address, flags: Hex);
    425 io_uring_setup [Desc] (entries: Int, params: Address) -> Fd;
    426 io_uring_enter [Desc Signal] (fd: Fd, to_submit: Int, min_complete: Int, flags: Flags(IoUringEnter),
        argp: Address, argsz: Length) moves Submit;
    427 io_uring_register [Desc Memory] (fd: Fd, opcode: Flags(IoUringRegister), arg: Address, nr_args: Int);
    428 open_tree [Desc File] (dirfd: DirFd, filename: Path, flags: Hex) -> Fd;
    429 move_mount [Desc File] (from_dirfd: DirFd, from_pathname: Path, to_dirfd: DirFd, to_pathname: Path,
        flags: Hex);
    430 fsopen [Desc] (fs_name: Path, flags: Hex) -> Fd;
    431 fsconfig [Desc File] (fd: Fd, cmd: Int, key: Path, value: Address, aux: Int);
    432 fsmount [Desc] (fs_fd: Fd, flags: Hex, attr_flags: Hex) -> Fd;
    433 fspick [Desc File] (dirfd: DirFd, path: Path, flags: Hex) -> Fd;
    434 pidfd_open [Desc] (pid: Pid, flags: Flags(Open)) -> Fd;
    435 clone3 [Process] (cl_args: Address, size: Length) -> Pid;
    436 close_range [] (first: Int, last: Int, flags: Flags(CloseRange));
    437 openat2 [Desc File] (dirfd: DirFd, pathname: Path, how: Address, size: Length) -> Fd;
    438 pidfd_getfd [Desc] (pidfd: Fd, targetfd: Int, flags: Hex) -> Fd;
    439 faccessat2 [Desc File] (dirfd: DirFd, pathname: Path, mode: Flags(Access), flags: Flags(At));
    440 process_madvise [Desc] (pidfd: Fd, iov: Iovec, iovcnt: IovCount, advice: Flags(Madvise), flags: Hex) ->
        Bytes;
    441 epoll_pwait2 [Desc] (epfd: Fd, events: Address, maxevents: Int, timeout: Address, sigmask: Address,
        sigsetsize: Length);
    442 mount_setattr [Desc File] (dirfd: DirFd, path: Path, flags: Hex, attr: Address, size: Length);
    443 quotactl_fd [Desc] (fd: Fd, cmd: Hex, id: Int, addr: Address);
    444 landlock_create_ruleset [Desc] (attr: Address, size: Length, flags: Hex) -> Fd;
    445 landlock_add_rule [Desc] (ruleset_fd: Fd, rule_type: Int, rule_attr: Address, flags: Hex);
    446 landlock_restrict_self [Desc] (ruleset_fd: Fd, flags: Hex);
    447 memfd_secret [Desc] (flags: Flags(Open)) -> Fd;
    448 process_mrelease [Desc] (pidfd: Fd, flags: Hex);
    449 futex_waitv [] (waiters: Address, nr_futexes: Int, flags: Hex, timeout: Address, clockid: Flags(Clock));
    450 set_mempolicy_home_node [Memory] (start: Address, len: Length, home_node: Int, flags: Hex);
    451 cachestat [Desc] (fd: Fd, range: Address, cstat: Address, flags: Hex);
    452 fchmodat2 [Desc File] (dirfd: DirFd, pathname: Path, mode: Mode, flags: Flags(At));
    453 map_shadow_stack [Memory] (addr: Address, size: Length, flags: Hex) -> Address;
    454 futex_wake [] (uaddr: Address, mask: Hex, nr: Int, flags: Hex);
    455 futex_wait [] (uaddr: Address, val: Hex, mask: Hex, flags: Hex, timeout: Address, clockid: Flags(Clock));
    456 futex_requeue [] (waiters: Address, flags: Hex, nr_wake: Int, nr_requeue: Int);
    457 statmount [] (req: Address, buf: Address, bufsize: Length, flags: Hex);
    458 listmount [] (req: Address, mnt_ids: Address, nr_mnt_ids: Length, flags: Hex);
    459 lsm_get_self_attr [] (attr: Hex, ctx: Address, size: Address, flags: Hex);
    460 lsm_set_self_attr [] (attr: Hex, ctx: Address, size: Length, flags: Hex);
    461 lsm_list_modules [] (ids: Address, size: Address, flags: Hex);
    462 mseal [Memory] (addr: Address, len: Length, flags: Hex);
    463 setxattrat [Desc File] (dirfd: DirFd, pathname: Path, at_flags: Flags(At), name: Path, args: Address,
        size: Length);
    464 getxattrat [Desc File] (dirfd: DirFd, pathname: Path, at_flags: Flags(At), name: Path, args: Address,
        size: Length) -> Bytes;
    465 listxattrat [Desc File] (dirfd: DirFd, pathname: Path, at_flags: Flags(At), list: Address, size: Length)
        -> Bytes;
    466 removexattrat [Desc File] (dirfd: DirFd, pathname: Path, at_flags: Flags(At), name: Path);
    467 open_tree_attr [Desc File] (dirfd: DirFd, filename: Path, flags: Hex, attr: Address, size: Length) -> Fd;
    468 file_getattr [Desc File] (dirfd: DirFd, filename: Path, attr: Address, size: Length, at_flags: Flags(At));
    469 file_setattr [Desc File] (dirfd: DirFd, filename: Path, attr: Address, size: Length, at_flags: Flags(At));
};
