"""Functions of C that are called as C++ calls types in its symbols."""

TRUTH = "the functions have the names of short.c (nm), with debug information and without it"

NAMES = "a b c d f h i v x z Pc Pv Ss Sa St fi DpT_".split()


def run(w):
    for name, flags in (("short", ()), ("shortg", ("-g",))):
        program = w.compile(name, *flags, source="short.c")
        symbols = {line.split()[2] for line in w.run("nm", program).stdout.splitlines() if " T " in line}
        w.expect(set(NAMES) <= symbols, f"nm: found {sorted(symbols)}, needed {NAMES}")
        leaves = w.record(program, name=name).leaves()
        wrong = {leaf: share for leaf, share in leaves.items() if share > 2 and leaf not in NAMES and not leaf.endswith("_[k]")}
        w.expect(not wrong, f"{name}: found {wrong}, needed names of {NAMES}")
        missing = [name for name in NAMES if leaves.get(name, 0) < 1]
        w.expect(not missing, f"{name}: found {leaves}, needed some 6 % of {missing}")
