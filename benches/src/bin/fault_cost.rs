//! What recording every page fault costs a program that only faults, by the method of DESIGN section 8.
//!
//! One process faults without end. In slices of 200 ms, in random order, the probes are detached, counting only, or
//! recording into Parquet parts as a session does. Each round gives one paired ratio; the figure is the median with a
//! bootstrap interval.
//!
//! With the fourth argument N other than 0, how faults end is recorded, too: of one in N, as a session does (its default is 64).
//!
//! Usage: fault_cost [ROUNDS] [ascending|descending|random] [SEED] [N]      (as root)

use std::time::Duration;

use anyhow::{Context, Result};
use pagelab_benches::{Endless, Order, now_ns, own_cpu_ns, slices};
use pagelab_observe::bpf::{FaultSlot, Observer, ObserverOptions};
use pagelab_observe::details::{FaultDetail, FaultDetails};
use pagelab_observe::feed::Feed;
use pagelab_recording::{Manifest, RecordingWriter, WriterOptions};
use serde_json::json;

const SLICE: Duration = Duration::from_millis(200);
const DRAIN: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Detached,
    Counting,
    Recording,
}

/// The cost of one slice per fault, ns.
#[derive(Debug, Clone, Copy, Default)]
struct Slice {
    wall_ns: f64,
    workload_cpu_ns: f64,
    recorder_cpu_ns: f64,
}

struct Bench {
    faulter: Endless,
    counting: Observer,
    recording: Observer,
    feed: Feed,
    writer: RecordingWriter,
    recorded: u64,
    details: Option<FaultDetails>,
    received: Vec<FaultDetail>,
}

impl Bench {
    fn new(order: Order, one_in: u64, out: &std::path::Path) -> Result<Self> {
        let faulter = Endless::faults(order)?;
        let observer = |counting_only: bool| -> Result<Observer> {
            let mut observer = Observer::load(ObserverOptions { counting_only, ..ObserverOptions::default() })?;
            observer.adopt_running(faulter.pidfd())?;
            Ok(observer)
        };
        let (counting, recording) = (observer(true)?, observer(false)?);
        // A slice's rows are encoded and written within the slice.
        let options = WriterOptions { part_interval: SLICE, ..WriterOptions::default() };
        let writer = RecordingWriter::create(out, Manifest::default(), options)?;
        let details = (one_in > 0).then(|| FaultDetails::open(&recording, one_in)).transpose()?;
        let (feed, received) = (Feed::new(true, true, true), Vec::new());
        Ok(Self { faulter, counting, recording, feed, writer, recorded: 0, details, received })
    }

    fn slice(&mut self, state: State) -> Result<Slice> {
        match state {
            State::Detached => {}
            State::Counting => self.counting.attach()?,
            State::Recording => {
                self.recording.attach()?;
                self.details.as_mut().map(FaultDetails::attach).transpose()?;
            }
        }
        std::thread::sleep(Duration::from_millis(5));
        let (faults, wall, workload, own) = (self.faulter.done(), now_ns(), self.faulter.cpu_ns(), own_cpu_ns());
        let end = wall + SLICE.as_nanos() as u64;
        while now_ns() < end {
            std::thread::sleep(DRAIN);
            if state == State::Recording {
                self.drain();
            }
        }
        if state == State::Recording {
            let now = now_ns() as i64;
            self.feed.details().before_part(now, self.writer.faults_mut());
            self.writer.flush(now)?;
            self.feed.details().after_part(self.writer.faults_mut());
        }
        let count = (self.faulter.done() - faults) as f64;
        let slice = Slice {
            wall_ns: (now_ns() - wall) as f64 / count,
            workload_cpu_ns: (self.faulter.cpu_ns() - workload) as f64 / count,
            recorder_cpu_ns: (own_cpu_ns() - own) as f64 / count,
        };
        self.counting.detach();
        self.recording.detach();
        if let Some(details) = &mut self.details {
            details.detach();
        }
        self.drain();
        Ok(slice)
    }

    fn drain(&mut self) {
        let (feed, columns) = (&mut self.feed, self.writer.faults_mut());
        let mut events = Vec::new();
        self.recording.drain_events(|event| events.push(event));
        if let Some(details) = &mut self.details {
            let (recording, recorded) = (&mut self.recording, &mut self.recorded);
            recording.mark_faults();
            details.drain(&mut self.received);
            let drain = |sink: &mut dyn FnMut(usize, u64, &[FaultSlot])| {
                recording.drain_marked_faults(|cpu, position, slots| {
                    *recorded += slots.len() as u64;
                    sink(cpu, position, slots);
                });
            };
            feed.faults_in_detail(&self.received, drain, columns);
            self.received.clear();
        } else {
            self.recorded += self.recording.drain_faults(|_, slots| feed.faults(slots, columns)) as u64;
        }
        self.feed.events(&events, &mut self.writer, &mut Vec::new());
    }
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let rounds: usize = args.next().map_or(Ok(300), |text| text.parse()).context("ROUNDS: needed a number")?;
    let order: Order = args.next().map_or(Ok(Order::Ascending), |word| word.parse()).map_err(anyhow::Error::msg)?;
    let seed: u64 = args.next().map_or(Ok(1), |text| text.parse()).context("SEED: needed a number")?;
    let one_in: u64 = args.next().map_or(Ok(0), |text| text.parse()).context("N: needed a number")?;
    let out = std::env::temp_dir().join(format!("pagelab-fault-cost-{}", std::process::id()));
    let mut bench = Bench::new(order, one_in, &out)?;
    let slices =
        slices::rounds(rounds, seed, [State::Detached, State::Counting, State::Recording], |state| bench.slice(state))?;
    report(order, seed, &slices, &bench)?;
    let details = bench.details.as_ref().map(FaultDetails::counts);
    let Bench { mut feed, mut writer, recorded, .. } = bench;
    feed.details().finish(writer.faults_mut());
    if let Some(counts) = details {
        println!(
            "{}",
            json!({"details": counts.seen, "details_lost": counts.lost, "details_unmatched": feed.unmatched_details()})
        );
    }
    let live = writer.stats();
    let begin = own_cpu_ns();
    writer.close(|_| {})?;
    let compaction = own_cpu_ns() - begin;
    let bytes = slices::directory_bytes(&out.join("faults"));
    println!(
        "{}",
        json!({"recorded": recorded, "live_bytes_written": live.bytes_written, "bytes_per_fault_compacted": bytes as f64 / recorded as f64,
               "compaction_cpu_ns_per_fault": compaction as f64 / recorded as f64})
    );
    std::fs::remove_dir_all(&out)?;
    Ok(())
}

fn report(order: Order, seed: u64, rounds: &[[Slice; 3]], bench: &Bench) -> Result<()> {
    let cpu = |[detached, _, recording]: &[Slice; 3]| {
        recording.workload_cpu_ns - detached.workload_cpu_ns + recording.recorder_cpu_ns
    };
    let totals = bench.recording.rings().total();
    let line = json!({
        "order": format!("{order:?}"), "rounds": rounds.len(), "slice_ms": SLICE.as_millis() as u64,
        "wall_ns_per_fault": {
            "detached": slices::median(rounds, |[detached, ..]| detached.wall_ns),
            "counting": slices::median(rounds, |[_, counting, _]| counting.wall_ns),
            "recording": slices::median(rounds, |[.., recording]| recording.wall_ns),
        },
        "recording_over_counting": slices::shown(rounds, seed, |[_, counting, recording]| recording.wall_ns / counting.wall_ns)?,
        "recording_over_detached": slices::shown(rounds, seed, |[detached, _, recording]| recording.wall_ns / detached.wall_ns)?,
        "cpu_ns_per_fault_workload_plus_recorder": slices::shown(rounds, seed, cpu)?,
        "recorder_cpu_ns_per_fault": slices::median(rounds, |[.., recording]| recording.recorder_cpu_ns),
        "lost": totals.lost, "recorded": totals.recorded,
    });
    println!("{}", serde_json::to_string_pretty(&line)?);
    Ok(())
}
