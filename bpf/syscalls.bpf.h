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
const volatile struct call_info call_infos[2 * CALL_NUMBERS] = {};
/* Calls whose file's name was too old to refer to and could not be sent again, because the descriptor is another file's by now. */
__u64 calls_unnamed = 0;
/* Times off the CPU are records, too. The recorder may end that at any time. */
__u32 sched_on = 0;

#define CACHED_FILES 8

/* A file that the task has used, and the number of its name. */
struct file_cache {
	__u64 file;
	__u64 inode;
	__u64 identity;
	__u64 path_id;
};

/* The system call that a task is in, and its time off the CPU. Apart from task_state, which every recording needs. */
struct call_state {
	__u64 enter_ts;
	__u64 file;
	__u64 position;
	__u64 path_id;
	__u32 task_id;
	__u32 nr;           /* + 1; 0: not in a call */
	__u32 left_state;   /* in which it left the CPU; 0: preempted */
	__u32 waker_task_id;
	__u64 left_ts;      /* when; 0: it is on one */
	__u64 woken_ts;
	__u64 off_ns;       /* all its time off the CPU since it was first seen */
	__u64 asleep_ns;    /* of that, until it was woken */
	__u64 off_before_ns;
	__u64 asleep_before_ns;
	__u64 held_dur_ns;  /* of a call that was interrupted and may be made again; 0: none is held */
	__s64 held_ret;
	__u64 flags;        /* of the record that is being written */
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

/* Tells the inodes apart that lay at one address, and had one number, one after the other. */
static __always_inline __u64 identity_of(struct inode *inode)
{
	return ino_of(inode) ^ (__u64)generation_of(inode) << 32;
}

static __always_inline bool is_cached(const struct file_cache *slot, __u64 address, struct inode *inode)
{
	return slot->file == address && slot->inode == (__u64)inode && slot->identity == identity_of(inode);
}

static __always_inline struct file_cache *file_slot(struct call_state *call, __u64 address)
{
	return &call->files[(address >> 8) & (CACHED_FILES - 1)];
}

/*
 * The number of a file's name. A task that uses a descriptor again finds it in
 * its own small cache; the inode is compared too, because the memory of a
 * closed file is soon used for another.
 */
static __always_inline __u64 known_path_id(struct call_state *call, __u64 address)
{
	struct inode *inode = inode_of(address);
	struct file_cache *slot = file_slot(call, address);

	if (is_cached(slot, address, inode) && slot->path_id && !is_old_name(slot->path_id))
		return slot->path_id;
	slot->path_id = path_id_of(address);
	slot->file = address;
	slot->inode = (__u64)inode;
	slot->identity = identity_of(inode);
	return slot->path_id;
}

static __always_inline void note_file(struct call_state *call, struct task_struct *task, __s32 fd)
{
	struct file *file = file_of(task, fd);

	call->file = (__u64)file;
	call->path_id = file ? known_path_id(call, (__u64)file) : 0;
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
static __noinline bool vector_bytes(__u64 vector, __u64 count, bool compat, __u64 *bytes)
{
	__u32 word = compat ? sizeof(__u32) : sizeof(__u64);
	__u64 sum = 0;

	if (count > CALL_VECTOR_MAX || !bytes)
		return false;
	for (int i = 0; i < CALL_VECTOR_MAX; i++) {
		__u64 len = 0;

		if (i >= count)
			break;
		if (bpf_probe_read_user(&len, word, (void *)(vector + (2 * i + 1) * word)))
			return false;
		sum += len;
	}
	*bytes = sum;
	return true;
}

/*
 * The call took so long that its file's name is too old by now: sends it again,
 * if the descriptor still means the file.
 */
static __noinline int renew_name(struct call_state *call, struct task_struct *task, __u64 fd)
{
	struct file_cache *slot;
	struct file *file;

	if (!call || !task)
		return 0;
	file = file_of(task, fd);
	slot = file_slot(call, call->file);
	call->path_id = 0;
	if (file && (__u64)file == call->file && is_cached(slot, call->file, inode_of(call->file))) {
		slot->path_id = path_id_of(call->file);
		call->path_id = slot->path_id;
	} else {
		__sync_fetch_and_add(&calls_unnamed, 1);
	}
	return 0;
}

#define PUT_WORD(ring, at, word) ((ring)->words[(at) & call_word_mask] = (word))

static __always_inline __u64 argument_of(struct call_state *call, __u32 index)
{
	return index < CALL_ARGS ? KEEP_APART(call->args[index]) : 0;
}

/* Writes one record; its words are described at struct call_ring. */
static __always_inline void send_call(struct call_state *call, struct task_struct *task, struct pt_regs *regs, long ret,
				      __u32 more_flags)
{
	struct call_ring *ring = call_ring_here();
	__u64 nr = call->nr - 1, at, dur, off, asleep, after = 0, requested = 0;
	__u32 flags = more_flags, args, i;
	const volatile struct call_info *info;

	call->nr = 0;
	if (!ring || nr >= 2 * CALL_NUMBERS)
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
	    vector_bytes(call->args[1], call->args[2], is_compat(task), &requested))
		flags |= CALL_HAS_REQUESTED;
	if (call->file && info->flags & CALL_MOVES_POSITION) {
		after = position_of(call->file);
		flags |= CALL_HAS_POSITION;
		if (after - call->position != (IS_ERRNO(ret) ? 0 : (__u64)ret))
			flags |= CALL_HAS_AFTER | why_elsewhere(call->file);
	}
	if (call->path_id && is_old_name(call->path_id))
		renew_name(call, task, argument_of(call, info->fd_arg));
	if (call->path_id)
		flags |= CALL_HAS_FILE;
	call->flags = flags;
	flags = READ_AGAIN(call->flags);
	PUT_WORD(ring, at, call->enter_ts);
	PUT_WORD(ring, at + 1, call->task_id | nr << 32 | (__u64)args << 44 | (__u64)flags << 48);
	PUT_WORD(ring, at + 2, ret);
	PUT_WORD(ring, at + 3, dur);
	at += 4;
	for (i = 0; i < CALL_ARGS; i++) {
		if (i < args) {
			PUT_WORD(ring, at, call->args[i]);
			at++;
		}
	}
	if (flags & CALL_HAS_FILE) {
		PUT_WORD(ring, at, call->path_id);
		at++;
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

/* `nr` is the number that the call has here. */
static __always_inline void syscall_entered(struct task_struct *task, struct task_state *state, struct pt_regs *regs,
					    __u64 nr)
{
	const volatile struct call_info *info;
	struct call_state *call;

	if (nr >= 2 * CALL_NUMBERS)
		return;
	info = &call_infos[nr];
	if (!(info->flags & CALL_WANTED))
		return;
	call = call_state_of(task, true);
	if (!call)
		return;
	if (call->nr && call->held_dur_ns)
		send_call(call, task, regs, call->held_ret, 0);
	call->held_dur_ns = 0;
	call->task_id = state->task_id;
	call->nr = nr + 1;
	call->off_before_ns = call->off_ns;
	call->asleep_before_ns = call->asleep_ns;
	read_arguments(call->args, regs, nr);
	if (!counting_only && info->fd_arg < CALL_ARGS) {
		note_file(call, task, argument_of(call, info->fd_arg));
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
	__u64 nr;

	if (!call || !call->nr)
		return;
	nr = call->nr - 1;
	if (IS_RESTART(ret)) {
		/* Whether it returns is only known when the task makes another call, or ends. */
		call->held_dur_ns = bpf_ktime_get_ns() - call->enter_ts;
		call->held_ret = ret;
		return;
	}
	/* A descriptor that the call has made. */
	if (!counting_only && nr < 2 * CALL_NUMBERS && call_infos[nr].flags & CALL_RETURNS_FD && !IS_ERRNO(ret))
		note_file(call, task, ret);
	send_call(call, task, regs, ret, 0);
}

/* The task ends inside a call: exit itself, or one that a signal has cut short. */
static __always_inline void syscall_abandoned(struct task_struct *task)
{
	struct call_state *call = call_state_of(task, false);

	if (call && call->nr)
		send_call(call, task, (struct pt_regs *)bpf_task_pt_regs(task), 0, CALL_NEVER_RETURNED);
}
