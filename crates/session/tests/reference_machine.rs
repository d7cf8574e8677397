//! Holds a recording of everything to `docs/reference-machine.toml`: a stream that quietly stops to be recorded, or a column that
//! quietly turns null, is found here.

use crate::reference;

use pagelab_observe::streams::StreamSet;
use pagelab_recording::Recording;
use pagelab_session::{SessionOptions, Target};

/// Work for every stream: files written through to the disk and read back, memory with advice, a thread that wakes another, eight
/// seconds of it: the second look at the memory comes late, as it rests 200 times as long as the first one took, and in a VM the
/// time that the host takes away is part of that.
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
end = time.time() + 8
while time.time() < end: sum(range(10000)); os.pread(f, 4096, 0)";

#[test]
fn everything_that_this_machine_gives_is_recorded() {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let machine = reference::machine(&release);
    assert!(machine.streams() > 0, "{}: no stream is named", machine.name);
    let tmp = tempfile::tempdir().expect("a directory");
    let target = Target::Command(["/usr/bin/python3", "-c", WORK].map(Into::into).to_vec());
    let mut options = SessionOptions::new(target, tmp.path().join("rec"));
    options.streams = StreamSet::parse("all").expect("streams");
    options.cwd = Some(tmp.path().to_owned());
    options.fault_details = 64;
    let outcome = pagelab_session::run(&options).expect("recorded");
    assert_eq!(outcome.ended.expect("it ended").shell_status(), 0, "{:?}", outcome.warnings);
    let recording = Recording::open(&outcome.dir).expect("a recording");
    let missed = machine.misses(&recording);
    // With what looking at the memory cost, which says how late the looks came.
    let manifest = std::fs::read_to_string(outcome.dir.join("manifest.json")).expect("a manifest");
    let manifest: serde_json::Value = serde_json::from_str(&manifest).expect("JSON");
    assert!(missed.is_empty(), "{}: {missed:#?}; {}", machine.name, manifest["regions"]);
}
