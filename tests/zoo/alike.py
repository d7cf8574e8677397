#!/usr/bin/env python3
"""How often pagelab finds something between runs that are alike, and how often it finds a change of 2, 5 or 10 %.

    tests/zoo/alike.py make PAGELAB DIR [PAIRS [SEED]]     records the pairs that DIR lacks (200; 20261125)
    tests/zoo/alike.py judge PAGELAB DIR                   compares them: a line of JSON for each, a summary at the end

A pair is eight runs of each side of one program with the default streams, in turns. Every pair has runs of its own. Half of the
pairs are made by a plan, which says what round a run is of; the other half are recordings that know nothing of each other, so both
of `compare`'s designs are tried. Every other pair has a third side that does 2, 5 or 10 % more. `make` can be stopped and goes on
where it was. DIR is to be on a disk. Nothing on the host is changed.
"""

import collections
import json
import math
import pathlib
import random
import shutil
import statistics
import subprocess
import sys

import bounds

HERE = pathlib.Path(__file__).resolve().parent
RUNS = 8
SIZES = [2, 5, 10]
ALPHA = 0.05


def work(mode, ops=100, **options):
    return lambda names, scale: [names["work"], mode, f"ops={round(ops * scale)}",
                                 *(f"{key}={str(value).format(**names)}" for key, value in options.items())]


def words(amount, *line):
    """A command with {n} for how much it does."""
    return lambda names, scale: [word.replace("{n}", str(round(amount * scale))).format(**names) for word in line]


def shell(amount, line):
    return words(amount, "sh", "-c", line)


# Half a second each.
WORKLOADS = {
    "spin": work("spin", thread_us=8500),
    "spin-threads": work("spin", threads=2, thread_us=4500),
    "touch": work("anon", bytes=8 << 20, spin_us=2500),
    "heap": work("heap", bytes=262144, count=20, spin_us=8000),
    "fork": work("fork", bytes=4 << 20, spin_us=2000),
    "faults": work("faults", threads=2, calls=20, bytes=65536, spin_us=4000),
    "mapped": work("mapped", file="{dir}/data", bytes=16 << 20, spin_us=8500),
    "read": work("read", file="{dir}/data", bytes=16 << 20, spin_us=5000),
    "read-cold": work("read", file="{dir}/data", bytes=2 << 20, spin_us=3500, cold=1),
    "write": work("write", file="{dir}/w", bytes=262144, span=32 << 20, spin_us=8000),
    "write-sync": work("write", file="{dir}/w", bytes=65536, span=32 << 20, spin_us=7000, sync=1),
    "calls": work("calls", calls=15000, spin_us=2000),
    "files": work("files", ops=4000, file="{dir}/f", spin_us=60),
    "protect": work("protect", threads=2, calls=100, spin_us=3000),
    "python": words(26000000, "python3", "-c", "sum(range({n}))"),
    "python-objects": words(540, "python3", "-c", "for i in range({n}): d = dict.fromkeys(range(20000)); l = [str(i)] * 20000"),
    "perl": words(26000000, "perl", "-e", "$s += $_ for 1 .. {n}"),
    "node": words(320, "node", "-e", "let s = 0; for (let i = 0; i < {n}; i++) {{ s += Array.from({{length: 20000}}, (x, j) => j).reduce((a, b) => a + b); }}"),
    "sqlite": words(45000, "sqlite3", ":memory:", "CREATE TABLE t(a, b); WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c "
                    "LIMIT {n} * 20) INSERT INTO t SELECT i, hex(i) FROM c; SELECT count(*) FROM t WHERE b LIKE '%3';"),
    "sqlite-sync": words(400, "python3", "-c", "import sqlite3; d = sqlite3.connect('{dir}/db'); d.execute('PRAGMA synchronous=FULL'); "
                         "d.execute('CREATE TABLE IF NOT EXISTS t(a)')\nfor i in range({n}): d.execute('INSERT INTO t VALUES(1)'); d.commit()"),
    "sha": shell(3400, "head -c {n}0K {dir}/data {dir}/data {dir}/data {dir}/data {dir}/data {dir}/data| sha1sum"),
    "gzip": shell(900, "head -c {n}0K {dir}/text | gzip -6"),
    "sort": shell(1300, "head -c {n}0K {dir}/text | sort"),
    "git": words(300, "git", "-C", "{repo}", "log", "-p", "--max-count={n}"),
    "gcc": lambda names, scale: ["gcc", "-O1", "-c", "-o", "/dev/null", f"{names['dir']}/{round(100 * scale)}.c"],
    "spawn": shell(700, "i=0; while [ $i -lt {n} ]; do /bin/true; i=$((i+1)); done"),
    "pipe": shell(1500, "dd if=/dev/zero bs=4k count={n}00 | cat"),
    "fio-direct": words(10000, "fio", "--name=r", "--filename={dir}/data", "--rw=randread", "--direct=1", "--bs=4k", "--size=64m", "--number_ios={n}"),
    "fio-write": words(3000, "fio", "--name=w", "--filename={dir}/w", "--rw=write", "--bs=64k", "--size=64m", "--io_size={n}00k", "--overwrite=1"),
}


def prepared(folder):
    """The files that programs work on."""
    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    names = {"work": str(folder / "work"), "dir": str(data), "repo": str(HERE.parents[1])}
    subprocess.run(["gcc", "-O2", "-pthread", "-o", names["work"], HERE / "work.c"], check=True)
    draw = random.Random(1)
    if not (data / "data").exists():
        (data / "data").write_bytes(b"".join(draw.randbytes(1 << 20) for _ in range(64)))
        (data / "text").write_text("".join(f"{draw.randrange(10 ** 9)} {draw.choice(['lorem', 'ipsum', 'dolor'])}\n" for _ in range(1 << 20)))
    for percent in (100, *(100 + size for size in SIZES)):
        functions = [f"int f{i}(int x) {{ int s = 0; for (int i = 0; i < x; i++) s += i * {i} ^ x; return s + (x > {i} ? x / 3 : x * 5); }}\n" for i in range(2 * percent)]
        (data / f"{percent}.c").write_text("".join(functions))
    return names


class Pair:
    def __init__(self, number, seed):
        draw = random.Random(f"{seed}/{number}")
        order = list(WORKLOADS)
        random.Random(f"{seed}/{number // len(order)}").shuffle(order)
        self.number, self.draw = number, draw
        self.workload = order[number % len(order)]
        self.is_planned = number % 2 == 1
        # Every other pair of either kind.
        self.size = SIZES[number // 4 % len(SIZES)] if number // 2 % 2 == 0 else None
        self.folder = f"{number:03}"

    def sides(self, names):
        command = WORKLOADS[self.workload]
        sides = {"a": command(names, 1), "b": command(names, 1)}
        if self.size:
            sides["more"] = command(names, 1 + self.size / 100)
        return sides


def recorded(pagelab, command, out):
    done = subprocess.run([pagelab, "record", "-q", "-o", out, "--", *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if done.returncode:
        raise RuntimeError(f"{command}: status {done.returncode}: {done.stderr.decode()[-300:]}")


def make_alone(pagelab, pair, names, folder):
    sides = pair.sides(names)
    for side, command in sides.items():
        recorded(pagelab, command, folder / f"warm-{side}")
        shutil.rmtree(folder / f"warm-{side}")
    for run in range(RUNS):
        order = list(sides)
        pair.draw.shuffle(order)
        for side in order:
            recorded(pagelab, sides[side], folder / side / f"run={run:03}")


def make_planned(pagelab, pair, names, folder):
    variants = "".join(f"[variant.{side}]\ncommand = {json.dumps(command)}\n" for side, command in pair.sides(names).items())
    plan = folder.with_suffix(".toml")
    plan.write_text(f'runs = {RUNS}\nwarmup = 1\nseed = {pair.draw.randrange(1 << 32)}\n' + variants)
    done = subprocess.run([pagelab, "experiment", plan, "-o", folder], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if done.returncode:
        raise RuntimeError(f"{plan}: status {done.returncode}: {done.stderr.decode()[-300:]}")


def make(pagelab, folder, pairs, seed):
    names = prepared(folder)
    (folder / "seed").write_text(f"{seed} {pairs}\n")
    for number in range(pairs):
        pair = Pair(number, seed)
        out = folder / "pairs" / pair.folder
        if (out / "done").exists():
            continue
        shutil.rmtree(out, ignore_errors=True)
        out.parent.mkdir(parents=True, exist_ok=True)
        (make_planned if pair.is_planned else make_alone)(pagelab, pair, names, out)
        (out / "done").touch()
        print(f"{pair.folder} {pair.workload}", flush=True)


def compared(pagelab, base, test):
    done = subprocess.run([pagelab, "compare", "--json", "--check", base, test], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if not done.stdout:
        raise RuntimeError(f"{test}: {done.stderr.decode()[-300:]}")
    return json.loads(done.stdout), done.returncode


def sides_of(pair, out):
    """Folders of the recordings of each side that count."""
    if not pair.is_planned:
        return {side: out / side for side in ("a", "b", "more")}
    return {side: out / f"variant={side}" for side in ("a", "b", "more")}


def told(pagelab, base, test):
    document, status = compared(pagelab, base, test)
    primary = document["primary"] or {}
    parts = (document["budget"] or {}).get("components") or []
    return {
        "method": document["method"],
        "p": primary.get("p"),
        "ratio": primary.get("ratio"),
        "verdict": primary.get("verdict"),
        "check": status,
        "metrics": [one["name"] for one in document["metrics"] if one["significant"]],
        "components": [one["component"] for one in parts if one["significant"]],
        "functions": [one["frame"] for one in document["profile"] if one.get("significant")],
        "findings": [f"{one['cause']} {one['confidence']}" for one in document["findings"]],
        "latency": [one["quantile"] for one in document["latency"] if one.get("significant")],
    }


def interval(hits, of):
    """Wilson's, 95 %."""
    z = 1.959964
    share, scale = hits / of, 1 + z * z / of
    half = z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of)) / scale
    middle = (share + z * z / (2 * of)) / scale
    return max(0, middle - half), min(1, middle + half)


def line(words, hits, of):
    low, high = interval(hits, of)
    print(f"{words:44} {hits} of {of}  {100 * hits / of:.1f} % [{100 * low:.1f}, {100 * high:.1f}]")


WHAT = ["metrics", "components", "functions", "findings", "latency"]


def is_false(one):
    return one["check"] != 0 or any(one[what] for what in WHAT)


def has_mechanism(one):
    return any("correlated" not in said for said in one["findings"])


def judge(pagelab, folder):
    seed, pairs = (folder / "seed").read_text().split()
    alike, more = [], collections.defaultdict(list)
    for number in range(int(pairs)):
        pair = Pair(number, seed)
        out = folder / "pairs" / pair.folder
        if not (out / "done").exists():
            continue
        sides = sides_of(pair, out)
        for side in ("b", "more") if pair.size else ("b",):
            one = {"pair": pair.folder, "workload": pair.workload, "side": side, "size": pair.size if side == "more" else 0}
            one |= told(pagelab, sides["a"], sides[side])
            (alike if side == "b" else more[pair.size]).append(one)
            print(json.dumps(one), flush=True)
    line("alike: anything found", sum(map(is_false, alike)), len(alike))
    line("  p of the primary metric below 0.05", sum(one["p"] is not None and one["p"] <= ALPHA for one in alike), len(alike))
    line("  --check fails", sum(one["check"] != 0 for one in alike), len(alike))
    for what in WHAT:
        line(f"  any of {what}", sum(bool(one[what]) for one in alike), len(alike))
    for size, ones in sorted(more.items()):
        print(f"{size} % more work: the median pair takes {100 * (statistics.median(one['ratio'] for one in ones) - 1):.1f} % longer")
        line("  said to be worse", sum(one["verdict"] == "worse" for one in ones), len(ones))
        line("  --check fails", sum(one["check"] != 0 for one in ones), len(ones))
        line("  any of components", sum(bool(one["components"]) for one in ones), len(ones))
        line("  any finding with a mechanism", sum(map(has_mechanism, ones)), len(ones))
    return bounds.ended("alike", {"alike.anything": (sum(map(is_false, alike)), len(alike)), "alike.mechanism": (sum(map(has_mechanism, alike)), len(alike))})


def main():
    if len(sys.argv) < 4 or sys.argv[1] not in ("make", "judge"):
        raise SystemExit(__doc__)
    pagelab, folder = str(pathlib.Path(sys.argv[2]).resolve()), pathlib.Path(sys.argv[3]).resolve()
    if sys.argv[1] == "make":
        more = sys.argv[4:]
        make(pagelab, folder, int(more[0]) if more else 200, more[1] if len(more) > 1 else "20261125")
        return 0
    return judge(pagelab, folder)


if __name__ == "__main__":
    sys.exit(main())
