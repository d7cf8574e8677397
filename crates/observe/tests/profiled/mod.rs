//! Runs a command under the observer and the profiler, as a session does.

#![allow(dead_code)]

use std::collections::HashMap;
use std::io::Write;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pagelab_observe::bpf::{Event, Observer, ObserverOptions};
use pagelab_observe::cpu::{ProfileOptions, Profiler, SampleCounts};
use pagelab_observe::stacks::{End, Frame, StackIds, Stacks};
use pagelab_vocab::samples::ReturnedFrom;

/// For programs that are looked at while they run: `FOR_MS(n)` goes on for n ms, however fast the processor is.
const FOR_MS: &str = "
#include <time.h>
static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}
#define FOR_MS(ms) for (double end_ms = now_ms() + (ms); now_ms() < end_ms;)
";

/// A sample with its stacks resolved.
#[derive(Debug, Clone)]
pub(crate) struct Sampled {
    pub ts: u64,
    pub task_id: u32,
    pub kernel: Vec<Frame>,
    pub user: Vec<Frame>,
    pub end: Option<End>,
    pub returned_from: Option<ReturnedFrom>,
}

impl Sampled {
    /// The functions of the user's stack, innermost first; `?` where there is no symbol.
    pub(crate) fn names(&self) -> Vec<String> {
        self.user.iter().map(|frame| frame.symbol.clone().unwrap_or_else(|| "?".to_owned())).collect()
    }
}

/// The samples.
pub(crate) struct Run {
    pub samples: Vec<Sampled>,
    pub counts: Vec<SampleCounts>,
    pub event: &'static str,
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Compiles a C program, which may say `FOR_MS(n)`.
pub(crate) fn compile(dir: &Path, name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let (code, program) = (dir.join(format!("{name}.c")), dir.join(name));
    let prelude = if source.contains("FOR_MS") { FOR_MS } else { "" };
    std::fs::write(&code, format!("{prelude}{source}")).expect("the directory is ours");
    let status = Command::new("gcc").args(flags).arg(&code).arg("-o").arg(&program).arg("-lpthread").status();
    assert!(status.expect("gcc is there").success());
    program
}

fn monotonic_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn observer(faults: bool) -> Observer {
    let wanted = ObserverOptions { faults, ..ObserverOptions::default() };
    let mut observer = Observer::load(wanted).expect("root and BTF are there");
    observer.attach().expect("the tracepoints are there");
    observer
}

fn pidfd_of(child: &Child) -> OwnedFd {
    // SAFETY: pidfd_open returns a fresh descriptor or -1.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, child.id(), 0) as i32;
        assert!(fd >= 0, "pidfd_open: {}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(fd)
    }
}

/// Profiles a command from its exec to its end; `meanwhile` is called again and again while it runs, with its pid.
pub(crate) fn profile(command: &str, options: &ProfileOptions, meanwhile: impl FnMut(u32)) -> Run {
    profile_beside(command, options, false, meanwhile)
}

/// The same with faults recorded, too; nobody takes them.
pub(crate) fn profile_with_faults(command: &str, options: &ProfileOptions) -> Run {
    profile_beside(command, options, true, |_| ())
}

fn profile_beside(command: &str, options: &ProfileOptions, faults: bool, meanwhile: impl FnMut(u32)) -> Run {
    let mut observer = observer(faults);
    let gate = ["-c", &format!("read go; exec {command}")];
    let child = Command::new("sh").args(gate).stdin(Stdio::piped()).spawn().expect("sh starts");
    observer.adopt(pidfd_of(&child).as_fd()).expect("the child lives");
    follow(child, observer, options, meanwhile)
}

/// Profiles a program that was started before anything observed it.
pub(crate) fn profile_running(program: &Path, argument: &str, options: &ProfileOptions) -> Run {
    let child = Command::new(program).arg(argument).stdin(Stdio::piped()).spawn().expect("it starts");
    // Until it runs its own code.
    std::thread::sleep(Duration::from_millis(50));
    let mut observer = observer(false);
    observer.adopt_running(pidfd_of(&child).as_fd()).expect("the child lives");
    follow(child, observer, options, |_| ())
}

/// Lets the child go on and takes what is sampled until it ends.
fn follow(mut child: Child, mut observer: Observer, options: &ProfileOptions, mut meanwhile: impl FnMut(u32)) -> Run {
    let mut profiler = Profiler::open(options, &observer).expect("BPF on perf events");
    let mut stacks = Stacks::new(options.unwinding, child.id());
    // A program that is not at a gate need not read it.
    let _ = child.stdin.take().expect("piped").write_all(b"\n");
    let (mut raw, mut rows, mut known_until) = (Vec::new(), HashMap::new(), 0);
    let deadline = Instant::now() + Duration::from_mins(2);
    let mut ended = false;
    loop {
        let mut events: Vec<Event> = Vec::new();
        if ended {
            observer.detach();
            profiler.detach();
            known_until = u64::MAX;
        }
        observer.drain_events(|event| events.push(event));
        let mut take = |until: u64, stacks: &mut Stacks, profiler: &mut Profiler| {
            profiler.drain(until, |_, sample| {
                raw.push((sample.ts, sample.task_id, stacks.sample(sample), sample.returned_from));
            });
        };
        stacks.name_files(&events);
        for event in &events {
            if stacks.takes_away(event)
                && let Event::Map(map) = event
            {
                take(map.ts, &mut stacks, &mut profiler);
            }
            stacks.event(event);
        }
        take(known_until, &mut stacks, &mut profiler);
        known_until = monotonic_ns();
        stacks.forget_left();
        stacks.refresh_jit(known_until);
        rows.extend(stacks.take_new().1);
        if ended {
            break;
        }
        meanwhile(child.id());
        ended = child.try_wait().expect("our child").is_some();
        assert!(Instant::now() < deadline, "the command did not end");
        std::thread::sleep(Duration::from_millis(10));
    }
    let named = stacks.name_all(&|| false);
    let frames = |id: Option<u64>| -> Vec<Frame> {
        let ids = id.and_then(|id| rows.get(&id)).cloned().unwrap_or_default();
        ids.iter().flat_map(|id| named.frames.get(id).cloned().unwrap_or_default()).collect()
    };
    let resolved = |(ts, task_id, ids, returned_from): &(u64, u32, StackIds, Option<ReturnedFrom>)| Sampled {
        ts: *ts,
        task_id: *task_id,
        kernel: frames(ids.kernel),
        user: frames(ids.user),
        end: ids.end,
        returned_from: *returned_from,
    };
    let rings = profiler.rings();
    Run {
        samples: raw.iter().map(resolved).collect(),
        counts: (0..rings.cpus()).map(|cpu| rings.counts(cpu)).collect(),
        event: profiler.event(),
    }
}
