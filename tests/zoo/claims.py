#!/usr/bin/env python3
"""What `compare --confirm` makes of claims that are true and of claims that are not.

    tests/zoo/claims.py PAGELAB DIR [TRUE FALSE [SEED]]        as root; 20 and 20

A claim is a finding of a comparison of eight recordings a side. Of a true one the recordings are as they are. Of a false one the
command that they name is another program's: one that takes as long and that the setting does nothing to, or one that the setting
makes slower by a fifth of what is claimed. Follow-up rounds run what the recordings name, so they see no effect, or too little.
Where the comparison does not name the cause there is no claim, and the next kind is taken. A line of JSON for each, a summary at
the end; what DIR has is not made again.
"""

import itertools
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys

import bounds
import kinds
from alike import interval
from cases import Side
from sized import filled, seconds
from zoo import Zoo, recorded_s

RUNS = 8
BASE_S = 0.4
CONFIRM_S = "120"
# Causes whose settings a plan can toggle.
CAUSES = ["thp.disabled", "shmem.small_pages", "map.churn", "readahead.reduced", "writeback.throttled", "cpu.quota", "cgroup.memory_limit",
          "cgroup.io_limit"]


def folded(side):
    """The side's command with what comes before each run as a part of it."""
    if not side.before:
        return side
    steps = "; ".join(" ".join(words) for words in side.before)
    return Side(**{**side.__dict__, "command": ["sh", "-c", f'{steps}; exec "$@"', "sh", *side.command], "before": []})


def sides_of(kind, amount):
    return [folded(side) for side in kind.sides(amount)]


def amount_for(zoo, kind):
    """So much of the affected work that the fast side takes some BASE_S, or the slow one twice that."""
    if kind.dose:
        return 1.0
    amount = kind.amount
    for _ in range(4):
        base, test = (seconds(zoo, side, 1) for side in sides_of(kind, amount))
        wanted = min(BASE_S / base, 3 * BASE_S / test)
        if 0.7 < wanted < 1.4 or amount * wanted < 1:
            break
        amount = max(1, round(amount * min(wanted, 8)))
    return amount


def replaced(folder, command):
    """Says in every recording that this was the command."""
    for path in folder.glob("*/*/manifest.json"):
        manifest = json.loads(path.read_text())
        manifest["command"] = command
        path.write_text(json.dumps(manifest))


# Of what is claimed, what the setting really takes of a program that it hits weakly.
WEAK, WEAK_LOW, WEAK_HIGH = 0.2, 0.1, 0.3


class NoClaim(Exception):
    """No claim of a kind can be made now."""


def claimed_loss(pagelab, folder, cause):
    """What the cause is said to take, as a part of the time without it; a finding may explain a part of what is lost."""
    done = subprocess.run([pagelab, "compare", "--json", folder / "base", folder / "test"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    document = json.loads(done.stdout or "{}")
    effects = [one["effect"] for one in document.get("findings", []) if one["cause"] == cause]
    share = effects[0]["share"] if effects and effects[0] else None
    if share is None:
        raise NoClaim(f"{cause} is not named, or not how much it takes")
    of_test = min(share, 1) * (1 - 1 / document["primary"]["ratio"])
    return 1 / (1 - of_test) - 1


def other_command(zoo, kind, amount, folder, is_weak):
    """A program on which the setting has no effect, or a fifth of what is claimed, that takes about as long."""
    test_s = statistics.median(recorded_s(folder / "test"))
    if kind.dose:
        # What limits processors makes every program slower that needs one.
        return ["sleep", f"{test_s:.3f}"]
    unit_s = seconds(zoo, Side(["{work}", "spin", "ops=200", "thread_us=1000"])) / 200
    if not is_weak:
        return zoo.fill(["{work}", "spin", f"ops={round(test_s / unit_s)}", "thread_us=1000"])
    claimed = claimed_loss(zoo.pagelab, folder, kind.cause)
    return weak_command(zoo, sides_of(kind, max(1, round(amount / 5))), claimed, folder / "weak", unit_s)


def weak_command(zoo, small, claimed, folder, unit_s):
    """The small program and so much other work that it loses a fifth of what is claimed. That is measured with recorded runs, as the claim is
    and as the follow-up will be: recording makes what it records slower, and a disk is not as fast from one minute to the next."""
    filler_s = 0
    for _ in range(5):
        shutil.rmtree(folder, ignore_errors=True)
        whole = {name: filled(side, zoo, filler_s / unit_s) for name, side in zip(("base", "test"), small)}
        for run in range(RUNS):
            for name, side in whole.items():
                zoo.run(side, folder / name / f"run={run:03}")
        base_s, test_s = (statistics.median(recorded_s(folder / name)) for name in whole)
        part = (test_s / base_s - 1) / claimed
        if WEAK_LOW < part < WEAK_HIGH:
            shutil.rmtree(folder)
            return zoo.fill(whole["test"].command)
        # So long would it have to take without the setting.
        filler_s = max(0, filler_s + (test_s - base_s) / (WEAK * claimed) - base_s)
    raise NoClaim(f"loses {part:.2f} of what is claimed; needed: {WEAK_LOW} to {WEAK_HIGH}")


def record(zoo, folder, kind, is_true, is_weak):
    """Records both sides; gives the environment that they have in common."""
    with zoo.left_as_found():
        amount = amount_for(zoo, kind)
        base, test = sides_of(kind, amount)
        for run in range(RUNS):
            for name, side in (("base", base), ("test", test)):
                zoo.run(side, folder / name / f"run={run:03}")
        if not is_true:
            replaced(folder, other_command(zoo, kind, amount, folder, is_weak))
    return dict(base.env.items() & test.env.items())


def confirmed(pagelab, zoo, folder, env):
    line = [pagelab, "compare", "--json", "--confirm", "--confirm-seconds", CONFIRM_S, "--confirm-output", folder / "rounds", folder / "base", folder / "test"]
    done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=zoo.folder, env=env)
    if not done.stdout:
        raise RuntimeError(done.stderr.decode()[-500:])
    return json.loads(done.stdout)


def told(document, cause, is_true):
    findings = [one for one in document["findings"] if one["cause"] == cause]
    follow_up = (findings[0].get("follow_up") or {}) if findings else {}
    state = follow_up.get("state")
    right = state == "confirmed" if is_true else state in ("refuted", "not_decided")
    return {"cause": cause, "true": is_true, "claimed": bool(follow_up), "state": state, "right": right, "claimed_pct": follow_up.get("claimed_pct"),
            "of_claim_pct_ci95": follow_up.get("returned_of_claim_pct_ci95"), "rounds": follow_up.get("rounds"), "reason": follow_up.get("reason"),
            "named": [one["cause"] for one in document["findings"]]}


def one_claim(pagelab, zoo, number, kind, is_true):
    folder = zoo.folder / "claims" / f"{'true' if is_true else 'false'}-{number:02}"
    result = folder / "told.json"
    if not result.exists():
        shutil.rmtree(folder, ignore_errors=True)
        try:
            env = os.environ | record(zoo, folder, kind, is_true, number % 2 == 0)
            found = told(confirmed(pagelab, zoo, folder, env), kind.cause, is_true)
        except NoClaim as error:
            found = {"cause": kind.cause, "true": is_true, "claimed": False, "reason": str(error)}
        folder.mkdir(parents=True, exist_ok=True)
        result.write_text(json.dumps(found | {"workload": kind.workload}))
        for name in ("base", "test", "weak", "rounds"):
            shutil.rmtree(folder / name, ignore_errors=True)
    return json.loads(result.read_text())


def claims_of(pagelab, zoo, pool, seed, is_true, wanted):
    """So many claims that are true, or that are not, one after the other."""
    order = list(pool)
    random.Random(f"{seed}/{is_true}").shuffle(order)
    made = 0
    for number in range(3 * wanted):
        if made == wanted:
            break
        one = one_claim(pagelab, zoo, number, order[number % len(order)], is_true)
        print(json.dumps(one), flush=True)
        if one["claimed"]:
            made += 1
            yield one


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    pagelab, folder = str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2]).resolve()
    trues, falses = (int(count) for count in (sys.argv[3:5] or (20, 20)))
    seed = sys.argv[5] if len(sys.argv) > 5 else "1"
    pool = [kind for kind in kinds.KINDS if kind.part == "tuning" and kind.cause in CAUSES]
    zoo = Zoo(pagelab, folder)
    zoo.prepare()
    true_ones, false_ones = (claims_of(pagelab, zoo, pool, seed, is_true, wanted) for is_true, wanted in ((True, trues), (False, falses)))
    try:
        # In turns, so that a part of them tells of both.
        turns = itertools.zip_longest(true_ones, false_ones)
        told_all = [one for turn in turns for one in turn if one]
    finally:
        zoo.close()
    right = sum(one["right"] for one in told_all)
    low, high = interval(right, len(told_all))
    print(f"right: {right} of {len(told_all)} [{100 * low:.1f}, {100 * high:.1f}] %")
    print(f"decided: {sum(one['state'] != 'not_decided' for one in told_all)}")
    false_ones = [one for one in told_all if not one["true"]]
    confirmed_false = sum(one["state"] == "confirmed" for one in false_ones)
    print(f"confirmed and not true: {confirmed_false}")
    return bounds.ended("claims", {"claims.right": (right, len(told_all)), "claims.false_confirmed": (confirmed_false, len(false_ones))})


if __name__ == "__main__":
    sys.exit(main())
