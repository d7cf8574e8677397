/*
 * A kernel that breaks its promises, one at a time.
 *
 * Loaded before libc (LD_PRELOAD) into the process of a case, it stands in front of the calls that the case makes and, under the
 * switch that PAGELAB_BROKEN names, does something else than asked. The case, whose expectations are what they always are,
 * must notice: `tests/host_suite.rs` runs every case under its switch and demands that it does not pass.
 *
 * Each switch breaks one thing and leaves the rest of the process alone: mappings of less than 1 MiB, which libc and Rust make
 * for themselves, are passed on as they are.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mman.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define HUGE_PAGE (2UL << 20)
#define SMALLEST (1UL << 20)
#define HUGETLBFS 0x958458f6L

static int is_broken(const char *name)
{
	const char *broken = getenv("PAGELAB_BROKEN");

	return broken && strcmp(broken, name) == 0;
}

/* The next definition of a function: libc's. */
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int on_hugetlbfs(int fd)
{
	struct statfs found;

	return fd >= 0 && syscall(SYS_fstatfs, fd, &found) == 0 && found.f_type == HUGETLBFS;
}

static void *plain(void *addr, size_t length, int protection, int flags)
{
	/* Rounded up, so that what the case does next stays inside. */
	length = (length + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
	flags &= ~(MAP_HUGETLB | (MAP_HUGE_MASK << MAP_HUGE_SHIFT));
	return REAL(mmap)(addr, length, protection, flags | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

void *mmap(void *addr, size_t length, int protection, int flags, int fd, off_t offset)
{
	void *at;

	if (length < SMALLEST)
		return REAL(mmap)(addr, length, protection, flags, fd, offset);
	if (is_broken("mmap.no_hugetlb") && ((flags & MAP_HUGETLB) || on_hugetlbfs(fd))) {
		flags &= ~(MAP_HUGETLB | (MAP_HUGE_MASK << MAP_HUGE_SHIFT));
		if (fd >= 0)
			flags |= MAP_ANONYMOUS;
		return REAL(mmap)(addr, length, protection, flags, -1, 0);
	}
	if (is_broken("mmap.noreserve"))
		flags |= MAP_NORESERVE;
	if (is_broken("mmap.reserve"))
		flags &= ~MAP_NORESERVE;
	if (is_broken("mmap.no_populate"))
		flags &= ~MAP_POPULATE;
	if (is_broken("mmap.shared_is_private") && (flags & MAP_SHARED))
		flags = (flags & ~MAP_SHARED) | MAP_PRIVATE;
	if (is_broken("mmap.private_is_shared") && (flags & MAP_PRIVATE))
		flags = (flags & ~MAP_PRIVATE) | MAP_SHARED;
	if (is_broken("mmap.shared_huge") && (flags & MAP_PRIVATE) && (flags & MAP_ANONYMOUS)) {
		/* Shared memory can be huge where address and offset agree. */
		char *room = REAL(mmap)(NULL, length + HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (room == MAP_FAILED)
			return room;
		addr = (void *)(((uintptr_t)room + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1));
		flags = (flags & ~MAP_PRIVATE) | MAP_SHARED | MAP_FIXED;
	}
	at = REAL(mmap)(addr, length, protection, flags, fd, offset);
	if (at != MAP_FAILED && is_broken("mmap.last_is_plain") && (flags & MAP_HUGETLB) && (flags & MAP_NORESERVE))
		plain((char *)at + length - HUGE_PAGE, HUGE_PAGE, protection, flags | MAP_FIXED);
	if (at == MAP_FAILED && is_broken("mmap.never_fails"))
		return plain(addr, length, protection, flags);
	if (at != MAP_FAILED && is_broken("mmap.dirty") && (protection & PROT_WRITE))
		memset(at, 0xff, length);
	if (at != MAP_FAILED && is_broken("mmap.advised"))
		REAL(madvise)(at, length, MADV_HUGEPAGE);
	return at;
}

void *mmap64(void *addr, size_t length, int protection, int flags, int fd, off_t offset)
	__attribute__((alias("mmap")));

int munmap(void *addr, size_t length)
{
	return is_broken("munmap.ignored") ? 0 : REAL(munmap)(addr, length);
}

int madvise(void *addr, size_t length, int advice)
{
	if (is_broken("madvise.ignored"))
		return 0;
	if (is_broken("madvise.dontneed_ignored") && advice == MADV_DONTNEED)
		return 0;
	if (is_broken("madvise.removes") && advice == MADV_DONTNEED)
		advice = MADV_REMOVE;
	if (is_broken("madvise.populates"))
		advice = MADV_POPULATE_WRITE;
	if (is_broken("madvise.rounded_up"))
		length = (length + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
	if ((is_broken("madvise.collapses") || is_broken("mmap.shared_huge")) && advice == MADV_HUGEPAGE) {
		/* Something must be there that can collapse. */
		for (size_t at = 0; at < length; at += HUGE_PAGE)
			((volatile char *)addr)[at] = 0;
		advice = MADV_COLLAPSE;
	}
	if (is_broken("madvise.steals") && advice == MADV_DONTNEED) {
		int result = REAL(madvise)(addr, length, advice);

		/* Somebody else takes the freed pages at once. */
		REAL(munmap)(addr, length);
		REAL(mmap)(NULL, length, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_POPULATE | MAP_NORESERVE, -1, 0);
		REAL(mmap)(addr, length, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_NORESERVE | MAP_FIXED, -1, 0);
		return result;
	}
	return REAL(madvise)(addr, length, advice);
}

int mprotect(void *addr, size_t length, int protection)
{
	return is_broken("mprotect.ignored") ? 0 : REAL(mprotect)(addr, length, protection);
}

int mlock(const void *addr, size_t length)
{
	return is_broken("mlock.ignored") ? 0 : REAL(mlock)(addr, length);
}

/* The case's own moves have MREMAP_FIXED and an address; realloc's have not. */
void *mremap(void *old, size_t old_length, size_t length, int flags, ...)
{
	va_list rest;
	void *target;

	va_start(rest, flags);
	target = (flags & MREMAP_FIXED) ? va_arg(rest, void *) : NULL;
	va_end(rest);
	/* The content is lost on the way: the target keeps its own. */
	if (target && is_broken("mremap.fresh"))
		return REAL(munmap)(old, old_length) == 0 ? target : MAP_FAILED;
	return REAL(mremap)(old, old_length, length, flags, target);
}

int ftruncate(int fd, off_t length)
{
	/* The first setting of a size is let through: a file of no size cannot be mapped. */
	if (is_broken("ftruncate.ignored") && lseek(fd, 0, SEEK_END) > 0)
		return 0;
	return REAL(ftruncate)(fd, length);
}

int ftruncate64(int fd, off_t length) __attribute__((alias("ftruncate")));

int fallocate(int fd, int mode, off_t offset, off_t length)
{
	return is_broken("fallocate.ignored") ? 0 : REAL(fallocate)(fd, mode, offset, length);
}

int fallocate64(int fd, int mode, off_t offset, off_t length) __attribute__((alias("fallocate")));

int fstatfs(int fd, struct statfs *found)
{
	int result = REAL(fstatfs)(fd, found);

	if (result == 0 && is_broken("fstatfs.small"))
		found->f_bsize = 4096;
	return result;
}

int fstatfs64(int fd, struct statfs64 *found) __attribute__((alias("fstatfs")));

/* A setting that the case asks its parent for: one page less, or one more. */
static ssize_t write_another(int fd, const char *bytes, size_t length)
{
	char text[512];
	char *value;

	if (length >= sizeof(text))
		return REAL(write)(fd, bytes, length);
	memcpy(text, bytes, length);
	text[length] = 0;
	value = strstr(text, "\"value\":\"");
	if (value) {
		value = strchr(value + 9, '"');
		if (value && value[-1] > '0' && value[-1] <= '9')
			value[-1]--;
		else if (value && value[-1] == '0')
			value[-1] = '1';
	}
	return REAL(write)(fd, text, length);
}

ssize_t write(int fd, const void *bytes, size_t length)
{
	if (fd == STDOUT_FILENO && is_broken("set.another_value"))
		return write_another(fd, bytes, length);
	if (is_broken("write.accepted") && on_hugetlbfs(fd))
		return length;
	return REAL(write)(fd, bytes, length);
}

ssize_t pread(int fd, void *bytes, size_t length, off_t offset)
{
	ssize_t got = REAL(pread)(fd, bytes, length, offset);

	/* The answers of pagemap and the like are left as they are. */
	if (got >= (ssize_t)HUGE_PAGE && is_broken("pread.zero"))
		memset(bytes, 0, got);
	return got;
}

ssize_t pread64(int fd, void *bytes, size_t length, off_t offset) __attribute__((alias("pread")));

int unlinkat(int folder, const char *name, int flags)
{
	return is_broken("unlinkat.ignored") ? 0 : REAL(unlinkat)(folder, name, flags);
}

/* The child takes a page of the pool with it. */
pid_t fork(void)
{
	pid_t child = REAL(fork)();

	if (child == 0 && is_broken("fork.takes"))
		REAL(mmap)(NULL, HUGE_PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_POPULATE, -1, 0);
	return child;
}

int kill(pid_t process, int sig)
{
	return is_broken("kill.ignored") ? 0 : REAL(kill)(process, sig);
}

int shmget(key_t key, size_t size, int flags)
{
	if (is_broken("shmget.no_hugetlb"))
		flags &= ~(SHM_HUGETLB | (MAP_HUGE_MASK << MAP_HUGE_SHIFT));
	return REAL(shmget)(key, size, flags);
}

void *shmat(int segment, const void *addr, int flags)
{
	void *at;

	if (is_broken("shmat.private"))
		return REAL(mmap)(NULL, 8 * HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (is_broken("shmat.writable"))
		flags &= ~SHM_RDONLY;
	at = REAL(shmat)(segment, addr, flags);
	return at;
}

int shmctl(int segment, int command, struct shmid_ds *buffer)
{
	return is_broken("shmctl.ignored") ? 0 : REAL(shmctl)(segment, command, buffer);
}

int memfd_create(const char *name, unsigned int flags)
{
	unsigned int plain_flags = flags & ~(MFD_HUGETLB | (MAP_HUGE_MASK << MAP_HUGE_SHIFT));
	int fd;

	if (is_broken("memfd.no_hugetlb"))
		flags = plain_flags;
	fd = REAL(memfd_create)(name, flags);
	if (fd < 0 && is_broken("memfd.never_fails"))
		fd = REAL(memfd_create)(name, plain_flags);
	return fd;
}

int fcntl(int fd, int command, ...)
{
	va_list rest;
	void *argument;

	va_start(rest, command);
	argument = va_arg(rest, void *);
	va_end(rest);
	if (command == F_ADD_SEALS && is_broken("fcntl.unsealed"))
		return 0;
	return REAL(fcntl)(fd, command, argument);
}

int fcntl64(int fd, int command, ...) __attribute__((alias("fcntl")));

int prctl(int option, ...)
{
	va_list rest;
	unsigned long two, three, four, five;

	va_start(rest, option);
	two = va_arg(rest, unsigned long);
	three = va_arg(rest, unsigned long);
	four = va_arg(rest, unsigned long);
	five = va_arg(rest, unsigned long);
	va_end(rest);
	if (option == PR_SET_THP_DISABLE && is_broken("prctl.ignored"))
		return 0;
	return REAL(prctl)(option, two, three, four, five);
}

/* The options of a mount are lost, but for its page size. */
long syscall(long number, ...)
{
	static __typeof__(&syscall) real;
	va_list rest;
	long a, b, c, d, e, f;

	if (!real)
		real = (__typeof__(&syscall))dlsym(RTLD_NEXT, "syscall");
	va_start(rest, number);
	a = va_arg(rest, long);
	b = va_arg(rest, long);
	c = va_arg(rest, long);
	d = va_arg(rest, long);
	e = va_arg(rest, long);
	f = va_arg(rest, long);
	va_end(rest);
	if (number == SYS_fsconfig && c && is_broken("fsconfig.dropped") && strcmp((const char *)c, "pagesize") != 0)
		return 0;
	return real(number, a, b, c, d, e, f);
}
