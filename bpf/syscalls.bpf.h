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

/* Words per ring - 1. */
const volatile __u32 call_word_mask = 0;
/* What is known of each call, by number; filled in from the registry of calls before loading. */
const volatile struct call_info call_infos[CALL_KINDS] = {};
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
	__u64 name;         /* name_of() when its number was asked for */
	struct name_changes changes; /* until then, or until it was found to be the same */
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
	__u64 task;         /* whose it is; 0: it has made no call */
	__u64 number;       /* the kernel's own of a call that has none here */
	__u64 killed_by;    /* 1: seccomp sends the signal that ends the task, and the call that it is for was recorded */
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

/* The number of the file's name; it is sent if it is new. */
static __noinline __u64 new_path_id(struct file_cache *slot, __u64 address, __u64 name)
{
	struct inode *inode = inode_of(address);

	if (!slot)
		return 0;
	slot->path_id = path_id_of(address);
	slot->file = address;
	slot->inode = (__u64)inode;
	slot->identity = identity_of(inode);
	/* If it was renamed meanwhile the number may be that of the newer name, and is asked for once more. */
	slot->name = name == name_of_file(address) ? name : 0;
	return slot->path_id;
}

/*
 * The same. A task that uses a descriptor again finds the number in its own
 * small cache; the inode is compared too, because the memory of a closed file
 * is soon used for another, and whether the name is still the same.
 */
static __always_inline __u64 known_path_id(struct call_state *call, __u64 address)
{
	struct file_cache *slot = file_slot(call, address);
	struct name_changes now;
	__u64 name;
	bool cached;

	/* Before the name: so what changes it meanwhile is seen the next time. */
	count_name_changes(&now, address);
	cached = is_cached(slot, address, inode_of(address)) && slot->path_id && !is_old_name(slot->path_id) && slot->name;
	if (cached && has_no_name_changed(&slot->changes, &now))
		return slot->path_id;
	name = name_of_file(address);
	slot->changes = now;
	if (cached && slot->name == name)
		return slot->path_id;
	return new_path_id(slot, address, name);
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
 * if the descriptor still means the file, and the file is called the same.
 */
static __always_inline void renew_name(struct call_state *call, __u64 fd)
{
	struct file_cache *slot;
	struct file *file;

	file = file_in(MEMBER_WORD(struct task_struct, call->task, files), fd);
	slot = file_slot(call, call->file);
	call->path_id = 0;
	if (file && (__u64)file == call->file && is_cached(slot, call->file, inode_of(call->file)) && slot->name &&
	    slot->name == name_of_file(call->file)) {
		slot->path_id = path_id_of(call->file);
		call->path_id = slot->path_id;
	} else {
		__sync_fetch_and_add(&calls_unnamed, 1);
	}
}

#define PUT_WORD(ring, at, word) ((ring)->words[(at) & call_word_mask] = (word))

static __always_inline __u64 argument_of(struct call_state *call, __u32 index)
{
	return index < CALL_ARGS ? KEEP_APART(call->args[index]) : 0;
}

/* Writes one record; its words are described at struct call_ring. Global, so that it is verified once and not in every program. */
__noinline int send_call(struct call_state *call, __s64 ret, __u32 more_flags)
{
	__u64 nr, at, dur, off, asleep, after = 0, requested = 0;
	struct call_ring *ring = call_ring_here();
	__u32 flags = more_flags, args, i;
	const volatile struct call_info *info;

	if (!call)
		return 0;
	nr = call->nr - 1;
	call->nr = 0;
	if (!ring || nr >= CALL_KINDS)
		return 0;
	ring->returned++;
	if (counting_only)
		return 0;
	info = &call_infos[nr];
	at = ring->produced;
	if (ring->busy || at + CALL_WORDS_MAX - ring->consumed > (__u64)call_word_mask + 1) {
		ring->lost++;
		return 0;
	}
	STORE_IN_ORDER(ring->busy, 1);
	dur = call->held_dur_ns ? call->held_dur_ns : bpf_ktime_get_ns() - call->enter_ts;
	off = call->off_ns - call->off_before_ns;
	asleep = call->asleep_ns - call->asleep_before_ns;
	args = info->args;
	if (off)
		flags |= CALL_HAS_OFF;
	if (info->flags & CALL_SUMS_VECTOR && !call->held_dur_ns && !(flags & CALL_NEVER_RETURNED) &&
	    vector_bytes(call->args[1], call->args[2], nr >= CALL_NUMBERS, &requested))
		flags |= CALL_HAS_REQUESTED;
	if (call->file && info->flags & CALL_MOVES_POSITION) {
		after = position_of(call->file);
		flags |= CALL_HAS_POSITION;
		if (after - call->position != (IS_ERRNO(ret) ? 0 : (__u64)ret))
			flags |= CALL_HAS_AFTER | why_elsewhere(call->file);
	}
	if (call->path_id && is_old_name(call->path_id))
		renew_name(call, argument_of(call, info->fd_arg));
	if (call->path_id)
		flags |= CALL_HAS_FILE;
	if (nr == CALL_NR_OTHER)
		flags |= CALL_HAS_NUMBER;
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
	if (flags & CALL_HAS_NUMBER) {
		PUT_WORD(ring, at, call->number);
		at++;
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
	return 0;
}

/* A call begins. `nr` is the number that it has here. */
static __always_inline void call_begins(struct call_state *call, const volatile struct call_info *info,
					struct task_struct *task, struct task_state *state, struct pt_regs *regs, __u64 nr)
{
	if (!call->task)
		call->task = bpf_get_current_task();
	call->held_dur_ns = 0;
	call->task_id = state->task_id;
	call->nr = nr + 1;
	call->off_before_ns = call->off_ns;
	call->asleep_before_ns = call->asleep_ns;
	read_arguments(call->args, regs, nr);
	if (nr == CALL_NR_OTHER)
		call->number = (__u32)regs->orig_ax;
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

static __always_inline void syscall_entered(struct task_struct *task, struct task_state *state, struct pt_regs *regs,
					    __u64 nr)
{
	const volatile struct call_info *info;
	struct call_state *call;

	if (state->entry_unseen)
		state->entry_unseen = 0;
	if (nr >= CALL_KINDS)
		return;
	info = &call_infos[nr];
	if (!(info->flags & CALL_WANTED))
		return;
	call = call_state_of(task, true);
	if (!call)
		return;
	if (call->nr && call->held_dur_ns)
		send_call(call, call->held_ret, 0);
	call_begins(call, info, task, state, regs, nr);
}

#define SECCOMP_MODE_DEAD 3
#define SIGKILL 9
#define SIGSYS 31
#define SIGNAL_GROUP_EXIT 4

/* The signal of seccomp is on its way, and the registers are as they were before the call. */
static __always_inline bool is_trapped(struct task_struct *task, struct pt_regs *regs, long ret)
{
	return ret == (__s32)regs->orig_ax && PLAIN(task)->pending.signal.sig[0] & 1UL << (SIGSYS - 1);
}

/*
 * The kernel left the call out: seccomp or a tracer refused it. Then sys_exit
 * is seen, and no sys_enter. A task's first return may lack its entry for
 * another reason: it is a child's of fork, or the task was found in a call.
 * When the call was made is not known, so it has no duration.
 */
static __noinline int call_refused(struct task_struct *task, struct pt_regs *regs, long ret, __u32 flags)
{
	const volatile struct call_info *info;
	struct task_state *state;
	struct call_state *call;
	__u64 nr;

	if (!task || !regs)
		return 0;
	state = state_of(task);
	if (!state || state->waiting)
		return 0;
	if (state->entry_unseen) {
		state->entry_unseen = 0;
		return 0;
	}
	nr = call_number(task, (__u32)regs->orig_ax);
	if (nr >= CALL_KINDS)
		return 0;
	info = &call_infos[nr];
	if (!(info->flags & CALL_WANTED))
		return 0;
	call = call_state_of(task, true);
	if (!call)
		return 0;
	call_begins(call, info, task, state, regs, nr);
	/* A supervisor may have made a descriptor in the call's place. */
	if (!(flags & CALL_NEVER_RETURNED) && !counting_only && info->flags & CALL_RETURNS_FD && !IS_ERRNO(ret))
		note_file(call, task, ret);
	call->killed_by = flags & CALL_NEVER_RETURNED && seccomp_mode(task) == SECCOMP_MODE_DEAD;
	send_call(call, ret, flags | CALL_REFUSED);
	return 0;
}

static __always_inline void syscall_returned(struct task_struct *task, struct pt_regs *regs, long ret)
{
	struct call_state *call = call_state_of(task, false);
	__u64 nr;

	if (!call || !call->nr || call->held_dur_ns) {
		if (!may_be_refused(task))
			return;
		if (call && call->nr)
			send_call(call, call->held_ret, 0);
		call_refused(task, regs, ret, is_trapped(task, regs, ret) ? CALL_NEVER_RETURNED : 0);
		return;
	}
	nr = call->nr - 1;
	if (IS_RESTART(ret)) {
		/* Whether it returns is only known when the task makes another call, or ends. */
		call->held_dur_ns = bpf_ktime_get_ns() - call->enter_ts;
		call->held_ret = ret;
		return;
	}
	/* A descriptor that the call has made. */
	if (!counting_only && nr < CALL_KINDS && call_infos[nr].flags & CALL_RETURNS_FD && !IS_ERRNO(ret))
		note_file(call, task, ret);
	send_call(call, ret, 0);
}

/*
 * Seccomp ends the task at once, without a return of the call, as it does with
 * one of several threads. Mostly it sends a signal, and the return is seen.
 */
static __always_inline bool ends_by_seccomp(struct task_struct *task, struct call_state *call)
{
	int mode = seccomp_mode(task), code = PLAIN(task)->exit_code;

	if (!mode || (code != SIGSYS && code != SIGKILL))
		return false;
	if (mode == SECCOMP_MODE_DEAD)
		return !call || !call->killed_by;
	/* Before Linux 5.17 nothing marks it; but nothing else ends one thread alone by these signals. */
	return !(PLAIN(task)->signal->flags & SIGNAL_GROUP_EXIT);
}

/* The task ends inside a call: exit itself, or one that a signal has cut short. */
static __always_inline void syscall_abandoned(struct task_struct *task)
{
	struct call_state *call = call_state_of(task, false);
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

	if (call && call->nr)
		send_call(call, 0, CALL_NEVER_RETURNED);
	if (seccomp_mode(task) && ends_by_seccomp(task, call))
		call_refused(task, regs, 0, CALL_NEVER_RETURNED);
}
