#!/usr/bin/env python3
"""The zoo: cases with known causes, made on this machine, and what pagelab says of them.

    tests/zoo/zoo.py make PAGELAB DIR [CAUSE ...]      records the cases that DIR lacks            as root
    tests/zoo/zoo.py judge PAGELAB DIR                 compares them and counts rights and wrongs

A case is eight runs of each side, in turns. `make` can be stopped and goes on where it was. DIR is to be on a disk. Settings of the
kernel are put back after each case, and the state of the host is compared with the one before.
"""

import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import bounds
from cases import all_cases
from host import Groups, Host, device_of

HERE = pathlib.Path(__file__).resolve().parent
RUNS = 8
FREQUENCY = "997"
# A run that takes longer has met something else than its cause, seconds.
LONGEST_S = 60
# This machine has neighbours: sides are compared at equal speed.
STREAMS = "default,speed"
# What cases run besides what Debian always has.
PROGRAMS = ["7z", "Rscript", "ab", "bc", "brotli", "busybox", "bzip2", "chezscheme", "clisp", "cpio", "db_bench", "dd", "erl", "fio", "fpc", "g++", "gawk",
            "gcc", "gfortran", "gforth", "git", "guile", "gzip", "ioping", "jq", "lua5.4", "luajit", "lz4", "lzop", "mawk", "mcs", "memcached", "mono",
            "newlisp", "nginx", "node", "ocamlopt", "openssl", "perl", "pgbench", "php", "pigz", "pypy3", "python3", "redis-server", "rhash", "rsync",
            "ruby", "sbcl", "sqlite3", "stress-ng", "swipl", "sysbench", "tar", "tclsh", "xz", "zstd"]


class Zoo:
    def __init__(self, pagelab, folder):
        # Ended from outside, it still puts the host back.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        self.pagelab, self.folder = pagelab, folder
        self.data = folder / "data"
        self.data.mkdir(parents=True, exist_ok=True)
        disk, number = device_of(folder)
        self.host, self.groups = Host(), Groups(number)
        self.names = {"work": folder / "work", "dir": self.data, "disk": disk, "mount": folder / "mount", "repo": self.data / "repo",
                      "source": HERE / "work.c", "debug": folder / "debug"}

    def prepare(self):
        missing = [program for program in PROGRAMS if not shutil.which(program)]
        if missing:
            raise SystemExit(f"zoo: needs {', '.join(missing)}: type 'make setup-zoo'")
        subprocess.run(["gcc", "-O2", "-pthread", "-o", self.names["work"], HERE / "work.c"], check=True)
        self.touch_memory()
        lines = self.data / "text.data"
        if not lines.exists():
            draw = random.Random(1)
            words = [f"{draw.randrange(10 ** 9)} {draw.choice(['lorem', 'ipsum', 'dolor'])}\n" for _ in range(1 << 20)]
            lines.write_text("".join(words) * 4)
        for name, size in (("work.data", 128 << 20), ("large.data", 2 << 30)):
            file = self.data / name
            if not file.exists() or file.stat().st_size < size:
                with open(file, "wb") as out:
                    for _ in range(size >> 20):
                        out.write(os.urandom(1 << 16) * 16)
        mount = self.names["mount"]
        mount.mkdir(exist_ok=True)
        if not mount.is_mount():
            image = self.data / "mount.img"
            subprocess.run(["truncate", "-s", "512M", image], check=True)
            subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
            subprocess.run(["mount", "-o", "loop", image, mount], check=True)
        debug = self.names["debug"]
        debug.mkdir(exist_ok=True)
        if not debug.is_mount():
            subprocess.run(["mount", "-t", "debugfs", "none", debug], check=True)
        self.make_cluster(self.data / "postgres")
        repo = self.names["repo"]
        if not repo.exists():
            subprocess.run(["git", "clone", "-q", HERE.parents[1], repo], check=True)

    def touch_memory(self):
        """Memory of a guest that nobody touched before is fetched by the hypervisor, which would be taken for a loss of whoever is first."""
        available = next(line for line in pathlib.Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
        subprocess.run([self.names["work"], "anon", "ops=1", f"bytes={int(available.split()[1]) * 1024 * 9 // 10}"], check=True, stdout=subprocess.DEVNULL)

    def make_cluster(self, folder):
        """PostgreSQL's files with pgbench's tables. The server does not run as root."""
        if (folder / "made").exists():
            return
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        shutil.chown(folder, "postgres")
        binaries = max(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))
        options = f"-k {folder} -c listen_addresses="
        for line in ([f"{binaries}/initdb", "-D", folder, "-A", "trust"], [f"{binaries}/pg_ctl", "-D", folder, "-w", "-o", options, "start"],
                     [f"{binaries}/pgbench", "-h", folder, "-i", "-s", "5", "-q", "postgres"], [f"{binaries}/pg_ctl", "-D", folder, "-w", "stop"]):
            subprocess.run(["runuser", "-u", "postgres", "--", *line], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
        (folder / "made").touch()

    def fill(self, words):
        """Words with the names of this host's files for {work}, {dir} and so on; other braces stay."""
        named = lambda found: str(self.names.get(found[1], found[0]))
        return [re.sub(r"\{(\w+)\}", named, str(word)) for word in words]

    @contextlib.contextmanager
    def surroundings(self, side):
        """Settings, limits and programs beside a run of a side; gives what the run's process does before anything else."""
        self.host.write_only({self.fill([path])[0]: value for path, value in side.settings.items()})
        for command in side.before:
            subprocess.run(self.fill(command), check=True, stdout=subprocess.DEVNULL)
        folders = self.groups.make(side.limits)
        beside = [subprocess.Popen(self.fill(command), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
                  for command in side.beside]
        if beside:
            time.sleep(0.3)

        def enter():
            for folder in folders:
                (folder / "cgroup.procs").write_text(str(os.getpid()))

        try:
            yield enter
        finally:
            for process in beside:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def run(self, side, out):
        """One recorded run of a side. Limits are read where the target begins, so the recorder is in the group, too."""
        self.start(side, [self.pagelab, "record", "-q", "--observe", STREAMS, "--frequency", FREQUENCY, "-o", str(out), "--"])

    def time(self, side):
        """Seconds that a side takes by itself."""
        return self.start(side, [])

    def start(self, side, recorder):
        line = [*recorder, *self.fill([*side.prefix, *side.command])]
        with self.surroundings(side) as enter:
            began = time.monotonic()
            status, said = ended(line, os.environ | side.env, enter)
            took = time.monotonic() - began
        if status:
            raise RuntimeError(f"{' '.join(line)}: status {status}: {said[-500:]}")
        return took

    @contextlib.contextmanager
    def left_as_found(self):
        """Whatever is changed on the host within is put back at its end."""
        try:
            yield
        finally:
            self.host.put_back()
            self.groups.remove()

    def turns(self, base, test, folder, runs=RUNS, made=0):
        """As many runs of both sides, less those that are made; now one first, now the other, after one that is thrown away."""
        if made == 0:
            self.run(base, folder / "warm")
            shutil.rmtree(folder / "warm")
        for run in range(made, runs):
            order = [("base", base), ("test", test)]
            for name, side in order if run % 2 == 0 else order[::-1]:
                self.run(side, folder / name / f"run={run:03}")

    def record(self, case):
        folder = self.folder / "cases" / case.name()
        if (folder / "done").exists():
            return False
        shutil.rmtree(folder, ignore_errors=True)
        with self.left_as_found():
            self.turns(case.base, case.test, folder)
        truth = self.folder / "truth"
        truth.mkdir(exist_ok=True)
        (truth / f"{case.name()}.json").write_text(json.dumps(case.truth()))
        (folder / "done").touch()
        return True

    def close(self):
        for name in ("mount", "debug"):
            if self.names[name].is_mount():
                subprocess.run(["umount", self.names[name]], check=True)


def ended(line, env, enter):
    """The exit status of a command, and what it said on stderr. One that does not end in time is killed with all that it started."""
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=said, env=env, preexec_fn=enter, start_new_session=True)
        # A wait with a limit looks every 50 ms: as much as a small case loses.
        late = threading.Timer(LONGEST_S, os.killpg, (process.pid, signal.SIGKILL))
        late.start()
        try:
            status = process.wait()
        finally:
            in_time = late.is_alive()
            late.cancel()
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if not in_time:
            raise RuntimeError(f"{' '.join(line)}: did not end within {LONGEST_S} s")
        said.seek(0)
        return status, said.read()


def make_all(zoo, cases, record, said):
    """Records case after case, says of each how long it took or why it failed, and gives the exit status. Those that were there are
    passed over without a word: `record` gives False."""
    zoo.prepare()
    failed = 0
    try:
        for case in cases:
            began = time.monotonic()
            try:
                if record(case):
                    print(f"{said(case)}: {time.monotonic() - began:.0f} s", flush=True)
            except Exception as error:
                failed += 1
                print(f"{said(case)}: FAILED: {error}", flush=True)
    finally:
        zoo.close()
    return 1 if failed else 0


def make(pagelab, folder, causes):
    zoo = Zoo(pagelab, folder)
    wanted = [case for case in all_cases() if not causes or case.cause in causes]
    return make_all(zoo, wanted, zoo.record, lambda case: f"{case.name()} {case.cause or 'unknown'} {case.workload}")


def recorded_s(folder):
    """What each recorded run of a side took, seconds: recording makes some of them slower."""
    spans = [json.loads(path.read_text())["measured"] for path in folder.glob("*/manifest.json")]
    return [(span["end_ns"] - span["start_ns"]) / 1e9 for span in spans]


def verdict(pagelab, case, truth):
    """What compare says of a case, in a mount namespace without the truth."""
    hidden = 'mount -t tmpfs none "$0" && exec "$@"'
    line = ["unshare", "-m", "sh", "-c", hidden, truth, pagelab, "compare", "--json", case / "base", case / "test"]
    out = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if not out.stdout:
        raise RuntimeError(out.stderr.decode()[-500:])
    return json.loads(out.stdout)


def judge(pagelab, folder):
    right = wrong = cases = 0
    for case in sorted((folder / "cases").iterdir()):
        if not (case / "done").exists():
            continue
        truth = json.loads((folder / "truth" / f"{case.name}.json").read_text())
        cases += 1
        try:
            found = verdict(pagelab, case, folder / "truth")
        except RuntimeError as error:
            print(f"{case.name} FAILED {truth['cause'] or 'unknown':22} {truth['workload']:8} {error}", flush=True)
            continue
        findings = [(one["cause"], one["confidence"], (one["effect"] or {}).get("share")) for one in found["findings"]]
        first = findings[0] if findings else None
        is_right = first is not None and first[0] in (truth["cause"], *truth["also"]) if truth["cause"] else not any(
            one[1] != "correlated" for one in findings)
        accused = [one for one in findings if one[1] != "correlated" and one[0] not in (truth["cause"], *truth["also"])]
        right += is_right
        wrong += bool(accused)
        ratio = (found["primary"] or {}).get("ratio")
        said = "; ".join(f"{cause} {confidence} {share if share is None else round(share, 2)}" for cause, confidence, share in findings)
        print(f"{case.name} {'ok   ' if is_right else 'WRONG'} {truth['cause'] or 'unknown':22} {truth['workload']:8} "
              f"x{ratio or 0:.2f}: {said or 'nothing'}", flush=True)
        if not is_right or accused:
            own = [one for one in found["considered"] if one["cause"] == truth["cause"]]
            for one in own:
                print(f"      {one['outcome']}: {'; '.join(one['reasons'])[:400]}")
            for one in found["findings"][:3]:
                print(f"      {one['cause']}: not looked at: {'; '.join(one.get('not_looked_at', []))[:300]}")
            for part in ((found.get("budget") or {}).get("components") or [])[:6]:
                print(f"      {part['component']}: {(part['difference_ns'] or 0) / 1e6:.1f} ms")
    print(f"{right} right; {wrong} accused wrongly")
    return bounds.ended("zoo", {"zoo.right": (right, cases), "zoo.accused": (wrong, cases)})


def main():
    if len(sys.argv) < 4 or sys.argv[1] not in ("make", "judge"):
        raise SystemExit(__doc__)
    pagelab, folder = str(pathlib.Path(sys.argv[2]).resolve()), pathlib.Path(sys.argv[3]).resolve()
    if sys.argv[1] == "make":
        return make(pagelab, folder, sys.argv[4:])
    return judge(pagelab, folder)


if __name__ == "__main__":
    sys.exit(main())
