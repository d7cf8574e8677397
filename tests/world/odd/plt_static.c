/* Nothing but a function of no length that is chosen at start: static programs call such ones through entries of their linkage table. */
static int nothing(void)
{
    return 0;
}

static int (*choose(void))(void)
{
    return nothing;
}

int chosen(void) __attribute__((ifunc("choose")));

int main(void)
{
    int all = 0;
    for (long i = 0; i < 400000000L; i++) {
        __asm__ volatile("" ::: "memory");
        all += chosen();
    }
    return all;
}
