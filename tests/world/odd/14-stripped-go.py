"""Go programs without symbols, whose runtime has names of its own."""

import os

TRUTH = "main.alpha has some 75 % and main.beta 24 %, as in the same program with symbols"

# Compiling Go's own library takes a minute.
SHORT = False

FORMS = {
    "whole": (),
    "stripped": ("-ldflags=-s -w",),
    "pie": ("-buildmode=pie", "-ldflags=-s -w"),
}


def run(w):
    w.needs("go")
    environment = {**os.environ, "HOME": str(w.work), "GOFLAGS": "-mod=mod", "GOCACHE": str(w.work / "cache"), "CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}
    shares = {}
    for name, flags in FORMS.items():
        w.run("go", "build", *flags, "-o", name, w.source / "gowork.go", env=environment, timeout=300)
        leaves = w.record(w.work / name, 0.4, name=name).leaves()
        shares[name] = (leaves.get("main.alpha", 0), leaves.get("main.beta", 0))
        w.expect(shares[name][0] > 50 and shares[name][1] > 10, f"{name}: found {dict(list(leaves.items())[:4])}")
