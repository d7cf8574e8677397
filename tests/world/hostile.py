#!/usr/bin/env python3
"""Root of a container, with programs that are made to hold up or lead astray whoever profiles the host.

    tests/world/hostile.py PAGELAB [--tries N] [--agent]     root

The programs run as uid 0 without a capability, in mount and pid namespaces of their own, from a file system of their own. Beside them

    1. `record -a --duration 2` ends at most 3 s later than beside as many programs that do the same work and are made for nothing,
       in each of N tries, its recording complete;
    2. nobody opens the bait, files of the host that the programs name as those with their debug information, and pagelab opens no file
       of the host (fanotify) that it does not open beside programs that are made for nothing;
    3. SIGTERM ends the recorder as soon as without them, and at most 3 s later; a second SIGTERM one that is closing, within 3 s;
    4. with --agent: no window of the agent is lost.
"""

import argparse
import ctypes
import ctypes.util
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

LATE_S = 3.0

# Runs for the seconds in its first argument; the work is done by code under the unwind information that is written there.
FRAME = r"""
#include <stdlib.h>
#include <time.h>
static long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec; }
__attribute__((noinline)) void spin(volatile long *end)
{
	__asm__ volatile(RULES);
	for (;;) {
		for (volatile int i = 0; i < 100000; i++)
			;
		if (now() > *end)
			return;
	}
}
int main(int argc, char **argv) { volatile long end = now() + atoi(argv[1]); spin(&end); return 0; }
"""

# DW_CFA_def_cfa_expression, DW_CFA_expression and DW_CFA_val_expression of DW_OP_skip -3; a loop that counts; many remembered rows.
RULES = {
    "cfa-loop": r".cfi_escape 0x0f,3,0x2f,0xfd,0xff",
    "cfa-branch": r".cfi_escape 0x0f,5,0x30,0x31,0x28,0xfb,0xff",
    "register-loop": r".cfi_escape 0x10,6,3,0x2f,0xfd,0xff\n.cfi_escape 0x10,16,3,0x2f,0xfd,0xff",
    "value-loop": r".cfi_escape 0x16,16,3,0x2f,0xfd,0xff\n.cfi_escape 0x16,7,3,0x2f,0xfd,0xff",
    "long-entry": r".rept 2000000\n.cfi_remember_state\n.cfi_restore_state\n.endr",
    "many-registers": r".set i, 0\n.rept 60\n.cfi_undefined i\n.set i, i+1\n.endr\n.rept 100000\n.cfi_remember_state\n.cfi_restore_state\n.endr",
    "same-frame": r".cfi_escape 0x0f,2,0x77,0\n.cfi_escape 0x16,16,2,0x80,0",
}

# A million functions without a table of them: to find one, all are sorted.
CROWD = r"""
.text
.rept 400000
.cfi_startproc
nop
.cfi_endproc
.endr
"""


class Bait:
    """Files of the host of which every opening is noticed."""

    OPEN = 0x20

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        os.mkfifo(folder / "fifo")
        (folder / "plain").write_text("x")
        libc = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)
        self.descriptor = libc.inotify_init1(os.O_NONBLOCK)
        if libc.inotify_add_watch(self.descriptor, os.fsencode(folder), self.OPEN) < 0:
            sys.exit(f"hostile.py: inotify_add_watch: {os.strerror(ctypes.get_errno())}")

    def opened(self):
        """Names that were opened since the last time."""
        try:
            events = os.read(self.descriptor, 1 << 16)
        except BlockingIOError:
            return []
        names = re.findall(rb"(fifo|plain)", events)
        return [name.decode() for name in names]


class Opens(threading.Thread):
    """Files on the file system of a folder that processes of one program open, recordings in it left out, as fanotify has them. It tells
    nothing of FIFOs."""

    UNLIMITED_QUEUE, CLOSE_ON_EXEC, ADD, FILE_SYSTEM, OPEN = 0x10, 0x1, 0x1, 0x100, 0x20
    # fanotify_event_metadata: length, version, reserved, length of this, mask, descriptor, process.
    EVENT = struct.Struct("=IBBHQii")

    def __init__(self, program, work):
        super().__init__(daemon=True)
        self.program, self.work, self.paths, self.is_of_program = program, work, set(), {}
        libc = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)
        libc.fanotify_mark.argtypes = [ctypes.c_int, ctypes.c_uint, ctypes.c_uint64, ctypes.c_int, ctypes.c_char_p]
        self.descriptor = libc.fanotify_init(self.UNLIMITED_QUEUE | self.CLOSE_ON_EXEC, os.O_RDONLY | os.O_CLOEXEC)
        if self.descriptor < 0 or libc.fanotify_mark(self.descriptor, self.ADD | self.FILE_SYSTEM, self.OPEN, -100, os.fsencode(work)) < 0:
            sys.exit(f"hostile.py: fanotify: {os.strerror(ctypes.get_errno())}")
        self.start()

    def run(self):
        while True:
            events = os.read(self.descriptor, 1 << 16)
            while events:
                length, _, _, _, _, descriptor, process = self.EVENT.unpack_from(events)
                events = events[length:]
                if descriptor >= 0:
                    self.note(os.readlink(f"/proc/self/fd/{descriptor}"), process)
                    os.close(descriptor)

    def note(self, path, process):
        if process not in self.is_of_program:
            try:
                self.is_of_program[process] = os.readlink(f"/proc/{process}/exe") == str(self.program)
            except OSError:
                return
        if self.is_of_program[process] and not re.match(rf"{re.escape(str(self.work))}/[^/]*\.rec", path):
            self.paths.add(path)

    def taken(self):
        """What was opened since the last time."""
        time.sleep(0.5)
        taken, self.paths, self.is_of_program = self.paths, set(), {}
        return taken


def build(work, bait):
    """The programs, by name."""
    programs = {}
    for name, rules in RULES.items():
        source = work / f"{name}.c"
        source.write_text(f'#define RULES "{rules}"\n{FRAME}')
        subprocess.run(["gcc", "-O1", "-o", work / name, source], check=True)
        programs[name] = work / name
    (work / "crowd.s").write_text(CROWD)
    plain = work / "plain.c"
    plain.write_text(f'#define RULES ""\n{FRAME}')
    subprocess.run(["gcc", "-O1", "-g", "-Wl,--no-eh-frame-hdr", "-o", work / "crowd", plain, work / "crowd.s"], check=True)
    programs["crowd"] = work / "crowd"
    subprocess.run(["gcc", "-O1", "-g", "-o", work / "linked", plain], check=True)
    for name, target in {"fifo": bait.folder / "fifo", "plain": bait.folder / "plain", "up": f"../../../../../../..{bait.folder}/fifo"}.items():
        for section in [".gnu_debugaltlink", ".gnu_debuglink"]:
            link = work / "link"
            link.write_bytes(os.fsencode(target) + b"\0" + b"a" * 20)
            program = work / f"link{section}-{name}"
            subprocess.run(["objcopy", "--add-section", f"{section}={link}", work / "linked", program], check=True)
            programs[program.name] = program
    # A table of symbols of a GiB that is a hole in the file.
    holes = work / "holes"
    subprocess.run(["gcc", "-O1", "-Wl,--strip-all", "-o", holes, plain], check=True)
    os.truncate(holes, 1 << 30)
    programs["holes"] = holes
    return programs


class Container:
    """The programs, running for some seconds as root of a container."""

    def __init__(self, work, programs, seconds):
        names = " ".join(f"/mnt/{program.name} {seconds} &" for program in programs)
        copies = " ".join(str(program) for program in programs)
        # What is the host's is out of sight: an opening of it is one outside of the container's root.
        hidden = work / "bait"
        script = f"mount -t tmpfs none {hidden} && mount -t tmpfs none /mnt && cp --sparse=always {copies} /mnt/ && exec setpriv --bounding-set=-all --inh-caps=-all --no-new-privs sh -c '{names} wait'"
        self.process = subprocess.Popen(["unshare", "-m", "-p", "-f", "--mount-proc", "bash", "-c", script], cwd=work)
        time.sleep(1.5)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # The first process of a pid namespace takes all others along.
        for child in pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split():
            os.kill(int(child), signal.SIGKILL)
        self.process.wait()


def copies(work, program, count):
    """As many files of a program."""
    made = [work / f"{program.name}-{number}" for number in range(count)]
    for copy in made:
        shutil.copy(program, copy)
    return made


def record(pagelab, folder, *options):
    shutil.rmtree(folder, ignore_errors=True)
    words = [pagelab, "record", "-q", "-a", "-o", folder, "--observe", "cpu,tasks", *options]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def seconds_of(pagelab, folder):
    begun = time.monotonic()
    running = record(pagelab, folder, "--duration", "2")
    try:
        status = running.wait(timeout=60)
    except subprocess.TimeoutExpired:
        running.kill()
        return 60.0, None
    return time.monotonic() - begun, status


def is_complete(folder):
    return json.loads((folder / "manifest.json").read_text())["complete"]


def ended_by_signals(pagelab, folder, signals):
    """Seconds from the last of some signals to the end."""
    running = record(pagelab, folder)
    time.sleep(4)
    for number in range(signals):
        time.sleep(0.5 if number else 0)
        running.send_signal(signal.SIGTERM)
    begun = time.monotonic()
    try:
        running.wait(timeout=60)
    except subprocess.TimeoutExpired:
        running.kill()
    return time.monotonic() - begun


def agents_windows(pagelab, work):
    """What the agent says of its windows after half a minute."""
    port = 9465
    words = [pagelab, "agent", "-o", work / "agent", "--on", "1", "--every", "5", "--listen", f"127.0.0.1:{port}"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as agent:
        time.sleep(32)
        text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20).read().decode()
        agent.terminate()
        begun = time.monotonic()
        agent.wait(timeout=60)
    return [line for line in text.splitlines() if "recordings" in line and not line.startswith("#")], time.monotonic() - begun


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pagelab", type=pathlib.Path)
    parser.add_argument("--tries", type=int, default=5)
    parser.add_argument("--agent", action="store_true")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("hostile.py: found an ordinary user, needed root; type: sudo tests/world/hostile.py ...")
    pagelab = arguments.pagelab.resolve()
    work = pathlib.Path(tempfile.mkdtemp(prefix="world-hostile-", dir="/var/tmp"))
    wrong = []
    try:
        bait = Bait(work / "bait")
        programs = build(work, bait)
        plain = work / "linked"
        opens = Opens(pagelab, work)
        groups = [[program] for program in programs.values()] + [list(programs.values())]
        without = {}
        for count in sorted({len(group) for group in groups}):
            with Container(work, copies(work, plain, count), 600):
                without[count] = max(seconds_of(pagelab, work / "without.rec")[0] for _ in range(3))
                closing = ended_by_signals(pagelab, work / "signal.rec", 1)
            print(f"beside {count} like them: {without[count]:.1f} s; ended by SIGTERM: {closing:.1f} s")
        opened_without = opens.taken()
        for group in groups:
            name = group[0].name if len(group) == 1 else "all of them"
            needed = without[len(group)] + LATE_S
            with Container(work, group, 600):
                for number in range(arguments.tries if len(group) > 1 else 1):
                    took, status = seconds_of(pagelab, work / "beside.rec")
                    print(f"beside {name}: {took:.1f} s, status {status}", flush=True)
                    if took > needed or status != 0 or not is_complete(work / "beside.rec"):
                        wrong.append(f"beside {name}, try {number}: {took:.1f} s, status {status}; needed {needed:.1f} s, 0, complete")
        opened = bait.opened()
        if opened:
            wrong.append(f"the bait was opened: {opened}")
        outside = opens.taken() - opened_without
        print(f"files of the host that pagelab opened: {len(opened_without)} beside programs that are made for nothing, {len(outside)} others beside these")
        if outside or not opened_without:
            wrong.append(f"opened outside of the container's root: {sorted(outside)}; needed: none, and some beside plain programs")
        with Container(work, list(programs.values()), 600):
            for signals in [1, 2]:
                took = ended_by_signals(pagelab, work / "signal.rec", signals)
                print(f"{signals} times SIGTERM: {took:.1f} s")
                needed = LATE_S + (closing if signals == 1 else 0)
                if took > needed:
                    wrong.append(f"{signals} times SIGTERM: {took:.1f} s; needed {needed:.1f} s")
            if arguments.agent:
                windows, took = agents_windows(pagelab, work)
                print(f"the agent ended in {took:.1f} s; {windows}")
                made = sum(float(line.split()[-1]) for line in windows if "complete" in line)
                lost = sum(float(line.split()[-1]) for line in windows if re.search("cut|failed|lost", line))
                if lost or made < 4:
                    wrong.append(f"windows of the agent: {windows}")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    for one in wrong:
        print(f"WRONG: {one}")
    print(f"hostile: {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
