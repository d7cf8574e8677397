/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Open files of the running task: which one a descriptor means, and what is
 * looked at of it in every system call.
 */
/*
 * Open files of the running task: which one a descriptor means, and what is
 * looked at of it in every system call.
 *
 * bpf_probe_read_kernel() costs some 10 ns, and a call looks at nine members:
 * half of what recording it would cost. Where the kernel lets a program say
 * what type an address has (bpf_rdonly_cast, 6.2), members are read by plain
 * loads, which the kernel makes safe: a load that faults gives 0.
 */

/* The file that a descriptor of the task means. */
static __always_inline struct file *file_of(struct task_struct *task, __s32 fd)
{
	struct fdtable *table = PLAIN(task)->files->fdt;
	struct file **slot, *file = NULL;

	if (fd < 0 || (__u32)fd >= table->max_fds)
		return NULL;
	slot = table->fd + fd;
	/* An address can only be said to be of a structure: any that begins with a word serves. */
	if (HAS_PLAIN_LOADS)
		return (struct file *)AS_KERNEL(struct timespec64, slot)->tv_sec;
	bpf_probe_read_kernel(&file, sizeof(file), slot);
	return file;
}

static __always_inline __u64 position_of(__u64 address)
{
	struct file *file = (struct file *)address;

	if (HAS_PLAIN_LOADS)
		return AS_KERNEL(struct file, address)->f_pos;
	return BPF_CORE_READ(file, f_pos);
}

static __always_inline struct inode *inode_of(__u64 address)
{
	struct file *file = (struct file *)address;

	if (HAS_PLAIN_LOADS)
		return AS_KERNEL(struct file, address)->f_inode;
	return BPF_CORE_READ(file, f_inode);
}

static __always_inline __u64 ino_of(struct inode *inode)
{
	if (HAS_PLAIN_LOADS)
		return AS_KERNEL(struct inode, inode)->i_ino;
	return BPF_CORE_READ(inode, i_ino);
}

static __always_inline __u32 generation_of(struct inode *inode)
{
	if (HAS_PLAIN_LOADS)
		return AS_KERNEL(struct inode, inode)->i_generation;
	return BPF_CORE_READ(inode, i_generation);
}
