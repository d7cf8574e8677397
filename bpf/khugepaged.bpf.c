// SPDX-License-Identifier: GPL-2.0
/*
 * Huge pages made of small ones: by the kernel's thread khugepaged, which goes
 * through memory, and by calls of MADV_COLLAPSE.
 *
 * A piece of memory is first scanned and then, if nothing prevents it, collapsed. Tracepoints fire
 * at the end of both, the inner one first; a collapse is reported once, by the inner one. Memory is
 * the tree's if the owner of the address space is a member, or the caller.
 *
 * Needs: BTF of the kernel, raw tracepoints with BTF (5.5), the ring buffer
 * (5.8), task storage in tracing programs (5.11), CONFIG_MEMCG for the owner.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "khugepaged.h"
#include "loads.bpf.h"
#include "membership.bpf.h"

char LICENSE[] SEC("license") = "GPL";

#define PAGE_SHIFT 12
#define PF_KTHREAD 0x00200000

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct folio {
	unsigned long index;
};

struct mm_struct___owned {
	struct task_struct *owner;
};

#pragma clang attribute pop

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} collapse_events SEC(".maps");

/* The report of a collapsing task on the piece so far: it does one at a time. */
struct piece {
	__u64 index;        /* of its last small page; counted as addresses in anonymous memory */
	__u32 filled;
	__u32 isolated;
	__u32 tried;
	__u32 padding;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct piece);
} pieces SEC(".maps");

__u64 collapses_seen = 0;
__u64 collapses_lost = 0;

/* Named here only so that the generated Rust types hold them. */
struct collapse_types {
	struct collapse_event event;
	struct task_state state;
	enum collapse_flag flag;
};
const volatile struct collapse_types *collapse_types = NULL;

static __always_inline struct task_state *member_of(struct mm_struct *mm, bool called)
{
	struct mm_struct___owned *owned = (void *)mm;
	struct task_struct *owner;
	struct task_state *state;

	if (called) {
		state = current_member();
		/* A process may ask for another's memory. */
		if (state && state->mm == (__u64)mm)
			return state;
	}
	if (!bpf_core_field_exists(owned->owner))
		return NULL;
	owner = owned->owner;
	if (!owner)
		return NULL;
	state = state_of(owner);
	return state && !still_waiting(state, owner) ? state : NULL;
}

/* Reports a piece of memory of `mm`; `piece` has the details, `file` is the mapped file. */
static __always_inline int tell(struct mm_struct *mm, __u32 flags, __u32 result, struct file *file, __u64 addr,
				__u64 pgoff, struct piece *piece)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct collapse_event *event;
	struct task_state *state;

	if (!(task->flags & PF_KTHREAD))
		flags |= COLLAPSE_CALLED;
	state = member_of(mm, flags & COLLAPSE_CALLED);
	if (!state)
		return 0;
	__sync_fetch_and_add(&collapses_seen, 1);
	event = bpf_ringbuf_reserve(&collapse_events, sizeof(*event), 0);
	if (!event) {
		__sync_fetch_and_add(&collapses_lost, 1);
		return 0;
	}
	__builtin_memset(event, 0, sizeof(*event));
	event->ts = bpf_ktime_get_ns();
	event->addr = addr;
	event->pgoff = pgoff;
	if (piece && piece->isolated) {
		event->addr = piece->index << PAGE_SHIFT;
		event->filled = piece->filled;
		flags |= COLLAPSE_HAS_ADDR | COLLAPSE_HAS_FILLED;
	}
	if (file) {
		event->dev = BPF_CORE_READ(file, f_inode, i_sb, s_dev);
		event->ino = BPF_CORE_READ(file, f_inode, i_ino);
	}
	event->task_id = state->task_id;
	event->mm_id = state->mm == (__u64)mm ? state->mm_id : 0;
	event->flags = flags;
	event->result = result;
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

static __always_inline __u32 current_tid(void)
{
	return bpf_get_current_task_btf()->pid;
}

static __always_inline void was_tried(void)
{
	struct piece piece = { .tried = 1 };
	__u32 tid = current_tid();

	bpf_map_update_elem(&pieces, &tid, &piece, BPF_ANY);
}

/* Scanned: reported unless the collapse was tried, which has reported it. */
static __always_inline int looked_at(struct mm_struct *mm, __u32 flags, __u32 result, struct file *file)
{
	__u32 tid = current_tid();
	struct piece *piece = bpf_map_lookup_elem(&pieces, &tid);
	bool tried = piece && piece->tried;

	bpf_map_delete_elem(&pieces, &tid);
	return tried ? 0 : tell(mm, flags, result, file, 0, 0, NULL);
}

SEC("tp_btf/mm_collapse_huge_page_isolate")
int isolated(unsigned long long *ctx)
{
	struct folio *folio = (void *)ctx[0];
	struct piece piece = { .filled = ctx[1], .isolated = 1 };
	__u32 tid = current_tid();

	if (!folio)
		return 0;
	piece.index = BPF_CORE_READ(folio, index);
	bpf_map_update_elem(&pieces, &tid, &piece, BPF_ANY);
	return 0;
}

SEC("tp_btf/mm_collapse_huge_page")
int collapsed(unsigned long long *ctx)
{
	__u32 tid = current_tid();
	struct piece *piece = bpf_map_lookup_elem(&pieces, &tid);

	tell((struct mm_struct *)ctx[0], COLLAPSE_TRIED, ctx[2], NULL, 0, 0, piece);
	was_tried();
	return 0;
}

SEC("tp_btf/mm_khugepaged_scan_pmd")
int scanned(unsigned long long *ctx)
{
	return looked_at((struct mm_struct *)ctx[0], 0, ctx[4], NULL);
}

SEC("tp_btf/mm_khugepaged_collapse_file")
int collapsed_file(unsigned long long *ctx)
{
	__u32 flags = COLLAPSE_TRIED | COLLAPSE_FILE | COLLAPSE_HAS_ADDR | COLLAPSE_HAS_PGOFF;

	if ((bool)ctx[4])
		flags |= COLLAPSE_SHMEM;
	tell((struct mm_struct *)ctx[0], flags, ctx[7], (struct file *)ctx[5], ctx[3], ctx[2], NULL);
	was_tried();
	return 0;
}

SEC("tp_btf/mm_khugepaged_scan_file")
int scanned_file(unsigned long long *ctx)
{
	return looked_at((struct mm_struct *)ctx[0], COLLAPSE_FILE, ctx[5], (struct file *)ctx[2]);
}
