"""A size beyond the device's end."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from _both import ran

TRUTH = "fio works on what is there: 16 MiB of a loop device of 16 MiB, for size=32m"


def run(w):
    w.needs("fio", "losetup")
    image = w.work / "image"
    with image.open("wb") as file:
        file.truncate(16 << 20)
    device = w.run("losetup", "--find", "--show", image).stdout.strip()
    try:
        for rw in ("write", "randread"):
            words = ["--name=d", f"--filename={device}", f"--rw={rw}", "--bs=1m", "--size=32m"]
            found = []
            for program in ("fio", "pagelab"):
                more = ["--allow-write", device] if program == "pagelab" else []
                job, _ = ran(w, program, [*words, *more], w.work / program)
                found.append([(job[key]["total_ios"], job[key]["io_bytes"]) for key in ("read", "write")])
            w.expect(found[0] == found[1], f"{rw}: fio {found[0]}, pagelab {found[1]}")
    finally:
        w.run("losetup", "--detach", device)
