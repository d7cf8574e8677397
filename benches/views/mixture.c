/* Spends time in six ways, an amount of each that is asked for, and says what each really took.
 *
 *	mixture DIR SPIN_US FAULT_PAGES READ_KIB FSYNCS WAIT_US THROTTLE_MS [GROUP]
 *
 * in 200 rounds, in which the six take turns: spinning, touching fresh memory, reading a cached file, writing 4 KiB and fsync,
 * waiting for a thread that sleeps, and spinning in GROUP, a cgroup with a quota. Amounts are of the whole run; DIR is on a disk.
 * Prints a line of JSON: ns of each by rdtsc. What the program does itself counts as spinning: the touching without the faults,
 * and being on a CPU in GROUP. Waiting counts for as long as the other thread was to sleep, and beyond that as waking.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

enum { ROUNDS = 200, PAGE = 4096, FILE_BYTES = 1 << 20 };
enum way { SPIN, FAULTS, READS, FSYNC, WAIT, THROTTLED, WAYS, WAKING = WAYS, NAMES };
static const char *const names[NAMES] = { "spin", "faults", "reads", "fsync", "wait", "throttled", "waking" };

static double spent[NAMES]; /* ns */
static double ns_per_cycle;
static char *program;

static void give_up(const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", program, what, strerror(errno));
	exit(1);
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

/* 50 ms of both clocks. */
static void calibrate(void)
{
	uint64_t ns = clock_ns(CLOCK_MONOTONIC_RAW), cycles = __rdtsc(), now;

	while ((now = clock_ns(CLOCK_MONOTONIC_RAW)) - ns < 50000000)
		;
	ns_per_cycle = (double)(now - ns) / (__rdtsc() - cycles);
}

/* The part of an amount that is due in this round. */
static long due(long amount, int round)
{
	return amount * (round + 1) / ROUNDS - amount * round / ROUNDS;
}

static void spin(long us)
{
	uint64_t end = __rdtsc() + us * 1000 / ns_per_cycle;

	while (__rdtsc() < end)
		;
}

enum { MOST = 1024, OTHERS = 8192 };

static char *pages_of(long pages)
{
	char *memory = mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		give_up("mmap");
	madvise(memory, pages * PAGE, MADV_NOHUGEPAGE);
	return memory;
}

static void touch_each(char *memory, long pages)
{
	for (long i = 0; i < pages; i++)
		((volatile char *)memory)[i * PAGE] = 1;
}

/* What the instruction that touches a page takes where the page is there, ns. A fault leaves nothing of the page table cached and
 * the pipeline empty; so do other pages, and a fence behind each, whose own cost is taken off. */
static double touch_ns(char *memory)
{
	enum { PASSES = 20 };
	char *others = pages_of(OTHERS);
	uint64_t begin, cycles = 0;

	touch_each(memory, MOST);
	for (int pass = 0; pass < PASSES; pass++) {
		touch_each(others, OTHERS);
		begin = __rdtsc();
		for (long i = 0; i < MOST; i++) {
			((volatile char *)memory)[i * PAGE] = 1;
			_mm_mfence();
		}
		cycles += __rdtsc() - begin;
		begin = __rdtsc();
		for (long i = 0; i < MOST; i++)
			_mm_mfence();
		cycles -= __rdtsc() - begin;
	}
	munmap(others, (long)OTHERS * PAGE);
	madvise(memory, MOST * PAGE, MADV_DONTNEED);
	return cycles * ns_per_cycle / (PASSES * MOST);
}

static void touch(long pages)
{
	static char *memory;
	static double each_ns;

	if (!memory) {
		memory = pages_of(MOST);
		each_ns = touch_ns(memory);
	}
	spent[SPIN] += pages * each_ns;
	spent[FAULTS] -= pages * each_ns;
	for (; pages > 0; pages -= MOST) {
		long now = pages < MOST ? pages : MOST;

		touch_each(memory, now);
		madvise(memory, now * PAGE, MADV_DONTNEED);
	}
}

static void read_cached(int fd, long kib)
{
	static char buffer[FILE_BYTES];

	for (; kib > 0; kib -= FILE_BYTES >> 10)
		if (pread(fd, buffer, kib < FILE_BYTES >> 10 ? kib << 10 : FILE_BYTES, 0) < 0)
			give_up("pread");
}

static void sync_file(int fd, long times)
{
	static char block[PAGE];

	for (; times > 0; times--)
		if (pwrite(fd, block, PAGE, 0) != PAGE || fsync(fd))
			give_up("fsync");
}

/* What the other thread is to sleep, us; it sets it back to 0 when it has. */
static _Atomic int asked_us;

static void *sleeper(void *unused)
{
	prctl(PR_SET_TIMERSLACK, 1);
	for (;;) {
		int us = atomic_load(&asked_us);

		if (!us) {
			syscall(SYS_futex, &asked_us, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
			continue;
		}
		usleep(us);
		atomic_store(&asked_us, 0);
		syscall(SYS_futex, &asked_us, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
	}
	return unused;
}

static void wait_for_sleeper(long us)
{
	if (!us)
		return;
	atomic_store(&asked_us, us);
	syscall(SYS_futex, &asked_us, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
	while (atomic_load(&asked_us))
		syscall(SYS_futex, &asked_us, FUTEX_WAIT_PRIVATE, us, 0, 0, 0);
	spent[WAKING] -= us * 1000;
	spent[WAIT] += us * 1000;
}

static void enter(const char *group)
{
	char path[4096];
	int fd;

	/* One thread where groups hold threads (version 1), else the process. */
	snprintf(path, sizeof(path), "%s/tasks", group);
	fd = open(path, O_WRONLY);
	if (fd < 0) {
		snprintf(path, sizeof(path), "%s/cgroup.procs", group);
		fd = open(path, O_WRONLY);
	}
	if (fd < 0 || write(fd, "0", 1) != 1)
		give_up(path);
	close(fd);
}

/* Spins in the group until it was off the CPU for so long, and goes back to the group above. */
static void be_throttled(const char *group, long ms)
{
	int64_t begin, cpu, end, off = 0;
	char above[4096];

	snprintf(above, sizeof(above), "%s/..", group);
	begin = clock_ns(CLOCK_MONOTONIC_RAW);
	cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	enter(group);
	do {
		spin(200);
		end = clock_ns(CLOCK_MONOTONIC_RAW) - begin;
		off = end - (int64_t)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu);
	} while (off < ms * 1000000ll);
	enter(above);
	spent[THROTTLED] += off;
	spent[SPIN] += end - off;
}

int main(int argc, char **argv)
{
	long amounts[WAYS];
	char path[4096];
	pthread_t thread;
	int cached, synced;

	program = argv[0];
	if (argc < WAYS + 2) {
		fprintf(stderr, "%s: found %d arguments, needed DIR and %d amounts\n", program, argc - 1, WAYS);
		return 2;
	}
	for (int way = 0; way < WAYS; way++)
		amounts[way] = atol(argv[way + 2]);
	snprintf(path, sizeof(path), "%s/cached", argv[1]);
	cached = open(path, O_RDWR | O_CREAT, 0600);
	if (cached < 0 || ftruncate(cached, FILE_BYTES))
		give_up(path);
	read_cached(cached, FILE_BYTES >> 10);
	snprintf(path, sizeof(path), "%s/synced", argv[1]);
	synced = open(path, O_RDWR | O_CREAT, 0600);
	if (synced < 0)
		give_up(path);
	sync_file(synced, 1);
	pthread_create(&thread, 0, sleeper, 0);
	calibrate();
	touch(0);

	for (int round = 0; round < ROUNDS; round++)
		for (int way = 0; way < WAYS; way++) {
			long amount = due(amounts[way], round);
			uint64_t begin = __rdtsc();

			switch (way) {
			case SPIN: spin(amount); break;
			case FAULTS: touch(amount); break;
			case READS: read_cached(cached, amount); break;
			case FSYNC: sync_file(synced, amount); break;
			case WAIT: wait_for_sleeper(amount); break;
			}
			spent[way == WAIT ? WAKING : way] += (__rdtsc() - begin) * ns_per_cycle;
		}
	/* At once: a period of the quota is 100 ms. */
	if (amounts[THROTTLED])
		be_throttled(argc > WAYS + 2 ? argv[WAYS + 2] : "", amounts[THROTTLED]);
	printf("{");
	for (int name = 0; name < NAMES; name++)
		printf("\"%s\": %.0f%s", names[name], spent[name], name + 1 < NAMES ? ", " : "}\n");
	return 0;
}
