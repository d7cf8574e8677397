//! The steps of a session, in order.

use std::path::Path;

use pagelab_host::facts::Facts;
use pagelab_host::guard::{Standing, standing};
use pagelab_host::own_limits;
use pagelab_host::seal::Sealer;
use pagelab_observe::bpf::RunStats;
use pagelab_observe::streams::Stream;
use pagelab_observe::watcher::Watcher;
use pagelab_recording::{Clock, FoundTarget, Manifest, RecordingWriter, WriterOptions};
use serde_json::json;

use crate::close::{finish, own_usage};
use crate::first_task;
use crate::found::Found;
use crate::named_durations;
use crate::options::{SessionError, SessionOptions, SessionOutcome, Target};
use crate::owner::{Caller, with_rights};
use crate::probes::Probes;
use crate::recorder::{Recorder, monotonic_ns, realtime_ns};
use crate::recording_loop::{Passing, Progress, RecordingLoop, outlast, skip};
use crate::second_signal::Watch;
use crate::settings_rows;
use crate::signals;
use crate::subject::Subject;
use crate::target::Started;

/// Records one run of the target. Returns when the target has ended and the recording is closed, or, where the
/// recording was to end before the target, when both have ended.
pub fn run(options: &SessionOptions) -> Result<SessionOutcome, SessionError> {
    run_and_tell(options, &mut |_| {})
}

/// As [`run`]; `tell` gets the progress once a second.
pub fn run_and_tell(options: &SessionOptions, tell: &mut dyn FnMut(&Progress)) -> Result<SessionOutcome, SessionError> {
    run_with(options, None, tell)
}

/// As [`run`], for somebody who looks on: the watcher steps behind all others in rounds that hold the
/// [moments](pagelab_observe::moment) of the stream `waits`. It fills no stream, and what it cannot do is its own to say.
pub fn run_watched(options: &SessionOptions, watcher: Box<dyn Watcher>) -> Result<SessionOutcome, SessionError> {
    run_with(options, Some(watcher), &mut |_| {})
}

fn run_with(
    options: &SessionOptions,
    watcher: Option<Box<dyn Watcher>>,
    tell: &mut dyn FnMut(&Progress),
) -> Result<SessionOutcome, SessionError> {
    own_limits::raise_open_files();
    signals::install().map_err(SessionError::system("installing signal handlers"))?;
    if matches!(options.target, Target::Job(_)) {
        signals::listen_for_report_requests().map_err(SessionError::system("installing signal handlers"))?;
    }
    if options.keep_last.is_some() {
        signals::listen_for_keep().map_err(SessionError::system("installing signal handlers"))?;
    }
    let cpu_before_ns = own_usage().0;
    let (mut passing, signals_before) = (Passing::new(), signals::count());
    // A target that is not there is no reason to load anything.
    let mut missed = Vec::new();
    let found = Found::open(&options.target, &mut missed)?;
    let bpf_stats = if options.bpf_stats { Some(count_bpf_time()?) } else { None };
    let mut probes = Probes::open(options)?;
    probes.warnings.append(&mut missed);
    if let Some(watcher) = watcher {
        probes.watch(watcher);
    }
    let subject = move |options: &SessionOptions| match found {
        Some(found) => Ok(Subject::Found(found)),
        None => Ok(Subject::Started(Box::new(Started::at_gate(options)?))),
    };
    let mut during = options.during.as_ref().map(|argv| Started::command(options, argv)).transpose()?;
    let mut begun = begin(options, probes, subject, &passing)?;
    if let Some(command) = &mut during {
        command.child.release()?;
    }
    let Begun { recorder, subject, .. } = &mut begun;
    recorder.signals_before = signals_before;
    // Without it a second signal waits for the end of what is being done.
    let watch = Watch::begin(&options.out, recorder.caller.clone(), signals_before)
        .inspect_err(|error| tracing::info!("a second signal is not watched for: {error}"));
    let end =
        RecordingLoop { options, recorder, subject, during, signals: &mut passing, tell, follows_rest: false }.run();
    let goes_on = end.ended.is_none() && end.ended_by.leaves_target() && options.target.is_started();
    let (mut outcome, mut subject) = finish(options, begun, end, cpu_before_ns)?;
    drop((bpf_stats, watch));
    if goes_on {
        tracing::warn!("the recording is closed ({}); the command goes on", options.out.display());
        outcome.ended = outlast(options, &mut subject, &mut passing);
    }
    Ok(outcome)
}

fn count_bpf_time() -> Result<RunStats, SessionError> {
    RunStats::enable().map_err(|error| {
        SessionError::Host(format!(
            "--bpf-stats: {error}; needed: root and Linux 5.8, try: sudo pagelab record --bpf-stats ..."
        ))
    })
}

/// A session that records.
pub(crate) struct Begun {
    pub recorder: Recorder,
    pub subject: Subject,
    /// When recording began, CLOCK_MONOTONIC: the gate opened, or the target was found.
    pub released_ns: i64,
}

/// Makes the recording and lets the target go. If anything refuses, nothing is left behind.
fn begin(
    options: &SessionOptions,
    mut probes: Probes,
    ready: impl FnOnce(&SessionOptions) -> Result<Subject, SessionError>,
    passing: &Passing,
) -> Result<Begun, SessionError> {
    let was_there = options.out.exists();
    let mut manifest = first_manifest(options, &probes);
    note_leftovers(&standing(), &mut manifest, &mut probes.warnings);
    let writer_options = WriterOptions {
        durable: options.durable,
        keep_last: options.keep_last,
        spool: options.spool.clone(),
        ..WriterOptions::default()
    };
    // Until here nothing was written; an output directory that the writer refuses is somebody else's and stays as it is.
    let caller = Caller::of_sudo().filter(|caller| caller.takes(&options.out));
    let create = || RecordingWriter::create(&options.out, manifest, writer_options);
    let writer = with_rights(caller.as_ref(), create)?;
    release(options, probes, writer, caller, ready, passing).inspect_err(|_| forget_empty(&options.out, was_there))
}

/// Attaches the probes to the target at its gate, notes how things stand and opens the gate; or lets the time pass that is
/// to be skipped and attaches them then.
fn release(
    options: &SessionOptions,
    probes: Probes,
    writer: RecordingWriter,
    caller: Option<Caller>,
    ready: impl FnOnce(&SessionOptions) -> Result<Subject, SessionError>,
    passing: &Passing,
) -> Result<Begun, SessionError> {
    let mut subject = ready(options)?;
    let at_gate = options.target.is_started() && options.skip.is_none();
    let mut recorder = Recorder::new(probes, writer, caller);
    if let Some(time) = options.skip {
        subject.release()?;
        if !skip(time, &mut subject, passing) {
            let ended = "the target ended, or a signal came, before recording began (--skip): nothing is recorded";
            recorder.probes.warnings.push(ended.to_owned());
            return Ok(Begun { recorder, subject, released_ns: monotonic_ns() });
        }
        let clock = &mut recorder.writer.manifest_mut().clock;
        (clock.start_ns, clock.realtime_at_start_ns) = (monotonic_ns(), Some(realtime_ns()));
    }
    if options.streams.contains(Stream::Metrics) {
        recorder.sample_of(&subject, options.streams.reads_smaps(Stream::Metrics));
    }
    recorder.begin(options);
    let found_ns = monotonic_ns();
    recorder.probes.begin(options, &subject)?;
    recorder.writer.manifest_mut().probes.clone_from(&recorder.probes.states);
    settings_rows::write(options, recorder.setting_rows(), subject.pid(), "start");
    if at_gate || recorder.probes.are_alone() {
        first_task::note_start(&mut recorder, &subject);
    }
    recorder.step();
    let released_ns = if at_gate { monotonic_ns() } else { found_ns };
    if at_gate {
        subject.release()?;
    }
    Ok(Begun { recorder, subject, released_ns })
}

/// Notes what a dead pagelab has left changed on this host and nobody could put back: `host_left_changed` of the manifest,
/// and a warning. What is measured is measured under it.
fn note_leftovers(standing: &[Standing], manifest: &mut Manifest, warnings: &mut Vec<String>) {
    if standing.is_empty() {
        return;
    }
    manifest.extra.insert("host_left_changed".to_owned(), json!(standing));
    let keys: Vec<String> = standing
        .iter()
        .map(|one| one.key.clone().unwrap_or_else(|| format!("whatever {} names", one.journal.display())))
        .collect();
    warnings.push(format!(
        "recorded under settings that a dead pagelab left changed: {}; put them back and record again: sudo pagelab restore",
        keys.join(", ")
    ));
}

fn first_manifest(options: &SessionOptions, probes: &Probes) -> Manifest {
    let facts = Facts::read(Path::new("/"));
    let mut manifest = Manifest {
        label: options.label.clone(),
        variant: options.variant.clone(),
        run: options.run,
        round: options.round,
        position: options.position,
        seed: options.seed,
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
            let command: Vec<String> = argv.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
            let cwd = options.cwd.clone().or_else(|| std::env::current_dir().ok()).unwrap_or_default();
            manifest.named_durations_s = named_durations::of_command(&command, &cwd);
            manifest.extra.extend(seal_of(&command));
            manifest.command = Some(command);
        }
        Target::Job(workload) => manifest.job = serde_json::to_value(workload).ok(),
        Target::Processes(pids) => {
            manifest.target = Some(FoundTarget::Pids { pids: pids.iter().copied().map(i64::from).collect() });
        }
        Target::Cgroup(path) => {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            manifest.target = Some(FoundTarget::Cgroup { path: path.to_string_lossy().into_owned() });
        }
        Target::System => {
            manifest.target = Some(FoundTarget::System);
        }
    }
    manifest
}

/// Key of a manifest that holds the seal of its command.
pub const COMMAND_SEAL: &str = "command_seal";

/// The text of a command that is sealed: no two commands have the same.
pub fn sealed_command(command: &[String]) -> Vec<u8> {
    serde_json::to_vec(command).unwrap_or_default()
}

/// Proof that this user recorded the command here, without which it is not run again unasked. A user without a folder for the
/// key has none.
fn seal_of(command: &[String]) -> Option<(String, serde_json::Value)> {
    let sealer = Sealer::open().inspect_err(|error| tracing::debug!("the command is not sealed: {error}")).ok()?;
    Some((COMMAND_SEAL.to_owned(), json!(sealer.seal(COMMAND_SEAL, &sealed_command(command)))))
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A target that is gone before the probes can be attached to it.
    fn gone(options: &SessionOptions) -> Result<Subject, SessionError> {
        let mut started = Started::at_gate(options)?;
        started.child.signal(libc::SIGKILL);
        while started.child.try_reap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(Subject::Started(Box::new(started)))
    }

    #[test]
    fn leftovers_are_noted_in_the_manifest() {
        let (mut manifest, mut warnings) = (Manifest::default(), Vec::new());
        note_leftovers(&[], &mut manifest, &mut warnings);
        assert!(manifest.extra.is_empty() && warnings.is_empty());
        let one = Standing {
            key: Some("thp.enabled".to_owned()),
            previous: Some("madvise".to_owned()),
            pid: Some(7),
            journal: "/run/pagelab/journal-7-0.jsonl".into(),
        };
        note_leftovers(&[one], &mut manifest, &mut warnings);
        assert_eq!(manifest.extra["host_left_changed"][0]["key"], "thp.enabled");
        assert!(
            warnings.iter().any(|text| text.contains("thp.enabled") && text.contains("pagelab restore")),
            "{warnings:?}"
        );
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
            let is_bpf = probes.tree.as_ref().is_some_and(|tree| tree.observer().is_some());
            assert!(is_bpf, "attaching BPF programs needs root: {:?}", probes.warnings);
            let Err(error) = begin(&options, probes, gone, &Passing::new()) else {
                panic!("a dead process was adopted")
            };
            assert!(matches!(error, SessionError::StreamRefused { .. }), "{error}");
            assert_eq!(out.exists(), was_there, "{error}");
            assert!(!was_there || std::fs::read_dir(&out).expect("the directory").next().is_none());
        }
    }
}
