/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Names of files. bpf_d_path() may not be called from tracepoints, so the
 * dentries are walked here, from the leaf through mount points to the root.
 * Each file's name is sent once; later records carry its number.
 */

struct path_key {
	__u64 dentry;
	__u64 ino;
	__u64 dev;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct path_key);
	__type(value, __u32);
} paths SEC(".maps");

__u32 last_path_id = 0;

#define PATH_DEPTH 48

static __always_inline void walk_names(struct path_event *event, struct file *file)
{
	struct vfsmount *vfsmount = BPF_CORE_READ(file, f_path.mnt);
	struct dentry *dentry = BPF_CORE_READ(file, f_path.dentry);
	struct mount *mount =
		(void *)((char *)vfsmount - bpf_core_field_offset(struct mount, mnt));
	__u32 len = 0;
	int depth;

	for (depth = 0; depth < PATH_DEPTH; depth++) {
		struct dentry *parent = BPF_CORE_READ(dentry, d_parent);
		long copied;

		if (dentry == BPF_CORE_READ(mount, mnt.mnt_root) || dentry == parent) {
			struct mount *above = BPF_CORE_READ(mount, mnt_parent);

			if (above == mount) {
				event->len = len;
				return;
			}
			dentry = BPF_CORE_READ(mount, mnt_mountpoint);
			mount = above;
			continue;
		}
		if (len >= PATH_BYTES)
			break;
		copied = bpf_probe_read_kernel_str(&event->names[len & (PATH_BYTES - 1)], NAME_BYTES,
						   BPF_CORE_READ(dentry, d_name.name));
		if (copied <= 0)
			break;
		len += copied;
		dentry = parent;
	}
	event->truncated = 1;
	event->len = len;
}

static __noinline __u32 path_id_of(struct file *file)
{
	struct path_key key = {};
	struct path_event *event;
	struct inode *inode;
	__u32 *known, id;

	if (!file)
		return 0;
	inode = BPF_CORE_READ(file, f_inode);
	key.dentry = (__u64)BPF_CORE_READ(file, f_path.dentry);
	key.ino = BPF_CORE_READ(inode, i_ino);
	key.dev = BPF_CORE_READ(inode, i_sb, s_dev);
	known = bpf_map_lookup_elem(&paths, &key);
	if (known)
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
	event->truncated = 0;
	event->len = 0;
	walk_names(event, file);
	submit_event(event);
	bpf_map_update_elem(&paths, &key, &id, BPF_ANY);
	return id;
}
