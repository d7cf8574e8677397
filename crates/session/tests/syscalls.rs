//! System calls of real programs, against what strace counts, and against programs whose calls are known.

use std::collections::BTreeMap;
use std::path::Path;

use pagelab_observe::streams::StreamSet;
use pagelab_recording::Recording;
use pagelab_recording::tables::{FilesRow, LossRow, SyscallsRow, TasksRow};
use pagelab_session::{SessionOptions, SessionOutcome, Target};

/// One row, with the file's name.
#[derive(Debug, Clone)]
struct Row {
    name: String,
    task_id: u32,
    args: [u64; 6],
    fd: Option<i32>,
    path: Option<String>,
    offset: Option<u64>,
    offset_kind: Option<String>,
    requested: Option<u64>,
    ret: Option<i64>,
    dur: Option<i64>,
    cpu_ns: Option<u64>,
}

fn record(
    observe: &str,
    command: &[&str],
    tune: impl FnOnce(&mut SessionOptions),
) -> (tempfile::TempDir, SessionOutcome) {
    let tmp = tempfile::tempdir().expect("a directory");
    let target = Target::Command(command.iter().map(Into::into).collect());
    let mut options = SessionOptions::new(target, tmp.path().join("rec"));
    options.streams = StreamSet::parse(observe).expect("streams");
    options.cwd = Some(tmp.path().to_owned());
    tune(&mut options);
    let outcome = pagelab_session::run(&options).expect("recorded");
    (tmp, outcome)
}

fn calls(dir: &Path) -> Vec<Row> {
    let recording = Recording::open(dir).expect("a recording");
    let mut files = BTreeMap::new();
    recording
        .for_each::<FilesRow>(|file| {
            let path = String::from_utf8_lossy(file.path.unwrap_or_default()).into_owned();
            assert!(files.insert(file.file_id, path).is_none(), "one row for each file");
        })
        .expect("files");
    let mut rows = Vec::new();
    let mut last = i64::MIN;
    recording
        .for_each::<SyscallsRow>(|row| {
            assert!(row.ts >= last, "rows are in the order of time");
            last = row.ts;
            rows.push(Row {
                name: row.name.to_owned(),
                task_id: row.task_id,
                args: row.args,
                fd: row.fd,
                path: row.file_id.map(|id| files[&id].clone()),
                offset: row.offset,
                offset_kind: row.offset_kind.map(str::to_owned),
                requested: row.requested,
                ret: row.ret,
                dur: row.dur,
                cpu_ns: row.cpu_ns,
            });
        })
        .expect("calls");
    rows
}

fn python(script: &str) -> (tempfile::TempDir, Vec<Row>) {
    let (tmp, outcome) = record("syscalls", &["python3", "-c", script], |_| {});
    assert_eq!(outcome.ended.expect("it ended").shell_status(), 0);
    let rows = calls(&outcome.dir);
    (tmp, rows)
}

/// Call, offset, where the offset is from, result.
type Transfer = (String, Option<u64>, Option<String>, Option<i64>);

/// Transfers on files of that name; which version of preadv the C library calls is its own business.
fn transfers(rows: &[Row], file: &str) -> Vec<Transfer> {
    let here = rows.iter().filter(|row| {
        row.path.as_ref().is_some_and(|path| path.ends_with(file))
            && (row.name.contains("read") || row.name.contains("write"))
    });
    here.map(|row| (row.name.trim_end_matches("v2").to_owned(), row.offset, row.offset_kind.clone(), row.ret)).collect()
}

fn at(call: &str, offset: u64, kind: &str, ret: i64) -> Transfer {
    (call.to_owned(), Some(offset), Some(kind.to_owned()), Some(ret))
}

/// strace counts every call that returned; it leaves out those that never do. strace itself is recorded, too, but is task 1.
#[test]
fn counts_agree_with_strace_on_the_same_run() {
    let script = "for i in 1 2 3; do ls -l / >/dev/null; done; head -c 300000 /dev/zero | gzip -c | wc -c";
    let command = ["strace", "-f", "-c", "-S", "name", "-U", "name,calls,errors", "-o", "counts", "sh", "-c", script];
    let (tmp, outcome) = record("tasks,syscalls", &command, |_| {});
    let text = std::fs::read_to_string(tmp.path().join("counts")).expect("strace's table");
    let mut strace: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [name, count, rest @ ..] = words.as_slice()
            && let Ok(count) = count.parse()
            && *name != "total"
        {
            strace.insert((*name).to_owned(), (count, rest.first().and_then(|word| word.parse().ok()).unwrap_or(0)));
        }
    }
    assert!(strace.len() > 15, "{text}");
    let recording = Recording::open(&outcome.dir).expect("a recording");
    // The tracees are the tasks that ran something else than strace.
    let mut execs: BTreeMap<u32, i64> = BTreeMap::new();
    recording
        .for_each::<TasksRow>(|row| {
            if row.op == "exec" && !String::from_utf8_lossy(row.exe.unwrap_or_default()).ends_with("strace") {
                execs.entry(row.task_id).or_insert(row.ts);
            }
        })
        .expect("tasks");
    let mut parents = BTreeMap::new();
    recording.for_each::<TasksRow>(|row| _ = parents.entry(row.task_id).or_insert(row.parent_task_id)).expect("tasks");
    let shell = *execs.keys().next().expect("the shell");
    let of_shell = |mut task: u32| loop {
        if task == shell {
            return true;
        }
        match parents.get(&task).copied().flatten() {
            Some(parent) => task = parent,
            None => return false,
        }
    };
    let mut ours: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let mut begun = false;
    for row in calls(&outcome.dir).into_iter().filter(|row| of_shell(row.task_id)) {
        // What strace's child does before it becomes the shell is not counted by strace.
        begun |= row.name == "execve" && row.ret == Some(0);
        if begun && let Some(ret) = row.ret {
            let entry = ours.entry(row.name).or_default();
            entry.0 += 1;
            entry.1 += u64::from(ret < 0);
        }
    }
    assert_eq!(ours, strace, "{text}");
}

/// dd makes exactly one write for each block: recorded and lost calls add up to that, and to the program's own count.
#[test]
fn what_is_lost_is_counted_to_the_call() {
    let blocks = 400_000_u64;
    let count = format!("count={blocks}");
    let command = ["dd", "if=/dev/zero", "of=/dev/null", "bs=1", &count, "status=none"];
    let (_tmp, outcome) = record("syscalls:write", &command, |options| options.ring_bytes_per_cpu = 1024);
    let recording = Recording::open(&outcome.dir).expect("a recording");
    let recorded = recording.rows("syscalls").expect("rows");
    let (mut seen, mut lost, mut intervals_with_loss) = (0, 0, 0);
    recording
        .for_each::<LossRow>(|row| {
            if row.stream == "syscalls" {
                assert!(row.cpu.is_some() && row.lost <= row.seen, "{row:?}");
                seen += row.seen;
                lost += row.lost;
                intervals_with_loss += u32::from(row.lost > 0);
            }
        })
        .expect("loss");
    assert!(lost > 0 && intervals_with_loss > 0, "the ring was made too small on purpose");
    assert_eq!(recorded + lost, blocks);
    assert_eq!(seen, blocks);
    let probe = outcome.manifest.probes.iter().find(|probe| probe.name == "syscalls").expect("the probe");
    assert_eq!((probe.events_seen, probe.events_lost), (Some(blocks), Some(lost)));
}

#[test]
fn every_call_has_its_row() {
    let command = ["dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=300000", "status=none"];
    // Room for all of them: with other tests running the recorder may not run for a while.
    let (_tmp, outcome) = record("syscalls:read,write", &command, |options| options.ring_bytes_per_cpu = 32 << 20);
    let rows = calls(&outcome.dir);
    let writes: Vec<&Row> = rows.iter().filter(|row| row.name == "write").collect();
    assert_eq!(writes.len(), 300_000);
    assert!(rows.iter().all(|row| row.name == "read" || row.name == "write"));
    for row in writes {
        assert_eq!((row.fd, row.requested, row.ret, row.args[0]), (Some(1), Some(1), Some(1), 1));
        assert_eq!((row.path.as_deref(), row.offset), (Some("/dev/null"), None), "a device has no position");
        assert!(row.dur.is_some_and(|dur| dur > 0) && row.cpu_ns.is_some());
    }
}

/// The position is the open file's and not the descriptor's.
#[test]
fn positions_are_those_of_the_open_file() {
    let (_tmp, rows) = python(
        "import os
f = os.open('data', os.O_RDWR | os.O_CREAT, 0o600)
os.write(f, b'x' * 1000)
g = os.dup(f)
os.write(g, b'y' * 500)          # where f stopped
os.lseek(f, 100, 0)
os.read(g, 50)
os.pwrite(f, b'z' * 10, 5000)
os.read(f, 20)                   # pwrite moved nothing
os.preadv(f, [bytearray(7), bytearray(9)], 300)
os.close(f)
os.read(g, 1 << 20)              # to the end of the file
os.read(g, 10)
pid = os.fork()
if pid == 0:
    os.lseek(g, 0, 0)
    os.read(g, 64)
    os._exit(0)
os.waitpid(pid, 0)
os.read(g, 32)                   # where the child stopped",
    );
    assert_eq!(
        transfers(&rows, "/data"),
        [
            at("write", 0, "implied", 1000),
            at("write", 1000, "implied", 500),
            at("read", 100, "implied", 50),
            at("pwrite64", 5000, "explicit", 10),
            at("read", 150, "implied", 20),
            at("pread", 300, "explicit", 16),
            at("read", 170, "implied", 4840),
            at("read", 5010, "implied", 0),
            at("read", 0, "implied", 64),
            at("read", 64, "implied", 32),
        ]
    );
}

/// Appended data go to the end of the file, wherever the position was; a descriptor that was handed over names the same
/// file.
#[test]
fn appended_data_and_descriptors_handed_over() {
    let (_tmp, rows) = python(
        "import os, socket, array
open('log', 'wb').write(b'#' * 10000)
a = os.open('log', os.O_WRONLY | os.O_APPEND)
b = os.open('log', os.O_WRONLY | os.O_APPEND)
os.write(a, b'a' * 100)
os.write(b, b'b' * 200)
os.write(a, b'c' * 300)
left, right = socket.socketpair()
pid = os.fork()
if pid == 0:
    _, control, _, _ = right.recvmsg(1, 64)
    fd = array.array('i', control[0][2])[0]
    os.write(fd, b'd' * 7)
    os._exit(0)
f = os.open('handed', os.O_WRONLY | os.O_CREAT, 0o600)
os.write(f, b'e' * 5)
left.sendmsg([b'!'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [f]))])
os.waitpid(pid, 0)
os.write(f, b'f' * 3)",
    );
    let appended: Vec<_> = transfers(&rows, "/log").into_iter().filter(|row| row.3 != Some(10000)).collect();
    assert_eq!(
        appended,
        [at("write", 10_000, "implied", 100), at("write", 10_100, "implied", 200), at("write", 10_300, "implied", 300)]
    );
    assert_eq!(
        transfers(&rows, "/handed"),
        [at("write", 0, "implied", 5), at("write", 5, "implied", 7), at("write", 12, "implied", 3)]
    );
    assert!(
        rows.iter()
            .any(|row| row.name == "sendmsg" && row.path.as_ref().is_some_and(|path| path.starts_with("socket:[")))
    );
}

/// Two threads that write through one descriptor at the same time: an offset is right, or it is marked.
#[test]
fn positions_that_threads_share_are_right_or_marked() {
    let (_tmp, rows) = python(
        "import os, threading
f = os.open('both', os.O_WRONLY | os.O_CREAT, 0o600)
def work():
    for i in range(4000):
        os.write(f, b'x' * 4096)
threads = [threading.Thread(target=work) for _ in range(2)]
for t in threads: t.start()
for t in threads: t.join()",
    );
    let rows = transfers(&rows, "/both");
    assert_eq!(rows.len(), 8000);
    let mut sure: Vec<u64> = Vec::new();
    for (_, offset, kind, ret) in &rows {
        assert_eq!(*ret, Some(4096));
        match kind.as_deref() {
            Some("implied") => sure.push(offset.expect("an offset")),
            other => assert_eq!(other, Some("shared")),
        }
    }
    sure.sort_unstable();
    let distinct = sure.windows(2).all(|pair| pair[0] < pair[1]);
    assert!(distinct && sure.iter().all(|offset| offset % 4096 == 0), "no two writes began at the same place");
}

/// A call that never returns has no result: exit, and a wait that is cut short by a signal that kills.
#[test]
fn calls_that_never_return_have_no_result() {
    let script = "import os, signal, time
r, w = os.pipe()
pid = os.fork()
if pid == 0:
    os.read(r, 77)
time.sleep(0.2)
os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)";
    let (_tmp, rows) = python(script);
    let read = rows.iter().find(|row| row.name == "read" && row.args[2] == 77).expect("the read that was killed");
    assert_eq!((read.ret, read.dur, read.requested), (None, None, Some(77)));
    assert!(read.path.as_ref().is_some_and(|path| path.starts_with("pipe:[")), "{read:?}");
    // `python3` may be a script that runs others before the one that counts.
    let exits: Vec<&Row> = rows.iter().filter(|row| row.name == "exit_group").collect();
    assert!(!exits.is_empty() && exits.iter().all(|row| row.ret.is_none() && row.dur.is_none()), "{exits:?}");
    assert!(exits.iter().all(|row| row.task_id != read.task_id), "the child was killed");
}

#[test]
fn time_asleep_is_no_time_on_the_cpu() {
    let (_tmp, outcome) = record("syscalls", &["sleep", "0.3"], |_| {});
    let rows = calls(&outcome.dir);
    let sleep = rows.iter().find(|row| row.name == "clock_nanosleep").expect("it sleeps");
    let (dur, cpu) = (sleep.dur.expect("it returned"), sleep.cpu_ns.expect("measured"));
    assert!(dur >= 300_000_000 && cpu < dur as u64 / 10, "{sleep:?}");
    for row in &rows {
        if let (Some(dur), Some(cpu)) = (row.dur, row.cpu_ns) {
            assert!(cpu <= dur as u64, "{row:?}");
        }
    }
}

/// The buffers of a vector are asked for together; of a vector that is too long, or that is not there, that is not known.
#[test]
fn vectors_ask_for_the_bytes_of_all_their_buffers() {
    let (_tmp, rows) = python(
        "import os, ctypes
f = os.open('data', os.O_RDWR | os.O_CREAT, 0o600)
os.writev(f, [b'x' * 1000, b'y' * 24])
os.preadv(f, [bytearray(600), bytearray(700), bytearray(1)], 0)
os.pwritev(f, [b'z'] * 16, 5000)
os.pwritev(f, [b'z'] * 17, 5000)
os.readv(f, [bytearray(9)])
libc = ctypes.CDLL(None)
libc.writev(f, ctypes.c_void_p(8), 1)",
    );
    let here = rows.iter().filter(|row| row.path.as_ref().is_some_and(|path| path.ends_with("/data")));
    let vectors = here.filter(|row| row.name.contains("readv") || row.name.contains("writev"));
    let asked: Vec<_> =
        vectors.map(|row| (row.name.trim_end_matches("v2").trim_end_matches('v'), row.requested)).collect();
    let wanted = [
        ("write", Some(1024)),
        ("pread", Some(1301)),
        ("pwrite", Some(16)),
        ("pwrite", None),
        ("read", Some(9)),
        ("write", None),
    ];
    assert_eq!(asked, wanted);
}
