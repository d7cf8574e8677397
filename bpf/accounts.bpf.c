// SPDX-License-Identifier: GPL-2.0
/*
 * What the kernel itself counts of every task: time on a CPU, context
 * switches, migrations, page faults. Summed up over the recorded tree.
 *
 * Nothing is attached to the counted events. The accounts of a task are read when it begins to end, when it has been
 * freed, at which time they are final, and by a walk over all tasks as often as the recorder asks;
 * earlier values are subtracted. A perf event of the same would be switched off and on at each
 * context switch of each task.
 *
 * Either end of a task may go unseen: while another program comes to its tracepoint or goes, a busy kernel leaves hits of the
 * tracepoint out (6.18: 8 of 30,000 tasks freed beside 140,600 attachments; perf's own events on the tracepoint miss the same
 * tasks). So each of the two does alone what both do together, but for the last steps of a task that was not seen freed.
 *
 * Needs: BTF of the kernel, raw tracepoints with BTF (5.5), task storage in
 * tracing programs (5.11), iterators over tasks (5.8).
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "loads.bpf.h"
#include "membership.bpf.h"

char LICENSE[] SEC("license") = "GPL";

struct accounts {
	__u64 runtime_ns;
	__u64 switches;
	__u64 migrations;
	__u64 minor_faults;
	__u64 major_faults;
};

struct account_state {
	struct accounts counted;
	__u32 known;
	__u32 until_exec;   /* the command's process, before it runs the command */
	__u32 exited;
	__u32 padding;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct account_state);
} account_states SEC(".maps");

/* All tasks together. */
struct accounts total = {};
/* The recorder sets this for its first walk: what a task has done before that is not counted. */
__u32 first_walk = 0;
/* Members that were seen to end, and those of them that were seen freed. */
__u64 tasks_exited = 0;
__u64 tasks_freed = 0;
/* Members that have ended and that nobody has waited for, as the last walk found them. The recorder zeroes it before. */
__u64 tasks_dead = 0;

static __always_inline void read_accounts(struct task_struct *task, struct accounts *now)
{
	now->runtime_ns = task->se.sum_exec_runtime;
	now->switches = task->nvcsw + task->nivcsw;
	now->migrations = task->se.nr_migrations;
	now->minor_faults = task->min_flt;
	now->major_faults = task->maj_flt;
}

/* A walk may still hold a task that is being freed: so the exchange. The accounts do not change any more by then. */
#define ADD(field) \
	__sync_fetch_and_add(&total.field, now.field - __sync_lock_test_and_set(&state->counted.field, now.field))

static __always_inline void add(struct task_struct *task, struct account_state *state)
{
	struct accounts now;

	read_accounts(task, &now);
	ADD(runtime_ns);
	ADD(switches);
	ADD(migrations);
	ADD(minor_faults);
	ADD(major_faults);
}

/* What is known of a task of the tree. */
static __always_inline struct account_state *account_of(struct task_struct *task)
{
	struct task_state *member = state_of(task);
	struct account_state *state;

	if (!member)
		return NULL;
	state = bpf_task_storage_get(&account_states, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!state || state->known)
		return state;
	state->known = 1;
	state->until_exec = member->waiting;
	if (first_walk)
		read_accounts(task, &state->counted);
	return state;
}

SEC("iter/task")
int count_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct account_state *state = task ? account_of(task) : NULL;

	if (!state || state->until_exec)
		return 0;
	add(task, state);
	if (state->exited && task->exit_state)
		__sync_fetch_and_add(&tasks_dead, 1);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int account_begins(unsigned long long *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	struct account_state *state = bpf_task_storage_get(&account_states, task, 0, 0);

	if (state && state->until_exec) {
		read_accounts(task, &state->counted);
		state->until_exec = 0;
	}
	return 0;
}

SEC("tp_btf/sched_process_exit")
int account_ends(unsigned long long *ctx)
{
	struct account_state *state = account_of((struct task_struct *)ctx[0]);

	if (!state || state->until_exec)
		return 0;
	add((struct task_struct *)ctx[0], state);
	state->exited = 1;
	__sync_fetch_and_add(&tasks_exited, 1);
	return 0;
}

SEC("tp_btf/sched_process_free")
int account_is_final(unsigned long long *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	struct account_state *state = account_of(task);

	if (!state || state->until_exec)
		return 0;
	add(task, state);
	if (state->exited)
		__sync_fetch_and_add(&tasks_freed, 1);
	return 0;
}
