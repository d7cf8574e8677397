#!/usr/bin/env python3
"""Cases of a chosen size: causes that rules know, losses that none knows, and sides that are alike.

    tests/zoo/sized.py make PAGELAB DIR PART SEED [KNOWN OPEN CLEAN]     records what DIR lacks      as root
    tests/zoo/sized.py judge PAGELAB DIR                                 compares, and counts
    tests/zoo/sized.py ablate PAGELAB DIR                                the same, of changed copies; needs pyarrow

PART is `tuning` (kinds.py, seen*.py) or `frozen` (frozen_*.py). From the seed come each case's kind, its size (5, 10, 25 or 100 % of the
base's time), up to three harmless differences, and which side they are on. `make` first measures, without recording, how much of its work a kind must do for the loss
that is asked for. A case is 8 runs of each side, in turns, and as many more as show the loss in nine of ten cases if runs vary as the
first ones do; then 8 more at a time, up to 30, while `compare` shows no difference. Where more than 30 would be needed it is no case of
this machine, whatever rules would say of it. A case counts with the size that its recorded runs lost: what loses when it runs alone may
lose nothing when it is recorded. `make` goes on where it was stopped; what was no case is not tried again, unless its file `failed`
is removed.

Analysis sees base and test and nothing else: the truth is hidden from it by a mount. `ablate` hides the settings of cases with
known causes (their cause is still to be named, as correlated at most), and plants settings that differ beside losses of another
reason (nobody is to be accused).
"""

import collections
import importlib
import json
import math
import pathlib
import random
import shutil
import statistics
import sys

import bounds
import decoys
import kinds
from alike import interval
from cases import Side
from host import device_of
from zoo import Zoo, make_all, recorded_s, verdict

# Each registers its kinds.
for pattern in ("seen*.py", "frozen_*.py"):
    for file in sorted(pathlib.Path(__file__).parent.glob(pattern)):
        importlib.import_module(file.stem)

SIZES = [5, 10, 25, 100]
# Cases of known causes, of open ones and of clean sides. Of the known ones some cannot be made, and a third loses less than 10 %.
COUNTS = 100, 44, 62
# What a run takes on the base side, seconds.
BASE_S = 1.0
# A kind that loses less than this when asked for more is no case, nor is one that takes longer without its cause.
LEAST_PCT, MOST_S = 3, 8
# Runs of each side.
LEAST_RUNS, MOST_RUNS = 8, 30
# Made at a time where these do not show the loss, as a user would who is told that they are too few.
MORE_RUNS = 8
# Verdicts of a comparison that shows a difference.
SHOWN = ("worse", "better")
# Normal quantiles of a two-sided test at 5 % and of a power of 90 %.
Z = 1.960 + 1.282


def size_of(loss_pct):
    """The size that a loss is counted with."""
    return min([0, *SIZES], key=lambda size: abs(math.log((loss_pct + 1) / (size + 1)))) if loss_pct > 0 else 0


class Drawn:
    """One case by number: the same for the same seed."""

    def __init__(self, part, seed, number, what):
        draw = random.Random(f"{part}/{seed}/{what}/{number}")
        pool = [kind for kind in kinds.KINDS if kind.part == part and bool(kind.cause) == (what == "known")]
        order = sorted(pool, key=lambda kind: (kind.cause, kind.workload))
        random.Random(f"{part}/{seed}/{what}/{number // len(order)}").shuffle(order)
        self.kind = order[number % len(order)]
        # Of known causes the large ones are counted: of eight cases one is of the least size.
        wanted = SIZES[1:] if what == "known" and part == "frozen" and number % 8 else SIZES
        sizes = [size for size in wanted if size <= self.kind.largest]
        self.size = 0 if what == "clean" and number % 2 == 0 else draw.choice(sizes)
        self.what, self.number, self.draw = what, number, draw
        self.decoys = decoys.drawn(draw, self.kind, draw.choice([0, 1, 1, 2, 3]))
        self.decoys_on_base = [draw.random() < 0.5 for _ in self.decoys]
        self.folder = f"{draw.randrange(1 << 40):010x}"

    def with_decoys(self, base, test):
        for decoy, on_base in zip(self.decoys, self.decoys_on_base):
            if on_base:
                base = decoy.added(base)
            else:
                test = decoy.added(test)
        return base, test

    def truth(self, amount, filler_ms, loss_pct, recorded_pct):
        cause = self.kind.cause if self.what == "known" else ""
        return {"what": self.what, "cause": cause, "workload": self.kind.workload, "size": size_of(recorded_pct),
                "asked_pct": self.size, "alone_pct": loss_pct, "loss_pct": recorded_pct, "also": list(self.kind.also),
                "components": list(self.kind.components), "decoys": [decoy.name for decoy in self.decoys], "amount": amount,
                "filler_ms": filler_ms}


def filled(side, zoo, filler_ms):
    """The side's command, and after it work that both sides do."""
    if filler_ms < 1:
        return side
    words = zoo.fill(["{work}", "spin", f"ops={round(filler_ms)}", "thread_us=1000"])
    script = '"$@"; status=$?; ' + " ".join(words) + "; exit $status"
    return Side(**{**side.__dict__, "command": ["sh", "-c", script, "sh", *side.command]})


def seconds(zoo, side, runs=1):
    return statistics.median(zoo.time(side) for _ in range(runs))


def dosed(zoo, drawn):
    """How hard the cause has to hit for the loss asked for."""
    dose, wanted = drawn.size / 100, drawn.size / 100
    for _ in range(4):
        base, test = (seconds(zoo, side) for side in drawn.kind.sides(dose))
        loss = test / base - 1
        if abs(loss / wanted - 1) < 0.25:
            break
        dose *= min(2.5, max(0.4, wanted / loss)) if loss > 0 else 2.5
    return dose, 100 * loss


def calibrated(zoo, drawn):
    """The amount of affected work, and the milliseconds of other work, for a loss of the size asked for; with the loss as measured, in
    percent."""
    kind, amount = drawn.kind, drawn.kind.amount
    if drawn.size == 0:
        return amount, 0, 0
    if kind.dose:
        amount, loss_pct = dosed(zoo, drawn)
        return amount, 0, loss_pct
    for _ in range(4):
        base, test = (seconds(zoo, side) for side in kind.sides(amount))
        loss, wanted = test - base, drawn.size / 100 * BASE_S
        if abs(loss / wanted - 1) < 0.15:
            break
        if base > MOST_S:
            raise RuntimeError(f"loses {loss:.1f} s of {base:.0f} s only")
        scale = 4 if loss < wanted / 8 else wanted / loss
        if max(1, round(amount * scale)) == amount:
            break
        amount = max(1, round(amount * scale))
    base, test = (seconds(zoo, side, 2) for side in kind.sides(amount))
    filler_s = max(0, (test - base) / (drawn.size / 100) - base)
    unit_s = seconds(zoo, Side(["{work}", "spin", "ops=200", "thread_us=1000"])) / 200
    return amount, filler_s / unit_s, 100 * (test - base) / (base + filler_s)


def recorded_pct(folder):
    """What the test side lost of the base side's time in the runs that were recorded, percent."""
    base, test = (statistics.median(recorded_s(folder / name)) for name in ("base", "test"))
    return 100 * (test / base - 1)


def runs_needed(times, loss_pct):
    """Runs of each side that show a loss in nine of ten cases, if both sides vary as these times do."""
    spread = statistics.stdev(math.log(time) for time in times)
    needed = math.ceil(2 * (Z * spread / math.log1p(loss_pct / 100)) ** 2) + 1
    if needed > MOST_RUNS:
        raise RuntimeError(f"runs vary by {100 * spread:.0f} %: {needed} of each side would be needed for {loss_pct:.0f} %")
    return max(LEAST_RUNS, needed)


def is_shown(zoo, folder):
    """Whether the runs show a loss. That there is one is known; of what compare says of it nothing is read."""
    return (verdict(zoo.pagelab, folder, zoo.folder / "truth")["primary"] or {}).get("verdict") in SHOWN


def sides_of(zoo, drawn, amount, filler_ms):
    base, test = drawn.kind.sides(amount)
    if drawn.size == 0:
        base = test
        filler_ms = 600
    return drawn.with_decoys(filled(base, zoo, filler_ms), filled(test, zoo, filler_ms))


def record(zoo, drawn):
    folder = zoo.folder / "cases" / drawn.folder
    if (folder / "done").exists() or (folder / "failed").exists():
        return False
    shutil.rmtree(folder, ignore_errors=True)
    try:
        record_runs(zoo, drawn, folder)
    except RuntimeError as error:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "failed").write_text(f"{error}\n")
        raise
    return True


def record_runs(zoo, drawn, folder):
    with zoo.left_as_found():
        amount, filler_ms, loss_pct = calibrated(zoo, drawn)
        if loss_pct < LEAST_PCT * (drawn.size > 0):
            raise RuntimeError(f"loses {loss_pct:.1f} % only")
        base, test = sides_of(zoo, drawn, amount, filler_ms)
        zoo.turns(base, test, folder, LEAST_RUNS)
        # Of sides that are alike: what would show a loss of 10 %.
        runs = runs_needed(recorded_s(folder / "base"), loss_pct or 10)
        zoo.turns(base, test, folder, runs, LEAST_RUNS)
        while drawn.size and runs < MOST_RUNS and not is_shown(zoo, folder):
            made, runs = runs, min(runs + MORE_RUNS, MOST_RUNS)
            zoo.turns(base, test, folder, runs, made)
    truth = drawn.truth(amount, round(filler_ms), loss_pct, recorded_pct(folder) if drawn.size else 0)
    (zoo.folder / "truth" / f"{drawn.folder}.json").write_text(json.dumps(truth | {"runs": runs}))
    (folder / "done").touch()


def make(pagelab, folder, part, seed, counts):
    zoo = Zoo(pagelab, folder)
    (folder / "truth").mkdir(exist_ok=True)
    drawn = [Drawn(part, seed, number, what) for what, count in counts.items() for number in range(count)]
    random.Random(seed).shuffle(drawn)
    return make_all(zoo, drawn, lambda one: record(zoo, one), lambda one: f"{one.folder} {one.what} {one.kind.cause} {one.kind.workload} {one.size} %")


# Judging.


# Values that a careless reader would blame a loss on, by setting.
PLANTED = {"thp.enabled": ("always", "never"), "sysctl.vm.dirty_bytes": ("0", "4194304"), "sysctl.vm.swappiness": ("60", "100"),
           "block.{disk}.read_ahead_kb": ("1024", "8"), "block.{disk}.scheduler": ("none", "bfq"), "sysctl.vm.min_free_kbytes": ("67584", "1048576"),
           "task.nice": ("0", "10"), "cgroup.cpu.max": ("max 100000", "50000 100000"), "cgroup.memory.max": ("max", "134217728")}


def hidden(table, side):
    """No setting was read."""
    return table.slice(0, 0)


def planted(choice, disk):
    """Another value of some settings on each side, whatever they were."""
    values = {key.replace("{disk}", disk): PLANTED[key] for key in choice}

    def change(table, side):
        import pyarrow
        rows = [row for row in table.to_pylist() if row["key"] not in values]
        at = sorted({(row["ts"], row["at"]) for row in rows})
        for key, (base, test) in values.items():
            rows += [{"ts": ts, "key": key, "value": base if side == "base" else test, "source": "planted", "at": when} for ts, when in at]
        rows.sort(key=lambda row: row["ts"])
        return pyarrow.Table.from_pylist(rows, schema=table.schema)
    return change


def changed(case, out, change):
    """A copy of a case: the same files, but for those of the settings."""
    from pyarrow import parquet
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(case, out, copy_function=lambda source, target: pathlib.Path(target).hardlink_to(source))
    for side in ("base", "test"):
        for path in (out / side).glob("*/settings/*.parquet"):
            table = change(parquet.read_table(path), side)
            path.unlink()
            parquet.write_table(table, path, compression="zstd")
    return out


class Judged:
    """One analysis, and whether it is right."""

    def __init__(self, truth, document):
        self.truth, self.document = truth, document
        self.findings = [(one["cause"], one["confidence"]) for one in document["findings"]]
        primary = document["primary"] or {}
        self.ratio, self.verdict = primary.get("ratio"), primary.get("verdict")
        self.is_shown = self.verdict in SHOWN

    def rights(self):
        return {self.truth["cause"], *self.truth["also"]} - {""}

    def accused(self):
        """Wrong causes that are said to be a mechanism or confirmed."""
        return [cause for cause, confidence in self.findings if confidence != "correlated" and cause not in self.rights()]

    def is_first(self):
        return bool(self.findings) and self.findings[0][0] in self.rights()

    def top(self, count):
        left = self.document.get("unknown") or {}
        parts = left.get("components") or []
        return [part["component"] for part in parts[:count]]

    def is_open_right(self):
        """Nobody is accused, and where the loss is is among the first three."""
        wanted = self.truth["components"]
        hit = any(part == one or one.endswith(".") and part.startswith(one) for part in self.top(3) for one in wanted)
        return not self.accused() and hit

    def is_right(self):
        if self.truth["what"] == "known":
            return self.is_first()
        if self.truth["what"] == "open":
            return self.is_open_right()
        return not self.accused() and (self.truth["asked_pct"] != 0 or not self.is_shown and not self.findings)

    def line(self):
        said = "; ".join(f"{cause} {confidence}" for cause, confidence in self.findings[:4]) or "nothing"
        about = f"{self.truth['what']:5} {self.truth['cause'] or '-':22} {self.truth['workload']:10} {self.truth['size']:3} %"
        return f"{'ok   ' if self.is_right() else 'WRONG'} {about} x{self.ratio or 0:.3f} {self.verdict}: {said}"

    def why(self):
        """What the right rule said, and where the loss is."""
        for one in self.document["considered"]:
            if one["cause"] in self.rights():
                yield f"{one['outcome']}: {'; '.join(one['reasons'])[:300]}"
        for part in ((self.document.get("budget") or {}).get("components") or [])[:4]:
            yield f"{part['component']}: {(part['difference_ns'] or 0) / 1e6:.1f} ms, q {part['q']}"
        yield f"unknown: {self.top(4)}"


def share(words, hits, of):
    if not of:
        return
    low, high = interval(hits, of)
    print(f"{words:52} {hits} of {of}  {100 * hits / of:.1f} % [{100 * low:.1f}, {100 * high:.1f}]")


def judged_cases(pagelab, folder, judge_one):
    for case in sorted((folder / "cases").iterdir()):
        if not (case / "done").exists():
            continue
        truth = json.loads((folder / "truth" / f"{case.name}.json").read_text())
        for one in judge_one(case, truth):
            print(case.name, one.line(), flush=True)
            if not one.is_right() or one.accused():
                for reason in one.why():
                    print(f"             {reason}")
            yield one


def judge(pagelab, folder):
    """The cases as they are."""
    cases = list(judged_cases(pagelab, folder, lambda case, truth: [Judged(truth, verdict(pagelab, case, folder / "truth"))]))
    summary(cases)
    large = [one for one in cases if one.truth["what"] == "known" and one.truth["size"] >= 10]
    opens = [one for one in cases if one.truth["what"] == "open"]
    return bounds.ended(f"sized-{folder.name.removeprefix('zoo-')}", {
        "sized.first": (sum(one.is_first() for one in large), len(large)),
        "sized.open": (sum(one.is_open_right() for one in opens), len(opens)),
        "sized.accused": (sum(bool(one.accused()) for one in cases), len(cases)),
    })


def ablate(pagelab, folder):
    """The cases without settings, and losses of another reason with settings to blame."""
    disk = device_of(folder)[0]

    def without(case, truth):
        if truth["what"] == "known":
            yield Judged(truth, verdict(pagelab, changed(case, folder / "changed", hidden), folder / "truth"))

    def blamed(case, truth):
        if truth["what"] != "known" and truth["asked_pct"]:
            choice = random.Random(case.name).sample(list(PLANTED), 2)
            yield Judged(truth, verdict(pagelab, changed(case, folder / "changed", planted(choice, disk)), folder / "truth"))

    print("settings hidden")
    summary(list(judged_cases(pagelab, folder, without)))
    print("settings planted")
    planted_cases = list(judged_cases(pagelab, folder, blamed))
    summary(planted_cases)
    shutil.rmtree(folder / "changed", ignore_errors=True)
    return bounds.ended(f"ablate-{folder.name.removeprefix('zoo-')}", {"ablate.accused": (sum(bool(one.accused()) for one in planted_cases), len(planted_cases))})


def summary(judged):
    known = [one for one in judged if one.truth["what"] == "known"]
    for size in [0, *SIZES]:
        ones = [one for one in known if one.truth["size"] == size]
        share(f"known, {size} %: the right cause first", sum(one.is_first() for one in ones), len(ones))
        share("  of those whose loss is shown", sum(one.is_first() for one in ones if one.is_shown), sum(one.is_shown for one in ones))
    large = [one for one in known if one.truth["size"] >= 10]
    share("known, 10 % and more: the right cause first", sum(one.is_first() for one in large), len(large))
    opens = [one for one in judged if one.truth["what"] == "open"]
    share("open: nobody accused, the component in the first 3", sum(one.is_open_right() for one in opens), len(opens))
    clean = [one for one in judged if one.truth["what"] == "clean"]
    share("clean: right", sum(one.is_right() for one in clean), len(clean))
    share("all: a wrong cause at mechanism", sum(bool(one.accused()) for one in judged), len(judged))
    said = collections.Counter()
    for one in judged:
        for cause, confidence in one.findings:
            said[confidence, cause in one.rights()] += 1
    for confidence in ("correlated", "mechanism", "confirmed"):
        total = said[confidence, True] + said[confidence, False]
        share(f"findings called {confidence}: wrong", said[confidence, False], total)
    matrix = collections.Counter((one.truth["cause"] or one.truth["what"], one.findings[0][0] if one.findings else "nothing") for one in judged)
    print("planted -> named first:")
    for (planted, named), count in sorted(matrix.items()):
        print(f"  {planted:22} -> {named:22} {count}")


def main():
    if len(sys.argv) < 4 or sys.argv[1] not in ("make", "judge", "ablate"):
        raise SystemExit(__doc__)
    pagelab, folder = str(pathlib.Path(sys.argv[2]).resolve()), pathlib.Path(sys.argv[3]).resolve()
    if sys.argv[1] != "make":
        return {"judge": judge, "ablate": ablate}[sys.argv[1]](pagelab, folder)
    if len(sys.argv) < 6:
        raise SystemExit(__doc__)
    known, opens, clean = (int(count) for count in (sys.argv[6:9] or COUNTS))
    return make(pagelab, folder, sys.argv[4], sys.argv[5], {"known": known, "open": opens, "clean": clean})


if __name__ == "__main__":
    sys.exit(main())
