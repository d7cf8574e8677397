/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The records of the stream `waits`; the Rust types are generated from them.
 *
 * Sums are from the task's beginning (or that of recording) on and only rise, so a record that is lost costs nothing but
 * resolution in time: the next one holds what it held. Times are CLOCK_MONOTONIC in ns.
 */
#ifndef PAGELAB_WAITS_H
#define PAGELAB_WAITS_H

enum wait_event_type {
	WAIT_SUMS = 1,
	WAIT_SLOT = 2,
	WAIT_STACK = 3,
};

/* Who had the CPU when a task that could run got one. */
enum wait_holder {
	HELD_BY_OWN = 0,        /* another recorded task */
	HELD_BY_FOREIGN = 1,
	HELD_BY_NOBODY = 2,     /* the CPU was idle */
	HELD_BY_THROTTLING = 3, /* its cgroup had used up its quota (cpu.max) */
	HELD_BY_WAKEUP = 4,     /* not in a queue yet: another CPU was told of it by an interrupt */
	WAIT_HOLDERS = 5,
};

/* In which context a task was woken. */
enum wait_waker {
	WOKEN_UNSEEN = 0,
	WOKEN_BY_OWN = 1,       /* another recorded task */
	WOKEN_BY_FOREIGN = 2,
	WOKEN_BY_SOFTIRQ = 3,
	WOKEN_BY_IRQ = 4,
	WOKEN_BY_TIMER = 5,
};

/*
 * What a wait is told from others by, in 32 bits: number of the call + 1 (16 bits; 0: in none, WAIT_IN_FAULT: in a page fault),
 * the state (8), whether the kernel counted it as waiting for I/O (1), the waker (3), and one bit that is always set.
 */
enum wait_key {
	WAIT_IN_FAULT = 0xffff,
	WAIT_STATE_SHIFT = 16,
	WAIT_IO = 1 << 24,
	WAIT_WAKER_SHIFT = 25,
	WAIT_WAKER_MASK = 7 << 25,
};
#define WAIT_KEY_SET (1U << 31)

/* In the state's bits, for what the kernel calls idle: uninterruptible, and not a part of the load. */
#define WAIT_STATE_IDLE 0x80

#define WAIT_SLOTS 8
#define WAIT_FRAMES 32

struct wait_slot {
	__u32 key;          /* 0: not used yet */
	__u32 generation;   /* how many keys this slot has had before */
	__u64 times;
	__u64 off_ns;       /* from leaving the CPU until woken */
};

enum wait_sums_flag {
	WAIT_DEAD = 1,      /* the task has left the CPU for the last time */
	WAIT_RUNNING = 2,   /* has a CPU since `since` */
	WAIT_READY = 4,     /* could run since `since` */
	WAIT_OFF = 8,       /* off the CPU since `left`, with WAIT_READY until `since` */
	WAIT_LAST = 16,     /* nothing follows: states that are not over are to be told */
};

/* All of a task. */
struct wait_sums {
	__u32 type;
	__u32 task_id;
	__u32 flags;
	__u32 open_key;     /* with WAIT_OFF: of that wait, which is not in the sums yet */
	__u64 ts;
	__u64 since;
	__u64 left;
	__u64 run_ns;
	__u64 runs;
	__u64 runtime_ns;   /* the kernel's own sum_exec_runtime */
	__u64 run_delay_ns; /* and its sched_info.run_delay */
	__u64 ready_ns[WAIT_HOLDERS];
	__u64 readies[WAIT_HOLDERS];
	struct wait_slot slots[WAIT_SLOTS];
	/* With WAIT_RUNNING: the wait before this run, where it is not in the sums yet (settle()). */
	__u64 unsettled_off_ns;
	__u64 unsettled_ready_ns;
	__u32 unsettled_key; /* 0: it was preempted, or there is none */
	__u32 padding;
};

/* A slot that had to give way to another key. */
struct wait_slot_event {
	__u32 type;
	__u32 task_id;
	__u32 index;
	__u32 padding;
	__u64 ts;
	struct wait_slot slot;
};

/* The kernel's stack of a wait that was over, or was not when recording ended, innermost first. */
struct wait_stack {
	__u32 type;
	__u32 task_id;
	__u32 key;
	__u32 frames;
	__u64 ts;
	__u64 off_ns;
	__u64 weight_ns;    /* the time off the CPU that it stands for */
	__u64 addrs[WAIT_FRAMES];
};

#endif
