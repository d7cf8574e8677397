//! Identities that hold whatever was recorded, on generated recordings: what was seen is kept, lost or filtered; parts sum to the whole;
//! what is not known of a part is not known of the whole; a page that is begun is a page.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure that it is for")]

mod run_support;

use std::collections::BTreeSet;

use pagelab_recording::tables::{
    BlockIosRow, DaxFaultsRow, FaultsRow, LossRow, MappingsRow, OffcpuRow, RegionPagesRow, SamplesRow, SyscallsRow,
};
use pagelab_recording::{Manifest, Recording, RecordingWriter};
use pagelab_views::selection::Selection;
use pagelab_views::view::faults::FaultsView;
use pagelab_views::view::{block, dax, document, faults, loss, maps, regions, syscalls};
use pagelab_vocab::streams::Stream;
use proptest::prelude::*;
use run_support::{SECOND, command, record};

const SECONDS: i64 = 4;
const CPUS: u32 = 3;
/// Where the mapping of the faults begins.
const BASE: u64 = 0x7f00_0000_0000;

fn all() -> Selection {
    Selection { top: Some(0), ..Selection::default() }
}

/// A recording of some seconds, to be asked.
fn recorded(manifest: Manifest, fill: impl FnOnce(&mut RecordingWriter)) -> (tempfile::TempDir, Recording) {
    let tmp = tempfile::tempdir().unwrap();
    let dir = record(&tmp.path().join("r"), manifest, fill);
    let recording = Recording::open(&dir).unwrap();
    (tmp, recording)
}

fn of_seconds() -> Manifest {
    command(0, SECONDS * SECOND)
}

// What was seen is kept, lost or filtered.

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Kept,
    Lost,
    Filtered,
}

/// An event of a stream.
#[derive(Debug, Clone, Copy)]
struct Event {
    ts: i64,
    cpu: u32,
    fate: Fate,
}

fn event() -> impl Strategy<Value = Event> {
    let fate = prop_oneof![3 => Just(Fate::Kept), 1 => Just(Fate::Lost), 1 => Just(Fate::Filtered)];
    (0..SECONDS * SECOND, 0..CPUS, fate).prop_map(|(ts, cpu, fate)| Event { ts, cpu, fate })
}

/// The streams whose views count events that can be lost, with the view's name and the key of its count of rows.
const COUNTED: [(Stream, &str, Option<&str>); 8] = [
    (Stream::Faults, "faults", Some("faults_in_recording")),
    (Stream::Maps, "maps", Some("actions_total")),
    (Stream::Dax, "dax", Some("faults")),
    (Stream::Syscalls, "syscalls", Some("calls_in_recording")),
    (Stream::Block, "block", Some("requests")),
    (Stream::Syscalls, "io", None),
    (Stream::Sched, "sched", None),
    (Stream::Cpu, "profile", None),
];

const STREAMS: [Stream; 7] =
    [Stream::Faults, Stream::Maps, Stream::Dax, Stream::Syscalls, Stream::Block, Stream::Sched, Stream::Cpu];

fn push(stream: Stream, ts: i64, writer: &mut RecordingWriter) {
    let task_id = 1;
    match stream {
        Stream::Faults => {
            writer.push(&FaultsRow { ts, task_id, mm_id: 1, addr: 4096, ip: 1, ..FaultsRow::default() });
        }
        Stream::Maps => {
            let row = MappingsRow { ts, task_id, mm_id: 1, op: "mmap", kind: "call", ..MappingsRow::default() };
            writer.push(&MappingsRow { len: Some(4096), ret: Some(-12), ..row });
        }
        Stream::Dax => writer.push(&DaxFaultsRow { ts, task_id, kind: "pte", ino: 1, ..DaxFaultsRow::default() }),
        Stream::Syscalls => {
            let row = SyscallsRow { ts, task_id, name: "read", dur: Some(10), ..SyscallsRow::default() };
            writer.push(&SyscallsRow { ret: Some(0), ..row });
        }
        Stream::Block => writer.push(&BlockIosRow { ts, op: "read", bytes: 4096, ..BlockIosRow::default() }),
        Stream::Sched => {
            let row = OffcpuRow { ts, task_id, dur: Some(10), state: Some("S"), ..OffcpuRow::default() };
            writer.push(&row);
        }
        Stream::Cpu => {
            writer.push(&SamplesRow { ts, task_id, event: "cpu-clock", weight: 1, ..SamplesRow::default() });
        }
        other => panic!("no rows of {other} in this test"),
    }
}

fn count(events: &[Event], is: impl Fn(&Event) -> bool) -> u64 {
    events.iter().filter(|event| is(event)).count() as u64
}

/// Writes what is kept, and what became of the rest, each second and CPU.
fn write(stream: Stream, events: &[Event], writer: &mut RecordingWriter) {
    let mut kept: Vec<i64> = events.iter().filter(|event| event.fate == Fate::Kept).map(|event| event.ts).collect();
    kept.sort_unstable();
    for ts in kept {
        push(stream, ts, writer);
    }
    for second in 0..SECONDS {
        for cpu in 0..CPUS {
            let here = |event: &Event| event.ts / SECOND == second && event.cpu == cpu;
            let (seen, lost) = (count(events, here), count(events, |event| here(event) && event.fate == Fate::Lost));
            let filtered = count(events, |event| here(event) && event.fate == Fate::Filtered);
            let ts = second * SECOND + SECOND / 2;
            writer.push(&LossRow { ts, stream: stream.name(), cpu: Some(cpu), seen, lost, filtered });
        }
    }
}

/// The totals of a stream, its seconds and its table say the same.
fn assert_accounted(recording: &Recording, view: &loss::LossView, stream: Stream, events: &[Event]) {
    let of = |fate| count(events, |event| event.fate == fate);
    let (kept, lost, filtered) = (of(Fate::Kept), of(Fate::Lost), of(Fate::Filtered));
    assert_eq!(recording.rows(stream.table().unwrap()).unwrap(), kept, "{stream}");
    let total = view.totals.iter().find(|total| total.stream == stream.name()).unwrap();
    let counts = total.counts;
    assert_eq!((counts.seen, counts.lost, counts.filtered), (kept + lost + filtered, lost, filtered), "{stream}");
    assert_eq!(counts.wanted(), kept + lost, "{stream}");
    let pct = (kept + lost > 0).then(|| 100.0 * lost as f64 / (kept + lost) as f64);
    assert_eq!(total.lost_pct, pct, "{stream}: of what was wanted; null where that is nothing");
    let seconds = view.seconds.iter().filter(|row| row.stream == stream.name());
    let summed = seconds.fold([0; 3], |[seen, lost, filtered], row| {
        [seen + row.counts.seen, lost + row.counts.lost, filtered + row.counts.filtered]
    });
    assert_eq!(summed, [counts.seen, counts.lost, counts.filtered], "{stream}: the seconds sum to the whole");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Each view that counts events says how many there are and how many of them are missing in it, and nothing where none is.
    #[test]
    fn what_was_seen_is_kept_lost_or_filtered(
        streams in prop::collection::vec(prop::collection::vec(event(), 0..30), STREAMS.len()),
    ) {
        let (_tmp, recording) = recorded(of_seconds(), |writer| {
            for (stream, events) in STREAMS.iter().zip(&streams) {
                write(*stream, events, writer);
            }
        });
        let view = loss::collect(&recording, &all()).unwrap().data;
        prop_assert_eq!(view.totals.len(), STREAMS.len());
        for (stream, events) in STREAMS.iter().zip(&streams) {
            assert_accounted(&recording, &view, *stream, events);
        }
        for (stream, name, rows) in COUNTED {
            let events = &streams[STREAMS.iter().position(|one| *one == stream).unwrap()];
            let shown = document(name, &recording, &all()).unwrap();
            if let Some(key) = rows {
                prop_assert_eq!(shown[key].as_u64(), Some(count(events, |event| event.fate == Fate::Kept)), "{}", name);
            }
            let lost = count(events, |event| event.fate == Fate::Lost);
            let note = format!("{lost} of {} events of {stream} were lost", events.len());
            let notes = shown["notes"].to_string();
            prop_assert_eq!(notes.contains(&note), lost > 0, "{}: {}", name, notes);
            prop_assert_eq!(notes.contains(&format!("events of {stream} were lost")), lost > 0, "{}: {}", name, notes);
        }
    }
}

// Parts sum to the whole, and what is not known of a part is not known of the whole.

/// A fault on a page of the mapping, or behind it.
#[derive(Debug, Clone, Copy)]
struct Fault {
    page: u64,
    task_id: u32,
    ip: u64,
    code: Option<u32>,
    major: Option<bool>,
}

/// Where not all is known, one in ten of each has no code or no end.
fn fault(is_all_known: bool) -> impl Strategy<Value = Fault> {
    let ip = prop::sample::select(vec![0x40_0000_u64, 0x40_0100, 0xffff_ffff_8100_0000]);
    let code = prop::sample::select(vec![0_u32, 2, 4, 5, 6, 7, 20]);
    let fault = (0..24_u64, 1..4_u32, ip, (code, 0..10_u8), (any::<bool>(), 0..10_u8));
    fault.prop_map(move |(page, task_id, ip, (code, code_lot), (major, major_lot))| Fault {
        page,
        task_id,
        ip,
        code: Some(code).filter(|_| is_all_known || code_lot > 0),
        major: Some(major).filter(|_| is_all_known || major_lot > 0),
    })
}

fn some_faults() -> impl Strategy<Value = Vec<Fault>> {
    any::<bool>().prop_flat_map(|is_all_known| prop::collection::vec(fault(is_all_known), 0..40))
}

/// One mapping of `len` bytes and faults on it, on a machine with that page size.
fn with_faults(faults: &[Fault], len: u64, page_bytes: u64) -> (tempfile::TempDir, Recording) {
    recorded(Manifest { page_size_bytes: Some(page_bytes), ..of_seconds() }, |writer| {
        let row = MappingsRow { ts: 1, task_id: 1, mm_id: 1, op: "mmap", kind: "call", ..MappingsRow::default() };
        let row = MappingsRow { mapping_id: Some(1), addr: Some(BASE), len: Some(len), ..row };
        writer.push(&MappingsRow { prot: Some(3), flags: Some(0x22), ret: Some(BASE as i64), ..row });
        for (ts, fault) in (10..).zip(faults) {
            let Fault { page, task_id, ip, code, major } = *fault;
            let row = FaultsRow { ts, task_id, mm_id: 1, addr: BASE + page * page_bytes, ip, ..FaultsRow::default() };
            writer.push(&FaultsRow { error_code: code, major, ..row });
        }
    })
}

fn assert_faults_sum(view: &FaultsView, faults: &[Fault]) {
    let whole = faults.len() as u64;
    assert_eq!((view.faults, view.faults_in_recording), (whole, whole));
    assert_eq!(view.tasks.iter().map(|row| row.faults).sum::<u64>(), whole, "by task");
    assert_eq!(view.instructions.iter().map(|row| row.faults).sum::<u64>(), whole, "by instruction");
    let on_mappings: u64 = view.mappings.iter().map(|row| row.faults).sum();
    assert_eq!(on_mappings + view.unattributed.unwrap(), whole, "on a mapping or on none");
    assert_eq!(view.orders.iter().map(|row| row.faults).sum::<u64>(), on_mappings, "by order");
    assert_eq!(view.orders.iter().map(|row| row.mappings).sum::<u64>(), view.mappings.len() as u64);
    assert_eq!(view.user.unwrap() + view.kernel.unwrap(), whole, "in one mode or the other");
}

/// How many faults have a bit in their code; none where one of them has no code.
fn with_bit(faults: &[Fault], bit: u32) -> Option<u64> {
    let codes: Option<Vec<u32>> = faults.iter().map(|fault| fault.code).collect();
    Some(codes?.iter().filter(|code| *code & bit != 0).count() as u64)
}

fn majors(faults: &[Fault]) -> Option<u64> {
    let all: Option<Vec<bool>> = faults.iter().map(|fault| fault.major).collect();
    Some(all?.iter().filter(|major| **major).count() as u64).filter(|_| !faults.is_empty())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn faults_sum_up_and_are_null_if_one_is(faults in some_faults(), len in 1..100_000_u64) {
        let (_tmp, recording) = with_faults(&faults, len, 4096);
        let view = faults::collect(&recording, &all()).unwrap().data;
        assert_faults_sum(&view, &faults);
        prop_assert_eq!(view.write, with_bit(&faults, 2));
        prop_assert_eq!(view.instruction, with_bit(&faults, 16));
        prop_assert_eq!(view.protection, with_bit(&faults, 1));
        prop_assert_eq!(view.major, majors(&faults));
    }

    /// A mapping of one byte more than three pages has four, and a fault on the last of them is a fault on it.
    #[test]
    fn pages_round_up(
        faults in some_faults(),
        pages in 1..20_u64,
        beyond in 0..3_u64,
        page_bytes in prop::sample::select(vec![4096_u64, 16_384, 65_536]),
    ) {
        // Exactly so many pages, one byte of a further one, or all of it but one.
        let len = pages * page_bytes + [0, 1, page_bytes - 1][beyond as usize];
        let whole_pages = pages + u64::from(beyond > 0);
        let (_tmp, recording) = with_faults(&faults, len, page_bytes);
        let view = faults::collect(&recording, &all()).unwrap().data;
        let on: Vec<&Fault> = faults.iter().filter(|fault| fault.page < whole_pages).collect();
        prop_assert_eq!(view.unattributed, Some((faults.len() - on.len()) as u64));
        let Some(row) = view.mappings.first() else {
            prop_assert!(on.is_empty());
            return Ok(());
        };
        let missing = on.iter().filter(|fault| fault.code.unwrap_or(0) & 1 == 0).count();
        prop_assert_eq!((row.faults, row.protection_faults), (on.len() as u64, (on.len() - missing) as u64));
        prop_assert_eq!(row.faults_per_page, Some(missing as f64 / whole_pages as f64));
    }
}

/// File, task, slot of 2 MiB and result of a fault on a DAX file.
type OnDax = (u64, u32, u64, &'static str, Option<&'static str>);

fn on_dax() -> impl Strategy<Value = OnDax> {
    let outcome = prop::sample::select(vec![None, Some("NOPAGE"), Some("FALLBACK"), Some("NOPAGE|LOCKED")]);
    (1..4_u64, 1..3_u32, 0..6_u64, prop::sample::select(vec!["pmd", "pte"]), outcome)
}

/// Name, task, file, duration (none: it never returned) and CPU time of a call.
type Called = (&'static str, u32, Option<u32>, Option<i64>, bool);

fn called() -> impl Strategy<Value = Called> {
    let name = prop::sample::select(vec!["read", "write", "fsync"]);
    let dur = prop::option::weighted(0.8, 0..1_000_000_i64);
    (name, 1..4_u32, prop::option::of(0..4_u32), dur, any::<bool>())
}

/// Device, operation, bytes, time in the queue and in the device of a request.
type Request = (u64, &'static str, u64, Option<u64>, Option<i64>);

fn request() -> impl Strategy<Value = Request> {
    let op = prop::sample::select(vec!["read", "write", "flush"]);
    (1..3_u64, op, 0..1_000_000_u64, prop::option::of(0..1_000_u64), prop::option::of(0..1_000_i64))
}

/// Operation, result and pages of a mapping action.
fn action() -> impl Strategy<Value = (&'static str, i64, u64)> {
    let op = prop::sample::select(vec!["mmap", "munmap", "mprotect"]);
    (op, prop::sample::select(vec![0_i64, -12, -22]), 1..9_u64)
}

/// The calls of each grouping sum to all of them. What is told of durations is null where no call has one.
fn assert_calls_sum(recording: &Recording, calls: &[Called]) {
    let whole_ns: u64 = calls.iter().filter_map(|call| call.3).map(|ns| ns as u64).sum();
    for by in ["name", "task", "comm", "file"] {
        let selection = Selection { by: Some(by.to_owned()), ..all() };
        let view = syscalls::collect(recording, &selection).unwrap().data;
        let sum = |of: fn(&syscalls::Group) -> u64| view.groups.iter().map(of).sum::<u64>();
        assert_eq!((view.calls, view.total_ns), (calls.len() as u64, whole_ns), "{by}");
        assert_eq!(view.unfinished, calls.iter().filter(|call| call.3.is_none()).count() as u64, "{by}");
        assert_eq!((sum(|row| row.calls), sum(|row| row.total_ns)), (view.calls, view.total_ns), "{by}");
        assert_eq!(sum(|row| row.errors), view.errors, "{by}");
        assert_eq!((sum(|row| row.unfinished), sum(|row| row.refused)), (view.unfinished, view.refused), "{by}");
        for row in &view.groups {
            let timed = row.calls - row.unfinished - row.refused;
            let told = [row.mean_ns.is_some(), row.p50_ns.is_some(), row.p99_ns.is_some(), row.max_ns.is_some()];
            assert_eq!(told, [timed > 0; 4], "{by}: {row:?}");
            assert!(row.p50_ns <= row.p99_ns && row.p99_ns <= row.max_ns, "{by}: {row:?}");
        }
    }
}

fn assert_requests_sum(view: &block::BlockView, requests: &[Request]) {
    assert_eq!(view.requests, requests.len() as u64);
    assert_eq!(view.bytes, requests.iter().map(|request| request.2).sum::<u64>());
    assert_eq!(view.groups.iter().map(|row| row.count).sum::<u64>(), view.requests);
    assert_eq!(view.groups.iter().map(|row| row.bytes).sum::<u64>(), view.bytes);
    let queued = requests.iter().filter(|request| request.3.is_some()).count() as u64;
    assert_eq!(view.groups.iter().map(|row| row.queue.count).sum::<u64>(), queued);
    for row in &view.groups {
        assert_eq!(row.sizes.iter().map(|size| size.count).sum::<u64>(), row.count, "{row:?}");
        assert_eq!(row.device_time.count + row.unfinished, row.count, "{row:?}");
        for times in [&row.queue, &row.device_time] {
            let told =
                [times.mean_ns.is_some(), times.p50_ns.is_some(), times.p99_ns.is_some(), times.max_ns.is_some()];
            assert_eq!(told, [times.count > 0; 4], "{row:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn faults_on_dax_files_sum_up(all_faults in prop::collection::vec(on_dax(), 0..40)) {
        let (_tmp, recording) = recorded(of_seconds(), |writer| {
            for (ts, (ino, task_id, slot, kind, outcome)) in (0..).zip(&all_faults) {
                let row = DaxFaultsRow { ts, task_id: *task_id, ino: *ino, dev: 1, kind, ..DaxFaultsRow::default() };
                writer.push(&DaxFaultsRow { pgoff: slot * 512 + ts as u64 % 512, outcome: *outcome, ..row });
            }
        });
        let view = dax::collect(&recording, &all()).unwrap().data;
        prop_assert_eq!(view.faults, all_faults.len() as u64);
        let touched: BTreeSet<(u64, u64)> = all_faults.iter().map(|fault| (fault.0, fault.2)).collect();
        prop_assert_eq!(view.slots, touched.len() as u64);
        let sum = |of: fn(&dax::FileRow) -> u64| view.files.iter().map(of).sum::<u64>();
        prop_assert_eq!((sum(|row| row.faults), sum(|row| row.slots)), (view.faults, view.slots));
        prop_assert_eq!((sum(|row| row.huge_slots), sum(|row| row.small_slots)), (view.huge_slots, view.small_slots));
        for row in &view.files {
            prop_assert_eq!(row.outcomes.iter().map(|one| one.faults).sum::<u64>(), row.faults);
            prop_assert!(row.huge_slots + row.small_slots <= row.slots, "a slot is one or the other: {:?}", row);
        }
    }

    #[test]
    fn calls_sum_up_by_every_grouping(calls in prop::collection::vec(called(), 0..40)) {
        let (_tmp, recording) = recorded(of_seconds(), |writer| {
            for (ts, (name, task_id, file_id, dur, has_cpu)) in (0..).zip(&calls) {
                let row = SyscallsRow { ts, name, task_id: *task_id, file_id: *file_id, ..SyscallsRow::default() };
                let ret = dur.map(|dur| if dur % 5 == 0 { -2 } else { 64 });
                let cpu_ns = dur.filter(|_| *has_cpu).map(|dur| dur as u64 / 2);
                writer.push(&SyscallsRow { dur: *dur, ret, cpu_ns, ..row });
            }
        });
        assert_calls_sum(&recording, &calls);
    }

    #[test]
    fn requests_sum_up(requests in prop::collection::vec(request(), 0..40)) {
        let (_tmp, recording) = recorded(of_seconds(), |writer| {
            for (ts, (dev, op, bytes, queue_ns, dur)) in (0..).zip(&requests) {
                let row = BlockIosRow { ts, dev: *dev, op, bytes: *bytes, queue_ns: *queue_ns, ..BlockIosRow::default() };
                writer.push(&BlockIosRow { dur: *dur, status: dur.map(|_| 0), ..row });
            }
        });
        assert_requests_sum(&block::collect(&recording, &all()).unwrap().data, &requests);
    }

    #[test]
    fn mapping_actions_sum_up(
        actions in prop::collection::vec(action(), 0..40),
    ) {
        let (_tmp, recording) = recorded(of_seconds(), |writer| {
            for (ts, (op, ret, pages)) in (0..).zip(&actions) {
                let row = MappingsRow { ts, task_id: 1, mm_id: 1, op, kind: "call", ..MappingsRow::default() };
                writer.push(&MappingsRow { addr: Some(BASE), len: Some(pages * 4096), ret: Some(*ret), ..row });
            }
        });
        let view = maps::collect(&recording, &all()).unwrap().data;
        prop_assert_eq!(view.actions_total, actions.len());
        prop_assert_eq!(view.actions.len(), actions.len());
        prop_assert_eq!(view.totals.iter().map(|row| row.count).sum::<u64>(), actions.len() as u64);
        let failed = actions.iter().filter(|action| action.1 < 0).count() as u64;
        prop_assert_eq!(view.totals.iter().map(|row| row.failed).sum::<u64>(), failed);
        for row in &view.totals {
            prop_assert_eq!(row.errnos.values().sum::<u64>(), row.failed);
            prop_assert_eq!(row.len_bytes.is_some(), row.count > row.failed, "null where none took place: {:?}", row);
        }
    }

    #[test]
    fn page_sizes_of_memory_sum_up(
        found in prop::collection::vec(
            (1..4_u32, 0..5_u64, prop::sample::select(vec![4096_u64, 2 << 20]), 1..9_u64),
            0..40,
        ),
    ) {
        let (_tmp, recording) = recorded(of_seconds(), |writer| {
            for (mm_id, region, page_size_bytes, pages) in &found {
                let (start, bytes) = (BASE + (region << 30), pages * page_size_bytes);
                let row = RegionPagesRow { ts: 1, mm_id: *mm_id, start, end: start + (1 << 30), ..RegionPagesRow::default() };
                writer.push(&RegionPagesRow { page_size_bytes: *page_size_bytes, bytes, ..row });
            }
        });
        let view = regions::collect(&recording, &all()).unwrap().data;
        let whole: u64 = found.iter().map(|one| one.2 * one.3).sum();
        let summed = |sizes: &[regions::Size]| sizes.iter().map(|size| size.bytes).sum::<u64>();
        prop_assert_eq!(summed(&view.sizes), whole);
        prop_assert_eq!(view.regions.iter().map(|row| row.bytes).sum::<u64>(), whole);
        prop_assert_eq!(view.address_spaces.iter().map(|row| row.bytes).sum::<u64>(), whole);
        for row in &view.regions {
            prop_assert_eq!(summed(&row.sizes), row.bytes);
        }
        for row in &view.address_spaces {
            prop_assert_eq!(summed(&row.sizes), row.bytes);
        }
    }
}
