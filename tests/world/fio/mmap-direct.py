"""`direct=1` with a mapping: each operation is written back before the next, as fio does it."""

TRUTH = "strace counts one msync(2) for each operation of fio 3.33, of reads too; blocks below a page are refused"

JOB = "--name=m --filename=m --ioengine=mmap --size=1m --direct=1 --output-format=json"


def run(w):
    w.needs("fio", "strace")
    for more in ("--rw=randwrite --bs=4k", "--rw=read --bs=8k"):
        counted = {}
        for name, program in {"fio": ["fio"], "pagelab": [w.binary, "run", "-q"]}.items():
            log, place = w.work / f"{name}.strace", w.work / name
            place.mkdir(exist_ok=True)
            w.run("strace", "-f", "-qq", "-e", "trace=msync", "-o", log, *program, *JOB.split(), *more.split(), cwd=place)
            counted[name] = log.read_text().count("msync(")
        w.expect(counted["pagelab"] == counted["fio"] > 100, f"{more}: {counted}")
    w.run("fio", *JOB.split(), "--rw=write", "--bs=512", cwd=w.work / "fio", status=1)
    said = w.pagelab("run", *JOB.split(), "--rw=write", "--bs=512", cwd=w.work / "pagelab", status=2).stderr
    w.expect("multiples of 4096" in said, f"the refusal does not say what is needed: {said}")
