//! The results of mapping and touching, slot by slot, compared with the prediction.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use pagelab_host::doctor::path::{PathOptions, PathReport, SLOT_BYTES, look};
use pagelab_mapping::{Access, Backing, PageSize, Reservation, Sharing, inspect};

/// How the file is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// One byte of each slot is read.
    Read,
    /// One byte of each slot is written.
    Write,
    /// Read, then written.
    ReadWrite,
}

/// Right and wrong answers.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Count {
    pub right: u64,
    pub wrong: u64,
}

impl Count {
    pub(crate) fn pct(self) -> f64 {
        self.right as f64 * 100.0 / (self.right + self.wrong).max(1) as f64
    }
}

/// All files of a test.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub by_reason: BTreeMap<&'static str, Count>,
    pub by_file: Vec<(String, Count)>,
}

impl Tally {
    /// Predicts, maps, touches and compares. `expected` is what the file was made for: for each slot the reason's word, or
    /// `possible`. An answer is right if the reason is the one that the file was made for *and* the page tables agree.
    pub(crate) fn check(
        &mut self,
        name: &str,
        path: &Path,
        advised: bool,
        usage: Use,
        expected: &[&'static str],
    ) -> PathReport {
        let options = PathOptions { advised, ..PathOptions::default() };
        let report = look(path, &options).unwrap_or_else(|error| panic!("{name}: {error}"));
        let predicted: Vec<&str> = report
            .slots
            .iter()
            .flat_map(|run| (0..run.count()).map(|_| run.reason.map_or("possible", |reason| reason.word())))
            .collect();
        assert_eq!(predicted.len(), expected.len(), "{name}: {:?}", report.slots);
        let got = touched(path, report.size_bytes, advised, usage);
        let mut count = Count::default();
        for (slot, ((predicted, expected), got)) in predicted.iter().zip(expected).zip(&got).enumerate() {
            let right = predicted == expected && (*predicted == "possible") == *got;
            if !right {
                println!("wrong: {name} slot {slot}: predicted {predicted}, made for {expected}, got huge: {got}");
            }
            let of_reason = self.by_reason.entry(expected).or_default();
            for count in [of_reason, &mut count] {
                *(if right { &mut count.right } else { &mut count.wrong }) += 1;
            }
        }
        self.by_file.push((format!("{name} ({usage:?}, {})", if advised { "advised" } else { "not advised" }), count));
        report
    }

    pub(crate) fn total(&self) -> Count {
        let sum = |of: fn(&Count) -> u64| self.by_reason.values().map(of).sum();
        Count { right: sum(|count| count.right), wrong: sum(|count| count.wrong) }
    }

    pub(crate) fn print(&self) {
        println!("{:<72} {:>6} {:>6}", "file", "right", "wrong");
        for (name, count) in &self.by_file {
            println!("{name:<72} {:>6} {:>6}", count.right, count.wrong);
        }
        println!("\n{:<28} {:>6} {:>6} {:>8}", "reason", "right", "wrong", "right %");
        for (reason, count) in &self.by_reason {
            println!("{reason:<28} {:>6} {:>6} {:>8.1}", count.right, count.wrong, count.pct());
        }
        let total = self.total();
        println!("{:<28} {:>6} {:>6} {:>8.1}", "all", total.right, total.wrong, total.pct());
        let mean = |pcts: Vec<f64>| pcts.iter().sum::<f64>() / pcts.len().max(1) as f64;
        let files = mean(self.by_file.iter().map(|(_, count)| count.pct()).collect());
        let reasons = mean(self.by_reason.values().map(|count| count.pct()).collect());
        println!(
            "mean over {} files {files:.1} %, over {} reasons {reasons:.1} %",
            self.by_file.len(),
            self.by_reason.len()
        );
    }
}

/// For each slot whether one entry maps it after it was touched. Where mmap fails nothing is.
fn touched(path: &Path, size_bytes: u64, advised: bool, usage: Use) -> Vec<bool> {
    let writes = usage != Use::Read;
    let file = File::options().read(true).write(writes).open(path).expect("opened");
    let slots = size_bytes.div_ceil(SLOT_BYTES);
    let bytes = (slots * SLOT_BYTES) as usize;
    let mut range = Reservation::new(bytes, SLOT_BYTES as usize).expect("addresses");
    let access = if writes { Access::ReadWrite } else { Access::Read };
    let backing = Backing::File { file: file.as_fd(), offset: 0, sync: false };
    if range.overlay(0, bytes, backing, Sharing::Shared, access).is_err() {
        return vec![false; slots as usize];
    }
    let start = range.address() as *mut u8;
    if advised {
        // SAFETY: the range is this function's own.
        unsafe { libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE) };
    }
    for slot in 0..slots {
        // SAFETY: the first byte of each slot lies inside the file and inside the mapping, which is writable where it is written.
        unsafe {
            let byte = start.add((slot * SLOT_BYTES) as usize);
            if usage != Use::Write {
                byte.read_volatile();
            }
            if writes {
                byte.write_volatile(0x5A);
            }
        }
    }
    let got = inspect(range.address(), bytes, PageSize::Huge2M).expect("page tables");
    got.slots.iter().map(|slot| slot.held.is_some_and(|held| held.huge_2m_bytes == SLOT_BYTES)).collect()
}
