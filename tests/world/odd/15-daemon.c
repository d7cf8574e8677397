// Daemonises in the way that its first argument says, then faults 5000 pages and works SEC seconds. The command ends at once.
//
//     15-daemon HOW SEC WITNESS
//
// HOW  fork       one child that is left behind
//      double     closes all descriptors, fork, setsid, fork
//      threads    as double, and the daemon has three threads that work
//      namespace  as double, in a pid namespace of its own
// The daemon writes the seconds that it worked into the file WITNESS when it ends.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static double seconds, until;
volatile unsigned long sink;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

__attribute__((noinline)) void daemon_work(void)
{
	unsigned long s = 1;

	for (int i = 0; i < 300000; i++)
		s = s * 6364136223846793005UL + (s >> 33);
	sink += s;
}

static void *worker(void *unused)
{
	(void)unused;
	while (now() < until)
		daemon_work();
	return 0;
}

int main(int argc, char **argv)
{
	int threads = 0, file;
	pthread_t made[3];
	char *memory, text[64];

	if (argc < 4) return 1;
	seconds = atof(argv[2]);
	if (!strcmp(argv[1], "namespace") && unshare(CLONE_NEWPID)) return 2;
	if (strcmp(argv[1], "fork"))
		for (int i = 0; i < 1024; i++)
			close(i);
	if (fork()) _exit(7);
	if (strcmp(argv[1], "fork")) {
		setsid();
		if (fork()) {
			/* The first process of a pid namespace takes all others with it. */
			while (!strcmp(argv[1], "namespace") && access(argv[3], F_OK))
				usleep(20000);
			_exit(0);
		}
	}
	prctl(PR_SET_NAME, "daemonised");
	until = now() + seconds;
	memory = mmap(0, 5000 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(memory, 5000 * 4096, MADV_NOHUGEPAGE);
	for (int i = 0; i < 5000; i++)
		memory[i * 4096] = 1;
	if (!strcmp(argv[1], "threads"))
		for (threads = 0; threads < 3; threads++)
			pthread_create(&made[threads], 0, worker, 0);
	worker(0);
	for (int i = 0; i < threads; i++)
		pthread_join(made[i], 0);
	file = open(argv[3], O_CREAT | O_WRONLY, 0644);
	if (file < 0) return 3;
	return write(file, text, snprintf(text, sizeof(text), "%.3f\n", seconds)) < 0;
}
