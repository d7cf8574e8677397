/* Functions of C with the names that C++ gives to types in its symbols; each takes as long as the others. */
#include <time.h>

volatile unsigned long sink;

#define FUNCTION(name)                                                     \
    __attribute__((noinline)) void name(void)                              \
    {                                                                      \
        unsigned long state = 1;                                           \
        for (int i = 0; i < 100000; i++)                                   \
            state = state * 6364136223846793005UL + (state >> 33);         \
        sink += state + __LINE__;                                          \
    }

#define ALL(each) each(a) each(b) each(c) each(d) each(f) each(h) each(i) each(v) each(x) each(z) \
    each(Pc) each(Pv) each(Ss) each(Sa) each(St) each(fi) each(DpT_)

ALL(FUNCTION)

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

int main(void)
{
#define CALL(name) name();
    for (double end = now() + 0.7; now() < end;) {
        ALL(CALL)
    }
    return 0;
}
