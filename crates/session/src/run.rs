//! The steps of a session, in order.

use std::path::Path;
use std::time::{Duration, Instant};

use pagelab_host::facts::Facts;
use pagelab_host::settings::{self, SnapshotOptions};
use pagelab_observe::metrics::Sampler;
use pagelab_observe::streams::Stream;
use pagelab_recording::tables::{SettingsRow, TasksRow};
use pagelab_recording::{Clock, Manifest, RecordingWriter, WriterOptions};
use serde_json::json;

use crate::calls::CallFeed;
use crate::child::{Child, Ended};
use crate::close::{finish, own_usage};
use crate::feed::Feed;
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
    let mut begun = begin(options, probes, Started::at_gate)?;
    let watched = watch(options, &mut begun.recorder, &mut begun.started);
    finish(options, begun, &watched, cpu_before_ns)
}

/// A session whose target runs.
pub struct Begun {
    pub recorder: Recorder,
    pub started: Started,
    /// When the gate opened, CLOCK_MONOTONIC.
    pub released_ns: i64,
}

/// How the target's process is made: it waits at the gate.
type AtGate = fn(&SessionOptions) -> Result<Started, SessionError>;

/// Makes the recording and lets the target go. If anything refuses, nothing is left behind.
fn begin(options: &SessionOptions, probes: Probes, at_gate: AtGate) -> Result<Begun, SessionError> {
    let was_there = options.out.exists();
    let manifest = first_manifest(options, &probes);
    let writer_options = WriterOptions { durable: options.durable, ..WriterOptions::default() };
    // Until here nothing was written; an output directory that the writer refuses is somebody else's and stays as it is.
    let writer = RecordingWriter::create(&options.out, manifest, writer_options)?;
    release(options, probes, writer, at_gate).inspect_err(|_| forget_empty(&options.out, was_there))
}

/// Attaches the probes to the target at its gate, notes how things stand and opens the gate.
fn release(
    options: &SessionOptions,
    probes: Probes,
    writer: RecordingWriter,
    at_gate: AtGate,
) -> Result<Begun, SessionError> {
    let mut started = at_gate(options)?;
    let sampler = options.streams.contains(Stream::Metrics).then(|| {
        let mut sampler = Sampler::new(Path::new("/"), None);
        sampler.set_target(started.child.pid());
        sampler
    });
    let feed = Feed::new(options.streams.contains(Stream::Tasks), options.streams.contains(Stream::Maps)).with_calls(
        options
            .streams
            .contains(Stream::Syscalls)
            .then(|| CallFeed::new(options.shapes(), options.streams.contains(Stream::Sched))),
    );
    let mut recorder = Recorder::new(probes, feed, writer, sampler);
    recorder.probes.begin(options, started.child.pid(), started.child.pidfd())?;
    recorder.writer.manifest_mut().probes.clone_from(&recorder.probes.states);
    write_settings(options, &mut recorder, started.child.pid(), "start");
    note_first_task(&mut recorder, &started.child);
    recorder.step();
    let released_ns = monotonic_ns();
    started.child.release()?;
    Ok(Begun { recorder, started, released_ns })
}

/// How watching the target ended.
pub struct Watched {
    /// None if it still runs.
    pub ended: Option<Ended>,
    pub timed_out: bool,
    pub interrupted: bool,
}

/// Records until the target ends; passes signals on, and enforces the timeout.
fn watch(options: &SessionOptions, recorder: &mut Recorder, started: &mut Started) -> Watched {
    let mut watched = Watched { ended: None, timed_out: false, interrupted: false };
    let mut deadline = options.timeout.map(|timeout| Instant::now() + timeout);
    let mut signals_seen = signals::count();
    let mut next_signal = libc::SIGTERM;
    loop {
        let before = signals_seen;
        if recorder.until_ended(started, deadline, || signals::count() > before) {
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

/// A recording that never began leaves nothing behind; an empty directory that was there before stays.
fn forget_empty(out: &Path, was_there: bool) {
    let restored = if was_there { remove_entries(out) } else { std::fs::remove_dir_all(out) };
    if let Err(error) = restored {
        tracing::warn!("cannot remove the empty recording {}: {error}", out.display());
    }
}

fn remove_entries(dir: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            std::fs::remove_dir_all(entry.path())?;
        } else {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A target that is gone before the probes can be attached to it.
    fn gone(options: &SessionOptions) -> Result<Started, SessionError> {
        let mut started = Started::at_gate(options)?;
        started.child.signal(libc::SIGKILL);
        while started.child.try_reap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(started)
    }

    #[test]
    fn a_session_refused_while_adopting_leaves_nothing_behind() {
        let tmp = tempfile::tempdir().expect("a directory");
        for was_there in [false, true] {
            let out = tmp.path().join(format!("rec-{was_there}"));
            if was_there {
                std::fs::create_dir(&out).expect("a directory");
            }
            let options = SessionOptions::new(Target::Command(vec!["true".into()]), out.clone());
            let probes = Probes::open(&options).expect("probes");
            assert!(probes.observer.is_some(), "attaching BPF programs needs root: {:?}", probes.warnings);
            let Err(error) = begin(&options, probes, gone) else { panic!("a dead process was adopted") };
            assert!(matches!(error, SessionError::StreamRefused { .. }), "{error}");
            assert_eq!(out.exists(), was_there, "{error}");
            assert!(!was_there || std::fs::read_dir(&out).expect("the directory").next().is_none());
        }
    }
}
