#!/usr/bin/env python3
"""Whether the account tells planted mixtures of slow-downs: how often its intervals cover the truth, how wide they are, and how
often something is blamed that nobody planted.

    benches/views/mixtures.py PAGELAB DIR [MIXTURES [SEED]]          as root

A mixture is two to four of the six ways of spending time of mixture.c, 200 to 600 ms a run of each added to a base that has all but
throttling. Six runs of each side take turns, recorded with the default streams at 997 Hz, and are compared. The truth is what the
program itself measured by rdtsc in the same runs; planted is what took 5 % of the loss or more (throttling comes with spinning). DIR, on a disk, takes its files and the recordings. One line of JSON for each
mixture, a summary at the end.
"""

import json
import os
import pathlib
import random
import shutil
import subprocess
import sys

GROUPS = pathlib.Path("/sys/fs/cgroup/cpu" if os.path.isdir("/sys/fs/cgroup/cpu") else "/sys/fs/cgroup")
GROUP = GROUPS / "pagelab-mixtures"
RUNS = 6
WAYS = ["spin", "faults", "reads", "fsync", "wait", "throttled"]
# The components in which each way shows. Being woken is the same after a flush and after a wait: it is counted with the flushes.
COMPONENTS = {
    "spin": ["run.user"],
    "faults": ["run.fault.", "run.memory.", "run.space."],
    "reads": ["run.file.read", "run.file.call"],
    "fsync": ["off.flush", "off.write_back", "off.journal", "off.direct_io", "off.block_queue", "off.other", "run.file.write", "run.file.journal",
              "run.file.writeback", "run.file.blocks", "run.file.open", "run.block.", "run.task.", "run.call.", "run.interrupt", "run.other",
              "ready.own", "ready.foreign", "ready.wakeup", "ready.idle_cpu"],
    "wait": ["idle"],
    "throttled": ["ready.throttled"],
}


def calibrated(program, work):
    """Amounts of each way that take 1 ms; times are their own amounts."""
    asked = {"faults": 200_000, "reads": 2_000_000, "fsync": 60}
    line = [str(asked.get(way, 0)) for way in WAYS]
    took = json.loads(subprocess.run([program, work, *line], stdout=subprocess.PIPE, check=True).stdout)
    per_ms = {way: amount / (took[way] / 1e6) for way, amount in asked.items()}
    return per_ms | {"spin": 1000, "wait": 1000, "throttled": 1}


def recorded(pagelab, program, work, name, per_ms, wanted_ms):
    recording = work / name
    shutil.rmtree(recording, ignore_errors=True)
    amounts = [str(round(per_ms[way] * wanted_ms.get(way, 0))) for way in WAYS]
    record = [pagelab, "record", "-q", "--frequency", "997", "-o", recording, "--", program, work, *amounts, GROUP]
    out = subprocess.run(record, stdout=subprocess.PIPE, check=True).stdout
    return recording, json.loads(out)


def is_of(component, names):
    return any(component == name or name.endswith(".") and component.startswith(name) for name in names)


def pooled(components, names):
    """Difference and half-width of some components together; widths add as of independent figures."""
    mine = [one for one in components if is_of(one["component"], names) and one["difference_ns"] is not None]
    difference = sum(one["difference_ns"] for one in mine)
    halves = [(one["difference_ci95"][1] - one["difference_ci95"][0]) / 2 for one in mine if one["difference_ci95"]]
    return difference, sum(half * half for half in halves) ** 0.5


def mixture(pagelab, program, work, per_ms, draw):
    added = {way: draw.uniform(200, 600) for way in draw.sample(WAYS, draw.randint(2, 4))}
    base = {way: 60 for way in WAYS if way != "throttled"}
    test = {way: base.get(way, 0) + added.get(way, 0) for way in WAYS}
    sides, truth = {"base": [], "test": []}, {"base": [], "test": []}
    for number in range(RUNS):
        for side, wanted in [("base", base), ("test", test)][:: 1 if number % 2 == 0 else -1]:
            recording, took = recorded(pagelab, program, work, f"{side}-{number}", per_ms, wanted)
            sides[side].append(recording)
            truth[side].append(took)
    compare = [pagelab, "compare", "--json", "--base", *sides["base"], "--test", *sides["test"]]
    budget = json.loads(subprocess.run(compare, stdout=subprocess.PIPE).stdout)["budget"]
    loss = budget["difference_ns"]
    mean = lambda side, way: sum(took[way] + (took["waking"] if way == "fsync" else 0) for took in truth[side]) / RUNS
    told = {}
    for way in WAYS:
        difference, half = pooled(budget["components"], COMPONENTS[way])
        true = mean("test", way) - mean("base", way)
        told[way] = {"planted": true >= 0.05 * loss, "truth_ms": true / 1e6, "told_ms": difference / 1e6, "half_ms": half / 1e6}
    names = [name for way in WAYS if told[way]["planted"] for name in COMPONENTS[way]]
    blamed = {one["component"]: one["difference_ns"] / loss for one in budget["components"]
              if not is_of(one["component"], names) and one["difference_ns"] and one["difference_ns"] > 0.05 * loss}
    return {"loss_ms": loss / 1e6, "ways": told, "blamed": blamed}


def summary(mixtures):
    planted = [one for mixture in mixtures for one in mixture["ways"].values() if one["planted"]]
    every = [one for mixture in mixtures for one in mixture["ways"].values()]
    covers = lambda one: abs(one["truth_ms"] - one["told_ms"]) <= one["half_ms"]
    is_narrow = lambda mixture: all(one["half_ms"] <= 0.15 * one["truth_ms"] for one in mixture["ways"].values() if one["planted"])
    by_way = {way: sum(covers(mixture["ways"][way]) for mixture in mixtures if mixture["ways"][way]["planted"]) for way in WAYS}
    of_way = {way: sum(mixture["ways"][way]["planted"] for mixture in mixtures) for way in WAYS}
    print(f"mixtures                          {len(mixtures)}")
    print(f"planted, truth in the interval    {sum(map(covers, planted))} of {len(planted)}; " + ", ".join(f"{way} {by_way[way]}/{of_way[way]}" for way in WAYS))
    print(f"all six, truth in the interval    {sum(map(covers, every))} of {len(every)}")
    print(f"planted, half-width within 15 %   {sum(one['half_ms'] <= 0.15 * one['truth_ms'] for one in planted)} of {len(planted)}; in all of a mixture {sum(map(is_narrow, mixtures))}")
    print(f"mixtures with a false credit      {sum(bool(mixture['blamed']) for mixture in mixtures)}")
    print(f"error of the planted, median      {sorted(abs(one['told_ms'] / one['truth_ms'] - 1) for one in planted)[len(planted) // 2]:.3f}")


def main():
    pagelab, work = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
    count, seed = (int(sys.argv[at]) if len(sys.argv) > at else default for at, default in ((3, 60), (4, 1)))
    work.mkdir(parents=True, exist_ok=True)
    program = work / "mixture"
    subprocess.run(["gcc", "-O2", "-pthread", "-o", program, pathlib.Path(__file__).with_name("mixture.c")], check=True)
    GROUP.mkdir(exist_ok=True)
    quota = ("cpu.cfs_quota_us", "50000") if (GROUP / "cpu.cfs_quota_us").exists() else ("cpu.max", "50000 100000")
    (GROUP / quota[0]).write_text(quota[1])
    per_ms, mixtures = calibrated(program, work), []
    for number in range(count):
        mixtures.append(mixture(pagelab, program, work, per_ms, random.Random(f"{seed}.{number}")))
        print(json.dumps(mixtures[-1]), flush=True)
    GROUP.rmdir()
    summary(mixtures)


main()
