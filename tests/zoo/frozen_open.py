"""More losses that no rule knows: kinds without a cause that a rule could know, whose program does other or more work on one side.

The kinds of frozen_*.py are those that no rule was changed by: they are run once when rules have changed. Whoever looks at a case of these
to change a rule moves its kind to a seen*.py.
"""

from compiled import C_HEAD, built, with_one
from kinds import either, kind, node, perl, python


# What programs ask the kernel for.

ERRANDS = built("s7-errands", "c", C_HEAD + r"""
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <setjmp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/vfs.h>
static void check(int ok, const char *what) { if (!ok) { perror(what); exit(1); } }
/* A server that takes each connection out of its set while a worker has it. */
static void interest(long n) {
    int set = epoll_create1(0), c[64];
    for (int i = 0; i < 64; i++) c[i] = eventfd(0, 0);
    for (long i = 0; i < n; i++) {
        struct epoll_event e = {.events = EPOLLIN};
        check(epoll_ctl(set, EPOLL_CTL_ADD, c[i & 63], &e) == 0, "add");
        check(epoll_ctl(set, EPOLL_CTL_DEL, c[i & 63], &e) == 0, "del");
    }
}
/* How much room is left, before each record. */
static void room(long n) { struct statfs s; for (long i = 0; i < n; i++) check(statfs("/usr/share/doc", &s) == 0, "statfs"); }
/* Tells itself by a signal that there is something to do. */
static volatile long told;
static void on_signal(int s) { told++; }
static void tell(long n) {
    signal(SIGUSR1, on_signal);
    for (long i = 0; i < n; i++) kill(getpid(), SIGUSR1);
}
/* Looks whether addresses can be read, by reading them. */
static sigjmp_buf back;
static void on_fault(int s) { siglongjmp(back, 1); }
static void probe(long n) {
    volatile char *p = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    signal(SIGSEGV, on_fault);
    for (volatile long i = 0; i < n; i++) if (!sigsetjmp(back, 1)) (void)*p;
}
/* A lock that wakes others whether there are any or not. */
static void wake(long n) { static int lock; for (long i = 0; i < n; i++) syscall(SYS_futex, &lock, 1 | 128, 1, 0, 0, 0); }
/* A server of the old kind, with many connections. */
static void chosen(long n) {
    int p[2], last = 0;
    fd_set all, some;
    FD_ZERO(&all);
    for (int i = 0; i < 300; i++) { check(pipe(p) == 0, "pipe"); FD_SET(p[0], &all); last = p[1]; }
    for (long i = 0; i < n; i++) { struct timeval none = {0}; some = all; check(select(last + 1, &some, 0, 0, &none) == 0, "select"); }
}
/* A watcher that asks for events that do not come. */
static void watch(long n) {
    struct epoll_event e;
    int set = epoll_create1(0);
    for (long i = 0; i < n; i++) check(epoll_wait(set, &e, 1, 3) == 0, "epoll_wait");
}
/* Looks at the state of a connection, again and again. */
static void state(long n) {
    struct tcp_info t;
    int s = socket(AF_INET, SOCK_STREAM, 0);
    for (long i = 0; i < n; i++) { socklen_t size = sizeof t; check(getsockopt(s, IPPROTO_TCP, TCP_INFO, &t, &size) == 0, "getsockopt"); }
}
/* A pool that sets its worker's niceness for each job. */
static void nice_jobs(long n) { for (long i = 0; i < n; i++) check(setpriority(PRIO_PROCESS, 0, i & 1) == 0, "setpriority"); }
static int own(char *path, const char *name) {
    sprintf(path, "/dev/shm/%s%d", name, getpid());
    int f = open(path, O_RDWR | O_CREAT, 0600);
    check(f >= 0, path);
    return f;
}
/* A log that gets another name. */
static void names(long n) {
    char path[64], other[64];
    own(path, "names");
    sprintf(other, "%s.1", path);
    for (long i = 0; i < n; i++) { check(rename(path, other) == 0, "rename"); check(rename(other, path) == 0, "rename"); }
    unlink(path);
}
/* A pipe for each job. */
static void pipes(long n) { int p[2]; for (long i = 0; i < n; i++) { check(pipe(p) == 0, "pipe"); close(p[0]); close(p[1]); } }
/* A watchdog that is wound up for each request. */
static void watchdog(long n) {
    struct itimerval t = {{0, 0}, {60, 0}};
    signal(SIGALRM, on_signal);
    for (long i = 0; i < n; i++) check(setitimer(ITIMER_REAL, &t, 0) == 0, "setitimer");
}
/* Where is data in a sparse file. */
static void holes(long n) {
    char path[64];
    int f = own(path, "holes");
    unlink(path);
    for (int i = 0; i < 64; i++) pwrite(f, "x", 1, i * 65536L);
    for (long i = 0; i < n; i++) check(lseek(f, (i & 31) * 65536L + 8192, SEEK_DATA) >= 0, "lseek");
}
/* Two processes, each on its own CPU, that hand a turn to each other. */
static void hand(long n) {
    int a = eventfd(0, 0), b = eventfd(0, 0);
    unsigned long v = 1;
    cpu_set_t one, other;
    CPU_ZERO(&one); CPU_ZERO(&other); CPU_SET(0, &one); CPU_SET(1, &other);
    int child = fork();
    sched_setaffinity(0, sizeof one, child ? &one : &other);
    if (!child) { for (long i = 0; i < n; i++) { read(a, &v, 8); v = 1; write(b, &v, 8); } _exit(0); }
    for (long i = 0; i < n; i++) { v = 1; write(a, &v, 8); read(b, &v, 8); }
    wait(0);
}
/* A lease on a file, for each client that opens it. */
static void leases(long n) {
    char path[64];
    int f = own(path, "lease");
    unlink(path);
    for (long i = 0; i < n; i++) { check(fcntl(f, F_SETLEASE, F_WRLCK) == 0, "lease"); check(fcntl(f, F_SETLEASE, F_UNLCK) == 0, "unlock"); }
}
int main(int count, char **word) {
    static const struct { const char *name; void (*run)(long); } all[] = {{"interest", interest}, {"room", room}, {"tell", tell}, {"probe", probe},
        {"wake", wake}, {"chosen", chosen}, {"watch", watch}, {"state", state}, {"nice", nice_jobs}, 
        {"names", names}, {"pipes", pipes}, {"watchdog", watchdog}, {"holes", holes}, {"hand", hand}, {"leases", leases}};
    for (unsigned i = 0; count == 3 && i < sizeof all / sizeof *all; i++) if (!strcmp(all[i].name, word[1])) { all[i].run(atol(word[2])); return 0; }
    return 2;
}""")

FILES = ("run.file.", "run.call.entry", "run.memory.", "run.other")
TASKS = ("run.task.", "run.call.entry", "run.memory.", "run.other")

for _name, _mode, _amount, _components in (
        ("epoll-ctl", "interest", 50000, FILES), ("statfs", "room", 50000, FILES), ("signal-handler", "tell", 50000, (*TASKS, "run.user")),
        ("segv-probe", "probe", 50000, (*TASKS, "run.fault.", "run.user", "run.space.")), ("futex-wake", "wake", 200000, TASKS),
        ("select", "chosen", 2000, ("run.file.", "run.task.")), ("epoll-timeout", "watch", 50, ("idle", "off.timer")),
        ("tcp-info", "state", 100000, ("run.network", "run.call.entry", "run.other")),
        ("setpriority", "nice", 100000, TASKS), ("rename-shm", "names", 20000, FILES),
        ("pipe-made", "pipes", 20000, (*FILES, "run.task.")), ("setitimer", "watchdog", 100000, TASKS), ("seek-data", "holes", 100000, FILES),
        ("eventfd-turns", "hand", 10000, ("off.dependent", "ready.", "run.task.", "run.file.", "idle")), ("lease", "leases", 20000, FILES)):
    kind("frozen", "", _name, _amount, components=_components)(
        lambda n, mode=_mode: with_one(ERRANDS, ["{dir}/bin/s7-errands", mode, "COUNT"], "COUNT", (10, n)))


# What programs do themselves.

def compiled(workload, amount, language, source, values, line=("{out}",)):
    """A compiled program with an amount and the word that differs."""
    out = f"s7-{workload}".replace("-", "_" if language == "ml" else "-") + (".exe" if language == "cs" else "")
    build = built(out, language, source)
    words = [part.replace("{out}", f"{{dir}}/bin/{out}") for part in line]
    kind("frozen", "", workload, amount, components=("run.user",))(lambda n: with_one(build, [*words, str(n), "HOW"], "HOW", values))


def interpreted(workload, amount, language, text, values):
    """A script, where N is the amount and HOW is what differs."""
    kind("frozen", "", workload, amount, components=("run.user",))(lambda n: either(language, text.replace("N_TIMES", str(n)), "HOW", values))


compiled("crc", 2000, "c", r"""#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* The check sum of packets: by a table, or bit by bit. */
int main(int count, char **v) {
    static unsigned char packet[4096];
    unsigned table[256], crc = 0;
    int bits = !strcmp(v[2], "bits");
    for (unsigned i = 0; i < 256; i++) { unsigned c = i; for (int k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ 0xedb88320 : c >> 1; table[i] = c; }
    for (long k = atol(v[1]); k > 0; k--)
        for (int i = 0; i < 4096; i++)
            if (bits) { crc ^= packet[i]; for (int b = 0; b < 8; b++) crc = crc & 1 ? crc >> 1 ^ 0xedb88320 : crc >> 1; }
            else crc = table[(crc ^ packet[i]) & 255] ^ crc >> 8;
    printf("%d\n", crc == 1);
}""", ("table", "bits"))

compiled("append", 2000, "c", r"""#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* A line of a CSV file, put together at its end or by looking for its end. */
int main(int count, char **v) {
    static char line[8192];
    long sum = 0;
    for (long k = atol(v[1]); k > 0; k--) {
        char *end = line;
        *line = 0;
        for (int i = 0; i < 500; i++) { if (!strcmp(v[2], "strcat")) strcat(line, "12.50;"); else end = stpcpy(end, "12.50;"); }
        sum += line[k % 3000];
    }
    printf("%d\n", sum == 1);
}""", ("stpcpy", "strcat"))

compiled("front", 100, "cc", r"""#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
// Jobs in a row that are taken from its end or its beginning.
int main(int, char **v) {
    std::vector<int> jobs(3000);
    long sum = 0;
    bool first = !strcmp(v[2], "first");
    for (long k = atol(v[1]); k > 0; k--) {
        jobs.resize(3000, 7);
        while (!jobs.empty()) { if (first) { sum += jobs.front(); jobs.erase(jobs.begin()); } else { sum += jobs.back(); jobs.pop_back(); } }
    }
    printf("%d\n", sum == 1);
}""", ("last", "first"))

compiled("by-bits", 100, "rs", r"""// How many bits of a map of free blocks are set: by the word, or one after the other.
fn main() {
    let word: Vec<String> = std::env::args().collect();
    let map: Vec<u64> = (0..2000u64).map(|i| i.wrapping_mul(0x9e3779b97f4a7c15)).collect();
    let (mut sum, each) = (0u64, word[2] == "each");
    for k in 0..word[1].parse::<u64>().unwrap() {
        for &w in &map {
            let mut x = w ^ k;
            if each { for _ in 0..64 { sum = std::hint::black_box(sum + (x & 1)); x >>= 1; } } else { sum += x.count_ones() as u64; }
        }
    }
    println!("{}", sum == 1);
}""", ("word", "each"))

compiled("change", 2000, "go", r"""package main

import (
	"fmt"
	"os"
	"strconv"
)

var known [64]int

// In how many ways an amount can be paid, with what is known already or without.
func ways(n int, keep bool) int {
	if n < 2 {
		return 1
	}
	if keep && known[n] != 0 {
		return known[n]
	}
	known[n] = ways(n-1, keep) + ways(n-2, keep)
	return known[n]
}

func main() {
	n, _ := strconv.Atoi(os.Args[1])
	sum := 0
	for i := 0; i < n; i++ {
		known = [64]int{}
		sum += ways(20, os.Args[2] == "keep")
	}
	fmt.Println(sum == 1)
}""", ("keep", "again"))

compiled("member", 100, "ml", """(* Whether names were seen: in a list or in a balanced tree. *)
module S = Set.Make (Int)
let () =
  let n = int_of_string Sys.argv.(1) in
  let l = List.init 500 (fun i -> i * 7) in
  let s = S.of_list l and k = ref 0 in
  let rec among (x : int) = function [] -> false | y :: rest -> y = x || among x rest in
  let seen : int -> bool = if Sys.argv.(2) = "list" then (fun x -> among x l) else (fun x -> S.mem x s) in
  for _ = 1 to n do for i = 0 to 499 do if seen (i * 7) then incr k done done;
  print_int (if !k = 1 then 1 else 0)""", ("set", "list"))

compiled("bubble", 100, "pas", """program bubble;
{ Sorts by exchanging neighbours, or those that are further apart first. }
uses SysUtils;
var a: array[0..999] of longint; k, n, i, j, t, gap: longint;
begin
  n := StrToInt(ParamStr(1));
  for k := 1 to n do
  begin
    for i := 0 to 999 do a[i] := i * 7919 mod 1009;
    gap := StrToInt(ParamStr(2));
    while gap > 0 do
    begin
      for i := gap to 999 do
      begin
        t := a[i]; j := i;
        while (j >= gap) and (a[j - gap] > t) do begin a[j] := a[j - gap]; j := j - gap; end;
        a[j] := t;
      end;
      gap := gap div 3;
    end;
  end;
  WriteLn(a[5]);
end.""", (364, 1))

compiled("powers", 2000, "f90", """program powers
  ! Energies: x ** e, which is a product if e is a whole number.
  integer :: n, i, k, whole
  real(8) :: x(2000), s, e
  character(32) :: word
  call get_command_argument(1, word); read (word, *) n
  call get_command_argument(2, word); read (word, *) whole
  e = 3.0d0
  do i = 1, 2000
    x(i) = 1 + i / 1000d0
  end do
  s = 0
  do k = 1, n
    do i = 1, 2000
      if (whole == 1) then
        s = s + x(i) * x(i) * x(i)
      else
        s = s + x(i) ** e
      end if
    end do
  end do
  print *, s == 1
end program""", (1, 0))

compiled("decimal", 1000, "cs", """using System;
class Bill {
  static void Main(string[] word) {
    decimal exact = 0; long cents = 0; bool slow = word[1] == "decimal";
    for (int k = int.Parse(word[0]) * 1000; k > 0; k--) { if (slow) exact += (k & 1023) * 0.19m; else cents += (k & 1023) * 19; }
    Console.WriteLine(exact + cents == 1);
  }
}""", ("cents", "decimal"), line=("mono", "{out}"))

interpreted("fraction", 200, python, "from fractions import Fraction\nthird, s = HOW, 0\nfor i in range(100 * N_TIMES):\n s = (third * (i % 7) + s) % 5",
            ("1 / 3", "Fraction(1, 3)"))
interpreted("in-list", 100, python, "k = HOW(range(1000))\nfor i in range(N_TIMES):\n for j in range(0, 1000, 10): j in k", ("set", "list"))
interpreted("smallest", 500, perl, "use List::Util 'min'; my @a = map { $_ * 7919 % 1009 } 1 .. 1000; my $s = 0; for (1 .. N_TIMES) { $s += HOW; }",
            ("min(@a)", "(sort { $a <=> $b } @a)[0]"))
interpreted("inject", 200, lambda code: ["ruby", "-e", code], "a = (1..2000).map { |i| (i * 7919 % 1009).to_s }; k = 0; N_TIMES.times { k += HOW.size }",
            ("a.max", "a.inject { |x, y| (x <=> y) > 0 ? x : y }"))
interpreted("insert-first", 20, lambda code: ["lua", "-e", code],
            "for k = 1, N_TIMES do local t = {} for i = 1, 800 do table.insert(t, HOW i) end end", ("", "1, "))
interpreted("unbraced", 2000, lambda code: ["sh", "-c", f"echo '{code}' | tclsh"],
            "proc f {n} { set s 0; for {set i 0} {$i < $n} {incr i} { set s [expr HOW] }; return $s }; f [expr {10 * N_TIMES}]",
            ("{($s + $i * 3) % 1000}", "($s + $i * 3) % 1000"))
interpreted("in-array", 1000, lambda code: ["php", "-r", code],
            "$l = range(0, 999); $s = array_flip($l); $k = 0; for ($i = 0; $i < N_TIMES; $i++) for ($j = 0; $j < 1000; $j += 10) $k += HOW;",
            ("isset($s[$j])", "in_array($j, $l)"))
interpreted("to-fixed", 500, node, "let s = 0; for (let i = 0; i < 1000 * N_TIMES; i++) s += HOW;",
            ("Math.round(i * 0.37 * 100) / 100", "Number((i * 0.37).toFixed(2))"))
interpreted("list-ref", 1000, lambda code: ["guile", "--no-auto-compile", "-c", code],
            "(let* ((l (iota 1000)) (v (list->vector l))) (do ((k 0 (+ k 1))) ((= k N_TIMES)) (do ((i 0 (+ i 10))) ((= i 1000)) HOW)))",
            ("(vector-ref v i)", "(list-ref l i)"))
interpreted("no-index", 2000, lambda code: ["sqlite3", ":memory:", code],
            "CREATE TABLE u(id INTEGER PRIMARY KEY, mail); WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c LIMIT 5000) "
            "INSERT INTO u SELECT i, 'u' || i FROM c; WITH RECURSIVE r(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM r LIMIT N_TIMES) "
            "SELECT count((SELECT mail FROM u WHERE HOW = k % 5000)) FROM r;", ("id", "+id"))
interpreted("awk-fields", 400, lambda code: ["gawk", code],
            "BEGIN { s = \"GET /account/17/balance HTTP/1.1 200 user\"; for (i = 0; i < 100 * N_TIMES; i++) k += HOW; }",
            ("split(s, part, \" \")", "split(s, part, /[ \\t]+/)"))
interpreted("forth-fib", 1000, lambda code: ["gforth", "-e", code],
            ": slow dup 2 < if drop 1 else dup 1- recurse swap 2 - recurse + then ; : fast 1 1 rot 1- 0 max 0 ?do tuck + loop nip ; "
            ": run 0 do 14 HOW drop loop ; N_TIMES run bye", ("fast", "slow"))
