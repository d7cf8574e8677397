#!/usr/bin/env python3
"""Records the cases that every test run replays (crates/analysis/tests/zoo_replay.rs), and packs them small.

    tests/zoo/keep.py PAGELAB DIR [CASE...]        as root, with a Python that has pyarrow (target/dataframes/bin/python)

Without names all are recorded anew. A case is some runs of each side. Of the settings only the namespaces that rules look at are kept,
and of the kernel's build options none: they are most of a short recording. `kept/truth.json` says what was planted.
"""

import json
import pathlib
import shutil
import subprocess
import sys

from pyarrow import parquet

import zoo
from cases import KSM, QUEUE, THP, Side, programs, toggled, work

HERE = pathlib.Path(__file__).resolve().parent
RUNS = 5
LEFT_OUT = ("kconfig.", "sysctl.net.", "sysctl.kernel.sched_domain", "block.loop", "irq.")


def cases():
    spin = work("spin", ops=30, thread_us=10000)
    yield "thp", "thp.disabled", toggled(work("anon", ops=20, spin_us=8000), f"{THP}/enabled", "always", "never")
    cold = work("read", ops=2, file="{dir}/work.data", bytes=64 << 20, bs=16384, spin_us=60000, cold=1)
    yield "readahead", "readahead.reduced", toggled(cold, f"{QUEUE}/read_ahead_kb", "1024", "16")
    yield "quota", "cpu.quota", (Side(spin, limits={"cpu.max": "max 20000"}), Side(spin, limits={"cpu.max": "14000 20000"}))
    yield "sync", "sync.more", programs(work("write", ops=60, file="{dir}/w", bytes=65536, spin_us=4000),
                                        work("write", ops=60, file="{dir}/w", bytes=65536, spin_us=4000, sync=1))
    # A setting differs and has nothing to do with it: the program does more.
    yield "more", "", (Side(spin, settings={f"{THP}/enabled": "always", f"{KSM}/run": "0"}),
                       Side(work("spin", ops=30, thread_us=14000), settings={f"{THP}/enabled": "never", f"{KSM}/run": "0"}))
    yield "alike", "", (Side(spin), Side(spin))


def thinned(folder):
    for path in folder.glob("*/*/settings/*.parquet"):
        table = parquet.read_table(path)
        rows = [row for row in table.to_pylist() if not row["key"].startswith(LEFT_OUT)]
        parquet.write_table(table.from_pylist(rows, schema=table.schema), path, compression="zstd")
    # A recording of which parts were taken is not whole any more: it is kept as one of before there were lists of parts.
    for path in folder.glob("*/*/manifest.json"):
        manifest = json.loads(path.read_text())
        for name in ("parts", "checksum"):
            manifest.pop(name, None)
        path.write_text(json.dumps(manifest))


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    wanted = sys.argv[3:]
    zoo.RUNS = RUNS
    # These cases run the zoo's own program and nothing else.
    zoo.PROGRAMS = ()
    place = zoo.Zoo(str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2]).resolve())
    place.prepare()
    kept = HERE / "kept"
    kept.mkdir(exist_ok=True)
    truth = {}
    try:
        for name, cause, (base, test) in cases():
            truth[name] = cause
            if wanted and name not in wanted:
                continue
            folder = place.folder / "kept" / name
            shutil.rmtree(folder, ignore_errors=True)
            with place.left_as_found():
                place.turns(base, test, folder)
            thinned(folder)
            subprocess.run(["tar", "-C", folder, "--sort=name", "--owner=0", "--group=0", "-cJf", kept / f"{name}.tar.xz", "base", "test"], check=True)
            print(f"{name}: {(kept / f'{name}.tar.xz').stat().st_size >> 10} KiB", flush=True)
    finally:
        place.close()
    (kept / "truth.json").write_text(json.dumps(truth, indent=2) + "\n")


if __name__ == "__main__":
    main()
