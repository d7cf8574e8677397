"""Kinds that lose by how a program reads and writes its files.

The kinds of frozen_*.py are those that no rule was changed by: they are run once when rules have changed. Whoever looks at a case of these
to change a rule moves its kind to a seen*.py.
"""

from cases import DATA, Side, dropped, fio
from compiled import C_HEAD, built, with_one
from kinds import either, kind, perl, python, shell

WEATHER = "{dir}/weather.data"
# Half a gibibyte of measures.
MAKE_WEATHER = shell("[ -e {dir}/weather.data ] || { head -c 512M {dir}/large.data > {dir}/weather.new; sync {dir}/weather.new; "
                     "mv {dir}/weather.new {dir}/weather.data; }")


def warm_or_cold(line, files, before, **more):
    """A program on files that were read before the run, or dropped from the page cache."""
    visit = f"for f in {files}; do dd if=$f of=/dev/null bs=1M status=none HOW; done"
    return tuple(Side(line, before=[*before, shell(visit.replace("HOW", how))], **more) for how in ("", "iflag=nocache count=0"))


# What is forced to the disk.

MONO_EVENTS = built("s7-events", "cs", """using System;
using System.IO;
using System.Text;
// A store of events: each is appended, and perhaps on the disk before the next one is taken.
static class Events {
    static void Main(string[] all) {
        bool durable = all[2] == "durable";
        using (var store = new FileStream(all[0], FileMode.Create, FileAccess.Write)) {
            for (int i = 0, n = int.Parse(all[1]); i < n; i++) {
                byte[] one = Encoding.ASCII.GetBytes("{\\"event\\": " + i + ", \\"kind\\": \\"order placed\\", \\"customer\\": " + i % 977 + "}\\n");
                store.Write(one, 0, one.Length);
                store.Flush(durable);
            }
        }
    }
}""")

PASCAL_STOCK = built("s7-stock", "pas", """program stock;
{$mode objfpc}
uses baseunix, unix, sysutils;
{ The stock of a shop: each sale changes the record of an article, which is perhaps forced to the disk. }
var
  shop, i, n: longint;
  how: string;
  article: array[0..1023] of byte;
begin
  shop := fpopen(paramstr(1), o_rdwr or o_creat, &644);
  n := strtoint(paramstr(2));
  how := paramstr(3);
  fillchar(article, sizeof(article), 65);
  for i := 0 to n - 1 do begin
    inc(article[i mod 1024]);
    if fppwrite(shop, pchar(@article), sizeof(article), (i * 37 mod 5000) * sizeof(article)) <> sizeof(article) then halt(1);
    if how = 'durable' then if fpfsync(shop) <> 0 then halt(1);
  end;
  fpclose(shop);
end.""")

OCAML_LEASES = built("s7_leases", "ml", """(* A server of leases: each lease that it grants is written to a table of 256 pages, and perhaps forced to the disk. *)
let () =
  let table = Unix.openfile Sys.argv.(1) [Unix.O_RDWR; Unix.O_CREAT] 0o644 in
  let lease = Bytes.make 4096 'l' and durable = Sys.argv.(3) = "durable" in
  for i = 0 to int_of_string Sys.argv.(2) - 1 do
    Bytes.set lease (i land 4095) (Char.chr (i land 255));
    ignore (Unix.lseek table (i * 91 land 255 * 4096) Unix.SEEK_SET);
    if Unix.write table lease 0 4096 <> 4096 then exit 1;
    if durable then Unix.fsync table
  done""")

C_CHUNKS = built("s7-chunks", "c", C_HEAD + """#include <sys/socket.h>
/* A client that sends chunks to the process that stores them, which writes each with its header and answers. */
struct Header { long number; char rest[504]; };
int main(int c, char **v)
{
    static char chunk[7680];
    struct Header header = { 0 };
    int ends[2], status, flags = atoi(v[3]);
    long n = atol(v[2]);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return 1;
    if (!fork()) {
        int store = open(v[1], O_RDWR | O_CREAT, 0644);
        for (long i = 0; i < n; i++) {
            struct iovec parts[2] = { { &header, sizeof(header) }, { chunk, sizeof(chunk) } };
            header.number = i;
            if (recv(ends[0], chunk, sizeof(chunk), MSG_WAITALL) != sizeof(chunk)) _exit(1);
            if (pwritev2(store, parts, 2, i % 4096 * 8192, flags) != 8192) _exit(1);
            if (write(ends[0], "k", 1) != 1) _exit(1);
        }
        _exit(0);
    }
    for (long i = 0; i < n; i++) {
        char answer;
        chunk[i % sizeof(chunk)]++;
        if (write(ends[1], chunk, sizeof(chunk)) != sizeof(chunk) || read(ends[1], &answer, 1) != 1) return 1;
    }
    wait(&status);
    return status != 0;
}""")

@kind("frozen", "sync.more", "mono", 400, touches=("dirty",))
def _(n):
    return with_one(MONO_EVENTS, ["mono", "{dir}/bin/s7-events", "{dir}/events.json", str(n), "HOW"], "HOW", ("later", "durable"))


@kind("frozen", "sync.more", "pascal-stock", 400, touches=("dirty",))
def _(n):
    return with_one(PASCAL_STOCK, ["{dir}/bin/s7-stock", "{dir}/stock.data", str(n), "HOW"], "HOW", ("later", "durable"))


@kind("frozen", "sync.more", "leases", 400, touches=("dirty",))
def _(n):
    return with_one(OCAML_LEASES, ["{dir}/bin/s7_leases", "{dir}/leases.data", str(n), "HOW"], "HOW", ("later", "durable"))


@kind("frozen", "sync.more", "chunks", 400, touches=("dirty",))
def _(n):
    # 2 is RWF_DSYNC.
    return with_one(C_CHUNKS, ["{dir}/bin/s7-chunks", "{dir}/chunks.data", str(n), "FLAGS"], "FLAGS", (0, 2))


@kind("frozen", "sync.more", "guile", 400, touches=("dirty",))
def _(n):
    # Notes that are appended to a file.
    text = ("(let ((notes (open-file \"{dir}/notes.txt\" \"w\")) (note (make-string 300 #\\n))) "
            f"(do ((i 0 (+ i 1))) ((= i {n})) (display note notes) (newline notes) (force-output notes) (STEP notes)))")
    return either(lambda text: ["guile", "-c", text], text, "STEP", ("fileno", "fsync"))


@kind("frozen", "sync.more", "fio-uring", 400, touches=("dirty",))
def _(n):
    make = shell("[ -e {dir}/uring.data ] || { head -c 16M {dir}/large.data > {dir}/uring.new; sync {dir}/uring.new; mv {dir}/uring.new {dir}/uring.data; }")
    line = dict(filename="{dir}/uring.data", rw="write", bs="4k", size="16m", io_size=f"{4 * n}k", ioengine="io_uring", fallocate="none", invalidate=0)
    return tuple(Side(fio("u", sync=sync, **line), before=[make]) for sync in ("none", "dsync"))


# A page cache without the file.

FORTRAN_STATIONS = built("s7-stations", "f90", """! Weather stations: the records of some of them are read, one by one, all over a file that is said to be read so.
program stations
  use iso_c_binding
  implicit none
  interface
    function advise(file, from, bytes, advice) bind(c, name='posix_fadvise')
      import
      integer(c_int), value :: file, advice
      integer(c_long), value :: from, bytes
      integer(c_int) :: advise
    end function
  end interface
  character(len=256) :: name, word
  integer :: n, i
  real(8) :: record(1024), total
  integer(8) :: bits
  call get_command_argument(1, name)
  call get_command_argument(2, word)
  read (word, *) n
  open (unit=10, file=trim(name), access='direct', form='unformatted', recl=8192, status='old', action='read')
  if (advise(fnum(10), 0_c_long, 0_c_long, 1) /= 0) stop 1
  bits = 0
  do i = 0, n - 1
    read (10, rec=1 + int(mod(i * 40503_8, 65536_8))) record
    bits = ieor(bits, transfer(record(1), bits))
  end do
  if (bits == 1) stop 1
end program""")

RUST_TILES = built("s7-tiles", "rs", """use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
extern "C" { fn posix_fadvise(file: i32, from: i64, bytes: i64, advice: i32) -> i32; }
// Two threads of a map server, each of which reads tiles of 8 KiB from all over the map, as it says to the kernel.
fn main() {
    let all: Vec<String> = std::env::args().collect();
    let count = all[2].parse::<u64>().unwrap();
    let threads: Vec<_> = (0..2u64).map(|thread| {
        let map = std::fs::File::open(&all[1]).unwrap();
        assert!(unsafe { posix_fadvise(map.as_raw_fd(), 0, 0, 1) } == 0);
        std::thread::spawn(move || {
            let (mut tile, mut sum) = (vec![0u8; 8192], 0u64);
            for i in (thread..count).step_by(2) {
                map.read_exact_at(&mut tile, i * 40503 % 65536 * 8192).unwrap();
                sum = sum.rotate_left(3) ^ tile[(i % 8192) as usize] as u64;
            }
            sum
        })
    }).collect();
    assert!(threads.into_iter().map(|thread| thread.join().unwrap()).fold(0, |a, b| a ^ b) != 1);
}""")

ICONS = python("import os, zipfile\nif not os.path.exists('{dir}/icons.zip'):\n"
               " with open('{dir}/large.data', 'rb') as f, zipfile.ZipFile('{dir}/icons.new', 'w') as z:\n"
               "  for i in range(12000): z.writestr('icons/%d.png' % i, f.read(32768))\n os.sync()\n os.rename('{dir}/icons.new', '{dir}/icons.zip')")


@kind("frozen", "cache.cold", "fortran", 1000, touches=("readahead",))
def _(n):
    line = ["{dir}/bin/s7-stations", WEATHER, str(min(n, 65536))]
    return warm_or_cold(line, WEATHER, [*FORTRAN_STATIONS, MAKE_WEATHER], env={"GFORTRAN_UNFORMATTED_BUFFER_SIZE": "8192"})


@kind("frozen", "cache.cold", "tiles", 1000, touches=("readahead",))
def _(n):
    return warm_or_cold(["{dir}/bin/s7-tiles", WEATHER, str(min(n, 65536))], WEATHER, [*RUST_TILES, MAKE_WEATHER])


@kind("frozen", "cache.cold", "zip", 500, touches=("readahead",))
def _(n):
    # Icons from an archive, in another order than they lie there; it is said to be read so.
    text = (f"import os, zipfile\nf = open('{{dir}}/icons.zip', 'rb')\nos.posix_fadvise(f.fileno(), 0, 0, 1)\nz = zipfile.ZipFile(f)\n"
            f"for i in range({min(n, 12000)}): z.read('icons/%d.png' % (i * 7919 % 12000))")
    return warm_or_cold(python(text), "{dir}/icons.zip", [ICONS])


# Past the page cache.

CPP_SEGMENTS = built("s7-segments", "cc", """#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>
// Two processes that scan a table of 64 MiB again and again: each request reads the segments of four columns.
int main(int, char **v) {
    long n = atol(v[2]), sum = 0;
    bool child = fork() == 0;
    int table = open(v[1], O_RDONLY | atoi(v[3]));
    char *columns = (char *)mmap(nullptr, 131072, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    iovec parts[4];
    for (int i = 0; i < 4; i++) parts[i] = {columns + i * 32768, 32768};
    for (long i = child; i < n; i += 2) {
        if (preadv(table, parts, 4, i % 512 * 131072) != 131072) return 1;
        for (long at = 0; at < 131072; at += 512) sum += columns[at];
    }
    return sum == 1;
}""")

PASCAL_METERS = built("s7-meters", "pas", """program meters;
{$mode objfpc}
uses baseunix, sysutils;
{ Readings of meters, which are written in blocks of 64 KiB into a ring on the disk, with some flags. }
var
  ring, i, n: longint;
  block: pbyte;
begin
  ring := fpopen(paramstr(1), o_rdwr or strtoint(paramstr(3)));
  n := strtoint(paramstr(2));
  block := fpmmap(nil, 65536, prot_read or prot_write, map_private or map_anonymous, -1, 0);
  for i := 0 to n - 1 do begin
    inc(block[i mod 65536]);
    if fppwrite(ring, pchar(block), 65536, (i mod 480) * 65536) <> 65536 then halt(1);
  end;
  fpclose(ring);
end.""")
METERS = shell("[ -e {dir}/meters.data ] || { head -c 30M {dir}/large.data > {dir}/meters.new; sync {dir}/meters.new; mv {dir}/meters.new {dir}/meters.data; }; "
               "sync {dir}/meters.data; cat {dir}/meters.data")
DIRECT = 0o40000

SHOP = "db_bench --db={dir}/shop.rocks --num=100000 --value_size=1000 --key_size=16 --compression_type=none --seed=1 --threads=1 --cache_size=1048576"
MAKE_SHOP = shell(f"[ -e {{dir}}/shop.rocks/ok ] || {{ rm -rf {{dir}}/shop.rocks; {SHOP} --benchmarks=fillseq,compact --disable_wal=1 && sync -f {{dir}} && "
                  "touch {dir}/shop.rocks/ok; }; cat {dir}/shop.rocks/*.sst")


@kind("frozen", "io.direct", "segments", 400)
def _(n):
    return with_one(CPP_SEGMENTS, ["{dir}/bin/s7-segments", DATA, str(n), "FLAGS"], "FLAGS", (0, DIRECT), before=[["cat", DATA]])


@kind("frozen", "io.direct", "meters", 400, touches=("dirty",))
def _(n):
    return with_one(PASCAL_METERS, ["{dir}/bin/s7-meters", "{dir}/meters.data", str(n), "FLAGS"], "FLAGS", (0, DIRECT), before=[METERS])


@kind("frozen", "io.direct", "rocksdb", 500)
def _(n):
    line = f"{SHOP} --benchmarks=readrandom --use_existing_db=1 --readonly=1 --reads={n} --use_direct_reads=HOW > /dev/null"
    return either(shell, line, "HOW", ("false", "true"), before=[MAKE_SHOP])


# Readahead that is lost.

MONO_IMPORT = built("s7-import", "cs", """using System;
using System.IO;
// Imports measures from a file, which is opened with some options and read from its beginning on.
static class Import {
    static int Main(string[] all) {
        var options = (FileOptions)Enum.Parse(typeof(FileOptions), all[2]);
        var block = new byte[8192];
        long sum = 0;
        using (var file = new FileStream(all[0], FileMode.Open, FileAccess.Read, FileShare.Read, 8192, options)) {
            for (int i = 0, n = 128 * int.Parse(all[1]); i < n; i++) {
                if (file.Read(block, 0, block.Length) != block.Length) return 1;
                for (int at = 0; at < block.Length; at += 64) sum += block[at];
            }
        }
        return sum == 1 ? 1 : 0;
    }
}""")

C_SENSORS = built("s7-sensors", "c", C_HEAD + """/* Two threads that look for the largest value of a mapped file of measures, each in its half,
   with some advice for all of it. */
static const unsigned *values;
static size_t half;
static void *largest(void *from)
{
    unsigned long most = 0;
    for (const unsigned *at = from; at < (const unsigned *)from + half; at++) if (*at > most) most = *at;
    return (void *)most;
}
int main(int c, char **v)
{
    size_t bytes = atol(v[2]) << 20;
    pthread_t threads[2];
    void *most;
    values = mmap(0, bytes, PROT_READ, MAP_SHARED, open(v[1], O_RDONLY), 0);
    half = bytes / 2 / sizeof(*values);
    if (values == MAP_FAILED || madvise((void *)values, bytes, atoi(v[3]))) return 1;
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, largest, (void *)(values + i * half));
    for (int i = 0; i < 2; i++) pthread_join(threads[i], &most);
    return most == 0;
}""")


@kind("frozen", "readahead.lost", "sensors", 16, touches=("readahead",))
def _(n):
    # 0 is MADV_NORMAL, 1 MADV_RANDOM.
    line = ["{dir}/bin/s7-sensors", WEATHER, str(min(n, 512)), "ADVICE"]
    return with_one(C_SENSORS, line, "ADVICE", (0, 1), before=[MAKE_WEATHER, *dropped(WEATHER)])


@kind("frozen", "readahead.lost", "mono", 16, touches=("readahead",))
def _(n):
    line = ["mono", "{dir}/bin/s7-import", WEATHER, str(min(n, 512)), "OPTIONS"]
    return with_one(MONO_IMPORT, line, "OPTIONS", ("None", "RandomAccess"), before=[MAKE_WEATHER, *dropped(WEATHER)])


@kind("frozen", "readahead.lost", "perl", 16, touches=("readahead",))
def _(n):
    # Lines that end in a file of mails. 221 is fadvise64, 0 POSIX_FADV_NORMAL and 1 POSIX_FADV_RANDOM.
    text = (f"open my $f, '<', '{WEATHER}' or die; syscall(221, fileno($f), 0, 0, ADVICE) and die; "
            f"for (1 .. {128 * min(n, 512)}) {{ read($f, $b, 8192) == 8192 or die; $lines += ($b =~ tr/\\n//); }}")
    return either(perl, text, "ADVICE", (0, 1), before=[MAKE_WEATHER, *dropped(WEATHER)])


# More bytes.

RUST_HEADS = built("s7-heads", "rs", """use std::io::Read;
// Shows photos: of each file the beginning is read, with the small picture in it, or all of it.
fn main() {
    let all: Vec<String> = std::env::args().collect();
    let (photos, size) = (all[2].parse::<usize>().unwrap(), all[3].parse::<usize>().unwrap());
    let (mut block, mut sum) = (vec![1u8; 1 << 20], 0usize);
    for i in 0..photos {
        let mut photo = std::fs::File::open(format!("{}/p{:02}", all[1], i * 7 % 32)).unwrap();
        photo.read_exact(&mut block[..size]).unwrap();
        sum += block[..16384].iter().filter(|&&byte| byte == 255).count();
    }
    assert!(sum != 1);
}""")
PHOTOS = shell("[ -e {dir}/photos/ok ] || (mkdir -p {dir}/photos && cd {dir}/photos && head -c 32M ../large.data | split -b 1M -a 2 -d - p && touch ok); "
               "cat {dir}/photos/p*")

CPP_TREE = built("s7-tree", "cc", """#include <cstdlib>
#include <cstring>
#include <vector>
#include <fcntl.h>
#include <unistd.h>
// Lookups in a tree of pages of 64 KiB in a file: a root, 15 pages below it, and leaves. Those above the leaves are kept, or read each time.
const size_t PAGE = 65536;
struct Tree {
    int file;
    bool keeping;
    std::vector<char> pages, read;
    const char *page(long number) {
        char *page = &pages[number * PAGE];
        if (!keeping || !read[number]) {
            if (pread(file, page, PAGE, number * PAGE) != (long)PAGE) exit(1);
            read[number] = 1;
        }
        return page;
    }
};
int main(int, char **v) {
    Tree tree{open(v[1], O_RDONLY), !strcmp(v[3], "keep"), std::vector<char>(16 * PAGE), std::vector<char>(16)};
    std::vector<char> leaf(PAGE);
    unsigned long sum = 0;
    for (unsigned long i = 0, n = atol(v[2]); i < n; i++) {
        unsigned long key = i * 2654435761u % 4294967291u;
        sum += tree.page(0)[key % PAGE] + tree.page(1 + key % 15)[key / 15 % PAGE];
        if (pread(tree.file, leaf.data(), PAGE, (16 + key % 1000) * PAGE) != (long)PAGE) return 1;
        sum += leaf[key / 1000 % PAGE];
    }
    return sum == 1;
}""")

FILMS = shell("[ -e {dir}/reels.tar ] || (mkdir -p {dir}/reels && cd {dir}/reels && head -c 96M ../large.data | split -b 4M -a 2 -d - r && "
              "tar -cf ../reels.new r* && sync -f . && mv ../reels.new ../reels.tar); cat {dir}/reels.tar")


@kind("frozen", "reads.more", "photos", 1000)
def _(n):
    return with_one(RUST_HEADS, ["{dir}/bin/s7-heads", "{dir}/photos", str(n), "SIZE"], "SIZE", (16384, 1 << 20), before=[PHOTOS])


@kind("frozen", "reads.more", "tree", 6000)
def _(n):
    return with_one(CPP_TREE, ["{dir}/bin/s7-tree", DATA, str(n), "HOW"], "HOW", ("keep", "again"), before=[["cat", DATA]])


@kind("frozen", "reads.more", "tar-list", 10)
def _(n):
    # What is in an archive: other than by --seek, tar reads all of it.
    return either(shell, f"for i in $(seq {n}); do tar HOW -b 512 -tf {{dir}}/reels.tar; done | wc -l", "HOW", ("--seek", "--no-seek"), before=[FILMS])
