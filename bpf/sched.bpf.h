/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Time off the CPU. A task that leaves the CPU notes when; when it takes one
 * again, the time is added up, and how much of it was sleep: from leaving until
 * somebody woke it. The rest it waited for a CPU. With the stream `sched` each
 * such time is a record of its own, in the ring of system calls.
 */

/* The call_state of a member; with the stream `sched` also of one that has made no call yet. */
static __always_inline struct call_state *off_state_of(struct task_struct *task)
{
	struct call_state *call = call_state_of(task, false);
	struct task_state *state;

	if (call || !sched_on)
		return call;
	state = state_of(task);
	if (!state || state->waiting)
		return NULL;
	call = call_state_of(task, true);
	if (call)
		call->task_id = state->task_id;
	return call;
}

static __always_inline void left_cpu(struct task_struct *task, __u32 task_state, __u64 now)
{
	struct call_state *call = off_state_of(task);

	if (!call)
		return;
	call->left_ts = now;
	call->woken_ts = 0;
	call->left_state = task_state;
	if (task_state && BPF_CORE_READ_BITFIELD(task, in_iowait))
		call->left_state |= CALL_OFF_IOWAIT;
	call->waker_task_id = 0;
}

/* Written while switching, with interrupts off: no program on this CPU is in the middle of a record. */
static __always_inline void send_off_cpu(struct call_state *call, __u64 left, __u64 now, __u32 flags)
{
	struct call_ring *ring = call_ring_here();
	__u64 at, waited = call->woken_ts > left ? now - call->woken_ts : 0;

	if (!ring)
		return;
	ring->off_seen++;
	if (counting_only)
		return;
	at = ring->produced;
	if (ring->busy || at + CALL_WORDS_MAX - ring->consumed > (__u64)call_word_mask + 1) {
		ring->off_lost++;
		return;
	}
	STORE_IN_ORDER(ring->busy, 1);
	PUT_WORD(ring, at, left);
	PUT_WORD(ring, at + 1, call->task_id | (__u64)CALL_NR_OFF_CPU << 32 | 2ULL << 44 | (__u64)flags << 48);
	PUT_WORD(ring, at + 2, call->left_state);
	PUT_WORD(ring, at + 3, now - left);
	PUT_WORD(ring, at + 4, call->waker_task_id);
	/* A task that was preempted waited for a CPU all the time. */
	PUT_WORD(ring, at + 5, call->left_state ? waited : now - left);
	STORE_IN_ORDER(ring->produced, at + 6);
	STORE_IN_ORDER(ring->busy, 0);
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
	if (sched_on)
		send_off_cpu(call, left, now, 0);
}

static __always_inline void woken(struct task_struct *task)
{
	struct call_state *call = call_state_of(task, false);
	struct task_state *waker;

	if (!call || !call->left_ts || call->woken_ts)
		return;
	call->woken_ts = bpf_ktime_get_ns();
	waker = state_of(bpf_get_current_task_btf());
	call->waker_task_id = waker ? waker->task_id : 0;
}
