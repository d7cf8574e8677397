#!/usr/bin/env python3
"""Judged cases: which version of the rules this is, and what all lines of `judged/` count to.

    tests/zoo/judged.py rules            the version that lines of `judged/` carry, as the build of pagelab computes it
    tests/zoo/judged.py count [FILE...]  by word and by cause: findings, wrong, 95 % interval (Wilson's); all files by default

PROTOCOL.md says what a line holds.
"""

import collections
import json
import math
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# As in crates/analysis/build.rs.
RULES = ["crates/analysis/src/rules", "crates/vocab/src/causes", "crates/vocab/src/causes.rs"]
NO_RULES = {"truth", "tests.rs", "scenes.rs", "error_rate.rs", "docs.rs"}


def rule_files(root):
    found = []
    for place in RULES:
        path = root / place
        for file in [path] if path.is_file() else path.rglob("*.rs"):
            parts = set(file.relative_to(path).parts)
            if not parts & NO_RULES:
                found.append(str(file.relative_to(root)))
    return sorted(found)


def rules(root=ROOT):
    """FNV-1a of names and contents of the files that decide which cause is named."""
    version = 0xCBF29CE484222325
    for file in rule_files(root):
        for byte in file.encode() + b"\0" + (root / file).read_bytes():
            version = ((version ^ byte) * 0x100000001B3) & (2**64 - 1)
    return f"{version:016x}"


def commit():
    return subprocess.run(["git", "-C", HERE, "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()


def wilson(hits, of, z=1.959964):
    share, scale = hits / of, 1 + z * z / of
    middle = (share + z * z / (2 * of)) / scale
    half = z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of)) / scale
    return 100 * max(middle - half, 0), 100 * min(middle + half, 1)


def count(files):
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    counted = [line for line in lines if line["counted"]]
    by = {"word": collections.defaultdict(list), "cause": collections.defaultdict(list)}
    for found in (found for line in counted for found in line["found"]):
        by["word"][found["confidence"]].append(found["verdict"])
        by["cause"][found["cause"]].append(found["verdict"])
    print(f"{len(lines)} cases drawn, {len(counted)} counted, {sum(not line['found'] for line in counted)} without a name")
    for kind, groups in by.items():
        for name, verdicts in sorted(groups.items()):
            wrong, low_high = verdicts.count("wrong"), wilson(verdicts.count("wrong"), len(verdicts))
            print(f"{kind} {name}: {len(verdicts)} findings, {wrong} wrong, {verdicts.count('half')} half [{low_high[0]:.1f}, {low_high[1]:.1f}]")
    for line in lines:
        if not line["counted"]:
            print(f"not counted: {line['case']}: {line['why_not']}")


def main():
    match sys.argv[1:]:
        case ["rules"]:
            print(rules())
        case ["count", *files]:
            count([pathlib.Path(file) for file in files] or sorted((HERE / "judged").glob("*.jsonl")))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
