/* How fast a processor is, fifty times a second: speed CPU
 *
 * Each line: seconds since 1970, ns of own CPU time for a fixed piece of arithmetic, and for a fixed number of system calls. What
 * else runs on that processor in turn with it does not matter; what makes the processor itself slower (a neighbour on its core) does.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long sum;

static long now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

int main(int count, char **words)
{
	cpu_set_t cpus;

	if (count != 2)
		return 2;
	CPU_ZERO(&cpus);
	CPU_SET(atoi(words[1]), &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		return 1;
	for (;;) {
		long begin = now_ns(CLOCK_THREAD_CPUTIME_ID), middle, end;

		for (int i = 0; i < 40000; i++)
			sum += i * sum;
		middle = now_ns(CLOCK_THREAD_CPUTIME_ID);
		for (int i = 0; i < 600; i++)
			syscall(SYS_getppid);
		end = now_ns(CLOCK_THREAD_CPUTIME_ID);
		printf("%.3f %ld %ld\n", now_ns(CLOCK_REALTIME) / 1e9, middle - begin, end - middle);
		fflush(stdout);
		usleep(20000);
	}
}
