#!/usr/bin/env python3
"""Whether the agent stays as small as it is beside a database, and loses nothing: tests/agent/steady.py PAGELAB [MINUTES] [PLACE]   (root)

pgbench runs as in pgbench.py. One agent runs beside it for MINUTES (40; at least 34) as it is shipped, undisturbed, with a flight recorder
and windows: long enough for one flight recorder to take over from another, which they do every half hour. Memory of the agent and all its
recorders is looked at five times a second, since closing a window takes the most and takes seconds; disk every ten seconds.

Exit status 1 if something was promised that is not so.
"""

import os
import statistics
import subprocess
import sys
import threading
import time

from pgbench import KEEP_MIB, MEMORY_BYTES, WARM_UP_S, Cluster, Form, Watch, filled
from place import Agent, judge_beside_pgbench, manifest


def recorders(words):
    """Of these processes: windows and flight recorders; what a recorder has forked has its words."""
    folders = {word for line in words for word in line.split() if word.endswith(".rec")}
    flights = {one for one in folders if "/.agent/" in one}
    return len(folders - flights), len(flights)


def measure(program, minutes, place, folder):
    form = Form(60)
    words = [*form.kept, "--trigger", f"file:{folder.parent / 'keep'}"]
    filled(folder, form, program)
    cluster, watch = Cluster(place), Watch(folder, every_s=0.2)
    agent = Agent(program, folder, *words)
    try:
        seconds = WARM_UP_S + minutes * 60
        for cpu in sorted(os.sched_getaffinity(0)):
            threading.Thread(target=cluster.bench, args=(cpu, int(seconds), []), daemon=True).start()
        time.sleep(WARM_UP_S)
        watch.pid = agent.pid
        watch.start()
        time.sleep(minutes * 60)
        watch.ends = True
        metrics = agent.metrics()
        agent.stop()
    finally:
        agent.process.kill()
        cluster.close()
    return agent, watch, metrics


def judged(program, folder, agent, watch, metrics):
    windows = [path for path in agent.recordings() if path.parent.name != "2026-01-01"]
    cut = [path.name for path in windows if not manifest(path)["complete"]]
    checks = [subprocess.run([program, "check", str(path)], capture_output=True, timeout=120).returncode for path in windows if path.name not in cut]
    kinds = [recorders(words) for words in watch.words]
    alone = [anonymous for (_, anonymous, _), kind in zip(watch.memory, kinds) if kind == (0, 1)]
    third = len(alone) // 3
    # Of a recorder that runs alone: the seconds that it keeps are full after a minute.
    early, late = (statistics.median(part) / (1 << 20) for part in (alone[third // 4 : third], alone[-third:]))
    most_of = {kind: max(total for (total, _, _), seen in zip(watch.memory, kinds) if seen == kind) / (1 << 20) for kind in sorted(set(kinds))}
    by_kind = ", ".join(f"{windows_} windows and {flights} flight recorders: {most:.0f}" for (windows_, flights), most in most_of.items())
    two = sum(flights == 2 for _, flights in kinds)
    return [
        (f"memory at most {watch.most / (1 << 20):.1f} MiB in {len(kinds)} looks, PSS of all processes (MiB at most with {by_kind})", watch.most <= MEMORY_BYTES),
        (f"flat: the flight recorder alone had {early:.1f} MiB of anonymous memory in the first third, {late:.1f} MiB in the last", late <= early * 1.15 + 2),
        (f"one flight recorder took over from another ({two} looks at two), none beside a window", two > 0 and not any(flights == 2 and windows_ for windows_, flights in kinds)),
        (f"{len(windows)} windows, {len(cut)} cut by the end", len(windows) > 5 and len(cut) <= 1),
        (f"{len(checks)} recordings checked", not any(checks)),
        (f"disk at most {watch.most_disk / (1 << 20):.1f} of {KEEP_MIB} MiB, {metrics[('removed_recordings_total', 'size')]:.0f} removed", watch.most_disk <= KEEP_MIB << 20),
        (f"events lost: {metrics[('events_lost_total',)]:.0f}", metrics[("events_lost_total",)] == 0),
        (f"own CPU {metrics[('own_cpu_seconds_total',)]:.1f} s, BPF {metrics[('bpf_seconds_total',)]:.2f} s", True),
    ]


def run(program, minutes, place, folder):
    agent, watch, metrics = measure(program, minutes, place, folder)
    return judged(program, folder, agent, watch, metrics), agent.said()


if __name__ == "__main__":
    # Recorders take turns every 30 minutes.
    sys.exit(judge_beside_pgbench(__doc__, 40, 34, run))
