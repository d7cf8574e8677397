"""A job's name that is a path, and folders that are not there (many one-line guides: `--name=/mnt/x/test`)."""

TRUTH = "fio makes ep/h/host-0.0.0 and new/folder/f with the folders above them; a directory= that is not there is refused"


def run(w):
    w.needs("fio")
    for program, command in {"fio": ["fio"], "pagelab": [w.binary, "run", "-q"]}.items():
        place = w.work / program
        place.mkdir()
        (place / "job.fio").write_text("[ep/h/host-0]\nrw=write\nbs=64k\nsize=1m\n")
        w.run(*command, "job.fio", cwd=place)
        w.run(*command, "--name=j", "--rw=write", "--bs=64k", "--size=1m", "--filename=new/folder/f", cwd=place)
        for name in ("ep/h/host-0.0.0", "new/folder/f"):
            path = place / name
            w.expect(path.exists() and path.stat().st_size == 1 << 20, f"{program} makes no {name}")
        done = w.run(*command, "--name=j", "--rw=write", "--size=1m", "--directory=not/there", cwd=place, status=None)
        w.expect(done.returncode != 0 and not (place / "not").exists(), f"{program} takes a directory that is not there")
