#!/usr/bin/env python3
"""Makes checks.csv, with which tests/stats_checks.rs compares the checks within sides.

    python3 -m venv /tmp/reference && /tmp/reference/bin/pip install scipy
    /tmp/reference/bin/python make_checks.py

Drift: scipy's exact Kendall test where no values are equal, else all orders of the values are counted. Outliers: Grubbs'
G with its p by the t distribution, for the values and their logarithms, whichever p is larger. Modes: every
split of the sorted logarithms is tried, with numpy's variances; p is drawn anew, with numpy's generator.
"""

import itertools
import math
import pathlib
import platform

import numpy as np
import scipy
import scipy.stats

HERE = pathlib.Path(__file__).parent
DRAWS = 200_000
RNG = np.random.default_rng(19)


def s_of(values):
    return sum(np.sign(b - a) for a, b in itertools.combinations(values, 2))


def drift(values):
    ties = len(set(values)) < len(values)
    pairs = sum(a != b for a, b in itertools.combinations(values, 2))
    tau = s_of(values) / pairs
    if not ties:
        found = scipy.stats.kendalltau(range(len(values)), values, method="exact")
        assert abs(found.statistic - tau) < 1e-12
        return tau, found.pvalue
    seen = abs(s_of(values))
    orders = [abs(s_of(order)) >= seen for order in set(itertools.permutations(values))]
    return tau, sum(orders) / len(orders)


def grubbs(values):
    values = np.asarray(values)
    n, sd = len(values), np.std(values, ddof=1)
    place = int(np.argmax(np.abs(values - values.mean())))
    g = abs(values[place] - values.mean()) / sd
    t = math.sqrt(n * (n - 2) * g**2 / ((n - 1) ** 2 - n * g**2))
    return place, min(1.0, 2 * n * scipy.stats.t.sf(t, n - 2))


def outlier_p(values):
    (place, p), (other, q) = grubbs(values), grubbs(np.log(values))
    return max(p, q) if place == other else 1.0


def within(rows):
    """The share within groups of the best split of each row, with groups of at least two."""
    rows = np.sort(rows, axis=1)
    n = rows.shape[1]
    best = np.full(len(rows), np.inf)
    for k in range(2, n - 1):
        left, right = rows[:, :k], rows[:, k:]
        best = np.minimum(best, left.var(axis=1) * k + right.var(axis=1) * (n - k))
    return best / (rows.var(axis=1) * n)


def cases():
    for n in (3, 4, 5, 7, 10, 15, 20, 30):
        for kind in range(6):
            values = 100 + 5 * RNG.standard_normal(n)
            if kind == 1:
                values += np.linspace(0, 12, n)
            if kind == 2:
                values[0] += 60
            if kind == 3:
                values[: max(2, n // 3)] += 70
            if kind == 4:
                values = np.exp(values / 30)
            if kind == 5:
                values = RNG.permutation(values) * 3
            yield [float(v) for v in values]
    for values in ([1, 1, 2], [3, 1, 2, 2], [1, 1, 2, 2, 3], [5, 5, 5, 1, 2, 2], [1, 2, 2, 3, 3, 3, 4], [7, 7, 6, 6, 6, 2, 1, 1],
                   [2, 1, 2, 1, 2, 1, 2], [1, 1, 1, 1, 1, 1, 1, 2], [4, 4, 3, 3, 2, 2, 1, 1], [1, 3, 3, 5, 4, 5, 6, 6],
                   [1, 2, 1, 3, 2, 4, 3, 5], [9, 8, 8, 9, 7, 7, 6, 8]):
        yield [float(v) for v in values]


def main():
    nulls = {}
    lines = []
    for values in cases():
        n = len(values)
        tau, p = drift(values)
        row = [" ".join(map(repr, values)), repr(float(tau)), repr(float(p)), "", "", ""]
        if len(set(values)) == n:
            row[3] = repr(float(outlier_p(values)))
            if n >= 5:
                share = within(np.log([values]))[0]
                if n not in nulls:
                    nulls[n] = within(RNG.random((DRAWS, n)))
                row[4], row[5] = repr(float(share)), repr(float((nulls[n] <= share).mean()))
        lines.append(",".join(row))
    head = f"# made by make_checks.py: Python {platform.python_version()}, scipy {scipy.__version__}, numpy {np.__version__}"
    columns = "values,drift_tau,drift_p,outlier_p,modes_within,modes_p"
    (HERE / "checks.csv").write_text("\n".join([head, columns, *lines]) + "\n")
    print(len(lines), "rows")


if __name__ == "__main__":
    main()
