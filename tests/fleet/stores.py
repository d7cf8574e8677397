#!/usr/bin/env python3
"""Recordings in a real object store, with everything that goes wrong between: tests/fleet/stores.py PAGELAB FLEET SERVER [full]   (root)

PAGELAB and FLEET are the programs `pagelab` and `pagelab-fleet`, SERVER is `s3s-fs` (make test-fleet builds all three). The store runs on
loopback behind proxy.py. `full` keeps it away for ten minutes during a recording, else for 20 s.
"""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from proxy import Proxy

KEY, SECRET = "pagelab-test", "not-a-secret"
# 2,000 pages are touched again and again; the numbers of a run are its own.
FAULTS = """import mmap, sys, time
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    block = mmap.mmap(-1, 2000 * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    block.madvise(mmap.MADV_NOHUGEPAGE)
    for at in range(0, 2000 * 4096, 4096): block[at] = 1
    block.close()
    time.sleep(0.01)"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Place:
    """A store with one bucket, a proxy in front of it, and an environment that speaks to it."""

    def __init__(self, pagelab, fleet, server, folder):
        self.folder = folder
        self.bucket = folder / "store" / "bench"
        self.bucket.mkdir(parents=True)
        programs = folder / "bin"
        programs.mkdir()
        self.pagelab, self.fleet = programs / "pagelab", programs / "pagelab-fleet"
        # Copies: pagelab looks for its companion beside the file that it is.
        shutil.copy(pagelab, self.pagelab)
        shutil.copy(fleet, self.fleet)
        port = free_port()
        words = [server, "--host", "127.0.0.1", "--port", str(port), "--access-key", KEY, "--secret-key", SECRET, str(folder / "store")]
        self.server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if self.server.poll() is not None:
                raise SystemExit(f"{server} ended with {self.server.returncode}")
            time.sleep(0.05)
        self.proxy = Proxy(port)
        self.env = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(folder / "home"), "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET,
                    "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.proxy.port}"}
        (folder / "home").mkdir()

    def start(self, *words, **env):
        return subprocess.Popen([str(word) for word in words], env={**self.env, **env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)

    def run(self, *words, status=0, **env):
        process = self.start(*words, **env)
        out, err = process.communicate(timeout=1500)
        assert process.returncode == status, f"{words}: status {process.returncode}, needed {status}\n{out}\n{err}"
        return out, err

    def record(self, url, seconds):
        return self.start(self.pagelab, "record", "-o", url, "--observe", "default", "--", "/usr/bin/python3", "-c", FAULTS, seconds)

    def check(self, url):
        """The recording at the URL is whole, and has every fault that was seen: gives their number."""
        self.run(self.pagelab, "check", url)
        rows = json.loads(self.run(self.pagelab, "query", "--format", "json", url, "SELECT count(*) AS n FROM faults")[0])[0]["n"]
        loss = json.loads(self.run(self.pagelab, "show", url, "loss", "--json")[0])
        faults = next(one for one in loss["totals"] if one["stream"] == "faults")
        assert faults["lost"] == 0 and faults["seen"] - faults["filtered"] == rows > 2000, (faults, rows)
        return rows

    def spools(self):
        spool = pathlib.Path(self.env["HOME"], ".cache/pagelab/spool")
        return sorted(path for path in spool.glob("*") if path.is_dir()) if spool.exists() else []

    def close(self):
        self.server.kill()
        self.server.wait()


def ended(process, status=0):
    out, err = process.communicate(timeout=1500)
    assert process.returncode == status, f"status {process.returncode}, needed {status}\n{out}\n{err}"
    return out + err


def there_and_back(place):
    ended(place.record("s3://bench/plain", 2))
    rows = place.check("s3://bench/plain")
    assert not place.spools(), "the spool goes when everything is in the store"
    shown = place.run(place.pagelab, "show", "s3://bench/plain", "faults")[0]
    assert "faults" in shown
    return f"{rows} faults"


def sets_are_made_and_compared_there(place):
    place.run(place.pagelab, "compare", "-n", "3", "-o", "s3://bench/set", "--", "true", "sleep 0.05")
    compared = json.loads(place.run(place.pagelab, "compare", "--json", "s3://bench/set")[0])
    one = compared["comparisons"][0] if "comparisons" in compared else compared
    assert one["primary"]["verdict"] == "worse", one["primary"]
    assert len(list(place.bucket.glob("set/variant=*/run=*/manifest.json"))) == 6
    return "3 and 3 runs"


def faults_of(fault):
    def case(place):
        place.proxy.fault, before = fault, place.proxy.failed
        ended(place.record(f"s3://bench/{fault}", 3))
        place.proxy.fault = "none"
        return f"{place.check(f's3://bench/{fault}')} faults, {place.proxy.failed - before} requests failed"

    return case


def away(seconds):
    def case(place):
        recording = place.record("s3://bench/away", seconds / 2 + 4)
        time.sleep(3)
        place.proxy.fault = "away"
        time.sleep(seconds)
        assert not list(place.bucket.glob("away/*/compact*"))
        place.proxy.fault = "none"
        ended(recording)
        return f"{place.check('s3://bench/away')} faults, {seconds} s away"

    return case


def what_the_user_must_mend(fault, words):
    def case(place):
        place.proxy.fault = fault
        said = ended(place.record(f"s3://bench/{fault}", 1), status=125)
        place.proxy.fault = "none"
        assert all(word in said for word in words), said
        [spool] = place.spools()
        # As the message says.
        place.run(place.fleet, "upload", spool, f"s3://bench/{fault}")
        shutil.rmtree(spool)
        return f"{place.check(f's3://bench/{fault}')} faults, after it was mended"

    return case


def killed_recorder(place):
    recording = place.record("s3://bench/killed", 60)
    time.sleep(4)
    os.kill(recording.pid, signal.SIGKILL)
    recording.wait()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and subprocess.run(["pgrep", "-f", f"{place.fleet} upload"], stdout=subprocess.DEVNULL).returncode == 0:
        time.sleep(0.2)
    subprocess.run(["pkill", "-f", "while time.monotonic"], check=False)
    rows = json.loads(place.run(place.pagelab, "query", "--format", "json", "s3://bench/killed", "SELECT count(*) AS n FROM faults")[0])[0]["n"]
    local = json.loads(place.run(place.pagelab, "query", "--format", "json", place.spools()[0], "SELECT count(*) AS n FROM faults")[0])[0]["n"]
    assert rows == local > 2000, (rows, local)
    shutil.rmtree(place.spools()[0])
    return f"{rows} faults, as many as on disk"


def killed_uploader(place):
    recording = place.record("s3://bench/resumed", 6)
    time.sleep(3)
    subprocess.run(["pkill", "-KILL", "-f", f"{place.fleet} upload"], check=False)
    said = ended(recording, status=125)
    assert "pagelab-fleet upload" in said, said
    [spool] = place.spools()
    copied = place.run(place.fleet, "upload", spool, "s3://bench/resumed")[0]
    again = place.run(place.fleet, "upload", spool, "s3://bench/resumed")[0]
    assert " 0 files " in again, again
    shutil.rmtree(spool)
    return f"{place.check('s3://bench/resumed')} faults; {copied.strip()}"


def wrong_words(place):
    wrong = [
        (("show", "s3://nowhere/x"), {}, 2, ["not found", "s3://nowhere/x"]),
        (("show", "s3://bench/nothing-here"), {}, 2, ["no recording"]),
        (("show", "s3://bench/plain"), {"AWS_SECRET_ACCESS_KEY": "wrong"}, 2, ["credentials", "s3://bench/plain"]),
        (("record", "-o", "s3://bench/plain", "--", "true"), {}, 125, ["another recording", "nothing was overwritten"]),
    ]
    for words, env, status, needed in wrong:
        err = place.run(place.pagelab, *words, status=status, **env)[1]
        assert all(word in err for word in needed), (words, err)
    for spool in place.spools():
        shutil.rmtree(spool)
    place.check("s3://bench/plain")
    return f"{len(wrong)} mistakes"


def main():
    if len(sys.argv) not in (4, 5) or os.geteuid() != 0:
        raise SystemExit(__doc__)
    pagelab, fleet, server = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:4])
    is_full = sys.argv[4:] == ["full"]
    cases = {"there and back": there_and_back, "a set": sets_are_made_and_compared_there, **{fault: faults_of(fault) for fault in ("errors", "throttled", "slow", "reset")},
             "away": away(600 if is_full else 20), "expired credentials": what_the_user_must_mend("expired", ["ExpiredToken"]),
             "a full bucket": what_the_user_must_mend("full", ["QuotaExceeded"]), "a killed recorder": killed_recorder,
             "a killed uploader": killed_uploader, "wrong words": wrong_words}
    failed = 0
    with tempfile.TemporaryDirectory(prefix="pagelab-fleet-") as folder:
        place = Place(pagelab, fleet, server, pathlib.Path(folder))
        try:
            for name, case in cases.items():
                began = time.monotonic()
                try:
                    print(f"{name}: ok, {case(place)} ({time.monotonic() - began:.0f} s)", flush=True)
                except Exception as error:
                    failed += 1
                    place.proxy.fault = "none"
                    print(f"{name}: FAILED: {type(error).__name__}: {error}", flush=True)
                    for spool in place.spools():
                        shutil.rmtree(spool)
        finally:
            place.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
