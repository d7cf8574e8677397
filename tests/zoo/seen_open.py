"""Losses that no rule knows.

These were frozen until 2026-11-28, when rules were judged by them and then changed by what they missed: they are for tuning.
"""

from cases import Side
from compiled import built
from kinds import either, kind, shell


def both(name, language, source, base, test):
    """A compiled program, and the words of both sides."""
    return tuple(Side([f"{{dir}}/bin/{name}", *map(str, words)], before=built(name, language, source)) for words in (base, test))


def tool(mode, base, test):
    """Both sides of a mode of the C program, which does its call as often as it is told."""
    return both("calls", "c", CALLS, (mode, base), (mode, test))


CALLS = r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/wait.h>
#include <unistd.h>
static void check(int ok, const char *what) { if (!ok) { perror(what); exit(1); } }
static void opens(long n) {
    for (long i = 0; i < n; i++) { int f = open("/usr/share/doc/bash/../../../share/doc/bash/copyright", O_RDONLY); check(f >= 0, "open"); close(f); }
}
static void list(long n) {
    char path[64], name[96];
    snprintf(path, sizeof path, "/dev/shm/list%d", getpid());
    check(mkdir(path, 0700) == 0, path);
    for (int i = 0; i < 2000; i++) { snprintf(name, sizeof name, "%s/%d", path, i); close(open(name, O_CREAT | O_WRONLY, 0600)); }
    DIR *d = opendir(path);
    for (long i = 0; i < n; i++) { rewinddir(d); while (readdir(d)) ; }
    closedir(d);
    for (int i = 0; i < 2000; i++) { snprintf(name, sizeof name, "%s/%d", path, i); unlink(name); }
    rmdir(path);
}
static void watch(long n) {
    int f = inotify_init1(0);
    for (long i = 0; i < n; i++) { int w = inotify_add_watch(f, "/usr/share/doc", IN_MODIFY); check(w >= 0, "watch"); inotify_rm_watch(f, w);
        char b[256]; check(read(f, b, sizeof b) > 0, "read"); }
}
static void event(long n) {
    int f = eventfd(0, 0); unsigned long v = 1;
    for (long i = 0; i < n; i++) { v = 1; check(write(f, &v, 8) == 8, "write"); check(read(f, &v, 8) == 8, "read"); }
}
static void datagram(long n) {
    int s[2]; char b[512] = "syslog";
    check(socketpair(AF_UNIX, SOCK_DGRAM, 0, s) == 0, "socketpair");
    for (long i = 0; i < n; i++) { check(send(s[0], b, 300, 0) == 300, "send"); check(recv(s[1], b, 512, 0) == 300, "recv"); }
}
static void queue(long n) {
    struct mq_attr a = {.mq_maxmsg = 4, .mq_msgsize = 256}; char b[256] = "job", name[32]; unsigned p;
    snprintf(name, sizeof name, "/zoo%d", getpid());
    mqd_t q = mq_open(name, O_CREAT | O_RDWR, 0600, &a);
    check(q >= 0, "mq_open"); mq_unlink(name);
    for (long i = 0; i < n; i++) { check(mq_send(q, b, 100, i & 7) == 0, "send"); check(mq_receive(q, b, 256, &p) == 100, "receive"); }
}
static void sysv(long n) {
    int s = semget(IPC_PRIVATE, 2, 0600); check(s >= 0, "semget");
    struct sembuf up = {0, 1, 0}, down = {0, -1, 0};
    for (long i = 0; i < n; i++) { check(semop(s, &up, 1) == 0, "up"); check(semop(s, &down, 1) == 0, "down"); }
    semctl(s, 0, IPC_RMID);
}
static sem_t ping, pong; static long rounds;
static void *partner(void *x) { for (long i = 0; i < rounds; i++) { sem_wait(&ping); sem_post(&pong); } return x; }
static void turns(long n) {
    pthread_t t; rounds = n; sem_init(&ping, 0, 0); sem_init(&pong, 0, 0);
    pthread_create(&t, 0, partner, 0);
    for (long i = 0; i < n; i++) { sem_post(&ping); sem_wait(&pong); }
    pthread_join(t, 0);
}
static void trace(long n) {
    int status, c = fork();
    if (!c) { ptrace(PTRACE_TRACEME, 0, 0, 0); raise(SIGSTOP); for (;;) ; }
    waitpid(c, &status, 0);
    for (long i = 0; i < n; i++) { check(ptrace(PTRACE_SINGLESTEP, c, 0, 0) == 0, "step"); waitpid(c, &status, 0); }
    kill(c, SIGKILL); waitpid(c, &status, 0);
}
static void affinity(long n) {
    cpu_set_t s;
    for (long i = 0; i < n; i++) { CPU_ZERO(&s); CPU_SET(i & 1, &s); check(sched_setaffinity(0, sizeof s, &s) == 0, "affinity"); }
}
static void fifo(long n) {
    char path[64]; snprintf(path, sizeof path, "/var/tmp/fifo%d", getpid());
    for (long i = 0; i < n; i++) { check(mkfifo(path, 0600) == 0, path); unlink(path); }
}
static void resident(long n) {
    static unsigned char v[4096]; char *p = mmap(0, 16 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(p, 16 << 20, MADV_NOHUGEPAGE);
    memset(p, 1, 16 << 20);
    for (long i = 0; i < n; i++) check(mincore(p, 16 << 20, v) == 0, "mincore");
}
static void signals(long n) {
    sigset_t s; struct signalfd_siginfo got; sigemptyset(&s); sigaddset(&s, SIGUSR1); sigprocmask(SIG_BLOCK, &s, 0);
    int f = signalfd(-1, &s, 0);
    for (long i = 0; i < n; i++) { kill(getpid(), SIGUSR1); check(read(f, &got, sizeof got) == sizeof got, "signalfd"); }
}
static void links(long n) {
    static char b[65536]; int s = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE); check(s >= 0, "netlink");
    for (long i = 0; i < n; i++) {
        struct { struct nlmsghdr h; struct rtgenmsg g; } m = {{sizeof m, RTM_GETADDR, NLM_F_REQUEST | NLM_F_DUMP, i, 0}, {AF_UNSPEC}};
        check(send(s, &m, sizeof m, 0) > 0, "send");
        for (int done = 0; !done;) { long got = recv(s, b, sizeof b, 0); check(got > 0, "recv");
            for (struct nlmsghdr *h = (void *)b; NLMSG_OK(h, got); h = NLMSG_NEXT(h, got)) done |= h->nlmsg_type == NLMSG_DONE || h->nlmsg_type == NLMSG_ERROR; }
    }
}
static void spool(long n) {
    char path[64]; snprintf(path, sizeof path, "/dev/shm/spool%d", getpid());
    for (long i = 0; i < n; i++) { int f = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600); check(f >= 0, path); close(f); unlink(path); }
}
static void polls(long n) {
    struct pollfd p[600];
    for (int i = 0; i < 600; i += 2) { int f[2]; check(pipe(f) == 0, "pipe"); p[i] = (struct pollfd){f[0], POLLIN, 0}; p[i + 1] = (struct pollfd){f[0], POLLPRI, 0}; }
    for (long i = 0; i < n; i++) check(poll(p, 600, 0) == 0, "poll");
}
static void ticks(long n) {
    int f = timerfd_create(CLOCK_MONOTONIC, 0); struct itimerspec t = {{0, 0}, {0, 2000000}}; unsigned long v;
    for (long i = 0; i < n; i++) { timerfd_settime(f, 0, &t, 0); check(read(f, &v, 8) == 8, "timerfd"); }
}
static void cputime(long n) { struct tms t; for (long i = 0; i < n; i++) times(&t); }
static void where(long n) { char b[4096]; for (long i = 0; i < n; i++) check(readlink("/proc/self/exe", b, sizeof b) > 0, "readlink"); }
int main(int count, char **word) {
    static const struct { const char *name; void (*run)(long); } all[] = {{"opens", opens}, {"list", list}, {"watch", watch}, {"event", event},
        {"datagram", datagram}, {"queue", queue}, {"sysv", sysv}, {"turns", turns}, {"trace", trace}, {"affinity", affinity}, {"fifo", fifo},
        {"resident", resident}, {"signals", signals}, {"links", links}, {"spool", spool}, {"polls", polls}, {"ticks", ticks},
        {"cputime", cputime}, {"where", where}};
    for (unsigned i = 0; count == 3 && i < sizeof all / sizeof *all; i++) if (!strcmp(all[i].name, word[1])) { all[i].run(atol(word[2])); return 0; }
    return 2;
}
"""


@kind("tuning", "", "openat", 50000, components=("run.file.", "run.call.entry", "run.memory."))
def _(n):
    return tool("opens", 10, n)


@kind("tuning", "", "getdents", 200, components=("run.file.", "run.user"))
def _(n):
    return tool("list", 1, n)


@kind("tuning", "", "inotify", 20000, components=("run.file.", "run.other", "run.memory.", "run.call.entry"))
def _(n):
    return tool("watch", 10, n)


@kind("tuning", "", "eventfd", 200000, components=("run.file.", "run.call.entry", "run.other"))
def _(n):
    return tool("event", 10, n)


@kind("tuning", "", "datagram", 50000, components=("run.network",))
def _(n):
    return tool("datagram", 10, n)


@kind("tuning", "", "mqueue", 50000, components=("run.task.", "run.file.", "run.call.entry", "run.other", "run.memory."))
def _(n):
    return tool("queue", 10, n)


@kind("tuning", "", "semop", 100000, components=("run.task.", "run.call.entry", "run.other", "run.memory."))
def _(n):
    return tool("sysv", 10, n)


@kind("tuning", "", "semaphore", 10000, components=("off.dependent", "ready.", "run.task.", "idle"))
def _(n):
    return tool("turns", 10, n)


@kind("tuning", "", "ptrace", 10000, components=("off.dependent", "ready.", "run.task.", "idle"))
def _(n):
    return tool("trace", 10, n)


@kind("tuning", "", "affinity", 10000, components=("run.task.", "ready.", "idle", "off.dependent"))
def _(n):
    return tool("affinity", 10, n)


@kind("tuning", "", "mkfifo", 5000, components=("run.file.", "off.journal"))
def _(n):
    return tool("fifo", 10, n)


@kind("tuning", "", "mincore", 10000, components=("run.space.", "run.memory.", "run.fault.", "run.other", "run.file."))
def _(n):
    return tool("resident", 1, n)


@kind("tuning", "", "signalfd", 50000, components=("run.task.", "run.file.", "run.call.entry"))
def _(n):
    return tool("signals", 10, n)


@kind("tuning", "", "netlink", 5000, components=("run.network",))
def _(n):
    return tool("links", 10, n)


@kind("tuning", "", "tmpfs", 20000, components=("run.file.", "run.memory."))
def _(n):
    return tool("spool", 10, n)


@kind("tuning", "", "poll", 3000, components=("run.file.", "run.task."))
def _(n):
    return tool("polls", 10, n)


@kind("tuning", "", "timerfd", 50, components=("idle", "off.timer"))
def _(n):
    return tool("ticks", 1, n)


@kind("tuning", "", "times", 200000, components=("run.call.entry", "run.task.", "run.other"))
def _(n):
    return tool("cputime", 10, n)


@kind("tuning", "", "readlink", 50000, components=("run.file.", "run.call.entry"))
def _(n):
    return tool("where", 10, n)


GO = r"""package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
)

func main() {
	n, _ := strconv.Atoi(os.Args[2])
	if os.Args[1] == "pass" {
		a, b := make(chan int), make(chan int)
		go func() {
			runtime.LockOSThread()
			for x := range a {
				b <- x + 1
			}
		}()
		runtime.LockOSThread()
		x := 0
		for i := 0; i < n; i++ {
			a <- x
			x = <-b
		}
		fmt.Println(x)
		return
	}
	const side = 1024
	m := make([]float32, side*side)
	for i := range m {
		m[i] = float32(i & 255)
	}
	step, jump := 1, side
	if os.Args[1] == "columns" {
		step, jump = side, 1
	}
	var sum float32
	for k := 0; k < n; k++ {
		for i := 0; i < side; i++ {
			at := i * jump
			for j := 0; j < side; j++ {
				sum += m[at]
				at += step
			}
		}
	}
	fmt.Println(sum)
}"""


def go(base, test):
    return both("channels", "go", GO, base, test)


@kind("tuning", "", "columns", 20, components=("run.user",), touches=("thp",))
def _(n):
    return go(("rows", n), ("columns", n))


@kind("tuning", "", "channels", 10000, components=("off.dependent", "ready.", "run.task.", "idle", "run.user"))
def _(n):
    return go(("pass", 10), ("pass", n))


RUST = r"""use std::hint::black_box;
fn main() {
    let word: Vec<String> = std::env::args().collect();
    let n: u64 = word[2].parse().unwrap();
    let mask: u64 = if word[1] == "random" { 1 << 40 } else { 0 };
    let (mut x, mut odd, mut even) = (1u64, 0u64, 0u64);
    for _ in 0..n * 100000 {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        if black_box(x & mask) != 0 { odd = black_box(odd + 3); } else { even = black_box(even + 1); }
    }
    println!("{} {}", odd > 0, even > 0);
}"""


@kind("tuning", "", "branches", 100, components=("run.user",))
def _(n):
    return both("branches", "rs", RUST, ("regular", n), ("random", n))


CXX = r"""#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
template <class It> void insertion(It a, It b) { for (It i = a; i != b; ++i) std::rotate(std::upper_bound(a, i, *i), i, i + 1); }
int main(int, char **word) {
    long n = atol(word[2]), sum = 0;
    for (long k = 0; k < n; k++) {
        std::vector<int> v(4000); unsigned x = k + 1;
        for (int &one : v) one = (x = x * 1664525 + 1013904223) >> 8;
        if (!strcmp(word[1], "insertion")) insertion(v.begin(), v.end()); else std::sort(v.begin(), v.end());
        sum += v[7];
    }
    printf("%ld\n", sum);
}"""


@kind("tuning", "", "insertion", 200, components=("run.user",))
def _(n):
    return both("sorts", "cc", CXX, ("sort", n), ("insertion", n))


OCAML = r"""let () =
  let n = int_of_string Sys.argv.(2) and sum = ref 0 in
  let pairs = List.init 400 (fun i -> (i * 7919, i)) in
  let table = Hashtbl.create 400 in
  List.iter (fun (k, v) -> Hashtbl.replace table k v) pairs;
  let find = if Sys.argv.(1) = "assoc" then (fun k -> List.assoc k pairs) else Hashtbl.find table in
  for _ = 1 to n do for i = 0 to 399 do sum := !sum + find (i * 7919) done done;
  print_int !sum"""


@kind("tuning", "", "lookups", 200, components=("run.user",))
def _(n):
    return both("assoc", "ml", OCAML, ("hash", n), ("assoc", n))


PASCAL = r"""program primes;
uses sysutils;
var n, i, d, found, last: longint; all: boolean;
begin
  n := StrToInt(ParamStr(2)) * 1000; found := 0; all := ParamStr(1) = 'all';
  for i := 2 to n do begin
    if all then last := 300 else last := trunc(sqrt(1000 + i mod 1000));
    d := 2;
    while (d <= last) and (1000003 mod d <> 0) do inc(d);
    if d > last then inc(found);
  end;
  writeln(found);
end."""


@kind("tuning", "", "primes", 200, components=("run.user",))
def _(n):
    return both("primes", "pas", PASCAL, ("root", n), ("all", n))


CSHARP = r"""using System; using System.Collections.Generic;
class Key : IEquatable<Key> {
  public static int Mask; public int Value;
  public override int GetHashCode() { return Value & Mask; }
  public bool Equals(Key other) { return Value == other.Value; }
}
class Program {
  static void Main(string[] word) {
    Key.Mask = word[0] == "spread" ? -1 : 0;
    var table = new Dictionary<Key, int>(600); var key = new Key(); long sum = 0;
    for (int i = 0; i < 300; i++) table[new Key { Value = i }] = i;
    for (int k = 0; k < int.Parse(word[1]); k++) for (int i = 0; i < 300; i++) { key.Value = i; sum += table[key]; }
    Console.WriteLine(sum);
  }
}"""


@kind("tuning", "", "collisions", 200, components=("run.user",))
def _(n):
    return tuple(Side(["mono", "{dir}/bin/hash.exe", word, str(n)], before=built("hash.exe", "cs", CSHARP)) for word in ("spread", "same"))


@kind("tuning", "", "interpreted", 2000, components=("run.user",))
def _(n):
    text = f"(progn (defun f (x) (let ((s 0)) (dotimes (i 100) (setq s (logxor (+ s i) x))) s)) (HOW 'f) (dotimes (k {n}) (f k)))"
    return either(lambda code: ["clisp", "-q", "-norc", "-x", code], text, "HOW", ("compile", "identity"))


@kind("tuning", "", "backtracking", 50, components=("run.user",))
def _(n):
    text = f'(dotimes (i {n}) (regex "^HOW[bd]" "aaaaaaaaaaaaaaac")) (exit)'
    return either(lambda code: ["newlisp", "-e", code], text, "HOW", ("a+", "(a+)+"))


@kind("tuning", "", "pbkdf2", 200, components=("run.user",))
def _(n):
    line = "openssl enc -aes-256-cbc -pbkdf2 -iter COUNT -md sha512 -pass pass:x -S 0102030405060708 -in /etc/hostname -out /dev/null"
    return either(shell, line, "COUNT", (1000, 1000 * n))


@kind("tuning", "", "rhash", 4, components=("run.user",))
def _(n):
    return either(shell, f"head -c {n}M {{dir}}/text.data | rhash --HOW - > /dev/null", "HOW", ("md5", "snefru256"))


@kind("tuning", "", "lsearch", 100, components=("run.user",))
def _(n):
    text = (f"set l {{}}; for {{set i 0}} {{$i < 3000}} {{incr i}} {{lappend l [format %05d $i]}}\n"
            f"for {{set k 0}} {{$k < {n}}} {{incr k}} {{for {{set i 0}} {{$i < 100}} {{incr i}} {{lsearch HOW $l [format %05d [expr {{$i * 29}}]]}}}}")
    return either(lambda code: ["sh", "-c", 'echo "$1" | tclsh', "sh", code], text, "HOW", ("-sorted", "-exact"))


@kind("tuning", "", "mawk", 200, components=("run.user",))
def _(n):
    return either(lambda code: ["mawk", code], 'BEGIN { for (k = 0; k < COUNT; k++) { s = ""; for (i = 0; i < 400; i++) s = s substr("abc", i % 3, 1) } }', "COUNT", (1, 4 * n))


def nginx(level, line):
    """A web server that is started, serves a client, and is stopped."""
    conf = ("daemon off; master_process off; pid {dir}/nginx.pid; error_log {dir}/nginx.err; events { worker_connections 64; } http { access_log off; "
            "client_body_temp_path {dir}/nginx-a; proxy_temp_path {dir}/nginx-b; fastcgi_temp_path {dir}/nginx-c; uwsgi_temp_path {dir}/nginx-d; "
            "scgi_temp_path {dir}/nginx-e; keepalive_requests 10000000; gzip on; gzip_types *; gzip_http_version 1.0; "
            f"gzip_comp_level {level}; server {{ listen 127.0.0.1:8931; root {{dir}}/www; }} }}")
    make = ("mkdir -p {dir}/www && chmod 755 {dir}/www && "
            f"head -c 60000 {{dir}}/text.data > {{dir}}/www/page && echo x > {{dir}}/www/small && echo '{conf}' > {{dir}}/nginx.conf")
    run = ("nginx -p {dir} -c {dir}/nginx.conf -e {dir}/nginx.err & i=0; until [ -s {dir}/nginx.pid ] || [ $i = 200 ]; do sleep 0.02; i=$((i + 1)); done; "
           f"{line} > /dev/null; s=$?; kill $!; wait; rm -f {{dir}}/nginx.pid; exit $s")
    return Side(shell(run), before=[["sh", "-c", make]])


@kind("tuning", "", "nginx", 4000, components=("run.network", "run.interrupt", "ready.", "run.task.", "run.file.", "off.dependent", "idle", "run.user", "run.call.entry"))
def _(n):
    return tuple(nginx(1, f"ab -q -k -c 2 -n {count} http://127.0.0.1:8931/small") for count in (10, n))


@kind("tuning", "", "nginx-gzip", 100, components=("run.user",))
def _(n):
    return tuple(nginx(level, f"ab -q -k -c 1 -n {n} -H 'Accept-Encoding: gzip' http://127.0.0.1:8931/page") for level in (1, 9))


@kind("tuning", "", "loops-in-r", 400, components=("run.user",))
def _(n):
    text = f"x <- as.numeric(1:20000); for (k in 1:{n}) {{ s <- 0; HOW }}"
    return either(lambda code: ["Rscript", "--vanilla", "-e", code], text, "HOW", ("s <- sum(x)", "for (v in x) s <- s + sqrt(v)"))


@kind("tuning", "", "erlang-fold", 200, components=("run.user",))
def _(n):
    text = f"L = lists:seq(1, 300), [lists:HOW(fun(X, A) -> A bxor X end, 0, L) || _ <- lists:seq(1, COUNT)], halt()."
    return either(lambda code: ["erl", "-noshell", "-eval", code], text.replace("HOW", "foldl"), "COUNT", (1, 20 * n))


@kind("tuning", "", "scheme-fib", 200, components=("run.user",))
def _(n):
    text = "(define (fib n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2))))) (do ((k 0 (+ k 1))) ((= k COUNT)) (fib 18)) (exit)"
    return either(lambda code: ["sh", "-c", 'echo "$1" | chezscheme -q', "sh", code], text, "COUNT", (1, 10 * n))
