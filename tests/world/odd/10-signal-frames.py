"""Stacks go on below the frame of a signal's handler."""

TRUTH = "perf record --call-graph dwarf and gdb: main, interrupted, spin, __restore_rt, handler, in_handler, spin"

WAYS = {
    "shared": ("gcc", "-fomit-frame-pointer"),
    "static": ("gcc", "-fomit-frame-pointer", "-static"),
    "musl": ("musl-gcc", "-fomit-frame-pointer", "-static", "-fasynchronous-unwind-tables"),
    "32-bit": ("gcc", "-m32", "-fno-omit-frame-pointer"),
}


def of_handler(stacks):
    return [(frames, n) for frames, n in stacks if "in_handler" in frames]


def run(w):
    w.needs("perf", "musl-gcc")
    for kind, (compiler, *flags) in WAYS.items():
        program = w.compile(f"signals-{kind}", *flags, source="10-signal-frames.c", compiler=compiler)
        for stack in [[], ["alt"]]:
            where = f"{kind} {' '.join(stack)}"
            recording = w.record(program, *stack, name=f"signals-{kind}{'-'.join(stack)}")
            stacks = of_handler(recording.stacks())
            total = sum(n for _, n in stacks)
            w.expect(total > 50, f"{where}: {total} samples in the handler")
            if kind == "32-bit":
                continue
            named = sum(n for frames, n in stacks if "__restore_rt" in frames)
            w.expect(named > 0.95 * total, f"{where}: __restore_rt in {named} of {total}: {stacks[:3]}")
            # A stack of its own is copied; below it there is the function that was interrupted, whose stack is not.
            deep = (lambda frames: frames[0] != "__restore_rt") if stack else (lambda frames: "interrupted" in frames or "main" in frames)
            below = sum(n for frames, n in stacks if deep(frames))
            w.expect(below > 0.9 * total, f"{where}: {below} of {total} go on below the handler: {stacks[:3]}")
    program = w.work / "signals-shared"
    data = w.work / "signals.data"
    w.run("perf", "record", "-q", "-e", "cpu-clock", "-F", "499", "--call-graph", "dwarf,16384", "-o", data, "--", program, status=None)
    script = w.run("perf", "script", "-i", data, "-F", "ip,sym").stdout.split("\n\n")
    chains = [[line.split()[1] for line in stack.splitlines() if len(line.split()) > 1] for stack in script]
    deep = [chain for chain in chains if "in_handler" in chain]
    # The signal may come while main looks at the clock.
    through = [chain for chain in deep if "interrupted" in chain]
    w.expect(deep and len(through) > 0.9 * len(deep), f"perf: {len(through)} of {len(deep)}: {deep[:2]}")
