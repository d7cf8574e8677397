/* The first thread ends; another goes on, opens a library and works in it. 11-leader-has-ended LIBRARY SECONDS */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static const char *library;
static double seconds;
volatile unsigned long sink;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

__attribute__((noinline)) void own_work(void)
{
	unsigned long s = 1;
	for (int i = 0; i < 300000; i++)
		s = s * 6364136223846793005UL + (s >> 33);
	sink += s;
}

static void *go(void *nothing)
{
	void (*work)(unsigned long);
	double end;

	usleep(300000);
	work = (void (*)(unsigned long))dlsym(dlopen(library, RTLD_NOW), "lib_work");
	puts("works");
	fflush(stdout);
	end = now() + seconds;
	while (now() < end) {
		own_work();
		work(300000);
	}
	exit(0);
}

int main(int argc, char **argv)
{
	pthread_t thread;

	library = argv[1];
	seconds = atof(argv[2]);
	pthread_create(&thread, 0, go, 0);
	pthread_exit(0);
}
