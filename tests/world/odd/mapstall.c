/* How long a thread waits that maps and unmaps while somebody reads the tables of its process.
 *
 *     mapstall MIB PAIRS SECONDS [READY]
 *
 * Fills MIB of private anonymous memory with pages of 4 KiB (huge pages refused) in one mapping, then maps 64 KiB and unmaps them
 * PAIRS times, spread evenly over SECONDS (0: without a pause). When the memory is filled it prints "ready PID" and, where a
 * fourth word is given, waits until a file of that name exists. At the end it prints one line of JSON:
 *
 *     pairs           pairs made
 *     longest_us      the longest pair
 *     longest_slept_us the longest pair in which the thread slept once at least: it waited for the lock of the map
 *     slept           pairs in which it slept
 *     over_1ms        pairs over 1 ms in which it slept
 *     longest_preempted_us  the longest pair in which another program had the CPU (says nothing about locks)
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void die(const char *what)
{
	fprintf(stderr, "mapstall: %s: %s\n", what, strerror(errno));
	exit(1);
}

int main(int argc, char **argv)
{
	if (argc < 4) {
		fprintf(stderr, "usage: mapstall MIB PAIRS SECONDS [READY]\n");
		return 2;
	}
	size_t bytes = strtoull(argv[1], NULL, 10) << 20;
	uint64_t pairs = strtoull(argv[2], NULL, 10), seconds = strtoull(argv[3], NULL, 10);

	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		die("mmap");
	if (madvise(memory, bytes, MADV_NOHUGEPAGE))
		die("madvise");
	for (size_t at = 0; at < bytes; at += 4096)
		memory[at] = 1;

	/* In front of ordinary programs, so that a busy machine does not look like a lock. */
	struct sched_param first = { .sched_priority = 1 };
	sched_setscheduler(0, SCHED_FIFO, &first);

	printf("ready %d\n", getpid());
	fflush(stdout);
	while (argc > 4 && access(argv[4], F_OK))
		usleep(10000);

	uint64_t longest = 0, longest_slept = 0, longest_preempted = 0, slept = 0, over = 0, begun = now_ns();
	struct rusage before, after;
	getrusage(RUSAGE_THREAD, &before);
	for (uint64_t pair = 0; pair < pairs; pair++) {
		uint64_t due = begun + (pairs ? seconds * 1000000000 / pairs * pair : 0);
		if (now_ns() < due) {
			struct timespec until = { due / 1000000000, due % 1000000000 };
			clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
			getrusage(RUSAGE_THREAD, &before);
		}
		uint64_t start = now_ns();
		void *piece = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (piece == MAP_FAILED)
			die("mmap");
		munmap(piece, 65536);
		uint64_t took = now_ns() - start;
		getrusage(RUSAGE_THREAD, &after);
		if (took > longest)
			longest = took;
		if (after.ru_nvcsw != before.ru_nvcsw) {
			slept++;
			if (took > longest_slept)
				longest_slept = took;
			if (took > 1000000)
				over++;
		} else if (after.ru_nivcsw != before.ru_nivcsw && took > longest_preempted) {
			longest_preempted = took;
		}
		before = after;
	}
	printf("{\"pairs\": %llu, \"longest_us\": %.1f, \"longest_slept_us\": %.1f, \"slept\": %llu, \"over_1ms\": %llu, "
	       "\"longest_preempted_us\": %.1f}\n",
	       (unsigned long long)pairs, longest / 1e3, longest_slept / 1e3, (unsigned long long)slept,
	       (unsigned long long)over, longest_preempted / 1e3);
	return 0;
}
