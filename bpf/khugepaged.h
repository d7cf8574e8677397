/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The record of what khugepaged and MADV_COLLAPSE did about a piece of memory;
 * the Rust type is generated from it.
 */
#ifndef PAGELAB_KHUGEPAGED_H
#define PAGELAB_KHUGEPAGED_H

enum collapse_flag {
	COLLAPSE_TRIED = 1,     /* else looked at and turned down */
	COLLAPSE_FILE = 2,
	COLLAPSE_SHMEM = 4,
	COLLAPSE_CALLED = 8,    /* by MADV_COLLAPSE */
	COLLAPSE_HAS_ADDR = 16,
	COLLAPSE_HAS_FILLED = 32,
	COLLAPSE_HAS_PGOFF = 64,
};

struct collapse_event {
	__u64 ts;               /* CLOCK_MONOTONIC, ns */
	__u64 addr;
	__u64 pgoff;
	__u64 ino;
	__u32 dev;              /* the kernel's own encoding: major << 20 | minor */
	__u32 task_id;
	__u32 mm_id;            /* 0: not known */
	__u32 flags;
	__u32 result;           /* scan_result of the running kernel */
	__u32 filled;
};

#endif
