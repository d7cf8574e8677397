#!/usr/bin/env python3
"""Public reports about profilers, tracers and fio, made again and asked of pagelab.

    tests/world/world.py FOLDER PAGELAB [--short] [--keep] [NAME...]     FOLDER: odd or fio (below tests/world); root

A case is one file FOLDER/NAME.py with

    TRUTH   what is true, in a sentence, and which other tool says so
    SHORT   whether the short form of `make test` runs it (default: yes)
    run(w)  makes the programs, asks the other tool and pagelab, and raises `Wrong` (through `w.expect`) where they disagree

`w` is a `Case`: a scratch folder that goes at the end, the compiled programs of the case and the commands below. Sources lie
beside the case. A case that cannot be made on this host raises `Missing` with the reason; it is counted as missing, never as passed.
"""

import argparse
import collections
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent


class Wrong(Exception):
    """pagelab says something else than the truth."""


class Missing(Exception):
    """The host lacks something that the case needs."""


class Recording:
    """A recording that `Case.record` made."""

    def __init__(self, case, path, done):
        self.case, self.path, self.status = case, path, done.returncode
        self.stdout, self.stderr = done.stdout, done.stderr

    @property
    def manifest(self):
        return json.loads((self.path / "manifest.json").read_text())

    def sql(self, query):
        """Rows of a query, one dictionary each."""
        return json.loads(self.case.pagelab("query", "--format", "json", self.path, query).stdout)

    def show(self, view, *arguments):
        """A view as its JSON document."""
        return json.loads(self.case.pagelab("show", self.path, view, "--json", *arguments).stdout)

    def text(self, view, *arguments):
        """A view as text."""
        return self.case.pagelab("show", self.path, view, *arguments).stdout

    def stacks(self):
        """Sampled stacks as (frames from the outermost to the leaf, weight)."""
        folded = self.path.with_suffix(".folded")
        folded.unlink(missing_ok=True)
        self.case.pagelab("export", "folded", self.path, "-o", folded)
        stacks = []
        for line in folded.read_text(errors="replace").splitlines():
            frames, weight = line.rsplit(" ", 1)
            stacks.append((frames.split(";"), int(weight)))
        return stacks

    def leaves(self, inlined=True):
        """Share of samples by innermost function, in percent; `inlined=False`: what was inlined counts for the function around it."""
        total = collections.Counter()
        for frames, weight in self.stacks():
            while not inlined and len(frames) > 1 and frames[-1].endswith("_[i]"):
                frames.pop()
            total[frames[-1]] += weight
        everything = sum(total.values()) or 1
        return {name: 100 * weight / everything for name, weight in total.most_common()}


class Case:
    """What a case works with."""

    def __init__(self, binary, source, work):
        self.binary, self.source, self.work = binary, source, work

    def expect(self, holds, message):
        """The case fails with the message unless this holds."""
        if not holds:
            raise Wrong(message)

    def run(self, *words, status=0, timeout=120, **options):
        """A command to its end. `status=None` takes every exit status."""
        options = {"cwd": self.work, "stdin": subprocess.DEVNULL, **options}
        words = [str(word) for word in words]
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=timeout, **options)
        if status is not None and done.returncode != status:
            raise Wrong(f"{' '.join(words)}: status {done.returncode}, needed {status}\n{done.stdout}{done.stderr}")
        return done

    def pagelab(self, *words, **options):
        return self.run(self.binary, *words, **options)

    def compile(self, name, *flags, source=None, compiler="gcc"):
        """The program NAME from SOURCE (NAME.c) beside the case."""
        program = self.work / name
        self.run(compiler, "-O2", "-w", "-o", program, self.source / (source or f"{name}.c"), *flags)
        return program

    def record(self, *command, name="rec", observe=None, frequency=997, options=(), status=None, **run):
        """`pagelab record -- COMMAND`; the exit status is the command's."""
        path = self.work / f"{name}.rec"
        if path.exists():
            shutil.rmtree(path)
        words = ["record", "-q", "--frequency", frequency, "-o", path, *options]
        if observe:
            words += ["--observe", observe]
        if command:
            words += ["--", *command]
        return Recording(self, path, self.pagelab(*words, status=status, **run))

    def perf_leaves(self, *command):
        """Share of samples by function as perf has it, in percent."""
        data = self.work / "perf.data"
        self.run("perf", "record", "-q", "-e", "cpu-clock", "-F", "997", "-g", "-o", data, "--", *command, status=None)
        text = self.run("perf", "report", "-i", data, "--no-children", "--stdio", "-g", "none", "-s", "sym", "-F", "overhead,sym").stdout
        shares = {}
        for line in text.splitlines():
            words = line.split(None, 2)
            if len(words) == 3 and words[0].endswith("%"):
                shares[words[2].strip()] = float(words[0].rstrip("%"))
        return shares

    def needs(self, *programs):
        for program in programs:
            if not shutil.which(program):
                raise Missing(f"{program} is not installed")


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem.replace("-", "_"), path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def asked(folder, names, short):
    """The cases to run, by name."""
    paths = sorted(path for path in folder.glob("*.py") if not path.name.startswith("_"))
    known = {path.stem: path for path in paths}
    for name in names:
        if name not in known:
            sys.exit(f"world.py: found no case {name!r}; needed one of: {', '.join(known)}")
    chosen = {name: load(known[name]) for name in (names or known)}
    return {name: module for name, module in chosen.items() if names or not short or getattr(module, "SHORT", True)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", choices=["odd", "fio"])
    parser.add_argument("pagelab", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--short", action="store_true", help="only the cases of the short form")
    parser.add_argument("--keep", action="store_true", help="keep the scratch folders and print them")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("world.py: found an ordinary user, needed root; type: sudo tests/world/world.py ...")
    binary, folder = arguments.pagelab.resolve(), HERE / arguments.folder
    passed, failed = 0, {}
    for name, module in asked(folder, arguments.names, arguments.short).items():
        work = pathlib.Path(tempfile.mkdtemp(prefix=f"world-{name}-", dir="/var/tmp"))
        begun = time.monotonic()
        try:
            module.run(Case(binary, folder, work))
            passed, said = passed + 1, "ok"
        except Missing as missing:
            said = failed[name] = f"MISSING: {missing}"
        except Wrong as wrong:
            said = failed[name] = f"WRONG: {wrong}\n    truth: {module.TRUTH}"
        except Exception:  # one case that breaks does not end the others
            said = failed[name] = f"BROKEN: {traceback.format_exc()}"
        print(f"{name} ({time.monotonic() - begun:.0f} s): {said}", flush=True)
        if arguments.keep:
            print(f"    {work}")
        else:
            shutil.rmtree(work, ignore_errors=True)
    # Again at the end, where it is looked for.
    for name, said in failed.items():
        print(f"{name}: {said}")
    print(f"{arguments.folder}: {passed} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())
