//! Waiting for descriptors, pipes, sockets, timers.

pub(super) const PLACES: &[super::Place] = places! {
    ["do_epoll_wait", "ep_poll", "ep_send_events", "ep_item_poll"]
        what "waiting for events of an epoll set, or collecting them"
        by "epoll_wait in event loops"
        set ["program: EPOLLET", "sysctl.net.core.busy_poll"]
        next "sleeping here is idle time; on the CPU compare events per call";
    ["ep_poll_callback", "ep_autoremove_wake_function"]
        what "putting a ready descriptor on the list of its epoll set and waking a waiter"
        by "data that arrive for watched sockets, pipes and eventfds"
        set ["program: EPOLLEXCLUSIVE", "program: number of threads"]
        next "many threads on one set share its lock: give each its own, or use EPOLLEXCLUSIVE";
    ["do_epoll_ctl", "ep_insert", "ep_remove"]
        what "adding and removing descriptors of an epoll set"
        by "new connections, and programs that change their interest each time"
        set ["program: EPOLLONESHOT", "program: EPOLLET"]
        next "count the calls per event";
    ["do_sys_poll", "do_select", "core_sys_select", "pollwake"]
        what "asking each of a list of descriptors whether it is ready"
        by "poll and select; the cost grows with the list"
        set ["program: epoll", "rlimit.nofile"]
        next "with hundreds of descriptors epoll is cheaper";
    ["eventfd_write", "eventfd_read", "eventfd_signal_mask"]
        what "waking another thread by a counter"
        by "event loops, io_uring and virtual machines that use eventfd"
        set ["program: batching", "qemu: ioeventfd"]
        next "count the signals per unit of work; several pieces of work per signal need fewer";
    ["anon_pipe_read", "pipe_read", "anon_pipe_write", "pipe_write", "wait_for_space"]
        what "moving bytes through a pipe, or waiting for its other end"
        by "shell pipelines, and programs that talk through pipes"
        set ["sysctl.fs.pipe-max-size", "sysctl.fs.pipe-user-pages-soft", "program: F_SETPIPE_SZ"]
        next "compare bytes per call; a user above pipe-user-pages-soft gets pipes of one or two pages";
    ["splice_to_pipe", "do_splice", "splice_from_pipe_next", "iter_file_splice_write", "do_sendfile"]
        what "moving pages between pipes, files and sockets without copies"
        by "splice, sendfile, tee"
        set ["program: F_SETPIPE_SZ", "sysctl.fs.pipe-max-size"]
        next "compare bytes per call with the pipe's size";
    ["unix_stream_sendmsg", "unix_stream_recvmsg", "unix_stream_read_generic", "unix_dgram_sendmsg", "unix_dgram_recvmsg"]
        what "moving bytes over a local socket"
        by "databases on the same host, desktops, container runtimes, D-Bus"
        set ["sysctl.net.core.wmem_default", "sysctl.net.unix.max_dgram_qlen"]
        next "compare bytes and calls per unit of work";
    ["unix_wait_for_peer", "sock_alloc_send_pskb", "sock_wait_for_wmem"]
        what "waiting until the reader of a socket has taken what is queued"
        by "a writer that is faster than its reader"
        set ["sysctl.net.core.wmem_default", "sysctl.net.core.wmem_max", "sysctl.net.unix.max_dgram_qlen"]
        next "look at the reader: it is the slow one";
    ["tcp_sendmsg", "tcp_sendmsg_locked", "tcp_write_xmit", "__tcp_transmit_skb", "tcp_push"]
        what "copying bytes into a TCP socket and sending segments"
        by "write, send and sendfile on TCP"
        set ["sysctl.net.ipv4.tcp_wmem", "sysctl.net.ipv4.tcp_congestion_control", "sysctl.net.core.default_qdisc"]
        next "compare bytes per call; on the loopback the receiver's work is done here as well";
    ["tcp_recvmsg", "tcp_recvmsg_locked", "sk_wait_data", "tcp_v4_rcv", "tcp_rcv_established"]
        what "receiving on TCP, or waiting for bytes"
        by "read and recv, and segments that arrive"
        set ["sysctl.net.ipv4.tcp_rmem", "sysctl.net.core.rmem_max"]
        next "sleeping here waits for the peer; on the CPU compare bytes per call";
    ["sk_stream_wait_memory", "__lock_sock", "__release_sock"]
        what "waiting for room in a socket's send buffer, or for the socket's own lock"
        by "a slow peer or network, or several threads on one socket"
        set ["sysctl.net.ipv4.tcp_wmem", "sysctl.net.core.wmem_max", "sysctl.net.ipv4.tcp_mem"]
        next "look at the send queue (ss -ti), and at threads that share the socket";
    ["net_rx_action", "__napi_poll", "napi_gro_receive", "gro_receive_skb", "process_backlog"]
        what "taking packets from network devices in a softirq"
        by "network traffic, whoever it is for"
        set ["irq.<irq>.affinity", "sysctl.net.core.netdev_budget", "sysctl.net.core.netdev_budget_usecs"]
        next "compare packets per second and which CPU takes them; the task that it interrupts pays the time";
    ["__alloc_skb", "pskb_expand_head", "kmalloc_reserve", "skb_release_data", "skb_copy_datagram_iter", "__skb_datagram_iter"]
        what "buffers of packets: taking, copying, giving back"
        by "sends and receives"
        set ["sysctl.net.core.rmem_default", "sysctl.net.core.wmem_default", "program: MSG_ZEROCOPY"]
        next "compare bytes per packet: larger messages and segmentation offload need fewer buffers";
    ["hrtimer_nanosleep", "do_nanosleep", "schedule_hrtimeout_range", "schedule_hrtimeout_range_clock"]
        what "sleeping for a time that the program chose"
        by "nanosleep, usleep, and timeouts of poll and epoll"
        set ["task.timer_slack_ns", "program: sleep"]
        next "see who sleeps and why: polling loops, back-off of locks, rate limits (innodb_thread_sleep_delay and the like)";
    ["hrtimer_interrupt", "__hrtimer_run_queues", "tick_nohz_handler", "tick_sched_timer", "asm_sysvec_apic_timer_interrupt", "sysvec_apic_timer_interrupt"]
        what "the interrupt of a CPU's timer"
        by "ticks, sleeps that end, and limits of CPU time"
        set ["kconfig.HZ", "cmdline.nohz_full", "sysctl.kernel.timer_migration", "task.timer_slack_ns"]
        next "compare LOC in /proc/interrupts: programs with many short sleeps make many";
    ["hrtimer_start_range_ns", "hrtimer_try_to_cancel", "lapic_next_deadline", "lapic_next_event", "clockevents_program_event", "native_apic_msr_write"]
        what "setting the CPU's timer anew"
        by "each sleep with a timeout, and each entry to idle; in a virtual machine it may leave the guest"
        set ["task.timer_slack_ns", "kernel.clocksource", "cmdline.clocksource"]
        next "count timeouts per second; coarse or absent timeouts need fewer";
    ["run_timer_softirq", "__run_timers", "run_timer_base", "call_timer_fn"]
        what "running timers of the kernel that fell due"
        by "network, block devices, and other subsystems"
        set ["sysctl.kernel.timer_migration", "kconfig.HZ"]
        next "the function below it tells whose timer it is";
    ["timerfd_read_iter", "timerfd_read", "do_timerfd_settime", "posix_cpu_timer_set", "run_posix_cpu_timers", "handle_posix_cpu_timers"]
        what "timers of programs: reading, setting and running them"
        by "event loops with timerfd, and limits or profilers on CPU time"
        set ["rlimit.cpu", "env.GODEBUG", "task.timer_slack_ns"]
        next "a profiler by SIGPROF or ITIMER_PROF adds work to each tick: see whether one is on";
    ["ktime_get", "ktime_get_ts64", "read_tsc", "read_hpet", "acpi_pm_read", "kvm_clock_get_cycles", "read_hv_clock_tsc"]
        what "reading the clock in the kernel"
        by "calls and accounting; programs come here only where the clock cannot be read in user space"
        set ["kernel.clocksource", "kernel.clocksources", "cmdline.clocksource", "cmdline.tsc"]
        next "hpet and acpi_pm take about a microsecond a read: see why tsc was given up (kernel's log)";
    ["do_signal", "get_signal", "do_send_sig_info", "send_signal_locked", "__send_signal_locked", "setup_rt_frame", "x64_setup_rt_frame", "arch_do_signal_or_restart"]
        what "sending and taking signals"
        by "timers, profilers, garbage collectors that stop threads, preemption in Go"
        set ["env.GODEBUG", "rlimit.sigpending"]
        next "count signals by number and sender";
};
