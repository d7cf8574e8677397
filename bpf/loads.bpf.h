/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How members of the kernel's structures are read. Every object file includes
 * this.
 *
 * bpf_probe_read_kernel() costs some 10 ns for each member. Where the kernel
 * lets a program say what type an address has (bpf_rdonly_cast, 6.2), members
 * are read by plain loads, which the kernel makes safe: a load that faults
 * gives 0.
 *
 * Such a pointer is also cheaper to verify. Where a program loads a pointer member through a
 * pointer that the verifier trusts (an argument, the running task), the verifier searches the
 * kernel's whole BTF, by name and up to four times, to see whether the member is trusted in turn
 * (btf_nested_type_is_trusted, 6.3). That takes 1.4 ms for each such load on each path, 142 ms in
 * all when a recording starts. So only pointers passed to helpers are loaded that way; those that
 * are compared or read from are loaded through PLAIN().
 */

extern void *bpf_rdonly_cast(const void *address, __u32 btf_id) __ksym __weak;

/* Whether the kernel has plain loads. Known before the program is verified, which drops the way not taken. */
#define HAS_PLAIN_LOADS bpf_ksym_exists(bpf_rdonly_cast)
/* `address` as a pointer to the kernel's own `type`, to be followed by plain loads. */
#define AS_KERNEL(type, address) ((type *)bpf_rdonly_cast((void *)(address), bpf_core_type_id_kernel(type)))
/* A trusted pointer as one to read from only. */
#define PLAIN(pointer) (HAS_PLAIN_LOADS ? AS_KERNEL(typeof(*(pointer)), pointer) : (pointer))

/* The task's address space, to compare or to read from. */
static __always_inline struct mm_struct *mm_of(struct task_struct *task)
{
	return PLAIN(task)->mm;
}
