"""`fsync=` and `fdatasync=` count over passes: a header that is written again and again is flushed each time."""

TRUTH = "strace counts the same writes and flushes, in the same order, for fio 3.33 and for pagelab"

JOB = "--name=sb --filename=sb --rw=write --bs=4k --ioengine=psync --output-format=json"


def calls(w, name, *program):
    log = w.work / f"{name}.strace"
    place = w.work / name
    place.mkdir(exist_ok=True)
    w.run("strace", "-f", "-qq", "-e", "trace=fsync,fdatasync,pwrite64", "-o", log, *program, cwd=place)
    kinds = {"fdatasync(": "d", "fsync(": "f", "pwrite64(": "w"}
    lines = log.read_text().splitlines()
    return "".join(next((kind for call, kind in kinds.items() if call in line), "") for line in lines)


def run(w):
    w.needs("fio", "strace")
    for more in (
        "--size=4k --loops=50 --fdatasync=1",
        "--size=8k --loops=5 --fsync=1",
        "--size=16k --io_size=40k --fsync=1",
        "--size=16k --loops=3 --fsync=3",
    ):
        words = (JOB + " " + more).split()
        theirs, ours = calls(w, "fio", "fio", *words), calls(w, "pagelab", w.binary, "run", "-q", *words)
        w.expect(ours == theirs, f"{more}: pagelab does {ours}, fio {theirs}")
