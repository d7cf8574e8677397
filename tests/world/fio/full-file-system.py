"""A full file system ends a job that is to go on after errors of writes, unless ENOSPC is listed; the report has the error."""

import json

TRUTH = "fio 3.33: error 28 in each case; exit 1 with continue_on_error=write, 0 with ignore_error=,ENOSPC"

JOB = "--name=e --rw=write --bs=64k --size=8m --fallocate=none --create_on_open=1 --output-format=json"


def run(w):
    w.needs("fio", "mount")
    for more in ("--continue_on_error=write", "--ignore_error=,ENOSPC", "--continue_on_error=all", "--continue_on_error=none"):
        said = {}
        for name, program in {"fio": ["fio"], "pagelab": [w.binary, "run", "-q"]}.items():
            place = w.work / name
            place.mkdir(exist_ok=True)
            w.run("mount", "-t", "tmpfs", "-o", "size=4m", "none", place)
            try:
                done = w.run(*program, *JOB.split(), more, cwd=place, status=None, env={"PATH": "/usr/bin:/bin", "PAGELAB_STATE_DIR": str(w.work / "state"), "HOME": str(w.work)})
            finally:
                w.run("umount", place)
            job = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
            said[name] = (done.returncode, job["error"], job.get("total_err"), job.get("first_error"), job["write"]["io_bytes"])
        w.expect(said["pagelab"] == said["fio"], f"{more}: pagelab says {said['pagelab']}, fio {said['fio']}")
