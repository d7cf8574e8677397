//! glibc: malloc, strings, locks, threads, the dynamic linker, formatting; the vDSO.

/// The C library, before and after its files were renamed in 2.34, and its former library of threads.
const LIBC: &[&str] = &["libc.so", "libc-2", "libpthread.so", "libpthread-2"];
/// The dynamic linker.
const LINKER: &[&str] = &["ld-linux-x86-64.so", "ld-linux-aarch64.so", "ld-2", "libc.so", "libc-2"];
/// The library of mathematics.
const LIBM: &[&str] = &["libm.so", "libm-2"];
/// The code that the kernel maps into every program.
const VDSO: &[&str] = &["[vdso]", "linux-vdso.so"];
/// Where stacks are unwound.
const UNWINDER: &[&str] = &["libgcc_s.so", "libunwind.so"];

pub(super) const PLACES: &[super::Place] = places! {
    ["malloc", "__libc_malloc", "__libc_malloc2", "_int_malloc"] in LIBC
        what "taking memory from the C library's heap"
        by "malloc and operator new; blocks of a thread's own cache are quick, others search the arena's lists"
        set ["env.GLIBC_TUNABLES", "env.MALLOC_ARENA_MAX", "env.MALLOC_MMAP_THRESHOLD_"]
        next "count allocations per unit of work and their sizes; glibc.malloc.tcache_count keeps more of them in the thread's cache";
    ["free", "__libc_free", "cfree", "_int_free", "_int_free_chunk", "_int_free_merge_chunk", "_int_free_create_chunk"] in LIBC
        what "giving memory back to the C library's heap and joining free neighbours"
        by "free and operator delete"
        set ["env.GLIBC_TUNABLES", "env.MALLOC_TRIM_THRESHOLD_"]
        next "see which objects are freed in mass, and whether other threads allocated them";
    ["malloc_consolidate"] in LIBC
        what "joining all small free blocks of an arena"
        by "large allocations and frees while many small blocks lie in the fast lists"
        set ["env.GLIBC_TUNABLES"]
        next "glibc.malloc.mxfast=0 leaves the fast lists out: compare";
    ["sysmalloc", "sysmalloc_mmap", "sysmalloc_mmap_fallback", "__default_morecore", "__glibc_morecore", "grow_heap", "new_heap"] in LIBC
        what "asking the kernel for more heap"
        by "an arena that has no block large enough"
        set ["env.MALLOC_TOP_PAD_", "env.MALLOC_MMAP_THRESHOLD_", "env.GLIBC_TUNABLES"]
        next "count brk, mmap and mprotect; a larger MALLOC_TOP_PAD_ grows the heap in larger steps";
    ["systrim", "systrim.isra", "heap_trim", "shrink_heap", "malloc_trim", "__malloc_trim", "mtrim"] in LIBC
        what "giving the end of the heap back to the kernel"
        by "frees at the end of an arena above the trim threshold, and calls of malloc_trim"
        set ["env.MALLOC_TRIM_THRESHOLD_", "env.MALLOC_TOP_PAD_", "env.GLIBC_TUNABLES"]
        next "see whether the same memory faults in again soon after; a larger threshold keeps it";
    ["munmap_chunk", "mremap_chunk"] in LIBC
        what "unmapping or growing a block that has a mapping of its own"
        by "frees and reallocs of blocks above the mmap threshold"
        set ["env.MALLOC_MMAP_THRESHOLD_", "env.MALLOC_MMAP_MAX_"]
        next "count munmap; a threshold that is set by hand no longer adapts itself";
    ["realloc", "__libc_realloc", "_int_realloc"] in LIBC
        what "changing the size of a block, with a copy where it cannot grow in place"
        by "growing buffers and arrays"
        set ["env.GLIBC_TUNABLES", "env.MALLOC_MMAP_THRESHOLD_"]
        next "see by which factor the buffer grows: doubling copies least";
    ["calloc", "__libc_calloc"] in LIBC
        what "taking memory that is zero; memory that was used before is cleared here"
        by "calloc"
        set ["env.GLIBC_TUNABLES", "env.MALLOC_MMAP_THRESHOLD_"]
        next "compare the bytes; large blocks come zeroed from the kernel, and then the clearing is there";
    ["_int_memalign", "__libc_memalign", "_mid_memalign", "posix_memalign", "__posix_memalign", "aligned_alloc"] in LIBC
        what "taking memory at an aligned address"
        by "buffers for direct I/O or vector code"
        set ["env.GLIBC_TUNABLES", "env.LD_PRELOAD"]
        next "old releases of glibc search and split more here: keep such buffers and use them again";
    ["arena_get2", "arena_get_retry", "reused_arena", "_int_new_arena", "tcache_init"] in LIBC
        what "choosing or making an arena for a thread"
        by "new threads, and arenas that are locked or full"
        set ["env.MALLOC_ARENA_MAX", "env.GLIBC_TUNABLES"]
        next "compare threads with arenas: few arenas make threads wait, many take memory";
    ["__memmove_*", "__memcpy_*", "memcpy", "memmove", "__memcpy", "__memmove"] in LIBC
        what "copying memory"
        by "the caller; large copies wait for memory and may take page faults in the destination"
        set ["env.GLIBC_TUNABLES", "thp.enabled", "cpu.flags"]
        next "the suffix tells the variant (avx, erms): compare it, the bytes per copy and the cache misses";
    ["__memset_*", "memset", "__memset", "__bzero", "explicit_bzero"] in LIBC
        what "filling memory"
        by "the caller; the first fill of new memory takes a page fault for each page"
        set ["env.GLIBC_TUNABLES", "thp.enabled", "cpu.flags"]
        next "compare the faults below it, and the variant by its suffix";
    ["__memcmp_*", "__memchr_*", "__strlen_*", "__strcmp_*", "__strncmp_*", "__strchr_*", "__strstr_*", "__strcasecmp_*", "__rawmemchr_*"] in LIBC
        what "searching or comparing strings"
        by "the caller"
        set ["env.GLIBC_TUNABLES", "cpu.flags"]
        next "see the caller: repeated strlen or strcat over the same text takes quadratic time; compare the variant by its suffix";
    ["__lll_lock_wait", "__lll_lock_wait_private", "__lll_lock_wake", "__lll_lock_wake_private", "lll_mutex_lock_optimized"] in LIBC
        what "waiting for a lock, by a futex; the private ones are the C library's own"
        by "contended mutexes; below malloc it is an arena's lock, below stdio a stream's"
        set ["env.MALLOC_ARENA_MAX", "env.GLIBC_TUNABLES", "program: number of threads"]
        next "see the caller, and who holds the lock meanwhile";
    ["pthread_mutex_lock", "___pthread_mutex_lock", "__pthread_mutex_lock", "__pthread_mutex_lock_full", "pthread_mutex_unlock", "__pthread_mutex_unlock_usercnt", "__pthread_mutex_cond_lock"] in LIBC
        what "taking and releasing a mutex"
        by "the caller; time here without waiting is the cache line of the lock that goes from CPU to CPU"
        set ["env.GLIBC_TUNABLES", "program: number of threads"]
        next "see which mutex it is by the caller; glibc.pthread.mutex_spin_count is for adaptive ones";
    ["pthread_rwlock_rdlock", "___pthread_rwlock_rdlock", "__pthread_rwlock_rdlock", "pthread_rwlock_wrlock", "___pthread_rwlock_wrlock", "__pthread_rwlock_wrlock", "pthread_rwlock_unlock", "___pthread_rwlock_unlock"] in LIBC
        what "taking and releasing a lock for readers and writers"
        by "the caller; readers write to the lock as well"
        set ["program: PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP", "program: number of threads"]
        next "short sections are cheaper with a mutex: compare how long it is held";
    ["pthread_cond_wait", "___pthread_cond_wait", "__pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_signal", "___pthread_cond_signal", "pthread_cond_broadcast", "___pthread_cond_broadcast"] in LIBC
        what "waiting for a condition, or telling that it holds"
        by "queues between threads, pools of workers"
        set ["program: number of threads", "program: batching"]
        next "waiting workers are idle; a broadcast wakes all for the work of one";
    ["pthread_create", "__pthread_create_2_1", "allocate_stack", "get_cached_stack", "__clone3", "clone3", "__clone", "start_thread"] in LIBC
        what "starting a thread: its stack, its guard page, clone"
        by "programs that start threads for each task"
        set ["rlimit.stack", "env.GLIBC_TUNABLES", "rlimit.nproc"]
        next "count threads per second; glibc.pthread.stack_cache_size keeps stacks for the next ones";
    ["fork", "__libc_fork", "_Fork", "posix_spawn", "__spawni", "vfork"] in LIBC
        what "starting a process"
        by "fork, posix_spawn, system, popen"
        set ["rlimit.nproc", "thp.enabled"]
        next "fork of a large process copies page tables: posix_spawn does not";
    ["do_lookup_x", "_dl_lookup_symbol_x", "check_match", "_dl_relocate_object", "elf_machine_rela", "_dl_map_object", "_dl_map_object_from_fd", "open_path"] in LINKER
        what "loading libraries: searching for them, resolving symbols, relocating"
        by "starts of programs with many libraries or symbols, and dlopen"
        set ["env.LD_BIND_NOW", "env.LD_LIBRARY_PATH", "env.LD_PRELOAD"]
        next "LD_DEBUG=statistics tells the time; a long LD_LIBRARY_PATH opens many files that do not exist";
    ["_dl_fixup", "_dl_runtime_resolve_xsave", "_dl_runtime_resolve_xsavec", "_dl_runtime_resolve_fxsave", "_dl_runtime_resolve", "_dl_profile_fixup"] in LINKER
        what "resolving a function at its first call"
        by "lazy binding"
        set ["env.LD_BIND_NOW", "program: -Wl,-z,now"]
        next "it is once per function: much of it says that programs are short-lived, or that LD_AUDIT or LD_PROFILE is on";
    ["__tls_get_addr", "update_get_addr", "_dl_update_slotinfo", "tls_get_addr_tail", "__tls_get_addr_slow"] in LINKER
        what "finding a thread's own variables of a library"
        by "thread-local variables in libraries that were loaded by dlopen or built as position-independent code"
        set ["env.GLIBC_TUNABLES", "program: -ftls-model", "program: -mtls-dialect=gnu2"]
        next "see the caller; tls-dialect gnu2 or the initial-exec model makes it cheap";
    ["qsort", "qsort_r", "__qsort_r", "msort_with_tmp", "msort_with_tmp.part", "_quicksort", "heapsort_r"] in LIBC
        what "sorting, with a call of the program's comparison for each pair"
        by "qsort"
        set ["program: comparison function", "env.LD_PRELOAD"]
        next "see what the comparison does, and how many elements are sorted how often";
    ["__vfprintf_internal", "vfprintf", "_IO_vfprintf", "__printf_fp_l", "__vsnprintf_internal", "_itoa_word", "hack_digit", "__printf_buffer", "__vprintf_internal"] in LIBC
        what "formatting text"
        by "printf and its kin: logs, protocols, keys made of numbers"
        set ["env.LANG", "env.LC_<var>"]
        next "see who formats: logging at a level that nobody reads is common";
    ["____strtod_l_internal", "__strtod_internal", "____strtol_l_internal", "____strtoll_l_internal", "__vfscanf_internal", "str_to_mpn", "round_and_return"] in LIBC
        what "reading numbers out of text"
        by "strtod, strtol, scanf: loading text files"
        set ["env.LANG", "env.LC_<var>"]
        next "compare bytes parsed; scanf also measures the whole rest of a string at each call";
    ["__strcoll_l", "strcoll", "__strcoll", "__strxfrm_l", "get_next_seq", "__wcscoll_l", "towlower", "__towlower_l", "__mbrtowc", "__mbsrtowcs_l", "__gconv*"] in LIBC
        what "comparing and converting text by the rules of a language"
        by "sort, ls, databases with such collations, in locales other than C"
        set ["env.LC_<var>", "env.LANG"]
        next "LC_ALL=C compares bytes: many times faster where the order does not matter";
    ["fread", "_IO_file_xsgetn", "_IO_fread", "__underflow", "_IO_new_file_underflow", "_IO_getdelim", "getdelim", "_IO_getline_info", "fgets", "getc", "_IO_getc"] in LIBC
        what "reading through stdio's buffer, which has 4 KiB unless set otherwise"
        by "fread, fgets, getline, getc"
        set ["program: setvbuf", "program: getc_unlocked"]
        next "compare read calls and bytes per call; getc takes a lock for each character";
    ["fwrite", "_IO_fwrite", "_IO_new_file_xsputn", "_IO_new_file_write", "new_do_write", "fflush", "_IO_new_do_write", "fputs", "putc", "_IO_putc", "_IO_file_overflow", "_IO_new_file_overflow"] in LIBC
        what "writing through stdio's buffer"
        by "fwrite, printf, putc; each flush or each line is a call where the buffer is flushed so"
        set ["program: setvbuf", "program: fflush"]
        next "compare write calls and bytes per call";
    ["__tz_convert", "__tzfile_compute", "__tzfile_read", "tzset_internal", "__offtime", "localtime", "localtime_r", "__mktime_internal", "ranged_convert"] in LIBC
        what "turning times into dates of a time zone, under one lock"
        by "localtime and mktime: logs, date columns"
        set ["env.TZ", "program: localtime_r"]
        next "without TZ each localtime looks at /etc/localtime (stat calls): set TZ=:/etc/localtime";
    ["getaddrinfo", "__libc_res_nsend", "send_dg", "__res_context_query", "_nss_files_*", "__nss_lookup", "__nss_database_get", "getpwnam_r", "getpwuid_r"] in LIBC
        what "asking for names of hosts or users"
        by "connections by name, and programs that print owners"
        set ["glibc: /etc/nsswitch.conf", "glibc: /etc/resolv.conf options", "env.LD_PRELOAD"]
        next "see what it waits for: a DNS server, nscd or sssd, or a long file";
    ["re_search_internal", "regexec", "build_trtable", "transit_state", "check_arrival", "sift_states_backward", "re_compile_internal", "proceed_next_node"] in LIBC
        what "regular expressions of the C library"
        by "grep, sed, and programs that use regexec"
        set ["env.LC_<var>", "env.LANG"]
        next "LC_ALL=C is far faster; back-references are slowest; compile an expression once";
    ["__random", "random", "__random_r", "rand", "__drand48_iterate", "arc4random", "__arc4random_buf"] in LIBC
        what "random numbers, of which random and rand take a lock shared by all threads"
        by "programs that draw them in inner loops"
        set ["program: random_r", "program: number of threads"]
        next "use a generator per thread; arc4random calls the kernel each time";
    ["__ieee754_*", "__exp_*", "__log_*", "__pow_*", "__sin_*", "__cos_*", "__tan_*", "exp", "log", "pow", "__exp1", "__mul", "__slowpow"] in LIBM
        what "functions of mathematics"
        by "the caller"
        set ["cpu.flags", "env.GLIBC_TUNABLES", "program: -ffast-math"]
        next "the suffix tells the variant (fma, avx2): compare it between the hosts and releases";
    ["_Unwind_RaiseException", "_Unwind_Find_FDE", "_Unwind_Backtrace", "uw_frame_state_for", "uw_update_context_1", "execute_cfa_program", "search_object", "linear_search_fdes"] in UNWINDER
        what "unwinding the stack"
        by "exceptions, backtraces of profilers and of debugging allocators"
        set ["env.RUST_BACKTRACE", "env.MALLOC_CONF", "program: exceptions"]
        next "count exceptions per second; older libraries take one lock for all threads here";
    ["__vdso_clock_gettime", "__vdso_gettimeofday", "__vdso_time", "__vdso_getcpu", "__kernel_clock_gettime"] in VDSO
        what "reading the clock without a system call"
        by "clock_gettime and gettimeofday: logs, time-outs, statistics"
        set ["kernel.clocksource", "cmdline.clocksource", "cmdline.tsc"]
        next "with clock sources other than tsc, kvm-clock or the hypervisor's it becomes a system call";
    ["clock_gettime", "__clock_gettime", "gettimeofday", "__gettimeofday", "time", "sched_getcpu", "usleep", "nanosleep", "__clock_nanosleep"] in LIBC
        what "reading the clock, or sleeping"
        by "the caller"
        set ["kernel.clocksource", "task.timer_slack_ns"]
        next "count the calls; sleeps in loops are polling";
};
