/* How fast a processor is, fifty times a second: speed CPU
 *
 * Each line: seconds since 1970, then ns of own CPU time for a fixed number of system calls, of messages through a pipe, of statements
 * of SQL on a table in memory, and of loads from all over a large area. What else runs on that processor in turn with it does not
 * matter; what makes the processor itself slower (a neighbour on its core or in its cache) does.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ROWS 100000
/* Each place is in a page and in a line of the cache of its own. */
#define PLACES 32768
#define STRIDE_WORDS ((4096 + 64) / sizeof(unsigned))

static sqlite3 *table;
static unsigned *area;
static int pipe_ends[2];

static long now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void sql(const char *statement)
{
	if (sqlite3_exec(table, statement, NULL, NULL, NULL) != SQLITE_OK) {
		fprintf(stderr, "%s: %s\n", statement, sqlite3_errmsg(table));
		exit(1);
	}
}

static void fill_table(void)
{
	char statement[200];

	if (sqlite3_open(":memory:", &table) != SQLITE_OK)
		exit(1);
	sql("create table accounts(id integer primary key, balance int, filler text)");
	sql("begin");
	for (int id = 0; id < ROWS; id++) {
		snprintf(statement, sizeof(statement), "insert into accounts values(%d, 0, '%084d')", id, id);
		sql(statement);
	}
	sql("commit");
}

/* One cycle through all places, in no order (Sattolo). */
static void fill_area(void)
{
	static unsigned next[PLACES];

	area = calloc(PLACES, STRIDE_WORDS * sizeof(unsigned));
	if (!area)
		exit(1);
	for (unsigned place = 0; place < PLACES; place++)
		next[place] = place;
	for (unsigned place = PLACES - 1; place; place--) {
		unsigned other = random() % place, kept = next[place];

		next[place] = next[other];
		next[other] = kept;
	}
	for (unsigned place = 0; place < PLACES; place++)
		area[place * STRIDE_WORDS] = next[place];
}

static void call(void)
{
	for (int i = 0; i < 600; i++)
		syscall(SYS_getppid);
}

static void send(void)
{
	char message[64] = {0};

	for (int i = 0; i < 150; i++)
		if (write(pipe_ends[1], message, sizeof(message)) < 0 || read(pipe_ends[0], message, sizeof(message)) < 0)
			exit(1);
}

static void query(void)
{
	char statement[200];

	for (int i = 0; i < 12; i++) {
		snprintf(statement, sizeof(statement), "update accounts set balance = balance + %d where id = %ld", i, random() % ROWS);
		sql(statement);
		snprintf(statement, sizeof(statement), "select balance from accounts where id = %ld", random() % ROWS);
		sql(statement);
	}
}

static void load(void)
{
	static unsigned place;

	for (int i = 0; i < 1000; i++)
		place = *(volatile unsigned *)&area[place * STRIDE_WORDS];
}

int main(int count, char **words)
{
	static void (*const works[])(void) = {call, send, query, load};
	cpu_set_t cpus;

	if (count != 2 || pipe(pipe_ends))
		return 2;
	CPU_ZERO(&cpus);
	CPU_SET(atoi(words[1]), &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		return 1;
	fill_table();
	fill_area();
	for (;;) {
		long took_ns[sizeof(works) / sizeof(*works)];

		for (unsigned i = 0; i < sizeof(works) / sizeof(*works); i++) {
			long begin_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);

			works[i]();
			took_ns[i] = now_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns;
		}
		printf("%.3f", now_ns(CLOCK_REALTIME) / 1e9);
		for (unsigned i = 0; i < sizeof(works) / sizeof(*works); i++)
			printf(" %ld", took_ns[i]);
		printf("\n");
		fflush(stdout);
		usleep(20000);
	}
}
