/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The record of a fault on a DAX file that crosses from the kernel to the
 * recorder; the Rust type is generated from it.
 */
#ifndef PAGELAB_DAX_H
#define PAGELAB_DAX_H

#define DAX_PMD 1
#define DAX_PTE 2

struct dax_event {
	__u64 ts;           /* CLOCK_MONOTONIC, ns */
	__u64 ino;
	__u64 addr;
	__u64 vm_start;
	__u64 vm_end;
	__u64 vm_flags;
	__u64 pgoff;
	__u64 max_pgoff;    /* pmd only */
	__u32 kind;
	__u32 task_id;
	__u32 dev;          /* the kernel's own encoding: major << 20 | minor */
	__u32 flags;        /* FAULT_FLAG_ */
	__u32 result;       /* vm_fault_reason of the running kernel */
	__u32 padding;
};

#endif
