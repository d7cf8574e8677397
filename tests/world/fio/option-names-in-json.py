"""`job options` of the JSON carry fio's first names, which fio-plot looks for."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from _both import ran

TRUTH = "fio 3.33 writes rw, bs, ba, iodepth_batch, nrfiles, mem, steadystate and so on, whichever alias a job uses"

WORDS = (
    "--name=x --readwrite=randread --blocksize=4k --size=4m --iodepth=4 --ioengine=null --blockalign=8k --ss=iops:10% --ss_dur=1s "
    "--iodepth_batch_submit=2 --iodepth_batch_complete=1 --nr_files=2 --iomem=malloc --mem_align=4k --io_limit=2m --fileoffset=0 "
    "--timeout=5 --ratemin=1 --ratecycle=100 --disable_bw=0"
)


def run(w):
    w.needs("fio")
    theirs, ours = (ran(w, program, WORDS.split(), w.work / program)[0]["job options"] for program in ("fio", "pagelab"))
    w.expect(ours == theirs, f"fio: {theirs}; pagelab: {ours}")
