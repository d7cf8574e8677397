/* A program that moves its own code to memory without a file, as those do that want it on huge pages. 09-moved-code HOW SECONDS
 *
 *   copied     the copy is made elsewhere and moved over the code by mremap (node --use-largepages, hugify)
 *   laid       memory is mapped over the code and the code copied back into it (iodlr)
 *   protected  the same, but the memory may be executed only after the copy is in it
 *   collapsed  the kernel is asked to put it on huge pages itself
 *
 * What does this lies in a section of its own, which stays where it is. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <sys/syscall.h>

#define NOINLINE __attribute__((noinline))
#define APART __attribute__((noinline, section("apart"), aligned(4096)))

volatile unsigned long sink;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

NOINLINE void alpha(unsigned long n)
{
	unsigned long s = 1;
	for (unsigned long i = 0; i < n; i++)
		s = s * 6364136223846793005UL + (s >> 33);
	sink += s;
}

NOINLINE void beta(unsigned long n)
{
	unsigned long s = 7;
	for (unsigned long i = 0; i < n; i++)
		s = s * 2862933555777941757UL + (s >> 31);
	sink += s;
}

NOINLINE void work(unsigned long n)
{
	alpha(3 * n);
	beta(n);
	sink++;
}

static long call(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
	long ret;
	__asm__ volatile("syscall" : "=a"(ret) : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
	return ret;
}

static void copy(char *to, const char *from, unsigned long bytes)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes)::"memory");
}

/* Nothing of libc is called while the code is away. */
APART void move(unsigned long start, unsigned long bytes, char *spare, int how)
{
	int rw = PROT_READ | PROT_WRITE, rx = PROT_READ | PROT_EXEC, own = MAP_PRIVATE | MAP_ANONYMOUS;

	copy(spare, (char *)start, bytes);
	if (how == 'c') {
		call(SYS_mprotect, (long)spare, bytes, rx, 0, 0, 0);
		call(SYS_mremap, (long)spare, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, start, 0);
		return;
	}
	call(SYS_mmap, start, bytes, how == 'l' ? rw | PROT_EXEC : rw, own | MAP_FIXED, -1, 0);
	copy((char *)start, spare, bytes);
	call(SYS_mprotect, start, bytes, rx, 0, 0, 0);
}

extern char __executable_start, etext;

int main(int argc, char **argv)
{
	double seconds = atof(argv[2]), end;
	unsigned long first = 0, last = 0, apart = (unsigned long)move / 4096 * 4096;
	char line[512], path[512];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
	FILE *maps = fopen("/proc/self/maps", "r");

	path[length > 0 ? length : 0] = 0;
	while (fgets(line, sizeof(line), maps))
		if (strstr(line, "r-xp") && strstr(line, path)) {
			sscanf(line, "%lx-%lx", &first, &last);
			break;
		}
	fclose(maps);
	/* The section of its own comes last or first. */
	if (apart > (unsigned long)main)
		last = apart;
	else
		first = apart + 4096;
	if (argv[1][0] == 'x' || !first)
		return 1;
	if (!strcmp(argv[1], "collapsed"))
		madvise((void *)first, last - first, 25 /* MADV_COLLAPSE */);
	else
		move(first, last - first, mmap(0, last - first, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), argv[1][0]);
	if (argc > 3)
		puts("moved"), fflush(stdout);
	end = now() + seconds;
	while (now() < end)
		work(100000);
	return 0;
}
