/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The life of the recorded tree: ids of its tasks and of their address spaces,
 * and the road that rare events take to the recorder.
 */

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20); /* set before loading */
} events SEC(".maps");

/* The recorder itself uses id 1 for the first task. */
__u32 last_task_id = 1;
__u32 last_mm_id = 1;
/* Rises whenever the tree changes; the per-CPU cache of the fault path is good for one generation. */
__u64 generation = 1;
/*
 * The recorder detaches a program by closing its link. A child that some thread
 * of the recorder has forked holds the links, too, until it executes a program
 * of its own: the programs run that much longer. What they see then is in no
 * row, so nothing may be counted either.
 */
__u32 detached = 0;
__u32 faults_on = 0;
__u64 events_seen = 0;
__u64 events_lost = 0;

/*
 * The id of the task's address space. It is asked for on every use, because a
 * task takes faults in its new image before the exec tracepoint is reached.
 */
static __always_inline __u32 mm_id_of(struct task_state *state, struct task_struct *task)
{
	__u64 mm = (__u64)mm_of(task);

	if (mm != state->mm && mm) {
		state->mm = mm;
		state->mm_id = __sync_fetch_and_add(&last_mm_id, 1) + 1;
	}
	return state->mm_id;
}

#define RESERVE_EVENT(kind_of_event)                                                        \
	({                                                                                  \
		void *slot = bpf_ringbuf_reserve(&events, sizeof(struct kind_of_event), 0); \
		__sync_fetch_and_add(&events_seen, 1);                                      \
		if (!slot)                                                                  \
			__sync_fetch_and_add(&events_lost, 1);                              \
		slot;                                                                       \
	})

static __always_inline void submit_event(void *event)
{
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

static __always_inline void fill_task(struct task_event *event, __u32 op, struct task_state *state,
				      struct task_struct *task)
{
	__builtin_memset(event, 0, sizeof(*event));
	event->type = EVENT_TASK;
	event->op = op;
	event->ts = bpf_ktime_get_ns();
	event->task_id = state->task_id;
	event->mm_id = state->mm_id;
	event->tid = task->pid;
	event->pid = task->tgid;
	event->cgroup_id = PLAIN(task)->cgroups->dfl_cgrp->kn->id;
	bpf_probe_read_kernel_str(event->comm, sizeof(event->comm), task->comm);
}

static __always_inline void tree_renamed(struct task_struct *task, const char *comm)
{
	struct task_state *state = state_of(task);
	struct task_event *event;

	if (!state)
		return;
	event = RESERVE_EVENT(task_event);
	if (!event)
		return;
	fill_task(event, TASK_COMM, state, task);
	bpf_probe_read_kernel_str(event->comm, sizeof(event->comm), comm);
	submit_event(event);
}

static __always_inline void tree_exited(struct task_struct *task)
{
	struct task_state *state = state_of(task);
	struct task_event *event;

	if (!state)
		return;
	__sync_fetch_and_add(&generation, 1);
	event = RESERVE_EVENT(task_event);
	if (!event)
		return;
	fill_task(event, TASK_EXIT, state, task);
	event->exit_code = task->exit_code;
	event->min_flt = task->min_flt;
	event->maj_flt = task->maj_flt;
	event->utime_ns = task->utime;
	event->stime_ns = task->stime;
	event->runtime_ns = task->se.sum_exec_runtime;
	submit_event(event);
}
