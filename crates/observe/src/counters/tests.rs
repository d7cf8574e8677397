//! Grouping, turns and ratios on a fake PMU; and the kernel's own, as far as this machine has one.

use std::collections::{BTreeMap, BTreeSet};

use pagelab_vocab::counters::{self, RATIOS, USER_ONLY, quotient};

use super::fake::FakePmu;
use super::*;

fn all_names() -> BTreeSet<&'static str> {
    GROUPS.iter().copied().flatten().map(|event| event.name).collect()
}

fn opened(pmu: &FakePmu) -> Counters<FakePmu> {
    let mut counters = Counters::open(pmu.clone()).expect("something can be counted");
    counters.follow(&[Scope::FromExec(1)]).expect("the target is there");
    counters
}

/// The event of this name, with or without the suffix for user mode.
fn find(name: &str) -> Option<&'static EventDef> {
    let plain = name.strip_suffix(USER_ONLY).unwrap_or(name);
    GROUPS.iter().copied().flatten().find(|event| event.name == plain)
}

fn counts(counters: &mut Counters<FakePmu>) -> BTreeMap<String, Count> {
    let mut found = BTreeMap::new();
    counters.read(|reading| {
        let count = reading.count.expect("the fake can always be read");
        assert!(found.insert(reading.name.to_owned(), count).is_none(), "{} is there twice", reading.name);
    });
    found
}

#[test]
fn names_are_unique_and_found_with_and_without_their_suffix() {
    let events: usize = GROUPS.iter().map(|group| group.len()).sum();
    assert_eq!(all_names().len(), events);
    for name in all_names() {
        assert_eq!(counters::find(name).map(|event| event.name), Some(name));
        assert_eq!(counters::find(&format!("{name}:u")).map(|event| event.name), Some(name));
    }
    assert!(counters::find("cycle").is_none());
}

#[test]
fn no_group_is_larger_than_the_counters_that_there_are() {
    for (counters, held) in [(1, 0), (2, 0), (3, 0), (4, 1), (8, 0)] {
        let pmu = FakePmu { counters, held, ..FakePmu::default() };
        let opened = opened(&pmu);
        let mut seen = BTreeSet::new();
        for group in opened.groups() {
            let hardware = group.iter().filter(|name| find(name).is_some_and(|event| event.code.needs_counter()));
            assert!(hardware.count() <= counters - held, "{counters} counters, {held} held: {group:?}");
            seen.extend(group.iter().cloned());
        }
        assert!(opened.not_counted().is_empty(), "{:?}", opened.not_counted());
        assert_eq!(seen.len(), all_names().len(), "every event is in a group");
    }
}

#[test]
fn software_events_are_counted_where_the_processor_counts_nothing() {
    let unsupported = GROUPS.iter().copied().flatten().filter(|event| event.code.needs_counter());
    let pmu = FakePmu { unsupported: unsupported.map(|event| event.name).collect(), ..FakePmu::default() };
    let mut counters = opened(&pmu);
    assert_eq!(counters.groups().count(), 1);
    assert_eq!(counters.not_counted().keys().map(String::as_str).collect::<BTreeSet<_>>(), pmu.unsupported);
    assert!(counters.not_counted().values().all(|why| why.contains("not supported")));
    pmu.run(3, 5);
    let found = counts(&mut counters);
    assert_eq!(
        found["page-faults"],
        Count { value: 15, enabled_ns: 3_000_000, running_ns: 3_000_000, group_id: Some(1) }
    );
}

#[test]
fn a_pmu_whose_counters_are_all_held_says_who_may_hold_them() {
    let pmu = FakePmu { counters: 2, held: 2, ..FakePmu::default() };
    let counters = opened(&pmu);
    assert!(counters.not_counted()["cycles"].contains("nmi_watchdog"), "{:?}", counters.not_counted());
    assert_eq!(counters.groups().count(), 1, "software events need no counter");
}

#[test]
fn an_ordinary_user_counts_user_mode_and_is_told_what_is_missing() {
    let pmu = FakePmu { counters: 4, user_only: true, ..FakePmu::default() };
    let mut counters = opened(&pmu);
    pmu.run(1, 1);
    let found = counts(&mut counters);
    assert!(found.contains_key("page-faults:u") && found.contains_key("cycles:u"), "{found:?}");
    assert!(!found.keys().any(|name| name.starts_with("context-switches")), "0 would be a lie");
    assert!(counters.not_counted()["context-switches:u"].contains("perf_event_paranoid"));
    let ipc = RATIOS.iter().find(|def| def.name == "insn_per_cycle").expect("declared");
    assert_eq!(quotient(ipc, |name| found.get(name).copied()), Ok(1.0));
}

#[test]
fn nothing_to_be_had_is_an_error_with_words() {
    let error = Counters::open(FakePmu { closed: true, ..FakePmu::default() }).err().expect("refused");
    assert!(error.contains("perf_event_paranoid"), "{error}");
}

/// With 3 counters not all groups run at once: counts are parts, and their estimates are near the truth.
#[test]
fn groups_that_take_turns_are_scaled_and_divided_within_themselves_only() {
    let (slices, rate) = (10_000, 7);
    let pmu = FakePmu { counters: 3, ..FakePmu::default() };
    let mut counters = opened(&pmu);
    pmu.run(slices, rate);
    let found = counts(&mut counters);
    let truth = (slices as u64 * rate) as f64;
    assert!(found["cycles"].multiplexed() && !found["page-faults"].multiplexed());
    for (name, count) in &found {
        let estimate = count.estimate().expect("each had its turn");
        assert!((estimate - truth).abs() < 0.01 * truth, "{name}: {estimate} for {truth}, {count:?}");
        assert!(count.value <= truth as u64 && count.running_ns <= count.enabled_ns);
    }
    let mut made = 0;
    for def in RATIOS {
        let together = found[def.numerator].together_with(&found[def.denominator]);
        let result = quotient(def, |name| found.get(name).copied());
        assert_eq!(result.is_ok(), together, "{}: {result:?}", def.name);
        made += usize::from(together);
    }
    assert!(made >= 8, "{made} ratios within groups");
    // The fourth event of the core group does not fit into three counters, so it is counted without cycles.
    assert!(!found["stalled-cycles-backend"].together_with(&found["cycles"]));
}

#[test]
fn the_kernels_own_software_events_count_this_thread() {
    let mut pmu = KernelPmu;
    let events: Vec<&EventDef> = GROUPS[0].iter().collect();
    let wanted = |user_only| Wanted { scope: Scope::Trial, user_only };
    let mut group = match pmu.open(&events, wanted(false)) {
        Ok(group) => group,
        Err(_) => pmu.open(&events, wanted(true)).expect("a user may count himself unless perf_event_paranoid is 3"),
    };
    let value = |group: &mut KernelGroup, name: &str| {
        let values = KernelPmu.read(group).expect("it is open");
        let at = events.iter().position(|event| event.name == name).expect("declared");
        assert_eq!(values.values.len(), events.len());
        (values.values[at], values.running_ns)
    };
    let before = value(&mut group, "minor-faults");
    let bytes = 4 << 20;
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a fresh mapping, which nothing else refers to; the writes lie inside it, and it is unmapped as it was
    // mapped.
    unsafe {
        let memory = libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0);
        assert_ne!(memory, libc::MAP_FAILED);
        (0..bytes).step_by(4096).for_each(|at| memory.cast::<u8>().add(at).write_volatile(1));
        libc::munmap(memory, bytes);
    }
    let after = value(&mut group, "minor-faults");
    // One fault for each page, or with huge pages one for each 2 MiB.
    assert!(after.1 > before.1 && (2..=1100).contains(&(after.0 - before.0)), "{before:?} {after:?}");
    assert!((value(&mut group, "task-clock").0) > 0);
}

#[test]
fn the_kernels_own_plan_leaves_no_event_out() {
    let counters = Counters::open(KernelPmu).expect("software events at least");
    let counted: usize = counters.plan.groups.iter().map(Vec::len).sum();
    assert_eq!(counted + counters.not_counted().len(), all_names().len());
    assert!(counters.not_counted().values().all(|why| !why.is_empty()));
}
