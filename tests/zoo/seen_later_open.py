"""Losses that no rule knows: kinds without a cause that a rule could know, whose program does other or more work on one side.

These were frozen until 2026-11-28, when rules were judged by them for the sixth time and then changed by what they missed: they are for
tuning.
"""

from compiled import built, with_one
from kinds import either, kind, node, perl, python, shell


def demands(mode, base, test):
    """Both sides of a mode of the C program, which asks the kernel for something as often as it is told."""
    return with_one(DEMANDS, ["{dir}/bin/demands", mode, "COUNT"], "COUNT", (base, test))


DEMANDS = built("demands", "c", r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static void check(int ok, const char *what) { if (!ok) { perror(what); exit(1); } }
/* A supervisor that looks whether a worker still lives. */
static void alive(long n) {
    for (long i = 0; i < n; i++) {
        int f = syscall(SYS_pidfd_open, getppid(), 0);
        check(f >= 0, "pidfd_open");
        check(syscall(SYS_pidfd_send_signal, f, 0, 0, 0) == 0, "pidfd_send_signal");
        close(f);
    }
}
/* A worker that says of each job how exact its sleeps must be. */
static void slack(long n) {
    for (long i = 0; i < n; i++) {
        check(prctl(PR_SET_TIMERSLACK, 50000 + (i & 1023)) == 0, "set");
        check(prctl(PR_GET_TIMERSLACK) == 50000 + (i & 1023), "get");
    }
}
/* Buffers that have a name and no file. */
static void buffers(long n) {
    for (long i = 0; i < n; i++) {
        int f = memfd_create("frame", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        check(f >= 0 && ftruncate(f, 65536) == 0, "memfd");
        check(fcntl(f, F_ADD_SEALS, F_SEAL_SHRINK) == 0, "seal");
        close(f);
    }
}
/* A timer for each request, which ends before its time. */
static void deadlines(long n) {
    struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct itimerspec t = {{0, 0}, {5, 0}};
    for (long i = 0; i < n; i++) {
        timer_t id;
        check(timer_create(CLOCK_MONOTONIC, &e, &id) == 0, "timer_create");
        timer_settime(id, 0, &t, 0);
        timer_delete(id);
    }
}
/* Two processes that tell each other by signals that it is their turn. */
static void turns(long n) {
    sigset_t s; siginfo_t got;
    sigemptyset(&s); sigaddset(&s, SIGUSR1);
    sigprocmask(SIG_BLOCK, &s, 0);
    int parent = getpid(), child = fork();
    for (long i = 0; i < n; i++) {
        if (child) { kill(child, SIGUSR1); sigwaitinfo(&s, &got); } else { sigwaitinfo(&s, &got); kill(parent, SIGUSR1); }
    }
    if (!child) _exit(0);
    wait(0);
}
/* A signal that carries a number, queued and taken up. */
static void tidings(long n) {
    sigset_t s; siginfo_t got;
    sigemptyset(&s); sigaddset(&s, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &s, 0);
    for (long i = 0; i < n; i++) {
        check(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = i}) == 0, "sigqueue");
        check(sigtimedwait(&s, &got, &(struct timespec){1, 0}) == SIGRTMIN, "sigtimedwait");
    }
}
/* A server that hands each connection's descriptor to a worker. */
static void handed(long n) {
    int s[2], pipes[2];
    check(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s) == 0 && pipe(pipes) == 0, "socketpair");
    for (long i = 0; i < n; i++) {
        char byte = 'c', room[CMSG_SPACE(sizeof(int))] = "";
        struct iovec at = {&byte, 1};
        struct msghdr m = {.msg_iov = &at, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        *c = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(c), pipes, sizeof(int));
        check(sendmsg(s[0], &m, 0) == 1 && recvmsg(s[1], &m, 0) == 1, "message");
        int got; memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof got);
        close(got);
    }
}
/* Sends echo requests to this host, as a monitor does. */
static void echoes(long n) {
    int s = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    check(s >= 0, "socket");
    for (long i = 0; i < n; i++) {
        struct { struct icmphdr h; char text[56]; } m = {{.type = ICMP_ECHO, .un.echo = {1, (unsigned short)i}}, "monitor"};
        char b[256];
        unsigned sum = 0;
        for (unsigned k = 0; k < sizeof m / 2; k++) sum += ((unsigned short *)&m)[k];
        sum = (sum & 65535) + (sum >> 16);
        m.h.checksum = ~(sum + (sum >> 16));
        check(sendto(s, &m, sizeof m, 0, (void *)&to, sizeof to) == sizeof m, "sendto");
        /* The request comes back, too. */
        check(recv(s, b, sizeof b, 0) > 0 && recv(s, b, sizeof b, 0) > 0, "recv");
    }
}
/* Looks for a port that is free, and says what it got. */
static void ports(long n) {
    for (long i = 0; i < n; i++) {
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof a;
        int s = socket(AF_INET, SOCK_STREAM, 0);
        check(bind(s, (void *)&a, size) == 0 && getsockname(s, (void *)&a, &size) == 0, "bind");
        close(s);
    }
}
/* Locks of records in a file that has many records locked. */
static void records(long n) {
    int f = memfd_create("table", 0);
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 100};
    for (int i = 0; i < 300; i++) { l.l_start = 200 * i; check(fcntl(f, F_SETLK, &l) == 0, "lock"); }
    for (long i = 0; i < n; i++) {
        l.l_start = 200 * (i % 300) + 20000 * 200;
        l.l_type = F_WRLCK; check(fcntl(f, F_SETLK, &l) == 0, "lock");
        l.l_type = F_UNLCK; check(fcntl(f, F_SETLK, &l) == 0, "unlock");
    }
}
/* A server of files that takes on the user of each request. */
static void identities(long n) {
    for (long i = 0; i < n; i++) {
        check(syscall(SYS_setresuid, -1, 1000 + (i & 7), -1) == 0, "setresuid");
        check(syscall(SYS_setresuid, -1, 0, -1) == 0, "setresuid");
    }
}
/* A supervisor of many workers that asks whether one has ended. */
static void reaper(long n) {
    static int worker[400];
    for (int i = 0; i < 400; i++) if (!(worker[i] = fork())) { pause(); _exit(0); }
    for (long i = 0; i < n; i++) waitpid(-1, 0, WNOHANG);
    for (int i = 0; i < 400; i++) kill(worker[i], SIGKILL);
    while (wait(0) > 0) ;
}
/* A worker that looks for jobs that nobody brings. */
static void bored(long n) {
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t brought = PTHREAD_COND_INITIALIZER;
    pthread_mutex_lock(&lock);
    for (long i = 0; i < n; i++) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        t.tv_nsec += 3000000;
        if (t.tv_nsec >= 1000000000) { t.tv_sec++; t.tv_nsec -= 1000000000; }
        pthread_cond_timedwait(&brought, &lock, &t);
    }
}
/* Where am I, deep in a tree of folders. */
static void whereabouts(long n) {
    char top[64], path[4096];
    snprintf(top, sizeof top, "/dev/shm/deep%d", getpid());
    check(mkdir(top, 0700) == 0 && chdir(top) == 0, top);
    for (int i = 0; i < 40; i++) check(mkdir("a-folder-within", 0700) == 0 && chdir("a-folder-within") == 0, "mkdir");
    for (long i = 0; i < n; i++) check(getcwd(path, sizeof path) != 0, "getcwd");
    for (int i = 0; i < 40; i++) { chdir(".."); rmdir("a-folder-within"); }
    chdir("/"); rmdir(top);
}
/* Looks at the stack of a process, word by word, as a profiler does. */
static void peeks(long n) {
    long words[64], sum = 0;
    struct iovec here = {words, sizeof words};
    char *stack = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(stack, 1, 1 << 20);
    int child = fork();
    if (!child) { memset(stack, 2, 1 << 20); pause(); _exit(0); }
    usleep(20000);
    for (long i = 0; i < n; i++) {
        struct iovec there = {stack + (i & 2047) * 512, sizeof words};
        check(process_vm_readv(child, &here, 1, &there, 1, 0) == sizeof words, "process_vm_readv");
        sum += words[i & 63];
    }
    kill(child, SIGKILL); wait(0);
    if (sum == 1) puts("");
}
int main(int count, char **word) {
    static const struct { const char *name; void (*run)(long); } all[] = {{"alive", alive}, {"slack", slack}, {"buffers", buffers},
        {"deadlines", deadlines}, {"turns", turns}, {"tidings", tidings}, {"handed", handed}, {"echoes", echoes}, {"ports", ports},
        {"records", records}, {"identities", identities}, {"reaper", reaper}, {"bored", bored},
        {"whereabouts", whereabouts}, {"peeks", peeks}};
    for (unsigned i = 0; count == 3 && i < sizeof all / sizeof *all; i++) if (!strcmp(all[i].name, word[1])) { all[i].run(atol(word[2])); return 0; }
    return 2;
}""")


@kind("tuning", "", "pidfd", 50000, components=("run.task.", "run.file.", "run.call.entry", "run.memory.", "run.other"))
def _(n):
    return demands("alive", 10, n)


@kind("tuning", "", "prctl", 200000, components=("run.task.", "run.call.entry", "run.other", "run.user"))
def _(n):
    return demands("slack", 10, n)


@kind("tuning", "", "memfd", 20000, components=("run.file.", "run.memory.", "run.other"))
def _(n):
    return demands("buffers", 10, n)


@kind("tuning", "", "posix-timer", 50000, components=("run.task.", "run.call.entry", "run.other", "run.memory."))
def _(n):
    return demands("deadlines", 10, n)


@kind("tuning", "", "sigwait", 10000, components=("off.dependent", "ready.", "run.task.", "idle"))
def _(n):
    return demands("turns", 10, n)


@kind("tuning", "", "sigqueue", 50000, components=("run.task.", "run.call.entry", "run.memory.", "run.other"))
def _(n):
    return demands("tidings", 10, n)


@kind("tuning", "", "rights", 20000, components=("run.network", "run.file.", "run.memory."))
def _(n):
    return demands("handed", 10, n)


@kind("tuning", "", "icmp", 20000, components=("run.network", "run.interrupt"))
def _(n):
    return demands("echoes", 10, n)


@kind("tuning", "", "bind", 20000, components=("run.network", "run.file.", "run.memory."))
def _(n):
    return demands("ports", 10, n)


@kind("tuning", "", "record-locks", 50000, components=("run.file.", "run.call.entry", "run.memory."))
def _(n):
    return demands("records", 10, n)


@kind("tuning", "", "setresuid", 50000, components=("run.task.", "run.call.entry", "run.other", "run.memory."))
def _(n):
    return demands("identities", 10, n)


@kind("tuning", "", "waitpid", 20000, components=("run.task.", "run.other"))
def _(n):
    return demands("reaper", 10, n)


@kind("tuning", "", "timedwait", 50, components=("idle", "off.timer"))
def _(n):
    return demands("bored", 1, n)


@kind("tuning", "", "getcwd", 50000, components=("run.file.", "run.call.entry", "run.memory.", "run.other"))
def _(n):
    return demands("whereabouts", 10, n)


@kind("tuning", "", "vm-readv", 50000, components=("run.space.", "run.memory.", "run.fault.", "run.task.", "run.other", "run.file.", "run.call.entry"))
def _(n):
    return demands("peeks", 10, n)


# Two workers and a lock, and a client that waits for its server.

WORKERS = built("workers", "c", r"""
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
static long rounds;
static pthread_mutex_t lock[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static pthread_barrier_t all;
static int own, part[2];
static volatile unsigned long sink[2][64];
static void work(int at, int steps) { unsigned long x = at + 1; for (int i = 0; i < steps; i++) x = x * 6364136223846793005u + 1442695040888963407u; sink[at][0] = x; }
/* Accounts are booked under one lock, or each worker's under its own. */
static void *books(void *word) {
    int at = (long)word;
    for (long i = 0; i < rounds; i++) {
        pthread_mutex_lock(&lock[own ? at : 0]);
        work(at, 40000);
        pthread_mutex_unlock(&lock[own ? at : 0]);
        work(at, 2000);
    }
    return 0;
}
/* Steps of a simulation: each worker has its part of the field, and waits for the other at the end of a step. */
static void *steps(void *word) {
    int at = (long)word;
    for (long i = 0; i < rounds; i++) { work(at, part[at]); pthread_barrier_wait(&all); }
    return 0;
}
static void both(void *(*run)(void *)) {
    pthread_t t[2];
    pthread_barrier_init(&all, 0, 2);
    for (long i = 0; i < 2; i++) pthread_create(&t[i], 0, run, (void *)i);
    for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
}
/* A server, and a client whose requests are a head and a body: the body leaves at once, or when the head was confirmed. */
static void requests(int at_once) {
    char b[400] = "GET";
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof a;
    int door = socket(AF_INET, SOCK_STREAM, 0), s = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(door, (void *)&a, size) || getsockname(door, (void *)&a, &size) || listen(door, 1)) exit(1);
    if (!fork()) {
        close(s);
        int c = accept(door, 0, 0);
        while (recv(c, b, 300, MSG_WAITALL) == 300) send(c, b, 50, 0);
        _exit(0);
    }
    if (connect(s, (void *)&a, size) || setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once)) exit(1);
    for (long i = 0; i < rounds; i++) { send(s, b, 100, 0); send(s, b, 200, 0); recv(s, b, 50, MSG_WAITALL); }
    close(s);
    wait(0);
}
int main(int count, char **word) {
    rounds = atol(word[2]);
    own = !strcmp(word[3], "own");
    int uneven = !strcmp(word[3], "uneven");
    part[0] = uneven ? 360000 : 200000; part[1] = 400000 - part[0];
    if (!strcmp(word[1], "books")) both(books);
    if (!strcmp(word[1], "steps")) both(steps);
    if (!strcmp(word[1], "requests")) requests(!strcmp(word[3], "now"));
    return 0;
}""")


def workers(mode, n, base, test):
    """Both sides of a mode of the workers, as many rounds each."""
    return with_one(WORKERS, ["{dir}/bin/workers", mode, str(n), "HOW"], "HOW", (base, test))


@kind("tuning", "", "one-lock", 1000, components=("off.dependent", "idle", "ready.", "run.task."), largest=60)
def _(n):
    return workers("books", n, "own", "one")


@kind("tuning", "", "uneven", 500, components=("off.dependent", "idle"), largest=60)
def _(n):
    return workers("steps", n, "even", "uneven")


@kind("tuning", "", "nagle", 10, components=("idle", "off.dependent", "off.timer"))
def _(n):
    return workers("requests", n, "now", "later")


# What programs do themselves.

C_GRID = built("grid", "c", r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* Sums up the columns of a part of an image whose lines are so many bytes apart. */
int main(int count, char **word) {
    long n = atol(word[1]), apart = atol(word[2]), sum = 0;
    unsigned char *image = aligned_alloc(4096, 8 << 20);
    memset(image, 3, 8 << 20);
    for (long k = 0; k < 4 * n; k++)
        for (int x = 0; x < 64; x++)
            for (int y = 0; y < 1024; y++) sum += image[y * apart + x]++;
    printf("%d\n", sum == 1);
}""")


@kind("tuning", "", "pitch", 20, components=("run.user",), touches=("thp",))
def _(n):
    return with_one(C_GRID, ["{dir}/bin/grid", str(n), "APART"], "APART", (4096 + 192, 4096))


CPP_CHAIN = built("chain", "cc", r"""#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <algorithm>
#include <vector>
// Orders that are linked with the next of their customer: in the order of the file, or in any.
struct Order { Order *next; long price; char text[48]; };
int main(int, char **word) {
    std::vector<Order> orders(400000);
    std::vector<int> way(orders.size());
    std::iota(way.begin(), way.end(), 0);
    std::mt19937 draw(7);
    std::vector<int> mixed = way;
    std::shuffle(mixed.begin(), mixed.end(), draw);
    if (!strcmp(word[2], "any")) way = mixed;
    for (size_t i = 0; i < way.size(); i++) orders[way[i]] = {&orders[way[(i + 1) % way.size()]], (long)i, ""};
    long sum = 0;
    Order *at = &orders[0];
    for (long i = atol(word[1]) * 10000; i > 0; i--) { sum += at->price; at = at->next; }
    printf("%d\n", sum == 1);
}""")


@kind("tuning", "", "links", 200, components=("run.user",), touches=("thp",))
def _(n):
    return with_one(CPP_CHAIN, ["{dir}/bin/chain", str(n), "ORDER"], "ORDER", ("file", "any"))


CPP_BUCKETS = built("buckets", "cc", r"""#include <cstdio>
#include <cstdlib>
#include <unordered_map>
// Sessions in a table that grows when there are so many in a bucket.
int main(int, char **word) {
    std::unordered_map<long, int> sessions;
    sessions.max_load_factor(atof(word[2]));
    for (long i = 0; i < 3000; i++) sessions[i * 2654435761 % 1000003] = i;
    long sum = 0;
    for (long k = atol(word[1]); k > 0; k--) for (long i = 0; i < 3000; i++) sum += sessions.find(i * 2654435761 % 1000003)->second;
    printf("%d\n", sum == 1);
}""")


@kind("tuning", "", "load-factor", 100, components=("run.user",))
def _(n):
    return with_one(CPP_BUCKETS, ["{dir}/bin/buckets", str(n), "LOAD"], "LOAD", (1, 60))


RUST_DISTANCE = built("distance", "rs", r"""// The distance of two texts: near the diagonal only, or everywhere.
fn main() {
    let word: Vec<String> = std::env::args().collect();
    let (n, band) = (word[1].parse::<usize>().unwrap(), word[2].parse::<usize>().unwrap());
    let a: Vec<u8> = (0..600).map(|i| (i * 7919 % 26) as u8).collect();
    let b: Vec<u8> = (0..600).map(|i| (i * 7919 % 26) as u8 ^ (i % 50 == 0) as u8).collect();
    let mut total = 0;
    for _ in 0..n {
        let mut last: Vec<u32> = (0..=600).collect();
        for i in 1..=600usize {
            let (from, to) = (i.saturating_sub(band).max(1), (i + band).min(600));
            let mut line = vec![u32::MAX / 2; 601];
            line[0] = i as u32;
            for j in from..=to {
                let same = last[j - 1] + (a[i - 1] != b[j - 1]) as u32;
                line[j] = same.min(last[j] + 1).min(line[j - 1] + 1);
            }
            last = line;
        }
        total += last[600];
    }
    println!("{}", total == 1);
}""")


@kind("tuning", "", "band", 100, components=("run.user",))
def _(n):
    return with_one(RUST_DISTANCE, ["{dir}/bin/distance", str(n), "BAND"], "BAND", (20, 600))


OCAML_COMPARE = built("compare", "ml", """(* Sorts names by a function for texts of any kind, or for what they are. *)
let () =
  let n = int_of_string Sys.argv.(1) in
  let order : (int * int) -> (int * int) -> int =
    if Sys.argv.(2) = "any" then compare else (fun (a, b) (c, d) -> if a <> c then Int.compare a c else Int.compare b d) in
  let names = Array.init 2000 (fun i -> (i * 7919 mod 101, i * 31 mod 2003)) in
  let sum = ref 0 in
  for _ = 1 to n do
    let a = Array.copy names in
    Array.stable_sort order a;
    sum := !sum + fst a.(7)
  done;
  print_int !sum""")


@kind("tuning", "", "compare", 100, components=("run.user",))
def _(n):
    return with_one(OCAML_COMPARE, ["{dir}/bin/compare", str(n), "HOW"], "HOW", ("own", "any"))


PASCAL_QUEENS = built("queens", "pas", """program queens;
{ Places queens, and looks whether one takes another: at each queen, or only at the last ones. }
uses SysUtils;
var at: array[1..12] of longint; n, k, found: longint; first: longint;
function Good(row: longint): boolean;
var i: longint;
begin
  Good := true;
  for i := 1 to row - 1 do if (at[i] = at[row]) or (abs(at[i] - at[row]) = row - i) then begin Good := false; exit; end;
end;
procedure Place(row: longint);
var c: longint;
begin
  if row > 6 then begin inc(found); exit; end;
  for c := 1 to 6 do
  begin
    at[row] := c;
    if (row < first) or Good(row) then Place(row + 1);
  end;
end;
begin
  n := StrToInt(ParamStr(1)); first := StrToInt(ParamStr(2)); found := 0;
  for k := 1 to n do Place(1);
  WriteLn(found);
end.""")


@kind("tuning", "", "queens", 1000, components=("run.user",))
def _(n):
    return with_one(PASCAL_QUEENS, ["{dir}/bin/queens", str(n), "FIRST"], "FIRST", (1, 4))


CS_CALLS = built("plugin.exe", "cs", """using System; using System.Reflection;
class Plugin {
  long sum;
  public void Add(int x) { sum += x; }
  static void Main(string[] word) {
    var plugin = new Plugin(); var method = typeof(Plugin).GetMethod("Add");
    var add = (Action<int>)Delegate.CreateDelegate(typeof(Action<int>), plugin, method);
    var args = new object[1]; bool named = word[1] == "name";
    for (int k = int.Parse(word[0]) * 1000; k > 0; k--) {
      if (named) { args[0] = k; method.Invoke(plugin, args); } else add(k);
    }
    Console.WriteLine(plugin.sum == 1);
  }
}""")


@kind("tuning", "", "reflection", 100, components=("run.user",))
def _(n):
    return with_one(CS_CALLS, ["mono", "{dir}/bin/plugin.exe", str(n), "HOW"], "HOW", ("delegate", "name"))


@kind("tuning", "", "includes", 100, components=("run.user",))
def _(n):
    text = ("const seen = Array.from({length: 1500}, (x, i) => 'user' + i), set = new Set(seen); let k = 0;"
            f"for (let r = 0; r < {n}; r++) for (let i = 0; i < 1500; i += 10) k += FIND;")
    return either(node, text, "FIND", ("set.has('user' + i)", "seen.includes('user' + i)"))


@kind("tuning", "", "sort-key", 20, components=("run.user",))
def _(n):
    text = ("sub key { my ($d, $m, $y) = $_[0] =~ /^(\\d+)\\.(\\d+)\\.(\\d+)$/; return sprintf '%04d%02d%02d', $y, $m, $d; }"
            "my @days = map { ($_ * 7 % 28 + 1) . '.' . ($_ % 12 + 1) . '.' . ($_ * 31 % 100 + 1900) } 1 .. 500;"
            f"for (1 .. {n}) {{ my @s = HOW; }}")
    once = "map { $_->[1] } sort { $a->[0] cmp $b->[0] } map { [key($_), $_] } @days"
    return either(perl, text, "HOW", (once, "sort { key($a) cmp key($b) } @days"))


@kind("tuning", "", "deepcopy", 1000, components=("run.user",))
def _(n):
    text = (f"import copy\nconfig = {{'limits': [1, 2, 3], 'names': {{'a' + str(i): [i] for i in range(40)}}}}\nfor i in range({n}):\n"
            " c = copy.HOW(config)\n c['limits'] = i")
    return either(python, text, "HOW", ("copy", "deepcopy"))


@kind("tuning", "", "exceptions", 200, components=("run.user",))
def _(n):
    text = (f"words = (1..400).map {{ |i| 'x' + i.to_s }}; k = 0; {n}.times {{ words.each {{ |w| k += "
            "HOW } }")
    base, test = "w.match?(/\\A\\d+\\z/) ? w.to_i : 1", "(Integer(w) rescue 1)"
    return either(lambda code: ["ruby", "-e", code], text, "HOW", (base, test))


@kind("tuning", "", "similar", 20, components=("run.user",))
def _(n):
    text = ("$a = str_repeat('the quick brown fox ', 12); $b = str_repeat('a lazy dog jumps ', 12); $k = 0;"
            f"for ($i = 0; $i < {n}; $i++) $k += HOW($a, $b . $i);")
    return either(lambda code: ["php", "-r", code], text, "HOW", ("levenshtein", "similar_text"))


@kind("tuning", "", "running-total", 20, components=("run.user",))
def _(n):
    text = (f"CREATE TABLE sales(day INTEGER PRIMARY KEY, cents INTEGER); WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c LIMIT 400) "
            f"INSERT INTO sales SELECT i, i * 7919 % 1000 FROM c; WITH RECURSIVE r(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM r LIMIT {n}) "
            "SELECT sum(total) FROM r, (SELECT (SELECT sum(cents) FROM sales o WHERE o.day <= s.day AND FROM_DAY) AS total FROM sales s) LIMIT 1;")
    return either(lambda code: ["sqlite3", ":memory:", code], text, "FROM_DAY", ("o.day > s.day - 7", "o.day > 0 * s.day"))


@kind("tuning", "", "xz-mode", 4, components=("run.user",))
def _(n):
    line = f"head -c {min(64 * n, 60000)}K {{dir}}/text.data | xz -T1 -c --format=raw --lzma2=dict=1MiB,mode=MODE"
    return either(shell, line, "MODE", ("fast,mf=hc4,nice=16,depth=4", "normal,mf=hc4,nice=64,depth=40"))


@kind("tuning", "", "numbers", 1, components=("run.user",))
def _(n):
    return either(shell, f"head -c {min(n, 60)}M {{dir}}/text.data | LC_ALL=C sort --parallel=1 -S 600M -HOW -k 1,1 | tail -n 1", "HOW", ("n", "g"))


@kind("tuning", "", "cipher", 16, components=("run.user",))
def _(n):
    line = f"head -c {min(n, 128)}M {{dir}}/work.data | openssl enc -CIPHER-256-ctr -K 11 -iv 22 | tail -c 1 | wc -c"
    return either(shell, line, "CIPHER", ("aes", "camellia"))


@kind("tuning", "", "accumulator", 200, components=("run.user",))
def _(n):
    text = ("use_module(library(lists)), assertz((turn([], R, R))), assertz((turn([H|T], A, R) :- turn(T, [H|A], R))), "
            "assertz((naive([], []))), assertz((naive([H|T], R) :- naive(T, S), append(S, [H], R))), numlist(1, 150, L), "
            f"forall(between(1, {n}, _), HOW)")
    return either(lambda code: ["swipl", "-q", "-g", code, "-t", "halt"], text, "HOW", ("turn(L, [], _)", "naive(L, _)"))


@kind("tuning", "", "pi", 100, components=("run.user",))
def _(n):
    return either(shell, f"echo 'scale=DIGITS; for (k = 0; k < {n}; k++) x = a(1 / (k + 2)); x > 9' | bc -l", "DIGITS", (10, 120))


@kind("tuning", "", "nth", 1000, components=("run.user",))
def _(n):
    text = ("(let* ((l (loop for i below 400 collect i)) (v (coerce l 'simple-vector)) (s 0)) (declare (type fixnum s) (type simple-vector v)) "
            f"(dotimes (k {n}) (dotimes (i 400) (setf s (logand 65535 (+ s (the fixnum HOW)))))) (when (= s 70000) (print s)))")
    line = ["sbcl", "--noinform", "--disable-debugger", "--no-userinit", "--no-sysinit", "--eval"]
    return either(lambda code: [*line, code, "--quit"], text, "HOW", ("(svref v i)", "(nth i l)"))


JAVA_RECENT = [["sh", "-c", r"""[ -e {dir}/bin/Recent.class ] || { mkdir -p {dir}/bin && cd {dir}/bin && cat > Recent.java <<'END' && javac Recent.java
import java.util.*;
class Recent {
    // The prices of the last days, in a list that knows where each is or in one whose members know the next.
    public static void main(String[] word) {
        List<Integer> prices = word[1].equals("array") ? new ArrayList<>() : new LinkedList<>();
        for (int i = 0; i < 500; i++) prices.add(i * 7919 % 1000);
        long sum = 0;
        for (int k = Integer.parseInt(word[0]); k > 0; k--)
            for (int i = 1; i < prices.size(); i++) sum += Math.abs(prices.get(i) - prices.get(i - 1));
        System.out.println(sum == 1);
    }
}
END
}"""]]


@kind("tuning", "", "linked-list", 1000, components=("run.user",))
def _(n):
    line = ["java", "-XX:+UseSerialGC", "-Xmx64m", "-cp", "{dir}/bin", "Recent", str(n), "LIST"]
    return with_one(JAVA_RECENT, line, "LIST", ("array", "linked"))
