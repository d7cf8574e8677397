/* memfdjit SECONDS anon|memfd|file: code that is written at run time, as runtimes do that never have memory writable and executable
 * at once: a file mapped twice. The map names it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define BYTES 65536

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int count, char **words)
{
    unsigned char *write_at, *run_at;
    if (count < 3)
        return 2;
    if (!strcmp(words[2], "anon")) {
        write_at = run_at = mmap(0, BYTES, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    } else {
        int fd = strcmp(words[2], "memfd") ? open("code.bin", O_RDWR | O_CREAT | O_TRUNC, 0600) : memfd_create("doublemapper", 0);
        if (fd < 0 || ftruncate(fd, BYTES))
            return 1;
        write_at = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        run_at = mmap(0, BYTES, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
        unlink("code.bin");
    }
    /* push %rbp; mov %rsp,%rbp; mov $2000000,%ecx; 1: dec %ecx; jne 1b; pop %rbp; ret */
    unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xb9, 0x80, 0x84, 0x1e, 0x00, 0xff, 0xc9, 0x75, 0xfc, 0x5d, 0xc3};
    memcpy(write_at + 256, code, sizeof code);
    memcpy(write_at + 4096, code, sizeof code);
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(path, "w");
    if (!map)
        return 1;
    fprintf(map, "%lx 40 jitted::first (a;b)\n%lx 40 jitted second\n", (long)run_at + 256, (long)run_at + 4096);
    fclose(map);
    for (double end = now() + atof(words[1]); now() < end;) {
        for (int i = 0; i < 3; i++)
            ((void (*)(void))(run_at + 256))();
        ((void (*)(void))(run_at + 4096))();
    }
    puts(path);
    return 0;
}
