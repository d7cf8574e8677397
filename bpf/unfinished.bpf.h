/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What goes on when recording ends: calls that have not returned, and tasks
 * that are off the CPU. The recorder walks over all tasks after it has detached
 * everything else, so nothing else writes into the rings meanwhile.
 */

static __always_inline void send_unfinished(struct task_struct *task)
{
	struct call_state *call = call_state_of(task, false);
	struct pt_regs *regs;
	__u64 left;

	if (!call)
		return;
	left = call->left_ts;
	call->left_ts = 0;
	/* A task that has ended remains visible until its parent has waited for it. */
	if (left && sched_on && !(call->left_state & TASK_DEAD))
		send_off_cpu(call, left, bpf_ktime_get_ns(), CALL_NEVER_RETURNED);
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	/* A task that has returned since then and called again has other arguments. */
	if (call->nr && call->nr - 1 == call_number(task, (__u32)regs->orig_ax))
		send_call(call, 0, CALL_NEVER_RETURNED);
}
