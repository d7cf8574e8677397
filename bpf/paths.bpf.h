/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Names of files. bpf_d_path() may not be called from tracepoints, so the
 * dentries are walked here, from the leaf through mount points to the root.
 * A file's name is sent when it is first met, and again when it has been
 * forgotten here or is so old that the recorder may forget it; later records
 * carry its number. Numbers count the names sent. They have 64 bits and never
 * come again.
 */

struct path_key {
	__u64 dentry;
	__u64 ino;
	__u32 dev;
	__u32 generation;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct path_key);
	__type(value, __u64);
} paths SEC(".maps");

/* The newest name's number. The recorder may set where numbering begins. */
__u64 last_path_id = 0;

/* The name is to be sent again before anything refers to it. */
static __always_inline bool is_old_name(__u64 path_id)
{
	return last_path_id - path_id > PATHS_KEPT / 2;
}

#define PATH_DEPTH 64

struct walk {
	struct path_event *event;
	struct dentry *dentry;
	struct mount *mount;
	__u32 len;
	__u32 done;
};

/* One step towards the root. A callback of bpf_loop() is verified once, an unrolled loop once per turn. */
static long walk_step(__u32 step, struct walk *walk)
{
	struct dentry *dentry = walk->dentry, *parent = BPF_CORE_READ(dentry, d_parent);
	struct mount *mount = walk->mount;
	__u32 len = walk->len;
	long copied;

	if (dentry == BPF_CORE_READ(mount, mnt.mnt_root) || dentry == parent) {
		struct mount *above = BPF_CORE_READ(mount, mnt_parent);

		if (above == mount) {
			walk->done = 1;
			return 1;
		}
		walk->dentry = BPF_CORE_READ(mount, mnt_mountpoint);
		walk->mount = above;
		return 0;
	}
	if (len >= PATH_BYTES)
		return 1;
	copied = bpf_probe_read_kernel_str(&walk->event->names[len & (PATH_BYTES - 1)], NAME_BYTES,
					   BPF_CORE_READ(dentry, d_name.name));
	if (copied <= 0)
		return 1;
	walk->len = len + copied;
	walk->dentry = parent;
	return 0;
}

/* Global, so that it is verified once and not in every program; it takes the file's address as a number for that. */
__noinline __u64 path_id_of(__u64 file_address)
{
	struct file *file = (struct file *)file_address;
	struct walk walk = {};
	struct path_key key = {};
	struct path_event *event;
	struct inode *inode;
	__u64 *known, id;

	if (!file)
		return 0;
	inode = BPF_CORE_READ(file, f_inode);
	key.dentry = (__u64)BPF_CORE_READ(file, f_path.dentry);
	key.ino = BPF_CORE_READ(inode, i_ino);
	key.dev = BPF_CORE_READ(inode, i_sb, s_dev);
	key.generation = BPF_CORE_READ(inode, i_generation);
	known = bpf_map_lookup_elem(&paths, &key);
	if (known && !is_old_name(*known))
		return *known;
	event = RESERVE_EVENT(path_event);
	if (!event)
		return 0;
	id = __sync_fetch_and_add(&last_path_id, 1) + 1;
	event->type = EVENT_PATH;
	event->path_id = id;
	event->ts = bpf_ktime_get_ns();
	event->ino = key.ino;
	event->dev = key.dev;
	event->generation = key.generation;
	event->mode = BPF_CORE_READ(inode, i_mode);
	bpf_probe_read_kernel_str(event->fs, sizeof(event->fs), BPF_CORE_READ(inode, i_sb, s_type, name));
	walk.event = event;
	walk.dentry = (struct dentry *)key.dentry;
	walk.mount = (void *)((char *)BPF_CORE_READ(file, f_path.mnt) - bpf_core_field_offset(struct mount, mnt));
	bpf_loop(PATH_DEPTH, walk_step, &walk, 0);
	event->truncated = !walk.done;
	event->len = walk.len;
	submit_event(event);
	bpf_map_update_elem(&paths, &key, &id, BPF_ANY);
	return id;
}
