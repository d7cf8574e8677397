"""Files with the symbols of a stripped program, where gdb and perf look for them."""

import os
import pathlib
import re
import shutil

TRUTH = "alpha has 75 % and beta 24 % (the program before it was stripped); gdb finds each of these files"


def named(w, name, *command):
    leaves = w.record(*command, name=name).leaves()
    found = (leaves.get("alpha", 0), leaves.get("beta", 0))
    w.expect(found[0] > 50 and found[1] > 8, f"{name}: found {dict(list(leaves.items())[:4])}, needed alpha 75 %, beta 24 %")


def root_folder(w, name, program):
    """A root with the program and what it needs to run."""
    root = w.work / name
    for file in ["/lib64/ld-linux-x86-64.so.2", *re.findall(r"=> (/\S+)", w.run("ldd", program).stdout)]:
        place = root / file.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)
    (root / "opt").mkdir()
    shutil.copy(program, root / "opt/linked")
    return root


def run(w):
    whole = w.compile("linked", "-g", f"-DUNIQUE={os.getpid()}", "-Wl,--build-id=0x" + "%040x" % int.from_bytes(os.urandom(20)), source="named_work.c")
    w.run("objcopy", "--only-keep-debug", whole, "linked.debug")
    w.run("strip", "-s", whole)
    plain = w.work / "plain"
    shutil.copy(whole, plain)
    w.run("objcopy", "--add-gnu-debuglink=linked.debug", whole)
    debug = w.work / ".debug"
    debug.mkdir()
    (w.work / "linked.debug").rename(debug / "linked.debug")
    named(w, "beside", whole, 0.3)

    build_id = re.search(r"Build ID: ([0-9a-f]+)", w.run("readelf", "-n", plain).stdout)[1]
    by_id = pathlib.Path("usr/lib/debug/.build-id") / build_id[:2] / f"{build_id[2:]}.debug"
    host = pathlib.Path("/") / by_id
    made = [folder for folder in list(host.parents)[:4] if not folder.exists()]
    host.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copy(debug / "linked.debug", host)
        named(w, "id", plain, 0.3)
        others = w.work / "others"
        others.mkdir()
        shutil.copy(whole, others / "linked")
        for path in (others, others / "linked"):
            os.chown(path, 65534, 65534)
        (others / "linked").chmod(0o775)
        named(w, "other-user", others / "linked", 0.3)
        root = root_folder(w, "by-host", whole)
        named(w, "host-of-root", "chroot", root, "/opt/linked", 0.3)
    finally:
        host.unlink(missing_ok=True)
        for folder in made:
            folder.rmdir()

    root = root_folder(w, "by-id", plain)
    (root / by_id).parent.mkdir(parents=True)
    shutil.copy(debug / "linked.debug", root / by_id)
    named(w, "root-id", "chroot", root, "/opt/linked", 0.3)
    root = root_folder(w, "by-link", whole)
    place = root / "usr/lib/debug/opt/linked.debug"
    place.parent.mkdir(parents=True)
    shutil.copy(debug / "linked.debug", place)
    named(w, "root-link", "chroot", root, "/opt/linked", 0.3)

    # Another build's file is refused, and the view says so.
    shutil.copy(w.compile("stale", "-g", "-Wl,--build-id=none", source="named_work.c"), debug / "linked.debug")
    recording = w.record(whole, 0.3, name="stale")
    w.expect("alpha" not in recording.leaves(), "the symbols of another build were taken")
    reasons = [row["reasons"] for row in recording.show("profile")["unnamed"] if row["module"] == str(whole)]
    w.expect("another build" in str(reasons), f"found {reasons}, needed that the file is of another build")
    text = recording.text("profile")
    w.expect("NO SYMBOL" in text and "of another build" in " ".join(text.split()), f"found {text}")
