//! A process as text for people.

use std::fmt::{self, Display, Formatter};

use super::{ProcessReport, Region};
use crate::doctor::Findings;

/// Where the remarks on a region begin.
const INDENT: usize = 4;

impl Display for ProcessReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let tables =
            self.page_tables_bytes.map_or_else(|| "unknown".to_owned(), |bytes| format!("{} KiB", bytes >> 10));
        let off = if self.thp_disabled { ", transparent huge pages off (PR_SET_THP_DISABLE)" } else { "" };
        writeln!(f, "PROCESS {} {}, page tables {tables}{off}", self.pid, self.comm)?;
        writeln!(
            f,
            "{:>12} {:>12} {:>12} {:>12} {:>10} {:>10}  ASKED    RANGE, FILE, WHY LESS",
            "4 KiB", "2 MiB", "1 GiB", "ZERO-FILLED", "ZERO PAGE", "SWAP"
        )?;
        // Regions in which no huge page has room are reported together.
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
        let Region { start, end, base_bytes, huge_2m_bytes, huge_1g_bytes, .. } = self.0;
        let estimated = self.0.zero_filled.as_ref().is_some_and(|found| !found.exact);
        writeln!(
            f,
            "{:>12} {:>12} {:>12} {:>12} {:>10} {:>10}  {:<8} {start:x}-{end:x} {} {}",
            kib(*base_bytes),
            kib(*huge_2m_bytes),
            kib(*huge_1g_bytes),
            format!("{}{}", if estimated { "~" } else { "" }, kib(self.0.zero_filled_bytes)),
            kib(self.0.zero_page_bytes),
            kib(self.0.swapped_bytes),
            self.0.asked.unwrap_or("-"),
            self.0.permissions,
            self.0.path
        )?;
        for remark in remarks(self.0) {
            writeln!(f, "{:INDENT$}{remark}", "")?;
        }
        for less in &self.0.less {
            writeln!(f, "{:INDENT$}{} slots: {}", "", less.slots, less.words)?;
        }
        Ok(())
    }
}

/// The facts that the columns leave out.
fn remarks(one: &Region) -> Vec<String> {
    let mut said = Vec::new();
    said.extend(one.bytes_reason.as_ref().map(|why| format!("bytes unknown: {why}")));
    said.extend(zero_filled(one));
    said.extend(one.zero_filled_reason.as_ref().map(|why| format!("zero-filled parts unknown: {why}")));
    if one.swapped_shared_bytes > 0 {
        said.push(format!("shared memory on swap: {}", kib(Some(one.swapped_shared_bytes))));
    }
    if let Some(pool) = &one.pool {
        let kept = match (&pool.reserved_bytes, &pool.reserved_reason) {
            (None, Some(why)) => format!("kept for it unknown: {why}"),
            (bytes, _) => format!("{} kept for it", kib(*bytes)),
        };
        said.push(format!("of the pool: {} not touched, {kept}", kib(Some(pool.untouched_bytes))));
    }
    said.extend(folios(one));
    if let Some(by) = &one.mapped_by {
        let stack = if by.stack.is_empty() { "no stack".to_owned() } else { by.stack.join(" < ") };
        let others = if by.other_calls == 0 {
            String::new()
        } else {
            format!(" ({} of it; {} other calls)", kib(Some(by.bytes)), by.other_calls)
        };
        said.push(format!("mapped by {} at {:.6} s{others}: {stack}", by.call, by.ts_ns as f64 / 1e9));
    }
    said
}

/// What an estimate is made from, and the kernel's judgement.
fn zero_filled(one: &Region) -> Option<String> {
    let found = one.zero_filled.as_ref().filter(|found| found.huge_bytes > 0)?;
    let underused = match found.underused_pages {
        0 => String::new(),
        pages => format!("; {pages} huge pages read are underused"),
    };
    if found.exact {
        return (found.underused_pages > 0).then(|| format!("zero-filled: all read{underused}"));
    }
    let looked_at = found.looked_at_bytes.max(1);
    Some(format!(
        "zero-filled: {:.1} % of the {} read, of {} in huge pages; may be off by {}{underused}",
        100.0 * found.zero_bytes as f64 / looked_at as f64,
        kib(Some(found.looked_at_bytes)),
        kib(Some(found.huge_bytes)),
        kib(found.margin_bytes),
    ))
}

/// Small pages of which the kernel took several at once.
fn folios(one: &Region) -> Option<String> {
    let all = one.folios.as_ref()?;
    let large: Vec<String> = all
        .iter()
        .filter(|folio| folio.folio_bytes > 4096)
        .map(|folio| format!("{} in folios of {}", kib(Some(folio.bytes)), kib(Some(folio.folio_bytes))))
        .collect();
    (!large.is_empty()).then(|| format!("of the small pages {}", large.join(", ")))
}
