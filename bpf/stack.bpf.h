/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Stacks on their way to the recorder: of profile samples, of tasks that leave
 * the CPU, and of mapping calls. Each object file that takes stacks has rings of its own.
 *
 * A record carries the kernel's stack, the chain of the user's frame pointers,
 * and, for code that keeps none, the registers and a copy of the user's stack,
 * from which the recorder unwinds by .eh_frame. The copy ends where the stack
 * ends as far as that is known for nothing: a thread's descriptor lies on top
 * of its stack, and the kernel remembers where it put the first thread's.
 *
 * Records go through one memory-mapped ring per CPU. They follow each other
 * without gaps, and one that begins before the end of the ring goes on behind
 * it, in room kept for that: so a record is always in one piece, and is written
 * where the recorder reads it.
 */

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
	/* There was room in the ring for the kernel's stack alone. */
	SAMPLE_NO_ROOM = 16,
	/* User space, but nothing has run there yet since a fault, or since a call. */
	SAMPLE_AFTER_FAULT = 32,
	SAMPLE_AFTER_CALL = 64,
	/* The copy is of code of 32 bits. */
	SAMPLE_USER32 = 128,
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
	__u32 place;        /* the user's stack is the one that the recorder gave this number; 0: none */
	__u32 padding;
};

#define SAMPLE_BYTES_MAX (sizeof(struct sample_head) + 2 * FRAMES_BYTES + STACK_COPY_MAX)

/* As in the ring of faults, producer and consumer have lines of the cache of their own. */
struct sample_ring {
	__u64 produced;     /* bytes; what lies below is whole */
	__u64 recorded;
	__u64 lost;         /* the ring was full */
	__u64 seen;         /* stacks that were to be recorded */
	__u64 producer_padding[4];
	__u64 consumed;     /* bytes; written by the recorder */
	__u64 consumer_padding[7];
	__u8 data[8];
};

/* Bytes of a ring - 1. Read-only data is a constant to the verifier, so it also bounds the index. */
const volatile __u32 sample_ring_mask = 0;
/* Bytes of stack to copy at most; 0: frame pointers only. */
const volatile __u32 stack_copy = STACK_COPY_MAX;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* CPUs; set before loading */
	__type(key, __u32);
	__type(value, struct sample_ring);
} sample_rings SEC(".maps");

static __always_inline struct sample_ring *sample_ring_here(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&sample_rings, &cpu);
}

/* Where the stack that the stack pointer points into ends, but at most `most` bytes on. */
static __always_inline __u64 stack_bytes(struct task_struct *task, struct pt_regs *regs, __u64 most, __u32 *flags)
{
	__u64 thread_top = task->thread.fsbase, first_top = mm_of(task)->start_stack;
	__u64 bytes = most, sp = regs->sp;

	if (regs->cs == USER32_CS)
		*flags |= SAMPLE_USER32;

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
		/* Never so, as the compiler sees and would leave it out. The verifier of 6.1 forgets by which of the two it was bounded. */
		asm volatile("" : "+r"(chunk));
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

/* In the middle of an exec the memory is the new program's and the registers are still the old one's. */
static __always_inline bool in_exec(struct task_struct *task, struct task_state *state)
{
	return state->mm && state->mm != (__u64)mm_of(task);
}

static __always_inline void fill_head(struct sample_head *head, struct task_struct *task, struct task_state *state,
				      struct pt_regs *regs, __u64 ts, __u64 period)
{
	head->ts = ts;
	head->period = period;
	head->task_id = state->task_id;
	head->mm_id = in_exec(task, state) ? 0 : state->mm_id;
	head->pid = task->tgid;
	head->ip = regs->ip;
	head->sp = regs->sp;
	head->bp = regs->bp;
	head->place = 0;
}

/* The task has a stack of user space whose frame pointers can be followed. */
static __always_inline bool has_chain(struct task_struct *task, struct task_state *state, struct pt_regs *regs)
{
	return !in_exec(task, state) && mm_of(task) && has_user_space(regs);
}

/* The task has one that can be unwound from a copy. */
static __always_inline bool has_copy(struct task_struct *task, struct task_state *state, struct pt_regs *regs)
{
	return stack_copy && has_chain(task, state, regs);
}

/* The record is whole: the recorder may have it. */
static __always_inline void publish(struct sample_ring *ring, struct sample_head *head, __u64 kernel, __u64 user,
				    __u64 copy, __u32 flags)
{
	head->flags = flags;
	head->kernel_bytes = kernel;
	head->user_bytes = user;
	head->copy_bytes = copy;
	head->len = (sizeof(*head) + kernel + user + copy + 7) & ~7U;
	ring->recorded++;
	asm volatile("" ::: "memory");
	*(volatile __u64 *)&ring->produced += head->len;
}
