"""Kinds that were frozen once: programs, and ways of losing time, that rules were judged by twice on 2026-11-27. They have been looked at
since, so they are for tuning, like those of kinds.py.
"""

from cases import DATA, DIRTY, DROP, LOCKED_DOWN, NO_THP, QUEUE, THP, Side, fio, io_limited, memory_limited, merging, programs, remounted, toggled, work
from kinds import LIBC, beside, by_malloc, by_redis, cached, either, kind, neighbour, node, perl, protect, psql, python, quota, rows, shell, sqlite


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
    return either(python, text, "{shift}", ("0", "1048576"), settings={f"{THP}/enabled": "always"})


@kind("tuning", "map.churn", "sqlite", 1000, touches=("malloc",))
def _(n):
    churn = sqlite(rows(n) + "SELECT sum(length(CAST(substr(zeroblob(500000 + i), 2) AS TEXT))) FROM c;")
    return by_malloc(churn, 8388608, 131072, 67108864)


@kind("tuning", "fork.copies", "perl", 5, touches=("thp",))
def _(n):
    text = ("my $x = 'x' x (24 << 20); for (1 .. {n}) {{ my $p = {fork}; if (!$p) {{ sleep 100 while 1; }} "
            "for (my $i = 0; $i < (24 << 20); $i += 4096) {{ vec($x, $i, 8) = 1; }} if ($p > 1) {{ kill 9, $p; waitpid $p, 0; }} }}")
    return programs(*(perl(text.format(n=n, fork=fork)) for fork in ("1", "fork")), settings=NO_THP)


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
    return either(python, text, "{flag}", ("0", "os.O_DIRECT"))


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
    return toggled(python(text), DIRTY, "4000000000", "6291456")


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


# The second time: Ruby, PHP, Lua, Tcl, jq.


POOL = "/proc/sys/vm/nr_hugepages"


def ruby(text):
    return ["ruby", "-e", text]


def php(text):
    return ["php", "-d", "memory_limit=-1", "-r", text]


def lua(text):
    return ["lua5.4", "-e", text]


def tcl(text):
    return shell(f"echo '{text}' | tclsh")


# Ruby with functions of the C library: M maps, S sets, U unmaps, A advises, L locks.
RUBY_LIBC = ("require 'fiddle'; P, Z, I, O = Fiddle::TYPE_VOIDP, Fiddle::TYPE_SIZE_T, Fiddle::TYPE_INT, Fiddle::TYPE_LONG; D = Fiddle.dlopen(nil); "
             "def f(n, a) Fiddle::Function.new(D[n], a, O) end; M = f('mmap', [O, Z, I, I, I, O]); S = f('memset', [O, I, Z]); "
             "U = f('munmap', [O, Z]); A = f('madvise', [O, Z, I]); L = f('mlock', [O, Z]); ")


@kind("tuning", "thp.disabled", "ruby", 10, touches=("thp", "malloc"))
def _(n):
    return toggled(ruby(f"{n}.times {{ s = 'x' * (48 << 20) }}"), f"{THP}/enabled", "always", "never")


@kind("tuning", "thp.disabled", "php", 10, touches=("thp",))
def _(n):
    return toggled(php(f"for ($i = 0; $i < {n}; $i++) {{ $s = str_repeat('x', 64 << 20); unset($s); }}"), f"{THP}/enabled", "always", "madvise")


@kind("tuning", "thp.disabled", "array", 10, touches=("thp",))
def _(n):
    # One large array that grows.
    return toggled(python(f"import array\nfor i in range({n}): a = array.array('q', bytes(8)) * (6 << 20)"), f"{THP}/enabled", "always", "madvise")


@kind("tuning", "shmem.small_pages", "php", 5, touches=("thp",))
def _(n):
    text = (f"$x = str_repeat('x', 48 << 20); for ($i = 0; $i < {n}; $i++) {{ $m = shmop_open(77 + $i % 9, 'c', 0600, 48 << 20); "
            "shmop_write($m, $x, 0); shmop_delete($m); }")
    return toggled(php(text), f"{THP}/shmem_enabled", "always", "never")


@kind("tuning", "shmem.small_pages", "ruby", 5, touches=("thp",))
def _(n):
    text = RUBY_LIBC + f"{n}.times {{ p = M.call(0, 40 << 20, 3, 33, -1, 0); S.call(p, 1, 40 << 20); U.call(p, 40 << 20) }}"
    return toggled(ruby(text), f"{THP}/shmem_enabled", "always", "never")


@kind("tuning", "map.misaligned", "ruby", 50, touches=("thp",))
def _(n):
    text = RUBY_LIBC + f"{n}.times {{ p = M.call(0x300000000000 + SHIFT, 8 << 20, 3, 34, -1, 0); S.call(p, 1, 8 << 20); U.call(p, 8 << 20) }}"
    return either(ruby, text, "SHIFT", ("0", "65536"), settings={f"{THP}/enabled": "always"})


@kind("tuning", "map.churn", "ruby", 1000, touches=("malloc",))
def _(n):
    return by_malloc(ruby(f"{n}.times {{ s = 'x' * 600_000 }}"), 8388608, 98304, 134217728)


@kind("tuning", "map.churn", "lua", 1000, touches=("malloc",))
def _(n):
    return by_malloc(lua(f"for i = 1, {n} do local s = string.rep('x', 250000) if i % 20 == 0 then collectgarbage() end end"), 8388608, 98304, 134217728)


@kind("tuning", "fork.copies", "ruby", 5, touches=("thp",))
def _(n):
    text = (f"s = 'x' * (24 << 20); {n}.times {{ p = FORK; i = 0; while i < (24 << 20); s.setbyte(i, 1); i += 4096; end; "
            "if p then Process.kill(9, p); Process.wait(p) end }")
    return either(ruby, text, "FORK", ("nil", "fork { sleep }"), settings=NO_THP)


@kind("tuning", "fork.copies", "php", 5, touches=("thp",))
def _(n):
    text = (f"$s = str_repeat('x', 20 << 20); for ($k = 0; $k < {n}; $k++) {{ $p = FORK; if ($p === 0) {{ while (true) sleep(9); }} "
            "for ($i = 0; $i < (20 << 20); $i += 4096) $s[$i] = 'y'; if ($p > 0) { posix_kill($p, 9); pcntl_wait($t); } }")
    return either(php, text, "FORK", ("-1", "pcntl_fork()"), settings=NO_THP)


@kind("tuning", "tlb.shootdowns", "madvise", 3000)
def _(n):
    text = f"c.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]\np = c.mmap(None, 1 << 20, 3, 34, -1, 0)\nfor i in range({n}):\n c.memset(p, 1, 4096)\n c.madvise(p, 4096, 4)"
    return programs(*(beside(text, apart) for apart in (True, False)))


@kind("tuning", "tlb.shootdowns", "munmap", 3000)
def _(n):
    text = f"for i in range({n}):\n p = c.mmap(None, 8192, 3, 34, -1, 0)\n c.memset(p, 1, 8192)\n c.munmap(p, 8192)"
    return programs(*(beside(text, apart) for apart in (True, False)))


@kind("tuning", "ksm.separated", "ruby", 16, largest=10)
def _(n):
    text = RUBY_LIBC + (f"b = {n} << 20; p = M.call(0, b, 3, 34, -1, 0); A.call(p, b, 12); S.call(p, 7, b); sleep 0.7; S.call(p, 9, b)")
    return merging(ruby(text), "30000")


@kind("tuning", "memory.pinned", "ruby", 3)
def _(n):
    text = RUBY_LIBC + f"{n}.times {{ p = M.call(0, 48 << 20, 3, 34, -1, 0); S.call(p, 1, 4096); LOCK U.call(p, 48 << 20) }}"
    return either(ruby, text, "LOCK", ("", "raise 'mlock' if L.call(p, 48 << 20) != 0;"))


@kind("tuning", "hugetlb.pool_exhausted", "ruby", 5)
def _(n):
    text = RUBY_LIBC + (f"{n}.times {{ p = M.call(0, 64 << 20, 3, 34 | 0x40000, -1, 0); p = M.call(0, 64 << 20, 3, 34, -1, 0) if p == -1; "
                        "S.call(p, 1, 64 << 20); U.call(p, 64 << 20) }")
    return toggled(ruby(text), POOL, "64", "0")


@kind("tuning", "hugetlb.pool_exhausted", "java", 300, largest=10)
def _(n):
    heap = f"{min(max(n, 16), 800)}m"
    line = ["java", "-XX:+UseSerialGC", "-XX:+UseLargePages", "-XX:+AlwaysPreTouch", f"-Xms{heap}", f"-Xmx{heap}", "-version"]
    return toggled(line, POOL, "900", "0")


@kind("tuning", "cgroup.memory_limit", "b2sum", 2, touches=("readahead",))
def _(n):
    line = shell("for i in " + "x " * (n + 1) + "; do head -c 350M {dir}/large.data | b2sum; done")
    return memory_limited(line, "1G", "180M")


@kind("tuning", "cgroup.memory_limit", "ruby", 2, touches=("readahead",))
def _(n):
    text = f"f = File.open('{{dir}}/large.data'); {n + 1}.times {{ f.seek(0); 4800.times {{ f.sysread(65536) }} }}"
    return memory_limited(ruby(text), "1G", "150M")


@kind("tuning", "cache.cold", "b2sum", 16, touches=("readahead",))
def _(n):
    return cached(shell(f"head -c {min(n, 128)}M {DATA} | b2sum"))


@kind("tuning", "cache.cold", "ruby", 16, touches=("readahead",))
def _(n):
    return cached(ruby(f"f = File.open('{DATA}'); {8 * min(n, 128)}.times {{ f.sysread(131072) }}"))


@kind("tuning", "cache.cold", "php", 16, touches=("readahead",))
def _(n):
    return cached(php(f"$s = file_get_contents('{DATA}', false, null, 0, {min(n, 128)} << 20);"))


@kind("tuning", "readahead.reduced", "ruby", 16, touches=("readahead",))
def _(n):
    line = ruby(f"f = File.open('{DATA}'); {32 * min(n, 128)}.times {{ f.sysread(32768) }}")
    return toggled(line, f"{QUEUE}/read_ahead_kb", "1024", "16", before=DROP)


@kind("tuning", "readahead.reduced", "b2sum", 16, touches=("readahead",))
def _(n):
    return toggled(shell(f"head -c {min(n, 128)}M {DATA} | b2sum"), f"{QUEUE}/read_ahead_kb", "4096", "32", before=DROP)


@kind("tuning", "readahead.reduced", "lua", 16, touches=("readahead",))
def _(n):
    line = lua(f"local f = io.open('{DATA}') for i = 1, {16 * min(n, 128)} do f:read(65536) end")
    return toggled(line, f"{QUEUE}/read_ahead_kb", "512", "16", before=DROP)


@kind("tuning", "readahead.lost", "ruby", 8, touches=("readahead",))
def _(n):
    text = f"f = File.open('{DATA}'); f.advise(:ADVICE); {32 * min(n, 128)}.times {{ f.sysread(32768) }}"
    return either(ruby, text, "ADVICE", ("normal", "random"), before=DROP)


@kind("tuning", "io.smaller_requests", "ruby", 16)
def _(n):
    return programs(*(ruby(f"f = File.open('{DATA}'); {(min(n, 128) << 20) // bs}.times {{ f.sysread({bs}) }}") for bs in (1 << 19, 1024)))


@kind("tuning", "io.smaller_requests", "php", 16)
def _(n):
    text = "$f = fopen('{data}', 'r'); stream_set_read_buffer($f, 0); for ($i = 0; $i < {count}; $i++) fread($f, {bs});"
    return programs(*(php(text.replace("{data}", DATA).replace("{count}", str((min(n, 128) << 20) // bs)).replace("{bs}", str(bs))) for bs in (1 << 18, 2048)))


@kind("tuning", "io.smaller_requests", "ruby-write", 16)
def _(n):
    text = "f = File.open('{dir}/rb.data', 'r+') rescue f = File.open('{dir}/rb.data', 'w'); b = 'x' * BS; COUNT.times { f.syswrite(b) }"
    return programs(*(ruby(text.replace("BS", str(bs)).replace("COUNT", str((n << 20) // bs))) for bs in (1 << 18, 512)))


@kind("tuning", "io.direct", "dd-write", 16)
def _(n):
    line = ["dd", "if=/dev/zero", "of={dir}/dd.data", "bs=64k", f"count={16 * n}", "conv=notrunc"]
    return programs(line, [*line, "oflag=direct"])


@kind("tuning", "sync.more", "ruby", 50, touches=("dirty",))
def _(n):
    text = f"f = File.open('{{dir}}/rb.sync', 'w'); {n}.times {{ f.syswrite('x' * 6000); SYNC }}"
    return either(ruby, text, "SYNC", ("", "f.fsync"))


@kind("tuning", "sync.more", "php", 50, touches=("dirty",))
def _(n):
    text = f"$f = fopen('{{dir}}/php.sync', 'w'); for ($i = 0; $i < {n}; $i++) {{ fwrite($f, str_repeat('x', 4000)); SYNC }}"
    return either(php, text, "SYNC", ("", "fsync($f);"))


@kind("tuning", "sync.more", "fio-fdatasync", 16, touches=("dirty",))
def _(n):
    line = dict(filename="{dir}/fio.data", rw="randwrite", bs="8k", size="64m", io_size=f"{n * 64}k")
    return programs(*(fio("w", **line, **sync) for sync in ({}, {"fdatasync": 4})))


@kind("tuning", "writeback.throttled", "ruby", 100, touches=("dirty",))
def _(n):
    text = f"f = File.open('{{dir}}/rb.out', File::WRONLY | File::CREAT); b = 'x' * (1 << 19); {2 * n}.times {{ f.syswrite(b) }}"
    return toggled(ruby(text), DIRTY, "4000000000", "5242880")


@kind("tuning", "writeback.throttled", "cp", 100, touches=("dirty",))
def _(n):
    return toggled(shell(f"head -c {min(n, 2000)}M {{dir}}/large.data > {{dir}}/copy.out"), DIRTY, "4000000000", "8388608")


@kind("tuning", "cgroup.io_limit", "fio-rw", 4)
def _(n):
    mixed = fio("m", rw="randrw", bs="8k", size="64m", direct=1, io_size=f"{n}m")
    return io_limited(mixed, 1200)


@kind("tuning", "block.queue_settings", "fio-bfq", 16)
def _(n):
    deep = fio("d", rw="randread", bs="4k", size="64m", io_size=f"{n}m", direct=1, iodepth=16, ioengine="libaio")
    return toggled(deep, f"{QUEUE}/scheduler", "none", "bfq")


@kind("tuning", "mount.changed", "ruby", 200)
def _(n):
    line = ruby(f"{n}.times {{ |i| File.write(\"{{mount}}/r#{{i % 30}}\", 'x' * 500) }}")
    return remounted(line)


@kind("tuning", "mount.changed", "cp", 50)
def _(n):
    line = shell(f"i=0; while [ $i -lt {n} ]; do echo $i > {{mount}}/c$((i % 20)); i=$((i+1)); done")
    return remounted(line)


RUBY = ruby("s = 0; 35_000_000.times { |i| s += i & 7 }")
LUA = lua("local s = 0 for i = 1, 180000000 do s = s + (i & 7) end")
PHP = php("$s = 0; for ($i = 0; $i < 120000000; $i++) $s += $i & 7;")
TCL = tcl("for {set i 0; set s 0} {$i < 12000000} {incr i} {incr s [expr {$i & 7}]}")
B2SUM = shell("head -c 900M {dir}/large.data | b2sum")
JQ = shell("jq -n '[range(600000) | {a: ., b: (. * 2 | tostring)}] | map(select(.a % 3 == 0)) | length'")

for _name, _line in (("ruby", RUBY), ("php", PHP), ("tcl", TCL), ("jq", JQ)):
    kind("tuning", "cpu.quota", _name, dose=True)(quota(_line))
for _name, _line in (("ruby", RUBY), ("lua", LUA), ("php", PHP), ("b2sum", B2SUM)):
    kind("tuning", "cpu.neighbour", _name, dose=True)(neighbour(_line))


@kind("tuning", "cpu.crowded", "ruby", 20, largest=90)
def _(n):
    line = ruby(f"2.times {{ fork {{ s = 0; {100_000 * n}.times {{ |i| s += i }} }} }}; Process.waitall")
    return Side(line), Side(line, prefix=["taskset", "-c", "1"])


@kind("tuning", "cpu.crowded", "xargs", 8, largest=60)
def _(n):
    line = shell(f"seq {2 * n} | xargs -n 1 -P 2 sh -c 'head -c 4M {{dir}}/text.data | gzip -1 > /dev/null'")
    return Side(line), Side(line, prefix=["taskset", "-c", "0"])


@kind("tuning", "call.dearer", "ruby", 100000)
def _(n):
    line = ruby(f"{n}.times {{ Process.ppid }}")
    return programs(line, ["{work}", "exec", "filter=200", "--", *line])


@kind("tuning", "call.dearer", "php", 100000)
def _(n):
    line = php(f"for ($i = 0; $i < {n}; $i++) posix_getppid();")
    return programs(line, ["{work}", "exec", "filter=120", "--", *line])


@kind("tuning", "program.changed", "built", 100)
def _(n):
    line = ["{dir}/built", "spin", f"ops={n}", "thread_us=1000"]
    return tuple(Side(line, before=[["gcc", level, "-pthread", "-o", "{dir}/built", "{source}"]]) for level in ("-O2", "-O0"))


@kind("tuning", "program.starts", "find", 60)
def _(n):
    # One program for all files, or one for each.
    line = "find /usr/share/perl -type f | head -n {n} | xargs -n {each} wc -c > /dev/null"
    return programs(*(shell(line.replace("{n}", str(n)).replace("{each}", str(each))) for each in (1000, 1)))


@kind("tuning", "program.starts", "ruby", 60)
def _(n):
    return programs(*(ruby(f"{count}.times {{ `/bin/uname` }}") for count in (3, n)))


@kind("tuning", "reads.more", "ruby", 32)
def _(n):
    return programs(*(ruby(f"f = File.open('{DATA}'); b = +''; {count}.times {{ f.seek(0); f.sysread(12 << 20, b) }}") for count in (1, n)))


@kind("tuning", "reads.more", "php", 32)
def _(n):
    return programs(*(php(f"for ($i = 0; $i < {count}; $i++) {{ $s = file_get_contents('{DATA}', false, null, 0, 8 << 20); }}") for count in (1, n)))


@kind("tuning", "", "strings", 100, components=("run.user",))
def _(n):
    return programs(*(ruby(f"{count}.times {{ (1..4000).map(&:to_s).join(',').split(',').sort }}") for count in (1, n)))


@kind("tuning", "", "md5", 100, components=("run.user",))
def _(n):
    return programs(*(php(f"for ($i = 0; $i < {1000 * count}; $i++) md5('x' . $i);") for count in (1, n)))


@kind("tuning", "", "sort", 20, components=("run.user",))
def _(n):
    text = "local t = {} for k = 1, {n} do for i = 1, 20000 do t[i] = (i * 7919) % 20011 end table.sort(t) end"
    return either(lua, text, "{n}", (1, n))


@kind("tuning", "", "jq", 20, components=("run.user",))
def _(n):
    return programs(*(shell(f"jq -n '[range({2000 * count}) | tostring] | sort | length'") for count in (1, n)))


@kind("tuning", "", "level", 4, components=("run.user",))
def _(n):
    return programs(*(shell(f"head -c {n}M {{dir}}/text.data | gzip {level} > /dev/null") for level in ("-1", "-9")))


@kind("tuning", "", "index", 20, components=("run.user",))
def _(n):
    text = "CREATE TABLE t(a, b); INDEX " + rows(2000 * n) + "INSERT INTO t SELECT i * 7919 % 100003, hex(i) FROM c;"
    return either(sqlite, text, "INDEX", ("", "CREATE INDEX j ON t(a); CREATE INDEX k ON t(b);"))


@kind("tuning", "", "bandwidth", 20, components=("run.user",), touches=("thp",))
def _(n):
    text = "a = bytearray(8 << 20); b = bytearray(8 << 20)\nfor i in range(%d): a[:] = b"
    return programs(python(text % 1), python(text % n))


@kind("tuning", "", "yield", 20000, components=("run.call.entry", "run.task.", "run.user"))
def _(n):
    text = "import os\nfor i in range(%d): os.sched_yield()"
    return programs(python(text % 10), python(text % n))


@kind("tuning", "", "mkdir", 500, components=("run.file.", "off.journal"))
def _(n):
    return programs(*(ruby(f"{count}.times {{ Dir.mkdir('{{dir}}/rd'); Dir.rmdir('{{dir}}/rd') }}") for count in (2, n)))


@kind("tuning", "", "symlink", 1000, components=("run.file.", "off.journal"))
def _(n):
    text = "for my $i (1 .. COUNT) { symlink '/x', '{dir}/ln'; readlink '{dir}/ln'; unlink '{dir}/ln'; }"
    return either(perl, text, "COUNT", (2, n))


@kind("tuning", "", "xattr", 1000, components=("run.file.", "off.journal"))
def _(n):
    text = "import os\nopen('{dir}/xa', 'w')\nfor i in range(%d): os.setxattr('{dir}/xa', 'user.a', b'%%d' %% (i %% 9))"
    return programs(python(text % 2), python(text % n))


@kind("tuning", "", "missing", 5000, components=("run.file.", "run.user"))
def _(n):
    return programs(*(php(f"for ($i = 0; $i < {count}; $i++) file_exists('/nowhere/' . $i);") for count in (5, n)))


@kind("tuning", "", "stream", 20, components=("run.network", "ready.", "off.dependent", "idle", "run.interrupt"))
def _(n):
    text = ("require 'socket'; s = TCPServer.new('127.0.0.1', 0); p = fork {{ c = TCPSocket.new('127.0.0.1', s.addr[1]); b = 'x' * 65536; "
            "{count}.times {{ c.write(b) }}; c.close }}; c = s.accept; while c.read(65536); end; Process.wait(p)")
    return programs(*(ruby(text.format(count=count)) for count in (2, 20 * n)))


@kind("tuning", "", "pipe-self", 4000, components=("run.task.pipe", "run.task.", "run.file.call", "run.call.entry", "run.user"))
def _(n):
    return programs(*(ruby(f"r, w = IO.pipe; b = 'x' * 64; {count}.times {{ w.syswrite(b); r.sysread(64) }}") for count in (10, n)))


@kind("tuning", "", "threads", 500, components=("run.task.", "run.user", "ready.", "run.space.", "idle", "off.dependent"))
def _(n):
    text = "import threading\nfor i in range(%d):\n t = threading.Thread(target=int)\n t.start()\n t.join()"
    return programs(python(text % 5), python(text % n))


@kind("tuning", "", "naps", 50, components=("idle", "off.timer"))
def _(n):
    return programs(*(ruby(f"{count}.times {{ sleep 0.002 }}") for count in (1, n)))


@kind("tuning", "", "flock", 4000, components=("run.file.", "run.task.", "run.user", "run.call.entry"))
def _(n):
    text = "open F, '>', '{dir}/fl'; for my $i (1 .. COUNT) { flock F, 2; flock F, 8; }"
    return either(perl, text, "COUNT", (5, n))


@kind("tuning", "", "mapped-write", 4, components=("run.fault.", "run.file.", "run.memory."))
def _(n):
    text = ("import mmap\nf = open('{dir}/mw', 'w+b')\nf.truncate(16 << 20)\nm = mmap.mmap(f.fileno(), 16 << 20)\nfor i in range(%d):\n"
            " m[::4096] = bytes(4096)\n m.flush()")
    return programs(python(text % 1), python(text % n))


@kind("tuning", "", "truncate", 1000, components=("run.file.", "off.journal"))
def _(n):
    text = "f = open('{dir}/tr', 'wb', buffering=0)\nfor i in range(%d):\n f.truncate(1 << 20)\n f.truncate(0)"
    return programs(python(text % 2), python(text % n))


@kind("tuning", "", "generate", 20, components=("run.user",))
def _(n):
    sql = "SELECT sum(sqrt(i)) FROM generate_series(1, {rows}) i;"
    return either(psql, sql, "{rows}", (10, 5000 * n))


@kind("tuning", "", "rusage", 20000, components=("run.call.entry", "run.task.", "run.user", "run.other"))
def _(n):
    text = "import resource\nfor i in range(%d): resource.getrusage(resource.RUSAGE_SELF)"
    return programs(python(text % 10), python(text % n))


@kind("tuning", "", "smaps", 100, components=("run.file.", "run.space.", "run.other", "run.user"))
def _(n):
    text = "for i in range(%d): open('/proc/self/smaps').read()"
    return programs(python(text % 2), python(text % n))


@kind("tuning", "", "script", 1000, components=("run.user",))
def _(n):
    # As many calls of a server; each does more.
    calls = 'redis-cli -s {dir}/redis.sock -r 50 eval "local s = 0 for i = 1, COUNT do s = s + i end return s" 0'
    return either(by_redis, calls, "COUNT", (10, 100 * n))
