//! The stream `speed`: how fast each CPU is while the target runs.
//!
//! A virtual machine's neighbour takes a fifth of a CPU's speed and gives it back within seconds; so do the other thread of a core, the
//! clock's frequency and heat. Runs of one program vary by as much, and nothing that the kernel counts says so: the time is not stolen,
//! it is slow. A thread on each CPU makes [`CALLS`] system calls that do nothing, fifty times a second, and divides them by its own CPU
//! time for them. Who else has the CPU in turn with it does not matter, what makes the CPU itself slower does.
//!
//! It must be measured there and then: on pgbench, runs of two seconds, the speed of the same CPU explains 82 % of the variance of
//! neighbouring runs; that of another CPU, and that before and after the run, explain 20 % at most, and a speed measured ten times a
//! second half of it.
//!
//! It takes 0.1 ms of each CPU fifty times a second, so it is not among the default streams.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{Builder, JoinHandle, sleep};
use std::time::Duration;

use pagelab_recording::RecordingWriter;
use pagelab_recording::tables::MetricsRow;
use rustix::process::getppid;
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};

use crate::cpu::online_cpus;
use crate::streams::Stream;
use crate::watcher::{AttachTo, Closing, ProbeOptions, Round, Watcher, monotonic_ns, thread_cpu_ns};

/// The streams that it fills.
pub(crate) const STREAMS: &[Stream] = &[Stream::Speed];

/// System calls of one look: some 0.1 ms.
const CALLS: u32 = 600;
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(20);
const METRIC: &str = "speed.calls_per_second";

/// How fast a CPU was.
struct Look {
    ts: i64,
    /// Its place among [`SpeedWatcher::cpus`].
    place: usize,
    calls_per_second: f64,
}

/// What the threads share with the recording loop.
#[derive(Default)]
struct Shared {
    looks: Mutex<Vec<Look>>,
    ends: AtomicBool,
}

/// A thread on each CPU.
#[derive(Default)]
struct SpeedWatcher {
    shared: Arc<Shared>,
    /// Those that are to have one.
    online: Vec<usize>,
    threads: Vec<JoinHandle<u64>>,
    /// The CPUs, as instances of the metric.
    cpus: Vec<String>,
    /// CPUs on which no thread could be had, with the reason.
    refused: Vec<String>,
    looks: u64,
    cpu_ns: u64,
}

pub(crate) fn open(_: &ProbeOptions) -> Result<Box<dyn Watcher>, String> {
    let mut watcher = SpeedWatcher::default();
    watcher.online = online_cpus().map_err(|error| error.to_string())?;
    Ok(Box::new(watcher))
}

/// Binds this thread to a CPU.
fn stay_on(cpu: usize) -> Result<(), String> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(format!("cpu{cpu}: found more than {} CPUs", CpuSet::MAX_CPU));
    }
    let mut one = CpuSet::new();
    one.set(cpu);
    sched_setaffinity(None, &one).map_err(|error| format!("cpu{cpu}: sched_setaffinity: {error}"))
}

/// One look; none if the thread was not on that CPU, which may have gone offline.
fn calls_per_second(cpu: usize) -> Option<f64> {
    let begin_ns = thread_cpu_ns();
    for _ in 0..CALLS {
        std::hint::black_box(getppid());
    }
    let took_ns = thread_cpu_ns().saturating_sub(begin_ns);
    (took_ns > 0 && sched_getcpu() == cpu).then(|| f64::from(CALLS) * 1e9 / took_ns as f64)
}

/// What a thread does; its CPU time in the end.
fn look_on(cpu: usize, place: usize, shared: &Shared) -> u64 {
    // The first one finds no code in the CPU's cache.
    calls_per_second(cpu);
    while !shared.ends.load(Ordering::Relaxed) {
        if let Some(calls_per_second) = calls_per_second(cpu) {
            let look = Look { ts: monotonic_ns(), place, calls_per_second };
            shared.looks.lock().unwrap_or_else(PoisonError::into_inner).push(look);
        }
        sleep(PAUSE);
    }
    thread_cpu_ns()
}

impl SpeedWatcher {
    fn start_on(&mut self, cpu: usize) -> Result<(), String> {
        let (shared, place) = (self.shared.clone(), self.cpus.len());
        let (say, said) = mpsc::channel();
        let run = move || {
            let stays = stay_on(cpu);
            let is_there = stays.is_ok();
            // Nobody listens to a thread whose recording ended meanwhile.
            let _ = say.send(stays);
            if is_there { look_on(cpu, place, &shared) } else { 0 }
        };
        let thread =
            Builder::new().name(format!("speed-{cpu}")).spawn(run).map_err(|error| format!("cpu{cpu}: {error}"))?;
        said.recv().map_err(|error| format!("cpu{cpu}: {error}"))??;
        self.threads.push(thread);
        self.cpus.push(format!("cpu{cpu}"));
        Ok(())
    }
}

impl Watcher for SpeedWatcher {
    fn streams(&self) -> &'static [Stream] {
        STREAMS
    }

    fn rung(&self) -> &'static str {
        "procfs"
    }

    fn begin(&mut self, _: &AttachTo<'_>) -> Result<(), String> {
        for cpu in std::mem::take(&mut self.online) {
            if let Err(reason) = self.start_on(cpu) {
                self.refused.push(reason);
            }
        }
        if self.threads.is_empty() { Err(self.refused.join("; ")) } else { Ok(()) }
    }

    fn step(&mut self, _: &mut Round, writer: &mut RecordingWriter) {
        let looks = std::mem::take(&mut *self.shared.looks.lock().unwrap_or_else(PoisonError::into_inner));
        self.looks += looks.len() as u64;
        for Look { ts, place, calls_per_second } in looks {
            let instance = self.cpus.get(place).map(String::as_str);
            writer.push(&MetricsRow { ts, name: METRIC, instance, value: Some(calls_per_second) });
        }
    }

    fn shed(&mut self, _: Stream) -> bool {
        self.stop();
        true
    }

    fn stop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        // A thread that panicked has no CPU time to tell.
        self.cpu_ns += self.threads.drain(..).filter_map(|thread| thread.join().ok()).sum::<u64>();
    }

    fn finish(&mut self, closing: &mut Closing<'_>) {
        closing.note("looks", self.looks);
        closing.note("cpus", self.cpus.len());
        closing.note("cpu_ns", self.cpu_ns);
        if !self.refused.is_empty() {
            closing.note("not_measured", self.refused.clone());
        }
    }
}

impl Drop for SpeedWatcher {
    fn drop(&mut self) {
        self.stop();
    }
}
