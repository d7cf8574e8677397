//! Journals whose guard is dead.

use std::path::Path;
use std::time::{Duration, Instant};

use super::journal::{self, Contents, Journal};
use super::locks;
use super::undo::undo;
use super::{Door, KernelDoor, RestoreReport, state_dir};
use crate::facts;

/// Undoes what dead pagelabs left changed: for `pagelab restore`. Journals of an earlier boot are removed with a note,
/// since the kernel started from its defaults since; those of living pagelabs are listed and left.
pub fn restore_leftovers() -> RestoreReport {
    restore_leftovers_in(&state_dir())
}

/// As [`restore_leftovers`], for another state folder.
pub fn restore_leftovers_in(state_dir: &Path) -> RestoreReport {
    let mut report = RestoreReport::default();
    for path in journal::list(state_dir) {
        match take_over_when_idle(&path) {
            Ok(Some(journal)) => undo_journal(journal, &mut KernelDoor, &mut report),
            Ok(None) if path.exists() => {
                let who = journal::read(&path).ok().and_then(|contents| contents.header);
                let who = who.map_or_else(|| "unknown".to_owned(), |who| format!("{} ({})", who.pid, who.command));
                report.alive.push(format!("{} belongs to a running pagelab, process {who}", path.display()));
            }
            Ok(None) => {}
            Err(error) => report.discarded.push(format!("{} cannot be opened: {error}", path.display())),
        }
    }
    // Whoever was killed before its first change, or while it made one that is to last, left a file that nobody holds.
    locks::sweep(state_dir);
    journal::sweep(state_dir);
    report
}

/// As [`Journal::take_over`], but if the guard's process is dead and its helper is at work, waits for that to end.
fn take_over_when_idle(path: &Path) -> std::io::Result<Option<Journal>> {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let taken = Journal::take_over(path)?;
        let header = journal::read(path).ok().and_then(|contents| contents.header);
        let alive = header.is_none_or(|header| Path::new("/proc").join(header.pid.to_string()).exists());
        if taken.is_some() || alive || !path.exists() || Instant::now() >= deadline {
            return Ok(taken);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Undoes journals of dead guards that speak of `keys`, whose locks the caller holds: a living guard with an unsettled
/// change would hold them, so such a journal is either free or being undone at this moment.
pub(super) fn settle(state_dir: &Path, door: &mut dyn Door, keys: &[String], own: Option<&Path>) -> RestoreReport {
    let mut report = RestoreReport::default();
    for path in journal::list(state_dir) {
        if own == Some(path.as_path()) {
            continue;
        }
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            let concerned = journal::read(&path).is_ok_and(|contents| contents.concerns(keys));
            if !concerned {
                break;
            }
            if let Ok(Some(journal)) = Journal::take_over(&path) {
                undo_journal(journal, door, &mut report);
                break;
            }
            if Instant::now() >= deadline {
                tracing::warn!("{} is still being undone; going on without it", path.display());
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    report
}

/// Undoes a journal that the caller holds, and removes it unless something could not be put back.
pub(super) fn undo_journal(mut journal: Journal, door: &mut dyn Door, report: &mut RestoreReport) {
    let path = journal.path().to_owned();
    let Contents { header, mut changes } = match journal::read(&path) {
        Ok(contents) => contents,
        Err(error) => {
            report.discarded.push(format!("{} cannot be read: {error}; it is left there", path.display()));
            return;
        }
    };
    // The first line is on the medium before any change is made.
    let Some(header) = header else {
        report.discarded.push(format!("{} has no first line, so nothing was changed under it", path.display()));
        journal.end(door, true);
        return;
    };
    let boot = facts::boot_id(&header.root);
    if boot != header.boot_id {
        report.discarded.push(format!(
            "{} is of an earlier boot ({}): the kernel has started from its defaults since",
            path.display(),
            header.boot_id.as_deref().unwrap_or("unknown"),
        ));
        journal.end(door, true);
        return;
    }
    undo(door, &header.root, &mut changes, Some(&mut journal), report);
    let settled = changes.iter().all(|change| change.settled);
    journal.end(door, settled);
    if let Some(state_dir) = path.parent() {
        locks::sweep(state_dir);
    }
}
