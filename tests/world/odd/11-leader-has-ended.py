"""Files that a process opens after its first thread has ended are opened through those of its tasks that live."""

import subprocess

TRUTH = "own_work and lib_work take half of the time each: the same number of steps in the source"


def check(w, recording, how):
    leaves = recording.leaves()
    own, library = leaves.get("own_work", 0), leaves.get("lib_work", 0)
    w.expect(own > 30 and library > 30 and own + library > 85, f"{how}: {leaves}")
    through = sum(n for frames, n in recording.stacks() if "go" in frames)
    total = sum(n for _, n in recording.stacks())
    w.expect(through > 0.85 * total, f"{how}: {through} of {total} stacks begin in the thread")


def run(w):
    program = w.compile("11-leader-has-ended", "-fomit-frame-pointer", "-pthread", "-ldl")
    library = w.compile("11-library.so", "-fomit-frame-pointer", "-shared", "-fPIC", source="11-library.c")
    script = w.work / "apart.sh"
    script.write_text(f"mount -t tmpfs none /mnt && cp {program} {library} /mnt/ && exec /mnt/{program.name} /mnt/{library.name} $1\n")
    apart = ["unshare", "-m", "sh", script]
    check(w, w.record(program, library, "0.8", name="here"), "here")
    check(w, w.record(*apart, "0.8", name="apart"), "in a mount namespace")
    for name, command in {"here": [program, library], "apart": apart}.items():
        with subprocess.Popen([*command, "4"], stdout=subprocess.PIPE) as running:
            running.stdout.readline()
            options = ["-p", running.pid, "--duration", "1"]
            recording = w.record(name=f"attached-{name}", options=options)
            running.kill()
        check(w, recording, f"{name}, attached to")
