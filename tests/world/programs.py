#!/usr/bin/env python3
"""Programs of many kinds: their page faults beside perf stat, their calls beside strace, and the function with the most samples beside perf.

    tests/world/programs.py PAGELAB [--samples N] [--list] [NAME...]     root

A kind is a language, a compiler, flags, and a way of stripping and linking. Each program spends three quarters of its time in `alpha`,
a quarter in `beta`; those in C also touch, copy and unmap pages, make calls that fail, a thread and a child before that. The truth is
perf's and strace's; where perf has no name (stripped programs with debug files elsewhere), it is the same program before it was
stripped. perf counts faults of the run that is recorded; calls are those of another run, without random addresses in both.
Kinds that need what is not installed are listed as missing and do not count.
"""

import argparse
import collections
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
LOOP = "for (unsigned long i = 0; i < rounds; i++) state = state * 6364136223846793005UL + (state >> 33);"

C = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
volatile unsigned long sink;
static void *other(void *unused) { for (int i = 0; i < 50; i++) getppid(); return unused; }
static void odds(void) {
    char *pages = mmap(0, 64 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(pages, 64 * 4096, MADV_NOHUGEPAGE);
    for (int i = 0; i < 48; i++) pages[i * 4096L] = 1;
    int null = open("/dev/null", O_RDWR);
    for (int i = 0; i < 100; i++) { if (write(null, "x", 1) != 1) exit(1); }
    for (int i = 0; i < 10; i++) open("/none/such", O_RDONLY);
    pthread_t thread;
    if (pthread_create(&thread, 0, other, 0)) exit(1);
    pthread_join(thread, 0);
    pid_t child = fork();
    if (!child) { for (int i = 0; i < 16; i++) pages[i * 4096L] = 2; close(-1); _exit(0); }
    waitpid(child, 0, 0);
    munmap(pages, 64 * 4096);
    close(null);
}
%(before)s
__attribute__((noinline)) %(static)s void alpha(unsigned long rounds) { unsigned long state = 1; LOOP sink += state; }
__attribute__((noinline)) %(static)s void beta(unsigned long rounds) { unsigned long state = 7; LOOP sink += state; }
%(after)s
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
int main(int count, char **words) {
    odds();
    for (double end = now() + atof(words[count - 1]); now() < end;) { %(alpha)s(300000); %(beta)s(100000); }
    return 0;
}
""".replace("LOOP", LOOP)

PLAIN = {"before": "", "static": "", "after": "", "alpha": "alpha", "beta": "beta"}


def c(**changes):
    return C % {**PLAIN, **changes}


CPP = """
#include <cstdlib>
#include <ctime>
#include <functional>
#include <vector>
volatile unsigned long sink;
namespace work { template <typename T, int N> struct loop { [[gnu::noinline]] static T alpha(T rounds) { T state = N; LOOP sink += state; return state; } }; }
namespace { [[gnu::noinline]] void beta(unsigned long rounds) { unsigned long state = 7; LOOP sink += state; } }
static double now() { timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
int main(int count, char **words) {
    std::vector<std::function<void(unsigned long)>> all{work::loop<unsigned long, 3>::alpha, beta};
    for (double end = now() + atof(words[count - 1]); now() < end;) { all[0](300000); all[1](100000); }
}
""".replace("LOOP", LOOP)

RUST = """
use std::time::{Duration, Instant};
static mut SINK: u64 = 0;
#[inline(never)]
fn alpha<T: Into<u64>>(rounds: T) { let mut s = 1u64; for _ in 0..rounds.into() { s = s.wrapping_mul(6364136223846793005).wrapping_add(s >> 33); } unsafe { SINK += s & 1; } }
#[inline(never)]
fn beta(rounds: u64) { let mut s = 7u64; for _ in 0..rounds { s = s.wrapping_mul(2862933555777941757).wrapping_add(s >> 31); } unsafe { SINK += s & 1; } }
fn main() {
    let seconds: f64 = std::env::args().last().unwrap().parse().unwrap();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    while Instant::now() < end { alpha(300000u64); beta(100000); }
    if unsafe { SINK } == 1 { println!("odd"); }
}
"""

FORTRAN = """
subroutine alpha(n)
  integer(8), intent(in) :: n
  integer(8) :: i, s
  common /out/ s
  do i = 1, n
    s = ieor(s * 31_8, ishft(s, -7)) + i
  end do
end subroutine
program main
  character(16) :: word
  real :: seconds, t0, t1
  integer(8) :: s
  common /out/ s
  call get_command_argument(1, word)
  read (word, *) seconds
  call cpu_time(t0)
  t1 = t0
  do while (t1 - t0 < seconds)
    call alpha(400000_8)
    call cpu_time(t1)
  end do
end program
"""

GO = """
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

var sink uint64

//go:noinline
func alpha(rounds int) { s := uint64(1); for i := 0; i < rounds; i++ { s = s*6364136223846793005 + s>>33 }; sink += s }

//go:noinline
func beta(rounds int) { s := uint64(7); for i := 0; i < rounds; i++ { s = s*6364136223846793005 + s>>33 }; sink += s }

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[len(os.Args)-1], 64)
	for end := time.Now().Add(time.Duration(seconds * 1e9)); time.Now().Before(end); { alpha(300000); beta(100000) }
	if sink == 1 { fmt.Println("odd") }
}
"""

PASCAL = """
program work;
uses SysUtils;
var sink: qword;
procedure alpha(rounds: longint);
var s: qword; i: longint;
begin s := 1; for i := 1 to rounds do s := (s xor (s shr 7)) + i; sink := sink + s; end;
procedure beta(rounds: longint);
var s: qword; i: longint;
begin s := 7; for i := 1 to rounds do s := (s xor (s shr 7)) + i; sink := sink + s; end;
var last: qword;
begin
  last := GetTickCount64 + round(1000 * StrToFloat(ParamStr(ParamCount)));
  while GetTickCount64 < last do begin alpha(300000); beta(100000); end;
end.
"""

SHORT_NAMES = ["a", "b", "c", "d", "f", "h", "i", "v", "x", "z", "St", "Pc", "Sa"]


def compiled(compiler, source, *flags, suffix=".c", after=None, named="-o {}"):
    """Makes a program and then does what `after` does with it; gives the command."""

    def make(w):
        if not shutil.which(compiler):
            raise Missing(compiler)
        (w / f"program{suffix}").write_text(source)
        words = [compiler, *flags, *named.format("program").split(), f"program{suffix}"]
        done = subprocess.run(words, cwd=w, capture_output=True, text=True)
        if done.returncode:
            raise Missing(f"{' '.join(words)}: {done.stderr[-300:]}")
        if after:
            shutil.copy(w / "program", w / "whole")
            after(w)
        return [str(w / "program")]

    return make


class Missing(Exception):
    """The host lacks what the kind needs."""


def tool(w, *words):
    subprocess.run([str(word) for word in words], cwd=w, check=True, capture_output=True)


def go(*flags, after=None):
    """The same of Go, whose calls and faults are as many as its scheduler likes: only names are compared."""

    def make(w):
        if not shutil.which("go"):
            raise Missing("go")
        (w / "program.go").write_text(GO)
        environment = {**os.environ, "GOCACHE": str(w / "cache-of-go"), "GOFLAGS": "-mod=mod", "HOME": str(w)}
        for name, more in (("whole", ()), ("program", flags)):
            done = subprocess.run(["go", "build", *more, "-o", name, "program.go"], cwd=w, capture_output=True, text=True, env=environment)
            if done.returncode:
                raise Missing(f"go build: {done.stderr[-300:]}")
        if after:
            after(w)
        return [str(w / "program")]

    make.counts_vary = True
    return make


def debuglink(w):
    tool(w, "objcopy", "--only-keep-debug", "program", "program.debug")
    tool(w, "strip", "-s", "program")
    tool(w, "objcopy", "--add-gnu-debuglink=program.debug", "program")


def beside(w):
    debuglink(w)
    (w / ".debug").mkdir()
    (w / "program.debug").rename(w / ".debug/program.debug")


def minidebug(w):
    tool(w, "objcopy", "--only-keep-debug", "program", "debug")
    tool(w, "strip", "-g", "debug")
    tool(w, "xz", "-f", "debug")
    tool(w, "strip", "-s", "program")
    tool(w, "objcopy", "--add-section", ".gnu_debugdata=debug.xz", "program")


def dwz(w):
    if not shutil.which("dwz"):
        raise Missing("dwz")
    shutil.copy(w / "program", w / "other")
    tool(w, "dwz", "-m", "common", "program", "other")


def kinds():
    """Every kind by name."""
    all_kinds = {}
    plain = c()
    for level in ("-O0", "-O1", "-O2", "-O3", "-Os"):
        all_kinds[f"c{level}"] = compiled("gcc", plain, level)
        all_kinds[f"c{level}-g"] = compiled("gcc", plain, level, "-g")
        all_kinds[f"clang{level}"] = compiled("clang", plain, level)
    linking = {
        "static": ["-static"], "static-pie": ["-static-pie"], "no-pie": ["-no-pie"], "now": ["-Wl,-z,now"], "lto": ["-flto"],
        "m32": ["-m32"], "frame-pointers": ["-fno-omit-frame-pointer"], "no-unwind": ["-fno-asynchronous-unwind-tables"],
        "sections": ["-ffunction-sections", "-Wl,--gc-sections"], "no-build-id": ["-Wl,--build-id=none"], "dwarf4": ["-g", "-gdwarf-4"],
        "dwarf5": ["-g", "-gdwarf-5"], "dwarf64": ["-g", "-gdwarf64"], "split": ["-g", "-gsplit-dwarf"], "gz": ["-g", "-gz"],
        "cet": ["-fcf-protection=full", "-Wl,-z,ibtplt"], "gold": ["-fuse-ld=gold"], "lld": ["-fuse-ld=lld"], "hash": ["-Wl,--hash-style=sysv"],
    }
    for name, flags in linking.items():
        all_kinds[f"c-{name}"] = compiled("gcc", plain, "-O2", *flags)
    after = {
        "debuglink": debuglink, "beside": beside, "minidebug": minidebug, "dwz": dwz, "strip-debug": lambda w: tool(w, "strip", "-g", "program"),
        "zstd": lambda w: tool(w, "objcopy", "--compress-debug-sections=zstd", "program"),
        "zlib": lambda w: tool(w, "objcopy", "--compress-debug-sections=zlib", "program"),
        "no-headers-of-debug": lambda w: tool(w, "objcopy", "--remove-section=.debug_abbrev", "program"),
    }
    for name, do in after.items():
        all_kinds[f"c-{name}"] = compiled("gcc", plain, "-O2", "-g", after=do)
    all_kinds["c-static-functions"] = compiled("gcc", c(static="static"), "-O2")
    all_kinds["c-constprop"] = compiled("gcc", c(static="static"), "-O3", "-g", "-fipa-cp-clone")
    for name in SHORT_NAMES[:6]:
        source = plain.replace("alpha", name).replace("beta", "beta_of_the_rest")
        all_kinds[f"c-called-{name}"] = compiled("gcc", source, "-O2", *(("-g",) if name in "ace" else ()))
    for level in ("-O0", "-O2", "-O3"):
        all_kinds[f"cpp{level}"] = compiled("g++", CPP, level, suffix=".cc")
        all_kinds[f"cpp{level}-g"] = compiled("g++", CPP, level, "-g", suffix=".cc")
    all_kinds["cpp-clang"] = compiled("clang++", CPP, "-O2", suffix=".cc")
    all_kinds["rust"] = compiled("rustc", RUST, "-O", suffix=".rs")
    all_kinds["rust-g"] = compiled("rustc", RUST, "-O", "-g", suffix=".rs")
    all_kinds["rust-v0"] = compiled("rustc", RUST, "-O", "-C", "symbol-mangling-version=v0", suffix=".rs")
    all_kinds["cpp-lto"] = compiled("g++", CPP, "-O2", "-flto", suffix=".cc")
    all_kinds["go"] = go()
    all_kinds["go-stripped"] = go("-ldflags=-s -w")
    all_kinds["go-pie"] = go("-buildmode=pie")
    all_kinds["pascal"] = compiled("fpc", PASCAL, "-O2", "-Xs-", suffix=".pas", named="-o{}")
    all_kinds["fortran"] = compiled("gfortran", FORTRAN, "-O2", suffix=".f90")
    return all_kinds


def normal(name):
    """A function's name without what tools show differently: arguments, hashes, variants of compilers."""
    name = re.sub(r" \[clone [^]]*\]", "", name)
    name = re.sub(r"::h[0-9a-f]{16}$", "", name)
    name = re.sub(r"\.(constprop|isra|part|cold|lto_priv)(\.\d+)*", "", name)
    name = re.sub(r"<.*>", "<>", name.split("(anonymous namespace)::")[-1])
    name = re.sub(r"^.* (\S+\()", r"\1", name).split("(")[0]
    return name.removesuffix("::<>")


def perf_top(w, command):
    data = w / "perf.data"
    # Not from perf's cache: programs that differ in names alone have one build id.
    perf = ["perf", "--buildid-dir", w / "cache"]
    subprocess.run([*perf, "record", "-q", "-e", "cpu-clock", "-F", "997", "-o", data, "--", *command], check=True, capture_output=True)
    words = [*perf, "report", "-i", data, "--stdio", "-s", "sym", "-F", "overhead,sym"]
    text = subprocess.run(words, capture_output=True, text=True, errors="replace").stdout
    rows = re.findall(r"^\s*([0-9.]+)%\s+\[.\]\s+(.*?)\s*$", text, re.M)
    # With -F rows come in no order.
    return max(rows, key=lambda row: float(row[0]))[1] if rows else None


# Calls that are made or not as threads happen to meet, that are as many as there is time, or do not return.
NOT_COUNTED = {"futex", "clock_gettime", "clock_gettime64", "getrusage", "exit", "exit_group"}


def calls_differ(case, command):
    """Calls that pagelab and `strace -f -c` count differently: name, (calls, errors) of pagelab, of strace."""
    words = ["setarch", "-R", *command, "0.1"]
    recording = case.record(*words, name="calls", observe="tasks,syscalls")
    ours = {group["name"]: (group["calls"], group["errors"]) for group in recording.show("syscalls")["groups"]}
    case.run("strace", "-f", "-c", "-U", "calls,errors,name", "-o", "calls.txt", *words)
    theirs = {}
    # A table for each personality. The exec that starts the target comes before the recording, and strace has it, too.
    for row in [["-1", "execve"]] + [line.split() for line in (case.work / "calls.txt").read_text().splitlines()]:
        if row and row[0].lstrip("-").isdigit() and row[-1] != "total":
            calls, errors = theirs.get(row[-1], (0, 0))
            theirs[row[-1]] = (calls + int(row[0]), errors + (int(row[1]) if len(row) == 3 else 0))
    names = sorted((ours.keys() | theirs.keys()) - NOT_COUNTED)
    return [(name, ours.get(name), theirs.get(name)) for name in names if ours.get(name) != theirs.get(name)]


def faults(case, command):
    """Page faults from the program's exec on: pagelab's, and those of perf stat that ran it."""
    words = ["perf", "stat", "-x,", "-e", "page-faults", "-o", "faults.txt", "--", *command, "0.1"]
    recording = case.record(*words, name="faults", observe="tasks,faults")
    # perf execs the program in a child of its own; address spaces of before that exec do not count.
    tree, before = set(), set()
    for row in recording.sql("select op, task_id, parent_task_id, mm_id from tasks order by ts"):
        is_first = row["op"] == "exec" and row["task_id"] != 1 and not tree
        if is_first or (row["op"] == "fork" and row["parent_task_id"] in tree):
            tree.add(row["task_id"])
        elif not tree:
            before.add(row["mm_id"])
    rows = recording.sql("select task_id, mm_id, count(*) n from faults group by task_id, mm_id")
    ours = sum(row["n"] for row in rows if row["task_id"] in tree and row["mm_id"] not in before)
    lines = (case.work / "faults.txt").read_text().splitlines()
    return ours, sum(int(line.split(",")[0]) for line in lines if "page-faults" in line)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pagelab", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    if arguments.list:
        return print("\n".join(kinds()))
    if os.geteuid() != 0:
        sys.exit("programs.py: found an ordinary user, needed root; type: sudo tests/world/programs.py ...")
    spec = importlib.util.spec_from_file_location("world", HERE / "world.py")
    world = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(world)
    seconds, results = arguments.samples / 900, collections.Counter()
    for name, make in kinds().items():
        if arguments.names and name not in arguments.names:
            continue
        work = pathlib.Path(tempfile.mkdtemp(prefix=f"program-{name}-", dir="/var/tmp"))
        try:
            command = make(work)
            case = world.Case(arguments.pagelab.resolve(), HERE / "odd", work)
            # As perf report has it.
            leaves = case.record(*command, seconds, observe="tasks,maps,cpu").leaves(inlined=False)
            ours = next(iter(leaves), None)
            whole = work / "whole"
            theirs = perf_top(work, [str(whole) if whole.exists() else command[0], str(seconds)])
            equal = bool(ours and theirs) and normal(ours) == normal(theirs)
            results["equal" if equal else "different"] += 1
            print(f"{name}: {'equal' if equal else 'DIFFERENT'}: {ours} ({leaves.get(ours, 0):.0f} %), perf {theirs}", flush=True)
            if hasattr(make, "counts_vary"):
                continue
            recorded, counted = faults(case, command)
            differ = calls_differ(case, command)
            if recorded != counted or differ:
                results["counts"] += 1
                print(f"{name}: COUNTS: {recorded} faults, perf stat {counted}; calls beside strace {differ}", flush=True)
        except Missing as missing:
            results["missing"] += 1
            print(f"{name}: MISSING: {str(missing).strip()[:150]}", flush=True)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    made = results["equal"] + results["different"]
    print(f"{made} made: the top function of {results['equal']} equal, of {results['different']} different; counts of {results['counts']} different; {results['missing']} missing")
    # 57 of 60; counts in all.
    sys.exit(results["counts"] > 0 or results["different"] * 60 > 3 * made)


if __name__ == "__main__":
    main()
