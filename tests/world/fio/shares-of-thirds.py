"""Shares that do not make 100 because they were rounded."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from _both import ran

TRUTH = "fio draws from the least share up, so that the rest is the last one's: the mean size of 20000 draws tells"


def run(w):
    w.needs("fio")
    for number, split in enumerate(("4k/33:8k/33:16k/33", "4k/60:8k/60", "4k/10:8k/10")):
        words = ["--name=a", "--ioengine=null", "--rw=randread", "--norandommap", "--size=400m", "--number_ios=20000", f"--bssplit={split}"]
        means = []
        for program in ("fio", "pagelab"):
            read = ran(w, program, words, w.work / f"{number}-{program}")[0]["read"]
            means.append(read["io_bytes"] / read["total_ios"])
        w.expect(abs(means[1] / means[0] - 1) < 0.03, f"{split}: mean sizes {means}")
        said = w.pagelab("run", "--parse-only", *words).stderr
        w.expect("% together" in said, f"nothing tells that the shares of {split} are not 100%: {said}")
