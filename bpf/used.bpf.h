/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the tree works on: file systems and block devices, and how many bytes
 * of each. They are seen where calls return that work on a descriptor.
 *
 * The first descriptors that a task's calls make are looked at, every call that
 * asks for data to be safe, and every transfer of USED_ALWAYS_BYTES and more;
 * of the others one in USED_ONE_IN, by chance, and it stands for as many. So
 * amounts are estimates, good for shares, and a short call costs the look at
 * its number. Submissions (io_uring, aio) show the descriptor they are made to,
 * not the files they are for: of these the opening tells. Calls of 32-bit
 * programs are not looked at.
 */

#define USED_ALWAYS_BYTES 65536
#define USED_ONE_IN 16
/* Descriptors of a task that are all looked at: a program opens its data files early. */
#define USED_FIRST_FDS 256
#define S_IFMT 0170000
#define S_IFBLK 0060000

/* What a call is looked at for, by its number; 0: nothing. Its descriptor stands in the first argument, or is what it returns. */
const volatile __u8 used_calls[CALL_NUMBERS] = {};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, struct used_key);
	__type(value, struct used_place);
} used_places SEC(".maps");

static __always_inline bool is_drawn(void)
{
	return bpf_get_prandom_u32() % USED_ONE_IN == 0;
}

/* Asked before whose call it is: short transfers are most calls of many programs, and finding the task takes longer. */
static __always_inline bool may_be_looked_at(__u8 what, long ret)
{
	return what & (USED_SAFETY | USED_MAKES_FD) || ret >= USED_ALWAYS_BYTES || is_drawn();
}

static __always_inline bool is_looked_at(struct task_state *state, __u8 what)
{
	if (!(what & USED_MAKES_FD))
		return true;
	if (state->fds_looked_at >= USED_FIRST_FDS)
		return is_drawn();
	state->fds_looked_at++;
	return true;
}

static __noinline struct used_place *place_used(struct task_struct *task, struct task_state *state, struct file *file)
{
	struct inode *inode = inode_of((__u64)file);
	struct used_place *place, fresh = {};
	struct used_event *event;
	struct used_key key = {};

	key.dev = BPF_CORE_READ(inode, i_sb, s_dev);
	if ((BPF_CORE_READ(inode, i_mode) & S_IFMT) == S_IFBLK)
		key.rdev = BPF_CORE_READ(inode, i_rdev);
	key.mnt_ns = BPF_CORE_READ(task, nsproxy, mnt_ns, ns.inum);
	place = bpf_map_lookup_elem(&used_places, &key);
	if (place)
		return place;
	fresh.pid = task->tgid;
	if (bpf_map_update_elem(&used_places, &key, &fresh, BPF_NOEXIST))
		return NULL;
	/* The recorder reads the mounts of the process while it lives. */
	event = RESERVE_EVENT(used_event);
	if (event) {
		__builtin_memset(event, 0, sizeof(*event));
		event->type = EVENT_USED;
		event->pid = task->tgid;
		event->ts = bpf_ktime_get_ns();
		event->key = key;
		submit_event(event);
	}
	return bpf_map_lookup_elem(&used_places, &key);
}

/* Runs after every call of every task: the number comes first, and most calls end there. */
static __always_inline void used_in_call(struct pt_regs *regs, long ret)
{
	__u64 nr = regs->orig_ax, bytes;
	struct task_struct *task;
	struct task_state *state;
	struct used_place *place;
	struct file *file;
	__u8 what;

	if (nr >= CALL_NUMBERS)
		return;
	what = used_calls[nr];
	if (!what || ret < 0 || !may_be_looked_at(what, ret))
		return;
	task = bpf_get_current_task_btf();
	state = state_of(task);
	if (!state || state->waiting || call_number(task, nr) != nr || !is_looked_at(state, what))
		return;
	file = file_of(task, what & USED_MAKES_FD ? ret : (__s32)regs->di);
	if (!file)
		return;
	place = place_used(task, state, file);
	if (!place)
		return;
	bytes = ret < USED_ALWAYS_BYTES ? ret * USED_ONE_IN : ret;
	if (what & USED_MAKES_FD)
		__sync_fetch_and_add(&place->opens, 1);
	if (what & USED_READS)
		__sync_fetch_and_add(&place->read_bytes, bytes);
	if (what & USED_WRITES)
		__sync_fetch_and_add(&place->written_bytes, bytes);
	if (what & USED_SAFETY)
		__sync_fetch_and_add(&place->syncs, 1);
}
