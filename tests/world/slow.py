#!/usr/bin/env python3
"""Slowdowns that other people reported in public, made again from their reports.

    tests/world/slow.py list                          all cases: group, name, source
    tests/world/slow.py check NAME...                 prepares, runs both sides bare, says whether the loss shows, puts back     as root
    tests/world/slow.py ask PAGELAB OUT NAME...       prepares, records both sides, compares, puts back                           as root
    tests/world/slow.py clean NAME...                 puts back what a stopped run left                                           as root

NAME is a folder of tests/world/slow, `tuning`, `frozen` or `all`. Scratch folders are made below $SLOW_DIR (/var/tmp/pagelab-slow).

`check` ends with status 1 while a case shows no loss or cannot be made. `ask` reads the commands of a case and no more: the truth is read
by whoever judges. It keeps OUT/NAME/base and OUT/NAME/test (the recordings), answer.json and answer.txt, and failed.txt if there is none.
"""

import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
# Both sets are asked in the same way.
sys.path.insert(0, str(HERE.parent / "zoo"))
from turns import LEVEL, SIDES, in_order, interleaved  # noqa: E402
CASES = HERE / "slow"
SCRATCH = pathlib.Path(os.environ.get("SLOW_DIR", "/var/tmp/pagelab-slow"))
SEED = 20261130
TUNING = 12
# A preparation, a run, or a comparison that takes longer hangs, seconds.
PREPARES_S, RUNS_S, COMPARES_S = 900, 120, 300
# A loss that is smaller is none.
LEAST_PCT = 10
WORDS = {"source", "group", "what", "truth", "component_hint", "names", "place", "needs", "fix",
         "prepare", "base", "test", "base_before", "test_before", "cleanup"}
COMMANDS = ("needs", "prepare", "base", "test", "base_before", "test_before", "cleanup")


class Failed(Exception):
    """A case that cannot be made or run here."""


def names():
    return sorted((CASES / "names.txt").read_text().split())


def groups():
    """The group of each case, drawn over the names alone."""
    drawn = names()
    random.Random(SEED).shuffle(drawn)
    return {name: "tuning" if at < TUNING else "frozen" for at, name in enumerate(drawn)}


def chosen(words):
    drawn = groups()
    for word in words:
        if word in drawn:
            yield word
        elif word in ("all", "tuning", "frozen"):
            yield from (name for name in sorted(drawn) if word in ("all", drawn[name]))
        else:
            raise SystemExit(f"slow: there is no case {word}")


def read(name):
    case = tomllib.loads((CASES / name / "case.toml").read_text())
    missing = WORDS - {"base_before", "test_before"} - set(case)
    if missing or set(case) - WORDS:
        raise SystemExit(f"slow: {name}/case.toml lacks {sorted(missing)}, has unknown {sorted(set(case) - WORDS)}")
    if case["group"] != groups()[name]:
        raise SystemExit(f"slow: {name} was drawn as {groups()[name]}")
    return case


class Case:
    """The commands of a case, and nothing of its truth."""

    def __init__(self, name):
        case = read(name)
        self.name, self.dir, self.folder = name, SCRATCH / name, CASES / name
        self.commands = {word: case.get(word, []) for word in COMMANDS}
        for side in SIDES:
            if any("{case}" in word for word in self.commands[side]):
                raise SystemExit(f"slow: the {side} side of {name} runs what lies beside its truth")

    def filled(self, command):
        return [word.replace("{dir}", str(self.dir)).replace("{case}", str(self.folder)) for word in command]

    def run(self, command, limit):
        """Runs a command to its end and gives the seconds that it took."""
        log = self.dir / "log"
        with open(log, "wb") as err:
            began = time.monotonic()
            child = subprocess.Popen(self.filled(command), cwd=self.dir, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err, start_new_session=True)
            # A wait with a limit would look every 50 ms alone.
            alarm = threading.Timer(limit, os.killpg, (child.pid, signal.SIGKILL))
            alarm.start()
            try:
                status = child.wait()
                took = time.monotonic() - began
            except BaseException:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                raise
            finally:
                alarm.cancel()
        if status != 0:
            said = log.read_bytes()[-400:].decode(errors="replace")
            raise Failed(f"{' '.join(self.filled(command))[:200]}: status {status} after {took:.1f} s: {said}")
        return took

    def prepare(self):
        asked = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *self.commands["needs"]], capture_output=True, text=True)
        absent = [one for one in self.commands["needs"] if f"{one} installed" not in asked.stdout.splitlines()]
        if absent:
            raise Failed(f"packages are missing: {' '.join(absent)}")
        self.clean()
        self.dir.mkdir(parents=True)
        for folder in (SCRATCH, self.dir):
            folder.chmod(0o755)
        for command in self.commands["prepare"]:
            self.run(command, PREPARES_S)

    def once(self, side, record=()):
        for command in self.commands[f"{side}_before"]:
            self.run(command, PREPARES_S)
        return self.run([*record, *self.commands[side]], RUNS_S)

    def clean(self):
        """Puts back what the case changed. Every command runs, whatever the others did."""
        if not self.dir.exists():
            return
        for command in self.commands["cleanup"]:
            try:
                self.run(command, PREPARES_S)
            except (Failed, OSError) as error:
                print(f"{self.name}: cleanup: {error}", file=sys.stderr)
        mounts = [line.split()[4] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()]
        left = [one for one in mounts if one == str(self.dir) or one.startswith(f"{self.dir}/")]
        if left:
            raise SystemExit(f"slow: {self.name} is still mounted: {' '.join(left)}")
        shutil.rmtree(self.dir)


def check(case):
    """Whether bare runs show the loss, and the line that says so."""
    case.prepare()
    taken = {side: [] for side in SIDES}
    for side in SIDES:
        case.once(side)
    for _, side in interleaved():
        taken[side].append(case.once(side))
    base, test = (statistics.median(taken[side]) for side in SIDES)
    rare, loss = in_order(*taken.values()), 100 * (test / base - 1)
    shown = rare < LEVEL and loss >= LEAST_PCT
    return shown, f"{'shows' if shown else 'NO LOSS'}: {base:.3f} s on base, {test:.3f} s on test, {loss:+.0f} %, p = {rare:.4f}"


def ask(case, pagelab, out):
    """Both sides recorded and compared, and the line that says where the answer is."""
    folder = out / case.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        case.prepare()
        for run, side in interleaved():
            (folder / side).mkdir(exist_ok=True)
            case.once(side, [pagelab, "record", "-q", "-o", str(folder / side / f"run={run:03}"), "--"])
        # What compare could find of the truth is hidden from it.
        line = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', CASES, pagelab, "compare"]
        for form, file in (["--json"], "answer.json"), ([], "answer.txt"):
            answer = subprocess.run([*line, *form, folder / "base", folder / "test"], capture_output=True, timeout=COMPARES_S)
            (folder / file).write_bytes(answer.stdout)
            if answer.returncode not in (0, 1):
                raise Failed(f"compare: status {answer.returncode}: {answer.stderr[-400:].decode(errors='replace')}")
        json.loads((folder / "answer.json").read_bytes())
    except (Failed, OSError, ValueError, subprocess.TimeoutExpired) as error:
        (folder / "failed.txt").write_text(f"{error}\n")
        raise
    return True, f"asked: {folder / 'answer.txt'}"


def each(words, do):
    """Does it with each case. Puts back what the case changed, also when it fails or is stopped."""
    good = True
    for case in [Case(name) for name in chosen(words)]:
        try:
            well, said = do(case)
        except (Failed, OSError, ValueError, subprocess.TimeoutExpired) as error:
            well, said = False, f"failed: {error}"
        finally:
            case.clean()
        good = good and well
        print(f"{case.name}: {said}", flush=True)
    return 0 if good else 1


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    match sys.argv[1:]:
        case ["list"]:
            for name in names():
                print(f"{groups()[name]}  {name:18}  {read(name)['source']}")
        case ["check", *words] if words:
            return each(words, check)
        case ["ask", pagelab, out, *words] if words:
            pagelab, out = str(pathlib.Path(pagelab).resolve()), pathlib.Path(out).resolve()
            return each(words, lambda one: ask(one, pagelab, out))
        case ["clean", *words] if words:
            return each(words, lambda one: (True, "clean"))
        case _:
            raise SystemExit(__doc__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
