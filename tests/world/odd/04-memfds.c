/*
 * Memory in memfds, shared memory without a file and a System V segment: 300, 400, 500 and 600 pages touched. Then calls on what has
 * no place in a folder. Prints "descriptor name" of each, as /proc/self/fd has it, and the mappings of the first four.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

static void touch(char *memory, int pages)
{
	for (int page = 0; page < pages; page++)
		memory[page * 4096L] = 1;
}

static void *shared(int fd, int pages)
{
	return mmap(0, pages * 4096L, PROT_READ | PROT_WRITE, MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
}

int main(void)
{
	int a = memfd_create("cache-a", 0), b = memfd_create("cache-b", 0), pipes[2];
	char link[64], name[4096], *places[4];

	if (ftruncate(a, 300 * 4096) || ftruncate(b, 400 * 4096) || pipe(pipes))
		return 1;
	touch(places[0] = shared(a, 300), 300);
	touch(places[1] = shared(b, 400), 400);
	touch(places[2] = shared(-1, 500), 500);
	int segment = shmget(IPC_PRIVATE, 600 * 4096, 0600);
	touch(places[3] = shmat(segment, 0, 0), 600);
	shmctl(segment, IPC_RMID, 0);
	sigset_t none;
	sigemptyset(&none);
	int all[] = { a, b, pipes[0], pipes[1], socket(AF_UNIX, SOCK_STREAM, 0), socket(AF_INET, SOCK_DGRAM, 0), eventfd(0, 0),
		      epoll_create1(0), signalfd(-1, &none, 0), timerfd_create(CLOCK_MONOTONIC, 0),
		      syscall(SYS_pidfd_open, getpid(), 0), open("/proc/self/ns/net", O_RDONLY), open("/dev/null", O_RDWR),
		      open("/dev/shm", O_TMPFILE | O_RDWR, 0600), memfd_create("odd / name\n;x", 0) };
	for (unsigned i = 0; i < sizeof(all) / sizeof(*all); i++) {
		sprintf(link, "/proc/self/fd/%d", all[i]);
		ssize_t length = readlink(link, name, sizeof(name) - 1);
		name[length < 0 ? 0 : length] = 0;
		for (unsigned n = 0; n <= i; n++)
			lseek(all[i], 1000 * i + n, SEEK_SET);
		printf("fd %u %s%c", i, name, 0);
	}
	FILE *maps = fopen("/proc/self/maps", "r");
	while (fgets(name, sizeof(name), maps))
		for (int i = 0; i < 4; i++)
			if (strtoul(name, 0, 16) == (unsigned long)places[i] && strchr(name, '/'))
				printf("map %d %s%c", i, strchr(name, '/'), 0);
	fflush(stdout);
	/* A child inherits the mappings, and makes its own of them. */
	if (!fork()) {
		touch(places[1], 100);
		_exit(0);
	}
	return 0;
}
