"""A job whose random blocks may come more than once never starts over: the page cache is dropped at the start only."""

import json

TRUTH = "strace counts as many fadvise(DONTNEED) for fio as for pagelab; with the cache kept, both read the file from it"
SHORT = False

JOB = "--name=a --filename=data --size=8m --rw=randread --bs=4k --ioengine=psync"


def drops(w, name, *program):
    log = w.work / f"{name}.strace"
    w.run("strace", "-f", "-qq", "-e", "trace=fadvise64", "-o", log, *program)
    return sum("DONTNEED" in line for line in log.read_text().splitlines())


def run(w):
    w.needs("fio", "strace")
    w.pagelab("run", "-q", "--name=lay", "--filename=data", "--rw=write", "--bs=1m", "--size=8m", "--output-format=json")
    for more in (
        "--norandommap --io_size=64m",
        "--norandommap --loops=8",
        "--blockalign=512 --io_size=32m",
        "--random_distribution=zipf:1.2 --io_size=32m",
        "--norandommap --time_based --runtime=600ms --rate_iops=8000",
        "--io_size=32m",
    ):
        words = (JOB + " " + more).split()
        theirs = drops(w, "fio", "fio", *words, "--output-format=json")
        ours = drops(w, "pagelab", w.binary, "run", "-q", *words, "--output-format=json")
        w.expect(ours == theirs, f"{more}: pagelab drops the page cache {ours} times, fio {theirs} times")
    # What is read from the cache is read in microseconds: after the first passes no read waits for the disk.
    words = (JOB + " --norandommap --io_size=256m").split()
    read = json.loads(w.pagelab("run", "-q", *words, "--output-format=json").stdout)["jobs"][0]["read"]
    slow = read["clat_ns"]["percentile"]["90.000000"]
    w.expect(slow < 60_000, f"nine tenths of {read['total_ios']} reads take up to {slow} ns: they come from the disk")
