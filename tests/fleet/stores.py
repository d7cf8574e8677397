#!/usr/bin/env python3
"""Recordings in a real object store, with everything that goes wrong between: tests/fleet/stores.py PAGELAB FLEET SERVER [full]   (root)

PAGELAB and FLEET are the programs `pagelab` and `pagelab-fleet`, SERVER is `s3s-fs` (make test-fleet builds all three). The store runs on
loopback behind proxy.py. `full` keeps it away for ten minutes during a recording, else for 20 s or the environment's AWAY_S seconds.
CASES names the cases to run, separated by commas; some need those before them.
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
    time.sleep(float(sys.argv[2]))"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def await_port(process, port):
    """Waits until the process answers at that port of loopback; one that ends or takes half a minute is a failure."""
    end = time.monotonic() + 30
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit(f"{process.args}: no port {port}; status {process.poll()}")


def served(server, folder, **how):
    """An S3 server on loopback whose buckets are the folders of `folder`: its process, once it answers, and its port."""
    port = free_port()
    words = [server, "--host", "127.0.0.1", "--port", str(port), "--access-key", KEY, "--secret-key", SECRET, str(folder)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **how)
    await_port(process, port)
    return process, port


def environment(port):
    """What has a program speak to the server at this port."""
    return {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}


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
        self.server, port = served(server, folder / "store")
        self.proxy = Proxy(port)
        self.env = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(folder / "home"), **environment(self.proxy.port)}
        (folder / "home").mkdir()

    def start(self, *words, **env):
        return subprocess.Popen([str(word) for word in words], env={**self.env, **env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)

    def run(self, *words, status=0, **env):
        process = self.start(*words, **env)
        out, err = process.communicate(timeout=1500)
        assert process.returncode == status, f"{words}: status {process.returncode}, needed {status}\n{out}\n{err}"
        return out, err

    def record(self, url, seconds, pause_s=0.01, **env):
        program = ["/usr/bin/python3", "-c", FAULTS, seconds, pause_s]
        return self.start(self.pagelab, "record", "-o", url, "--observe", "default", "--", *program, **env)

    def faults(self, url):
        """Rows of faults in the recording, and what `loss` says of them."""
        rows = json.loads(self.run(self.pagelab, "query", "--format", "json", url, "SELECT count(*) AS n FROM faults")[0])[0]["n"]
        loss = json.loads(self.run(self.pagelab, "show", url, "loss", "--json")[0])
        return rows, next(one for one in loss["totals"] if one["stream"] == "faults")

    def listed(self, url, *words, status=0):
        """What `pagelab-fleet ls --json` says, recordings by name."""
        found = json.loads(self.run(self.fleet, "ls", url, "--json", *words, status=status)[0])
        return {one["name"]: one for one in found["recordings"]}, found

    def check(self, url):
        """The recording at the URL is whole, and has every fault that was seen: gives their number."""
        self.run(self.pagelab, "check", url)
        rows, faults = self.faults(url)
        assert faults["lost"] == 0 and faults["seen"] - faults["filtered"] == rows > 2000, (faults, rows)
        return rows

    def listed_in_bucket(self, folder, name):
        return [path for path in (self.bucket / folder).rglob(name)]

    @staticmethod
    def parts(folder):
        """Bytes of the parts in a folder but those of `loss`, which are beyond the bound of a spool. They come and go."""
        total = 0
        for path in folder.glob("*/part-*.parquet"):
            try:
                total += path.stat().st_size if path.parent.name != "loss" else 0
            except FileNotFoundError:
                pass
        return total

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
        # All of it happens while it is recorded. The bound is that of a host with 16 GB free, whatever this one has.
        recording = place.record("s3://bench/away", seconds + 6, PAGELAB_SPOOL_BYTES="4G")
        time.sleep(3)
        place.proxy.fault = "away"
        time.sleep(seconds)
        assert recording.poll() is None, "it is recorded"
        assert place.listed_in_bucket("away", "manifest.json"), "its place was taken before"
        place.proxy.fault = "none"
        ended(recording)
        return f"{place.check('s3://bench/away')} faults, 0 lost, {seconds} s away"

    return case


def larger_than_its_spool(place):
    bound = 2 << 20
    recording = place.record("s3://bench/large", 15, PAGELAB_SPOOL_BYTES=str(bound))
    largest = 0
    while recording.poll() is None:
        largest = max(largest, sum(place.parts(spool) for spool in place.spools()))
        time.sleep(0.2)
    ended(recording)
    held = place.parts(place.bucket / "large")
    rows = place.check("s3://bench/large")
    assert held > bound >= largest, f"the spool held {largest} bytes, the store {held}: more than {bound} bytes need to be recorded"
    assert not place.spools()
    return f"{rows} faults, 0 lost; {held} bytes through a spool of {bound}, which held at most {largest}"


def away_with_a_full_spool(place):
    bound = 1 << 20
    # Without a pause: what waits to be written must overflow on a busy machine, too.
    recording = place.record("s3://bench/overflow", 40, pause_s=0, PAGELAB_SPOOL_BYTES=str(bound))
    time.sleep(3)
    place.proxy.fault = "away"
    time.sleep(32)
    largest = max(place.parts(spool) for spool in place.spools())
    place.proxy.fault = "none"
    said = ended(recording)
    rows, faults = place.faults("s3://bench/overflow")
    manifest = json.loads((place.bucket / "overflow/manifest.json").read_text())
    dropped = manifest["rows_dropped"]["faults"]
    assert faults["lost"] >= dropped > 0, (faults, manifest["rows_dropped"])
    assert rows == faults["seen"] - faults["filtered"] - faults["lost"], (rows, faults)
    assert largest <= bound, largest
    assert not manifest["complete"] and "spool" in manifest["incomplete_reason"], manifest["incomplete_reason"]
    assert "spool" in said, said
    return f"{rows} faults of {faults['seen'] - faults['filtered']}, {faults['lost']} lost and counted; the spool held {largest} of {bound} bytes"


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


def put(place, name, text):
    """An object, as another program would write it."""
    path = place.bucket / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def what_a_list_says(place):
    put(place, "mixed/newer/manifest.json", '{"format": 99, "pagelab_version": "9.9"}')
    put(place, "mixed/cut/manifest.json", '{"format": 1, "host": "a')
    put(place, "mixed/parts/faults/part-0000.parquet", "x")
    ahead = {"format": 1, "host": "fast", "complete": True, "clock": {"start_ns": 1, "realtime_at_start_ns": (int(time.time()) + 86400) * 10**9}}
    put(place, "mixed/ahead/manifest.json", json.dumps(ahead))
    recordings, all_of_it = place.listed("s3://bench")
    states = {name: one["state"] for name, one in recordings.items() if name.startswith("mixed/")}
    assert states == {"mixed/newer": "newer_format", "mixed/cut": "unreadable", "mixed/parts": "no_manifest", "mixed/ahead": "complete"}, states
    plain = recordings["plain"]
    assert plain["state"] == "complete" and plain["host"] == socket.gethostname() and plain["bytes"] > 10_000, plain
    assert abs(plain["begin_ns"] / 1e9 - time.time()) < 3600, plain
    assert recordings["killed"]["state"] == "not_complete", recordings["killed"]
    before, again = place.proxy.requests, place.listed("s3://bench")[1]
    # The listing, and the manifest that could not be read.
    assert again["manifests_read"] == 1 and again["recordings"] == all_of_it["recordings"], again["manifests_read"]
    text = place.run(place.fleet, "ls", "s3://bench/mixed")[0]
    assert "one of the two clocks is wrong" in text and "format 99" in text, text
    # Nothing that cannot be understood is overwritten, and nothing crashes on it.
    for name in ("newer", "cut"):
        kept = (place.bucket / f"mixed/{name}/manifest.json").read_text()
        said = place.run(place.pagelab, "record", "-o", f"s3://bench/mixed/{name}", "--", "true", status=125)[1]
        assert "nothing was overwritten" in said, said
        assert (place.bucket / f"mixed/{name}/manifest.json").read_text() == kept
        said = place.run(place.pagelab, "show", f"s3://bench/mixed/{name}", status=2)[1]
        assert "manifest.json" in said and "panicked" not in said, said
    for spool in place.spools():
        shutil.rmtree(spool)
    return f"{len(recordings)} recordings, {place.proxy.requests - before} requests for the second list"


def half_uploaded(place):
    folder = place.folder / "half"
    place.run(place.pagelab, "record", "-o", folder, "--observe", "default", "--", "/usr/bin/python3", "-c", FAULTS, 1, 0.01)
    place.proxy.fault = "claim"
    place.run(place.fleet, "upload", folder, "s3://bench/half", "--patience", "0", status=1)
    place.proxy.fault = "none"
    state = place.listed("s3://bench/half")[0][""]["state"]
    assert state == "half_uploaded", state
    assert "half-uploaded" in place.run(place.fleet, "ls", "s3://bench/half")[0]
    place.run(place.fleet, "upload", folder, "s3://bench/half")
    assert place.listed("s3://bench/half")[0][""]["state"] == "complete"
    return f"{place.check('s3://bench/half')} faults, after the upload went on"


def hostile_names(place):
    shutil.copytree(place.bucket / "plain", place.bucket / "hostile/plain")
    for name in ("hostile/.ssh/authorized_keys", "hostile/.ssh/manifest.json", "hostile/plain/faults/run.sh", "hostile/plain/.bashrc", "hostile/a\\b/manifest.json"):
        put(place, name, "x")
    folder = pathlib.Path(place.run(place.fleet, "mirror", "s3://bench/hostile")[0].rstrip("\n"))
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert "plain/manifest.json" in found, found
    strange = {name for name in found if not name.startswith((".mirror.", "plain/")) or name.endswith((".sh", ".bashrc"))}
    assert not strange, strange
    place.check("s3://bench/hostile/plain")
    listed = place.listed("s3://bench/hostile")[0]
    assert set(listed) == {"plain"}, listed
    return f"{len(found)} files copied"


def forbidden(place):
    place.proxy.fault = "forbidden"
    for words in (("ls", "s3://bench/plain"), ("mirror", "s3://bench/plain"), ("upload", place.folder / "half", "s3://bench/no")):
        said = place.run(place.fleet, *words, status=1)[1]
        assert "forbids" in said and "needed: permission" in said, (words, said)
    place.proxy.fault = "none"
    for words, needed in ((("ls", "s3://nowhere/x"), "not found"), (("ls", "s3://bench/nothing"), "no recording"), (("ls", "http://bench/x"), "is no store"),
                          (("mirror", "s3://bench/plain", "--days", "march"), "YYYY-MM-DD"), (("mirror", "s3://bench/plain", "--days", ".."), "no compacted fleet")):
        process = place.start(place.fleet, *words)
        out, err = process.communicate(timeout=600)
        assert process.returncode in (1, 2) and needed in err, (words, err)
    return "8 mistakes"


def compacted_fleets(place):
    said = place.run(place.pagelab, "fleet", "compact", "s3://bench/set", "s3://bench/fleet")
    days = sorted((place.bucket / "fleet").glob("day=*"))
    assert days, said
    for day in days:
        document = json.loads((day / "complete.json").read_text())
        assert {name: content["bytes"] for name, content in document["files"].items()} == {path.name: path.stat().st_size for path in day.glob("*.parquet")}
    before = {path: path.stat().st_mtime_ns for day in days for path in day.iterdir()}
    again = place.run(place.pagelab, "fleet", "compact", "s3://bench/set", "s3://bench/fleet")[1]
    assert {path: path.stat().st_mtime_ns for day in days for path in day.iterdir()} == before, again
    summary = json.loads(place.run(place.pagelab, "fleet", "summary", "s3://bench/fleet", "--json")[0])
    listed = place.listed("s3://bench/fleet")[1]
    assert [day["state"] for day in listed["days"]] == ["complete"] * len(days), listed["days"]
    # A question about one day and some tables copies these.
    folder = place.folder / "some"
    place.run(place.fleet, "mirror", "s3://bench/fleet", "--days", days[0].name.removeprefix("day="), "--only", "runs,metrics", "--to", folder)
    assert {path.name for path in folder.glob("day=*/*")} == {"runs.parquet", "metrics.parquet", "complete.json"}
    # Another program replaces a table: known to the list, to a copy, and mended by an upload of the whole.
    place.run(place.fleet, "mirror", "s3://bench/fleet", "--to", place.folder / "whole")
    (days[0] / "metrics.parquet").write_bytes((days[0] / "runs.parquet").read_bytes())
    assert place.listed("s3://bench/fleet")[1]["days"][0]["state"] == "half_replaced"
    said = place.run(place.fleet, "mirror", "s3://bench/fleet", "--to", folder)[1]
    assert "is being replaced" in said, said
    said = place.run(place.pagelab, "fleet", "compact", "s3://bench/plain", "s3://bench/fleet", status=2)[1]
    assert "half-replaced" in said, said
    place.run(place.fleet, "upload", place.folder / "whole", "s3://bench/fleet")
    assert place.listed("s3://bench/fleet")[1]["days"][0]["state"] == "complete"
    return f"{len(days)} days, {len(summary)} keys of a summary"


def main():
    if len(sys.argv) not in (4, 5) or os.geteuid() != 0:
        raise SystemExit(__doc__)
    pagelab, fleet, server = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:4])
    is_full = sys.argv[4:] == ["full"]
    cases = {"there and back": there_and_back, "a set": sets_are_made_and_compared_there, **{fault: faults_of(fault) for fault in ("errors", "throttled", "slow", "reset")},
             "away": away(600 if is_full else int(os.environ.get("AWAY_S", "20"))),
             "larger than its spool": larger_than_its_spool, "away with a full spool": away_with_a_full_spool, "expired credentials": what_the_user_must_mend("expired", ["ExpiredToken"]),
             "a full bucket": what_the_user_must_mend("full", ["QuotaExceeded"]), "a killed recorder": killed_recorder,
             "a killed uploader": killed_uploader, "wrong words": wrong_words, "a half-uploaded recording": half_uploaded, "no permission": forbidden,
             "hostile names": hostile_names, "compacted fleets": compacted_fleets, "a list": what_a_list_says}
    failed = 0
    chosen = os.environ.get("CASES", "").split(",") if os.environ.get("CASES") else list(cases)
    with tempfile.TemporaryDirectory(prefix="pagelab-fleet-") as folder:
        place = Place(pagelab, fleet, server, pathlib.Path(folder))
        try:
            for name, case in ((name, cases[name]) for name in chosen):
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
