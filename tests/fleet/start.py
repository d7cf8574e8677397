#!/usr/bin/env python3
"""A store and a cluster to try things on: an S3 server, a scheduler of Ballista and two executors, on loopback, in the background.

    tests/fleet/start.py SERVER BALLISTA FOLDER       starts them; what runs already is told of  (make fleet)
    tests/fleet/start.py --stop FOLDER                ends them, and keeps what is in the store  (make fleet-stop)

SERVER is `s3s-fs`, BALLISTA the folder of `ballista-scheduler` and `ballista-executor`. FOLDER has the store, the logs, and `env`, which a
shell reads. No root is needed.
"""

import json
import os
import pathlib
import shutil
import signal
import sys
import time

from ballista import Cluster
from stores import environment, served

TEXT = """\
An S3 server at {store}, with the bucket s3://bench in {folder}/store.
A scheduler of Ballista at {cluster}, with two executors; logs in {folder}/cluster.

    . {folder}/env
    sudo -E target/release/pagelab record -o s3://bench/first -- ls -R /usr >/dev/null
    target/release/pagelab query --cluster $PAGELAB_CLUSTER s3://bench/first "SELECT count(*) FROM faults"

make fleet-stop ends them."""


def started_at(pid):
    """When a process was started, in ticks since boot; none if it is not there or has ended."""
    try:
        state, *fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return None if state == "Z" else int(fields[18])


def known(folder):
    """What was started here: its text, and its processes that still run."""
    try:
        state = json.loads((folder / "running.json").read_text())
    except FileNotFoundError:
        return None, []
    # By the time of its start, too: numbers are used again.
    return state, [pid for pid, started in state["processes"] if started_at(pid) == started]


def stop(folder):
    state, running = known(folder)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in running:
            os.kill(pid, number)
        end = time.monotonic() + 5
        while running and time.monotonic() < end:
            time.sleep(0.05)
            running = known(folder)[1]
    (folder / "running.json").unlink(missing_ok=True)
    return f"{len(state['processes']) if state else 0} programs of {folder} are ended; its store is kept"


def start(server, ballista, folder):
    state, running = known(folder)
    if state and len(running) == len(state["processes"]):
        return state["text"]
    if running:
        stop(folder)
    (folder / "store" / "bench").mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / "cluster", ignore_errors=True)
    store, port = served(server, folder / "store", start_new_session=True)
    keys = environment(port)
    cluster = Cluster(ballista, folder / "cluster", {**os.environ, **keys})
    lines = {**keys, "PAGELAB_CLUSTER": cluster.url}
    (folder / "env").write_text("".join(f"export {name}={value}\n" for name, value in lines.items()))
    text = TEXT.format(store=keys["AWS_ENDPOINT_URL"], cluster=cluster.url, folder=folder)
    processes = [store.pid, cluster.scheduler.pid, *(one.pid for one in cluster.executors)]
    (folder / "running.json").write_text(json.dumps({"text": text, "processes": [[pid, started_at(pid)] for pid in processes]}))
    return text


def main():
    match sys.argv[1:]:
        case ["--stop", folder]:
            print(stop(pathlib.Path(folder)))
        case [server, ballista, folder]:
            print(start(server, pathlib.Path(ballista), pathlib.Path(folder)))
        case _:
            raise SystemExit(__doc__)


main()
