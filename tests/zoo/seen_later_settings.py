"""Kinds that lose by how the host, the control group or the mount is set, or by how memory is asked for and where it is placed.

These were frozen until 2026-11-28, when rules were judged by them for the sixth time and then changed by what they missed: they are for
tuning.
"""

from cases import DIRTY, QUEUE, THP, Side, dropped, fio, io_limited, merging, piece, remounted, toggled
from compiled import after, built, with_one
from kinds import kind, shell


def pieces(count, mib, name):
    """What makes `count` files {dir}/NAME.0 and so on of as many MiB, and drops them from the page cache."""
    files = [f"{{dir}}/{name}.{i}" for i in range(count)]
    make = (f"for f in {' '.join(files)}; do [ \"$(stat -c %s $f 2> /dev/null)\" = {mib << 20} ] || "
            f"{{ head -c {mib}M {{dir}}/large.data > $f; sync $f; }}; done")
    return [["sh", "-c", make], *(command for file in files for command in dropped(file))]


ALWAYS = {f"{THP}/enabled": "always"}

# Huge pages.


C_DEDUP = built("set-dedup", "c", """#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
/* Counts the distinct keys of batches: a hash table that doubles when an eighth of it is full. */
struct table { uint64_t *slot; size_t size, used; };
static void grow(struct table *t);
static void put(struct table *t, uint64_t key)
{
    size_t at = key * 0x9E3779B97F4A7C15ull >> 20 & (t->size - 1);
    while (t->slot[at] && t->slot[at] != key) at = (at + 1) & (t->size - 1);
    if (t->slot[at]) return;
    t->slot[at] = key;
    if (++t->used * 8 > t->size) grow(t);
}
static void grow(struct table *t)
{
    struct table wider = {calloc(t->size * 2, 8), t->size * 2, 0};
    for (size_t i = 0; i < t->size; i++) if (t->slot[i]) put(&wider, t->slot[i]);
    free(t->slot);
    *t = wider;
}
int main(int c, char **v)
{
    uint64_t key = 88172645463325252ull, distinct = 0;
    for (long batch = atol(v[1]); batch > 0; batch--) {
        struct table t = {calloc(1 << 20, 8), 1 << 20, 0};
        for (long i = 0; i < 600000; i++) {
            key ^= key << 13; key ^= key >> 7; key ^= key << 17;
            put(&t, key);
        }
        distinct += t.used;
        free(t.slot);
    }
    printf("%lu\\n", distinct);
    return 0;
}""")


@kind("tuning", "thp.disabled", "dedup", 2, touches=("thp", "malloc"))
def _(n):
    return toggled(["{dir}/bin/set-dedup", str(n)], f"{THP}/enabled", "always", "madvise", before=C_DEDUP)


PASCAL_SURVEY = built("set-survey", "pas", """program survey;
{ A grid of heights that is taken anew for each tile of a map, and of which one cell in 128 was measured. }
const
  cells = 6 * 1024 * 1024;
type
  grid = array [0 .. cells - 1] of double;
var
  tiles, i, code: longint;
  heights: ^grid;
  sum: double;
begin
  val(paramstr(1), tiles, code);
  sum := 0;
  while tiles > 0 do begin
    getmem(heights, sizeof(grid));
    for i := 0 to cells div 128 - 1 do heights^[i * 128 + i mod 7] := i and 1023;
    for i := 0 to cells div 128 - 1 do sum := sum + heights^[i * 128 + i mod 7];
    freemem(heights);
    dec(tiles);
  end;
  writeln(sum:0:1);
end.""")


@kind("tuning", "thp.disabled", "survey", 8, touches=("thp",))
def _(n):
    return toggled(["{dir}/bin/set-survey", str(n)], f"{THP}/enabled", "always", "never", before=PASCAL_SURVEY)


C_JOBS = built("set-jobs", "c", """#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
/* Runs jobs one after the other, each in a process of its own with a scratch buffer, with huge pages or, as one may ask, without. */
int main(int c, char **v)
{
    size_t bytes = 96 << 20;
    if (prctl(PR_SET_THP_DISABLE, strcmp(v[2], "--huge") != 0, 0, 0, 0)) return 1;
    for (long job = atol(v[1]); job > 0; job--) {
        if (!fork()) {
            unsigned *scratch = mmap(0, bytes, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), sum = job;
            for (size_t i = 0; i < bytes / 4; i += 16) scratch[i] = sum = sum * 69069 + i;
            for (size_t i = 0; i < bytes / 4; i += 64) sum += scratch[i];
            _exit(sum == 7);
        }
        wait(0);
    }
    return 0;
}""")


@kind("tuning", "thp.disabled", "jobs", 4, touches=("thp",))
def _(n):
    return with_one(C_JOBS, ["{dir}/bin/set-jobs", str(n), "MODE"], "MODE", ("--huge", "--small"), settings=ALWAYS)


RUST_JOIN = built("set-join", "rs", """use std::thread;
extern "C" { fn mmap(at: *mut u8, bytes: usize, protection: i32, flags: i32, fd: i32, offset: i64) -> *mut u8;
    fn madvise(at: *mut u8, bytes: usize, advice: i32) -> i32; fn munmap(at: *mut u8, bytes: usize) -> i32; }
// Joins partitions of two tables: rows of one are looked up in a bucket array of the other. Two threads take a partition each.
fn join(advice: i32, seed: u64) -> u64 {
    let slots: usize = 1 << 23;
    let memory = unsafe { mmap(std::ptr::null_mut(), slots * 8, 3, 0x22, -1, 0) };
    assert!(unsafe { madvise(memory, slots * 8, advice) } == 0);
    let buckets = unsafe { std::slice::from_raw_parts_mut(memory as *mut u64, slots) };
    let (mut row, mut found) = (seed * 2 + 1, 0);
    let mut next = || { row ^= row << 13; row ^= row >> 7; row ^= row << 17; row };
    for _ in 0..600000 { let key = next(); buckets[key as usize % slots] = key; }
    for _ in 0..600000 { let key = next(); found += (buckets[key as usize % slots] > key) as u64; }
    unsafe { munmap(memory, slots * 8) };
    found
}
fn main() {
    let words: Vec<String> = std::env::args().collect();
    let partitions: u64 = words[1].parse().unwrap();
    let advice = if words[2] == "hugepage" { 14 } else { 15 };
    let threads: Vec<_> = (0..2).map(|one| thread::spawn(move || (0..partitions).map(|i| join(advice, i * 2 + one)).sum::<u64>())).collect();
    println!("{}", threads.into_iter().map(|one| one.join().unwrap()).sum::<u64>());
}""")


@kind("tuning", "thp.disabled", "join", 4, touches=("thp",))
def _(n):
    return with_one(RUST_JOIN, ["{dir}/bin/set-join", str(n), "ADVICE"], "ADVICE", ("hugepage", "nohugepage"), settings=ALWAYS)


CPP_BLACKBOARD = built("set-blackboard", "cc", """#include <cstdlib>
#include <cstring>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>
// A parent hands pictures to a worker through segments of System V: the parent draws one, the worker sums it up.
int main(int, char **v) {
    const size_t bytes = 40 << 20;
    for (long picture = atol(v[1]); picture > 0; picture--) {
        int id = shmget(IPC_PRIVATE, bytes, 0600 | IPC_CREAT);
        if (id < 0) return 1;
        char *canvas = (char *)shmat(id, nullptr, 0);
        if (canvas == (char *)-1) return 1;
        for (size_t row = 0; row < bytes; row += 5120) memset(canvas + row, picture + row / 5120, 2560);
        if (pid_t worker = fork()) waitpid(worker, nullptr, 0);
        else {
            long sum = 0;
            for (size_t at = 0; at < bytes; at += 512) sum += canvas[at];
            _exit(sum == 1);
        }
        shmdt(canvas);
        shmctl(id, IPC_RMID, nullptr);
    }
}""")


@kind("tuning", "shmem.small_pages", "blackboard", 6, touches=("thp",))
def _(n):
    return toggled(["{dir}/bin/set-blackboard", str(n)], f"{THP}/shmem_enabled", "always", "never", before=CPP_BLACKBOARD)


RUST_ROUTES = built("set-routes", "rs", """use std::thread;
extern "C" { fn mmap(at: *mut u8, bytes: usize, protection: i32, flags: i32, fd: i32, offset: i64) -> *mut u8;
    fn madvise(at: *mut u8, bytes: usize, advice: i32) -> i32; fn munmap(at: *mut u8, bytes: usize) -> i32; }
// A table of routes in shared memory that workers could inherit: it is rebuilt again and again, each half by a thread.
fn main() {
    let bytes: usize = 64 << 20;
    let mut sum = 0u64;
    for round in 0..std::env::args().nth(1).unwrap().parse::<u64>().unwrap() {
        let at = unsafe { mmap(std::ptr::null_mut(), bytes, 3, 0x21, -1, 0) };
        assert!(unsafe { madvise(at, bytes, 14) } == 0);
        let table = unsafe { std::slice::from_raw_parts_mut(at as *mut u64, bytes / 8) };
        thread::scope(|all| {
            for half in table.chunks_mut(bytes / 16) {
                all.spawn(move || for i in (0..half.len()).step_by(24) { half[i] = i as u64 * 31 + round; });
            }
        });
        sum += table[240 * round as usize % 100000];
        unsafe { munmap(at, bytes) };
    }
    println!("{}", sum);
}""")


@kind("tuning", "shmem.small_pages", "routes", 6, touches=("thp",))
def _(n):
    return toggled(["{dir}/bin/set-routes", str(n)], f"{THP}/shmem_enabled", "advise", "never", before=RUST_ROUTES)


CPP_SLABS = built("set-slabs", "cc", """#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
// Slabs of 2 MiB for records, each with so many bytes for its header.
int main(int, char **v) {
    size_t header = strtoul(v[2], nullptr, 0), room = 2 << 20;
    long sum = 0;
    for (long slab = atol(v[1]); slab > 0; slab--) {
        char *at = (char *)mmap(nullptr, header + room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) return 1;
        for (size_t record = 0; record < room; record += 256) memcpy(at + header + record, &slab, sizeof slab);
        sum += at[header + slab % 8192 * 256];
        munmap(at, header + room);
    }
    return sum == 1;
}""")


@kind("tuning", "map.misaligned", "slabs", 200, touches=("thp",))
def _(n):
    return with_one(CPP_SLABS, ["{dir}/bin/set-slabs", str(n), "HEADER"], "HEADER", ("0", "4096"), settings=ALWAYS)


C_FIBERS = built("set-fibers", "c", """#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
/* Fibers that parse nested texts on stacks of their own. A stack lies behind a guard of so many bytes in the slot of its fiber. */
static ucontext_t back, fiber;
static long nodes;
static void parse(int depth) { char token[2000]; memset(token, depth, sizeof token); nodes += token[depth % 2000]; if (depth) parse(depth - 1); nodes += token[5]; }
static void run(void) { parse(1800); }
int main(int c, char **v)
{
    size_t guard = strtoul(v[2], 0, 0), stack = 4 << 20, slot = 8 << 20;
    char *slots = mmap((void *)0x310000000000, 16 * slot, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (slots == MAP_FAILED) return 1;
    for (long i = 0; i < atol(v[1]); i++) {
        char *at = slots + i % 16 * slot + guard;
        if (mprotect(at, stack, PROT_READ | PROT_WRITE)) return 1;
        getcontext(&fiber);
        fiber.uc_stack.ss_sp = at;
        fiber.uc_stack.ss_size = stack;
        fiber.uc_link = &back;
        makecontext(&fiber, run, 0);
        swapcontext(&back, &fiber);
        madvise(at, stack, MADV_DONTNEED);
        mprotect(at, stack, PROT_NONE);
    }
    printf("%ld\\n", nodes);
    return 0;
}""")


@kind("tuning", "map.misaligned", "fibers", 100, touches=("thp",))
def _(n):
    return with_one(C_FIBERS, ["{dir}/bin/set-fibers", str(n), "GUARD"], "GUARD", ("0x200000", "0x100000"), settings=ALWAYS)


GO_VAULT = built("set-vault", "go", """package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// Sessions of a vault of secrets, each with a buffer of which it needs little.
func main() {
	n, _ := strconv.Atoi(os.Args[1])
	flags := syscall.MAP_PRIVATE | syscall.MAP_ANON
	if os.Args[2] == "locked" {
		flags |= syscall.MAP_LOCKED
	}
	sum := 0
	for i := 0; i < n; i++ {
		secrets, err := syscall.Mmap(-1, 0, 24<<20, syscall.PROT_READ|syscall.PROT_WRITE, flags)
		if err != nil {
			panic(err)
		}
		copy(secrets[i%64:], os.Args[2])
		sum += int(secrets[i%64])
		syscall.Munmap(secrets)
	}
	fmt.Println(sum)
}""")


@kind("tuning", "memory.pinned", "vault", 6)
def _(n):
    return with_one(GO_VAULT, ["{dir}/bin/set-vault", str(n), "MODE"], "MODE", ("plain", "locked"))


RUST_SANDBOXES = built("set-sandboxes", "rs", """use std::{thread, time::Duration};
extern "C" { fn mmap(at: *mut u8, bytes: usize, protection: i32, flags: i32, fd: i32, offset: i64) -> *mut u8;
    fn madvise(at: *mut u8, bytes: usize, advice: i32) -> i32; }
// Sandboxes that begin with copies of the same image, which may be merged. After a while each writes to the pages of its own.
fn main() {
    let bytes = std::env::args().nth(1).unwrap().parse::<usize>().unwrap() << 18;
    let image: Vec<u8> = (0..4096u32).map(|i| (i * 7 >> 3) as u8).collect();
    let mut boxes: Vec<&mut [u8]> = (0..4).map(|_| unsafe {
        let at = mmap(std::ptr::null_mut(), bytes, 3, 0x22, -1, 0);
        assert!(madvise(at, bytes, 12) == 0);
        std::slice::from_raw_parts_mut(at, bytes)
    }).collect();
    for one in boxes.iter_mut() { for page in one.chunks_exact_mut(4096) { page.copy_from_slice(&image); } }
    thread::sleep(Duration::from_millis(900));
    let mut sum = 0u64;
    for (number, one) in boxes.iter_mut().enumerate() {
        for page in one.chunks_exact_mut(4096) { page[128] = number as u8; sum += page[4000] as u64; }
    }
    println!("{}", sum);
}""")


@kind("tuning", "ksm.separated", "sandboxes", 64, largest=10)
def _(n):
    return after(RUST_SANDBOXES, merging(["{dir}/bin/set-sandboxes", str(n)], "30000"))


# The page cache and the disk.


GO_GALLERY = built("set-gallery", "go", """package main

import (
	"fmt"
	"hash/crc32"
	"os"
	"strconv"
)

// Serves the pictures of a gallery, each of which is read whole, one visitor after the other.
func main() {
	visitors, _ := strconv.Atoi(os.Args[2])
	sum := uint32(0)
	buffer := make([]byte, 1<<17)
	for visitor := 0; visitor < visitors; visitor++ {
		for picture := 0; picture < 24; picture++ {
			file, err := os.Open(os.Args[1] + "." + strconv.Itoa(picture))
			if err != nil {
				panic(err)
			}
			for {
				got, _ := file.Read(buffer)
				if got <= 0 {
					break
				}
				sum += crc32.ChecksumIEEE(buffer[:got])
			}
			file.Close()
		}
	}
	fmt.Println(sum)
}""")


@kind("tuning", "cgroup.memory_limit", "gallery", 2, touches=("readahead",))
def _(n):
    before = [*GO_GALLERY, *pieces(24, 12, "picture")]
    return tuple(Side(["{dir}/bin/set-gallery", "{dir}/picture", str(n + 1)], limits={"memory.max": limit}, before=before) for limit in ("1G", "150M"))


CPP_POSTINGS = built("set-postings", "cc", """#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
// Queries of two threads, each of which goes through the postings of some words in a mapped index of 256 MiB, all of which was seen once.
int main(int, char **v) {
    const size_t bytes = 256 << 20, list = 1 << 20;
    int fd = open(v[1], O_RDONLY);
    const char *index = (const char *)mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (index == MAP_FAILED) { perror(v[1]); return 1; }
    long queries = atol(v[2]), found[2] = {0, 0};
    for (size_t at = 0; at < bytes; at += 4096) found[0] += index[at] == 'x';
    auto answer = [&](int which) {
        for (long query = 0; query < queries; query++)
            for (size_t word = 0; word < 4; word++) {
                const char *from = index + (query * 4 + word) * 37 % 128 * 2 * list + which * list;
                for (size_t at = 0; at < list; at += 512) found[which] += from[at] == 'x';
            }
    };
    std::thread other(answer, 1);
    answer(0);
    other.join();
    printf("%ld\\n", found[0] + found[1]);
}""")


@kind("tuning", "cgroup.memory_limit", "postings", 10, touches=("readahead",))
def _(n):
    before = [*CPP_POSTINGS, *piece(256, "postings.data")]
    return tuple(Side(["{dir}/bin/set-postings", "{dir}/postings.data", str(n)], limits={"memory.max": limit}, before=before) for limit in ("900M", "120M"))


@kind("tuning", "readahead.reduced", "tar", 16, touches=("readahead",))
def _(n):
    count = min(max(n // 4, 1), 300)
    line = shell(f"cd {{dir}} && tar -cf - $(seq -f shelf.%g 0 {count - 1}) | tail -c 1 > /dev/null")
    make = shell(f"cd {{dir}} && for i in $(seq 0 {count - 1}); do [ -e shelf.$i ] || head -c 4M large.data > shelf.$i; done; sync -f .; "
                 f"for i in $(seq 0 {count - 1}); do dd if=shelf.$i iflag=nocache count=0 status=none; done")
    return toggled(line, f"{QUEUE}/read_ahead_kb", "1024", "4", before=[make])


CS_LEDGER = built("set-ledger.exe", "cs", """using System;
using System.IO;
// Adds up the records of a ledger, which is read through a stream.
class Ledger {
    static void Main(string[] words) {
        long sum = 0;
        byte[] records = new byte[40000];
        using (var stream = new FileStream(words[0], FileMode.Open, FileAccess.Read, FileShare.Read, 40000))
            for (int got; (got = stream.Read(records, 0, records.Length)) > 0; )
                for (int at = 0; at + 8 <= got; at += 400) sum += BitConverter.ToInt32(records, at);
        Console.WriteLine(sum);
    }
}""")


@kind("tuning", "readahead.reduced", "ledger", 16, touches=("readahead",))
def _(n):
    return toggled(["mono", "{dir}/bin/set-ledger.exe", "{dir}/ledger.data"], f"{QUEUE}/read_ahead_kb", "1024", "4",
                   before=[*CS_LEDGER, *piece(min(n, 1500), "ledger.data")])


GO_VOLUME = built("set-volume", "go", """package main

import (
	"fmt"
	"os"
	"syscall"
)

// The brightest voxel of each slice of a volume, which is mapped and gone through from its beginning.
func main() {
	file, err := os.Open(os.Args[1])
	if err != nil {
		panic(err)
	}
	info, _ := file.Stat()
	voxels, err := syscall.Mmap(int(file.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	sum := 0
	for slice := 0; slice+262144 <= len(voxels); slice += 262144 {
		brightest := byte(0)
		for at := slice; at < slice+262144; at += 256 {
			if voxels[at] > brightest {
				brightest = voxels[at]
			}
		}
		sum += int(brightest)
	}
	fmt.Println(sum)
}""")


@kind("tuning", "readahead.reduced", "volume", 16, touches=("readahead",))
def _(n):
    return toggled(["{dir}/bin/set-volume", "{dir}/volume.data"], f"{QUEUE}/read_ahead_kb", "512", "4",
                   before=[*GO_VOLUME, *piece(min(n, 1500), "volume.data")])


CPP_CAPTURE = built("set-capture", "cc", """#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/uio.h>
#include <thread>
#include <unistd.h>
// Packets that two threads capture, each into a ring of 400 MiB of its own: a head and four packets with each call.
static int capture(std::string name, long batches) {
    static const char packet[16000] = "packet";
    int fd = open(name.c_str(), O_WRONLY | O_CREAT, 0644);
    char head[536];
    memset(head, 7, sizeof head);
    struct iovec parts[5] = {{head, sizeof head}};
    for (int i = 1; i < 5; i++) parts[i] = {(void *)packet, sizeof packet - (i == 4 ? 1000 : 0)};
    for (long batch = 0; batch < batches; batch++)
        if (pwritev(fd, parts, 5, batch % 6400 * 65536) < 0) return 1;
    return close(fd);
}
int main(int, char **v) {
    long batches = atol(v[2]) * 8;
    int failed = 0;
    std::thread other([&] { failed = capture(std::string(v[1]) + ".1", batches); });
    int failed_too = capture(std::string(v[1]) + ".0", batches);
    other.join();
    return failed | failed_too;
}""")


@kind("tuning", "writeback.throttled", "capture", 100, touches=("dirty",))
def _(n):
    return toggled(["{dir}/bin/set-capture", "{dir}/capture", str(n)], DIRTY, "4000000000", "8388608", before=[*CPP_CAPTURE, ["sync"]])


@kind("tuning", "writeback.throttled", "untar", 100, touches=("dirty",))
def _(n):
    # An archive of large films that is unpacked.
    count = min(max(n // 8, 1), 200)
    make = shell(f"cd {{dir}} && rm -rf films && mkdir films && {{ [ -e films-{count}.tar ] || {{ rm -f films-*.tar; for i in $(seq {count}); do "
                 f"head -c 8M large.data > films/$i; done; tar -cf films-{count}.tar films; rm films/*; }}; }} && cat films-{count}.tar > /dev/null; sync")
    return toggled(["tar", "-C", "{dir}", "-xf", f"{{dir}}/films-{count}.tar"], DIRTY, "4000000000", "8388608", before=[make])


@kind("tuning", "cgroup.io_limit", "uring", 8, touches=("readahead", "io"))
def _(n):
    return io_limited(fio("u", filename="{dir}/large.data", rw="randread", bs="8k", size="512m", io_size=f"{n}m", direct=1, iodepth=6, invalidate=0,
                          ioengine="io_uring"), 1800)


C_TICKETS = built("set-tickets", "c", """#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
/* Tickets of a booking office: each takes a page of the book, past the page cache, and puts it back with one more seat taken. */
int main(int c, char **v)
{
    char *page;
    int fd = open(v[1], O_RDWR | O_DIRECT);
    if (fd < 0 || posix_memalign((void **)&page, 4096, 4096)) return 1;
    struct iovec part = {page, 4096};
    for (long ticket = 0; ticket < atol(v[2]); ticket++) {
        long at = ticket * 7919 % 8192 * 4096;
        if (preadv2(fd, &part, 1, at, 0) != 4096) return 1;
        page[ticket % 4096]++;
        if (pwritev2(fd, &part, 1, at, 0) != 4096) return 1;
    }
    return 0;
}""")


@kind("tuning", "cgroup.io_limit", "tickets", 400, touches=("io",))
def _(n):
    return after([*C_TICKETS, *piece(32, "tickets.data")], io_limited(["{dir}/bin/set-tickets", "{dir}/tickets.data", str(n)], 900))


RUST_ATLAS = built("set-atlas", "rs", """use std::os::fd::AsRawFd;
extern "C" { fn mmap(at: *mut u8, bytes: usize, protection: i32, flags: i32, fd: i32, offset: i64) -> *mut u8;
    fn madvise(at: *mut u8, bytes: usize, advice: i32) -> i32; }
// Looks up places in an atlas that is mapped, not in memory, and read a page at a time.
fn main() {
    let words: Vec<String> = std::env::args().collect();
    let file = std::fs::File::open(&words[1]).unwrap();
    let pages = file.metadata().unwrap().len() as usize / 4096;
    let map = unsafe { mmap(std::ptr::null_mut(), pages * 4096, 1, 1, file.as_raw_fd(), 0) };
    assert!(unsafe { madvise(map, pages * 4096, 1) } == 0);
    let atlas = unsafe { std::slice::from_raw_parts(map, pages * 4096) };
    let sum: u64 = (0..words[2].parse::<usize>().unwrap()).map(|i| atlas[i * 104729 % pages * 4096 + i % 4096] as u64).sum();
    println!("{}", sum);
}""")


@kind("tuning", "cgroup.io_limit", "atlas", 600, touches=("readahead", "io"))
def _(n):
    line = ["{dir}/bin/set-atlas", "{dir}/large.data", str(n)]
    return after([*RUST_ATLAS, *dropped("{dir}/large.data")], io_limited(line, 1400))


@kind("tuning", "block.queue_settings", "fio-queue", 48, touches=("readahead", "io"))
def _(n):
    line = fio("q", filename="{dir}/large.data", rw="randread", bs="4k", size="1g", io_size=f"{n}m", direct=1, numjobs=2, thread=1,
               iodepth=32, invalidate=0, ioengine="libaio")
    return toggled(line, f"{QUEUE}/nr_requests", "256", "4")


ML_OBJECTS = built("set-objects", "ml", """(* A store of objects as git has one: each is written under another name, and renamed when it is whole. *)
let () =
  let store = Sys.argv.(1) and count = int_of_string Sys.argv.(2) in
  let body = Bytes.make 900 'o' in
  for i = 0 to count - 1 do
    let folder = Printf.sprintf "%s/%02x" store (i * 37 mod 64) in
    (try Unix.mkdir folder 0o755 with Unix.Unix_error (Unix.EEXIST, _, _) -> ());
    let file = Unix.openfile (folder ^ "/tmp_obj") [Unix.O_WRONLY; Unix.O_CREAT; Unix.O_EXCL] 0o444 in
    ignore (Unix.write file body 0 900);
    Unix.close file;
    Unix.rename (folder ^ "/tmp_obj") (Printf.sprintf "%s/%x" folder (i mod 500))
  done""")


@kind("tuning", "mount.changed", "objects", 20)
def _(n):
    fresh = shell("rm -rf {mount}/objects; mkdir {mount}/objects")
    return tuple(Side(["{dir}/bin/set-objects", "{mount}/objects", str(n)], before=[*ML_OBJECTS, *side.before, fresh]) for side in remounted([]))


@kind("tuning", "mount.changed", "sqlite", 10)
def _(n):
    text = "PRAGMA synchronous=OFF; CREATE TABLE visits(at, page); " + "INSERT INTO visits VALUES(7, 'index');" * min(n, 3000)
    fresh = shell("rm -f {mount}/visits.db*; sync -f {mount}")
    return tuple(Side(["sqlite3", "{mount}/visits.db", text], before=[*side.before, fresh]) for side in remounted([]))
