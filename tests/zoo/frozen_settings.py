"""More kinds that lose by how the host, the control group or the mount is set, or by how memory is asked for and where it is placed.

The kinds of frozen_*.py are those that no rule was changed by: they are run once when rules have changed. Whoever looks at a case of these
to change a rule moves its kind to a seen*.py.
"""

from cases import DIRTY, QUEUE, THP, Side, dropped, io_limited, merging, piece, remounted, toggled
from compiled import C_HEAD, after, built, with_one
from kinds import kind, node, shell

ALWAYS = {f"{THP}/enabled": "always"}

# Huge pages.


RUST_WALK = built("s7-walk", "rs", """// Visitors that walk at random along the links of a site of 32 million pages, which is in memory.
fn main() {
    let pages = 1usize << 25;
    let mut link = vec![0u32; pages];
    for (page, to) in link.iter_mut().enumerate() { *to = (page as u32).wrapping_mul(0x9E3779B1) >> 7; }
    let (mut sum, mut draw) = (0u64, 88172645463325252u64);
    for _ in 0..std::env::args().nth(1).unwrap().parse::<u64>().unwrap() * 10000 {
        let mut page = draw as usize % pages;
        draw ^= draw << 13; draw ^= draw >> 7; draw ^= draw << 17;
        for step in 0..20 { page = (link[page] as usize + (draw >> step) as usize) % pages; }
        sum += page as u64;
    }
    println!("{}", sum);
}""")


@kind("frozen", "thp.disabled", "walk", 50, touches=("thp", "malloc"), largest=12)
def _(n):
    return toggled(["{dir}/bin/s7-walk", str(n)], f"{THP}/enabled", "always", "madvise", before=RUST_WALK)


CPP_MATRICES = built("s7-matrices", "cc", """#include <cstdio>
#include <cstdlib>
// Sparse vectors with a matrix: for each there is a dense result of 48 MiB, of which every 256th cell is filled.
int main(int, char **v) {
    const size_t cells = 6 << 20;
    double sum = 0;
    for (long product = atol(v[1]); product > 0; product--) {
        double *result = (double *)malloc(cells * sizeof(double));
        for (size_t row = 0; row < cells; row += 256) result[row] = row * 0.5 + product;
        for (size_t row = 0; row < cells; row += 4096) sum += result[row];
        free(result);
    }
    printf("%g\\n", sum);
}""")


@kind("frozen", "thp.disabled", "matrices", 4, touches=("thp", "malloc"))
def _(n):
    # The C library was told to ask for huge pages.
    return tuple(Side(["{dir}/bin/s7-matrices", str(n)], env={"GLIBC_TUNABLES": f"glibc.malloc.hugetlb={asks}"}, before=CPP_MATRICES,
                      settings={f"{THP}/enabled": "madvise"}) for asks in (1, 0))


@kind("frozen", "thp.disabled", "r-resample", 20, touches=("thp", "malloc"))
def _(n):
    text = f"s <- 0; for (i in 1:{n}) {{ x <- numeric(8e6); x[i] <- 1; s <- s + x[i * 100]; rm(x); if (i %% 4 == 0) invisible(gc(FALSE)) }}; cat(s)"
    return toggled(["Rscript", "--vanilla", "-e", text], f"{THP}/enabled", "always", "never")


@kind("frozen", "thp.disabled", "tcl-pages", 10, touches=("thp", "malloc"))
def _(n):
    # Pages of a site that are put together from a thing that is repeated.
    text = f"echo 'for {{set i 0}} {{$i < {n}}} {{incr i}} {{ set page [string repeat \"<li>thing</li>\" 3500000]; set page {{}} }}' | tclsh"
    return toggled(shell(text), f"{THP}/enabled", "always", "never")


CPP_MESH = built("s7-mesh", "cc", """#include <cstdio>
#include <cstdlib>
#include <vector>
// Meshes of the parts of a machine, whose corners are appended one after the other.
struct corner { float x, y, z; int next; };
int main(int, char **v) {
    double sum = 0;
    for (long part = atol(v[1]); part > 0; part--) {
        std::vector<corner> mesh;
        for (int i = 0; i < 3000000; i++) mesh.push_back({i * 0.5f, i * 0.25f, float(part), i + 1});
        sum += mesh[part * 1000].x;
    }
    printf("%g\\n", sum);
}""")


@kind("frozen", "thp.disabled", "mesh", 4, touches=("thp", "malloc"))
def _(n):
    return toggled(["{dir}/bin/s7-mesh", str(n)], f"{THP}/enabled", "always", "never", before=CPP_MESH)


C_THUMBNAILS = built("s7-thumbnails", "c", C_HEAD + """#include <sys/socket.h>
/* A server of thumbnails and its client. For each request the picture is decoded into memory that is mapped for it. */
static void serve(int client)
{
    size_t side = 3072, bytes = side * side * 4;
    unsigned request, answer;
    while (read(client, &request, sizeof request) == sizeof request) {
        unsigned *picture = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (picture == MAP_FAILED) _exit(1);
        for (size_t i = 0; i < side * side; i += 8) picture[i] = i * request;
        answer = 0;
        for (size_t i = 0; i < side * side; i += 4096 + 8) answer += picture[i];
        munmap(picture, bytes);
        if (write(client, &answer, sizeof answer) != sizeof answer) _exit(1);
    }
    _exit(0);
}
int main(int c, char **v)
{
    int ends[2], status;
    unsigned sum = 0, answer;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return 1;
    if (!fork()) { close(ends[0]); serve(ends[1]); }
    close(ends[1]);
    for (unsigned request = atol(v[1]); request > 0; request--) {
        if (write(ends[0], &request, sizeof request) != sizeof request || read(ends[0], &answer, sizeof answer) != sizeof answer) return 1;
        sum += answer;
    }
    close(ends[0]);
    wait(&status);
    return status || sum == 1;
}""")


@kind("frozen", "thp.disabled", "thumbnails", 4, touches=("thp",))
def _(n):
    return toggled(["{dir}/bin/s7-thumbnails", str(n)], f"{THP}/enabled", "always", "never", before=C_THUMBNAILS)


C_FILMSTRIP = built("s7-filmstrip", "c", C_HEAD + """/* Frames of a film: each is drawn into a memfd by a player, and taken from it by the process that shows it. */
int main(int c, char **v)
{
    size_t bytes = 32 << 20;
    for (long frame = atol(v[1]); frame > 0; frame--) {
        int status, fd = memfd_create("frame", MFD_CLOEXEC);
        if (fd < 0 || ftruncate(fd, bytes)) return 1;
        if (!fork()) {
            unsigned char *canvas = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
            if (canvas == MAP_FAILED) _exit(1);
            for (size_t at = 0; at < bytes; at += 64) canvas[at] = at / 64 + frame;
            _exit(0);
        }
        if (wait(&status) < 0 || status) return 1;
        unsigned char *shown = mmap(0, bytes, PROT_READ, MAP_SHARED, fd, 0);
        if (shown == MAP_FAILED) return 1;
        long sum = 0;
        for (size_t at = 0; at < bytes; at += 1024) sum += shown[at];
        if (sum == 1) return 1;
        munmap(shown, bytes);
        close(fd);
    }
    return 0;
}""")


@kind("frozen", "shmem.small_pages", "filmstrip", 6, touches=("thp",))
def _(n):
    return toggled(["{dir}/bin/s7-filmstrip", str(n)], f"{THP}/shmem_enabled", "always", "never", before=C_FILMSTRIP)


CPP_SWEEP = built("s7-sweep", "cc", """#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
// Sweeps over the parameters of a model. Two workers, which are forked for each, leave their results in memory that is shared with them.
int main(int, char **v) {
    const size_t results = 6 << 20;
    double best = 0;
    for (long sweep = atol(v[1]); sweep > 0; sweep--) {
        double *shared = (double *)mmap(nullptr, results * sizeof(double), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (shared == MAP_FAILED) return 1;
        for (size_t worker = 0; worker < 2; worker++)
            if (!fork()) {
                double x = sweep;
                for (size_t at = worker * results / 2; at < (worker + 1) * results / 2; at += 16) shared[at] = x = x * 3.7 * (1 - x / 100) + 0.1;
                _exit(0);
            }
        for (int worker = 0, status; worker < 2; worker++) if (wait(&status) < 0 || status) return 1;
        for (size_t at = 0; at < results; at += 512) best = shared[at] > best ? shared[at] : best;
        munmap(shared, results * sizeof(double));
    }
    printf("%g\\n", best);
}""")


@kind("frozen", "shmem.small_pages", "sweep", 6, touches=("thp",))
def _(n):
    return toggled(["{dir}/bin/s7-sweep", str(n)], f"{THP}/shmem_enabled", "always", "never", before=CPP_SWEEP)


C_SEMISPACES = built("s7-semispaces", "c", C_HEAD + """
/* A copying collector with two spaces of 4 MiB, which begin so many bytes after an address of its own. What lives is copied from one to the
   other, and the memory of the one is given back. */
struct cell { long head; struct cell *tail; long room[14]; };
int main(int c, char **v)
{
    size_t space = 4 << 20, count = space / sizeof(struct cell);
    struct cell *spaces[2];
    for (int i = 0; i < 2; i++) {
        void *at = (void *)(0x330000000000 + i * 4 * space + strtoul(v[2], 0, 0));
        spaces[i] = mmap(at, space, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (spaces[i] != at) return 1;
    }
    for (size_t i = 0; i < count; i++) spaces[0][i].head = i;
    for (long collection = 0; collection < atol(v[1]); collection++) {
        struct cell *from = spaces[collection & 1], *to = spaces[~collection & 1];
        for (size_t i = 0; i < count; i++) { to[i].head = from[i].head + 1; to[i].tail = i ? &to[i - 1] : 0; }
        madvise(from, space, MADV_DONTNEED);
    }
    return spaces[0][3].head == -1;
}""")


@kind("frozen", "map.misaligned", "semispaces", 100, touches=("thp",))
def _(n):
    return with_one(C_SEMISPACES, ["{dir}/bin/s7-semispaces", str(n), "OFFSET"], "OFFSET", ("0", "0x100000"), settings=ALWAYS)


CPP_BATCHES = built("s7-batches", "cc", """#include <cstdio>
#include <cstdlib>
#include <malloc.h>
// Batches of a query, whose column of 2 MiB is decoded into memory that is asked for with an alignment.
int main(int, char **v) {
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    const size_t rows = 1 << 18, alignment = strtoul(v[2], nullptr, 0);
    long sum = 0;
    for (long batch = atol(v[1]); batch > 0; batch--) {
        long *column = (long *)aligned_alloc(alignment, rows * sizeof(long));
        if (!column) return 1;
        for (size_t row = 0; row < rows; row += 16) column[row] = row + batch;
        for (size_t row = 0; row < rows; row += 1024) sum += column[row];
        free(column);
    }
    printf("%ld\\n", sum);
}""")


@kind("frozen", "map.misaligned", "batches", 200, touches=("thp", "malloc"))
def _(n):
    return with_one(CPP_BATCHES, ["{dir}/bin/s7-batches", str(n), "ALIGNMENT"], "ALIGNMENT", ("0x200000", "0x1000"), settings=ALWAYS)


C_VOICES = built("s7-voices", "c", C_HEAD + """
/* Voices of a synthesizer, each of which is played by a thread of its own with a stack of 64 MiB; memory is pinned or not. */
static void *play(void *note)
{
    float wave[512], sum = 0;
    for (int i = 0; i < 512; i++) wave[i] = (i * *(long *)note) % 100 * 0.01f;
    for (int i = 0; i < 512; i++) sum += wave[i];
    *(long *)note += sum;
    return 0;
}
int main(int c, char **v)
{
    pthread_attr_t wide;
    pthread_attr_init(&wide);
    pthread_attr_setstacksize(&wide, 64 << 20);
    if (!strcmp(v[2], "pinned") && mlockall(MCL_CURRENT | MCL_FUTURE)) return 1;
    for (long i = atol(v[1]); i > 0; i--) {
        pthread_t voice;
        long note = i;
        if (pthread_create(&voice, &wide, play, &note) || pthread_join(voice, 0)) return 1;
    }
    return 0;
}""")


@kind("frozen", "memory.pinned", "voices", 3)
def _(n):
    return with_one(C_VOICES, ["{dir}/bin/s7-voices", str(n), "MODE"], "MODE", ("pageable", "pinned"), settings={f"{THP}/enabled": "madvise"})


C_TENANTS = built("s7-tenants", "c", C_HEAD + """
/* Tenants of a server that begin with the same settings, in a process whose memory may be merged. Later each gets some of its own. */
int main(int c, char **v)
{
    size_t pages = atol(v[1]) * 64;
    int template[1024];
    unsigned char *tenants[4];
    long sum = 0;
    if (prctl(67, 1, 0, 0, 0)) { perror("PR_SET_MEMORY_MERGE"); return 1; }
    for (int i = 0; i < 1024; i++) template[i] = i * 77777;
    for (int i = 0; i < 4; i++) {
        tenants[i] = mmap(0, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (tenants[i] == MAP_FAILED) return 1;
        for (size_t page = 0; page < pages; page++) memcpy(tenants[i] + page * 4096, template, 4096);
    }
    usleep(900000);
    for (int i = 0; i < 4; i++)
        for (size_t page = 0; page < pages; page++) { tenants[i][page * 4096 + 2000] += i + 1; sum += tenants[i][page * 4096 + 64]; }
    printf("%ld\\n", sum);
    return 0;
}""")


@kind("frozen", "ksm.separated", "tenants", 128, largest=10)
def _(n):
    return after(C_TENANTS, merging(["{dir}/bin/s7-tenants", str(n)], "30000"))


# The page cache and the disk.

# A database of 300 MB with letters.
LETTERS = [shell("cd {dir} && [ -e letters.done ] || { rm -f letters.db; sqlite3 letters.db \"PRAGMA synchronous=OFF; PRAGMA journal_mode=OFF; "
                 "CREATE TABLE letters(id INTEGER PRIMARY KEY, body); WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c LIMIT 300000) "
                 "INSERT INTO letters SELECT i, printf('%0930d', i) FROM c;\" && sync letters.db && touch letters.done; }")]
COLD_LETTERS = [*LETTERS, *dropped("{dir}/letters.db")]


def letters(text):
    return ["sqlite3", "{dir}/letters.db", f"PRAGMA cache_size=100; {text}"]


@kind("frozen", "readahead.reduced", "sqlite", 16, touches=("readahead",))
def _(n):
    return toggled(letters(f"SELECT sum(length(body)) FROM letters WHERE id <= {n * 1000};"), f"{QUEUE}/read_ahead_kb", "1024", "4", before=COLD_LETTERS)


@kind("frozen", "readahead.reduced", "cmp", 16, touches=("readahead",))
def _(n):
    mib = min(max(n // 2, 1), 1000)
    before = [*piece(mib, "copied.0"), *piece(mib, "copied.1")]
    return toggled(["cmp", "{dir}/copied.0", "{dir}/copied.1"], f"{QUEUE}/read_ahead_kb", "2048", "4", before=before)


PASCAL_SAMPLES = built("s7-blockread", "pas", """program samples;
{ The loudest samples of a recording, which is read in blocks of 8 KiB. }
var
  recording: file;
  block: array [0 .. 4095] of smallint;
  got, i: longint;
  loudest: smallint;
  sum: int64;
begin
  assign(recording, paramstr(1));
  filemode := 0;
  reset(recording, 1);
  sum := 0;
  repeat
    blockread(recording, block, sizeof(block), got);
    loudest := 0;
    for i := 0 to got div 128 - 1 do if block[i * 64] > loudest then loudest := block[i * 64];
    sum := sum + loudest;
  until got = 0;
  close(recording);
  writeln(sum);
end.""")


@kind("frozen", "readahead.reduced", "samples", 16, touches=("readahead",))
def _(n):
    return toggled(["{dir}/bin/s7-blockread", "{dir}/recording.data"], f"{QUEUE}/read_ahead_kb", "1024", "4",
                   before=[*PASCAL_SAMPLES, *piece(min(n, 1500), "recording.data")])


C_DOWNLOAD = built("s7-download", "c", C_HEAD + """#include <sys/sendfile.h>
#include <sys/socket.h>
/* A server that sends a file to its client, without a look at it, 16 KiB at a time. */
int main(int c, char **v)
{
    int ends[2], status, fd = open(v[1], O_RDONLY);
    ssize_t got;
    if (fd < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return 1;
    if (!fork()) {
        static char chunk[16384];
        long sum = 0;
        close(ends[0]);
        while ((got = read(ends[1], chunk, sizeof chunk)) > 0) sum += chunk[0] + got;
        _exit(sum == 1);
    }
    close(ends[1]);
    while ((got = sendfile(ends[0], fd, 0, 16384)) > 0);
    close(ends[0]);
    wait(&status);
    return got < 0 || status;
}""")


@kind("frozen", "readahead.reduced", "download", 256, touches=("readahead",))
def _(n):
    return toggled(["{dir}/bin/s7-download", "{dir}/download.data"], f"{QUEUE}/read_ahead_kb", "1024", "4",
                   before=[*C_DOWNLOAD, *piece(min(n, 1500), "download.data")])


GO_SHARDS = built("s7-shards", "go", """package main

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"unsafe"
)

// Four shards of a store that look up records of 16 KiB, past the page cache.
func main() {
	file, err := os.OpenFile(os.Args[1], os.O_RDONLY|syscall.O_DIRECT, 0)
	if err != nil {
		panic(err)
	}
	lookups, _ := strconv.Atoi(os.Args[2])
	sums := make([]int, 4)
	var all sync.WaitGroup
	for shard := 0; shard < 4; shard++ {
		all.Add(1)
		go func(shard int) {
			defer all.Done()
			room := make([]byte, 16384+4096)
			start := 4096 - int(uintptr(unsafe.Pointer(&room[0]))%4096)
			record := room[start : start+16384]
			for i := 0; i < lookups; i++ {
				if _, err := file.ReadAt(record, int64(i*7919%8192*4+shard)*16384); err != nil {
					panic(err)
				}
				sums[shard] += int(record[i%16384])
			}
		}(shard)
	}
	all.Wait()
	fmt.Println(sums)
}""")


@kind("frozen", "cgroup.io_limit", "shards", 200, touches=("io",))
def _(n):
    return after(GO_SHARDS, io_limited(["{dir}/bin/s7-shards", "{dir}/large.data", str(n)], 1500))


@kind("frozen", "cgroup.io_limit", "sqlite", 400, touches=("readahead", "io"))
def _(n):
    text = (f"WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c LIMIT {n}) "
            "SELECT sum(length(body)) FROM c JOIN letters ON id = i * 104729 % 300000;")
    return after(COLD_LETTERS, io_limited(letters(text), 800))


RUST_BOOKINGS = built("s7-bookings", "rs", """use std::os::unix::fs::FileExt;
// Bookings that are written over old ones of a book, each of which is on the disk before the next.
fn main() {
    let words: Vec<String> = std::env::args().collect();
    let book = std::fs::OpenOptions::new().write(true).open(&words[1]).unwrap();
    for booking in 0..words[2].parse::<u64>().unwrap() {
        book.write_all_at(&[booking as u8; 4096], booking * 37 % 4096 * 4096).unwrap();
        book.sync_data().unwrap();
    }
}""")


@kind("frozen", "cgroup.io_limit", "bookings", 200, touches=("io",))
def _(n):
    return after([*RUST_BOOKINGS, *piece(16, "bookings.data")], io_limited(["{dir}/bin/s7-bookings", "{dir}/bookings.data", str(n)], 500))


C_VERSIONS = built("s7-versions", "c", C_HEAD + """
/* Looks into old versions of a document: two processes read pieces of 64 KiB here and there in an archive, past the page cache. */
static int look(int fd, long n, long who)
{
    char *room;
    long sum = 0;
    if (posix_memalign((void **)&room, 4096, 65536)) return 1;
    for (long i = 0; i < n; i++) {
        struct iovec parts[2] = {{room, 4096}, {room + 4096, 61440}};
        if (preadv(fd, parts, 2, (i * 2 + who) * 1237 % 8192 * 65536) != 65536) return 1;
        sum += room[i % 65536];
    }
    return sum == 1;
}
int main(int c, char **v)
{
    int status, fd = open(v[1], O_RDONLY | O_DIRECT);
    if (fd < 0) return 1;
    if (!fork()) _exit(look(fd, atol(v[2]), 1));
    if (look(fd, atol(v[2]), 0)) return 1;
    wait(&status);
    return status != 0;
}""")


@kind("frozen", "cgroup.io_limit", "versions", 200, touches=("io",))
def _(n):
    return after(C_VERSIONS, io_limited(["{dir}/bin/s7-versions", "{dir}/large.data", str(n)], 700))


@kind("frozen", "cgroup.memory_limit", "sqlite", 8000, touches=("readahead",))
def _(n):
    # Half of the letters are counted, and then some of them are looked up.
    text = (f"SELECT sum(length(body)) FROM letters WHERE id <= 150000; WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c LIMIT {n}) "
            "SELECT sum(length(body)) FROM c JOIN letters ON id = i * 104729 % 150000;")
    return tuple(Side(letters(text), limits={"memory.max": limit}, before=COLD_LETTERS) for limit in ("1G", "50M"))


ML_PLAYLIST = built("s7_playlist", "ml", """(* Plays the songs of a list again and again: each is read from its beginning to its end. *)
let () =
  let block = Bytes.create 32768 and sum = ref 0 in
  for _ = 1 to int_of_string Sys.argv.(1) do
    for song = 2 to Array.length Sys.argv - 1 do
      let file = Unix.openfile Sys.argv.(song) [Unix.O_RDONLY] 0 in
      let rec play () =
        let got = Unix.read file block 0 32768 in
        if got > 0 then begin sum := !sum + Char.code (Bytes.get block (got / 2)); play () end in
      play ();
      Unix.close file
    done
  done;
  print_int !sum""")


@kind("frozen", "cgroup.memory_limit", "playlist", 2, touches=("readahead",))
def _(n):
    songs = [f"{{dir}}/song.{i}" for i in range(4)]
    before = [*ML_PLAYLIST, *(command for i in range(4) for command in piece(64, f"song.{i}"))]
    return tuple(Side(["{dir}/bin/s7_playlist", str(n + 1), *songs], limits={"memory.max": limit}, before=before) for limit in ("1G", "120M"))


C_REPLICA = built("s7-replica", "c", C_HEAD + """#include <sys/sendfile.h>
/* Copies a day's file, which is in memory, into the next slot of a ring of twelve replicas, without a look at it. */
int main(int c, char **v)
{
    int from = open(v[1], O_RDONLY), to = open(v[2], O_WRONLY | O_CREAT, 0644);
    if (from < 0 || to < 0) return 1;
    for (long part = 0, parts = atol(v[3]); part < parts; part++) {
        off_t at = part % 32 << 20;
        if (lseek(to, part % 384 << 20, SEEK_SET) < 0) return 1;
        for (size_t left = 1 << 20; left > 0; ) {
            ssize_t got = sendfile(to, from, &at, left);
            if (got <= 0) return 1;
            left -= got;
        }
    }
    return 0;
}""")


@kind("frozen", "writeback.throttled", "replica", 100, touches=("dirty",))
def _(n):
    before = [*C_REPLICA, *piece(32, "day.data"), shell("cat {dir}/day.data > /dev/null; sync")]
    return toggled(["{dir}/bin/s7-replica", "{dir}/day.data", "{dir}/replica.ring", str(n)], DIRTY, "4000000000", "8388608", before=before)


PASCAL_TAPE = built("s7-tape", "pas", """program tape;
{ Samples of many instruments that are written to a tape of 400 MiB, 48 KiB at a time. }
uses sysutils;
var
  out: thandle;
  block: array [0 .. 12287] of longint;
  i, blocks, code: longint;
begin
  val(paramstr(2), blocks, code);
  blocks := blocks * 20;
  if fileexists(paramstr(1)) then out := fileopen(paramstr(1), fmopenreadwrite) else out := filecreate(paramstr(1));
  for i := 0 to 12287 do block[i] := i * 7;
  for i := 0 to blocks - 1 do begin
    if i mod 8000 = 0 then fileseek(out, 0, fsfrombeginning);
    block[i mod 12288] := i;
    if filewrite(out, block, sizeof(block)) <> sizeof(block) then halt(1);
  end;
  fileclose(out);
end.""")


@kind("frozen", "writeback.throttled", "tape", 100, touches=("dirty",))
def _(n):
    return toggled(["{dir}/bin/s7-tape", "{dir}/tape.data", str(n)], DIRTY, "4000000000", "8388608", before=[*PASCAL_TAPE, ["sync"]])


GO_CHECKPOINT = built("s7-mapped-checkpoint", "go", """package main

import (
	"os"
	"strconv"
	"syscall"
)

// Writes the state of a simulation into a mapped file.
func main() {
	file, err := os.OpenFile(os.Args[1], os.O_RDWR, 0)
	if err != nil {
		panic(err)
	}
	mib, _ := strconv.Atoi(os.Args[2])
	state, err := syscall.Mmap(int(file.Fd()), 0, mib<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	for at := 0; at < len(state); at += 512 {
		state[at] = byte(at >> 9)
	}
	syscall.Munmap(state)
}""")


@kind("frozen", "writeback.throttled", "checkpoint", 100, touches=("dirty",))
def _(n):
    mib = min(n, 1500)
    read = shell("cat {dir}/checkpoint.data > /dev/null; sync")
    return toggled(["{dir}/bin/s7-mapped-checkpoint", "{dir}/checkpoint.data", str(mib)], DIRTY, "4000000000", "8388608",
                   before=[*GO_CHECKPOINT, *piece(mib, "checkpoint.data"), read])


C_EXCHANGE = built("s7-exchange", "c", C_HEAD + """/* Sixteen threads of an exchange look up accounts of 4 KiB, past the page cache. */
static int fd;
static long lookups;
static void *trade(void *who)
{
    char *account;
    if (posix_memalign((void **)&account, 4096, 4096)) exit(1);
    for (long i = 0; i < lookups; i++)
        if (pread(fd, account, 4096, (i * 16 + (long)who) * 7919 % 262144 * 4096) != 4096) exit(1);
    return 0;
}
int main(int c, char **v)
{
    pthread_t threads[16];
    lookups = atol(v[2]);
    if ((fd = open(v[1], O_RDONLY | O_DIRECT)) < 0) return 1;
    for (long i = 0; i < 16; i++) pthread_create(&threads[i], 0, trade, (void *)i);
    for (long i = 0; i < 16; i++) pthread_join(threads[i], 0);
    return 0;
}""")


@kind("frozen", "block.queue_settings", "exchange", 500, touches=("readahead", "io"))
def _(n):
    return toggled(["{dir}/bin/s7-exchange", "{dir}/large.data", str(n)], f"{QUEUE}/nr_requests", "256", "4", before=C_EXCHANGE)


@kind("frozen", "mount.changed", "guestbook", 200)
def _(n):
    text = f"const f = require('fs'); for (let i = 0; i < {n}; i++) f.appendFileSync('{{mount}}/guestbook', 'Somebody was here: ' + i + '\\n');"
    fresh = shell("rm -f {mount}/guestbook; sync -f {mount}")
    return tuple(Side(node(text), before=[*side.before, fresh]) for side in remounted([]))


@kind("frozen", "mount.changed", "split", 50)
def _(n):
    fresh = shell(f"rm -rf {{mount}}/parts; mkdir {{mount}}/parts; head -c {min(n, 20000) * 2000} {{dir}}/text.data > {{dir}}/to-split; sync -f {{mount}}")
    return tuple(Side(["split", "-b", "2000", "-a", "5", "{dir}/to-split", "{mount}/parts/part."], before=[*side.before, fresh]) for side in remounted([]))
