// SPDX-License-Identifier: GPL-2.0
/*
 * The ends of page faults: every major one, and one in N of the minor ones.
 *
 * No tracepoint fires where a fault ends, but the kernel's software events for
 * minor and major faults do, once for each that was handled, with its address
 * and on its task. A program on these events, opened as sampling ones, runs
 * for as many of them as are asked for; the others cost what counting costs.
 * What was mapped is read from the page table: the entry is there by now.
 *
 * Tables are found through the kernel's map of all memory, whose place is
 * chosen at boot. The recorder finds it once, by looking for a page of its own
 * whose frame it knows (find_memory). Everything is read by calls that fail
 * where there is no memory, so that a table freed meanwhile does no harm.
 *
 * Needs: perf events with BPF programs (4.9), BTF of the kernel, task storage
 * (5.11), programs of type syscall (5.14) and bpf_find_vma() (5.17).
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "wire.h"
#include "details.h"
#include "loads.bpf.h"
#include "membership.bpf.h"
#include "faultrings.bpf.h"

char LICENSE[] SEC("license") = "GPL";

#define PAGE_SHIFT 12
#define TABLE_BITS 9
#define TABLE_SHIFT(level) (PAGE_SHIFT + TABLE_BITS * ((level) - 1))
#define ENTRY_PRESENT (1ULL << 0)
#define ENTRY_WRITABLE (1ULL << 1)
#define ENTRY_HUGE (1ULL << 7)
#define ENTRY_SPECIAL (1ULL << 9)
#define ENTRY_ADDRESS 0x000ffffffffff000ULL

#define VM_WRITE 0x2
#define VM_SHARED 0x8
#define VM_PFNMAP 0x400
#define VM_IO 0x4000
#define VM_HUGETLB 0x400000
#define S_DAX (1 << 13)

/* How far back in the ring the fault's slot is looked for. */
#define SLOTS_BACK 4
#define STEPS_MAX 512
#define STEP_BITS 30

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct mm_struct___tables {
	unsigned long *pgd;
};

struct inode___flags {
	unsigned int i_flags;
};

#pragma clang attribute pop

/* As in the observer, whose rings these are. */
const volatile __u32 ring_slot_mask = 0;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20); /* set before loading */
} details SEC(".maps");

__u64 details_seen = 0;
__u64 details_lost = 0;

/* Where the kernel maps all memory, found by find_memory(); 0: not known, so nothing is walked. */
__u64 memory_base = 0;
__u32 table_levels = 4;

/* What find_memory() looks for: a page with this frame begins with these words, and is at this address here. */
__u64 wanted_frame = 0;
__u64 wanted_words[2] = {};
__u64 wanted_addr = 0;
__u64 first_step = 0;
__u64 found_base = 0;
__u64 found_frame = 0;
__u32 found_level = 0;

/* Named here only so that the generated Rust types hold them. */
struct detail_types {
	struct fault_detail detail;
	struct task_state state;
	enum detail_fact fact;
};
const volatile struct detail_types *detail_types = NULL;

struct entry {
	__u64 value;
	__u32 level;        /* 1: of a page; 2, 3: of a huge page; 0: there is none */
};

/* The entry that maps `addr` in `mm`. */
static __always_inline struct entry entry_of(struct mm_struct *mm, __u64 addr, __u64 base, __u32 levels)
{
	struct mm_struct___tables *tables = (void *)mm;
	struct entry none = {}, found = {};
	__u64 table = (__u64)BPF_CORE_READ(tables, pgd);

#pragma unroll
	for (__u32 level = 5; level >= 1; level--) {
		__u64 at, value;

		if (level > levels)
			continue;
		at = table + ((addr >> TABLE_SHIFT(level)) & ((1 << TABLE_BITS) - 1)) * sizeof(value);
		if (bpf_probe_read_kernel(&value, sizeof(value), (void *)at))
			return none;
		if (!(value & ENTRY_PRESENT))
			return none;
		if (level == 1 || (level < 4 && value & ENTRY_HUGE)) {
			found.value = value;
			found.level = level;
			return found;
		}
		table = base + (value & ENTRY_ADDRESS);
	}
	return none;
}

static __always_inline bool is_wanted(__u64 base)
{
	__u64 words[2];

	return !bpf_probe_read_kernel(words, sizeof(words), (void *)(base + (wanted_frame << PAGE_SHIFT))) &&
	       words[0] == wanted_words[0] && words[1] == wanted_words[1];
}

/* Where find_memory() looks. */
struct search {
	__u64 top;
	__u64 base; /* 0 until it is found */
};

static long look_at_base(__u32 step, struct search *search)
{
	__u64 base = (search->top - first_step - step) << STEP_BITS;

	if (!is_wanted(base))
		return 0;
	search->base = base;
	return 1;
}

/*
 * Finds where all memory is mapped: below the caller's own top table by a
 * number of GiB, which is the grain in which the kernel moves it. By
 * bpf_loop(), because the verifier follows each turn of a plain loop: 38 ms.
 */
SEC("syscall")
int find_memory(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct mm_struct___tables *tables = (void *)mm_of(task);
	struct search search = { .top = (__u64)BPF_CORE_READ(tables, pgd) >> STEP_BITS };
	struct entry entry;

	bpf_loop(STEPS_MAX, look_at_base, &search, 0);
	found_base = search.base;
	if (!found_base)
		return 0;
	/* The top of the kernel's half lies lower with five levels of tables. */
	table_levels = found_base >> 48 == 0xffff ? 4 : 5;
	entry = entry_of(mm_of(task), wanted_addr, found_base, table_levels);
	found_level = entry.level;
	found_frame = (entry.value & ENTRY_ADDRESS) >> PAGE_SHIFT;
	return 0;
}

static long look_at_area(struct task_struct *task, struct vm_area_struct *vma, void *ctx)
{
	unsigned long flags = vma->vm_flags;
	struct file *file = PLAIN(vma)->vm_file;
	__u32 *facts = ctx, found = DETAIL_AREA;

	if (file) {
		struct inode___flags *inode = (void *)file->f_inode;

		found |= DETAIL_FILE;
		if (inode && BPF_CORE_READ(inode, i_flags) & S_DAX)
			found |= DETAIL_DAX;
	}
	if (flags & VM_WRITE)
		found |= DETAIL_WRITE_AREA;
	if (flags & VM_SHARED)
		found |= DETAIL_SHARED;
	if (flags & VM_HUGETLB)
		found |= DETAIL_HUGETLB;
	if (flags & (VM_PFNMAP | VM_IO))
		found |= DETAIL_DEVICE;
	*facts |= found;
	return 0;
}

static __always_inline __u32 facts_of(struct task_struct *task, __u64 addr)
{
	struct entry entry;
	__u32 facts = 0;

	if (!memory_base || !mm_of(task))
		return 0;
	entry = entry_of(mm_of(task), addr, memory_base, table_levels);
	if (!entry.level)
		return 0;
	facts = entry.level == 1 ? DETAIL_PTE : entry.level == 2 ? DETAIL_PMD : DETAIL_PUD;
	if (entry.value & ENTRY_WRITABLE)
		facts |= DETAIL_WRITABLE;
	if (entry.value & ENTRY_SPECIAL)
		facts |= DETAIL_SPECIAL;
	/* Somebody may hold the lock for writing: then the area stays unknown. */
	bpf_find_vma(task, addr, look_at_area, &facts, 0);
	return facts;
}

/* Mostly the task's last fault is the CPU's last, too. */
static __always_inline __u64 position_of_fault(__u32 cpu, __u32 task_id, __u64 addr)
{
	struct fault_ring *ring = bpf_map_lookup_elem(&fault_rings, &cpu);
	__u64 produced;

	if (!ring)
		return DETAIL_NO_POSITION;
	produced = ring->produced;
	for (__u32 back = 1; back <= SLOTS_BACK && back <= produced; back++) {
		struct fault_slot *slot = &ring->slots[(produced - back) & ring_slot_mask];

		if (slot->task_id == task_id && (slot->addr_error & FAULT_ADDR_MASK) == addr)
			return produced - back;
	}
	return DETAIL_NO_POSITION;
}

static __always_inline int ended(struct sampled *ctx, __u32 facts)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *state = state_of(task);
	__u64 now, addr = ctx->addr;
	struct fault_detail *detail;

	if (!state || still_waiting(state, task))
		return 0;
	now = bpf_ktime_get_ns();
	__sync_fetch_and_add(&details_seen, 1);
	detail = bpf_ringbuf_reserve(&details, sizeof(*detail), 0);
	if (!detail) {
		__sync_fetch_and_add(&details_lost, 1);
		return 0;
	}
	detail->ts = now;
	detail->addr = addr;
	detail->cpu = bpf_get_smp_processor_id();
	detail->task_id = state->task_id;
	detail->position = position_of_fault(detail->cpu, detail->task_id, addr);
	detail->facts = facts | facts_of(task, addr);
	detail->padding = 0;
	bpf_ringbuf_submit(detail, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("perf_event")
int minor_ended(struct sampled *ctx)
{
	return ended(ctx, 0);
}

SEC("perf_event")
int major_ended(struct sampled *ctx)
{
	return ended(ctx, DETAIL_MAJOR);
}
