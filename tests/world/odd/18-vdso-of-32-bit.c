#include <stdlib.h>
#include <time.h>

volatile long sink;

__attribute__((noinline)) void clocks(void)
{
	struct timespec t;
	for (int i = 0; i < 20000; i++) {
		clock_gettime(CLOCK_MONOTONIC, &t);
		sink += t.tv_nsec;
	}
}

int main(int argc, char **argv)
{
	struct timespec begun, now;

	clock_gettime(CLOCK_MONOTONIC, &begun);
	do {
		clocks();
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec - begun.tv_sec + (now.tv_nsec - begun.tv_nsec) / 1e9 < atof(argv[1]));
	return 0;
}
