#!/usr/bin/env python3
"""The agent on a real kernel: tests/agent/agent.py PAGELAB FLEET   (root; two minutes)

PAGELAB and FLEET are the programs `pagelab` and `pagelab-fleet`. CASES=NAME,NAME runs some. What it costs a database, for half an hour:
tests/agent/pgbench.py.
"""

import calendar
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from place import LOAD, Agent, Host, descendants, disk_bytes, gone, manifest, memory_bytes, removed, span_s

ON, EVERY = 2, 5
SHORT = ["--on", ON, "--every", EVERY, "--max-cpu-pct", 100]
FLIGHT = ["--before", 4, "--after", 3, "--trigger-every", 8]


class Place:
    def __init__(self, pagelab, fleet, folder):
        self.folder = folder
        programs = folder / "bin"
        programs.mkdir()
        self.pagelab, self.fleet = programs / "pagelab", programs / "pagelab-fleet"
        # Copies: pagelab looks for its companion beside the file that it is.
        shutil.copy(pagelab, self.pagelab)
        shutil.copy(fleet, self.fleet)

    def dir(self, name):
        removed(self.folder / name)
        return self.folder / name

    def run(self, *words, status=0):
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60)
        assert done.returncode == status, f"{words}: status {done.returncode}, needed {status}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def check(self, recording):
        """The recording is whole: gives its manifest."""
        self.run(self.pagelab, "check", recording)
        document = manifest(recording)
        assert document["complete"], document
        return document

    def query(self, recording, sql):
        return json.loads(self.run(self.pagelab, "query", "--format", "json", recording, sql))


def periods(recordings):
    """The period of each window, by its name: the second in UTC in which it was started. Periods begin on whole seconds."""
    begun = [calendar.timegm(time.strptime(f"{path.parent.name} {path.name[:6]}", "%Y-%m-%d %H%M%S")) for path in recordings]
    return [int((second + 0.5) // EVERY) for second in begun]


def no_period_twice(recordings):
    found = periods(recordings)
    assert len(set(found)) == len(found), (found, recordings)
    return found


def windows_and_triggers(place):
    """Windows as stated, triggered recordings by signal and file, the rate limit, the page of metrics, memory, the manager, the end."""
    folder, keep = place.dir("windows"), place.folder / "keep"
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(place.folder / "notify"))
    manager.setblocking(False)
    env = {"NOTIFY_SOCKET": str(place.folder / "notify"), "WATCHDOG_USEC": "3000000", "SUDO_UID": "1000", "SUDO_GID": "1000", "SUDO_USER": "nobody-has-this-name"}
    agent = Agent(place.pagelab, folder, *SHORT, *FLIGHT, "--trigger", "signal", "--trigger", f"file:{keep}", env=env)
    memory, heard = [], []

    def listen():
        while True:
            try:
                heard.append(manager.recv(1000).decode())
            except BlockingIOError:
                return

    def rest(seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            memory.append(memory_bytes(agent.pid))
            listen()
            time.sleep(0.25)

    rest(7)
    agent.process.send_signal(signal.SIGUSR1)
    fired = time.time()
    rest(1)
    # Within trigger-every of the other, and within its recording.
    keep.write_text("now")
    kept = pathlib.Path(agent.wait_for(r": kept (/\S+)", 15)[0])
    document = place.check(kept)
    assert "triggered by signal, file:" in document["label"] and document["ended_by"] == "sigusr2", document["label"]
    begin, length = span_s(document)
    assert begin < fired - 3 and begin + length > fired + 2.5, f"{begin - fired} to {begin + length - fired} s around the trigger"
    marks = [row["name"] for row in place.query(kept, "SELECT name FROM marks ORDER BY ts")]
    assert marks == ["trigger signal", "trigger file"], marks
    rest(6)
    keep.write_text("again, after the first is kept and trigger-every has passed")
    agent.wait_until(lambda: len(re.findall(r": kept (/\S+)", agent.said())) == 2, 15, "the second recording")
    agent.process.send_signal(signal.SIGUSR1)
    rest(5)
    values = agent.metrics()
    assert values[("triggers_total", "signal")] == 1 and values[("triggers_total", "file")] == 2, values
    windows = agent.recordings()
    agent.process.send_signal(signal.SIGHUP)
    agent.wait_for("configuration is not read again", 5)
    children = descendants(agent.pid)
    agent.wait_until(lambda: len(agent.recordings()) > len(windows), 10, "one more window")
    rest(1)
    seconds = agent.stop()
    assert agent.process.returncode == 0 and seconds < 2, (agent.process.returncode, seconds)
    gone(children)
    last = agent.recordings()[-1]
    document = place.check(last)
    found = no_period_twice(agent.recordings())
    assert found == list(range(found[0], found[-1] + 1)), f"each period has a window: {found}"
    for window in windows[:-1]:
        whole = place.check(window)
        assert whole["label"] == "agent: 2 s of every 5 s (duty cycle 0.4000)", whole["label"]
        assert abs(span_s(whole)[1] - ON) < 0.5 and whole["self_cost"]["bpf_ns"] > 0, whole
    assert abs(values[("duty_cycle_ratio",)] - ON / EVERY) < 1e-9
    assert values[("own_cpu_seconds_total",)] > 0 and values[("bpf_seconds_total",)] > 0 and values[("own_cost_ratio",)] > 0
    assert values[("recordings_total", "complete", "window")] >= len(windows) - 1 and values[("events_lost_total",)] == 0, values
    assert all(path.stat().st_uid == 0 for path in folder.rglob("*")), "nothing is made in the name of who called sudo"
    listen()
    assert heard[0] == "READY=1" and "STOPPING=1" in heard[-2:] and heard.count("WATCHDOG=1") >= 15, heard
    assert any(line.startswith("STATUS=duty cycle 0.400, own cost") for line in heard), heard
    agent_only = [total for total, _ in memory]
    return f"{len(windows)} windows, 2 triggered, memory at most {max(agent_only) >> 20} MiB, ended in {seconds:.2f} s" + ("" if document["ended_by"] == "duration" else ", the last window shorter")


def killed(place):
    """kill -9 of the agent, and of everything at once: nothing twice, nothing lost but the last second."""
    folder = place.dir("killed")
    words = [*SHORT, *FLIGHT, "--trigger", "signal"]
    agent = Agent(place.pagelab, folder, *words)
    agent.wait_until(lambda: len(agent.recordings()) >= 2, 30, "two windows")
    time.sleep(0.8)
    children = descendants(agent.pid)
    killed_at = time.time()
    os.kill(agent.pid, signal.SIGKILL)
    agent.process.wait()
    # At once: its recorders are still closing.
    agent = Agent(place.pagelab, folder, *words)
    gone(children)
    closed = agent.recordings()[-1]
    begin, length = span_s(place.check(closed))
    assert 0 < killed_at - begin < EVERY and abs(begin + length - killed_at) < 0.5, "recorders of a killed agent close what they have"
    left = pathlib.Path(agent.wait_for(r": kept (/\S+-killed\.rec)", 10)[0])
    assert "the end of an agent that was killed" in place.check(left)["label"]
    assert agent.metrics()[("recordings_total", "cut", "window")] == 0
    # Now everything, in the middle of a window.
    count = len(agent.recordings())
    agent.wait_until(lambda: len(agent.recordings()) > count, 15, "a window")
    time.sleep(1.7)
    killed_at = time.time()
    agent.kill_all()
    cut = agent.recordings()[-1]
    document = manifest(cut)
    assert not document["complete"] and document.get("ended_by") is None, document
    clock = document["clock"]
    last_ns = place.query(cut, "SELECT max(ts) AS ts FROM metrics")[0]["ts"]
    behind = killed_at - (clock["realtime_at_start_ns"] + last_ns - clock["start_ns"]) / 1e9
    assert -0.1 < behind < 1.3, f"{behind:.2f} s before the kill are missing"
    agent = Agent(place.pagelab, folder, *words)
    assert f"{cut.parent.name}/{cut.name} was cut" in agent.said(), agent.said()
    assert agent.metrics()[("recordings_total", "cut", "window")] == 1
    count = len(agent.recordings())
    agent.wait_until(lambda: len(agent.recordings()) >= count + 2, 20, "two more windows")
    agent.stop()
    found = no_period_twice(agent.recordings())
    missing = found[-1] - found[0] + 1 - len(found)
    assert missing <= 2, f"{missing} periods are missing: {found}"
    flights = len(agent.recordings("triggered/*.rec"))
    assert flights == 2, f"{flights} flight recordings were kept, needed one of each kill"
    # A start after that counts nothing again.
    agent = Agent(place.pagelab, folder, *words)
    again = agent.metrics()[("recordings_total", "cut", "window")]
    agent.stop()
    assert again == 0, again
    return f"{len(found)} periods, none twice, {missing} without one; {behind:.2f} s lost by killing all"


def retention(place):
    """The folder stays within its size, the oldest go first, and what others put there stays."""
    folder = place.dir("retention")
    agent = Agent(place.pagelab, folder, *SHORT)
    first = agent.wait_until(agent.recordings, 20, "a window")[0]
    agent.wait_for("the first window is in", 20)
    agent.stop()
    size = disk_bytes(first)
    for number in range(1, (20 << 20) // size):
        shutil.copytree(first, folder / "2026-01-01" / f"{number // 3600:02}{number // 60 % 60:02}{number % 60:02}.rec")
    foreign = folder / "2026-01-01" / "235959.rec"
    shutil.copytree(first, foreign)
    document = manifest(foreign)
    document["host"] = "another-host"
    (foreign / "manifest.json").write_text(json.dumps(document))
    keep = 16 << 20
    agent = Agent(place.pagelab, folder, *SHORT, "--keep-size", "16M", "--keep-days", 36500)
    most = 0
    for _ in range(16):
        most = max(most, disk_bytes(folder) - disk_bytes(foreign))
        time.sleep(0.5)
    names = lambda: sorted(path.name for path in (folder / "2026-01-01").glob("*.rec"))
    removed_so_far = lambda: int(names()[0][:4]) * 60 + int(names()[0][4:6]) - 1
    removed_before = removed_so_far()
    removed_count = int(agent.metrics()[("removed_recordings_total", "size")])
    agent.stop()
    assert most <= keep, f"{most} bytes, needed at most {keep}"
    left = names()
    # The last window may have taken one more with it.
    assert 0 < removed_before <= removed_count <= removed_so_far() <= removed_count + 2, (removed_before, removed_count, left[:3])
    assert foreign.exists() and "1 recordings in" in agent.said(), agent.said()
    # By age everything of January goes.
    agent = Agent(place.pagelab, folder, *SHORT, "--keep-days", 1)
    by_age = agent.metrics()[("removed_recordings_total", "age")]
    agent.stop()
    assert [path.name for path in (folder / "2026-01-01").iterdir()] == [foreign.name] and by_age == len(left) - 1, by_age
    return f"at most {most / (1 << 20):.1f} of 16 MiB, {removed_count} removed by size, {by_age:.0f} by age"


def upload(place):
    """Recordings come into the store once, also over restarts; what is not there is not removed by its age."""
    folder, store = place.dir("upload"), place.dir("store")
    store.mkdir()
    words = [*SHORT, "--upload", f"file://{store}", "--observe", "metrics,settings"]
    agent = Agent(place.pagelab, folder, *words)
    agent.wait_until(lambda: agent.metrics().get(("uploads_total",), 0) >= 2, 60, "two uploads")
    agent.stop()
    there = sorted(store.glob("host=*/20*/*.rec/manifest.json"))
    assert len(there) >= 2 and all(json.loads(path.read_text())["complete"] for path in there), there
    times = {path: path.stat().st_mtime_ns for path in there}
    waiting = len(agent.recordings()) - len(there)
    agent = Agent(place.pagelab, folder, *words)
    agent.wait_until(lambda: agent.metrics().get(("uploads_total",), 0) >= waiting + 1, 60, "the uploads that were left, and one more")
    agent.stop()
    assert {path: path.stat().st_mtime_ns for path in there} == times, "what is in the store is not copied again"
    ours = sorted(path.relative_to(folder) for path in agent.recordings())
    copied = sorted(path.relative_to(next(store.glob("host=*"))).parent for path in store.glob("host=*/20*/*.rec/manifest.json"))
    assert len(copied) == len(set(copied)) and set(copied) <= set(ours), (ours, copied)
    assert not list(folder.glob("20*/.*")), "no journal of a finished copy is left"
    # A store that refuses: the recordings stay.
    words[words.index("--upload") + 1] = "az://container/without-an-account"
    agent = Agent(place.pagelab, place.dir("refused"), *words)
    agent.wait_until(lambda: agent.metrics().get(("upload_failures_total",), 0) >= 1, 90, "a failure")
    pending = agent.metrics()[("upload_pending_bytes",)]
    agent.stop()
    assert pending > 0 and "was not uploaded, and is tried again" in agent.said(), agent.said()
    return f"{len(copied)} recordings, none twice"


def pause_and_target(place):
    """Periods without a recording say why."""
    folder = place.dir("paused")
    folder.mkdir(mode=0o700)
    (folder / "pause").touch()
    group = subprocess.Popen(["sleep", "1000"])
    agent = Agent(place.pagelab, folder, *SHORT, "-p", group.pid, "--trigger", "signal")
    agent.wait_until(lambda: agent.metrics()[("windows_skipped_total", "paused")] >= 1, 15, "a paused period")
    assert agent.metrics()[("flight_recorder_up",)] == 0 and not agent.recordings()
    (folder / "pause").unlink()
    agent.wait_until(agent.recordings, 15, "a window")
    agent.wait_until(lambda: agent.metrics()[("flight_recorder_up",)] == 1, 5, "a flight recorder")
    group.kill()
    group.wait()
    agent.wait_until(lambda: agent.metrics()[("windows_skipped_total", "target_gone")] >= 1, 20, "a period without a target")
    agent.stop()
    said = agent.said()
    assert "without a recording: paused" in said and "without a recording: target_gone" in said, said
    agent = Agent(place.pagelab, place.dir("full"), *SHORT, "--keep-free", "900T")
    agent.wait_until(lambda: agent.metrics()[("windows_skipped_total", "disk_low")] >= 1, 15, "a period without room")
    assert not agent.recordings()
    agent.stop()
    return "paused, target gone, disk low"


def wrong_words(place):
    """Each mistake has a message, and a status that says whose it is."""
    folder = place.dir("wrong")
    config = place.folder / "agent.toml"

    def said(status, *words):
        return place.run(place.pagelab, "agent", *words, status=status)

    config.write_text(f"output = '{folder}'\nevry = 60\n")
    text = said(2, "--config", config)
    assert "line 2" in text and "evry" in text and "every" in text, text
    config.write_text("on = 400\n")
    text = said(2, "-o", folder, "--config", config)
    assert "on is 400 s and every is 300 s" in text, text
    os.chmod(config, 0o666)
    assert "chmod go-w" in said(2, "-o", folder, "--config", config)
    assert "found \"psi:memory\"" in said(2, "-o", folder, "--trigger", "psi:memory")
    assert "--observe: found \"memory\"" in said(2, "-o", folder, "--observe", "memory")
    assert "needed: -o DIR" in said(2, "--on", 5)
    assert "other machines can reach" in said(2, "-o", folder, "--listen", "0.0.0.0:0")
    shared = place.dir("shared")
    shared.mkdir()
    os.chmod(shared, 0o777)
    assert "others can write to it" in said(2, "-o", shared)
    assert not folder.exists(), "nothing is made for wrong words"
    agent = Agent(place.pagelab, folder, *SHORT)
    text = said(2, "-o", folder)
    assert f"process id {agent.pid}" in text and "one agent per folder" in text, text
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "a free port" in said(3, "-o", place.dir("port"), "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    agent.stop()
    ordinary = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", str(place.pagelab), "agent", "-o", "/tmp/none"], capture_output=True, text=True, timeout=60)
    assert ordinary.returncode == 3 and "needed: root" in ordinary.stderr, ordinary
    return "11 mistakes"


def main():
    if len(sys.argv) != 3 or os.geteuid() != 0:
        raise SystemExit(__doc__)
    pagelab, fleet = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:3])
    cases = {"windows and triggers": windows_and_triggers, "killed": killed, "retention": retention, "upload": upload, "pause and target": pause_and_target, "wrong words": wrong_words}
    chosen = os.environ.get("CASES", "").split(",") if os.environ.get("CASES") else list(cases)
    failed = 0
    host = Host()
    load = subprocess.Popen([sys.executable, "-c", LOAD])
    with tempfile.TemporaryDirectory(prefix="pagelab-agent-", dir="/var/tmp") as name:
        os.chmod(name, 0o755)
        place = Place(pagelab, fleet, pathlib.Path(name))
        for name in chosen:
            began = time.monotonic()
            try:
                print(f"{name}: ok, {cases[name](place)} ({time.monotonic() - began:.0f} s)", flush=True)
            except Exception as error:
                failed += 1
                print(f"{name}: FAILED: {type(error).__name__}: {error}", flush=True)
            finally:
                # What a case that failed has left running.
                for pid in descendants(os.getpid())[1:]:
                    if pid != load.pid:
                        try:
                            os.kill(pid, signal.SIGKILL)
                        except ProcessLookupError:
                            pass
            try:
                host.check(place.folder)
            except AssertionError as error:
                failed += 1
                print(f"the host after {name}: FAILED: {error}", flush=True)
    load.kill()
    load.wait()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
