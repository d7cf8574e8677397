//! The steps of a session, in order.

use std::path::Path;
use std::time::{Duration, Instant};

use pagelab_host::facts::Facts;
use pagelab_host::settings::{self, SnapshotOptions};
use pagelab_observe::metrics::Sampler;
use pagelab_observe::streams::Stream;
use pagelab_recording::tables::{SettingsRow, TasksRow};
use pagelab_recording::{Clock, Exit, Manifest, RecordingWriter, SelfCost, WriterOptions};
use serde_json::json;

use crate::child::{Child, Ended};
use crate::feed::Feed;
use crate::load_rows;
use crate::options::{SessionError, SessionOptions, SessionOutcome, Target};
use crate::probes::Probes;
use crate::recorder::{Recorder, monotonic_ns, realtime_ns};
use crate::signals;
use crate::target::Started;

/// Time a target gets between being asked to end and being ended.
const GRACE: Duration = Duration::from_secs(5);

/// Records one run of the target. Returns when the target has ended and the recording is closed.
pub fn run(options: &SessionOptions) -> Result<SessionOutcome, SessionError> {
    signals::install().map_err(SessionError::system("installing signal handlers"))?;
    let cpu_before_ns = own_usage().0;
    let probes = Probes::open(options)?;
    let manifest = first_manifest(options, &probes);
    let writer_options = WriterOptions { durable: options.durable, ..WriterOptions::default() };
    let writer = RecordingWriter::create(&options.out, manifest, writer_options)?;
    let mut started = Started::at_gate(options).inspect_err(|_| forget_empty(&options.out))?;
    let sampler = options.streams.contains(Stream::Metrics).then(|| {
        let mut sampler = Sampler::new(Path::new("/"), None);
        sampler.set_target(started.child.pid());
        sampler
    });
    let feed = Feed::new(options.streams.contains(Stream::Tasks), options.streams.contains(Stream::Maps));
    let mut recorder = Recorder::new(probes, feed, writer, sampler);
    if let Some(observer) = &mut recorder.probes.observer
        && let Err(error) = observer.adopt(started.child.pidfd())
    {
        return Err(SessionError::StreamRefused { stream: "tasks", reason: error.to_string() });
    }
    write_settings(options, &mut recorder, started.child.pid(), "start");
    note_first_task(&mut recorder, &started.child);
    recorder.step();
    let released_ns = monotonic_ns();
    if let Err(error) = started.child.release() {
        forget_empty(&options.out);
        return Err(error.into());
    }
    let watched = watch(options, &mut recorder, &mut started);
    finish(options, recorder, started, &watched, Begun { released_ns, cpu_ns: cpu_before_ns })
}

/// How things stood when the gate opened.
struct Begun {
    released_ns: i64,
    /// CPU time that this process had used before the session: an experiment runs many in one process.
    cpu_ns: u64,
}

/// How watching the target ended.
struct Watched {
    ended: Option<Ended>,
    timed_out: bool,
    interrupted: bool,
}

/// Records until the target ends; passes signals on, and enforces the timeout.
fn watch(options: &SessionOptions, recorder: &mut Recorder, started: &mut Started) -> Watched {
    let mut watched = Watched { ended: None, timed_out: false, interrupted: false };
    let mut deadline = options.timeout.map(|timeout| Instant::now() + timeout);
    let mut signals_seen = signals::count();
    let mut next_signal = libc::SIGTERM;
    loop {
        let before = signals_seen;
        if recorder.until_ended(started.child.pidfd(), deadline, || signals::count() > before) {
            break;
        }
        if signals::count() > signals_seen {
            if watched.interrupted {
                // The second one: leave the target, keep what there is.
                started.child.signal(if started.is_load { libc::SIGKILL } else { libc::SIGTERM });
                break;
            }
            watched.interrupted = true;
            signals_seen = signals::count();
            // A signal from the terminal has reached the target by itself, unless it has a group of its own.
            if signals::sent_by_process() || options.own_group {
                started.child.signal(signals::last());
            }
            continue;
        }
        watched.timed_out = true;
        started.child.signal(next_signal);
        next_signal = libc::SIGKILL;
        deadline = Some(Instant::now() + GRACE);
    }
    // The process is a zombie now: its /proc entries can still be read.
    recorder.drain();
    recorder.sample_all();
    write_settings(options, recorder, started.child.pid(), "end");
    watched.ended = started.child.try_reap();
    watched
}

fn first_manifest(options: &SessionOptions, probes: &Probes) -> Manifest {
    let facts = Facts::read(Path::new("/"));
    let mut manifest = Manifest {
        label: options.label.clone(),
        variant: options.variant.clone(),
        run: options.run,
        round: options.round,
        position: options.position,
        host: facts.host,
        kernel: facts.kernel,
        arch: Some(facts.arch),
        page_size_bytes: Some(facts.page_size_bytes),
        cpus: facts.cpus.map(u64::from),
        virt: facts.virt,
        boot_id: facts.boot_id,
        clock: Clock {
            id: "CLOCK_MONOTONIC".to_owned(),
            start_ns: monotonic_ns(),
            realtime_at_start_ns: Some(realtime_ns()),
            ..Clock::default()
        },
        probes: probes.states.clone(),
        ..Manifest::default()
    };
    match &options.target {
        Target::Command(argv) => {
            manifest.command = Some(argv.iter().map(|arg| arg.to_string_lossy().into_owned()).collect());
        }
        Target::Job(workload) => manifest.job = serde_json::to_value(workload).ok(),
    }
    if let Some(seed) = options.seed {
        manifest.extra.insert("seed".to_owned(), json!(seed));
    }
    manifest
}

/// A recording that never began leaves nothing behind.
fn forget_empty(out: &Path) {
    if let Err(error) = std::fs::remove_dir_all(out) {
        tracing::warn!("cannot remove the empty recording {}: {error}", out.display());
    }
}

fn write_settings(options: &SessionOptions, recorder: &mut Recorder, pid: u32, at: &'static str) {
    if !options.streams.contains(Stream::Settings) {
        return;
    }
    let ts = monotonic_ns();
    let wanted = SnapshotOptions {
        pid: Some(pid),
        // What a plan sets is no secret.
        shown_env: options.process_settings.env().map(|(name, _)| name.to_owned()).collect(),
        // The kernel's configuration cannot change while it runs.
        kconfig: at == "start",
        ..SnapshotOptions::default()
    };
    for setting in settings::snapshot_with(Path::new("/"), &wanted) {
        recorder.writer.push(&SettingsRow {
            ts,
            key: &setting.key,
            value: setting.value.as_deref(),
            source: &setting.source,
            at,
        });
    }
}

/// The first task is in the table also where BPF is not to be had.
fn note_first_task(recorder: &mut Recorder, child: &Child) {
    let pid = child.pid() as i32;
    recorder.writer.push(&TasksRow {
        ts: monotonic_ns(),
        op: "snapshot",
        task_id: 1,
        tid: pid,
        pid,
        parent_task_id: None,
        mm_id: Some(1),
        comm: None,
        exe: None,
        build_id: None,
        cgroup_id: None,
        exit_code: None,
        min_flt: None,
        maj_flt: None,
        utime_ns: None,
        stime_ns: None,
        recorded_faults: None,
    });
}

fn finish(
    options: &SessionOptions,
    mut recorder: Recorder,
    mut started: Started,
    watched: &Watched,
    begun: Begun,
) -> Result<SessionOutcome, SessionError> {
    let ended_ns = recorder.feed.first_exit_ns.unwrap_or_else(monotonic_ns);
    if let Some(observer) = &mut recorder.probes.observer {
        observer.detach();
    }
    recorder.drain();
    let report = started.take_report(watched.ended.as_ref());
    recorder.probes.count_events();
    let mut warnings = std::mem::take(&mut recorder.probes.warnings);
    let lost: u64 = recorder.probes.states.iter().filter_map(|probe| probe.events_lost).max().unwrap_or(0);
    if lost > 0 {
        warnings.push(format!("{lost} events were lost; try a larger ring: --ring-bytes 64M"));
    }
    let refused_sources = recorder.refused_sources();
    let Recorder { probes, feed, mut writer, write_error, .. } = recorder;
    if let Some(report) = report.as_ref().and_then(|report| report.as_ref().ok()) {
        load_rows::push(report, &mut writer);
    }
    let window =
        report.as_ref().and_then(|report| report.as_ref().ok()).and_then(|report| Some((report, report.window?)));
    let measured = match window {
        Some((report, window)) => json!({
            "start_ns": window.start_ns, "end_ns": window.end_ns,
            "operations": report.operations, "source": "load",
        }),
        None => json!({
            "start_ns": feed.first_exec_ns.unwrap_or(begun.released_ns), "end_ns": ended_ns,
            "operations": null, "source": "command",
        }),
    };
    let mut manifest = Manifest::default();
    let bytes_so_far = writer.stats().bytes_written;
    let closed = writer.close(|last| {
        last.clock.realtime_at_end_ns = Some(realtime_ns());
        last.exit = watched.ended.map(|ended| Exit { code: ended.code(), signal: ended.signal(), ..Exit::default() });
        last.probes.clone_from(&probes.states);
        last.self_cost = self_cost(begun.cpu_ns, bytes_so_far);
        last.extra.insert("measured".to_owned(), measured);
        last.extra.insert("timed_out".to_owned(), json!(watched.timed_out));
        last.extra.insert("interrupted".to_owned(), json!(watched.interrupted));
        last.extra.insert("metric_sources_refused".to_owned(), json!(refused_sources));
        if let Some(ended) = &watched.ended {
            last.extra.insert("rusage".to_owned(), rusage_json(ended));
        }
        manifest = last.clone();
    });
    match (closed, write_error) {
        (Ok(_), None) => manifest.complete = true,
        (Err(error), _) | (Ok(_), Some(error)) => {
            warnings.push(format!("the recording has a hole: {error}"));
        }
    }
    let report = match report {
        Some(Err(error)) if !watched.timed_out => return Err(error),
        other => other.and_then(Result::ok),
    };
    Ok(SessionOutcome {
        dir: options.out.clone(),
        ended: watched.ended,
        report,
        manifest,
        timed_out: watched.timed_out,
        interrupted: watched.interrupted,
        warnings,
    })
}

fn rusage_json(ended: &Ended) -> serde_json::Value {
    json!({
        "utime_ns": ended.utime_ns, "stime_ns": ended.stime_ns,
        "minor_faults": ended.minor_faults, "major_faults": ended.major_faults,
        "voluntary_context_switches": ended.context_switches.0,
        "involuntary_context_switches": ended.context_switches.1,
        "max_rss_bytes": ended.max_rss_bytes,
    })
}

/// CPU time, ns, and largest resident size, bytes, of this process so far.
fn own_usage() -> (u64, u64) {
    // SAFETY: rusage is plain integers, and the pointer refers to a local.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    (ns(usage.ru_utime) + ns(usage.ru_stime), usage.ru_maxrss as u64 * 1024)
}

/// What the session has cost until now.
fn self_cost(cpu_before_ns: u64, bytes_written: u64) -> SelfCost {
    let (cpu_ns, max_rss_bytes) = own_usage();
    let mut cost = SelfCost {
        cpu_ns: Some(cpu_ns - cpu_before_ns),
        bpf_ns: None,
        max_rss_bytes: Some(max_rss_bytes),
        bytes_written: Some(bytes_written),
        ..SelfCost::default()
    };
    let reason = "the kernel accounts BPF run time only while kernel.bpf_stats_enabled is 1, which itself costs time";
    cost.extra.insert("bpf_ns_reason".to_owned(), json!(reason));
    cost
}
