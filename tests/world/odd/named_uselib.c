/* uselib LIBRARY SECONDS: calls lib_work of the library. */
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int count, char **words)
{
    void *library = dlopen(words[1], RTLD_NOW);
    void (*work)(unsigned long) = library ? dlsym(library, "lib_work") : 0;
    if (!work)
        return 1;
    for (double end = now() + atof(words[count - 1]); now() < end;)
        work(300000);
    return 0;
}
