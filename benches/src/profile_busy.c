/*
 * Busy all the time, at the end of call chains of 8 to 39 functions; counts its work in the file named by its first
 * argument. Compiled with and without frame pointers by profile_cost.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>

static volatile unsigned long sink;

__attribute__((noinline)) static void add(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++)
		sink += i;
}

__attribute__((noinline)) static void multiply(unsigned long n)
{
	for (unsigned long i = 1; i < n; i++)
		sink *= i | 1;
}

__attribute__((noinline)) static void deeper(unsigned long depth, unsigned long seed)
{
	if (depth)
		deeper(depth - 1, seed);
	else if (seed & 1)
		add(2000);
	else
		multiply(2000);
	/* Not a tail call. */
	__asm__ volatile("" ::: "memory");
}

int main(int argc, char **argv)
{
	int fd = argc > 1 ? open(argv[1], O_RDWR) : -1;
	volatile unsigned long *work = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	unsigned long seed = 1;

	if (work == MAP_FAILED)
		return 1;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		seed = seed * 6364136223846793005UL + 1442695040888963407UL;
		deeper(8 + (seed >> 33) % 32, seed >> 40);
		*work += 1;
	}
}
