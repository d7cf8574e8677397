//! The join against a reference that knows nothing of intervals: an array with the owner of each page, rebuilt from
//! nothing for every fault.

use std::collections::BTreeMap;

use pagelab_vocab::abi::{MAP_HUGE_SHIFT, MAP_HUGETLB, MREMAP_DONTUNMAP};
use proptest::prelude::*;

use super::*;
use crate::space::STACK_REACH;
use crate::tables::{FaultsRow, TasksRow};
use crate::{Manifest, RecordingWriter, WriterOptions};

const PAGE: u64 = 4096;
/// Pages that actions begin at.
const STARTS: usize = 48;
/// Longest mapping.
const LONGEST: usize = 12;
const PAGES: usize = STARTS + LONGEST;

/// Owner of a page: mapping, whether it grows downwards, and the page that its segment was attached at.
type Owner = (u32, bool, Option<isize>);
type Owners = [Option<Owner>; PAGES];

#[derive(Debug, Clone)]
enum Action {
    Map { at: usize, pages: usize, stack: bool, fails: bool, op: &'static str, kind: &'static str },
    Unmap { at: usize, pages: usize, fails: bool },
    Detach { at: usize },
    Remap { old: usize, old_pages: Option<usize>, new: usize, pages: usize, keep: bool },
    Break { old: usize, new: usize },
    Protect { at: usize, pages: usize },
}

fn action() -> impl Strategy<Value = Action> {
    let at = || 0..STARTS;
    let pages = || 0..LONGEST;
    prop_oneof![
        4 => (at(), pages(), prop::bool::weighted(0.2), prop::bool::weighted(0.1), 0..4_usize).prop_map(
            |(at, pages, stack, fails, how)| {
                let (op, kind) = [("mmap", "call"), ("mmap", "fork"), ("mmap", "snapshot"), ("shmat", "call")][how];
                Action::Map { at, pages, stack, fails, op, kind }
            }
        ),
        2 => (at(), pages(), prop::bool::weighted(0.1))
            .prop_map(|(at, pages, fails)| Action::Unmap { at, pages, fails }),
        1 => at().prop_map(|at| Action::Detach { at }),
        2 => (at(), prop::option::of(pages()), at(), pages(), any::<bool>())
            .prop_map(|(old, old_pages, new, pages, keep)| Action::Remap { old, old_pages, new, pages, keep }),
        1 => (at(), at()).prop_map(|(old, new)| Action::Break { old, new }),
        1 => (at(), pages()).prop_map(|(at, pages)| Action::Protect { at, pages }),
    ]
}

/// Where the run of pages that one mapping owns, and that begins at `at`, ends.
fn run_end(owners: &Owners, at: usize) -> usize {
    let begins = owners[at].is_some() && (at == 0 || owners[at - 1] != owners[at]);
    if begins { (at..PAGES).find(|p| owners[*p] != owners[at]).unwrap_or(PAGES) } else { at }
}

fn fill(owners: &mut Owners, from: usize, to: usize, owner: Option<Owner>) {
    owners[from.min(PAGES)..to.min(PAGES).max(from.min(PAGES))].fill(owner);
}

fn play(owners: &mut Owners, action: &Action, id: u32) {
    match *action {
        Action::Map { fails: true, kind: "call", .. } | Action::Unmap { fails: true, .. } | Action::Protect { .. } => {}
        Action::Map { at, pages, stack, op, .. } => {
            let segment = (op == "shmat").then_some(at as isize);
            fill(owners, at, at + pages, Some((id, stack, segment)));
        }
        Action::Unmap { at, pages, .. } => fill(owners, at, at + pages, None),
        Action::Detach { at } => detach(owners, at),
        Action::Remap { old, old_pages, new, pages, keep } => {
            let end = moved_end(owners, old, old_pages);
            let again = (old_pages == Some(0) || keep) && end == old && new != old;
            remap(owners, (old, end), (new, pages), (keep && new != old, again), id);
        }
        Action::Break { old, new } => {
            fill(owners, new, old, None);
            fill(owners, old, new, Some((id, false, None)));
        }
    }
}

/// Where the range that a move names ends; the run that begins there where the call had no length.
fn moved_end(owners: &Owners, old: usize, old_pages: Option<usize>) -> usize {
    old_pages.map_or_else(|| run_end(owners, old), |pages| (old + pages).min(PAGES))
}

/// Everything that is left of the segment that was attached there; of what is no segment, the run that begins there.
fn detach(owners: &mut Owners, at: usize) {
    let part = |owner: &Option<Owner>| owner.is_some_and(|(_, _, segment)| segment == Some(at as isize));
    if owners.iter().any(part) {
        owners.iter_mut().filter(|owner| part(owner)).for_each(|owner| *owner = None);
    } else if owners[at].is_some_and(|(_, _, segment)| segment.is_none()) {
        fill(owners, at, run_end(owners, at), None);
    }
}

/// The kernel copies the areas, with the way they grow and their place in a segment. What shrinks where it is loses its end
/// only; else there are no gaps, and what is not known of the old range is like what is.
fn remap(
    owners: &mut Owners,
    (old, end): (usize, usize),
    (new, pages): (usize, usize),
    (keep, again): (bool, bool),
    id: u32,
) {
    // What is too much at the end goes before the rest is moved.
    let kept_end = if keep || again { end } else { end.min(old + pages) };
    fill(owners, kept_end, end, None);
    let before = *owners;
    let shrinks = old == new && end - old >= pages;
    let end_known = if again { old + 1 } else { kept_end };
    let first = before[old..end_known].iter().flatten().next().copied();
    let moved = |(_, grows, segment): Owner| (id, grows, segment.map(|at| at + new as isize - old as isize));
    if !keep && !again {
        fill(owners, old, end, None);
    }
    let mut last = first;
    for page in 0..pages {
        let source = before[..end_known].get(old + page).copied().flatten();
        last = source.or(last);
        let filled = if shrinks && first.is_some() { source } else { last };
        owners[new + page] = filled.map(moved).or((first.is_none()).then_some((id, false, None)));
    }
}

fn owner(owners: &Owners, page: usize) -> Option<u32> {
    match owners[page] {
        Some((id, ..)) => Some(id),
        None => owners[page..].iter().flatten().next().filter(|(_, stack, _)| *stack).map(|(id, ..)| *id),
    }
}

const BASE: u64 = 0x7000_0000_0000;

fn addr(page: usize) -> u64 {
    BASE + page as u64 * PAGE
}

/// The row that the observer writes for an action. Lengths are not rounded, as programs do not round them.
fn row(action: &Action, ts: i64, mm_id: u32, id: u32) -> MappingsRow<'static> {
    let len = |pages: usize| Some((pages as u64 * PAGE).saturating_sub(if pages > 1 { 100 } else { 0 }));
    let row = MappingsRow { ts, mm_id, task_id: mm_id, kind: "call", ret: Some(0), ..MappingsRow::default() };
    let made = MappingsRow { mapping_id: Some(id), ..row };
    match *action {
        Action::Map { at, pages, stack, fails, op, kind } => MappingsRow {
            op,
            kind,
            addr: (kind != "call").then(|| addr(at)),
            ret: (kind == "call").then(|| if fails { -12 } else { addr(at) as i64 }),
            len: len(pages),
            path: stack.then_some(b"[stack]"),
            ..made
        },
        Action::Unmap { at, pages, fails } => MappingsRow {
            op: "munmap",
            addr: Some(addr(at)),
            len: len(pages),
            ret: Some(if fails { -22 } else { 0 }),
            ..row
        },
        Action::Detach { at } => MappingsRow { op: "shmdt", addr: Some(addr(at)), ..row },
        Action::Remap { old, old_pages, new, pages, keep } => MappingsRow {
            op: "mremap",
            old_addr: Some(addr(old)),
            old_len: old_pages.and_then(len),
            len: len(pages),
            flags: Some(if keep { 1 | MREMAP_DONTUNMAP } else { 1 }),
            ret: Some(addr(new) as i64),
            ..made
        },
        Action::Break { old, new } => {
            MappingsRow { op: "brk", old_addr: Some(addr(old)), ret: Some(addr(new) as i64), ..made }
        }
        Action::Protect { at, pages } => MappingsRow { op: "mprotect", addr: Some(addr(at)), len: len(pages), ..row },
    }
}

/// A move of a part of a segment together with memory that is not known: below it, the segment would reach below its own
/// beginning. The kernel refuses to move a range with a gap (EFAULT), so what is not known there was never part of a segment's move.
fn is_impossible(owners: &Owners, action: &Action) -> bool {
    let Action::Remap { old, old_pages, .. } = *action else { return false };
    let end = moved_end(owners, old, old_pages);
    let range = &owners[old.min(end)..end];
    let has_segment = range.iter().flatten().any(|(_, _, segment)| segment.is_some());
    has_segment && range.iter().any(Option::is_none)
}

/// Without the actions that are impossible where the ones before have led.
fn possible(actions: Vec<(i64, u32, Action)>) -> Vec<(i64, u32, Action)> {
    let mut spaces: BTreeMap<u32, Owners> = BTreeMap::new();
    let mut kept: Vec<(i64, u32, Action)> = Vec::new();
    for (at, mm, action) in actions {
        let owners = spaces.entry(mm).or_insert([None; PAGES]);
        if !is_impossible(owners, &action) {
            play(owners, &action, kept.len() as u32);
            kept.push((at, mm, action));
        }
    }
    kept
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_replay_agrees_with_the_reference(
        actions in prop::collection::vec((0..60_i64, 1..3_u32, action()), 0..40),
        faults in prop::collection::vec((0..60_i64, 1..3_u32, 0..STARTS, 0..PAGE), 1..60),
    ) {
        let mut actions = actions;
        actions.sort_by_key(|a| a.0);
        let actions = possible(actions);
        let mut faults = faults;
        faults.sort_by_key(|f| f.0);
        let mut spaces = AddressSpaces::new(PageSizes::new(PAGE));
        let mut applied = 0;
        for (ts, mm, page, within) in faults {
            while let Some((at, mm, action)) = actions.get(applied).filter(|a| a.0 <= ts) {
                spaces.apply(&row(action, *at, *mm, applied as u32));
                applied += 1;
            }
            let mut owners: Owners = [None; PAGES];
            for (id, (_, _, action)) in (0..).zip(&actions[..applied]).filter(|(_, a)| a.1 == mm) {
                play(&mut owners, action, id);
            }
            prop_assert_eq!(spaces.find(mm, addr(page) + within), owner(&owners, page));
        }
    }
}

#[test]
fn stacks_reach_as_far_as_the_kernel_keeps_free() {
    let mut spaces = AddressSpaces::new(PageSizes::new(PAGE));
    let top = BASE + (1 << 30);
    let map = |start: u64, len: u64, id, path| MappingsRow {
        mm_id: 1,
        op: "mmap",
        kind: "kernel",
        addr: Some(start),
        len: Some(len),
        mapping_id: Some(id),
        path,
        ..MappingsRow::default()
    };
    spaces.apply(&map(top - 0x2_1000, 0x2_1000, 7, Some(b"[stack]")));
    assert_eq!(spaces.find(1, top - 0x2_1001), Some(7));
    assert_eq!(spaces.find(1, top - STACK_REACH), Some(7));
    assert_eq!(spaces.find(1, top - STACK_REACH - 1), None);
    // Something mapped below the stack ends its reach; a neighbour that does not grow takes nothing.
    spaces.apply(&map(top - (8 << 20), PAGE, 8, None));
    assert_eq!(spaces.find(1, top - (8 << 20)), Some(8));
    assert_eq!(spaces.find(1, top - (8 << 20) - 1), None);
    assert_eq!(spaces.find(1, top - (8 << 20) + PAGE), Some(7));
    assert_eq!(spaces.find(2, top - 1), None);
}

#[test]
fn huge_pages_round_lengths_up() {
    let mut spaces = AddressSpaces::new(PageSizes::new(PAGE));
    let map = |flags, start: u64, id| MappingsRow {
        mm_id: 1,
        op: "mmap",
        kind: "call",
        ret: Some(start as i64),
        len: Some(5000),
        flags: Some(flags),
        mapping_id: Some(id),
        ..MappingsRow::default()
    };
    let gib = 1 << 30;
    spaces.apply(&map(MAP_HUGETLB, BASE, 1));
    spaces.apply(&map(MAP_HUGETLB | 30 << MAP_HUGE_SHIFT, BASE + gib, 2));
    spaces.apply(&map(0, BASE + 4 * gib, 3));
    assert_eq!(spaces.find(1, BASE + (2 << 20) - 1), Some(1));
    assert_eq!(spaces.find(1, BASE + (2 << 20)), None);
    assert_eq!(spaces.find(1, BASE + 2 * gib - 1), Some(2));
    assert_eq!(spaces.find(1, BASE + 4 * gib + 8191), Some(3));
    assert_eq!(spaces.find(1, BASE + 4 * gib + 8192), None);
}

fn mapped(ts: i64, mm_id: u32, id: u32) -> MappingsRow<'static> {
    let (op, kind, len) = ("mmap", "call", Some(PAGE));
    MappingsRow { ts, mm_id, op, kind, mapping_id: Some(id), ret: Some(BASE as i64), len, ..MappingsRow::default() }
}

fn task(ts: i64, op: &'static str, task_id: u32, mm_id: u32) -> TasksRow<'static> {
    TasksRow { ts, op, task_id, mm_id: Some(mm_id), ..TasksRow::default() }
}

fn rows(batch: &RecordBatch) -> Vec<(i64, u32, Option<u32>)> {
    let view = FaultsView::new(batch).unwrap();
    view.rows().map(|row| (row.ts, row.mm_id, row.mapping_id)).collect()
}

#[test]
fn the_end_fills_in_mappings_and_counts_what_joined_nothing() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("rec");
    let mut w = RecordingWriter::create(&dir, Manifest::default(), WriterOptions::default()).unwrap();
    let fault = |ts, mm_id| FaultsRow { ts, mm_id, addr: BASE + 17, ..FaultsRow::default() };
    // Rows of all tables in several parts, none of them in step with the others.
    for (ts, mm, id) in [(100, 1, 11), (300, 1, 12), (150, 2, 21)] {
        w.push_mappings(&mapped(ts, mm, id));
    }
    let long_after = 150 + 3 * GRACE_NS;
    for (ts, op, id, mm) in [(1, "snapshot", 1, 1), (120, "fork", 2, 2), (200, "exit", 2, 2)] {
        w.push_tasks(&task(ts, op, id, mm));
    }
    w.push_faults(&fault(299, 1));
    w.flush(0).unwrap();
    for (ts, mm) in [(99, 1), (100, 1), (300, 1), (150, 2), (201, 2), (long_after, 1), (long_after, 2)] {
        w.push_faults(&fault(ts, mm));
    }
    w.flush(0).unwrap();
    // Before the end the parts have no mappings, but a reader can join them on the way.
    let live = Recording::open(&dir).unwrap();
    let joined: Vec<_> = attributed_faults(&live).unwrap().flat_map(|batch| rows(&batch.unwrap())).collect();
    w.close(|_| ()).unwrap();
    let recording = Recording::open(&dir).unwrap();
    let found: Vec<_> = recording.read("faults", None).unwrap().flat_map(|batch| rows(&batch.unwrap())).collect();
    assert_eq!(joined, found);
    let wanted = [
        (99, 1, None),
        (100, 1, Some(11)),
        (150, 2, Some(21)),
        // The last moments of a task that has left still count; long afterwards its address space is forgotten.
        (201, 2, Some(21)),
        (299, 1, Some(11)),
        (300, 1, Some(12)),
        (long_after, 1, Some(12)),
        (long_after, 2, None),
    ];
    assert_eq!(found, wanted);
    assert_eq!(recording.manifest().faults_unattributed, Some(2));
}
