"""How much slower a load is with the agent than without it, on a machine whose own speed varies.

A neighbour on the same core takes a fifth of this machine's speed and gives it back, for seconds and for minutes: the transactions of two
blocks of a minute, with nothing between them, differ by ten per cent. tests/agent/speed.c measures that speed meanwhile on each processor,
by system calls, messages, SQL and loads of memory, in its own CPU time, which the agent does not touch; analysis of covariance takes the
speed's part out, of each processor by itself. A second's speed is the mean of work for time and not that of time for work, since a load's
transactions add up in the same way. How much they follow it is estimated within blocks alone, so that nothing of the agent can go into it.
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


def interval(ratios):
    """Mean of logarithms as a ratio, with its 95 % interval by Student's t."""
    mean = statistics.mean(ratios)
    half = stats.t.ppf(0.975, len(ratios) - 1) * statistics.stdev(ratios) / math.sqrt(len(ratios)) if len(ratios) > 1 else math.inf
    return tuple(math.exp(value) for value in (mean, mean - half, mean + half))


def in_pairs(means, order):
    """Without minus with, in each pair of neighbouring blocks."""
    pairs = []
    for first in range(0, len(order) - 1, 2):
        with_it, without = (first, first + 1) if order[first] else (first + 1, first)
        pairs.append(means[without] - means[with_it])
    return pairs


class OfProcessor:
    """The seconds of one processor's load that count, block by block."""

    def __init__(self, tps, speed, cpu, begins, order, every, settle):
        ends = numpy.array([end for end, value in tps if value > 0])
        load = numpy.log([value for _, value in tps if value > 0])
        speeds = speed.by_second(cpu, ends)
        blocks = numpy.array([int((end - 0.5 - begins) // every) for end in ends])
        into = ends - 1 - begins - blocks * every
        used = (blocks >= 0) & (blocks < len(order)) & (into >= settle) & (into <= every - 1) & ~numpy.isnan(speeds).any(axis=1)
        self.ends, self.load, self.speeds, blocks = ends[used], load[used], speeds[used], blocks[used]
        of_block = [blocks == number for number in range(len(order))]
        self.load_means = numpy.array([self.load[inside].mean() for inside in of_block])
        speed_means = numpy.array([self.speeds[inside].mean(axis=0) for inside in of_block])
        self.within = self.load - self.load_means[blocks]
        within_speeds = self.speeds - speed_means[blocks]
        self.slopes = numpy.linalg.lstsq(within_speeds, self.within, rcond=None)[0]
        self.rest = self.within - within_speeds @ self.slopes
        self.machine = speed_means @ self.slopes


def slowdown(tps, speed, begins, order, every, settle):
    """`tps` as {processor: [(end of the second, transactions in it)]}. Ratio and interval, adjusted and as measured; of these, what the
    machine's own speed made; the part of the variance within blocks that it explains; transactions a second of each block (geometric mean
    of a processor); and all that it comes from, second by second, to be looked at in other ways."""
    each = {cpu: OfProcessor(of_cpu, speed, cpu, begins, order, every, settle) for cpu, of_cpu in tps.items()}
    load = numpy.mean([one.load_means for one in each.values()], axis=0)
    machine = numpy.mean([one.machine for one in each.values()], axis=0)
    rest, within = (numpy.concatenate([getattr(one, name) for one in each.values()]) for name in ("rest", "within"))
    return {
        "adjusted": interval(in_pairs(load - machine, order)),
        "measured": interval(in_pairs(load, order)),
        "machine": interval(in_pairs(machine, order)),
        "explained": 1 - rest.var() / within.var(),
        "tps": [math.exp(mean) for mean in load],
        "slopes": {cpu: list(one.slopes) for cpu, one in each.items()},
        "seconds": {cpu: [{"end": end, "log_tps": one, "log_speeds": list(row)} for end, one, row in zip(of_cpu.ends, of_cpu.load, of_cpu.speeds)] for cpu, of_cpu in each.items()},
    }
