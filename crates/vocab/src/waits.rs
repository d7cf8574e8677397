//! The words of the tables `waits` and `wait_stacks`: what state a task was in, who had the CPU, and who woke it.

use crate::words::words;

words! {
    /// What a row of `waits` sums up.
    State {
        /// The task had a CPU.
        Run = "run",
        /// It could run and waited for a CPU: woken, or preempted.
        Ready = "ready",
        /// From leaving the CPU until it was woken.
        Off = "off",
        /// No task of the target ran, could run, or slept for I/O or uninterruptibly; of all tasks together.
        Idle = "idle",
        /// What the kernel itself counted as time on a CPU (`sum_exec_runtime`). It is less than `run` by what a hypervisor took.
        KernelRun = "kernel_run",
        /// What the kernel itself counted as waiting for a CPU (`sched_info.run_delay`, the second figure of `/proc/PID/schedstat`).
        KernelReady = "kernel_ready",
    }
}

words! {
    /// Who had the CPU that a task waited for, when it got it.
    Holder {
        /// Another task of the target.
        Own = "own",
        /// A task that does not belong to the target.
        Foreign = "foreign",
        /// Nobody: the CPU was idle when the task was queued, and switched to it.
        Nobody = "nobody",
        /// The task's cgroup had used up its quota (`cpu.max`).
        Throttled = "throttled",
        /// Nobody yet: it was woken, and the CPU that was to run it had to take an interrupt, and to wake up if it was idle, before
        /// it queued the task. The kernel does not count this as waiting for a CPU (`kernel_ready`).
        Wakeup = "wakeup",
    }
}

words! {
    /// In which context a task was woken.
    Waker {
        /// Another task of the target.
        Own = "own",
        /// A task that does not belong to the target.
        Foreign = "foreign",
        /// A soft interrupt: mostly the network, and block devices.
        Softirq = "softirq",
        /// An interrupt of a device.
        Irq = "irq",
        /// A timer that ran out.
        Timer = "timer",
    }
}

/// What `waits.call` holds for waits in page faults.
pub const PAGE_FAULT: &str = "page_fault";

/// Whether the target makes progress, or is made to wait by the system, while a task is in such a wait: it sleeps
/// uninterruptibly, or the kernel counted it as waiting for I/O. All other sleeping is waiting for somebody's request or reply.
pub fn is_active_wait(off_state: Option<&str>, iowait: Option<bool>) -> bool {
    off_state == Some("D") || iowait == Some(true)
}

/// Functions of the kernel that put a task to sleep for whoever calls them: they say nothing of what for (`kernel/sched/core.c`,
/// `kernel/sched/completion.c`, `kernel/sched/wait_bit.c`, `kernel/time/sleep_timeout.c`, `kernel/locking`).
const SLEEPERS: [&str; 22] = [
    "__schedule",
    "schedule",
    "schedule_idle",
    "schedule_timeout",
    "schedule_timeout_uninterruptible",
    "schedule_preempt_disabled",
    "schedule_hrtimeout_range",
    "schedule_hrtimeout_range_clock",
    "io_schedule",
    "io_schedule_timeout",
    "bit_wait",
    "bit_wait_io",
    "__wait_on_bit",
    "out_of_line_wait_on_bit",
    "__wait_on_bit_lock",
    "wait_on_page_bit",
    "wait_for_completion",
    "wait_for_completion_io",
    "wait_for_completion_io_timeout",
    "__wait_for_common",
    "preempt_schedule_irq",
    "__cond_resched",
];

/// What stands behind the functions of a wait for a lock that no recorded task had.
pub const HELD_BY_OTHERS: &str = "(held by others)";

/// Whether a function of the kernel does no more than to put the task to sleep.
pub fn only_sleeps(function: &str) -> bool {
    SLEEPERS.contains(&function)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back() {
        for state in State::ALL {
            assert_eq!(State::of_word(state.word()), Some(*state));
        }
        for waker in Waker::ALL {
            assert_eq!(Waker::of_word(waker.word()), Some(*waker));
        }
        assert_eq!(Holder::of_word("nobody"), Some(Holder::Nobody));
        assert_eq!(Holder::of_word("Own"), None);
    }
}
