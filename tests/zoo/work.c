/*
 * Small programs for the zoo: one operation over and over, with a known amount of the program's own work beside it.
 *
 *     work MODE ops=N [spin_us=N] [sleep_us=N] [threads=N] [KEY=VALUE ...]
 *
 * Sizes are bytes. It prints nothing and exits with 0, or says what failed and exits with 1.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096UL
#define HUGE (2UL << 20)

static int argument_count;
static char **arguments;

static const char *text(const char *key, const char *otherwise)
{
	size_t length = strlen(key);

	for (int i = 2; i < argument_count; i++)
		if (!strncmp(arguments[i], key, length) && arguments[i][length] == '=')
			return arguments[i] + length + 1;
	return otherwise;
}

static long number(const char *key, long otherwise)
{
	const char *found = text(key, NULL);

	return found ? atol(found) : otherwise;
}

static void fail(const char *what)
{
	fprintf(stderr, "work: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* The program's own work: a fixed number of steps, so that a slower CPU shows. */
static uint64_t spin_us(long us)
{
	uint64_t x = 88172645463325252ULL;

	for (long i = 0; i < us * 300; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
	return x;
}

static volatile uint64_t sink;

static void touch(char *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += PAGE)
		((volatile char *)at)[i] = 1;
}

static void *map(size_t bytes, int flags)
{
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		fail("mmap");
	return at;
}

/* A mapping that begins where a huge page can, or `shift` bytes behind. Nothing else is near. */
static void anon(long bytes, int shared, long shift)
{
	int flags = MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | (shared ? MAP_SHARED : MAP_PRIVATE);
	char *at = mmap((char *)0x100000000000 + shift, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);

	if (at == MAP_FAILED)
		fail("mmap");
	touch(at, bytes);
	munmap(at, bytes);
}

static void heap(long bytes, long count)
{
	for (long i = 0; i < count; i++) {
		char *at = malloc(bytes);

		if (!at)
			fail("malloc");
		touch(at, bytes);
		free(at);
	}
}

static int open_file(int flags)
{
	int fd = open(text("file", "work.data"), flags | O_CLOEXEC, 0644);

	if (fd < 0)
		fail(text("file", "work.data"));
	return fd;
}

static char *buffer(long bytes)
{
	void *at;

	if (posix_memalign(&at, PAGE, bytes))
		fail("posix_memalign");
	memset(at, 7, bytes);
	return at;
}

static void read_file(void)
{
	static char *at;
	long block = number("bs", 65536), bytes = number("bytes", 64 << 20), stride = number("stride", 0);
	int fd = open_file(O_RDONLY | (number("direct", 0) ? O_DIRECT : 0));

	if (!at)
		at = buffer(block);
	if (number("cold", 0))
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	if (number("random", 0))
		posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	for (long done = 0; done < bytes; done += block) {
		if (pread(fd, at, block, stride ? done / block * stride : done) < 0)
			fail("pread");
	}
	close(fd);
}

static void write_file(void)
{
	static char *at;
	static int fd = -1;
	static long offset;
	long block = number("bs", 65536), bytes = number("bytes", 1 << 20), span = number("span", 256 << 20);

	if (fd < 0) {
		fd = open_file(O_RDWR | O_CREAT | (number("direct", 0) ? O_DIRECT : 0));
		at = buffer(block);
	}
	for (long done = 0; done < bytes; done += block) {
		if (pwrite(fd, at, block, offset % span) < 0)
			fail("pwrite");
		offset += block;
		if (number("sync_each", 0) && fdatasync(fd))
			fail("fdatasync");
	}
	if (number("sync", 0) && fdatasync(fd))
		fail("fdatasync");
}

/* A new small file, as mail servers and build tools make them. */
static void make_file(long i)
{
	char name[4096];
	int fd;

	snprintf(name, sizeof(name), "%s.%ld", text("file", "work.data"), i % 64);
	fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, name, 1024) < 0)
		fail(name);
	close(fd);
	unlink(name);
}

static void map_file(void)
{
	long bytes = number("bytes", 64 << 20);
	int fd = open_file(O_RDONLY);
	char *at = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);

	if (at == MAP_FAILED)
		fail("mmap");
	for (long i = 0; i < bytes; i += PAGE)
		sink += ((volatile char *)at)[i];
	munmap(at, bytes);
	close(fd);
}

static char *shared_heap;

static void fork_once(void)
{
	long bytes = number("bytes", 16 << 20);
	pid_t child;

	if (!shared_heap) {
		shared_heap = map(bytes, MAP_PRIVATE);
		madvise(shared_heap, bytes, MADV_NOHUGEPAGE);
		touch(shared_heap, bytes);
	}
	if (number("fork", 1)) {
		child = fork();
		if (child < 0)
			fail("fork");
		if (!child) {
			pause();
			_exit(0);
		}
		touch(shared_heap, bytes);
		kill(child, 9);
		waitpid(child, NULL, 0);
	} else {
		touch(shared_heap, bytes);
	}
}

/* Equal pages, merged by KSM if it runs, then written. */
static void merged(void)
{
	long bytes = number("bytes", 32 << 20);
	static char *at;

	if (!at) {
		at = map(bytes, MAP_PRIVATE);
		madvise(at, bytes, MADV_NOHUGEPAGE);
		memset(at, 5, bytes);
		madvise(at, bytes, MADV_MERGEABLE);
		usleep(number("merge_ms", 0) * 1000);
	}
	for (long i = 0; i < bytes; i += PAGE)
		((volatile char *)at)[i] = (char)(i >> 12);
}

static void *protect(void *unused)
{
	long bytes = number("bytes", 1 << 20), calls = number("calls", 100);
	char *at = map(bytes, MAP_PRIVATE);

	madvise(at, bytes, MADV_NOHUGEPAGE);
	touch(at, bytes);
	for (long i = 0; i < calls; i++) {
		mprotect(at, PAGE, PROT_READ);
		mprotect(at, PAGE, PROT_READ | PROT_WRITE);
		at[0] = 1;
	}
	munmap(at, bytes);
	return unused;
}

static void *fault_in(void *unused)
{
	long bytes = number("bytes", 256 << 10);

	for (long i = 0; i < number("calls", 50); i++) {
		char *at = map(bytes, MAP_PRIVATE);

		touch(at, bytes);
		munmap(at, bytes);
	}
	return unused;
}

static void *spinner(void *us)
{
	sink += spin_us((long)us);
	return NULL;
}

static void in_threads(void *(*of)(void *), void *argument)
{
	pthread_t threads[64];
	long count = number("threads", 1);

	if (number("processes", 0)) {
		for (long i = 0; i < count; i++)
			if (!fork()) {
				of(argument);
				_exit(0);
			}
		while (wait(NULL) > 0)
			;
		return;
	}
	for (long i = 0; i < count && i < 64; i++)
		if (pthread_create(&threads[i], NULL, of, argument))
			fail("pthread_create");
	for (long i = 0; i < count && i < 64; i++)
		pthread_join(threads[i], NULL);
}

static void calls(long count)
{
	for (long i = 0; i < count; i++)
		syscall(SYS_getppid);
}

/* A filter that looks at `length` words before it allows the call. */
static void install_filter(long length)
{
	struct sock_filter *program = calloc(length + 1, sizeof(*program));
	struct sock_fprog filter = { .len = length + 1, .filter = program };

	for (long i = 0; i < length; i++)
		program[i] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0);
	program[length] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
		fail("seccomp");
	free(program);
}

/* `work exec KEY=VALUE ... -- PROGRAM ...`: another program, under what was asked for. */
static void run_words(void)
{
	for (int i = 2; i + 1 < argument_count; i++)
		if (!strcmp(arguments[i], "--"))
			execvp(arguments[i + 1], &arguments[i + 1]);
	fail("exec");
}

static void once(const char *mode, long i)
{
	long bytes = number("bytes", 32 << 20);

	if (!strcmp(mode, "anon"))
		anon(bytes, 0, number("shift", 0));
	else if (!strcmp(mode, "shared"))
		anon(bytes, 1, 0);
	else if (!strcmp(mode, "heap"))
		heap(bytes, number("count", 1));
	else if (!strcmp(mode, "read"))
		read_file();
	else if (!strcmp(mode, "write"))
		write_file();
	else if (!strcmp(mode, "files"))
		make_file(i);
	else if (!strcmp(mode, "mapped"))
		map_file();
	else if (!strcmp(mode, "fork"))
		fork_once();
	else if (!strcmp(mode, "merged"))
		merged();
	else if (!strcmp(mode, "protect"))
		in_threads(protect, NULL);
	else if (!strcmp(mode, "faults"))
		in_threads(fault_in, NULL);
	else if (!strcmp(mode, "calls"))
		calls(number("calls", 1000));
	else if (!strcmp(mode, "spin"))
		in_threads(spinner, (void *)number("thread_us", 1000));
	else if (strcmp(mode, "idle"))
		fail(mode);
}

int main(int count, char **all)
{
	if (count < 2)
		return 1;
	argument_count = count;
	arguments = all;
	if (number("mlock", 0) && mlockall(MCL_CURRENT | MCL_FUTURE))
		fail("mlockall");
	if (number("filter", 0))
		install_filter(number("filter", 0));
	if (!strcmp(all[1], "exec"))
		run_words();
	for (long i = 0; i < number("ops", 1); i++) {
		once(all[1], i);
		sink += spin_us(number("spin_us", 0));
		if (number("sleep_us", 0))
			usleep(number("sleep_us", 0));
	}
	return 0;
}
