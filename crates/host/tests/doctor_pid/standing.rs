//! A fixture that stands while it is looked at, and what the kernel's own list says of its memory.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use pagelab_host::doctor::process::look;

const FIXTURE: &str = env!("CARGO_BIN_EXE_pagelab-reasons-fixture");

/// A fixture that has gone one way, until this is dropped.
pub(crate) struct Standing {
    child: Child,
    _stdout: BufReader<ChildStdout>,
    start: u64,
    end: u64,
}

/// The report on its memory.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Slots by reason.
    pub reasons: BTreeMap<&'static str, u64>,
    /// The reasons reported, and the commands of the findings.
    pub words: Vec<String>,
    /// Findings about each reason, with their command.
    pub findings: Vec<(String, Option<String>)>,
    /// Bytes in huge pages.
    pub huge_bytes: u64,
}

impl Standing {
    pub(crate) fn start(way: &[&str], group: Option<&Path>) -> Self {
        let mut command = Command::new(FIXTURE);
        command.args(way).stdin(Stdio::piped()).stdout(Stdio::piped());
        if let Some(group) = group {
            command.env("REASONS_GROUP", group);
        }
        let mut child = command.spawn().expect("the fixture starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a line");
        let numbers: Vec<u64> = line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
        let [start, bytes] = numbers.as_slice() else { panic!("{way:?} said {line:?}") };
        Self { child, _stdout: stdout, start: *start, end: start + bytes }
    }

    /// What the doctor says.
    pub(crate) fn look(&self) -> Seen {
        let report = look(self.child.id()).expect("a process of this user");
        let mut seen = Seen::default();
        for region in report.regions.iter().filter(|one| one.end > self.start && one.start < self.end) {
            seen.huge_bytes += region.huge_2m_bytes.expect("told");
            for less in &region.less {
                *seen.reasons.entry(less.reason).or_default() += less.slots;
                seen.words.push(less.words.clone());
            }
        }
        seen.findings = report.findings.into_iter().map(|one| (one.found, one.fix)).collect();
        seen
    }

    /// Bytes in huge pages as smaps counts them.
    pub(crate) fn huge_bytes_by_smaps(&self) -> u64 {
        const KEYS: [&str; 5] =
            ["AnonHugePages:", "ShmemPmdMapped:", "FilePmdMapped:", "Shared_Hugetlb:", "Private_Hugetlb:"];
        let text = fs::read_to_string(format!("/proc/{}/smaps", self.child.id())).expect("smaps");
        let (mut inside, mut kib) = (false, 0);
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let Some(key) = words.next() else { continue };
            if let Some((start, end)) = key.split_once('-') {
                let number = |word| u64::from_str_radix(word, 16).unwrap_or(0);
                inside = number(end) > self.start && number(start) < self.end;
            } else if inside && KEYS.contains(&key) {
                kib += words.next().and_then(|kib| kib.parse::<u64>().ok()).expect("kB");
            }
        }
        kib << 10
    }

    pub(crate) fn slots(&self) -> u64 {
        (self.end - self.start).div_ceil(2 << 20)
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
