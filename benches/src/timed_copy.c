/*
 * The bare loop that pagelab's mmap engine is held against: copies of BYTES from a file mapped whole, each between two
 * time stamps, for SECONDS. Prints the copies per second.
 *
 * Every block comes once per round, in an order shuffled beforehand, as in a job with a random map: drawing blocks anew
 * each time meets some of them while they are still cached, up to a quarter faster on a small file.
 *
 * The second stamp is rdtscp, which waits until the copied bytes have arrived; with a plain rdtsc the misses of several
 * copies would overlap and the difference of the stamps would be no latency.
 *
 * Usage: timed_copy FILE BYTES SECONDS
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
	static char buffer[1 << 20];
	struct stat info;
	uint64_t seed = 88172645463325252ULL, ticks = 0, copies = 0;

	if (argc != 4)
		return 2;
	int fd = open(argv[1], O_RDONLY);
	size_t bytes = strtoul(argv[2], NULL, 10);
	double seconds = atof(argv[3]);
	if (fd < 0 || fstat(fd, &info) || bytes == 0 || bytes > sizeof(buffer))
		return 1;
	uint64_t blocks = info.st_size / bytes, next = 0;
	uint32_t *order = malloc(blocks * sizeof(*order));
	if (order == NULL || blocks == 0 || blocks > UINT32_MAX)
		return 1;
	for (uint64_t k = 0; k < blocks; k++)
		order[k] = k;
	for (uint64_t k = blocks - 1; k > 0; k--) {
		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		uint64_t other = seed % (k + 1);
		uint32_t kept = order[k];

		order[k] = order[other];
		order[other] = kept;
	}
	char *map = mmap(NULL, info.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return 1;
	double begin = now(), end;
	do {
		for (int k = 0; k < 4096; k++) {
			unsigned int cpu;

			uint64_t block = order[next];
			next = next + 1 == blocks ? 0 : next + 1;
			uint64_t from = __rdtsc();
			memcpy(buffer, map + block * bytes, bytes);
			ticks += __rdtscp(&cpu) - from;
		}
		copies += 4096;
		end = now();
	} while (end - begin < seconds);
	printf("%.0f\n", copies / (end - begin));
	return ticks == 0;
}
