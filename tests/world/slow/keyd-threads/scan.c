// scan free|locked ROUNDS: in each round 20 threads at once, one for each device, which work for a moment
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { DEVICES = 20 };
static pthread_barrier_t all;

static void *device(void *unused) {
    volatile unsigned long state = 1;
    for (int step = 0; step < 800000; step++) state = state * 6364136223846793005UL + 1;
    pthread_barrier_wait(&all);
    return unused;
}

int main(int count, char **words) {
    if (count < 3) return 2;
    if (!strcmp(words[1], "locked") && mlockall(MCL_CURRENT | MCL_FUTURE)) {
        perror("mlockall");
        return 1;
    }
    pthread_barrier_init(&all, NULL, DEVICES);
    for (int round = 0; round < atoi(words[2]); round++) {
        pthread_t thread[DEVICES];
        for (int at = 0; at < DEVICES; at++)
            if (pthread_create(&thread[at], NULL, device, NULL)) return 1;
        for (int at = 0; at < DEVICES; at++) pthread_join(thread[at], NULL);
    }
    return 0;
}
