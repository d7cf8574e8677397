"""Kinds of cases whose size can be chosen: a program that meets a cause on one side, and how much of that it does.

A kind's sides are made for an amount of the affected work. What else the program does is the same on both sides and is added by
sized.py, so that the loss is the part of the whole that is asked for. Of a `dose` the amount is the size itself: how hard the cause
hits, where it hits the whole program.

These are the part `tuning`: what rules may be changed by. So are those of seen*.py, which were frozen once. The part `frozen`
(frozen_*.py) is run once when rules are not changed any more.
"""

import dataclasses

from cases import DATA, DIRTY, DROP, NO_THP, QUEUE, THP, Side, fio, io_limited, memory_limited, merging, programs, remounted, toggled, work


@dataclasses.dataclass
class Kind:
    """A cause, or none, and a program."""

    part: str
    cause: str
    workload: str
    sides: object
    # Affected work to begin with.
    amount: float = 1
    # Other causes that would be right, too.
    also: tuple = ()
    # Where the loss is.
    components: tuple = ()
    # The part of the machine that it is in, and what the program does differently.
    place: str = ""
    truth: str = ""
    dose: bool = False
    # The loss, in percent of the base, that it cannot pass.
    largest: int = 100
    # Harmless differences that would not be harmless to it.
    touches: tuple = ()


KINDS = []


def kind(part, cause, workload, amount=1, **more):
    """Registers the function that makes the sides."""
    return lambda sides: KINDS.append(Kind(part, cause, workload, sides, amount, **more)) or sides


def shell(line):
    return ["sh", "-c", line]


def by_postgres(client, options=""):
    """A server of PostgreSQL that is started, serves a client, and is stopped."""
    return shell("cd {dir}/postgres; PATH=$(echo /usr/lib/postgresql/*/bin):$PATH; "
                 f"run='runuser -u postgres --'; $run pg_ctl -D . -w -s -o \"-k {{dir}}/postgres -c listen_addresses= {options}\" start > /dev/null && "
                 f"{client}; $run pg_ctl -D . -w -s -m fast stop")


def pgbench(transactions, options=""):
    """So many transactions of one client."""
    return by_postgres(f"$run pgbench -h {{dir}}/postgres -n -t {transactions} postgres > /dev/null", options)


def psql(statements, options=""):
    return by_postgres(f"echo '{statements}' | $run psql -h {{dir}}/postgres -q -o /dev/null postgres", options)


def by_redis(client, options="--save '' --appendonly no"):
    """A server of redis that is started, serves a client, and is stopped."""
    server = f"redis-server --port 0 --unixsocket {{dir}}/redis.sock --dir {{dir}} --daemonize no {options} > /dev/null"
    return shell(f"rm -rf {{dir}}/redis.sock {{dir}}/appendonlydir; {server} & until [ -S {{dir}}/redis.sock ]; do sleep 0.01; done; "
                 f"{client} > /dev/null; kill $!; wait")


def redis(requests, *options):
    """Requests of eight clients, each of which sets a value of 256 bytes."""
    return by_redis(f"redis-benchmark -s {{dir}}/redis.sock -q -c 8 -r 100000 -d 256 -t set -n {requests}", *options)


# Python with the C library, whose functions let other threads run.
LIBC = ("import ctypes\nc = ctypes.CDLL(None, use_errno=True)\nc.mmap.restype = ctypes.c_void_p\n"
        "c.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]\n"
        "c.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]\nc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]\n"
        "c.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]\nc.mlock.argtypes = [ctypes.c_void_p, ctypes.c_size_t]\n")


def python(text):
    return ["python3", "-c", text]


def perl(text):
    return ["perl", "-e", text]


def node(text):
    return ["node", "-e", text]


def either(command, text, word, values, **more):
    """A program whose text has one of two values in the place of `word`."""
    return programs(*(command(text.replace(word, str(value))) for value in values), **more)


def sqlite(text, file=":memory:"):
    return ["sqlite3", file, text]


def rows(n):
    """A table of the numbers up to n, in SQL."""
    return f"WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c LIMIT {n}) "


def beside(work, apart):
    """Python's `work`, while the other CPU runs a thread of the same address space, or a process of its own."""
    return python(LIBC + "import os, threading, hashlib\n"
                  "spin = lambda: [hashlib.pbkdf2_hmac('sha256', b'x', b'y', 20000) for i in range(1000000)]\n"
                  f"child = os.fork() if {apart} else -1\nif child == 0: spin()\n"
                  "if child < 0: threading.Thread(target=spin, daemon=True).start()\n"
                  f"{work}\nif child > 0: os.kill(child, 9); os.waitpid(child, 0)\nos._exit(0)")


def protect(n):
    """Takes the right to write from a page and gives it back, n times."""
    return f"p = c.mmap(None, 1 << 20, 3, 34, -1, 0)\nfor i in range({n}):\n c.memset(p, 1, 4096)\n c.mprotect(p, 4096, 1)\n c.mprotect(p, 4096, 3)"


def by_malloc(command, keep_bytes, map_bytes, trim_bytes):
    """A program with a malloc that keeps blocks of up to `keep_bytes`, and with one that maps each of `map_bytes` and more."""
    return tuple(Side(command, env={"MALLOC_MMAP_THRESHOLD_": str(threshold), "MALLOC_TRIM_THRESHOLD_": str(trim_bytes)}) for threshold in (keep_bytes, map_bytes))


def cached(side_words, **more):
    """A program on a file that is in the page cache on one side only."""
    return Side(side_words, **more), Side(side_words, before=DROP, **more)


# Memory.


@kind("tuning", "thp.disabled", "touch", 10, touches=("thp",))
def _(n):
    return toggled(work("anon", ops=n), f"{THP}/enabled", "always", "never")


@kind("tuning", "thp.disabled", "python", 10, touches=("thp",))
def _(n):
    return toggled(python(f"for i in range({n}): b = bytearray(40 << 20)"), f"{THP}/enabled", "always", "madvise")


@kind("tuning", "thp.disabled", "perl", 10, touches=("thp",))
def _(n):
    return toggled(perl(f"for (1 .. {n}) {{ my $s = 'x' x (48 << 20); }}"), f"{THP}/enabled", "always", "never")


@kind("tuning", "thp.disabled", "node", 10, touches=("thp",))
def _(n):
    return toggled(node(f"for (let i = 0; i < {n}; i++) Buffer.alloc(64 << 20, 1);"), f"{THP}/enabled", "always", "madvise")


@kind("tuning", "thp.disabled", "stress-ng", 200, touches=("thp",))
def _(n):
    return toggled(["stress-ng", "-q", "--vm", "1", "--vm-bytes", "64m", "--vm-method", "write64", "--vm-ops", str(n)], f"{THP}/enabled", "always", "never")


@kind("tuning", "shmem.small_pages", "memfd", 5, touches=("thp",))
def _(n):
    return toggled(work("shared", ops=n), f"{THP}/shmem_enabled", "always", "never")


@kind("tuning", "shmem.small_pages", "python", 5, touches=("thp",))
def _(n):
    text = f"import mmap\nfor i in range({n}):\n m = mmap.mmap(-1, 64 << 20)\n for j in range(0, 64 << 20, 4096): m[j] = 1\n m.close()"
    return toggled(python(text), f"{THP}/shmem_enabled", "always", "never")


@kind("tuning", "map.misaligned", "touch", 100, touches=("thp",))
def _(n):
    small = work("anon", ops=n, bytes=2 << 20)
    return programs(small, [*small, "shift=4096"], settings={f"{THP}/enabled": "always"})


@kind("tuning", "map.misaligned", "large", 20, touches=("thp",))
def _(n):
    large = work("anon", ops=n, bytes=6 << 20)
    return programs(large, [*large, "shift=1048576"], settings={f"{THP}/enabled": "always"})


@kind("tuning", "map.churn", "heap", 40, touches=("malloc",))
def _(n):
    churn = work("heap", ops=n, bytes=262144, count=20)
    return Side(churn, env={"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=4194304:glibc.malloc.trim_threshold=33554432"}), Side(
        churn, env={"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=131072"})


@kind("tuning", "map.churn", "python", 1000, touches=("malloc",))
def _(n):
    churn = python(f"for i in range({n}): b = bytearray(400000)")
    return by_malloc(churn, 4194304, 65536, 33554432)


@kind("tuning", "map.churn", "perl", 1000, touches=("malloc",))
def _(n):
    churn = perl(f"for (1 .. {n}) {{ my $s = 'x' x 300000; undef $s; }}")
    return by_malloc(churn, 8388608, 131072, 67108864)


@kind("tuning", "fork.copies", "fork", 20)
def _(n):
    return programs(work("fork", ops=n, fork=0), work("fork", ops=n))


@kind("tuning", "fork.copies", "python", 5, touches=("thp",))
def _(n):
    text = ("import os, signal\nb = bytearray(16 << 20)\nfor i in range({n}):\n p = {fork}\n if p == 0: signal.pause()\n"
            " for j in range(0, 16 << 20, 4096): b[j] = 1\n if p > 0: os.kill(p, 9); os.waitpid(p, 0)")
    return programs(python(text.format(n=n, fork="-1")), python(text.format(n=n, fork="os.fork()")), settings=NO_THP)


@kind("tuning", "tlb.shootdowns", "protect", 50)
def _(n):
    return programs(work("protect", ops=n, threads=2, calls=10), work("protect", ops=n, threads=2, calls=400))


@kind("tuning", "mmap_lock.contended", "faults", 4, largest=60)
def _(n):
    more = dict(ops=n, threads=4, calls=200, bytes=65536)
    return programs(work("faults", processes=1, **more), work("faults", **more))


@kind("tuning", "ksm.separated", "merged", 2, largest=25)
def _(n):
    merged = work("merged", ops=1, merge_ms=500, bytes=n << 20)
    return merging(merged, "20000")


@kind("tuning", "memory.pinned", "touch", 2)
def _(n):
    return programs(work("idle", ops=1), work("anon", ops=n, mlock=1, bytes=16 << 20))


# Reclaim and the page cache.


@kind("tuning", "cgroup.memory_limit", "read", 2, touches=("readahead",))
def _(n):
    again = work("read", ops=n + 1, file="{dir}/large.data", bytes=400 << 20)
    return memory_limited(again, "1G", "240M")


@kind("tuning", "cgroup.memory_limit", "sha1sum", 2, touches=("readahead",))
def _(n):
    again = shell("for i in " + "x " * (n + 1) + "; do head -c 300M {dir}/large.data | sha1sum; done")
    return memory_limited(again, "800M", "160M")


@kind("tuning", "cache.cold", "read", 16, touches=("readahead",))
def _(n):
    return cached(work("read", ops=1, file=DATA, bytes=min(n, 128) << 20))


@kind("tuning", "cache.cold", "grep", 16, touches=("readahead",))
def _(n):
    return cached(shell(f"head -c {min(n, 128)}M {DATA} | grep -c x"))


@kind("tuning", "cache.cold", "sha1sum", 16, touches=("readahead",))
def _(n):
    return cached(shell(f"head -c {min(n, 128)}M {DATA} | sha1sum"))


@kind("tuning", "cache.cold", "tar", 16, touches=("readahead",))
def _(n):
    return cached(shell(f"tar -cf - {{dir}}/work.data | head -c {min(n, 128)}M | cksum"))


# Files and devices.


@kind("tuning", "readahead.reduced", "read", 16, touches=("readahead",))
def _(n):
    return toggled(work("read", ops=1, file=DATA, bytes=min(n, 128) << 20, bs=16384, cold=1), f"{QUEUE}/read_ahead_kb", "1024", "16")


@kind("tuning", "readahead.reduced", "dd", 16, touches=("readahead",))
def _(n):
    line = ["dd", f"if={DATA}", "of=/dev/null", "bs=8k", f"count={128 * min(n, 128)}"]
    return toggled(line, f"{QUEUE}/read_ahead_kb", "512", "8", before=DROP)


@kind("tuning", "readahead.reduced", "python", 16, touches=("readahead",))
def _(n):
    line = python(f"f = open('{DATA}', 'rb')\nfor i in range({16 * min(n, 128)}): f.read(65536)")
    return toggled(line, f"{QUEUE}/read_ahead_kb", "2048", "32", before=DROP)


@kind("tuning", "readahead.lost", "read", 8, touches=("readahead",))
def _(n):
    cold = work("read", ops=1, file=DATA, bytes=min(n, 128) << 20, bs=16384, cold=1)
    return programs(cold, [*cold, "random=1"])


@kind("tuning", "readahead.lost", "python", 8, touches=("readahead",))
def _(n):
    text = f"import os\nf = os.open('{DATA}', os.O_RDONLY)\nos.posix_fadvise(f, 0, 0, {{advice}})\nfor i in range({64 * min(n, 128)}): os.pread(f, 16384, i * 16384)"
    # 0 is POSIX_FADV_NORMAL, 1 POSIX_FADV_RANDOM.
    return either(python, text, "{advice}", ("0", "1"), before=DROP)


@kind("tuning", "io.smaller_requests", "read", 32)
def _(n):
    return programs(*(work("read", ops=n, file=DATA, bytes=4 << 20, bs=bs) for bs in (1 << 20, 2048)))


@kind("tuning", "io.smaller_requests", "dd", 16)
def _(n):
    return programs(*(["dd", f"if={DATA}", "of=/dev/null", f"bs={bs}", f"count={(min(n, 128) << 20) // bs}"] for bs in (1 << 20, 512)))


@kind("tuning", "io.smaller_requests", "perl", 16)
def _(n):
    return programs(*(perl(f"open F, '<', '{DATA}'; for (1 .. {(min(n, 128) << 20) // bs}) {{ sysread F, $b, {bs}; }}") for bs in (1 << 18, 1024)))


@kind("tuning", "io.smaller_requests", "fio-write", 16)
def _(n):
    return programs(*(fio("w", filename="{dir}/fio.data", rw="write", bs=bs, size="128m", io_size=f"{n}m") for bs in ("512k", "1k")))


@kind("tuning", "io.direct", "read", 16)
def _(n):
    return programs(*(work("read", ops=1, file=DATA, bytes=min(n, 128) << 20, bs=65536, direct=direct) for direct in (0, 1)))


@kind("tuning", "io.direct", "dd", 16)
def _(n):
    line = ["dd", f"if={DATA}", "of=/dev/null", "bs=32k", f"count={32 * min(n, 128)}"]
    return programs(line, [*line, "iflag=direct"])


@kind("tuning", "io.direct", "fio", 16)
def _(n):
    return programs(*(fio("r", rw="randread", filename=DATA, bs="8k", size="128m", io_size=f"{n}m", direct=direct, invalidate=0) for direct in (0, 1)))


@kind("tuning", "sync.more", "sqlite", 40, touches=("dirty",))
def _(n):
    text = "PRAGMA synchronous={sync}; CREATE TABLE IF NOT EXISTS t(a); " + "INSERT INTO t VALUES(1);" * n
    return programs(*(sqlite(text.replace("{sync}", sync), "{dir}/zoo.db") for sync in ("OFF", "FULL")))


@kind("tuning", "sync.more", "write", 50, touches=("dirty",))
def _(n):
    line = work("write", ops=n, file=DATA + ".w", bytes=65536)
    return programs(line, [*line, "sync=1"])


@kind("tuning", "sync.more", "dd", 50, touches=("dirty",))
def _(n):
    line = ["dd", "if=/dev/zero", "of={dir}/dd.data", "bs=32k", f"count={n}", "conv=notrunc"]
    return programs(line, [*line, "oflag=dsync"])


@kind("tuning", "sync.more", "python", 50, touches=("dirty",))
def _(n):
    text = f"import os\nf = os.open('{{dir}}/py.data', os.O_RDWR | os.O_CREAT)\nfor i in range({n}):\n os.pwrite(f, b'x' * 8192, i * 8192)\n"
    return programs(python(text), python(text + " os.fsync(f)"))


@kind("tuning", "sync.more", "pgbench", 100, touches=("dirty",))
def _(n):
    return programs(*(pgbench(n, f"-c synchronous_commit={commit}") for commit in ("off", "on")))


@kind("tuning", "sync.more", "redis", 4000, touches=("dirty",))
def _(n):
    return programs(*(redis(n, f"--save '' --appendonly yes --appendfsync {sync}") for sync in ("no", "always")))


@kind("tuning", "writeback.throttled", "write", 100, touches=("dirty",))
def _(n):
    return toggled(work("write", ops=n, file=DATA + ".w", span=1 << 30), DIRTY, "4000000000", "4194304")


@kind("tuning", "writeback.throttled", "dd", 100, touches=("dirty",))
def _(n):
    line = ["dd", "if=/dev/zero", "of={dir}/dd.data", "bs=1M", f"count={n}", "conv=notrunc"]
    return toggled(line, DIRTY, "4000000000", "4194304")


@kind("tuning", "cgroup.io_limit", "fio", 4)
def _(n):
    random = fio("r", rw="randread", bs="4k", size="64m", direct=1, io_size=f"{n}m")
    return io_limited(random, 2000)


@kind("tuning", "cgroup.io_limit", "dd", 4)
def _(n):
    line = ["dd", f"if={DATA}", "of=/dev/null", "bs=16k", "iflag=direct", f"count={64 * min(n, 128)}"]
    return io_limited(line, 1000)


@kind("tuning", "mount.changed", "files", 200)
def _(n):
    line = work("files", ops=n, file="{mount}/work.data")
    return remounted(line)


@kind("tuning", "mount.changed", "python", 200)
def _(n):
    line = python(f"import os\nfor i in range({n}):\n open('{{mount}}/f%d' % (i % 50), 'w').write('x' * 100)")
    return remounted(line)


# The processor.


def capped(line, cpus, period, base="max", **more):
    """A program whose threads or processes could use so many CPUs, in a control group that gives them less of each period."""
    def sides(size):
        quotas = (base if base == "max" else base * period), round(cpus * period / (1 + size))
        return tuple(Side(line, limits={"cpu.max": f"{quota} {period}"}, **more) for quota in quotas)
    return sides


def quota(line):
    return capped(line, 1, 20000)


def neighbour(line):
    """Two threads beside it that keep both CPUs for a part of the time."""
    def sides(size):
        # A thread that wants a CPU gets half of it beside one that does, too.
        hog = ["{work}", "spin", "ops=1000000", "threads=2", "thread_us=4000", f"sleep_us={round(max(0, 4000 / min(1, size) - 4000))}"]
        return Side(line), Side(line, beside=[hog])
    return sides


SPIN = work("spin", ops=60, thread_us=15000)
PYTHON = python("sum(range(60000000))")
GZIP = shell("head -c 60M {dir}/text.data | gzip -4")
PERL = perl("$s += $_ for 1 .. 50000000")
NODE = node("let s = 0; for (let i = 0; i < 500; i++) s += Array.from({length: 20000}, (x, j) => j).reduce((a, b) => a + b);")
SQLITE = ["sqlite3", ":memory:", "CREATE TABLE t(a, b); WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c LIMIT 1600000) "
          "INSERT INTO t SELECT i, hex(i) FROM c; SELECT count(*) FROM t WHERE b LIKE '%3';"]
GCC = shell("for i in 1 2 3 4 5; do gcc -O2 -c -o /dev/null {source}; done")
GIT = shell("for i in 1 2 3; do git -C {repo} log -p -n 300 > /dev/null; done")
SYSBENCH = ["sysbench", "cpu", "--threads=1", "--time=0", "--events=4400", "run"]

for _part, _name, _line in (("tuning", "spin", SPIN), ("tuning", "python", PYTHON), ("tuning", "gzip", GZIP), ("tuning", "node", NODE), ("tuning", "sqlite", SQLITE),
                            ("tuning", "gcc", GCC), ("tuning", "redis", redis(100000))):
    kind(_part, "cpu.quota", _name, dose=True)(quota(_line))
for _part, _name, _line in (("tuning", "spin", SPIN), ("tuning", "python", PYTHON), ("tuning", "perl", PERL), ("tuning", "sysbench", SYSBENCH), ("tuning", "gzip", GZIP),
                            ("tuning", "git", GIT), ("tuning", "pgbench", pgbench(1200))):
    kind(_part, "cpu.neighbour", _name, dose=True)(neighbour(_line))


@kind("tuning", "cpu.crowded", "spin", 20, largest=90)
def _(n):
    line = work("spin", ops=n, threads=2, thread_us=5000)
    return Side(line), Side(line, prefix=["taskset", "-c", "1"])


@kind("tuning", "cpu.crowded", "zstd", 8, largest=60)
def _(n):
    line = shell(f"head -c {min(n, 500)}M {{dir}}/text.data | zstd -5 -T2 -c -q")
    return Side(line), Side(line, prefix=["taskset", "-c", "0"])


@kind("tuning", "cpu.crowded", "sysbench", 200, largest=90)
def _(n):
    line = ["sysbench", "cpu", "--threads=2", "--time=0", f"--events={n}", "run"]
    return Side(line), Side(line, prefix=["taskset", "-c", "1"])


@kind("tuning", "call.dearer", "calls", 200000)
def _(n):
    return programs(work("calls", calls=n), work("calls", calls=n, filter=200))


@kind("tuning", "call.dearer", "dd", 200000)
def _(n):
    line = ["dd", "if=/dev/zero", "of=/dev/null", "bs=1", f"count={n}"]
    return programs(line, ["{work}", "exec", "filter=300", "--", *line])


# Causes that no rule knows.


@kind("tuning", "", "user", 100, components=("run.user",))
def _(n):
    return programs(work("idle", ops=1), work("spin", ops=n, thread_us=1000))


@kind("tuning", "reads.more", "copies", 32)
def _(n):
    return programs(work("read", ops=1, file=DATA, bytes=1 << 20), work("read", ops=n, file=DATA, bytes=16 << 20))


@kind("tuning", "", "sleep", 50, components=("idle", "off.timer"))
def _(n):
    return programs(work("idle", ops=n), work("idle", ops=n, sleep_us=2000))


@kind("tuning", "program.starts", "spawn", 100)
def _(n):
    return programs(shell("i=0; while [ $i -lt 10 ]; do /bin/true; i=$((i+1)); done"), shell(f"i=0; while [ $i -lt {n} ]; do /bin/true; i=$((i+1)); done"))


@kind("tuning", "", "json", 100, components=("run.user",))
def _(n):
    return programs(python("pass"), python(f"import json\nd = {{'a' + str(i): i for i in range(2000)}}\nfor i in range({n}): json.loads(json.dumps(d))"))


@kind("tuning", "", "pipe", 20000, components=("run.task.pipe", "run.task.", "ready.", "run.call.entry", "run.memory."))
def _(n):
    return programs(shell("dd if=/dev/zero bs=4k count=100 | cat"), shell(f"dd if=/dev/zero bs=4k count={n} | cat"))


@kind("tuning", "", "loopback", 4000, components=("run.network", "ready.", "run.user", "run.task.", "run.interrupt", "idle"))
def _(n):
    text = ("import socket, os\na, b = socket.socketpair() if 0 else (socket.create_server(('127.0.0.1', 0)), None)\np = os.fork()\n"
            "if p == 0:\n c = socket.create_connection(a.getsockname())\n for i in range(%d): c.sendall(b'x' * 64); c.recv(64)\n os._exit(0)\n"
            "s, _ = a.accept()\nfor i in range(%d): s.recv(64); s.sendall(b'y' * 64)\nos.waitpid(p, 0)")
    return programs(python(text % (10, 10)), python(text % (n, n)))


@kind("tuning", "", "random", 2000, components=("run.random",))
def _(n):
    return programs(*(["dd", "if=/dev/urandom", "of=/dev/null", "bs=4k", f"count={count}"] for count in (10, n)))


@kind("tuning", "", "list", 20, components=("run.file.",))
def _(n):
    text = "import os\nfor i in range(%d):\n for f in os.scandir('/usr/lib/x86_64-linux-gnu'): f.stat()"
    return programs(python(text % 0), python(text % n))


@kind("tuning", "", "futex", 4000, components=("off.dependent", "ready.", "run.task.", "idle", "run.user"))
def _(n):
    text = ("import threading\na, b = threading.Semaphore(0), threading.Semaphore(0)\ndef f():\n for i in range(%d): a.acquire(); b.release()\n"
            "t = threading.Thread(target=f); t.start()\nfor i in range(%d): a.release(); b.acquire()\nt.join()")
    return programs(python(text % (10, 10)), python(text % (n, n)))


@kind("tuning", "", "sleep", 50, components=("idle", "off.timer"))
def _(n):
    return programs(perl("1"), perl(f"select(undef, undef, undef, 0.003) for 1 .. {n}"))


@kind("tuning", "", "cache-misses", 20, components=("run.user",), touches=("thp",))
def _(n):
    text = "b = bytearray(64 << 20)\nfor i in range({n}):\n s = sum(b[{at}])"
    return programs(python(text.format(n=n, at="0:131072:1")), python(text.format(n=n, at="0:67108864:512")))


@kind("tuning", "", "rename", 2000, components=("run.file.", "run.task.", "off.journal"))
def _(n):
    text = "import os\nopen('{dir}/r0', 'w')\nfor i in range(%d): os.rename('{dir}/r%%d' %% (i %% 2), '{dir}/r%%d' %% ((i + 1) %% 2))\n"
    return programs(python(text % 2), python(text % (2 * (n // 2))))


@kind("tuning", "program.starts", "gcc", 60)
def _(n):
    return programs(shell("i=0; while [ $i -lt 5 ]; do gcc --version > /dev/null; i=$((i+1)); done"),
                    shell(f"i=0; while [ $i -lt {n} ]; do gcc --version > /dev/null; i=$((i+1)); done"))


@kind("tuning", "cpu.crowded", "gcc", 2, largest=90)
def _(n):
    line = shell(f"for t in 1 2; do (i=0; while [ $i -lt {n} ]; do gcc -O1 -c -o /dev/null {{source}}; i=$((i+1)); done) & done; wait")
    return Side(line), Side(line, prefix=["taskset", "-c", "1"])


@kind("tuning", "", "socketpair", 4000, components=("run.network", "ready.", "run.task.", "off.dependent", "run.user"))
def _(n):
    text = ("use Socket; socketpair(A, B, AF_UNIX, SOCK_STREAM, PF_UNSPEC); if (my $p = fork) {{ for (1 .. {n}) {{ syswrite A, 'x' x 100; sysread A, $b, 100; }} "
            "waitpid $p, 0 }} else {{ for (1 .. {n}) {{ sysread B, $b, 100; syswrite B, 'y' x 100; }} }}")
    return programs(perl(text.format(n=10)), perl(text.format(n=n)))


@kind("tuning", "", "epoll", 4000, components=("run.task.", "run.user", "run.call.entry", "run.file."))
def _(n):
    text = ("import os, select\ne = select.epoll()\nf = os.eventfd(0)\ne.register(f, select.EPOLLIN)\n"
            "for i in range(%d): os.eventfd_write(f, 1); e.poll(); os.eventfd_read(f)")
    return programs(python(text % 10), python(text % n))
