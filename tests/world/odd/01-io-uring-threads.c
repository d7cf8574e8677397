// Reads a file by io_uring, with nothing but the kernel's header.
//
//     01-io-uring-threads FILE MODE COUNT BYTES [fresh] [wait|leave]
//
// MODE  n  the thread that submits reads                          (no other thread)
//       a  the kernel's worker threads read, by IOSQE_ASYNC       (iou-wrk-PID)
//       s  the kernel's submitting thread reads, by SQPOLL        (iou-sqp-PID)
// fresh    into memory that nobody has touched: whoever reads takes the faults; else again and again into one buffer
// wait     makes the ring and its threads, prints its pid and waits for a byte on standard input before it reads the COUNT pieces
// leave    a thread makes the ring and reads; the first thread has ended by then
//
// Prints "faults F user_us U system_us S", of itself by getrusage.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static int ring, file, mode, fresh, waits;
static long count, bytes;
static unsigned *sq_tail, *sq_mask, *sq_array, *sq_flags, *cq_head, *cq_tail, *cq_mask;
static struct io_uring_sqe *sqes;
static struct io_uring_cqe *cqes;

static void fail(const char *what) { perror(what); exit(2); }

static void open_ring(void)
{
	struct io_uring_params p = { .flags = mode == 's' ? IORING_SETUP_SQPOLL : 0, .sq_thread_idle = 1000 };
	char *sq, *cq;

	ring = syscall(SYS_io_uring_setup, 64, &p);
	if (ring < 0) fail("io_uring_setup");
	sq = mmap(0, p.sq_off.array + p.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
	cq = mmap(0, p.cq_off.cqes + p.cq_entries * sizeof(*cqes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_CQ_RING);
	sqes = mmap(0, p.sq_entries * sizeof(*sqes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
	if (sq == MAP_FAILED || cq == MAP_FAILED || sqes == MAP_FAILED) fail("mmap");
	sq_tail = (void *)(sq + p.sq_off.tail); sq_mask = (void *)(sq + p.sq_off.ring_mask);
	sq_array = (void *)(sq + p.sq_off.array); sq_flags = (void *)(sq + p.sq_off.flags);
	cq_head = (void *)(cq + p.cq_off.head); cq_tail = (void *)(cq + p.cq_off.tail);
	cq_mask = (void *)(cq + p.cq_off.ring_mask); cqes = (void *)(cq + p.cq_off.cqes);
}

static void read_piece(char *to, long number)
{
	unsigned tail = *sq_tail, flags = 0, submit = 1;
	struct io_uring_sqe *sqe = &sqes[tail & *sq_mask];

	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_READ;
	sqe->flags = mode == 'a' ? IOSQE_ASYNC : 0;
	sqe->fd = file;
	sqe->addr = (unsigned long)to;
	sqe->len = bytes;
	sqe->off = number * bytes % (1 << 20);
	sq_array[tail & *sq_mask] = tail & *sq_mask;
	__atomic_store_n(sq_tail, tail + 1, __ATOMIC_SEQ_CST);
	if (mode == 's') {
		submit = 0;
		if (__atomic_load_n(sq_flags, __ATOMIC_SEQ_CST) & IORING_SQ_NEED_WAKEUP)
			flags = IORING_ENTER_SQ_WAKEUP;
	}
	while (syscall(SYS_io_uring_enter, ring, submit, 1, flags | IORING_ENTER_GETEVENTS, 0, 0) < 0)
		;
	while (*cq_head == __atomic_load_n(cq_tail, __ATOMIC_ACQUIRE))
		;
	if (cqes[*cq_head & *cq_mask].res != bytes) { fprintf(stderr, "read: %d\n", cqes[*cq_head & *cq_mask].res); exit(3); }
	__atomic_store_n(cq_head, *cq_head + 1, __ATOMIC_RELEASE);
}

static void *reads(void *unused)
{
	long pieces = fresh ? count : 1;
	char *to, c;
	struct rusage u;

	(void)unused;
	open_ring();
	to = mmap(0, pieces * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (to == MAP_FAILED) fail("mmap");
	madvise(to, pieces * bytes, MADV_NOHUGEPAGE);
	if (waits) {
		/* One read into a page of its own, so that the worker is there. */
		static char first[1 << 20];
		read_piece(first, 0);
		printf("pid %d\n", getpid());
		fflush(stdout);
		if (read(0, &c, 1) != 1) exit(4);
	}
	for (long i = 0; i < count; i++)
		read_piece(to + (fresh ? i * bytes : 0), i);
	getrusage(RUSAGE_SELF, &u);
	printf("faults %ld user_us %ld system_us %ld\n", u.ru_minflt + u.ru_majflt, u.ru_utime.tv_sec * 1000000 + u.ru_utime.tv_usec,
	       u.ru_stime.tv_sec * 1000000 + u.ru_stime.tv_usec);
	fflush(stdout);
	return 0;
}

static void *reads_alone(void *unused)
{
	/* The first thread has ended by now, or will have soon. */
	usleep(50000);
	reads(unused);
	exit(0);
}

int main(int argc, char **argv)
{
	pthread_t thread;
	int leaves = 0;

	if (argc < 5) return 1;
	file = open(argv[1], O_RDONLY);
	if (file < 0) fail(argv[1]);
	mode = argv[2][0];
	count = atol(argv[3]);
	bytes = atol(argv[4]);
	for (int i = 5; i < argc; i++) {
		fresh |= !strcmp(argv[i], "fresh");
		waits |= !strcmp(argv[i], "wait");
		leaves |= !strcmp(argv[i], "leave");
	}
	if (leaves) {
		pthread_create(&thread, 0, reads_alone, 0);
		pthread_exit(0);
	}
	reads(0);
	return 0;
}
