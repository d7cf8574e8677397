/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel structures that the programs read, cut down to the members used.
 * libbpf relocates every access to where the running kernel keeps the member
 * (CO-RE), so order and offsets here mean nothing, and one object file serves
 * all kernels that have these members. A member that not every kernel has is
 * read behind bpf_core_field_exists().
 */
#ifndef PAGELAB_KERNEL_H
#define PAGELAB_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

#define BPF_ANY 0
#define BPF_NOEXIST 1
#define BPF_F_NO_PREALLOC (1U << 0)
#define BPF_F_MMAPABLE (1U << 10)
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1
#define BPF_RB_NO_WAKEUP 1
#define BPF_F_USER_STACK (1ULL << 8)

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs {
	unsigned long r10, r9, r8, dx, cx, bx, si, di, orig_ax, ip, sp, bp, cs;
};

struct timespec64 {
	__s64 tv_sec;
};

struct file_system_type {
	const char *name;
};

struct super_block {
	__u32 s_dev;
	struct file_system_type *s_type;
};

struct inode {
	__u16 i_mode;
	struct super_block *i_sb;
	__u32 i_rdev;
	unsigned long i_ino;
	__u32 i_generation;
	void *i_private;
};

struct qstr {
	__u64 hash_len;
	const unsigned char *name;
};

struct seqcount {
	unsigned int sequence;
};

struct seqcount_spinlock {
	struct seqcount seqcount;
};

struct dentry_operations {
	void *d_dname;
};

struct dentry {
	struct seqcount_spinlock d_seq;
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
	const struct dentry_operations *d_op;
};

struct proc_ns_operations {
	const char *name;
};

struct ns_common {
	unsigned int inum;
	const struct proc_ns_operations *ops;
};

struct vfsmount {
	struct dentry *mnt_root;
};

struct mnt_namespace {
	struct ns_common ns;
	__u64 event;
};

struct nsproxy {
	struct mnt_namespace *mnt_ns;
};

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
	struct mnt_namespace *mnt_ns;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct fs_struct {
	struct path root;
};

typedef struct {
	__s64 counter;
} atomic_long_t;

typedef struct {
	atomic_long_t refcnt;
} file_ref_t;

typedef struct {
	int counter;
} atomic_t;

struct file {
	struct path f_path;
	struct inode *f_inode;
	__s64 f_pos;
	unsigned int f_flags, f_mode;
	/* One of them, by the age of the kernel; file_ref counts from 0 (6.13). */
	atomic_long_t f_count;
	file_ref_t f_ref;
};

/* A file of a file system that lies on others, opened on one of those for a mapping; its path is the one that was opened (6.8). */
struct backing_file {
	struct path user_path;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	atomic_t count;
	struct fdtable *fdt;
};

typedef struct {
	void *vdso;
} mm_context_t;

struct maple_tree {
	void *ma_root;
};

struct maple_range_64 {
	unsigned long pivot[15];
	void *slot[16];
};

struct maple_arange_64 {
	unsigned long pivot[9];
	void *slot[10];
};

struct mm_struct {
	struct maple_tree mm_mt; /* 6.1 */
	struct file *exe_file;
	unsigned long start_brk, brk, start_stack;
	mm_context_t context;
};

struct vm_area_struct {
	unsigned long vm_start, vm_end, vm_flags, vm_pgoff;
	struct file *vm_file;
	struct mm_struct *vm_mm;
};

struct thread_info {
	__u32 status;
};

struct kernfs_node {
	__u64 id;
};

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup_root {
	int hierarchy_id;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
	struct cgroup_root *root;
};

struct css_set {
	struct cgroup *dfl_cgrp;
	struct cgroup_subsys_state *subsys[1]; /* one per controller of the running kernel */
};

struct thread_struct {
	unsigned long fsbase;
};

struct seccomp {
	int mode;
};

struct signal_struct {
	unsigned int flags;
};

typedef struct {
	unsigned long sig[1];
} sigset_t;

struct sigpending {
	sigset_t signal;
};

struct sched_entity {
	__u64 sum_exec_runtime, nr_migrations;
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int flags;
	unsigned in_iowait : 1;
	int pid, tgid, exit_code, exit_state, pagefault_disabled;
	struct task_struct *real_parent, *group_leader;
	struct mm_struct *mm;
	struct files_struct *files;
	struct fs_struct *fs;
	struct nsproxy *nsproxy;
	struct css_set *cgroups;
	struct seccomp seccomp;
	unsigned int ptrace;
	struct signal_struct *signal;
	struct sigpending pending;
	struct sched_entity se;
	unsigned long min_flt, maj_flt, nvcsw, nivcsw;
	__u64 utime, stime, start_time;
	char comm[16];
	struct thread_struct thread;
};

struct linux_binprm {
	struct file *file;
};

struct seq_file {
	int unused;
};

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

/* What a perf_event program is given; these offsets are the user interface and not relocated. */
struct sampled {
	unsigned long regs[21];
	__u64 sample_period;
	__u64 addr;
};

/* Opaque to programs; the size is the kernel's. */
struct bpf_iter_task_vma {
	__u64 __opaque[1];
} __attribute__((aligned(8)));

#endif
