//! Makes a pool permanently larger or smaller, and reports the pages granted.
//!
//! The change is meant to last, so it is not journalled and not undone; but it takes the locks of the setting, so that it
//! neither crosses a running pagelab that has changed the pool for a measurement, nor is undone by a dead one's journal.
//!
//! A write to `nr_hugepages` succeeds whatever the kernel grants. The value is read back; if it is less, memory is
//! compacted and the value written again. Clean file caches are let go of only if that was asked for.

use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use pagelab_vocab::settings::format_size;
use serde::Serialize;

use super::pools::{has_size, nodes};
use super::shortage::{FreeMemory, Shortage, node_meminfo_bytes};
use super::{HugetlbError, PoolState};
use crate::facts::meminfo_bytes;
use crate::files::under;
use crate::guard::{Door, Hold, KernelDoor, state_dir};
use crate::limits::cgroup_limits;
use crate::settings;

/// What to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetRequest {
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Pages that the pool shall have for good, or may have on demand.
    pub pages: u64,
    /// Only the part of the pool on this NUMA node.
    pub node: Option<u32>,
    /// Set how many pages the kernel may add on demand (`nr_overcommit_hugepages`), not how many there are.
    pub overcommit: bool,
    /// If compaction is not enough, let go of clean file caches and try once more. Files are then read from disk again.
    pub drop_caches: bool,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SetReport {
    /// The setting that was written.
    pub key: String,
    /// Pages asked for.
    pub requested_pages: u64,
    /// Pages granted, as read back; surplus pages do not count.
    pub granted_pages: u64,
    /// The pool before.
    pub before: PoolState,
    /// The pool after.
    pub after: PoolState,
    /// Whether memory was compacted to get more.
    pub compacted: bool,
    /// Whether clean file caches were let go of to get more.
    pub dropped_caches: bool,
    /// Why it is less than asked for; none if it is not.
    pub shortage: Option<Shortage>,
    /// What else should be known: pages that stay as surplus, limits that keep programs from using the pool.
    pub notes: Vec<String>,
    /// The command that restores the earlier state.
    pub undo: String,
}

impl SetReport {
    /// Whether all that was asked for was granted.
    pub fn granted(&self) -> bool {
        self.shortage.is_none()
    }
}

impl SetRequest {
    /// The setting that this writes.
    pub fn key(&self) -> String {
        let size = format_size(self.page_bytes);
        match (self.node, self.overcommit) {
            (_, true) => format!("hugetlb.{size}.nr_overcommit_hugepages"),
            (None, false) => format!("hugetlb.{size}.nr_hugepages"),
            (Some(node), false) => format!("hugetlb.{size}.node{node}.nr_hugepages"),
        }
    }

    /// The command that sets `pages` in place of this request's.
    fn command(&self, pages: u64) -> String {
        let node = self.node.map(|node| format!(" --node {node}")).unwrap_or_default();
        let overcommit = if self.overcommit { " --overcommit" } else { "" };
        format!("pagelab hugepages set {} {pages}{node}{overcommit}", format_size(self.page_bytes))
    }

    /// Pages that were added on demand where this sets the pool.
    fn surplus(&self, pool: &PoolState) -> u64 {
        match self.node {
            None => pool.surplus_pages,
            Some(node) => pool.nodes.iter().find(|part| part.node == node).map_or(0, |part| part.surplus_pages),
        }
    }

    /// What the pool has of what this sets.
    fn found(&self, pool: &PoolState) -> u64 {
        match (self.overcommit, self.node) {
            (true, _) => pool.overcommit_pages,
            (false, None) => pool.minimum_pages,
            (false, Some(node)) => {
                pool.nodes.iter().find(|part| part.node == node).map_or(0, |part| part.minimum_pages)
            }
        }
    }
}

/// Sets a pool of the host below `root`.
///
/// # Errors
/// No such page size or node, more pages than memory has room for, no right to write, a running pagelab that holds the
/// pool, a value that the kernel refuses. Nothing is changed then. To get less than was asked for is not an error: see
/// [`SetReport::shortage`].
pub fn set(root: &Path, request: &SetRequest) -> Result<SetReport, HugetlbError> {
    set_with(root, &state_dir(), &mut KernelDoor, request)
}

/// As [`set`], with another folder of locks and another door to the kernel.
pub fn set_with(
    root: &Path,
    state_dir: &Path,
    door: &mut dyn Door,
    request: &SetRequest,
) -> Result<SetReport, HugetlbError> {
    check(root, request)?;
    let key = request.key();
    let path = settings::known(&key).map_err(crate::guard::GuardError::from)?.path().unwrap_or_default();
    let command = request.command(request.pages);
    // Opening tells whether it may be written, before anything is locked or changed.
    OpenOptions::new()
        .write(true)
        .open(under(root, &path))
        .map_err(|error| HugetlbError::writing(&path, &request.pages.to_string(), &command, &error))?;
    let hold = Hold::take(root, state_dir, door, &key)?;
    let before = PoolState::read(root, request.page_bytes)?;
    check_room(root, request, &before)?;
    let mut attempt = Attempt { root, door, request, key: &key, path: &path };
    let (after, compacted, dropped_caches) = attempt.make(&before)?;
    drop(hold);
    let granted_pages = request.found(&after);
    let missing = request.pages.saturating_sub(granted_pages);
    let shortage = (missing > 0).then(|| Shortage::find(root, request.page_bytes, missing, request.node));
    Ok(SetReport {
        requested_pages: request.pages,
        granted_pages,
        undo: request.command(request.found(&before)),
        notes: notes(root, request, &after),
        key,
        before,
        after,
        compacted,
        dropped_caches,
        shortage,
    })
}

fn check(root: &Path, request: &SetRequest) -> Result<(), HugetlbError> {
    has_size(root, request.page_bytes)?;
    let Some(node) = request.node else { return Ok(()) };
    if request.overcommit {
        return Err(HugetlbError::Contradiction {
            found: "overcommit of one node".to_owned(),
            needed: "no node, since the kernel keeps one limit for all nodes; type the command without --node"
                .to_owned(),
        });
    }
    let there = nodes(root);
    if there.contains(&node) {
        return Ok(());
    }
    let found: Vec<String> = there.iter().map(u32::to_string).collect();
    let found = if found.is_empty() { "none (the kernel keeps none apart)".to_owned() } else { found.join(", ") };
    Err(HugetlbError::NoSuchNode { found, needed: node })
}

/// Refuses what cannot be had: the kernel would take every page there is before it stopped, and leave the host without.
fn check_room(root: &Path, request: &SetRequest, before: &PoolState) -> Result<(), HugetlbError> {
    let present = request.found(before);
    // Surplus pages become the pool's own before any memory is taken.
    let growth = request.pages.saturating_sub(present.saturating_add(request.surplus(before)));
    if request.overcommit || growth == 0 {
        return Ok(());
    }
    let needed_bytes = growth.saturating_mul(request.page_bytes);
    let total = match request.node {
        None => meminfo_bytes(root, "MemTotal"),
        Some(node) => node_meminfo_bytes(root, node, "MemTotal"),
    };
    let available = FreeMemory::read(root, request.page_bytes, request.node).available_bytes;
    for (found, of_what) in [
        (total, "of memory in all (MemTotal)"),
        (available, "of memory that can be had without swapping (MemAvailable)"),
    ] {
        if let Some(found_bytes) = found.filter(|found| *found < needed_bytes) {
            let room = available.unwrap_or(found_bytes).min(found_bytes) / request.page_bytes;
            let most_pages = present.saturating_add(room);
            return Err(HugetlbError::TooMuch {
                command: request.command(most_pages),
                pages: request.pages,
                size: format_size(request.page_bytes),
                needed_bytes,
                found_bytes,
                of_what,
                most_pages,
            });
        }
    }
    Ok(())
}

/// The tries to get the pages requested.
struct Attempt<'a> {
    root: &'a Path,
    door: &'a mut dyn Door,
    request: &'a SetRequest,
    key: &'a str,
    path: &'a str,
}

impl Attempt<'_> {
    /// The pool afterwards, whether memory was compacted, and whether caches were dropped.
    fn make(&mut self, before: &PoolState) -> Result<(PoolState, bool, bool), HugetlbError> {
        if self.request.found(before) == self.request.pages {
            return Ok((before.clone(), false, false));
        }
        let mut pool = self.write()?;
        let (mut compacted, mut dropped) = (false, false);
        if self.is_short(&pool) {
            compacted = self.door.put(self.root, "sysctl.vm.compact_memory", "1").is_ok();
            pool = self.write()?;
        }
        if self.is_short(&pool) && self.request.drop_caches {
            dropped = self.door.put(self.root, "sysctl.vm.drop_caches", "1").is_ok();
            compacted |= self.door.put(self.root, "sysctl.vm.compact_memory", "1").is_ok();
            pool = self.write()?;
        }
        Ok((pool, compacted, dropped))
    }

    fn is_short(&self, pool: &PoolState) -> bool {
        self.request.found(pool) < self.request.pages
    }

    fn write(&mut self) -> Result<PoolState, HugetlbError> {
        let pages = self.request.pages.to_string();
        self.door.put(self.root, self.key, &pages).map_err(|error| self.refused(&pages, &error))?;
        PoolState::read(self.root, self.request.page_bytes)
    }

    fn refused(&self, pages: &str, error: &io::Error) -> HugetlbError {
        let command = self.request.command(self.request.pages);
        match HugetlbError::writing(self.path, pages, &command, error) {
            // hugetlb_sysfs refuses both for pages that the allocator does not keep in one piece.
            HugetlbError::Refused { path, value, reason, .. } if error.kind() == io::ErrorKind::InvalidInput => {
                let size = format_size(self.request.page_bytes);
                let needed = if self.request.overcommit {
                    format!("pages of {size} cannot be added on demand; type: pagelab hugepages set {size} {pages}")
                } else {
                    format!(
                        "pages of {size} can only be had at boot: add to the kernel command line: hugepagesz={size} hugepages={pages}"
                    )
                };
                HugetlbError::Refused { path, value, reason, needed }
            }
            other => other,
        }
    }
}

fn notes(root: &Path, request: &SetRequest, after: &PoolState) -> Vec<String> {
    let mut notes = Vec::new();
    let surplus = request.surplus(after);
    if surplus > 0 && !request.overcommit {
        notes.push(format!(
            "{surplus} pages are in use beyond the {} asked for; they stay as surplus until programs let go of them",
            request.found(after)
        ));
    }
    let pool_bytes = after.maximum_pages.saturating_mul(after.page_bytes);
    let limits = cgroup_limits(root, std::process::id());
    for limit in limits.iter().filter(|limit| limit.size.as_ref() == Some(&after.size)) {
        if let Some(most_bytes) = limit.max_bytes.filter(|most| *most < pool_bytes) {
            let what = if limit.counts_reserved { "map" } else { "use" };
            notes.push(format!(
                "this control group may {what} {most_bytes} bytes of the pool's {pool_bytes} ({}); for programs started here type: {}",
                limit.file,
                limit.lift()
            ));
        }
    }
    notes
}

impl fmt::Display for SetReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (asked, got) = (self.requested_pages, self.granted_pages);
        writeln!(out, "{}: asked for {asked} pages, got {got} pages of {}", self.key, self.after.size)?;
        let list = |pool: &PoolState| {
            let (total, free, reserved, surplus) = pool.counters();
            format!("{total} pages, {free} free, {reserved} reserved, {surplus} surplus")
        };
        writeln!(out, "before: {}", list(&self.before))?;
        writeln!(out, "now:    {}", list(&self.after))?;
        if self.compacted {
            writeln!(out, "memory was compacted to get more")?;
        }
        if self.dropped_caches {
            writeln!(out, "clean file caches were let go of to get more")?;
        }
        if let Some(shortage) = &self.shortage {
            writeln!(out, "{shortage}")?;
        }
        for note in &self.notes {
            writeln!(out, "{note}")?;
        }
        writeln!(out, "it stays until the next boot; back: {}", self.undo)
    }
}
