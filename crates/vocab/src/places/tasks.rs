//! Tasks: fork, exec, exit; futexes; the scheduler; idle CPUs.

pub(super) const PLACES: &[super::Place] = places! {
    ["copy_process", "kernel_clone", "dup_task_struct", "wake_up_new_task"]
        what "making a process or thread"
        by "fork, vfork, clone, posix_spawn"
        set ["rlimit.nproc", "sysctl.kernel.threads-max", "cgroup.pids.max"]
        next "count them per second; a pool of threads or workers saves it";
    ["dup_mmap", "copy_page_range", "copy_pte_range", "copy_present_ptes", "copy_huge_pmd", "dup_mm"]
        what "copying the page tables of a process for its child"
        by "fork of a process with much memory"
        set ["thp.enabled", "hugetlb.<size>.nr_hugepages", "redis: save"]
        next "it grows with mapped anonymous pages: huge pages make it shorter, vfork and posix_spawn leave it out";
    ["alloc_thread_stack_node", "__vmalloc_node_range_noprof", "__vmalloc_node_range", "alloc_vmap_area", "vmap_pages_range_noflush"]
        what "mapping memory for the kernel itself, such as the kernel stack of a new thread"
        by "new threads and large buffers of the kernel"
        set ["kconfig.VMAP_STACK", "sysctl.kernel.threads-max"]
        next "compare threads made per second";
    ["load_elf_binary", "begin_new_exec", "bprm_execve", "do_execveat_common", "elf_load", "copy_strings", "exec_mmap"]
        what "starting a program: reading it, making its address space, copying arguments"
        by "execve"
        set ["env.LD_BIND_NOW", "env.LD_PRELOAD", "sysctl.kernel.randomize_va_space"]
        next "count program starts: shells and build systems make thousands; the dynamic linker's own time follows in user space";
    ["do_exit", "do_group_exit", "release_task", "exit_notify", "exit_files"]
        what "ending a task"
        by "processes and threads that end"
        set ["cgroup.pids.max", "sysctl.kernel.threads-max"]
        next "look below it: memory, files, or waiting for others; compare tasks that end per second";
    ["do_wait", "kernel_wait4", "wait_consider_task", "wait_task_zombie"]
        what "waiting for a child to end"
        by "wait4 and waitid"
        set ["rlimit.nproc", "program: number of workers"]
        next "it is the child's time: look at the child";
    ["do_futex", "futex_wake", "futex_wake_mark", "futex_requeue"]
        what "waking threads that wait for a lock or condition of the program"
        by "unlocking contended mutexes, signalling conditions, semaphores"
        set ["env.GLIBC_TUNABLES", "env.OMP_<var>", "program: number of threads"]
        next "find the lock by the caller in user space, and how long it is held";
    ["futex_wait", "__futex_wait", "futex_do_wait", "futex_wait_queue", "futex_wait_queue_me", "futex_wait_multiple"]
        what "sleeping until another thread unlocks or signals"
        by "contended mutexes, condition variables, joins, idle workers of a pool"
        set ["env.GLIBC_TUNABLES", "program: number of threads", "env.OMP_<var>"]
        next "see who wakes it: idle workers are no loss, a lock with one busy holder is";
    ["futex_wait_setup", "futex_q_lock", "futex_hash", "get_futex_key"]
        what "finding and locking the bucket in which a futex's waiters are listed"
        by "each futex call; many threads on one lock share its bucket"
        set ["program: number of threads", "kconfig.FUTEX_PRIVATE_HASH"]
        next "private futexes are cheaper than shared ones; fewer threads per lock help";
    ["futex_lock_pi", "futex_unlock_pi", "rt_mutex_slowlock", "__rt_mutex_slowlock", "rt_mutex_adjust_prio_chain"]
        what "a lock that lends its waiters' priority to the holder"
        by "mutexes with PTHREAD_PRIO_INHERIT"
        set ["task.policy", "kconfig.PREEMPT_RT"]
        next "see who holds it, at which priority";
    ["__schedule", "finish_task_switch", "schedule_tail"]
        what "switching from one task to another"
        by "tasks that sleep or are preempted"
        set ["cmdline.preempt", "kconfig.HZ", "task.affinity"]
        next "compare voluntary with involuntary switches; the reason of a sleep stands above it in the stack";
    ["try_to_wake_up", "ttwu_queue_wakelist", "ttwu_do_activate", "wake_up_q", "__wake_up_common", "autoremove_wake_function"]
        what "waking a task: choosing its CPU and putting it into the queue there"
        by "locks, pipes, sockets, I/O and timers that end a wait"
        set ["task.affinity", "sysctl.kernel.sched_<path>", "cpu.isolated"]
        next "count wakeups per unit of work: handing work over in batches needs fewer";
    ["select_task_rq_fair", "select_idle_sibling", "select_idle_cpu", "sched_balance_find_dst_cpu", "find_idlest_cpu"]
        what "searching for the CPU that a woken or new task is to run on"
        by "wakeups and forks, more so on machines with many CPUs"
        set ["task.affinity", "cgroup.cpuset.cpus", "sysctl.kernel.sched_<path>"]
        next "compare wakeups per unit of work; pinning shortens the search";
    ["enqueue_task_fair", "dequeue_task_fair", "dequeue_entities", "update_load_avg", "update_curr"]
        what "keeping the scheduler's queues and load figures"
        by "each sleep, wakeup and tick; each level of cgroups adds to it"
        set ["cgroup.cpu.weight", "sysctl.kernel.sched_autogroup_enabled", "cgroup.cpu.max"]
        next "see how deep the task's cgroup lies, and count switches";
    ["pick_next_task_fair", "pick_eevdf", "pick_next_entity", "pick_task_fair"]
        what "choosing the next task of a CPU"
        by "each switch"
        set ["task.nice", "cgroup.cpu.weight", "task.policy"]
        next "compare switches per second and runnable tasks per CPU";
    ["sched_balance_newidle", "newidle_balance", "sched_balance_rq", "load_balance", "sched_balance_domains", "rebalance_domains", "sched_balance_update_blocked_averages", "update_blocked_averages"]
        what "looking for tasks on other CPUs that could run here"
        by "CPUs that become idle, and ticks"
        set ["sysctl.kernel.sched_<path>", "cpu.isolated", "task.affinity"]
        next "much of it says that CPUs go idle often for a short time: see the lengths of sleeps";
    ["migration_cpu_stop", "stop_one_cpu", "__set_cpus_allowed_ptr", "sched_setaffinity"]
        what "moving a task to another CPU at once"
        by "changes of affinity or cpusets, and balancing of running tasks"
        set ["task.affinity", "cgroup.cpuset.cpus"]
        next "find who changes affinities while the program runs";
    ["throttle_cfs_rq", "unthrottle_cfs_rq", "tg_throttle_down", "distribute_cfs_runtime", "sched_cfs_period_timer", "throttle_cfs_rq_work"]
        what "stopping the tasks of a cgroup that has used up its CPU time, and letting them run again"
        by "more CPU time in a period than cpu.max gives"
        set ["cgroup.cpu.max", "cgroup.cpu.max.burst", "sysctl.kernel.sched_cfs_bandwidth_slice_us"]
        next "compare nr_throttled and throttled_usec in the cgroup's cpu.stat";
    ["sched_tick", "scheduler_tick", "update_process_times", "task_tick_fair"]
        what "the regular tick: accounting of time, and whether another task's turn has come"
        by "the timer interrupt, HZ times a second on busy CPUs"
        set ["kconfig.HZ", "cmdline.nohz_full", "cpu.nohz_full"]
        next "more than a percent or two says that something hooks into it: profilers, POSIX timers";
    ["do_sched_yield", "yield_task_fair"]
        what "giving the CPU up on request, and mostly getting it back at once"
        by "sched_yield in spin loops of the program"
        set ["env.OMP_<var>", "env.KMP_<var>", "program: number of threads"]
        next "find the spin loop by the caller; more threads than CPUs make it spin for nothing";
    ["native_queued_spin_lock_slowpath", "__pv_queued_spin_lock_slowpath", "queued_spin_lock_slowpath", "queued_read_lock_slowpath", "queued_write_lock_slowpath"]
        what "spinning for a lock of the kernel that another CPU holds"
        by "many CPUs that need the same structure: a zone's free list, a run queue, a file, a journal"
        set ["kconfig.LOCK_STAT", "kconfig.PARAVIRT_SPINLOCKS", "program: number of threads"]
        next "the caller's caller tells the lock: look one or two frames outwards";
    ["osq_lock", "__mutex_lock", "__mutex_lock_slowpath", "mutex_spin_on_owner"]
        what "waiting for a mutex of the kernel, or spinning while its holder runs"
        by "tasks that need the same pipe, directory, device or cgroup operation"
        set ["kconfig.LOCK_STAT", "program: number of threads"]
        next "the caller tells the mutex; see what its holder does meanwhile";
    ["percpu_rwsem_wait", "__percpu_down_read", "percpu_down_write", "cgroup_attach_task", "cgroup_procs_write"]
        what "waiting for a lock that readers take for almost nothing and writers wait long for"
        by "moves of tasks between cgroups, freezing of file systems, CPU hotplug"
        set ["cgroup: favordynmods", "cmdline.cgroup_favordynmods"]
        next "find who moves tasks between cgroups or freezes a file system; starting tasks straight in their cgroup avoids moves";
    ["cpuidle_enter_state", "intel_idle", "acpi_idle_enter", "default_idle", "pv_native_safe_halt", "default_idle_call", "mwait_idle", "poll_idle"]
        what "an idle CPU"
        by "no task that could run there"
        set ["cmdline.intel_idle.max_cstate", "cmdline.processor.max_cstate", "cpu.cpuidle.governor", "cmdline.idle"]
        next "it is no cost by itself; deep idle states delay wakeups: compare wakeup latency with a shallower limit";
};
