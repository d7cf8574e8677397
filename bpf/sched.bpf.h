/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Time off the CPU. A task that leaves the CPU notes when; the one that takes
 * it adds up how long it was away, and how much of that it was asleep: from
 * leaving until somebody woke it. The rest it waited for a CPU.
 */

static __always_inline void left_cpu(struct task_struct *task, __u32 task_state, __u64 now)
{
	struct call_state *call = call_state_of(task, false);

	if (!call)
		return;
	call->left_ts = now;
	call->woken_ts = 0;
	call->left_state = task_state;
}

static __always_inline void took_cpu(struct task_struct *task, __u64 now)
{
	struct call_state *call = call_state_of(task, false);
	__u64 left;

	if (!call || !call->left_ts)
		return;
	left = call->left_ts;
	call->left_ts = 0;
	call->off_ns += now - left;
	if (call->left_state && call->woken_ts > left)
		call->asleep_ns += call->woken_ts - left;
}

static __always_inline void woken(struct task_struct *task)
{
	struct call_state *call = call_state_of(task, false);

	if (call && call->left_ts && !call->woken_ts)
		call->woken_ts = bpf_ktime_get_ns();
}
