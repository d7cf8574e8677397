"""A job under fio and under pagelab, for the cases here."""

import json


def ran(w, program, words, place, status=0):
    """The first job of the JSON that a program prints, and its words on standard error."""
    place.mkdir(exist_ok=True)
    command = ["fio"] if program == "fio" else [w.binary, "run", "-q"]
    done = w.run(*command, "--output-format=json", *words, cwd=place, status=status)
    text = done.stdout
    return json.loads(text[text.index("{") :])["jobs"][0], done.stderr


def same(w, name, words, prepare=lambda place: None):
    """Operations and bytes by direction, which both programs must tell alike."""
    w.needs("fio")
    found = {}
    for program in ("fio", "pagelab"):
        place = w.work / f"{name}-{program}"
        place.mkdir()
        prepare(place)
        job, _ = ran(w, program, words, place)
        found[program] = [(job[key]["total_ios"], job[key]["io_bytes"]) for key in ("read", "write", "trim")]
    w.expect(found["pagelab"] == found["fio"], f"{' '.join(words)}: {found}")
    w.expect(sum(ios for ios, _ in found["fio"]) > 0, f"{' '.join(words)}: nothing was done")
