"""Engines that public job files name beyond the usual: the same amounts as with fio."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from _both import same

TRUTH = "fio's own operations and bytes for the same jobs"

JOBS = (
    "--ioengine=posixaio --rw=randread --size=1m --bs=16k --iodepth=8",
    "--ioengine=falloc --rw=randtrim --size=1m --bs=64k",
    "--ioengine=splice --rw=randread --size=1m --bs=16k",
    "--ioengine=filecreate --rw=write --filesize=4k --bs=4k --nrfiles=20 --openfiles=1",
    "--ioengine=filestat --rw=read --filesize=4k --bs=4k --nrfiles=20",
    "--filename=/dev/null --rw=write --size=1m --bs=64k",
    "--filename=/dev/zero --rw=read --size=1m --bs=64k",
)


def run(w):
    for number, words in enumerate(JOBS):
        same(w, str(number), ["--name=j", *words.split()])
