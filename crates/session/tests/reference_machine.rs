//! Holds a recording of everything to `docs/reference-machine.toml`: a stream that quietly stops to be recorded, or a column that
//! quietly turns null, is found here.

use std::collections::BTreeMap;

use arrow::array::Array;
use pagelab_observe::streams::{Stream, StreamSet};
use pagelab_recording::{ProbeState, Recording};
use pagelab_session::{SessionOptions, Target};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct Machines {
    machine: Vec<Machine>,
}

#[derive(Debug, Deserialize)]
struct Machine {
    name: String,
    kernel: String,
    streams: BTreeMap<String, Held>,
}

type Columns = BTreeMap<String, Vec<String>>;

/// What a stream is held to.
#[derive(Debug, Deserialize)]
struct Held {
    rung: String,
    tables: Columns,
    #[serde(default)]
    null: Columns,
}

/// Work for every stream: files written through to the disk and read back, memory with advice, a thread that wakes another, two
/// seconds of it.
const WORK: &str = "import mmap, os, threading, time
f = os.open('data', os.O_RDWR | os.O_CREAT, 0o600)
os.write(f, os.urandom(1 << 20)); os.fsync(f)
os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED)
os.pread(f, 1 << 20, 0)
m = mmap.mmap(-1, 32 << 20); m.madvise(mmap.MADV_HUGEPAGE)
for at in range(0, 32 << 20, 4096): m[at] = 1
shared = mmap.mmap(f, 1 << 20)
sum(shared[at] for at in range(0, 1 << 20, 4096))
wanted, made = threading.Semaphore(0), threading.Semaphore(0)
def helper():
    for i in range(50): wanted.acquire(); made.release()
thread = threading.Thread(target=helper); thread.start()
for i in range(50): wanted.release(); made.acquire()
thread.join()
end = time.time() + 2
while time.time() < end: sum(range(10000)); os.pread(f, 4096, 0)";

/// Of each column of a table: whether some row has a value.
fn filled(recording: &Recording, table: &str) -> BTreeMap<String, bool> {
    let mut filled = BTreeMap::new();
    for batch in recording.read(table, None).expect("the table") {
        let batch = batch.expect("a batch");
        for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
            *filled.entry(field.name().clone()).or_insert(false) |= column.null_count() < column.len();
        }
    }
    filled
}

#[test]
fn everything_that_this_machine_gives_is_recorded() {
    let text = include_str!("../../../docs/reference-machine.toml");
    let machines: Machines = toml::from_str(text).expect("the document");
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let machine = machines.machine.iter().find(|machine| release.starts_with(&machine.kernel)).expect("a section");
    for stream in machine.streams.keys() {
        assert!(Stream::all().any(|known| known.name() == stream), "{stream} is no stream");
    }
    let tmp = tempfile::tempdir().expect("a directory");
    let target = Target::Command(["/usr/bin/python3", "-c", WORK].map(Into::into).to_vec());
    let mut options = SessionOptions::new(target, tmp.path().join("rec"));
    options.streams = StreamSet::parse("all").expect("streams");
    options.cwd = Some(tmp.path().to_owned());
    options.fault_details = 64;
    let outcome = pagelab_session::run(&options).expect("recorded");
    assert_eq!(outcome.ended.expect("it ended").shell_status(), 0, "{:?}", outcome.warnings);
    let recording = Recording::open(&outcome.dir).expect("a recording");
    for (stream, held) in &machine.streams {
        let probe =
            outcome.manifest.probes.iter().find(|probe| probe.name == *stream).expect("every stream was asked for");
        assert!(
            probe.state == ProbeState::Active && probe.rung.as_deref() == Some(&held.rung),
            "{}: {stream} must be active on {}: {probe:?}",
            machine.name,
            held.rung
        );
        for (table, columns) in &held.tables {
            let filled = filled(&recording, table);
            assert!(!filled.is_empty(), "{stream}: {table} has no rows");
            for column in columns {
                assert_eq!(filled.get(column), Some(&true), "{stream}: {table}.{column} must have a value");
            }
        }
        for (table, columns) in &held.null {
            let filled = filled(&recording, table);
            for column in columns {
                assert_eq!(
                    filled.get(column),
                    Some(&false),
                    "{stream}: {table}.{column} has a value now: say so in the document"
                );
            }
        }
    }
}
