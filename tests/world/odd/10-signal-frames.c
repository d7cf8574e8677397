/* A timer's signal interrupts work; its handler works, too. 10-signal-frames [alt]: on a stack of its own. */
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

#define NOINLINE __attribute__((noinline))

volatile unsigned long sink;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

NOINLINE void spin(int n)
{
	unsigned long s = 1;
	for (int i = 0; i < n; i++)
		s = s * 6364136223846793005UL + (s >> 33);
	sink += s;
}

NOINLINE void in_handler(void)
{
	spin(400000);
	sink++;
}

void handler(int signal)
{
	in_handler();
	sink += signal;
}

NOINLINE void interrupted(void)
{
	spin(200000);
	sink++;
}

int main(int argc, char **argv)
{
	stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART | (argc > 1 ? SA_ONSTACK : 0)};
	struct itimerval timer = {{0, 2000}, {0, 2000}};
	double end;

	sigaltstack(&stack, 0);
	sigaction(SIGALRM, &action, 0);
	setitimer(ITIMER_REAL, &timer, 0);
	end = now() + 1;
	while (now() < end)
		interrupted();
	return 0;
}
