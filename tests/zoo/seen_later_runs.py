"""Kinds that lose by the CPU time they get and by what the program does with its memory.

These were frozen until 2026-11-28, when rules were judged by them for the sixth time and then changed by what they missed: they are for
tuning.
"""

import dataclasses

from cases import NO_THP, Side
from compiled import C_HEAD, SURROUNDINGS, after, built, with_one
from kinds import capped, either, kind, neighbour, python, shell


# The processor: less of it.

RUST_BODIES = built("rs-bodies", "rs", """// Two galaxies, each of which a thread moves on.
fn galaxy(seed: u64, steps: usize) -> f64 {
    const N: usize = 256;
    let mut at = [[0f64; 3]; N];
    let mut speed = [[0f64; 3]; N];
    let mut x = seed;
    for body in at.iter_mut() { for part in body.iter_mut() {
        x ^= x << 13; x ^= x >> 7; x ^= x << 17;
        *part = (x % 2000) as f64 - 1000.0;
    } }
    for _ in 0..steps {
        for i in 0..N {
            let mut pull = [0f64; 3];
            for j in 0..N {
                let d = [at[j][0] - at[i][0], at[j][1] - at[i][1], at[j][2] - at[i][2]];
                let far = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + 10.0;
                let force = 1.0 / (far * far.sqrt());
                for k in 0..3 { pull[k] += d[k] * force; }
            }
            for k in 0..3 { speed[i][k] += pull[k]; }
        }
        for i in 0..N { for k in 0..3 { at[i][k] += speed[i][k]; } }
    }
    at[7][1]
}
fn main() {
    let steps = std::env::args().nth(1).unwrap().parse().unwrap();
    let both: Vec<_> = [11, 2027].iter().map(|&seed| std::thread::spawn(move || galaxy(seed, steps))).collect();
    let sum: f64 = both.into_iter().map(|one| one.join().unwrap()).sum();
    println!("{}", sum);
}""")

# A tree of six modules that are built by two jobs of make.
TREE = [["sh", "-c", """[ -e {dir}/tree/ok ] || { mkdir -p {dir}/tree && cd {dir}/tree &&
for m in a b c d e f; do
  { echo '#include <stdio.h>'; echo '#include <stdlib.h>'; echo '#include <string.h>'
    for i in $(seq 24); do echo "int ${m}_$i(int *t, int n) { int s = $i; for (int k = 0; k < n; k++) s += t[k] * (k % $i + 1) ^ s >> 3; return s ? s : abs(n); }"; done
  } > $m.c
done
printf 'all: $(patsubst %%.c,%%.o,$(wildcard *.c))\\n%%.o: %%.c\\n\\tgcc -O2 -c -o $@ $<\\n' > Makefile && touch ok; }"""]]

QUEENS = [["sh", "-c", """[ -e {dir}/queens.pl ] || cat > {dir}/queens.pl <<'END'
% Queens on a board that do not attack each other.
queens(N, Qs) :- numlist(1, N, Ns), place(Ns, [], Qs).
place([], Qs, Qs).
place(Left, Safe, Qs) :- select(Q, Left, Rest), \\+ attacked(Q, 1, Safe), place(Rest, [Q|Safe], Qs).
attacked(Q, D, [Y|_]) :- Q =:= Y + D ; Q =:= Y - D.
attacked(Q, D, [_|Ys]) :- E is D + 1, attacked(Q, E, Ys).
main :- aggregate_all(count, queens(9, _), N), writeln(N).
END
"""]]

PROLOG = ["swipl", "-q", "-g", "forall(between(1, 18, _), main)", "-t", "halt", "{dir}/queens.pl"]
# A report of which lines are there how often.
REPORT = shell("head -c 10M {dir}/text.data | tr -s ' ' '\\n' | LC_ALL=C sort -S 300M --parallel=1 | uniq -c | LC_ALL=C sort -rn -S 300M --parallel=1 | gzip -3 | cksum")

kind("tuning", "cpu.quota", "bodies", dose=True)(lambda size: after(RUST_BODIES, capped(["{dir}/bin/rs-bodies", "1600"], 2, 20000)(size)))
kind("tuning", "cpu.quota", "make", dose=True)(lambda size: after(TREE, capped(["make", "-s", "-B", "-j2", "-C", "{dir}/tree"], 2, 10000, base=2)(size)))
kind("tuning", "cpu.quota", "prolog", dose=True)(lambda size: after(QUEENS, capped(PROLOG, 1, 50000)(size)))
kind("tuning", "cpu.quota", "report", dose=True)(lambda size: capped(REPORT, 1, 10000)(size))


# The processor: others want it, too.


def three_beside(line):
    """A program beside three others, each of which has a session of its own."""
    def sides(size):
        base, test = neighbour(line)(size)
        return base, dataclasses.replace(test, beside=test.beside * 3)
    return sides


OCAML_RAYS = built("ml-rays", "ml", """(* Rays through a scene of spheres, pixel by pixel. *)
let spheres = Array.init 24 (fun i -> let f = float i in (sin f *. 3., cos (f *. 1.7) *. 3., 6. +. f *. 0.3, 0.4 +. f *. 0.02))
let hit dx dy dz =
  let near = ref infinity in
  Array.iter (fun (x, y, z, r) ->
    let b = dx *. x +. dy *. y +. dz *. z in
    let d = b *. b -. (x *. x +. y *. y +. z *. z) +. r *. r in
    if d > 0. then begin let t = b -. sqrt d in if t > 0. && t < !near then near := t end) spheres;
  !near
let () =
  let size = int_of_string Sys.argv.(1) and sum = ref 0. in
  for y = 0 to size - 1 do
    for x = 0 to size - 1 do
      let dx = float x /. float size -. 0.5 and dy = float y /. float size -. 0.5 in
      let l = 1. /. sqrt (dx *. dx +. dy *. dy +. 1.) in
      let t = hit (dx *. l) (dy *. l) l in
      if t < infinity then sum := !sum +. 1. /. t
    done
  done;
  Printf.printf "%f\\n" !sum""")

RUST_INDEX = built("rs-index", "rs", """use std::collections::HashMap;
use std::io::Read;
// Which words are in which lines of a text.
fn main() {
    let words: Vec<String> = std::env::args().collect();
    let mut text = String::new();
    std::fs::File::open(&words[1]).unwrap().take(words[2].parse().unwrap()).read_to_string(&mut text).unwrap();
    let mut index: HashMap<&str, Vec<u32>> = HashMap::new();
    for (number, line) in text.lines().enumerate() {
        for word in line.split(' ') { index.entry(word).or_default().push(number as u32); }
    }
    println!("{}", index.len());
}""")

CS_BLUR = built("cs-blur.exe", "cs", """using System.Threading;
class Blur {
    // Blurs an image, whose upper and lower half two threads have.
    const int W = 1024, H = 512;
    static int[] from = new int[W * H], to = new int[W * H];
    static void Half(int y0, int y1) {
        for (int y = y0; y < y1; y++)
            for (int x = 2; x < W - 2; x++) {
                int sum = 0;
                for (int dy = -2; dy <= 2; dy++)
                    for (int dx = -2; dx <= 2; dx++) sum += from[(y + dy) * W + x + dx];
                to[y * W + x] = sum / 25;
            }
    }
    static void Main(string[] a) {
        for (int i = 0; i < W * H; i++) from[i] = i * 7919 >> 4 & 255;
        for (int n = int.Parse(a[0]); n > 0; n--) {
            var upper = new Thread(() => Half(2, H / 2));
            upper.Start();
            Half(H / 2, H - 2);
            upper.Join();
            var swap = from; from = to; to = swap;
        }
    }
}""")

R_SURVEY = ["Rscript", "-e", "set.seed(3); y <- rnorm(4000); x <- cbind(1, runif(4000), rnorm(4000)); b <- 0; "
            "for (i in 1:450) { s <- sample(4000, replace = TRUE); b <- b + coef(lm.fit(x[s, ], y[s])) }; invisible(b)"]

for _name, _line, _build in (("rays", ["{dir}/bin/ml-rays", "1700"], OCAML_RAYS), ("index", ["{dir}/bin/rs-index", "{dir}/text.data", "20000000"], RUST_INDEX),
                             ("blur", ["mono", "{dir}/bin/cs-blur.exe", "30"], CS_BLUR), ("survey", R_SURVEY, [])):
    kind("tuning", "cpu.neighbour", _name, dose=True)(lambda size, line=_line, build=_build: after(build, three_beside(line)(size)))


# The processor: the program's own threads and processes want the same one.

CPP_POOL = built("cc-pool", "cc", """#include <atomic>
#include <cmath>
#include <cstdlib>
#include <sched.h>
#include <thread>
#include <vector>
// Tiles of a height map, which workers take one by one. Each worker has the CPU that the list of the last argument gives it.
static std::atomic<long> taken;
static std::atomic<long> peaks;
static void work(int cpu, long tiles) {
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(cpu, &only);
    if (sched_setaffinity(0, sizeof only, &only)) exit(1);
    for (long tile; (tile = taken++) < tiles;)
        for (int y = 0; y < 128; y++)
            for (int x = 0; x < 128; x++)
                if (std::sin(x * 0.11 + tile) * std::cos(y * 0.07 - tile) + std::sin(x * y * 0.01) > 1.6) peaks++;
}
int main(int, char **v) {
    std::vector<std::thread> all;
    for (char *at = v[2]; *at; at += *at == ',') all.emplace_back(work, (int)strtol(at, &at, 10), atol(v[1]));
    for (auto &one : all) one.join();
    return peaks < 0;
}""")

WAVES = """program waves
  ! Waves on a plane, which the threads of OpenMP move on.
  integer, parameter :: n = 1500
  real(8), allocatable :: a(:,:), b(:,:)
  integer :: step, steps, i, j
  character(len=20) :: arg
  call get_command_argument(1, arg)
  read(arg, *) steps
  allocate(a(n, n), b(n, n))
  a = 1; b = 0
  do step = 1, steps
    !$omp parallel do private(i)
    do j = 2, n - 1
      do i = 2, n - 1
        b(i, j) = sqrt(abs(0.25d0 * (a(i-1, j) + a(i+1, j) + a(i, j-1) + a(i, j+1)) - b(i, j))) + 0.01d0 * mod(i + j, 7)
      end do
    end do
    !$omp end parallel do
    a(2:n-1, 700:720) = b(2:n-1, 700:720)
  end do
  if (b(5, 5) < 0) print *, b(5, 5)
end program"""
FORTRAN_WAVES = [["sh", "-c", "[ -x {dir}/bin/f90-waves ] || { mkdir -p {dir}/bin && cd {dir}/bin && cat > f90-waves.f90 <<'END' && "
                  f"gfortran -O2 -fopenmp -o f90-waves f90-waves.f90\n{WAVES}\nEND\n}}"]]


@kind("tuning", "cpu.crowded", "pool", 400, largest=90)
def _(n):
    return with_one(CPP_POOL, ["{dir}/bin/cc-pool", str(n), "CPUS"], "CPUS", ("0,1", "1,1"))


@kind("tuning", "cpu.crowded", "waves", 40, largest=90)
def _(n):
    line, env = ["{dir}/bin/f90-waves", str(n)], {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"}
    return tuple(Side(line, env={**env, "GOMP_CPU_AFFINITY": cpus}, before=FORTRAN_WAVES) for cpus in ("0 1", "0"))


@kind("tuning", "cpu.crowded", "jobs", 20, largest=90)
def _(n):
    # A runner of jobs that may use so many CPUs; so may what it starts.
    text = (f"import os, hashlib\nos.sched_setaffinity(0, CPUS)\nfor worker in range(3):\n if os.fork() == 0:\n  for job in range({n}):\n"
            "   hashlib.scrypt(b'%d' % job, salt=b'zoo', n=1024, r=8, p=1)\n  os._exit(0)\nfor worker in range(3): os.wait()")
    return either(python, text, "CPUS", ("{0, 1}", "{0}"))


# Memory.

CPP_UPLOAD = built("cc-upload", "cc", C_HEAD + """#include <memory>
#include <string>
// Takes uploads: each is put together in a buffer of its own, and its checksum is taken.
int main(int, char **v) {
    if (!mallopt(M_MMAP_THRESHOLD, atoi(v[2])) || !mallopt(M_TRIM_THRESHOLD, 128 << 20)) return 1;
    std::string part(8192, 'u');
    unsigned long sum = 0;
    for (long upload = atol(v[1]); upload > 0; upload--) {
        size_t parts = 40 + upload % 60;
        auto body = std::unique_ptr<char[]>(new char[parts * part.size()]);
        for (size_t i = 0; i < parts; i++) { part[i] = upload + i; memcpy(&body[i * part.size()], part.data(), part.size()); }
        for (size_t i = 0; i < parts * part.size(); i += 512) sum = sum * 31 + body[i];
    }
    return sum == 1;
}""")

RUST_SCRATCH = built("rs-scratch", "rs", """extern "C" { fn mmap(at: *mut u8, bytes: usize, protection: i32, flags: i32, fd: i32, offset: i64) -> *mut u8;
    fn munmap(at: *mut u8, bytes: usize) -> i32; }
const BYTES: usize = 640 << 10;
fn scratch() -> &'static mut [u8] {
    unsafe { std::slice::from_raw_parts_mut(mmap(std::ptr::null_mut(), BYTES, 3, 34, -1, 0), BYTES) }
}
// Requests, each of which is answered in scratch space: that of the one before, or its own.
fn main() {
    let words: Vec<String> = std::env::args().collect();
    let keep = words[2] == "keep";
    let mut space = scratch();
    let mut sum = 0u64;
    for request in 0..words[1].parse::<u32>().unwrap() {
        for (i, row) in space.chunks_exact_mut(1024).enumerate() { row.fill(i as u8 ^ request as u8); }
        sum += space.iter().step_by(256).map(|&b| b as u64).sum::<u64>();
        if !keep {
            assert!(unsafe { munmap(space.as_mut_ptr(), BYTES) } == 0);
            space = scratch();
        }
    }
    assert!(sum != 1);
}""")

C_DOCUMENTS = built("c-documents", "c", C_HEAD + """/* Parses documents into lists of paragraphs, and frees each list when it was looked at. */
struct paragraph { struct paragraph *next; unsigned hash; char text[4000]; };
int main(int c, char **v)
{
    unsigned seed = 1, sum = 0;
    for (long document = atol(v[1]); document > 0; document--) {
        struct paragraph *first = 0, *one;
        for (int i = 0; i < 1000; i++) {
            seed = seed * 1664525u + 1013904223u;
            one = malloc(offsetof(struct paragraph, text) + 1100 + (seed >> 22));
            one->hash = seed;
            memset(one->text, i, 1000);
            one->next = first;
            first = one;
        }
        for (one = first; one; one = one->next) sum += one->hash ^ one->text[5];
        while ((one = first)) { first = one->next; free(one); }
    }
    return sum == 1;
}""")


@kind("tuning", "map.churn", "upload", 500, touches=("malloc", "thp"))
def _(n):
    return with_one(CPP_UPLOAD, ["{dir}/bin/cc-upload", str(n), "THRESHOLD"], "THRESHOLD", (16 << 20, 128 << 10))


@kind("tuning", "map.churn", "scratch", 500, touches=("thp",))
def _(n):
    return with_one(RUST_SCRATCH, ["{dir}/bin/rs-scratch", str(n), "SPACE"], "SPACE", ("keep", "unmap"))


@kind("tuning", "map.churn", "documents", 200, touches=("malloc", "thp"))
def _(n):
    line = ["{dir}/bin/c-documents", str(n)]
    return after(C_DOCUMENTS, tuple(Side(line, env={"MALLOC_TRIM_THRESHOLD_": trim}) for trim in ("268435456", "131072")))


CPP_RUNNER = built("cc-runner", "cc", C_HEAD + """#include <vector>
// Runs commands for a service that has a large table, some of whose rows change between two commands.
int main(int, char **v) {
    std::vector<char> table(192 << 20, 1);
    bool vforks = !strcmp(v[2], "vfork");
    for (long job = 0, jobs = atol(v[1]); job < jobs; job++) {
        pid_t child = vforks ? vfork() : fork();
        if (child == 0) { execl("/bin/true", "true", nullptr); _exit(1); }
        int status;
        if (waitpid(child, &status, 0) != child || status) return 1;
        for (size_t at = 4096 * (job % 16); at < table.size(); at += 16 * 4096) table[at]++;
    }
}""")

RUST_SESSIONS = built("rs-sessions", "rs", """extern "C" { fn fork() -> i32; fn waitpid(child: i32, status: *mut i32, options: i32) -> i32; fn _exit(status: i32) -> !; }
// A model that each request changes for itself: by and by, or in a process of its own.
fn answer(model: &mut [u64], request: u64) -> u64 {
    let mut sum = request;
    for row in model.chunks_exact_mut(64) { row[3] = row[3].wrapping_mul(31) + request; sum ^= row[3]; }
    sum
}
fn main() {
    let words: Vec<String> = std::env::args().collect();
    let mut model: Vec<u64> = (0..3u64 << 20).collect();
    for request in 0..words[1].parse::<u64>().unwrap() {
        if words[2] == "inside" {
            assert!(answer(&mut model, request) != 1);
            continue;
        }
        unsafe {
            let child = fork();
            if child == 0 { _exit((answer(&mut model, request) == 1) as i32); }
            let mut status = 0;
            assert!(waitpid(child, &mut status, 0) == child && status == 0);
        }
    }
}""")


@kind("tuning", "fork.copies", "runner", 50, touches=("thp",))
def _(n):
    return with_one(CPP_RUNNER, ["{dir}/bin/cc-runner", str(n), "HOW"], "HOW", ("vfork", "fork"), settings=NO_THP)


@kind("tuning", "fork.copies", "sessions", 10, touches=("thp",))
def _(n):
    return with_one(RUST_SESSIONS, ["{dir}/bin/rs-sessions", str(n), "WHERE"], "WHERE", ("inside", "apart"), settings=NO_THP)


@kind("tuning", "fork.copies", "rows", 5, touches=("thp",))
def _(n):
    # Each object that is looked at is written to: it counts who refers to it.
    text = ("import os, gc\ngc.disable()\nrows = [b'%d' % i + bytes(1500) for i in range(24000)]\n"
            f"for job in range({n}):\n child = FORK\n if child <= 0:\n  total = 0\n  for row in rows: total += len(row)\n"
            " if child == 0: os._exit(0)\n if child > 0: os.waitpid(child, 0)")
    return either(python, text, "FORK", ("-1", "os.fork()"), settings=NO_THP)


CPP_RESET = built("cc-reset", "cc", C_HEAD + """// Tries inputs on an image of a program's memory, of which a page is then put back.
// Beside it a worker counts: a thread, or a process.
static volatile unsigned long count;
static void *worker(void *none) { for (;;) count = count * 5 + 3; return none; }
int main(int, char **v) {
    size_t bytes = 1 << 20;
    char *image = (char *)mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, open(v[1], O_RDONLY), 0);
    if (image == MAP_FAILED) return 1;
    pid_t child = -1;
    pthread_t thread;
    if (!strcmp(v[3], "process")) { if (!(child = fork())) worker(0); }
    else pthread_create(&thread, 0, worker, 0);
    for (long i = 0, inputs = atol(v[2]); i < inputs; i++) {
        char *page = image + i % 256 * 4096;
        for (int k = 0; k < 32; k++) page[k * 8] ^= i;
        if (madvise(page, 4096, MADV_DONTNEED)) _exit(1);
    }
    if (child > 0) { kill(child, SIGKILL); waitpid(child, 0, 0); }
    _exit(0);
}""")


@kind("tuning", "tlb.shootdowns", "reset", 50000)
def _(n):
    return with_one(CPP_RESET, ["{dir}/bin/cc-reset", "{dir}/work.data", str(n), "WORKER"], "WORKER", ("process", "thread"))


# System calls.

FENCE = C_HEAD + """#include <linux/filter.h>
#include <linux/seccomp.h>
/* A fence of so many rules, each of which forbids a value of an argument, or, if those are few, of the call's number. */
static int fence(int rules, int offset)
{
    struct sock_filter *code = (struct sock_filter *)calloc(2 * rules + 2, sizeof(*code)), *at = code;
    struct sock_fprog all = { (unsigned short)(2 * rules + 2), code };
    *at++ = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset);
    for (int i = 0; i < rules; i++) {
        *at++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x5a000000u + i, 0, 1);
        *at++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    }
    *at++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all);
}
"""

CPP_LINES = built("cc-lines", "cc", FENCE + """#include <string>
// Writes a log without a buffer, behind a fence that looks at the numbers of calls, or at where they write from.
int main(int, char **v) {
    int log = open("/dev/null", O_WRONLY);
    if (fence(200, strcmp(v[2], "numbers") ? offsetof(struct seccomp_data, args[2]) : offsetof(struct seccomp_data, nr))) return 1;
    std::string line = "GET /index.html 200\\n";
    for (long i = atol(v[1]); i > 0; i--) { line[5] = 'a' + i % 26; if (write(log, line.data(), line.size()) < 0) return 1; }
    return 0;
}""")

C_FENCE = built("c-fence", "c", FENCE + """/* Runs a program behind a fence. */
int main(int c, char **v)
{
    if (atoi(v[1]) && fence(atoi(v[1]), offsetof(struct seccomp_data, args[3]))) return 1;
    execv(v[2], v + 2);
    return 1;
}""")

OCAML_WATCH = built("ml-watch", "ml", """(* Waits for files of a spool to change: asks for each again and again. *)
let () =
  let files = Array.init 8 (fun i -> Printf.sprintf "%s/watched%d" Sys.argv.(1) i) in
  Array.iter (fun file -> close_out (open_out file)) files;
  let seen = Array.map (fun file -> (Unix.lstat file).Unix.st_mtime) files and changed = ref 0 in
  for i = 1 to int_of_string Sys.argv.(2) do
    let k = i land 7 in
    if (Unix.lstat files.(k)).Unix.st_mtime <> seen.(k) then incr changed
  done;
  if !changed > 0 then print_endline "changed" """)


@kind("tuning", "call.dearer", "lines", 200000)
def _(n):
    return with_one(CPP_LINES, ["{dir}/bin/cc-lines", str(n), "FENCE"], "FENCE", ("numbers", "arguments"))


@kind("tuning", "call.dearer", "watch", 100000)
def _(n):
    return with_one([*OCAML_WATCH, *C_FENCE], ["{dir}/bin/c-fence", "RULES", "{dir}/bin/ml-watch", "{dir}", str(n)], "RULES", (0, 300))


# Other programs at the same path.

GRAY = """// Makes images gray, and counts how often each shade is there.
fn main() {
    let frames: usize = std::env::args().nth(1).unwrap().parse().unwrap();
    let image: Vec<u8> = (0..320 * 240 * 3u32).map(|i| (i.wrapping_mul(7919) >> 6) as u8).collect();
    let mut shades = vec![0u64; 256];
    for frame in 0..frames {
        for pixel in 0..320 * 240 {
            let (r, g, b) = (image[pixel * 3] as usize, image[pixel * 3 + 1] as usize, image[pixel * 3 + 2] as usize);
            shades[((r * 77 + g * 150 + b * 29) / 256 + frame) % 256] += 1;
        }
    }
    println!("{}", shades[100]);
}"""

TALLY = """package main

import ("fmt"; "os"; "strconv")

type account struct { id, balance int }

func (a *account) add(n int) { a.balance += n }
func fee(n int) int { return n/100 + 1 }

// Books transfers between accounts.
func main() {
    n, _ := strconv.Atoi(os.Args[1])
    accounts := make([]account, 4096)
    for i, seed := 0, uint32(1); i < n*100000; i++ {
        seed = seed*1664525 + 1013904223
        from, to, sum := seed>>20, seed>>8&4095, int(seed&1023)
        accounts[from].add(-sum - fee(sum))
        accounts[to].add(sum)
    }
    fmt.Println(accounts[7].balance)
}"""


@kind("tuning", "program.changed", "gray", 50)
def _(n):
    build = f"{SURROUNDINGS}; rustc LEVEL -C link-arg=-Wl,--build-id -o {{dir}}/gray - 1>&2 <<'E'\n{GRAY}\nE\n"
    return tuple(Side(["{dir}/gray", str(n)], before=[["sh", "-c", build.replace("LEVEL", level)]]) for level in ("-C opt-level=3", "-C opt-level=0"))


@kind("tuning", "program.changed", "tally", 50)
def _(n):
    build = f"cat > {{dir}}/tally.go <<'E' && {SURROUNDINGS} && cd {{dir}} && go build FLAGS -ldflags=-B=gobuildid -o tally tally.go 1>&2\n{TALLY}\nE\n"
    return tuple(Side(["{dir}/tally", str(n)], before=[["sh", "-c", build.replace("FLAGS", flags)]]) for flags in ("", "-gcflags='-N -l'"))
