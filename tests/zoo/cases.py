"""The cases of the zoo: for each cause, programs that meet it, and what makes one side meet it and the other not.

A side is a command with what surrounds it. Nothing in a side says which cause it is for: analysis sees recordings in folders that
are called base and test.
"""

import dataclasses
import hashlib
import pathlib


@dataclasses.dataclass
class Side:
    """How one side runs."""

    command: list
    env: dict = dataclasses.field(default_factory=dict)
    # Files of the kernel and their values during the run.
    settings: dict = dataclasses.field(default_factory=dict)
    # Limits of a control group of the run's own: names as in version 2.
    limits: dict = dataclasses.field(default_factory=dict)
    # Programs beside it, from before its start to its end.
    beside: list = dataclasses.field(default_factory=list)
    # Commands before each run, not recorded.
    before: list = dataclasses.field(default_factory=list)
    # Words before the command: taskset, nice.
    prefix: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Case:
    """What differs between two sides, and the name of that."""

    cause: str
    workload: str
    base: Side
    test: Side
    # Other causes that would be right, too.
    also: tuple = ()

    def truth(self):
        """What analysis is not told."""
        return {"cause": self.cause, "workload": self.workload, "also": list(self.also)}

    def name(self):
        """The case's folder, which does not tell the cause."""
        return hashlib.sha256(f"{self.cause}/{self.workload}".encode()).hexdigest()[:8]


def work(mode, **options):
    """A small program of work.c."""
    return ["{work}", mode, *(f"{key}={value}" for key, value in options.items())]


def fio(name, **options):
    options = {"filename": "{dir}/fio.data", "size": "128m", "time_based": 0, **options}
    words = [f"--{key}={value}" for key, value in options.items()]
    return ["fio", f"--name={name}", "--output={dir}/fio.out", *words]


# A kernel that is locked down lets nobody write to debugfs.
LOCKDOWN = pathlib.Path("/sys/kernel/security/lockdown")
LOCKED_DOWN = None if not LOCKDOWN.exists() else "[none]" not in LOCKDOWN.read_text()
THP = "/sys/kernel/mm/transparent_hugepage"
NO_THP = {f"{THP}/enabled": "never"}
KSM = "/sys/kernel/mm/ksm"
DIRTY = "/proc/sys/vm/dirty_bytes"
QUEUE = "/sys/block/{disk}/queue"
DATA = "{dir}/work.data"


def dropped(file):
    """What drops a file from the page cache, before a run."""
    return [["{work}", "read", "cold=1", "bytes=0", f"file={file}"]]


def piece(mib, name="part.data"):
    """What makes a file {dir}/NAME of the first MiB of large.data, and drops it from the page cache."""
    file = f"{{dir}}/{name}"
    size = f"[ \"$(stat -c %s {file} 2> /dev/null)\" = {mib << 20} ]"
    return [["sh", "-c", f"{size} || {{ head -c {mib}M {{dir}}/large.data > {file}; sync {file}; }}"], *dropped(file)]


DROP, DROP_LARGE = dropped(DATA), dropped("{dir}/large.data")


def toggled(command, path, good, bad, **more):
    return Side(command, settings={path: good}, **more), Side(command, settings={path: bad}, **more)


def remounted(command):
    """A program on {mount}, which is mounted with `sync` on the test side."""
    return tuple(Side(command, before=[["mount", "-o", f"remount,{option}", "{mount}"]]) for option in ("async", "sync"))


def memory_limited(command, enough, short):
    """A program that reads {dir}/large.data, in a control group with memory for what it reads, and in one without."""
    return tuple(Side(command, limits={"memory.max": limit}, before=DROP_LARGE) for limit in (enough, short))


def io_limited(command, iops):
    """A program whose control group may do so many requests a second on the test side."""
    return Side(command, limits={"io.max": "max"}), Side(command, limits={"io.max": f"riops={iops}"})


def merging(command, pages_to_scan):
    """A program whose pages KSM merges on the test side."""
    return tuple(Side(command, settings={KSM + "/run": run, KSM + "/pages_to_scan": pages_to_scan, KSM + "/sleep_millisecs": "1"}) for run in ("0", "1"))


def programs(base, test, **more):
    return Side(base, **more), Side(test, **more)


def memory():
    anon = work("anon", ops=40, spin_us=12000)
    yield "thp.disabled", "touch", *toggled(anon, f"{THP}/enabled", "always", "never")
    python = ["python3", "-c", "for i in range(30): b = bytearray(24 << 20); sum(b[::65536]); s = sum(range(100000))"]
    yield "thp.disabled", "python", *toggled(python, f"{THP}/enabled", "always", "madvise")
    shared = work("shared", ops=20, spin_us=30000)
    yield "shmem.small_pages", "memfd", *toggled(shared, f"{THP}/shmem_enabled", "always", "never")
    small = work("anon", ops=700, spin_us=200, bytes=2 << 20)
    yield "map.misaligned", "touch", *programs(small, [*small, "shift=4096"], settings={f"{THP}/enabled": "always"})
    mapped = work("mapped", ops=40, spin_us=8000, file=DATA)
    if LOCKED_DOWN is False:
        yield "faultaround.reduced", "mapped", *toggled(mapped, "{debug}/fault_around_bytes", "65536", "4096")
    churn = work("heap", ops=400, bytes=262144, count=20, spin_us=3000)
    yield "map.churn", "heap", Side(churn, env={"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=4194304:glibc.malloc.trim_threshold=33554432"}), Side(
        churn, env={"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=131072"})
    python_churn = ["python3", "-c", "for i in range(12000): b = bytearray(400000); sum(range(1500))"]
    yield "map.churn", "python", Side(python_churn, env={"MALLOC_MMAP_THRESHOLD_": "4194304", "MALLOC_TRIM_THRESHOLD_": "33554432"}), Side(
        python_churn, env={"MALLOC_MMAP_THRESHOLD_": "65536"})
    yield "fork.copies", "fork", *programs(work("fork", ops=60, fork=0, spin_us=15000), work("fork", ops=60, spin_us=15000))
    yield "tlb.shootdowns", "protect", *programs(
        work("protect", ops=120, threads=2, calls=10, spin_us=8000), work("protect", ops=120, threads=2, calls=400, spin_us=8000))
    yield "mmap_lock.contended", "faults", *programs(
        work("faults", ops=20, threads=4, processes=1, calls=200, bytes=65536), work("faults", ops=20, threads=4, calls=200, bytes=65536))
    yield "memory.pinned", "touch", *programs(work("spin", ops=10, thread_us=100000), work("anon", ops=10, mlock=1, bytes=64 << 20, spin_us=100000))
    merged = work("merged", ops=3, merge_ms=500, spin_us=200000, bytes=64 << 20)
    yield "ksm.separated", "merged", *merging(merged, "20000")


def reclaim():
    again = work("read", ops=6, file="{dir}/large.data", bytes=400 << 20, spin_us=20000)
    yield "cgroup.memory_limit", "read", *memory_limited(again, "1G", "240M")
    yield "cache.cold", "read", *programs(work("read", ops=12, file=DATA, bytes=128 << 20, spin_us=60000),
                                         work("read", ops=12, file=DATA, bytes=128 << 20, spin_us=60000, cold=1))
    yield "cache.cold", "grep", Side(["grep", "-c", "", DATA]), Side(["grep", "-c", "", DATA], before=DROP)



def files():
    cold = work("read", ops=4, file=DATA, bytes=128 << 20, bs=16384, spin_us=60000, cold=1)
    yield "readahead.reduced", "read", *toggled(cold, f"{QUEUE}/read_ahead_kb", "1024", "16")
    yield "readahead.lost", "read", *programs(cold, [*cold, "random=1"])
    small = dict(file=DATA, bytes=128 << 20, spin_us=20000)
    yield "io.smaller_requests", "read", *programs(work("read", ops=20, bs=1 << 20, **small), work("read", ops=20, bs=2048, **small))
    yield "io.smaller_requests", "dd", *programs(["dd", f"if={DATA}", "of=/dev/null", "bs=1M"], ["dd", f"if={DATA}", "of=/dev/null", "bs=512"])
    yield "io.direct", "read", *programs(work("read", ops=10, bs=65536, **small), work("read", ops=10, bs=65536, direct=1, **small))
    sqlite = ["sqlite3", "{dir}/zoo.db", "PRAGMA synchronous={sync}; CREATE TABLE IF NOT EXISTS t(a); " + "INSERT INTO t VALUES(1);" * 400]
    yield "sync.more", "sqlite", *programs([word.replace("{sync}", "OFF") for word in sqlite], [word.replace("{sync}", "FULL") for word in sqlite])
    yield "sync.more", "write", *programs(work("write", ops=400, file=DATA + ".w", spin_us=3000), work("write", ops=400, file=DATA + ".w", spin_us=3000, sync=1))
    yield "sync.more", "fio", *programs(fio("w", rw="write", bs="16k", size="16m", fsync=64), fio("w", rw="write", bs="16k", size="16m", fsync=1))
    throttled = work("write", ops=900, file=DATA + ".w", spin_us=200, span=1 << 30)
    yield "writeback.throttled", "write", *toggled(throttled, DIRTY, "4000000000", "4194304")
    beside = fio("hog", thread=1, filename="{dir}/hog.data", rw="write", bs="1m", size="512m", direct=1, iodepth=4, ioengine="libaio", time_based=1, runtime=60)
    random = fio("r", rw="randread", bs="4k", size="64m", direct=1, io_size="24m")
    yield "writeback.in_the_way", "fio", Side(random), Side(random, beside=[beside]), ("device.slower",)
    deep = fio("d", rw="randread", bs="4k", size="64m", io_size="96m", direct=1, iodepth=32, ioengine="libaio")
    yield "block.queue_settings", "fio", *toggled(deep, f"{QUEUE}/scheduler", "none", "bfq")
    yield "cgroup.io_limit", "fio", *io_limited(random, 2000)
    small_files = work("files", ops=4000, file="{mount}/work.data", spin_us=100)
    yield "mount.changed", "files", *remounted(small_files)


def cpu():
    spin = work("spin", ops=60, threads=2, thread_us=15000)
    yield "cpu.quota", "spin", Side(spin, limits={"cpu.max": "max 100000"}), Side(spin, limits={"cpu.max": "100000 100000"})
    gcc = ["gcc", "-O2", "-c", "-o", "/dev/null", "{source}"]
    yield "cpu.quota", "gcc", Side(gcc, limits={"cpu.max": "max 100000"}), Side(gcc, limits={"cpu.max": "50000 100000"})
    hog = ["{work}", "spin", "ops=100000", "threads=2", "thread_us=100000"]
    yield "cpu.neighbour", "spin", Side(spin), Side(spin, beside=[hog])
    yield "cpu.neighbour", "python", Side(["python3", "-c", "sum(range(30000000))"]), Side(["python3", "-c", "sum(range(30000000))"], beside=[hog])
    yield "cpu.crowded", "spin", Side(spin), Side(spin, prefix=["taskset", "-c", "1"])
    yield "call.dearer", "calls", *programs(work("calls", ops=500, calls=4000, spin_us=200), work("calls", ops=500, calls=4000, spin_us=200, filter=200))
    git = ["git", "-C", "{repo}", "log", "--oneline", "-n", "3000"]
    yield "cpu.neighbour", "git", Side(git), Side(git, beside=[hog])


def unknown():
    """Losses that no rule names: right is no mechanism."""
    yield "", "user", *programs(work("spin", ops=60, thread_us=15000), work("spin", ops=60, thread_us=21000))
    yield "", "python", *programs(["python3", "-c", "sum(range(30000000))"], ["python3", "-c", "sum(range(40000000))"])
    yield "", "same", *programs(work("anon", ops=40, spin_us=4000), work("anon", ops=40, spin_us=4000))


def all_cases():
    for group in (memory, reclaim, files, cpu, unknown):
        for cause, workload, base, test, *also in group():
            yield Case(cause, workload, base, test, *also)
