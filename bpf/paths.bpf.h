/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Names of files. bpf_d_path() may not be called from tracepoints, so the
 * dentries are walked here, from the leaf through mount points to the root, as
 * the kernel does for /proc/PID/fd.
 * A file's name is sent when it is first met, when it has changed, and again
 * when it has been forgotten here or is so old that the recorder may forget
 * it; later records carry its number. Numbers count the names sent. They have
 * 64 bits and never come again.
 */

struct path_key {
	__u64 dentry;
	__u64 name;         /* name_of() */
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
/* The recorder's root, where names begin for it; 0 if that is the root of its mount namespace. */
__u64 reader_root_dentry = 0;
__u64 reader_root_mount = 0;

/* The name is to be sent again before anything refers to it. */
static __always_inline bool is_old_name(__u64 path_id)
{
	return last_path_id - path_id > PATHS_KEPT / 2;
}

static __always_inline struct mount *mount_of(struct vfsmount *mnt)
{
	return (void *)((char *)mnt - bpf_core_field_offset(struct mount, mnt));
}

/* Names are shown as the recorder sees them, which may live in a root of its own (chroot). */
static __always_inline void note_reader_root(struct task_struct *recorder)
{
	struct dentry *dentry = BPF_CORE_READ(recorder, fs, root.dentry);
	struct mount *mount = mount_of(BPF_CORE_READ(recorder, fs, root.mnt));
	bool is_root = dentry == BPF_CORE_READ(mount, mnt.mnt_root) && mount == BPF_CORE_READ(mount, mnt_parent);

	reader_root_dentry = is_root ? 0 : (__u64)dentry;
	reader_root_mount = is_root ? 0 : (__u64)mount;
}

/* Where a name is on its way from the leaf to the root. */
struct name_walk {
	__u64 dentry;
	__u64 mount;
	__u64 root;         /* of the mount */
	__u64 name;         /* of what was passed */
	__u64 moving;       /* its lowest bit: something is */
};

/* How far name_of() goes without a call per step. */
#define NAME_STEPS 8
/* As many as a path of 4096 bytes has folders, and mounts. */
#define NAME_STEPS_MAX 4096

/* Stands for a mount in the name's number; no name is so long. */
#define MOUNT_PASSED (1ULL << 63)

static __always_inline __u64 mixed(__u64 name, __u64 part)
{
	name = (name ^ part) * 0x9e3779b97f4a7c15ULL;
	return name ^ name >> 32;
}

/* One step towards the root; false at the end. */
static __always_inline bool name_step(struct name_walk *walk)
{
	__u64 dentry = walk->dentry, mount = walk->mount, hash_len;
	__u32 sequence;

	if (dentry == walk->root) {
		walk->name = mixed(walk->name, MOUNT_PASSED);
		walk->dentry = MEMBER_WORD(struct mount, mount, mnt_mountpoint);
		walk->mount = MEMBER_WORD(struct mount, mount, mnt_parent);
		walk->root = MEMBER_WORD(struct mount, walk->mount, mnt.mnt_root);
		return walk->mount != mount;
	}
	hash_len = MEMBER_WORD(struct dentry, dentry, d_name.hash_len);
	sequence = MEMBER_WORD(struct dentry, dentry, d_seq);
	walk->dentry = MEMBER_WORD(struct dentry, dentry, d_parent);
	/* A name has less than 256 bytes: above its length there is room. */
	walk->name = mixed(walk->name, hash_len ^ (__u64)sequence << 40);
	walk->moving |= sequence;
	return walk->dentry != dentry;
}

static long name_step_beyond(__u32 step, struct name_walk *walk)
{
	return !name_step(walk);
}

/*
 * Tells apart all names that a file has had: a number made of all dentries on
 * the way through its mounts to the root. The kernel raises a dentry's sequence
 * number whenever it is moved to another name or folder, and a dentry in the
 * place of one that was freed has another name, or another inode (which the
 * caller compares). No text is read: it is asked for in every call. 0 while
 * something on the way is being moved: the sequence number is odd then.
 *
 * Global, so that it is verified once and not in every program.
 */
__noinline __u64 name_of(__u64 dentry, __u64 vfsmount)
{
	struct name_walk walk = { .dentry = dentry, .mount = vfsmount - bpf_core_field_offset(struct mount, mnt) };

	if (!dentry || !vfsmount)
		return 0;
	walk.root = MEMBER_WORD(struct vfsmount, vfsmount, mnt_root);
#pragma unroll
	for (int step = 0; step < NAME_STEPS; step++)
		if (!name_step(&walk))
			goto done;
	bpf_loop(NAME_STEPS_MAX, name_step_beyond, &walk, 0);
done:
	return walk.moving & 1 ? 0 : walk.name | 1;
}

/* The same of an open file that is no other's. */
static __always_inline __u64 name_of_file(__u64 address)
{
	return name_of(MEMBER_WORD(struct file, address, f_path.dentry), MEMBER_WORD(struct file, address, f_path.mnt));
}

/*
 * While neither of these changes no file has got another name, and nothing need
 * be walked: how often dentries were moved, of any file system, and the last
 * change of the mounts in the file's namespace.
 */
struct name_changes {
	__u64 renames;
	__u64 mounts;
};

/* Where the kernel counts renames (renames.bpf.c); 0: not known. */
__u64 renames_at = 0;

static __always_inline void count_name_changes(struct name_changes *changes, __u64 file)
{
	__u64 mount = MEMBER_WORD(struct file, file, f_path.mnt) - bpf_core_field_offset(struct mount, mnt);
	__u64 namespace = MEMBER_WORD(struct mount, mount, mnt_ns);

	/* Odd while something is being moved, and where nobody counts. */
	changes->renames = renames_at ? (__u32)word_at(renames_at) : 1;
	changes->mounts = namespace ? MEMBER_WORD(struct mnt_namespace, namespace, event) : 0;
}

static __always_inline bool has_no_name_changed(const struct name_changes *since, const struct name_changes *now)
{
	return !(now->renames & 1) && now->renames == since->renames && now->mounts == since->mounts;
}

/* The file as /proc shows it: of a file that is mapped on behalf of another, the other. */
struct named_file {
	struct vfsmount *mnt;
	struct dentry *dentry;
	struct inode *inode;
};

/* What has no place in a folder has a name of its own, which the kernel makes up: memfds, pipes, sockets, eventfds. */
static __always_inline bool has_own_name(const struct named_file *file)
{
	struct dentry *dentry = file->dentry;
	struct vfsmount *mnt = file->mnt;
	const struct dentry_operations *operations = BPF_CORE_READ(dentry, d_op);

	if (!operations || !BPF_CORE_READ(operations, d_dname))
		return false;
	/* The files of a namespace that is mounted somewhere have a path. */
	return dentry != BPF_CORE_READ(dentry, d_parent) || dentry != BPF_CORE_READ(mnt, mnt_root);
}

/* One of the two, by the age of the kernel, is FMODE_BACKING; the other has another meaning. */
#define FMODE_MAY_BACK (3U << 24)

/* A file that an overlay has opened on the file system below: on a mount that it has for itself, and nobody else. */
static __always_inline bool is_backing(const struct named_file *named, struct file *file)
{
	struct mount *mount = mount_of(named->mnt);

	return BPF_CORE_READ(file, f_mode) & FMODE_MAY_BACK && IS_ERRNO(BPF_CORE_READ(mount, mnt_ns)) && !has_own_name(named);
}

static __always_inline void find_named(struct named_file *named, struct file *file)
{
	struct backing_file *backing = (void *)file;

	named->mnt = BPF_CORE_READ(file, f_path.mnt);
	named->dentry = BPF_CORE_READ(file, f_path.dentry);
	named->inode = BPF_CORE_READ(file, f_inode);
	if (bpf_core_field_exists(backing->user_path) && is_backing(named, file)) {
		struct dentry *dentry = BPF_CORE_READ(backing, user_path.dentry);

		named->mnt = BPF_CORE_READ(backing, user_path.mnt);
		named->dentry = dentry;
		named->inode = BPF_CORE_READ(dentry, d_inode);
	}
}

#define PATH_DEPTH 64

/* A file whose name is being sent. */
struct naming {
	struct named_file file;
	struct path_key key;
	__u64 id;           /* the number under which it was sent; 0: not yet */
	__u64 is_lost;      /* there was no room */
	/* Where reading it is. */
	struct dentry *dentry;
	struct mount *mount;
	__u32 len;
	__u32 is_done;
	__u64 is_taken;
};

/*
 * Not on the stack, of which kernels before 6.13 have 512 bytes for all
 * functions on the way here. More than one of a processor's, because a program
 * can be interrupted by another.
 */
#define NAMINGS 4
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, NAMINGS);
	__type(key, __u32);
	__type(value, struct naming);
} namings SEC(".maps");

static __always_inline struct naming *begin_naming(void)
{
#pragma unroll
	for (__u32 at = 0; at < NAMINGS; at++) {
		__u32 key = at;
		struct naming *naming = bpf_map_lookup_elem(&namings, &key);

		if (naming && !__sync_val_compare_and_swap(&naming->is_taken, 0, 1))
			return naming;
	}
	return NULL;
}

static __always_inline void end_naming(struct naming *naming)
{
	__sync_fetch_and_and(&naming->is_taken, 0);
}

/* What a step of reading a name needs: the record, which the verifier knows on the stack only. */
struct walk {
	char *names;
	struct naming *at;
};

/* One step towards the root; `size` is a power of two, behind which one name has room. */
static __always_inline long walk_step(struct walk *to, __u32 size)
{
	struct naming *walk = to->at;
	struct dentry *dentry = walk->dentry, *parent = BPF_CORE_READ(dentry, d_parent);
	struct mount *mount = walk->mount;
	const unsigned char *name;
	__u32 len = walk->len;
	long copied;

	if (reader_root_dentry && (__u64)dentry == reader_root_dentry && (__u64)mount == reader_root_mount) {
		walk->is_done = true;
		return 1;
	}
	if (dentry == BPF_CORE_READ(mount, mnt.mnt_root)) {
		struct mount *above = BPF_CORE_READ(mount, mnt_parent);

		if (above == mount) {
			walk->is_done = true;
			return 1;
		}
		walk->dentry = BPF_CORE_READ(mount, mnt_mountpoint);
		walk->mount = above;
		return 0;
	}
	if (dentry == parent) {
		/* Outside its mount: moved out of the folder that is mounted, or opened by a handle. It has no path. */
		walk->len = 0;
		walk->is_done = true;
		return 1;
	}
	if (len >= size)
		return 1;
	name = BPF_CORE_READ(dentry, d_name.name);
	/* The compiler would leave the mask out, and the verifier before 6.2 forgets the bound of what is kept on the stack. */
	asm volatile("" : "+r"(len));
	copied = bpf_probe_read_kernel_str(&to->names[len & (size - 1)], NAME_BYTES, name);
	if (copied <= 0)
		return 1;
	walk->len = len + copied;
	walk->dentry = parent;
	return 0;
}

static long short_step(__u32 step, struct walk *walk)
{
	return walk_step(walk, PATH_BYTES);
}

static long long_step(__u32 step, struct walk *walk)
{
	return walk_step(walk, LONG_PATH_BYTES);
}

#define NSFS 0x7366736e /* "nsfs" */

static __always_inline void fill_path_head(struct path_head *head, const struct naming *naming)
{
	struct inode *inode = naming->file.inode;

	__builtin_memset(head, 0, sizeof(*head));
	head->type = EVENT_PATH;
	head->ts = bpf_ktime_get_ns();
	head->ino = naming->key.ino;
	head->dev = naming->key.dev;
	head->generation = naming->key.generation;
	head->mode = BPF_CORE_READ(inode, i_mode);
	bpf_probe_read_kernel_str(head->fs, sizeof(head->fs), BPF_CORE_READ(inode, i_sb, s_type, name));
}

static __always_inline void write_own_name(struct path_head *head, char *names, const struct named_file *file)
{
	struct dentry *dentry = file->dentry;
	const unsigned char *name = BPF_CORE_READ(dentry, d_name.name);
	struct inode *inode = file->inode;
	struct ns_common *ns;
	long copied;

	if (*(__u32 *)head->fs == NSFS) {
		ns = (struct ns_common *)BPF_CORE_READ(inode, i_private);
		name = (const unsigned char *)BPF_CORE_READ(ns, ops, name);
	}
	copied = bpf_probe_read_kernel_str(names, NAME_BYTES, name);
	head->flags |= PATH_OWN_NAME;
	head->len = copied > 0 ? copied : 0;
}

static __always_inline bool has_changed(const struct naming *naming)
{
	return name_of((__u64)naming->file.dentry, (__u64)naming->file.mnt) != naming->key.name;
}

/* What became of an attempt to send a name. */
enum sent {
	NAME_NOT_SENT,      /* there was no room */
	NAME_CHANGED,       /* while it was read: what was read may be neither name */
	NAME_TOO_LONG,
	NAME_SENT,
};

/* Sends what was read, unless it is to be read once more. `event` is not used after that. */
#define SEND_NAME(event, naming, walked, may_be_cut)                                   \
	({                                                                             \
		enum sent result = NAME_SENT;                                          \
		if (has_changed(naming))                                               \
			result = NAME_CHANGED;                                         \
		else if (!(walked) && !(may_be_cut))                                   \
			result = NAME_TOO_LONG;                                        \
		if (result == NAME_SENT) {                                             \
			(naming)->id = __sync_fetch_and_add(&last_path_id, 1) + 1;     \
			(event)->head.path_id = (naming)->id;                          \
			(event)->head.truncated = !(walked);                           \
			submit_event(event);                                           \
		} else {                                                               \
			__sync_fetch_and_add(&events_seen, -1);                        \
			bpf_ringbuf_discard(event, BPF_RB_NO_WAKEUP);                  \
		}                                                                      \
		result;                                                                \
	})

static __always_inline void begin_walk(struct naming *naming)
{
	naming->dentry = naming->file.dentry;
	naming->mount = mount_of(naming->file.mnt);
	naming->len = 0;
	naming->is_done = false;
}

/* Global, as the next one is, so that it is verified once and not for each way to it. `naming` is never NULL. */
__noinline int send_name(struct naming *naming)
{
	struct path_event *event = naming ? RESERVE_EVENT(path_event) : NULL;

	if (!event)
		return NAME_NOT_SENT;
	fill_path_head(&event->head, naming);
	begin_walk(naming);
	if (has_own_name(&naming->file)) {
		write_own_name(&event->head, event->names, &naming->file);
		naming->is_done = true;
	} else {
		struct walk walk = { .names = event->names, .at = naming };

		bpf_loop(PATH_DEPTH, short_step, &walk, 0);
		event->head.len = naming->len;
	}
	return SEND_NAME(event, naming, naming->is_done, false);
}

/* The same of one that has no room in an ordinary record. Longer ones than this holds have no path in /proc either. */
__noinline int send_long_name(struct naming *naming)
{
	struct long_path_event *event = naming ? RESERVE_EVENT(long_path_event) : NULL;
	struct walk walk = {};

	if (!event)
		return NAME_NOT_SENT;
	fill_path_head(&event->head, naming);
	begin_walk(naming);
	walk.names = event->names;
	walk.at = naming;
	bpf_loop(NAME_STEPS_MAX, long_step, &walk, 0);
	event->head.len = naming->len;
	return SEND_NAME(event, naming, naming->is_done, true);
}

/* The name did not hold still: the file has a number, but no name. */
static __always_inline void send_no_name(struct naming *naming)
{
	struct path_event *event = RESERVE_EVENT(path_event);

	if (!event)
		return;
	fill_path_head(&event->head, naming);
	naming->id = __sync_fetch_and_add(&last_path_id, 1) + 1;
	event->head.path_id = naming->id;
	event->head.flags = PATH_UNKNOWN;
	submit_event(event);
}

/* Whether it need not be tried once more. */
static __always_inline bool attempt_to_name(struct naming *naming)
{
	int sent;
	__u64 *known;

	naming->key.name = name_of((__u64)naming->file.dentry, (__u64)naming->file.mnt);
	if (!naming->key.name)
		return false;
	known = bpf_map_lookup_elem(&paths, &naming->key);
	if (known && !is_old_name(*known)) {
		naming->id = *known;
		return true;
	}
	sent = send_name(naming);
	if (sent == NAME_TOO_LONG)
		sent = send_long_name(naming);
	if (sent == NAME_SENT)
		bpf_map_update_elem(&paths, &naming->key, &naming->id, BPF_ANY);
	naming->is_lost = sent == NAME_NOT_SENT;
	return sent != NAME_CHANGED;
}

/*
 * A rename takes some hundred ns, and so does reading a name. No loop: before 6.2
 * the verifier takes none whose last instruction falls through to its first.
 */
static __always_inline bool try_to_name(struct naming *naming)
{
	return attempt_to_name(naming) || attempt_to_name(naming) || attempt_to_name(naming) || attempt_to_name(naming) ||
	       attempt_to_name(naming) || attempt_to_name(naming) || attempt_to_name(naming) || attempt_to_name(naming);
}

/* Global, so that it is verified once and not in every program; it takes the file's address as a number for that. */
__noinline __u64 path_id_of(__u64 file_address)
{
	struct naming *naming;
	struct inode *inode;
	__u64 id;

	if (!file_address)
		return 0;
	naming = begin_naming();
	if (!naming) {
		__sync_fetch_and_add(&events_seen, 1);
		__sync_fetch_and_add(&events_lost, 1);
		return 0;
	}
	naming->id = 0;
	naming->is_lost = 0;
	find_named(&naming->file, (struct file *)file_address);
	inode = naming->file.inode;
	naming->key.dentry = (__u64)naming->file.dentry;
	naming->key.ino = BPF_CORE_READ(inode, i_ino);
	naming->key.dev = BPF_CORE_READ(inode, i_sb, s_dev);
	naming->key.generation = BPF_CORE_READ(inode, i_generation);
	try_to_name(naming);
	if (!naming->id && !naming->is_lost)
		send_no_name(naming);
	id = naming->id;
	end_naming(naming);
	return id;
}
