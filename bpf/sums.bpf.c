// SPDX-License-Identifier: GPL-2.0
/*
 * Page faults and system calls of the recorded tasks, summed up: for those who want to know how many there are, and no more
 * (`pagelab watch`). No event is sent, so what the recorder pays does not grow with their number.
 *
 * Sums lie in an array with one entry for each CPU, which only programs on that CPU write. They only rise. A call is counted, and
 * its time added, when it returns; what the calls take that have not returned is added up by a walk over all tasks, so that the
 * time of a second is that second's own, also of a call that lasts for hours.
 *
 * Needs: BTF of the kernel, raw tracepoints with BTF (5.5), iterators over tasks (5.8), task storage in tracing programs (5.11),
 * bpf_task_pt_regs() (5.15).
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "wire.h"
#include "loads.bpf.h"
#include "membership.bpf.h"
#include "abi.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND, ERESTART_RESTARTBLOCK: a signal came, and the call may be made again. */
#define IS_RESTART(ret) ((ret) == -512 || (ret) == -513 || (ret) == -514 || (ret) == -516)

/* By the low bits of the processor's error code: page present, write, user mode, reserved, instruction fetch. */
#define FAULT_KINDS 32
#define ALL_CALLS (2 * CALL_NUMBERS)

/* The kernel counts a task's run when it leaves the CPU, and at each tick: every 10 ms at least. */
#define COUNTED_WITHIN_NS 12000000

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct task_struct___sums {
	unsigned int __state;
	int on_cpu;
};

#pragma clang attribute pop

struct call_sum {
	__u64 calls;
	__u64 ns;           /* from entry to return */
	__u64 off_ns;       /* of this, without a CPU */
};

struct cpu_sums {
	__u64 faults[FAULT_KINDS];
	struct call_sum calls[ALL_CALLS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* CPUs; set before loading */
	__type(key, __u32);
	__type(value, struct cpu_sums);
} sums SEC(".maps");

/* The system call that a task is in, and what has been counted of its major faults. */
struct sum_state {
	__u64 entered;
	__u64 left;         /* off the CPU since, in the call; 0: it is on one */
	__u64 off_ns;       /* in the call, before that */
	__u64 runtime_ns;   /* sum_exec_runtime at its entry */
	__u64 major_counted;
	__u32 nr;           /* + 1; 0: not in a call */
	__u32 known;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct sum_state);
} sum_states SEC(".maps");

/* Of the calls that have not returned. The recorder zeroes it before a walk. */
struct call_sum open_calls[ALL_CALLS] = {};
/* Major faults as the kernel counts them. */
__u64 major_faults = 0;
/* The first walk: what a task has done before it is not counted. */
__u32 first_walk = 0;

static __always_inline struct cpu_sums *sums_here(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&sums, &cpu);
}

static __always_inline struct sum_state *known_sums(struct task_struct *task)
{
	return bpf_task_storage_get(&sum_states, task, 0, 0);
}

static __always_inline struct sum_state *sums_of(struct task_struct *task)
{
	struct sum_state *state = bpf_task_storage_get(&sum_states, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (state && !state->known) {
		state->known = 1;
		state->major_counted = task->maj_flt;
	}
	return state;
}

/* The walk and the end of the task may come at once: so the exchange. */
static __always_inline void count_major(struct task_struct *task, struct sum_state *state)
{
	__u64 now = task->maj_flt;
	__u64 before = __sync_lock_test_and_set(&state->major_counted, now);

	if (now > before)
		__sync_fetch_and_add(&major_faults, now - before);
}

/* Faults come with interrupts off (wire.h, struct fault_ring): there is one that adds at a time. */
static __always_inline int add_fault(unsigned long addr, unsigned long error_code)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct cpu_sums *here;

	if (addr >> FAULT_ADDR_BITS || task->pagefault_disabled || !current_member())
		return 0;
	here = sums_here();
	if (here)
		here->faults[error_code & (FAULT_KINDS - 1)]++;
	return 0;
}

SEC("tp_btf/page_fault_user")
int sum_fault_user(unsigned long long *ctx)
{
	return add_fault(ctx[0], ctx[2]);
}

SEC("tp_btf/page_fault_kernel")
int sum_fault_kernel(unsigned long long *ctx)
{
	return add_fault(ctx[0], ctx[2]);
}

/*
 * The time without a CPU in a call. The kernel leaves hits of tracepoints out now and then, while other programs come to them and
 * go: what the task cannot have run, as the kernel counts it, it was off.
 */
static __always_inline __u64 off_in_call(struct task_struct *task, __u64 runtime_ns, __u64 ns, __u64 off_ns)
{
	__u64 counted_ns = task->se.sum_exec_runtime - runtime_ns;

	if (ns > off_ns + counted_ns + COUNTED_WITHIN_NS)
		return ns - counted_ns;
	return off_ns;
}

static __always_inline void end_call(struct task_struct *task, struct sum_state *state, __u32 calls)
{
	struct cpu_sums *here = sums_here();
	struct call_sum *sum;
	__u64 ns = bpf_ktime_get_ns() - state->entered;
	__u32 nr = state->nr - 1;

	state->nr = 0;
	if (!here || nr >= ALL_CALLS)
		return;
	sum = &here->calls[nr];
	__sync_fetch_and_add(&sum->calls, calls);
	__sync_fetch_and_add(&sum->ns, ns);
	__sync_fetch_and_add(&sum->off_ns, off_in_call(task, state->runtime_ns, ns, state->off_ns));
}

/* A call that the kernel left out took no time that anybody has seen. */
static __always_inline void count_refused(struct task_struct *task, struct pt_regs *regs)
{
	__u64 nr = call_number(task, (__u32)regs->orig_ax);
	struct cpu_sums *here = sums_here();

	if (here && nr < ALL_CALLS)
		__sync_fetch_and_add(&here->calls[nr].calls, 1);
}

SEC("tp_btf/sys_enter")
int sum_entered(unsigned long long *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *member = state_of(task);
	struct sum_state *state;
	__u64 nr;

	if (!member || still_waiting(member, task))
		return 0;
	nr = call_number(task, ctx[1]);
	state = nr < ALL_CALLS ? sums_of(task) : NULL;
	if (!state)
		return 0;
	state->left = 0;
	state->off_ns = 0;
	state->runtime_ns = task->se.sum_exec_runtime;
	state->entered = bpf_ktime_get_ns();
	*(volatile __u32 *)&state->nr = nr + 1;
	return 0;
}

SEC("tp_btf/sys_exit")
int sum_returned(unsigned long long *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct sum_state *state = known_sums(task);

	/* A task that has entered none yet returns from the fork that made it, or from a call in which it was found. */
	if (!state)
		return 0;
	/* One that is made again is the same call. */
	if (state->nr)
		end_call(task, state, !IS_RESTART((long)ctx[1]));
	else if (may_be_refused(task))
		count_refused(task, (struct pt_regs *)ctx[0]);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int sum_ended(unsigned long long *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	struct sum_state *state = known_sums(task);

	if (!state)
		return 0;
	count_major(task, state);
	if (state->nr)
		end_call(task, state, 1);
	return 0;
}

SEC("tp_btf/sched_switch")
int sum_switched(unsigned long long *ctx)
{
	struct sum_state *out = known_sums((struct task_struct *)ctx[1]), *in = known_sums((struct task_struct *)ctx[2]);
	__u64 now = bpf_ktime_get_ns();

	if (out && out->nr)
		out->left = now;
	if (in && in->left) {
		in->off_ns += now - in->left;
		in->left = 0;
	}
	return 0;
}

/* A task that was in a call before the programs were, and sleeps there. */
static __always_inline void found_in_call(struct task_struct *task, struct sum_state *state, __u64 now)
{
	struct task_struct___sums *more = (struct task_struct___sums *)task;
	struct pt_regs *regs;
	__u64 nr;

	if (more->on_cpu || !more->__state)
		return;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	if (!has_user_space(regs))
		return;
	nr = regs->orig_ax;
	if (nr >= CALL_NUMBERS)
		return;
	state->entered = now;
	state->left = now;
	state->runtime_ns = task->se.sum_exec_runtime;
	*(volatile __u32 *)&state->nr = call_number(task, nr) + 1;
}

SEC("iter/task")
int walk_sums(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct task_state *member = task ? state_of(task) : NULL;
	__u64 now = bpf_ktime_get_ns(), entered, left, off_ns, runtime_ns;
	struct sum_state *state;
	struct call_sum *sum;
	__u32 nr;

	if (!task || !member || still_waiting(member, task) || task->exit_state)
		return 0;
	state = sums_of(task);
	if (!state)
		return 0;
	count_major(task, state);
	if (first_walk && !state->nr)
		found_in_call(task, state, now);
	nr = *(volatile __u32 *)&state->nr;
	entered = *(volatile __u64 *)&state->entered;
	left = *(volatile __u64 *)&state->left;
	off_ns = *(volatile __u64 *)&state->off_ns;
	runtime_ns = *(volatile __u64 *)&state->runtime_ns;
	/* It is in no call, or has made another meanwhile. */
	if (!nr || nr > ALL_CALLS || entered > now || *(volatile __u64 *)&state->entered != entered)
		return 0;
	sum = &open_calls[(nr - 1) & (ALL_CALLS - 1)];
	off_ns += left && left < now ? now - left : 0;
	sum->ns += now - entered;
	sum->off_ns += off_in_call(task, runtime_ns, now - entered, off_ns);
	return 0;
}
