// blocks THREADS ROUNDS: each thread takes 6,000 small blocks of mixed sizes and gives them back, round after round
#include <pthread.h>
#include <stdlib.h>

enum { BLOCKS = 6000 };
static long rounds;

static void *frames(void *unused) {
    char *block[BLOCKS];
    unsigned state = 1;
    for (long round = 0; round < rounds; round++) {
        for (int at = 0; at < BLOCKS; at++) {
            state = state * 1664525 + 1013904223;
            block[at] = malloc(16 + (state >> 23));
            block[at][0] = (char)at;
        }
        for (int at = 0; at < BLOCKS; at++) free(block[at]);
    }
    return unused;
}

int main(int count, char **words) {
    if (count < 3) return 2;
    int threads = atoi(words[1]);
    rounds = atol(words[2]);
    pthread_t thread[64];
    for (int at = 0; at < threads; at++) pthread_create(&thread[at], NULL, frames, NULL);
    for (int at = 0; at < threads; at++) pthread_join(thread[at], NULL);
    return 0;
}
