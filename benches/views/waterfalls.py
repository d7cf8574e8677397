#!/usr/bin/env python3
"""Where the difference is, in each of the published experiments and in two databases: the account of both sides, as `compare` draws it.

    benches/views/waterfalls.py PAGELAB DIR [NAME ...]          as root

The experiments' own plans are carried out with fewer runs, and with the streams that the account needs; two of them run in the lab.
Beside them SQLite with synchronous OFF and FULL, and PostgreSQL under pgbench with little and with enough memory for its buffers.
DIR, on a disk and open to the user postgres, takes files and recordings. For each pair the part of `pagelab compare` that says
where the time went is printed, and DIR/NAME.html is its page (tools/experiment-pictures takes pictures of them).
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import postgres

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Plan, variants, runs of each.
PLANS = {
    "dax-granularity": ("host.toml", ("base-fresh", "hugetlb-fresh"), 6),
    "hugetlb-vs-base-pages": ("plan.toml", ("base-pages", "hugetlb"), 8),
    "read-vs-read-iter": ("profile.toml", ("read_iter", "read"), 4),
    "sequential-write": ("plan.toml", ("published", "kept"), 3),
    "thp-regression": ("plan.toml", ("before", "after"), 8),
}


def of_plan(pagelab, work, name):
    plan, variants, runs = PLANS[name]
    folder = work / name
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "experiments" / name, folder)
    head, *sections = re.split(r"\n(?=\[)", (folder / plan).read_text())
    wanted = [one for one in sections if not one.startswith("[variant.") or one.split("]")[0].removeprefix("[variant.") in variants]
    lines = [line for line in head.splitlines() if not line.startswith(("observe", "runs"))]
    (folder / plan).write_text("\n".join([*lines, f"runs = {runs}", 'observe = "default,cpu"', *wanted]) + "\n")
    subprocess.run([pagelab, "experiment", folder / plan, "-o", folder / "set"], stdout=subprocess.DEVNULL, check=True)
    return [folder / "set"]


def in_turns(pagelab, work, name, sides, runs):
    """Recordings of two commands, in turns."""
    recordings = {side: [] for side in sides}
    for number in range(runs):
        for side in list(sides)[:: 1 if number % 2 == 0 else -1]:
            recording = work / name / f"{side}-{number}"
            shutil.rmtree(recording, ignore_errors=True)
            recording.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run([pagelab, "record", "-q", "--frequency", "997", "-o", recording, "--", *sides[side]], stdout=subprocess.DEVNULL, check=True)
            recordings[side].append(recording)
    base, test = recordings.values()
    return ["--base", *base, "--test", *test]


def sqlite(pagelab, work):
    def command(synchronous):
        insert = "INSERT INTO t VALUES(random(), hex(randomblob(100)));"
        script = work / f"{synchronous}.sql"
        script.write_text(f"PRAGMA synchronous={synchronous};\nCREATE TABLE t(a, b);\n" + f"{insert}\n" * 1500)
        return ["sh", "-c", f"rm -f {work}/test.db; exec sqlite3 {work}/test.db < {script}"]

    return in_turns(pagelab, work, "sqlite", {side: command(side) for side in ("OFF", "FULL")}, 6)


def pgbench(pagelab, work):
    place, options = work / "postgres", "-c 2 -j 2 -t 20000 -S"
    sides = {buffers: postgres.pgbench(place, options, scale=30, shared_buffers=buffers) for buffers in ("512MB", "1MB")}
    return in_turns(pagelab, work, "pgbench", sides, 5)


def main():
    pagelab, work = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
    work.mkdir(parents=True, exist_ok=True)
    others = {"sqlite": sqlite, "pgbench": pgbench}
    for name in sys.argv[3:] or [*PLANS, *others]:
        asked = others[name](pagelab, work) if name in others else of_plan(pagelab, work, name)
        text = subprocess.run([pagelab, "compare", *asked, "--html", work / f"{name}.html"], stdout=subprocess.PIPE, text=True).stdout
        print(f"== {name}\n{text}", flush=True)


main()
