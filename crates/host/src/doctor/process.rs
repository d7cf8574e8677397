//! A process: for each mapping what was asked, what was got, and why it is less.

use std::fmt::{self, Display, Formatter};

use pagelab_mapping::{Held, MapError, Mapping, Reason, Short};
use serde::Serialize;

use super::{Finding, Findings, Level};

/// Memory in small pages, which nobody asked to be huge, is worth a word from so many bytes on.
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
    /// `hugetlb`, `madvise`, `always` or `mount`; none if nobody asked for huge pages here.
    pub asked: Option<&'static str>,
    /// Bytes in memory in small pages; none where it cannot be told.
    pub base_bytes: Option<u64>,
    /// In pages of 2 MiB.
    pub huge_2m_bytes: Option<u64>,
    /// In pages of 1 GiB.
    pub huge_1g_bytes: Option<u64>,
    /// On swap.
    pub swapped_bytes: Option<u64>,
    /// Why slots of it have less than a huge page, the most frequent reason first.
    pub less: Vec<Less>,
}

/// What was found of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessReport {
    /// The process.
    pub pid: u32,
    /// Its name.
    pub comm: String,
    /// Bytes of its page tables; none if the kernel does not say.
    pub page_tables_bytes: Option<u64>,
    /// Mappings that hold something, or asked for huge pages, in order of address.
    pub regions: Vec<Region>,
    /// What is to be said of them, problems first.
    pub findings: Vec<Finding>,
}

/// Looks at all memory of a process.
///
/// # Errors
/// The process is gone, or another user's.
pub fn look(pid: u32) -> Result<ProcessReport, MapError> {
    let memory = pagelab_mapping::process(pid)?;
    let mut findings = findings(&memory.mappings);
    findings.sort_by_key(|finding| finding.level);
    let worth = |one: &&Mapping| one.asked.is_some() || one.held.is_none_or(|held| held != Held::default());
    Ok(ProcessReport {
        pid,
        comm: memory.comm,
        page_tables_bytes: memory.page_tables_bytes,
        regions: memory.mappings.iter().filter(worth).map(region).collect(),
        findings,
    })
}

fn region(mapping: &Mapping) -> Region {
    let held = mapping.held;
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
        asked: mapping.asked.map(pagelab_mapping::Asked::word),
        base_bytes: held.map(|held| held.base_bytes),
        huge_2m_bytes: held.map(|held| held.huge_2m_bytes),
        huge_1g_bytes: held.map(|held| held.huge_1g_bytes),
        swapped_bytes: held.map(|held| held.swapped_bytes),
        less: mapping.short.iter().map(less).collect(),
    }
}

/// One finding for each reason, over all mappings that it holds for: a problem where huge pages were asked for, a note
/// where nobody asked and there is much.
fn findings(mappings: &[Mapping]) -> Vec<Finding> {
    let mut found: Vec<(bool, &Reason, u64, u64)> = Vec::new();
    for mapping in mappings {
        let is_asked = mapping.asked.is_some();
        // What is not in memory has no page of any size; but what cannot come is missed.
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
    found.into_iter().map(|(asked, reason, slots, bytes)| finding(asked, reason, slots, bytes)).collect()
}

fn finding(asked: bool, reason: &Reason, slots: u64, bytes: u64) -> Finding {
    let (id, level, what) = if asked {
        ("process.asked_not_got", Level::Problem, "huge pages were asked for")
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

impl Display for ProcessReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let tables =
            self.page_tables_bytes.map_or_else(|| "unknown".to_owned(), |bytes| format!("{} KiB", bytes >> 10));
        writeln!(f, "PROCESS {} {}, page tables {tables}", self.pid, self.comm)?;
        writeln!(f, "{:>12} {:>12} {:>12} {:>10}  ASKED    RANGE, FILE, WHY LESS", "4 KiB", "2 MiB", "1 GiB", "SWAP")?;
        // Regions in which no huge page has room are told of together.
        let (large, small): (Vec<_>, Vec<_>) =
            self.regions.iter().partition(|one| one.end - one.start >= 2 << 20 || one.asked == Some("hugetlb"));
        for one in large {
            write!(f, "{}", Line(one))?;
        }
        let sum: u64 = small.iter().filter_map(|one| one.base_bytes).sum();
        writeln!(f, "{:>12} in {} regions smaller than 2 MiB", kib(Some(sum)), small.len())?;
        if self.findings.is_empty() {
            return writeln!(f, "\nAll that asked for huge pages has them.");
        }
        write!(f, "\n{}", Findings(&self.findings))
    }
}

fn kib(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "?".to_owned(), |bytes| format!("{} K", bytes >> 10))
}

struct Line<'a>(&'a Region);

impl Display for Line<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Region { start, end, base_bytes, huge_2m_bytes, huge_1g_bytes, swapped_bytes, .. } = self.0;
        writeln!(
            f,
            "{:>12} {:>12} {:>12} {:>10}  {:<8} {start:x}-{end:x} {} {}",
            kib(*base_bytes),
            kib(*huge_2m_bytes),
            kib(*huge_1g_bytes),
            kib(*swapped_bytes),
            self.0.asked.unwrap_or("-"),
            self.0.permissions,
            self.0.path
        )?;
        for less in &self.0.less {
            writeln!(f, "{:>61} {} slots: {}", "", less.slots, less.words)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use pagelab_mapping::{HUGE_2M_BYTES, Map, PageSize};

    use super::*;

    /// A map that asked and got, and what it lacks where its page size was told to be small.
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
}
