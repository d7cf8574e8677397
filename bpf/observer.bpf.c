// SPDX-License-Identifier: GPL-2.0
/*
 * pagelab's observer: page faults, mapping actions and the life of tasks, of
 * one process tree.
 *
 * Needs: BTF of the kernel, raw tracepoints with BTF (5.5), task storage in
 * tracing programs (5.11), the ring buffer (5.8); the mappings that exec and
 * fork make also need the open-coded VMA iterator (6.7), without which they
 * are counted as not listed. See README.md in this folder for the parts.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "wire.h"
#include "loads.bpf.h"
#include "membership.bpf.h"
#include "tree.bpf.h"
#include "abi.bpf.h"
#include "files.bpf.h"
#include "paths.bpf.h"
#include "faultrings.bpf.h"
#include "faults.bpf.h"
#include "stack.bpf.h"
#include "taskstack.bpf.h"
#include "areas.bpf.h"
#include "maps.bpf.h"
#include "syscalls.bpf.h"
#include "sched.bpf.h"
#include "targets.bpf.h"
#include "unfinished.bpf.h"
#include "used.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* Named here only so that the generated Rust types hold them. */
struct wire_types {
	struct task_event task;
	struct map_event map;
	struct path_event path;
	struct long_path_event long_path;
	struct task_state state;
	enum event_type event_type;
	enum task_op task_op;
	enum map_op map_op;
	enum map_kind map_kind;
	enum map_special map_special;
	enum call_flags call_flags;
	enum call_record_flags call_record_flags;
	enum target_kind target_kind;
	enum name_limits name_limits;
	enum path_flags path_flags;
	struct place_key place_key;
	struct known_place known_place;
	enum used_what used_what;
	struct used_key used_key;
	struct used_place used_place;
	struct used_event used_event;
};
const volatile struct wire_types *wire_types = NULL;

SEC("tp_btf/page_fault_user")
int page_fault_user(unsigned long long *ctx)
{
	return on_fault(ctx[0], (struct pt_regs *)ctx[1], ctx[2]);
}

SEC("tp_btf/page_fault_kernel")
int page_fault_kernel(unsigned long long *ctx)
{
	return on_fault(ctx[0], (struct pt_regs *)ctx[1], ctx[2]);
}

/* Of every task that is made. sched_process_fork is not said of threads that the kernel makes in a process's name. */
SEC("tp_btf/task_newtask")
int new_task(unsigned long long *ctx)
{
	if (detached)
		return 0;
	target_forked(bpf_get_current_task_btf(), (struct task_struct *)ctx[0]);
	return 0;
}

SEC("iter/task")
int find_targets(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;

	if (task)
		target_met(task, ctx->meta->seq);
	return 0;
}

/* Of all tasks only the one that reads this matters: the recorder. */
SEC("iter/task")
int note_root(struct bpf_iter__task *ctx)
{
	note_reader_root(bpf_get_current_task_btf());
	return 0;
}

SEC("iter/task")
int tell_unfinished(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;

	if (task)
		send_unfinished(task);
	return 0;
}

SEC("tp_btf/cgroup_attach_task")
int cgroup_moved(unsigned long long *ctx)
{
	if (detached)
		return 0;
	target_moved((struct task_struct *)ctx[2]);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int process_exec(unsigned long long *ctx)
{
	if (detached)
		return 0;
	tree_execed((struct task_struct *)ctx[0], (struct linux_binprm *)ctx[2]);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int process_exit(unsigned long long *ctx)
{
	if (detached)
		return 0;
	tree_exited((struct task_struct *)ctx[0]);
	return 0;
}

SEC("tp_btf/task_rename")
int task_rename(unsigned long long *ctx)
{
	if (detached)
		return 0;
	tree_renamed((struct task_struct *)ctx[0], (const char *)ctx[1]);
	return 0;
}

/* Mapping calls alone: of all others only the number is looked at. */
SEC("tp_btf/sys_enter")
int sys_enter(unsigned long long *ctx)
{
	if (detached)
		return 0;
	map_call_entered((struct pt_regs *)ctx[0], ctx[1]);
	return 0;
}

SEC("tp_btf/sys_exit")
int sys_exit(unsigned long long *ctx)
{
	if (detached)
		return 0;
	map_call_returned(ctx, (struct pt_regs *)ctx[0], ctx[1]);
	used_in_call((struct pt_regs *)ctx[0], ctx[1]);
	return 0;
}

/* Where the beginning of a mapping call, and of an exec, is seen without looking at every call. */
SEC("tp_btf/mmap_lock_start_locking")
int mmap_lock_wanted(unsigned long long *ctx)
{
	if (detached)
		return 0;
	map_lock_wanted();
	return 0;
}

SEC("tp_btf/sched_prepare_exec")
int exec_prepared(unsigned long long *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	struct task_state *state = state_of(task);

	if (state && !detached)
		exec_began(task, state);
	return 0;
}

/* Every call, mapping calls among them. */
SEC("tp_btf/sys_enter")
int any_enter(unsigned long long *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (struct pt_regs *)ctx[0];
	struct task_state *state = state_of(task);

	if (!state || detached)
		return 0;
	map_call_entered(regs, ctx[1]);
	if (!state->waiting)
		syscall_entered(task, state, regs, call_number(task, (__u32)ctx[1]));
	return 0;
}

SEC("tp_btf/sys_exit")
int any_exit(unsigned long long *ctx)
{
	if (detached)
		return 0;
	syscall_returned(bpf_get_current_task_btf(), (struct pt_regs *)ctx[0], ctx[1]);
	map_call_returned(ctx, (struct pt_regs *)ctx[0], ctx[1]);
	used_in_call((struct pt_regs *)ctx[0], ctx[1]);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int ended_in_call(unsigned long long *ctx)
{
	if (detached)
		return 0;
	syscall_abandoned((struct task_struct *)ctx[0]);
	return 0;
}

SEC("tp_btf/sched_switch")
int switched(unsigned long long *ctx)
{
	__u64 now = bpf_ktime_get_ns();

	if (detached)
		return 0;
	/* A task that is preempted is runnable, whatever its state says. */
	left_cpu((struct task_struct *)ctx[1], ctx[0] ? 0 : (__u32)ctx[3], now);
	took_cpu((struct task_struct *)ctx[2], now);
	return 0;
}

/* The same, with the stacks of tasks that went to sleep. A kernel that refuses them can still have the other. */
SEC("tp_btf/sched_switch")
int switched_stacks(unsigned long long *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 task_state = ctx[0] ? 0 : (__u32)ctx[3];

	if (detached)
		return 0;
	left_cpu((struct task_struct *)ctx[1], task_state, now);
	took_cpu((struct task_struct *)ctx[2], now);
	if (sched_on && task_state && !(task_state & TASK_DEAD))
		take_stack(ctx, (struct task_struct *)ctx[1], now, true);
	return 0;
}

SEC("tp_btf/sched_waking")
int waking(unsigned long long *ctx)
{
	if (detached)
		return 0;
	woken((struct task_struct *)ctx[0]);
	return 0;
}
