"""`clocksource=gettimeofday`, in every second public job file."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from _both import same

TRUTH = "fio runs such a job; pagelab reads clock_gettime instead, and says so"


def run(w):
    words = ["--name=a", "--ioengine=null", "--size=1m", "--clocksource=gettimeofday"]
    same(w, "a", words)
    said = w.pagelab("run", "--parse-only", *words).stderr
    w.expect("clock_gettime(CLOCK_MONOTONIC) is read instead" in said, said)
