/* Nothing but a short strlen, which a static program calls through an entry of its linkage table that is filled at start. */
#include <string.h>

int main(int count, char **words)
{
    size_t all = 0;
    for (long i = 0; i < 60000000L; i++) {
        __asm__ volatile("" ::: "memory");
        all += strlen(words[0] + (i & 1));
    }
    return all == (size_t)count;
}
