"""How much slower a load is with the agent than without it, on a machine whose own speed varies.

A neighbour on the same core takes a fifth of this machine's speed and gives it back, for seconds and for minutes: the transactions of two
blocks of a minute, with nothing between them, differ by ten per cent. tests/agent/speed.c measures that speed meanwhile, by arithmetic and
by system calls, in its own CPU time, which the agent does not touch; analysis of covariance takes the speed's part out. How much a second's
transactions follow its speed is estimated within blocks alone, so that nothing of the agent can go into it.
"""

import math
import os
import pathlib
import statistics
import subprocess

import numpy
from scipy import stats


class Speed:
    """Processes that measure the speed of each processor."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        program = self.folder / "speed"
        subprocess.run(["gcc", "-O1", "-o", program, pathlib.Path(__file__).with_name("speed.c")], check=True)
        self.places, self.running = [], []
        for cpu in sorted(os.sched_getaffinity(0)):
            self.places.append(self.folder / f"speed-{cpu}")
            with self.places[-1].open("w") as out:
                self.running.append(subprocess.Popen([program, str(cpu)], stdout=out))

    def stop(self):
        for one in self.running:
            one.kill()
            one.wait()

    def by_second(self, ends):
        """For each second that ends at one of `ends`: logarithm of the median time of each piece of work on each processor."""
        columns = []
        for place in self.places:
            lines = [line.split() for line in place.read_text().splitlines()]
            looks = numpy.array([[float(word) for word in line] for line in lines if len(line) == 3])
            for work in (1, 2):
                column = []
                for end in ends:
                    inside = looks[(looks[:, 0] > end - 1) & (looks[:, 0] <= end), work]
                    column.append(math.log(statistics.median(inside)) if len(inside) else math.nan)
                columns.append(column)
        return numpy.array(columns).T


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


def slowdown(tps, speed, begins, order, every, settle):
    """`tps` as (end of the second, transactions in it). Ratio and interval, adjusted and as measured; of these, what the machine's own
    speed made; the part of the variance within blocks that it explains; transactions a second of each block; and all that it comes
    from, second by second, to be looked at in other ways."""
    ends = [end for end, value in tps if value > 0]
    load = numpy.log([value for _, value in tps if value > 0])
    speeds = speed.by_second(ends)
    blocks = numpy.array([int((end - 0.5 - begins) // every) for end in ends])
    into = numpy.array([end - 1 - begins - block * every for end, block in zip(ends, blocks)])
    used = (blocks >= 0) & (blocks < len(order)) & (into >= settle) & (into <= every - 1) & ~numpy.isnan(speeds).any(axis=1)
    load, speeds, blocks = load[used], speeds[used], blocks[used]
    of_block = [blocks == number for number in range(len(order))]
    load_means = numpy.array([load[inside].mean() for inside in of_block])
    speed_means = numpy.array([speeds[inside].mean(axis=0) for inside in of_block])
    within, within_speeds = load - load_means[blocks], speeds - speed_means[blocks]
    slopes = numpy.linalg.lstsq(within_speeds, within, rcond=None)[0]
    rest = within - within_speeds @ slopes
    adjusted = load_means - speed_means @ slopes
    return {
        "adjusted": interval(in_pairs(adjusted, order)),
        "measured": interval(in_pairs(load_means, order)),
        "machine": interval(in_pairs(speed_means @ slopes, order)),
        "explained": 1 - rest.var() / within.var(),
        "tps": [math.exp(mean) for mean in load_means],
        "seconds": [{"end": end, "log_tps": one, "log_speeds": list(row)} for end, one, row in zip(numpy.array(ends)[used], load, speeds)],
    }
