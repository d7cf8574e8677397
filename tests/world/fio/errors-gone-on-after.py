"""A surface scan counts what is wrong and goes on, and says so where programs look."""

import json

TRUTH = "fio 3.33: error 84, total_err 4, first_error 84; the terse line ends in ;4;84; err=84 and errors : total=4 in the text"

SCAN = "--thread --bs=64k --verify=meta --verify_pattern=0xaaff --verify_interval=512 --size=1m --filename=scan"


def run(w):
    w.needs("fio")
    w.pagelab("run", "-q", "--name=write", "--rw=write", "--do_verify=0", *SCAN.split(), "--output-format=json")
    with open(w.work / "scan", "r+b") as file:
        for sector in (123, 300, 700, 1500):
            file.seek(512 * sector)
            file.write(b"\x5a" * 512)
    words = ["--name=verify", "--rw=read", "--continue_on_error=verify", *SCAN.split(), "--output-format=json,normal,terse"]
    said = {}
    for name, program in {"fio": ["fio"], "pagelab": [w.binary, "run", "-q"]}.items():
        done = w.run(*program, *words, status=None)
        text = "\n" + done.stdout
        begin, end = text.index("\n{\n"), text.index("\n}\n")
        job = json.loads(text[begin : end + 2])["jobs"][0]
        terse = next(line for line in text.splitlines() if line.startswith("3;fio-")).split(";")
        errors = next(line for line in text.splitlines() if "errors    :" in line).strip()
        said[name] = (job["error"], job["total_err"], job["first_error"], terse[4], terse[-2:], "err=84" in text, errors)
    w.expect(said["pagelab"] == said["fio"], f"pagelab says {said['pagelab']}, fio {said['fio']}")
    w.expect(said["fio"][:3] == (84, 4, 84), f"fio says {said['fio']}")
    # The command fails, which fio's does not: contents that are wrong are never a success.
    done = w.pagelab("run", *words, status=1)
    w.expect("bad magic" in done.stderr or "magic" in done.stdout or done.stderr, "standard error says nothing of it")
