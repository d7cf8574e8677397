#!/usr/bin/env python3
"""Exported profiles and traces, read by the code of those whose formats they are: tests/exports/exports.py PAGELAB   (root; make test-exports)

Firefox Profiler's own command line loads the profile; Perfetto's published schema reads the trace. Both have to hold every event of the
tables once. The recording is of a shell that starts programs which compute, fault, call and wait.
"""

import collections
import csv
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from google.protobuf import unknown_fields
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROFILER = ROOT / "web/exports/node_modules/@firefox-devtools/profiler-cli/dist/profiler-cli.js"
PROGRAM = 'dd if=/dev/zero of=/dev/null bs=1M count=2000 2>/dev/null; python3 -c "b = bytearray(30 << 20)"; sleep 0.2'
EVENTS = ("samples", "faults", "syscalls", "offcpu")


class Recorded:
    """A recording, and numbers of its tables."""

    def __init__(self, pagelab, folder):
        self.pagelab, self.folder, self.path = pagelab, folder, folder / "recording"
        self.run("record", "-q", "-o", self.path, "--observe", "tasks,cpu,sched,faults,syscalls", "--", "sh", "-c", PROGRAM)
        self.counts = {table: int(self.rows(f"select count(*) as n from {table} where task_id in (select task_id from tasks)")[0]["n"]) for table in EVENTS}
        assert all(self.counts.values()), self.counts

    def run(self, *words):
        return subprocess.run([str(word) for word in (self.pagelab, *words)], check=True, capture_output=True, text=True).stdout

    def rows(self, sql):
        return list(csv.DictReader(io.StringIO(self.run("query", self.path, sql, "--format", "csv"))))


def firefox_profiler(recorded):
    """Every thread that the profiler finds, with its samples and markers."""
    path = recorded.folder / "profile.json"
    recorded.run("export", "firefox-profiler", recorded.path, "-o", path)
    # Its daemon keeps what it knows in the home directory.
    env = {**os.environ, "HOME": str(recorded.folder)}

    def ask(*words):
        return subprocess.run(["node", PROFILER, *words], env=env, check=True, capture_output=True, text=True, timeout=120).stdout

    ask("load", str(path))
    try:
        threads = json.loads(ask("profile", "info", "--json"))["threadCount"]
        found = collections.Counter()
        kinds = collections.Counter()
        for number in range(threads):
            ask("thread", "select", f"t-{number}")
            # Not `thread info`, which has no end in version 0.10.0 for a thread without samples.
            samples, markers = (json.loads(ask("thread", what, "--json")) for what in ("samples", "markers"))
            found.update(samples=samples["categoryBreakdown"]["totalSamples"], markers=markers["totalMarkerCount"])
            kinds.update({one["markerName"]: one["count"] for one in markers["byType"]})
    finally:
        subprocess.run(["node", PROFILER, "stop", "--all"], env=env, capture_output=True)
    counts = recorded.counts
    assert found["samples"] == counts["samples"], (found, counts)
    # And one that spans the recording.
    assert found["markers"] == counts["faults"] + counts["syscalls"] + counts["offcpu"] + 1, (found, counts)
    assert kinds["page fault"] == counts["faults"], (kinds, counts)
    tasks = int(recorded.rows("select count(distinct task_id) as n from tasks")[0]["n"])
    return f"{threads} threads of {tasks} tasks, {found['samples']} samples, {found['markers']} markers, {len(kinds)} kinds"


def unknown(message):
    """Fields of a message, and of those within, that the schema does not have."""
    here = len(unknown_fields.UnknownFieldSet(message))
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            here += sum(unknown(one) for one in (value if field.is_repeated else [value]))
    return here


def perfetto(recorded):
    """Every packet, by the published schema."""
    path = recorded.folder / "trace.pftrace"
    recorded.run("export", "perfetto", recorded.path, "-o", path)
    trace = schema.Trace()
    trace.ParseFromString(path.read_bytes())
    assert trace.IsInitialized() and unknown(trace) == 0, f"{unknown(trace)} fields are not in the schema"
    kinds = collections.Counter(packet.WhichOneof("data") for packet in trace.packet)
    events = [packet.track_event for packet in trace.packet if packet.HasField("track_event")]
    types = collections.Counter(event.type for event in events)
    counts = recorded.counts
    slices, instants = types[schema.TrackEvent.TYPE_SLICE_BEGIN], types[schema.TrackEvent.TYPE_INSTANT]
    assert slices + instants == counts["faults"] + counts["syscalls"] + counts["offcpu"], (types, counts)
    assert kinds["perf_sample"] == counts["samples"], (kinds, counts)
    # Slices end on the track that they began on, no more often than they began; each track that is written to is described.
    open_slices, described = collections.Counter(), {packet.track_descriptor.uuid for packet in trace.packet if packet.HasField("track_descriptor")}
    for event in events:
        assert event.track_uuid in described, event.track_uuid
        open_slices[event.track_uuid] += {schema.TrackEvent.TYPE_SLICE_BEGIN: 1, schema.TrackEvent.TYPE_SLICE_END: -1}.get(event.type, 0)
        assert open_slices[event.track_uuid] >= 0, event
    return f"{len(trace.packet)} packets, {slices} slices, {instants} instants, {kinds['perf_sample']} samples, {len(described)} tracks, no unknown field"


def main():
    if len(sys.argv) != 2 or os.geteuid() != 0:
        raise SystemExit(__doc__)
    with tempfile.TemporaryDirectory(prefix="pagelab-exports-") as folder:
        recorded = Recorded(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(folder))
        for reader in (firefox_profiler, perfetto):
            print(f"{reader.__name__.replace('_', ' ')}: ok, {reader(recorded)}", flush=True)


main()
