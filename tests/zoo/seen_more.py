"""Kinds that were frozen once, as those of seen.py: the rules were judged by them on 2026-11-27 and 2026-11-28. They have been looked at
since, so they are for tuning.
"""

from cases import DATA, DIRTY, DROP, LOCKED_DOWN, NO_THP, QUEUE, THP, Side, fio, io_limited, memory_limited, merging, programs, remounted, toggled
from kinds import beside, by_malloc, cached, either, kind, neighbour, python, quota, shell

# LuaJIT with functions of the C library.
LUAJIT_LIBC = """local ffi = require('ffi') ffi.cdef[[
void *mmap(void *, size_t, int, int, int, long); int munmap(void *, size_t); int madvise(void *, size_t, int); int mlock(const void *, size_t);
void *memset(void *, int, size_t); void *malloc(size_t); void free(void *); int memfd_create(const char *, unsigned); int ftruncate(int, long);
int fork(void); int kill(int, int); int waitpid(int, int *, int); int pause(void); void _exit(int); int usleep(unsigned); int getppid(void);
int open(const char *, int, ...); int close(int); long read(int, void *, size_t); long pread(int, void *, size_t, long); long write(int, const void *, size_t);
long pwrite(int, const void *, size_t, long); int fsync(int); int posix_fadvise(int, long, long, int); ]]
local C = ffi.C
local function map(bytes, flags, fd, at) return ffi.cast('char *', C.mmap(ffi.cast('void *', at or 0), bytes, 3, flags or 34, fd or -1, 0)) end
local function file(path, flags) local fd = C.open(path, flags or 0, ffi.cast('int', 420)) assert(fd >= 0, path) return fd end
"""


def luajit(text):
    return ["luajit", "-e", LUAJIT_LIBC + text]


def pypy(text):
    return ["pypy3", "-c", text]


def guile(text):
    return ["guile", "--no-auto-compile", "-c", text]


def sbcl(text):
    return ["sbcl", "--noinform", "--disable-debugger", "--no-userinit", "--no-sysinit", "--eval", text, "--quit"]


def gforth(text):
    return ["gforth", "-e", text + " bye"]


def prolog(text):
    return ["swipl", "-q", "-g", text, "-t", "halt"]


def gawk(text):
    return ["gawk", f"BEGIN {{ {text} }}"]


# Memory.


@kind("tuning", "thp.disabled", "luajit", 10, touches=("thp",))
def _(n):
    return toggled(luajit(f"for i = 1, {n} do local p = map(56 * 1048576) C.memset(p, 1, 56 * 1048576) C.munmap(p, 56 * 1048576) end"), f"{THP}/enabled", "always", "never")


@kind("tuning", "thp.disabled", "pypy", 10, touches=("thp", "malloc"))
def _(n):
    return toggled(pypy(f"for i in range({n}): b = bytearray(72 << 20); del b"), f"{THP}/enabled", "always", "madvise")


@kind("tuning", "thp.disabled", "gawk", 5, touches=("thp", "malloc"))
def _(n):
    return toggled(gawk(f'for (j = 0; j < {n}; j++) {{ s = sprintf("%50000000s", "") }}'), f"{THP}/enabled", "always", "never")


@kind("tuning", "shmem.small_pages", "luajit", 5, touches=("thp",))
def _(n):
    text = (f"for i = 1, {n} do local fd = C.memfd_create('m', 0) C.ftruncate(fd, 40 * 1048576) local p = map(40 * 1048576, 1, fd) "
            "C.memset(p, 1, 40 * 1048576) C.munmap(p, 40 * 1048576) C.close(fd) end")
    return toggled(luajit(text), f"{THP}/shmem_enabled", "always", "never")


@kind("tuning", "shmem.small_pages", "pypy", 5, touches=("thp",))
def _(n):
    text = f"import mmap\nx = bytes(56 << 20)\nfor i in range({n}):\n m = mmap.mmap(-1, 56 << 20)\n m[:] = x\n m.close()"
    return toggled(pypy(text), f"{THP}/shmem_enabled", "always", "never")


@kind("tuning", "map.misaligned", "luajit", 50, touches=("thp",))
def _(n):
    text = f"for i = 1, {n} do local p = map(4 * 1048576, 34, -1, 0x300000000000 + SHIFT) C.memset(p, 1, 4 * 1048576) C.munmap(p, 4 * 1048576) end"
    return either(luajit, text, "SHIFT", (0, 524288), settings={f"{THP}/enabled": "always"})


@kind("tuning", "map.churn", "luajit", 1000, touches=("malloc",))
def _(n):
    text = f"for i = 1, {n} do local p = C.malloc(350000) C.memset(p, 1, 350000) C.free(p) end"
    return by_malloc(luajit(text), 8388608, 131072, 134217728)


@kind("tuning", "map.churn", "gawk", 1000, touches=("malloc",))
def _(n):
    return by_malloc(gawk(f'for (j = 0; j < {n}; j++) {{ s = sprintf("%400000s", "") }}'), 8388608, 131072, 134217728)


@kind("tuning", "fork.copies", "luajit", 5, touches=("thp",))
def _(n):
    text = (f"local p = map(20 * 1048576) C.memset(p, 1, 20 * 1048576) for i = 1, {n} do local c = FORK if c == 0 then while true do C.pause() end end "
            "for j = 0, 20 * 1048576 - 1, 4096 do p[j] = 2 end if c > 0 then C.kill(c, 9) C.waitpid(c, nil, 0) end end")
    return either(luajit, text, "FORK", ("-1", "C.fork()"), settings=NO_THP)


@kind("tuning", "fork.copies", "pypy", 5, touches=("thp",))
def _(n):
    text = (f"import os, signal, mmap\nb = mmap.mmap(-1, 16 << 20, flags=34)\nx = bytes(16 << 20)\nb[:] = x\nfor i in range({n}):\n p = FORK\n"
            " if p == 0: signal.pause()\n b[:] = x\n if p > 0: os.kill(p, 9); os.waitpid(p, 0)")
    return either(pypy, text, "FORK", ("-1", "os.fork()"), settings=NO_THP)


@kind("tuning", "tlb.shootdowns", "mremap", 3000)
def _(n):
    text = ("c.mremap.restype = ctypes.c_void_p\nc.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]\n"
            f"p = c.mmap(None, 8192, 3, 34, -1, 0)\nq = c.mmap(None, 8192, 3, 34, -1, 0)\nfor i in range({n}):\n c.memset(p, 1, 8192)\n"
            " p, q = c.mremap(p, 8192, 8192, 3, q), p")
    return programs(*(beside(text, apart) for apart in (True, False)))


@kind("tuning", "ksm.separated", "luajit", 16, largest=10)
def _(n):
    text = f"local b = {n} * 1048576 local p = map(b) C.madvise(p, b, 12) C.memset(p, 7, b) C.usleep(700000) C.memset(p, 9, b)"
    return merging(luajit(text), "30000")


@kind("tuning", "memory.pinned", "luajit", 3)
def _(n):
    text = f"for i = 1, {n} do local p = map(40 * 1048576) C.memset(p, 1, 4096) LOCK C.munmap(p, 40 * 1048576) end"
    return either(luajit, text, "LOCK", ("", "assert(C.mlock(p, 40 * 1048576) == 0)"))


if LOCKED_DOWN is False:
    @kind("tuning", "faultaround.reduced", "luajit", 2)
    def _(n):
        text = (f"local fd, s = file('{DATA}'), 0 for i = 1, {n} do local p = ffi.cast('char *', C.mmap(nil, 64 * 1048576, 1, 2, fd, 0)) "
                "for j = 0, 64 * 1048576 - 1, 4096 do s = s + p[j] end C.munmap(p, 64 * 1048576) end")
        return toggled(luajit(text), "{debug}/fault_around_bytes", "65536", "4096")


# Reclaim and the page cache.


@kind("tuning", "cgroup.memory_limit", "luajit", 2000, touches=("readahead",))
def _(n):
    # Pages anywhere in a file that fits on one side only.
    text = ("local fd, b, at = file('{dir}/large.data'), ffi.new('char[65536]'), 1 for i = 1, 3200 do C.pread(fd, b, 65536, (i - 1) * 65536) end "
            f"for i = 1, {n} do at = (at * 16807) % 2147483647 C.pread(fd, b, 4096, (at % 51200) * 4096) end")
    return memory_limited(luajit(text), "1G", "150M")


@kind("tuning", "cache.cold", "lz4", 16, touches=("readahead",))
def _(n):
    return cached(shell(f"head -c {min(n, 128)}M {DATA} | lz4 -1 -c"))


@kind("tuning", "cache.cold", "busybox", 16, touches=("readahead",))
def _(n):
    return cached(shell(f"busybox head -c {min(n, 128) << 20} {DATA} | busybox crc32"))


@kind("tuning", "cache.cold", "luajit", 16, touches=("readahead",))
def _(n):
    return cached(luajit(f"local fd, b = file('{DATA}'), ffi.new('char[262144]') for i = 1, {4 * min(n, 128)} do C.read(fd, b, 262144) end"))


@kind("tuning", "cache.cold", "guile", 16, touches=("readahead",))
def _(n):
    text = f"(use-modules (rnrs io ports)) (define p (open-file \"{DATA}\" \"rb\")) (do ((i 0 (+ i 1))) ((= i {16 * min(n, 128)})) (get-bytevector-n p 65536))"
    return cached(guile(text))


# Files and devices.


@kind("tuning", "readahead.reduced", "luajit", 16, touches=("readahead",))
def _(n):
    line = luajit(f"local fd, b = file('{DATA}'), ffi.new('char[49152]') for i = 1, {20 * min(n, 128)} do C.read(fd, b, 49152) end")
    return toggled(line, f"{QUEUE}/read_ahead_kb", "1024", "16", before=DROP)


@kind("tuning", "readahead.reduced", "busybox", 16, touches=("readahead",))
def _(n):
    line = ["busybox", "dd", f"if={DATA}", "of=/dev/null", "bs=16k", f"count={64 * min(n, 128)}"]
    return toggled(line, f"{QUEUE}/read_ahead_kb", "2048", "16", before=DROP)


@kind("tuning", "readahead.reduced", "pypy", 16, touches=("readahead",))
def _(n):
    line = pypy(f"f = open('{DATA}', 'rb', buffering=0)\nfor i in range({8 * min(n, 128)}): f.read(131072)")
    return toggled(line, f"{QUEUE}/read_ahead_kb", "4096", "64", before=DROP)


@kind("tuning", "readahead.lost", "luajit", 8, touches=("readahead",))
def _(n):
    text = f"local fd, b = file('{DATA}'), ffi.new('char[16384]') C.posix_fadvise(fd, 0, 0, ADVICE) for i = 1, {64 * min(n, 128)} do C.read(fd, b, 16384) end"
    return either(luajit, text, "ADVICE", (2, 1), before=DROP)


@kind("tuning", "readahead.lost", "pypy", 8, touches=("readahead",))
def _(n):
    # Blocks of a file in sequence, and the same blocks in another order.
    blocks = 64 * min(n, 128)
    text = f"import os, random\nf = os.open('{DATA}', os.O_RDONLY)\nblocks = list(range({blocks}))\nif ORDER: random.Random(1).shuffle(blocks)\nfor i in blocks: os.pread(f, 16384, i * 16384)"
    return either(pypy, text, "ORDER", (0, 1), before=DROP)


@kind("tuning", "io.smaller_requests", "luajit", 16)
def _(n):
    text = f"local fd, b = file('{DATA}'), ffi.new('char[524288]') for i = 1, {min(n, 128) << 20} / BS do C.read(fd, b, BS) end"
    return either(luajit, text, "BS", (1 << 19, 1024))


@kind("tuning", "io.smaller_requests", "busybox", 16)
def _(n):
    return programs(*(["busybox", "dd", f"if={DATA}", "of=/dev/null", f"bs={bs}", f"count={(min(n, 128) << 20) // bs}"] for bs in (1 << 18, 512)))


@kind("tuning", "io.smaller_requests", "luajit-write", 16)
def _(n):
    text = f"local fd, b = file('{{dir}}/lj.data', 66), ffi.new('char[262144]') for i = 1, {n << 20} / BS do C.pwrite(fd, b, BS, (i - 1) * BS % 67108864) end"
    return either(luajit, text, "BS", (1 << 18, 1024))


@kind("tuning", "io.direct", "luajit", 16)
def _(n):
    text = f"local fd, b = file('{DATA}', FLAGS), map(131072) for i = 1, {8 * min(n, 128)} do assert(C.read(fd, b, 131072) > 0) end"
    return either(luajit, text, "FLAGS", (0, 0x4000))


@kind("tuning", "io.direct", "luajit-write", 16)
def _(n):
    text = f"local fd, b = file('{{dir}}/lj.direct', FLAGS), map(32768) for i = 1, {32 * n} do assert(C.pwrite(fd, b, 32768, i % 2048 * 32768) > 0) end"
    return either(luajit, text, "FLAGS", (66, 66 + 0x4000))


@kind("tuning", "sync.more", "luajit", 50, touches=("dirty",))
def _(n):
    text = f"local fd, b = file('{{dir}}/lj.sync', 66), ffi.new('char[12288]') for i = 1, {n} do C.write(fd, b, 12288) SYNC end"
    return either(luajit, text, "SYNC", ("", "C.fsync(fd)"))


@kind("tuning", "sync.more", "pypy", 50, touches=("dirty",))
def _(n):
    text = f"import os\nf = os.open('{{dir}}/pp.sync', os.O_RDWR | os.O_CREAT | FLAG)\nfor i in range({n}): os.pwrite(f, b'x' * 4096, i * 4096)"
    return either(pypy, text, "FLAG", ("0", "os.O_DSYNC"))


@kind("tuning", "sync.more", "rsync", 20, touches=("dirty",))
def _(n):
    files = f"rm -rf {{dir}}/rs; mkdir -p {{dir}}/rs/from; cd {{dir}}/rs/from; head -c {n * 20000} ../../text.data | split -b 20000 -a 4; sync -f ."
    return tuple(Side(["rsync", "-r", *options, "{dir}/rs/from", "{dir}/rs/to"], before=[["sh", "-c", files]]) for options in ([], ["--fsync"]))


@kind("tuning", "writeback.throttled", "luajit", 100, touches=("dirty",))
def _(n):
    text = f"local fd, b = file('{{dir}}/lj.out', 66), ffi.new('char[1048576]') for i = 1, {n} do C.pwrite(fd, b, 1048576, i % 1000 * 1048576) end"
    return toggled(luajit(text), DIRTY, "4000000000", "6291456")


@kind("tuning", "writeback.throttled", "busybox", 100, touches=("dirty",))
def _(n):
    return toggled(["busybox", "dd", "if=/dev/zero", "of={dir}/bb.out", "bs=512k", f"count={2 * n}", "conv=notrunc"], DIRTY, "4000000000", "8388608")


@kind("tuning", "cgroup.io_limit", "luajit", 4)
def _(n):
    text = f"local fd, b, at = file('{DATA}', 0x4000), map(4096), 1 for i = 1, {256 * n} do at = (at * 16807) % 2147483647 C.pread(fd, b, 4096, at % 32768 * 4096) end"
    return io_limited(luajit(text), 1800)


@kind("tuning", "cgroup.io_limit", "fio-write", 4)
def _(n):
    return io_limited(fio("w", rw="randwrite", bs="16k", size="64m", direct=1, io_size=f"{n}m"), 900)


@kind("tuning", "block.queue_settings", "fio-write", 16)
def _(n):
    deep = fio("d", rw="randwrite", bs="4k", size="64m", io_size=f"{n}m", direct=1, iodepth=16, ioengine="libaio")
    return toggled(deep, f"{QUEUE}/scheduler", "none", "bfq")


@kind("tuning", "block.queue_settings", "nr-requests", 128, touches=("readahead", "io"))
def _(n):
    line = fio("q", filename="{dir}/large.data", rw="randread", bs="4k", size="1g", io_size=f"{n}m", direct=1, iodepth=64, ioengine="io_uring")
    return toggled(line, f"{QUEUE}/nr_requests", "256", "4")


@kind("tuning", "mount.changed", "luajit", 200)
def _(n):
    text = f"local b = ffi.new('char[700]') for i = 1, {n} do local fd = file('{{mount}}/l' .. i % 25, 66) C.write(fd, b, 700) C.close(fd) end"
    return remounted(luajit(text))


@kind("tuning", "mount.changed", "rsync", 50)
def _(n):
    files = f"rm -rf {{mount}}/rs {{dir}}/rs2; mkdir {{dir}}/rs2; cd {{dir}}/rs2; head -c {n * 3000} ../text.data | split -b 3000 -a 5"
    return tuple(Side(["rsync", "-r", "{dir}/rs2", "{mount}/rs"], before=[["mount", "-o", f"remount,{option}", "{mount}"], ["sh", "-c", files]]) for option in ("async", "sync"))


# The processor.


LUAJIT = ["luajit", "-e", "local s = 0 for i = 1, 190000000 do s = s + i % 7 end"]
SBCL = sbcl("(let ((s 0)) (declare (fixnum s)) (dotimes (i 1200000000) (setf s (logand (+ s i) 1048575))) (print s))")
PYPY = pypy("s = 0\nfor i in range(700000000): s = (s + i) & 1048575")
GFORTH = gforth(": t 0 260000000 0 do i 7 and + loop drop ; t")
GUILE = guile("(let loop ((i 0) (s 0)) (if (< i 6000000) (loop (+ i 1) (logand (+ s i) 1048575))))")
PIGZ = shell("head -c 60M {dir}/text.data | pigz -p 1 -4 -c")
SEVEN = shell("head -c 14M {dir}/text.data | 7z a -bd -mx=2 -mmt=1 -si -so -txz x")
BROTLI = shell("head -c 40M {dir}/text.data | brotli -q 4 -c")
GAWK = gawk("for (i = 0; i < 14000000; i++) s += i % 7")

for _name, _line in (("luajit", LUAJIT), ("sbcl", SBCL), ("pypy", PYPY), ("7z", SEVEN)):
    kind("tuning", "cpu.quota", _name, dose=True)(quota(_line))
for _name, _line in (("gforth", GFORTH), ("guile", GUILE), ("pigz", PIGZ), ("brotli", BROTLI), ("gawk", GAWK)):
    kind("tuning", "cpu.neighbour", _name, dose=True)(neighbour(_line))


@kind("tuning", "cpu.crowded", "pigz", 8, largest=60)
def _(n):
    line = shell(f"head -c {min(n, 300)}M {{dir}}/text.data | pigz -p 2 -4 -c")
    return Side(line), Side(line, prefix=["taskset", "-c", "1"])


@kind("tuning", "cpu.crowded", "luajit", 20, largest=90)
def _(n):
    text = f"local c = C.fork() local s = 0 for i = 1, {10_000_000 * n} do s = s + i % 7 end if c == 0 then C._exit(0) end C.waitpid(c, nil, 0)"
    return Side(luajit(text)), Side(luajit(text), prefix=["taskset", "-c", "0"])


@kind("tuning", "call.dearer", "luajit", 100000)
def _(n):
    line = luajit(f"for i = 1, {n} do C.getppid() end")
    return programs(line, ["{work}", "exec", "filter=200", "--", *line])


@kind("tuning", "call.dearer", "guile", 100000)
def _(n):
    line = guile(f"(do ((i 0 (+ i 1))) ((= i {n})) (getppid))")
    return programs(line, ["{work}", "exec", "filter=300", "--", *line])


@kind("tuning", "program.changed", "library", 20)
def _(n):
    source = "unsigned f(unsigned n) { unsigned s = 1, i; for (i = 0; i < n; i++) s = s * 31 + (s >> 7); return s; }"
    line = luajit(f"ffi.cdef[[unsigned f(unsigned);]] ffi.load('{{dir}}/libf.so').f({5_000_000 * n})")
    return tuple(Side(line, before=[["sh", "-c", f"echo '{source}' | gcc {level} -shared -fPIC -x c -o {{dir}}/libf.so -"]]) for level in ("-O2", "-O0"))


@kind("tuning", "program.changed", "checked", 20)
def _(n):
    source = "unsigned s = 1; int main(int c, char **v) { unsigned i, n = atoi(v[1]); static unsigned t[4096]; for (i = 0; i < n; i++) t[(s = s * 31 + t[i % 4096]) % 4096] += i; return 0; }"
    line = ["{dir}/checked", str(2_000_000 * n)]
    return tuple(Side(line, before=[["sh", "-c", f"echo '#include <stdlib.h>\n{source}' | gcc -O2 {more} -Wl,--build-id -x c -o {{dir}}/checked -"]])
                 for more in ("", "-fsanitize=undefined,bounds -fno-sanitize-recover"))


# More of the same work.


@kind("tuning", "program.starts", "luajit", 60)
def _(n):
    return either(luajit, "for i = 1, COUNT do os.execute('/bin/hostname > /dev/null') end", "COUNT", (3, n))


@kind("tuning", "program.starts", "pypy", 60)
def _(n):
    return either(pypy, "import subprocess\nfor i in range(COUNT): subprocess.call(['/usr/bin/nproc'], stdout=-3)", "COUNT", (3, n))


@kind("tuning", "reads.more", "luajit", 32)
def _(n):
    text = f"local fd, b = file('{DATA}'), ffi.new('char[4194304]') for i = 1, COUNT do C.pread(fd, b, 4194304, 0) end"
    return either(luajit, text, "COUNT", (2, 3 * n))


# Causes that no rule knows.


@kind("tuning", "", "concat", 20, components=("run.user",))
def _(n):
    return either(luajit, "for k = 1, COUNT do local t = {} for i = 1, 40000 do t[i] = tostring(i) end table.concat(t, ',') end", "COUNT", (1, n))


@kind("tuning", "", "bignum", 40, components=("run.user",))
def _(n):
    return either(sbcl, "(dotimes (i COUNT) (let ((x 1)) (dotimes (k 900) (setf x (* x (+ k 3))))))", "COUNT", (1, n))


@kind("tuning", "", "assoc", 20, components=("run.user",))
def _(n):
    return either(guile, "(define l (iota 2000)) (do ((k 0 (+ k 1))) ((= k COUNT)) (do ((i 0 (+ i 1))) ((= i 60)) (memv (* i 33) l)))", "COUNT", (1, 40 * n))


@kind("tuning", "", "loop", 20, components=("run.user",))
def _(n):
    return either(gforth, ": t COUNT 0 do 200000 0 do i drop loop loop ; t", "COUNT", (1, 10 * n))


@kind("tuning", "", "prove", 20, components=("run.user",))
def _(n):
    return either(prolog, "forall(between(1, COUNT, _), (numlist(1, 20000, L), sum_list(L, _), reverse(L, _)))", "COUNT", (1, n))


@kind("tuning", "", "gsub", 20, components=("run.user",))
def _(n):
    return either(gawk, 'for (k = 0; k < COUNT; k++) { s = sprintf("%3000s", "x"); gsub(/ /, "ab", s); gsub(/ab+/, "c", s) }', "COUNT", (1, 20 * n))


@kind("tuning", "", "quality", 2, components=("run.user",))
def _(n):
    return programs(*(shell(f"head -c {n}M {{dir}}/text.data | brotli -q {level} -c") for level in (1, 7)))


@kind("tuning", "", "lz4-level", 8, components=("run.user",))
def _(n):
    return programs(*(shell(f"head -c {min(n, 50)}M {{dir}}/text.data | lz4 -{level} -c") for level in (1, 9)))


@kind("tuning", "", "dict", 20, components=("run.user",))
def _(n):
    return either(pypy, "for k in range(COUNT): d = {}; [d.__setitem__(i * 7919 % 10007, i) for i in range(60000)]", "COUNT", (1, 4 * n))


@kind("tuning", "", "dup", 20000, components=("run.file.", "run.user", "run.call.entry"))
def _(n):
    return either(pypy, "import os\nfor i in range(COUNT): os.close(os.dup(1))", "COUNT", (10, n))


@kind("tuning", "", "access", 20000, components=("run.file.", "run.user", "run.call.entry"))
def _(n):
    return either(pypy, "import os\nfor i in range(COUNT): os.access('/usr/share/doc/bash/copyright', os.R_OK)", "COUNT", (10, n))


@kind("tuning", "", "fallocate", 500, components=("run.file.", "off.journal"))
def _(n):
    text = "import os\nf = os.open('{dir}/fa', os.O_RDWR | os.O_CREAT)\nfor i in range(COUNT): os.posix_fallocate(f, 0, 1 << 20); os.ftruncate(f, 0)"
    return either(pypy, text, "COUNT", (2, n))


@kind("tuning", "", "link", 1000, components=("run.file.", "off.journal"))
def _(n):
    text = "import os\nopen('{dir}/la', 'w').close()\nfor i in range(COUNT): os.link('{dir}/la', '{dir}/lb'); os.unlink('{dir}/lb')"
    return either(pypy, text, "COUNT", (2, n))


@kind("tuning", "", "utime", 2000, components=("run.file.", "off.journal"))
def _(n):
    text = "import os\nopen('{dir}/ut', 'w').close()\nfor i in range(COUNT): os.utime('{dir}/ut', (i, i))"
    return either(pypy, text, "COUNT", (2, n))


@kind("tuning", "", "children", 100, components=("run.task.", "run.space.", "run.fault.", "run.memory.", "off.dependent"), also=("fork.copies",))
def _(n):
    # Processes that start nothing and end.
    return either(luajit, "for i = 1, COUNT do local c = C.fork() if c == 0 then C._exit(0) end C.waitpid(c, nil, 0) end", "COUNT", (2, n))


@kind("tuning", "", "unix-socket", 2000, components=("run.network", "run.file.", "run.user", "run.call.entry", "run.other"))
def _(n):
    text = ("import socket, os\ns = socket.socket(socket.AF_UNIX); p = '\\0zoo%d' % os.getpid(); s.bind(p); s.listen(8)\n"
            "for i in range(COUNT):\n c = socket.socket(socket.AF_UNIX); c.connect(p); a, _ = s.accept(); a.close(); c.close()")
    return either(pypy, text, "COUNT", (5, n))


@kind("tuning", "", "connect", 500, components=("run.network", "run.interrupt", "run.file.", "run.user"))
def _(n):
    text = ("import socket\ns = socket.create_server(('127.0.0.1', 0))\n"
            "for i in range(COUNT):\n c = socket.create_connection(s.getsockname()); a, _ = s.accept(); a.close(); c.close()")
    return either(pypy, text, "COUNT", (5, n))


@kind("tuning", "", "memcached", 2000, components=("run.network", "ready.", "run.task.", "off.dependent", "run.interrupt", "run.user", "idle"))
def _(n):
    text = ("import socket, subprocess, time, os\np = subprocess.Popen(['memcached', '-u', 'root', '-p', '0', '-s', '{dir}/mc.sock', '-t', '1'])\n"
            "s = socket.socket(socket.AF_UNIX)\nfor i in range(200):\n try: s.connect('{dir}/mc.sock'); break\n except OSError: time.sleep(0.02)\n"
            "for i in range(COUNT): s.sendall(b'set k%d 0 0 3\\r\\nabc\\r\\n' % (i % 100)); s.recv(100)\np.kill(); p.wait()")
    return either(python, text, "COUNT", (5, n))


LUAJIT_QUEUE = ("ffi.cdef[[int msgget(int, int); int msgsnd(int, const void *, size_t, int); long msgrcv(int, void *, size_t, long, int); "
                "int msgctl(int, int, void *);]] local Q = ffi.C local q, b = Q.msgget(0, 950), ffi.new('long[16]', 1) ")


@kind("tuning", "", "messages", 4000, components=("run.task.", "run.file.", "run.call.entry", "run.user", "run.other", "run.memory."))
def _(n):
    text = LUAJIT_QUEUE + "for i = 1, COUNT do Q.msgsnd(q, b, 64, 0) Q.msgrcv(q, b, 64, 0, 0) end Q.msgctl(q, 0, nil)"
    return either(luajit, text, "COUNT", (5, n))


@kind("tuning", "", "status", 500, components=("run.file.", "run.other", "run.user", "run.task."))
def _(n):
    return either(pypy, "for i in range(COUNT): open('/proc/self/status').read(); open('/proc/stat').read()", "COUNT", (2, n))


@kind("tuning", "", "sendfile", 20, components=("run.file.", "run.network", "run.task.pipe", "run.other", "run.memory."), also=("reads.more",))
def _(n):
    text = (f"import os\na, b = os.open('{DATA}', os.O_RDONLY), os.open('{{dir}}/sf', os.O_RDWR | os.O_CREAT)\n"
            "for i in range(COUNT): os.lseek(b, 0, 0); os.sendfile(b, a, 0, 4 << 20)")
    return either(pypy, text, "COUNT", (1, n))


@kind("tuning", "", "waits", 50, components=("idle", "off.timer"))
def _(n):
    return either(luajit, "for i = 1, COUNT do C.usleep(1500) end", "COUNT", (1, n))
