#!/usr/bin/env python3
"""Makes power.csv and equivalence.csv, with which tests/stats_equivalence.rs compares power and equivalence.

    python3 -m venv /tmp/reference && /tmp/reference/bin/pip install scipy statsmodels
    /tmp/reference/bin/python make_power.py

Power: statsmodels' TTestPower for rounds and TTestIndPower for unpaired runs of equal spread; scipy's noncentral t with
the degrees of freedom of Welch and Satterthwaite where spreads differ. The fewest runs are found by going up one by one.
Equivalence: statsmodels' ttost_paired gives the p of the two one-sided tests on logarithms at a margin. For the ratio of
unpaired means each test is a t test of mean_t - r mean_b with scipy's t distribution, r being the margin.
"""

import math
import pathlib
import platform

import numpy as np
import scipy
import scipy.integrate
import scipy.stats
import statsmodels
from statsmodels.stats.power import TTestIndPower, TTestPower
from statsmodels.stats.weightstats import ttost_paired

HERE = pathlib.Path(__file__).parent
HEAD = (
    f"# made by make_power.py: Python {platform.python_version()}, scipy {scipy.__version__}, "
    f"statsmodels {statsmodels.__version__}, numpy {np.__version__}"
)
MOST = 3000


def by_quadrature(df, nc, alpha):
    """P(|T| > c) as an integral over the distribution of the standard deviation, where nct gives no number."""
    c = scipy.stats.t.isf(alpha / 2, df)
    chi = scipy.stats.chi(df, scale=1 / math.sqrt(df))
    norm = scipy.stats.norm
    found = lambda s: chi.pdf(s) * (norm.sf(c * s - nc) + norm.sf(c * s + nc))
    marks = [m for m in (nc / c, 1.0) if m < 10]
    return scipy.integrate.quad(found, 0, 10, points=marks, limit=500)[0]


def of_rounds(change, sd, n, alpha):
    effect = math.log1p(change) / sd
    found = TTestPower().power(effect, n, alpha, alternative="two-sided")
    return by_quadrature(n - 1, effect * math.sqrt(n), alpha) if math.isnan(found) else found


def of_unpaired(change, base, test, n, alpha):
    if base == test:
        found = TTestIndPower().power(change / base, n, alpha, ratio=1, alternative="two-sided")
        return by_quadrature(2 * n - 2, change / base * math.sqrt(n / 2), alpha) if math.isnan(found) else found
    b, t = base**2, test**2
    df = (n - 1) * (b + t) ** 2 / (b * b + t * t)
    nc = change / math.sqrt((b + t) / n)
    c = scipy.stats.t.isf(alpha / 2, df)
    found = scipy.stats.nct.sf(c, df, nc) + scipy.stats.nct.cdf(-c, df, nc)
    return by_quadrature(df, nc, alpha) if math.isnan(found) else found


def fewest(power):
    return next((n for n in range(2, MOST) if power(n) >= 0.8), None)


def power():
    lines = []
    for change in (0.02, 0.05, 0.10):
        for alpha in (0.05, 0.01):
            for sd in (0.004, 0.01, 0.02, 0.05, 0.13):
                for base, test in ((sd, sd), (sd, 2 * sd), (3 * sd, sd), (sd, 0.0), (None, sd)):
                    if base is None:
                        run = lambda n: of_rounds(change, test, n, alpha)
                    else:
                        run = lambda n: of_unpaired(change, base, test, n, alpha)
                    needed = fewest(run)
                    for n in (3, 8, 25):
                        row = [change, alpha, base if base is not None else "", test, n, float(run(n)), needed or ""]
                        lines.append(",".join(map(str, row)))
    (HERE / "power.csv").write_text("\n".join([HEAD, "change,alpha,base,test,runs,power,needed", *lines]) + "\n")
    print("power.csv:", len(lines), "rows")


def equivalence():
    rng = np.random.default_rng(90)
    lines = []
    for n in (3, 4, 6, 10, 20, 40):
        for cv in (0.01, 0.03, 0.08):
            base = 100 * (1 + cv * rng.standard_normal(n))
            test = 101 * (1 + 1.5 * cv * rng.standard_normal(n))
            for low, high in ((0.95, 1.05), (0.97, 1.03), (0.9, 1.1)):
                paired = ttost_paired(np.log(test), np.log(base), math.log(low), math.log(high))[0]
                ends = []
                v_b, v_t = base.var(ddof=1) / n, test.var(ddof=1) / n
                ratio = test.mean() / base.mean()
                df = (v_t + ratio**2 * v_b) ** 2 / ((v_t**2 + ratio**4 * v_b**2) / (n - 1))
                for r, sign in ((low, 1), (high, -1)):
                    t = sign * (test.mean() - r * base.mean()) / math.sqrt(v_t + r * r * v_b)
                    ends.append(scipy.stats.t.sf(t, df))
                text = [" ".join(map(repr, map(float, side))) for side in (base, test)]
                lines.append(",".join([*text, str(low), str(high), repr(float(paired)), repr(float(max(ends)))]))
    columns = "base,test,low,high,paired_p,unpaired_p"
    (HERE / "equivalence.csv").write_text("\n".join([HEAD, columns, *lines]) + "\n")
    print("equivalence.csv:", len(lines), "rows")


if __name__ == "__main__":
    power()
    equivalence()
