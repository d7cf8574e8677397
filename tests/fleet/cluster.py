#!/usr/bin/env python3
"""One plan, two engines: questions to a fleet in a real object store, answered here and by a cluster of Ballista.

    tests/fleet/cluster.py PAGELAB FLEET SERVER SIMULATE BALLISTA          (root; make test-cluster builds all of them)

PAGELAB and FLEET are the programs `pagelab` and `pagelab-fleet`, SERVER is `s3s-fs`, SIMULATE is `simulate_fleet`, BALLISTA the folder of
`ballista-scheduler` and `ballista-executor`. CASES names the cases to run, separated by commas.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse

from ballista import Cluster
from stores import Place, ended, free_port

# Each has one order of rows, so that texts can be compared.
QUERIES = [
    "select count(*) as n, count(distinct host) as hosts, min(start_ns) as first, max(start_ns) as last from runs",
    "select kernel, cpus, virt, complete, count(*) as n from runs group by 1, 2, 3, 4 order by 1, 2, 3, 4",
    "select name, instance, unit, count(value) as n, min(value) as least, max(value) as most from metrics group by 1, 2, 3 order by 1, 2, 3",
    "select l.value as side, m.host, avg(ln(m.value)) as level, count(*) as n from metrics m join labels l on l.recording_id = m.recording_id "
    "where m.name = 'run.elapsed_ns' and l.name = 'thp' group by 1, 2 order by 1, 2",
    "select host, start_ns / 86400000000000 as day, count(*) as n from runs group by 1, 2 order by 1, 2",
    "select r.host, c.component, median(c.ns_per_operation) as middle from runs r join components c using (recording_id) group by 1, 2 order by 1, 2 limit 50",
    "select * from (select host, value, row_number() over (partition by host order by start_ns desc) as k from metrics where name = 'run.elapsed_ns') where k = 1 order by host",
    "select key, value, count(*) as n from settings group by 1, 2 order by 1, 2",
    "select host from runs where host in (select host from labels l join runs using (recording_id) where l.value = 'never') group by 1 order by 1",
    "select (select count(*) from metrics) as metrics, (select max(value) from metrics where name = 'run.elapsed_ns') as slowest",
    "with wide as (select host, max(value) filter (where name = 'run.elapsed_ns') as ns, max(value) filter (where name = 'load.iops') as iops from metrics group by host) "
    "select host, ns, iops from wide order by host",
    "select host from runs where false",
    "select 7 / 2 as whole, 1 as one",
    "select excluded, measured_ns, operations from runs order by excluded nulls first, measured_ns nulls first, operations nulls first limit 20",
    "select distinct name from labels union all select distinct component from components order by 1",
]
WRONG = [
    ("select nonsense from runs", "no column nonsense"),
    ("select * from faults", "there is no table faults"),
    ("drop table runs", "a query may only read"),
    ("selec host from runs", "no SQL"),
]


EVENTS = [
    "select variant, run, count(*) as n, count(distinct addr / 4096) as pages, sum(error_code) as codes from faults group by 1, 2 order by 1, 2",
    "select host, variant, run, complete, operations, exit_code from runs order by variant, run",
    "select stream, table_name, state, count(*) as n, sum(events_lost) as lost from coverage group by 1, 2, 3 order by 1, 2, 3",
    "select variant, path, count(*) as n from mappings where path is not null group by 1, 2 order by 1, 2",
    "select path, path_text, count(*) as n from mappings group by 1, 2 order by 1 nulls first, 2 nulls first limit 30",
    "select name, instance, count(*) as n, max(value) as most from metrics where name like 'vmstat.pg%' group by 1, 2 order by 1, 2",
    "select f.variant, t.comm, count(*) as n from faults f join tasks t on f.variant = t.variant and f.run = t.run and f.task_id = t.task_id where t.comm is not null group by 1, 2 order by 1, 2",
    "select count(*) as n, sum(w) as w from (select s.weight as w, unnest(k.frame_ids) as frame from samples s join stacks k on s.variant = k.variant and s.run = k.run and s.kstack_id = k.stack_id)",
    "select key, count(distinct value) as n from settings group by 1 having count(distinct value) > 1 order by 1",
    "select variant, run, ts, addr, ip from faults order by variant, run, ts, addr limit 200",
    "select variant, sum(dur) as slept from offcpu group by 1 order by 1",
    "select r.variant, count(f.ts) as n from runs r left join faults f on f.variant = r.variant and f.run = r.run and f.addr < 0 group by 1 order by 1",
]


class World:
    """A store with a simulated fleet and an odd one, and a cluster beside it."""

    def __init__(self, programs, folder):
        pagelab, fleet, server, self.simulate, ballista = programs
        self.place = Place(str(pagelab), str(fleet), str(server), folder)
        self.folder = folder
        self.ballista = ballista
        self.cluster = Cluster(ballista, folder / "cluster", self.place.env)
        self.local = {}
        self.make("fleet", 60)
        self.make("odd", 24, odd)

    def make(self, name, hosts, change=None):
        local = self.folder / "made" / name
        local.parent.mkdir(exist_ok=True)
        subprocess.run([self.simulate, local, str(hosts), "6", "3", "12"], check=True, stdout=subprocess.DEVNULL)
        if change:
            change(local)
        self.place.run(self.place.fleet, "upload", local, f"s3://bench/{name}")
        self.local[name] = local

    def here(self, question, fleet, *words):
        return self.place.run(self.place.pagelab, "fleet", question, self.local[fleet], *words)[0]

    def there(self, question, fleet, *words, status=0, cluster=None):
        out, err = self.place.run(self.place.pagelab, "fleet", question, f"s3://bench/{fleet}", *words, "--cluster", cluster or self.cluster.url, status=status)
        return err if status else out

    def close(self):
        self.cluster.close()
        self.place.close()


def odd(local):
    """What an older pagelab wrote and what nobody expects: missing columns, a missing table, columns of nulls, labels of any text."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    days = sorted(local.glob("day=*"))

    def change(day, table, made):
        path = day / f"{table}.parquet"
        pq.write_table(made(pq.read_table(path)), path)

    change(days[0], "metrics", lambda table: table.drop_columns(["per_operation", "kind"]))
    change(days[1], "runs", lambda table: table.drop_columns(["operations", "path"]))
    change(days[2], "components", lambda table: table.set_column(table.schema.get_field_index("ns_per_operation"), "ns_per_operation", pa.nulls(len(table), pa.float64())))
    (days[3] / "components.parquet").unlink()
    odd_names = ["it's", 'say "x"', "größe", "a%20b", "", "x" * 300]
    change(days[4], "labels", lambda table: pa.concat_tables([table, pa.table(
        {"recording_id": table["recording_id"].slice(0, len(odd_names)), "name": pa.array(odd_names), "value": pa.array([*odd_names[:-1], None])}, schema=table.schema)]))
    change(days[5], "runs", lambda table: table.set_column(0, "recording_id", table["recording_id"]).set_column(
        table.schema.get_field_index("host"), "host", pc.if_else(pc.equal(table["run"], 1), None, table["host"])))


def without_reading(text):
    """The answer but for what was opened: the cluster does not tell row groups."""
    answer = json.loads(text)
    reading = answer.pop("reading", None)
    return answer, reading


def same_questions(world):
    asked = 0
    for fleet in ("fleet", "odd"):
        days = sorted(day.name.removeprefix("day=") for day in world.local[fleet].glob("day=*"))
        span = ("--from", days[1], "--to", days[4])
        for words in [("summary",), ("summary", "--metric", "load.iops"), ("summary", *span), ("outliers",), ("outliers", "--metric", "run.elapsed_ns", *span), ("drift",), ("drift", *span),
                      ("trend",), ("trend", "--metric", "run.elapsed_ns", "--per-operation"), ("compare", "--label", "thp=always,never"), ("compare", "--label", "kernel", *span),
                      ("compare", "--label", "thp=always,never", "--all-metrics", "--metric", "run.elapsed_ns")]:
            question, options = words[0], words[1:]
            local, remote = (subprocess.run([str(word) for word in (world.place.pagelab, "fleet", question, where, *options, "--json", *more)], env=world.place.env, capture_output=True, text=True)
                             for where, more in ((world.local[fleet], ()), (f"s3://bench/{fleet}", ("--cluster", world.cluster.url))))
            assert local.returncode == remote.returncode, (words, local.stderr, remote.stderr)
            if local.returncode == 0:
                (ours, opened), (theirs, sent) = without_reading(local.stdout), without_reading(remote.stdout)
                assert ours == theirs, f"{fleet} {words}: {first_difference(ours, theirs)}"
                assert sent["rows"] == opened["rows"] and sent["files"] == opened["files"] and sent["row_groups"] is None, (words, opened, sent)
            else:
                assert local.stderr.replace(str(world.local[fleet]), "X") == remote.stderr.replace(f"s3://bench/{fleet}", "X"), (local.stderr, remote.stderr)
            asked += 1
    return f"{asked} questions"


def first_difference(ours, theirs, at=""):
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in ours.keys() | theirs.keys():
            if ours.get(key) != theirs.get(key):
                return first_difference(ours.get(key), theirs.get(key), f"{at}/{key}")
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for place, (a, b) in enumerate(zip(ours, theirs)):
            if a != b:
                return first_difference(a, b, f"{at}/{place}")
    return f"{at}: {ours!r} here, {theirs!r} there"


NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?")


def is_same(ours, theirs):
    """The same text, but for the last digits of sums of floats, which depend on the order of additions in either engine."""
    if ours == theirs:
        return True
    (a, b) = ([float(number) for number in NUMBER.findall(text)] for text in (ours, theirs))
    skeletons = [re.sub(r"[ -]+", " ", NUMBER.sub("#", text)) for text in (ours, theirs)]
    return skeletons[0] == skeletons[1] and len(a) == len(b) and all(abs(x - y) <= 1e-12 * max(abs(x), abs(y)) for x, y in zip(a, b))


def same_sql(world):
    for fleet in ("fleet", "odd"):
        for sql in QUERIES:
            for layout in ("csv", "json", "table"):
                ours, theirs = (ask("sql", fleet, sql, "--format", layout) for ask in (world.here, world.there))
                assert is_same(ours, theirs), f"{fleet}: {sql}\n{ours[:600]}\n{theirs[:600]}"
        for sql, needed in WRONG:
            said = world.there("sql", fleet, sql, status=2)
            assert needed in said, said
    return f"{len(QUERIES)} queries in 3 layouts, {len(WRONG)} mistakes"


def planned_is_catalogued(world):
    """The objects whose content was asked for are those of the table and the days, no more and no fewer."""
    days = sorted(day.name for day in world.local["fleet"].glob("day=*"))
    for words, wanted in [((), days), (("--from", days[2].removeprefix("day="), "--to", days[3].removeprefix("day=")), days[2:4])]:
        world.place.proxy.opened.clear()
        world.there("sql", "fleet", "select host, max(value) from metrics group by 1", *words)
        opened = {urllib.parse.unquote(path) for path in world.place.proxy.opened if path.endswith(".parquet")}
        assert opened == {f"/bench/fleet/{day}/metrics.parquet" for day in wanted}, (words, opened)
    return f"{len(days)} and 2 objects"


def events(world):
    """SQL over recordings: a set, one with a damaged part, one with an older part, and a part of the time."""
    import pyarrow.parquet as pq

    place = world.place
    program = "/usr/bin/python3 -c 'b = [bytearray(1 << 20) for _ in range(%d)]'"
    place.run(place.pagelab, "compare", "-n", "2", "-o", "s3://bench/set", "--", program % 20, program % 40)
    parts = sorted((place.bucket / "set").rglob("faults/part-*.parquet"))
    for name in ("hurt", "older"):
        shutil.copytree(place.bucket / "set", place.bucket / name)
    hurt = place.bucket / "hurt" / parts[0].relative_to(place.bucket / "set")
    # A byte of the first column chunk of the addresses.
    chunk = pq.ParquetFile(hurt).metadata.row_group(0)
    chunk = next(chunk.column(at) for at in range(chunk.num_columns) if chunk.column(at).path_in_schema == "addr")
    text = bytearray(hurt.read_bytes())
    text[(chunk.dictionary_page_offset or chunk.data_page_offset) + chunk.total_compressed_size // 2] ^= 1
    hurt.write_bytes(text)
    older = place.bucket / "older" / parts[-1].relative_to(place.bucket / "set")
    table = pq.read_table(older)
    pq.write_table(table.drop_columns(["error_code"]), older)
    asked = 0
    for name in ("set", "hurt", "older"):
        for sql in EVENTS:
            for more in ((), ("--from", "0.05")) if name == "set" else ((),):
                words = ("query", f"s3://bench/{name}", sql, "--format", "csv", *more)
                (ours, _), (theirs, said) = place.run(place.pagelab, *words), place.run(place.pagelab, *words, "--cluster", world.cluster.url)
                assert is_same(ours, theirs), f"{name} {more}: {sql}\n{ours[:800]}\n{theirs[:800]}"
                asked += 1
                if name == "hurt" and "addr" in sql:
                    assert "left out" in said, said
    said = place.run(place.pagelab, "query", "s3://bench/set", "select nonsense from faults", "--cluster", world.cluster.url, status=2)[1]
    assert "no column nonsense" in said, said
    said = place.run(place.pagelab, "query", str(world.folder), "select 1 from faults", "--cluster", world.cluster.url, status=2)[1]
    assert "needed a URL" in said, said
    return f"{asked} queries"


# Some 10 s for two executors of this test.
LONG = "select count(*) as n, sum(abs(a.value - b.value) % 7.5) as s from metrics a join metrics b on a.name = b.name where a.value < b.value * 2"


def long_query(world):
    return world.place.start(world.place.pagelab, "fleet", "sql", "s3://bench/long", LONG, "--format", "csv", "--cluster", world.cluster.url, "--patience", "120")


def killed_executor(world):
    world.make("long", 220)
    began = time.monotonic()
    right = ended(long_query(world))
    whole_s = time.monotonic() - began
    here = world.here("sql", "long", LONG, "--format", "csv")
    assert is_same(here, right), (here, right)
    ends = []
    for share in (0.3, 0.6):
        query = long_query(world)
        time.sleep(share * whole_s)
        assert query.poll() is None, f"the query ended before its executor was killed ({whole_s:.1f} s)"
        world.cluster.executors.pop(0).send_signal(signal.SIGKILL)
        out, err = query.communicate(timeout=300)
        if query.returncode == 0:
            assert is_same(out, right), (out, right)
            ends.append("answered")
        else:
            assert query.returncode in (1, 2) and err.strip() and not out.strip(), (query.returncode, out, err)
            ends.append(f"said {err.strip()[:120]!r}")
        world.cluster.add_executor()
    assert is_same(ended(long_query(world)), right)
    return f"{whole_s:.1f} s a query; {', '.join(ends)}"


def killed_scheduler(world):
    query = long_query(world)
    time.sleep(2)
    world.cluster.scheduler.send_signal(signal.SIGKILL)
    began = time.monotonic()
    out, err = query.communicate(timeout=120)
    assert query.returncode in (1, 2) and not out.strip(), (query.returncode, out)
    assert "went away" in err or "cannot reach" in err, err
    after_s = time.monotonic() - began
    said = world.there("sql", "fleet", QUERIES[0], status=2)
    assert "cannot reach" in said and "ballista-scheduler 55.0.0" in said, said
    world.cluster.close()
    world.cluster = Cluster(world.ballista, world.folder / "cluster-2", world.place.env)
    assert world.there("sql", "fleet", QUERIES[0], "--format", "csv") == world.here("sql", "fleet", QUERIES[0], "--format", "csv")
    return f"said after {after_s:.1f} s"


def no_executors(world):
    alone = Cluster(world.ballista, world.folder / "cluster-alone", world.place.env, executors=0)
    try:
        began = time.monotonic()
        said = world.there("sql", "fleet", QUERIES[0], "--patience", "5", status=2, cluster=alone.url)
        assert "after 5 s" in said and "executors" in said, said
        return f"given up after {time.monotonic() - began:.1f} s"
    finally:
        alone.close()


def damaged(world):
    """A damaged table fails the question on both sides; nothing is answered from the rest in silence."""
    local = world.folder / "made" / "damaged"
    shutil.copytree(world.local["fleet"], local)
    victim = sorted(local.glob("day=*"))[2] / "metrics.parquet"
    text = bytearray(victim.read_bytes())
    text[-400:-8] = bytes(392)
    victim.write_bytes(text)
    for document in local.glob("day=*/complete.json"):
        document.unlink()
    world.place.run(world.place.fleet, "upload", local, "s3://bench/damaged")
    world.local["damaged"] = local
    sql = "select count(value) as n from metrics"
    for words in (("sql", sql), ("summary", "--metric", "run.elapsed_ns")):
        here = subprocess.run([str(word) for word in (world.place.pagelab, "fleet", words[0], local, *words[1:])], env=world.place.env, capture_output=True, text=True)
        assert here.returncode != 0 and not here.stdout.strip(), here
        said = world.there(words[0], "damaged", *words[1:], status=2)
        assert "metrics" in said or "Parquet" in said or "parquet" in said, said
    return "refused on both sides"


def wrong_words(world):
    run = world.place.run
    for words, needed in [
        (("sql", world.local["fleet"], "select 1", "--cluster", world.cluster.url), "a URL"),
        (("sql", "s3://bench/fleet", QUERIES[0], "--cluster", "http://127.0.0.1:1"), "df://HOST[:PORT]"),
        (("sql", "s3://bench/fleet", QUERIES[0], "--cluster", f"df://127.0.0.1:{free_port()}"), "cannot reach"),
        (("summary", "s3://bench/nothing", "--cluster", world.cluster.url), "s3://bench/nothing"),
        (("summary", "s3://bench/fleet", "--metric", "load.iopps", "--cluster", world.cluster.url), "load.iops"),
        (("compact", "s3://bench/fleet", "s3://bench/x", "--cluster", world.cluster.url), "--cluster"),
    ]:
        said = run(world.place.pagelab, "fleet", *words, status=2)[1]
        assert needed in said, (words, said)
    return "6 mistakes"


CASES = {"the same questions": same_questions, "the same SQL": same_sql, "recordings": events, "files planned": planned_is_catalogued, "wrong words": wrong_words, "damage": damaged,
         "no executors": no_executors, "a killed executor": killed_executor, "a killed scheduler": killed_scheduler}


def main():
    if len(sys.argv) != 6:
        raise SystemExit(__doc__)
    programs = [pathlib.Path(word).resolve() for word in sys.argv[1:]]
    chosen = os.environ.get("CASES", "").split(",") if os.environ.get("CASES") else list(CASES)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="pagelab-cluster-") as folder:
        world = World(programs, pathlib.Path(folder))
        try:
            for name in chosen:
                began = time.monotonic()
                try:
                    print(f"{name}: ok, {CASES[name](world)} ({time.monotonic() - began:.0f} s)", flush=True)
                except Exception as error:
                    failed += 1
                    print(f"{name}: FAILED: {type(error).__name__}: {error}", flush=True)
        finally:
            world.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
