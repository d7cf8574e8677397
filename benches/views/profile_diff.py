#!/usr/bin/env python3
"""Whether the difference of two profiles is that of other tools, and whether a function that takes 5 % more is found.

    benches/views/profile_diff.py PAGELAB DIR [TRIALS]          as root

A trial is five runs of each side, in turns, of planted.c: the test side does 5 % more work, all of it in the function `planted`.
`pagelab compare` has found it if that function is the one with q < 0.05 and the largest difference. perf looks on at the first
trial; there, samples by function are put beside those of `inferno-diff-folded` (cargo install inferno) on what `pagelab export
folded` writes, which must be the same, and shares beside those of `perf diff`, which took samples of its own of the same runs:
the difference of a function's difference is told in standard errors of both. One line of JSON for each trial, a summary at the end.
"""

import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

RUNS, WORK = 5, 1_500_000
FREQUENCY = "997"
# Folded stacks are of ns; each sample of the timer stands for as many.
PERIOD_NS = 10**9 // int(FREQUENCY)
DIFF_ROW = re.compile(r"\s*(?:(?P<base>[\d.]+)%)?\s+(?P<delta>[+-][\d.]+)?%?\s+(?P<object>\S+)\s+\[.\]\s+(?P<symbol>\S+)")


def recorded(pagelab, program, work, name, planted, by_perf):
    recording = work / name
    shutil.rmtree(recording, ignore_errors=True)
    recording.parent.mkdir(exist_ok=True)
    command = [pagelab, "record", "-q", "--frequency", FREQUENCY, "-o", recording, "--", program, str(WORK), str(planted)]
    before = ["perf", "record", "-q", "-e", "cpu-clock", "-F", FREQUENCY, "-o", work / f"{name.replace('/', '-')}.data", "--"] if by_perf else []
    subprocess.run([*before, *command], stdout=subprocess.DEVNULL, check=True)
    return recording


def printed(*command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, **options).stdout


def of_inferno(pagelab, work, sides):
    """Samples by function on both sides, as inferno adds them up."""
    for side, recordings in sides.items():
        stacks = collections.Counter()
        for recording in recordings:
            for line in printed(pagelab, "export", "folded", "--comm", "planted", recording).splitlines():
                stack, count = line.rsplit(" ", 1)
                stacks[stack] += round(int(count) / PERIOD_NS)
        (work / f"{side}.folded").write_text("".join(f"{stack} {count}\n" for stack, count in stacks.items()))
    functions = collections.defaultdict(lambda: [0, 0])
    for line in printed("inferno-diff-folded", work / "base.folded", work / "test.folded").splitlines():
        stack, base, test = line.rsplit(" ", 2)
        of = functions[stack.rsplit(";", 1)[-1].removesuffix("_[k]").removesuffix("_[i]")]
        of[0] += int(base)
        of[1] += int(test)
    return functions


def of_pagelab(pagelab, work):
    """The same from `show --base --test profile`, whose figures are means over the runs."""
    show = [pagelab, "show", "--base", work / "base", "--test", work / "test", "profile", "--comm", "planted", "--json", "--top", "0"]
    lists = json.loads(printed(*show))["lists"]
    return next(one for one in lists if one["list"] == "symbols")["rows"]


def perf_shares(work, pair):
    data = [work / f"{name}.data" for name in pair]
    text = printed("perf", "diff", "--comms", "planted", "--percentage", "relative", *data, stderr=subprocess.DEVNULL)
    rows = (DIFF_ROW.match(line) for line in text.splitlines() if not line.startswith("#"))
    return {row["symbol"]: (float(row["base"] or 0), float(row["delta"] or 0)) for row in rows if row}


def trial(pagelab, program, work, by_perf):
    sides = {"base": [], "test": []}
    for number in range(RUNS):
        for side in ("base", "test")[:: 1 if number % 2 == 0 else -1]:
            sides[side].append(recorded(pagelab, program, work, f"{side}/{number}", WORK // 20 if side == "test" else 0, by_perf))
    compared = json.loads(subprocess.run([pagelab, "compare", "--json", "--base", *sides["base"], "--test", *sides["test"]], stdout=subprocess.PIPE).stdout)
    found = [frame for frame in compared["profile"] if frame["q"] is not None and frame["q"] < 0.05]
    planted = next((frame for frame in compared["profile"] if "planted" in frame["frame"]), None)
    first = bool(found) and "planted" in max(found, key=lambda frame: abs(frame["delta_ns_per_op"]))["frame"]
    row = {"found": first, "q": planted and planted["q"], "share": planted and planted["test_share"], "others": [frame["frame"] for frame in found if "planted" not in frame["frame"]]}
    return sides, row


def main():
    pagelab, work = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
    trials = int(sys.argv[3]) if len(sys.argv) > 3 else 20
    work.mkdir(parents=True, exist_ok=True)
    program = work / "planted"
    subprocess.run(["gcc", "-O2", "-g", "-o", program, pathlib.Path(__file__).with_name("planted.c")], check=True)
    rows = []
    for number in range(trials):
        sides, row = trial(pagelab, program, work, number == 0)
        rows.append(row)
        print(json.dumps(row), flush=True)
        if number == 0:
            beside_others(pagelab, work, sides)
    print(f"planted function found            {sum(row['found'] for row in rows)} of {trials}")
    print(f"trials with another function      {sum(bool(row['others']) for row in rows)}")


def beside_others(pagelab, work, sides):
    inferno, ours = of_inferno(pagelab, work, sides), of_pagelab(pagelab, work)
    samples = lambda row: [round((row["figures"]["samples"][side] or 0) * RUNS) for side in ("base", "test")]
    totals = [sum(row[side] for row in inferno.values()) for side in (0, 1)]
    # Without a symbol folded stacks have the module's name.
    name = lambda module, symbol: symbol or f"[{module.rsplit('/', 1)[-1]}]" if module else "[unknown]"
    summed = collections.defaultdict(lambda: [0, 0])
    for row in ours:
        summed[name(*row["key"])] = [sum(pair) for pair in zip(summed[name(*row["key"])], samples(row))]
    same = sum(of == inferno.get(function, [0, 0]) for function, of in summed.items())
    print(json.dumps({"inferno_totals": totals, "ours": [sum(samples(row)[side] for row in ours) for side in (0, 1)], "functions": len(summed), "the_same": same}))
    errors, shares = [], {}
    for side in ("base", "test"):
        listed = json.loads(printed(pagelab, "show", "--json", sides[side][0], "profile", "--comm", "planted", "--top", "0"))
        shares[side] = {row["symbol"]: row["samples"] for row in listed["symbols"]}
    sums = {side: sum(of.values()) for side, of in shares.items()}
    for symbol, (base, delta) in perf_shares(work, ("base-0", "test-0")).items():
        ours = [shares[side].get(symbol, 0) / sums[side] for side in ("base", "test")]
        theirs = [base / 100, (base + delta) / 100]
        variance = sum(p * (1 - p) / sums[side] for side, p in zip(("base", "test"), ours)) * 2
        if max(theirs) >= 0.01:
            errors.append((symbol, round(100 * (ours[1] - ours[0]), 2), delta, round((ours[1] - ours[0] - delta / 100) / max(variance, 1e-9) ** 0.5, 1)))
    print(json.dumps({"of_perf_diff": errors}))


main()
