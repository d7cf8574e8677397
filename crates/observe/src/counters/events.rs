//! What the kernel is asked for to count each event of the vocabulary ([`pagelab_vocab::counters`]).
//!
//! Names are those of `perf list`. The set is that of `perf stat -ddd`, plus minor and major faults.

use perf_event::events::{CacheId, CacheOp, CacheResult, Hardware, Software};

/// The events that the kernel is asked to count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// Counted by the kernel itself: needs no counter of the processor.
    Software(Software),
    /// One of the processor's events that the kernel gives a common name.
    Hardware(Hardware),
    /// Accesses to a cache, or those that missed it.
    Cache(CacheId, CacheOp, CacheResult),
}

impl Code {
    /// Whether it takes one of the few counters that the processor has.
    pub fn needs_counter(self) -> bool {
        !matches!(self, Self::Software(_))
    }
}

/// One event.
#[derive(Debug)]
pub struct EventDef {
    /// perf's name.
    pub name: &'static str,
    /// What the kernel is asked for.
    pub code: Code,
    /// It happens in the kernel only, so that counting user mode alone would find none of it.
    pub in_kernel_only: bool,
}

/// Counted in every mode of the processor.
const fn event(name: &'static str, code: Code) -> EventDef {
    EventDef { name, code, in_kernel_only: false }
}

const fn software(name: &'static str, which: Software) -> EventDef {
    event(name, Code::Software(which))
}

const fn hardware(name: &'static str, which: Hardware) -> EventDef {
    event(name, Code::Hardware(which))
}

const fn reads(name: &'static str, cache: CacheId, result: CacheResult) -> EventDef {
    event(name, Code::Cache(cache, CacheOp::READ, result))
}

const fn prefetches(name: &'static str, cache: CacheId, result: CacheResult) -> EventDef {
    event(name, Code::Cache(cache, CacheOp::PREFETCH, result))
}

/// All events, in groups that are to be counted at the same times because they are divided by one another. A group that
/// the processor cannot count at once is split.
pub const GROUPS: &[&[EventDef]] = &[
    &[
        software("task-clock", Software::TASK_CLOCK),
        EventDef { in_kernel_only: true, ..software("context-switches", Software::CONTEXT_SWITCHES) },
        EventDef { in_kernel_only: true, ..software("cpu-migrations", Software::CPU_MIGRATIONS) },
        software("page-faults", Software::PAGE_FAULTS),
        software("minor-faults", Software::PAGE_FAULTS_MIN),
        software("major-faults", Software::PAGE_FAULTS_MAJ),
    ],
    &[
        hardware("cycles", Hardware::CPU_CYCLES),
        hardware("instructions", Hardware::INSTRUCTIONS),
        hardware("stalled-cycles-frontend", Hardware::STALLED_CYCLES_FRONTEND),
        hardware("stalled-cycles-backend", Hardware::STALLED_CYCLES_BACKEND),
    ],
    &[hardware("branches", Hardware::BRANCH_INSTRUCTIONS), hardware("branch-misses", Hardware::BRANCH_MISSES)],
    &[
        reads("L1-dcache-loads", CacheId::L1D, CacheResult::ACCESS),
        reads("L1-dcache-load-misses", CacheId::L1D, CacheResult::MISS),
    ],
    &[reads("LLC-loads", CacheId::LL, CacheResult::ACCESS), reads("LLC-load-misses", CacheId::LL, CacheResult::MISS)],
    &[
        reads("L1-icache-loads", CacheId::L1I, CacheResult::ACCESS),
        reads("L1-icache-load-misses", CacheId::L1I, CacheResult::MISS),
    ],
    &[
        reads("dTLB-loads", CacheId::DTLB, CacheResult::ACCESS),
        reads("dTLB-load-misses", CacheId::DTLB, CacheResult::MISS),
    ],
    &[
        reads("iTLB-loads", CacheId::ITLB, CacheResult::ACCESS),
        reads("iTLB-load-misses", CacheId::ITLB, CacheResult::MISS),
    ],
    &[
        prefetches("L1-dcache-prefetches", CacheId::L1D, CacheResult::ACCESS),
        prefetches("L1-dcache-prefetch-misses", CacheId::L1D, CacheResult::MISS),
    ],
];

#[cfg(test)]
mod tests {
    use pagelab_vocab::counters;

    use super::*;

    #[test]
    fn the_vocabulary_has_the_same_events_in_the_same_order() {
        let counted: Vec<&str> = GROUPS.iter().copied().flatten().map(|event| event.name).collect();
        let declared: Vec<&str> = counters::EVENTS.iter().map(|event| event.name).collect();
        assert_eq!(counted, declared);
    }
}
