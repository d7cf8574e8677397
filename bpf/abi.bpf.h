/* SPDX-License-Identifier: GPL-2.0 */
/*
 * System calls as the two kinds of programs make them. A 32-bit program, and a
 * 64-bit one by `int $0x80`, calls by the numbers of i386 and passes 32 bits
 * of other registers; the kernel says so of the task while the call lasts.
 * Numbers here are one sequence: those of i386 follow those of x86-64.
 */

#define TS_COMPAT 0x0002
#define CALL_ARGS 6
/* A result that is an error, or an address that stands for one. */
#define IS_ERRNO(ret) ((unsigned long)(ret) >= (unsigned long)-4095)

static __always_inline bool is_compat(struct task_struct *task)
{
	return task->thread_info.status & TS_COMPAT;
}

/* The number that the running call of a task has here: CALL_NR_OTHER if it is beyond both sequences. */
static __always_inline __u64 call_number(struct task_struct *task, __u64 nr)
{
	if (nr >= CALL_NUMBERS)
		return CALL_NR_OTHER;
	return is_compat(task) ? nr + CALL_NUMBERS : nr;
}

/* 0 also on kernels without seccomp. */
static __always_inline int seccomp_mode(struct task_struct *task)
{
	return bpf_core_field_exists(task->seccomp.mode) ? PLAIN(task)->seccomp.mode : 0;
}

/* A filter or a tracer may have the kernel leave a call out: then it returns, and was never entered. */
static __always_inline bool may_be_refused(struct task_struct *task)
{
	return seccomp_mode(task) || PLAIN(task)->ptrace;
}

/* The verifier refuses one load from either of two places, into which the compiler likes to merge two. */
#define KEEP_APART(value)                          \
	({                                         \
		__u64 loaded = (value);            \
		asm volatile("" : "+r"(loaded));   \
		loaded;                            \
	})

/*
 * The value from memory, though the compiler knows it. The verifier forgets what it knew of it, so that paths which differ
 * in nothing else are one from here on; without this each of dozens is followed to the end, which older kernels give up.
 */
#define READ_AGAIN(place) (*(volatile typeof(place) *)&(place))

static __always_inline __u64 argument64(struct pt_regs *regs, __u32 index)
{
	switch (index) {
	case 0:
		return regs->di;
	case 1:
		return regs->si;
	case 2:
		return regs->dx;
	case 3:
		return regs->r10;
	case 4:
		return regs->r8;
	case 5:
		return regs->r9;
	}
	return 0;
}

static __always_inline __u64 argument32(struct pt_regs *regs, __u32 index)
{
	switch (index) {
	case 0:
		return (__u32)regs->bx;
	case 1:
		return (__u32)regs->cx;
	case 2:
		return (__u32)regs->dx;
	case 3:
		return (__u32)regs->si;
	case 4:
		return (__u32)regs->di;
	case 5:
		return (__u32)regs->bp;
	}
	return 0;
}

/* An argument of the call with that number. */
static __always_inline __u64 argument(struct pt_regs *regs, __u64 nr, __u32 index)
{
	if (nr >= CALL_NUMBERS)
		return KEEP_APART(argument32(regs, index));
	return KEEP_APART(argument64(regs, index));
}

static __always_inline void read_arguments(__u64 *args, struct pt_regs *regs, __u64 nr)
{
	if (nr >= CALL_NUMBERS) {
		args[0] = KEEP_APART((__u32)regs->bx);
		args[1] = KEEP_APART((__u32)regs->cx);
		args[2] = KEEP_APART((__u32)regs->dx);
		args[3] = KEEP_APART((__u32)regs->si);
		args[4] = KEEP_APART((__u32)regs->di);
		args[5] = KEEP_APART((__u32)regs->bp);
	} else {
		args[0] = KEEP_APART(regs->di);
		args[1] = KEEP_APART(regs->si);
		args[2] = KEEP_APART(regs->dx);
		args[3] = KEEP_APART(regs->r10);
		args[4] = KEEP_APART(regs->r8);
		args[5] = KEEP_APART(regs->r9);
	}
}
