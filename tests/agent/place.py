"""What the tests of `pagelab agent` stand on: an agent in a folder of its own, and what it takes from the host."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

try:
    from prometheus_client.parser import text_string_to_metric_families
except ImportError:
    text_string_to_metric_families = None

# Pages are touched again and again; the program ends with its parent.
LOAD = """import mmap, time, ctypes
ctypes.CDLL(None).prctl(1, 9)
while True:
    block = mmap.mmap(-1, 1000 * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for at in range(0, 1000 * 4096, 4096): block[at] = 1
    block.close()
    time.sleep(0.01)"""


def descendants(pid):
    """The process and all below it."""
    found, waiting = [], [pid]
    while waiting:
        one = waiting.pop()
        found.append(one)
        try:
            waiting += [int(word) for word in pathlib.Path(f"/proc/{one}/task/{one}/children").read_text().split()]
        except OSError:
            pass
    return found


def memory_of_each(pid):
    """What the agent and each of its children take: its words, its share of memory that several have (PSS), and of that what is no file's."""
    each = []
    for one in descendants(pid):
        try:
            rollup = pathlib.Path(f"/proc/{one}/smaps_rollup").read_text()
            words = pathlib.Path(f"/proc/{one}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        fields = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in rollup.splitlines()[1:]}
        each.append((words, fields.get("Pss", 0), fields.get("Pss_Anon", 0)))
    return each


def memory_bytes(pid):
    """All of them together: what they take, and of that what is no file's."""
    each = memory_of_each(pid)
    return sum(pss for _, pss, _ in each), sum(anonymous for _, _, anonymous in each)


def disk_bytes(folder):
    """Bytes on disk at and below a folder; what goes meanwhile does not count."""
    total = 0
    for at, _, names in os.walk(folder):
        for name in [at, *(os.path.join(at, name) for name in names)]:
            try:
                total += os.lstat(name).st_blocks * 512
            except OSError:
                pass
    return total


def manifest(recording):
    return json.loads((recording / "manifest.json").read_text())


def span_s(document):
    """Seconds of the wall clock that a closed recording measured: when it began, and how long."""
    clock, measured = document["clock"], document["measured"]
    begin = (clock["realtime_at_start_ns"] - clock["start_ns"] + measured["start_ns"]) / 1e9
    return begin, (measured["end_ns"] - measured["start_ns"]) / 1e9


class Agent:
    """An agent that runs."""

    def __init__(self, program, folder, *words, env=None):
        self.folder, self.log = folder, folder.with_name(folder.name + ".log")
        self.out = open(self.log, "ab")
        self.began = self.out.tell()
        words = [program, "agent", "-o", folder, "--listen", "127.0.0.1:0", *words]
        self.process = subprocess.Popen([str(word) for word in words], env={**os.environ, **(env or {})}, stdout=self.out, stderr=self.out, start_new_session=True)
        self.pid = self.process.pid
        self.port = int(self.wait_for(r"metrics at http://127\.0\.0\.1:(\d+)/metrics", 20)[0])

    def said(self):
        return self.log.read_bytes()[self.began:].decode(errors="replace")

    def wait_for(self, pattern, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = re.findall(pattern, self.said())
            if found:
                return found
            assert self.process.poll() is None, f"the agent ended with {self.process.returncode}:\n{self.said()}"
            time.sleep(0.05)
        raise AssertionError(f"{pattern!r} was not said in {seconds} s:\n{self.said()}")

    def page(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            return answer.read().decode()

    def metrics(self):
        """Values by name and labels, read as Prometheus reads them where its reader is there."""
        values = {}
        if text_string_to_metric_families is not None:
            for family in text_string_to_metric_families(self.page()):
                for sample in family.samples:
                    values[(sample.name.removeprefix("pagelab_agent_"), *sorted(sample.labels.values()))] = sample.value
            return values
        for line in self.page().splitlines():
            if not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                labels = re.findall(r'="((?:[^"\\]|\\.)*)"', name)
                values[(name.split("{")[0].removeprefix("pagelab_agent_"), *sorted(labels))] = float(value)
        return values

    def recordings(self, pattern="20*/*.rec"):
        return sorted(path for path in self.folder.glob(pattern) if (path / "manifest.json").exists())

    def wait_until(self, condition, seconds, what):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = condition()
            if found:
                return found
            assert self.process.poll() is None, f"the agent ended with {self.process.returncode}:\n{self.said()}"
            time.sleep(0.05)
        raise AssertionError(f"{what} did not happen in {seconds} s:\n{self.said()}")

    def stop(self, how=signal.SIGTERM):
        """Ends it; gives the seconds that it took."""
        began = time.monotonic()
        self.process.send_signal(how)
        self.process.wait(timeout=30)
        return time.monotonic() - began

    def kill_all(self):
        """Kills the agent and all its recorders at one instant, as the kernel does with a cgroup."""
        pids = descendants(self.pid)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self.process.wait(timeout=30)


class Host:
    """What a test must leave as it found it."""

    FILES = ["/proc/sys/kernel/bpf_stats_enabled", "/proc/sys/kernel/perf_event_paranoid", "/sys/kernel/mm/transparent_hugepage/enabled"]

    def __init__(self):
        self.before = self.state()

    @staticmethod
    def state():
        return {name: pathlib.Path(name).read_text() for name in Host.FILES if pathlib.Path(name).exists()}

    @staticmethod
    def running(programs):
        """Processes that have their program below this folder, with their words."""
        found = {}
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(process / "exe").startswith(str(programs)):
                    found[process.name] = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
        return found

    def check(self, programs):
        """No setting has changed, and two seconds after its end nothing is left that has its program below this folder."""
        assert self.state() == self.before, (self.before, self.state())
        end = time.monotonic() + 2
        while self.running(programs) and time.monotonic() < end:
            time.sleep(0.05)
        assert not self.running(programs), self.running(programs)


def gone(pids, seconds=10):
    """Waits until no process of these is left."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        left = [pid for pid in pids if pathlib.Path(f"/proc/{pid}").exists()]
        if not left:
            return
        time.sleep(0.05)
    raise AssertionError(f"processes {left} are left")


def removed(folder):
    shutil.rmtree(folder, ignore_errors=True)


def judge_beside_pgbench(doc, minutes, least_minutes, run):
    """The main program of a test of MINUTES in PLACE: `run(program, minutes, place, folder)` gives what was found, each with whether it is so, and what
    the agent said."""
    if len(sys.argv) not in (2, 3, 4) or os.geteuid() != 0:
        raise SystemExit(doc)
    program = str(pathlib.Path(sys.argv[1]).resolve())
    minutes = float(sys.argv[2]) if len(sys.argv) > 2 else minutes
    place = sys.argv[3] if len(sys.argv) > 3 else "/dev/shm"
    if minutes < least_minutes:
        raise SystemExit(f"found {minutes:g} minutes, needed at least {least_minutes}")
    test = pathlib.Path(sys.argv[0]).name
    print(f"# {time.strftime('%Y-%m-%d')} Linux {os.uname().release}, {os.cpu_count()} CPUs: {test} {minutes:g} {place}", flush=True)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="pagelab-agent-", dir="/var/tmp") as name:
        found, said = run(program, minutes, place, pathlib.Path(name) / "recordings")
        for words, is_so in found:
            failed += not is_so
            print(("ok: " if is_so else "NOT SO: ") + words, flush=True)
        if failed:
            print(said)
    return 1 if failed else 0
