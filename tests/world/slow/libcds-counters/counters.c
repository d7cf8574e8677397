// Two threads that count, each in a record of its own; records lie APART bytes from each other.
#include <pthread.h>
#include <stdatomic.h>

enum { ROUNDS = 250000000 };
static _Alignas(128) char records[2 * 128];

__attribute__((noinline)) static void enter(_Atomic unsigned long *record) {
    unsigned long old = atomic_load_explicit(record, memory_order_relaxed);
    atomic_store_explicit(record, old + 1, memory_order_relaxed);
}

static void *reader(void *at) {
    unsigned long state = 1;
    for (int round = 0; round < ROUNDS; round++) {
        enter((_Atomic unsigned long *)at);
        state = state * 6364136223846793005UL + 1;
    }
    return (void *)(state & 1);
}

int main(void) {
    pthread_t thread[2];
    for (int at = 0; at < 2; at++) pthread_create(&thread[at], 0, reader, records + at * APART);
    for (int at = 0; at < 2; at++) pthread_join(thread[at], 0);
    return 0;
}
