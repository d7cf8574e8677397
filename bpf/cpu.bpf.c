// SPDX-License-Identifier: GPL-2.0
/*
 * The profile: what the tasks of the recorded tree were doing at each tick of
 * a sampling event, of which there is one on every CPU.
 *
 * Needs: perf events with BPF programs (4.9), BTF of the kernel, task storage
 * and bpf_task_pt_regs() in tracing programs (5.15).
 *
 * A sample carries the kernel's stack, the chain of the user's frame pointers,
 * and, for code that keeps none, the registers and a copy of the user's stack,
 * from which the recorder unwinds by .eh_frame. The copy ends where the stack
 * ends as far as that is known for nothing: a thread's descriptor lies on top
 * of its stack, and the kernel remembers where it put the first thread's.
 *
 * Samples go through one memory-mapped ring per CPU. Records follow each other
 * without gaps, and one that begins before the end of the ring goes on behind
 * it, in room kept for that: so a record is always in one piece, and is written
 * where the recorder reads it.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "membership.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* As many as the kernel gives unless perf_event_max_stack was raised. */
#define FRAMES_MAX 127
#define FRAMES_BYTES (FRAMES_MAX * 8)
#define STACK_COPY_MAX (32 << 10)
#define PAGE_BYTES 4096
#define USER32_CS 0x23

enum sample_flag {
	/* The chain was longer than FRAMES_MAX. */
	SAMPLE_KERNEL_CUT = 1,
	SAMPLE_USER_CUT = 2,
	/* The stack goes on behind its copy. */
	SAMPLE_COPY_CUT = 4,
	/* A part of the stack could not be read. */
	SAMPLE_COPY_FAILED = 8,
};

/* Kernel frames, user frames (8 bytes each, innermost first) and the copy of the stack follow. */
struct sample_head {
	__u64 ts;
	__u64 period;
	__u32 len;          /* of the whole record in bytes, a multiple of 8 */
	__u32 task_id;
	__u32 mm_id;        /* 0: an address space that the observer has not named yet */
	__u32 flags;
	__u32 kernel_bytes;
	__u32 user_bytes;
	__u32 copy_bytes;
	__u32 pid;          /* process; the observer may have lost the task's beginning */
	__u64 ip, sp, bp;   /* the user's */
};

#define SAMPLE_BYTES_MAX (sizeof(struct sample_head) + 2 * FRAMES_BYTES + STACK_COPY_MAX)

/* As in the ring of faults, producer and consumer have lines of the cache of their own. */
struct sample_ring {
	__u64 produced;     /* bytes; what lies below is whole */
	__u64 recorded;
	__u64 lost;         /* the ring was full */
	__u64 seen;         /* ticks on recorded tasks */
	__u64 producer_padding[4];
	__u64 consumed;     /* bytes; written by the recorder */
	__u64 consumer_padding[7];
	__u8 data[8];
};

/* Bytes of a ring - 1. Read-only data is a constant to the verifier, so it also bounds the index. */
const volatile __u32 ring_mask = 0;
/* Bytes of stack to copy at most; 0: frame pointers only. */
const volatile __u32 stack_copy = STACK_COPY_MAX;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* CPUs; set before loading */
	__type(key, __u32);
	__type(value, struct sample_ring);
} sample_rings SEC(".maps");

/* Named here only so that the generated Rust types hold them. */
struct sample_types {
	struct sample_head head;
	struct task_state state;
	enum sample_flag flag;
};
const volatile struct sample_types *sample_types = NULL;

/* What a perf_event program is given; these offsets are the user interface and not relocated. */
struct sampled {
	unsigned long regs[21];
	__u64 sample_period;
	__u64 addr;
};

/* Where the stack that `sp` points into ends, but at most `most` bytes on. */
static __always_inline __u64 stack_bytes(struct task_struct *task, __u64 sp, __u64 most, __u32 *flags)
{
	__u64 thread_top = task->thread.fsbase, first_top = task->mm->start_stack;
	__u64 bytes = most;

	if (thread_top - sp < bytes)
		bytes = thread_top - sp;
	if (first_top - sp < bytes)
		bytes = first_top - sp;
	if (bytes == most)
		*flags |= SAMPLE_COPY_CUT;
	return bytes;
}

/* Copies page by page, so that one that is not there takes only what lies behind it. */
static __always_inline __u32 copy_stack(__u8 *to, __u64 sp, __u64 bytes, __u32 *flags)
{
	__u64 copied = 0;

	for (int page = 0; page <= STACK_COPY_MAX / PAGE_BYTES; page++) {
		__u64 chunk = PAGE_BYTES - ((sp + copied) & (PAGE_BYTES - 1));

		if (copied >= bytes || copied >= STACK_COPY_MAX)
			break;
		if (chunk > bytes - copied)
			chunk = bytes - copied;
		if (chunk > PAGE_BYTES)
			break;
		if (bpf_probe_read_user(to + copied, chunk, (void *)(sp + copied))) {
			*flags |= SAMPLE_COPY_FAILED;
			break;
		}
		copied += chunk;
	}
	return copied;
}

static __always_inline __u64 chain(void *ctx, void *to, __u64 which, __u32 cut, __u32 *flags)
{
	long bytes = bpf_get_stack(ctx, to, FRAMES_BYTES, which);

	if (bytes < 0)
		return 0;
	if (bytes >= FRAMES_BYTES) {
		bytes = FRAMES_BYTES;
		*flags |= cut;
	}
	return bytes;
}

SEC("perf_event")
int on_sample(struct sampled *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *state = state_of(task);
	__u32 cpu = bpf_get_smp_processor_id(), flags = 0;
	__u64 position, kernel, user, copy = 0;
	struct sample_head *head;
	struct sample_ring *ring;
	struct pt_regs *regs;
	__u8 *frames;
	bool in_exec;

	if (!state || still_waiting(state, task))
		return 0;
	ring = bpf_map_lookup_elem(&sample_rings, &cpu);
	if (!ring)
		return 0;
	ring->seen++;
	position = ring->produced;
	if (position - ring->consumed + SAMPLE_BYTES_MAX > (__u64)ring_mask + 1) {
		ring->lost++;
		return 0;
	}
	head = (void *)&ring->data[position & ring_mask];
	frames = (void *)(head + 1);
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	kernel = chain(ctx, frames, 0, SAMPLE_KERNEL_CUT, &flags);
	frames += kernel;
	/* In the middle of an exec the memory is the new program's and the registers are still the old one's. */
	in_exec = state->mm && state->mm != (__u64)task->mm;
	user = in_exec ? 0 : chain(ctx, frames, BPF_F_USER_STACK, SAMPLE_USER_CUT, &flags);
	head->ts = bpf_ktime_get_ns();
	head->period = ctx->sample_period;
	head->task_id = state->task_id;
	head->mm_id = in_exec ? 0 : state->mm_id;
	head->pid = task->tgid;
	head->ip = regs->ip;
	head->sp = regs->sp;
	head->bp = regs->bp;
	if (stack_copy && !in_exec && task->mm && regs->cs != USER32_CS) {
		__u64 bytes = stack_bytes(task, regs->sp, stack_copy, &flags);

		copy = copy_stack(frames + user, regs->sp, bytes, &flags);
	}
	head->flags = flags;
	head->kernel_bytes = kernel;
	head->user_bytes = user;
	head->copy_bytes = copy;
	head->len = (sizeof(*head) + kernel + user + copy + 7) & ~7U;
	ring->recorded++;
	asm volatile("" ::: "memory");
	*(volatile __u64 *)&ring->produced = position + head->len;
	return 0;
}
