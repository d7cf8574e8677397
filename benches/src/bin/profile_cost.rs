//! What the profile of 997 samples a second costs a program that is busy all the time, by the method of DESIGN section 8.
//!
//! The program is compiled with and without frame pointers. It works at the end of call chains of 8 to 39 functions. In
//! slices of 200 ms, in random order, sampling is stopped, or the event ticks without anybody to be sampled, or sampling goes on while stacks are unwound and rows written into
//! Parquet parts as a session does. Each round gives how much more CPU time a piece of work took, and what share of a
//! CPU the recorder used; the figure is the median of their sum with a bootstrap interval. Work per slice is there too, which
//! says something only if the program has a CPU for itself (`core_pct_of_program` near 100).
//!
//! Usage: profile_cost [ROUNDS] [fp|auto|dwarf] [frame-pointers|none] [SEED]      (as root; gcc)

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use pagelab_benches::{now_ns, own_cpu_ns, slices};
use pagelab_observe::bpf::{Observer, ObserverOptions};
use pagelab_observe::cpu::{ProfileOptions, Profiler, Unwinding};
use pagelab_observe::stacks::{End, Stacks};
use pagelab_recording::tables::{FramesRow, SamplesRow, StacksRow};
use pagelab_recording::{Manifest, RecordingWriter, WriterOptions};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::json;

const SLICE: Duration = Duration::from_millis(200);
/// As the recording loop waits while no more than samples come (`pace.rs` of pagelab-session, LONG).
const DRAIN: Duration = Duration::from_millis(50);
const SOURCE: &str = include_str!("../profile_busy.c");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Detached,
    /// The event is there, and its program finds that nobody is to be sampled.
    Ticking,
    Recording,
}

/// Work and time of one slice.
#[derive(Debug, Clone, Copy, Default)]
struct Slice {
    work: f64,
    wall_ns: f64,
    workload_cpu_ns: f64,
    recorder_cpu_ns: f64,
}

impl Slice {
    /// CPU time of the program for a piece of work.
    fn cpu_per_work(&self) -> f64 {
        self.workload_cpu_ns / self.work
    }

    /// The recorder's share of one CPU.
    fn recorder_share(&self) -> f64 {
        self.recorder_cpu_ns / self.wall_ns
    }
}

/// The profile's cost on a core that is busy with the program, in percent: work takes longer, and the recorder runs
/// too.
fn pct_of_busy_core(without: &Slice, with: &Slice) -> f64 {
    let dearer = with.cpu_per_work() / without.cpu_per_work() - 1.0;
    100.0 * (dearer + with.recorder_share() - without.recorder_share())
}

struct Bench {
    child: Child,
    work: *const u64,
    cpu_clock: libc::clockid_t,
    observer: Observer,
    profiler: Profiler,
    /// Samples nobody: what the ticks by themselves cost.
    ticking: Profiler,
    stacks: Stacks,
    writer: RecordingWriter,
    samples: u64,
    reached: u64,
}

/// Compiles the program and starts it at a gate, so that all that it maps is seen.
fn start(dir: &Path, frame_pointers: bool) -> Result<(Child, OwnedFd)> {
    let (source, program, counter) = (dir.join("busy.c"), dir.join("busy"), dir.join("work"));
    std::fs::write(&source, SOURCE)?;
    std::fs::write(&counter, vec![0; 4096])?;
    let flag = if frame_pointers { "-fno-omit-frame-pointer" } else { "-fomit-frame-pointer" };
    let status = Command::new("gcc")
        .args(["-O2", "-g", flag, "-fno-optimize-sibling-calls", "-o"])
        .arg(&program)
        .arg(&source)
        .status()
        .context("gcc; install it with: apt-get install gcc")?;
    if !status.success() {
        bail!("gcc failed on {}", source.display());
    }
    let gate = format!("read go; exec {} {}", program.display(), counter.display());
    let child = Command::new("sh").args(["-c", &gate]).stdin(Stdio::piped()).spawn()?;
    let pid = Pid::from_raw(child.id() as i32).context("no process id")?;
    Ok((child, pidfd_open(pid, PidfdFlags::empty())?))
}

impl Bench {
    fn new(dir: &Path, unwinding: Unwinding, frame_pointers: bool) -> Result<Self> {
        let (mut child, pidfd) = start(dir, frame_pointers)?;
        let mut observer = Observer::load(ObserverOptions { faults: false, ..ObserverOptions::default() })?;
        observer.attach()?;
        observer.adopt(pidfd.as_fd())?;
        let options = ProfileOptions { unwinding, ..ProfileOptions::default() };
        let mut profiler = Profiler::open(&options, &observer)?;
        profiler.pause()?;
        let nobody = Observer::load(ObserverOptions { faults: false, ..ObserverOptions::default() })?;
        let mut ticking = Profiler::open(&options, &nobody)?;
        ticking.pause()?;
        let stacks = Stacks::new(unwinding, child.id());
        let mut cpu_clock = 0;
        // SAFETY: writes one number into a local.
        if unsafe { libc::clock_getcpuclockid(child.id() as i32, &raw mut cpu_clock) } != 0 {
            bail!("the child's CPU clock cannot be had");
        }
        let file = std::fs::File::options().read(true).open(dir.join("work"))?;
        // SAFETY: a fresh shared mapping of a file of one page; the program adds to its first word.
        let work = unsafe {
            let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
            libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, libc::MAP_SHARED, fd, 0)
        };
        if work == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error().into());
        }
        child.stdin.take().context("piped")?.write_all(b"\n")?;
        std::thread::sleep(Duration::from_millis(200));
        let options = WriterOptions { part_interval: SLICE, ..WriterOptions::default() };
        let writer = RecordingWriter::create(&dir.join("rec"), Manifest::default(), options)?;
        let work = work.cast::<u64>().cast_const();
        let mut bench =
            Self { child, work, cpu_clock, observer, profiler, ticking, stacks, writer, samples: 0, reached: 0 };
        bench.drain();
        Ok(bench)
    }

    fn work(&self) -> u64 {
        // SAFETY: the page stays mapped until the benchmark ends; the program writes the word as a whole.
        unsafe { self.work.read_volatile() }
    }

    fn workload_cpu_ns(&self) -> u64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: writes into a local.
        unsafe { libc::clock_gettime(self.cpu_clock, &raw mut time) };
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    fn slice(&mut self, state: State) -> Result<Slice> {
        let recording = state == State::Recording;
        match state {
            State::Detached => {}
            State::Ticking => self.ticking.resume()?,
            State::Recording => self.profiler.resume()?,
        }
        std::thread::sleep(Duration::from_millis(5));
        let (work, wall, workload, own) = (self.work(), now_ns(), self.workload_cpu_ns(), own_cpu_ns());
        let end = wall + SLICE.as_nanos() as u64;
        while now_ns() < end {
            std::thread::sleep(DRAIN);
            if recording {
                self.drain();
            }
        }
        if recording {
            self.writer.flush(now_ns() as i64)?;
        }
        let slice = Slice {
            work: (self.work() - work) as f64,
            wall_ns: (now_ns() - wall) as f64,
            workload_cpu_ns: (self.workload_cpu_ns() - workload) as f64,
            recorder_cpu_ns: (own_cpu_ns() - own) as f64,
        };
        self.profiler.pause()?;
        self.ticking.pause()?;
        self.drain();
        Ok(slice)
    }

    /// What a session's probe does fifty times a second.
    fn drain(&mut self) {
        let mut events = Vec::new();
        self.observer.drain_events(|event| events.push(event));
        self.stacks.name_files(&events);
        for event in &events {
            self.stacks.event(event);
        }
        let event = self.profiler.event();
        let (stacks, writer) = (&mut self.stacks, &mut self.writer);
        let (samples, reached) = (&mut self.samples, &mut self.reached);
        self.profiler.drain(u64::MAX, |cpu, sample| {
            let ids = stacks.sample(sample);
            *samples += 1;
            *reached += u64::from(ids.end == Some(End::Entry));
            writer.push(&SamplesRow {
                ts: sample.ts as i64,
                task_id: sample.task_id,
                cpu,
                event,
                kstack_id: ids.kernel,
                ustack_id: ids.user,
                weight: sample.period,
                ustack_end: ids.end.map(End::name),
                ..SamplesRow::default()
            });
        });
        let (frames, new_stacks) = stacks.take_new();
        for (frame_id, frame) in &frames {
            let (module, build_id) = (frame.module.as_deref(), frame.build_id.as_deref());
            let (frame_id, module_offset, kernel) = (*frame_id, frame.module_offset, frame.kernel);
            writer.push(&FramesRow { frame_id, symbol: None, module, build_id, module_offset, kernel, inlined: false });
        }
        for (stack_id, frame_ids) in &new_stacks {
            writer.push(&StacksRow { stack_id: *stack_id, frame_ids });
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // It has nothing to say about its end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let rounds: usize = args.next().map_or(Ok(300), |text| text.parse()).context("ROUNDS: needed a number")?;
    let unwinding = args.next().unwrap_or_else(|| "auto".to_owned());
    let mode = match unwinding.as_str() {
        "fp" => Unwinding::FramePointers,
        "auto" => Unwinding::Auto,
        "dwarf" => Unwinding::Dwarf,
        other => bail!("found {other:?}, needed fp, auto or dwarf"),
    };
    let program = args.next().unwrap_or_else(|| "none".to_owned());
    let frame_pointers = match program.as_str() {
        "frame-pointers" => true,
        "none" => false,
        other => bail!("found {other:?}, needed frame-pointers or none"),
    };
    let seed: u64 = args.next().map_or(Ok(1), |text| text.parse()).context("SEED: needed a number")?;
    let dir = std::env::temp_dir().join(format!("pagelab-profile-cost-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let mut bench = Bench::new(&dir, mode, frame_pointers)?;
    let slices =
        slices::rounds(rounds, seed, [State::Detached, State::Ticking, State::Recording], |state| bench.slice(state))?;
    report(&unwinding, &program, seed, &slices, &bench)?;
    drop(bench);
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

fn report(unwinding: &str, program: &str, seed: u64, rounds: &[[Slice; 3]], bench: &Bench) -> Result<()> {
    let shown = |value: fn(&[Slice; 3]) -> f64| slices::shown(rounds, seed, value);
    let rings = bench.profiler.rings();
    let counts: Vec<_> = (0..rings.cpus()).map(|cpu| rings.counts(cpu)).collect();
    let line = json!({
        "event": bench.profiler.event(), "unwinding": unwinding, "frame_pointers": program,
        "rounds": rounds.len(), "slice_ms": SLICE.as_millis() as u64,
        "pct_of_busy_core": shown(|[without, _, with]| pct_of_busy_core(without, with))?,
        "pct_of_busy_core_ticks_only": shown(|[without, ticking, _]| pct_of_busy_core(without, ticking))?,
        "cpu_per_work_recording_over_detached": shown(|[without, _, with]| with.cpu_per_work() / without.cpu_per_work())?,
        "work_detached_over_recording": shown(|[without, _, with]| without.work / with.work)?,
        "recorder_pct_of_core": shown(|[without, _, with]| 100.0 * (with.recorder_share() - without.recorder_share()))?,
        "core_pct_of_program": shown(|[without, ..]| 100.0 * without.workload_cpu_ns / without.wall_ns)?,
        "samples": bench.samples, "ustacks_to_entry": bench.reached, "known_from_earlier": bench.stacks.hits(),
        "seen": counts.iter().map(|count| count.seen).sum::<u64>(), "lost": counts.iter().map(|count| count.lost).sum::<u64>(),
    });
    println!("{}", serde_json::to_string_pretty(&line)?);
    Ok(())
}
