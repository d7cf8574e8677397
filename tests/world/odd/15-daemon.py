"""A command that daemonises: its first process ends at once, its grandchild does the work."""

import time

TRUTH = "strace -f stays until the last child has ended; the daemon works for the time that it was told, on 5000 fresh pages"


def wait_for(path):
    until = time.monotonic() + 60
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.02)


def run(w):
    w.needs("strace")
    program = w.compile("15-daemon", "-pthread")
    witness = w.work / "witness"
    # What is left behind is said, with its name and what to type; the status is the command's.
    recording = w.record(program, "double", "1", witness, name="left", status=7)
    w.expect("1 task of the tree goes on: " in recording.stderr and "(pid " in recording.stderr, f"not said: {recording.stderr!r}")
    w.expect("--follow" in recording.stderr and "record -p " in recording.stderr, recording.stderr)
    w.expect("goes on: " in recording.text("summary"), "the summary does not say it")
    wait_for(witness)
    for how, tasks in [("fork", 2), ("double", 3), ("threads", 6), ("namespace", 3)]:
        witness.unlink(missing_ok=True)
        begun = time.monotonic()
        w.run("strace", "-f", "-o", "/dev/null", program, how, "0.7", witness, status=7)
        truth = time.monotonic() - begun
        witness.unlink(missing_ok=True)
        recording = w.record(program, how, "0.7", witness, name=how, options=["--follow"], status=7)
        w.expect(witness.exists(), f"{how}: recording ended before the daemon did (strace -f: {truth:.2f} s)")
        faults = recording.sql("select count(*) n from faults")[0]["n"]
        w.expect(5000 <= faults < 5800, f"{how}: 5000 pages were touched, {faults} faults recorded")
        ends = recording.sql("select count(*) n from tasks where op = 'exit'")[0]["n"]
        w.expect(ends == tasks, f"{how}: {tasks} tasks ended, {ends} ends recorded")
        measured = recording.manifest["measured"]
        elapsed = (measured["end_ns"] - measured["start_ns"]) / 1e9
        w.expect(elapsed >= 0.7, f"{how}: measured {elapsed:.3f} s")
        w.expect("goes on" not in recording.text("summary"), f"{how}: nothing goes on")
