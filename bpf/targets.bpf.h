/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which tasks are recorded beside the first one: those that a recorded task makes, and those that are
 * found running, of processes, of a cgroup, of the whole system.
 *
 * A birth is seen by task_newtask, which every task has, also a thread that the kernel makes in a
 * process's name. The recorder attaches the tracepoints first and then walks over all tasks (a task iterator), so a
 * task is either met by the walk or born after the tracepoint was attached; where both meet it,
 * `claimed` decides. Each task found is reported once, and so are the mappings of each address
 * space. The walk is repeated now and then: the kernel leaves hits of a tracepoint out while other
 * programs come to it and go, and is_wanted() knows a task whose birth was not seen by its process and its parent.
 *
 * An address space's mappings are listed after its first task has become a
 * member, with the time before that: what a call maps meanwhile is recorded as
 * a call too, and the later of the two rows wins.
 */

#define PF_EXITING 0x4
#define MAX_CONTROLLERS 16
#define MAX_CGROUP_DEPTH 64

enum target_kind {
	TARGET_STARTED = 0, /* a command of the recorder's; nothing is looked for */
	TARGET_PROCESSES,   /* those that the recorder marked as wanted */
	TARGET_CGROUP,
	TARGET_ALL,         /* everything but the recorder */
};

const volatile __u32 target_kind = TARGET_STARTED;
/* Processes: those that they have forked before, too. */
const volatile bool target_descendants = false;
/* Cgroup: its number in its hierarchy, and the hierarchy's (0: v2). */
const volatile __u64 target_cgroup = 0;
const volatile __u32 target_hierarchy = 0;

/* Tasks that were moved to another cgroup; the recorder walks again when this has risen. */
__u64 cgroup_moves = 0;
/* Address spaces that the walk could not list; it may be repeated. */
__u64 spaces_unlisted = 0;
/* Known from when the first walk begins; before that nothing is adopted. */
__u32 recorder_tgid = 0;
/* The same instant, CLOCK_MONOTONIC. */
__u64 walked_ns = 0;

struct found_space {
	__u32 mm_id;
	__u32 listed;
};

/* Address spaces met by the walk, by mm_struct. The recorder empties it after each walk: mm_structs are used again. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, struct found_space);
} found_spaces SEC(".maps");

static __always_inline bool is_below_target(struct cgroup *cgroup)
{
	struct cgroup_subsys_state *node;
	int depth;

	for (depth = 0; depth < MAX_CGROUP_DEPTH && cgroup; depth++) {
		if (BPF_CORE_READ(cgroup, kn, id) == target_cgroup)
			return true;
		node = BPF_CORE_READ(cgroup, self.parent);
		cgroup = node ? BPF_CORE_READ(node, cgroup) : NULL;
	}
	return false;
}

static __noinline int is_in_target_cgroup(struct task_struct *task)
{
	struct css_set *set = BPF_CORE_READ(task, cgroups);
	struct cgroup_subsys_state **slots, *node;
	struct cgroup *cgroup;
	int slot;

	if (!target_hierarchy)
		return is_below_target(BPF_CORE_READ(set, dfl_cgrp));
	slots = (void *)set + bpf_core_field_offset(set->subsys);
	for (slot = 0; slot < MAX_CONTROLLERS; slot++) {
		if (slot * sizeof(*slots) >= bpf_core_field_size(set->subsys))
			break;
		node = NULL;
		bpf_probe_read_kernel(&node, sizeof(node), &slots[slot]);
		cgroup = node ? BPF_CORE_READ(node, cgroup) : NULL;
		if (cgroup && BPF_CORE_READ(cgroup, root, hierarchy_id) == target_hierarchy)
			return is_below_target(cgroup);
	}
	return false;
}

/* Born since the first walk began. A command's tasks are all born after it. */
static __always_inline bool is_new(struct task_struct *task)
{
	return target_kind == TARGET_STARTED || (walked_ns && PLAIN(task)->start_time > walked_ns);
}

/*
 * A thread of a recorded process, or a process that a recorded one has made. Its maker may have ended; then its parent is an older
 * process that waits for such children.
 */
static __always_inline bool is_relative(struct task_struct *task)
{
	struct task_struct *relative = task->group_leader;
	struct task_state *state;

	state = relative ? bpf_task_storage_get(&task_states, relative, 0, 0) : NULL;
	if (state && (state->wanted || state->task_id))
		return true;
	if (!target_descendants && !is_new(task))
		return false;
	relative = task->real_parent;
	return relative && state_of(relative);
}

static __always_inline bool is_wanted(struct task_struct *task)
{
	if (task->flags & PF_EXITING)
		return false;
	switch (target_kind) {
	case TARGET_STARTED:
	case TARGET_PROCESSES:
		return is_relative(task);
	case TARGET_CGROUP:
		return is_in_target_cgroup(task);
	case TARGET_ALL:
		return task->tgid != recorder_tgid;
	}
	return false;
}

/* The address space of a task that is to become a member; threads that were found before know it already. */
static __always_inline struct found_space *space_of(struct task_struct *task)
{
	struct found_space *known, fresh = {};
	__u64 mm = (__u64)mm_of(task);
	struct task_struct *leader;
	struct task_state *state;

	known = bpf_map_lookup_elem(&found_spaces, &mm);
	if (known)
		return known;
	leader = task->group_leader;
	state = leader ? state_of(leader) : NULL;
	if (state) {
		fresh.mm_id = mm_id_of(state, task);
		fresh.listed = 1;
	} else {
		fresh.mm_id = __sync_fetch_and_add(&last_mm_id, 1) + 1;
	}
	bpf_map_update_elem(&found_spaces, &mm, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&found_spaces, &mm);
}

static __always_inline void list_space(struct task_struct *task, struct task_state *state,
				       struct found_space *space, __u64 ts)
{
	if (__sync_val_compare_and_swap(&space->listed, 0, 1))
		return;
	if (try_send_vmas(task, MAP_KIND_SNAPSHOT, state->task_id, space->mm_id, ts))
		return;
	space->listed = 0;
	__sync_fetch_and_add(&spaces_unlisted, 1);
}

/* Who forked it, as far as that can be known now: for a thread its process, for a process its parent. */
static __always_inline __u32 forked_by(struct task_struct *task)
{
	struct task_struct *leader = task->group_leader, *parent = task->real_parent;
	struct task_state *state = NULL;

	if (leader && leader->pid != task->pid)
		state = state_of(leader);
	else if (parent)
		state = state_of(parent);
	return state ? state->task_id : 0;
}

static __always_inline void tell_of(struct task_struct *task, struct task_state *state, __u32 op)
{
	__u64 path_id = mm_of(task) ? path_id_of((__u64)BPF_CORE_READ(mm_of(task), exe_file)) : 0;
	struct task_event *event = RESERVE_EVENT(task_event);

	if (!event)
		return;
	fill_task(event, op, state, task);
	event->parent_task_id = forked_by(task);
	event->path_id = path_id;
	submit_event(event);
}

/* Makes the task a member, unless it is one; `op` is told of it. */
static __noinline int adopt(struct task_struct *task, __u32 op)
{
	struct task_state *state = bpf_task_storage_get(&task_states, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct found_space *space = NULL;
	__u64 ts = bpf_ktime_get_ns();

	if (!state) {
		__sync_fetch_and_add(&events_seen, 1);
		__sync_fetch_and_add(&events_lost, 1);
		return 0;
	}
	if (__sync_val_compare_and_swap(&state->claimed, 0, 1))
		return 0;
	if (mm_of(task)) {
		space = space_of(task);
		if (space) {
			state->mm_id = space->mm_id;
			state->mm = (__u64)mm_of(task);
		}
	}
	state->call_nr = CALL_NOT_SEEN_TO_BEGIN;
	state->entry_unseen = 1;
	state->waiting = 0;
	barrier();
	state->task_id = __sync_fetch_and_add(&last_task_id, 1) + 1;
	__sync_fetch_and_add(&generation, 1);
	tell_of(task, state, op);
	if (space)
		list_space(task, state, space, ts);
	return 1;
}

/* The task has left the recorded cgroup. */
static __always_inline void leave(struct task_struct *task, struct task_state *state)
{
	tell_of(task, state, TASK_LEAVE);
	bpf_task_storage_delete(&task_states, task);
	__sync_fetch_and_add(&generation, 1);
}

/*
 * The walk goes by number, and numbers wrap: a thread's may be lower than its process's, a child's than its parent's. Whom a task comes
 * from is told of first.
 */
static __always_inline void adopt_elder(struct task_struct *task)
{
	struct task_struct *elder = task->group_leader;

	if (!elder || elder->pid == task->pid)
		elder = task->real_parent;
	if (elder && !state_of(elder) && is_wanted(elder))
		adopt(elder, TASK_SNAPSHOT);
}

/* Lists the mappings of a member, if that is still to be done. A function of its own: its stack is not needed where tasks are adopted. */
static __noinline int list_again(struct task_struct *task, struct task_state *state)
{
	struct found_space *space;
	__u64 mm = state->mm;

	space = bpf_map_lookup_elem(&found_spaces, &mm);
	if (space && space->mm_id == state->mm_id)
		list_space(task, state, space, bpf_ktime_get_ns());
	return 0;
}

/* The walk: called for each task of the system. Each one found gives a byte, so that the recorder can pause there. */
static __always_inline void target_met(struct task_struct *task, struct seq_file *seq)
{
	struct task_state *state = state_of(task);
	char found = 1;
	__u32 op;

	recorder_tgid = bpf_get_current_task_btf()->tgid;
	if (!walked_ns)
		walked_ns = bpf_ktime_get_ns();
	if (!is_wanted(task)) {
		if (state && target_kind == TARGET_CGROUP && !(task->flags & PF_EXITING))
			leave(task, state);
		return;
	}
	if (!state) {
		adopt_elder(task);
		/* What came into the cgroup may have used something before. */
		op = is_new(task) && target_kind != TARGET_CGROUP ? TASK_FORK : TASK_SNAPSHOT;
		if (adopt(task, op))
			bpf_seq_write(seq, &found, sizeof(found));
		return;
	}
	list_again(task, state);
}

static __always_inline void target_moved(struct task_struct *task)
{
	struct task_state *state = state_of(task);
	bool wanted = recorder_tgid && is_wanted(task);

	__sync_fetch_and_add(&cgroup_moves, 1);
	if (wanted && !state)
		adopt(task, TASK_SNAPSHOT);
	else if (!wanted && state)
		leave(task, state);
}

/* A child belongs to a cgroup because it is in it, else because its parent does; or the walk would find it soon. */
static __always_inline void target_forked(struct task_struct *parent, struct task_struct *child)
{
	bool inherits = target_kind != TARGET_CGROUP || is_in_target_cgroup(child);

	if (inherits && state_of(parent))
		tree_forked(parent, child);
	else if (recorder_tgid && is_wanted(child))
		adopt(child, TASK_FORK);
}
