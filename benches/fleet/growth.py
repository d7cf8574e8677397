#!/usr/bin/env python3
"""How questions to a fleet grow with its hosts: time, memory, files opened; DuckDB beside, on the same files.

  target/dataframes/bin/python benches/fleet/growth.py FOLDER [--hosts 1,10,100,1000,10000] [--rounds 5] [--metrics 100] [--cluster PROGRAMS]

With --cluster the same questions go to Ballista, too, with one executor and with two, each of one task at a time, on this machine; PROGRAMS is
the folder of its stock binaries and of pagelab-fleet (make cluster). All read the same files.

Each fleet has 20 runs of each host (4 days with 5), with METRICS metrics each. In each round every program runs once, in turn. Times
are of whole processes, but for DuckDB's, which is of the query alone: its interpreter's start is not counted.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/fleet"))
PAGELAB = os.environ.get("PAGELAB", ROOT / "target/release/pagelab")
SIMULATE = ROOT / "target/release/simulate_fleet"
SQL = """select l.value as side, m.host as host, avg(ln(m.value)) as level, count(*) as runs
from metrics m join labels l on l.recording_id = m.recording_id
where m.name = 'run.elapsed_ns' and l.name = 'thp' group by l.value, m.host order by side, host"""
DUCKDB = """
import sys, time, duckdb
folder, sql = sys.argv[1], sys.argv[2]
begin = time.perf_counter()
database = duckdb.connect()
database.execute("set threads = 2")
for table in ["metrics", "labels"]:
    database.execute(f"create view {table} as from read_parquet('{folder}/day=*/{table}.parquet', union_by_name = true)")
rows = database.execute(sql).fetchall()
print(time.perf_counter() - begin, len(rows))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--hosts", default="1,10,100,1000,10000")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--metrics", type=int, default=100)
    parser.add_argument("--cluster", type=pathlib.Path, metavar="PROGRAMS")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    clusters = started(asked.cluster, asked.folder) if asked.cluster else {}
    medians = {}
    for hosts in map(int, asked.hosts.split(",")):
        fleet = asked.folder / f"hosts-{hosts}-{asked.metrics}"
        if not fleet.exists():
            subprocess.run([SIMULATE, fleet, str(hosts), "4", "5", str(asked.metrics)], check=True, stdout=subprocess.DEVNULL)
        medians[hosts] = measured(fleet, hosts, asked.rounds, clusters)
    for cluster in clusters.values():
        cluster.close()
    if 1000 in medians and 10000 in medians:
        for what in medians[1000]:
            print(f"{what}: t(10000)/t(1000) = {medians[10000][what] / medians[1000][what]:.2f}")
    return 0


def started(programs: pathlib.Path, folder: pathlib.Path) -> dict[str, object]:
    from ballista import Cluster

    programs = programs.resolve()
    os.environ["PATH"] = f"{programs}:{os.environ['PATH']}"
    return {f"{number} executor{'s' if number > 1 else ''}": Cluster(programs, folder / f"cluster-{number}-{os.getpid()}", dict(os.environ), executors=number, slots=1) for number in (1, 2)}


def measured(fleet: pathlib.Path, hosts: int, rounds: int, clusters: dict[str, object]) -> dict[str, float]:
    times: dict[str, list[float]] = {}
    memory: dict[str, int] = {}
    compared = [PAGELAB, "fleet", "compare", fleet, "--label", "thp=always,never", "--metric", "run.elapsed_ns", "--json"]
    embedded = [PAGELAB, "fleet", "sql", fleet, SQL, "--format", "csv"]
    asked = {"compare": compared, "sql": embedded}
    for name, cluster in clusters.items():
        for question, words in (("compare", compared), ("sql", embedded)):
            there = [f"file://{fleet.resolve()}" if word == fleet else word for word in words]
            asked[f"{question}, {name}"] = [*there, "--cluster", cluster.url]
    said = {}
    for _ in range(rounds):
        for name, words in asked.items():
            seconds, peak, said[name] = ran(words, may_fail=hosts < 100 and name.startswith("compare"))
            times.setdefault(name, []).append(seconds)
            memory[name] = max(memory.get(name, 0), peak)
        out = subprocess.run([sys.executable, "-c", DUCKDB, fleet, SQL], check=True, capture_output=True, text=True).stdout
        times.setdefault("duckdb", []).append(float(out.split()[0]))
    reading = json.loads(said["compare"])["reading"] if said["compare"] else {"files": "-", "row_groups_read": "-", "row_groups": "-"}
    middle = {name: statistics.median(some) for name, some in times.items()}
    size = sum(path.stat().st_size for path in fleet.glob("day=*/*.parquet"))
    ratio = statistics.median(ours / theirs for ours, theirs in zip(times["sql"], times["duckdb"]))
    print(f"{hosts} hosts, {size / 1e6:.1f} MB; compare opened {reading['files']} files, {reading['row_groups_read']} of "
          f"{reading['row_groups']} row groups; SQL/DuckDB {ratio:.2f}")
    for name, seconds in middle.items():
        print(f"  {name:28} {seconds:8.3f} s  {memory.get(name, 0) / 1e6:8.1f} MB")
    sys.stdout.flush()
    return middle


def ran(words: list, may_fail: bool = False) -> tuple[float, int, str]:
    begin = time.perf_counter()
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, err = process.stdout.read(), process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    if status != 0 and not may_fail:
        raise SystemExit(f"{' '.join(map(str, words))} ended with {status}:\n{err}")
    return seconds, usage.ru_maxrss * 1024, out if status == 0 else ""


if __name__ == "__main__":
    sys.exit(main())
