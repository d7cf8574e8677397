// service CRASHES MIB: a parent that starts a worker anew after each of so many crashes; a worker fills so many MiB first
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void work(size_t bytes, int last) {
    unsigned long *heap = malloc(bytes), state = 1;
    if (!heap) _exit(1);
    for (size_t at = 0; at < bytes / sizeof *heap; at++) heap[at] = state = state * 6364136223846793005UL + 1;
    if (!last) abort();
    _exit(heap[bytes / 16] == 0);
}

int main(int count, char **words) {
    if (count < 3) return 2;
    int crashes = atoi(words[1]), status = 0;
    for (int start = 0; start <= crashes; start++) {
        pid_t worker = fork();
        if (worker == 0) work((size_t)atoi(words[2]) << 20, start == crashes);
        waitpid(worker, &status, 0);
    }
    return status != 0;
}
