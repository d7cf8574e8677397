"""SIGUSR1 reports and the job goes on; SIGINT and SIGTERM report, and the status is fio's for a run cut short."""

import json
import os
import signal
import subprocess
import time

TRUTH = "fio 3.33: USR1 a document and the job goes on to its end, status 0; INT and TERM a document, status 128"
SHORT = False

JOB = "--name=s --ioengine=null --rw=randwrite --bs=4k --size=4m --time_based --runtime=2 --numjobs=2 --rate_iops=500 --output-format=json"


def documents(text):
    parts = ("\n" + text).split("\n{\n")[1:]
    return [json.loads("{\n" + part[: part.index("\n}")] + "\n}") for part in parts]


def signalled(w, program, number):
    left = set(os.listdir("/tmp"))
    process = subprocess.Popen(
        [*map(str, program), *JOB.split()], cwd=w.work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    time.sleep(0.9)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=60)
    made = {name for name in set(os.listdir("/tmp")) - left if name.startswith(".tmp")}
    done = [document["jobs"][0]["write"]["total_ios"] for document in documents(stdout)]
    return process.returncode, done, stderr, made


def run(w):
    w.needs("fio")
    for number in (signal.SIGUSR1, signal.SIGINT, signal.SIGTERM):
        theirs, ours = signalled(w, ["fio"], number), signalled(w, [w.binary, "run", "-q"], number)
        w.expect(ours[0] == theirs[0], f"{number.name}: pagelab's status {ours[0]}, fio's {theirs[0]}: {ours[2]}")
        w.expect(len(ours[1]) == len(theirs[1]), f"{number.name}: pagelab printed {ours[1]}, fio {theirs[1]}")
        w.expect(not ours[3], f"{number.name}: left in /tmp: {ours[3]}")
        if number == signal.SIGUSR1:
            w.expect(0 < ours[1][0] < ours[1][1] and ours[1][1] > 900, f"operations of both documents: {ours[1]}")
