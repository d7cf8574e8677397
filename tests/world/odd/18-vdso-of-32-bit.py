"""Functions of the vDSO have names in programs of 32 and of 64 bits."""

import subprocess

TRUTH = "most of the time is in __vdso_clock_gettime64 (32 bits) or __vdso_clock_gettime (64 bits), as perf says"


def run(w):
    w.needs("perf")
    for bits, flags in {"32": ["-m32"], "64": []}.items():
        program = w.compile(f"vdso-{bits}", *flags, source="18-vdso-of-32-bit.c")
        truth = w.perf_leaves(program, "0.7")
        name, share = max(((name, share) for name, share in truth.items() if "clock_gettime" in name), key=lambda one: one[1])
        name = name.split()[-1]
        started = w.record(program, "0.7", name=f"vdso-{bits}").leaves()
        with subprocess.Popen([program, "3"]) as running:
            attached = w.record(name=f"attached-{bits}", options=["-p", running.pid, "--duration", "1"]).leaves()
            running.kill()
        for how, leaves in {"started": started, "attached to": attached}.items():
            found = sum(n for leaf, n in leaves.items() if "clock_gettime" in leaf and "vdso" in leaf)
            w.expect(abs(found - share) < 20, f"{bits} bits, {how}: {name} {share} % (perf), {leaves}")
