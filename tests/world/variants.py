#!/usr/bin/env python3
"""Job files drawn by seed, run by fio and by pagelab: operations, bytes, flushes and files are the same.

    tests/world/variants.py PAGELAB [--jobs 300] [--seed 1] [--only INDEX] [--keep]

A job file has one or two sections of options that decide what is done, never how fast, so that two runs of one program agree. fio
and pagelab each run it in a folder of its own under strace. Compared are, job by job, operations and bytes of each direction and
what the report calls flushes; the flushing calls on files of the folder by name, as strace saw them; and names and sizes of the files left.

What a job leaves to its random numbers (which direction, which block size, which file) is compared within a fifth, or four standard
deviations of as many throws of a coin: the programs draw different numbers. Where one throw decides much (random blocks of sizes
that differ, random zones, laws that reach beyond the file) each program runs five times, each time by other numbers, and the ranges of
figures must meet; ranges of five do not in one of 126 figures that chance makes, so ten more are run then, and ranges of fifteen must. Sizes of files that are drawn are not compared. The rest must be equal. A job that fio refuses, or that fails in fio
(an error, a signal that ends it, no end at all), is not compared; one that only one of the two runs is listed with the other's words, and is no
difference. What fio does otherwise than its manual says, and pagelab as it says, is listed as not followed.

The last line counts them; the status is 1 if a job differs. `--only INDEX --keep` runs one again and leaves its folders.
"""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import typing

FLUSHES = ("fsync", "fdatasync", "sync_file_range", "msync", "syncfs", "sync")
# Of figures that random numbers decide.
TOLERANCE = 0.2
TIMEOUT_S = 60
# The status of a program that did not end within it.
TIMEOUT = "timeout"

SIZES = ("64k", "256k", "1m", "1000k", "300000")
BLOCKS = ("512", "1k", "4k", "4096", "8k", "16k", "3k", "64k")
SYNCHRONOUS = ("sync", "psync", "vsync", "pvsync", "pvsync2")
ENGINES = (*SYNCHRONOUS, "psync", "psync", "libaio", "io_uring", "mmap", "posixaio")
DIRECTIONS = ("read", "write", "randread", "randwrite", "rw", "randrw")

# Option: (how often it is drawn, its values).
EXTRAS = {
    "nrfiles": (0.25, ("2", "3", "7")),
    "file_service_type": (0.1, ("random", "roundrobin", "sequential", "roundrobin:3")),
    "openfiles": (0.06, ("1", "2")),
    "numjobs": (0.15, ("2", "3")),
    "thread": (0.15, ("1",)),
    "loops": (0.15, ("2", "3")),
    "io_size": (0.12, ("128k", "50%", "2m", "96k")),
    "number_ios": (0.1, ("7", "64")),
    "offset": (0.1, ("16k", "25%", "64k")),
    "offset_increment": (0.05, ("32k",)),
    "fsync": (0.12, ("1", "8", "32")),
    "fdatasync": (0.1, ("1", "5")),
    "sync_file_range": (0.03, ("write:8", "wait_before,write:4")),
    "end_fsync": (0.12, ("1",)),
    "fsync_on_close": (0.12, ("1",)),
    "sync": (0.05, ("1", "dsync")),
    "create_fsync": (0.08, ("0", "1")),
    "create_on_open": (0.05, ("1",)),
    "create_serialize": (0.05, ("0",)),
    "fallocate": (0.1, ("none", "posix", "keep", "truncate")),
    "overwrite": (0.1, ("1",)),
    "unlink": (0.1, ("1",)),
    "unlink_each_loop": (0.05, ("1",)),
    "file_append": (0.06, ("1",)),
    "norandommap": (0.12, ("1",)),
    "random_generator": (0.1, ("lfsr", "tausworthe64")),
    "random_distribution": (0.08, ("zipf:1.1", "pareto:0.3", "normal:20", "zoned:60/10:30/20:10/70")),
    "percentage_random": (0.06, ("30", "100")),
    "iodepth": (0.2, ("4", "16")),
    "iodepth_batch": (0.05, ("2",)),
    "direct": (0.1, ("1",)),
    "verify": (0.15, ("crc32c", "md5", "pattern", "xxhash", "sha256")),
    "do_verify": (0.05, ("0", "1")),
    "verify_backlog": (0.04, ("8",)),
    "zero_buffers": (0.08, ("1",)),
    "refill_buffers": (0.08, ("1",)),
    "buffer_compress_percentage": (0.04, ("50",)),
    "pre_read": (0.05, ("1",)),
    "invalidate": (0.06, ("0", "1")),
    "rw_sequencer": (0.04, ("sequential", "identical")),
    "group_reporting": (0.05, ("1",)),
    "allow_file_create": (0.03, ("0", "1")),
    "create_only": (0.02, ("1",)),
    "lockfile": (0.03, ("none", "exclusive")),
    "size_is_filesize": (0.05, ("filesize",)),
    "write_hint": (0.03, ("short",)),
    "rate_iops": (0.03, ("20000",)),
    "thinktime": (0.03, ("10",)),
    "startdelay": (0.02, ("0",)),
    "exitall_on_error": (0.03, ("1",)),
    "continue_on_error": (0.04, ("none", "all")),
    "unique_filename": (0.04, ("0", "1")),
    "filename_format": (0.05, ("$jobname-$jobnum-$filenum", "f.$filenum")),
}


def section(rng):
    """Options of one job, in the order in which they are written."""
    engine = rng.choice(ENGINES)
    options = {"ioengine": engine, "rw": rng.choice(DIRECTIONS)}
    if rng.random() < 0.08 and not options["rw"].startswith("rand"):
        # Behind a random direction it says how long the first random place is gone on from.
        options["rw"] += rng.choice((":2", ":4k", ":8"))
    draw_blocks(rng, options)
    options["size"] = rng.choice(SIZES)
    for name, (share, values) in EXTRAS.items():
        if rng.random() < share:
            options[name] = rng.choice(values)
    if options.pop("size_is_filesize", None):
        options["filesize"] = rng.choice(("16k-128k", "64k"))
    if "nrfiles" not in options and rng.random() < 0.08:
        options["filename"] = rng.choice(("one:two", "one", "sub/one"))
    if options["rw"].startswith(("rw", "randrw")) and rng.random() < 0.3:
        options["rwmixread"] = rng.choice(("10", "30", "90"))
    if options.get("verify") == "pattern":
        options["verify_pattern"] = "0xdeadbeef"
    if rng.random() < 0.06:
        options.update({"zonesize": "32k", "zonerange": "64k", "zoneskip": "64k", "zonemode": "strided"})
    if options.get("direct"):
        options["bs"] = "4k"
        for name in ("bsrange", "bssplit", "bs_unaligned", "offset_increment"):
            options.pop(name, None)
    if not options["rw"].startswith(("write", "randwrite")):
        # A read of what chance has not written yet fails.
        options.pop("create_on_open", None)
    if engine in SYNCHRONOUS or engine == "mmap":
        options.pop("iodepth", None)
        options.pop("iodepth_batch", None)
    return options


def draw_blocks(rng, options):
    how = rng.random()
    if how < 0.72:
        options["bs"] = rng.choice(BLOCKS)
    elif how < 0.8:
        options["bs"] = rng.choice(("4k,8k", "8k,4k,16k", ",16k"))
    elif how < 0.9:
        options["bsrange"] = rng.choice(("1k-8k", "4k-16k", "512-4k"))
    else:
        options["bssplit"] = rng.choice(("4k/50:8k/50", "4k/10:16k/", "1k/30:4k/30:64k/40"))
    if rng.random() < 0.05:
        options["blockalign"] = "8k"
    if rng.random() < 0.03:
        options["bs_unaligned"] = "1"


def drawn(seed, index):
    """A job file: its text, and its sections."""
    rng = random.Random(f"{seed}/{index}")
    jobs = [section(rng) for _ in range(2 if rng.random() < 0.2 else 1)]
    lines = []
    for number, options in enumerate(jobs):
        lines.append(f"[job{number}]")
        if number and rng.random() < 0.7:
            lines.append("stonewall")
        lines += [f"{name}={value}" for name, value in options.items()]
    return "\n".join(lines) + "\n", jobs


class Ran:
    """What a program did with a job file in a folder."""

    def __init__(self, words, folder, text):
        folder.mkdir()
        (folder / "sub").mkdir()
        (folder / "job.fio").write_text(text)
        trace = folder.with_suffix(".strace")
        watch = ["strace", "-f", "-qq", "-y", "-e", "signal=none", "-e", f"trace={','.join(FLUSHES)}", "--seccomp-bpf", "-o", trace]
        words = [*map(str, watch), *words, "--output-format=json", "job.fio"]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(words, cwd=folder, text=True, errors="replace", start_new_session=True, **pipes) as program:
            try:
                printed, said = program.communicate(timeout=TIMEOUT_S)
            except subprocess.TimeoutExpired:
                # All of them: strace leaves what it traced running.
                kill_tree(program.pid)
                self.status, self.said, self.jobs, self.flushes, self.files = TIMEOUT, "", {}, {}, {}
                return
        self.status, self.said = program.returncode, said.strip()
        self.jobs = reported(printed)
        self.flushes = flushes(trace.read_text(errors="replace"), folder)
        skipped = {"job.fio"}
        files = (path for path in folder.rglob("*") if path.is_file() and path.name not in skipped and path.suffix != ".state")
        self.files = {str(path.relative_to(folder)): path.stat().st_size for path in files}


def kill_tree(pid):
    """Kills a process and its descendants; workers have sessions of their own."""
    # Who has ended meanwhile has neither.
    with contextlib.suppress(OSError):
        for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            kill_tree(int(child))
        os.kill(pid, signal.SIGKILL)


def reported(text):
    """By job and direction: operations and bytes; by job: flushes, the error."""
    if "{" not in text:
        return {}
    try:
        jobs = json.loads(text[text.index("{") :])["jobs"]
    except (ValueError, KeyError):
        return {}
    found = {}
    for number, job in enumerate(jobs):
        for key in ("read", "write", "trim"):
            found[number, key] = (job[key]["total_ios"], job[key]["io_bytes"])
        found[number, "sync"] = (job.get("sync", {}).get("total_ios", 0), 0)
        found[number, "error"] = (job["error"], 0)
    return found


def flushes(trace, folder):
    """Calls that flush files of the folder, by name, beginning and end of an interrupted one as one."""
    seen = collections.Counter()
    for line in trace.splitlines():
        call = re.search(r"\b(\w+)\((?:\d+<([^>]*)>|0x)?", line)
        if not call or "resumed>" in line:
            continue
        name, path = call.group(1), call.group(2)
        if path is None or path.startswith(str(folder)):
            seen[name] += 1
    return dict(seen)


def is_mixed(options):
    """Whether a job reads and writes."""
    return options["rw"].split(":")[0] in ("rw", "randrw")


def left_to_chance(options):
    """What random numbers decide in a job: directions, sizes, files."""
    mixed = is_mixed(options)
    sizes = any(name in options for name in ("bsrange", "bssplit")) or ("," in options.get("bs", "") and mixed)
    ranged = "-" in options.get("filesize", "")
    file_by_chance = options.get("file_service_type", "").startswith("random") and "nrfiles" in options
    overlaps = options["rw"].startswith("rand") and any(name in options for name in ("norandommap", "random_distribution", "blockalign"))
    return mixed or sizes or ranged or file_by_chance or overlaps or "percentage_random" in options


def decided_by_one_throw(options):
    """A draw without room ends the job, or the map cuts draws to what is left: it counts blocks of the least size, and a zone or a law
    reaches beyond the file, or a sequence that a random block began; where few blocks are written, the last of them ends the file.
    In a mixed job every read behind a write that makes a flush due is followed by one: few writes have many flushes, or none."""
    sizes = "," in options.get("bs", "") or "bsrange" in options or "bssplit" in options
    leaves_file = options.get("random_distribution", "").startswith(("normal", "zipf", "pareto"))
    # Further loops begin elsewhere, and reach as far.
    leaves_file |= "loops" in options and ("%" in options.get("offset", "") or "file_append" in options)
    jumps = options.get("percentage_random", "100") != "100"
    few = any(name in options for name in ("io_size", "number_ios"))
    if is_mixed(options) and any(name in options for name in FLUSHES):
        return True
    return options["rw"].startswith("rand") and (sizes or "zonemode" in options or leaves_file or jumps or few)


def not_followed(options, found):
    """What fio 3.33 does otherwise than its manual says, and pagelab as the manual or its own warning says; empty if nothing of that
    explains the differences `found`."""
    shared = "$jobnum" not in options.get("filename_format", "$jobnum")
    if shared and int(options.get("numjobs", 1)) > 1:
        return "of clones that share files by filename_format only the first does anything"
    if options.get("random_generator") == "lfsr" and options.get("random_distribution", "").startswith("zoned"):
        return "random_distribution=zoned has no effect beside lfsr, but that a block behind the file ends the job"
    if "zonemode" in options and int(options.get("nrfiles", 1)) > 1 and options.get("openfiles") != "1":
        return "zones of files that are open at once are those of whichever file is worked on"
    queued = options["ioengine"] in ("io_uring", "posixaio", "libaio") and int(options.get("iodepth", 1)) > 1
    if queued and any(name in options for name in FLUSHES) and all("sync" in words for words in found):
        return "flushes on the way go beside the writes, and how many depends on when those are done"
    mapped = not any(name in options for name in ("norandommap", "random_distribution")) and options.get("random_generator") != "lfsr"
    if "verify" in options and options.get("percentage_random", "100") != "100" and mapped:
        return "with a random map, blocks that were written again are read as often as they were written"
    if options["ioengine"] in ("io_uring", "libaio", "posixaio", "vsync") and is_mixed(options) and "unlink_each_loop" in options:
        return "a read behind the end of a file that a loop has made anew is done, without a byte and without an error"
    return ""


def not_followed_of_all(jobs):
    """The same of jobs that stand beside each other."""
    for one, other in zip(jobs, jobs[1:], strict=False):
        if "group_reporting" in other and "group_reporting" not in one:
            return "a job with group_reporting is reported with one before it that has none, and a job without name is reported"
    return ""


def amount(word):
    """Bytes that a word of a job file says; 0 for a percentage."""
    units = {"k": 1024, "m": 1 << 20}
    return 0 if word.endswith("%") else int(word.rstrip("km")) * units.get(word[-1], 1)


def largest_block(jobs):
    """Bytes of the largest operation of a job file."""
    words = [word for options in jobs for name in ("bs", "bsrange", "bssplit") for word in re.findall(r"\d+[km]?(?=[,/:-]|$)", options.get(name, "4k"))]
    return max(map(amount, words))


class Figure(typing.NamedTuple):
    """A figure of a run: `unit` of what one throw is worth, `by_chance` whether random numbers decide it."""

    value: int
    by_chance: bool
    unit: int = 1

    def is_near(self, other):
        """Equal, or within a fifth where chance decides; few throws may differ by more."""
        if self.value == other.value or not self.by_chance:
            return self.value == other.value
        most = max(self.value, other.value)
        return abs(self.value - other.value) <= most * max(TOLERANCE, 4 / max(most / self.unit, 1) ** 0.5)


def figures(run, jobs):
    """By name, what is compared of a run: operations and bytes, flushing calls, sizes of files left. A call that was not made is 0."""
    # Further loops repeat the throws of the first, also those that io_size makes.
    loops = max(max(int(options.get("loops", 1)), amount(options.get("io_size", "0")) // amount(options["size"])) for options in jobs)
    largest = largest_block(jobs)
    ranged = any("-" in options.get("filesize", "") for options in jobs)
    chance = any(map(left_to_chance, jobs))
    # How far a file reaches that random blocks are written to, but not all.
    reach = chance or any(options["rw"].startswith("rand") and ("io_size" in options or "number_ios" in options) for options in jobs)
    # glibc's threads queue flushes: two runs of fio differ by a tenth.
    threads_flush = any(options["ioengine"] == "posixaio" for options in jobs)
    # fio's io_uring flushes through the ring, where no call is seen; the report counts it.
    in_ring = any(options["ioengine"] == "io_uring" for options in jobs)
    found = {}
    for (job, side), (operations, moved) in run.jobs.items():
        if side == "error":
            found[f"job {job} error"] = Figure(operations, by_chance=False)
        elif not ranged:
            found[f"job {job} {side} operations"] = Figure(operations, chance, loops)
            found[f"job {job} {side} bytes"] = Figure(moved, chance, loops * largest)
    for name in FLUSHES if not (in_ring or ranged) else ():
        found[name] = Figure(run.flushes.get(name, 0), chance or threads_flush)
    for name, size in run.files.items():
        found[f"size of {name}"] = Figure(0 if ranged else size, reach, 4096)
    return found


def differences(fios, mines, jobs):
    """Sentences, one for each figure that is not the same: of one run each that are not near, of several whose ranges do not meet."""
    first_fio, first_mine = figures(fios[0], jobs), figures(mines[0], jobs)
    if sorted(first_fio) != sorted(first_mine):
        names = (sorted(set(first_fio) - set(first_mine)), sorted(set(first_mine) - set(first_fio)))
        return ["found {} by fio alone, {} by pagelab alone".format(*names)]
    if len(fios) == 1:
        apart = {name: one for name, one in first_fio.items() if not one.is_near(first_mine[name])}
        return [f"{name}: fio {one.value}, pagelab {first_mine[name].value}" for name, one in apart.items()]
    found = []
    for name in first_fio:
        one, other = (sorted(figures(run, jobs).get(name, Figure(0, False)).value for run in runs) for runs in (fios, mines))
        if max(one[0], other[0]) > min(one[-1], other[-1]):
            found.append(f"{name}: fio {one}, pagelab {other}")
    return found


def asked(binary, seed, index, keep):
    """The outcome of one job file, and what there is to say of it."""
    text, jobs = drawn(seed, index)
    work = pathlib.Path(tempfile.mkdtemp(prefix=f"variant-{seed}-{index}-", dir="/var/tmp"))
    by_one_throw = any(map(decided_by_one_throw, jobs))
    if by_one_throw:
        text = f"[global]\nrandrepeat=0\n{text}"

    def ran(numbers):
        fios = [Ran(["fio"], work / f"fio{number}", text) for number in numbers]
        return fios, [Ran([str(binary), "run", "-q"], work / f"pagelab{number}", text) for number in numbers]

    try:
        fios, mines = ran(range(5 if by_one_throw else 1))
        fio, mine = fios[0], mines[0]
        if fio.status == TIMEOUT or "got signal=" in fio.said or any(values[0] for key, values in fio.jobs.items() if key[1] == "error"):
            return "failed in fio", []
        if fio.status == 0 and mine.status == 0 or fio.jobs and mine.jobs:
            found = differences(fios, mines, jobs)
            if found and by_one_throw:
                more = ran(range(5, 15))
                found = differences(fios + more[0], mines + more[1], jobs)
            known = [not_followed_of_all(jobs), *(not_followed(options, found) for options in jobs)]
            if found and (known := next(filter(None, known), "")):
                return "not followed", [f"fio: {known}"]
            return ("differs", found) if found else ("alike", [])
        if fio.status != 0 and mine.status != 0:
            return "refused by both", []
        if fio.status == 0:
            return "refused here", [mine.said.splitlines()[0] if mine.said else f"status {mine.status}"]
        return "refused by fio", [f"status {fio.status}: {fio.said[:200]!r}"]
    finally:
        if keep:
            print(work)
        else:
            shutil.rmtree(work, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pagelab", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only", type=int)
    parser.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()
    for needed in ("fio", "strace"):
        if not shutil.which(needed):
            sys.exit(f"variants.py: found no {needed}; type: make setup-test")
    # A program that cannot be executed would look like one that refuses every job.
    subprocess.run([arguments.pagelab.resolve(), "--version"], check=True, stdout=subprocess.DEVNULL)
    outcomes = collections.Counter()
    indices = range(arguments.jobs) if arguments.only is None else [arguments.only]
    for index in indices:
        outcome, words = asked(arguments.pagelab.resolve(), arguments.seed, index, arguments.keep)
        outcomes[outcome] += 1
        if words or arguments.only is not None:
            print(f"{arguments.seed}/{index} {outcome}:", *words, sep="\n    ", flush=True)
    print(f"{len(indices)} jobs: " + ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items())))
    return 1 if outcomes["differs"] else 0


if __name__ == "__main__":
    sys.exit(main())
