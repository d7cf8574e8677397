/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The records that cross from the kernel to the recorder.
 *
 * This header is the one place that says what they look like; the Rust types
 * are generated from it (through the BTF of the object file). Three roads:
 *
 * - Faults go through one memory-mapped ring per CPU (struct fault_ring). At
 *   half a million faults a second a system call, a spin lock or a wake-up per
 *   record would be most of the cost, so there is none: the program writes the
 *   record where the recorder reads it.
 * - System calls go through a ring of the same kind (struct call_ring).
 * - Everything rare (tasks, mappings, file names) goes through one BPF ring
 *   buffer, which keeps the order between CPUs and takes records of any size.
 *
 * Times are CLOCK_MONOTONIC in ns. Ids count from 1; 0 means "none".
 */
#ifndef PAGELAB_WIRE_H
#define PAGELAB_WIRE_H

/* One page fault, 32 bytes: two to a cache line. */
struct fault_slot {
	__u64 ts;
	/* Bits 0..55 the address; bits 56..63 the low bits of the error code.
	 * User addresses end at bit 56 also with five-level page tables. */
	__u64 addr_error;
	__u64 ip;
	__u32 task_id;
	__u32 mm_id;
};

#define FAULT_ADDR_BITS 56
#define FAULT_ADDR_MASK ((1ULL << FAULT_ADDR_BITS) - 1)
#define FAULT_ERROR_USER (1U << 2)
/* The processor's SGX bit (15) travels as bit 7, which hardware leaves unused. */
#define FAULT_ERROR_SGX (1U << 15)
#define FAULT_ERROR_SGX_WIRE (1U << 7)

#define PT_REGS_WORDS 21

/*
 * The last fault of user space on this CPU, if a sample of the profile was about to fall due by a timer. A timer that expires
 * on the fault's way out, with interrupts off, is seen where they are switched on again: in user space, at the instruction that
 * faulted, before it runs again. Its registers are the fault's own then, and nothing else has them all.
 */
struct last_fault {
	__u64 due_ns;     /* faults from here on are kept; 0: none, nothing samples by a timer */
	__u64 task;       /* its task_struct; 0: none, or a sample has been told by it */
	__u64 regs[PT_REGS_WORDS];
	__u64 padding;
};

/*
 * The head of a CPU's ring; `slots` follow. Producer, consumer and cache of
 * the current task lie on cache lines of their own.
 *
 * A producer writes the slot at `produced`, then adds 1 to it: what lies below
 * is whole. There is one producer at a time: faults come with interrupts off,
 * and an NMI that faults (while it copies a user stack) does so with page
 * faults disabled and takes no slot. Should one ever want to, it finds `busy`
 * and is counted as lost. So neither counter needs an atomic operation.
 */
struct fault_ring {
	__u64 produced;
	__u64 busy;       /* a producer is at work */
	__u64 lost;       /* the ring was full, or busy */
	__u64 filtered;   /* page faults disabled: the access failed, nothing was mapped */
	__u64 counted;    /* counting only: faults seen, none recorded */
	__u64 producer_padding[3];

	__u64 consumed;   /* written by the recorder */
	__u64 consumer_padding[7];

	__u64 cached_task;
	__u64 cached_mm;
	__u64 cached_generation;
	__u32 cached_task_id;
	__u32 cached_mm_id;
	__u64 cache_padding[4];

	struct last_fault last;

	struct fault_slot slots[1];
};

/* System calls of x86-64 are numbered below. Those of 32-bit programs (i386) have numbers of their own, to which this is added. */
#define CALL_NUMBERS 512
/* All whose number is beyond: those that no kernel has, and those of x32. */
#define CALL_NR_OTHER (2 * CALL_NUMBERS)
#define CALL_KINDS (CALL_NR_OTHER + 1)
#define CALL_NR_OFF_CPU 0xfff
/* Beside the state of a time off the CPU: the kernel counted it as waiting for I/O. */
#define CALL_OFF_IOWAIT 0x80000000U

enum call_flags {
	CALL_WANTED = 1,          /* recorded */
	CALL_RETURNS_FD = 2,
	CALL_MOVES_POSITION = 4,  /* transfers at the file's position and moves it */
	CALL_SUMS_VECTOR = 16,    /* its second and third argument are an array of buffers with their lengths */
};

/* What the program must know of a call. */
struct call_info {
	__u8 args;    /* how many it takes */
	__u8 fd_arg;  /* which of them is the descriptor it works on; 6: none */
	__u8 flags;
	__u8 padding;
};

enum call_record_flags {
	CALL_HAS_POSITION = 1,
	CALL_HAS_OFF = 2,
	CALL_NEVER_RETURNED = 4,
	CALL_APPENDS = 8,         /* O_APPEND; told only if the position did not move by what was transferred */
	CALL_SHARED = 16,         /* others use the open file, too; told in the same case */
	CALL_HAS_AFTER = 32,      /* the position moved by something else than was transferred */
	CALL_HAS_REQUESTED = 64,  /* the lengths of its buffers could be read */
	CALL_HAS_FILE = 128,      /* the file that it works on, or has made a descriptor for, has a name */
	CALL_REFUSED = 256,       /* the kernel left it out: a filter or a tracer wanted that. Its beginning is not known, but its end */
	CALL_HAS_NUMBER = 512,    /* it is CALL_NR_OTHER */
};

#define CALL_WORDS_MAX 16
/* Buffers of a vector whose lengths are summed up; a call with more has no sum. */
#define CALL_VECTOR_MAX 16

/*
 * The ring of a CPU's system calls. A record is a sequence of words:
 *   when the call began;
 *   task id (32 bits), number of the call (12), of its arguments (4), call_record_flags (16);
 *   the result;
 *   duration in ns;
 *   its arguments;
 *   with CALL_HAS_NUMBER the kernel's number of it;
 *   with CALL_HAS_FILE the number of the file's name;
 *   with CALL_HAS_POSITION the file's position before, with CALL_HAS_AFTER also the one after;
 *   with CALL_HAS_OFF the ns off the CPU, and of these the ns asleep;
 *   with CALL_HAS_REQUESTED the bytes that its buffers hold together.
 * A time off the CPU is a record, too, with CALL_NR_OFF_CPU for the number: when the task left the CPU, the state it left in
 * for the result, the duration, and two arguments: who woke it, and the ns that it waited for a CPU. With
 * CALL_NEVER_RETURNED it was still off the CPU when recording ended.
 * Producer and consumer work as in struct fault_ring; positions count words.
 */
struct call_ring {
	__u64 produced;
	__u64 busy;
	__u64 recorded;   /* calls in the ring since the beginning */
	__u64 lost;       /* the ring was full, or busy */
	__u64 returned;   /* calls that were to be recorded: counted apart from the two above, which must add up to it */
	__u64 off_seen;   /* times off the CPU that were to be recorded */
	__u64 off_lost;   /* of these, the ones that found the ring full, or busy */
	__u64 producer_padding;

	__u64 consumed;   /* written by the recorder */
	__u64 consumer_padding[7];

	__u64 words[1];
};

enum event_type {
	EVENT_TASK = 1,
	EVENT_MAP = 2,
	EVENT_PATH = 3,
	EVENT_USED = 4,
};

enum task_op {
	TASK_FORK = 1,
	TASK_EXEC = 2,
	TASK_EXIT = 3,
	TASK_COMM = 4,
	TASK_SNAPSHOT = 5, /* was there when it was found */
	TASK_LEAVE = 6,    /* moved out of the recorded cgroup */
};

#define COMM_BYTES 16

struct task_event {
	__u32 type;
	__u32 op;
	__u64 ts;
	__u32 task_id;
	__u32 parent_task_id;
	__u32 mm_id;
	__u32 tid;
	__u32 pid;
	__s32 exit_code;
	__u64 path_id;      /* of the executable, at exec and when found */
	__u64 cgroup_id;
	__u64 min_flt;
	__u64 maj_flt;
	__u64 utime_ns;     /* counted in ticks */
	__u64 stime_ns;
	__u64 runtime_ns;   /* exact; utime and stime are scaled to it as the kernel does */
	char comm[COMM_BYTES];
};

enum map_op {
	MAP_OP_MMAP = 1,
	MAP_OP_MUNMAP,
	MAP_OP_MREMAP,
	MAP_OP_BRK,
	MAP_OP_MADVISE,
	MAP_OP_PROCESS_MADVISE,
	MAP_OP_MPROTECT,
	MAP_OP_MLOCK,
	MAP_OP_SHMAT,
	MAP_OP_SHMDT,
	MAP_OP_PRCTL_THP,
};

enum map_kind {
	MAP_KIND_CALL = 1,
	MAP_KIND_KERNEL,    /* made by exec: segments, stack, vdso */
	MAP_KIND_SNAPSHOT,  /* was there when recording began */
	MAP_KIND_FORK,      /* inherited */
};

enum map_special {
	MAP_PLAIN = 0,
	MAP_STACK,
	MAP_HEAP,
	MAP_VDSO,
};

struct map_event {
	__u32 type;
	__u32 op;
	__u64 ts;           /* when the call began */
	__u64 dur_ns;       /* until it returned; 0 for mappings that no call of the task made */
	__u32 task_id;
	__u32 mm_id;
	__u32 kind;
	__u32 special;
	__u64 addr;
	__u64 len;
	__u64 old_addr;
	__u64 offset;
	__u64 ino;
	__s64 ret;
	__u64 path_id;
	__u32 dev;          /* the kernel's own encoding: major << 20 | minor */
	__u32 prot;
	__u32 flags;
	__s32 fd;
	__u32 advice;
	__u32 has_stack;    /* it goes through the ring of stacks, with the same task and time */
};

#define PATH_BYTES 1024
#define LONG_PATH_BYTES 4096
#define NAME_BYTES 256
#define FS_BYTES 16

/*
 * The names that a program may still refer to: the last PATHS_KEPT that were sent. It sends a name again before it refers to
 * one that is half as old, so that a call which waits in a ring has time; this also bounds the names that the recorder keeps.
 */
enum name_limits {
	PATHS_KEPT = 1 << 18,
};

enum path_flags {
	PATH_OWN_NAME = 1,  /* it has no place in a folder: `names` is the one that the kernel gave it, or the kind of a namespace */
	PATH_UNKNOWN = 2,   /* it was renamed again and again while it was read */
};

/* What a call on a descriptor is looked at for (used.bpf.h). */
enum used_what {
	USED_MAKES_FD = 1,
	USED_READS = 2,
	USED_WRITES = 4,
	USED_SAFETY = 8,
};

/* A file system or block device, as the tasks of a mount namespace see it. */
struct used_key {
	__u64 mnt_ns;       /* inode number of the namespace */
	__u32 dev;          /* of the file system, in the kernel's own encoding: major << 20 | minor */
	__u32 rdev;         /* of the device, if the file is a block device; else 0 */
};

struct used_place {
	__u64 opens;
	__u64 read_bytes;
	__u64 written_bytes;
	__u64 syncs;
	__u32 pid;          /* who was there first */
	__u32 padding;
};

/* A place is met for the first time. */
struct used_event {
	__u32 type;
	__u32 pid;
	__u64 ts;
	struct used_key key;
};

/* The file that a name is of. */
struct path_head {
	__u32 type;
	__u32 flags;        /* path_flags */
	__u64 path_id;
	__u64 ts;
	__u64 ino;
	__u32 dev;
	__u32 truncated;
	__u32 len;
	__u32 mode;         /* type and permissions, as st_mode */
	__u32 generation;   /* tells the inodes apart that had the same number one after the other */
	__u32 padding;
	char fs[FS_BYTES];  /* type of the file system */
};

/* Names from the leaf up to the root, each ended by NUL. */
struct path_event {
	struct path_head head;
	char names[PATH_BYTES + NAME_BYTES];
};

/* The same of a path that is longer: told by its size. */
struct long_path_event {
	struct path_head head;
	char names[LONG_PATH_BYTES + NAME_BYTES];
};

#endif
