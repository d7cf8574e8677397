"""Writes and the reads that verify them are reported over their own times."""

import json

TRUTH = "fio 3.33 reports about 1000 ms for writes at rate=,4m of 4 MiB and some ms for the reads, in the same run"

JOB = "--name=v --filename=v --rw=write --bs=64k --size=4m --rate=,4m --verify=crc32c --output-format=json"


def times(text):
    job = json.loads(text[text.index("{") :])["jobs"][0]
    return job["write"]["runtime"], job["read"]["runtime"], job["read"]["total_ios"]


def run(w):
    w.needs("fio")
    for name, program in {"fio": ["fio"], "pagelab": [w.binary, "run", "-q"]}.items():
        place = w.work / name
        place.mkdir()
        writing, reading, reads = times(w.run(*program, *JOB.split(), cwd=place).stdout)
        w.expect(reads == 64, f"{name} verifies {reads} blocks, needed 64")
        w.expect(writing > 950 and reading < 400, f"{name}: write {writing} ms, read {reading} ms")
