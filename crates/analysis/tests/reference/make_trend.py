#!/usr/bin/env python3
"""Makes trend.csv, with which tests/trend.rs compares the places of change points.

    python3 -m venv /tmp/reference && /tmp/reference/bin/pip install ruptures
    /tmp/reference/bin/python make_trend.py

Histories with little noise: one to three steps of 5 to 15 % and a standard deviation of 0.5 %. ruptures finds the best
segmentation of the logarithms into the number of levels planted, by dynamic programming over all places (`Dynp`, cost
`l2`, at least three points each), and again by PELT with Schwarz's penalty, which is not told the number. Both must
agree, and do.

C. Truong, L. Oudre, N. Vayatis, "Selective review of offline change point detection methods", Signal Processing 167 (2020).
"""

import math
import pathlib
import platform
import random

import numpy as np
import ruptures

HERE = pathlib.Path(__file__).parent
SD = 0.005
LEAST = 3


def history(draw):
    """Values, as they are written: the test reads the same doubles."""
    steps = draw.randint(1, 3)
    n = draw.randint(16 * steps + 8, 90)
    while True:
        places = sorted(draw.sample(range(8, n - 7), steps))
        if all(b - a >= 8 for a, b in zip(places, places[1:])):
            break
    level, values = 1e5, []
    for i in range(n):
        if i in places:
            level *= 1 + draw.choice([-1, 1]) * draw.uniform(0.05, 0.15)
        values.append(float(f"{level * (1 + draw.gauss(0, SD)):.6g}"))
    return values, steps


def main():
    draw = random.Random(5)
    lines = [
        f"# made by make_trend.py: Python {platform.python_version()}, ruptures {ruptures.__version__}, numpy {np.__version__}",
        "steps,values",
    ]
    for _ in range(24):
        values, steps = history(draw)
        logs = np.log(np.array(values))
        best = ruptures.Dynp(model="l2", min_size=LEAST, jump=1).fit(logs).predict(n_bkps=steps)[:-1]
        penalty = 2 * SD * SD * math.log(len(values)) * 2
        pelt = ruptures.Pelt(model="l2", min_size=LEAST, jump=1).fit(logs).predict(pen=penalty)[:-1]
        assert best == pelt, (best, pelt)
        lines.append(" ".join(map(str, best)) + "," + " ".join(map(repr, values)))
    (HERE / "trend.csv").write_text("\n".join(lines) + "\n")


main()
