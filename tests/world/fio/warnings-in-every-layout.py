"""What a job asks for in vain is said on standard error, whichever layout is asked for and wherever it goes."""

TRUTH = "fio 3.33 warns on standard error of time_based without runtime; pagelab says besides that a synchronous engine has no iodepth"

JOB = "--name=a --ioengine=psync --rw=write --size=1m --iodepth=8 --time_based"


def run(w):
    w.needs("fio")
    (w.work / "fio").mkdir()
    theirs = w.run("fio", *JOB.split(), "--output-format=json", cwd=w.work / "fio").stderr
    w.expect("time_based" in theirs, f"fio says {theirs!r}")
    for layout in ("json", "json+", "terse", "normal", "json,normal", "json --output=report"):
        done = w.pagelab("run", *JOB.split(), *f"--output-format={layout}".split())
        warnings = [line for line in done.stderr.splitlines() if "warning" in line]
        w.expect(any("time_based" in line for line in warnings), f"{layout}: {done.stderr!r}")
        w.expect(any("iodepth=8" in line for line in warnings), f"{layout}: {done.stderr!r}")
        w.expect("warning" not in done.stdout and "note:" not in done.stdout, f"{layout}: warnings among the results")
