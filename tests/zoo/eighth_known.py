"""Kinds of the eighth set whose cause is on the list: one for each cause that this machine can make.

Written without a look at the rules. The truth of each kind stands beside its program: what it does differently, and where the time goes.
"""

from cases import DATA, DIRTY, QUEUE, THP, Side, dropped, memory_limited, piece, programs, toggled
from compiled import C_HEAD, built, with_one
from kinds import capped, either, kind, node, perl, python, shell

VOLUME = "{dir}/volume"


def made(file, line):
    """What makes a file, if it is not there."""
    return [["sh", "-c", f"[ -e {file} ] || {{ {line}; }}"]]


def on_volume(attach, line):
    """A line of the shell with {dir}/volume, which is mounted where nobody else sees it and gone with the run."""
    script = f"mkdir -p {VOLUME} && {attach} || exit 9; {line}; status=$?; cd /; umount {VOLUME}; exit $status"
    return ["unshare", "-m", "sh", "-c", script]


# A table of parts: 300000 rows of about 200 bytes.
PARTS = "{dir}/parts.db"
MAKE_PARTS = made(PARTS, f"sqlite3 {PARTS}.new 'CREATE TABLE t(id INTEGER PRIMARY KEY, b); WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c "
                         f"LIMIT 300000) INSERT INTO t SELECT i, hex(randomblob(100)) FROM c' && sync {PARTS}.new && mv {PARTS}.new {PARTS}")


def looked_up(n):
    """So many rows of the table, all over it."""
    return (f"WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c LIMIT {n}) "
            "SELECT sum(length(b)) FROM c CROSS JOIN t ON t.id = 1 + (c.i * 104729) % 300000;")


# Memory.


FRAMES = built("e8-frames", "cc", """#include <cstdlib>
#include <vector>
// Frames of a film, each of which is made in a vector of its own.
int main(int, char **v) {
    float sum = 0;
    for (long i = 0, n = atol(v[1]); i < n; i++) {
        std::vector<float> frame(10000000, i);
        sum += frame[i * 4099 % frame.size()];
    }
    return sum < 0;
}""")


@kind("eighth", "thp.disabled", "c++-vectors", 15, place="memory", components=("run.fault.entry",), touches=("thp", "malloc"),
      truth="The C library no longer asks for huge pages for large blocks, so that each vector is faulted in page by page.")
def _(n):
    return tuple(Side(["{dir}/bin/e8-frames", str(n)], env={"GLIBC_TUNABLES": f"glibc.malloc.hugetlb={how}"}, before=FRAMES,
                      settings={f"{THP}/enabled": "madvise"}) for how in (1, 0))


def holding(pages):
    """A program that has mapped so many pages of hugetlb."""
    return python(f"import mmap, time\nm = mmap.mmap(-1, {pages} << 21, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000)\ntime.sleep(1000)")


@kind("eighth", "hugetlb.pool_exhausted", "perl", 10, place="memory", components=("run.fault.entry",), touches=("thp", "malloc"),
      truth="Another program holds nearly all huge pages of the pool, so that the C library falls back to base pages for large strings, which are "
            "faulted in one by one.")
def _(n):
    line = perl(f"for (1 .. {n}) {{ my $s = 'x' x (40 << 20); undef $s; }}")
    return tuple(Side(line, env={"GLIBC_TUNABLES": "glibc.malloc.hugetlb=2"}, settings={"/proc/sys/vm/nr_hugepages": "64"}, beside=[holding(pages)])
                 for pages in (1, 54))


@kind("eighth", "map.misaligned", "python-length", 200, place="memory", components=("run.fault.entry",), touches=("thp",),
      truth="Mappings are a page longer than two MiB, so that the kernel no longer lets them begin where a huge page can, and they are faulted in by "
            "base pages.")
def _(n):
    text = (f"import mmap\nb = bytes(2 << 20)\nfor i in range({n}):\n"
            " m = mmap.mmap(-1, (2 << 20) + {more}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n m.write(b)\n m.close()")
    return either(python, text, "{more}", (0, 4096), settings={f"{THP}/enabled": "always"})


PURGE = built("e8-purge", "c", C_HEAD + """
/* An allocator that lets the kernel have a free page back: of a run of huge pages, or of a page apart. */
int main(int argc, char **argv) {
    long n = atol(argv[1]), huge = 2 << 20;
    char *run, *apart;
    if (posix_memalign((void **)&run, huge, 64 * huge) || posix_memalign((void **)&apart, huge, huge)) return 1;
    madvise(apart, huge, MADV_NOHUGEPAGE);
    memset(apart, 1, huge);
    while (n > 0) {
        madvise(run, 64 * huge, MADV_HUGEPAGE);
        for (long i = 0; i < 64; i++) run[i * huge] = 1;
        for (long i = 0; i < 64 && n > 0; i++, n--) {
            char *at = !strcmp(argv[2], "run") ? run + i * huge + 40960 : apart + 40960;
            madvise(at, 4096, MADV_FREE);
            at[0] = 1;
        }
        madvise(run, 64 * huge, MADV_DONTNEED);
    }
}""")


@kind("eighth", "thp.split", "purge", 400, place="memory", components=("run.memory.split",), touches=("thp",),
      truth="An allocator gives single pages out of the middle of huge pages back with MADV_FREE, and the kernel splits each of these huge pages into "
            "base pages.")
def _(n):
    return with_one(PURGE, ["{dir}/bin/e8-purge", str(n), "WHERE"], "WHERE", ("apart", "run"), settings={f"{THP}/enabled": "madvise"})


@kind("eighth", "shmem.small_pages", "python-advice", 10, place="memory", components=("run.fault.shared",), touches=("thp",),
      truth="A program no longer advises huge pages for the memory that it shares, so that each of its pages is faulted in by itself.")
def _(n):
    text = ("import ctypes, mmap\n"
            f"for i in range({n}):\n m = mmap.mmap(-1, 32 << 20)\n m.madvise(mmap.{{advice}})\n p = ctypes.c_char.from_buffer(m)\n"
            " ctypes.memset(ctypes.addressof(p), 1, 32 << 20)\n del p\n m.close()")
    return either(python, text, "{advice}", ("MADV_HUGEPAGE", "MADV_NORMAL"), settings={f"{THP}/shmem_enabled": "advise"})


TRACKED = built("e8-tracked", "c", C_HEAD + """
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
/* Looks through a file that it maps, again and again; writes to the mapping may be tracked as a checkpoint needs it. */
int main(int argc, char **argv) {
    long n = atol(argv[1]), size = 64 << 20, sum = 0;
    int f = open(argv[3], O_RDONLY), u = syscall(SYS_userfaultfd, O_CLOEXEC);
    /* WP_ASYNC and WP_UNPOPULATED, which older headers do not have. */
    struct uffdio_api api = { .api = UFFD_API, .features = 1 << 15 | 1 << 13 };
    if (f < 0 || u < 0 || ioctl(u, UFFDIO_API, &api)) { perror("userfaultfd"); return 1; }
    for (; n > 0; n--) {
        char *at = mmap(NULL, size, PROT_READ, MAP_PRIVATE, f, 0);
        struct uffdio_register all = { .range = { (uint64_t)at, size }, .mode = UFFDIO_REGISTER_MODE_WP };
        if (at == MAP_FAILED || !strcmp(argv[2], "tracked") && ioctl(u, UFFDIO_REGISTER, &all)) { perror("map"); return 1; }
        for (long i = 0; i < size; i += 4096) sum += at[i];
        munmap(at, size);
    }
    return sum == 42;
}""")


@kind("eighth", "faultaround.reduced", "tracked", 30, place="files", components=("run.fault.entry",),
      truth="The program has writes to its mapped file tracked by userfaultfd, for which the kernel maps one page with each fault instead of the sixteen "
            "around.")
def _(n):
    return with_one(TRACKED, ["{dir}/bin/e8-tracked", str(n), "HOW", DATA], "HOW", ("plain", "tracked"), before=[["cat", DATA]])


FIELD = built("e8-field", "f90", """! Steps of a model, whose field is allocated once, or anew for each step.
program field
  real(8), allocatable :: a(:)
  character(32) :: word
  integer :: i, n
  call get_command_argument(1, word)
  read (word, *) n
  call get_command_argument(2, word)
  allocate (a(5000000))
  a = 1
  do i = 1, n
    if (word == "anew") then
      deallocate (a)
      allocate (a(5000000))
    end if
    a = i
    if (a(mod(i * 4099, 5000000) + 1) < 0) print *, i
  end do
end program""")


@kind("eighth", "map.churn", "fortran", 10, place="memory", components=("run.fault.entry",), touches=("thp", "malloc"),
      truth="A Fortran model allocates and deallocates its field of 40 MB in each step instead of once, and each time it is mapped, faulted in, cleared "
            "and given back.")
def _(n):
    return with_one(FIELD, ["{dir}/bin/e8-field", str(n), "WHEN"], "WHEN", ("once", "anew"))


@kind("eighth", "fork.copies", "python-refcounts", 8, place="memory", components=("run.fault.copy",), touches=("thp",),
      truth="Letters are gone through in a child instead of in the process itself: counting references writes to the page of each, which is copied "
            "because it is shared since the fork.")
def _(n):
    text = ("import os\nletters = [bytes(4000 + i % 2) for i in range(15000)]\n"
            f"for i in range({n}):\n p = {{fork}}\n for letter in letters: pass\n if p == 0: os._exit(0)\n if p > 0: os.waitpid(p, 0)")
    return either(python, text, "{fork}", ("-1", "os.fork()"))


EVICTING = built("e8-evicting", "c", C_HEAD + """
static void *compute(void *unused) { for (volatile unsigned long x = 1;; x = x * 69069 + 1); return unused; }
/* A cache that gives its oldest page back to the kernel and fills it anew, while something computes: a thread, or another process. */
int main(int argc, char **argv) {
    long n = atol(argv[1]);
    pid_t child = 0;
    pthread_t thread;
    cpu_set_t set;
    char *at = mmap(NULL, 1 << 20, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(at, 1 << 20, MADV_NOHUGEPAGE);
    memset(at, 1, 1 << 20);
    if (!strcmp(argv[2], "process")) {
        if (!(child = fork())) { prctl(PR_SET_PDEATHSIG, SIGKILL); compute(0); }
    } else
        pthread_create(&thread, NULL, compute, NULL);
    usleep(2000);
    for (long i = 0; i < n; i++) {
        madvise(at + i % 256 * 4096, 4096, MADV_DONTNEED);
        at[i % 256 * 4096] = 2;
    }
    if (child) kill(child, SIGKILL);
    _exit(0);
}""")


@kind("eighth", "tlb.shootdowns", "evicting", 100000, largest=25, place="memory", components=("run.space.flush",), touches=("thp",),
      truth="A computation runs in a thread of the program instead of in a process beside it, so that for each page that is given back the other CPU is "
            "interrupted to drop it.")
def _(n):
    return with_one(EVICTING, ["{dir}/bin/e8-evicting", str(n), "WHERE"], "WHERE", ("process", "thread"))


WATCHED = built("e8-watched", "c", C_HEAD + """
static char path[64];
/* A watchdog that asks again and again how much memory a process has. */
static void *watch(void *unused) {
    char text[4096];
    for (;;) {
        int f = open(path, O_RDONLY);
        while (read(f, text, sizeof(text)) > 0);
        close(f);
        usleep(200);
    }
    return unused;
}
/* A program with much memory that maps and unmaps buffers, while its watchdog looks at itself or at its twin. */
int main(int argc, char **argv) {
    long n = atol(argv[1]), size = 256L << 20;
    pthread_t thread;
    char *all = mmap(NULL, size, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(all, size, MADV_NOHUGEPAGE);
    for (long i = 0; i < size; i += 4096) all[i] = 1;
    pid_t twin = fork();
    if (!twin) { prctl(PR_SET_PDEATHSIG, SIGKILL); pause(); _exit(0); }
    snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", strcmp(argv[2], "itself") ? twin : getpid());
    pthread_create(&thread, NULL, watch, NULL);
    usleep(2000);
    for (long i = 0; i < n; i++) {
        char *at = mmap(NULL, 1 << 16, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        at[0] = 1;
        munmap(at, 1 << 16);
        usleep(200);
    }
    kill(twin, SIGKILL);
    _exit(0);
}""")


@kind("eighth", "mmap_lock.contended", "watched", 150, place="memory", components=("off.mmap_lock",), touches=("thp",),
      truth="The program's watchdog reads the smaps_rollup of the program itself instead of that of another process, and mapping a buffer waits until "
            "the lock of the address space is free.")
def _(n):
    return with_one(WATCHED, ["{dir}/bin/e8-watched", str(n), "WHOM"], "WHOM", ("twin", "itself"))


@kind("eighth", "ksm.separated", "python", 64, place="memory", components=("run.fault.copy",), largest=25, touches=("thp",),
      truth="The program offers its memory to KSM, which merges the equal pages, and each write afterwards copies the page.")
def _(n):
    text = ("import ctypes, mmap, time\n"
            f"m = mmap.mmap(-1, {min(n, 512)} << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\nm.madvise(mmap.MADV_NOHUGEPAGE)\n"
            "p = ctypes.addressof(ctypes.c_char.from_buffer(m))\nctypes.memset(p, 5, len(m))\nif {offer}: m.madvise(mmap.MADV_MERGEABLE)\n"
            "time.sleep(0.7)\nctypes.memset(p, 6, len(m))")
    ksm = "/sys/kernel/mm/ksm"
    return either(python, text, "{offer}", (0, 1), settings={f"{ksm}/run": "1", f"{ksm}/pages_to_scan": "30000", f"{ksm}/sleep_millisecs": "1"})


SPARSE = built("e8-sparse", "c", C_HEAD + """
/* Tables of 64 MiB, of which little is used; each may be locked. */
int main(int argc, char **argv) {
    long n = atol(argv[1]), size = 64 << 20;
    for (; n > 0; n--) {
        char *table;
        if (posix_memalign((void **)&table, 2 << 20, size)) return 1;
        madvise(table, size, MADV_HUGEPAGE);
        if (!strcmp(argv[2], "locked") && mlock(table, size)) { perror("mlock"); return 1; }
        table[n * 4099 % size] = 1;
        free(table);
    }
}""")


@kind("eighth", "memory.pinned", "sparse", 30, place="memory", components=("run.memory.clear",), touches=("thp", "malloc"),
      truth="The program locks its sparse tables in memory, so that all of each is faulted in and cleared at once, instead of the little that is used.")
def _(n):
    return with_one(SPARSE, ["{dir}/bin/e8-sparse", str(n), "HOW"], "HOW", ("free", "locked"), settings={f"{THP}/enabled": "madvise"})


# Swap.


VAULT = built("e8-vault", "c", C_HEAD + """
/* Two arenas of which one is written to swap; then the one or the other is used. */
int main(int argc, char **argv) {
    long pages = atol(argv[1]) * 256, resident = 0;
    char *arenas[2];
    uint64_t x = 88172645463325252ULL, sum = 0;
    unsigned char *here = malloc(pages);
    for (int a = 0; a < 2; a++) {
        arenas[a] = mmap(NULL, pages * 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        madvise(arenas[a], pages * 4096, MADV_NOHUGEPAGE);
        for (long i = 0; i < pages * 512; i++) {
            x ^= x << 13; x ^= x >> 7; x ^= x << 17;
            ((uint64_t *)arenas[a])[i] = x;
        }
    }
    /* Written first, then dropped by the group, from which the other arena is kept. */
    if (mlock(arenas[1], pages * 4096) || madvise(arenas[0], pages * 4096, MADV_PAGEOUT)) { perror("madvise"); return 1; }
    usleep(100000);
    int group = open(argv[3], O_WRONLY);
    for (int t = 0; t < 10; t++, resident = 0) {
        write(group, "0", 1);
        mincore(arenas[0], pages * 4096, here);
        for (long i = 0; i < pages; i++) resident += here[i] & 1;
        if (!resident) break;
    }
    for (long i = 0; i < pages; i++) sum += arenas[strcmp(argv[2], "swapped") ? 1 : 0][i * 4099 % pages * 4096];
    return sum == 42;
}""")
SWAP = "{dir}/e8-swap"
MAKE_SWAP = [["sh", "-c", f"swapoff {SWAP} 2> /dev/null; [ -f {SWAP} ] || "
              f"{{ head -c 384M /dev/zero > {SWAP} && chmod 600 {SWAP} && mkswap -q {SWAP} && sync {SWAP}; }}"]]


@kind("eighth", "swap.traffic", "vault", 8, place="swap", components=("off.swap",),
      truth="The program uses the arena whose pages lie in a swap file on the disk instead of the one in memory, and waits for each page.")
def _(n):
    # The shell takes the file out of use and the group away, however the program ends.
    group = "/sys/fs/cgroup/memory/e8vault"
    inner = f"echo $$ > {group}/cgroup.procs && exec {{dir}}/bin/e8-vault {min(n, 160)} ARENA {group}/memory.force_empty"
    line = shell(f"mkdir -p {group}; trap 'swapoff {SWAP}; rmdir {group}' EXIT; trap 'exit 1' INT TERM; swapon {SWAP} && sh -c '{inner}'")
    return with_one(VAULT, line, "ARENA", ("memory", "swapped"), before=MAKE_SWAP)


# Reclaim and the page cache.


@kind("eighth", "cgroup.memory_limit", "node", 8, largest=60, place="group", components=("off.read",), also=("cache.refaults",), touches=("readahead",),
      truth="A file that node reads several times does not fit into the memory limit of its control group, so that each pass fetches it from the device again.")
def _(n):
    text = (f"const fs = require('fs'); const f = fs.openSync('{{dir}}/large.data'); const b = Buffer.alloc(1 << 20); "
            f"for (let i = 0; i <= {n}; i++) for (let j = 0; j < 96; j++) fs.readSync(f, b, 0, b.length, j * b.length);")
    return memory_limited(node(text), "1G", "80M")


@kind("eighth", "cache.refaults", "wc", 6, largest=60, place="cache", components=("off.read",), also=("cgroup.memory_limit",), touches=("readahead",),
      truth="Two files are read in turns instead of one after the other; together they are larger than the group's memory, so that each was just dropped "
            "when it is read again.")
def _(n):
    one, other = "{dir}/left.data", "{dir}/right.data"
    apart, turns = [one] * (n + 1) + [other] * (n + 1), [one, other] * (n + 1)
    before = [*piece(80, "left.data"), *piece(80, "right.data")]
    return programs(*(["wc", "-l", *files] for files in (apart, turns)), limits={"memory.max": "100M"}, before=before)


@kind("eighth", "cache.cold", "sqlite", 2000, place="cache", components=("off.read",), touches=("readahead",),
      truth="The table that SQLite looks rows up in is not in the page cache, and each lookup waits for the device.")
def _(n):
    line = ["sqlite3", PARTS, looked_up(min(n, 12000))]
    return Side(line, before=[*MAKE_PARTS, ["cat", PARTS]]), Side(line, before=[*MAKE_PARTS, *dropped(PARTS)])


# Files and devices.


@kind("eighth", "readahead.reduced", "perl", 16, place="files", components=("off.read",), touches=("readahead",),
      truth="A file that is not in the page cache is read ahead by 8 KiB instead of 2 MiB, so that Perl waits for the device after each two pages.")
def _(n):
    line = perl(f"open F, '<', '{{dir}}/large.data'; $/ = \\65536; for (1 .. {16 * min(n, 2000)}) {{ $s += length <F> }}")
    return toggled(line, f"{QUEUE}/read_ahead_kb", "2048", "8", before=dropped("{dir}/large.data"))


@kind("eighth", "readahead.lost", "python-mmap", 8, place="files", components=("off.read",), touches=("readahead",),
      truth="The program advises MADV_RANDOM for the file that it maps and walks through, so that nothing is read ahead and each page is waited for.")
def _(n):
    text = ("import mmap\nf = open('{dir}/large.data', 'rb')\nm = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)\nm.madvise(mmap.{advice})\ns = 0\n"
            f"for i in range(0, {min(n, 2000)} << 20, 4096): s += m[i]")
    return either(python, text, "{advice}", ("MADV_NORMAL", "MADV_RANDOM"), before=dropped("{dir}/large.data"))


# Two files of 128 MiB, which then swap every other block of 4 KiB: both lie in 32768 pieces. The third lies in few.
SCATTER = """import fcntl, os, struct
big, size = '{dir}/large.data', 128 << 20
names = ['{dir}/film.%s' % n for n in ('whole', 'scattered', 'donor')]
for name in names:
    f = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    os.posix_fallocate(f, 0, size)
    source = open(big, 'rb')
    for i in range(size >> 20): os.write(f, source.read(1 << 20))
    os.fsync(f)
    os.close(f)
a, b = os.open(names[1], os.O_RDWR), os.open(names[2], os.O_RDWR)
for f in (a, b): os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED)
for at in range(0, size >> 12, 2):
    fcntl.ioctl(a, 0xC028660F, struct.pack('=IIQQQQ', 0, b, at, at, 1, 0))
os.sync()
os.rename('{dir}/film.donor', '{dir}/film.made')
"""


def film(which):
    return [*made("{dir}/film.made", f"python3 -c \"{SCATTER}\""), ["ln", "-f", f"{{dir}}/film.{which}", "{dir}/film.data"], *dropped("{dir}/film.data")]


@kind("eighth", "file.fragmented", "head", 32, place="files", components=("off.read",), touches=("readahead",),
      truth="The file lies on its device in pieces of 4 KiB instead of in one, so that reading it takes a request for each piece.")
def _(n):
    line = ["head", "-c", f"{min(n, 128)}M", "{dir}/film.data"]
    return tuple(Side(line, before=film(which), settings={f"{QUEUE}/read_ahead_kb": "128"}) for which in ("whole", "scattered"))


@kind("eighth", "io.smaller_requests", "python-direct", 16, place="device", components=("off.direct_io",), touches=("io",),
      truth="Direct reads of the same file have 4 KiB instead of 256 KiB each, so that there are 64 times as many, and each waits for the device.")
def _(n):
    text = (f"import mmap, os\nf = os.open('{{dir}}/large.data', os.O_RDONLY | os.O_DIRECT)\nb = mmap.mmap(-1, {{size}})\n"
            f"for at in range(0, {min(n, 2000)} << 20, {{size}}): os.preadv(f, [b], at)")
    return either(python, text, "{size}", (256 << 10, 4096))


# Pages of 64 KiB, so that most of a read is copying.
WIDE = "{dir}/wide.db"
MAKE_WIDE = made(WIDE, f"sqlite3 {WIDE}.new 'PRAGMA page_size=65536; CREATE TABLE t(id INTEGER PRIMARY KEY, b); WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL "
                       f"SELECT i + 1 FROM c LIMIT 60000) INSERT INTO t SELECT i, hex(randomblob(500)) FROM c' && sync {WIDE}.new && mv {WIDE}.new {WIDE}")


@kind("eighth", "reads.more", "sqlite-cache", 40000, place="cache", components=("run.file.read",),
      truth="SQLite's own cache holds ten pages instead of all, so that it reads each page of the table from the page cache again for nearly each row.")
def _(n):
    text = (f"PRAGMA cache_size={{pages}}; WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c LIMIT {n}) "
            "SELECT sum(length(b)) FROM c CROSS JOIN t ON t.id = 1 + (c.i * 15485863) % 60000;")
    return either(lambda text: ["sqlite3", WIDE, text], text, "{pages}", (4000, 10), before=[*MAKE_WIDE, ["cat", WIDE]])


GO_DIRECT = built("e8-records", "go", """package main

// Records of 32 KiB of a file, with or without the page cache.
import ("os"; "strconv"; "syscall"; "unsafe")

func main() {
	flags := os.O_RDONLY
	if os.Args[3] == "direct" { flags |= syscall.O_DIRECT }
	f, err := os.OpenFile(os.Args[1], flags, 0)
	if err != nil { panic(err) }
	n, _ := strconv.Atoi(os.Args[2])
	all := make([]byte, 32768 + 4096)
	skip := 4096 - int(uintptr(unsafe.Pointer(&all[0])) & 4095)
	record := all[skip:skip + 32768]
	for i := 0; i < n; i++ {
		if _, err := f.ReadAt(record, int64(i % 4096) * 32768); err != nil { panic(err) }
	}
}""")


@kind("eighth", "io.direct", "go", 2000, place="device", components=("off.direct_io",), touches=("io",),
      truth="The program opens a file that is in the page cache with O_DIRECT, and each record is fetched from the device.")
def _(n):
    return with_one(GO_DIRECT, ["{dir}/bin/e8-records", DATA, str(n), "HOW"], "HOW", ("cached", "direct"), before=[["cat", DATA]])


@kind("eighth", "sync.more", "git", 250, place="flush", components=("off.flush",), touches=("dirty", "io"),
      truth="Git flushes each loose object that it writes, instead of none.")
def _(n):
    # Each run has notes that no run had before.
    fresh = (f"git init -q {{mount}}/e8-git && cd {{mount}}/e8-git && now=$(date +%s%N) && i=0 && "
             f"while [ $i -lt {n} ]; do echo \"a note $i $now\" > note$i; echo note$i; i=$((i+1)); done > .git/notes")
    line = "cd {mount}/e8-git && git -c core.fsync=WHAT hash-object -w --stdin-paths < .git/notes"
    return either(shell, line, "WHAT", ("none", "loose-object"), before=[["sh", "-c", fresh], ["sync", "-f", "{mount}"]])


LEDGER = "{dir}/e8-ledger.data"
MAKE_LEDGER = [*made(LEDGER, f"head -c 512M {{dir}}/large.data > {LEDGER}"), ["sync", LEDGER], ["cat", LEDGER]]


@kind("eighth", "writeback.throttled", "perl-overwrites", 60, place="cache", components=("off.dirty_throttling",), touches=("dirty", "io"),
      truth="Only 4 MiB of dirty pages are allowed, and Perl, which writes over a file, is held back until what it wrote before is on the disk.")
def _(n):
    line = perl(f"open F, '+<', '{LEDGER}'; my $x = 'x' x 65536; for (1 .. {16 * min(n, 512)}) {{ syswrite F, $x }}")
    return toggled(line, DIRTY, "4000000000", "4194304", before=MAKE_LEDGER)


# Four threads that write to the device that {mount} is on, one MiB at a time. It is a loop device: what is written stays in memory.
FLOOD = python("import mmap, os, threading\nb = mmap.mmap(-1, 1 << 20)\nf = os.open('{mount}/flood.data', os.O_RDWR | os.O_DIRECT)\n"
               "def flood(part):\n while True:\n  for i in range(32): os.pwrite(f, b, part * 32 + i << 20)\n"
               "for part in range(4): threading.Thread(target=flood, args=(part,)).start()")


@kind("eighth", "writeback.in_the_way", "sqlite", 500, place="neighbour", components=("off.read",), also=("device.slower",), touches=("readahead", "io"),
      truth="Another program writes to the device that SQLite reads a table from, which is not in the page cache, and the reads wait behind the writes.")
def _(n):
    parts = "{mount}/parts.db"
    line = ["sqlite3", parts, looked_up(min(n, 12000))]
    before = [*MAKE_PARTS, *made(parts, f"cp {PARTS} {parts}.new && sync -f {{mount}} && mv {parts}.new {parts}"),
              *made("{mount}/flood.data", "head -c 128M {dir}/large.data > {mount}/flood.data && sync -f {mount}"), *dropped(parts)]
    return Side(line, before=before), Side(line, before=before, beside=[FLOOD])


@kind("eighth", "block.queue_settings", "fio-requests", 200, place="device", largest=25, components=("off.block_queue",), touches=("readahead", "io"),
      truth="The queue of the disk takes four requests at a time instead of 256, and whoever hands in more waits for room.")
def _(n):
    line = ["fio", "--name=deep", "--output={dir}/deep.out", "--filename={dir}/large.data", "--rw=randread", "--bs=16k", "--direct=1",
            "--ioengine=libaio", "--iodepth=64", f"--io_size={n}m", "--size=1g", "--randseed=7"]
    return tuple(Side(line, settings={f"{QUEUE}/scheduler": "mq-deadline", f"{QUEUE}/nr_requests": count}) for count in ("256", "4"))


IMAGE = "{dir}/volume.img"
# A file system with 6000 files of 16 KiB.
MAKE_IMAGE = made(IMAGE, "mkdir -p {dir}/volume.tree && cd {dir}/volume.tree && head -c 96000K {dir}/large.data | split -a 4 -b 16k - && "
                         f"mkfs.ext4 -q -F -d . {IMAGE}.new 192M && sync {IMAGE}.new && mv {IMAGE}.new {IMAGE} && rm -rf {{dir}}/volume.tree")


@kind("eighth", "device.slower", "loop", 1500, largest=25, place="device", components=("off.read",), touches=("readahead", "io"),
      truth="The loop device under a file system fetches its blocks from the disk (direct-io) instead of from the page cache of its image, and each read "
            "of a small file takes longer.")
def _(n):
    line = f"ls -f {VOLUME} | grep '^x' | head -n {min(n, 6000)} | sed s,^,{VOLUME}/, | xargs cat > /dev/null"
    attach = f"d=$(losetup -f --show --direct-io=HOW {IMAGE}) && mount -o ro,noload $d {VOLUME} && losetup -d $d"
    words = on_volume(attach, line)
    return tuple(Side([word.replace("HOW", how) for word in words], before=[*MAKE_IMAGE, ["cat", IMAGE]]) for how in ("off", "on"))


@kind("eighth", "cgroup.io_limit", "sqlite", 500, place="group", components=("off.read",), touches=("readahead", "io"),
      truth="The control group may do 1500 requests a second, and SQLite's reads of a table that is not in the page cache are held back.")
def _(n):
    line, before = ["sqlite3", PARTS, looked_up(min(n, 12000))], [*MAKE_PARTS, *dropped(PARTS)]
    return tuple(Side(line, limits={"io.max": limit}, before=before) for limit in ("max", "riops=1500"))


@kind("eighth", "mount.changed", "tar-dirsync", 200, place="journal", components=("off.flush",), touches=("dirty", "io"),
      truth="The file system is mounted with dirsync, so that tar waits for a commit of the journal with each file that it makes.")
def _(n):
    names = (f"mkdir -p {{dir}}/e8-tree && cd {{dir}}/e8-tree && rm -f * && i=0 && while [ $i -lt {n} ]; do echo $i > page$i; i=$((i+1)); done && "
             "tar -cf {dir}/e8-tree.tar .")
    image = "{dir}/e8-plain.img"
    fresh = f"rm -f {image} && truncate -s 96M {image} && mkfs.ext4 -q -F {image} && sync {image}"
    line = f"tar -xf {{dir}}/e8-tree.tar -C {VOLUME}"
    words = on_volume(f"mount -o loop,HOW {image} {VOLUME}", line)
    return tuple(Side([word.replace("HOW", how) for word in words], before=[["sh", "-c", names], ["sh", "-c", fresh]]) for how in ("async", "dirsync"))


# The processor.


kind("eighth", "cpu.quota", "xz", dose=True, place="group", components=("ready.throttled",),
     truth="The control group gets less CPU time in each period of 40 ms than xz would use, and xz waits for the next period.")(
    capped(shell("head -c 2M {dir}/text.data | xz -2"), 1, 40000))


@kind("eighth", "cpu.neighbour", "jq", dose=True, place="neighbour", components=("ready.foreign",),
      truth="Two programs of somebody else keep both CPUs for a part of the time, and jq waits until it gets one.")
def _(size):
    line = ["jq", "-n", "[range(1200000)] | add"]
    pause = max(0, 0.004 / min(1, size) - 0.004)
    hog = perl(f"use Time::HiRes qw(time sleep); while (1) {{ my $t = time + 0.004; 1 while time < $t; sleep {pause:.6f} if {pause:.6f} > 0; }}")
    return Side(line), Side(line, beside=[hog, hog])


@kind("eighth", "cpu.crowded", "python-affinity", 20, place="cpu", components=("ready.own",), largest=90,
      truth="The program binds both its workers to the same CPU instead of one to each, and they wait for each other.")
def _(n):
    text = ("import hashlib, os\nfor i in range(2):\n if os.fork() == 0:\n  os.sched_setaffinity(0, {WHERE})\n"
            f"  for j in range({n}): hashlib.pbkdf2_hmac('sha256', b'x', b'y', 30000)\n  os._exit(0)\nfor i in range(2): os.wait()")
    return either(python, text, "WHERE", ("i", "1"))


@kind("eighth", "program.starts", "python-steps", 30, place="cpu", components=("run.user",),
      truth="A script starts Python for each of its numbers, where the shell's own arithmetic did before, and most of the time goes to the interpreter's "
            "beginning and end.")
def _(n):
    line = "i=0; while [ $i -lt {n} ]; do j={step}; i=$((i + 1)); done"
    return programs(*(shell(line.replace("{n}", str(n)).replace("{step}", step)) for step in ("$((i * 2))", "$(python3 -I -S -c \"print($i * 2)\")")))


def two_libraries():
    """libe8score.so of one text in two folders: -O2 in {dir}/bin/new, -O0 in {dir}/bin/old; and a program that uses it."""
    library = ("double score(const double *a, const double *b, long n) { double s = 0; "
               "for (long i = 0; i < n; i++) { double d = a[i] - b[i]; s += d * d / (1 + d * d); } return s; }")
    program = ("#include <stdlib.h>\ndouble score(const double *, const double *, long);\n"
               "int main(int argc, char **argv) { static double a[4096], b[4096]; double s = 0; "
               "for (int i = 0; i < 4096; i++) { a[i] = i % 77; b[i] = i % 91; } "
               "for (long i = atol(argv[1]); i > 0; i--) s += score(a, b, 4096); return s < 0; }")
    make = (f"mkdir -p {{dir}}/bin/new {{dir}}/bin/old && cd {{dir}}/bin && echo '{library}' > e8score.c && printf '%s' '{program}' > e8rank.c && "
            "gcc -O2 -fPIC -shared -o new/libe8score.so e8score.c && gcc -O0 -fPIC -shared -o old/libe8score.so e8score.c && "
            "gcc -O2 -o e8-rank e8rank.c -Lnew -le8score")
    return [["sh", "-c", f"[ -x {{dir}}/bin/e8-rank ] || {{ {make}; }}"]]


@kind("eighth", "program.changed", "library", 10000, largest=60, place="cpu", components=("run.user",),
      truth="The program runs with another build of its library, compiled without optimization, which computes the same more slowly.")
def _(n):
    return tuple(Side(["env", f"LD_LIBRARY_PATH={{dir}}/bin/{build}", "{dir}/bin/e8-rank", str(n)], before=two_libraries())
                 for build in ("new", "old"))


GUARD = built("e8-guard", "c", C_HEAD + """
#include <linux/filter.h>
#include <linux/seccomp.h>
/* Starts a program, with or without a list of rules that each call is looked up in. */
int main(int argc, char **argv) {
    long rules = atol(argv[1]);
    struct sock_filter *list = calloc(rules + 2, sizeof(*list));
    struct sock_fprog all = { .len = rules + 2, .filter = list };
    /* Each rule compares an argument, so that the kernel cannot know the filter's answer beforehand. */
    list[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0]));
    for (long i = 1; i <= rules; i += 2) {
        list[i] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[i % 6]));
        list[i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x7fff0000 + i, rules - i - 1 > 255 ? 255 : rules - i - 1, 0);
    }
    list[rules + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    if (rules && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all))) return 1;
    execvp(argv[2], argv + 2);
    return 1;
}""")


@kind("eighth", "call.dearer", "perl-guarded", 200000, place="calls", components=("run.call.filter",),
      truth="The program is started under a seccomp filter of 3000 instructions, through which each system call has to pass.")
def _(n):
    return with_one(GUARD, ["{dir}/bin/e8-guard", "RULES", *perl(f"getppid for 1 .. {n}")], "RULES", (0, 3000))
