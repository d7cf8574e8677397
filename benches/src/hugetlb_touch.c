/*
 * The bare program of EXPERIMENTS 2: map 256 MiB, write one byte every 4 KiB, read them back, unmap. One round for each line of
 * standard input; prints what mapping, writing, reading and unmapping took, and the CPU time of it all, ns.
 *
 * Usage: hugetlb_touch huge|base
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define BYTES (256UL << 20)
#define STEP 4096

static uint64_t now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

int main(int argc, char **argv)
{
	char line[16];
	int huge = argc == 2 && strcmp(argv[1], "huge") == 0;

	if (argc != 2 || (!huge && strcmp(argv[1], "base") != 0))
		return 2;
	while (fgets(line, sizeof(line), stdin)) {
		int flags = MAP_PRIVATE | MAP_ANONYMOUS | (huge ? MAP_HUGETLB : 0);
		uint64_t cpu = now(CLOCK_PROCESS_CPUTIME_ID);
		uint64_t sum = 0, begin = now(CLOCK_MONOTONIC), mapped, written, read, unmapped;
		volatile char *map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);

		if (map == MAP_FAILED) {
			perror("mmap");
			return 1;
		}
		if (!huge)
			madvise((void *)map, BYTES, MADV_NOHUGEPAGE);
		mapped = now(CLOCK_MONOTONIC);
		for (size_t at = 0; at < BYTES; at += STEP)
			map[at] = 1;
		written = now(CLOCK_MONOTONIC);
		for (size_t at = 0; at < BYTES; at += STEP)
			sum += map[at];
		read = now(CLOCK_MONOTONIC);
		munmap((void *)map, BYTES);
		unmapped = now(CLOCK_MONOTONIC);
		cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
		if (sum != BYTES / STEP)
			return 1;
		printf("%lu %lu %lu %lu %lu\n", mapped - begin, written - mapped, read - written, unmapped - read, cpu);
		fflush(stdout);
	}
	return 0;
}
