"""A run without -o records nothing: it needs no place for it, and its last line says what would."""

import os

TRUTH = "strace: the run opens no file for writing but the job's own and what remembers them; fio needs no TMPDIR either"


def run(w):
    w.needs("strace")
    environment = {**os.environ, "TMPDIR": "/nonexistent", "PAGELAB_STATE_DIR": str(w.work / "state")}
    job = ["--name=a", "--rw=write", "--size=64k"]
    done = w.pagelab("run", *job, env=environment)
    last = done.stderr.strip().splitlines()[-1]
    w.expect("-o" in last and "recorded" in last, f"the last line is {last!r}")
    for layout in ("json", "terse"):
        done = w.pagelab("run", *job, f"--output-format={layout}", env=environment)
        w.expect("-o" not in done.stdout and not done.stderr, f"{layout}: {done.stderr!r}")
    log = w.work / "log.strace"
    w.run("strace", "-f", "-qq", "-e", "trace=openat,mkdir,mkdirat,fsync,fdatasync", "-o", log, w.binary, "run", *job, env=environment)
    writes = [line for line in log.read_text().splitlines() if ("O_CREAT" in line or "mkdir" in line or "sync(" in line)]
    strange = [line for line in writes if "a.0.0" not in line and "/state" not in line and "= -1" not in line]
    w.expect(not strange, f"it makes or flushes {strange}")
