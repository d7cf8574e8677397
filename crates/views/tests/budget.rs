//! The view `budget` on recordings of which every sum is known: both accounts close, shares are those of the samples, and what
//! was not recorded is not 0.
#![allow(clippy::unwrap_used)]

mod run_support;

use pagelab_recording::tables::{
    FramesRow, LossRow, OffcpuRow, SamplesRow, StacksRow, TasksRow, WaitStacksRow, WaitsRow,
};
use pagelab_recording::{Manifest, Probe, ProbeState, Recording, RecordingWriter};
use pagelab_views::selection::Selection;
use pagelab_views::view::budget::{BudgetView, OffSource, OffStack, OneComponent, collect, off_stacks};
use pagelab_views::view::sched;
use run_support::{SECOND, command, job, record};

const MS: u64 = 1_000_000;

fn task(writer: &mut RecordingWriter, task_id: u32, comm: &str) {
    let tid = task_id as i32 + 100;
    writer.push(&TasksRow { ts: 0, op: "snapshot", task_id, tid, pid: tid, comm: Some(comm), ..TasksRow::default() });
}

/// A stack of kernel functions, innermost first.
fn stack(writer: &mut RecordingWriter, stack_id: u64, functions: &[&str]) {
    let ids: Vec<u64> = (0..functions.len() as u64).map(|at| stack_id * 100 + at).collect();
    for (frame_id, symbol) in ids.iter().zip(functions) {
        let frame = FramesRow { frame_id: *frame_id, symbol: Some(symbol), kernel: true, ..FramesRow::default() };
        writer.push(&FramesRow { module: Some(b"[kernel]"), ..frame });
    }
    writer.push(&StacksRow { stack_id, frame_ids: &ids });
}

fn samples(writer: &mut RecordingWriter, task_id: u32, kstack_id: Option<u64>, count: u64) {
    for i in 0..count {
        let (ts, weight) = (i as i64 * 10 * MS as i64, 10 * MS);
        writer.push(&SamplesRow { ts, task_id, event: "cpu-clock", kstack_id, weight, ..SamplesRow::default() });
    }
}

/// A sample of the program where the kernel had just returned.
fn returned(writer: &mut RecordingWriter, task_id: u32, from: &str, count: u64) {
    for i in 0..count {
        let (ts, weight, returned_from) = (i as i64 * 10 * MS as i64, 10 * MS, Some(from));
        writer.push(&SamplesRow { ts, task_id, event: "cpu-clock", weight, returned_from, ..SamplesRow::default() });
    }
}

fn idle(writer: &mut RecordingWriter, ts: i64, ns: u64) {
    writer.push(&WaitsRow { ts, state: "idle", ns, ..WaitsRow::default() });
}

fn state(writer: &mut RecordingWriter, ts: i64, task_id: u32, state: &str, ns: u64) {
    writer.push(&WaitsRow { ts, task_id: Some(task_id), state, times: Some(1), ns, ..WaitsRow::default() });
}

/// A wait, and the stacks that stand for it: number of the stack, and its share of the weight.
fn wait(writer: &mut RecordingWriter, row: WaitsRow<'_>, stacks: &[(Option<u64>, u64)]) {
    writer.push(&WaitsRow { state: "off", times: Some(1), ..row });
    for (kstack_id, weight_ns) in stacks {
        writer.push(&WaitStacksRow {
            ts: row.ts,
            task_id: row.task_id.unwrap(),
            off_state: row.off_state.unwrap(),
            iowait: row.iowait.unwrap(),
            call: row.call,
            by: row.by,
            kstack_id: *kstack_id,
            samples: 4,
            weight_ns: *weight_ns,
        });
    }
}

fn off<'a>(ts: i64, task_id: u32, off_state: &'a str, call: &'a str, by: Option<&'a str>, ns: u64) -> WaitsRow<'a> {
    let (off_state, call, iowait) = (Some(off_state), Some(call), Some(false));
    WaitsRow { ts, task_id: Some(task_id), off_state, iowait, call, by, ns, ..WaitsRow::default() }
}

fn view_of(recording: &Recording, selection: &Selection) -> BudgetView {
    let answer = collect(recording, selection).unwrap();
    assert_eq!(answer.notes, Vec::<String>::new());
    answer.data
}

fn found<'a>(view: &'a BudgetView, component: &str) -> &'a OneComponent {
    view.components.iter().find(|row| row.component == component).unwrap_or_else(|| panic!("no {component}: {view:#?}"))
}

/// Sums to the nanosecond that each row is rounded to.
fn assert_sum(rows: impl Iterator<Item = u64>, whole: u64) {
    let sum: u64 = rows.sum();
    assert!(sum.abs_diff(whole) <= 50, "{sum} of {whole}");
}

fn all() -> Selection {
    Selection { top: Some(0), ..Selection::default() }
}

/// Two seconds; `work` runs, waits for a CPU, for the disk and for a lock of its address space, `other` is asleep.
fn fill(writer: &mut RecordingWriter) {
    task(writer, 1, "work");
    task(writer, 2, "other");
    stack(
        writer,
        1,
        &["clear_page_erms", "do_anonymous_page", "handle_mm_fault", "exc_page_fault", "asm_exc_page_fault"],
    );
    stack(writer, 2, &["nobody_knows_it", "__x64_sys_new", "do_syscall_64"]);
    stack(writer, 3, &["submit_bio_wait", "blkdev_issue_flush", "ext4_sync_file", "__x64_sys_fsync"]);
    stack(writer, 4, &["folio_wait_writeback", "__filemap_fdatawait_range", "ext4_sync_file", "__x64_sys_fsync"]);
    stack(writer, 5, &["rwsem_down_write_slowpath", "down_write_killable", "vm_mmap_pgoff", "__x64_sys_mmap"]);
    samples(writer, 1, None, 60);
    samples(writer, 1, Some(1), 30);
    samples(writer, 1, Some(2), 10);
    idle(writer, 0, 0);
    // The first second: 800 ms on a CPU, of which a hypervisor took 80.
    state(writer, SECOND, 1, "run", 800 * MS);
    state(writer, SECOND, 1, "kernel_run", 720 * MS);
    state(writer, SECOND, 1, "kernel_ready", 90 * MS);
    let ready = WaitsRow { ts: SECOND, task_id: Some(1), state: "ready", times: Some(3), ..WaitsRow::default() };
    writer.push(&WaitsRow { by: Some("foreign"), ns: 70 * MS, ..ready });
    writer.push(&WaitsRow { by: Some("throttled"), ns: 30 * MS, ..ready });
    wait(writer, off(SECOND, 1, "D", "fsync", Some("softirq"), 100 * MS), &[(Some(3), 90), (Some(4), 30)]);
    idle(writer, SECOND, 0);
    // The second: it waits 600 ms for the lock and then for the other, which sleeps all the time.
    wait(writer, off(2 * SECOND, 1, "D", "mmap", Some("own"), 600 * MS), &[(Some(5), 1)]);
    wait(writer, off(2 * SECOND, 1, "S", "futex", Some("own"), 400 * MS), &[(None, 1)]);
    writer.push(&WaitsRow { state: "off", ..off(2 * SECOND, 2, "S", "clock_nanosleep", Some("timer"), 2000 * MS) });
    idle(writer, 2 * SECOND, 400 * MS);
}

#[test]
fn both_accounts_close_and_time_is_split_by_samples() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = record(&tmp.path().join("r"), job(0, 2 * SECOND, 1000), fill);
    let view = view_of(&Recording::open(&dir).unwrap(), &all());
    assert_eq!((view.tasks, view.lives_ns), (2, Some(4000 * MS)));
    assert_eq!((view.run_ns, view.ready_ns, view.off_ns), (Some(800 * MS), Some(100 * MS), Some(3100 * MS)));
    assert_eq!((view.window_ns, view.idle_ns), (Some(2000 * MS), Some(400 * MS)));
    assert_eq!((view.kernel_run_ns, view.kernel_ready_ns), (Some(720 * MS), Some(90 * MS)));
    assert!(view.missing.is_empty(), "{:?}", view.missing);
    assert_sum(view.components.iter().map(|row| row.ns), 4000 * MS);
    assert_sum(view.components.iter().filter_map(|row| row.wall_ns), 1600 * MS);
    let ms = |component: &str| found(&view, component).ns / MS;
    assert_eq!((ms("run.stolen"), ms("run.user"), ms("run.memory.clear"), ms("run.other")), (80, 432, 216, 72));
    assert_eq!((ms("ready.foreign"), ms("ready.throttled")), (70, 30));
    assert_eq!((ms("off.flush"), ms("off.write_back"), ms("off.mmap_lock")), (75, 25, 600));
    assert_eq!((ms("off.dependent"), ms("off.timer")), (400, 2000));
    assert!(!found(&view, "off.timer").active && found(&view, "off.timer").wall_ns.is_none());
    // In the second second the lock is all that is active, for the 600 ms that something is.
    assert_eq!(found(&view, "off.mmap_lock").wall_ns, Some(600 * MS));
    assert_eq!(found(&view, "run.memory.clear").wall_ns_per_operation, Some(216e3));
    // A share of 0.3 of 720 ms by 100 samples.
    let error = 720e6 * (0.3_f64 * 0.7 / 100.0).sqrt();
    assert!((found(&view, "run.memory.clear").error_ns as f64 - error).abs() < 1e6, "{error}");
    assert_eq!(found(&view, "ready.foreign").error_ns, 0, "it was summed up");
    let entry = |entry: &str| view.kernel.iter().find(|row| row.entry == entry).unwrap();
    assert_eq!((entry("page_fault").mechanism, entry("page_fault").samples), ("memory.clear", 30));
    assert_eq!((entry("new").mechanism, entry("new").ns), ("other", Some(72 * MS)));
    assert_eq!((view.unmatched[0].function.as_str(), view.unmatched[0].samples), ("nobody_knows_it", 10));
    assert!((view.kernel_unmatched_pct.unwrap() - 25.0).abs() < 1e-9);
}

#[test]
fn a_place_that_another_kernel_has_not_counts_with_its_caller() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = record(&tmp.path().join("r"), command(0, SECOND), |writer| {
        task(writer, 1, "work");
        stack(writer, 1, &["do_anonymous_page.isra.0", "__handle_mm_fault", "handle_mm_fault", "asm_exc_page_fault"]);
        stack(writer, 2, &["submit_bio_wait", "jbd2_log_wait_commit", "ext4_sync_file", "__x64_sys_fsync"]);
        samples(writer, 1, Some(1), 10);
        idle(writer, 0, 0);
        state(writer, SECOND, 1, "run", 800 * MS);
        wait(writer, off(SECOND, 1, "D", "fsync", Some("softirq"), 200 * MS), &[(Some(2), 1)]);
        idle(writer, SECOND, 0);
    });
    let recording = Recording::open(&dir).unwrap();
    let ms = |untold: &[&str], component: &str| {
        let places_untold = untold.iter().map(|name| (*name).to_owned()).collect();
        found(&view_of(&recording, &Selection { places_untold, ..all() }), component).ns / MS
    };
    assert_eq!((ms(&[], "run.fault.anonymous"), ms(&[], "off.flush")), (800, 200));
    let untold = ["do_anonymous_page", "jbd2_log_wait_commit", "a place that nobody knows"];
    assert_eq!((ms(&untold, "run.fault.entry"), ms(&untold, "off.flush")), (800, 200));
    let untold = ["do_anonymous_page", "__handle_mm_fault", "handle_mm_fault", "asm_exc_page_fault"];
    assert_eq!(ms(&untold, "run.other"), 800);
    assert_eq!(ms(&["jbd2_log_wait_commit", "ext4_sync_file"], "off.other"), 200);
}

#[test]
fn samples_on_the_way_out_are_the_kernels() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = record(&tmp.path().join("r"), command(0, SECOND), |writer| {
        task(writer, 1, "work");
        samples(writer, 1, None, 60);
        returned(writer, 1, "fault", 25);
        returned(writer, 1, "call", 10);
        returned(writer, 1, "a word of a later version", 5);
        idle(writer, 0, 0);
        state(writer, SECOND, 1, "run", 1000 * MS);
        state(writer, SECOND, 1, "kernel_run", 1000 * MS);
        idle(writer, SECOND, 0);
    });
    let view = view_of(&Recording::open(&dir).unwrap(), &all());
    let ms = |component: &str| found(&view, component).ns / MS;
    assert_eq!((ms("run.user"), ms("run.fault.entry"), ms("run.call.entry")), (650, 250, 100));
    let entry = |entry: &str| view.kernel.iter().find(|row| row.entry == entry).unwrap();
    assert_eq!((entry("page_fault").mechanism, entry("page_fault").samples), ("fault.entry", 25));
    assert_eq!((view.kernel_unmatched_pct, view.missing.len()), (Some(0.0), 0));
}

/// Four seconds, of which the load measured the second and third; it lays out files before and is closed after.
#[test]
fn of_a_load_the_account_is_of_what_it_measured() {
    let tmp = tempfile::tempdir().unwrap();
    let fill = |writer: &mut RecordingWriter| {
        task(writer, 1, "load");
        idle(writer, 0, 0);
        for (second, run_ms) in [(1, 1000), (2, 500), (3, 100), (4, 400)] {
            state(writer, second * SECOND, 1, "run", run_ms * MS);
            state(writer, second * SECOND, 1, "kernel_run", run_ms * MS);
            idle(writer, second * SECOND, 0);
        }
        // It waits from 1.5 s to 2.9 s and from 2.9 s, told at the ends of the intervals in which the waits ended.
        wait(writer, off(3 * SECOND, 1, "D", "fsync", Some("softirq"), 1400 * MS), &[(None, 1)]);
        wait(writer, off(4 * SECOND, 1, "D", "fsync", Some("softirq"), 600 * MS), &[(None, 1)]);
        samples(writer, 1, None, 400);
    };
    let manifest = job(SECOND + 20 * MS as i64, 3 * SECOND - 20 * MS as i64, 1000);
    let dir = record(&tmp.path().join("r"), manifest, fill);
    let recording = Recording::open(&dir).unwrap();
    let answer = collect(&recording, &all()).unwrap();
    let view = answer.data;
    assert!(
        answer.notes.iter().any(|note| note.contains("2.0 s of the time that the load measured")),
        "{:?}",
        answer.notes
    );
    assert_eq!((view.window_of, view.window_ns, view.operations), ("measured", Some(2000 * MS), Some(1000.0)));
    assert_eq!((view.run_ns, view.kernel_run_ns), (Some(600 * MS), Some(600 * MS)));
    assert_eq!(view.off_ns, Some(1400 * MS));
    assert_sum(view.components.iter().filter_map(|row| row.wall_ns), 2000 * MS);
    let whole =
        collect(&recording.within(pagelab_recording::Span { from_ns: -1, to_ns: i64::MAX }), &all()).unwrap().data;
    assert_eq!((whole.window_of, whole.window_ns, whole.operations), ("selected", Some(4000 * MS), None));
    assert_eq!((whole.run_ns, whole.off_ns), (Some(2000 * MS), Some(2000 * MS)));
}

#[test]
fn a_task_of_some_has_an_account_and_no_wall() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = record(&tmp.path().join("r"), job(0, 2 * SECOND, 1000), fill);
    let recording = Recording::open(&dir).unwrap();
    let view = view_of(&recording, &Selection { comm: Some("work".to_owned()), ..all() });
    assert_eq!((view.tasks, view.lives_ns, view.idle_ns), (1, Some(2000 * MS), None));
    assert!(view.components.iter().all(|row| row.wall_ns.is_none() && row.wall_ns_per_operation.is_none()));
    assert_eq!(view.components[0].component, "off.mmap_lock", "longest first");
    let by_name = view_of(&recording, &Selection { sort: Some("component".to_owned()), ..all() });
    assert!(by_name.components.is_sorted_by_key(|row| row.component));
    assert!(collect(&recording, &Selection { sort: Some("size".to_owned()), ..all() }).is_err());
}

/// It waited uninterruptibly through three seconds, and that was told when it was over.
#[test]
fn what_lasted_longer_than_an_interval_is_spread_over_those_before() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = record(&tmp.path().join("r"), command(0, 3 * SECOND), |writer| {
        task(writer, 1, "work");
        for second in 0..=3 {
            idle(writer, second * SECOND, 0);
        }
        state(writer, SECOND, 1, "run", 500 * MS);
        wait(writer, off(3 * SECOND, 1, "D", "read", Some("softirq"), 2500 * MS), &[]);
    });
    let view = view_of(&Recording::open(&dir).unwrap(), &all());
    assert_eq!(found(&view, "off.other").wall_ns, Some(2500 * MS));
    assert_eq!(found(&view, "run.unsampled").wall_ns, Some(500 * MS), "half of the first second");
    assert_eq!(view.idle_ns, Some(0));
    assert!(view.missing.iter().any(|missing| missing.part == "run"), "{:?}", view.missing);
}

#[test]
fn without_a_stream_a_part_is_not_known_and_says_why() {
    let tmp = tempfile::tempdir().unwrap();
    let mut manifest: Manifest = command(0, SECOND);
    manifest.probes.push(Probe {
        name: "waits".to_owned(),
        state: ProbeState::Refused,
        reason: Some("no BPF here".to_owned()),
        ..Probe::default()
    });
    let dir = record(&tmp.path().join("r"), manifest, |writer| {
        task(writer, 1, "work");
        stack(writer, 1, &["clear_page_erms", "exc_page_fault"]);
        samples(writer, 1, None, 3);
        samples(writer, 1, Some(1), 1);
    });
    let view = view_of(&Recording::open(&dir).unwrap(), &all());
    assert_eq!((view.lives_ns, view.run_ns, view.ready_ns, view.off_ns, view.idle_ns), (None, None, None, None, None));
    let parts: Vec<&str> = view.missing.iter().map(|missing| missing.part).collect();
    assert_eq!(parts, ["run", "ready", "off"]);
    assert!(view.missing.iter().all(|missing| missing.reason.contains("no BPF here")), "{:?}", view.missing);
    assert!((found(&view, "run.user").pct - 75.0).abs() < 1e-9, "shares are known");
    assert!(found(&view, "run.user").wall_ns.is_none());

    let empty = record(&tmp.path().join("e"), command(0, SECOND), |writer| task(writer, 1, "work"));
    let view = view_of(&Recording::open(&empty).unwrap(), &all());
    assert!(view.components.is_empty());
    assert!(view.missing.iter().any(|missing| missing.reason.contains("record --observe default")));
}

/// One runs all the time; the other reads for the first half and then waits for somebody. Sums of the second take both for active
/// beside each other throughout.
#[test]
fn every_switch_makes_the_wall_account_exact() {
    let tmp = tempfile::tempdir().unwrap();
    let mut manifest: Manifest = command(0, SECOND);
    manifest.probes.push(Probe { name: "sched".to_owned(), state: ProbeState::Active, ..Probe::default() });
    let fill = |writer: &mut RecordingWriter| {
        task(writer, 1, "runs");
        task(writer, 2, "reads");
        stack(writer, 1, &["folio_wait_bit_common", "filemap_read", "__x64_sys_read"]);
        idle(writer, 0, 0);
        state(writer, SECOND, 1, "run", 1000 * MS);
        wait(writer, off(SECOND, 2, "D", "read", Some("softirq"), 500 * MS), &[(Some(1), 1)]);
        wait(writer, off(SECOND, 2, "S", "futex", Some("own"), 500 * MS), &[]);
        idle(writer, SECOND, 0);
        let row = OffcpuRow { task_id: 2, runqueue_ns: Some(0), iowait: Some(false), ..OffcpuRow::default() };
        let half = SECOND / 2;
        writer.push(&OffcpuRow { ts: 0, dur: Some(half), state: Some("D"), kstack_id: Some(1), ..row });
        writer.push(&OffcpuRow { ts: half, dur: None, state: Some("S"), ..row });
    };
    let dir = record(&tmp.path().join("r"), manifest.clone(), fill);
    let view = view_of(&Recording::open(&dir).unwrap(), &all());
    assert_eq!(view.wall_from, Some("switches"));
    let walls = |component: &str| (found(&view, component).wall_ns, found(&view, component).wall_by_sums_ns);
    let near = |found: Option<u64>, ms: u64| assert!(found.unwrap().abs_diff(ms * MS) < MS, "{ms}: {view:#?}");
    near(walls("off.read").0, 250);
    near(walls("off.read").1, 333);
    near(walls("run.unsampled").0, 750);
    near(walls("run.unsampled").1, 667);
    // One event lost, and it is no better than the sums.
    let lossy = record(&tmp.path().join("l"), manifest, |writer| {
        fill(writer);
        writer.push(&LossRow { ts: SECOND, stream: "sched", cpu: None, seen: 3, lost: 1, filtered: 0 });
    });
    let view = collect(&Recording::open(&lossy).unwrap(), &all()).unwrap().data;
    assert_eq!((view.wall_from, found(&view, "off.read").wall_by_sums_ns), (Some("sums"), None));
}

#[test]
fn what_waits_lost_makes_the_times_too_short_and_is_said() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = record(&tmp.path().join("r"), job(0, 2 * SECOND, 1000), |writer| {
        fill(writer);
        writer.push(&LossRow { ts: SECOND, stream: "waits", cpu: None, seen: 90, lost: 45, filtered: 0 });
    });
    let view = collect(&Recording::open(&dir).unwrap(), &all()).unwrap().data;
    let parts: Vec<&str> = view.missing.iter().map(|missing| missing.part).collect();
    assert_eq!(parts, ["ready", "off"]);
    assert!(view.missing.iter().all(|missing| missing.reason.contains("45 of 90")), "{:?}", view.missing);
}

fn stacks_from(recording: &Recording, source: OffSource) -> Vec<OffStack> {
    let mut notes = Vec::new();
    let found = off_stacks(recording, source, &all(), &mut notes).unwrap();
    assert_eq!(notes, Vec::<String>::new());
    found
}

/// The stacks of each component sum to what the account says of it.
fn assert_stacks_of(view: &BudgetView, stacks: &[OffStack]) {
    for row in view.components.iter().filter(|row| row.state == "off") {
        let of: Vec<&OffStack> = stacks.iter().filter(|stack| stack.component == row.component).collect();
        assert_sum(of.iter().map(|stack| stack.ns), row.ns);
        assert!(of.iter().all(|stack| stack.active == row.active), "{of:?}");
    }
    assert_sum(stacks.iter().map(|stack| stack.ns), view.off_ns.unwrap());
}

/// Name of the task, call, kernel stack and ms.
type Told<'a> = (Option<&'a str>, Option<&'a str>, Option<u64>, u64);

#[test]
fn stacks_of_waits_sum_to_the_account() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = record(&tmp.path().join("r"), job(0, 2 * SECOND, 1000), fill);
    let recording = Recording::open(&dir).unwrap();
    assert_eq!(OffSource::of(&recording).unwrap(), [OffSource::Sums]);
    let stacks = stacks_from(&recording, OffSource::Sums);
    assert_stacks_of(&view_of(&recording, &all()), &stacks);
    let of = |component: &str| -> Vec<Told<'_>> {
        let found = stacks.iter().filter(|stack| stack.component == component);
        found.map(|one| (one.comm.as_deref(), one.call.as_deref(), one.kstack_id, one.ns / MS)).collect()
    };
    assert_eq!(of("off.flush"), [(Some("work"), None, Some(3), 75)]);
    assert_eq!(of("off.write_back"), [(Some("work"), None, Some(4), 25)]);
    assert_eq!(of("off.dependent"), [(Some("work"), Some("futex"), None, 400)], "without a stack the call is told");
    assert_eq!(of("off.timer"), [(Some("other"), Some("clock_nanosleep"), None, 2000)], "sums alone tell whose it is");
}

/// The load measured the second second; the first waits of a kind were before.
#[test]
fn stacks_of_a_load_are_of_what_it_measured() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = record(&tmp.path().join("r"), job(SECOND, 2 * SECOND, 1000), |writer| {
        task(writer, 1, "load");
        stack(writer, 1, &["blkdev_issue_flush"]);
        for second in 0..=2 {
            idle(writer, second * SECOND, 0);
        }
        wait(writer, off(SECOND, 1, "D", "fsync", Some("softirq"), 900 * MS), &[(Some(1), 1)]);
        wait(writer, off(2 * SECOND, 1, "D", "fsync", Some("softirq"), 300 * MS), &[(Some(1), 1)]);
        wait(writer, off(2 * SECOND, 1, "S", "read", None, 100 * MS), &[]);
    });
    let recording = Recording::open(&dir).unwrap();
    let stacks = stacks_from(&recording, OffSource::Sums);
    assert_stacks_of(&collect(&recording, &all()).unwrap().data, &stacks);
    assert_eq!(stacks.iter().map(|stack| stack.ns / MS).sum::<u64>(), 400);
}

#[test]
fn stacks_of_switches_sum_to_the_times_asleep() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = record(&tmp.path().join("r"), command(0, SECOND), |writer| {
        task(writer, 1, "work");
        stack(writer, 1, &["folio_wait_bit_common", "filemap_read"]);
        stack(writer, 2, &["futex_wait"]);
        stack(writer, 3, &["do_nanosleep", "hrtimer_nanosleep"]);
        let row = OffcpuRow { task_id: 1, runqueue_ns: Some(10), iowait: Some(false), ..OffcpuRow::default() };
        writer.push(&OffcpuRow { dur: Some(110), state: Some("D"), kstack_id: Some(1), ustack_id: Some(2), ..row });
        writer.push(&OffcpuRow { dur: Some(210), state: Some("S"), waker_task_id: Some(1), kstack_id: Some(2), ..row });
        writer.push(&OffcpuRow { dur: Some(310), state: Some("S"), kstack_id: Some(2), ..row });
        writer.push(&OffcpuRow { dur: Some(410), state: Some("D"), ..row });
        writer.push(&OffcpuRow { dur: Some(510), state: Some("S"), kstack_id: Some(3), ..row });
        // Preempted, and never woken.
        writer.push(&OffcpuRow { dur: Some(99), state: Some("R+"), runqueue_ns: Some(99), ..row });
        writer.push(&OffcpuRow { dur: None, runqueue_ns: None, state: Some("S"), kstack_id: Some(2), ..row });
    });
    let recording = Recording::open(&dir).unwrap();
    assert_eq!(OffSource::of(&recording).unwrap(), [OffSource::Switches]);
    let mut notes = Vec::new();
    let stacks = off_stacks(&recording, OffSource::Switches, &all(), &mut notes).unwrap();
    assert!(notes.len() == 1 && notes[0].contains("had not ended"), "{notes:?}");
    let view = sched::collect(&recording, &all()).unwrap().data;
    let asleep: u64 = view.tasks.iter().filter_map(|task| task.asleep_ns).sum();
    assert_eq!(stacks.iter().map(|stack| stack.ns).sum::<u64>(), asleep);
    let of: Vec<(&str, u64, Option<u64>)> = stacks.iter().map(|one| (one.component, one.ns, one.ustack_id)).collect();
    let wanted = [
        ("off.dependent", 200, None),
        ("off.other", 400, None),
        ("off.read", 100, Some(2)),
        ("off.timer", 500, None),
        ("off.unknown", 300, None),
    ];
    assert_eq!(of, wanted);
    let bare = record(&tmp.path().join("b"), command(0, SECOND), |writer| {
        writer.push(&OffcpuRow { dur: Some(1), state: Some("S"), ..OffcpuRow::default() });
    });
    assert_eq!(OffSource::of(&Recording::open(&bare).unwrap()).unwrap(), [], "sched:nostacks has none");
}
