"""Kinds that lose by a setting of the host, of a control group or of a mount.

These were frozen until 2026-11-28, when rules were judged by them and then changed by what they missed: they are for tuning.
"""

from cases import DATA, DIRTY, LOCKED_DOWN, QUEUE, THP, Side, dropped, fio, io_limited, merging, piece, programs, remounted, toggled
from compiled import after, built
from kinds import kind

# Memory.


COLUMNS_SOURCE = """
#include <vector>
#include <cstdio>
#include <cstdlib>
struct Table { std::vector<double> price; std::vector<long> at; };
int main(int, char **words) {
    double sum = 0;
    for (long round = 0; round < atol(words[1]); round++) {
        Table table;
        for (long i = 0; i < 3000000; i++) { table.price.push_back(i * 0.5); table.at.push_back(i ^ round); }
        sum += table.price[round] + table.at.back();
    }
    printf("%g\\n", sum);
}"""


@kind("tuning", "thp.disabled", "columns", 5, touches=("thp", "malloc"))
def _(n):
    # Columns that grow, in C++.
    return toggled(["{dir}/bin/columns", str(n)], f"{THP}/enabled", "always", "never", before=built("columns", "cc", COLUMNS_SOURCE))


TOTALS_SOURCE = """
package main

import (
	"fmt"
	"os"
	"strconv"
)

const rows, columns = 6144, 520

func main() {
	n, _ := strconv.Atoi(os.Args[1])
	matrix := make([]float64, rows*columns)
	for i := range matrix {
		matrix[i] = float64(i % 1000)
	}
	totals := make([]float64, columns)
	for round := 0; round < n; round++ {
		for column := 0; column < columns; column++ {
			sum := 0.0
			for row := 0; row < rows; row++ {
				sum += matrix[row*columns+column]
			}
			totals[column] += sum
		}
	}
	fmt.Println(totals[0], totals[columns-1])
}"""


@kind("tuning", "thp.disabled", "totals", 10, touches=("thp",))
def _(n):
    # The totals of a matrix's columns, which lie across its pages, in Go.
    return toggled(["{dir}/bin/totals", str(n)], f"{THP}/enabled", "always", "madvise", before=built("totals", "go", TOTALS_SOURCE))


FRAMES_SOURCE = """
use std::thread;
fn flipped(frame: &[u8], width: usize) -> Vec<u8> {
    let mut out = vec![0u8; frame.len()];
    for (to, from) in out.chunks_exact_mut(width).zip(frame.chunks_exact(width).rev()) { to.copy_from_slice(from); }
    out
}
fn main() {
    let frames: usize = std::env::args().nth(1).unwrap().parse().unwrap();
    let films: Vec<_> = (0..2u8).map(|film| thread::spawn(move || {
        let mut seen = 0u64;
        for i in 0..frames {
            let frame = vec![film + i as u8 | 1; 7680 * 4800];
            seen += flipped(&frame, 7680)[7680 * 100 + i] as u64;
        }
        seen
    })).collect();
    println!("{}", films.into_iter().map(|film| film.join().unwrap()).sum::<u64>());
}"""


@kind("tuning", "thp.disabled", "frames", 3, touches=("thp", "malloc"))
def _(n):
    # Two threads that flip frames, in Rust.
    return toggled(["{dir}/bin/frames", str(n)], f"{THP}/enabled", "always", "madvise", before=built("frames", "rs", FRAMES_SOURCE))


HEAT_SOURCE = """
program heat
  implicit none
  real(8), allocatable :: now(:,:), next(:,:)
  integer :: step, steps
  character(20) :: word
  call get_command_argument(1, word)
  read(word, *) steps
  allocate(now(2048, 2048))
  now = 1
  do step = 1, steps
    allocate(next(2048, 2048))
    next = now
    next(2:2047, 2:2047) = now(2:2047, 2:2047) + 0.1d0 * (now(1:2046, 2:2047) + now(3:2048, 2:2047) - 2 * now(2:2047, 2:2047))
    call move_alloc(next, now)
  end do
  print *, now(100, 100)
end program"""


@kind("tuning", "thp.disabled", "heat", 10, touches=("thp", "malloc"))
def _(n):
    # A new grid for each step, in Fortran.
    return toggled(["{dir}/bin/heat", str(n)], f"{THP}/enabled", "always", "never", before=built("heat", "f90", HEAT_SOURCE))


BOARD_SOURCE = """
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **words) {
    size_t bytes = 32 << 20;
    for (long round = 0; round < atol(words[1]); round++) {
        char *board = mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        for (int worker = 0; worker < 2; worker++)
            if (fork() == 0) {
                for (size_t at = 0; at < bytes; at += 256)
                    board[worker * bytes + at] = worker + 1;
                _exit(0);
            }
        while (wait(NULL) > 0)
            ;
        munmap(board, 2 * bytes);
    }
    return 0;
}"""


@kind("tuning", "shmem.small_pages", "board", 5, touches=("thp",))
def _(n):
    # A board that two processes write their halves of.
    return toggled(["{dir}/bin/board", str(n)], f"{THP}/shmem_enabled", "always", "never", before=built("board", "c", BOARD_SOURCE))


SURFACE_SOURCE = """
package main

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

func main() {
	n, _ := strconv.Atoi(os.Args[1])
	row := bytes.Repeat([]byte{5}, 65536)
	name := []byte("surface\\x00")
	for i := 0; i < n; i++ {
		fd, _, failed := syscall.Syscall(319, uintptr(unsafe.Pointer(&name[0])), 1, 0)
		if failed != 0 {
			panic(failed)
		}
		syscall.Ftruncate(int(fd), 48<<20)
		surface, failure := syscall.Mmap(int(fd), 0, 48<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
		if failure != nil {
			panic(failure)
		}
		for at := 0; at < len(surface); at += len(row) {
			copy(surface[at:], row)
		}
		syscall.Munmap(surface)
		syscall.Close(int(fd))
	}
}"""


@kind("tuning", "shmem.small_pages", "surface", 5, touches=("thp",))
def _(n):
    # Surfaces as a compositor's clients have, in Go.
    return toggled(["{dir}/bin/surface", str(n)], f"{THP}/shmem_enabled", "always", "never", before=built("surface", "go", SURFACE_SOURCE))


CHUNKS_SOURCE = """
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
/* Chunks of 4 MiB in address space that is kept for them, each behind a header of so many bytes. */
int main(int count, char **words) {
    size_t chunk = 4 << 20, header = strtoul(words[2], NULL, 0);
    char *kept = mmap((void *)0x280000000000, 64 * chunk, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (kept == MAP_FAILED)
        return 1;
    for (long i = 0; i < atol(words[1]); i++) {
        char *at = mmap(kept + i % 20 * 3 * chunk + header, chunk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (at == MAP_FAILED)
            return 1;
        memset(at, 1, chunk);
        mmap(at, chunk, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    }
    return 0;
}"""


@kind("tuning", "map.misaligned", "chunks", 50, touches=("thp",))
def _(n):
    more = dict(settings={f"{THP}/enabled": "always"}, before=built("chunks", "c", CHUNKS_SOURCE))
    return programs(*(["{dir}/bin/chunks", str(n), header] for header in ("0", "0x100000")), **more)


GUESTS_SOURCE = """
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
/* Two guests with the same memory, which both begin to write after a while. */
int main(int count, char **words) {
    size_t bytes = strtoul(words[1], NULL, 0) << 19;
    for (int guest = 0; guest < 2; guest++)
        if (fork() == 0) {
            char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            madvise(memory, bytes, MADV_MERGEABLE);
            memset(memory, 3, bytes);
            usleep(800000);
            for (size_t at = 0; at < bytes; at += 4096)
                memory[at + 64] = guest;
            _exit(0);
        }
    while (wait(NULL) > 0)
        ;
    return 0;
}"""


@kind("tuning", "ksm.separated", "guests", 64, largest=10)
def _(n):
    return after(built("guests", "c", GUESTS_SOURCE), merging(["{dir}/bin/guests", str(n)], "30000"))


ORDERS_SOURCE = """
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
// Books of orders with room for many, in each of which a few are written.
int main(int, char **words) {
    int failed = strcmp(words[2], "pinned") ? munlockall() : mlockall(MCL_CURRENT | MCL_FUTURE);
    if (failed) { perror("mlockall"); return 1; }
    for (long day = 0; day < atol(words[1]); day++) {
        void *room = mmap(nullptr, 32 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (room == MAP_FAILED) { perror("mmap"); return 1; }
        char *book = (char *)room;
        for (int order = 0; order < 200; order++) book[order * 64] = order;
        munmap(room, 32 << 20);
    }
}"""


@kind("tuning", "memory.pinned", "orders", 4)
def _(n):
    return programs(*(["{dir}/bin/orders", str(n), word] for word in ("paged", "pinned")), before=built("orders", "cc", ORDERS_SOURCE))


if LOCKED_DOWN is False:
    SYMBOLS_SOURCE = """
package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
)

func main() {
	n, _ := strconv.Atoi(os.Args[2])
	file, err := os.Open(os.Args[1])
	if err != nil {
		panic(err)
	}
	sum := 0
	for i := 0; i < n; i++ {
		data, err := syscall.Mmap(int(file.Fd()), 0, 96<<20, syscall.PROT_READ, syscall.MAP_PRIVATE)
		if err != nil {
			panic(err)
		}
		for at := 0; at < len(data); at += 1024 {
			sum += int(data[at])
		}
		syscall.Munmap(data)
	}
	fmt.Println(sum)
}"""

    @kind("tuning", "faultaround.reduced", "symbols", 2)
    def _(n):
        return toggled(["{dir}/bin/symbols", DATA, str(n)], "{debug}/fault_around_bytes", "65536", "4096", before=built("symbols", "go", SYMBOLS_SOURCE))


# Reclaim and the page cache.


def short_of_memory(command, mib, enough, short, before=()):
    """A program that reads {dir}/again.data, in a control group with memory for it and in one without."""
    return tuple(Side(command, limits={"memory.max": limit}, before=[*before, *piece(mib, "again.data")]) for limit in (enough, short))


PASSES_SOURCE = """
(* Passes over a file, each of which sums up something of every block. *)
let () =
  let block = Bytes.create 131072 in
  let sum = ref 0 in
  for _ = 1 to int_of_string Sys.argv.(2) do
    let file = Unix.openfile Sys.argv.(1) [Unix.O_RDONLY] 0 in
    let rec each () =
      let got = Unix.read file block 0 131072 in
      if got > 0 then begin
        sum := !sum + Char.code (Bytes.get block (got - 1));
        each ()
      end in
    each ();
    Unix.close file
  done;
  Printf.printf "%d\\n" !sum"""


@kind("tuning", "cgroup.memory_limit", "passes", 2, touches=("readahead",))
def _(n):
    return short_of_memory(["{dir}/bin/passes", "{dir}/again.data", str(n + 1)], 320, "900M", "140M", built("passes", "ml", PASSES_SOURCE))


PAGES_SOURCE = """
use std::os::fd::AsRawFd;
extern "C" { fn mmap(at: *mut u8, bytes: usize, protection: i32, flags: i32, fd: i32, offset: i64) -> *mut u8;
    fn madvise(at: *mut u8, bytes: usize, advice: i32) -> i32; }
// Walks from page to page of a mapped file, after all of it was read once.
fn main() {
    let words: Vec<String> = std::env::args().collect();
    let file = std::fs::File::open(&words[1]).unwrap();
    let bytes = file.metadata().unwrap().len() as usize;
    let map = unsafe { mmap(std::ptr::null_mut(), bytes, 1, 1, file.as_raw_fd(), 0) };
    let data = unsafe { std::slice::from_raw_parts(map, bytes) };
    let mut sum: u64 = data.iter().step_by(4096).map(|&byte| byte as u64).sum();
    assert!(unsafe { madvise(map, bytes, 1) } == 0);
    let mut at: u64 = 88172645463325252;
    for _ in 0..words[2].parse::<u64>().unwrap() {
        at ^= at << 13; at ^= at >> 7; at ^= at << 17;
        sum += data[(at % (bytes as u64 / 4096)) as usize * 4096 + 512] as u64;
    }
    println!("{}", sum);
}"""


@kind("tuning", "cgroup.memory_limit", "pages", 5000, touches=("readahead",))
def _(n):
    return short_of_memory(["{dir}/bin/pages", "{dir}/again.data", str(n)], 240, "900M", "120M", built("pages", "rs", PAGES_SOURCE))


# Files and devices.


@kind("tuning", "readahead.reduced", "cpio", 16, touches=("readahead",))
def _(n):
    line = ["sh", "-c", "cd {dir}; echo part.data | cpio -o --quiet -H newc"]
    return toggled(line, f"{QUEUE}/read_ahead_kb", "2048", "8", before=piece(min(n, 1500)))


@kind("tuning", "readahead.reduced", "openssl", 16, touches=("readahead",))
def _(n):
    return toggled(["openssl", "dgst", "-sha1", "{dir}/part.data"], f"{QUEUE}/read_ahead_kb", "1024", "4", before=piece(min(n, 1500)))


HALVES_SOURCE = """
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
/* Two threads, each of which reads its half of a file: a head of 512 bytes and a body for each record. */
static char *name;
static long half;
static void *reader(void *which) {
    char *head = malloc(512), *body = malloc(24 << 10);
    struct iovec record[2] = {{head, 512}, {body, (24 << 10) - 512}};
    int fd = open(name, O_RDONLY);
    for (long at = 0; at < half; at += 24 << 10)
        if (preadv(fd, record, 2, (long)which * half + at) <= 0)
            break;
    close(fd);
    return NULL;
}
int main(int count, char **words) {
    struct stat file;
    pthread_t threads[2];
    name = words[1];
    if (stat(name, &file))
        return 1;
    half = file.st_size / 2;
    for (long i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, reader, (void *)i);
    for (long i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}"""


@kind("tuning", "readahead.reduced", "halves", 64, touches=("readahead",))
def _(n):
    before = [*built("halves", "c", HALVES_SOURCE), *piece(min(n, 1500))]
    return toggled(["{dir}/bin/halves", "{dir}/part.data"], f"{QUEUE}/read_ahead_kb", "1024", "4", before=before)


JOURNAL_SOURCE = """
use std::fs::File;
use std::io::{BufWriter, Write};
// Lines of a log, with a new file for each 64 MiB; the oldest of twelve is written over.
fn main() {
    let words: Vec<String> = std::env::args().collect();
    let mib: usize = words[2].parse().unwrap();
    let line = [b'a'; 1023];
    let (mut written, mut out) = (0, None);
    for i in 0..mib * 1024 {
        if i % 65536 == 0 {
            let name = format!("{}.{}", words[1], i / 65536 % 12);
            out = Some(BufWriter::with_capacity(32768, File::options().write(true).create(true).truncate(false).open(name).unwrap()));
        }
        let file = out.as_mut().unwrap();
        file.write_all(&line).unwrap();
        file.write_all(b"\\n").unwrap();
        written += 1;
    }
    println!("{}", written);
}"""


@kind("tuning", "writeback.throttled", "journal", 100, touches=("dirty",))
def _(n):
    return toggled(["{dir}/bin/journal", "{dir}/journal.log", str(n)], DIRTY, "4000000000", "6291456", before=[*built("journal", "rs", JOURNAL_SOURCE), ["sync"]])


TILES_SOURCE = """
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
/* Writes the tiles of a map through memory, 1 MiB each, to a file of 800 of them. */
int main(int count, char **words) {
    size_t tile = 1 << 20, all = 800 * tile;
    int fd = open(words[1], O_RDWR | O_CREAT, 0644);
    char *map;
    if (fd < 0 || ftruncate(fd, all) || (map = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED)
        return 1;
    for (long i = 0; i < atol(words[2]); i++)
        memset(map + i * 7 % 800 * tile, i, tile);
    munmap(map, all);
    return 0;
}"""


@kind("tuning", "writeback.throttled", "tiles", 100, touches=("dirty",))
def _(n):
    return toggled(["{dir}/bin/tiles", "{dir}/tiles.data", str(min(n, 1600))], DIRTY, "4000000000", "8388608", before=[*built("tiles", "c", TILES_SOURCE), ["sync"]])


@kind("tuning", "cgroup.io_limit", "ioping", 4, touches=("io",))
def _(n):
    return io_limited(["ioping", "-D", "-q", "-i", "0", "-s", "4k", "-S", "64m", "-c", str(256 * n), DATA], 1600)


LOOKUPS_SOURCE = """
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
/* Looks up keys in a sorted file that is not in memory: a page of the index, and the one of the row. */
int main(int count, char **words) {
    int fd = open(words[1], O_RDONLY);
    uint64_t key = 88172645463325252ULL;
    char page[4096];
    posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
    for (long i = 0; i < atol(words[2]); i++) {
        key ^= key << 13; key ^= key >> 7; key ^= key << 17;
        if (pread(fd, page, sizeof page, (key % 8192) * 4096) < 0 || pread(fd, page, sizeof page, (8192 + key % 400000) * 4096) < 0)
            return 1;
    }
    return 0;
}"""


@kind("tuning", "cgroup.io_limit", "lookups", 400, touches=("readahead", "io"))
def _(n):
    line = ["{dir}/bin/lookups", "{dir}/large.data", str(n)]
    return after([*built("lookups", "c", LOOKUPS_SOURCE), *dropped("{dir}/large.data")], io_limited(line, 1500))


STORE_SOURCE = """
package main

import (
	"os"
	"strconv"
	"sync"
	"syscall"
	"unsafe"
)

func main() {
	n, _ := strconv.Atoi(os.Args[2])
	var all sync.WaitGroup
	for writer := 0; writer < 2; writer++ {
		all.Add(1)
		go func(writer int) {
			defer all.Done()
			file, err := os.OpenFile(os.Args[1]+strconv.Itoa(writer), os.O_RDWR|os.O_CREATE|syscall.O_DIRECT, 0644)
			if err != nil {
				panic(err)
			}
			room := make([]byte, 16384+4096)
			from := 4096 - int(uintptr(unsafe.Pointer(&room[0]))%4096)
			block := room[from : from+16384]
			for i := 0; i < n; i++ {
				if _, err := file.WriteAt(block, int64(i*7%1024)*16384); err != nil {
					panic(err)
				}
			}
			file.Close()
		}(writer)
	}
	all.Wait()
}"""


@kind("tuning", "cgroup.io_limit", "store", 400, touches=("io",))
def _(n):
    full = ["sh", "-c", "for i in 0 1; do [ -e {dir}/store.$i ] || { head -c 16M {dir}/large.data > {dir}/store.$i; sync {dir}/store.$i; }; done"]
    before = [*built("store", "go", STORE_SOURCE), full]
    return tuple(Side(["{dir}/bin/store", "{dir}/store.", str(n)], limits={"io.max": limit}, before=before) for limit in ("max", "wiops=1200 riops=1200"))


@kind("tuning", "block.queue_settings", "uring-bfq", 128, touches=("readahead", "io"))
def _(n):
    line = fio("u", filename="{dir}/large.data", rw="randread", bs="4k", size="1g", io_size=f"{n}m", direct=1,
               iodepth=32, iodepth_batch_submit=8, invalidate=0, ioengine="io_uring")
    return toggled(line, f"{QUEUE}/scheduler", "none", "bfq")


MAILDIR_SOURCE = """
package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	spool := os.Args[1]
	n, _ := strconv.Atoi(os.Args[2])
	must(os.MkdirAll(spool+"/tmp", 0755))
	must(os.MkdirAll(spool+"/new", 0755))
	mail := bytes.Repeat([]byte("Received: from here\\n"), 100)
	for i := 0; i < n; i++ {
		from, to := fmt.Sprintf("%s/tmp/%d", spool, i%40), fmt.Sprintf("%s/new/%d", spool, i%40)
		must(os.WriteFile(from, mail, 0644))
		must(os.Rename(from, to))
	}
}"""


@kind("tuning", "mount.changed", "maildir", 100)
def _(n):
    line = ["{dir}/bin/maildir", "{mount}/spool", str(n)]
    return after(built("maildir", "go", MAILDIR_SOURCE), remounted(line))


@kind("tuning", "mount.changed", "cpio", 50)
def _(n):
    files = (f"rm -rf {{mount}}/out {{dir}}/in; mkdir {{mount}}/out {{dir}}/in; cd {{dir}}/in; head -c {n * 4000} ../text.data | split -b 4000 -a 5; "
             "ls | cpio -o --quiet -H newc > ../in.cpio; sync -f .")
    return tuple(Side(["sh", "-c", "cd {mount}/out && cpio -i --quiet < {dir}/in.cpio"], before=[*side.before, ["sh", "-c", files]]) for side in remounted([]))
