/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The memory areas of an address space, one after the other.
 *
 * Newer kernels have an iterator for programs (6.7), which holds the lock. On
 * those before, which keep the areas in a maple tree already (6.1), the tree is
 * read here. No lock is held then: at exec and fork nobody else changes the tree
 * that is read; that of a task which runs may change meanwhile, and an area
 * that is cut or moved at that moment can be missed, or listed as it was.
 */

/* What is sent of an area. */
struct area {
	__u64 start, end, pgoff;
	unsigned long flags;
	struct file *file;
	struct mm_struct *mm;
};

extern int bpf_iter_task_vma_new(struct bpf_iter_task_vma *it, struct task_struct *task, __u64 addr) __ksym __weak;
extern struct vm_area_struct *bpf_iter_task_vma_next(struct bpf_iter_task_vma *it) __ksym __weak;
extern void bpf_iter_task_vma_destroy(struct bpf_iter_task_vma *it) __ksym __weak;

static __always_inline void read_area(struct area *area, struct vm_area_struct *vma)
{
	area->start = vma->vm_start;
	area->end = vma->vm_end;
	area->pgoff = vma->vm_pgoff;
	area->flags = vma->vm_flags;
	/* Read as a number, not followed as a pointer: that is what the function that names files takes. */
	area->file = BPF_CORE_READ(vma, vm_file);
	area->mm = PLAIN(vma)->vm_mm;
}

/* From an address alone, which the verifier does not know to be an area's. */
static __always_inline void read_area_at(struct area *area, struct vm_area_struct *vma)
{
	area->start = BPF_CORE_READ(vma, vm_start);
	area->end = BPF_CORE_READ(vma, vm_end);
	area->pgoff = BPF_CORE_READ(vma, vm_pgoff);
	area->flags = BPF_CORE_READ(vma, vm_flags);
	area->file = BPF_CORE_READ(vma, vm_file);
	area->mm = BPF_CORE_READ(vma, vm_mm);
}

/* An entry of the tree is a node if its lowest bits are 10 and it is no small number; a node's type lies above its flags. */
#define ENTRY_KIND 3
#define ENTRY_NODE 2
#define ENTRY_RESERVED 4096
#define NODE_TYPE_SHIFT 3
#define NODE_TYPE_MASK 15
#define NODE_MASK (~255ULL)
#define NODE_RANGE_64 2
#define NODE_ARANGE_64 3
#define RANGE_SLOTS 16
#define ARANGE_SLOTS 10
/* Three levels hold some 1600 areas at least, and four are more than max_map_count allows. */
#define TREE_LEVELS 5

/* What is found in the tree at an address: an area or none, and the last address for which that holds. */
struct found_area {
	__u64 vma;
	__u64 last;
};

static __always_inline bool is_node(__u64 entry)
{
	return (entry & ENTRY_KIND) == ENTRY_NODE && entry > ENTRY_RESERVED;
}

/* Two functions and not one with a choice: the compiler would merge the two relocations. */
static __noinline __u64 range_entry(__u64 node, __u32 at, bool is_slot)
{
	struct maple_range_64 *range = (void *)node;
	__u64 value = 0, *from;

	from = is_slot ? (__u64 *)&range->slot[0] : (__u64 *)&range->pivot[0];
	return bpf_probe_read_kernel(&value, sizeof(value), from + at) ? 0 : value;
}

static __noinline __u64 arange_entry(__u64 node, __u32 at, bool is_slot)
{
	struct maple_arange_64 *range = (void *)node;
	__u64 value = 0, *from;

	from = is_slot ? (__u64 *)&range->slot[0] : (__u64 *)&range->pivot[0];
	return bpf_probe_read_kernel(&value, sizeof(value), from + at) ? 0 : value;
}

static __always_inline __u64 node_entry(__u64 node, bool wide, __u32 at, bool is_slot)
{
	return wide ? range_entry(node, at, is_slot) : arange_entry(node, at, is_slot);
}

/* Global, so that it is verified once; `found` is never NULL. */
__noinline int find_area(__u64 root, __u64 addr, struct found_area *found)
{
	__u64 entry = root;

	if (!found)
		return 0;
	found->vma = 0;
	found->last = ~0ULL;
	for (int level = 0; level < TREE_LEVELS && is_node(entry); level++) {
		__u64 node = entry & NODE_MASK, type = entry >> NODE_TYPE_SHIFT & NODE_TYPE_MASK;
		bool wide = type != NODE_ARANGE_64;
		__u32 last = (wide ? RANGE_SLOTS : ARANGE_SLOTS) - 1, at;

		for (at = 0; at < last; at++) {
			__u64 pivot = node_entry(node, wide, at, false);

			/* Behind the last pivot of a node that is not full there are zeros: the rest belongs to the slot before. */
			if (at && !pivot)
				break;
			if (addr <= pivot) {
				found->last = pivot;
				break;
			}
		}
		entry = node_entry(node, wide, at, true);
		if (type < NODE_RANGE_64) {
			found->vma = is_node(entry) ? 0 : entry;
			return 1;
		}
	}
	return 0;
}

static __always_inline __u64 areas_of(struct mm_struct *mm)
{
	return (__u64)BPF_CORE_READ(mm, mm_mt.ma_root);
}

static __always_inline bool has_area_tree(void)
{
	return bpf_core_field_exists(((struct mm_struct *)0)->mm_mt);
}

/* The length of the area that begins at an address of the running task; 0 if none does. */
static __noinline __u64 length_at(__u64 addr)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct bpf_iter_task_vma it;
	struct vm_area_struct *vma;
	__u64 len = 0;

	if (!bpf_ksym_exists(bpf_iter_task_vma_new)) {
		struct found_area found = {};
		struct area area = {};

		if (!has_area_tree() || !find_area(areas_of(mm_of(task)), addr, &found) || !found.vma)
			return 0;
		read_area_at(&area, (void *)found.vma);
		return area.start == addr ? area.end - area.start : 0;
	}
	bpf_iter_task_vma_new(&it, task, addr);
	vma = bpf_iter_task_vma_next(&it);
	if (vma && vma->vm_start == addr)
		len = vma->vm_end - vma->vm_start;
	bpf_iter_task_vma_destroy(&it);
	return len;
}
