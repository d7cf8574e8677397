/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Mapping actions: what a task asked for (system calls), and what the kernel
 * mapped by itself (exec, fork).
 *
 * A call's record is sent when it returns, with the time it began. Memory that a munmap takes away
 * is gone some time after it began; memory that an mmap makes is there some time before it
 * returned. So the order of those two instants is the order of events also when two threads reuse
 * an address.
 *
 * When a call began is seen where every call enters, or, which spares all other
 * calls half the price, where the call first asks for the lock of the address
 * space: before that it has looked at its arguments and no more. A call that
 * takes no such lock (MADV_DONTNEED on newer kernels, one that fails at once)
 * has then the time of its return, and lasted no time.
 */

/* Calls that map this many bytes or more are sent with the stack that they were made from; 0: none is. Smaller ones cannot hold
 * a huge page, which is what the stacks are for, and allocators make them a hundred thousand times a second. */
const volatile __u64 map_stack_bytes = 0;
/* Beginnings are seen at the lock: a call of which none was seen took no lock. */
const volatile __u32 begins_at_lock = 0;

/* System call numbers of x86-64. */
#define NR_MMAP 9
#define NR_MPROTECT 10
#define NR_MUNMAP 11
#define NR_BRK 12
#define NR_MREMAP 25
#define NR_MADVISE 28
#define NR_SHMAT 30
#define NR_EXECVE 59
#define NR_SHMDT 67
#define NR_MLOCK 149
#define NR_PRCTL 157
#define NR_EXECVEAT 322
#define NR_MLOCK2 325
#define NR_PROCESS_MADVISE 440
#define PR_SET_THP_DISABLE 41

/* Those of i386, as they are numbered here. */
#define NR32(number) (CALL_NUMBERS + (number))
#define NR32_EXECVE NR32(11)
#define NR32_BRK NR32(45)
#define NR32_OLD_MMAP NR32(90) /* its arguments lie in memory */
#define NR32_MUNMAP NR32(91)
#define NR32_IPC NR32(117)     /* many calls in one, shmat and shmdt among them */
#define NR32_MPROTECT NR32(125)
#define NR32_MLOCK NR32(150)
#define NR32_MREMAP NR32(163)
#define NR32_PRCTL NR32(172)
#define NR32_MMAP2 NR32(192)   /* its offset counts pages */
#define NR32_MADVISE NR32(219)
#define NR32_EXECVEAT NR32(358)
#define NR32_MLOCK2 NR32(376)
#define NR32_SHMAT NR32(397)
#define NR32_SHMDT NR32(398)
#define NR32_PROCESS_MADVISE NR32(440)
#define IPC_CALL_BITS 0xffff   /* above is a version */
#define IPC_SHMAT 21
#define IPC_SHMDT 22

#define VM_MAYSHARE 0x80UL
#define VM_GROWSDOWN 0x100UL
#define VM_HUGETLB 0x400000UL
#define MAP_SHARED 0x01
#define MAP_PRIVATE 0x02
#define MAP_ANONYMOUS 0x20
#define MAP_HUGETLB 0x40000
#define VM_PROT_BITS 7UL
#define PAGE_SHIFT 12

/* A task found while it was in a call: the mapping that exists when it returns is not among those listed before. */
#define CALL_NOT_SEEN_TO_BEGIN (~0ULL)

/* Address spaces whose mappings could not be listed (the mmap lock was taken, or the kernel is older than 6.1). */
__u64 vma_walks_failed = 0;

/* The action that a call is, by its number here and its first argument; 0: none. */
static __always_inline __u32 map_op_of(__u64 nr, unsigned long first_arg)
{
	switch (nr) {
	case NR_MMAP:
	case NR32_MMAP2:
	case NR32_OLD_MMAP:
		return MAP_OP_MMAP;
	case NR_MUNMAP:
	case NR32_MUNMAP:
		return MAP_OP_MUNMAP;
	case NR_MREMAP:
	case NR32_MREMAP:
		return MAP_OP_MREMAP;
	case NR_BRK:
	case NR32_BRK:
		return MAP_OP_BRK;
	case NR_MADVISE:
	case NR32_MADVISE:
		return MAP_OP_MADVISE;
	case NR_PROCESS_MADVISE:
	case NR32_PROCESS_MADVISE:
		return MAP_OP_PROCESS_MADVISE;
	case NR_MPROTECT:
	case NR32_MPROTECT:
		return MAP_OP_MPROTECT;
	case NR_MLOCK:
	case NR_MLOCK2:
	case NR32_MLOCK:
	case NR32_MLOCK2:
		return MAP_OP_MLOCK;
	case NR_SHMAT:
	case NR32_SHMAT:
		return MAP_OP_SHMAT;
	case NR_SHMDT:
	case NR32_SHMDT:
		return MAP_OP_SHMDT;
	case NR_PRCTL:
	case NR32_PRCTL:
		return first_arg == PR_SET_THP_DISABLE ? MAP_OP_PRCTL_THP : 0;
	case NR32_IPC:
		switch (first_arg & IPC_CALL_BITS) {
		case IPC_SHMAT:
			return MAP_OP_SHMAT;
		case IPC_SHMDT:
			return MAP_OP_SHMDT;
		}
	}
	return 0;
}

static __always_inline bool is_exec(__u64 nr)
{
	return nr == NR_EXECVE || nr == NR_EXECVEAT || nr == NR32_EXECVE || nr == NR32_EXECVEAT;
}

/*
 * Whether the kernel's number may be that of a call looked for here, of either kind of program. It is asked first: nothing
 * else of the other calls is looked at.
 */
static __always_inline bool may_map(__u64 nr)
{
	return map_op_of(nr, PR_SET_THP_DISABLE) || (nr < CALL_NUMBERS && map_op_of(nr + CALL_NUMBERS, PR_SET_THP_DISABLE)) ||
	       nr == NR32_IPC - CALL_NUMBERS;
}

static __always_inline void exec_began(struct task_struct *task, struct task_state *state)
{
	state->exec_ts = bpf_ktime_get_ns();
	if (!state->mm)
		state->mm = (__u64)mm_of(task);
}

static __always_inline void map_call_began(struct task_struct *task, struct task_state *state, long nr)
{
	if (state->waiting)
		return;
	state->call_ts = bpf_ktime_get_ns();
	state->call_nr = nr + 1;
	if ((nr == NR_BRK || nr == NR32_BRK) && mm_of(task))
		state->brk_before = BPF_CORE_READ(mm_of(task), brk);
}

/* Faults ask for the lock, too; no bits of their error code make the number of a mapping call. */
static __always_inline void map_lock_wanted(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *state = state_of(task);
	struct pt_regs *regs;
	__u64 nr;

	if (!state)
		return;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	nr = call_number(task, regs->orig_ax);
	if (map_op_of(nr, argument(regs, nr, 0)) && state->call_nr != nr + 1)
		map_call_began(task, state, nr);
}

static __always_inline void map_call_entered(struct pt_regs *regs, __u64 kernel_nr)
{
	struct task_struct *task;
	struct task_state *state;
	__u64 nr;

	if (!may_map(kernel_nr) && !is_exec(kernel_nr) && !is_exec(kernel_nr + CALL_NUMBERS))
		return;
	task = bpf_get_current_task_btf();
	state = state_of(task);
	if (!state)
		return;
	nr = call_number(task, kernel_nr);
	if (is_exec(nr))
		exec_began(task, state);
	else if (map_op_of(nr, argument(regs, nr, 0)))
		map_call_began(task, state, nr);
}

/* The name may be sent after the record that carries its number; both lie in the same batch of the recorder. */
static __always_inline void name_file(struct map_event *event, struct file *file)
{
	struct named_file named;
	struct inode *inode;

	if (!file)
		return;
	find_named(&named, file);
	inode = named.inode;
	event->ino = BPF_CORE_READ(inode, i_ino);
	event->dev = BPF_CORE_READ(inode, i_sb, s_dev);
	event->path_id = path_id_of((__u64)file);
}

/* The arguments of a mapping call as x86-64 has them, whatever the call looks like. */
static __always_inline void read_map_arguments(__u64 *args, struct pt_regs *regs, __u64 nr)
{
	__u32 in_memory[CALL_ARGS] = {};
	__u64 word;

	read_arguments(args, regs, nr);
	switch (nr) {
	case NR32_MMAP2:
		args[5] <<= PAGE_SHIFT;
		break;
	case NR32_OLD_MMAP:
		bpf_probe_read_user(in_memory, sizeof(in_memory), (void *)args[0]);
		for (int i = 0; i < CALL_ARGS; i++)
			args[i] = in_memory[i];
		break;
	case NR32_IPC:
		/* ipc(call, first, second, third, address, fifth) */
		word = args[0] & IPC_CALL_BITS;
		args[0] = word == IPC_SHMAT ? args[1] : args[4];
		args[1] = args[4];
		break;
	}
}

/* What a mapping call returned: the old shmat puts the address where its caller says. */
static __always_inline long map_result(struct pt_regs *regs, __u64 nr, long ret)
{
	__u32 addr = 0;

	if (nr != NR32_IPC || ret || (regs->bx & IPC_CALL_BITS) != IPC_SHMAT)
		return ret;
	bpf_probe_read_user(&addr, sizeof(addr), (void *)argument32(regs, 3));
	return addr;
}

static __always_inline void fill_mmap(struct map_event *event, struct task_struct *task, const __u64 *args)
{
	event->addr = args[0];
	event->len = args[1];
	event->prot = args[2];
	event->flags = args[3];
	event->offset = args[5];
	event->fd = -1;
	if (event->flags & MAP_ANONYMOUS)
		return;
	event->fd = args[4];
	if (event->ret < 0 && event->ret > -4096)
		return;
	name_file(event, file_of(task, event->fd));
}

static __always_inline void fill_call(struct map_event *event, struct task_struct *task, const __u64 *args, __u64 nr,
				      __u64 brk_before)
{
	event->fd = -1;
	switch (READ_AGAIN(event->op)) {
	case MAP_OP_MMAP:
		fill_mmap(event, task, args);
		break;
	case MAP_OP_MREMAP:
		event->old_addr = args[0];
		event->offset = args[1]; /* the old length; the recorder puts it where it belongs */
		event->len = args[2];
		event->flags = args[3];
		event->addr = args[4];
		break;
	case MAP_OP_BRK:
		event->addr = args[0];
		event->old_addr = brk_before;
		break;
	case MAP_OP_MADVISE:
		event->addr = args[0];
		event->len = args[1];
		event->advice = args[2];
		break;
	case MAP_OP_PROCESS_MADVISE:
		event->fd = args[0];
		event->addr = args[1]; /* the vector's address and its number of ranges */
		event->len = args[2];
		event->advice = args[3];
		break;
	case MAP_OP_MPROTECT:
		event->addr = args[0];
		event->len = args[1];
		event->prot = args[2];
		break;
	case MAP_OP_MLOCK:
		event->addr = args[0];
		event->len = args[1];
		event->flags = nr == NR_MLOCK2 || nr == NR32_MLOCK2 ? args[2] : 0;
		break;
	case MAP_OP_MUNMAP:
		event->addr = args[0];
		event->len = args[1];
		break;
	case MAP_OP_SHMAT:
		event->fd = args[0]; /* the segment's id */
		event->addr = args[1];
		event->flags = args[2];
		break;
	case MAP_OP_SHMDT:
		event->addr = args[0];
		break;
	case MAP_OP_PRCTL_THP:
		event->advice = args[1];
		break;
	}
}

#define MADV_HUGEPAGE 14
#define MADV_NOHUGEPAGE 15
#define MADV_COLLAPSE 25

static __always_inline bool wants_stack(const struct map_event *event)
{
	bool failed = event->ret < 0 && event->ret > -4096;

	if (!map_stack_bytes)
		return false;
	switch (event->op) {
	case MAP_OP_MMAP:
	case MAP_OP_MREMAP:
	case MAP_OP_SHMAT:
		return !failed && event->len >= map_stack_bytes;
	case MAP_OP_BRK:
		return (__u64)event->ret >= event->old_addr + map_stack_bytes;
	case MAP_OP_MADVISE:
		return event->len >= map_stack_bytes && (event->advice == MADV_HUGEPAGE ||
							 event->advice == MADV_NOHUGEPAGE || event->advice == MADV_COLLAPSE);
	case MAP_OP_PRCTL_THP:
		return true;
	}
	return false;
}

/* Runs after every call of every task: the number comes first, and most calls end there. */
static __always_inline void map_call_returned(void *ctx, struct pt_regs *regs, long ret)
{
	__u64 nr, args[CALL_ARGS];
	struct task_struct *task;
	struct task_state *state;
	struct map_event *event;
	__u32 op;

	if (!may_map(regs->orig_ax))
		return;
	task = bpf_get_current_task_btf();
	state = state_of(task);
	if (!state)
		return;
	nr = call_number(task, regs->orig_ax);
	op = map_op_of(nr, argument(regs, nr, 0));
	if (!op)
		return;
	if (state->call_nr != nr + 1) {
		if (!begins_at_lock && state->call_nr != CALL_NOT_SEEN_TO_BEGIN)
			return;
		if (state->waiting)
			return;
		state->call_ts = bpf_ktime_get_ns();
		state->brk_before = 0;
	}
	/* From here on the number is read from memory: see READ_AGAIN. */
	state->call_nr = nr + 1;
	read_map_arguments(args, regs, READ_AGAIN(state->call_nr) - 1);
	event = RESERVE_EVENT(map_event);
	if (!event) {
		state->call_nr = 0;
		return;
	}
	__builtin_memset(event, 0, sizeof(*event));
	event->type = EVENT_MAP;
	event->op = op;
	event->ts = state->call_ts;
	event->dur_ns = bpf_ktime_get_ns() - state->call_ts;
	event->task_id = state->task_id;
	event->mm_id = mm_id_of(state, task);
	event->kind = MAP_KIND_CALL;
	event->ret = map_result(regs, READ_AGAIN(state->call_nr) - 1, ret);
	nr = READ_AGAIN(state->call_nr) - 1;
	fill_call(event, task, args, nr, state->brk_before);
	if (READ_AGAIN(event->op) == MAP_OP_SHMAT && (event->ret > 0 || event->ret < -4095))
		event->len = length_at(event->ret);
	if (wants_stack(event))
		event->has_stack = take_stack(ctx, task, event->ts, false);
	state->call_nr = 0;
	submit_event(event);
}

static __always_inline __u32 special_of(const struct area *area)
{
	struct mm_struct *mm = area->mm;
	__u64 stack = BPF_CORE_READ(mm, start_stack);

	if (area->start <= stack && stack < area->end)
		return MAP_STACK;
	if (!area->file && area->start < BPF_CORE_READ(mm, brk) && area->end > BPF_CORE_READ(mm, start_brk))
		return MAP_HEAP;
	if (area->start == (__u64)BPF_CORE_READ(mm, context.vdso))
		return MAP_VDSO;
	return MAP_PLAIN;
}

static __always_inline void send_area(const struct area *area, __u32 kind, __u32 task_id, __u32 mm_id, __u64 ts)
{
	struct map_event *event = RESERVE_EVENT(map_event);

	if (!event)
		return;
	__builtin_memset(event, 0, sizeof(*event));
	event->type = EVENT_MAP;
	event->op = MAP_OP_MMAP;
	event->ts = ts;
	event->task_id = task_id;
	event->mm_id = mm_id;
	event->kind = kind;
	event->special = special_of(area);
	event->addr = area->start;
	event->ret = area->start;
	event->len = area->end - area->start;
	event->prot = area->flags & VM_PROT_BITS;
	event->flags = area->flags & VM_MAYSHARE ? MAP_SHARED : MAP_PRIVATE;
	event->flags |= area->flags & VM_GROWSDOWN;
	if (area->flags & VM_HUGETLB)
		event->flags |= MAP_HUGETLB;
	event->fd = -1;
	if (area->file) {
		event->offset = area->pgoff << PAGE_SHIFT;
		name_file(event, area->file);
	} else {
		event->flags |= MAP_ANONYMOUS;
	}
	submit_event(event);
}

/* Areas and gaps that are gone through in a tree, at most: as many areas as max_map_count allows, and a gap before each. */
#define AREAS_MAX (2 * 65536)

/* On its way through the tree of a kernel without an iterator. */
struct area_walk {
	__u64 root, ts;
	__u32 kind, task_id, mm_id;
	__u32 done;
	struct found_area found; /* what was passed last */
};

static long area_step(__u64 nr, void *context)
{
	struct area_walk *walk = context;
	struct area area = {};

	if (!find_area(walk->root, walk->found.last + 1, &walk->found))
		return 1;
	if (walk->found.vma) {
		read_area_at(&area, (void *)walk->found.vma);
		send_area(&area, walk->kind, walk->task_id, walk->mm_id, walk->ts);
	}
	walk->done = walk->found.last == ~0ULL;
	return walk->done;
}

/* Lists the mappings of the task's address space; false if its lock was taken, or it could not be read to the end. */
static __always_inline bool try_send_vmas(struct task_struct *task, __u32 kind, __u32 task_id, __u32 mm_id, __u64 ts)
{
	struct bpf_iter_task_vma it;
	struct vm_area_struct *vma;
	bool open;

	if (!bpf_ksym_exists(bpf_iter_task_vma_new)) {
		struct area_walk walk = { .ts = ts, .kind = kind, .task_id = task_id, .mm_id = mm_id };

		walk.found.last = ~0ULL;
		if (!has_area_tree() || !mm_of(task))
			return false;
		walk.root = areas_of(mm_of(task));
		bpf_loop(AREAS_MAX, area_step, &walk, 0);
		return walk.done;
	}
	open = bpf_iter_task_vma_new(&it, task, 0) == 0;
	while ((vma = bpf_iter_task_vma_next(&it))) {
		struct area area;

		read_area(&area, vma);
		send_area(&area, kind, task_id, mm_id, ts);
	}
	bpf_iter_task_vma_destroy(&it);
	return open;
}

static __always_inline void send_vmas(struct task_struct *task, __u32 kind, __u32 task_id, __u32 mm_id, __u64 ts)
{
	if (!try_send_vmas(task, kind, task_id, mm_id, ts))
		__sync_fetch_and_add(&vma_walks_failed, 1);
}

static __always_inline void tree_forked(struct task_struct *parent, struct task_struct *child)
{
	struct task_state *parent_state = state_of(parent), *state;
	struct task_event *event;

	if (!parent_state)
		return;
	state = bpf_task_storage_get(&task_states, child, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!state) {
		__sync_fetch_and_add(&events_seen, 1);
		__sync_fetch_and_add(&events_lost, 1);
		return;
	}
	if (__sync_val_compare_and_swap(&state->claimed, 0, 1))
		return;
	/* A child returns from the call that made it. */
	state->entry_unseen = 1;
	state->task_id = __sync_fetch_and_add(&last_task_id, 1) + 1;
	if (mm_of(child) == mm_of(parent)) {
		state->mm_id = mm_id_of(parent_state, parent);
		state->mm = (__u64)mm_of(child);
	} else {
		mm_id_of(state, child);
	}
	__sync_fetch_and_add(&generation, 1);
	event = RESERVE_EVENT(task_event);
	if (event) {
		fill_task(event, TASK_FORK, state, child);
		event->parent_task_id = parent_state->task_id;
		submit_event(event);
	}
	if (mm_of(child) && mm_of(child) != mm_of(parent))
		send_vmas(child, MAP_KIND_FORK, state->task_id, state->mm_id, bpf_ktime_get_ns());
}

static __always_inline void tree_execed(struct task_struct *task, struct linux_binprm *bprm)
{
	struct task_state *state = state_of(task);
	struct task_event *event;
	__u64 path_id;

	if (!state)
		return;
	state->waiting = 0;
	mm_id_of(state, task);
	path_id = path_id_of((__u64)BPF_CORE_READ(bprm, file));
	__sync_fetch_and_add(&generation, 1);
	event = RESERVE_EVENT(task_event);
	if (event) {
		fill_task(event, TASK_EXEC, state, task);
		event->path_id = path_id;
		submit_event(event);
	}
	/* A task that was found while it executed began to do so unseen. */
	if (!state->exec_ts)
		state->exec_ts = bpf_ktime_get_ns();
	/* Clearing the tail of .bss faults before this point is reached: the image is there since the call began. */
	send_vmas(task, MAP_KIND_KERNEL, state->task_id, state->mm_id, state->exec_ts);
	state->exec_ts = 0;
}
