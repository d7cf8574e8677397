"""`size=0` and `size=100%%`: the whole file."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from _both import same

TRUTH = "fio reads all 1024 blocks of a file of 4 MiB"


def run(w):
    def prepare(place):
        (place / "data").write_bytes(bytes(4 << 20))

    for number, size in enumerate(("0", "0%", "100%%", "100%")):
        same(w, str(number), ["--name=a", "--filename=data", "--rw=randread", "--bs=4k", f"--size={size}"], prepare)
