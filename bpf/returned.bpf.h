/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Samples that belong to the kernel's way out. A timer that expires while
 * interrupts are off is seen where they are switched on, and the kernel leaves
 * faults and calls with interrupts off: what those take shows at the
 * instruction of user space that is run next. That it has not run yet can be
 * told by the registers.
 */

/* Samples are taken by a timer; a counter's interrupts are not held back. */
const volatile bool by_timer = false;

/* Words of struct pt_regs, x86-64. */
enum register_word {
	WORD_R11 = 6,
	WORD_CX = 11,
	WORD_ORIG_AX = 15,
	WORD_IP = 16,
	WORD_CS = 17,
	WORD_FLAGS = 18,
	WORD_SP = 19,
};

/* Set in the flags of an instruction that faulted, so that a breakpoint on it does not stop it twice. */
#define FLAG_RESUME (1UL << 16)

/*
 * To be called for every sample of the CPU: from when on faults leave their registers. Not always, because that takes 20 ns;
 * a timer's interrupt is late by less than an eighth of its period.
 */
static __always_inline void expect_next(struct fault_ring *ring, __u64 now, __u64 period)
{
	if (by_timer && ring)
		ring->last.due_ns = now + period - period / 8;
}

/* Nothing has run in user space since the last fault: the registers are the same but for those that tell why the kernel was entered. */
static __always_inline bool just_faulted(struct sampled *ctx, struct fault_ring *ring, struct task_struct *task)
{
	if (ring->last.task != (__u64)task)
		return false;
#pragma unroll
	for (int word = 0; word <= WORD_SP; word++)
		if (word != WORD_ORIG_AX && word != WORD_CS && word != WORD_FLAGS && ctx->regs[word] != ring->last.regs[word])
			return false;
	/* A fault has one way out. */
	ring->last.task = 0;
	return true;
}

/* Nothing has run in user space since the last call: SYSRET takes the place to go on at from cx, the flags from r11. */
static __always_inline bool just_called(struct sampled *ctx)
{
	return ctx->regs[WORD_CX] == ctx->regs[WORD_IP] &&
	       ctx->regs[WORD_R11] == (ctx->regs[WORD_FLAGS] & ~FLAG_RESUME);
}

/* The sample_flag that tells what the kernel has just returned from; 0: from nothing, or it is in the kernel. */
static __always_inline __u32 returned_from(struct sampled *ctx, struct fault_ring *ring, struct task_struct *task)
{
	if (!by_timer || (ctx->regs[WORD_CS] & 3) != 3)
		return 0;
	if (just_called(ctx))
		return SAMPLE_AFTER_CALL;
	return ring && just_faulted(ctx, ring, task) ? SAMPLE_AFTER_FAULT : 0;
}
