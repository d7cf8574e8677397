#!/usr/bin/env python3
"""What the agent costs a database, and whether it keeps its promises: tests/agent/pgbench.py PAGELAB [MINUTES] [PLACE]   (root)

pgbench makes transactions (TPC-B-like, scale 10; a client and its server process on each processor, which have nothing left of it) for
MINUTES (60; at least 3) on a cluster of its own in PLACE (/dev/shm: a disk has ups and downs of its own), without vacuum and checkpoints.
One agent runs all the time, with a flight recorder and windows as they are shipped; below 20 minutes windows are shorter and come more often.
It records every window. Between them DIR/pause ends the flight recorder and lets it begin again, in pairs of short blocks, one with it and
one without in an order drawn for each pair. What the flight recorder takes is the mean ratio of transactions per second without and with it,
over pairs; what a window takes is what is missing in it, against the seconds beside it. The slowdown is that of both together at the rate
at which windows come, with a 95 % interval, adjusted for the machine's own speed (slowdown.py). Once a trigger fires; in one window the agent
and its recorders are killed and started again, and neither is in the slowdown; memory and disk are looked at all the time.

What was seen in each second is left in out/agent/pgbench.json.

Exit status 1 if something was promised that is not so. The bound on the slowdown holds in the long form; the short one prints it.
"""

import json
import math
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

from place import Agent, disk_bytes, judge_beside_pgbench, manifest, memory_of_each, span_s
from slowdown import AFTER_S, BEFORE_S, Speed, slowdown

SLOWDOWN, MEMORY_BYTES, KEEP_MIB = 1.02, 120 << 20, 16
# Of the machine's CPU time, as the agent's own default.
SHIPPED_CAP_PCT = 1.0
# Seconds of load before the first block: it is a fifth faster then.
WARM_UP_S = 60
# With vacuum and checkpoints a third of the transactions was missing for some seconds once a minute.
SETTINGS = ["listen_addresses=", "autovacuum=off", "full_page_writes=off", "checkpoint_timeout=1h", "max_wal_size=4GB"]
AS_POSTGRES = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]


class Cluster:
    """A server on a cluster of its own, and pgbench on it."""

    def __init__(self, place):
        self.programs = next(path.parent for path in sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb")))
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="pagelab-agent-pg-", dir=place))
        shutil.chown(self.dir, "postgres", "postgres")
        self.run("initdb", "--no-sync", "-A", "trust", "-D", self.dir / "cluster")
        self.run("pg_ctl", "-D", self.dir / "cluster", "-w", "-s", "-l", self.dir / "log", "-o", f"-k {self.dir} " + " ".join(f"-c {setting}" for setting in SETTINGS), "start")
        self.run("pgbench", "-h", self.dir, "-i", "-q", "-s", "10", "postgres")

    def words(self, program, *words):
        return [*AS_POSTGRES, str(self.programs / program), *(str(word) for word in words)]

    def run(self, *words):
        subprocess.run(self.words(*words), cwd="/", check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def bench(self, cpu, seconds, tps):
        """Runs pgbench with one client on `cpu`; puts (end of the second, transactions in it) into `tps` as they come."""
        words = self.words("pgbench", "-h", self.dir, "-c", 1, "-T", seconds, "-P", 1, "--progress-timestamp", "postgres")
        name = f"pagelab-cpu-{cpu}"
        bench = subprocess.Popen(["taskset", "-c", str(cpu), *words], cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={**os.environ, "PGAPPNAME": name})
        for line in bench.stderr:
            if line.startswith("progress: "):
                if not tps:
                    # Before its first second pgbench has other connections, for what it asks about the tables.
                    os.sched_setaffinity(self.server_process(name), {cpu})
                fields = line.split()
                tps.append((float(fields[1]), float(fields[3])))
        bench.wait()

    def server_process(self, application):
        """Process that serves `application`."""
        asked = self.words("psql", "-h", self.dir, "-At", "-c", f"select pid from pg_stat_activity where application_name = '{application}'", "postgres")
        found = subprocess.run(asked, cwd="/", capture_output=True, text=True, check=True).stdout.split()
        if len(found) != 1:
            raise SystemExit(f"found {len(found)} server processes of {application}; needed: one")
        return int(found[0])

    def close(self):
        self.run("pg_ctl", "-D", self.dir / "cluster", "-w", "-s", "-m", "immediate", "stop")
        shutil.rmtree(self.dir)


class Watch(threading.Thread):
    """Memory of the agent and all its children every so many seconds, and bytes of its folder every ten."""

    def __init__(self, folder, every_s=2):
        super().__init__(daemon=True)
        self.folder, self.every_s, self.pid, self.memory, self.words, self.most_disk, self.ends = folder, every_s, None, [], [], 0, False
        self.most, self.most_of = 0, []

    def run(self):
        while not self.ends:
            if self.pid is not None:
                each = memory_of_each(self.pid)
                total = sum(pss for _, pss, _ in each)
                self.memory.append((total, sum(anonymous for _, _, anonymous in each), len(each)))
                self.words.append([words for words, _, _ in each])
                if total > self.most:
                    self.most, self.most_of = total, each
            if len(self.memory) % round(10 / self.every_s) == 0:
                self.most_disk = max(self.most_disk, disk_bytes(self.folder))
            time.sleep(self.every_s)


class Form:
    """The long form, as shipped, or a short one."""

    def __init__(self, minutes):
        self.is_long = minutes >= 20
        # What is shipped is not said. More windows than are shipped are no fair load for the cap.
        self.on_s, self.every_s, self.before_s, self.after_s = (20, 300, 30, 10) if self.is_long else (4, 50, 5, 3)
        windows = [] if self.is_long else ["--on", self.on_s, "--every", self.every_s, "--before", self.before_s, "--after", self.after_s, "--max-cpu-pct", 50]
        self.kept = ["--keep-size", f"{KEEP_MIB}M", "--keep-days", 36500]
        # Recorders begin three hundred times as often as without blocks, and that counts, too: what one period costs is held to the cap
        # that is shipped when it has been measured.
        cap = ["--max-cpu-pct", 3] if self.is_long else []
        self.words = [*windows, *cap, *self.kept, "--trigger-every", 5]
        # A block, the part of it in which recorders begin or end, and the seconds beside a window that it is compared with.
        self.block_s, self.settle_s, self.flanks_s = 6, 3, 10 if self.is_long else 5


def filled(folder, form, program):
    """Makes one recording and copies it until the folder is nearly full, so that retention has work to do."""
    agent = Agent(program, folder, *form.kept, "--on", 4, "--every", 5)
    first = agent.wait_until(agent.recordings, 60, "a window")[0]
    agent.wait_for("the first window is in", 90)
    agent.stop()
    size = disk_bytes(first)
    for number in range(((KEEP_MIB << 20) * 7 // 8) // size):
        shutil.copytree(first, folder / "2026-01-01" / f"{number // 3600:02}{number // 60 % 60:02}{number % 60:02}.rec")
    for path in agent.recordings():
        if path.parent.name != "2026-01-01":
            shutil.rmtree(path)


def until(when):
    time.sleep(max(0, when - time.time()))


class Course:
    """Makes blocks, windows, a trigger and a kill follow one another, and notes when they were."""

    def __init__(self, program, folder, form, words, watch):
        self.program, self.folder, self.form, self.words, self.watch = program, folder, form, words, watch
        self.pause, self.rng = folder / "pause", random.Random(1)
        self.pairs, self.windows, self.killed, self.flight_cost, self.window_cost = [], [], [], [], []
        self.ran_s, self.begun, self.metrics, self.said = 0.0, 0, {}, []
        self.start()

    def start(self):
        self.agent = Agent(self.program, self.folder, *self.words)
        self.watch.pid = self.agent.pid
        duty = self.agent.metrics()[("duty_cycle_configured_ratio",)]
        assert math.isclose(duty, self.form.on_s / self.form.every_s), f"found a duty cycle of {duty}; needed: {self.form.on_s} s of {self.form.every_s} s"

    def end_agent(self, how):
        """Adds up what the counters of one agent say."""
        for key, value in self.agent.metrics().items():
            self.metrics[key] = self.metrics.get(key, 0) + value if key[0].endswith("_total") else value
        self.said.append(self.agent.said())
        how()

    def cost_s(self):
        """CPU and BPF seconds so far, and when that was."""
        seen = self.agent.metrics()
        return seen[("own_cpu_seconds_total",)] + seen[("bpf_seconds_total",)], time.time()

    def runs(self, yes):
        if yes:
            self.pause.unlink(missing_ok=True)
        else:
            self.pause.touch()

    def next_window(self):
        return self.agent.metrics()[("next_window_timestamp_seconds",)]

    def pair(self):
        """Two blocks, one with and one without a flight recorder."""
        spans, order = {}, [True, False]
        self.rng.shuffle(order)
        for runs in order:
            began = time.time()
            self.runs(runs)
            until(began + self.form.settle_s)
            cost = self.cost_s() if runs else None
            until(began + self.form.block_s)
            spans[runs] = (began + self.form.settle_s, time.time())
            if runs:
                after = self.cost_s()
                self.flight_cost.append((after[0] - cost[0], after[1] - cost[1]))
                self.ran_s += self.form.block_s
        self.pairs.append((spans[False], spans[True]))

    def window(self, begins, kills):
        self.runs(True)
        now = time.time()
        comes_too_soon = now > begins - BEFORE_S - self.form.flanks_s - self.form.settle_s
        until(begins - BEFORE_S - self.form.flanks_s)
        cost = self.cost_s()
        if kills:
            until(begins + self.form.on_s / 2)
            self.end_agent(self.agent.kill_all)
            self.start()
            self.killed.append(begins)
        until(begins + self.form.on_s + AFTER_S + self.form.flanks_s)
        self.begun += 1
        if not kills and not comes_too_soon:
            after = self.cost_s()
            self.window_cost.append((after[0] - cost[0], after[1] - cost[1]))
            self.windows.append((begins, begins + self.form.on_s))
        self.ran_s += time.time() - now

    def trigger(self, keep):
        """Lets the flight recorder run for as long as it is to keep, fires, and lets it close."""
        self.runs(True)
        until(time.time() + self.form.settle_s + self.form.before_s + 2)
        keep.write_text(str(time.time()))
        until(time.time() + self.form.after_s + 5)
        self.ran_s += self.trigger_s

    @property
    def trigger_s(self):
        return self.form.settle_s + self.form.before_s + 2 + self.form.after_s + 5

    def follow(self, ends, keep):
        begins, fired = time.time(), False
        while (now := time.time()) < ends:
            left = self.next_window() - now - BEFORE_S - self.form.flanks_s - self.form.settle_s
            if not fired and now - begins > (ends - begins) / 3 and left > self.trigger_s:
                self.trigger(keep)
                fired = True
            elif left > 2 * self.form.block_s:
                self.pair()
            else:
                self.window(self.next_window(), not self.killed and now - begins > (ends - begins) / 2)
        self.runs(False)


def measure(program, minutes, place, folder):
    form, keep = Form(minutes), folder.parent / "keep"
    filled(folder, form, program)
    words = [*form.words, "--trigger", f"file:{keep}"]
    cluster, speed, watch, tps = Cluster(place), Speed(folder.parent), Watch(folder), {cpu: [] for cpu in sorted(os.sched_getaffinity(0))}
    (folder / "pause").touch()
    course = Course(program, folder, form, words, watch)
    watch.start()
    try:
        ends = time.time() + WARM_UP_S + minutes * 60
        benches = [threading.Thread(target=cluster.bench, args=(cpu, int(ends - time.time() + 400), of_cpu), daemon=True) for cpu, of_cpu in tps.items()]
        for bench in benches:
            bench.start()
        time.sleep(WARM_UP_S)
        course.follow(ends, keep)
        time.sleep(3)
        watch.ends = True
        course.end_agent(course.agent.stop)
    finally:
        course.agent.process.kill()
        speed.stop()
        cluster.close()
    return form, course, tps, speed, watch


def own_cost(course, form):
    """What is counted of the agent, CPU and BPF: s a s of the flight recorder and the agent itself, s a window, % of the machine."""
    flight = sum(cost for cost, _ in course.flight_cost) / sum(time_s for _, time_s in course.flight_cost)
    window = sum(cost - flight * time_s for cost, time_s in course.window_cost) / max(1, len(course.window_cost))
    return flight, window, 100 * (flight + window / form.every_s) / os.cpu_count()


def of_slowdown(form, course, tps, speed, spans):
    recorded = [(begins, end) for begins, end in course.windows if any(abs(begins - began) < 2 for began, _ in spans)]
    slow = slowdown(tps, speed, course.pairs, recorded, form.flanks_s, form.every_s)
    left = pathlib.Path("out/agent/pgbench.json")
    left.parent.mkdir(parents=True, exist_ok=True)
    course_of = {name: getattr(course, name) for name in ("pairs", "windows", "killed", "flight_cost", "window_cost")}
    left.write_text(json.dumps({**vars(form), **course_of, "recorded": spans, **slow}))
    flight, total, measured = ("{:.4f} ({:.4f} to {:.4f})".format(*slow[name]) for name in ("flight", "total", "measured"))
    window = "{:.2f} s ({:.2f} to {:.2f})".format(*slow["window_s"])
    words = (
        f"slowdown {total}: of it the flight recorder {flight} in {len(course.pairs)} pairs of {form.block_s} s ({measured} before the machine's "
        f"speed was taken out, which explains {slow['explained']:.0%} of the variance from second to second), and a window of {form.on_s} s "
        f"in {form.every_s} s takes {window} of both processors ({len(recorded)} windows)" + ("" if form.is_long else "; the bound is that of the long form")
    )
    return words, slow["total"][2] <= SLOWDOWN or not form.is_long


def judged(form, course, tps, speed, watch, folder, program):
    """What was promised, one after another: words, and whether it is so."""
    metrics = course.metrics
    windows = [path for path in folder.glob("20*/*.rec") if path.parent.name != "2026-01-01"]
    documents = {path: manifest(path) for path in windows}
    whole = {path: document for path, document in documents.items() if document["complete"]}
    spans = sorted(span_s(document) for document in whole.values())
    recorded_s = sum(length_s for _, length_s in spans)
    triggered = sorted(folder.glob("triggered/*-file.rec"))
    checks = [subprocess.run([program, "check", str(path)], capture_output=True, text=True, timeout=120) for path in [*whole, *triggered]]
    # Looks at the agent and one recorder: how many close and begin at once is chance.
    anonymous = [one for _, one, processes in watch.memory if processes == 2]
    third = len(anonymous) // 3
    early, late = (sorted(part)[len(part) // 2] for part in (anonymous[:third], anonymous[-third:]))
    most_of = ", ".join(f"{pss / (1 << 20):.0f} {words[:200]}" for words, pss, _ in watch.most_of)
    periods = {int(began // form.every_s) for began, _ in spans}
    cut = [path.name for path, document in documents.items() if not document["complete"]]
    capped = metrics.get(("windows_skipped_total", "cost"), 0)
    flight_s, window_s, cost_pct = own_cost(course, form)
    print(json.dumps({"tps": {cpu: round(sum(value for _, value in of_cpu) / len(of_cpu)) for cpu, of_cpu in tps.items()}, "memory_mib_every_20_s": [total >> 20 for total, _, _ in watch.memory][::10]}))
    return [
        of_slowdown(form, course, tps, speed, spans),
        (
            f"{len(whole)} windows of {form.on_s} s in {course.begun} periods, {len(cut)} cut by the kill, {capped:.0f} left out for their cost: {recorded_s:.0f} s (duty cycle stated in the end {metrics[('duty_cycle_ratio',)]:.4f})",
            len(whole) + len(cut) + capped == course.begun and abs(recorded_s - len(whole) * form.on_s) < 0.1 * recorded_s,
        ),
        (f"no period twice, {len(cut)} cut by the kill", len(periods) == len(spans) and len(cut) == len(course.killed)),
        (
            f"own CPU and BPF {cost_pct:.2f} % of the machine: {1000 * flight_s:.1f} ms a second, and {window_s:.2f} s a window; with all starts {metrics[('own_cpu_seconds_total',)]:.1f} s and {metrics[('bpf_seconds_total',)]:.2f} s in {course.ran_s:.0f} s",
            flight_s > 0 and window_s > 0 and (cost_pct < SHIPPED_CAP_PCT or not form.is_long),
        ),
        (f"memory at most {watch.most / (1 << 20):.0f} MiB: {most_of}", watch.most <= MEMORY_BYTES),
        (f"flat: half of the looks at one recorder found at most {early / (1 << 20):.1f} MiB of anonymous memory in the first third, {late / (1 << 20):.1f} MiB in the last", late <= early * 1.15 + (2 << 20)),
        (f"disk at most {watch.most_disk / (1 << 20):.1f} of {KEEP_MIB} MiB, {metrics[('removed_recordings_total', 'size')]:.0f} removed", watch.most_disk <= KEEP_MIB << 20 and metrics[("removed_recordings_total", "size")] > 0),
        (f"{len(triggered)} triggered recording, complete", len(triggered) == 1 and manifest(triggered[0])["complete"]),
        (f"{len(checks)} recordings checked", all(done.returncode == 0 for done in checks)),
        (f"events lost: {metrics[('events_lost_total',)]:.0f}", metrics[("events_lost_total",)] == 0),
    ]


def run(program, minutes, place, folder):
    form, course, tps, speed, watch = measure(program, minutes, place, folder)
    return judged(form, course, tps, speed, watch, folder, program), "\n".join(course.said)


if __name__ == "__main__":
    sys.exit(judge_beside_pgbench(__doc__, 60, 3, run))
