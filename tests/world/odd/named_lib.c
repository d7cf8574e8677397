static volatile unsigned long sink;

/* No export: only .gnu_debugdata has its name. */
__attribute__((noinline)) static void hidden_work(unsigned long rounds)
{
    unsigned long state = 7;
    for (unsigned long i = 0; i < rounds; i++)
        state = state * 2862933555777941757UL + (state >> 31);
    sink += state;
}

void lib_work(unsigned long rounds)
{
    unsigned long state = 7;
    hidden_work(rounds);
    for (unsigned long i = 0; i < rounds; i++)
        state = state * 2862933555777941757UL + (state >> 31);
    sink += state;
}
