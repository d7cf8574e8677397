/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Open files of the running task: which one a descriptor means, and what is
 * looked at of it in every system call.
 *
 * bpf_probe_read_kernel() costs some 10 ns, and a call looks at nine members:
 * half of what recording it would cost. Where the kernel lets a program say
 * what type an address has (bpf_rdonly_cast, 6.2), members are read by plain
 * loads, which the kernel makes safe: a load that faults gives 0.
 */

/* The word at an address. An address can only be said to be of a structure: any that begins with a word serves. */
static __always_inline __u64 word_at(__u64 address)
{
	__u64 word = 0;

	if (HAS_PLAIN_LOADS)
		return AS_KERNEL(struct timespec64, address)->tv_sec;
	bpf_probe_read_kernel(&word, sizeof(word), (void *)address);
	return word;
}

/* A member as a number, also where it is a pointer: the verifier refuses to calculate with those that it knows. */
#define MEMBER_WORD(type, address, member) word_at((address) + bpf_core_field_offset(type, member))

/* The file that a descriptor of the task means. */
static __always_inline struct file *file_of(struct task_struct *task, __s32 fd)
{
	struct fdtable *table = PLAIN(task)->files->fdt;
	struct file **slot;

	if (fd < 0 || (__u32)fd >= table->max_fds)
		return NULL;
	slot = table->fd + fd;
	return (struct file *)word_at((__u64)slot);
}

/* The same of any task, whose files are at this address. */
static __always_inline struct file *file_in(__u64 files, __s32 fd)
{
	__u64 table = MEMBER_WORD(struct files_struct, files, fdt);

	if (fd < 0 || (__u32)fd >= (__u32)MEMBER_WORD(struct fdtable, table, max_fds))
		return NULL;
	return (struct file *)word_at(MEMBER_WORD(struct fdtable, table, fd) + fd * sizeof(__u64));
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

