// Works for SEC seconds after PAGES faults, as a setuid program that another user runs.
//
//     05-setuid-without-root SEC PAGES
//
// Prints "seconds S faults F cpu_us U" of itself.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

volatile unsigned long sink;

int main(int argc, char **argv)
{
	double begun = now(), seconds = atof(argv[1]);
	long pages = argc > 2 ? atol(argv[2]) : 0;
	char *memory = mmap(0, (pages + 1) * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct rusage u;

	madvise(memory, (pages + 1) * 4096, MADV_NOHUGEPAGE);
	for (long i = 0; i < pages; i++)
		memory[i * 4096] = 1;
	while (now() < begun + seconds)
		for (int i = 0; i < 100000; i++)
			sink += i;
	getrusage(RUSAGE_SELF, &u);
	printf("seconds %.3f faults %ld cpu_us %ld\n", now() - begun, u.ru_minflt + u.ru_majflt,
	       (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 + u.ru_utime.tv_usec + u.ru_stime.tv_usec);
	return 0;
}
