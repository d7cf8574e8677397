"""Limits of the process that records (`ulimit`), of its group (pids), and of the kernel's patience with bpf(2)."""

import json
import os
import pathlib
import subprocess

TRUTH = """The shell and strace: a limit is raised as far as the user may and put back in the command; where that does not do, the
message names the limit (`ulimit -n`, `-f`), and no right or kernel that has nothing to do with it. No limit ends pagelab by a signal."""

WRONG_REMEDIES = ["Linux 5.18", "a frequency that the kernel allows", "CAP_PERFMON", "CONFIG_PERF_EVENTS", "CONFIG_FTRACE"]


def limited(w, limits, *command, name="rec", options=(), status=(0,)):
    """`ulimit LIMITS; pagelab record -- COMMAND`."""
    path = w.work / f"{name}.rec"
    subprocess.run(["rm", "-rf", path], check=True)
    words = [w.binary, "record", "-q", *options, "-o", path, "--", *command]
    done = w.run("sh", "-c", f'ulimit {limits}; exec "$@"', "sh", *words, status=None)
    w.expect(done.returncode in status, f"ulimit {limits}: status {done.returncode}, needed {status}: {done.stderr}")
    w.expect("panicked" not in done.stderr, f"ulimit {limits}: {done.stderr}")
    return path, done


def refused(path):
    manifest = json.loads((path / "manifest.json").read_text())
    return {probe["name"]: probe for probe in manifest["probes"] if probe["state"] == "refused"}


def open_files(w):
    for limit in ["-Sn 64", "-n 80", "-n 100", "-n 128", "-n 160"]:
        # With a hard limit as low as that it may be impossible to record; then it is said, and nothing is run.
        path, done = limited(w, limit, "sh", "-c", "ulimit -Sn; ulimit -Hn; echo target done", status=(0, 125) if limit == "-n 80" else (0,))
        if done.returncode:
            w.expect("ulimit -n" in done.stderr, f"ulimit {limit}: {done.stderr}")
            continue
        w.expect("target done" in done.stdout, f"ulimit {limit}: the command did not run: {done.stdout}")
        soft = limit.split()[1]
        w.expect(done.stdout.split()[0] == soft, f"ulimit {limit}: the command's limit is {done.stdout.split()[0]}")
        lacks = refused(path)
        if limit == "-Sn 64":
            w.expect(not lacks, f"soft limit 64: refused although the hard limit is high: {lacks}")
        for name, probe in lacks.items():
            said = f"{probe.get('reason')} {probe.get('fix')}"
            if "os error 24" in said or "Too many open files" in said:
                w.expect("ulimit -n" in said, f"ulimit {limit}: {name}: no word of the limit: {said}")
                for remedy in WRONG_REMEDIES:
                    w.expect(remedy not in said, f"ulimit {limit}: {name}: {remedy}: {said}")
        for line in done.stderr.splitlines():
            if "Too many open files" in line:
                w.expect("ulimit -n" in line, f"ulimit {limit}: {line}")


def file_size(w):
    """-f counts blocks of 512 bytes in sh. A file that may grow no further is as a full disk, and not the end of the recorder."""
    loop = "import os\nfd = os.open('/dev/null', os.O_WRONLY)\nfor n in range(400000): os.pwrite(fd, b'x' * (n % 977), n * n)\nprint('target done')"
    for limit in [20, 200, 400]:
        path, done = limited(w, f"-f {limit}", "python3", "-c", loop, options=["--observe", "default,syscalls"], status=(0, 125))
        if done.returncode == 0:
            w.expect("target done" in done.stdout, f"ulimit -f {limit}: {done.stdout}")
        manifest = json.loads((path / "manifest.json").read_text()) if (path / "manifest.json").exists() else None
        said = f"{manifest and manifest.get('incomplete_reason')} {done.stderr}"
        if done.returncode or not manifest["complete"]:
            w.expect("ulimit -f" in said and "df " not in said, f"ulimit -f {limit}: {said}")
    # The command has the disposition of the signal that it would have without a recorder.
    ask = ["python3", "-c", "import signal; print(signal.getsignal(signal.SIGXFSZ))"]
    recorded = w.run(w.binary, "record", "-q", "-o", w.work / "signal.rec", "--", *ask).stdout
    w.expect(recorded == w.run(*ask).stdout, f"SIGXFSZ in the command: {recorded}")


def stack(w):
    for size in [256, 1024]:
        _, done = limited(w, f"-s {size}", "sh", "-c", "ulimit -s; echo target done", name="stack")
        w.expect(done.stdout.split() == [str(size), "target", "done"], f"ulimit -s {size}: {done.stdout}")
    for words in [["--help"], ["doctor"], ["show", w.work / "stack.rec"]]:
        done = w.run("sh", "-c", 'ulimit -s 256; exec "$@"', "sh", w.binary, *words, status=None)
        w.expect(done.returncode in (0, 1), f"ulimit -s 256; pagelab {words[0]}: {done.returncode} {done.stderr}")


def calls_of_bpf(w):
    """The n-th bpf(2) of the recorder is refused: the next mechanism takes over, or the message says which limit it is."""
    w.needs("strace")
    for error, word in [("EMFILE", "ulimit -n"), ("ENOMEM", "free -m"), ("EPERM", None)]:
        for nth in [1, 2, 4, 5, 9, 30, 80, 200]:
            path = w.work / f"bpf-{error}-{nth}.rec"
            done = w.run("strace", "-o", "/dev/null", "-e", f"inject=bpf:error={error}:when={nth}", "-e", "trace=bpf", w.binary,
                         "record", "-q", "-o", path, "--", "true", status=None)
            what = f"bpf(2) number {nth} gives {error}"
            w.expect(done.returncode == 0 and "panicked" not in done.stderr, f"{what}: {done.returncode} {done.stderr}")
            for name, probe in refused(path).items():
                said = f"{probe.get('reason')} {probe.get('fix')}"
                if word and f"({error}" in said.replace("os error", ""):
                    w.expect(word in said, f"{what}: {name}: {said}")
            if word and ("Too many open files" in done.stderr or "Cannot allocate memory" in done.stderr):
                w.expect(word in done.stderr, f"{what}: {done.stderr}")


def processes(w):
    """No room for threads: work is done by fewer."""
    group = pathlib.Path("/sys/fs/cgroup/pids") if pathlib.Path("/sys/fs/cgroup/pids/cgroup.procs").exists() else pathlib.Path("/sys/fs/cgroup")
    own = group / f"world-limits-{os.getpid()}"
    own.mkdir()
    try:
        if not (own / "pids.max").exists():
            return
        recordings = []
        for at in range(4):
            recordings.append(w.work / f"one-{at}.rec")
            w.pagelab("record", "-q", "-o", recordings[-1], "--", "true")
        for most in [2, 3]:
            (own / "pids.max").write_text(str(most))
            enter = f"echo $$ > {own}/cgroup.procs && exec \"$@\""
            done = w.run("sh", "-c", enter, "sh", w.binary, "compare", "--base", *recordings[:2], "--test", *recordings[2:], status=None)
            w.expect(done.returncode in (0, 1) and "panicked" not in done.stderr, f"compare with pids.max {most}: {done.returncode} {done.stderr}")
            done = w.run("sh", "-c", enter, "sh", w.binary, "query", recordings[0], "select count(*) from tasks", status=None)
            w.expect("panicked" not in done.stderr and done.returncode >= 0, f"query with pids.max {most}: {done.returncode} {done.stderr}")
            if done.returncode:
                w.expect("pids.max" in done.stderr, f"query with pids.max {most}: {done.stderr}")
    finally:
        own.rmdir()


def words(w):
    """A warning does not repeat a megabyte of the command's output; a reader that leaves is no error."""
    done = w.run(w.binary, "record", "-q", "-o", w.work / "value.rec", "--value", "x=([0-9.]+)", "--", "python3", "-c",
                 "print('1.' * 500_000)")
    w.expect(len(done.stderr) < 2000, f"the warning has {len(done.stderr)} bytes: {done.stderr[:200]}")
    query = f"set -o pipefail; {w.binary} query {w.work}/value.rec 'select * from metrics' --format csv | head -1 > /dev/null"
    done = w.run("bash", "-c", query, status=None)
    w.expect(done.returncode == 0 and not done.stderr, f"query | head -1: {done.returncode} {done.stderr}")


def run(w):
    open_files(w)
    file_size(w)
    stack(w)
    calls_of_bpf(w)
    processes(w)
    words(w)
