"""Exporters read terse lines of version 5, one every interval, and look for fio's signature."""

TRUTH = "fio 3.33 prints lines 5;fio-3.33;NAME;... with the same number of fields, one per interval and one at the end"
SHORT = False

JOB = "--name=latency --ioengine=null --rw=read --size=1g --time_based --lat_percentiles=1 --clat_percentiles=0 --group_reporting"


def run(w):
    w.needs("fio")
    for more in ("--terse-version=5", "--terse-version=4", "--terse-version=3", "--terse-version=5 --status-interval=1"):
        words = [*JOB.split(), "--output-format=terse", *more.split(), f"--runtime={2500 if 'status' in more else 200}ms"]
        lines = {}
        for name, program in {"fio": ["fio"], "pagelab": [w.binary, "run", "-q"]}.items():
            lines[name] = [line.split(";") for line in w.run(*program, *words).stdout.splitlines() if ";" in line]
        theirs, ours = lines["fio"], lines["pagelab"]
        w.expect(len(ours) == len(theirs), f"{more}: {len(ours)} lines, fio has {len(theirs)}")
        for our, their in zip(ours, theirs):
            w.expect(our[:5] == their[:5], f"{more}: begins {our[:5]}, fio's {their[:5]}")
            w.expect(len(our) == len(their), f"{more}: {len(our)} fields, fio has {len(their)}")
        reads = [int(line[5]) for line in ours]
        w.expect(reads == sorted(reads) and reads[0] > 0, f"{more}: KiB read so far {reads}")
