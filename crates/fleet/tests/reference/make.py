#!/usr/bin/env python3
"""Makes reference.json, with which tests/reference.rs compares the statistics of fleets.

    python3 -m venv /tmp/reference && /tmp/reference/bin/pip install numpy scipy statsmodels pandas
    /tmp/reference/bin/python make.py            # rewrites reference.json beside this file

Everything is seeded: a second run writes the same bytes, given the same versions. Values are written as they are, so that both
languages compute from the same doubles.

scipy makes the tests of means (ttest_ind, ttest_1samp), of ranks (kruskal) and the distributions, statsmodels the q values
(multipletests), the components of variance of balanced designs by restricted maximum likelihood (MixedLM, an optimiser: it agrees to
about 1e-4), the fit of hosts and days (OLS with dummies) and the mixed model that the test of host means is compared with. The
robust estimates of outliers stand in no library: they are computed here from their equations, by another way of solving them.
"""

import itertools
import json
import math
import pathlib
import platform
import warnings

import numpy as np
import pandas as pd
import scipy
import scipy.optimize
import scipy.stats as st
import statsmodels
import statsmodels.formula.api as smf
from statsmodels.stats.multitest import multipletests

HERE = pathlib.Path(__file__).parent
NORMAL_MEDIAN = st.norm.ppf(0.75)


# ---- one metric under two labels -------------------------------------------------------------------------------------


def draw_runs(rng, hosts, sides_of, runs_of, host_sd, run_sd, effect, level, linear):
    """Runs [host, side, value] of hosts; sides_of(host) are its sides, runs_of() how many runs it has on each."""
    runs = []
    for host in range(hosts):
        deviation = rng.normal() * host_sd
        for side in sides_of(host):
            for _ in range(runs_of()):
                z = deviation + rng.normal() * run_sd + effect * side
                runs.append([f"h{host:03}", side, level + z if linear else level * math.exp(z)])
    return runs


def frame(runs, linear):
    data = pd.DataFrame(runs, columns=["host", "side", "value"])
    data["y"] = data["value"] if linear else np.log(data["value"])
    return data


def anova_components(data):
    """Between, within and ICC of hosts nested in sides, pooled over sides: the textbook's sums of squares."""
    ss_within = df_within = ss_between = df_between = weight = 0.0
    for _, side in data.groupby("side"):
        groups = [group["y"].to_numpy() for _, group in side.groupby("host")]
        sizes = np.array([len(g) for g in groups])
        means = np.array([g.mean() for g in groups])
        ss_within += sum(((g - g.mean()) ** 2).sum() for g in groups)
        df_within += (sizes - 1).sum()
        ss_between += (sizes * (means - side["y"].mean()) ** 2).sum()
        df_between += len(groups) - 1
        weight += sizes.sum() - (sizes**2).sum() / sizes.sum()
    within = ss_within / df_within
    between = max(0.0, (ss_between / df_between - within) / (weight / df_between))
    return {"between_hosts": between, "within_hosts": within, "icc": between / (between + within)}


def interval(estimate, se, df):
    half = st.t.ppf(0.975, df) * se
    return [estimate - half, estimate + half]


def welch(base, test):
    known = st.ttest_ind(test, base, equal_var=False)
    v = test.var(ddof=1) / len(test) + base.var(ddof=1) / len(base)
    return known.statistic, known.df, known.pvalue, test.mean() - base.mean(), math.sqrt(v)


def compare(name, runs, design, linear):
    data = frame(runs, linear)
    means = data.groupby(["host", "side"])["y"].mean().unstack()
    if design == "between":
        base, test = means[0].dropna().to_numpy(), means[1].dropna().to_numpy()
        t, df, p, estimate, se = welch(base, test)
    else:
        differences = (means[1] - means[0]).dropna().to_numpy()
        known = st.ttest_1samp(differences, 0.0)
        t, df, p = known.statistic, known.df, known.pvalue
        estimate, se = differences.mean(), differences.std(ddof=1) / math.sqrt(len(differences))
    naive = welch(data[data.side == 0]["y"].to_numpy(), data[data.side == 1]["y"].to_numpy())
    ends = interval(estimate, se, df)
    case = {
        "name": name,
        "design": design,
        "linear": linear,
        "runs": runs,
        "t": t,
        "df": df,
        "p": p,
        "estimate": estimate if linear else math.exp(estimate),
        "ci95": ends if linear else [math.exp(end) for end in ends],
        "naive_p": naive[2],
        "naive_df": naive[1],
        **anova_components(data),
    }
    if design == "between":
        case["reml"] = reml(data)
    else:
        sizes = data.groupby(["host", "side"])["y"].count().unstack()
        of_runs = (case["within_hosts"] * (1 / sizes[0] + 1 / sizes[1])).mean()
        case["variance_of_differences"] = max(0.0, differences.var(ddof=1) - of_runs)
    return case


def reml(data):
    """Restricted maximum likelihood with hosts as random effect; its Wald z of the label."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = smf.mixedlm("y ~ side", data, groups=data["host"]).fit(reml=True)
    return {
        "between_hosts": float(fit.cov_re.iloc[0, 0]),
        "within_hosts": float(fit.scale),
        "z": float(fit.tvalues["side"]),
        "estimate": float(fit.params["side"]),
    }


def comparisons():
    cases = []
    halves = lambda hosts: lambda host: [int(host >= hosts // 2)]
    both = lambda host: [0, 1]
    for at, (name, hosts, runs, host_sd, run_sd, effect, linear) in enumerate([
        ("balanced", 12, lambda rng: 5, 0.2, 0.05, 0.1, False),
        ("balanced, hosts alike", 10, lambda rng: 6, 0.02, 0.1, 0.05, False),
        ("unbalanced", 14, lambda rng: int(rng.integers(1, 30)), 0.1, 0.05, 0.0, False),
        ("hosts with one run", 16, lambda rng: int(rng.choice([1, 1, 12])), 0.1, 0.1, 0.2, False),
        ("three hosts a side", 6, lambda rng: int(rng.integers(2, 9)), 0.1, 0.02, 0.4, False),
        ("values below zero", 12, lambda rng: int(rng.integers(1, 8)), 3.0, 1.0, 2.0, True),
    ]):
        for design in ["between", "within"]:
            rng = np.random.default_rng(100 + at)
            sides = halves(hosts) if design == "between" else both
            drawn = draw_runs(rng, hosts, sides, lambda: runs(rng), host_sd, run_sd, effect, -1.0 if linear else 5e4, linear)
            cases.append(compare(name, drawn, design, linear))
    return cases


# ---- outliers --------------------------------------------------------------------------------------------------------


def weighted_median(values, weights):
    order = np.argsort(values, kind="stable")
    values, sums = values[order], np.cumsum(weights[order])
    half = sums[-1] / 2
    at = int(np.searchsorted(sums, half * (1 - 1e-12)))
    if abs(sums[at] - half) <= 1e-12 * half and at + 1 < len(values):
        return (values[at] + values[at + 1]) / 2
    return values[at]


def outliers(name, runs):
    data = frame(runs, False)
    groups = {host: group["y"].to_numpy() for host, group in data.groupby("host")}
    means = np.array([g.mean() for g in groups.values()])
    sizes = np.array([len(g) for g in groups.values()])
    own = np.array([g.var(ddof=1) if len(g) > 1 else np.nan for g in groups.values()])
    d = sizes[sizes > 1] - 1.0
    sigma2 = weighted_median(own[sizes > 1] / (1 - 2 / (9 * d)) ** 3, d)
    errors = sigma2 / sizes
    mu, tau2 = np.median(means), 0.0
    for _ in range(6):
        excess = lambda variance: np.median(np.abs(means - mu) / np.sqrt(variance + errors)) - NORMAL_MEDIAN
        tau2 = 0.0
        if excess(0.0) > 0:
            tau2 = scipy.optimize.brentq(excess, 0.0, (np.abs(means - mu).max() / NORMAL_MEDIAN) ** 2 + 1e-9, xtol=1e-18, rtol=1e-14)
        mu = weighted_median(means, 1 / np.sqrt(tau2 + errors))
    z = (means - mu) / np.sqrt(tau2 + np.fmax(own, sigma2) / sizes)
    df = 0.37 * (len(means) - 1)
    p = 2 * st.t.sf(np.abs(z), df)
    q = multipletests(p, method="fdr_bh")[1]
    return {
        "name": name, "runs": runs, "centre": math.exp(mu), "tau": math.sqrt(tau2), "sigma": math.sqrt(sigma2), "df": df,
        "hosts": [[host, float(z[i]), float(p[i]), float(q[i])] for i, host in enumerate(groups)],
    }


def outlier_cases():
    cases = []
    for at, (name, hosts, runs, host_sd, run_sd) in enumerate([
        ("many hosts", 60, lambda rng: int(rng.integers(1, 12)), 0.1, 0.05),
        ("hosts hardly differ", 25, lambda rng: int(rng.integers(2, 6)), 0.005, 0.1),
        ("few hosts", 9, lambda rng: int(rng.integers(1, 5)), 0.1, 0.05),
    ]):
        rng = np.random.default_rng(200 + at)
        drawn = draw_runs(rng, hosts, lambda host: [0], lambda: runs(rng), host_sd, run_sd, 0.0, 100.0, False)
        # Two hosts are far out, one of them with a wild run.
        drawn = [[h, s, v * 3.0 if h in ("h003", "h005") else v] for h, s, v in drawn]
        drawn.append(["h005", 0, 1e4])
        cases.append(outliers(name, drawn))
    return cases


# ---- ranks, distributions, drift -------------------------------------------------------------------------------------


def ranks():
    rng = np.random.default_rng(300)
    cases = []
    for sizes, step in [((3, 3, 3), 0), ((40, 5, 3), 0), ((10, 12, 9, 30), 0.5), ((200, 50, 20, 4, 3), 0.25)]:
        groups = [list(rng.normal(size=n) + 0.4 * i) for i, n in enumerate(sizes)]
        if step:
            groups = [[math.floor(v / step) * step for v in g] for g in groups]
        cases.append({"groups": groups, "p": float(st.kruskal(*groups).pvalue)})
    chi2 = []
    for df in list(range(1, 12)) + [40, 101]:
        for x in [1e-3, 0.5, 3.0, df, 4.0 * df + 10, 300.0]:
            chi2.append([float(x), df, float(st.chi2.sf(x, df))])
    return cases, chi2


def exact_permutation(values, few):
    """Share of all choices of as many values whose sum lies as far from its mean."""
    centred = values - values.mean()
    sums = np.array([sum(choice) for choice in itertools.combinations(centred, few.sum())])
    return float((np.abs(sums) >= abs(centred[few].sum()) * (1 - 1e-9)).mean())


def drift():
    """Hosts with settings and one value of a metric each: partitions, tests and q."""
    rng = np.random.default_rng(400)
    count = 60
    hosts = [f"h{i:02}" for i in range(count)]
    settings = {
        "a.cause": ["slow" if i % 3 == 0 else "fast" for i in range(count)],
        "b.same_as_cause": ["0" if i % 3 == 0 else "1" for i in range(count)],
        "c.three": [str(rng.integers(3)) for _ in hosts],
        "d.two": [str(rng.integers(2)) for _ in hosts],
        "e.rare": ["x" if i == 7 else "y" for i in range(count)],
        "f.alike": ["1"] * count,
        "g.few": ["x" if i in (10, 20, 31, 41) else "y" for i in range(count)],
    }
    effect = lambda i: (0.2 if i % 3 == 0 else 0.0) + (0.25 if settings["g.few"][i] == "x" else 0.0)
    values = [100 * math.exp(0.1 * rng.normal() + effect(i)) for i in range(count)]
    y = np.log(values)
    p = {}
    for key in ["a.cause", "c.three", "d.two"]:
        groups = [y[[v == value for v in settings[key]]] for value in sorted(set(settings[key]))]
        p[key] = float(st.kruskal(*groups).pvalue if len(groups) > 2 else st.ttest_ind(*groups, equal_var=False).pvalue)
    few = np.array([v == "x" for v in settings["g.few"]])
    p["g.few"] = exact_permutation(y, few)
    q = dict(zip(p, multipletests(list(p.values()), method="fdr_bh")[1].tolist()))
    slow = np.array([v == "slow" for v in settings["a.cause"]])
    ratio = lambda group: math.exp(y[group].mean() - y[~group].mean())
    pooled = st.ttest_ind(y[few], y[~few]).confidence_interval(0.95)
    return {"hosts": hosts, "settings": settings, "values": values, "p": p, "q": q, "cause_ratio": ratio(slow),
            "few_ratio": ratio(few), "few_ci95": [math.exp(pooled.low), math.exp(pooled.high)]}


# ---- course ----------------------------------------------------------------------------------------------------------


def course():
    """Hosts that come and go: levels of days by least squares with dummies."""
    rng = np.random.default_rng(500)
    rows = []
    for host in range(20):
        deviation = 0.3 * rng.normal()
        first = int(rng.integers(0, 12))
        for day in range(first, first + int(rng.integers(2, 14))):
            if day < 20 and rng.random() < 0.8:
                for _ in range(int(rng.integers(1, 4))):
                    rows.append([f"h{host:02}", day, 1000 * math.exp(deviation + 0.05 * rng.normal() + (0.1 if day > 9 else 0))])
    data = pd.DataFrame(rows, columns=["host", "day", "value"])
    data["y"] = np.log(data["value"])
    cells = data.groupby(["host", "day"], as_index=False)["y"].mean()
    counts = cells.groupby("day")["host"].count()
    cells = cells[cells["day"].map(counts) >= 3]
    fit = smf.ols("y ~ C(host) + C(day)", cells).fit()
    days = sorted(cells["day"].unique())
    hosts = sorted(cells["host"].unique())
    grid = pd.DataFrame([[h, d] for d in days for h in hosts], columns=["host", "day"])
    grid["fit"] = fit.predict(grid)
    levels = np.exp(grid.groupby("day")["fit"].mean())
    return {"runs": rows, "levels": {str(day): float(levels[day]) for day in days}}


def plain(value):
    """numpy scalars as Python's own."""
    return value.item() if isinstance(value, np.generic) else str(value)


def main():
    rank_cases, chi2 = ranks()
    document = {
        "made_by": f"make.py: Python {platform.python_version()}, numpy {np.__version__}, scipy {scipy.__version__}, "
        f"statsmodels {statsmodels.__version__}, pandas {pd.__version__}",
        "comparisons": comparisons(),
        "outliers": outlier_cases(),
        "kruskal": rank_cases,
        "chi_squared": chi2,
        "drift": drift(),
        "course": course(),
    }
    (HERE / "reference.json").write_text(json.dumps(document, default=plain, separators=(",", ":")) + "\n")


main()
