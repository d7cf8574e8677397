"""Runs of two sides in turns, and how rarely chance puts their times in such an order."""

import itertools
import statistics

SIDES = ("base", "test")
# Of each side.
RUNS = 8
# Two sides whose times in an order this rare are not alike.
LEVEL = 0.05


def interleaved():
    """The runs of both sides, now one first, now the other."""
    for run in range(RUNS):
        for side in SIDES if run % 2 == 0 else reversed(SIDES):
            yield run, side


def in_order(base, test):
    """How rarely chance orders the times of two sides like this, two-sided (Mann and Whitney's test, exact)."""
    times = sorted([*base, *test])
    ranks = {one: statistics.mean(at for at, other in enumerate(times) if other == one) for one in times}
    middle = len(base) * (len(times) - 1) / 2
    of_base = abs(sum(ranks[one] for one in base) - middle)
    sums = [sum(some) for some in itertools.combinations([ranks[one] for one in times], len(base))]
    return sum(abs(one - middle) >= of_base - 1e-9 for one in sums) / len(sums)
