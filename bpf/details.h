/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The record of a fault's end that crosses from the kernel to the recorder;
 * the Rust type is generated from it.
 */
#ifndef PAGELAB_DETAILS_H
#define PAGELAB_DETAILS_H

/* The fault's slot was not among the last ones of the ring. */
#define DETAIL_NO_POSITION (~0ULL)

enum detail_fact {
	DETAIL_MAJOR = 1,
	/* The entry that the walk ended at: its level, and its flags. None of them: the walk was not possible. */
	DETAIL_PTE = 1 << 1,
	DETAIL_PMD = 1 << 2,
	DETAIL_PUD = 1 << 3,
	DETAIL_WRITABLE = 1 << 4,
	DETAIL_SPECIAL = 1 << 5,
	/* The memory area. Without DETAIL_AREA nothing is known of it. */
	DETAIL_AREA = 1 << 6,
	DETAIL_FILE = 1 << 7,
	DETAIL_SHARED = 1 << 8,
	DETAIL_HUGETLB = 1 << 9,
	DETAIL_DEVICE = 1 << 10,   /* page frames that are no memory of the page allocator */
	DETAIL_DAX = 1 << 11,
	DETAIL_WRITE_AREA = 1 << 12, /* the program may write to it */
};

struct fault_detail {
	__u64 ts;           /* the end, CLOCK_MONOTONIC, ns */
	__u64 addr;
	__u64 position;     /* of the fault in the ring of its CPU */
	__u32 cpu;          /* where it ended */
	__u32 task_id;
	__u32 facts;
	__u32 padding;
};

#endif
