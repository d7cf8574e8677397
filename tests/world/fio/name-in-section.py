"""`name=` in a section is what the report says; files are called after the section."""

import json

TRUTH = "fio 3.33 lays out job1.0.0 for [job1] with name=read_iops, and reports read_iops"

JOB = "[job1]\nname=read_iops\nrw=randread\nbs=4k\nsize=256k\n[job2]\nname=read_iops\nrw=read\nsize=64k\nnrfiles=2\nstonewall\n"


def run(w):
    w.needs("fio")
    made, called = {}, {}
    for name, program in {"fio": ["fio"], "pagelab": [w.binary, "run", "-q"]}.items():
        place = w.work / name
        place.mkdir()
        (place / "j.fio").write_text(JOB)
        text = w.run(*program, "--output-format=json", "j.fio", cwd=place).stdout
        called[name] = [job["jobname"] for job in json.loads(text[text.index("{") :])["jobs"]]
        made[name] = sorted(path.name for path in place.iterdir())
    w.expect(made["pagelab"] == made["fio"], f"files: {made}")
    w.expect(called["pagelab"] == called["fio"], f"names: {called}")
    text = w.run(w.binary, "run", "-q", "--section=job2", "--output-format=json", "j.fio", cwd=w.work / "pagelab").stdout
    w.expect(json.loads(text)["jobs"][0]["read"]["total_ios"] == 16, "a section is chosen by its own name")
