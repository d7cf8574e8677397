/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The records of block requests that cross from the kernel to the recorder;
 * the Rust types are generated from them. Times are CLOCK_MONOTONIC in ns.
 */
#ifndef PAGELAB_BLOCK_H
#define PAGELAB_BLOCK_H

/* What is known of a request in flight. */
struct block_request {
	__u64 accepted_ts;  /* by the block layer; 0 if that was not seen */
	__u64 issued_ts;    /* to the device; 0 before that */
	__u64 sector;
	__u32 bytes;
	__u32 dev;          /* of the whole disk, in the kernel's own encoding: major << 20 | minor */
	__u32 op;           /* enum req_op of the running kernel */
	__u32 merged;
	__u32 task_id;      /* 0: no task of the tree */
	__u32 own;          /* of the recorder */
};

/* A request that has completed. */
struct block_event {
	struct block_request request;
	__u64 completed_ts;
	__s32 error;        /* blk_status_t, or before 6.0 a negative errno */
	__u32 padding;
};

#endif
