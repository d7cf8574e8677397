//! What watches, filters or asks about a program: seccomp, audit, security modules, notifications, /proc, userfaultfd.

pub(super) const PLACES: &[super::Place] = places! {
    ["__seccomp_filter", "__secure_computing", "seccomp_run_filters"]
        what "running the filters of system calls"
        by "each system call of a process under seccomp: containers, sandboxes, systemd services"
        set ["task.seccomp", "task.seccomp_filters", "sysctl.net.core.bpf_jit_enable", "docker: --security-opt seccomp"]
        next "the cost is per call and filter: compare calls per second and the number of filters";
    ["syscall_trace_enter", "syscall_exit_work", "ptrace_stop", "ptrace_do_notify", "ptrace_notify"]
        what "stopping at system calls for somebody who traces them"
        by "strace, debuggers, audit, seccomp with a supervisor, tracepoints on calls"
        set ["task.seccomp", "cmdline.audit", "sysctl.kernel.yama.ptrace_scope"]
        next "read TracerPid in /proc/PID/status";
    ["__audit_syscall_entry", "__audit_syscall_exit", "audit_filter_syscall", "audit_filter_rules", "audit_log_start", "__audit_inode", "__audit_getname"]
        what "the audit subsystem: matching calls with rules, writing records"
        by "system calls while audit rules are loaded, or audit is on for the task"
        set ["cmdline.audit", "cmdline.audit_backlog_limit", "auditctl: -a"]
        next "read 'auditctl -s' and 'auditctl -l': a full backlog makes tasks wait";
    ["kauditd_thread", "audit_receive", "audit_log_end"]
        what "passing audit records on to the daemon, or to the kernel's log"
        by "matched rules"
        set ["auditctl: -r", "cmdline.audit_backlog_limit", "auditctl: --backlog_wait_time"]
        next "compare records per second; narrow the rules";
    ["selinux_file_permission", "selinux_inode_permission", "avc_has_perm", "avc_has_perm_noaudit", "avc_lookup", "inode_has_perm"]
        what "checks of SELinux, mostly answered from its cache"
        by "opens, lookups, reads and writes"
        set ["cmdline.selinux", "cmdline.enforcing", "selinux: avc/cache_threshold"]
        next "the cost is per call and per component of a path: compare these";
    ["avc_compute_av", "security_compute_av", "context_struct_compute_av"]
        what "SELinux computing an answer that its cache does not hold"
        by "many different labels (containers with categories of their own), or a small cache"
        set ["selinux: avc/cache_threshold", "cmdline.selinux"]
        next "read /sys/fs/selinux/avc/cache_stats: misses per lookup";
    ["apparmor_file_permission", "aa_file_perm", "aa_path_perm", "apparmor_file_open", "profile_path_perm"]
        what "checks of AppArmor; opening a file builds its path and matches it with the profile"
        by "programs with a profile: containers, snaps, daemons"
        set ["cmdline.apparmor", "cmdline.lsm", "docker: --security-opt apparmor"]
        next "compare opens per second; 'aa-status' tells who is confined";
    ["security_file_permission", "security_inode_permission", "security_file_open", "inode_permission", "hook_file_open"]
        what "asking the security modules, one after another, and checking the rights of a file"
        by "opens, lookups, reads and writes"
        set ["cmdline.lsm", "mount.<mountpoint>.options"]
        next "see which modules are on (/sys/kernel/security/lsm); BPF programs may be among them";
    ["ima_file_check", "process_measurement", "ima_collect_measurement", "evm_verify_hmac", "fsverity_verify_blocks", "fsverity_verify_bio"]
        what "hashing or verifying files before they are used"
        by "IMA policies, and files with fs-verity"
        set ["cmdline.ima_policy", "cmdline.ima_appraise", "kconfig.FS_VERITY"]
        next "see which policy is loaded, and how large the files are that are opened first";
    ["fsnotify", "__fsnotify_parent", "send_to_group", "fsnotify_handle_inode_event"]
        what "looking for watchers of a file, its directory and its mount"
        by "opens, reads, writes and closes"
        set ["sysctl.fs.inotify.max_user_watches", "sysctl.fs.inotify.max_user_instances"]
        next "find who watches (fdinfo of processes with inotify or fanotify); a watch of a whole mount costs every access";
    ["inotify_handle_inode_event", "fsnotify_insert_event", "inotify_read", "inotify_merge"]
        what "queueing an event for a program that uses inotify"
        by "changes in watched directories"
        set ["sysctl.fs.inotify.max_queued_events", "sysctl.fs.inotify.max_user_watches"]
        next "find the watcher (editors, sync tools, build tools), and how many events it gets";
    ["fanotify_handle_event", "fanotify_get_response", "fanotify_alloc_event", "fanotify_read", "copy_event_to_user"]
        what "queueing an event for fanotify, or waiting until a scanner allows the access"
        by "virus scanners, and tools that watch whole file systems"
        set ["sysctl.fs.fanotify.max_queued_events", "fanotify: FAN_OPEN_PERM", "clamonacc: --fdpass"]
        next "a wait here is the scanner's time: exclude the directory or profile the scanner";
    ["smaps_pte_range", "smap_gather_stats", "show_smap", "show_smaps_rollup", "smaps_account", "smaps_page_accumulate"]
        what "counting the pages of mappings for a reader, with the address space locked"
        by "readers of smaps and smaps_rollup: monitoring, memory tools"
        set ["monitoring: smaps interval", "prometheus: process_exporter -gather-smaps"]
        next "find who reads /proc/PID/smaps; with much memory one read takes long and holds up changes of mappings";
    ["pagemap_read", "pagemap_pmd_range", "pagemap_scan_pmd_entry", "do_pagemap_scan", "walk_page_range", "walk_pgd_range", "walk_page_vma"]
        what "walking page tables to tell which pages are there, and in which state"
        by "readers of pagemap, PAGEMAP_SCAN, mincore, and other walks of memory"
        set ["criu: --track-mem", "monitoring: pagemap interval"]
        next "the functions above and below tell whose walk it is: a tool, mincore, mlock or migration";
    ["clear_refs_write", "clear_refs_pte_range", "clear_soft_dirty"]
        what "clearing accessed or soft-dirty bits, with a TLB flush and new faults to follow"
        by "writes to /proc/PID/clear_refs: checkpointing, estimates of the working set"
        set ["criu: --track-mem", "monitoring: wss interval"]
        next "find who writes to clear_refs: every later write of the program takes a fault";
    ["show_map_vma", "m_start", "proc_pid_cmdline_read", "get_cmdline"]
        what "listing the mappings or the arguments of a process; some kernels lock its address space for it"
        by "readers of /proc/PID/maps and cmdline: ps, monitoring, profilers, crash handlers"
        set ["monitoring: process scan interval", "kconfig.PER_VMA_LOCK"]
        next "find who reads it how often; very many mappings make it long";
    ["do_task_stat", "proc_pid_status", "proc_pid_readdir", "show_stat", "meminfo_proc_show", "proc_pid_statm"]
        what "figures of processes or of the host for a reader"
        by "ps, top and monitoring agents"
        set ["monitoring: scrape interval", "mount.<mountpoint>.options"]
        next "find the reader, and how often it reads for how many processes";
    ["show_numa_map", "gather_pte_stats", "gather_stats"]
        what "counting pages by node for a reader"
        by "readers of /proc/PID/numa_maps: numastat and monitoring"
        set ["monitoring: numa_maps interval", "sysctl.vm.numa_stat"]
        next "find who reads it; it walks every page of the process";
    ["handle_userfault", "userfaultfd_read_iter", "userfaultfd_ctx_read", "userfaultfd_wake_function"]
        what "waiting until another thread or process has filled a page in"
        by "faults on memory that is registered with userfaultfd: live migration, snapshots of VMs, garbage collectors"
        set ["sysctl.vm.unprivileged_userfaultfd", "qemu: postcopy-ram", "firecracker: mem_backend"]
        next "profile the handler; its latency is the fault's";
    ["userfaultfd_ioctl", "mfill_atomic", "mfill_atomic_copy", "mcopy_atomic", "mfill_atomic_pte_copy", "mwriteprotect_range", "move_pages"]
        what "filling pages in, moving them or changing their protection for another thread"
        by "the handler of userfaultfd"
        set ["sysctl.vm.unprivileged_userfaultfd", "program: UFFDIO_COPY size"]
        next "compare bytes per call: larger pieces and huge pages need fewer";
    ["perf_event_overflow", "perf_event_output_forward", "perf_callchain_user", "perf_callchain_kernel", "unwind_next_frame", "___perf_sw_event"]
        what "taking a sample for a profiler"
        by "perf, eBPF profilers, and pagelab itself"
        set ["sysctl.kernel.perf_event_max_sample_rate", "sysctl.kernel.perf_event_paranoid"]
        next "lower the rate, or leave stacks out, and compare";
    ["bpf_prog_*", "bpf_trace_run*", "__bpf_trace_*", "__bpf_prog_enter*", "__bpf_prog_exit*", "bpf_trampoline_*"]
        what "running BPF programs that are attached to events"
        by "tracing and security agents, cgroup and network programs"
        set ["sysctl.kernel.bpf_stats_enabled", "sysctl.net.core.bpf_jit_enable", "sysctl.net.core.bpf_jit_harden"]
        next "with sysctl.kernel.bpf_stats_enabled=1 'bpftool prog' tells run time and count of each program";
};
