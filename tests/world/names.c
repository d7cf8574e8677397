/*
 * Calls on files whose names change all the time: renames of files and of folders above them, exchanges, links, deletions, bind
 * mounts, an overlay, and files that have no place in a folder. Every choice is drawn from a seed.
 *
 *     names FOLDER SEED CALLS TRUTH
 *
 * Before the n-th call, lseek(fd, n, SEEK_SET), the program asks /proc/self/fd what the file is called; TRUTH gets a line "n name".
 * It works in a mount namespace of its own (root).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NODES 240
#define OPEN 48
#define MOUNTS 6
#define LAYERED 12
#define PATH 8192

/* A name in the tree: of a folder, or of a file, which may have several. */
enum { FILE_NODE, DIR_NODE, PLACE };
static struct node { int parent, is_dir, used; char name[64]; } nodes[NODES];
static int fds[OPEN];
static struct { int from, at; } mounts[MOUNTS];
static uint64_t state;
static long named;

static unsigned draw(unsigned below)
{
	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (state >> 33) % below;
}

/* Names of 1 to 60 letters: short ones lie in the dentry itself, long ones outside. */
static void new_name(char *name)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789 ()-_";
	int length = draw(8) ? 1 + draw(12) : 45 + draw(15);

	length -= sprintf(name, "%ld", named++);
	name += strlen(name);
	for (int i = 0; i < length; i++)
		*name++ = letters[draw(sizeof(letters) - 1)];
	*name++ = '.';
	*name = 0;
}

/* The path of a node from the node `from`, which must be above it; NULL if it is not. */
static char *path_from(int from, int node, char *path)
{
	char below[PATH], whole[PATH] = "";

	for (int at = node; at != from; at = nodes[at].parent) {
		if (at == 0 || strlen(whole) > PATH - 200)
			return NULL;
		snprintf(below, sizeof(below), "/%s%.*s", nodes[at].name, PATH - 100, whole);
		strcpy(whole, below);
	}
	return strcpy(path, whole);
}

/* The path of a node: from the top, or through a mount that shows it. */
static char *path_of(int node, char *path)
{
	char below[PATH];
	int mount = draw(2 * MOUNTS);

	if (mount < MOUNTS && mounts[mount].at && path_from(mounts[mount].from, node, below) &&
	    path_from(0, mounts[mount].at, path))
		snprintf(path, PATH, "top%.*s%.*s", 3000, strdupa(path), 4000, below);
	else if (path_from(0, node, below))
		snprintf(path, PATH, "top%.*s", 7000, below);
	else
		return NULL;
	return strlen(path) < 4000 ? path : NULL;
}

static int drawn_node(int is_dir)
{
	for (int tries = 0; tries < 200; tries++) {
		int node = draw(NODES);

		if (nodes[node].used && nodes[node].is_dir == is_dir && (is_dir || node))
			return node;
	}
	return 0;
}

static int free_node(void)
{
	for (int node = 1; node < NODES; node++)
		if (!nodes[node].used)
			return node;
	return 0;
}

static int is_below(int node, int above)
{
	for (; node; node = nodes[node].parent)
		if (node == above)
			return 1;
	return !above;
}

static void add(int is_dir)
{
	int node = free_node(), parent = drawn_node(1);
	char path[PATH];

	if (!node)
		return;
	nodes[node] = (struct node){ parent, is_dir, 1 };
	new_name(nodes[node].name);
	if (!path_of(node, path) || (is_dir ? mkdir(path, 0755) : close(open(path, O_CREAT | O_RDWR, 0644))))
		nodes[node].used = 0;
}

static void keep(int fd)
{
	int slot = draw(OPEN);

	if (fd < 0)
		return;
	if (fds[slot] >= 0)
		close(fds[slot]);
	fds[slot] = fd;
}

static void open_one(void)
{
	char path[PATH];
	int node = drawn_node(draw(4) == 0);

	if (path_of(node, path))
		keep(open(path, nodes[node].is_dir ? O_RDONLY | O_DIRECTORY : O_RDWR));
}

static void move(int is_dir)
{
	int node = drawn_node(is_dir), parent = drawn_node(1);
	char from[PATH], to[PATH];
	struct node moved = nodes[node];

	if (!node || (is_dir && is_below(parent, node)) || !path_of(node, from))
		return;
	moved.parent = draw(2) ? parent : nodes[node].parent;
	new_name(moved.name);
	struct node before = nodes[node];
	nodes[node] = moved;
	if (!path_of(node, to) || rename(from, to))
		nodes[node] = before;
}

/* Over a file that is there, and may be open. */
static void move_over(void)
{
	int node = drawn_node(0), other = drawn_node(0);
	char from[PATH], to[PATH];

	if (!node || !other || node == other || !path_of(node, from) || !path_of(other, to))
		return;
	struct stat one, two;
	if (stat(from, &one) || stat(to, &two) || one.st_ino == two.st_ino || rename(from, to))
		return;
	nodes[node].used = 0;
}

static void exchange(void)
{
	int is_dir = draw(2), one = drawn_node(is_dir), two = drawn_node(draw(4) ? is_dir : !is_dir);
	char from[PATH], to[PATH];

	if (!one || !two || one == two || is_below(one, two) || is_below(two, one) || !path_of(one, from) ||
	    !path_of(two, to) || syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 2 /* RENAME_EXCHANGE */))
		return;
	struct node held = nodes[one];
	nodes[one].parent = nodes[two].parent;
	strcpy(nodes[one].name, nodes[two].name);
	nodes[two].parent = held.parent;
	strcpy(nodes[two].name, held.name);
}

static void link_one(void)
{
	int node = drawn_node(0), other = free_node(), parent = drawn_node(1);
	char from[PATH], to[PATH];

	if (!node || !other || !path_of(node, from))
		return;
	nodes[other] = (struct node){ parent, 0, 1 };
	new_name(nodes[other].name);
	if (!path_of(other, to) || link(from, to))
		nodes[other].used = 0;
}

static void remove_one(void)
{
	int node = drawn_node(0);
	char path[PATH];

	if (node && path_of(node, path) && !unlink(path))
		nodes[node].used = 0;
}

/* Shows a folder in another place, or ends that. The place is a folder of its own, which nothing else is put into. */
static void mount_one(void)
{
	int slot = draw(MOUNTS), at = mounts[slot].at, source = drawn_node(1);
	char path[PATH], place[PATH + 3] = "top", shown[PATH + 3] = "top";

	if (at) {
		if (path_from(0, at, path) && !umount2(strcat(place, path), MNT_DETACH)) {
			mounts[slot].at = 0;
			nodes[at].used = 0;
			rmdir(place);
		}
		return;
	}
	at = free_node();
	if (!at)
		return;
	nodes[at] = (struct node){ drawn_node(1), PLACE, 1 };
	new_name(nodes[at].name);
	if (!path_from(0, at, path) || mkdir(strcat(place, path), 0755)) {
		nodes[at].used = 0;
		return;
	}
	if (is_below(at, source) || !path_from(0, source, path) || mount(strcat(shown, path), place, 0, MS_BIND, 0)) {
		nodes[at].used = 0;
		rmdir(place);
		return;
	}
	mounts[slot].from = source;
	mounts[slot].at = at;
}

/* Files of an overlay: read below, written above, renamed. */
static void layered(void)
{
	static int renamed[LAYERED];
	char path[64], to[64];
	int file = draw(LAYERED);

	sprintf(path, "merged/f%d.%d", file, renamed[file]);
	switch (draw(3)) {
	case 0:
		sprintf(to, "merged/f%d.%d", file, renamed[file] + 1);
		renamed[file] += !rename(path, to);
		break;
	default:
		keep(open(path, draw(2) ? O_RDONLY : O_RDWR));
	}
}

static void open_other(void)
{
	int pair[2];
	char name[64];

	switch (draw(5)) {
	case 0:
		new_name(name);
		keep(memfd_create(name, 0));
		break;
	case 1:
		keep(eventfd(0, 0));
		break;
	case 2:
		if (!pipe(pair)) {
			keep(pair[0]);
			keep(pair[1]);
		}
		break;
	case 3:
		keep(socket(AF_UNIX, SOCK_STREAM, 0));
		break;
	case 4:
		keep(open(draw(2) ? "/proc/self/ns/mnt" : "/dev/null", O_RDONLY));
		break;
	}
}

static void change(void)
{
	static void (*const changes[])(void) = { open_one, open_one, open_one, move_over, exchange, link_one, remove_one, layered, open_other };

	switch (draw(16)) {
	case 0:
	case 1:
		add(0);
		break;
	case 2:
		add(1);
		break;
	case 3:
	case 4:
		move(0);
		break;
	case 5:
	case 6:
		move(1);
		break;
	case 7:
		if (draw(8) == 0)
			mount_one();
		break;
	default:
		changes[draw(sizeof(changes) / sizeof(*changes))]();
	}
}

static void set_up(void)
{
	char name[64];

	if (unshare(CLONE_NEWNS) || mount("none", "/", 0, MS_REC | MS_PRIVATE, 0)) {
		perror("a mount namespace");
		exit(3);
	}
	mkdir("top", 0755);
	mkdir("lower", 0755);
	mkdir("upper", 0755);
	mkdir("work", 0755);
	mkdir("merged", 0755);
	for (int file = 0; file < LAYERED; file++) {
		sprintf(name, "lower/f%d.0", file);
		close(open(name, O_CREAT | O_WRONLY, 0644));
	}
	if (mount("overlay", "merged", "overlay", 0, "lowerdir=lower,upperdir=upper,workdir=work")) {
		perror("an overlay");
		exit(3);
	}
	nodes[0].is_dir = nodes[0].used = 1;
	for (int slot = 0; slot < OPEN; slot++)
		fds[slot] = -1;
}

int main(int argc, char **argv)
{
	char link[64], name[PATH];
	FILE *truth;

	if (argc < 5 || chdir(argv[1]))
		return 2;
	state = strtoull(argv[2], 0, 10);
	truth = fopen(argv[4], "w");
	set_up();
	for (int i = 0; i < 100; i++)
		add(i % 5 == 0);
	long calls = atol(argv[3]);
	for (long n = 1; n <= calls;) {
		change();
		for (int i = draw(6); i > 0 && n <= calls; i--) {
			int fd = fds[draw(OPEN)];

			if (fd < 0)
				continue;
			sprintf(link, "/proc/self/fd/%d", fd);
			ssize_t length = readlink(link, name, sizeof(name) - 1);
			if (length < 0)
				length = sprintf(name, "errno %d", errno);
			name[length] = 0;
			lseek(fd, n, SEEK_SET);
			fprintf(truth, "%ld %s\n", n, name);
			n++;
		}
	}
	return fclose(truth) ? 1 : 0;
}
