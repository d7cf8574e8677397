"""A deleted program that is attached to, and ends soon after, has its names: in each of 20 tries beside two busy loops."""

import os
import subprocess
import time

TRUTH = "alpha 75 %, beta 25 %: three steps to one in the source"

TRIES = int(os.environ.get("PAGELAB_TRIES", "20"))


def attached(w, program, number):
    """Shares of the functions; none if the program had ended before a share could be told: fewer than 20 samples."""
    copy = w.work / f"work-{number}"
    w.run("cp", program, copy)
    with subprocess.Popen([copy, "collapsed", "2.2"]) as running:
        time.sleep(0.3)
        copy.unlink()
        recording = w.record(name=f"try-{number}", options=["-p", running.pid, "--duration", "9"])
    if recording.status != 0 or len(recording.sql("select 1 from samples limit 20")) < 20:
        return None
    return recording.leaves()


def run(w):
    program = w.compile("17-work", "-fomit-frame-pointer", source="09-moved-code.c")
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2)]
    try:
        done = 0
        for number in range(3 * TRIES):
            leaves = attached(w, program, number)
            if leaves is None:
                continue
            alpha, beta, total = leaves.get("alpha", 0), leaves.get("beta", 0), sum(leaves.values())
            w.expect(total and alpha > 45 and beta > 5 and alpha + beta > 85, f"try {number}: {leaves}")
            done += 1
            if done == TRIES:
                return
        w.expect(False, f"{done} tries recorded 20 samples, needed {TRIES}: the host is too busy")
    finally:
        for loop in busy:
            loop.kill()
            loop.wait()
