#!/usr/bin/env python3
"""The zoo: cases with known causes, made on this machine, and what pagelab says of them.

    tests/zoo/zoo.py make PAGELAB DIR [CAUSE ...]      records the cases that DIR lacks            as root
    tests/zoo/zoo.py judge PAGELAB DIR                 compares them and counts rights and wrongs

A case is eight runs of each side, in turns. `make` can be stopped and goes on where it was. DIR is to be on a disk. Settings of the
kernel are put back after each case, and the state of the host is compared with the one before.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

from cases import Side, all_cases

HERE = pathlib.Path(__file__).resolve().parent
RUNS = 8
FREQUENCY = "997"


class Host:
    """Files of the kernel that were written, and are put back."""

    def __init__(self):
        self.before = {}

    def read(self, path):
        text = pathlib.Path(path).read_text().strip()
        chosen = [word[1:-1] for word in text.split() if word.startswith("[")]
        return chosen[0] if chosen else text

    def write(self, path, value):
        for one in (self.TWINS.get(path, path), path):
            self.before.setdefault(one, self.read(one))
        if self.read(path) != value:
            pathlib.Path(path).write_text(value)

    # Of two settings for one limit the kernel sets the other to 0, and takes no 0 back.
    TWINS = {"/proc/sys/vm/dirty_bytes": "/proc/sys/vm/dirty_ratio"}

    def put_back(self):
        for path, value in self.before.items():
            if self.read(path) == value:
                continue
            if value == "0" and path in self.TWINS:
                pathlib.Path(self.TWINS[path]).write_text(self.before[self.TWINS[path]])
            else:
                pathlib.Path(path).write_text(value)
        wrong = [path for path, value in self.before.items() if self.read(path) != value]
        if wrong:
            raise SystemExit(f"zoo: not as before: {wrong}")
        self.before = {}


class Groups:
    """A control group of its own for each run, in whichever version has the controller."""

    ROOT = pathlib.Path("/sys/fs/cgroup")
    # Files of version 1 for limits of version 2.
    V1 = {"memory.max": ("memory", "memory.limit_in_bytes"), "cpu.max": ("cpu", "cpu.cfs_quota_us"), "io.max": ("blkio", None)}

    def __init__(self, device):
        self.made = set()
        self.device = device

    def make(self, limits):
        """Folders whose cgroup.procs take the run in."""
        folders = []
        for name, value in limits.items():
            controller, file = self.V1[name]
            is_v1 = (self.ROOT / controller).is_dir()
            folder = (self.ROOT / controller if is_v1 else self.ROOT) / "zoo"
            folder.mkdir(exist_ok=True)
            self.made.add(folder)
            folders.append(folder)
            self.limit(folder, name, value, file, is_v1)
        return folders

    def limit(self, folder, name, value, file, is_v1):
        if not is_v1:
            value = f"{self.device} {value}" if name == "io.max" else value
            (folder / name).write_text(value)
        elif name == "io.max":
            for kind in ("read", "write"):
                iops = value.partition("riops=")[2] or "0"
                (folder / f"blkio.throttle.{kind}_iops_device").write_text(f"{self.device} {iops}")
        elif name == "cpu.max":
            quota, period = value.split()
            (folder / "cpu.cfs_period_us").write_text(period)
            (folder / file).write_text("-1" if quota == "max" else quota)
        else:
            (folder / file).write_text(value)

    def remove(self):
        for folder in self.made:
            for _ in range(100):
                try:
                    folder.rmdir()
                    break
                except OSError:
                    time.sleep(0.05)
        self.made = set()


def device_of(path):
    number = os.stat(path).st_dev
    name = pathlib.Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
    disk = name.parent if (name / "partition").exists() else name
    return disk.name, (disk / "dev").read_text().strip()


class Zoo:
    def __init__(self, pagelab, folder):
        self.pagelab, self.folder = pagelab, folder
        self.data = folder / "data"
        self.data.mkdir(parents=True, exist_ok=True)
        disk, number = device_of(folder)
        self.host, self.groups = Host(), Groups(number)
        self.names = {"work": folder / "work", "dir": self.data, "disk": disk, "mount": folder / "mount", "repo": self.data / "repo",
                      "source": HERE / "work.c", "debug": folder / "debug"}

    def prepare(self):
        subprocess.run(["gcc", "-O2", "-pthread", "-o", self.names["work"], HERE / "work.c"], check=True)
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
        repo = self.names["repo"]
        if not repo.exists():
            subprocess.run(["git", "clone", "-q", HERE.parents[1], repo], check=True)

    def fill(self, words):
        return [str(word).format(**self.names) if "{" in str(word) and "{sync}" not in str(word) else str(word) for word in words]

    def run(self, side, out):
        """One run of a side."""
        for path, value in side.settings.items():
            self.host.write(path.format(**self.names), value)
        for command in side.before:
            subprocess.run(self.fill(command), check=True)
        folders = self.groups.make(side.limits)
        beside = [subprocess.Popen(self.fill(command), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
                  for command in side.beside]
        if beside:
            time.sleep(0.3)
        record = [self.pagelab, "record", "-q", "--frequency", FREQUENCY, "-o", out, "--", *side.prefix, *self.fill(side.command)]

        def enter():
            # Limits are read where the target begins, so the recorder is in the group, too.
            for folder in folders:
                (folder / "cgroup.procs").write_text(str(os.getpid()))

        done = subprocess.run(record, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=os.environ | side.env, preexec_fn=enter)
        for process in beside:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if done.returncode:
            raise RuntimeError(f"{' '.join(map(str, record))}: status {done.returncode}: {done.stderr.decode()[-500:]}")

    def record(self, case):
        folder = self.folder / "cases" / case.name()
        if (folder / "done").exists():
            return
        shutil.rmtree(folder, ignore_errors=True)
        try:
            self.run(case.base, folder / "warm")
            shutil.rmtree(folder / "warm")
            for run in range(RUNS):
                order = [("base", case.base), ("test", case.test)]
                for name, side in order if run % 2 == 0 else order[::-1]:
                    self.run(side, folder / name / f"run={run:03}")
        finally:
            self.host.put_back()
            self.groups.remove()
        truth = self.folder / "truth"
        truth.mkdir(exist_ok=True)
        (truth / f"{case.name()}.json").write_text(json.dumps({"cause": case.cause, "workload": case.workload, "also": list(case.also)}))
        (folder / "done").touch()

    def close(self):
        for name in ("mount", "debug"):
            if self.names[name].is_mount():
                subprocess.run(["umount", self.names[name]], check=True)


def make(pagelab, folder, causes):
    zoo = Zoo(pagelab, folder)
    zoo.prepare()
    failed = 0
    try:
        for case in all_cases():
            if causes and case.cause not in causes:
                continue
            began = time.monotonic()
            try:
                zoo.record(case)
                print(f"{case.name()} {case.cause or 'unknown'} {case.workload}: {time.monotonic() - began:.0f} s", flush=True)
            except Exception as error:
                failed += 1
                print(f"{case.name()} {case.cause} {case.workload}: FAILED: {error}", flush=True)
    finally:
        zoo.close()
    return 1 if failed else 0


def verdict(pagelab, case):
    line = [pagelab, "compare", "--json", case / "base", case / "test"]
    out = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if not out.stdout:
        raise RuntimeError(out.stderr.decode()[-500:])
    return json.loads(out.stdout)


def judge(pagelab, folder):
    right = wrong = 0
    for case in sorted((folder / "cases").iterdir()):
        if not (case / "done").exists():
            continue
        truth = json.loads((folder / "truth" / f"{case.name}.json").read_text())
        try:
            found = verdict(pagelab, case)
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
    return 0


def main():
    if len(sys.argv) < 4 or sys.argv[1] not in ("make", "judge"):
        raise SystemExit(__doc__)
    pagelab, folder = str(pathlib.Path(sys.argv[2]).resolve()), pathlib.Path(sys.argv[3]).resolve()
    if sys.argv[1] == "make":
        return make(pagelab, folder, sys.argv[4:])
    return judge(pagelab, folder)


if __name__ == "__main__":
    sys.exit(main())
