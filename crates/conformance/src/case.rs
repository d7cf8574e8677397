//! The form of a case, and the registry of all.

use std::fmt;

use serde::Serialize;

use crate::cases::ALL;
use crate::child::Context;
use crate::outcome::Outcome;

/// The topic of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Topic {
    /// Sizes, alignment, reading and writing.
    Sanity,
    /// The counters of the pool, to the page.
    Accounting,
    /// When pages come, and what happens when they cannot.
    Faults,
    /// Which mappings see whose writes.
    Sharing,
    /// Two at once.
    Races,
    /// SysV shared memory.
    Sysv,
    /// Files without a name.
    Memfd,
    /// Pages of 1 GiB.
    Gigantic,
    /// Transparent huge pages: when they come, collapse, split.
    Thp,
    /// Advice on hugetlb memory.
    Madvise,
}

impl Topic {
    /// The word that case names begin with.
    pub fn word(self) -> &'static str {
        match self {
            Topic::Sanity => "sanity",
            Topic::Accounting => "accounting",
            Topic::Faults => "faults",
            Topic::Sharing => "sharing",
            Topic::Races => "races",
            Topic::Sysv => "sysv",
            Topic::Memfd => "memfd",
            Topic::Gigantic => "gigantic",
            Topic::Thp => "thp",
            Topic::Madvise => "madvise",
        }
    }
}

/// A requirement of a case. Where it is not available the case is skipped, with the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// 2 MiB pages in the pool, free and not reserved; those beyond 128 come as surplus pages.
    Pool(u32),
    /// Free pages of 1 GiB.
    Gigantic(u32),
    /// A setting of the host for the time of the case.
    Setting(&'static str, &'static str),
    /// Transparent huge pages in the kernel.
    Thp,
    /// Shared memory of System V.
    SysV,
}

impl fmt::Display for Need {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Need::Pool(pages) => write!(out, "{pages} pages of 2 MiB"),
            Need::Gigantic(pages) => write!(out, "{pages} pages of 1 GiB"),
            Need::Setting(key, value) => write!(out, "`{key}` = {value}"),
            Need::Thp => out.write_str("THP"),
            Need::SysV => out.write_str("SysV"),
        }
    }
}

/// One case.
pub struct Case {
    /// `topic.words`, the same in all versions.
    pub name: &'static str,
    /// Its topic.
    pub topic: Topic,
    /// The kernel's promise, in one sentence.
    pub proves: &'static str,
    /// The suite that verifies the same: a test of libhugetlbfs or one of the kernel's selftests, or `new`.
    pub like: &'static str,
    /// Its requirements. Root is needed by all.
    pub needs: &'static [Need],
    /// The switch of the broken kernel (`tests/shim`) under which it fails.
    pub broken_by: &'static str,
    /// Does it, in a process of its own.
    pub(crate) run: fn(&mut Context) -> Outcome,
}

/// All cases, topic by topic, in the order in which they are run.
pub fn cases() -> impl Iterator<Item = &'static Case> {
    ALL.iter().flat_map(|topic| topic.iter())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_begin_with_their_topic() {
        let mut names = BTreeSet::new();
        for case in cases() {
            assert!(names.insert(case.name), "{} twice", case.name);
            let (topic, words) = case.name.split_once('.').expect("topic.words");
            assert_eq!(topic, case.topic.word(), "{}", case.name);
            assert!(words.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'), "{}", case.name);
            assert!(case.proves.ends_with('.') && !case.like.is_empty() && !case.broken_by.is_empty(), "{}", case.name);
        }
        assert!(names.len() >= 45, "{} cases", names.len());
    }
}
