"""Calls through linkage tables: lazy, bound at once, marked for CET, of 32 bits, and filled at start in static programs."""

import re

TRUTH = "samples lie in entries of .plt (objdump names them: lib_nop@plt), half of them in programs with libraries, none in _init, which ends before"

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


def check(w, name, program, least):
    leaves = w.record(program, name=name).leaves()
    known = entries(w, program)
    linked = {leaf: share for leaf, share in leaves.items() if leaf.endswith("@plt")}
    w.expect("_init" not in leaves, f"{name}: found _init {leaves.get('_init')} %, needed none")
    w.expect(set(linked) <= known, f"{name}: found {linked}, needed some of {known}")
    w.expect(sum(linked.values()) >= least, f"{name}: found {leaves}, needed {least} % in {known}")
    return linked


def run(w):
    w.run("gcc", "-O1", "-shared", "-fPIC", "-o", "libplt.so", w.source / "pltlib.c")
    library = ("-L.", "-lplt", f"-Wl,-rpath,{w.work}")
    for name, flags in FORMS.items():
        linked = check(w, name, w.compile(name, *flags, *library, source="plt.c"), 20)
        ratio = linked.get("lib_nop@plt", 0) / max(linked.get("lib_other@plt", 0), 0.1)
        w.expect(1 < ratio < 5, f"{name}: found {linked}, needed twice as much in lib_nop@plt")
    for name, flags in (("static", ("-static",)), ("static-pie", ("-static-pie",))):
        flags += ("-fno-builtin", "-fcf-protection=none", "-fno-lto")
        # How many fall on the jump and how many on what follows is the processor's: perf's share of one program goes from 12 to 22 %.
        check(w, name, w.compile(name, *flags, source="plt_static.c"), 1)
    (w.work / "lib32").mkdir()
    made = w.run("gcc", "-m32", "-O1", "-shared", "-fPIC", "-o", "lib32/libplt.so", w.source / "pltlib.c", status=None)
    # Without libraries of 32 bits the others stand for it; a unit test has its code.
    if made.returncode == 0:
        for name, more in (("m32", ()), ("m32nopie", ("-no-pie",))):
            flags = ("-m32", "-fcf-protection=none", "-Wl,-z,lazy", "-Llib32", "-lplt", f"-Wl,-rpath,{w.work}/lib32", *more)
            check(w, name, w.compile(name, *flags, source="plt.c"), 10)
