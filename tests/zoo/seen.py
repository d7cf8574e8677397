"""Kinds that were frozen once: programs, and ways of losing time, that rules were judged by on 2026-11-27. They have been looked at since, so
they are for tuning, like those of kinds.py.
"""

from cases import DATA, DROP, LOCKED_DOWN, QUEUE, THP, Side, fio, io_limited, memory_limited, merging, programs, remounted, toggled, work
from kinds import LIBC, beside, by_malloc, cached, kind, neighbour, node, perl, protect, psql, python, quota, rows, shell, sqlite


# Memory.


@kind("tuning", "thp.disabled", "java", 200, touches=("thp",))
def _(n):
    heap = f"{min(max(n, 16), 8000)}m"
    line = ["java", "-XX:+UseSerialGC", "-XX:+AlwaysPreTouch", f"-Xms{heap}", f"-Xmx{heap}", "-version"]
    return toggled(line, f"{THP}/enabled", "always", "never")


@kind("tuning", "thp.disabled", "awk", 5, touches=("thp", "malloc"))
def _(n):
    line = ["awk", f"BEGIN {{ for (j = 0; j < {n}; j++) {{ s = \"x\"; for (i = 0; i < 25; i++) s = s s }} }}"]
    return toggled(line, f"{THP}/enabled", "always", "madvise")


@kind("tuning", "shmem.small_pages", "perl", 5, touches=("thp",))
def _(n):
    text = (f"my $x = 'x' x (48 << 20); for (1 .. {n}) {{ my $id = shmget(0, 48 << 20, 0600 | 01000) // die; "
            "shmwrite($id, $x, 0, 48 << 20) or die; shmctl($id, 0, 0); }")
    return toggled(perl(text), f"{THP}/shmem_enabled", "always", "never")


@kind("tuning", "map.misaligned", "python", 50, touches=("thp",))
def _(n):
    text = LIBC + f"for i in range({n}):\n p = c.mmap(0x200000000000 + {{shift}}, 4 << 20, 3, 34, -1, 0)\n c.memset(p, 1, 4 << 20)\n c.munmap(p, 4 << 20)"
    return programs(*(python(text.replace("{shift}", shift)) for shift in ("0", "1048576")), settings={f"{THP}/enabled": "always"})


@kind("tuning", "map.churn", "sqlite", 1000, touches=("malloc",))
def _(n):
    churn = sqlite(rows(n) + "SELECT sum(length(CAST(substr(zeroblob(500000 + i), 2) AS TEXT))) FROM c;")
    return by_malloc(churn, 8388608, 131072, 67108864)


@kind("tuning", "fork.copies", "perl", 5, touches=("thp",))
def _(n):
    text = ("my $x = 'x' x (24 << 20); for (1 .. {n}) {{ my $p = {fork}; if (!$p) {{ sleep 100 while 1; }} "
            "for (my $i = 0; $i < (24 << 20); $i += 4096) {{ vec($x, $i, 8) = 1; }} if ($p > 1) {{ kill 9, $p; waitpid $p, 0; }} }}")
    return programs(*(perl(text.format(n=n, fork=fork)) for fork in ("1", "fork")), settings={f"{THP}/enabled": "never"})


@kind("tuning", "tlb.shootdowns", "python", 3000)
def _(n):
    return programs(*(beside(protect(n), apart) for apart in (True, False)))


@kind("tuning", "ksm.separated", "python", 4, largest=10)
def _(n):
    text = (f"import mmap, time\nm = mmap.mmap(-1, {n} << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\nm.madvise(mmap.MADV_MERGEABLE)\n"
            f"m[:] = bytes([7]) * ({n} << 20)\ntime.sleep(0.7)\nfor i in range(0, {n} << 20, 4096): m[i] = 1")
    return merging(python(text), "30000")


@kind("tuning", "memory.pinned", "python", 3)
def _(n):
    text = LIBC + ("for i in range({n}):\n p = c.mmap(None, 64 << 20, 3, 34, -1, 0)\n c.memset(p, 1, 4096)\n{lock} c.munmap(p, 64 << 20)")
    lock = " if c.mlock(p, 64 << 20): raise OSError(ctypes.get_errno())\n"
    return programs(*(python(text.replace("{n}", str(n)).replace("{lock}", lines)) for lines in ("", lock)))


if LOCKED_DOWN is False:
    @kind("tuning", "faultaround.reduced", "python", 2)
    def _(n):
        text = (f"import mmap\nf = open('{DATA}', 'rb')\nfor i in range({n}):\n m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)\n"
                " s = m[::4096]\n m.close()")
        return toggled(python(text), "{debug}/fault_around_bytes", "65536", "4096")


# Reclaim and the page cache.


@kind("tuning", "cgroup.memory_limit", "fio", 2, touches=("readahead",))
def _(n):
    line = fio("r", filename="{dir}/large.data", rw="read", bs="256k", size="300m", loops=n + 1, invalidate=0)
    return memory_limited(line, "1G", "200M")


@kind("tuning", "cache.cold", "cat", 16, touches=("readahead",))
def _(n):
    return cached(shell(f"head -c {min(n, 128)}M {DATA} | cat > /dev/null"))


@kind("tuning", "cache.cold", "mapped", 16, touches=("readahead",))
def _(n):
    return cached(python(f"import mmap\nf = open('{DATA}', 'rb')\nm = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)\ns = m[0:{min(n, 128) << 20}:4096]"))


# Files and devices.


@kind("tuning", "readahead.reduced", "perl", 16, touches=("readahead",))
def _(n):
    line = perl(f"open F, '<', '{DATA}'; for (1 .. {8 * min(n, 128)}) {{ sysread F, $b, 131072; }}")
    return toggled(line, f"{QUEUE}/read_ahead_kb", "1024", "32", before=DROP)


@kind("tuning", "readahead.reduced", "mapped", 16, touches=("readahead",))
def _(n):
    text = f"import mmap\nf = open('{DATA}', 'rb')\nm = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)\ns = m[0:{min(n, 128) << 20}:4096]"
    return toggled(python(text), f"{QUEUE}/read_ahead_kb", "2048", "64", before=DROP)


@kind("tuning", "readahead.lost", "fio", 8, touches=("readahead",))
def _(n):
    line = dict(filename=DATA, rw="read", bs="8k", size="128m", io_size=f"{min(n, 128)}m", invalidate=1)
    return programs(*(fio("r", fadvise_hint=hint, **line) for hint in ("sequential", "random")))


@kind("tuning", "io.smaller_requests", "python", 16)
def _(n):
    text = f"import os\nf = os.open('{DATA}', os.O_RDONLY)\nfor i in range(%d): os.read(f, %d)"
    return programs(*(python(text % ((min(n, 128) << 20) // bs, bs)) for bs in (1 << 19, 1024)))


@kind("tuning", "io.smaller_requests", "node", 16)
def _(n):
    text = (f"const fs = require('fs'), f = fs.openSync('{DATA}', 'r'), b = Buffer.alloc(1 << 20); "
            "for (let i = 0; i < %d; i++) fs.readSync(f, b, 0, %d, null);")
    return programs(*(node(text % ((min(n, 128) << 20) // bs, bs)) for bs in (1 << 18, 2048)))


@kind("tuning", "io.direct", "python", 16)
def _(n):
    text = (f"import os, mmap\nb = mmap.mmap(-1, 65536)\nf = os.open('{DATA}', os.O_RDONLY | {{flag}})\n"
            f"for i in range({16 * min(n, 128)}): os.preadv(f, [b], i * 65536)")
    return programs(*(python(text.replace("{flag}", flag)) for flag in ("0", "os.O_DIRECT")))


@kind("tuning", "io.direct", "fio-write", 16)
def _(n):
    return programs(*(fio("w", filename="{dir}/fio.data", rw="write", bs="16k", size="128m", io_size=f"{n}m", direct=direct) for direct in (0, 1)))


@kind("tuning", "sync.more", "perl", 50, touches=("dirty",))
def _(n):
    text = f"use IO::Handle; open F, '+>', '{{dir}}/pl.data'; for (1 .. {n}) {{ syswrite F, 'x' x 4096; "
    return programs(perl(text + "}"), perl(text + "F->sync; }"))


@kind("tuning", "sync.more", "node", 50, touches=("dirty",))
def _(n):
    text = f"const fs = require('fs'), f = fs.openSync('{{dir}}/node.data', 'w'); for (let i = 0; i < {n}; i++) {{ fs.writeSync(f, 'x'.repeat(16384)); "
    return programs(node(text + "}"), node(text + "fs.fdatasyncSync(f); }"))


@kind("tuning", "sync.more", "sqlite-wal", 50, touches=("dirty",))
def _(n):
    text = "PRAGMA journal_mode=WAL; PRAGMA synchronous={sync}; CREATE TABLE IF NOT EXISTS t(a); " + "INSERT INTO t VALUES(hex(randomblob(100)));" * n
    return programs(*(sqlite(text.replace("{sync}", sync), "{dir}/wal.db") for sync in ("NORMAL", "FULL")))


@kind("tuning", "writeback.throttled", "python", 100, touches=("dirty",))
def _(n):
    text = f"f = open('{{dir}}/py.data', 'r+b' if __import__('os').path.exists('{{dir}}/py.data') else 'wb', buffering=0)\nfor i in range({n}): f.write(b'x' * (1 << 20))"
    return toggled(python(text), "/proc/sys/vm/dirty_bytes", "4000000000", "6291456")


@kind("tuning", "cgroup.io_limit", "python", 4)
def _(n):
    text = (f"import os, mmap\nb = mmap.mmap(-1, 8192)\nf = os.open('{DATA}', os.O_RDONLY | os.O_DIRECT)\n"
            f"for i in range({64 * min(n, 128)}): os.preadv(f, [b], i * 8192)")
    return io_limited(python(text), 1500)


@kind("tuning", "mount.changed", "perl", 200)
def _(n):
    line = perl(f"for my $i (1 .. {n}) {{ open my $f, '>', '{{mount}}/p' . ($i % 40); print $f 'x' x 300; close $f; }}")
    return remounted(line)


# The processor.


XZ = shell("head -c 12M {dir}/text.data | xz -1 -c")
AWK = shell("head -c 60M {dir}/text.data | awk '{{ s += $1; n[$2]++ }} END {{ print s }}'")
SORT = shell("head -c 32M {dir}/text.data | LC_ALL=C sort -S 64M --parallel=1 | tail -1")
OPENSSL = shell("head -c 600M {dir}/large.data | openssl dgst -sha512")
BC = shell("echo 'scale=2200; 4*a(1)' | bc -lq")
BZIP2 = shell("head -c 16M {dir}/text.data | bzip2 -3 -c")

for _name, _line in (("xz", XZ), ("awk", AWK), ("bc", BC)):
    kind("tuning", "cpu.quota", _name, dose=True)(quota(_line))
for _name, _line in (("sort", SORT), ("openssl", OPENSSL), ("bzip2", BZIP2)):
    kind("tuning", "cpu.neighbour", _name, dose=True)(neighbour(_line))


@kind("tuning", "cpu.crowded", "xz", 8, largest=60)
def _(n):
    line = shell(f"head -c {min(n, 500)}M {{dir}}/text.data | xz -0 -T2 --block-size=1MiB -c")
    return Side(line), Side(line, prefix=["taskset", "-c", "0"])


@kind("tuning", "call.dearer", "python", 100000)
def _(n):
    line = python(f"import os\nfor i in range({n}): os.getppid()")
    return programs(line, ["{work}", "exec", "filter=250", "--", *line])


@kind("tuning", "call.dearer", "perl", 100000)
def _(n):
    line = perl(f"-e '/' for 1 .. {n}")
    return programs(line, ["{work}", "exec", "filter=150", "--", *line])


# More of the same work, and causes that no rule knows.


@kind("tuning", "program.starts", "perl", 60)
def _(n):
    return programs(*(perl(f"system('/usr/bin/id > /dev/null') for 1 .. {count}") for count in (5, n)))


@kind("tuning", "reads.more", "perl", 32)
def _(n):
    return programs(*(perl(f"open F, '<', '{DATA}'; for (1 .. {count}) {{ sysseek F, 0, 0; sysread F, $b, 16 << 20; }}") for count in (1, n)))


@kind("tuning", "", "regex", 100, components=("run.user",))
def _(n):
    text = "my $s = join ' ', map {{ $_ * 7919 }} 1 .. 2000; my $k = 0; for (1 .. {n}) {{ $k++ while $s =~ /(\\d)\\1\\d*7/g; }}"
    return programs(perl(text.format(n=1)), perl(text.format(n=n)))


@kind("tuning", "", "digest", 100, components=("run.user",))
def _(n):
    text = "import hashlib\nb = bytes(1 << 18)\nfor i in range(%d): hashlib.sha256(b)"
    return programs(python(text % 1), python(text % n))


@kind("tuning", "", "plan", 20, components=("run.user",))
def _(n):
    # A join without an index.
    text = "CREATE TABLE t(a); " + rows(3000) + "INSERT INTO t SELECT i FROM c; "
    return programs(*(sqlite(text + "SELECT count(*) FROM t x, t y WHERE x.a <= %d AND (x.a * y.a) %% 7 = 3;" % count) for count in (1, n)))


@kind("tuning", "", "getrandom", 2000, components=("run.random",))
def _(n):
    text = "import os\nfor i in range(%d): os.urandom(8192)"
    return programs(python(text % 10), python(text % n))


@kind("tuning", "", "find", 2, components=("run.file.",))
def _(n):
    return programs(*(shell(f"i=0; while [ $i -lt {count} ]; do find /usr/share/perl /usr/include -size +9999k; i=$((i+1)); done") for count in (0, n)))


@kind("tuning", "", "chmod", 2000, components=("run.file.", "off.journal"))
def _(n):
    text = "open F, '>', '{{dir}}/c'; for my $i (1 .. {n}) {{ chmod 0600 + $i % 2, '{{dir}}/c'; }}".replace("{{dir}}", "DIR")
    return programs(*(perl(text.format(n=count).replace("DIR", "{dir}")) for count in (2, n)))


@kind("tuning", "", "signals", 4000, components=("run.task.signal", "run.user", "run.call.entry"))
def _(n):
    text = "import os, signal\nsignal.signal(signal.SIGUSR1, lambda *_: None)\nfor i in range(%d): os.kill(os.getpid(), signal.SIGUSR1)"
    return programs(python(text % 10), python(text % n))


@kind("tuning", "", "timers", 50, components=("idle", "off.timer"))
def _(n):
    text = "let i = 0; function step() {{ if (i++ < {n}) setTimeout(step, 4); }} step();"
    return programs(node(text.format(n=1)), node(text.format(n=n)))


@kind("tuning", "", "udp", 2000, components=("run.network",))
def _(n):
    text = ("import socket\na = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); a.bind(('127.0.0.1', 0))\n"
            "for i in range(%d): a.sendto(b'x' * 1000, a.getsockname()); a.recv(2000)")
    return programs(python(text % 10), python(text % n))


@kind("tuning", "", "unlink", 1000, components=("run.file.", "off.journal"))
def _(n):
    text = "for my $i (1 .. {n}) {{ open my $f, '>', 'DIR/u'; close $f; unlink 'DIR/u'; }}"
    return programs(*(perl(text.format(n=count).replace("DIR", "{dir}")) for count in (2, n)))


@kind("tuning", "", "pg-select", 20, components=("run.user",), also=("reads.more",))
def _(n):
    # As many statements; those of one side read many rows each, from the page cache what the server does not keep.
    sql = "SELECT sum(abalance) FROM pgbench_accounts WHERE aid <= {rows};"
    return programs(*(psql(sql.replace("{rows}", str(count)) * 20, "-c max_parallel_workers_per_gather=0") for count in (1, 1000 * n)))
