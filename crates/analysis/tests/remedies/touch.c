/* Fills 16 MiB and prints how many KiB of the process huge pages hold.
 *
 * touch HOW FORBIDDEN
 *   HOW: fill, advise, collapse, malloc, lift, lift_advise, lift_collapse ("lift" takes the prohibition back first)
 *   FORBIDDEN: none, all (PR_SET_THP_DISABLE), except (the same with PR_THP_DISABLE_EXCEPT_ADVISED, Linux 6.18)
 *
 * Status 2: the kernel does not know that prohibition. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#define SIZE (16UL << 20)

static long huge_kib(void)
{
	char line[256];
	long sum = 0, n;
	FILE *f = fopen("/proc/self/smaps_rollup", "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "AnonHugePages: %ld", &n) == 1)
			sum += n;
	return sum;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "fill";
	const char *forbidden = argc > 2 ? argv[2] : "none";
	long before;
	char *p;

	if (!strcmp(forbidden, "all") && prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
		return 2;
	if (!strcmp(forbidden, "except") && prctl(PR_SET_THP_DISABLE, 1, 2, 0, 0))
		return 2;
	if (!strncmp(how, "lift", 4)) {
		prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
		how = how[4] ? how + 5 : "fill";
	}
	before = huge_kib();
	if (!strcmp(how, "malloc"))
		p = malloc(SIZE);
	else
		p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!strcmp(how, "advise"))
		madvise(p, SIZE, MADV_HUGEPAGE);
	for (unsigned long i = 0; i < SIZE; i += 4096)
		((volatile char *)p)[i] = 1;
	if (!strcmp(how, "collapse"))
		madvise(p, SIZE, MADV_COLLAPSE);
	printf("%ld\n", huge_kib() - before);
	return 0;
}
