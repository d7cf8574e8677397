#!/usr/bin/env python3
"""Names of files in calls, beside the names that strace and the program itself find for the same calls.

    tests/world/names.py PAGELAB [--calls N] [--seeds A,B,...] [--keep]     root

names.c renames files and folders, exchanges, links and deletes them, mounts folders and an overlay, as drawn by a seed, and calls
lseek(fd, n) between. It runs once, recorded by pagelab and traced by strace, and notes what /proc/self/fd says before each call.
All three must agree for every call, the words " (deleted)" apart, which pagelab leaves out.

A second program renames a file without end while another thread calls: each name must be one of the two, never a mixture.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# Of so many calls on a file that is renamed all the time, one may have no name.
UNREADABLE = 10_000
HERE = pathlib.Path(__file__).resolve().parent
LINE = re.compile(r"\d+ +lseek\(\d+<(.*)>(?:\(deleted\))?, (\d+), SEEK_SET\)")
ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}
DELETED = " (deleted)"

STORM = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
static volatile int over;
#define ONE "one-folder-with-a-long-name-that-is-not-in-the-dentry/inner/file-under-its-first-name"
#define TWO "two/another-inner-folder/file-under-quite-another-name-which-is-long-as-well-and-goes-on"
static void *renames(void *none)
{
	while (!over) {
		rename(ONE, TWO);
		rename(TWO, ONE);
	}
	return 0;
}
int main(int argc, char **argv)
{
	pthread_t thread;
	if (chdir(argv[1]))
		return 2;
	mkdir("one-folder-with-a-long-name-that-is-not-in-the-dentry", 0755);
	mkdir("one-folder-with-a-long-name-that-is-not-in-the-dentry/inner", 0755);
	mkdir("two", 0755);
	mkdir("two/another-inner-folder", 0755);
	int fd = open(ONE, O_CREAT | O_RDWR, 0644);
	pthread_create(&thread, 0, renames, 0);
	long calls = atol(argv[2]);
	for (long n = 1; n <= calls; n++)
		lseek(fd, n, SEEK_SET);
	over = 1;
	pthread_join(thread, 0);
	return 0;
}
"""


def shown(name):
    return name.removesuffix(DELETED)


def unescaped(text):
    return re.sub(r"\\(?:([0-7]{1,3})|(.))", lambda m: chr(int(m[1], 8)) if m[1] else ESCAPES.get(m[2], m[2]), text)


def compiled(work, source):
    program = work / source.stem
    subprocess.run(["gcc", "-O2", "-w", "-pthread", "-o", program, source], check=True)
    return program


def truth_of(path):
    lines = (line.rstrip("\n").split(" ", 1) for line in path.open(errors="surrogateescape"))
    return {int(number): shown(name) for number, name in lines}


def strace_of(path):
    found = {}
    for line in path.open(errors="surrogateescape"):
        if match := LINE.match(line):
            found[int(match[2])] = shown(unescaped(match[1]))
    return found


def recorded(pagelab, recording):
    query = ("select s.args[2] n, f.path_text name from syscalls s left join files f using (file_id)"
             " where s.name = 'lseek' and s.args[3] = 0 and s.args[2] > 0"
             " and s.task_id in (select task_id from tasks where op = 'exec' and exe_text like '%/names')")
    rows = subprocess.run([pagelab, "query", "--format", "json", recording, query], check=True, capture_output=True, text=True).stdout
    names = {}
    for row in json.loads(rows):
        names.setdefault(int(row["n"]), row["name"])
    return names


def lost(pagelab, recording):
    query = "select coalesce(sum(lost), 0) n from loss where stream in ('syscalls', 'events', 'file_names')"
    out = subprocess.run([pagelab, "query", "--format", "json", recording, query], check=True, capture_output=True, text=True).stdout
    return int(json.loads(out)[0]["n"])


def differences(one, two, words):
    wrong = [n for n in sorted(set(one) | set(two)) if one.get(n) != two.get(n)]
    for n in wrong[:5]:
        print(f"    call {n}: {words[0]} {one.get(n)!r}, {words[1]} {two.get(n)!r}")
    return len(wrong)


def compared(pagelab, program, work, seed, calls):
    """How many calls there were, and of how many the names differ."""
    folder, recording = work / f"tree-{seed}", work / f"rec-{seed}"
    folder.mkdir()
    log, truth = work / f"strace-{seed}", work / f"truth-{seed}"
    command = ["strace", "-f", "--seccomp-bpf", "-y", "-e", "trace=lseek", "-e", "signal=none", "-o", log,
               program, folder, str(seed), str(calls), truth]
    subprocess.run([pagelab, "record", "-q", "-o", recording, "--observe", "tasks,syscalls:lseek", "--", *command], check=True)
    own, strace, ours = truth_of(truth), strace_of(log), recorded(pagelab, recording)
    if len(own) != calls or (gone := lost(pagelab, recording)):
        sys.exit(f"names.py: seed {seed}: found {len(own)} calls and {gone} lost, needed {calls} and 0")
    wrong = differences(strace, own, ("strace", "/proc/self/fd"))
    if wrong:
        sys.exit(f"names.py: seed {seed}: strace and the program differ in {wrong} calls: the truth is not known")
    wrong = differences(ours, strace, ("pagelab", "strace"))
    print(f"seed {seed}: {calls} calls, {len(set(own.values()))} names, {wrong} differ from strace -y", flush=True)
    return wrong


def storm(pagelab, work, calls):
    """Calls on a file that another thread renames all the time: names that are neither of its two, and calls and names that are missing
    beyond what the recording says was lost."""
    source = work / "storm.c"
    source.write_text(STORM)
    program, folder, recording = compiled(work, source), work / "storm-tree", work / "storm-rec"
    folder.mkdir()
    subprocess.run([pagelab, "record", "-q", "-o", recording, "--observe", "tasks,syscalls:lseek", "--", program, folder, str(calls)], check=True)
    names = re.findall(r'#define (?:ONE|TWO) "(.*)"', STORM)
    query = ("select f.path_text name, count(*) n from syscalls s left join files f using (file_id)"
             " where s.name = 'lseek' and s.args[3] = 0 and s.args[2] > 0 group by 1")
    rows = json.loads(subprocess.run([pagelab, "query", "--format", "json", recording, query], check=True, capture_output=True, text=True).stdout)
    counts = {row["name"]: int(row["n"]) for row in rows}
    right = sum(counts.get(f"{folder}/{name}", 0) for name in names)
    unnamed = counts.get(None, 0)
    wrong = sum(counts.values()) - right - unnamed
    for name in [name for name in counts if name and not any(name == f"{folder}/{one}" for one in names)][:5]:
        print(f"    storm: {name!r} is no name of the file")
    missing, gone = calls - sum(counts.values()), lost(pagelab, recording)
    print(f"storm: {calls} calls, {wrong} with a name that the file never had, {unnamed} without, {missing} missing; {gone} events lost", flush=True)
    # A few names are changed each time that they are read, and left out.
    return wrong + (missing < 0 or missing + unnamed > gone + calls // UNREADABLE)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pagelab", type=pathlib.Path)
    parser.add_argument("--calls", type=int, default=20_000, help="of each seed [default: 20000]")
    parser.add_argument("--seeds", default="1,2", help="what is drawn from [default: 1,2]")
    parser.add_argument("--keep", action="store_true", help="keep the scratch folder and print it")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("names.py: found an ordinary user, needed root; type: sudo tests/world/names.py ...")
    work = pathlib.Path(tempfile.mkdtemp(prefix="world-names-", dir="/var/tmp"))
    try:
        pagelab, program = arguments.pagelab.resolve(), compiled(work, HERE / "names.c")
        wrong = sum(compared(pagelab, program, work, int(seed), arguments.calls) for seed in arguments.seeds.split(","))
        wrong += storm(pagelab, work, arguments.calls)
    finally:
        if arguments.keep:
            print(work)
        else:
            shutil.rmtree(work, ignore_errors=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
