// SPDX-License-Identifier: GPL-2.0
/*
 * Requests of the block layer: when each was accepted, issued to the device
 * and completed.
 *
 * A request is followed in a hash map under its address, which is its own
 * while it is in flight, and sent as one record when it completes. What never
 * completes stays in the map, where the recorder finds it at the end.
 *
 * The submitter is the task that ran when the block layer accepted the request (block_io_start);
 * requests that the kernel makes by itself (flushes) are first seen when they are issued. Data that
 * a task has only written into the page cache is submitted by kernel threads: it belongs to no
 * task.
 *
 * Now and then no program is called for a completion (seen while others came
 * to the same tracepoint or left it). That is noticed when the request's
 * address begins another life, and counted as lost.
 *
 * Needs: BTF of the kernel, raw tracepoints with BTF (5.5), the ring buffer
 * (5.8). Kernels before 6.5 have no block_io_start: there the first piece of
 * the request is noted when a request is allocated for it (block_getrq), and
 * found again in the request when that is issued.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "block.h"
#include "loads.bpf.h"
#include "membership.bpf.h"

char LICENSE[] SEC("license") = "GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct gendisk {
	int major, first_minor;
};

struct request_queue {
	struct gendisk *disk;
};

struct bio {
	struct bio *bi_next;
};

struct request {
	struct request_queue *q;
	__u32 cmd_flags, __data_len;
	__u64 __sector;
	struct bio *bio;
};

/* Before 5.15 the disk was the request's. */
struct request___before_5_15 {
	struct gendisk *rq_disk;
};

#pragma clang attribute pop

#define REQ_OP_MASK 0xff
/* Longest list of bios that is counted; a device takes fewer pieces in one request. */
#define MAX_BIOS 512

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct block_request);
} requests SEC(".maps");

/* Pieces for which a request was allocated, by their address. Those that never are the first of an issued request are pushed out. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct block_request);
} accepted_bios SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 2 << 20);
} block_events SEC(".maps");

/* The recorder's own requests are left out. */
const volatile __u32 recorder_pid = 0;

/* Requests that were issued and have ended one way or another. */
__u64 block_seen = 0;
/* Of these, the ones that found no room. */
__u64 block_lost = 0;
/* Of these, the recorder's own. */
__u64 block_filtered = 0;
/* Requests that ended without being issued; not among block_seen. */
__u64 block_not_issued = 0;

/* Named here only so that the generated Rust types hold it. */
const volatile struct block_event *wire_types = NULL;

static __always_inline __u32 submitter(void)
{
	struct task_state *state = current_member();

	return state ? state->task_id : 0;
}

static __always_inline bool by_recorder(void)
{
	return bpf_get_current_pid_tgid() >> 32 == recorder_pid;
}

static __always_inline void count_lost(void)
{
	__sync_fetch_and_add(&block_seen, 1);
	__sync_fetch_and_add(&block_lost, 1);
}

static __always_inline void begin(struct block_request *fresh, bool is_known_from_start)
{
	fresh->task_id = submitter();
	fresh->own = by_recorder();
	fresh->accepted_ts = is_known_from_start ? bpf_ktime_get_ns() : 0;
}

/* Begins a new life of the request at this address. */
static __always_inline long accept(__u64 key, bool is_known_from_start)
{
	struct block_request fresh = {}, *before = bpf_map_lookup_elem(&requests, &key);

	/* Nobody saw how its life before ended. */
	if (before && before->issued_ts)
		count_lost();
	begin(&fresh, is_known_from_start);
	return bpf_map_update_elem(&requests, &key, &fresh, BPF_ANY);
}

/* A request that is first seen when it is issued: made by the kernel itself, or in a kernel without block_io_start. */
static __always_inline void accept_at_issue(__u64 key, struct request *rq)
{
	__u64 bio = (__u64)rq->bio;
	struct block_request *noted = bio ? bpf_map_lookup_elem(&accepted_bios, &bio) : NULL;

	if (!noted) {
		accept(key, false);
		return;
	}
	bpf_map_update_elem(&requests, &key, noted, BPF_ANY);
	bpf_map_delete_elem(&accepted_bios, &bio);
}

static __always_inline __u32 device_of(struct request *rq)
{
	struct gendisk *disk;

	if (bpf_core_field_exists(rq->q->disk)) {
		disk = rq->q->disk;
	} else {
		struct request___before_5_15 *old = (void *)rq;

		disk = BPF_CORE_READ(old, rq_disk);
	}
	return (__u32)BPF_CORE_READ(disk, major) << 20 | ((__u32)BPF_CORE_READ(disk, first_minor) & 0xfffff);
}

/* The bios beyond the first came by merging. */
static __always_inline __u32 merged_into(struct request *rq)
{
	struct bio *bio = rq->bio;
	__u32 bios = 0;

	for (int i = 0; i < MAX_BIOS && bio; i++) {
		bios++;
		bio = bio->bi_next;
	}
	return bios ? bios - 1 : 0;
}

SEC("tp_btf/block_io_start")
int io_start(unsigned long long *ctx)
{
	/* No room: block_rq_issue finds nothing and counts it. */
	accept(ctx[0], true);
	return 0;
}

/* With block_io_start this program is not loaded. */
SEC("tp_btf/block_getrq")
int getrq(unsigned long long *ctx)
{
	struct block_request fresh = {};
	__u64 bio = ctx[0];

	begin(&fresh, true);
	bpf_map_update_elem(&accepted_bios, &bio, &fresh, BPF_ANY);
	return 0;
}

SEC("tp_btf/block_rq_issue")
int rq_issue(unsigned long long *ctx)
{
	struct request *rq = (struct request *)ctx[0];
	__u64 key = ctx[0];
	struct block_request *request = bpf_map_lookup_elem(&requests, &key);

	if (!request) {
		accept_at_issue(key, rq);
		request = bpf_map_lookup_elem(&requests, &key);
	}
	if (!request) {
		count_lost();
		return 0;
	}
	request->sector = rq->__sector;
	request->bytes = rq->__data_len;
	request->op = rq->cmd_flags & REQ_OP_MASK;
	request->dev = device_of(rq);
	request->merged = merged_into(rq);
	request->issued_ts = bpf_ktime_get_ns();
	return 0;
}

/* It waits in the queue again; the next issue is the one that counts. */
SEC("tp_btf/block_rq_requeue")
int rq_requeue(unsigned long long *ctx)
{
	__u64 key = ctx[0];
	struct block_request *request = bpf_map_lookup_elem(&requests, &key);

	if (request)
		request->issued_ts = 0;
	return 0;
}

/* The request was merged into another, which carries its bios from now on. */
SEC("tp_btf/block_rq_merge")
int rq_merge(unsigned long long *ctx)
{
	__u64 key = ctx[0];

	bpf_map_delete_elem(&requests, &key);
	return 0;
}

static __always_inline void send(struct block_request *request, __s32 error)
{
	struct block_event *event;
	__u64 now = bpf_ktime_get_ns();

	__sync_fetch_and_add(&block_seen, 1);
	if (request->own) {
		__sync_fetch_and_add(&block_filtered, 1);
		return;
	}
	event = bpf_ringbuf_reserve(&block_events, sizeof(*event), 0);
	if (!event) {
		__sync_fetch_and_add(&block_lost, 1);
		return;
	}
	event->request = *request;
	event->completed_ts = now;
	event->error = error;
	event->padding = 0;
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

SEC("tp_btf/block_rq_complete")
int rq_complete(unsigned long long *ctx)
{
	struct request *rq = (struct request *)ctx[0];
	__s32 error = ctx[1];
	__u32 bytes = ctx[2];
	__u64 key = ctx[0];
	struct block_request *request = bpf_map_lookup_elem(&requests, &key);

	if (!request)
		return 0;
	/* A part of it; the rest is still to come. */
	if (!error && bytes < rq->__data_len)
		return 0;
	/* A flush without data is carried out by another request, of the kernel's own. */
	if (request->issued_ts)
		send(request, error);
	else
		__sync_fetch_and_add(&block_not_issued, 1);
	bpf_map_delete_elem(&requests, &key);
	return 0;
}
