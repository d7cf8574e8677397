//! The end of a session: the probes are drained, the recording closed, the outcome assembled.

use std::sync::Arc;

use pagelab_load::JobReport;
use pagelab_observe::bpf::{ProgramCost, own_programs};
use pagelab_observe::feed::EndedTasks;
use pagelab_recording::tables::MetricsRow;
use pagelab_recording::{EndedBy, Exit, Manifest, Measured, MeasuredBy, RecordingWriter, Rusage, SelfCost};
use pagelab_views::rollup::Makers;
use serde_json::{Map, Value, json};

use crate::child::Ended;
use crate::compared;
use crate::load_rows;
use crate::options::{SessionError, SessionOptions, SessionOutcome};
use crate::output::Heard;
use crate::owner::with_rights;
use crate::probes::Probes;
use crate::recorder::{Recorder, realtime_ns};
use crate::recording_loop::{Left, LoopEnd};
use crate::run::Begun;
use crate::subject::Subject;
use crate::values::ValueFound;

/// Processes that a command left behind and that are named.
const LEFT_NAMED: usize = 8;

/// Closes the recording of a target that has ended; `cpu_before_ns` is the CPU time that this process had used before
/// the session: an experiment runs many in one process.
pub(crate) fn finish(
    options: &SessionOptions,
    begun: Begun,
    end: LoopEnd,
    cpu_before_ns: u64,
) -> Result<(SessionOutcome, Subject), SessionError> {
    let Begun { mut recorder, mut subject, released_ns } = begun;
    let LoopEnd { ended, ended_by, ended_ns, transfers, followed, left, heard_beside, probes_extra } = end;
    let timed_out = ended_by == EndedBy::Timeout;
    // For a target that was found a signal is the usual end.
    let interrupted = ended_by == EndedBy::Signal && options.target.is_started();
    subject.intervals(|told| load_rows::push_interval(&told, &mut recorder.writer));
    let (report, heard) = match &mut subject {
        Subject::Started(started) => (started.take_report(ended.as_ref()), started.heard()),
        Subject::Found(_) => (None, heard_beside),
    };
    let mut warnings = warnings(&mut recorder.probes, &heard);
    let whole = options.target.is_started() && options.skip.is_none() && !ended_by.leaves_target();
    let known = if whole { Some((&probes_extra, ended.as_ref(), transfers)) } else { None };
    let unseen = Unseen::of(&mut recorder.probes, left, known);
    warnings.extend(unseen.warnings());
    let refused_sources = recorder.refused_sources();
    // While the programs are still there.
    let bpf = options.bpf_stats.then(own_programs);
    let states = std::mem::take(&mut recorder.probes.states);
    let Recorder { probes, mut writer, write_error, caller, .. } = recorder;
    let good_report = report.as_ref().and_then(|report| report.as_ref().ok());
    load_rows::push(good_report, &mut writer);
    push_values(&heard, ended_ns, &mut writer);
    let first_exec_ns = probes.tree.as_ref().and_then(|tree| tree.feed().first_exec_ns);
    let began_ns = first_exec_ns.unwrap_or(released_ns);
    let kept_since_ns = writer.kept_since_ns();
    let measured = with_start_at_least(measured(good_report, whole, began_ns, ended_ns), kept_since_ns);
    // Rollups are made while the recording is closed, and some count what lies in the measured time.
    writer.manifest_mut().measured = Some(measured.clone());
    writer.set_witnesses(Arc::new(Makers));
    let bytes_so_far = writer.stats().bytes_written;
    // Nothing more is taken from them. Their rings and symbol tables would only add to the memory that closing needs.
    drop(probes);
    let last = |last: &mut Manifest| {
        last.clock.realtime_at_end_ns = Some(realtime_ns());
        last.exit = ended.map(|ended| Exit { code: ended.code(), signal: ended.signal(), ..Exit::default() });
        last.probes = states;
        last.extra.extend(probes_extra);
        last.self_cost = self_cost(cpu_before_ns, bytes_so_far, bpf.as_deref());
        last.measured = Some(measured);
        last.timed_out = Some(timed_out);
        last.interrupted = Some(interrupted);
        last.kept_since_ns = kept_since_ns;
        last.ended_by = Some(ended_by);
        last.extra.insert("metric_sources_refused".to_owned(), json!(refused_sources));
        unseen.note(last);
        last.values = heard.values.iter().map(ValueFound::printed).collect();
        last.rusage = ended.as_ref().map(|ended| followed.as_ref().map_or_else(|| rusage(ended), rusage_of_all));
    };
    let (manifest, hole, error) = with_rights(caller.as_ref(), || close(writer, write_error, last));
    // A command that goes on is not ended because nothing of it was kept.
    if ended.is_some() || !options.target.is_started() {
        something_is_left(error, options)?;
    }
    warnings.extend(hole);
    let report = match report {
        Some(Err(error)) if !timed_out => return Err(error),
        other => other.and_then(Result::ok),
    };
    let dir = options.out.clone();
    let Heard { values, last_line } = heard;
    let outcome = SessionOutcome { dir, ended, report, manifest, timed_out, interrupted, values, last_line, warnings };
    Ok((outcome, subject))
}

fn warnings(probes: &mut Probes, heard: &Heard) -> Vec<String> {
    let mut warnings = std::mem::take(&mut probes.warnings);
    warnings.extend(missing_values(heard));
    warnings.extend(lost_events(probes));
    warnings
}

/// Where closing failed and nothing is left, nothing was recorded.
fn something_is_left(error: Option<pagelab_recording::Error>, options: &SessionOptions) -> Result<(), SessionError> {
    match error {
        Some(error) if Manifest::load(&options.out).is_err() => Err(SessionError::Recording(error)),
        _ => Ok(()),
    }
}

/// The numbers of the user's own, as metrics of the run; null for those that the output did not hold.
fn push_values(heard: &Heard, ts: i64, writer: &mut RecordingWriter) {
    for found in &heard.values {
        writer.push(&MetricsRow { ts, name: &found.spec.metric(), instance: None, value: found.value });
    }
}

/// What of the target is not in the recording, beside lost events.
struct Unseen {
    /// Processes that go on.
    left: Vec<Left>,
    /// Why events are missing that the kernel took away.
    taken: Option<String>,
    /// Figures of the kernel's own that contradict what was recorded.
    doubts: Vec<String>,
}

/// What the probes say of themselves, how the command ended, and its calls as the kernel counted them.
type Known<'a> = (&'a Map<String, Value>, Option<&'a Ended>, Option<[u64; 2]>);

impl Unseen {
    /// `known` is there for a command that was recorded whole.
    fn of(probes: &mut Probes, left: Vec<Left>, known: Option<Known<'_>>) -> Self {
        let taken = probes.note_taken();
        let doubts = known
            .map(|(extra, ended, transfers)| compared::doubts(probes, extra, ended, transfers))
            .unwrap_or_default();
        Self { left, taken, doubts }
    }

    /// What the user is to know now; why the recording is not complete is said with that.
    fn warnings(&self) -> Vec<String> {
        goes_on(&self.left).into_iter().chain(self.doubts.iter().cloned()).collect()
    }

    fn note(self, last: &mut Manifest) {
        note_left(&self.left, last);
        last.notes.extend(self.doubts);
        if let Some(reason) = self.taken {
            last.complete = false;
            last.incomplete_reason.get_or_insert(reason);
        }
    }
}

/// What a command has left behind, in words.
fn goes_on(left: &[Left]) -> Option<String> {
    if left.is_empty() {
        return None;
    }
    let tasks: usize = left.iter().map(|one| one.tasks).sum();
    let one = |left: &Left| match left.tasks {
        1 => format!("{} (pid {})", left.comm, left.pid),
        tasks => format!("{} (pid {}, {tasks} tasks)", left.comm, left.pid),
    };
    let more = left.len().saturating_sub(LEFT_NAMED);
    let mut names: Vec<String> = left.iter().take(LEFT_NAMED).map(one).collect();
    names.extend((more > 0).then(|| format!("{more} more processes")));
    let pids: Vec<String> = left.iter().take(LEFT_NAMED).map(|one| one.pid.to_string()).collect();
    let (noun, go, them) = if tasks == 1 { ("task", "goes", "it") } else { ("tasks", "go", "them") };
    Some(format!(
        "{tasks} {noun} of the tree {go} on: {}; pagelab record -p {}, or --follow, records {them}",
        names.join(", "),
        pids.join(",")
    ))
}

/// The same in the manifest.
fn note_left(left: &[Left], manifest: &mut Manifest) {
    let Some(note) = goes_on(left) else { return };
    manifest.notes.push(note);
    let one = |left: &Left| json!({ "pid": left.pid, "comm": left.comm, "tasks": left.tasks });
    let processes: Vec<_> = left.iter().map(one).collect();
    manifest.extra.insert("left_behind".to_owned(), json!(processes));
}

fn missing_values(heard: &Heard) -> Vec<String> {
    let missing = heard.values.iter().filter_map(|found| Some((found, found.note.as_ref()?)));
    missing.map(|(found, note)| format!("--value {}: {note}", found.spec.name)).collect()
}

fn lost_events(probes: &Probes) -> Option<String> {
    let lost = probes.states.iter().filter_map(|probe| probe.events_lost).max().unwrap_or(0);
    // No ring is large enough for what the kernel took away.
    let lost = lost.saturating_sub(probes.taken().len() as u64);
    (lost > 0).then(|| format!("{lost} events were lost; try a larger ring: --ring-bytes 64M"))
}

/// The measured time: the load's own if it reported one, else from the command's `exec`, at `began_ns`, to its end.
/// `whole` says that the command was recorded from its start to its end; if not, the recorded part is no unit of work
/// that could be counted.
fn measured(report: Option<&JobReport>, whole: bool, began_ns: i64, ended_ns: i64) -> Measured {
    match report.and_then(|report| Some((report, report.window?))) {
        Some((report, window)) => Measured {
            start_ns: i64::try_from(window.start_ns).ok(),
            end_ns: i64::try_from(window.end_ns).ok(),
            operations: Some(report.operations),
            source: Some(MeasuredBy::Load),
            ..Measured::default()
        },
        None => Measured {
            start_ns: Some(began_ns),
            end_ns: Some(ended_ns),
            operations: None,
            source: Some(if whole { MeasuredBy::Command } else { MeasuredBy::Recording }),
            ..Measured::default()
        },
    }
}

/// What a flight recorder has measured begins where its memory does.
fn with_start_at_least(mut measured: Measured, start_ns: Option<i64>) -> Measured {
    if let (Some(least), Some(start)) = (start_ns, measured.start_ns)
        && start < least
    {
        measured.start_ns = Some(least);
        measured.source = Some(MeasuredBy::Recording);
    }
    measured
}

/// Closes the recording. Returns the manifest as written, what the user should know of a hole in the recording, and why closing
/// failed if it did; `write_error` is the first error that the writer met before.
fn close(
    writer: RecordingWriter,
    write_error: Option<pagelab_recording::Error>,
    last: impl FnOnce(&mut Manifest),
) -> (Manifest, Option<String>, Option<pagelab_recording::Error>) {
    let mut manifest = Manifest::default();
    let closed = writer.close(|closing| {
        last(closing);
        manifest = closing.clone();
    });
    let failed = closed.err();
    if let Some(error) = &failed {
        // If it was the last manifest that could not be written, the one on disk does not say complete either.
        manifest.complete = false;
        manifest.incomplete_reason.get_or_insert_with(|| error.to_string());
    }
    let hole = manifest.incomplete_reason.as_ref().map(|reason| format!("the recording has a hole: {reason}"));
    let late = || write_error.map(|error| format!("parts were written late, no row is missing: {error}"));
    let hole = hole.or_else(late);
    (manifest, hole, failed)
}

fn rusage(ended: &Ended) -> Rusage {
    Rusage {
        utime_ns: Some(ended.utime_ns),
        stime_ns: Some(ended.stime_ns),
        minor_faults: Some(ended.minor_faults),
        major_faults: Some(ended.major_faults),
        voluntary_context_switches: Some(ended.context_switches.0),
        involuntary_context_switches: Some(ended.context_switches.1),
        max_rss_bytes: ended.max_rss_bytes,
        ..Rusage::default()
    }
}

/// The same of all tasks of a tree that was recorded beyond the end of its first process, which is all that `wait4` knows.
fn rusage_of_all(tasks: &EndedTasks) -> Rusage {
    let mut all = Rusage {
        utime_ns: Some(tasks.cpu_ns.0),
        stime_ns: Some(tasks.cpu_ns.1),
        minor_faults: Some(tasks.faults.0),
        major_faults: Some(tasks.faults.1),
        ..Rusage::default()
    };
    all.extra.insert("of".to_owned(), "all recorded tasks that have ended, by their own accounts".into());
    all
}

/// CPU time, ns, and largest resident size, bytes, of this process so far.
pub(crate) fn own_usage() -> (u64, u64) {
    // SAFETY: rusage is plain integers, and the pointer refers to a local.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    (ns(usage.ru_utime) + ns(usage.ru_stime), usage.ru_maxrss as u64 * 1024)
}

/// What the session has cost until now; `bpf` are its programs, if their run time was counted.
fn self_cost(cpu_before_ns: u64, bytes_written: u64, bpf: Option<&[ProgramCost]>) -> SelfCost {
    let (cpu_ns, max_rss_bytes) = own_usage();
    let mut cost = SelfCost {
        cpu_ns: Some(cpu_ns - cpu_before_ns),
        bpf_ns: bpf.map(|programs| programs.iter().map(|program| program.run_ns).sum()),
        max_rss_bytes: Some(max_rss_bytes),
        bytes_written: Some(bytes_written),
        ..SelfCost::default()
    };
    match bpf {
        None => {
            let reason = "not asked for: the kernel counts BPF run time only while somebody asks, and counting costs time; to have it: --bpf-stats";
            cost.extra.insert("bpf_ns_reason".to_owned(), json!(reason));
        }
        Some(programs) => {
            let one =
                |program: &ProgramCost| json!({"name": program.name, "runs": program.runs, "run_ns": program.run_ns});
            cost.extra.insert("bpf_programs".to_owned(), programs.iter().map(one).collect());
        }
    }
    cost
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use pagelab_recording::{FileStorage, Storage, StorageFile, WriterOptions};

    use super::*;

    /// The real file system, but for parts while it is said to fail.
    #[derive(Debug, Default)]
    struct Flaky(AtomicBool);

    impl Storage for Flaky {
        fn create_dir(&self, path: &Path) -> io::Result<()> {
            FileStorage.create_dir(path)
        }

        fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
            if self.0.load(Ordering::Relaxed) {
                return Err(io::Error::from_raw_os_error(libc::EIO));
            }
            FileStorage.create(path)
        }

        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            FileStorage.rename(from, to)
        }

        fn remove_file(&self, path: &Path) -> io::Result<()> {
            FileStorage.remove_file(path)
        }

        fn sync_file(&self, path: &Path) -> io::Result<()> {
            FileStorage.sync_file(path)
        }

        fn sync_dir(&self, path: &Path) -> io::Result<()> {
            FileStorage.sync_dir(path)
        }
    }

    /// A session's end after the writer failed once; parts that fail are kept up to `max_pending_bytes`.
    fn ended_after_a_failure(max_pending_bytes: usize) -> (Manifest, Manifest, String) {
        let tmp = tempfile::tempdir().expect("a directory");
        let dir = tmp.path().join("rec");
        let storage = Arc::new(Flaky::default());
        let options = WriterOptions { max_pending_bytes, ..WriterOptions::default() };
        let mut writer =
            RecordingWriter::create_with(&dir, Manifest::default(), options, storage.clone()).expect("a recording");
        writer.push(&MetricsRow { ts: 1, name: "vmstat.x", instance: None, value: Some(1.0) });
        storage.0.store(true, Ordering::Relaxed);
        let error = writer.flush(2).expect_err("the storage fails");
        storage.0.store(false, Ordering::Relaxed);
        let (told, warning, _) = close(writer, Some(error), |last| last.label = Some("ended".to_owned()));
        (told, Manifest::load(&dir).expect("a manifest"), warning.expect("a failure is no secret"))
    }

    #[test]
    fn rows_given_up_once_make_the_recording_incomplete_although_it_closes_well() {
        let (told, written, warning) = ended_after_a_failure(0);
        assert_eq!(told, written);
        assert!(!written.complete);
        assert_eq!(written.label.as_deref(), Some("ended"));
        assert_eq!(written.rows_dropped["metrics"], 1);
        let reason = written.incomplete_reason.as_deref().expect("a reason");
        assert!(reason.contains("1 rows of metrics") && warning.contains(reason), "{reason}; {warning}");
    }

    #[test]
    fn parts_written_late_leave_no_hole() {
        let (told, written, warning) = ended_after_a_failure(1 << 20);
        assert_eq!(told, written);
        assert!(written.complete);
        assert!(warning.contains("no row is missing"), "{warning}");
    }
}
