"""Kinds of the eighth set whose mechanism no cause on the list names: ten of the CPU and of system calls, ten of everything around them.

Written without a look at the rules. The truth of each kind stands beside its program: what it does differently, and where the time goes.
"""

from cases import Side, dropped
from compiled import C_HEAD, built, with_one
from kinds import either, kind, node, perl, python, shell

# The processor.


BUCKETS = built("e8-buckets", "cc", """#include <cstdlib>
#include <unordered_map>
// A table of 2000 customers, whose numbers may all fall into one bucket.
int main(int, char **v) {
    std::unordered_map<unsigned long, long> all;
    all.reserve(2000);
    unsigned long step = all.bucket_count() + (v[2][0] == 's'), sum = 0;
    for (unsigned long i = 0; i < 2000; i++) all[i * step] = i;
    for (long n = atol(v[1]); n > 0; n--)
        for (unsigned long i = 0; i < 2000; i++) sum += all.find(i * step)->second;
    return sum == 42;
}""")


@kind("eighth", "", "hash-collisions", 60, place="cpu", components=("run.user",),
      truth="The keys of a hash table are multiples of its number of buckets, so that all lie in one bucket and each lookup walks through a long chain.")
def _(n):
    return with_one(BUCKETS, ["{dir}/bin/e8-buckets", str(n), "KEYS"], "KEYS", ("spread", "equal"))


@kind("eighth", "", "regex-backtracking", 300, place="cpu", components=("run.user",),
      truth="A regular expression has nested repetitions, and tries all ways to divide a word before it says that the word does not match.")
def _(n):
    text = f"const r = new RegExp('{{pattern}}'); let s = 0; for (let i = 0; i < {n}; i++) s += r.test('a'.repeat(16) + i) ? 1 : 0;"
    return either(node, text, "{pattern}", ("^(a|b)+$", "^(a+)+$"))


MATRIX = built("e8-matrix", "f90", """! Sums of a matrix of 72 MB, row by row or column by column. Fortran keeps columns together.
program matrix
  real(8), allocatable :: a(:, :)
  real(8) :: s
  character(32) :: word
  integer :: i, j, k, n
  call get_command_argument(1, word)
  read (word, *) n
  call get_command_argument(2, word)
  allocate (a(3000, 3000))
  a = 1
  s = 0
  do k = 1, n
    if (word == "columns") then
      do j = 1, 3000
        do i = 1, 3000
          s = s + a(i, j)
        end do
      end do
    else
      do i = 1, 3000
        do j = 1, 3000
          s = s + a(i, j)
        end do
      end do
    end if
  end do
  if (s < 0) print *, s
end program""")


@kind("eighth", "", "matrix-order", 5, place="cpu", components=("run.user",), touches=("thp",),
      truth="A matrix is gone through across its columns instead of along them, so that each element is on another cache line and another page than the "
            "one before.")
def _(n):
    return with_one(MATRIX, ["{dir}/bin/e8-matrix", str(n), "ORDER"], "ORDER", ("columns", "rows"))


@kind("eighth", "", "full-scan", 200, place="cpu", components=("run.user",),
      truth="SQLite looks rows up without the index that it has, and walks through the whole table, which is in memory, for each of them.")
def _(n):
    counted = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c LIMIT {rows}) "
    text = ("PRAGMA automatic_index=0; CREATE TABLE t(k, v); " + counted.format(rows=20000) + "INSERT INTO t SELECT (i * 7919) % 20011, i FROM c; "
            "CREATE INDEX ti ON t(k); " + counted.format(rows=n) + "SELECT count(v) FROM c CROSS JOIN t {how} ON t.k = c.i;")
    return either(lambda words: ["sqlite3", ":memory:", words], text, "{how}", ("INDEXED BY ti", "NOT INDEXED"))


SPINNING = built("e8-spinning", "rs", """// Two threads that work under a spin lock: each under its own, or both under one.
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
#[repr(align(4096))]
struct Guarded { locked: AtomicBool, sum: AtomicU64 }
static ALL: [Guarded; 2] = [const { Guarded { locked: AtomicBool::new(false), sum: AtomicU64::new(0) } }; 2];
fn add(guarded: &Guarded, n: u64) {
    for i in 0..n {
        while guarded.locked.compare_exchange(false, true, Acquire, Relaxed).is_err() { std::hint::spin_loop(); }
        let mut x = i | 1;
        for _ in 0..3000 { x ^= x << 13; x ^= x >> 7; x ^= x << 17; }
        guarded.sum.fetch_add(x, Relaxed);
        guarded.locked.store(false, Release);
    }
}
fn main() {
    let words: Vec<String> = std::env::args().collect();
    let n: u64 = words[1].parse().unwrap();
    let other = if words[2] == "one" { 0 } else { 1 };
    let thread = std::thread::spawn(move || add(&ALL[other], n));
    add(&ALL[0], n);
    thread.join().unwrap();
}""")


@kind("eighth", "", "spin-lock", 30000, place="cpu", components=("run.user",), largest=60,
      truth="Two threads work under one spin lock instead of under one each, and each spins in the program while the other has it.")
def _(n):
    return with_one(SPINNING, ["{dir}/bin/e8-spinning", str(n), "LOCKS"], "LOCKS", ("each", "one"))


# System calls.


@kind("eighth", "", "search-path", 300, place="calls", components=("run.file.name",),
      truth="A file is looked for in 400 folders that do not have it before the one that has it is reached: calls that fail, each of which looks a name up.")
def _(n):
    text = (f"my @path = ((map {{ \"/usr/lib/python3/dist-packages/module$_\" }} 1 .. {{folders}}), '/usr/bin'); "
            f"for (1 .. {n}) {{ for (@path) {{ last if -e \"$_/env\" }} }}")
    return either(perl, text, "{folders}", (1, 400))


RECORDS = built("e8-locks", "c", C_HEAD + """
/* A database file, in which so many records stay locked, while others are locked and freed. */
int main(int argc, char **argv) {
    long n = atol(argv[1]), held = atol(argv[2]);
    int f = open(argv[3], O_RDWR | O_CREAT, 0644);
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };
    for (long i = 0; i < held; i++) {
        lock.l_start = 2 * i;
        if (fcntl(f, F_SETLK, &lock)) return 1;
    }
    lock.l_start = 1000000;
    for (long i = 0; i < n; i++) {
        lock.l_type = i % 2 ? F_UNLCK : F_WRLCK;
        if (fcntl(f, F_SETLK, &lock)) return 1;
    }
}""")


@kind("eighth", "", "record-locks", 10000, place="calls", components=("run.file.open",),
      truth="The program keeps 2000 records of a file locked instead of one, and each further lock is compared with all of them in the kernel.")
def _(n):
    return with_one(RECORDS, ["{dir}/bin/e8-locks", str(n), "HELD", "{dir}/e8-locked.data"], "HELD", (1, 2000))


@kind("eighth", "", "poll-idle", 5000, place="calls", components=("run.task.poll",),
      truth="The program asks poll for 1000 pipes, of which one is ready, instead of for two, and the kernel looks at each of them every time.")
def _(n):
    text = ("import os, resource, select\nresource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))\n"
            "ends = [os.pipe() for i in range(1000)]\nos.write(ends[0][1], b'x')\n"
            f"p = select.poll()\nfor i in range({{count}}): p.register(ends[i][0], select.POLLIN)\nfor i in range({n}): p.poll()")
    return either(python, text, "{count}", (2, 1000))


@kind("eighth", "", "proc-maps", 3000, place="calls", components=("run.file.call",),
      truth="The program reads the list of its own mappings from /proc for each of its steps, and the kernel writes it out as text every time.")
def _(n):
    text = f"import os\nf = os.open('/proc/self/{{file}}', os.O_RDONLY)\nfor i in range({n}): os.pread(f, 65536, 0)"
    return either(python, text, "{file}", ("comm", "maps"))


@kind("eighth", "", "close-all", 1000000, place="calls", components=("run.call.entry",),
      truth="A daemon closes all numbers that a descriptor may have, one by one: calls that fail and cost little more than to enter and leave the kernel.")
def _(n):
    text = f"use POSIX (); for (1 .. {{count}}) {{ POSIX::close(1000 + $_ % 60000) }} for ({{count}} .. {n}) {{ POSIX::abs(1000 + $_ % 60000) }}"
    return either(perl, text, "{count}", (1, n))


# Devices.


LEDGER = "{dir}/e8-pages.data"
MAKE_LEDGER = [["sh", "-c", f"[ -e {LEDGER} ] || {{ head -c 512M {{dir}}/large.data > {LEDGER}; }}; sync {LEDGER}"], *dropped(LEDGER)]


@kind("eighth", "", "partial-pages", 1000, place="device", components=("off.read",), touches=("readahead", "io"),
      truth="Records of 4096 bytes are written 512 bytes behind where a page begins, so that two pages of the file have to be read from the disk before "
            "each can be written.")
def _(n):
    text = (f"import os\nf = os.open('{LEDGER}', os.O_RDWR)\nb = b'x' * 4096\n"
            f"for i in range({n}): os.pwrite(f, b, i * 104729 % 16384 * 32768 + {{shift}})")
    return either(python, text, "{shift}", (0, 512), before=MAKE_LEDGER)


@kind("eighth", "", "discards", 500, place="device", components=("off.discard",), touches=("io",),
      truth="The program discards blocks of its device that it does not need any more, range by range, and waits for each.")
def _(n):
    image = "{dir}/e8-discard.img"
    fill = f"head -c 256M {{dir}}/large.data > {image} && sync {image}"
    text = f"import fcntl, struct\nfor i in range({{count}}): fcntl.ioctl(3, 0x1277, struct.pack(\"=QQ\", i % 4096 * 65536, 65536))"
    # The loop device goes when the program ends: it is open as descriptor 3.
    line = f"d=$(losetup -f --show {image}) && exec 3<> $d && losetup -d $d && exec python3 -c '{text}'"
    return either(shell, line, "{count}", (0, min(n, 4096)), before=[["sh", "-c", fill]])


# Flushes.


SHARED = "{dir}/e8-shared.data"
MAKE_SHARED = [["sh", "-c", f"for f in {SHARED} {SHARED}.other; do [ -e $f ] || head -c 64M {{dir}}/large.data > $f; sync $f; done"]]


@kind("eighth", "", "shared-log", 50, largest=25, place="flush", components=("off.write_back",), touches=("dirty", "io"),
      truth="The program flushes its file as often as before, but a neighbour writes to the same file instead of another one, and each flush has to "
            "write the neighbour's pages first.")
def _(n):
    text = (f"import os, time\nf = os.open('{SHARED}', os.O_RDWR)\n"
            f"for i in range({n}):\n os.pwrite(f, b'x' * 4096, i % 256 * 4096)\n os.fdatasync(f)\n time.sleep(0.01)")
    other = ("import os, time\nf = os.open('{file}', os.O_RDWR)\nb = b'y' * (1 << 20)\n"
             "for i in range(1, 1000000):\n os.pwrite(f, b, (1 + i % 63) << 20)\n time.sleep(0.01)")
    return tuple(Side(python(text), beside=[python(other.replace("{file}", file))], before=MAKE_SHARED) for file in (SHARED + ".other", SHARED))


# The journal.


@kind("eighth", "", "small-journal", 8000, largest=60, place="journal", components=("off.journal",), touches=("dirty", "io"),
      truth="The journal of the file system has one MiB instead of 32, and who changes the times of many files waits until it is written back and has "
            "room again.")
def _(n):
    folder, tree = "{dir}/e8-journal", "{dir}/e8-journal.tree"
    image = f"{folder}-MIB.img"
    fresh = (f"mkdir -p {folder}; [ -e {image} ] && exit; "
             f"[ -d {tree}/99 ] || for d in $(seq 0 99); do mkdir -p {tree}/$d; cd {tree}/$d; seq 0 299 | xargs touch; done; cd {tree} && "
             f"truncate -s 128M {image}.new && mkfs.ext4 -q -F -b 1024 -N 40000 -J size=MIB -d . {image}.new && sync {image}.new && mv {image}.new {image}")
    text = f"chdir q({folder}); for my $i (1 .. {n}) {{ utime 1000 + $i, time, $i * 37 % 100 . q(/) . $i % 299 }}"
    line = (f"d=$(losetup -f --show --direct-io=on {image}) && mount $d {folder} && losetup -d $d || exit 9; perl -e '{text}'; status=$?; "
            f"umount {folder}; exit $status")
    return tuple(Side(["unshare", "-m", "sh", "-c", line.replace("MIB", mib)], before=[["sh", "-c", fresh.replace("MIB", mib)]]) for mib in ("32", "1"))


# The caches.


@kind("eighth", "", "missing-names", 40000, place="cache", components=("run.file.name",),
      truth="The program asks for names that nobody asked for before, so that the kernel's cache of names has none of them and searches the directory "
            "each time.")
def _(n):
    fill = "mkdir -p {dir}/e8-many && cd {dir}/e8-many && [ -e file9999 ] || seq -f file%.0f 0 9999 | xargs touch"
    text = (f"use Time::HiRes 'time'; my $x = int(time * 1000000); for (1 .. {n}) {{ my $name = \"{{dir}}/e8-many/$x-\" . ({{name}}); "
            "$s += -e $name ? 1 : 0 }")
    return either(perl, text, "{name}", ("$_ % 10", "$_"), before=[["sh", "-c", fill]])


# Control groups.


def in_group(controller, name, other, line):
    """A line of the shell in one of two control groups, which are gone afterwards. The shell that removes them stays outside."""
    base = f"/sys/fs/cgroup/{controller}"
    return shell(f"mkdir -p {base}/{name} {base}/{other}; trap 'rmdir {base}/{name} {base}/{other}' EXIT; trap 'exit 1' INT TERM; "
                 f"sh -c 'echo $$ > {base}/{name}/cgroup.procs && {line}'")


@kind("eighth", "", "freezer", 20, largest=60, place="group", components=("off.other",),
      truth="Somebody freezes the program's control group for 10 ms every 20 ms, as for a consistent copy of it, and the program stands still meanwhile.")
def _(n):
    line = in_group("freezer", "e8-work", "e8-other", f"head -c {n * 100}k {{dir}}/text.data | bzip2 > /dev/null")
    copier = ("import time\nwhile True:\n for state in ('FROZEN', 'THAWED'):\n"
              "  try: open('/sys/fs/cgroup/freezer/{group}/freezer.state', 'w').write(state)\n  except OSError: pass\n  time.sleep(0.01)")
    return tuple(Side(line, beside=[python(copier.replace("{group}", group))]) for group in ("e8-other", "e8-work"))


# Two groups that may use all devices: one has that rule alone, the other 2000 of devices that are not there before it.
RULES = """import os
for name, count in (('few', 0), ('many', 2000)):
    group = '/sys/fs/cgroup/devices/e8-' + name
    os.makedirs(group, exist_ok=True)
    for file, rule in [('deny', 'a')] + [('allow', 'c 300:%d r' % i) for i in range(count)] + [('allow', 'c *:* rwm')]:
        with open(group + '/devices.' + file, 'w') as out: out.write(rule)
"""


@kind("eighth", "", "device-rules", 20000, place="group", components=("run.file.name",),
      truth="The program's control group has a list of 2000 rules about devices, all of which are gone through when /dev/null is opened.")
def _(n):
    text = f"for (1 .. {n}) {{ open F, q(<), q(/dev/null); close F }}"
    return tuple(Side(in_group("devices", name, other, f'exec perl -e "{text}"'), before=[python(RULES)])
                 for name, other in (("e8-few", "e8-many"), ("e8-many", "e8-few")))


# Swap.


PARKED = built("e8-parked", "c", C_HEAD + """
/* Memory that is not needed for long: the kernel is told that it is cold, or has it written to swap at once. It is not used again. */
int main(int argc, char **argv) {
    long pages = atol(argv[1]) * 256;
    char *at = mmap(NULL, pages * 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t x = 88172645463325252ULL;
    madvise(at, pages * 4096, MADV_NOHUGEPAGE);
    for (long i = 0; i < pages * 512; i++) {
        x ^= x << 13; x ^= x >> 7; x ^= x << 17;
        ((uint64_t *)at)[i] = x;
    }
    if (madvise(at, pages * 4096, strcmp(argv[2], "out") ? MADV_COLD : MADV_PAGEOUT)) { perror("madvise"); return 1; }
}""")
SWAP = "{dir}/e8-parking"
MAKE_SWAP = [["sh", "-c", f"swapoff {SWAP} 2> /dev/null; [ -f {SWAP} ] || "
              f"{{ head -c 512M /dev/zero > {SWAP} && chmod 600 {SWAP} && mkswap -q {SWAP} && sync {SWAP}; }}"]]


@kind("eighth", "", "pageout", 150, largest=60, place="swap", components=("run.memory.reclaim",), touches=("thp", "io"),
      truth="The program has memory that it will not need written to swap at once, instead of only telling the kernel that it is cold; none of it is "
            "ever fetched back.")
def _(n):
    line = shell(f"trap 'swapoff {SWAP}' EXIT; trap 'exit 1' INT TERM; swapon {SWAP} && {{dir}}/bin/e8-parked {min(n, 480)} HOW")
    return with_one(PARKED, line, "HOW", ("cold", "out"), before=MAKE_SWAP)


# Neighbours.


@kind("eighth", "", "flock", 50, place="neighbour", components=("off.outside",),
      truth="Another program holds the lock of a file for 6 ms each time, which this one needs for each of its steps.")
def _(n):
    text = (f"import fcntl, time\nf = open('{{dir}}/e8-lock', 'w')\n"
            f"for i in range({n}):\n fcntl.flock(f, fcntl.LOCK_EX)\n fcntl.flock(f, fcntl.LOCK_UN)\n time.sleep(0.003)")
    other = ("import fcntl, time\nf = open('{dir}/{name}', 'w')\n"
             "while True:\n fcntl.flock(f, fcntl.LOCK_EX)\n time.sleep(0.006)\n fcntl.flock(f, fcntl.LOCK_UN)\n time.sleep(0.001)")
    return tuple(Side(python(text), beside=[python(other.replace("{name}", name))]) for name in ("e8-lock.other", "e8-lock"))


@kind("eighth", "", "crowded-folder", 1200, place="neighbour", components=("off.kernel_lock",), touches=("dirty",),
      truth="Another program lists the large directory in which this one makes and removes files, again and again, and the kernel's lock of the "
            "directory is waited for.")
def _(n):
    fill = "for d in here there; do mkdir -p {dir}/e8-$d; cd {dir}/e8-$d; [ -e file29999 ] || seq -f file%.0f 0 29999 | xargs touch; done"
    text = f"for (1 .. {n}) {{ open F, '>', \"{{dir}}/e8-here/new$_\"; close F; unlink \"{{dir}}/e8-here/new$_\" }}"
    other = "import os\nwhile True: os.listdir('{dir}/e8-WHERE')"
    return tuple(Side(perl(text), beside=[python(other.replace("WHERE", where))], before=[["sh", "-c", fill]]) for where in ("there", "here"))
