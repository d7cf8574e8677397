"""Code made at run time in memory without a file, in a memfd and in a file, named by a map; also in a pid namespace of its own."""

import pathlib

TRUTH = "jitted::first has 75 % and jitted second 25 %, by the map; perf names only what lies in no file"


def run(w):
    program = w.compile("memfdjit")
    commands = {kind: (program, 0.5, kind) for kind in ("anon", "memfd", "file")}
    commands["namespace"] = ("unshare", "-m", "-p", "-f", "--mount-proc", program, 0.5, "memfd")
    for name, command in commands.items():
        recording = w.record(*command, name=name)
        pathlib.Path(recording.stdout.split()[-1]).unlink(missing_ok=True)
        leaves = recording.leaves()
        first = sum(share for leaf, share in leaves.items() if "jitted::first" in leaf)
        second = leaves.get("jitted second", 0)
        w.expect(first > 50 and second > 12, f"{name}: found {dict(list(leaves.items())[:4])}, needed first 75 %, second 25 %")
