// SPDX-License-Identifier: GPL-2.0
/*
 * The profile: what the tasks of the recorded tree were doing at each tick of
 * a sampling event, of which there is one on every CPU.
 *
 * Needs: perf events with BPF programs (4.9), BTF of the kernel, task storage
 * and bpf_task_pt_regs() in tracing programs (5.15).
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "wire.h"
#include "loads.bpf.h"
#include "membership.bpf.h"
#include "stack.bpf.h"
#include "faultrings.bpf.h"
#include "returned.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* Named here only so that the generated Rust types hold them. */
struct sample_types {
	struct sample_head head;
	struct task_state state;
	enum sample_flag flag;
};
const volatile struct sample_types *sample_types = NULL;

SEC("perf_event")
int on_sample(struct sampled *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *state = state_of(task);
	struct fault_ring *faults = fault_ring_here();
	__u64 position, kernel, user, copy = 0, now = bpf_ktime_get_ns();
	struct sample_head *head;
	struct sample_ring *ring;
	struct pt_regs *regs;
	__u32 flags = 0;
	__u8 *frames;

	expect_next(faults, now, ctx->sample_period);
	if (!state || still_waiting(state, task))
		return 0;
	ring = sample_ring_here();
	if (!ring)
		return 0;
	ring->seen++;
	position = ring->produced;
	if (position - ring->consumed + SAMPLE_BYTES_MAX > (__u64)sample_ring_mask + 1) {
		ring->lost++;
		return 0;
	}
	head = (void *)&ring->data[position & sample_ring_mask];
	frames = (void *)(head + 1);
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	flags |= returned_from(ctx, faults, task);
	kernel = chain(ctx, frames, 0, SAMPLE_KERNEL_CUT, &flags);
	frames += kernel;
	user = has_chain(task, state, regs) ? chain(ctx, frames, BPF_F_USER_STACK, SAMPLE_USER_CUT, &flags) : 0;
	fill_head(head, task, state, regs, now, ctx->sample_period);
	if (has_copy(task, state, regs)) {
		__u64 bytes = stack_bytes(task, regs, stack_copy, &flags);

		copy = copy_stack(frames + user, regs->sp, bytes, &flags);
	}
	publish(ring, head, kernel, user, copy, flags);
	return 0;
}
