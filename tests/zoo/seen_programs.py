"""Kinds that lose by what the program does, or by what runs beside it.

These were frozen until 2026-11-28, when rules were judged by them and then changed by what they missed: they are for tuning.
"""

from cases import DATA, DROP, DROP_LARGE, NO_THP, Side, programs
from compiled import C_HEAD, after, built, with_one
from kinds import by_malloc, cached, either, kind, neighbour, quota, shell


# Memory.

CPP_COLUMNS = built("cc-columns", "cc", """#include <cstdlib>
#include <vector>
// Columns of a table that grow row by row and are thrown away with their table.
int main(int, char **v) {
    long sum = 0;
    for (long table = atol(v[1]); table > 0; table--) {
        std::vector<double> prices;
        std::vector<int> ids;
        for (int row = 0; row < 70000; row++) { prices.push_back(row * 0.5); ids.push_back(row); }
        sum += ids[table % 70000] + (long)prices[69999];
    }
    return sum == 1;
}""")

FORTRAN_FIELD = built("f90-field", "f90", """program field
  ! A field that is allocated anew for each step.
  integer :: steps, i
  character(len=20) :: arg
  real(8), allocatable :: t(:)
  real(8) :: s
  call get_command_argument(1, arg)
  read(arg, *) steps
  s = 0
  do i = 1, steps
    allocate(t(60000))
    t = i * 0.5d0
    s = s + t(1 + mod(i * 37, 60000))
    deallocate(t)
  end do
  if (s < 0) print *, s
end program""")

C_SNAPSHOT = built("c-snapshot", "c", C_HEAD + """/* A table of counters of which a child keeps the state at its start. */
int main(int c, char **v)
{
    size_t bytes = 24 << 20, i;
    char *table = mmap(0, bytes, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(table, 1, bytes);
    if (madvise(table, bytes, !strcmp(v[2], "share") ? MADV_DOFORK : MADV_DONTFORK)) return 1;
    for (int round = atoi(v[1]); round > 0; round--) {
        pid_t child = fork();
        if (!child) for (;;) pause();
        for (i = 0; i < bytes; i += 64) table[i]++;
        kill(child, 9);
        waitpid(child, 0, 0);
    }
    return 0;
}""")

OCAML_DUMP = built("ml-dump", "ml", """(* A store that is overwritten while a dump of it may be under way. *)
let size = 16 * 1024 * 1024
let () =
  let store = Bytes.make size 'a' in
  let rounds = int_of_string Sys.argv.(1) and dump = Sys.argv.(2) = "dump" in
  for r = 1 to rounds do
    let child = if dump then Unix.fork () else -1 in
    if child = 0 then Unix.sleep 1000;
    Bytes.fill store 0 size (Char.chr (r land 127));
    if child > 0 then begin Unix.kill child Sys.sigkill; ignore (Unix.waitpid [] child) end
  done""")

C_ARENA = built("c-arena", "c", C_HEAD + """/* An arena that is emptied by mapping new pages over it, beside a worker that computes: a thread, or a process. */
static volatile unsigned long sum;
static void *worker(void *none) { for (;;) sum = sum * 31 + 7; return none; }
int main(int c, char **v)
{
    pid_t child = -1;
    pthread_t thread;
    if (!strcmp(v[2], "process")) { if (!(child = fork())) worker(0); }
    else pthread_create(&thread, 0, worker, 0);
    char *arena = mmap(0, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (long i = atol(v[1]); i > 0; i--) {
        memset(arena, 1, 4096);
        mmap(arena, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    }
    if (child > 0) kill(child, 9);
    _exit(0);
}""")


@kind("tuning", "map.churn", "columns", 200, touches=("malloc",))
def _(n):
    return after(CPP_COLUMNS, by_malloc(["{dir}/bin/cc-columns", str(n)], 8388608, 131072, 134217728))


@kind("tuning", "map.churn", "fortran", 1000, touches=("malloc",))
def _(n):
    return after(FORTRAN_FIELD, by_malloc(["{dir}/bin/f90-field", str(n)], 8388608, 131072, 134217728))


@kind("tuning", "fork.copies", "snapshot", 5, touches=("thp",))
def _(n):
    return with_one(C_SNAPSHOT, ["{dir}/bin/c-snapshot", str(n), "MODE"], "MODE", ("alone", "share"), settings=NO_THP)


@kind("tuning", "fork.copies", "ocaml", 5, touches=("thp",))
def _(n):
    return with_one(OCAML_DUMP, ["{dir}/bin/ml-dump", str(n), "MODE"], "MODE", ("keep", "dump"), settings=NO_THP)


@kind("tuning", "tlb.shootdowns", "arena", 20000)
def _(n):
    return with_one(C_ARENA, ["{dir}/bin/c-arena", str(n), "WORKER"], "WORKER", ("process", "thread"))


# The page cache.

GO_HALVES = built("go-halves", "go", """package main

import ("os"; "strconv"; "sync")

// Two workers, each of which adds up its half of a file.
func main() {
    n, _ := strconv.ParseInt(os.Args[2], 10, 64)
    f, _ := os.Open(os.Args[1])
    var all sync.WaitGroup
    for half := int64(0); half < 2; half++ {
        all.Add(1)
        go func(from int64) {
            defer all.Done()
            b, sum := make([]byte, 98304), 0
            for at := from; at < from+n/2; at += int64(len(b)) {
                f.ReadAt(b, at)
                for i := 0; i < len(b); i += 64 { sum += int(b[i]) }
            }
        }(half * (n / 2))
    }
    all.Wait()
}""")

C_LOOKUP = built("c-lookup", "c", C_HEAD + """/* Looks keys up in a file of pages: each is on a page of its own. */
int main(int c, char **v)
{
    char page[4096];
    unsigned at = 1, found = 0;
    int file = open(v[1], O_RDONLY);
    for (long i = atol(v[2]); i > 0; i--) {
        at = (at * 1664525u + 1013904223u) % 32768;
        if (pread(file, page, sizeof(page), (off_t)at * 4096) != sizeof(page)) return 1;
        for (int slot = 0; slot < 4096; slot += 128) found += page[slot] == 7;
    }
    return found == 1u << 31;
}""")

LARGE = "{dir}/large.data"


def large_cached(line):
    return Side(line), Side(line, before=DROP_LARGE)


# A folder of files of 1 MiB.
PIECES = [["sh", "-c", "[ -e {dir}/pieces/ok ] || (mkdir -p {dir}/pieces && cd {dir}/pieces && "
           "head -c 400M ../large.data | split -b 1M -a 3 -d - p && sync -f . && touch ok)"]]


@kind("tuning", "cache.cold", "cpio", 16, touches=("readahead",))
def _(n):
    n = min(n, 400)
    line = shell(f"cd {{dir}}/pieces; seq -f p%03g 0 {n - 1} | cpio -o --quiet -H newc")
    visit = f"cd {{dir}}/pieces; for p in $(seq -f p%03g 0 {n - 1}); do dd if=$p of=/dev/null bs=1M status=none HOW; done"
    return tuple(Side(line, before=[*PIECES, ["sh", "-c", visit.replace("HOW", how)]]) for how in ("count=1", "iflag=nocache count=0"))


@kind("tuning", "cache.cold", "go", 16, touches=("readahead",))
def _(n):
    return after(GO_HALVES, large_cached(["{dir}/bin/go-halves", LARGE, str(min(n, 600) << 20)]))


@kind("tuning", "cache.cold", "lookup", 1000, touches=("readahead",))
def _(n):
    return after(C_LOOKUP, cached(["{dir}/bin/c-lookup", DATA, str(min(n, 30000))]))


@kind("tuning", "cache.cold", "rhash", 128, touches=("readahead",))
def _(n):
    return large_cached(shell(f"head -c {min(n, 600)}M {LARGE} | rhash --crc32c -"))


# Files and devices.

C_SCAN = built("c-scan", "c", C_HEAD + """/* Scans a column of a file that is mapped. */
int main(int c, char **v)
{
    size_t bytes = atol(v[2]) << 20, i;
    unsigned long sum = 0;
    char *at = mmap(0, bytes, PROT_READ, MAP_SHARED, open(v[1], O_RDONLY), 0);
    if (at == MAP_FAILED || madvise(at, bytes, atoi(v[3]))) return 1;
    for (i = 0; i < bytes; i += 512) sum += at[i];
    return sum == 1;
}""")

PASCAL_TAIL = built("pas-tail", "pas", """program tail;
{ Blocks of a log, from its beginning or from its end. }
uses SysUtils;
var f: file; b: array[0..8191] of byte; i, n: longint; back: boolean;
begin
  n := StrToInt(ParamStr(2)); back := ParamStr(3) = 'last';
  FileMode := 0; Assign(f, ParamStr(1)); Reset(f, 8192);
  for i := 0 to n - 1 do
  begin
    if back then Seek(f, n - 1 - i) else Seek(f, i);
    BlockRead(f, b, 1);
  end;
  Close(f);
end.""")

C_ROWS = built("c-rows", "c", C_HEAD + """/* Rows of an image, so many of them at a time. */
int main(int c, char **v)
{
    static char rows[128][2048];
    struct iovec to[128];
    int file = open(v[1], O_RDONLY), at_once = atoi(v[3]);
    long count = atol(v[2]), i;
    for (i = 0; i < 128; i++) to[i] = (struct iovec){ rows[i], 2048 };
    for (i = 0; i < count; i += at_once)
        if (preadv(file, to, at_once, (i % 65536) * 2048) <= 0) return 1;
    return 0;
}""")

GO_EVENTS = built("go-events", "go", """package main

import ("bufio"; "os"; "strconv")

// Events of 128 bytes, written through a buffer to a ring of 32 MiB.
func main() {
    n, _ := strconv.Atoi(os.Args[2])
    size, _ := strconv.Atoi(os.Args[3])
    f, _ := os.OpenFile(os.Args[1], os.O_RDWR|os.O_CREATE, 0644)
    w, event := bufio.NewWriterSize(f, size), make([]byte, 128)
    for i := 0; i < n; i++ {
        if i%262144 == 0 { w.Flush(); f.Seek(0, 0) }
        event[i%128] = byte(i)
        w.Write(event)
    }
    w.Flush()
}""")

C_RECORDS = built("c-records", "c", C_HEAD + """/* Adds up records of 200 bytes, which come through stdio. */
int main(int c, char **v)
{
    char record[200];
    long sum = 0;
    FILE *in = fopen(v[1], "r");
    setvbuf(in, malloc(atol(v[3])), _IOFBF, atol(v[3]));
    for (long left = atol(v[2]); left > 0; left--) {
        if (!fread(record, sizeof(record), 1, in)) { rewind(in); continue; }
        for (int i = 0; i < 200; i += 8) sum += record[i];
    }
    return sum == 1;
}""")

CS_STREAM = built("cs-stream.exe", "cs", """using System.IO;
class Stream {
    // Records of 64 bytes through the buffer of a stream.
    static void Main(string[] a) {
        long n = long.Parse(a[1]); int size = int.Parse(a[2]), sum = 0;
        var record = new byte[64];
        using (var f = new FileStream(a[0], FileMode.Open, FileAccess.Read, FileShare.Read, size))
            for (long i = 0; i < n; i++) {
                if (f.Read(record, 0, 64) < 64) f.Seek(0, SeekOrigin.Begin);
                sum += record[3];
            }
    }
}""")

RUST_EXPORT = built("rs-export", "rs", """use std::alloc::{alloc, Layout};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
// Reads a table in extents of 96 KiB, past the page cache or not.
fn main() {
    let all: Vec<String> = std::env::args().collect();
    let (count, flags) = (all[2].parse::<u64>().unwrap(), all[3].parse::<i32>().unwrap());
    let extent = unsafe { std::slice::from_raw_parts_mut(alloc(Layout::from_size_align(98304, 4096).unwrap()), 98304) };
    let mut file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(&all[1]).unwrap();
    let mut sum = 0u64;
    for _ in 0..count {
        file.read_exact(extent).unwrap();
        sum += extent.iter().step_by(64).map(|&b| b as u64).sum::<u64>();
    }
    assert!(sum != 1);
}""")

C_PAGES = built("c-pages", "c", C_HEAD + """/* Pages of a store that are written back in any order. */
int main(int c, char **v)
{
    int file = open(v[1], O_RDWR | atoi(v[3]));
    char *page;
    unsigned at = 1;
    if (file < 0 || posix_memalign((void **)&page, 4096, 16384)) return 1;
    memset(page, 5, 16384);
    for (long i = atol(v[2]); i > 0; i--) {
        at = (at * 1664525u + 1013904223u) % 4096;
        page[i % 16384]++;
        if (pwrite(file, page, 16384, (off_t)at * 16384) != 16384) return 1;
    }
    return 0;
}""")
STORE = [["sh", "-c", f"[ -e {{dir}}/store.data ] || (head -c 64M {DATA} > {{dir}}/store.new && sync -f {{dir}} && mv {{dir}}/store.new {{dir}}/store.data)"]]

C_JOURNAL = built("c-journal", "c", C_HEAD + """/* A journal in a mapped file: each entry is left to the kernel, or waited for. */
int main(int c, char **v)
{
    int file = open(v[1], O_RDWR | O_CREAT, 0644), how = !strcmp(v[3], "wait") ? MS_SYNC : MS_ASYNC;
    ftruncate(file, 8 << 20);
    char *log = mmap(0, 8 << 20, 3, MAP_SHARED, file, 0);
    for (long i = 0, n = atol(v[2]); i < n; i++) {
        char *entry = log + i % 2048 * 4096;
        memset(entry, i, 600);
        msync(entry, 4096, how);
    }
    return 0;
}""")

GO_WAL = built("go-wal", "go", """package main

import ("encoding/binary"; "hash/crc32"; "os"; "strconv")

// A log of records with checksums that is forced to the disk after so many of them.
func main() {
    n, _ := strconv.Atoi(os.Args[2])
    every, _ := strconv.Atoi(os.Args[3])
    f, _ := os.OpenFile(os.Args[1], os.O_WRONLY|os.O_CREATE|os.O_APPEND|os.O_TRUNC, 0644)
    record := make([]byte, 3000)
    for i := 1; i <= n; i++ {
        binary.LittleEndian.PutUint32(record[4:], uint32(i))
        binary.LittleEndian.PutUint32(record, crc32.ChecksumIEEE(record[4:]))
        f.Write(record)
        if i%every == 0 { f.Sync() }
    }
}""")

OCAML_SPOOL = built("ml-spool", "ml", """(* A spool: a mail is written under another name, perhaps forced to the disk, and renamed. *)
let () =
  let folder = Sys.argv.(1) and safe = Sys.argv.(3) = "safe" and mail = Bytes.make 2500 'm' in
  (try Unix.mkdir folder 0o755 with Unix.Unix_error _ -> ());
  for i = 1 to int_of_string Sys.argv.(2) do
    let f = Unix.openfile (folder ^ "/tmp") [Unix.O_WRONLY; Unix.O_CREAT] 0o644 in
    ignore (Unix.write f mail 0 2500);
    if safe then Unix.fsync f;
    Unix.close f;
    Unix.rename (folder ^ "/tmp") (folder ^ "/m" ^ string_of_int i)
  done""")


@kind("tuning", "readahead.lost", "scan", 2, touches=("readahead",))
def _(n):
    return with_one(C_SCAN, ["{dir}/bin/c-scan", DATA, str(min(n, 128)), "ADVICE"], "ADVICE", (0, 1), before=DROP)


@kind("tuning", "readahead.lost", "pascal", 8, touches=("readahead",))
def _(n):
    return with_one(PASCAL_TAIL, ["{dir}/bin/pas-tail", DATA, str(128 * min(n, 128)), "FROM"], "FROM", ("first", "last"), before=DROP)


@kind("tuning", "io.smaller_requests", "rows", 16)
def _(n):
    return with_one(C_ROWS, ["{dir}/bin/c-rows", DATA, str(512 * n), "ROWS"], "ROWS", (128, 1))


@kind("tuning", "io.smaller_requests", "go-write", 32)
def _(n):
    return with_one(GO_EVENTS, ["{dir}/bin/go-events", "{dir}/events.data", str(8192 * n), "SIZE"], "SIZE", (1 << 18, 512))


@kind("tuning", "io.smaller_requests", "stdio", 32)
def _(n):
    return with_one(C_RECORDS, ["{dir}/bin/c-records", "{dir}/text.data", str(5000 * n), "SIZE"], "SIZE", (1 << 17, 512))


@kind("tuning", "io.smaller_requests", "mono", 32)
def _(n):
    return with_one(CS_STREAM, ["mono", "{dir}/bin/cs-stream.exe", DATA, str(16384 * min(n, 500)), "SIZE"], "SIZE", (1 << 17, 512))


@kind("tuning", "io.direct", "rust", 16)
def _(n):
    return with_one(RUST_EXPORT, ["{dir}/bin/rs-export", DATA, str(10 * min(n, 128)), "FLAGS"], "FLAGS", (0, 0o40000))


@kind("tuning", "io.direct", "pages", 500)
def _(n):
    return with_one(C_PAGES, ["{dir}/bin/c-pages", "{dir}/store.data", str(n), "FLAGS"], "FLAGS", (0, 0o40000), before=STORE)


@kind("tuning", "sync.more", "msync", 50, touches=("dirty",))
def _(n):
    return with_one(C_JOURNAL, ["{dir}/bin/c-journal", "{dir}/journal.data", str(n), "HOW"], "HOW", ("leave", "wait"))


@kind("tuning", "sync.more", "go", 50, touches=("dirty",))
def _(n):
    return with_one(GO_WAL, ["{dir}/bin/go-wal", "{dir}/wal.data", str(n), "EVERY"], "EVERY", (1000000, 1))


@kind("tuning", "sync.more", "spool", 50, touches=("dirty",))
def _(n):
    return with_one(OCAML_SPOOL, ["{dir}/bin/ml-spool", "{dir}/spool", str(n), "HOW"], "HOW", ("quick", "safe"), before=[["rm", "-rf", "{dir}/spool"]])


@kind("tuning", "sync.more", "rocksdb", 50, touches=("dirty",))
def _(n):
    line = ["db_bench", "--benchmarks=fillseq", "--db={dir}/rocks", f"--num={n}", "--value_size=400", "--threads=1", "--sync=SYNC"]
    return with_one([], line, "SYNC", (0, 1), before=[["rm", "-rf", "{dir}/rocks"]])


# The processor.

FORTRAN_PRODUCT = built("f90-product", "f90", """program product
  integer, parameter :: n = 300
  real(8) :: a(n, n), b(n, n), c(n, n)
  integer :: i, j, k, r
  a = 1.5d0; b = 0.5d0; c = 0
  do r = 1, 110
    do j = 1, n
      do k = 1, n
        do i = 1, n
          c(i, j) = c(i, j) + a(i, k) * b(k, j)
        end do
      end do
    end do
    a(1, 1) = c(n, n) / r
  end do
  if (c(1, 1) < 0) print *, c(1, 1)
end program""")

CPP_LIFE = built("cc-life", "cc", """#include <vector>
#include <utility>
// The game of life on a torus.
int main() {
    const int n = 512;
    std::vector<unsigned char> now(n * n), next(n * n);
    for (int i = 0; i < n * n; i++) now[i] = (i * 7919u >> 5) & 1;
    for (int age = 0; age < 260; age++) {
        for (int y = 0; y < n; y++)
            for (int x = 0; x < n; x++) {
                int sum = 0;
                for (int dy = -1; dy < 2; dy++)
                    for (int dx = -1; dx < 2; dx++) sum += now[((y + dy) & (n - 1)) * n + ((x + dx) & (n - 1))];
                sum -= now[y * n + x];
                next[y * n + x] = sum == 3 || (sum == 2 && now[y * n + x]);
            }
        std::swap(now, next);
    }
    return now[5] > 1;
}""")

BZIP2 = shell("head -c 9M {dir}/text.data | bzip2 -2 -c")
CLISP = ["clisp", "-q", "-norc", "-x", "(progn (defun f (n) (let ((s 0)) (dotimes (i n s) (setq s (logand (+ s i) 65535))))) (compile 'f) (f 10000000))"]
MAWK = ["mawk", "BEGIN { for (i = 0; i < 12000000; i++) s += i % 7 }"]
OPENSSL = ["openssl", "kdf", "-keylen", "32", "-kdfopt", "digest:SHA256", "-kdfopt", "pass:a", "-kdfopt", "salt:b", "-kdfopt", "iter:1500000", "PBKDF2"]
LZOP = shell("head -c 8M {dir}/text.data | lzop -7 -c")

for _name, _line, _build in (("bzip2", BZIP2, []), ("clisp", CLISP, []), ("fortran", ["{dir}/bin/f90-product"], FORTRAN_PRODUCT)):
    kind("tuning", "cpu.quota", _name, dose=True)(lambda size, line=_line, build=_build: after(build, quota(line)(size)))
for _name, _line, _build in (("mawk", MAWK, []), ("openssl", OPENSSL, []), ("lzop", LZOP, []), ("life", ["{dir}/bin/cc-life"], CPP_LIFE)):
    kind("tuning", "cpu.neighbour", _name, dose=True)(lambda size, line=_line, build=_build: after(build, neighbour(line)(size)))

GO_FRACTAL = built("go-fractal", "go", """package main

import ("os"; "strconv"; "sync")

// Rows of a fractal, which two workers take from a counter.
func main() {
    rows, _ := strconv.Atoi(os.Args[1])
    var lock sync.Mutex
    var all sync.WaitGroup
    taken, inside := 0, 0
    for w := 0; w < 2; w++ {
        all.Add(1)
        go func() {
            defer all.Done()
            for {
                lock.Lock(); row := taken; taken++; lock.Unlock()
                if row >= rows { return }
                count := 0
                for x := 0; x < 400; x++ {
                    a, b, i := 0.0, 0.0, 0
                    for ; i < 300 && a*a+b*b < 4; i++ { a, b = a*a-b*b+float64(x)/200-1.5, 2*a*b+float64(row%200)/200-0.5 }
                    if i == 300 { count++ }
                }
                lock.Lock(); inside += count; lock.Unlock()
            }
        }()
    }
    all.Wait()
}""")

C_JAIL = built("c-jail", "c", C_HEAD + """#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
/* Runs a program in a jail that compares an argument of each call with so many values. */
int main(int c, char **v)
{
    int rules = atoi(v[1]), i;
    struct sock_filter *code = calloc(rules + 3, sizeof(*code));
    struct sock_fprog all = { .len = rules + 3, .filter = code };
    code[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 20);
    for (i = 1; i <= rules; i++) code[i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0xdead0000u + i, rules - i < 255 ? rules - i + 1 : 255, 0);
    code[rules + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[rules + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 1;
    if (rules && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all)) return 1;
    execv(v[2], v + 2);
    return 1;
}""")

PASCAL_PARENT = built("pas-parent", "pas", """program parent;
{ Asks who started it, over and over. }
uses BaseUnix, SysUtils;
var i: longint; p: TPid;
begin
  for i := 1 to StrToInt(ParamStr(1)) do p := fpGetPPid;
  if p = 0 then WriteLn(p);
end.""")

GO_BYTES = built("go-bytes", "go", """package main

import ("os"; "strconv"; "syscall")

// Reads a flag of one byte again and again.
func main() {
    n, _ := strconv.Atoi(os.Args[2])
    f, _ := syscall.Open(os.Args[1], syscall.O_RDONLY, 0)
    b := make([]byte, 1)
    for i := 0; i < n; i++ { syscall.Pread(f, b, 4000) }
}""")


@kind("tuning", "cpu.crowded", "go", 1000, largest=90)
def _(n):
    line = ["{dir}/bin/go-fractal", str(n)]
    return Side(line, env={"GOMAXPROCS": "2"}, before=GO_FRACTAL), Side(line, env={"GOMAXPROCS": "2"}, prefix=["taskset", "-c", "0"], before=GO_FRACTAL)


@kind("tuning", "cpu.crowded", "mawk", 20, largest=90)
def _(n):
    line = shell(f"for t in a b; do mawk 'BEGIN {{ for (i = 0; i < {100000 * n}; i++) s += i % 11 }}' & done; wait")
    return Side(line), Side(line, prefix=["taskset", "-c", "1"])


@kind("tuning", "call.dearer", "pascal", 100000)
def _(n):
    return with_one([*PASCAL_PARENT, *C_JAIL], ["{dir}/bin/c-jail", "RULES", "{dir}/bin/pas-parent", str(n)], "RULES", (0, 250))


@kind("tuning", "call.dearer", "go", 100000)
def _(n):
    return with_one([*GO_BYTES, *C_JAIL], ["{dir}/bin/c-jail", "RULES", "{dir}/bin/go-bytes", DATA, str(n)], "RULES", (0, 250))


# Other programs at the same path.

SIEVE = """program sieve;
uses SysUtils;
const size = 400000;
var composite: array[2..size] of boolean; i, j, r, count: longint;
begin
  count := 0;
  for r := 1 to StrToInt(ParamStr(1)) do
  begin
    for i := 2 to size do composite[i] := false;
    for i := 2 to size do
      if not composite[i] then
      begin
        count := (count + 1) and 65535;
        j := i + i;
        while j <= size do begin composite[j] := true; j := j + i; end;
      end;
  end;
  if count < 0 then WriteLn(count);
end."""

HISTOGRAM = """#include <algorithm>
#include <cstdlib>
#include <map>
#include <vector>
int main(int, char **v) {
    unsigned seed = 1;
    long sum = 0;
    for (int round = atoi(v[1]); round > 0; round--) {
        std::map<unsigned, int> seen;
        std::vector<unsigned> draws(20000);
        for (auto &draw : draws) { seed = seed * 1664525u + 1013904223u; draw = seed >> 20; }
        std::sort(draws.begin(), draws.end());
        for (auto draw : draws) seen[draw]++;
        sum += seen.size();
    }
    return sum == 1;
}"""


@kind("tuning", "program.changed", "pascal", 50)
def _(n):
    build = f"cat > {{dir}}/sieve.pas <<'E' && cd {{dir}} && fpc -O3 LEVEL -k--build-id -osieve sieve.pas > /dev/null 2>&1\n{SIEVE}\nE\n"
    return tuple(Side(["{dir}/sieve", str(n)], before=[["sh", "-c", build.replace("LEVEL", level)]]) for level in ("", "-Cr -Co"))


@kind("tuning", "program.changed", "histogram", 50)
def _(n):
    build = f"g++ LEVEL -w -Wl,--build-id -x c++ -o {{dir}}/histogram - <<'E'\n{HISTOGRAM}\nE\n"
    return tuple(Side(["{dir}/histogram", str(n)], before=[["sh", "-c", build.replace("LEVEL", level)]]) for level in ("-O2", "-O0"))


# More of the same work.

GO_HOOKS = built("go-hooks", "go", """package main

import ("os"; "os/exec"; "strconv")

// Runs a hook for each change.
func main() {
    n, _ := strconv.Atoi(os.Args[1])
    for i := 0; i < n; i++ { exec.Command("/usr/bin/expr", strconv.Itoa(i), "+", "1").Run() }
}""")

PASCAL_CONFIG = built("pas-config", "pas", """program config;
{ Reads the beginning of a file anew for each request. }
uses SysUtils;
var f: file; b: array[0..2097151] of byte; i: longint;
begin
  FileMode := 0; Assign(f, ParamStr(1)); Reset(f, 1);
  for i := 1 to StrToInt(ParamStr(2)) do
  begin
    Seek(f, 0);
    BlockRead(f, b, 2097152);
  end;
  Close(f);
end.""")

CS_AGAIN = built("cs-again.exe", "cs", """using System.IO;
class Again {
    // Loads the same resource again and again.
    static void Main(string[] a) {
        var b = new byte[3 << 20];
        for (int i = int.Parse(a[1]); i > 0; i--)
            using (var f = new FileStream(a[0], FileMode.Open, FileAccess.Read)) f.Read(b, 0, b.Length);
    }
}""")


@kind("tuning", "program.starts", "go", 60)
def _(n):
    return with_one(GO_HOOKS, ["{dir}/bin/go-hooks", "COUNT"], "COUNT", (3, n))


@kind("tuning", "program.starts", "mawk", 60)
def _(n):
    return either(lambda text: ["mawk", text], 'BEGIN { for (i = 0; i < COUNT; i++) system("/usr/bin/tty > /dev/null") }', "COUNT", (3, n))


@kind("tuning", "reads.more", "pascal", 32)
def _(n):
    return with_one(PASCAL_CONFIG, ["{dir}/bin/pas-config", DATA, "COUNT"], "COUNT", (2, 6 * n))


@kind("tuning", "reads.more", "mono", 32)
def _(n):
    return with_one(CS_AGAIN, ["mono", "{dir}/bin/cs-again.exe", DATA, "COUNT"], "COUNT", (2, 4 * n))
