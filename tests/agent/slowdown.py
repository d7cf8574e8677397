"""How much slower a load is with the agent than without it, on a machine whose own speed varies.

A neighbour on the same core takes a fifth of this machine's speed and gives it back, for seconds and for minutes. tests/agent/speed.c
measures that speed meanwhile on each processor, by system calls, messages, SQL and loads of memory, in its own CPU time, which the agent
does not touch; analysis of covariance takes the speed's part out. A second's speed is the mean of work for time and not that of time for
work, since a load's transactions add up in the same way. How much the load of a processor follows its own speed and that of the others,
with which it may share a core, is estimated within blocks alone, so that nothing of the agent can go into it.

What is left varies as much from minute to minute as from second to second, so what is compared must be near in time, and the two things
that an agent does are compared by themselves: its flight recorder, which runs all the time, in pairs of short blocks with it and without it;
its windows, each with the seconds before and after it, in which the flight recorder runs as well.
"""

import math
import os
import pathlib
import statistics
import subprocess

import numpy
from scipy import stats

# Pieces of work in a line of speed.c.
WORKS = 4


class Speed:
    """Processes that measure the speed of each processor."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        program = self.folder / "speed"
        subprocess.run(["gcc", "-O1", "-o", program, pathlib.Path(__file__).with_name("speed.c"), "-lsqlite3"], check=True)
        self.places, self.running = {}, []
        for cpu in sorted(os.sched_getaffinity(0)):
            self.places[cpu] = self.folder / f"speed-{cpu}"
            with self.places[cpu].open("w") as out:
                self.running.append(subprocess.Popen([program, str(cpu)], stdout=out))

    def stop(self):
        for one in self.running:
            one.kill()
            one.wait()

    def by_second(self, cpu, ends):
        """For each second that ends at one of `ends`: logarithm of the mean speed of each piece of work on `cpu`."""
        lines = [line.split() for line in self.places[cpu].read_text().splitlines()]
        looks = numpy.array([[float(word) for word in line] for line in lines if len(line) == 1 + WORKS])
        rows = []
        for end in ends:
            inside = looks[(looks[:, 0] > end - 1) & (looks[:, 0] <= end), 1:]
            rows.append(numpy.log((1 / inside).mean(axis=0)) if len(inside) else [math.nan] * WORKS)
        return numpy.array(rows)


# A window's seconds, its recorder's start and close included, lie from so long before it to so long after it, s.
BEFORE_S, AFTER_S = 1.5, 4
LEVEL = 0.95


class Estimate:
    """A mean of values that are independent, with what an interval needs."""

    def __init__(self, values):
        self.n, self.mean = len(values), statistics.mean(values) if values else math.nan
        self.variance = statistics.variance(values) / self.n if self.n > 1 else math.inf

    def interval(self):
        """Mean and ends, by Student's t."""
        return sum_of([(1, self)])


def sum_of(parts):
    """Sum of weighted independent estimates with its interval; degrees of freedom of Welch and Satterthwaite."""
    mean = sum(weight * one.mean for weight, one in parts)
    variances = [(weight**2 * one.variance, one.n - 1) for weight, one in parts]
    total = sum(variance for variance, _ in variances)
    if not math.isfinite(total) or total == 0:
        return mean, -math.inf, math.inf
    df = total**2 / sum(variance**2 / freedom for variance, freedom in variances)
    half = stats.t.ppf((1 + LEVEL) / 2, df) * math.sqrt(total)
    return mean, mean - half, mean + half


class OfProcessor:
    """The seconds of one processor's load: (end, logarithm of its transactions, the same without the machine's part)."""

    def __init__(self, tps, speed, cpu, blocks):
        ends = numpy.array([end for end, value in tps if value > 0])
        load = numpy.log([value for _, value in tps if value > 0])
        speeds = numpy.hstack([speed.by_second(one, ends) for one in sorted(speed.places, key=lambda one: one != cpu)])
        known = ~numpy.isnan(speeds).any(axis=1)
        self.ends, self.load, self.speeds = ends[known], load[known], speeds[known]
        within, within_speeds = [], []
        for block in blocks:
            inside = self.inside(*block)
            if inside.any():
                within.append(self.load[inside] - self.load[inside].mean())
                within_speeds.append(self.speeds[inside] - self.speeds[inside].mean(axis=0))
        within, within_speeds = numpy.concatenate(within), numpy.concatenate(within_speeds)
        self.slopes = numpy.linalg.lstsq(within_speeds, within, rcond=None)[0]
        self.explained = 1 - (within - within_speeds @ self.slopes).var() / within.var()
        self.adjusted = self.load - self.speeds @ self.slopes

    def inside(self, begin, end):
        """Which seconds lie in this time."""
        return (self.ends - 1 >= begin) & (self.ends <= end)

    def mean(self, values, *spans):
        return values[numpy.any([self.inside(*span) for span in spans], axis=0)].mean()


def slowdown(tps, speed, pairs, windows, flanks_s, every_s):
    """What the agent takes. `tps`: {processor: [(end of a second, transactions in it)]}; `pairs`: [(span without, span with)] of blocks
    without the time in which the load settles; `windows`: [(begin, end)] of those that were recorded; `flanks_s`: seconds beside a window
    that it is compared with; `every_s`: from window to window.

    Intervals (mean, ends): `flight` and `total` as ratios of speeds without and with it, `window_s` as seconds of both processors' work
    that a window takes, `measured` as the flight recorder's before the machine's speed was taken out. And all that it comes from."""
    each = {cpu: OfProcessor(of_cpu, speed, cpu, [span for pair in pairs for span in pair]) for cpu, of_cpu in tps.items()}

    def contrasts(name):
        of_pair = [[one.mean(getattr(one, name), without) - one.mean(getattr(one, name), with_it) for one in each.values()] for without, with_it in pairs]
        return [float(numpy.mean(one)) for one in of_pair]

    def lost_s(begin, end):
        span = (begin - BEFORE_S, end + AFTER_S)
        beside = [(span[0] - flanks_s, span[0]), (span[1], span[1] + flanks_s)]
        return float(numpy.mean([one.mean(one.adjusted, *beside) - one.mean(one.adjusted, span) for one in each.values()])) * (span[1] - span[0])

    flight, window = Estimate(contrasts("adjusted")), Estimate([lost_s(*one) for one in windows])
    as_ratio = lambda ends: tuple(math.exp(value) for value in ends)
    return {
        "flight": as_ratio(flight.interval()),
        "measured": as_ratio(Estimate(contrasts("load")).interval()),
        "window_s": window.interval(),
        "total": as_ratio(sum_of([(1, flight), (1 / every_s, window)])),
        "explained": float(numpy.mean([one.explained for one in each.values()])),
        "tps": {cpu: float(numpy.exp(one.load.mean())) for cpu, one in each.items()},
        "slopes": {cpu: list(one.slopes) for cpu, one in each.items()},
        "seconds": {cpu: [{"end": end, "log_tps": load, "log_speeds": list(row)} for end, load, row in zip(one.ends, one.load, one.speeds)] for cpu, one in each.items()},
    }
