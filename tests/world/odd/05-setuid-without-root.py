"""The kernel takes perf's events away when a task executes a program that the recording user may not look into."""

import json
import pathlib
import shutil
import tempfile

TRUTH = (
    "the command takes 0.5 s by its own clock and 1000 faults by getrusage, which wait4 confirms; perf's events end at the exec "
    "(perf stat without root: 0 faults), so what they would have told is not known"
)

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]


def places(w):
    """A folder that everybody may run programs in, and one that nobody may write into."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="world-setuid-", dir="/var/tmp"))
    folder.chmod(0o755)
    place = folder / "place"
    place.mkdir()
    place.chmod(0o777)
    shutil.copy(w.binary, folder / "pagelab")
    return folder, place


def measured(w, folder, place, kind, prepare):
    program = folder / kind
    shutil.copy(w.work / "05-setuid-without-root", program)
    program.chmod(0o755)
    prepare(program)
    recording = place / f"{kind}.rec"
    done = w.run(*NOBODY, folder / "pagelab", "record", "-o", recording, "--", program, "0.5", "1000", cwd=place)
    words = done.stdout.split()
    truth = {name: float(number) for name, number in zip(words[::2], words[1::2])}
    w.expect("record as root" in done.stderr and "not complete" in done.stderr, f"{kind}: {done.stderr}")
    summary = w.run(*NOBODY, folder / "pagelab", "show", recording, "summary", "--json", cwd=place).stdout
    view = json.loads(summary)
    elapsed = view["overview"]["elapsed_ns"] / 1e9
    w.expect(truth["seconds"] <= elapsed < truth["seconds"] + 5, f"{kind}: {truth['seconds']} s by its own clock, elapsed {elapsed:.6f} s")
    w.expect(not view["complete"] and "setuid" in view["incomplete_reason"], f"{kind}: complete {view['complete']}")
    kinds = (view["faults"] or {"kinds": {}})["kinds"]
    w.expect(not kinds, f"{kind}: faults are not known, found {kinds}")
    states = {probe["name"]: probe["state"] for probe in view["probes"]}
    w.expect(states["faults"] == "refused" and states["cpu"] == "refused", f"{kind}: {states}")
    w.expect(view["overview"]["minor_faults"] >= truth["faults"] - 200, f"{kind}: wait4's faults {view['overview']['minor_faults']}, {truth}")


def run(w):
    w.needs("setpriv", "setcap")
    w.compile("05-setuid-without-root")
    folder, place = places(w)
    try:
        measured(w, folder, place, "setuid", lambda program: program.chmod(0o4755))
        measured(w, folder, place, "unreadable", lambda program: program.chmod(0o711))
        measured(w, folder, place, "capable", lambda program: w.run("setcap", "cap_net_raw+ep", program))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
