//! Time off the CPU: the time that the kernel accounts to a task and its times off the CPU add up to its life.

use std::collections::BTreeMap;

use pagelab_observe::streams::StreamSet;
use pagelab_recording::Recording;
use pagelab_recording::tables::{OffcpuRow, SyscallsRow, TasksRow};
use pagelab_session::{SessionOptions, Target};

/// Two that ask each other in turn through pipes, two that compete for one CPU, one that sleeps.
const PROGRAM: &str = "import os, time
def child(work):
    pid = os.fork()
    if pid == 0:
        work()
        os._exit(0)
    return pid
a, b = os.pipe(), os.pipe()
# On CPUs of their own: who wakes another on its own CPU may be preempted in place of going to sleep.
def answer():
    os.sched_setaffinity(0, {0})
    for i in range(300):
        os.read(a[0], 1); os.write(b[1], b'y')
def ask():
    os.sched_setaffinity(0, {1})
    for i in range(300):
        os.write(a[1], b'x'); os.read(b[0], 1)
def burn():
    os.sched_setaffinity(0, {0})
    end = time.process_time() + 0.3
    while time.process_time() < end: sum(range(30000))
for pid in [child(answer), child(ask), child(burn), child(burn), child(lambda: time.sleep(0.4))]:
    os.waitpid(pid, 0)";

#[derive(Debug, Default)]
struct Life {
    tid: i32,
    began: i64,
    ended: i64,
    cpu_ns: u64,
    off_ns: i64,
    states: BTreeMap<String, u32>,
    wakers: BTreeMap<Option<u32>, u32>,
}

#[test]
fn time_on_and_off_the_cpu_make_up_a_life() {
    let tmp = tempfile::tempdir().expect("a directory");
    let target = Target::Command(["/usr/bin/python3", "-c", PROGRAM].map(Into::into).to_vec());
    let mut options = SessionOptions::new(target, tmp.path().join("rec"));
    options.streams = StreamSet::parse("tasks,sched,syscalls").expect("streams");
    let outcome = pagelab_session::run(&options).expect("recorded");
    assert_eq!(outcome.ended.expect("it ended").shell_status(), 0);
    let recording = Recording::open(&outcome.dir).expect("a recording");
    let mut lives: BTreeMap<u32, Life> = BTreeMap::new();
    recording
        .for_each::<TasksRow>(|row| {
            let life = lives.entry(row.task_id).or_default();
            life.tid = row.tid;
            match row.op {
                "fork" => life.began = row.ts,
                "exit" => {
                    life.ended = row.ts;
                    life.cpu_ns = row.utime_ns.unwrap_or(0) + row.stime_ns.unwrap_or(0);
                }
                _ => {}
            }
        })
        .expect("tasks");
    recording
        .for_each::<OffcpuRow>(|row| {
            let life = lives.entry(row.task_id).or_default();
            let dur = row.dur.expect("it ran again");
            life.off_ns += dur;
            *life.states.entry(row.state.expect("a state").to_owned()).or_default() += 1;
            *life.wakers.entry(row.waker_task_id).or_default() += 1;
            let waited = row.runqueue_ns.expect("measured") as i64;
            assert!((0..=dur).contains(&waited), "{row:?}");
            assert!(row.state != Some("R") || waited == dur, "who could run waits for nothing but a CPU: {row:?}");
        })
        .expect("offcpu");
    let children: Vec<(&u32, &Life)> = lives.iter().filter(|(_, life)| life.began > 0 && life.ended > 0).collect();
    assert_eq!(children.len(), 5, "{lives:?}");
    for (task, life) in &children {
        let (whole, on) = (life.ended - life.began, life.cpu_ns as i64);
        // It waits for its first turn after the fork, and is counted until its very end; both are short, the former
        // less so where many others want a CPU.
        let unexplained = (whole - life.off_ns - on).abs();
        assert!(unexplained < 250_000_000 + whole / 20, "task {task}: {whole} = {} + {on}? {life:?}", life.off_ns);
    }
    let times = |life: &Life, state: &str| life.states.get(state).copied().unwrap_or(0);
    let [answers, asks, burns, burns_too, sleeps] = [0, 1, 2, 3, 4].map(|i| children[i]);
    assert!(times(answers.1, "S") > 100 && times(asks.1, "S") > 100, "{children:?}");
    assert!(answers.1.wakers.get(&Some(*asks.0)).is_some_and(|count| *count > 100), "{answers:?}");
    assert!(asks.1.wakers.get(&Some(*answers.0)).is_some_and(|count| *count > 100), "{asks:?}");
    assert!(times(burns.1, "R") + times(burns_too.1, "R") > 10, "{burns:?} {burns_too:?}");
    assert!(sleeps.1.off_ns >= 400_000_000, "{sleeps:?}");
    let mut split = 0;
    recording
        .for_each::<SyscallsRow>(|row| {
            if let (Some(dur), Some(cpu), Some(blocked)) = (row.dur, row.cpu_ns, row.blocked_ns) {
                assert!(cpu + blocked <= dur as u64, "{row:?}");
                split += u32::from(blocked > 0);
            }
        })
        .expect("syscalls");
    assert!(split > 300, "calls that slept: {split}");
    for stream in ["sched", "syscalls"] {
        let probe = outcome.manifest.probes.iter().find(|probe| probe.name == stream).expect("the probe");
        assert!(probe.events_seen.is_some_and(|seen| seen > 500) && probe.events_lost == Some(0), "{probe:?}");
    }
}
