// SPDX-License-Identifier: GPL-2.0
/*
 * Faults on DAX files, at their completion: which page table level was tried, and the result.
 *
 * The result is sent as the kernel has it; the recorder knows the names from
 * the running kernel's BTF, because the values differ between versions. A
 * kernel may try a fault twice (under the lock of the area, then under that
 * of the address space) and then says so twice.
 *
 * Needs: BTF of the kernel, raw tracepoints with BTF (5.5), the ring buffer
 * (5.8), and the fs_dax tracepoints (CONFIG_FS_DAX).
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "dax.h"
#include "loads.bpf.h"
#include "membership.bpf.h"

char LICENSE[] SEC("license") = "GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

enum fault_flag {
	FAULT_FLAG_WRITE = 1,
};

struct vm_fault {
	struct vm_area_struct *vma;
	unsigned long pgoff, address;
	enum fault_flag flags;
};

/* Before 5.13 it was no enumeration, which CO-RE takes for another member. */
struct vm_fault___before_5_13 {
	unsigned int flags;
};

#pragma clang attribute pop

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} dax_events SEC(".maps");

__u64 dax_seen = 0;
__u64 dax_lost = 0;

/* Named here only so that the generated Rust types hold it. */
const volatile struct dax_event *wire_types = NULL;

static __always_inline __u32 flags_of(struct vm_fault *vmf)
{
	struct vm_fault___before_5_13 *old = (void *)vmf;

	return bpf_core_field_exists(vmf->flags) ? vmf->flags : BPF_CORE_READ(old, flags);
}

static __always_inline int on_fault(__u32 kind, struct inode *inode, struct vm_fault *vmf, __u64 max_pgoff, __u32 result)
{
	struct task_state *state = current_member();
	struct vm_area_struct *area;
	struct dax_event *event;

	if (!state)
		return 0;
	__sync_fetch_and_add(&dax_seen, 1);
	event = bpf_ringbuf_reserve(&dax_events, sizeof(*event), 0);
	if (!event) {
		__sync_fetch_and_add(&dax_lost, 1);
		return 0;
	}
	/* Plain: pointers are followed, which is dear to verify otherwise (loads.bpf.h). */
	area = PLAIN(vmf)->vma;
	event->ts = bpf_ktime_get_ns();
	event->kind = kind;
	event->task_id = state->task_id;
	event->dev = PLAIN(inode)->i_sb->s_dev;
	event->flags = flags_of(vmf);
	event->ino = inode->i_ino;
	event->addr = vmf->address;
	event->vm_start = area->vm_start;
	event->vm_end = area->vm_end;
	event->vm_flags = area->vm_flags;
	event->pgoff = vmf->pgoff;
	event->max_pgoff = max_pgoff;
	event->result = result;
	event->padding = 0;
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/dax_pmd_fault_done")
int pmd_fault_done(unsigned long long *ctx)
{
	return on_fault(DAX_PMD, (struct inode *)ctx[0], (struct vm_fault *)ctx[1], ctx[2], ctx[3]);
}

SEC("tp_btf/dax_pte_fault_done")
int pte_fault_done(unsigned long long *ctx)
{
	return on_fault(DAX_PTE, (struct inode *)ctx[0], (struct vm_fault *)ctx[1], 0, ctx[2]);
}
