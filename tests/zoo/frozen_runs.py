"""Kinds that lose by how the program runs and uses CPU and memory.

The kinds of frozen_*.py are those that no rule was changed by: they are run once when rules have changed. Whoever looks at a case of these
to change a rule moves its kind to a seen*.py.
"""

from cases import NO_THP, Side
from compiled import C_HEAD, after, built, with_one
from kinds import capped, kind, python, shell

# Memory.

GO_WORDS = built("s7-go-words", "go", """package main

import ("os"; "strconv"; "syscall")

// Looks words up in a dictionary of 4 MiB that is mapped: by each query, or by the first one.
func main() {
    queries, _ := strconv.Atoi(os.Args[2])
    keep := os.Args[3] == "once"
    file, err := os.Open(os.Args[1])
    if err != nil { os.Exit(1) }
    const bytes = 4 << 20
    var words []byte
    seed, sum := uint32(1), 0
    for query := 0; query < queries; query++ {
        if words == nil {
            if words, err = syscall.Mmap(int(file.Fd()), 0, bytes, syscall.PROT_READ, syscall.MAP_SHARED); err != nil { os.Exit(1) }
        }
        for word := 0; word < 60; word++ {
            seed = seed*1664525 + 1013904223
            at := int(seed>>10) % (bytes - 64)
            for i := 0; i < 64; i++ { sum += int(words[at+i]) }
        }
        if !keep {
            if syscall.Munmap(words) != nil { os.Exit(1) }
            words = nil
        }
    }
    if sum == 1 { os.Exit(1) }
}""")


@kind("frozen", "map.churn", "words", 4000, touches=("thp",))
def _(n):
    return with_one(GO_WORDS, ["{dir}/bin/s7-go-words", "{dir}/text.data", str(n), "MAPS"], "MAPS", ("once", "each"), before=[["cat", "{dir}/text.data"]])


CPP_CATALOG = built("s7-cc-wares", "cc", C_HEAD + """// A server with a catalog that forks a worker for each request. The worker does not look at the catalog,
// whose counters the server changes before a worker is told to go: the catalog is kept from workers, or is theirs, too.
int main(int, char **v) {
    size_t bytes = 96 << 20;
    char *catalog = (char *)mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (catalog == MAP_FAILED) return 1;
    memset(catalog, 1, bytes);
    if (madvise(catalog, bytes, strcmp(v[2], "kept") ? MADV_DOFORK : MADV_DONTFORK)) return 1;
    for (long request = 0, requests = atol(v[1]); request < requests; request++) {
        int tells[2], status;
        char word = 'g';
        if (pipe(tells)) return 1;
        pid_t worker = fork();
        if (!worker) _exit(read(tells[0], &word, 1) != 1);
        for (size_t at = request % 4096; at < bytes; at += 2 * 4096) catalog[at]++;
        if (write(tells[1], &word, 1) != 1 || waitpid(worker, &status, 0) != worker || status) return 1;
        close(tells[0]);
        close(tells[1]);
    }
    return 0;
}""")


@kind("frozen", "fork.copies", "catalog", 12, touches=("thp",))
def _(n):
    return with_one(CPP_CATALOG, ["{dir}/bin/s7-cc-wares", str(n), "CATALOG"], "CATALOG", ("kept", "shared"), settings=NO_THP)


C_WINDOW = built("s7-c-window", "c", C_HEAD + """/* Replays a capture through a window of two pages that is mapped over the next ones of the file.
   Beside it the graph is drawn: by a thread, or a process. */
static volatile double drawn;
static void *draw(void *none) { for (;;) drawn = drawn * 0.5 + 1; return none; }
int main(int c, char **v)
{
    int file = open(v[1], O_RDONLY);
    unsigned long sum = 0;
    pthread_t thread;
    pid_t child = -1;
    char *window = 0;
    if (strcmp(v[3], "process")) pthread_create(&thread, 0, draw, 0);
    else if (!(child = fork())) draw(0);
    for (long i = 0, steps = atol(v[2]); i < steps; i++) {
        window = mmap(window, 8192, PROT_READ, MAP_SHARED | (window ? MAP_FIXED : 0), file, i % 4096 * 8192);
        if (window == MAP_FAILED) _exit(1);
        for (int k = 0; k < 8192; k += 256) sum += window[k];
    }
    if (child > 0) { kill(child, SIGKILL); waitpid(child, 0, 0); }
    _exit(sum == 1);
}""")


@kind("frozen", "tlb.shootdowns", "window", 50000)
def _(n):
    return with_one(C_WINDOW, ["{dir}/bin/s7-c-window", "{dir}/work.data", str(n), "DRAWS"], "DRAWS", ("process", "thread"), before=[["cat", "{dir}/work.data"]])


# The processor: less of it.

GO_ALIGN = built("s7-go-align", "go", """package main

import ("os"; "strconv"; "sync")

// Distances of sequences of genes, half of which each of two workers finds.
func distance(a, b []byte) int {
    row := make([]int, len(b)+1)
    for j := range row { row[j] = j }
    for i := range a {
        last := row[0]
        row[0] = i + 1
        for j := range b {
            cost := last
            if a[i] != b[j] { cost++ }
            last = row[j+1]
            if row[j+1]+1 < cost { cost = row[j+1] + 1 }
            if row[j]+1 < cost { cost = row[j] + 1 }
            row[j+1] = cost
        }
    }
    return row[len(b)]
}

func main() {
    pairs, _ := strconv.Atoi(os.Args[1])
    var all sync.WaitGroup
    for worker := uint32(0); worker < 2; worker++ {
        all.Add(1)
        go func(seed uint32) {
            defer all.Done()
            a, b := make([]byte, 1000), make([]byte, 1000)
            for pair := 0; pair < pairs; pair++ {
                for i := range a { seed = seed*1664525 + 1013904223; a[i], b[i] = "ACGT"[seed>>30], "ACGT"[seed>>28&3] }
                if distance(a, b) == 0 { os.Exit(1) }
            }
        }(worker + 1)
    }
    all.Wait()
}""")

RHASH = ["rhash", "--sha3-512", "--md5", "--tiger", "{dir}/text.data"]


@kind("frozen", "cpu.quota", "align", dose=True)
def _(size):
    return after(GO_ALIGN, capped(["{dir}/bin/s7-go-align", "250"], 2, 25000, env={"GOMAXPROCS": "2"})(size))


kind("frozen", "cpu.quota", "rhash", dose=True)(lambda size: after([["cat", "{dir}/text.data"]], capped(RHASH, 1, 40000)(size)))


# The processor: the program's own threads and processes want the same one.

RUST_PINNED = built("s7-rs-blocks", "rs", """extern "C" { fn sched_setaffinity(of: i32, bytes: usize, cpus: *const u64) -> i32; }
// Finds a number for each block of a chain whose hash is small. Two workers have a CPU each, of as many as there are said to be.
fn main() {
    let words: Vec<String> = std::env::args().collect();
    let (blocks, cpus): (u64, usize) = (words[1].parse().unwrap(), words[2].parse().unwrap());
    let workers: Vec<_> = (0..2usize).map(|worker| std::thread::spawn(move || {
        let mask = 1u64 << (worker % cpus);
        assert!(unsafe { sched_setaffinity(0, 8, &mask) } == 0);
        let mut last = worker as u64;
        for block in 0..blocks {
            let mut least = u64::MAX;
            for number in 0..100_000u64 {
                let mut hash = last ^ number.wrapping_mul(0x9e3779b97f4a7c15);
                for _ in 0..4 { hash ^= hash >> 31; hash = hash.wrapping_mul(0xbf58476d1ce4e5b9); }
                if hash < least { least = hash; }
            }
            last = least.wrapping_add(block);
        }
        last
    })).collect();
    let sum = workers.into_iter().fold(0u64, |sum, worker| sum ^ worker.join().unwrap());
    assert!(sum != 1);
}""")

JAVA_STREAM = [["sh", "-c", """[ -e {dir}/bin/S7Words.class ] || { mkdir -p {dir}/bin && cd {dir}/bin && cat > S7Words.java <<'END' && javac S7Words.java
import java.util.stream.LongStream;
class S7Words {
    // Lengths of the Collatz sequences of many numbers, by a parallel stream.
    static int length(long n) { int steps = 0; while (n != 1) { n = n % 2 == 0 ? n / 2 : 3 * n + 1; steps++; } return steps; }
    public static void main(String[] a) {
        System.out.println(LongStream.rangeClosed(1, 100000L * Long.parseLong(a[0])).parallel().mapToInt(S7Words::length).max().getAsInt());
    }
}
END
}"""]]


@kind("frozen", "cpu.crowded", "blocks", 1000, largest=90)
def _(n):
    return with_one(RUST_PINNED, ["{dir}/bin/s7-rs-blocks", str(n), "CPUS"], "CPUS", (2, 1))


@kind("frozen", "cpu.crowded", "stream", 10, largest=80)
def _(n):
    line = ["java", "-XX:ActiveProcessorCount=2", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", "{dir}/bin", "S7Words", str(n)]
    return Side(line, before=JAVA_STREAM), Side(line, prefix=["taskset", "-c", "1"], before=JAVA_STREAM)


@kind("frozen", "cpu.crowded", "pipeline", 4, largest=60)
def _(n):
    # Lines of a log are taken apart by one process and packed by another.
    line = shell(f"head -c {min(n, 80)}M {{dir}}/text.data | perl -ne 'my @f = split; print $f[0] * 7 % 1000, q( ), uc $f[1], qq(\\n)' | gzip -6 | cksum")
    return Side(line), Side(line, prefix=["taskset", "-c", "0"])


# System calls.

RUST_PLUGINS = built("s7-rs-plugins", "rs", """use std::os::fd::AsRawFd;
extern "C" { fn prctl(what: i32, a: usize, b: usize, c: usize, d: usize) -> i32; fn pread(fd: i32, at: *mut u8, bytes: usize, offset: i64) -> isize; }
#[repr(C)] struct Step { code: u16, yes: u8, no: u8, value: u32 }
#[repr(C)] struct Filter { steps: u16, first: *const Step }
// What each plugin that is loaded forbids to the process: to use any of 30 descriptors. Filters add up.
fn load() {
    let mut steps = vec![Step { code: 0x20, yes: 0, no: 0, value: 16 }];
    for i in 0..30 { steps.push(Step { code: 0x15, yes: 30 - i as u8, no: 0, value: 500 + i }); }
    steps.push(Step { code: 0x06, yes: 0, no: 0, value: 0x7fff0000 });
    steps.push(Step { code: 0x06, yes: 0, no: 0, value: 0x80000000 });
    let filter = Filter { steps: steps.len() as u16, first: steps.as_ptr() };
    unsafe { assert!(prctl(38, 1, 0, 0, 0) == 0 && prctl(22, 2, &filter as *const _ as usize, 0, 0) == 0); }
}
// Reads small records at places of a file.
fn main() {
    let words: Vec<String> = std::env::args().collect();
    let file = std::fs::File::open(&words[1]).unwrap();
    for _ in 0..words[3].parse::<u32>().unwrap() { load(); }
    let (mut record, mut sum) = ([0u8; 32], 0u64);
    for i in 0..words[2].parse::<i64>().unwrap() {
        assert!(unsafe { pread(file.as_raw_fd(), record.as_mut_ptr(), 32, i * 7919 % 4096 * 32) } == 32);
        sum += record[5] as u64;
    }
    assert!(sum != 1);
}""")

C_BOX = built("s7-c-cage", "c", """#include <seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* Runs a program that is forbidden 900 descriptors: for calls with vectors, or for the plain ones. */
int main(int c, char **v)
{
    scmp_filter_ctx box = seccomp_init(SCMP_ACT_ALLOW);
    int plain = !strcmp(v[1], "plain"), in = plain ? SCMP_SYS(read) : SCMP_SYS(readv), out = plain ? SCMP_SYS(write) : SCMP_SYS(writev);
    for (int i = 0; i < 900; i++)
        if (seccomp_rule_add(box, SCMP_ACT_KILL_PROCESS, in, 1, SCMP_A0(SCMP_CMP_EQ, 100 + i)) ||
            seccomp_rule_add(box, SCMP_ACT_KILL_PROCESS, out, 1, SCMP_A0(SCMP_CMP_EQ, 100 + i))) return 1;
    if (seccomp_load(box)) return 1;
    execv(v[2], v + 2);
    return 1;
}""", "-lseccomp")

OCAML_TOKENS = built("s7_ml_tokens", "ml", """(* A queue of tokens in a pipe: each is taken out and put back. *)
let () =
  let from, into = Unix.pipe () and token = Bytes.make 1 't' in
  ignore (Unix.write into token 0 1);
  for _ = 1 to int_of_string Sys.argv.(1) do
    if Unix.read from token 0 1 <> 1 || Unix.write into token 0 1 <> 1 then exit 1
  done""")


@kind("frozen", "call.dearer", "plugins", 200000)
def _(n):
    return with_one(RUST_PLUGINS, ["{dir}/bin/s7-rs-plugins", "{dir}/work.data", str(n), "LOADED"], "LOADED", (1, 16))


@kind("frozen", "call.dearer", "tokens", 100000)
def _(n):
    return with_one([*C_BOX, *OCAML_TOKENS], ["{dir}/bin/s7-c-cage", "CALLS", "{dir}/bin/s7_ml_tokens", str(n)], "CALLS", ("vectors", "plain"))


# Other programs at the same path.

HEAT = """program heat
  ! Heat in a plate.
  integer, parameter :: n = 300
  real(8), allocatable :: a(:,:), b(:,:)
  integer :: step, steps, i, j
  character(len=20) :: arg
  call get_command_argument(1, arg)
  read(arg, *) steps
  allocate(a(n, n), b(n, n))
  a = 0; b = 0; a(1, :) = 100
  do step = 1, steps
    do j = 2, n - 1
      do i = 2, n - 1
        b(i, j) = 0.25d0 * (a(i-1, j) + a(i+1, j) + a(i, j-1) + a(i, j+1))
      end do
    end do
    do j = 2, n - 1
      do i = 2, n - 1
        a(i, j) = b(i, j)
      end do
    end do
  end do
  if (a(5, 5) < 0) print *, a(5, 5)
end program"""

RANK = """#include <vector>
// Ranks of pages that link to each other.
extern "C" double rank_pages(int rounds) {
    const unsigned pages = 20000;
    std::vector<std::vector<unsigned>> links(pages);
    unsigned seed = 1;
    for (auto &one : links) for (int i = 0; i < 8; i++) { seed = seed * 1664525u + 1013904223u; one.push_back((seed >> 8) % pages); }
    std::vector<double> now(pages, 1.0), next(pages);
    for (int round = 0; round < rounds; round++) {
        for (unsigned page = 0; page < pages; page++) next[page] = 0.15;
        for (unsigned page = 0; page < pages; page++)
            for (auto link = links[page].begin(); link != links[page].end(); ++link) next[*link] += 0.85 * now[page] / links[page].size();
        for (unsigned page = 0; page < pages; page++) now[page] = next[page];
    }
    return now[7];
}"""


@kind("frozen", "program.changed", "heat", 100)
def _(n):
    build = f"cat > {{dir}}/s7-heat.f90 <<'E' && cd {{dir}} && gfortran MORE -Wl,--build-id -o s7-heat s7-heat.f90\n{HEAT}\nE\n"
    return tuple(Side(["{dir}/s7-heat", str(n)], before=[["sh", "-c", build.replace("MORE", more)]]) for more in ("-O2", "-O0 -fcheck=all"))


@kind("frozen", "program.changed", "rank", 50)
def _(n):
    build = f"g++ -O2 MORE -shared -fPIC -Wl,--build-id -x c++ -o {{dir}}/libs7-rank.so - <<'E'\n{RANK}\nE\n"
    line = python(f"import ctypes\nctypes.CDLL('{{dir}}/libs7-rank.so').rank_pages({n})")
    return tuple(Side(line, before=[["sh", "-c", build.replace("MORE", more)]]) for more in ("", "-D_GLIBCXX_DEBUG"))
