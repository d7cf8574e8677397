#!/usr/bin/env python3
"""A set of cases by PROTOCOL.md: drawn and committed, then asked once, then counted.

    tests/zoo/trial.py draw SET SEED             writes sets/SET.json: kinds of the part SET (SET_*.py), sizes, surroundings
    tests/zoo/trial.py ask PAGELAB DIR SET       makes each drawn case and asks pagelab about it; goes on where it stopped     as root
    tests/zoo/trial.py lines DIR SET FILE        writes the lines of all cases into FILE, which judged/ is to hold

`ask` ends with status 1 while a drawn case has no line. What analysis sees are two folders that are called base and test; the truth is
hidden from it by a mount.
"""

import importlib
import json
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import time

import decoys
import judged
import kinds
import sized
from cases import Side
from turns import LEVEL, RUNS, in_order, interleaved
from zoo import Zoo, make_all

HERE = pathlib.Path(__file__).resolve().parent
# Cases of known causes, of losses that no rule knows, and of sides that are alike.
COUNTS = {"known": 38, "open": 34, "alike": 24}
# In the first half of these places as often as in the second.
ON_CPU = ("cpu", "calls")
SURROUNDINGS = ("second_disk", "wrapper", "neighbour")
# What a run takes on the base side, seconds.
BASE_S = 0.6
# A comparison that takes longer hangs.
HANGS_S = 300


def part(name):
    """The kinds of a set."""
    for file in sorted(HERE.glob(f"{name}_*.py")):
        importlib.import_module(file.stem)
    return [kind for kind in kinds.KINDS if kind.part == name]


# Drawing.


def in_turns(draw, items, count):
    """So many of the items, each as often as any other, in an order by chance."""
    chosen = []
    while len(chosen) < count:
        chosen += draw.sample(items, len(items))
    return chosen[:count]


def chosen_kinds(draw, pool, what, count):
    if what == "known":
        return in_turns(draw, [kind for kind in pool if kind.cause], count)
    of = [kind for kind in pool if not kind.cause] if what == "open" else pool
    halves = [[kind for kind in of if (kind.place in ON_CPU) == on_cpu] for on_cpu in (False, True)]
    each = [in_turns(draw, half, count // 2) for half in halves]
    return [kind for both in zip(*each) for kind in both]


def draw_set(name, seed):
    draw, pool = random.Random(f"{name}/{seed}"), part(name)
    cases = []
    for what, count in COUNTS.items():
        sizes = in_turns(draw, sized.SIZES, count)
        surroundings = in_turns(draw, [*SURROUNDINGS, *[None] * 6], count)
        for number, kind in enumerate(chosen_kinds(draw, pool, what, count)):
            size = 0 if what == "alike" else max(one for one in sized.SIZES if one <= min(sizes[number], kind.largest))
            differences = decoys.drawn(draw, kind, draw.choice([0, 1, 1, 2, 3]))
            cases.append({"case": f"{what}-{number:02}", "cause": kind.cause, "workload": kind.workload, "what": what, "size_pct": size,
                          "alike_as": draw.choice(["base", "test"]) if what == "alike" else None, "surrounding": surroundings[number],
                          "decoys": [[one.name, draw.choice(["base", "test"])] for one in differences]})
    draw.shuffle(cases)
    return {"set": name, "seed": seed, "cases": cases}


# Making.


class Case:
    """A drawn case, as sized.py calibrates it."""

    def __init__(self, drawn, pool):
        self.drawn, self.name, self.size = drawn, drawn["case"], drawn["size_pct"]
        self.kind = next(kind for kind in pool if (kind.cause, kind.workload) == (drawn["cause"], drawn["workload"]))

    def sides(self, zoo, amount, filler_ms):
        base, test = self.kind.sides(amount)
        if self.drawn["alike_as"]:
            base = test = {"base": base, "test": test}[self.drawn["alike_as"]]
        sides = {"base": sized.filled(base, zoo, filler_ms), "test": sized.filled(test, zoo, filler_ms)}
        for name, side in self.drawn["decoys"]:
            sides[side] = next(one for one in decoys.DECOYS if one.name == name).added(sides[side])
        return {name: surrounded(side, self.drawn["surrounding"]) for name, side in sides.items()}


def surrounded(side, how):
    """The side with what is the same on both: another disk at work, a shell in between, a neighbour who wants a part of a CPU."""
    more = {}
    if how == "wrapper":
        more["command"] = ["env", "ZOO=1", "sh", "-c", '"$@"; exit $?', "sh", *side.command]
    elif how == "neighbour":
        more["beside"] = [*side.beside, ["{work}", "spin", "ops=1000000", "thread_us=2000", "sleep_us=8000"]]
    elif how == "second_disk":
        disk = ["fio", "--name=other", "--filename={mount}/other.data", "--size=64m", "--rw=randrw", "--rate=4m", "--time_based", "--runtime=60", "--thread"]
        more["beside"] = [*side.beside, disk]
    return Side(**{**side.__dict__, **more})


def bare(zoo, sides):
    """Seconds of interleaved runs of each side, without pagelab."""
    taken = {"base": [], "test": []}
    for side in sides.values():
        zoo.time(side)
    for _, name in interleaved():
        taken[name].append(zoo.time(sides[name]))
    return taken


def why_no_case(case, taken):
    """Why the machine does not show what was drawn, if so."""
    rare = in_order(taken["base"], taken["test"])
    slower = statistics.median(taken["test"]) > statistics.median(taken["base"])
    if case.size == 0:
        return f"sides that are alike differ by chance: p = {rare:.3f}" if rare < LEVEL else None
    return None if rare < LEVEL and slower else f"{RUNS} bare runs a side do not show the loss: p = {rare:.3f}"


# Asking and judging.


def asked(zoo, case, sides, folder):
    """What pagelab says, with everything as a user has it by default. Raises with what kept it from an answer."""
    for run, name in interleaved():
        out = folder / name / f"run={run:03}"
        out.parent.mkdir(parents=True, exist_ok=True)
        zoo.start(sides[name], [zoo.pagelab, "record", "-q", "-o", str(out), "--"])
    hidden = 'mount -t tmpfs none "$0" && mount -t tmpfs none "$1" && shift && exec "$@"'
    line = ["unshare", "-m", "sh", "-c", hidden, zoo.folder / "lines", HERE, zoo.pagelab, "compare", "--json", folder / "base", folder / "test"]
    answer = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=HANGS_S)
    (folder / "answer.json").write_bytes(answer.stdout)
    if answer.returncode not in (0, 1):
        raise RuntimeError(f"status {answer.returncode}: {answer.stderr.decode()[-300:]}")
    document = json.loads(answer.stdout)
    if not (document["primary"] or {}).get("verdict"):
        raise RuntimeError("no verdict")
    return document


def judgement(case, finding):
    if finding["cause"] == case.kind.cause and case.drawn["what"] == "known":
        return "right"
    return "half" if finding["cause"] in case.kind.also and case.drawn["what"] != "alike" else "wrong"


def component_rank(case, document):
    """The place of the true component in the account, from 1."""
    parts = (document.get("budget") or {}).get("components") or []
    names = [part["component"] for part in sorted(parts, key=lambda part: -(part["difference_ns"] or 0))]
    wanted = case.kind.components[0] if case.kind.components and case.size else None
    return names.index(wanted) + 1 if wanted in names else None


def answered(case, document):
    findings = [{"cause": one["cause"], "confidence": one["confidence"]} for one in document["findings"][:1]]
    return {"found": [one | {"verdict": judgement(case, one)} for one in findings], "component_rank": component_rank(case, document),
            "verdict_shown": document["primary"]["verdict"] in sized.SHOWN}


def line_of(zoo, case, folder):
    """The case's line: made, asked and judged."""
    kind, began = case.kind, time.monotonic()
    line = {"set": case.drawn["set"], "case": f"{case.name} {kind.cause or 'open'}/{kind.workload}", "what": case.drawn["what"], "place": kind.place,
            "truth": kind.truth if case.size else "the sides are alike", "cause": kind.cause if case.size and kind.cause else None,
            "component": kind.components[0] if kind.components and case.size else None, "size_pct": case.size,
            "rules": judged.rules(), "commit": judged.commit(), "counted": True, "found": []}
    try:
        amount, filler_ms, _ = sized.calibrated(zoo, case)
    except RuntimeError as error:
        return line | {"counted": False, "why_not": f"no program of this loss could be made: {error}"}
    sides = case.sides(zoo, amount, 600 if case.size == 0 else filler_ms)
    taken = bare(zoo, sides)
    medians = {name: statistics.median(times) for name, times in taken.items()}
    line |= {"loss_pct": round(100 * (medians["test"] / medians["base"] - 1), 1), "bare_s": {name: round(value, 3) for name, value in medians.items()}}
    why_not = why_no_case(case, taken)
    if why_not:
        return line | {"counted": False, "why_not": why_not}
    try:
        line |= answered(case, asked(zoo, case, sides, folder))
    except (RuntimeError, OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
        line |= {"found": [{"cause": "none", "confidence": "mechanism", "verdict": "wrong"}], "failed": str(error)[-400:]}
    return line | {"took_s": round(time.monotonic() - began)}


def ask(pagelab, folder, name):
    sized.BASE_S = BASE_S
    zoo, pool = Zoo(pagelab, folder), part(name)
    drawn = json.loads((HERE / "sets" / f"{name}.json").read_text())
    (folder / "lines").mkdir(exist_ok=True)

    def record(case):
        file, recordings = folder / "lines" / f"{case.name}.json", folder / "cases" / case.name
        if file.exists():
            return False
        shutil.rmtree(recordings, ignore_errors=True)
        recordings.mkdir(parents=True)
        with zoo.left_as_found():
            line = line_of(zoo, case, recordings)
        file.write_text(json.dumps(line) + "\n")
        return True

    def said(case):
        line = json.loads((folder / "lines" / f"{case.name}.json").read_text()) if (folder / "lines" / f"{case.name}.json").exists() else {}
        return f"{line.get('case', case.name)} {case.size} %: {line.get('why_not') or line.get('failed') or line.get('found')}"

    return make_all(zoo, [Case(one | {"set": name}, pool) for one in drawn["cases"]], record, said)


def lines(folder, name, out):
    drawn = json.loads((HERE / "sets" / f"{name}.json").read_text())
    files = [folder / "lines" / f"{one['case']}.json" for one in drawn["cases"]]
    missing = [file.stem for file in files if not file.exists()]
    if missing:
        raise SystemExit(f"trial: {len(missing)} of {len(files)} cases have no line: {', '.join(missing[:5])}; type 'tests/zoo/trial.py ask' again")
    out.write_text("".join(file.read_text() for file in files))


def main():
    match sys.argv[1:]:
        case ["draw", name, seed]:
            (HERE / "sets" / f"{name}.json").write_text(json.dumps(draw_set(name, seed), indent=1) + "\n")
        case ["ask", pagelab, folder, name]:
            return ask(str(pathlib.Path(pagelab).resolve()), pathlib.Path(folder).resolve(), name)
        case ["lines", folder, name, out]:
            lines(pathlib.Path(folder), name, pathlib.Path(out))
        case _:
            raise SystemExit(__doc__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
