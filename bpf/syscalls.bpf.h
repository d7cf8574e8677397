/* SPDX-License-Identifier: GPL-2.0 */
/*
 * System calls: one record per call, written when it returns, into a ring of
 * the CPU that the recorder has mapped.
 *
 * Programs on sys_enter and sys_exit run with preemption off, and nothing that
 * interrupts them makes a system call: there is one producer at a time, as in
 * the fault rings, and no atomic operation is needed.
 */

/* ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND, ERESTART_RESTARTBLOCK: a signal came; no program ever sees them. */
#define IS_RESTART(ret) ((ret) == -512 || (ret) == -513 || (ret) == -514 || (ret) == -516)
#define IS_ERRNO(ret) ((unsigned long)(ret) >= (unsigned long)-4095)

/* Words per ring - 1. */
const volatile __u32 call_word_mask = 0;
/* What is known of each call, by number; filled in from the registry of calls before loading. */
const volatile struct call_info call_infos[CALL_NUMBERS] = {};
/* Times off the CPU are records, too. The recorder may end that at any time. */
__u32 sched_on = 0;

#define CACHED_FILES 8

/* A file that the task has used, and the number of its name. */
struct file_cache {
	__u64 file;
	__u64 inode;
	__u64 ino;
	__u32 path_id;
	__u32 padding;
};

/* The system call that a task is in, and its time off the CPU. Apart from task_state, which every recording needs. */
struct call_state {
	__u64 enter_ts;
	__u64 file;
	__u64 position;
	__u32 task_id;
	__u32 nr;           /* + 1; 0: not in a call */
	__u32 path_id;
	__u32 left_state;   /* in which it left the CPU; 0: preempted */
	__u32 waker_task_id;
	__u32 padding;
	__u64 left_ts;      /* when; 0: it is on one */
	__u64 woken_ts;
	__u64 off_ns;       /* all its time off the CPU since it was first seen */
	__u64 asleep_ns;    /* of that, until it was woken */
	__u64 off_before_ns;
	__u64 asleep_before_ns;
	__u64 held_dur_ns;  /* of a call that was interrupted and may be made again; 0: none is held */
	__s64 held_ret;
	__u64 args[6];
	struct file_cache files[CACHED_FILES];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct call_state);
} call_states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* CPUs; set before loading */
	__type(key, __u32);
	__type(value, struct call_ring);
} call_rings SEC(".maps");

static __always_inline struct call_ring *call_ring_here(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&call_rings, &cpu);
}

static __always_inline __u64 argument(struct pt_regs *regs, __u32 index)
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

/*
 * The number of a file's name. A task that uses a descriptor again finds it in
 * its own small cache; the inode is compared too, because the memory of a
 * closed file is soon used for another.
 */
static __always_inline __u32 known_path_id(struct call_state *call, __u64 address)
{
	struct inode *inode = inode_of(address);
	__u64 ino = ino_of(inode);
	struct file_cache *slot;

	slot = &call->files[(address >> 8) & (CACHED_FILES - 1)];
	if (slot->file == address && slot->inode == (__u64)inode && slot->ino == ino)
		return slot->path_id;
	slot->path_id = path_id_of(address);
	slot->file = address;
	slot->inode = (__u64)inode;
	slot->ino = ino;
	return slot->path_id;
}

static __always_inline void note_file(struct call_state *call, struct task_struct *task, __s32 fd)
{
	struct file *file = file_of(task, fd);

	call->file = (__u64)file;
	call->path_id = file ? known_path_id(call, (__u64)file) : 0;
}

static __always_inline void save_args(struct call_state *call, struct pt_regs *regs)
{
	call->args[0] = regs->di;
	call->args[1] = regs->si;
	call->args[2] = regs->dx;
	call->args[3] = regs->r10;
	call->args[4] = regs->r8;
	call->args[5] = regs->r9;
}

static __always_inline struct call_state *call_state_of(struct task_struct *task, bool make)
{
	return bpf_task_storage_get(&call_states, task, 0, make ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0);
}

#define O_APPEND 02000

/* What may have moved the position of an open file by something else than the transfer. */
static __noinline __u32 why_elsewhere(__u64 address)
{
	struct file *file = (struct file *)address;
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 flags = 0;
	__s64 users;

	if (BPF_CORE_READ(file, f_flags) & O_APPEND)
		flags |= CALL_APPENDS;
	if (bpf_core_field_exists(file->f_ref))
		users = BPF_CORE_READ(file, f_ref.refcnt.counter) + 1;
	else
		users = BPF_CORE_READ(file, f_count.counter);
	if (users > 1 || BPF_CORE_READ(task, files, count.counter) > 1)
		flags |= CALL_SHARED;
	return flags;
}

/* Adds the lengths of a call's buffers up; false if they are too many or cannot be read without a page fault. */
static __noinline bool vector_bytes(__u64 vector, __u64 count, __u64 *bytes)
{
	__u64 buffer[2], sum = 0;

	if (count > CALL_VECTOR_MAX || !bytes)
		return false;
	for (int i = 0; i < CALL_VECTOR_MAX; i++) {
		if (i >= count)
			break;
		if (bpf_probe_read_user(buffer, sizeof(buffer), (void *)(vector + i * sizeof(buffer))))
			return false;
		sum += buffer[1];
	}
	*bytes = sum;
	return true;
}

/* The verifier refuses one load from either of two kinds of memory, into which the compiler likes to merge two. */
#define KEEP_APART(value)                          \
	({                                         \
		__u64 loaded = (value);            \
		asm volatile("" : "+r"(loaded));   \
		loaded;                            \
	})

#define PUT_WORD(ring, at, word) ((ring)->words[(at) & call_word_mask] = (word))

/* Writes one record; its words are described at struct call_ring. */
static __always_inline void send_call(struct call_state *call, struct pt_regs *regs, long ret, __u32 more_flags)
{
	struct call_ring *ring = call_ring_here();
	__u32 nr = call->nr - 1, flags = more_flags, args, i;
	const volatile struct call_info *info;
	__u64 at, dur, off, asleep, word, after = 0, requested = 0;

	call->nr = 0;
	if (!ring || nr >= CALL_NUMBERS)
		return;
	ring->returned++;
	if (counting_only)
		return;
	info = &call_infos[nr];
	at = ring->produced;
	if (ring->busy || at + CALL_WORDS_MAX - ring->consumed > (__u64)call_word_mask + 1) {
		ring->lost++;
		return;
	}
	STORE_IN_ORDER(ring->busy, 1);
	dur = call->held_dur_ns ? call->held_dur_ns : bpf_ktime_get_ns() - call->enter_ts;
	off = call->off_ns - call->off_before_ns;
	asleep = call->asleep_ns - call->asleep_before_ns;
	args = info->args;
	if (off)
		flags |= CALL_HAS_OFF;
	if (info->flags & CALL_SUMS_VECTOR && !call->held_dur_ns && !(flags & CALL_NEVER_RETURNED) &&
	    vector_bytes(regs->si, regs->dx, &requested))
		flags |= CALL_HAS_REQUESTED;
	if (call->file && info->flags & CALL_MOVES_POSITION) {
		after = position_of(call->file);
		flags |= CALL_HAS_POSITION;
		if (after - call->position != (IS_ERRNO(ret) ? 0 : (__u64)ret))
			flags |= CALL_HAS_AFTER | why_elsewhere(call->file);
	}
	PUT_WORD(ring, at, call->enter_ts);
	PUT_WORD(ring, at + 1, call->task_id | (__u64)nr << 32 | (__u64)args << 44 | (__u64)flags << 48);
	PUT_WORD(ring, at + 2, ret);
	PUT_WORD(ring, at + 3, (dur < CALL_DUR_MAX ? dur : CALL_DUR_MAX) | (__u64)call->path_id << CALL_DUR_BITS);
	at += 4;
	for (i = 0; i < 6; i++) {
		if (i < args) {
			if (!(info->flags & CALL_SAVES_ARGS) && !call->held_dur_ns)
				word = KEEP_APART(argument(regs, i));
			else
				word = KEEP_APART(call->args[i]);
			PUT_WORD(ring, at, word);
			at++;
		}
	}
	if (flags & CALL_HAS_POSITION) {
		PUT_WORD(ring, at, call->position);
		at++;
	}
	if (flags & CALL_HAS_AFTER) {
		PUT_WORD(ring, at, after);
		at++;
	}
	if (flags & CALL_HAS_OFF) {
		PUT_WORD(ring, at, off);
		PUT_WORD(ring, at + 1, asleep);
		at += 2;
	}
	if (flags & CALL_HAS_REQUESTED) {
		PUT_WORD(ring, at, requested);
		at++;
	}
	ring->recorded++;
	STORE_IN_ORDER(ring->produced, at);
	STORE_IN_ORDER(ring->busy, 0);
}

static __always_inline void syscall_entered(struct task_struct *task, struct task_state *state, struct pt_regs *regs,
					    __u64 nr)
{
	const volatile struct call_info *info;
	struct call_state *call;

	if (nr >= CALL_NUMBERS)
		return;
	info = &call_infos[nr];
	if (!(info->flags & CALL_WANTED))
		return;
	call = call_state_of(task, true);
	if (!call)
		return;
	if (call->nr && call->held_dur_ns)
		send_call(call, regs, call->held_ret, 0);
	call->held_dur_ns = 0;
	call->task_id = state->task_id;
	call->nr = nr + 1;
	call->off_before_ns = call->off_ns;
	call->asleep_before_ns = call->asleep_ns;
	if (info->flags & CALL_SAVES_ARGS)
		save_args(call, regs);
	if (!counting_only && info->fd_arg < 6) {
		note_file(call, task, argument(regs, info->fd_arg));
		if (call->file && info->flags & CALL_MOVES_POSITION)
			call->position = position_of(call->file);
	} else {
		call->file = 0;
		call->path_id = 0;
	}
	call->enter_ts = bpf_ktime_get_ns();
}

static __always_inline void syscall_returned(struct task_struct *task, struct pt_regs *regs, long ret)
{
	struct call_state *call = call_state_of(task, false);
	__u32 nr;

	if (!call || !call->nr)
		return;
	nr = call->nr - 1;
	if (IS_RESTART(ret)) {
		/* Whether it returns is only known when the task makes another call, or ends. */
		call->held_dur_ns = bpf_ktime_get_ns() - call->enter_ts;
		call->held_ret = ret;
		save_args(call, regs);
		return;
	}
	/* A descriptor that the call has made. */
	if (!counting_only && nr < CALL_NUMBERS && call_infos[nr].flags & CALL_RETURNS_FD && !IS_ERRNO(ret))
		note_file(call, task, ret);
	send_call(call, regs, ret, 0);
}

/* The task ends inside a call: exit itself, or one that a signal has cut short. */
static __always_inline void syscall_abandoned(struct task_struct *task)
{
	struct call_state *call = call_state_of(task, false);

	if (call && call->nr)
		send_call(call, (struct pt_regs *)bpf_task_pt_regs(task), 0, CALL_NEVER_RETURNED);
}
