/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The page fault path. A fault on fresh memory takes about a microsecond;
 * everything here is there to add little to it: membership is cached per CPU,
 * the record is written straight into memory that the recorder has mapped,
 * and nobody is woken.
 */

/* Slots per ring - 1. Read-only data is a constant to the verifier, so it also bounds the index. */
const volatile __u32 ring_slot_mask = 0;
/* Count and record nothing: the control when the cost of recording is measured. */
const volatile bool counting_only = false;

/*
 * Stores that the recorder must see in this order. The compiler keeps them so;
 * of the machines that have these tracepoints x86 does too.
 */
#define STORE_IN_ORDER(to, value)                    \
	do {                                         \
		asm volatile("" ::: "memory");       \
		*(volatile __u64 *)&(to) = (value);  \
		asm volatile("" ::: "memory");       \
	} while (0)

static __noinline int refresh_cache(struct fault_ring *ring)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *state;

	if (!ring)
		return 0;
	ring->cached_generation = generation;
	state = state_of(task);
	if (state && still_waiting(state, task))
		state = NULL;
	ring->cached_task_id = state ? state->task_id : 0;
	ring->cached_mm_id = state ? mm_id_of(state, task) : 0;
	ring->cached_mm = (__u64)mm_of(task);
	ring->cached_task = (__u64)task;
	return 0;
}

/* The fault's registers, for the sample that is about to fall due (returned.bpf.h). */
static __always_inline void keep_last(struct fault_ring *ring, struct task_struct *task, struct pt_regs *regs)
{
	ring->last.task = 0;
	if (!bpf_probe_read_kernel(ring->last.regs, sizeof(ring->last.regs), regs))
		ring->last.task = (__u64)task;
}

static __always_inline int on_fault(unsigned long addr, struct pt_regs *regs, unsigned long error_code)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct fault_ring *ring = fault_ring_here();
	struct fault_slot *slot;
	__u64 position, now;

	if (!ring || !faults_on)
		return 0;
	if (ring->cached_task != (__u64)task || ring->cached_mm != (__u64)mm_of(task) ||
	    ring->cached_generation != generation)
		refresh_cache(ring);
	if (!ring->cached_task_id || addr >> FAULT_ADDR_BITS)
		return 0;
	if (task->pagefault_disabled) {
		ring->filtered++;
		return 0;
	}
	if (counting_only) {
		ring->counted++;
		return 0;
	}
	now = bpf_ktime_get_ns();
	if (ring->last.due_ns && now >= ring->last.due_ns && error_code & FAULT_ERROR_USER)
		keep_last(ring, task, regs);
	position = ring->produced;
	if (ring->busy || position - ring->consumed > ring_slot_mask) {
		ring->lost++;
		return 0;
	}
	STORE_IN_ORDER(ring->busy, 1);
	slot = &ring->slots[position & ring_slot_mask];
	slot->ts = now;
	slot->addr_error = addr | (__u64)(error_code & 0x7f) << FAULT_ADDR_BITS;
	if (error_code & FAULT_ERROR_SGX)
		slot->addr_error |= (__u64)FAULT_ERROR_SGX_WIRE << FAULT_ADDR_BITS;
	slot->ip = regs->ip;
	slot->task_id = ring->cached_task_id;
	slot->mm_id = ring->cached_mm_id;
	STORE_IN_ORDER(ring->produced, position + 1);
	STORE_IN_ORDER(ring->busy, 0);
	return 0;
}
