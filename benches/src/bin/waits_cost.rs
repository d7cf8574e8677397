//! What the stream `waits` costs PostgreSQL under pgbench, in slices of 200 ms of one run.
//!
//! The server and pgbench (two clients, TPC-B-like, scale 10) run all the time; in a third of the slices, drawn at random, the
//! stream's programs are attached and its rows are written as in a recording, in the others nothing is. pgbench writes down when
//! each transaction ended, which tells how many a slice had. Two states of three are the same: their ratio is the method's own
//! error.
//!
//! Usage: waits_cost [ROUNDS] [DIR] [SEED]
//! As root; the cluster is made in DIR (`/dev/shm`, where no transaction waits for a disk). 334 rounds are 1,002 slices.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use pagelab_benches::postgres::Cluster;
use pagelab_benches::slices;
use pagelab_benches::{now_ns, own_cpu_ns};
use pagelab_observe::bpf::{Observer, ObserverOptions};
use pagelab_observe::cpu::{Frequency, Unwinding};
use pagelab_observe::streams::{Stream, StreamSet};
use pagelab_observe::watcher::{AttachTo, ProbeOptions, Round, Scope, Watcher};
use pagelab_observe::watchers::WATCHERS;
use pagelab_recording::{Manifest, RecordingWriter, WriterOptions};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::json;

const SLICE: Duration = Duration::from_millis(200);
const DRAIN: Duration = Duration::from_millis(20);
/// After programs were loaded and attached, or detached: the kernel frees what the verifier took, and a recording's maps and
/// caches are warm for all but its first moment.
const SETTLE: Duration = Duration::from_millis(300);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Detached,
    DetachedToo,
    Waits,
}

/// When a slice began and ended, us since 1970, as pgbench tells times.
#[derive(Debug, Clone, Copy)]
struct Slice {
    begin_us: u64,
    end_us: u64,
    /// What the recorder itself took of a CPU.
    recorder_ns: u64,
}

impl Slice {
    fn recorder_pct(&self) -> f64 {
        self.recorder_ns as f64 / 10.0 / (self.end_us - self.begin_us) as f64
    }
}

struct Bench {
    cluster: Cluster,
    child: Child,
    pidfd: OwnedFd,
    observer: Observer,
    options: ProbeOptions,
    writer: RecordingWriter,
}

fn realtime_us() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros() as u64)
}

impl Bench {
    fn new(place: &Path, out: &Path, seconds: u64) -> Result<Self> {
        let cluster = Cluster::new(place)?;
        let gate = ["sh", "-c", "read go; exec \"$@\"", "sh"];
        let mut command = cluster.command("-c 2 -j 2 -T \"$3\" -l --log-prefix=\"$2/log\"", seconds, &gate);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        let pidfd = pidfd_open(Pid::from_raw(child.id() as i32).context("no process id")?, PidfdFlags::empty())?;
        let mut observer =
            Observer::load(ObserverOptions { faults: false, maps: false, ..ObserverOptions::default() })?;
        observer.attach()?;
        observer.adopt(pidfd.as_fd())?;
        child.stdin.take().context("piped")?.write_all(b"\n")?;
        let writer = RecordingWriter::create(out, Manifest::default(), WriterOptions::default())?;
        let options = ProbeOptions {
            streams: StreamSet::parse("waits").map_err(|error| anyhow::anyhow!("{error}"))?,
            starts_target: true,
            starts_late: false,
            ring_bytes_per_cpu: 4 << 20,
            fault_details: 0,
            unwinding: Unwinding::Auto,
            frequency: Frequency::FULL,
        };
        let bench = Self { cluster, child, pidfd, observer, options, writer };
        bench.wait_for_transactions()?;
        Ok(bench)
    }

    fn logs(&self) -> Result<Vec<PathBuf>> {
        let entries = std::fs::read_dir(self.cluster.dir())?.collect::<std::io::Result<Vec<_>>>()?;
        let is_log = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log."));
        Ok(entries.into_iter().map(|entry| entry.path()).filter(is_log).collect())
    }

    fn wait_for_transactions(&self) -> Result<()> {
        for _ in 0..200 {
            std::thread::sleep(Duration::from_millis(100));
            let logs = self.logs()?;
            if logs.len() == 2 && logs.iter().all(|log| log.metadata().is_ok_and(|about| about.len() > 0)) {
                // The first transactions fill caches.
                std::thread::sleep(Duration::from_secs(2));
                return Ok(());
            }
        }
        bail!("pgbench writes nothing down; look: {}", self.cluster.dir().join("server.log").display())
    }

    fn attached(&self) -> Result<Box<dyn Watcher>> {
        let definition = WATCHERS.iter().find(|one| one.fills(Stream::Waits)).context("the stream has a probe")?;
        let mut watcher = (definition.open)(&self.options).map_err(anyhow::Error::msg)?;
        let target = AttachTo {
            scope: Scope::Tree,
            pid: self.child.id(),
            pidfd: self.pidfd.as_fd(),
            observer: Some(&self.observer),
            perf_event: None,
        };
        watcher.begin(&target).map_err(anyhow::Error::msg)?;
        Ok(watcher)
    }

    fn slice(&mut self, state: State) -> Result<Slice> {
        let mut watcher = if state == State::Waits { Some(self.attached()?) } else { None };
        self.record(&mut watcher, SETTLE);
        let (begin_us, recorder_ns) = (realtime_us()?, own_cpu_ns());
        self.record(&mut watcher, SLICE);
        let slice = Slice { begin_us, end_us: realtime_us()?, recorder_ns: own_cpu_ns() - recorder_ns };
        if let Some(mut watcher) = watcher {
            watcher.stop();
        }
        self.writer.flush(now_ns() as i64)?;
        Ok(slice)
    }

    fn record(&mut self, watcher: &mut Option<Box<dyn Watcher>>, time: Duration) {
        let end_ns = now_ns() + time.as_nanos() as u64;
        let mut round = Round::default();
        while now_ns() < end_ns {
            std::thread::sleep(DRAIN);
            round.now_ns = now_ns() as i64;
            // A recording follows the tree whatever its streams are.
            self.observer.drain_events(|_| ());
            if let Some(watcher) = watcher {
                watcher.step(&mut round, &mut self.writer);
                round.clear();
            }
        }
    }

    /// Ends pgbench and returns when transactions ended, us since 1970, in the order of time.
    fn transactions(&mut self) -> Result<Vec<u64>> {
        self.child.wait()?;
        let mut ends = Vec::new();
        for log in self.logs()? {
            for line in BufReader::new(std::fs::File::open(&log)?).lines() {
                // client transaction latency_us script seconds us
                let line = line?;
                let mut words = line.split(' ').skip(4).map(str::parse::<u64>);
                if let (Some(Ok(seconds)), Some(Ok(us))) = (words.next(), words.next()) {
                    ends.push(seconds * 1_000_000 + us);
                }
            }
        }
        ends.sort_unstable();
        Ok(ends)
    }
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let rounds: usize = args.next().map_or(Ok(334), |text| text.parse()).context("ROUNDS: needed a number")?;
    let place = args.next().map_or_else(|| PathBuf::from("/dev/shm"), PathBuf::from);
    let seed: u64 = args.next().map_or(Ok(1), |text| text.parse()).context("SEED: needed a number")?;
    let out = std::env::temp_dir().join(format!("pagelab-waits-cost-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&out);
    // Loading takes as long as a slice.
    let seconds = (rounds as f64 * (3.0 * (SLICE + SETTLE).as_secs_f64() + 2.0 * SLICE.as_secs_f64())) as u64 + 10;
    let mut bench = Bench::new(&place, &out, seconds)?;
    let states = [State::Detached, State::DetachedToo, State::Waits];
    let times = slices::rounds(rounds, seed, states, |state| bench.slice(state))?;
    let ended_us = realtime_us()?;
    let ends = bench.transactions()?;
    if ends.last().is_none_or(|last| *last < ended_us) {
        bail!("pgbench ended after {seconds} s, before the last slice; needed: fewer rounds");
    }
    let per_s = |slice: &Slice| {
        let count = ends.partition_point(|end| *end < slice.end_us) - ends.partition_point(|end| *end < slice.begin_us);
        count as f64 * 1e6 / (slice.end_us - slice.begin_us) as f64
    };
    let rates: Vec<[f64; 3]> =
        times.iter().map(|round| [per_s(&round[0]), per_s(&round[1]), per_s(&round[2])]).collect();
    let line = json!({
        "dir": place, "rounds": rounds, "slice_ms": SLICE.as_millis() as u64,
        "transactions_per_s": slices::median(&rates, |[detached, ..]| *detached),
        "recorder_cpu_pct": slices::median(&times, |[.., waits]| waits.recorder_pct()),
        "recorder_cpu_detached_pct": slices::median(&times, |[detached, ..]| detached.recorder_pct()),
        "detached_over_waits": slices::shown(&rates, seed, |[detached, too, waits]| (detached + too) / 2.0 / waits)?,
        "detached_over_detached": slices::shown(&rates, seed, |[detached, too, _]| detached / too)?,
    });
    println!("{line}");
    std::fs::remove_dir_all(&out)?;
    Ok(())
}
