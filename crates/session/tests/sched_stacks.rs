//! Where tasks sleep: programs that sleep at the bottom of a known chain of functions have that chain, also when almost
//! all of their stacks are sent by number. Needs root, and gcc.

use crate::common;

use std::collections::BTreeMap;
use std::path::Path;

use common::{compile, stacks};
use pagelab_observe::cpu::Unwinding;
use pagelab_observe::streams::StreamSet;
use pagelab_recording::Recording;
use pagelab_recording::tables::{LossRow, OffcpuRow, SamplesRow};
use pagelab_session::{SessionOptions, SessionOutcome, Target};

/// Sleeps, waits for a pipe and waits on a futex, each at the bottom of six functions of its own. The system calls are made
/// in place, so that the chain does not depend on how the C library was built.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
/* A function that calls nothing gets no frame just for being asked to keep frame pointers. */
#ifdef FRAMES
#define FRAME __asm__ volatile("" : : "r"(__builtin_frame_address(0)))
#else
#define FRAME
#endif
static long call(long nr, long a, long b, long c, long d);
#define CHAIN(name, last) \
    __attribute__((noinline)) void name##_6(void) { FRAME; last; __asm__ volatile("" ::: "memory"); } \
    __attribute__((noinline)) void name##_5(void) { name##_6(); __asm__ volatile("" ::: "memory"); } \
    __attribute__((noinline)) void name##_4(void) { name##_5(); __asm__ volatile("" ::: "memory"); } \
    __attribute__((noinline)) void name##_3(void) { name##_4(); __asm__ volatile("" ::: "memory"); } \
    __attribute__((noinline)) void name##_2(void) { name##_3(); __asm__ volatile("" ::: "memory"); } \
    __attribute__((noinline)) void name##_1(void) { name##_2(); __asm__ volatile("" ::: "memory"); }
static inline __attribute__((always_inline)) long call(long nr, long a, long b, long c, long d)
{
    register long r10 __asm__("r10") = d;
    long ret;
    __asm__ volatile("syscall" : "=a"(ret) : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
    return ret;
}
static struct timespec moment = { 0, 1000000 };
static int pipes[2][2];
static int word;
static char byte;
CHAIN(nap, call(SYS_nanosleep, (long)&moment, 0, 0, 0))
CHAIN(fetch, call(SYS_read, pipes[0][0], (long)&byte, 1, 0))
CHAIN(lock, call(SYS_futex, (long)&word, FUTEX_WAIT, 0, (long)&moment))
static void *answer(void *x)
{
    char c;
    /* The answer is late, so that it is waited for. */
    while (read(pipes[1][0], &c, 1) == 1)
        if (nanosleep(&moment, NULL) || write(pipes[0][1], &c, 1) != 1)
            break;
    return x;
}
int main(int c, char **v)
{
    long turns = atol(v[1]);
    pthread_t thread;
    if (pipe(pipes[0]) || pipe(pipes[1]))
        return 1;
    pthread_create(&thread, NULL, answer, NULL);
    for (long i = 0; i < turns; i++) {
        nap_1();
        lock_1();
        if (write(pipes[1][1], &byte, 1) != 1)
            return 1;
        fetch_1();
    }
    close(pipes[1][1]);
    pthread_join(thread, NULL);
    return 0;
}
"#;
const TURNS: u32 = 300;
const MOST: u32 = TURNS * 9 / 10;

/// Sleeps at a different depth each time, up to 32 KiB down.
const DEPTHS: &str = r#"
#include <alloca.h>
#include <string.h>
#include <time.h>
__attribute__((noinline)) void sleep_below(long bytes)
{
    struct timespec moment = { 0, 1000 };
    char *room = memset(alloca(bytes), 1, bytes);
    nanosleep(&moment, NULL);
    __asm__ volatile("" : : "r"(room) : "memory");
}
int main(void)
{
    for (long i = 0; i < 2000; i++)
        sleep_below(16 * i);
    return 0;
}
"#;

fn record(dir: &Path, program: &Path, streams: &str, change: impl FnOnce(&mut SessionOptions)) -> SessionOutcome {
    let target = Target::Command(vec![program.into(), TURNS.to_string().into()]);
    let mut options = SessionOptions::new(target, dir.join("rec"));
    options.streams = StreamSet::parse(streams).expect("streams");
    change(&mut options);
    let outcome = pagelab_session::run(&options).expect("recorded");
    assert_eq!(outcome.ended.expect("it ended").shell_status(), 0);
    outcome
}

/// A sleep of the main thread in one of the chains.
#[derive(Debug, Default)]
struct Sleeps {
    times: u32,
    whole: u32,
    ns: i64,
    kernel: BTreeMap<Vec<String>, u32>,
    user: BTreeMap<Vec<String>, u32>,
}

/// Compares the recorded stacks with the chains that the program has.
fn assert_chains(recording: &Recording, outermost: &str) {
    let stacks = stacks(recording);
    let functions = |id: Option<u64>| id.and_then(|id| stacks.get(&id)).cloned().unwrap_or_default();
    let (mut sleeps, mut without) = (BTreeMap::<&str, Sleeps>::new(), Vec::new());
    recording
        .for_each::<OffcpuRow>(|row| {
            if row.state == Some("R") {
                assert!(row.kstack_id.is_none() && row.ustack_id.is_none(), "it was preempted: {row:?}");
                return;
            }
            if row.kstack_id.is_none() {
                without.push(format!("{row:?}"));
            }
            let user = functions(row.ustack_id);
            let chain = ["nap", "fetch", "lock"]
                .into_iter()
                .find(|name| user.iter().any(|f| f.starts_with(&format!("{name}_"))));
            let Some(name) = chain else { return };
            let wanted = (1..=6).rev().map(|n| format!("{name}_{n}")).chain(["main".to_owned()]);
            let known = sleeps.entry(name).or_default();
            let whole = user.iter().take(7).cloned().eq(wanted) && user.last().is_some_and(|f| f == outermost);
            known.times += 1;
            known.whole += u32::from(whole);
            known.ns += row.dur.unwrap_or(0);
            *known.kernel.entry(functions(row.kstack_id)).or_default() += 1;
            *known.user.entry(user).or_default() += 1;
        })
        .expect("offcpu");
    assert!(without.is_empty(), "times without a stack: {without:#?}");
    // On a busy machine what is waited for may happen before the task has left the CPU.
    for (name, least, call) in [("nap", MOST, "nanosleep"), ("fetch", MOST, "read"), ("lock", MOST, "futex")] {
        let Some(known) = sleeps.get(name) else { panic!("no sleep in {name}: {sleeps:#?}") };
        assert!(known.times >= least && known.whole == known.times, "{name}: {known:#?}");
        for kernel in known.kernel.keys() {
            assert!(kernel.iter().any(|function| function.contains(call)), "{name}: {kernel:?}");
            assert_eq!(kernel.first().map(String::as_str), Some("__schedule"), "{kernel:?}");
        }
    }
    for name in ["nap", "lock"] {
        assert!(sleeps[name].ns >= i64::from(MOST) * 1_000_000, "a millisecond each: {sleeps:?}");
    }
}

#[test]
fn sleeps_have_the_chain_of_calls_that_led_there() {
    let dir = tempfile::tempdir().expect("a directory");
    let program = compile(dir.path(), PROGRAM, &["-fomit-frame-pointer"]);
    let outcome = record(dir.path(), &program, "tasks,sched", |_| ());
    assert_chains(&Recording::open(&outcome.dir).expect("a recording"), "_start");
    let told = &outcome.manifest.extra["sched"]["off_cpu"];
    let number = |name: &str| told[name].as_u64().unwrap_or_else(|| panic!("{name}: {told}"));
    assert_eq!(number("lost") + number("ustacks_without_room"), 0, "{told}");
    assert!(number("known_from_earlier") * 2 > number("stacks"), "most are the same as earlier ones: {told}");
}

#[test]
fn both_streams_with_stacks_share_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let program = compile(dir.path(), PROGRAM, &["-fomit-frame-pointer"]);
    let outcome = record(dir.path(), &program, "tasks,sched,cpu,maps", |_| ());
    let recording = Recording::open(&outcome.dir).expect("a recording");
    assert_chains(&recording, "_start");
    let (stacks, mut samples) = (stacks(&recording), 0);
    recording
        .for_each::<SamplesRow>(|row| {
            samples += 1;
            let known = |id: Option<u64>| id.is_none_or(|id| stacks.contains_key(&id));
            assert!(known(row.kstack_id) && known(row.ustack_id), "{row:?}");
        })
        .expect("samples");
    assert!(samples > 0, "no sample");
    assert!(outcome.manifest.extra["cpu"]["off_cpu"]["stacks"].as_u64() > Some(0), "{:?}", outcome.manifest.extra);
}

#[test]
fn chains_of_frame_pointers_need_no_copies() {
    let dir = tempfile::tempdir().expect("a directory");
    let program = compile(dir.path(), PROGRAM, &["-fno-omit-frame-pointer", "-DFRAMES", "-fno-shrink-wrap"]);
    let outcome = record(dir.path(), &program, "tasks,sched", |options| options.unwinding = Unwinding::FramePointers);
    let told = &outcome.manifest.extra["sched"]["off_cpu"];
    assert_eq!(told["copied_bytes"], 0, "{told}");
    let recording = Recording::open(&outcome.dir).expect("a recording");
    let (stacks, mut naps) = (stacks(&recording), 0);
    recording
        .for_each::<OffcpuRow>(|row| {
            let Some(user) = row.ustack_id.and_then(|id| stacks.get(&id)) else { return };
            let wanted = (1..=6).rev().map(|n| format!("nap_{n}")).chain(["main".to_owned()]);
            naps += u32::from(user.iter().take(7).cloned().eq(wanted));
        })
        .expect("offcpu");
    assert!(naps >= MOST, "{naps} naps");
}

#[test]
fn stacks_can_be_left_out() {
    let dir = tempfile::tempdir().expect("a directory");
    let program = compile(dir.path(), PROGRAM, &[]);
    let outcome = record(dir.path(), &program, "tasks,sched:nostacks", |_| ());
    let recording = Recording::open(&outcome.dir).expect("a recording");
    let mut times = 0;
    recording
        .for_each::<OffcpuRow>(|row| {
            times += 1;
            assert!(row.kstack_id.is_none() && row.ustack_id.is_none(), "{row:?}");
        })
        .expect("offcpu");
    assert!(times > TURNS, "{times}");
    assert!(recording.parts("stacks").expect("a table").is_empty());
}

#[test]
fn what_a_small_ring_loses_is_counted_and_leaves_times_without_stacks() {
    let dir = tempfile::tempdir().expect("a directory");
    // Each sleep is at another depth of the stack: nothing is known, all is copied.
    let program = compile(dir.path(), DEPTHS, &[]);
    let outcome = record(dir.path(), &program, "tasks,sched", |options| options.ring_bytes_per_cpu = 4 << 10);
    let recording = Recording::open(&outcome.dir).expect("a recording");
    let (mut slept, mut kernel, mut user) = (0, 0, 0);
    recording
        .for_each::<OffcpuRow>(|row| {
            slept += u64::from(row.state != Some("R"));
            kernel += u64::from(row.kstack_id.is_some());
            user += u64::from(row.ustack_id.is_some());
        })
        .expect("offcpu");
    let told = &outcome.manifest.extra["sched"]["off_cpu"];
    let number = |name: &str| told[name].as_u64().unwrap_or_else(|| panic!("{name}: {told}"));
    assert!(number("ustacks_without_room") + number("lost") > 0, "the ring was not too small: {told}");
    assert!(kernel <= number("stacks") && user <= kernel, "{kernel} {user} {told}");
    assert!(slept - kernel <= number("lost"), "a stack that was not lost is with its time: {slept} {kernel} {told}");
    let mut counted = (0, 0);
    recording
        .for_each::<LossRow>(|row| {
            if row.stream == "sched_stacks" {
                counted = (counted.0 + row.seen, counted.1 + row.lost);
            }
        })
        .expect("loss");
    assert_eq!(counted, (number("stacks") + number("lost"), number("lost")), "{told}");
}
