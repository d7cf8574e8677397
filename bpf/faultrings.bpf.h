/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The rings of page faults (wire.h), one per CPU. The observer fills them; the
 * other object files that include this are given the same map by the recorder.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* CPUs; set before loading */
	__type(key, __u32);
	__type(value, struct fault_ring);
} fault_rings SEC(".maps");

static __always_inline struct fault_ring *fault_ring_here(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&fault_rings, &cpu);
}
