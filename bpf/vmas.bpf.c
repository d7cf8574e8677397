// SPDX-License-Identifier: GPL-2.0
/*
 * The memory areas of a process with their flags: what smaps prints as VmFlags, and without the walk through the page tables that
 * smaps makes for its sums. While smaps is made of an area the process can map and unmap nothing (119 ms with 14 GiB of small
 * pages); this looks at one area after the other and gives way as soon as somebody waits.
 *
 * Needs: BTF of the kernel, iterators over the areas of one task (6.1).
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "GPL";

#define VM_HUGETLB 0x00400000ULL

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct super_block___vmas {
	unsigned long s_blocksize;
};

struct bpf_iter__task_vma {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	struct vm_area_struct *vma;
};

#pragma clang attribute pop

/* What is read of an area: four words. */
struct vma_words {
	__u64 start;
	__u64 end;
	__u64 flags;
	__u64 page_bytes;   /* of a page of its hugetlb pool; 0: it has none */
};

SEC("iter/task_vma")
int list_vmas(struct bpf_iter__task_vma *ctx)
{
	struct vm_area_struct *vma = ctx->vma;
	struct vma_words words = {};
	struct super_block *sb;

	if (!vma)
		return 0;
	words.start = BPF_CORE_READ(vma, vm_start);
	words.end = BPF_CORE_READ(vma, vm_end);
	words.flags = BPF_CORE_READ(vma, vm_flags);
	if (words.flags & VM_HUGETLB) {
		sb = BPF_CORE_READ(vma, vm_file, f_inode, i_sb);
		words.page_bytes = BPF_CORE_READ((struct super_block___vmas *)sb, s_blocksize);
	}
	bpf_seq_write(ctx->meta->seq, &words, sizeof(words));
	return 0;
}
