/* alpha 3 : beta 1, below work, below main. work SECONDS */
#include <stdlib.h>
#include <time.h>

#define NOINLINE __attribute__((noinline))

volatile unsigned long sink;
#ifdef UNIQUE
volatile int unique = UNIQUE;
#endif

NOINLINE void alpha(unsigned long rounds)
{
    unsigned long state = 1;
    for (unsigned long i = 0; i < rounds; i++)
        state = state * 6364136223846793005UL + (state >> 33);
    sink += state;
}

NOINLINE void beta(unsigned long rounds)
{
    unsigned long state = 7;
    for (unsigned long i = 0; i < rounds; i++)
        state = state * 2862933555777941757UL + (state >> 31);
    sink += state;
}

NOINLINE void work(unsigned long rounds)
{
    alpha(3 * rounds);
    beta(rounds);
    sink++;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int count, char **words)
{
    double end = now() + (count > 1 ? atof(words[1]) : 1);
    while (now() < end)
        work(100000);
    return 0;
}
