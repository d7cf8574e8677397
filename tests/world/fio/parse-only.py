"""`--parse-only` on a machine that has neither file nor device."""

TRUTH = "fio --parse-only ends with 0: the job is well formed; a misspelt word is none"

JOB = """[rand-read-bw]
readwrite=randread
filename=/not/here/yet
ioengine=libaio
direct=1
bs=128k
iodepth=64
time_based=1
runtime=5s
"""


def run(w):
    w.needs("fio")
    job = w.work / "job.fio"
    for text, good in ((JOB, True), (JOB + "offset=25%\n", True), (JOB.replace("randread", "rnadread"), False)):
        job.write_text(text)
        theirs = w.run("fio", "--parse-only", job, status=None).returncode
        ours = w.pagelab("run", "--parse-only", job, status=None).returncode
        w.expect((theirs == 0) == good and (ours == 0) == good, f"fio {theirs}, pagelab {ours} for {text}")
