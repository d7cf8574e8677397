//! A process: for each mapping the page size requested, the one it got, and why it is smaller.

mod bytes;
mod stacks;
mod text;

use pagelab_residency::{Held, LookOptions, Mapping, ProcessMemory, Reason, ResidencyError, Short};
use serde::Serialize;

pub use self::bytes::{FolioReport, PoolReport, ZeroFilledReport};
pub use self::stacks::{Holding, MappedBy, MappingCall, MappingCalls};
use super::{Finding, Level};

/// Memory in small pages without a request for huge ones is reported from this size on, in bytes.
const WORTH_A_WORD: u64 = 32 << 20;

/// Slots of a region that have less than a huge page for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Less {
    /// The reason in one word, the same in all versions.
    pub reason: &'static str,
    /// The same for people.
    pub words: String,
    /// How many slots of 2 MiB.
    pub slots: u64,
    /// Bytes of theirs in memory in small pages.
    pub base_bytes: u64,
}

/// One mapping.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Region {
    /// Address of the first byte.
    pub start: u64,
    /// Address behind the last.
    pub end: u64,
    /// As the kernel prints them: `rw-p`.
    pub permissions: String,
    /// File, or the kernel's name; empty for anonymous memory.
    pub path: String,
    /// `hugetlb`, `dax`, `madvise`, `always` or `mount`; none if huge pages were not requested here.
    pub asked: Option<&'static str>,
    /// Bytes in memory in small pages; none where unknown.
    pub base_bytes: Option<u64>,
    /// In pages of 2 MiB.
    pub huge_2m_bytes: Option<u64>,
    /// In pages of 1 GiB.
    pub huge_1g_bytes: Option<u64>,
    /// On swap, with shared memory under the mapping. The size of its pages when they were swapped out is not known: an
    /// entry on swap is of one base page.
    pub swapped_bytes: Option<u64>,
    /// Of those, shared memory: the page tables know nothing of it, and every process that maps it counts it.
    pub swapped_shared_bytes: u64,
    /// Read and never written: the kernel's page of zeros stands there, which is no memory of the process. In none of the sums.
    pub zero_page_bytes: Option<u64>,
    /// Why the bytes by size of page are unknown; none where they are known.
    pub bytes_reason: Option<String>,
    /// In memory, in pages of all sizes.
    pub backed_bytes: Option<u64>,
    /// Of those, what holds anything but zeros: small pages whole, huge pages by their 4 KiB parts. An estimate where not all huge
    /// pages were read (`zero_filled.exact`).
    pub touched_bytes: Option<u64>,
    /// The rest: parts of huge pages that hold only zeros, never touched or written with zeros.
    pub zero_filled_bytes: Option<u64>,
    /// What that was counted from; none with `zero_filled_reason`.
    pub zero_filled: Option<ZeroFilledReport>,
    /// Why it is unknown; none where it is known.
    pub zero_filled_reason: Option<String>,
    /// `base_bytes` by size of the kernel's folios, the smallest first; none with `folios_reason`.
    pub folios: Option<Vec<FolioReport>>,
    /// Why they are unknown; none where they are known.
    pub folios_reason: Option<String>,
    /// Its pages of a hugetlb pool; none for memory of other kinds.
    pub pool: Option<PoolReport>,
    /// The call that mapped it, from a recording; none with `mapped_by_reason`.
    pub mapped_by: Option<MappedBy>,
    /// Why that is not known; none where it is.
    pub mapped_by_reason: Option<String>,
    /// Why slots of it have less than a huge page, the most frequent reason first.
    pub less: Vec<Less>,
}

/// The report on a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessReport {
    /// The process.
    pub pid: u32,
    /// Its name.
    pub comm: String,
    /// Bytes of its page tables; none if the kernel does not say. They are not known per mapping: neighbours share
    /// tables.
    pub page_tables_bytes: Option<u64>,
    /// Why they are not known; none where they are.
    pub page_tables_reason: Option<&'static str>,
    /// prctl(PR_SET_THP_DISABLE) holds for it.
    pub thp_disabled: bool,
    /// `khugepaged/max_ptes_none`: transparent huge pages with more zero-filled parts are underused to the kernel, which may split
    /// them; at 511 none are. None where the kernel does not say.
    pub max_ptes_none: Option<u64>,
    /// Which huge pages were read first, where the time was too short for all.
    pub seed: u64,
    /// Mappings that hold something, or asked for huge pages, in order of address.
    pub regions: Vec<Region>,
    /// The findings, problems first.
    pub findings: Vec<Finding>,
}

/// Looks at all memory of a process.
///
/// # Errors
/// The process is gone, or another user's.
pub fn look(pid: u32) -> Result<ProcessReport, ResidencyError> {
    look_with(pid, &LookOptions::default())
}

/// Looks at all memory of a process as closely as the options say.
///
/// # Errors
/// The process is gone, or another user's.
pub fn look_with(pid: u32, options: &LookOptions) -> Result<ProcessReport, ResidencyError> {
    Ok(report(pagelab_residency::process_with(pid, options)?))
}

fn report(memory: ProcessMemory) -> ProcessReport {
    let worth = |one: &&Mapping| {
        let holds = one.held.is_none_or(|held| held != Held::default());
        one.asked.is_some() || holds || one.swapped_shared_bytes > 0
    };
    let regions: Vec<Region> = memory.mappings.iter().filter(worth).map(region).collect();
    let mut findings = findings(&memory.mappings);
    findings.extend(bytes::findings(&regions));
    findings.sort_by_key(|finding| finding.level);
    let unknown = memory.page_tables_bytes.is_none();
    ProcessReport {
        pid: memory.pid,
        comm: memory.comm,
        page_tables_bytes: memory.page_tables_bytes,
        page_tables_reason: unknown.then_some("/proc/PID/status has no line VmPTE"),
        thp_disabled: memory.disabled,
        max_ptes_none: memory.max_ptes_none,
        seed: memory.options.seed,
        regions,
        findings,
    }
}

fn region(mapping: &Mapping) -> Region {
    let held = mapping.held;
    let backed_bytes = held.map(|held| held.present_bytes());
    let zero_filled_bytes = mapping.zero_filled.as_ref().ok().and_then(pagelab_residency::ZeroFilled::bytes);
    let less = |short: &Short| Less {
        reason: short.reason.word(),
        words: short.reason.to_string(),
        slots: short.slots,
        base_bytes: short.base_bytes,
    };
    Region {
        start: mapping.start,
        end: mapping.end,
        permissions: mapping.permissions.clone(),
        path: mapping.path.clone(),
        asked: mapping.asked.map(pagelab_residency::Asked::word),
        base_bytes: held.map(|held| held.base_bytes),
        huge_2m_bytes: held.map(|held| held.huge_2m_bytes),
        huge_1g_bytes: held.map(|held| held.huge_1g_bytes),
        swapped_bytes: held.map(|held| held.swapped_bytes + mapping.swapped_shared_bytes),
        swapped_shared_bytes: mapping.swapped_shared_bytes,
        zero_page_bytes: held.map(|held| held.zero_page_bytes),
        bytes_reason: mapping.held_unknown.clone(),
        backed_bytes,
        touched_bytes: backed_bytes.zip(zero_filled_bytes).map(|(backed, zero)| backed.saturating_sub(zero)),
        zero_filled_bytes,
        zero_filled: mapping.zero_filled.as_ref().ok().map(ZeroFilledReport::from),
        zero_filled_reason: mapping.zero_filled.as_ref().err().cloned(),
        folios: mapping.folios.as_ref().ok().map(|all| all.iter().map(FolioReport::from).collect()),
        folios_reason: mapping.folios.as_ref().err().cloned(),
        pool: mapping.pool.as_ref().map(PoolReport::from),
        mapped_by: None,
        mapped_by_reason: Some(stacks::NO_RECORDING.to_owned()),
        less: mapping.short.iter().map(less).collect(),
    }
}

/// One finding for each reason, over all mappings that it holds for: a problem where huge pages were asked for (a note if
/// they are only edges of mappings, and little), a note where nobody asked and there is much. Problems come first.
fn findings(mappings: &[Mapping]) -> Vec<Finding> {
    let mut found: Vec<(bool, &Reason, u64, u64)> = Vec::new();
    for mapping in mappings {
        let is_asked = mapping.asked.is_some();
        // Memory that is not present has no page size; but pages that cannot come are missed.
        for short in mapping.short.iter().filter(|short| short.base_bytes > 0 || short.reason.is_refusal()) {
            match found.iter_mut().find(|(asked, reason, ..)| *asked == is_asked && **reason == short.reason) {
                Some((.., slots, bytes)) => (*slots, *bytes) = (*slots + short.slots, *bytes + short.base_bytes),
                None => found.push((is_asked, &short.reason, short.slots, short.base_bytes)),
            }
        }
    }
    let worth = |(asked, _, _, bytes): &(bool, &Reason, u64, u64)| *asked || *bytes >= WORTH_A_WORD;
    found.retain(worth);
    found.sort_by_key(|(.., bytes)| std::cmp::Reverse(*bytes));
    let mut told: Vec<_> =
        found.into_iter().map(|(asked, reason, slots, bytes)| finding(asked, reason, slots, bytes)).collect();
    told.sort_by_key(|finding| finding.level);
    told
}

fn finding(asked: bool, reason: &Reason, slots: u64, bytes: u64) -> Finding {
    let (id, level, what) = if asked {
        // A mapping that does not begin and end on 2 MiB has edges in small pages; that matters where there are many.
        let edges = *reason == Reason::LeavesMapping && bytes < WORTH_A_WORD;
        ("process.asked_not_got", if edges { Level::Note } else { Level::Problem }, "huge pages were asked for")
    } else {
        ("process.small_pages", Level::Note, "nobody asked for huge pages")
    };
    let mib = bytes as f64 / f64::from(1 << 20);
    let (state, why) = if reason.is_refusal() {
        (format!("{slots} slots of 2 MiB are not in memory, and cannot come"), "a touch ends the program with SIGBUS")
    } else {
        (
            format!("{mib:.1} MiB in {slots} slots of 2 MiB are in small pages"),
            "each 2 MiB of them took up to 512 page faults and take up to 512 entries of the TLB",
        )
    };
    Finding {
        id,
        level,
        found: format!("{state}; {what}: {}", reason.word()),
        needed: format!("what stands in the way: {reason}"),
        why: why.to_owned(),
        fix: reason.fix(),
    }
}

#[cfg(test)]
mod tests {
    use pagelab_mapping::{HUGE_2M_BYTES, Map, PageSize};

    use super::*;

    /// A map that asked for huge pages and got them, and the reason where one asked for base pages.
    #[test]
    fn what_was_asked_and_got_is_told_by_region() {
        let huge = Map::options().page_size(PageSize::Huge2M).anonymous(2 * HUGE_2M_BYTES).expect("map");
        let small = Map::options().page_size(PageSize::Base).anonymous(32 * HUGE_2M_BYTES).expect("map");
        huge.prefault(0, 2 * HUGE_2M_BYTES).expect("prefault");
        small.prefault(0, 32 * HUGE_2M_BYTES).expect("prefault");
        let report = look(std::process::id()).expect("its own");
        let of = |map: &Map| {
            let at = map.address() as u64;
            report.regions.iter().find(|one| (one.start..one.end).contains(&at)).expect("a region")
        };
        assert_eq!((of(&huge).asked, of(&small).asked), (Some("madvise"), None));
        let against = of(&small).less.iter().find(|less| less.reason == "advised_against").expect("NOHUGEPAGE holds");
        assert!(against.base_bytes >= 31 * HUGE_2M_BYTES as u64, "{against:?}");
        let said = report.findings.iter().find(|one| one.found.contains("advised_against")).expect("64 MiB are much");
        assert_eq!((said.level, said.id), (Level::Note, "process.small_pages"));
        let text = report.to_string();
        assert!(text.contains("madvise(MADV_NOHUGEPAGE)") && text.starts_with("PROCESS"), "{text}");
    }

    #[test]
    fn the_call_that_mapped_a_region_is_told_with_its_stack() {
        let map = Map::options().page_size(PageSize::Base).anonymous(4 * HUGE_2M_BYTES).expect("map");
        map.write_at(0, b"x").expect("write");
        let mut report = look(std::process::id()).expect("its own");
        let at = map.address() as u64;
        assert!(report.regions.iter().all(|one| one.mapped_by_reason.is_some()), "no recording");
        let (start, end) = (at, at + 4 * HUGE_2M_BYTES as u64);
        let calls =
            MappingCalls::new(vec![MappingCall { ts_ns: 5_000, maps: Some((start, end)), unmaps: None, what: "mmap" }]);
        report.with_stacks(&|start, end| {
            let found = calls.of(start, end)?;
            Some(MappedBy {
                ts_ns: found.call.ts_ns,
                call: found.call.what.to_owned(),
                stack: vec!["mmap64".to_owned(), "main".to_owned()],
                bytes: found.bytes,
                other_calls: found.other_calls,
            })
        });
        let region = report.regions.iter().find(|one| (one.start..one.end).contains(&at)).expect("a region");
        assert_eq!(region.mapped_by.as_ref().map(|by| by.bytes), Some(end - start));
        assert!(region.mapped_by_reason.is_none());
        assert!(
            report.regions.iter().any(|one| one.mapped_by_reason.as_ref().is_some_and(|why| why.contains("no call")))
        );
        let text = report.to_string();
        assert!(text.contains("mapped by mmap at 0.000005 s") && text.contains("mmap64 < main"), "{text}");
    }

    #[test]
    fn much_that_holds_only_zeros_is_worth_a_word() {
        let huge = Map::options().page_size(PageSize::Huge2M).anonymous(40 * HUGE_2M_BYTES).expect("map");
        for page in 0..40 {
            huge.write_at(page * HUGE_2M_BYTES, b"x").expect("write");
        }
        let got = huge.got().expect("got").total().expect("told").huge_2m_bytes;
        let report = look(std::process::id()).expect("its own");
        let said = report.findings.iter().find(|one| one.id == "process.zero_filled");
        // Where the host gives no huge pages there is no waste.
        assert_eq!(said.is_some(), got > 20 * HUGE_2M_BYTES as u64, "{report}");
        assert!(said.is_none_or(|one| one.level == Level::Note && one.found.contains("hold only zeros")), "{said:?}");
    }
}
