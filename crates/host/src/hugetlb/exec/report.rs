//! What a program that was run on huge pages got, as values and as text.

use std::fmt;
use std::path::Path;

use serde::Serialize;

use super::{ExecRequest, Heap, Memory, Segments, Shm, Watched};
use crate::guard::{Applied, RestoreReport};
use crate::settings;

/// How the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Exit {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

impl Exit {
    /// The status to exit with in its place, as shells form it: the code, or 128 and the signal.
    pub fn status(self) -> i32 {
        self.code.unwrap_or_else(|| self.signal.map_or(1, |signal| 128 + signal))
    }
}

/// Whether the request took effect on a part of the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Whether it acted; `None` if that could not be seen.
    pub acted: Option<bool>,
    /// The evidence, or why there is none.
    pub why: String,
}

/// What the program got.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExecReport {
    /// The file that was run; for a script its interpreter.
    pub program: String,
    /// The value of GLIBC_TUNABLES that it was given.
    pub glibc_tunables: Option<String>,
    /// Settings of the host that were changed while it ran.
    pub host_changes: Vec<Applied>,
    /// How it ended.
    pub exit: Exit,
    /// How long it ran.
    pub elapsed_ns: u64,
    /// How often its memory was looked at.
    pub looks: u32,
    /// How long before its end the last look was; `None` if there was none.
    pub last_look_before_end_ns: Option<u64>,
    /// Most processes, it and its children, that were there at once.
    pub processes: u32,
    /// The largest value of each figure; `None` if it ended before it could be looked at.
    pub peak: Option<Memory>,
    /// The figures at the last look.
    pub last: Option<Memory>,
    /// Whether the heap was put on huge pages; `None` if that was not asked for.
    pub heap: Option<Verdict>,
    /// Whether shared memory was; `None` if that was not asked for.
    pub shm: Option<Verdict>,
    /// The System V segments that it asked for; `None` unless they were to lie on the pool.
    pub segments: Option<Segments>,
    /// What undoing the changes to the host did.
    pub restored: RestoreReport,
    /// What else should be known.
    pub notes: Vec<String>,
}

impl ExecReport {
    /// The observations of the program; changes made to it and to the host are added by their makers.
    pub(super) fn seen(
        request: &ExecRequest,
        root: &Path,
        program: &Path,
        watched: &Watched,
        segments: Option<Segments>,
    ) -> Self {
        let nanoseconds = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let mode = settings::read(root, "thp.enabled").unwrap_or_default();
        let thp_always = request.always || mode == "always";
        ExecReport {
            program: program.display().to_string(),
            glibc_tunables: None,
            host_changes: Vec::new(),
            exit: watched.exit(),
            elapsed_ns: nanoseconds(watched.elapsed),
            looks: watched.looks,
            last_look_before_end_ns: watched.last_look.map(nanoseconds),
            processes: watched.processes,
            heap: request.heap.map(|heap| heap_verdict(heap, watched.peak.as_ref(), thp_always)),
            shm: request.shm.map(|shm| shm_verdict(shm, watched.peak.as_ref(), segments.as_ref())),
            segments,
            peak: watched.peak,
            last: watched.last,
            restored: RestoreReport::default(),
            notes: Vec::new(),
        }
    }
}

/// Why glibc's malloc may not have acted on the tunable, and what helps; see the module's description.
const BY_CHANCE: &str =
    "did not recognise thp.enabled, as glibc 2.35 and 2.36 do only by chance; run it again, or with --always";

fn unseen() -> Verdict {
    Verdict { acted: None, why: "the program ended before its memory could be looked at".to_owned() }
}

fn heap_verdict(heap: Heap, peak: Option<&Memory>, thp_always: bool) -> Verdict {
    let Some(peak) = peak else { return unseen() };
    let (acted, why) = match heap {
        Heap::Thp if thp_always => {
            let why = "thp.enabled was always, so that malloc needed to advise nothing";
            (peak.heap_thp_bytes > 0, format!("{why}: {} bytes of heap in huge pages", peak.heap_thp_bytes))
        }
        Heap::Thp if peak.advised_bytes == 0 => {
            let why =
                "no memory was advised: the heap stayed below one huge page, another allocator serves it, or malloc";
            (false, format!("{why} {BY_CHANCE}"))
        }
        Heap::Thp if peak.heap_thp_bytes == 0 => {
            let advised = peak.advised_bytes;
            let why = "bytes were advised, none in huge pages: thp.enabled is never, memory is fragmented, or malloc";
            (false, format!("{advised} {why} {BY_CHANCE}"))
        }
        Heap::Thp => {
            let (advised, got) = (peak.advised_bytes, peak.heap_thp_bytes);
            (true, format!("{advised} bytes were advised, {got} of the heap in huge pages"))
        }
        Heap::Hugetlb if peak.pool_mapped_bytes == 0 => {
            let why = "nothing was mapped from the pool: it had too few pages, or another allocator serves the heap";
            (false, why.to_owned())
        }
        Heap::Hugetlb => {
            let (mapped, got) = (peak.pool_mapped_bytes, peak.heap_hugetlb_bytes);
            (got > 0, format!("{mapped} bytes were mapped from the pool, {got} touched"))
        }
    };
    Verdict { acted: Some(acted), why }
}

fn shm_verdict(shm: Shm, peak: Option<&Memory>, segments: Option<&Segments>) -> Verdict {
    // The request is known also for a program that ended before a look; the pages it got are not.
    let asked = segments.map(|segments| format!("; it made {segments}")).unwrap_or_default();
    let Some(peak) = peak else {
        let Verdict { acted, why } = unseen();
        return Verdict { acted, why: format!("{why}{asked}") };
    };
    let (got, kind) = match shm {
        Shm::Thp => (peak.shm_thp_bytes, "in huge pages"),
        Shm::Hugetlb => (peak.shm_hugetlb_bytes, "on pages of the pool"),
    };
    let all = peak.shm_bytes.saturating_add(peak.shm_hugetlb_bytes);
    Verdict { acted: Some(got > 0), why: format!("{got} of {all} bytes of shared memory {kind}{asked}") }
}

impl fmt::Display for ExecReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.elapsed_ns as f64 / 1e9;
        let end = match (self.exit.code, self.exit.signal) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "unknown end".to_owned(),
        };
        writeln!(out, "{}: {end} after {seconds:.3} s, {} processes at most", self.program, self.processes)?;
        if let Some(peak) = &self.peak {
            let ago = self.last_look_before_end_ns.map_or(0.0, |time| time as f64 / 1e6);
            writeln!(out, "at most, of {} looks, the last one {ago:.1} ms before the end:", self.looks)?;
            writeln!(out, "{:>16} {:>15} {:>15} {:>15}", "bytes in", "base pages", "THP", "hugetlb")?;
            for (name, all, thp, hugetlb) in [
                ("heap", peak.heap_bytes, peak.heap_thp_bytes, peak.heap_hugetlb_bytes),
                ("shared memory", peak.shm_bytes, peak.shm_thp_bytes, peak.shm_hugetlb_bytes),
                ("files", peak.file_bytes, peak.file_thp_bytes, 0),
            ] {
                writeln!(out, "{name:>16} {:>15} {thp:>15} {hugetlb:>15}", all.saturating_sub(thp))?;
            }
        }
        for (part, verdict) in [("heap", &self.heap), ("shared memory", &self.shm)] {
            let Some(verdict) = verdict else { continue };
            let word = match verdict.acted {
                Some(true) => "on huge pages",
                Some(false) => "not on huge pages",
                None => "not known",
            };
            writeln!(out, "{part}: {word}; {}", verdict.why)?;
        }
        for change in &self.host_changes {
            writeln!(out, "while it ran: {} = {} (was {})", change.key, change.got, change.previous)?;
        }
        for note in &self.notes {
            writeln!(out, "{note}")?;
        }
        write!(out, "{}", self.restored)
    }
}
