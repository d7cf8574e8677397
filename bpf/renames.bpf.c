// SPDX-License-Identifier: GPL-2.0
/*
 * Where the kernel counts renames: the sequence number of rename_lock, which
 * rises by two whenever a dentry gets another name or another folder. The
 * observer asks it in every call on a file, instead of walking to the root.
 *
 * The variable has no address in /proc/kallsyms where only functions have
 * (CONFIG_KALLSYMS_ALL=n), so the recorder looks for it in the code of
 * d_move(), which increments it twice, and tries whether it counts a rename
 * (crates/observe/src/bpf/renames.rs). This program only reads.
 *
 * Needs: programs of type syscall (5.14), bpf_kallsyms_lookup_name() (5.16).
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

#define CODE_BYTES 512

/* What is looked at: an address, or where d_move() begins if that is 0. */
__u64 peek_at = 0;
__u8 peeked[CODE_BYTES] = {};

SEC("syscall")
int peek(void *ctx)
{
	static const char name[] = "d_move";
	__u64 at = peek_at;

	if (!at && bpf_kallsyms_lookup_name(name, sizeof(name), 0, &at))
		return 1;
	peek_at = at;
	return bpf_probe_read_kernel(peeked, sizeof(peeked), (void *)at) ? 2 : 0;
}
