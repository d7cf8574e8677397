/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which tasks belong to the recorded tree. Every object file of pagelab's
 * includes this; they share one map, which the recorder hands to each. A task
 * is recorded if state_of() finds a state, and by nothing else: so all streams
 * record the same tasks.
 *
 * Membership is task storage: it is found in a few ns, is freed with the task
 * and cannot be confused by a pid that is used again. The recorder puts the
 * first task in (through its pidfd). targets.bpf.h decides about all others: at
 * their birth, and in a walk about those that run already and those whose
 * birth was not seen.
 */

struct task_state {
	__u32 task_id;      /* 0: not a member (yet) */
	__u32 mm_id;
	__u64 mm;           /* the mm_struct that mm_id names */
	__u64 exec_ts;      /* when the running execve began */
	__u64 call_ts;      /* when the running mapping call began */
	__u64 call_nr;      /* its number + 1; 0: none */
	__u64 brk_before;
	__u32 waiting;      /* the command's process, before it runs the command: nothing of it is recorded */
	__u32 claimed;      /* somebody is making it a member, or has */
	__u32 wanted;       /* the recorder asked for this process; its threads are looked for */
	__u32 entry_unseen; /* of the call that it may be in: its next return has no entry */
	__u32 fds_looked_at; /* descriptors that its calls made (used.bpf.h) */
	__u32 padding;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_state);
} task_states SEC(".maps");

static __always_inline struct task_state *state_of(struct task_struct *task)
{
	struct task_state *state = bpf_task_storage_get(&task_states, task, 0, 0);

	return state && state->task_id ? state : NULL;
}

/* The first task is adopted while it waits to run the command; that begins when it gets another address space. */
static __always_inline bool still_waiting(struct task_state *state, struct task_struct *task)
{
	if (!state->waiting)
		return false;
	if (!state->mm || state->mm == (__u64)mm_of(task))
		return true;
	state->waiting = 0;
	return false;
}

/* The running task's state if it is recorded. */
static __always_inline struct task_state *current_member(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *state = state_of(task);

	return state && !still_waiting(state, task) ? state : NULL;
}

/*
 * Whether the task ever runs in user space. The threads that the kernel makes in a process's name (of io_uring, vhost) do not,
 * nor do its own: what they have as registers of user space is their maker's, or nothing, but for the stack pointer.
 */
static __always_inline bool has_user_space(struct pt_regs *regs)
{
	return regs->sp != 0;
}
