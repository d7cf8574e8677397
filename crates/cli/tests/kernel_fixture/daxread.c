/* Reads one file on ext4 with DAX in both ways, `.read` and `.read_iter`, and compares: results, error numbers, bytes,
 * positions; and both with what was written.
 *
 *   daxread same FOLDER          layouts, offsets, lengths, buffers
 *   daxread race FOLDER MS       readers in both ways beside truncate, fallocate, punched holes and writers
 *   daxread time FILE 0|1 COUNT  COUNT preads of 4 KiB in the way that the parameter of that value gives
 *
 * The way of a descriptor is what /sys/module/ext4/parameters/dax_read said when it was opened. Status 1: they differ.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define PARAMETER "/sys/module/ext4/parameters/dax_read"
#define PAGE 4096L
#define BIG (4L << 20)
/* Fills all of the file system before it is freed again: what must not be seen in a hole. */
#define POISON 0xa5

enum { ITER, READ, WAYS };

static const char *const names[WAYS] = { "read_iter", "read" };
static long wrong, compared;

static void die(const char *what)
{
	perror(what);
	exit(2);
}

static void fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (wrong++ < 20) {
		vprintf(format, args);
		putchar('\n');
	}
	va_end(args);
}

static int open_way(const char *path, int way)
{
	int parameter = open(PARAMETER, O_WRONLY), fd;

	if (parameter < 0 || write(parameter, way ? "1" : "0", 1) != 1)
		die(PARAMETER);
	close(parameter);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		die(path);
	return fd;
}

static uint64_t seed = 88172645463325252ull;

static uint64_t draw(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	return seed ^= seed << 17;
}

/* Reads in both ways into `into[way]`, and compares all there is to see. `filled` is what the buffers held before. */
static void compare(const int *fds, char **into, size_t filled, long offset, size_t length, const char *truth, long size)
{
	ssize_t got[WAYS];
	int error[WAYS];

	for (int way = 0; way < WAYS; way++) {
		memset(into[way], 0x5a, filled);
		errno = 0;
		got[way] = pread(fds[way], into[way], length, offset);
		error[way] = got[way] < 0 ? errno : 0;
	}
	compared++;
	if (got[ITER] != got[READ] || error[ITER] != error[READ])
		fail("pread %zu at %ld: read_iter %zd (%s), read %zd (%s)", length, offset, got[ITER], strerror(error[ITER]),
		     got[READ], strerror(error[READ]));
	else if (memcmp(into[ITER], into[READ], filled))
		fail("pread %zu at %ld: other bytes", length, offset);
	if (truth && got[READ] > 0 && memcmp(into[READ], truth + offset, got[READ]))
		fail("pread %zu at %ld: not what was written", length, offset);
	if (truth && offset <= size && error[READ] == 0) {
		size_t there = length < (size_t)(size - offset) ? length : (size_t)(size - offset);

		if ((size_t)got[READ] != there && length <= filled)
			fail("pread %zu at %ld: got %zd of %zu", length, offset, got[READ], there);
	}
}

static void put(int fd, char *truth, long offset, long length)
{
	for (long i = 0; i < length; i++)
		truth[offset + i] = (char)(draw() >> 32 | 1);
	if (pwrite(fd, truth + offset, length, offset) != length)
		die("pwrite");
}

/* Data, holes and unwritten blocks, in pieces of one block and of many, up to an end within a block. */
static long lay_out(const char *path, char *truth, int kind)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	long size = 3 * PAGE * 97 + 1234;

	if (fd < 0 || ftruncate(fd, size))
		die(path);
	memset(truth, 0, BIG);
	for (long at = 0; at + 16 * PAGE < size;) {
		long pages = kind == 0 ? 1 : 1 + draw() % 9;

		switch (kind == 1 ? 0 : draw() % 3) {
		case 0:
			put(fd, truth, at, pages * PAGE);
			break;
		case 1:
			if (fallocate(fd, 0, at, pages * PAGE))
				die("fallocate");
			break;
		}
		at += pages * PAGE;
	}
	put(fd, truth, size - 777, 777);
	/* Unwritten blocks beyond the end; the last block's rest is not to be seen. */
	if (fallocate(fd, FALLOC_FL_KEEP_SIZE, size, 8 * PAGE))
		die("fallocate");
	if (kind == 3 && fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 5 * PAGE + 100, 20 * PAGE))
		die("punch");
	if (kind == 3)
		memset(truth + 5 * PAGE + 100, 0, 20 * PAGE);
	close(fd);
	return size;
}

/* read(2): bytes and position, through to the end and beyond. */
static void positions(const int *fds, char **into)
{
	for (size_t step = 1000; step < 20000; step += 3777) {
		for (int way = 0; way < WAYS; way++)
			lseek(fds[way], 0, SEEK_SET);
		for (int more = 2; more;) {
			ssize_t got[WAYS];
			off_t at[WAYS];

			for (int way = 0; way < WAYS; way++) {
				got[way] = read(fds[way], into[way], step);
				at[way] = lseek(fds[way], 0, SEEK_CUR);
			}
			compared++;
			if (got[ITER] != got[READ] || at[ITER] != at[READ] || memcmp(into[ITER], into[READ], step))
				fail("read %zu: %zd to %ld, %zd to %ld", step, got[ITER], (long)at[ITER], got[READ], (long)at[READ]);
			more -= got[READ] <= 0;
		}
	}
}

/* Buffers whose end is not there: as many bytes as there is room, then EFAULT. */
static void short_buffers(const int *fds, char **guarded, const char *truth, long size)
{
	long hole = -1;

	for (int i = 0; i < 400; i++) {
		size_t room = draw() % (3 * PAGE) + 1, length = room + draw() % (2 * PAGE);
		long offset = draw() % size;
		char *into[WAYS] = { guarded[ITER] - room, guarded[READ] - room };

		compare(fds, into, room, offset, length, truth, size);
	}
	for (long at = 0; at + PAGE < size; at += PAGE) {
		ssize_t got[WAYS];
		int error[WAYS];

		for (int way = 0; way < WAYS; way++) {
			errno = 0;
			got[way] = pread(fds[way], guarded[way], 100, at);
			error[way] = errno;
		}
		compared++;
		if (got[READ] != -1 || error[READ] != EFAULT)
			fail("no buffer at %ld: read %zd (%s)", at, got[READ], strerror(error[READ]));
		/* The one known difference: the iterator takes a hole that it could not fill for the end of the file. */
		if (got[ITER] == 0)
			hole = at;
		else if (got[ITER] != -1 || error[ITER] != EFAULT)
			fail("no buffer at %ld: read_iter %zd (%s)", at, got[ITER], strerror(error[ITER]));
	}
	printf("a hole without a buffer: read_iter gives %s, read EFAULT\n", hole < 0 ? "EFAULT" : "0");
}

/* What goes to the iterator in both: vectors, flags. */
static void vectors(const int *fds, char **into, long size)
{
	for (int i = 0; i < 100; i++) {
		long offset = draw() % size;
		ssize_t got[WAYS], now[WAYS];

		for (int way = 0; way < WAYS; way++) {
			struct iovec pieces[2] = { { into[way], 1 + i * 31 }, { into[way] + 8000, 5000 } };

			memset(into[way], 0, 16000);
			got[way] = preadv(fds[way], pieces, 2, offset);
			now[way] = preadv2(fds[way], pieces, 1, offset, RWF_NOWAIT);
		}
		compared++;
		if (got[ITER] != got[READ] || now[ITER] != now[READ] || memcmp(into[ITER], into[READ], 16000))
			fail("preadv at %ld: %zd and %zd", offset, got[ITER], got[READ]);
	}
}

static void same(const char *folder)
{
	static const long far[] = { 1L << 32,		(1L << 32) * PAGE - 2 * PAGE, (1L << 32) * PAGE - PAGE,
				    (1L << 32) * PAGE,	1L << 50,		      INT64_MAX - 2 * PAGE,
				    INT64_MAX - PAGE,	INT64_MAX - 1,		      INT64_MAX,
				    -1,			INT64_MIN };
	char path[4096], *truth = malloc(BIG), *into[WAYS], *guarded[WAYS];

	snprintf(path, sizeof(path), "%s/same", folder);
	for (int way = 0; way < WAYS; way++) {
		into[way] = malloc(BIG);
		guarded[way] = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		guarded[way] += 6 * PAGE;
		mprotect(guarded[way], 2 * PAGE, PROT_NONE);
	}
	for (int kind = 0; kind < 4; kind++) {
		long size = lay_out(path, truth, kind);
		int fds[WAYS] = { open_way(path, ITER), open_way(path, READ) };

		compare(fds, into, BIG, 0, BIG, truth, size);
		for (long at = 0; at < size + 3 * PAGE; at += PAGE)
			for (int shift = -1; shift <= 1; shift++)
				if (at + shift >= 0)
					compare(fds, into, 3 * PAGE, at + shift, 1 + (draw() % 3) * (PAGE - 1), truth, size);
		for (int i = 0; i < 600; i++)
			compare(fds, into, 12 * PAGE, draw() % (size + PAGE), draw() % (12 * PAGE), truth, size);
		for (long at = size - 3; at < size + 3; at++)
			for (size_t length = 0; length < 6; length++)
				compare(fds, into, PAGE, at, length, truth, size);
		for (size_t i = 0; i < sizeof(far) / sizeof(*far); i++)
			for (size_t length = 0; length <= 2 * PAGE; length += PAGE)
				compare(fds, into, 2 * PAGE, far[i], length, NULL, 0);
		positions(fds, into);
		short_buffers(fds, guarded, truth, size);
		vectors(fds, into, size);
		close(fds[ITER]);
		close(fds[READ]);
	}
	unlink(path);
}

/* One file under change. Each write covers whole records and sets each of their words to one number. */
#define RECORD (4 * PAGE)
#define RECORDS 32

struct race {
	int fd, ways[WAYS];
	volatile int over;
	long reads[WAYS], bytes[WAYS];
};

struct reader {
	struct race *race;
	int way;
};

static void *change(void *argument)
{
	struct race *race = argument;
	uint64_t *record = malloc(RECORD);

	for (uint64_t number = 1; !race->over; number++) {
		long at = (long)(number * 7 % RECORDS) * RECORD;

		for (size_t i = 0; i < RECORD / sizeof(*record); i++)
			record[i] = number << 8 | 1;
		switch (number % 8) {
		case 0:
			if (ftruncate(race->fd, at) || ftruncate(race->fd, RECORDS * RECORD))
				die("ftruncate");
			break;
		case 3:
			if (fallocate(race->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, RECORD))
				die("punch");
			break;
		case 5:
			if (fallocate(race->fd, FALLOC_FL_ZERO_RANGE, at, RECORD))
				die("zero range");
			break;
		default:
			if (pwrite(race->fd, record, RECORD, at) != RECORD)
				die("pwrite");
		}
	}
	free(record);
	return NULL;
}

/* A record is read whole, or up to where the file ended: one number throughout. */
static void *look(void *argument)
{
	struct reader *reader = argument;
	struct race *race = reader->race;
	uint64_t *record = malloc(RECORD);

	for (uint64_t turn = reader->way; !race->over; turn += 5) {
		ssize_t got = pread(race->ways[reader->way], record, RECORD, (turn % RECORDS) * RECORD);

		if (got < 0)
			die("pread");
		race->reads[reader->way]++;
		race->bytes[reader->way] += got;
		for (ssize_t i = 0; i < got / (ssize_t)sizeof(*record); i++) {
			if (record[i] != record[0] || (record[0] && (record[0] & 0xff) != 1)) {
				fail("%s: record %lu holds %lx and %lx", names[reader->way], (unsigned long)(turn % RECORDS),
				     (unsigned long)record[0], (unsigned long)record[i]);
				break;
			}
		}
	}
	free(record);
	return NULL;
}

static void race(const char *folder, long ms)
{
	struct timespec time = { ms / 1000, ms % 1000 * 1000000 };
	struct race race = { 0 };
	struct reader readers[WAYS] = { { &race, ITER }, { &race, READ } };
	pthread_t threads[WAYS + 1];
	char path[4096];

	snprintf(path, sizeof(path), "%s/race", folder);
	race.fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (race.fd < 0 || ftruncate(race.fd, RECORDS * RECORD))
		die(path);
	for (int way = 0; way < WAYS; way++)
		race.ways[way] = open_way(path, way);
	pthread_create(&threads[WAYS], NULL, change, &race);
	for (int way = 0; way < WAYS; way++)
		pthread_create(&threads[way], NULL, look, &readers[way]);
	nanosleep(&time, NULL);
	race.over = 1;
	for (int i = 0; i <= WAYS; i++)
		pthread_join(threads[i], NULL);
	for (int way = 0; way < WAYS; way++) {
		printf("beside writers: %ld records by %s, %ld bytes\n", race.reads[way], names[way], race.bytes[way]);
		if (!race.reads[way] || !race.bytes[way])
			fail("%s: nothing was read", names[way]);
	}
	unlink(path);
}

/* So that blocks which a file is given hold something that is not zero. */
static void poison(const char *folder)
{
	char path[4096], *block = malloc(BIG);
	int fd;

	snprintf(path, sizeof(path), "%s/poison", folder);
	memset(block, POISON, BIG);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	if (fd < 0)
		die(path);
	while (write(fd, block, BIG) > 0)
		;
	close(fd);
	unlink(path);
	free(block);
}

int main(int count, char **words)
{
	if (count == 3 && !strcmp(words[1], "same")) {
		poison(words[2]);
		same(words[2]);
	} else if (count == 4 && !strcmp(words[1], "race")) {
		poison(words[2]);
		race(words[2], atol(words[3]));
	} else if (count == 5 && !strcmp(words[1], "time")) {
		int fd = open_way(words[2], atoi(words[3]));
		char block[PAGE];

		for (long i = 0, many = atol(words[4]); i < many; i++)
			if (pread(fd, block, PAGE, i % 64 * PAGE) != PAGE)
				die("pread");
	} else {
		fprintf(stderr, "needed: same FOLDER, race FOLDER MS, or time FILE 0|1 COUNT\n");
		return 2;
	}
	printf("%ld compared, %ld wrong\n", compared, wrong);
	return wrong > 0;
}
