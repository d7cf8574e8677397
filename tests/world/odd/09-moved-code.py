"""Code that a program moves to memory without a file keeps its names and its unwind information."""

import subprocess

TRUTH = """alpha 75 %, beta 25 % of the time below work and main: three steps to one in the source, and the code at each address is the file's
(its bytes in /proc/PID/mem are compared with the file's)"""

WAYS = ["copied", "laid", "protected", "collapsed"]


def check(w, recording, how):
    leaves = recording.leaves()
    alpha, beta = leaves.get("alpha", 0), leaves.get("beta", 0)
    w.expect(alpha > 55 and beta > 10 and alpha + beta > 85, f"{how}: {leaves}")
    whole = sum(n for frames, n in recording.stacks() if frames[-3:-1] == ["main", "work"] or frames[-2:-1] == ["work"])
    total = sum(n for _, n in recording.stacks())
    w.expect(whole > 0.85 * total, f"{how}: {whole} of {total} stacks go through work")
    through_main = sum(n for frames, n in recording.stacks() if "main" in frames)
    w.expect(through_main > 0.9 * total, f"{how}: {through_main} of {total} stacks reach main")


def run(w):
    program = w.compile("09-moved-code", "-fomit-frame-pointer")
    for how in WAYS:
        check(w, w.record(program, how, "0.7", name=how), how)
        check(w, w.record(program, how, "0.7", name=f"{how}-maps", observe="cpu,maps,tasks"), f"{how}, with maps")
    for how in WAYS[:3]:
        # Attached to after the code was moved: only what is mapped now says where the code came from.
        with subprocess.Popen([program, how, "3", "say"], stdout=subprocess.PIPE) as running:
            running.stdout.readline()
            recording = w.record(name=f"{how}-attached", options=["-p", running.pid, "--duration", "1"])
            running.kill()
        check(w, recording, f"{how}, attached to")
