"""Calls that seccomp refuses, and calls that the kernel does not have, are calls: with name, error and file."""

import collections
import json

TRUTH = """strace -c and perf trace -s count them: getpid 78 times ENOSYS and write 5 times EPERM; getuid that kills a process or a thread;
getpid answered 9 times by SIGSYS and 6 times by a supervisor; numbers 500, 511, 512, 99999, -1 and x32's getpid, 3 times each, ENOSYS"""

ENOSYS, EPERM = -38, -1

# By mode of the program: calls by name and result, and the exit status of the program.
MODES = {
    "errno": ({("getpid", ENOSYS): 78, ("write", EPERM): 5}, 0),
    "kill": ({("getpid", ENOSYS): 77, ("write", EPERM): 5, ("getuid", None): 1}, 128 + 31),
    "thread": ({("getgid", 0): 2, ("getuid", None): 1}, 0),
    "trap": ({("getpid", None): 9}, 0),
    "strict": ({("getuid", None): 1}, 128 + 9),
    "notify": ({("getpid", 4242): 6}, 0),
    "numbers": ({(name, ENOSYS): 3 for name in ["syscall_500", "syscall_511", "syscall_512", "syscall_99999", "syscall_-1", "getpid"]}, 0),
}
# What strace -c does not count: it is not told of a call that ends its thread at once, and names unknown numbers in hexadecimal.
NOT_BY_STRACE = {"thread", "strict", "numbers"}


def run(w):
    program = w.compile("refused", "-pthread", source="08-refused.c")
    for mode, (calls, status) in MODES.items():
        recording = w.record(program, mode, name=mode, observe="default,syscalls", status=status)
        names = sorted({name for name, _ in calls})
        listed = ", ".join(f"'{name}'" for name in names)
        rows = recording.sql(f"select name, ret, dur, fd, file_id from syscalls where name in ({listed}) or name like 'syscall%'")
        found = collections.Counter((row["name"], None if row["ret"] is None else int(row["ret"])) for row in rows)
        w.expect(found == calls, f"{mode}: found {dict(found)}, needed {calls}")
        if mode != "numbers":
            w.expect(all(row["dur"] is None for row in rows if row["name"] != "getgid"), f"{mode}: a duration that nobody measured: {rows}")
        if mode == "errno":
            files = {row["name"]: (row["fd"], row["file_id"] is not None) for row in rows}
            w.expect(files["write"][1], f"write works on a file: {files}")
        counted(w, recording, program, mode, calls)
        lost = recording.sql("select sum(lost) n from loss where stream = 'syscalls'")[0]["n"]
        w.expect(int(lost or 0) == 0, f"{mode}: {lost} lost")
    by_perf(w, program)


def counted(w, recording, program, mode, calls):
    """`show syscalls` beside strace -c."""
    groups = {group["name"]: (group["calls"], group["errors"]) for group in recording.show("syscalls")["groups"]}
    needed = collections.defaultdict(lambda: [0, 0])
    for (name, ret), count in calls.items():
        needed[name][0] += count
        needed[name][1] += count if ret is not None and ret < 0 else 0
    for name, (count, errors) in needed.items():
        w.expect(groups.get(name) == (count, errors), f"{mode}: show syscalls has {name} {groups.get(name)}, needed {(count, errors)}")
    if mode in NOT_BY_STRACE:
        return
    w.run("strace", "-f", "-c", "-o", "counts", program, mode, status=None)
    theirs = {}
    for line in (w.work / "counts").read_text().splitlines():
        words = line.split()
        if len(words) >= 5 and words[0].replace(".", "").isdigit():
            theirs[words[-1]] = (int(words[3]), int(words[4]) if len(words) == 6 else 0)
    for name in needed:
        w.expect(groups[name] == theirs.get(name), f"{mode}: {name}: {groups[name]}, strace -c {theirs.get(name)}")


def by_perf(w, program):
    """The same through perf events, where BPF is not available. That a thread is ended at once they do not see."""
    for mode in ["errno", "kill", "trap", "notify", "numbers"]:
        calls, status = MODES[mode]
        path = w.work / f"{mode}-perf.rec"
        # Calls come from tracepoints there, whose numbers only tracefs has.
        mounted = 'mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null; exec "$@"'
        w.run("unshare", "--mount", "sh", "-c", mounted, "sh", program, "bpf", w.binary, "record", "-q", "-o", path, "--observe", "syscalls", "--", program, mode, status=status)
        names = ", ".join(f"'{name}'" for name, _ in calls)
        query = ("select name, ret, count(*) n, min(args[1]) first, min(args[6]) sixth from syscalls"
                 f" where name in ({names}) or name like 'syscall%' group by 1, 2")
        rows = json.loads(w.pagelab("query", "--format", "json", path, query).stdout)
        found = {(row["name"], None if row["ret"] is None else int(row["ret"])): int(row["n"]) for row in rows}
        # A busy kernel leaves a hit of a tracepoint out now and then (bpf/accounts.bpf.c): one, and nothing that was not there.
        missing = collections.Counter(calls)
        missing.subtract(found)
        is_near = set(found) <= set(calls) and min(missing.values()) >= 0 and sum(missing.values()) <= 1
        w.expect(is_near, f"{mode} by perf: found {found}, needed {calls}")
        if mode == "numbers":
            args = {(int(row["first"]), int(row["sixth"])) for row in rows if row["name"].startswith("syscall")}
            w.expect(args == {(1, 6)}, f"{mode} by perf: arguments {args}, needed 1 and 6")
