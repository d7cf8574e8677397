"""An observer may not hold the observed: reading `smaps` and its kin walks the page tables under the lock of the process's map."""

import json
import os
import subprocess
import time

TRUTH = """mapstall's own clock: a thread that maps and unmaps 64 KiB waits no longer beside `record -p` than alone; strace: the
recorder opens neither smaps nor smaps_rollup of a process with many pages, and PAGEMAP_SCAN takes small steps."""

# The whole measurement: PAGELAB_MAPSTALL="14336 500000 180" (MiB, pairs, seconds).
MIB, PAIRS, SECONDS = (int(word) for word in os.environ.get("PAGELAB_MAPSTALL", "512 12000 4").split())


def stall(w, program, *recorder, trace=None):
    """mapstall's figures, with a recorder beside it or without."""
    go = w.work / "go"
    go.unlink(missing_ok=True)
    strace = ["strace", "-f", "-qq", "-e", "trace=openat", "-o", trace] if trace else []
    child = subprocess.Popen([program, str(MIB), str(PAIRS), str(SECONDS), go], stdout=subprocess.PIPE, text=True)
    beside = None
    try:
        pid = child.stdout.readline().split()[1]
        if recorder:
            words = [str(word) for word in [*strace, *recorder, "-p", pid]]
            beside = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
            wait_for(recorder[recorder.index("-o") + 1] / "metrics", beside)
        go.touch()
        figures = json.loads(child.stdout.read())
        child.wait()
        if beside:
            said = beside.communicate(timeout=120)[1]
            w.expect(beside.returncode == 0, f"record -p: {beside.returncode} {said}")
        return figures
    finally:
        for process in filter(None, [child, beside]):
            process.kill()
            process.wait()


def wait_for(folder, recorder):
    """Until it records: the first part of a table is there."""
    for _ in range(1200):
        if folder.exists() or recorder.poll() is not None:
            return
        time.sleep(0.1)


def times(w, program):
    """Printed, and not asserted: on a busy machine the recorder may lose its processor while it holds the lock for a moment."""
    figures = {"alone": stall(w, program)}
    for name, observe in [("default", "default"), ("regions", "default,regions"), ("asked for", "default,metrics:smaps")]:
        figures[name] = stall(w, program, w.binary, "record", "-q", "--observe", observe, "-o", w.work / f"time-{observe}.rec")
    print(f"    {MIB} MiB of 4 KiB pages, {PAIRS} pairs of mmap and munmap:")
    for name, one in figures.items():
        print(f"    {name:9} longest pair that waited {one['longest_slept_us']:9.1f} us, over 1 ms {one['over_1ms']}; longest of all {one['longest_us']:.1f} us")


def opened_files(w, program):
    for name, observe, walks in [("small-steps", "metrics,regions,tasks", False), ("asked", "metrics:smaps,tasks", True)]:
        trace, path = w.work / f"{name}.strace", w.work / f"{name}.rec"
        stall(w, program, w.binary, "record", "-q", "--observe", observe, "-o", path, trace=trace)
        reads = [line for line in trace.read_text(errors="replace").splitlines() if '"smaps' in line or "/smaps" in line]
        reads = [line for line in reads if "/self/" not in line and "= -1" not in line]
        said = " ".join(json.loads((path / "manifest.json").read_text()).get("metric_sources_refused", []))
        if walks:
            # One opening tells whether it may be read; how many follow is a matter of how long the program takes.
            w.expect(len(reads) >= 2 and "smaps_rollup" not in said, f"{observe}: smaps_rollup is not read: {reads} {said}")
            found = json.loads(w.pagelab("show", path, "metrics", "target.smaps.rss", "--json").stdout)["metrics"]
            w.expect(found and found[0]["last"] >= MIB << 20, f"what was asked for is not known: {found}")
            continue
        # Opening walks nothing: that tells whether it may be read.
        w.expect(len(reads) <= 1, f"{observe}: {reads[:3]}")
        w.expect("smaps_rollup" in said and "metrics:smaps" in said, f"{observe}: nothing says that smaps_rollup was not read: {said}")
        text = w.pagelab("show", path, "metrics", "target.smaps").stdout
        w.expect("metrics:smaps" in text, f"show metrics target.smaps does not say why it is empty: {text}")
        found = json.loads(w.pagelab("show", path, "metrics", "target.status.vmrss", "--json").stdout)["metrics"]
        w.expect(found and found[0]["last"] >= MIB << 20, f"resident memory is not known: {found}")
        rows = json.loads(w.pagelab("query", "--format", "json", path,
                                    "select sum(bytes) as bytes from region_pages where page_size_bytes = 4096").stdout)
        w.expect(rows[0]["bytes"] >= MIB << 20, f"the small pages are not all found: {rows}")


def doctor(w, program):
    child = subprocess.Popen([program, str(MIB), "1", "0", w.work / "never"], stdout=subprocess.PIPE, text=True)
    try:
        pid = child.stdout.readline().split()[1]
        said = w.run(w.binary, "doctor", "--pid", pid, status=None).stderr
        w.expect("ns each" in said and "wait" in said, f"doctor does not say what it costs: {said}")
    finally:
        child.kill()
        child.wait()


def run(w):
    w.needs("strace")
    program = w.compile("mapstall")
    times(w, program)
    if "PAGELAB_MAPSTALL" in os.environ:
        return
    opened_files(w, program)
    doctor(w, program)
