#!/usr/bin/env python3
"""How well the account of time closes, over workloads of every kind.

    benches/views/account_closes.py [--perf | --switches] PAGELAB DIR [WORKLOAD ...]          as root

Each workload is recorded with the default streams at 997 Hz; DIR, on a disk, takes its files and the recordings. Columns: RUN over
what the kernel counts (sum_exec_runtime), READY without the part that schedstat does not count over schedstat's, the time of the
samples against RUN in standard errors, the lives of the tasks and their parts, what no anchor or waker tells in percent of the
lives, and kernel samples without a mechanism in percent.

With --perf perf looks on, which costs time of its own: the columns are OFF over the sum for the same threads of the switches and
wakings that `perf sched record` wrote down, and the lives. All CPUs but the first spin with the policy SCHED_IDLE meanwhile: in our
virtual machine with Linux 6.18 neither perf nor ftrace gets any event in the idle tasks of the others, so that no wait that ended there
would have an end, and no task that was woken there a waking. (Sums of `perf sched timehist` 6.1 are not that: it books time of an
idle CPU as a task's.) With --switches each switch is recorded, too, without stacks, whose cost sums would take for RUN: the columns
are the lives, the components of at least 1 % of the time recorded, and how far sums of a second are from the account by every switch
at most: in percent of the component, and of the time recorded.

In a virtual machine the timer's interrupt comes late, and tasks that run for a few ten microseconds after each wait are sampled
less than they run: there the standard errors say how much.
"""

import contextlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import postgres

UNTOLD = ("run.other", "off.other", "off.unknown", "ready.unknown")
QUOTA = ("cpu.cfs_quota_us", "30000") if os.path.isdir("/sys/fs/cgroup/cpu") else ("cpu.max", "30000 100000")
GROUP = pathlib.Path("/sys/fs/cgroup/cpu" if QUOTA[0].startswith("cpu.cfs") else "/sys/fs/cgroup") / "pagelab-closing"
SWITCH = re.compile(r"prev_pid=(?P<before>\d+) prev_prio=-?\d+ prev_state=(?P<state>\S+) ==> .*next_pid=(?P<after>\d+) ")
WAKING = re.compile(r"^comm=.* pid=(?P<tid>\d+) prio=")


def pgbench(place):
    return shlex.join(postgres.pgbench(place, "-c 2 -j 2 -T 6"))


def python(program):
    return f"python3 -c '{program}'"


def workloads(work):
    fio = f"fio --name=a --size=128m --runtime=5 --time_based --directory={work} --output=/dev/null"
    source = work / "many.c"
    body = "int f{0}(int a,int b){{int s=0;for(int i=0;i<a;i++){{s+=i*b%{1};for(int j=0;j<b;j++)s^=j*i+{0};}}return s;}}\n"
    source.write_text("".join(body.format(i, i + 3) for i in range(1500)))
    repository = pathlib.Path(__file__).resolve().parents[2]
    until = "import os,time,threading\nt=time.time()\nwhile time.time()-t<5:\n"
    convoy = (
        "import threading,time\nl=threading.Lock()\nt=time.time()\ndef w():\n  while time.time()-t<4:\n    with l: sum(range(2000))\n"
        "a=[threading.Thread(target=w) for _ in range(4)]\n[x.start() for x in a]\n[x.join() for x in a]"
    )
    rows = f'import sqlite3\nc=sqlite3.connect("{work}/t.db")\nc.execute("pragma synchronous=full")\nc.execute("create table t(a)")\nfor i in range(600): c.execute("insert into t values(?)",(i,)); c.commit()'
    node = "let s=0;const t=Date.now();while(Date.now()-t<3000)s+=JSON.stringify(Array.from({length:1000},(_,i)=>({a:i}))).length"
    return {
        "pgbench in memory": lambda: pgbench("/dev/shm/pagelab-closing"),
        "pgbench on disk": lambda: pgbench(f"{work}/pg"),
        "sqlite, fsync": lambda: f"rm -f {work}/t.db; {python(rows)}",
        "gcc": lambda: f"for i in 1 2 3; do gcc -O2 -c {source} -o /dev/null; done",
        "git": lambda: f"cd {repository}; for i in 1 2 3; do git log --stat -n 150 >/dev/null; git fsck >/dev/null 2>&1; done",
        "find": lambda: "echo 3 >/proc/sys/vm/drop_caches; find /usr -type f -size +1000k >/dev/null",
        "fio psync": lambda: f"{fio} --ioengine=psync --rw=randwrite --bs=16k --fsync=8",
        "fio libaio": lambda: f"{fio} --ioengine=libaio --direct=1 --iodepth=8 --rw=randread --bs=4k",
        "fio io_uring": lambda: f"{fio} --ioengine=io_uring --direct=1 --iodepth=8 --rw=randread --bs=4k",
        "fio mmap": lambda: f"{fio} --ioengine=mmap --rw=randrw --bs=4k",
        "node": lambda: f"node -e '{node}'",
        "fork storm": lambda: python(until + "  p=os.fork()\n  if p==0: os._exit(0)\n  os.waitpid(p,0)"),
        "futex convoy": lambda: f"perf bench futex lock-pi -r 5 -t 4 >/dev/null 2>&1; {python(convoy)}",
        "throttled": lambda: f"echo $$ >{GROUP}/cgroup.procs; {python(until + '  sum(range(10000))')}",
    }


@contextlib.contextmanager
def no_idle_tasks():
    spin = ["chrt", "--idle", "0", "sh", "-c", "while :; do :; done"]
    cpus = sorted(os.sched_getaffinity(0))[1:]
    spinning = [subprocess.Popen(["taskset", "-c", str(cpu), *spin]) for cpu in cpus]
    try:
        yield
    finally:
        for one in spinning:
            one.kill()
            one.wait()


def answer(*command):
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def shown(pagelab, recording, view):
    return answer(pagelab, "show", "--json", "--top", "0", recording, view)


def row(pagelab, recording):
    budget, profile = shown(pagelab, recording, "budget"), shown(pagelab, recording, "profile")
    parts = {one["component"]: one["ns"] for one in budget["components"]}
    run, lives = budget["run_ns"], budget["lives_ns"]
    queued = budget["ready_ns"] - parts.get("ready.wakeup", 0)
    samples, weight = profile["samples"], profile["weight"]
    return [
        f"{run / max(1, budget['kernel_run_ns']):.4f}",
        f"{queued / max(1, budget['kernel_ready_ns']):.4f}",
        f"{(weight - run) / max(1, weight / max(1, samples) ** 0.5):.1f}",
        f"{lives / 1e9:.2f}",
        *(f"{100 * budget[state] / lives:.1f}" for state in ("run_ns", "ready_ns", "off_ns")),
        f"{100 * sum(parts.get(name, 0) for name in UNTOLD) / lives:.2f}",
        f"{budget['kernel_unmatched_pct'] or 0:.2f}",
    ]


def switches(perf_data, begin_ns):
    """ns that each thread was off the CPU since it began, from leaving it until it was woken, by the events that perf recorded."""
    script = ["perf", "script", "--ns", "-F", "time,trace", "-i", perf_data]
    off, left, woken = {}, {}, {}
    with subprocess.Popen(script, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace") as events:
        for line in events.stdout:
            now, _, fields = line.strip().partition(": ")
            switched, waking = SWITCH.search(fields), WAKING.search(fields)
            if waking:
                woken.setdefault(int(waking["tid"]), time_ns(now))
            if not switched:
                continue
            before, after = int(switched["before"]), int(switched["after"])
            if switched["state"].startswith("R"):
                left.pop(before, None)
            else:
                left[before] = time_ns(now)
            # A wait can be over just before the switch that begins it.
            if time_ns(now) - woken.get(before, 0) > 10_000:
                woken.pop(before, None)
            if after in left:
                until = woken.pop(after, time_ns(now))
                began = max(left.pop(after), begin_ns.get(after, 0))
                off[after] = off.get(after, 0) + max(0, until - began)
    return off


def time_ns(seconds):
    whole, _, fraction = seconds.rpartition(".")
    return int(whole) * 10**9 + int(fraction)


def row_by_perf(pagelab, recording, perf_data):
    budget = shown(pagelab, recording, "budget")
    # The command begins when it is executed: before, its process waited until everything recorded.
    sql = "select tid, min(ts) as begin_ns from tasks where op in ('fork', 'exec') group by tid"
    begin_ns = {task["tid"]: task["begin_ns"] for task in answer(pagelab, "query", "--json", recording, sql)}
    waited = switches(perf_data, begin_ns)
    off_ns = sum(waited.get(tid, 0) for tid in begin_ns)
    return [f"{budget['off_ns'] / max(1, off_ns):.4f}", f"{budget['lives_ns'] / 1e9:.2f}"]


def row_of_switches(pagelab, recording):
    budget = shown(pagelab, recording, "budget")
    window = budget["window_ns"]
    pairs = [(one["component"], one["wall_ns"], one["wall_by_sums_ns"]) for one in budget["components"] if one["active"]]
    pairs = [pair for pair in pairs + [("idle", budget["idle_ns"], budget["idle_by_sums_ns"])] if pair[1] >= window / 100]
    name, exact, summed = max(pairs, key=lambda pair: abs(pair[2] / pair[1] - 1))
    return [
        f"{budget['lives_ns'] / 1e9:.2f}",
        str(len(pairs)),
        f"{100 * (summed / exact - 1):+.1f}",
        f"{100 * max(abs(pair[2] - pair[1]) for pair in pairs) / window:.2f}",
        name,
    ]


def main():
    form = sys.argv.pop(1) if sys.argv[1].startswith("--") else None
    pagelab, work = sys.argv[1], pathlib.Path(sys.argv[2])
    work.mkdir(parents=True, exist_ok=True)
    GROUP.mkdir(exist_ok=True)
    (GROUP / QUOTA[0]).write_text(QUOTA[1])
    heads = ["RUN", "READY", "errors", "lives s", "run %", "ready %", "off %", "untold %", "no mechanism %"]
    if form:
        heads = ["OFF", "lives s"] if form == "--perf" else ["lives s", "components", "most %", "of window %", "of"]
    print(f"{'workload':18}" + "".join(f"{head:>15}" for head in heads))
    for name, command in workloads(work).items():
        if sys.argv[3:] and name not in sys.argv[3:]:
            continue
        recording = work / name.replace(" ", "-").replace(",", "")
        shutil.rmtree(recording, ignore_errors=True)
        record = [pagelab, "record", "-q", "--frequency", "997", "-o", recording]
        watched = ["--", "bash", "-c", command()]
        if form == "--perf":
            perf = ["perf", "sched", "record", "-q", "-a", "-k", "CLOCK_MONOTONIC", "-o", work / "perf.data"]
            with no_idle_tasks():
                subprocess.run([*perf, *record, *watched], check=True, stderr=subprocess.DEVNULL)
            cells = row_by_perf(pagelab, recording, work / "perf.data")
        elif form == "--switches":
            subprocess.run([*record, "--observe", "default,sched:nostacks", *watched], check=True)
            cells = row_of_switches(pagelab, recording)
        else:
            subprocess.run([*record, *watched], check=True)
            cells = row(pagelab, recording)
        print(f"{name:18}" + "".join(f"{cell:>15}" for cell in cells), flush=True)
    GROUP.rmdir()
    shutil.rmtree("/dev/shm/pagelab-closing", ignore_errors=True)


main()
