"""A program in a container that names files of the host as those with its debug information."""

import os
import re
import subprocess
import time

TRUTH = "nothing outside of the container's root is opened for it (strace), and a fifo is not waited for; its own symbols name spin_here"

SOURCE = """
#include <stdlib.h>
#include <time.h>
__attribute__((noinline)) int spin_here(int seconds)
{
    time_t end = time(0) + seconds;
    volatile int sink = 0;
    while (time(0) < end)
        for (int i = 0; i < 1000000; i++)
            sink++;
    return sink;
}
int main(int count, char **words) { return spin_here(atoi(words[count - 1])) & 1; }
"""


def run(w):
    w.needs("strace", "unshare", "setpriv")
    (w.work / "spin.c").write_text(SOURCE)
    program, fifo = w.work / "spin", w.work / "fifo-of-the-host"
    os.mkfifo(fifo)
    w.run("gcc", "-O1", "-g", "-o", program, "spin.c")
    (w.work / "alt").write_bytes(bytes(fifo) + b"\0" + b"a" * 20)
    (w.work / "link").write_bytes(bytes(fifo)[1:] + b"\0" * (4 - (len(bytes(fifo)) - 1) % 4) + b"\1\2\3\4")
    w.run("objcopy", "--add-section", ".gnu_debugaltlink=alt", program, "alternate")
    w.run("objcopy", "--strip-debug", "--add-section", ".gnu_debuglink=link", program, "linked")
    for name in ("alternate", "linked"):
        mount = f"mount -t tmpfs none /mnt && cp {w.work / name} /mnt/app && mkdir /mnt/.debug && mkfifo /mnt/.debug/app.debug"
        drop = "exec setpriv --bounding-set=-all --inh-caps=-all --no-new-privs /mnt/app 5"
        target = subprocess.Popen(["unshare", "-m", "-p", "-f", "--mount-proc", "bash", "-c", f"{mount} && {drop}"], stdin=subprocess.DEVNULL)
        try:
            time.sleep(0.5)
            trace, recording = w.work / f"{name}.trace", w.work / f"{name}.rec"
            words = ("record", "-q", "-a", "-o", recording, "--observe", "cpu", "--duration", 1)
            w.run("strace", "-f", "-qq", "-o", trace, "-e", "trace=open,openat,openat2", w.binary, *words, timeout=50)
        finally:
            target.wait()
        opened = [line for line in trace.read_text(errors="replace").splitlines() if fifo.name in line and not re.search(r"openat2\(\d+", line)]
        w.expect(not opened, f"{name}: found {opened[:3]}, needed none outside of the container's root")
        named = w.pagelab("show", recording, "profile", "--top", 0).stdout
        w.expect("spin_here" in named, f"{name}: found no spin_here in {named[:2000]}")
