//! The situations produced, compared with the reasons named.

use std::path::Path;

use crate::standing::{Seen, Standing};

/// A way, the slots that lack a huge page by the reason that was produced, and how many have one.
pub(crate) struct Case<'a> {
    pub what: &'a str,
    pub way: &'a [&'a str],
    pub group: Option<&'a Path>,
    pub expected: &'a [(&'static str, u64)],
    pub huge_slots: u64,
    /// What the words for people, or the command, have to name.
    pub names: &'a str,
}

impl<'a> Case<'a> {
    pub(crate) fn new(what: &'a str, way: &'a [&'a str], expected: &'a [(&'static str, u64)], huge_slots: u64) -> Self {
        Self { what, way, group: None, expected, huge_slots, names: "" }
    }

    pub(crate) fn inside(self, group: &'a Path) -> Self {
        Self { group: Some(group), ..self }
    }

    pub(crate) fn naming(self, names: &'a str) -> Self {
        Self { names, ..self }
    }
}

#[derive(Default)]
pub(crate) struct Table {
    pub lines: Vec<String>,
    pub wrong: usize,
    pub reasons: std::collections::BTreeSet<&'static str>,
}

impl Table {
    /// Plays a way and compares the report with the situation.
    pub(crate) fn check(&mut self, case: &Case<'_>) {
        let standing = Standing::start(case.way, case.group);
        let seen = standing.look();
        let expected = case.expected.iter().copied().collect();
        let is_named = case.names.is_empty()
            || seen.words.iter().any(|words| words.contains(case.names))
            || seen.findings.iter().any(|(_, fix)| fix.as_ref().is_some_and(|fix| fix.contains(case.names)));
        let huge = case.huge_slots << 21;
        let right =
            seen.reasons == expected && is_named && seen.huge_bytes == huge && standing.huge_bytes_by_smaps() == huge;
        self.reasons.extend(case.expected.iter().map(|(reason, _)| reason));
        self.add(case.what, &format!("{:?}", case.expected), &seen, right);
    }

    pub(crate) fn add(&mut self, what: &str, expected: &str, seen: &Seen, right: bool) {
        self.wrong += usize::from(!right);
        let named: Vec<String> = seen.reasons.iter().map(|(reason, slots)| format!("{reason} {slots}")).collect();
        let named = if named.is_empty() { "all huge".to_owned() } else { named.join(", ") };
        let line = format!("{:<5} {what:<62} {named}", if right { "right" } else { "WRONG" });
        println!("{line}");
        if !right {
            println!("      expected {expected}, seen {seen:#?}");
        }
        self.lines.push(line);
    }

    pub(crate) fn print(&self) {
        println!("\n{:<5} {:<62} NAMED, SLOTS", "", "PRODUCED");
        for line in &self.lines {
            println!("{line}");
        }
        println!("{} ways, {} reasons, {} wrong", self.lines.len(), self.reasons.len(), self.wrong);
    }
}
