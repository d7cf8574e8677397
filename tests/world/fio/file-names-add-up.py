"""`filename=` given more than once (public: files of nvmf scripts, a report of lost files)."""

TRUTH = "each filename= adds files, also what a section says to what [global] says: fio writes 16 blocks into each of x, y and z"

JOB = """[global]
filename=x
[a]
rw=write
bs=64k
size=3m
filename=y
filename=z
"""


def run(w):
    w.needs("fio")
    for program, command in {"fio": ["fio"], "pagelab": [w.binary, "run", "-q"]}.items():
        place = w.work / program
        place.mkdir()
        (place / "job.fio").write_text(JOB)
        w.run(*command, "job.fio", cwd=place)
        found = {path.name: path.stat().st_size for path in place.iterdir() if path.name != "job.fio"}
        w.expect(found == {"x": 1 << 20, "y": 1 << 20, "z": 1 << 20}, f"{program}: {found}")
