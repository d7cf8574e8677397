/*
 * What `pagelab hugepages exec --shm=hugetlb` preloads: shmget(2) that asks for pages of the hugetlb pool.
 *
 * Only shmget is replaced. A new segment of at least one huge page is asked for with SHM_HUGETLB; where the kernel refuses that
 * (an empty pool, no right), the program gets the segment that it would have had, and the refusal is written down. What it got in
 * the end is looked at from outside, in smaps.
 *
 * Linked without a C library: the few functions come from the program's own, so that it serves glibc and musl alike.
 *
 * PAGELAB_SHM is `SHIFT PATH`: the logarithm of the page size, and the file to which each call adds one record.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SHM_HUGE_SHIFT
#define SHM_HUGE_SHIFT 26
#endif

/* Read by Record::read of src/hugetlb/exec/shm.rs. */
struct record {
	uint64_t pid;
	uint64_t bytes;
	/* 0: on pages of the pool; an errno: refused, and made without; -1: smaller than a page, not asked for. */
	int64_t outcome;
};

static void tell(const char *path, size_t bytes, int64_t outcome)
{
	struct record record = { (uint64_t)getpid(), bytes, outcome };
	/* One write to a file in append mode: records of several processes do not mix. */
	int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, &record, sizeof(record)) < 0) {
		/* Nobody listens any more; the segment is there all the same. */
	}
	close(fd);
}

int shmget(key_t key, size_t size, int flags)
{
	const char *how = getenv("PAGELAB_SHM");
	int is_new = key == IPC_PRIVATE || (flags & IPC_CREAT);
	int saved = errno;
	int shift = 0;
	int64_t outcome = 0;
	long id;

	while (how && *how >= '0' && *how <= '9')
		shift = shift * 10 + (*how++ - '0');
	if (!how || *how != ' ' || shift < 12 || shift > 34 || !is_new || (flags & SHM_HUGETLB))
		return (int)syscall(SYS_shmget, key, size, flags);
	if (size < (size_t)1 << shift) {
		id = syscall(SYS_shmget, key, size, flags);
		saved = id < 0 ? errno : saved;
		outcome = -1;
	} else {
		id = syscall(SYS_shmget, key, size, flags | SHM_HUGETLB | (shift << SHM_HUGE_SHIFT));
		/* A segment that must be new and is there already is no matter of pages. */
		if (id < 0 && errno != EEXIST) {
			outcome = errno;
			id = syscall(SYS_shmget, key, size, flags);
		}
		saved = id < 0 ? errno : saved;
	}
	if (id >= 0)
		tell(how + 1, size, outcome);
	errno = saved;
	return (int)id;
}
