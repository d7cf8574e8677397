//! What control groups leave a process of memory and of huge pages: of its own group and of those above it the least.

use std::path::Path;

use pagelab_vocab::settings::{format_size, parse_size};
use pagelab_vocab::terminal::shell_word;
use serde::Serialize;

use crate::files::{trimmed, under};
use crate::settings::{Setting, cgroup_rows};

/// One limit of a process, in the group where it is least.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CgroupLimit {
    /// `memory` or `hugetlb`.
    pub controller: &'static str,
    /// 1 or 2: the hierarchy that the controller is on.
    pub version: u8,
    /// Size of the huge pages that it counts; none of `memory`.
    pub size: Option<String>,
    /// Whether it counts what is mapped (reserved), and not what is touched.
    pub counts_reserved: bool,
    /// The least limit from the process's group up to the root, bytes; none if no group has one.
    pub max_bytes: Option<u64>,
    /// The file that has it, or that of the process's own group.
    pub file: String,
    /// What the group of that file uses, bytes; none where the kernel does not count it.
    pub used_bytes: Option<u64>,
    /// Files of further groups on the way up that have a limit, too.
    pub also_limited: Vec<String>,
    /// Files next to these that limit memory and swap together: a group of v1 may not have more memory than both, so
    /// those go first.
    #[serde(skip)]
    with_swap: Vec<String>,
}

impl CgroupLimit {
    /// What may still be used, in bytes; none if there is no limit, or no count of what is used.
    pub fn left_bytes(&self) -> Option<u64> {
        Some(self.max_bytes?.saturating_sub(self.used_bytes?))
    }

    /// What to type so that there is no such limit.
    pub(crate) fn lift(&self) -> String {
        let none = if self.version == 1 { "-1" } else { "max" };
        let files = self.with_swap.iter().chain(std::iter::once(&self.file)).chain(&self.also_limited);
        let typed: Vec<String> = files.map(|file| format!("echo {none} | sudo tee {}", shell_word(file))).collect();
        typed.join(" && ")
    }
}

/// The limits of the process `pid`, as its own /proc below `root` tells.
pub(crate) fn cgroup_limits(root: &Path, pid: u32) -> Vec<CgroupLimit> {
    let rows = cgroup_rows(root, pid);
    rows.iter().filter_map(|row| limit(root, &rows, row)).collect()
}

fn limit(root: &Path, rows: &[Setting], row: &Setting) -> Option<CgroupLimit> {
    let name = row.key.strip_prefix("cgroup.")?.strip_suffix(".max")?;
    let (controller, size, counts_reserved) = match name.split_once('.') {
        None if name == "memory" => ("memory", None, false),
        Some(("hugetlb", size)) => {
            let (size, counts_reserved) = size.strip_suffix(".rsvd").map_or((size, false), |size| (size, true));
            ("hugetlb", Some(format_size(parse_size(size)?)), counts_reserved)
        }
        _ => return None,
    };
    let version_key = format!("cgroup.{controller}.version");
    let version = rows.iter().find(|row| row.key == version_key)?.value.as_deref()?.parse().ok()?;
    let mut limits = upwards(root, &row.source);
    // Of two equal limits the one nearer to the process binds first.
    let least = limits.iter().enumerate().min_by_key(|(_, (bytes, _))| *bytes).map(|(place, _)| place);
    let (max_bytes, file) = match least.map(|place| limits.remove(place)) {
        Some((bytes, file)) => (Some(bytes), file),
        None => (None, row.source.clone()),
    };
    let files = std::iter::once(&file).chain(limits.iter().map(|(_, file)| file));
    let with_swap = files.filter_map(|file| memory_and_swap(root, file)).collect();
    Some(CgroupLimit {
        controller,
        version,
        size,
        counts_reserved,
        max_bytes,
        used_bytes: used(root, &file),
        file,
        also_limited: limits.into_iter().map(|(_, file)| file).collect(),
        with_swap,
    })
}

/// The file next to a memory limit that limits memory and swap together, if it does.
fn memory_and_swap(root: &Path, file: &str) -> Option<String> {
    let beside = format!("{}/memory.memsw.limit_in_bytes", file.strip_suffix("/memory.limit_in_bytes")?);
    limit_in(&trimmed(root, &beside)?).map(|_| beside)
}

/// The limit that a file's text stands for. v1 says "no limit" with the largest whole number of pages that fits.
fn limit_in(text: &str) -> Option<u64> {
    text.parse::<u64>().ok().filter(|bytes| *bytes < 1 << 62)
}

/// The limits in files of this name, from this one up to the root of the hierarchy, where there is none or it says nothing.
fn upwards(root: &Path, file: &str) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    let Some((mut folder, name)) = file.rsplit_once('/') else { return found };
    while let Some(text) = trimmed(root, &format!("{folder}/{name}")) {
        if let Some(bytes) = limit_in(&text) {
            found.push((bytes, format!("{folder}/{name}")));
        }
        let Some((above, _)) = folder.rsplit_once('/') else { break };
        folder = above;
    }
    found
}

/// The file next to a limit that holds the usage.
fn used(root: &Path, file: &str) -> Option<u64> {
    let beside = match (file.strip_suffix("limit_in_bytes"), file.strip_suffix("max")) {
        (Some(stem), _) => format!("{stem}usage_in_bytes"),
        (None, Some(stem)) => format!("{stem}current"),
        (None, None) => return None,
    };
    under(root, &beside).exists().then(|| trimmed(root, &beside)?.parse().ok()).flatten()
}
