"""Calls through linkage tables: lazy, bound at once, marked for CET, of 32 bits, and filled at start in static programs."""

import re

TRUTH = "samples lie in entries of .plt (objdump names them: lib_nop@plt), none in _init, which ends before"

# How many samples fall on the jump and how many on what follows is the processor's and the placement's: perf's own share, which it
# calls _init, goes from 4 to 33 % over runs of one program, and in static programs to none. So a program runs until some fall there.
TRIES = 8

FORMS = {
    "lazy": ("-fcf-protection=none", "-Wl,-z,lazy"),
    "now": ("-fcf-protection=none", "-Wl,-z,now"),
    "cet": ("-fcf-protection=full", "-Wl,-z,ibtplt", "-Wl,-z,lazy"),
    "cetnow": ("-fcf-protection=full", "-Wl,-z,ibtplt", "-Wl,-z,now"),
    "nopie": ("-fcf-protection=none", "-no-pie", "-Wl,-z,lazy"),
    "stripped": ("-fcf-protection=none", "-Wl,-z,lazy", "-s"),
}


def entries(w, program):
    """Names that objdump gives to entries of linkage tables."""
    text = w.run("objdump", "-d", program).stdout
    # It gives none to those of static programs; they are called by what computes their address.
    computed = re.findall(r"IRELATIVE?\s+([0-9a-f]+)$", w.run("readelf", "-rW", program).stdout, re.M)
    return {*re.findall(r"^[0-9a-f]+ <(.*@plt)>:$", text, re.M), *(f"*ABS*+0x{addr}@plt" for addr in computed)}


def check(w, name, program):
    """What was found in entries, at the first try that found some; whatever is found must be named rightly."""
    for _ in range(TRIES):
        linked = check_once(w, name, program)
        if linked:
            return linked
    w.expect(False, f"{name}: no sample in an entry of the linkage table in {TRIES} runs")


def check_once(w, name, program):
    leaves = w.record(program, name=name).leaves()
    known = entries(w, program)
    linked = {leaf: share for leaf, share in leaves.items() if leaf.endswith("@plt")}
    w.expect("_init" not in leaves, f"{name}: found _init {leaves.get('_init')} %, needed none")
    w.expect(set(linked) <= known, f"{name}: found {linked}, needed some of {known}")
    return linked


def run(w):
    w.run("gcc", "-O1", "-shared", "-fPIC", "-o", "libplt.so", w.source / "pltlib.c")
    library = ("-L.", "-lplt", f"-Wl,-rpath,{w.work}")
    for name, flags in FORMS.items():
        check(w, name, w.compile(name, *flags, *library, source="plt.c"))
    for name, flags in (("static", ("-static",)), ("static-pie", ("-static-pie",))):
        flags += ("-fno-builtin", "-fcf-protection=none", "-fno-lto")
        check(w, name, w.compile(name, *flags, source="plt_static.c"))
    (w.work / "lib32").mkdir()
    made = w.run("gcc", "-m32", "-O1", "-shared", "-fPIC", "-o", "lib32/libplt.so", w.source / "pltlib.c", status=None)
    # Without libraries of 32 bits the others stand for it; a unit test has its code.
    if made.returncode == 0:
        for name, more in (("m32", ()), ("m32nopie", ("-no-pie",))):
            flags = ("-m32", "-fcf-protection=none", "-Wl,-z,lazy", "-Llib32", "-lplt", f"-Wl,-rpath,{w.work}/lib32", *more)
            check(w, name, w.compile(name, *flags, source="plt.c"))
