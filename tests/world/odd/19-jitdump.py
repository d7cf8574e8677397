"""Code of node and Python that a jitdump names."""

TRUTH = "JS:*alphaJs has more than JS:*betaJs (perf inject --jit)"


def run(w):
    w.needs("node", "perf")
    script = w.source / "jit.js"
    recording = w.record("node", "--perf-prof", script, 0.7)
    shares = {}
    for leaf, share in recording.leaves().items():
        for name in ("alphaJs", "betaJs"):
            if leaf.startswith("JS:") and name in leaf:
                shares[name] = shares.get(name, 0) + share
    w.expect(shares.get("alphaJs", 0) > 30, f"found {dict(list(recording.leaves().items())[:4])}, needed JS:*alphaJs")
    w.run("perf", "record", "-q", "-k", "mono", "-e", "cpu-clock", "-F", "997", "-g", "-o", "p.data", "--", "node", "--perf-prof", script, 0.7)
    w.run("perf", "inject", "--jit", "-i", "p.data", "-o", "q.data")
    text = w.run("perf", "report", "-i", "q.data", "--no-children", "--stdio", "-g", "none", "-s", "sym").stdout
    theirs = sum(float(line.split("%")[0]) for line in text.splitlines() if "alphaJs" in line)
    w.expect(abs(theirs - shares["alphaJs"]) < 25, f"found alphaJs {shares['alphaJs']} %, perf has {theirs} %")
