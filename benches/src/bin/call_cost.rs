//! What recording every system call costs programs that do nothing else, by the method of DESIGN section 8.
//!
//! Two processes write 4 KiB at a time to files of their own on tmpfs, without end. In slices of 200 ms, in random order, the
//! probes are detached, counting only, or recording into Parquet parts as a session does. Each round gives one paired ratio; the
//! figure is the median with a bootstrap interval.
//!
//! Usage: call_cost [ROUNDS] [write|pread] [SEED]      (as root; KEEP=1 in the environment keeps the recording)

use std::time::Duration;

use anyhow::{Context, Result};
use pagelab_benches::{Calls, Endless, now_ns, own_cpu_ns, slices};
use pagelab_observe::bpf::{Observer, ObserverOptions};
use pagelab_observe::feed::{CallFeed, Feed};
use pagelab_observe::syscalls::{CallFilter, Shapes};
use pagelab_recording::{Manifest, RecordingWriter, WriterOptions};
use serde_json::json;

const SLICE: Duration = Duration::from_millis(200);
const DRAIN: Duration = Duration::from_millis(20);
const CALLERS: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Detached,
    Counting,
    Recording,
}

/// The cost of one slice per call, ns.
#[derive(Debug, Clone, Copy, Default)]
struct Slice {
    wall_ns: f64,
    recorder_cpu_ns: f64,
}

struct Bench {
    callers: Vec<Endless>,
    counting: Observer,
    recording: Observer,
    feed: Feed,
    writer: RecordingWriter,
}

impl Bench {
    fn new(calls: Calls, out: &std::path::Path) -> Result<Self> {
        let callers = (0..CALLERS).map(|_| Endless::calls(calls)).collect::<std::io::Result<Vec<_>>>()?;
        let observer = |counting_only: bool| -> Result<Observer> {
            let options = ObserverOptions {
                counting_only,
                faults: false,
                maps: false,
                calls: Some(Shapes::of(&CallFilter::default()).infos()),
                ..ObserverOptions::default()
            };
            let mut observer = Observer::load(options)?;
            for caller in &callers {
                observer.adopt_running(caller.pidfd())?;
            }
            Ok(observer)
        };
        let (counting, recording) = (observer(true)?, observer(false)?);
        // A slice's rows are encoded and written within the slice.
        let options = WriterOptions { part_interval: SLICE, ..WriterOptions::default() };
        let writer = RecordingWriter::create(out, Manifest::default(), options)?;
        let feed =
            Feed::new(true, true, false).with_calls(Some(CallFeed::new(Shapes::of(&CallFilter::default()), false)));
        Ok(Self { callers, counting, recording, feed, writer })
    }

    fn calls(&self) -> u64 {
        self.callers.iter().map(Endless::done).sum()
    }

    fn slice(&mut self, state: State) -> Result<Slice> {
        match state {
            State::Detached => {}
            State::Counting => self.counting.attach()?,
            State::Recording => self.recording.attach()?,
        }
        std::thread::sleep(Duration::from_millis(5));
        let (calls, wall, own) = (self.calls(), now_ns(), own_cpu_ns());
        let end = wall + SLICE.as_nanos() as u64;
        while now_ns() < end {
            std::thread::sleep(DRAIN);
            if state == State::Recording {
                self.drain();
                self.writer.tick(now_ns() as i64)?;
            }
        }
        if state == State::Recording {
            self.writer.flush(now_ns() as i64)?;
        }
        let count = (self.calls() - calls) as f64;
        let slice =
            Slice { wall_ns: (now_ns() - wall) as f64 / count, recorder_cpu_ns: (own_cpu_ns() - own) as f64 / count };
        self.counting.detach();
        self.recording.detach();
        self.drain();
        Ok(slice)
    }

    fn drain(&mut self) {
        let mut events = Vec::new();
        self.recording.drain_events(|event| events.push(event));
        self.feed.events(&events, &mut self.writer, &mut Vec::new());
        let (feed, tables) = (&mut self.feed, self.writer.tables_mut());
        let recording = &mut self.recording;
        feed.calls(|sink| recording.drain_calls(|call| sink.take(call)), tables, &mut Vec::new());
    }
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let rounds: usize = args.next().map_or(Ok(300), |text| text.parse()).context("ROUNDS: needed a number")?;
    let calls: Calls = args.next().map_or(Ok(Calls::Write), |word| word.parse()).map_err(anyhow::Error::msg)?;
    let seed: u64 = args.next().map_or(Ok(1), |text| text.parse()).context("SEED: needed a number")?;
    let out = std::env::temp_dir().join(format!("pagelab-call-cost-{}", std::process::id()));
    let mut bench = Bench::new(calls, &out)?;
    let slices =
        slices::rounds(rounds, seed, [State::Detached, State::Counting, State::Recording], |state| bench.slice(state))?;
    report(calls, seed, &slices, &bench)?;
    let recorded = bench.recording.call_rings().total().recorded;
    let Bench { writer, callers, .. } = bench;
    drop(callers);
    let live = writer.stats();
    let begin = own_cpu_ns();
    writer.close(|_| {})?;
    let compaction = own_cpu_ns() - begin;
    let bytes = slices::directory_bytes(&out.join("syscalls"));
    println!(
        "{}",
        json!({"recorded": recorded, "live_bytes_written": live.bytes_written, "bytes_per_call_compacted": bytes as f64 / recorded as f64,
               "compaction_cpu_ns_per_call": compaction as f64 / recorded as f64})
    );
    if std::env::var_os("KEEP").is_none() {
        std::fs::remove_dir_all(&out)?;
    }
    Ok(())
}

fn report(calls: Calls, seed: u64, rounds: &[[Slice; 3]], bench: &Bench) -> Result<()> {
    let totals = bench.recording.call_rings().total();
    let line = json!({
        "calls": format!("{calls:?}"), "callers": CALLERS, "rounds": rounds.len(), "slice_ms": SLICE.as_millis() as u64,
        "wall_ns_per_call": {
            "detached": slices::median(rounds, |[detached, ..]| detached.wall_ns),
            "counting": slices::median(rounds, |[_, counting, _]| counting.wall_ns),
            "recording": slices::median(rounds, |[.., recording]| recording.wall_ns),
        },
        "recording_over_counting": slices::shown(rounds, seed, |[_, counting, recording]| recording.wall_ns / counting.wall_ns)?,
        "recording_over_detached": slices::shown(rounds, seed, |[detached, _, recording]| recording.wall_ns / detached.wall_ns)?,
        "recorder_cpu_ns_per_call": slices::median(rounds, |[.., recording]| recording.recorder_cpu_ns),
        "lost": totals.lost, "recorded": totals.recorded,
    });
    println!("{}", serde_json::to_string_pretty(&line)?);
    Ok(())
}
