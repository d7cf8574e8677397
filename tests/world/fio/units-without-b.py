"""Ki, Mi and Gi without a b behind them, in both bases."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from _both import same

TRUTH = "fio 3.33 reads Ki as K: 64Ki is 65536 bytes with kb_base=1024 and 64000 with kb_base=1000; only KiB turns around"


def run(w):
    for number, words in enumerate(
        ("--bs=64Ki --size=1024Ki", "--bs=64KiB --size=6400KiB", "--kb_base=1000 --bs=64ki --size=1Mi", "--kb_base=1000 --bs=64kib --size=1mib")
    ):
        same(w, str(number), ["--name=a", "--ioengine=null", "--rw=write", *words.split()])
