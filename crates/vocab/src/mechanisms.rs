//! What the kernel did with a task's time on a CPU: mechanisms, and the kernel functions that tell them.
//!
//! A kernel stack is read from its innermost frame outwards. The first frame that is an *anchor* names the mechanism: clearing a
//! page below an anonymous fault is `memory.clear`, the rest of that fault `fault.anonymous`. Helpers that many mechanisms share
//! (locks, copies of small structures, reference counts, RCU) are no anchors: their time is that of whoever called them. A stack
//! without an anchor is [`OTHER`].
//!
//! Timer samples are taken where interrupts are switched on again: in guests without a cycle counter the time of a section with
//! interrupts off is found at its end. As the end of such a section (`_raw_spin_unlock_irqrestore`) is no anchor, the section's
//! caller is named all the same.
//!
//! Compilers rename functions that they split or specialise (`finish_task_switch.isra.0`); names are compared without such endings.
//!
//! ## How to add an anchor
//!
//! Add its function to a line of [`MECHANISMS`]; where kernels differ, one place of the kernel is one [`Anchor`] with all its
//! names, newest first. A test asks the running kernel for one name of each place that is not optional.

/// One place of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Anchor {
    /// The names of its function over the kernels, newest first; a kernel has one of them.
    pub names: &'static [&'static str],
    /// Kernels may lack it altogether, by their configuration, as a module that is not loaded, or because it was inlined.
    pub optional: bool,
    /// It tells the mechanism of its own instructions alone. Whatever it calls is something else, known or not: every call goes
    /// through `do_syscall_64`, which must not hide the ones that have no anchor.
    pub own_time: bool,
}

/// Something that the kernel does for a task, or because of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mechanism {
    /// Stable identifier, `area.what`.
    pub name: &'static str,
    /// What the time is spent on.
    pub about: &'static str,
    /// The functions that tell it.
    pub anchors: &'static [Anchor],
}

/// The word for time in the kernel that no anchor tells.
pub const OTHER: &str = "other";

/// Functions through which every page fault goes, on x86-64 and arm64: one of them in a kernel stack says that a fault was being
/// served, whether an instruction of the program or a copy to its memory took it.
pub const FAULT_ENTRIES: [&str; 7] = [
    "asm_exc_page_fault",
    "exc_page_fault",
    "do_user_addr_fault",
    "do_page_fault",
    "do_translation_fault",
    "do_mem_abort",
    "handle_mm_fault",
];

/// A place that every kernel has.
const fn at(names: &'static [&'static str]) -> Anchor {
    Anchor { names, optional: false, own_time: false }
}

/// A place that a kernel may lack.
const fn may(names: &'static [&'static str]) -> Anchor {
    Anchor { names, optional: true, own_time: false }
}

/// A way in that everything of its kind goes through: the mechanism has its own time alone. A kernel may have inlined it.
const fn gate(names: &'static [&'static str]) -> Anchor {
    Anchor { names, optional: true, own_time: true }
}

const fn mechanism(name: &'static str, about: &'static str, anchors: &'static [Anchor]) -> Mechanism {
    Mechanism { name, about, anchors }
}

/// Every mechanism. A function belongs to one of them.
#[rustfmt::skip]
pub const MECHANISMS: &[Mechanism] = &[
    // Memory: pages.
    mechanism("memory.clear", "filling new pages with zeroes", &[
        at(&["clear_page_erms", "clear_page_rep", "clear_page_orig"]), may(&["folio_zero_user", "clear_huge_page"]),
    ]),
    mechanism("memory.allocate", "taking pages from the allocator", &[
        at(&["__alloc_frozen_pages_noprof", "__alloc_pages_noprof", "__alloc_pages"]), at(&["get_page_from_freelist"]),
    ]),
    mechanism("memory.free", "giving pages back", &[
        at(&["folios_put_refs", "release_pages"]), at(&["free_frozen_pages", "free_unref_page"]), may(&["free_unref_folios", "free_unref_page_list"]),
    ]),
    mechanism("memory.charge", "accounting pages to a memory cgroup", &[
        may(&["__mem_cgroup_charge"]), may(&["charge_memcg"]), may(&["count_memcg_events"]), may(&["mem_cgroup_from_task"]), may(&["__css_rstat_updated", "cgroup_rstat_updated"]), may(&["mod_memcg_lruvec_state", "__mod_memcg_lruvec_state"]), may(&["try_charge_memcg"]), may(&["__memcg_slab_post_alloc_hook"]),
    ]),
    mechanism("memory.lru", "putting pages on the lists that reclaim works on", &[
        at(&["folio_batch_move_lru", "pagevec_lru_move_fn"]), may(&["__folio_batch_add_and_move"]),
    ]),
    mechanism("memory.reclaim", "freeing pages because there are too few, or because of a limit", &[
        at(&["try_to_free_pages"]), at(&["shrink_node"]), may(&["try_to_free_mem_cgroup_pages"]),
        may(&["__mem_cgroup_handle_over_high", "mem_cgroup_handle_over_high"]), may(&["shrink_folio_list"]),
    ]),
    mechanism("memory.compact", "moving pages to make room for huge ones", &[
        may(&["try_to_compact_pages"]), may(&["compact_zone"]), may(&["migrate_pages"]),
    ]),
    mechanism("memory.swap", "fetching pages from swap", &[at(&["do_swap_page"]), may(&["swap_read_folio", "swap_readpage"])]),
    mechanism("memory.ksm", "merging equal pages and separating them again", &[may(&["ksm_do_scan"]), may(&["ksm_scan_thread"])]),
    mechanism("memory.khugepaged", "making huge pages of small ones", &[may(&["collapse_huge_page"]), may(&["hpage_collapse_scan_pmd"])]),
    mechanism("memory.split", "splitting huge pages", &[
        may(&["__folio_split", "split_huge_page_to_list_to_order", "split_huge_page_to_list"]), may(&["__split_huge_pmd"]),
    ]),
    mechanism("memory.numa", "moving pages to the node that uses them", &[may(&["do_numa_page"]), may(&["do_huge_pmd_numa_page"]), may(&["task_numa_work"])]),
    // Memory: faults, by what they are on.
    mechanism("fault.anonymous", "faults on memory of the program's own, without the pages themselves", &[
        // Part of __handle_mm_fault in 6.1, where these faults are fault.entry.
        may(&["do_anonymous_page"]), may(&["do_huge_pmd_anonymous_page"]),
    ]),
    mechanism("fault.copy", "copying pages that were shared, on a write", &[at(&["do_wp_page"]), may(&["wp_page_copy"]), may(&["do_huge_pmd_wp_page"])]),
    mechanism("fault.shared", "faults on shared memory and tmpfs", &[at(&["shmem_fault"])]),
    mechanism("fault.file", "faults on mapped files", &[at(&["filemap_map_pages"]), at(&["filemap_fault"]), at(&["finish_fault"]), at(&["do_fault"])]),
    mechanism("fault.hugetlb", "faults on hugetlb memory", &[may(&["hugetlb_fault"])]),
    mechanism("fault.dax", "faults on files of persistent memory", &[may(&["dax_iomap_fault"])]),
    mechanism("fault.entry", "entering and leaving faults, finding the mapping, walking the page table", &[
        gate(&["asm_exc_page_fault"]), gate(&["exc_page_fault"]), gate(&["do_user_addr_fault"]), gate(&["handle_mm_fault"]), at(&["__handle_mm_fault"]), may(&["lock_mm_and_find_vma"]), may(&["find_vma"]), may(&["access_error"]), may(&["lock_vma_under_rcu"]),
    ]),
    // Memory: address spaces.
    mechanism("space.map", "making and changing mappings", &[
        at(&["do_mmap"]), may(&["__mmap_region", "mmap_region"]), may(&["do_brk_flags"]), may(&["mprotect_fixup"]), may(&["move_vma"]), may(&["do_madvise"]),
    ]),
    mechanism("space.unmap", "taking mappings and their page tables away", &[
        at(&["unmap_page_range"]), at(&["unmap_vmas"]), at(&["free_pgtables"]), may(&["tlb_finish_mmu"]), may(&["do_vmi_align_munmap", "do_mas_align_munmap"]),
        at(&["exit_mmap"]),
    ]),
    mechanism("space.flush", "telling other CPUs that a mapping has changed", &[may(&["flush_tlb_mm_range"]), may(&["native_flush_tlb_multi"]), may(&["smp_call_function_many_cond"])]),
    mechanism("task.fork", "copying a process, or making a thread", &[
        at(&["copy_process"]), may(&["copy_page_range"]), may(&["dup_mmap"]), may(&["wake_up_new_task"]), may(&["kernel_clone"]),
    ]),
    mechanism("task.exec", "loading a program", &[may(&["load_elf_binary"]), may(&["begin_new_exec"]), may(&["bprm_execve"]), may(&["do_execveat_common"])]),
    mechanism("task.exit", "ending a task", &[at(&["do_exit"]), may(&["release_task"]), may(&["kernel_wait4"])]),
    // Files: names, descriptors, contents.
    mechanism("file.name", "finding a file by its name", &[
        at(&["path_lookupat"]), at(&["link_path_walk"]), may(&["walk_component"]), may(&["lookup_fast"]), at(&["path_openat"]), may(&["filename_lookup"]),
        may(&["getname_flags"]), may(&["__ext4_find_entry"]), may(&["ext4_search_dir"]), may(&["ext4_lookup"]), may(&["strncpy_from_user"]),
    ]),
    mechanism("file.open", "opening and closing files, descriptors", &[
        at(&["do_filp_open"]), may(&["do_dentry_open"]), at(&["__fput"]), may(&["file_close_fd"]), may(&["filp_flush", "filp_close"]), may(&["f_dupfd"]), may(&["do_fcntl"]), may(&["alloc_fd"]), may(&["fd_install"]),
        may(&["fdget"]), may(&["fdget_pos"]), may(&["fdget_raw"]), may(&["fget"]), may(&["__x64_sys_close"]),
    ]),
    mechanism("file.attributes", "attributes of files", &[at(&["vfs_statx"]), may(&["vfs_getattr_nosec"]), may(&["vfs_fstat"]), may(&["cp_new_stat"]), may(&["vfs_fstatat"])]),
    mechanism("file.directory", "listing directories", &[at(&["iterate_dir"])]),
    mechanism("file.change", "making, removing and renaming files", &[
        at(&["vfs_unlink"]), may(&["do_unlinkat", "filename_unlinkat"]), may(&["vfs_create"]), may(&["vfs_rename"]), may(&["vfs_mkdir"]), may(&["evict"]), may(&["ext4_evict_inode"]), may(&["ext4_create"]), may(&["ext4_unlink"]), may(&["__ext4_unlink"]), may(&["iput"]),
    ]),
    mechanism("file.call", "entering reads and writes: rights, positions, times of files", &[
        at(&["vfs_read"]), at(&["vfs_write"]), may(&["ext4_file_read_iter"]), may(&["ext4_file_write_iter"]), may(&["xfs_file_read_iter"]), may(&["xfs_file_write_iter"]), may(&["blkdev_read_iter"]), may(&["vfs_llseek"]), may(&["ksys_lseek"]), may(&["shmem_file_llseek"]), may(&["rw_verify_area"]), may(&["touch_atime"]), may(&["file_update_time_flags", "file_update_time"]),
    ]),
    mechanism("file.read", "reading from the page cache", &[at(&["filemap_read"]), may(&["shmem_file_read_iter"]), may(&["filemap_splice_read"])]),
    mechanism("file.write", "writing to the page cache", &[at(&["generic_perform_write"]), may(&["iomap_file_buffered_write"])]),
    mechanism("file.fetch", "fetching contents into the page cache", &[
        at(&["page_cache_ra_unbounded"]), may(&["page_cache_ra_order"]), may(&["filemap_read_folio"]), may(&["force_page_cache_ra"]),
    ]),
    mechanism("file.drop", "dropping contents from the page cache", &[
        may(&["shmem_undo_range"]), at(&["truncate_inode_pages_range"]), may(&["mapping_try_invalidate", "invalidate_mapping_pagevec"]), may(&["invalidate_inode_pages2_range"]),
    ]),
    mechanism("file.blocks", "finding the blocks of a file", &[may(&["ext4_map_blocks"]), may(&["ext4_ext_remove_space"]), may(&["ext4_mb_new_blocks"]), may(&["ext4_free_blocks"]), may(&["ext4_get_group_info"]), may(&["xfs_bmapi_read"]), may(&["btrfs_get_extent"]), may(&["iomap_iter"])]),
    mechanism("file.journal", "journal and fsync", &[
        may(&["jbd2__journal_start"]), may(&["jbd2_journal_commit_transaction"]), may(&["jbd2_log_wait_commit"]), may(&["ext4_sync_file"]),
        may(&["__ext4_mark_inode_dirty"]), may(&["xfs_log_force_seq"]), may(&["xfs_file_fsync"]), may(&["btrfs_sync_log"]),
    ]),
    mechanism("file.writeback", "writing dirty pages to the device, or waiting before more are made", &[at(&["do_writepages"]), at(&["balance_dirty_pages"])]),
    mechanism("file.direct", "direct I/O, without the page cache", &[may(&["__iomap_dio_rw"]), may(&["iomap_dio_rw"]), may(&["iomap_dio_bio_iter"]), may(&["blkdev_direct_IO"])]),
    mechanism("file.async", "libaio: handing operations in and asking for their ends", &[
        may(&["io_submit_one"]), may(&["__do_sys_io_submit"]), may(&["aio_read"]), may(&["aio_write"]), may(&["aio_complete"]), may(&["lookup_ioctx"]), may(&["read_events"]), may(&["do_io_getevents"]),
    ]),
    mechanism("file.dax", "reading and writing persistent memory", &[may(&["dax_iomap_rw"])]),
    mechanism("block.request", "making requests and handing them to the device", &[
        at(&["blk_mq_submit_bio"]), at(&["blk_mq_dispatch_rq_list"]), at(&["blk_mq_flush_plug_list"]),
    ]),
    mechanism("block.complete", "ending requests", &[may(&["blk_mq_end_request"]), may(&["blk_mq_complete_request"]), may(&["blk_update_request"])]),
    // Between tasks.
    mechanism("task.pipe", "pipes", &[at(&["anon_pipe_read", "pipe_read"]), at(&["anon_pipe_write", "pipe_write"])]),
    mechanism("task.futex", "futexes", &[at(&["do_futex"]), may(&["futex_wait"]), may(&["futex_wake"]), may(&["futex_lock_pi"]), may(&["futex_unlock_pi"])]),
    mechanism("task.poll", "waiting for one of several descriptors", &[may(&["do_epoll_wait"]), at(&["do_sys_poll"]), may(&["do_select"]), may(&["set_user_sigmask"])]),
    mechanism("task.sleep", "timers", &[at(&["hrtimer_nanosleep"])]),
    mechanism("task.signal", "signals", &[at(&["get_signal"]), may(&["do_sigaction"]), may(&["sigprocmask", "__set_current_blocked"]), may(&["do_send_sig_info"])]),
    mechanism("task.wake", "waking tasks", &[at(&["try_to_wake_up"])]),
    mechanism("task.switch", "switching from task to task", &[at(&["finish_task_switch"]), at(&["__schedule"])]),
    mechanism("task.lock", "spinning for locks of the kernel", &[
        may(&["native_queued_spin_lock_slowpath"]), may(&["osq_lock"]), may(&["rwsem_down_read_slowpath"]), may(&["rwsem_down_write_slowpath"]), may(&["__mutex_lock"]),
    ]),
    mechanism("uring", "io_uring, without the operations themselves", &[may(&["io_submit_sqes"]), may(&["io_cqring_wait"]), may(&["__do_sys_io_uring_enter"])]),
    mechanism("network", "sockets and packets", &[
        may(&["__sys_sendto"]), may(&["__sys_recvfrom"]), may(&["sock_sendmsg"]), may(&["sock_recvmsg"]), may(&["unix_stream_recvmsg"]), may(&["tcp_sendmsg"]), may(&["tcp_recvmsg"]), may(&["unix_stream_sendmsg"]), may(&["unix_stream_read_generic"]), may(&["net_rx_action"]), may(&["sock_poll"]),
    ]),
    mechanism("random", "making random numbers", &[may(&["get_random_bytes_user"]), may(&["chacha_permute"]), may(&["chacha_block_generic"]), may(&["crng_make_state"])]),
    // The way in and out.
    mechanism(FILTER, "seccomp", &[may(&["__seccomp_filter"]), may(&["seccomp_run_filters"]), may(&["__secure_computing"])]),
    mechanism(CALL_ENTRY, "entering and leaving calls, restartable sequences", &[
        gate(&["entry_SYSCALL_64_after_hwframe"]), gate(&["do_syscall_64", "el0_svc_common"]), gate(&["x64_sys_call"]), gate(&["syscall_exit_work"]), gate(&["syscall_trace_enter"]), may(&["exit_to_user_mode_loop", "exit_to_user_mode_prepare"]), may(&["__rseq_handle_notify_resume"]),
    ]),
    mechanism("interrupt", "interrupts that came meanwhile, and their softirqs", &[
        at(&["handle_softirqs", "__do_softirq"]), gate(&["asm_sysvec_apic_timer_interrupt"]), gate(&["common_interrupt"]), gate(&["irqentry_exit_to_user_mode"]), gate(&["irqentry_exit"]), may(&["irq_exit_rcu", "__irq_exit_rcu"]),
    ]),
    mechanism(RECORDER, "programs and events of a recorder, this one or another; BPF programs are told by how their names begin", &[
        may(&["perf_event_overflow"]), may(&["__mmap_lock_do_trace_start_locking"]), may(&["___perf_sw_event"]),
    ]),
];

/// The function without the endings that compilers give to its parts and special forms.
pub fn plain_name(function: &str) -> &str {
    const ENDINGS: [&str; 5] = [".isra.", ".part.", ".constprop.", ".cold", ".llvm."];
    // Few names have a dot, and all names of a kernel are looked at.
    if !function.as_bytes().contains(&b'.') {
        return function;
    }
    let mut dots = function.match_indices('.').map(|(at, _)| at);
    let end = dots.find(|at| ENDINGS.iter().any(|ending| function[*at..].starts_with(ending)));
    &function[..end.unwrap_or(function.len())]
}

/// How the names of BPF programs begin, and of the functions that run them. They are of the mechanism [`RECORDER`].
const OF_BPF: [&str; 3] = ["bpf_prog_", "bpf_trace_run", "__bpf_trace_"];

/// How the names of programs begin that were handed to the kernel, whoever did that.
const BPF_PROGRAM: &str = "bpf_prog_";
/// What lies between such a program and the function that runs it.
const BPF_TRAMPOLINE: &str = "bpf_trampoline_";

/// How the names of functions begin that run BPF programs to check what a program may do: those programs are no recorder's. A tracing
/// program may be at the beginning of any other function.
const RUN_CHECKS: [&str; 4] = ["__seccomp_filter", "seccomp_run_filters", "bpf_lsm_", "__cgroup_bpf_"];

/// How the names of the functions of system calls begin. Such a function's own time, not that of what it calls, is
/// [`CALL_ENTRY`].
const OF_CALLS: [&str; 6] =
    ["__x64_sys_", "__ia32_sys_", "__ia32_compat_sys_", "__arm64_sys_", "__se_sys_", "__do_sys_"];

/// Functions that do the whole of a call, whose own function jumps to them and leaves no frame: `__x64_sys_write` ends in a jump to
/// `ksys_write`. Those that begin with `ksys_` have the call's name behind it.
const BEHIND_CALLS: [(&str, &str); 20] = [
    ("do_readv", "readv"),
    ("do_writev", "writev"),
    ("do_preadv", "preadv"),
    ("do_pwritev", "pwritev"),
    ("do_sendfile", "sendfile"),
    ("do_fsync", "fsync"),
    ("do_sys_open", "openat"),
    ("do_sys_openat2", "openat"),
    ("do_unlinkat", "unlinkat"),
    ("do_rmdir", "rmdir"),
    ("do_renameat2", "renameat2"),
    ("do_mkdirat", "mkdirat"),
    ("do_linkat", "linkat"),
    ("do_symlinkat", "symlinkat"),
    ("do_fcntl", "fcntl"),
    ("do_sys_poll", "poll"),
    ("do_epoll_wait", "epoll_wait"),
    ("do_futex", "futex"),
    ("do_execveat_common", "execve"),
    ("kernel_clone", "clone"),
];

/// The call that such a function does.
fn behind_call(name: &str) -> Option<&str> {
    let known = BEHIND_CALLS.iter().find(|(function, _)| *function == name).map(|(_, call)| *call);
    known.or_else(|| name.strip_prefix("ksys_"))
}

/// The mechanism of filters that a process has set itself, or was started with.
const FILTER: &str = "call.filter";

/// The mechanism of entering and leaving calls.
const CALL_ENTRY: &str = "call.entry";

/// The mechanism that holds what recording costs the recorded task.
pub const RECORDER: &str = "recorder";

/// What the kernel was doing, by the names of a stack's kernel functions from the innermost outwards; none where no anchor is
/// among them ([`OTHER`]).
pub fn of_stack<'a>(innermost_first: impl IntoIterator<Item = &'a str>) -> Option<&'static Mechanism> {
    let mut is_in_program = false;
    for (depth, function) in innermost_first.into_iter().enumerate() {
        let name = plain_name(function);
        if name.starts_with(BPF_PROGRAM) || is_in_program && name.starts_with(BPF_TRAMPOLINE) {
            is_in_program = true;
            continue;
        }
        if std::mem::take(&mut is_in_program) && !runs_checks(name) {
            return named(RECORDER);
        }
        let found = anchored(function, depth == 0);
        if found.is_some() {
            return found;
        }
    }
    named(RECORDER).filter(|_| is_in_program)
}

/// Whether a function runs BPF programs to check what a program may do.
fn runs_checks(name: &str) -> bool {
    RUN_CHECKS.iter().any(|begin| name.starts_with(begin))
}

/// The function that tells a reader where a stack of the kernel is: its innermost one. Programs of seccomp have no names, and the
/// kernel's list has that of any other BPF program for their addresses: theirs is the function that runs them.
pub fn telling_function<'a>(innermost_first: &[&'a str]) -> Option<&'a str> {
    let innermost = innermost_first.first().copied()?;
    let caller = innermost_first.iter().copied().find(|name| !name.starts_with(BPF_PROGRAM));
    let is_of_filter = |caller: &&str| of_stack([*caller]).is_some_and(|mechanism| mechanism.name == FILTER);
    let runs_it = caller.filter(|_| innermost.starts_with(BPF_PROGRAM)).filter(is_of_filter);
    Some(runs_it.unwrap_or(innermost))
}

fn named(wanted: &str) -> Option<&'static Mechanism> {
    MECHANISMS.iter().find(|mechanism| mechanism.name == wanted)
}

/// How the kernel was entered, by the names of a stack's kernel functions from the innermost outwards: the name of the system
/// call, `page_fault`, `interrupt`, `thread` for what begins in the kernel, or `other`. The outermost one decides: a fault that a
/// call takes is the call's.
pub fn entry_of_stack<'a>(innermost_first: impl DoubleEndedIterator<Item = &'a str>) -> String {
    for function in innermost_first.rev() {
        let name = plain_name(function);
        if FAULT_ENTRIES.contains(&name) {
            return "page_fault".to_owned();
        }
        if name.starts_with("asm_sysvec_") || name == "asm_common_interrupt" || name == "asm_exc_nmi" {
            return "interrupt".to_owned();
        }
        if name == "ret_from_fork" || name == "ret_from_fork_asm" {
            return "thread".to_owned();
        }
        let of_call = || OF_CALLS.iter().find_map(|begin| name.strip_prefix(begin));
        if let Some(call) = of_call().or_else(|| behind_call(name)) {
            return call.to_owned();
        }
    }
    OTHER.to_owned()
}

/// The mechanism that a function tells, if it is the innermost of its stack or if functions below it have told none.
fn anchored(function: &str, is_innermost: bool) -> Option<&'static Mechanism> {
    let name = plain_name(function);
    let begins = |all: &[&str]| all.iter().any(|begin| name.starts_with(begin));
    if begins(&OF_BPF) {
        return named(RECORDER);
    }
    let tells = |anchor: &Anchor| anchor.names.contains(&name) && (is_innermost || !anchor.own_time);
    let found = MECHANISMS.iter().find(|mechanism| mechanism.anchors.iter().any(tells));
    let is_call = is_innermost && begins(&OF_CALLS);
    found.or_else(|| named(CALL_ENTRY).filter(|_| is_call))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_told_once() {
        let (mut names, mut functions) = (BTreeSet::new(), BTreeSet::new());
        for mechanism in MECHANISMS {
            assert!(names.insert(mechanism.name) && !mechanism.about.is_empty(), "{}", mechanism.name);
            assert!(!mechanism.anchors.is_empty(), "{}", mechanism.name);
            for name in mechanism.anchors.iter().flat_map(|anchor| anchor.names) {
                assert!(functions.insert(*name), "{name} is an anchor twice");
                assert_eq!(plain_name(name), *name);
            }
        }
        assert!(!names.contains(OTHER));
    }

    #[test]
    fn the_innermost_anchor_decides_and_helpers_never_do() {
        let of = |stack: &[&'static str]| of_stack(stack.iter().copied()).map(|mechanism| mechanism.name);
        let fault =
            ["do_anonymous_page", "__handle_mm_fault", "handle_mm_fault", "exc_page_fault", "asm_exc_page_fault"];
        assert_eq!(of(&fault), Some("fault.anonymous"));
        assert_eq!(of(&[&["clear_page_erms", "get_page_from_freelist"], &fault[..]].concat()), Some("memory.clear"));
        assert_eq!(of(&[&["_raw_spin_unlock_irqrestore"], &fault[..]].concat()), Some("fault.anonymous"));
        assert_eq!(of(&["finish_task_switch.isra.0", "__schedule", "schedule", "anon_pipe_read"]), Some("task.switch"));
        assert_eq!(of(&["memcpy", "_raw_spin_lock"]), None);
        let call = ["do_syscall_64", "entry_SYSCALL_64_after_hwframe"];
        assert_eq!(of(&call), Some("call.entry"));
        assert_eq!(of(&[&["bpf_prog_affae3981c39db1d_sys_exit"], &call[..]].concat()), Some(RECORDER));
        assert_eq!(
            of(&[&["nobody_knows_it", "__x64_sys_new"], &call[..]].concat()),
            None,
            "a call without an anchor is not its entry"
        );
        assert_eq!(of(&[&["__x64_sys_ppoll"], &call[..]].concat()), Some(CALL_ENTRY), "its own time");
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn programs_that_check_are_told_from_recorders() {
        let of = |stack: &[&'static str]| of_stack(stack.iter().copied()).map(|mechanism| mechanism.name);
        let call = ["syscall_trace_enter", "do_syscall_64", "entry_SYSCALL_64_after_hwframe"];
        let filter = [&["bpf_prog_35be2be3bc941e28_any", "__seccomp_filter"], &call[..]].concat();
        assert_eq!(of(&filter), Some(FILTER));
        assert_eq!(telling_function(&filter), Some("__seccomp_filter"));
        let open = ["do_dentry_open", "vfs_open", "path_openat", "do_filp_open"];
        let module = ["bpf_prog_1_guard", "bpf_trampoline_7", "bpf_lsm_file_open", "security_file_open"];
        let module = [&module[..], &open].concat();
        assert_eq!(of(&module), Some("file.open"), "a part of the open");
        assert_eq!(telling_function(&module), Some("bpf_prog_1_guard"), "it has a name");
        let traced = [&["bpf_prog_2_opens", "bpf_trampoline_8", "security_file_open"], &open[..]].concat();
        assert_eq!(of(&traced), Some(RECORDER), "a tracing program at the beginning of a hook");
        let called = ["bpf_prog_3_calls", "bpf_trace_run2", "syscall_trace_enter", "__seccomp_filter"];
        assert_eq!(of(&called), Some(RECORDER));
        assert_eq!(telling_function(&called), Some("bpf_prog_3_calls"));
        assert_eq!(of(&["bpf_prog_3_calls"]), Some(RECORDER), "the stack was cut");
    }

    #[test]
    fn the_outermost_way_in_is_the_entry() {
        let of = |stack: &[&'static str]| entry_of_stack(stack.iter().copied());
        let call = [
            "vfs_read",
            "ksys_read",
            "__x64_sys_read",
            "x64_sys_call",
            "do_syscall_64",
            "entry_SYSCALL_64_after_hwframe",
        ];
        assert_eq!(of(&call), "read");
        let fault = ["do_anonymous_page", "handle_mm_fault", "exc_page_fault", "asm_exc_page_fault"];
        assert_eq!(of(&fault), "page_fault");
        assert_eq!(of(&[&fault[..], &call].concat()), "read", "a fault that the call took");
        assert_eq!(
            of(&["handle_softirqs", "sysvec_apic_timer_interrupt", "asm_sysvec_apic_timer_interrupt"]),
            "interrupt"
        );
        assert_eq!(of(&["schedule_tail", "ret_from_fork_asm"]), "thread");
        assert_eq!(of(&["nobody_knows_it"]), OTHER);
        let jumped = ["vfs_write", "ksys_write", "do_syscall_64", "entry_SYSCALL_64_after_hwframe"];
        assert_eq!(of(&jumped), "write", "the call's own function left no frame");
        assert_eq!(of(&["vfs_fsync_range", "do_fsync", "do_syscall_64"]), "fsync");
        let fdatasync = ["vfs_fsync_range", "do_fsync", "__x64_sys_fdatasync", "do_syscall_64"];
        assert_eq!(of(&fdatasync), "fdatasync", "where it left one, that tells");
    }

    #[test]
    fn endings_of_compilers_are_no_part_of_a_name() {
        for (function, plain) in [
            ("finish_task_switch.isra.0", "finish_task_switch"),
            ("vms_clear_ptes.part.0", "vms_clear_ptes"),
            ("foo.constprop.0.isra.0", "foo"),
            ("bar.cold", "bar"),
            ("do_fault", "do_fault"),
        ] {
            assert_eq!(plain_name(function), plain);
        }
    }
}
