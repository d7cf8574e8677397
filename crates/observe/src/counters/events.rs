//! The events that are counted, and what may be derived from them: declared here and nowhere else.
//!
//! Names are those of `perf list`. The set is that of `perf stat -ddd`, with minor and major faults beside all faults.

use perf_event::events::{CacheId, CacheOp, CacheResult, Hardware, Software};

/// What the kernel is asked to count.
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
    /// Unit of the count: `ns` of clocks, empty for plain counts.
    pub unit: &'static str,
    /// What the kernel is asked for.
    pub code: Code,
    /// It happens in the kernel only, so that counting user mode alone would find none of it.
    pub in_kernel_only: bool,
}

/// Counted in every mode of the processor.
const fn event(name: &'static str, code: Code) -> EventDef {
    EventDef { name, unit: "", code, in_kernel_only: false }
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
        EventDef { unit: "ns", ..software("task-clock", Software::TASK_CLOCK) },
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

/// Behind the name of an event of which only user mode was counted; perf writes it so.
pub const USER_ONLY: &str = ":u";

/// The event of this name, with or without the suffix for user mode.
pub fn find(name: &str) -> Option<&'static EventDef> {
    let plain = name.strip_suffix(USER_ONLY).unwrap_or(name);
    GROUPS.iter().copied().flatten().find(|event| event.name == plain)
}
