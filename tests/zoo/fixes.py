#!/usr/bin/env python3
"""The fixes that rules propose, tried: how much of the loss comes back.

    tests/zoo/fixes.py PAGELAB DIR [CAUSE ...]        as root; minutes

A trial is a program on three sides, in turns: without the cause, with it, and with it and the fix. What came back is the time between
the second and the third as a part of that between the second and the first. A fix works where more than half comes back, by the median
of the rounds. Fixes of docs/rules.md that no trial is of are listed with the reason.
"""

import dataclasses
import pathlib
import re
import statistics
import subprocess
import sys

import bounds
from cases import DATA, DIRTY, DROP, DROP_LARGE, KSM, LOCKED_DOWN, NO_THP, QUEUE, THP, Side, dropped, fio
from kinds import LIBC, beside, protect, python, shell
from zoo import HERE, Zoo

ROUNDS = 5
# What a cause is to take, at least, for a fix to be judged; and the part of that which is to come back.
LOSS, BACK = 1.05, 0.5
RULES = HERE.parents[1] / "docs" / "rules.md"
KEEP_FREED = re.search(r"env GLIBC_TUNABLES=(\S+) COMMAND", RULES.read_text())[1]

MALLOC = "c.malloc.restype = ctypes.c_void_p\nc.free.argtypes = [ctypes.c_void_p]\n"

# Threads that wait for each other a thousand times a second, as OpenMP's do.
TEAM = """
#include <omp.h>
#include <stdlib.h>
int main(int count, char **words)
{
	static double sum[64];
	for (int i = 0; i < atoi(words[1]); i++) {
		#pragma omp parallel for
		for (int j = 0; j < 64; j++)
			for (int k = 0; k < 4000; k++)
				sum[j] += k * 0.5;
	}
	return sum[0] < 0;
}
"""


@dataclasses.dataclass
class Trial:
    """A cause, how its fix begins in docs/rules.md, and the three sides."""

    cause: str
    fix: str
    good: Side
    bad: Side
    fixed: Side
    # Run once before and after.
    prepare: tuple = ()
    cleanup: tuple = ()


# What is not tried, and why: the first that its line has.
NOT_TRIED = {
    "sudo pagelab hugepages": "takes memory from the whole host",
    "pagelab ": "it looks, and changes nothing",
    "filefrag": "it looks, and changes nothing",
    "fio --name=alone": "it looks, and changes nothing",
    "/proc/sys/vm/watermark_scale_factor": "needs a host that is short of memory",
    "O_RDONLY | O_DIRECT": "needs a host that is short of memory",
    "transparent_hugepage/defrag": "needs a host whose memory is scattered",
    "compact_memory": "needs a host whose memory is scattered",
    "MADV_COLLAPSE": "needs a host whose memory is scattered; crates/analysis/tests/host_remedies.rs tries it on settings",
    "numactl": "needs two nodes",
    "zswap/parameters": "needs swap",
    "memory.swap.max": "needs swap",
    "mlock(addr": "needs swap",
    "MADV_POPULATE_WRITE": "since Linux 6.4 faults do not wait for that lock",
    "aligned_to_2M": "needs persistent memory: the DAX experiment tries it",
    "while other threads fault": "threads on two CPUs do not wait long enough for the lock",
    "POSIX_FADV_DONTNEED);": "the kernel keeps what is read twice: no loss could be made",
    "ionice": "bfq keeps room for reads by itself",
    "MADV_POPULATE_READ": "the kernel is locked down",
    "fault_around_bytes": "the kernel is locked down",
    "2UL << 20": "a split costs less than runs of a second can show",
}


def memory():
    churn = LIBC + MALLOC
    blocks = python(churn + "for i in range(2500):\n p = c.malloc(400000)\n c.memset(p, 1, 400000)\n c.free(p)")
    small = {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=131072"}
    yield Trial("map.churn", "let glibc keep", Side(blocks), Side(blocks, env=small), Side(blocks, env={"GLIBC_TUNABLES": KEEP_FREED}))
    one = python(churn + "p = c.malloc(400000)\nfor i in range(2500):\n c.memset(p, 1, 400000)")
    yield Trial("map.churn", "keep large buffers", Side(blocks), Side(blocks, env=small), Side(one, env=small))

    locked = LIBC + "for i in range(8):\n p = c.mmap(None, 64 << 20, 3, 34, -1, 0)\n{lock} c.memset(p, 1, 1 << 20)\n c.munmap(p, 64 << 20)"
    # 1 is MLOCK_ONFAULT.
    locks = ["", " assert c.mlock(p, 64 << 20) == 0\n", " assert c.mlock2(ctypes.c_void_p(p), ctypes.c_size_t(64 << 20), 1) == 0\n"]
    yield Trial("memory.pinned", "lock pages as they", *(Side(python(locked.replace("{lock}", lock))) for lock in locks))

    starts = ("import mmap, os\nm = mmap.mmap(-1, 256 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n{advice}m[::4096] = b'x' * (256 << 8)\n"
              "for i in range(60):\n {start}")
    fork = "p = os.fork()\n if p == 0: os.execv('/bin/true', ['true'])\n os.waitpid(p, 0)"
    spawn = "os.waitpid(os.posix_spawn('/bin/true', ['true'], os.environ), 0)"
    texts = [starts.replace("{advice}", advice).replace("{start}", start) for advice, start in (
        ("", fork), ("", spawn), ("m.madvise(mmap.MADV_DONTFORK)\n", fork))]
    no_memory = texts[0].replace("256 <<", "1 <<")
    good, bad, spawned, left_out = (Side(python(text), settings=NO_THP) for text in (no_memory, *texts))
    yield Trial("fork.copies", "start programs without", good, bad, spawned)
    yield Trial("fork.copies", "leave memory that", good, bad, left_out)

    if LOCKED_DOWN is False:
        yield from fault_around()

    shared = ("import mmap\nfor i in range(4):\n m = mmap.mmap(-1, 64 << 20)\n{advice} for j in range(0, 64 << 20, 4096): m[j] = 1\n m.close()")
    plain, advised = (python(shared.replace("{advice}", advice)) for advice in ("", " m.madvise(mmap.MADV_HUGEPAGE)\n"))
    always, advise = ({f"{THP}/shmem_enabled": value} for value in ("always", "advise"))
    yield Trial("shmem.small_pages", "ask for huge pages", Side(plain, settings=always), Side(plain, settings=advise), Side(advised, settings=advise))
    fill = shell("for i in 1 2 3 4 5; do dd if=/dev/zero of={dir}/tmpfs/f bs=1M count=100 status=none; rm {dir}/tmpfs/f; done")
    remount = lambda size: [["mount", "-o", f"remount,huge={size}", "{dir}/tmpfs"]]
    yield Trial("shmem.small_pages", "give the file system", Side(fill, before=remount("always")), Side(fill, before=remount("never")),
                Side(fill, before=remount("within_size")), prepare=(["mkdir", "-p", "{dir}/tmpfs"], ["mount", "-t", "tmpfs", "none", "{dir}/tmpfs"]),
                cleanup=(["umount", "{dir}/tmpfs"],))


def fault_around():
    mapped = (f"import mmap\nf = open('{DATA}', 'rb')\nfor i in range(6):\n m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)\n"
              "{advice} s = m[::4096]\n m.close()")
    plain, populated = (python(mapped.replace("{advice}", advice)) for advice in ("", " m.madvise(22)\n"))
    large, small = ({"{debug}/fault_around_bytes": value} for value in ("65536", "4096"))
    # 22 is MADV_POPULATE_READ.
    yield Trial("faultaround.reduced", "map the pages of", Side(plain, settings=large), Side(plain, settings=small), Side(populated, settings=small))
    yield Trial("faultaround.reduced", "set the kernel's default", Side(plain, settings=large), Side(plain, settings=small), Side(plain, settings=large))


def several_threads():
    apart, together = (Side(beside(protect(8000), apart)) for apart in (True, False))
    yield Trial("tlb.shootdowns", "use processes instead", apart, together, apart)
    give_back = ("for i in range(300):\n b = [c.malloc(100000) for j in range(20)]\n for p in b: c.memset(p, 1, 100000)\n for p in b: c.free(p)")
    trimmed = {"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=131072"}
    apart, together = (beside(MALLOC + give_back, apart) for apart in (True, False))
    yield Trial("tlb.shootdowns", "give memory back in", Side(apart, env=trimmed), Side(together, env=trimmed), Side(together, env={"GLIBC_TUNABLES": KEEP_FREED}))

    team = ["{dir}/team", "3000"]
    threads = lambda count: {"OMP_NUM_THREADS": str(count), "OMP_WAIT_POLICY": "active"}
    yield Trial("cpu.crowded", "use as many threads", Side(team, env=threads(2)), Side(team, env=threads(8)), Side(team, env=threads(2)))
    one = {"cpu.max": "100000 100000"}
    yield Trial("cpu.quota", "use as many threads", Side(team, env=threads(1)), Side(team, env=threads(4), limits=one), Side(team, env=threads(1), limits=one))
    # 30 ms of work, for which one quota of 20 ms is not enough and two are, and a pause.
    bursts = python("import time\nfor i in range(6):\n end = time.process_time() + 0.03\n while time.process_time() < end: pass\n time.sleep(0.25)")
    limited = {"cpu.max": "20000 100000", "cpu.max.burst": "0"}
    yield Trial("cpu.quota", "let the group save", Side(bursts), Side(bursts, limits=limited), Side(bursts, limits=limited | {"cpu.max.burst": "20000"}))
    # A thread that has just begun waits for the slice of another one, whatever its weight.
    spin = ["{work}", "spin", "ops=1", "threads=2", "thread_us=900000"]
    hog = ["{work}", "spin", "ops=100000", "threads=2", "thread_us=100000"]
    heavy = ["setsid", "-w", "sh", "-c", 'echo -10 > /proc/self/autogroup; exec nice -n -10 "$@"', "sh"]
    yield Trial("cpu.neighbour", "give the program more", Side(spin), Side(spin, beside=[hog]), Side(spin, beside=[hog], prefix=heavy))
    yield Trial("program.starts", "do it within one", *(Side(shell(f"seq {count} | xargs -n {each} /bin/echo")) for count, each in ((2, 1), (400, 1), (400, 1000))))


def merging():
    text = ("import mmap, time\nm = mmap.mmap(-1, 200 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\nm.madvise(mmap.MADV_MERGEABLE)\n"
            "{advice}m[:] = bytes([7]) * (200 << 20)\ntime.sleep(0.6)\nfor i in range(0, 200 << 20, 4096): m[i] = 1")
    merged, separate = (python(text.replace("{advice}", advice)) for advice in ("", "m.madvise(mmap.MADV_UNMERGEABLE)\n"))
    run = lambda value: {KSM + "/run": value, KSM + "/pages_to_scan": "30000", KSM + "/sleep_millisecs": "1"}
    yield Trial("ksm.separated", "take memory that is", Side(merged, settings=run("0")), Side(merged, settings=run("1")), Side(separate, settings=run("1")))
    yield Trial("ksm.separated", "stop merging", Side(merged, settings=run("0")), Side(merged, settings=run("1")), Side(merged, settings=run("2")))


def cache():
    cat = ["cat", DATA]
    yield Trial("cache.cold", "read the file before", Side(cat, before=[cat]), Side(cat, before=DROP), Side(cat, before=[*DROP, cat]))
    again = ["{work}", "read", "ops=3", "file={dir}/large.data", "bytes=" + str(400 << 20)]
    yield Trial("cgroup.memory_limit", "give the group", *(Side(again, limits={"memory.max": limit}, before=DROP_LARGE) for limit in ("1G", "240M", "2G")))
    query = ("PRAGMA cache_size = {pages}; WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c LIMIT 200000) "
             "SELECT sum(length(b)) FROM c JOIN t ON t.a = (i * 7919) % 40000;")
    make = ("DROP TABLE IF EXISTS t; CREATE TABLE t(a INTEGER PRIMARY KEY, b); "
            "WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c LIMIT 40000) INSERT INTO t SELECT i, zeroblob(1000) FROM c;")
    sides = (Side(["sqlite3", "{dir}/keeps.db", query.replace("{pages}", pages)]) for pages in ("20000", "10", "-262144"))
    yield Trial("reads.more", "let the program keep", *sides, prepare=(["sqlite3", "{dir}/keeps.db", make],))


def files():
    direct = (f"import fcntl, mmap, os\nb = mmap.mmap(-1, 65536)\nf = os.open('{DATA}', os.O_RDONLY | {{flag}})\n{{then}}"
              "for i in range(2048): os.preadv(f, [b], i * 65536)")
    clear = "fcntl.fcntl(f, fcntl.F_SETFL, fcntl.fcntl(f, fcntl.F_GETFL) & ~os.O_DIRECT)\n"
    sides = (Side(python(direct.replace("{flag}", flag).replace("{then}", then))) for flag, then in (("0", ""), ("os.O_DIRECT", ""), ("os.O_DIRECT", clear)))
    yield Trial("io.direct", "let the page cache", *sides)
    pieces = f"f = open('{DATA}', 'rb', buffering=%d)\nfor i in range(%d): f.read(%d)"
    sides = (Side(python(pieces % (size, (32 << 20) // each, each))) for size, each in ((0, 1 << 20), (0, 512), (1 << 20, 512)))
    yield Trial("io.smaller_requests", "read and write in larger", *sides)

    cold = f"import ctypes, os\nf = os.open('{DATA}', os.O_RDONLY)\n{{advice}}for i in range(8192): os.pread(f, 16384, i * 16384)"
    random = "os.posix_fadvise(f, 0, 0, os.POSIX_FADV_RANDOM)\n"
    fetch = "c = ctypes.CDLL(None)\nfor at in range(0, 128 << 20, 2 << 20): c.readahead(f, ctypes.c_int64(at), ctypes.c_size_t(2 << 20))\n"
    good, bad, *fixed = (Side(python(cold.replace("{advice}", advice)), before=DROP) for advice in (
        "", random, random + "os.posix_fadvise(f, 0, 0, os.POSIX_FADV_SEQUENTIAL)\n", random + fetch))
    yield Trial("readahead.lost", "say that the file", good, bad, fixed[0])
    yield Trial("readahead.lost", "fetch what will", good, bad, fixed[1])

    text = ("import os\nf = os.open('{dir}/py.data', os.O_RDWR | os.O_CREAT)\nfor i in range(200):\n os.pwrite(f, b'x' * 65536, i << 16)\n"
            " if i %% %d == 0: os.fdatasync(f)")
    yield Trial("sync.more", "make several writes", *(Side(python(text % each)) for each in (1000, 1, 20)))
    text = ("import ctypes, os\nc = ctypes.CDLL(None)\nf = os.open('{dir}/py.data', os.O_RDWR | os.O_CREAT)\nfor i in range(300):\n"
            " os.pwrite(f, b'x' * (1 << 20), i << 20)\n{begin} sum(range(60000))")
    begin = " c.sync_file_range(f, ctypes.c_int64(i << 20), ctypes.c_int64(1 << 20), 2)\n"
    plain, begun = (python(text.replace("{begin}", part)) for part in ("", begin))
    free, held = ({DIRTY: value} for value in ("4000000000", "6291456"))
    yield Trial("writeback.throttled", "begin the writing", Side(plain, settings=free), Side(plain, settings=held), Side(begun, settings=held))
    yield Trial("writeback.throttled", "allow more dirty", Side(plain, settings=free), Side(plain, settings=held),
                Side(plain, settings=held, before=[["sh", "-c", "echo 20 > /proc/sys/vm/dirty_ratio"]]))

    reads = fio("r", rw="randread", bs="4k", size="64m", direct=1, io_size="24m")
    buffered = shell("while :; do dd if=/dev/zero of={dir}/hog.data bs=1M count=400 conv=notrunc,fdatasync status=none; done")
    scheduler = lambda name: {f"{QUEUE}/scheduler": name}
    yield Trial("writeback.in_the_way", "keep room for reads", Side(reads, settings=scheduler("none")), Side(reads, settings=scheduler("none"), beside=[buffered]),
                Side(reads, settings=scheduler("bfq"), beside=[buffered]))

    # Of many small files every second is removed, a large one gets the holes, then all others are removed as well.
    scatter = python("import glob, os\ndef remove(names):\n for name in names: os.remove(name)\n os.sync()\n"
                     "def put(name, size):\n with open('{mount}/' + name, 'wb') as f: f.write(os.urandom(1 << 12) * (size >> 12))\n"
                     "for i in range(20000): put('s%d' % i, 8192)\nos.sync()\n"
                     "left = os.statvfs('{mount}')\nput('s-rest', left.f_bavail * left.f_frsize - (8 << 20))\nos.sync()\n"
                     "remove('{mount}/s%d' % i for i in range(0, 20000, 2))\nput('fragged', 70 << 20)\nos.sync()\nremove(glob.glob('{mount}/s*'))")
    cold = lambda name: dict(command=["cat", name], before=dropped(name))
    fragged, whole, put_together = (Side(**cold("{mount}/" + name)) for name in ("fragged", "whole", "together"))
    yield Trial("file.fragmented", "put it together", whole, fragged, put_together, prepare=(
        scatter, ["cp", "{mount}/fragged", "{mount}/whole"], ["mv", "{mount}/fragged", "{mount}/together"], ["e4defrag", "{mount}/together"],
        scatter), cleanup=(shell("rm -f {mount}/fragged {mount}/whole {mount}/together"),))


def tried(zoo, trial):
    """The loss, and the part of it that came back: medians of the rounds, and the least and most that came back."""
    def run_all(commands):
        for command in commands:
            subprocess.run(zoo.fill(command), check=True, stdout=subprocess.DEVNULL)

    run_all(trial.prepare)
    rounds = []
    try:
        with zoo.left_as_found():
            sides = (trial.good, trial.bad, trial.fixed)
            for side in sides:
                zoo.time(side)
            for number in range(ROUNDS):
                order = [0, 1, 2] if number % 2 == 0 else [2, 1, 0]
                times = {place: zoo.time(sides[place]) for place in order}
                rounds.append((times[0], times[1], times[2]))
    finally:
        run_all(trial.cleanup)
    good, bad, fixed = (statistics.median(times) for times in zip(*rounds))
    came_back = sorted((bad - one[2]) / (bad - good) for one in rounds) if bad > good else []
    return bad / good, (bad - fixed) / (bad - good) if bad > good else None, came_back


def proposed():
    """Every fix of docs/rules.md: cause and line."""
    cause, listing = None, False
    for line in RULES.read_text().splitlines():
        heading = re.fullmatch(r"## `(.*)`", line)
        if heading:
            cause = heading[1]
        listing = line.startswith("Fixes beside") or listing and not line.startswith("#")
        if listing and line.startswith("- "):
            yield cause, line[2:]


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    pagelab, folder, causes = str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2]).resolve(), sys.argv[3:]
    trials = [trial for group in (memory, several_threads, merging, cache, files) for trial in group() if not causes or trial.cause in causes]
    fixes = list(proposed())
    unknown = [trial.fix for trial in trials if not any(cause == trial.cause and line.startswith(trial.fix) for cause, line in fixes)]
    if unknown:
        raise SystemExit(f"fixes: not in docs/rules.md: {unknown}")
    zoo = Zoo(pagelab, folder)
    zoo.prepare()
    subprocess.run(["gcc", "-O1", "-fopenmp", "-x", "c", "-o", zoo.data / "team", "-"], input=TEAM.encode(), check=True)
    works = 0
    try:
        for trial in trials:
            try:
                loss, back, came_back = tried(zoo, trial)
            except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
                print(f"FAILED  {trial.cause:22} {trial.fix}: {error}", flush=True)
                continue
            word = "no loss" if back is None or loss < LOSS else "works" if back >= BACK else "WORKS NOT"
            works += word == "works"
            said = f"{100 * back:.0f} % came back ({100 * came_back[0]:.0f} to {100 * came_back[-1]:.0f})" if came_back else ""
            print(f"{word:9} {trial.cause:22} {trial.fix:26} x{loss:.2f} {said}", flush=True)
    finally:
        zoo.close()
    print(f"{works} of {len(trials)} work")
    if not causes:
        for cause, line in fixes:
            if not any(cause == trial.cause and line.startswith(trial.fix) for trial in trials):
                why = next((why for part, why in NOT_TRIED.items() if part in line), "nobody has tried it")
                print(f"not tried {cause:22} {line.partition(':')[0]}: {why}")
    # One cause alone is for whoever mends its rule, and no run of the zoo.
    return bounds.ended("fixes", {"fixes.work": (works, len(trials))}) if not causes else int(works != len(trials))


if __name__ == "__main__":
    sys.exit(main())
