/* Spends a fixed amount of work in functions of its own: planted WORK PLANTED, in units of about a microsecond. Of WORK two thirds
 * are done in `first` and a third in `second`; PLANTED units more in `planted`.
 */
#include <stdlib.h>

static volatile unsigned long sink;

/* Different ones, or the compiler makes one of them. */
#define WORK(name, shift)                                      \
	__attribute__((noinline)) static void name(long units) \
	{                                                      \
		for (long i = 0; i < units * 700; i++)         \
			sink += i ^ (i >> shift);              \
	}

WORK(first, 3)
WORK(second, 4)
WORK(planted, 5)

int main(int argc, char **argv)
{
	long work = argc > 1 ? atol(argv[1]) : 0, extra = argc > 2 ? atol(argv[2]) : 0;

	for (int round = 0; round < 100; round++) {
		first(work * 2 / 300);
		second(work / 300);
		planted(extra / 100);
	}
	return 0;
}
