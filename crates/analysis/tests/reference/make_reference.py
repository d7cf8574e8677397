#!/usr/bin/env python3
"""Makes the reference values that tests/stats_reference.rs compares the module `stats` with.

    python3 -m venv /tmp/reference && /tmp/reference/bin/pip install scipy statsmodels mpmath
    /tmp/reference/bin/python make_reference.py            # rewrites the *.csv beside this file

Everything is seeded; a second run writes the same bytes (given the same versions, which stand in each file's head).
Values are computed with mpmath at 50 digits from the very doubles that the Rust tests use, then rounded once. scipy is
run beside it and must agree as far as double precision lets it; statsmodels makes the q values and Wilson intervals.

Samples are not stored. A row holds a recipe, and both languages draw the same doubles from it: SplitMix64, sums of four
16-bit integers, one multiplication and one addition in IEEE double arithmetic. A checksum of the bits proves it.
"""

import math
import pathlib
import platform
import random
import struct

import mpmath as mp
import numpy as np
import scipy
import scipy.stats
import statsmodels
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

mp.mp.dps = 50
HERE = pathlib.Path(__file__).parent
MASK = (1 << 64) - 1
HALF = mp.mpf(1) / 2


# ---- samples ---------------------------------------------------------------------------------------------------------


def splitmix(state):
    """One step of SplitMix64 (Steele, Lea, Flood, 2014): new state and output."""
    state = (state + 0x9E3779B97F4A7C15) & MASK
    z = state
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return state, z ^ (z >> 31)


def draw(seed, n, center, scale, step):
    """n doubles center + scale * z; z is near normal in shape, and a multiple of `step` where that is not 0 (ties)."""
    values, state = [], seed
    for _ in range(n):
        state, bits = splitmix(state)
        total = sum((bits >> shift) & 0xFFFF for shift in (0, 16, 32, 48))
        z = (total - 131070) / 32768.0
        if step != 0.0:
            z = math.floor(z / step) * step
        values.append(center + scale * z)
    return values


def checksum(values):
    sum_ = 0
    for value in values:
        (bits,) = struct.unpack("<Q", struct.pack("<d", value))
        sum_ = (sum_ * 31 + bits) & MASK
    return f"{sum_:016x}"


# ---- exact statistics ------------------------------------------------------------------------------------------------


def moments(values):
    """Mean and variance (n - 1) of mpf values."""
    mean = mp.fsum(values) / len(values)
    if len(values) < 2:
        return mean, None
    return mean, mp.fsum((v - mean) ** 2 for v in values) / (len(values) - 1)


def exact(values):
    return [mp.mpf(v) for v in values]


def t_two_sided(t, df):
    """P(|T| > |t|) with df degrees of freedom."""
    t = mp.mpf(t)
    if mp.isinf(df):
        return mp.erfc(abs(t) / mp.sqrt(2))
    df, square = mp.mpf(df), t * t
    x, y = df / (df + square), square / (df + square)
    if x <= HALF:
        return incomplete_beta(x, y, df / 2, HALF)
    # The complement has the short series; what the subtraction costs is added in digits first.
    lost = int(-df / 2 * mp.log10(x)) + 10
    with mp.workdps(mp.mp.dps + lost):
        # All that enters must be known to the added digits.
        x, y = df / (df + square), square / (df + square)
        return 1 - incomplete_beta(y, x, HALF, df / 2)


def incomplete_beta(x, y, a, b):
    """I_x(a, b), y = 1 - x, by the series of positive terms DLMF 8.17.8."""
    front = mp.exp(a * mp.log(x) + b * mp.log(y)) / a / mp.beta(a, b)
    return front * mp.hyp2f1(a + b, 1, a + 1, x)


def t_two_sided_by_quadrature(t, df):
    """The same by integrating the density, to hold the series to something else."""
    t, df = abs(mp.mpf(t)), mp.mpf(df)
    at_t = -(df + 1) / 2 * mp.log1p(t * t / df)

    def density(u):
        return mp.exp(-(df + 1) / 2 * mp.log1p((t * mp.exp(u)) ** 2 / df) + u - at_t) * t

    width = 1 / (1 + t * t * (df + 1) / (df + t * t))
    area = mp.quad(density, [0] + [width * 2**k for k in range(12)])
    return 2 * mp.gammaprod([(df + 1) / 2], [df / 2]) / mp.sqrt(mp.pi * df) * mp.exp(at_t) * area


def t_critical(ln_p, df, start):
    """The t with ln P(|T| > t) = ln_p, by the secant method on ln P against ln t."""
    ln_p = mp.mpf(ln_p)
    root = mp.findroot(
        lambda u: mp.log(t_two_sided(mp.exp(u), df)) - ln_p, (mp.log(start), mp.log(start * 1.01)), tol=1e-60
    )
    return mp.exp(root)


def critical_for_level(df, level):
    """Critical value of a two-sided interval; 1 - level is formed in double precision, as the caller does."""
    p = mp.mpf(1.0 - level)
    start = float(scipy.stats.t.isf(float(p) / 2, float(df)))
    return t_critical(mp.log(p), df, start)


def half_gamma_factor(v):
    """Hedges' exact small-sample factor."""
    return mp.exp(mp.loggamma(v / 2) - mp.loggamma((v - 1) / 2)) / mp.sqrt(v / 2)


def welch(base, test):
    """Difference, standard error, df of Welch's test on mpf samples."""
    mean_b, var_b = moments(base)
    mean_t, var_t = moments(test)
    v_b, v_t = var_b / len(base), var_t / len(test)
    df = (v_b + v_t) ** 2 / (v_b**2 / (len(base) - 1) + v_t**2 / (len(test) - 1))
    return mean_t - mean_b, mp.sqrt(v_b + v_t), df


# ---- files -----------------------------------------------------------------------------------------------------------


def number(x):
    """Shortest text that reads back as the same double."""
    return repr(float(x)) if x is not None else ""


def write(name, columns, rows, remarks=()):
    head = [
        f"# made by make_reference.py: Python {platform.python_version()}, mpmath {mp.__version__}, "
        f"scipy {scipy.__version__}, statsmodels {statsmodels.__version__}, numpy {np.__version__}"
    ]
    head += [f"# {remark}" for remark in remarks]
    text = "\n".join(head + [",".join(columns)] + [",".join(row) for row in rows]) + "\n"
    (HERE / name).write_text(text)
    print(f"{name}: {len(rows)} rows, {len(text)} bytes", *remarks, sep="\n    ")


def random_df(rng):
    """Degrees of freedom over six decades; one in four is an integer."""
    df = 10 ** rng.uniform(0, 6)
    return float(max(1, round(df))) if rng.random() < 0.25 else df


def student():
    rng = random.Random("student")
    rows, worst_scipy, worst_quad = [], 0.0, mp.mpf(0)
    for i in range(1500):
        df = math.inf if i % 15 == 0 else random_df(rng)
        kind = rng.random()
        if kind < 0.1:
            t = 10 ** rng.uniform(-8, 0.3)
        else:
            ln_p = -rng.uniform(0, 300) * math.log(10) if kind < 0.9 else -rng.uniform(690, 5000)
            if math.isinf(df):
                t = math.sqrt(-2 * ln_p)
            else:
                t = float(mp.sqrt(df * mp.expm1(-2 * mp.mpf(ln_p) / df)))
        if not 0 < t < 1e300:
            t = 10 ** rng.uniform(100, 300)
        if rng.random() < 0.1:
            t = -t
        p = t_two_sided(t, df)
        if not math.isinf(df) and i % 10 == 1:
            worst_quad = max(worst_quad, abs(t_two_sided_by_quadrature(t, df) / p - 1))
        if p > mp.mpf("1e-290") and not math.isinf(df) and abs(t) < 1e150:
            worst_scipy = max(worst_scipy, abs(float(2 * mp.mpf(float(scipy.stats.t.sf(abs(t), df))) / p - 1)))
        rows.append([number(df), number(t), number(p), number(mp.log(p))])
    assert worst_quad < mp.mpf("1e-40")
    remark = f"largest relative difference of scipy.stats.t.sf where p > 1e-290, |t| < 1e150 (it is 0 beyond): {worst_scipy:.1e}"
    write("student_t.csv", ["df", "t", "p", "ln_p"], rows, [remark])


def quantiles():
    rng = random.Random("quantiles")
    rows = []
    for i in range(300):
        df = math.inf if i % 15 == 0 else random_df(rng)
        p = [0.05, 0.01, 0.5, rng.uniform(0.5, 1.0), 10 ** rng.uniform(-12, 0), 10 ** rng.uniform(-300, 0)][i % 6]
        if math.isinf(df):
            start = float(scipy.stats.norm.isf(p / 2))
        else:
            start = float(mp.sqrt(df * mp.expm1(-2 * mp.log(p) / df)))
        if p > 1e-12 and not math.isinf(df):
            start = float(scipy.stats.t.isf(p / 2, df))
        t = t_critical(mp.log(p), df, start)
        assert abs(t_two_sided(t, df) / mp.mpf(p) - 1) < mp.mpf("1e-40")
        rows.append([number(df), number(p), number(t)])
    write("quantiles.csv", ["df", "two_sided_p", "t"], rows)


KINDS = ("plain", "ties", "tiny_variance", "huge_offset", "far", "extreme_scale")


def recipe(rng, kind):
    """(center, shift, scale_b, scale_t, step) of one row of samples.csv, to six digits to keep the file small."""
    scale = 10 ** rng.uniform(-3, 3)
    other = scale * 10 ** rng.uniform(-1.5, 1.5)
    center = rng.uniform(-10, 10) * scale
    shift, step = scale * rng.gauss(0, 1), 0.0
    if kind == "ties":
        step = rng.choice([0.25, 0.5, 1.0])
    elif kind == "tiny_variance":
        center, scale = rng.uniform(1, 10), 10 ** rng.uniform(-14, -9)
        other, shift = scale * 10 ** rng.uniform(-0.5, 0.5), scale * rng.uniform(-3, 3)
    elif kind == "huge_offset":
        center, scale = 10 ** rng.uniform(9, 15), 10 ** rng.uniform(-3, 2)
        scale = max(scale, center * 1e-15)
        other, shift = scale * 10 ** rng.uniform(-0.5, 0.5), scale * rng.uniform(-3, 3)
    elif kind == "far":
        shift = scale * 10 ** rng.uniform(0.5, 4)
    elif kind == "extreme_scale":
        unit = 10 ** rng.choice([-250.0, -160.0, 150.0, 280.0])
        scale, other, center, shift = (v * unit for v in (scale, other, center, shift))
    return tuple(float(f"{x:.6g}") for x in (center, shift, scale, other, step))


def samples():
    rng = random.Random("samples")
    rows, worst_scipy, worst_naive = [], 0.0, 0.0
    while len(rows) < 1200:
        kind = KINDS[len(rows) % len(KINDS)]
        n_b, n_t = (min(1000, int(2 * 10 ** rng.uniform(0, 2.7))) for _ in range(2))
        center, shift, scale_b, scale_t, step = recipe(rng, kind)
        seed = rng.getrandbits(32)
        base_doubles = draw(seed, n_b, center, scale_b, step)
        test_doubles = draw(seed ^ 0x5DEECE66D, n_t, center + shift, scale_t, step)
        if len(set(base_doubles)) < 2 or len(set(test_doubles)) < 2:
            continue
        base, test = exact(base_doubles), exact(test_doubles)
        difference, se, df = welch(base, test)
        if difference == 0:
            continue
        t = difference / se
        p = t_two_sided(t, df)
        v = mp.mpf(n_b + n_t - 2)
        var_b, var_t = moments(base)[1], moments(test)[1]
        pooled = mp.sqrt(((n_b - 1) * var_b + (n_t - 1) * var_t) / v)
        g = half_gamma_factor(v) * difference / pooled
        if kind in ("plain", "ties") and p > mp.mpf("1e-200"):
            known = scipy.stats.ttest_ind(test_doubles, base_doubles, equal_var=False)
            worst_scipy = max(worst_scipy, abs(float(mp.mpf(float(known.pvalue)) / p - 1)))
        if kind == "huge_offset":
            known = scipy.stats.ttest_ind(test_doubles, base_doubles, equal_var=False)
            worst_naive = max(worst_naive, abs(float(mp.mpf(float(known.statistic)) / t - 1)))
        rows.append(
            [kind, str(seed), str(n_b), str(n_t)]
            + [number(x) for x in (center, shift, scale_b, scale_t, step)]
            + [checksum(base_doubles + test_doubles)]
            + [number(x) for x in (mp.sqrt(var_b), mp.sqrt(var_t), t, df, p, mp.log(p), g)]
        )
    columns = "kind,seed,n_b,n_t,center,shift,scale_b,scale_t,step,checksum,sd_b,sd_t,t,df,p,ln_p,hedges_g"
    remarks = [
        f"largest relative difference of scipy's p on kinds plain and ties, p > 1e-200: {worst_scipy:.1e}",
        f"largest relative difference of scipy's t on kind huge_offset: {worst_naive:.1e}",
    ]
    write("samples.csv", columns.split(","), rows, remarks)


def paired():
    """Positive values in rounds: paired and unpaired tests of logs with their ratios."""
    rng = random.Random("paired")
    rows = []
    while len(rows) < 300:
        n = min(1000, int(2 * 10 ** rng.uniform(0, 2.2)))
        center = 10 ** rng.uniform(-3, 12)
        factor = rng.choice([1.0, 1.0 + rng.uniform(-1e-9, 1e-9), rng.uniform(0.5, 2), 10 ** rng.uniform(-4, 4)])
        noise = rng.choice([0.2, 0.01, 1e-6, 1e-11])
        seed = rng.getrandbits(48)
        center_t = center * factor
        scale_b, scale_t = center * noise, center_t * noise * rng.uniform(0.3, 3)
        base_doubles = draw(seed, n, center, scale_b, 0.0)
        test_doubles = draw(seed ^ 0x5DEECE66D, n, center_t, scale_t, 0.0)
        if min(base_doubles + test_doubles) <= 0 or len(set(base_doubles)) < 2 or len(set(test_doubles)) < 2:
            continue
        base, test = [mp.log(v) for v in exact(base_doubles)], [mp.log(v) for v in exact(test_doubles)]
        mean, var = moments([t - b for b, t in zip(base, test)])
        se, df = mp.sqrt(var / n), mp.mpf(n - 1)
        t = mean / se
        half = critical_for_level(df, 0.95) * se
        u_mean, u_se, u_df = welch(base, test)
        u_half = critical_for_level(u_df, 0.95) * u_se
        differences = [b - a for a, b in zip(exact(base_doubles), exact(test_doubles))]
        d_mean, d_var = moments(differences)
        ends = [mp.exp(e) for e in (mean, mean - half, mean + half, u_mean - u_half, u_mean + u_half)]
        rows.append(
            [str(seed), str(n)]
            + [number(x) for x in (center, center_t, scale_b, scale_t)]
            + [checksum(base_doubles + test_doubles)]
            + [number(x) for x in [t, mp.log(t_two_sided(t, df))] + ends + [d_mean / mp.sqrt(d_var / n)]]
        )
    columns = "seed,n,center_b,center_t,scale_b,scale_t,checksum,t,ln_p,ratio,low,high,welch_low,welch_high,t_difference"
    write("paired.csv", columns.split(","), rows)


def fieller():
    """Ends found as roots of the definition: the ratio r at which the t test of m_t = r m_b is just significant."""
    rng = random.Random("fieller")
    rows, unbounded = [], 0
    while len(rows) < 120:
        n_b, n_t = rng.randint(2, 40), rng.randint(2, 40)
        m_b, m_t = rng.choice([-1, 1]) * 10 ** rng.uniform(-2, 4), rng.uniform(-5, 5)
        sd_b, sd_t = abs(m_b) * 10 ** rng.uniform(-2, 0.7), 10 ** rng.uniform(-2, 1)
        v_b, v_t = mp.mpf(sd_b) ** 2 / n_b, mp.mpf(sd_t) ** 2 / n_t
        m_b_, m_t_ = mp.mpf(m_b), mp.mpf(m_t)
        r = m_t_ / m_b_
        df = (v_t + r * r * v_b) ** 2 / (v_t**2 / (n_t - 1) + (r * r * v_b) ** 2 / (n_b - 1))
        c = critical_for_level(df, 0.95)
        ends = [None, None]
        if c * c * v_b < m_b_ * m_b_:

            def excess(x):
                return abs(m_t_ - x * m_b_) / mp.sqrt(v_t + x * x * v_b) - c

            for i, sign in enumerate((-1, 1)):
                width = c * mp.sqrt(v_t + r * r * v_b) / abs(m_b_)
                while excess(r + sign * width) < 0:
                    width *= 2
                ends[i] = mp.findroot(excess, (r, r + sign * width), solver="anderson", tol=1e-60, maxsteps=200)
        else:
            unbounded += 1
        rows.append([str(n_b), str(n_t)] + [number(x) for x in (m_b, m_t, sd_b, sd_t, r, *ends)])
    assert 10 < unbounded < 80
    write("fieller.csv", "n_b,n_t,mean_b,mean_t,sd_b,sd_t,ratio,low,high".split(","), rows)


def family():
    """q values, exactly as statsmodels computes them; lists are separated by blanks."""
    rng = random.Random("family")
    rows = []
    for i in range(150):
        m = rng.choice([1, 2, 3, 5, 10, 30]) if i % 10 else rng.randint(100, 300)
        if i % 3 == 0:
            p = [rng.random() for _ in range(m)]
        elif i % 3 == 1:
            p = [round(rng.random() ** 3, 2) for _ in range(m)]
        else:
            p = [10 ** rng.uniform(-300, 0) if rng.random() < 0.3 else rng.random() for _ in range(m)]
        reject, q, _, _ = multipletests(p, alpha=0.05, method="fdr_bh")
        assert [bool(r) for r in reject] == [x <= 0.05 for x in q]
        rows.append([" ".join(map(number, p)), " ".join(map(number, q))])
    write("family.csv", ["p", "q"], rows)


def binomial_two_sided(k, n, p):
    """Minimum likelihood by the definition, with the slack of 1e-7 that R and scipy use for ties."""
    q = 1 - p
    pmf = [mp.binomial(n, j) * p**j * q ** (n - j) for j in range(n + 1)]
    limit = pmf[k] * (1 + mp.mpf("1e-7"))
    return min(mp.mpf(1), mp.fsum(x for x in pmf if x <= limit))


def poisson():
    rng = random.Random("poisson")
    rows, worst = [], 0.0
    while len(rows) < 400:
        k_b = rng.choice([0, 1, 2, rng.randint(0, 19), rng.randint(0, 300)])
        k_t = rng.choice([0, rng.randint(0, 19), rng.randint(0, 60), rng.randint(0, 600)])
        e_b = rng.choice([1.0, rng.uniform(1, 100)])
        e_t = e_b if rng.random() < 0.4 else e_b * 10 ** rng.uniform(-1.5, 1.5)
        if k_b + k_t == 0:
            continue
        share = mp.mpf(e_t) / (mp.mpf(e_b) + mp.mpf(e_t))
        p = binomial_two_sided(k_t, k_b + k_t, share)
        known = scipy.stats.binomtest(k_t, k_b + k_t, float(share)).pvalue
        if p > mp.mpf("1e-290"):
            worst = max(worst, abs(float(mp.mpf(float(known)) / p - 1)))
        rows.append([str(k_b), str(k_t), number(e_b), number(e_t), number(p), number(mp.log(p))])
    remark = f"largest relative difference of scipy.stats.binomtest where p > 1e-290: {worst:.1e}"
    assert worst < 1e-8
    write("poisson.csv", "events_b,events_t,exposure_b,exposure_t,p,ln_p".split(","), rows, [remark])


def beta_quantile(tail, a, b, start):
    """x with I_x(a, b) = tail, polished from scipy's value on the logit scale."""
    u0 = mp.log(start) - mp.log1p(-start)

    def excess(u):
        x = 1 / (1 + mp.exp(-u))
        return mp.log(mp.betainc(a, b, 0, x, regularized=True)) - mp.log(tail)

    return 1 / (1 + mp.exp(-mp.findroot(excess, (u0, u0 + mp.mpf("1e-6")), tol=1e-60)))


def shares():
    rng = random.Random("shares")
    rows = []
    for i in range(150):
        n = rng.choice([1, 2, 5, 20, 40, 400, rng.randint(1, 2000)])
        k = rng.choice([0, n, rng.randint(0, n), rng.randint(0, n)])
        level = rng.choice([0.9, 0.95, 0.99, 0.999])
        tail = mp.mpf(0.5 * (1.0 - level))
        known = scipy.stats.binomtest(k, n).proportion_ci(level, method="exact")
        low, high = mp.mpf(0), mp.mpf(1)
        if k > 0:
            low = beta_quantile(tail, k, n - k + 1, mp.mpf(float(known.low)))
            assert abs(low / mp.mpf(float(known.low)) - 1) < 1e-9
        if k < n:
            high = 1 - beta_quantile(tail, n - k, k + 1, 1 - mp.mpf(float(known.high)))
            assert abs(high / mp.mpf(float(known.high)) - 1) < 1e-9
        w_low, w_high = proportion_confint(k, n, alpha=1.0 - level, method="wilson")
        rows.append([str(k), str(n), number(level)] + [number(x) for x in (low, high, w_low, w_high)])
    write("shares.csv", "k,n,level,low,high,wilson_low,wilson_high".split(","), rows)


def descriptive():
    rng = random.Random("descriptive")
    rows = []
    while len(rows) < 60:
        n = rng.choice([2, 3, 4, 5, 10, 101, 1000])
        center, scale, step = 10 ** rng.uniform(-5, 5), 10 ** rng.uniform(-8, 3), rng.choice([0.0, 0.25])
        seed = rng.getrandbits(48)
        values = draw(seed, n, center, scale, step)
        if min(values) <= 0:
            continue
        log_mean, _ = moments([mp.log(v) for v in exact(values)])
        level = rng.choice([0.0, 0.01, 0.25, 0.5, 0.9, 0.99, 1.0, rng.random()])
        row = [str(seed), str(n)] + [number(x) for x in (center, scale, step)] + [checksum(values)]
        row += [number(moments(exact(values))[0]), number(mp.exp(log_mean)), number(level)]
        rows.append(row + [number(np.quantile(values, level)), number(np.median(values))])
    write("descriptive.csv", "seed,n,center,scale,step,checksum,mean,geometric_mean,level,quantile,median".split(","), rows)


if __name__ == "__main__":
    for make in (student, quantiles, samples, paired, fieller, family, poisson, shares, descriptive):
        make()
