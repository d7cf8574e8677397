//! What dead guards have left: journals and locks that nobody holds.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::journal::{self, Contents, Journal};
use super::locks::{self, KeyLock};
use super::state::{self, Folder};
use super::undo::{Change, undo};
use super::{Door, FixtureDoor, KernelDoor, RestoreReport, companions, group, state_dir};
use crate::{facts, run_groups};

/// How long to wait for another process that undoes the same journal.
const HELD: Duration = Duration::from_secs(5);

/// Undoes what dead pagelabs left changed: what every command does before anything else, and `pagelab restore` alone.
/// Journals of an earlier boot are removed with a note, since the kernel started from its defaults since; those of
/// living pagelabs are listed and left; those that say something unknown, or that somebody else could have written, are
/// named and kept.
///
/// Where there is nothing it costs one look into the folder. A user other than root gets a warning that something may
/// be changed, as far as file names show.
pub fn restore_leftovers() -> RestoreReport {
    let (root, state_dir) = (Path::new("/"), state_dir());
    let registry = state::registry(root);
    if !rustix::process::geteuid().is_root() {
        let mut report = RestoreReport { kept: told_by_names(&registry), ..RestoreReport::default() };
        if state_dir != registry {
            report.merge(restore_from(&[&state_dir], None, &mut KernelDoor));
        }
        return report;
    }
    run_groups::remove_leftovers(root);
    restore_from(&[&state_dir, &registry], Some((root, &registry)), &mut KernelDoor)
}

/// For tests: as [`restore_leftovers`], for the journals of one state folder, which may be about other roots.
pub fn restore_leftovers_in(state_dir: &Path) -> RestoreReport {
    restore_from(&[state_dir], None, &mut FixtureDoor)
}

/// For tests: as [`restore_leftovers`], for the kernel below `root`.
pub fn restore_leftovers_of(root: &Path, state_dir: &Path) -> RestoreReport {
    let registry = state::registry(root);
    restore_from(&[state_dir, &registry], Some((root, &registry)), &mut FixtureDoor)
}

fn restore_from(folders: &[&Path], kernel: Option<(&Path, &Path)>, door: &mut dyn Door) -> RestoreReport {
    let mut report = RestoreReport::default();
    for path in journals(folders, kernel.map(|(_, registry)| registry), &mut report) {
        restore_journal(&path, door, &mut report);
    }
    if let Some((root, registry)) = kernel {
        let dead = locks::dead(registry);
        settle_claims(root, dead, door, &mut report);
    }
    for folder in folders {
        // Whoever was killed before its first change, or while it made one that is to last, left a file that nobody
        // holds.
        for lock in locks::dead(folder).into_iter().filter(|lock| lock.left.is_none()) {
            lock.release();
        }
        journal::sweep(folder);
    }
    report
}

/// The journals in these folders and those that locks in the registry name, each once.
fn journals(folders: &[&Path], registry: Option<&Path>, report: &mut RestoreReport) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = Vec::new();
    let mut seen: Vec<&Path> = Vec::new();
    for folder in folders {
        if seen.contains(folder) {
            continue;
        }
        seen.push(folder);
        match journal::list(folder) {
            Ok(found) => paths.extend(found),
            Err(error) => report.kept.push(format!(
                "journals in {} are not acted upon: {}; its owner can put back what they name (pagelab restore); as this user name a folder of your own: PAGELAB_STATE_DIR",
                folder.display(),
                crate::settings::plain(&error)
            )),
        }
    }
    for path in registry.map(locks::journals).unwrap_or_default() {
        if !paths.contains(&path) && path.exists() {
            paths.push(path);
        }
    }
    paths
}

/// What the names of journals show to a user who may not read them.
fn told_by_names(registry: &Path) -> Vec<String> {
    let names = crate::files::names(registry);
    let dead = names.iter().filter(|name| journal::author(name).is_some_and(is_dead));
    dead.map(|name| {
        format!(
            "a pagelab that died may have left settings of this host changed ({}); type: sudo pagelab restore",
            registry.join(name).display()
        )
    })
    .collect()
}

pub(super) fn is_dead(pid: i32) -> bool {
    // SAFETY: signal 0 is sent to nobody; the call only says whether the process exists.
    let found = unsafe { libc::kill(pid, 0) };
    found == -1 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

fn restore_journal(path: &Path, door: &mut dyn Door, report: &mut RestoreReport) {
    match take_over_when_idle(path) {
        Ok(Some(journal)) => undo_journal(journal, door, report),
        Ok(None) if path.exists() => {
            let who = journal::read(path).ok().and_then(|contents| contents.header);
            let who = who.map_or_else(|| "unknown".to_owned(), |who| format!("{} ({})", who.pid, who.command));
            report.alive.push(format!("{} belongs to a running pagelab, process {who}", path.display()));
        }
        Ok(None) => {}
        Err(error) => {
            let error = crate::settings::plain(&error);
            report.kept.push(format!("{} is not acted upon: {error}", path.display()));
        }
    }
}

/// As [`Journal::take_over`], but if the guard's process is dead and its helper is at work, waits for that to end.
fn take_over_when_idle(path: &Path) -> std::io::Result<Option<Journal>> {
    let deadline = Instant::now() + HELD;
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

/// Undoes changes of dead guards to the settings whose locks the caller has just taken: a living guard with an
/// unsettled change would hold them, so a journal that names one is either free or being undone at this moment.
pub(super) fn settle(
    root: &Path,
    folders: &[&Path],
    door: &mut dyn Door,
    taken: &[(&str, &KeyLock)],
    own: Option<&Path>,
) -> RestoreReport {
    let mut report = RestoreReport::default();
    let keys: Vec<String> = taken.iter().map(|(key, _)| (*key).to_owned()).collect();
    let mut paths = journals(folders, None, &mut report);
    for claim in taken.iter().filter_map(|(_, lock)| lock.left.as_ref()) {
        paths.extend(claim.journal.clone().filter(|path| !paths.contains(path) && path.exists()));
    }
    for path in paths.into_iter().filter(|path| own != Some(path.as_path())) {
        let deadline = Instant::now() + HELD;
        loop {
            let concerned = journal::read(&path).is_ok_and(|contents| contents.concerns(&keys));
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
    let mut changes = claimed(root, taken.iter().map(|(_, lock)| *lock));
    undo_twice(door, root, &mut changes, &mut report);
    report
}

/// The changes that only locks know of: their journals cannot be reached from here, because they lie in another mount
/// namespace or were removed.
fn claimed<'a>(root: &Path, locks: impl Iterator<Item = &'a KeyLock>) -> Vec<Change> {
    let boot = facts::boot_id(root);
    let claims = locks.filter_map(|lock| lock.left.as_ref());
    let lost = claims.filter(|claim| {
        claim.boot_id == boot && claim.journal.as_deref().is_none_or(|path| matches!(path.try_exists(), Ok(false)))
    });
    lost.enumerate().filter_map(|(seq, claim)| claim.change(seq as u64)).collect()
}

/// Undoes changes without a journal. A setting may come back only after another one has (of vm.dirty_ratio and
/// vm.dirty_bytes the one that is 0), so what fails is tried once more.
fn undo_twice(door: &mut dyn Door, root: &Path, changes: &mut [Change], report: &mut RestoreReport) {
    let mut first = RestoreReport::default();
    undo(door, root, changes, None, &mut first);
    if changes.iter().any(|change| !change.settled) {
        first.failed.clear();
        undo(door, root, changes, None, &mut first);
    }
    report.merge(first);
}

/// Puts back what only these locks of dead guards know of, and removes those whose settings are back. A lock whose
/// journal is still there stays with it.
fn settle_claims(root: &Path, dead: Vec<KeyLock>, door: &mut dyn Door, report: &mut RestoreReport) {
    let changes = claimed(root, dead.iter());
    // One value may have several names (vm.nr_hugepages and a pool), each with a lock: what a dead guard claims under one of
    // them may be what a living guard has set under another, whose lock it holds.
    let mut beside = Vec::new();
    let (mut changes, left): (Vec<_>, Vec<_>) =
        changes.into_iter().partition(|change| hold_companions(root, &change.key, &dead, &mut beside));
    for change in &mut changes {
        let claim = dead.iter().filter_map(|lock| lock.left.as_ref()).find(|claim| claim.key == change.key);
        let before = report.restored.len();
        undo_twice(door, root, std::slice::from_mut(change), report);
        if let Some(claim) = claim {
            report.sign(before, claim.pid);
        }
    }
    for lock in dead {
        let open = lock.left.as_ref().is_some_and(|claim| {
            let failed = changes.iter().any(|change| change.key == claim.key && !change.settled);
            let later = left.iter().any(|change| change.key == claim.key);
            failed || later || claim.journal.as_deref().is_some_and(Path::exists)
        });
        if !open {
            lock.release();
        }
    }
}

/// Removes the locks that only this journal, which is undone and gone, explains. Their contents are out of date from
/// now on.
pub(super) fn forget(registry: &Path, journal: &Path) {
    for lock in locks::dead(registry) {
        if lock.left.as_ref().is_some_and(|claim| claim.journal.as_deref() == Some(journal)) {
            lock.release();
        }
    }
}

/// Whether the locks of all settings that the kernel changes along with one are held here, too: they are among `dead`,
/// or were free and are now in `beside`. They are let go with the latter; the contents left by a dead holder stay.
fn hold_companions(root: &Path, key: &str, dead: &[KeyLock], beside: &mut Vec<KeyLock>) -> bool {
    let registry = state::registry(root);
    let Ok(info) = crate::settings::known(key) else { return true };
    group(root, &info.key, &companions(root, &info)).iter().all(|key| {
        if dead.iter().chain(beside.iter()).any(|lock| lock.is_of(key)) {
            return true;
        }
        let taken = KeyLock::take(&registry, key);
        taken.map(|lock| beside.push(lock)).is_ok()
    })
}

/// Undoes a journal that the caller holds, and removes it unless something could not be put back or is not understood.
pub(super) fn undo_journal(mut journal: Journal, door: &mut dyn Door, report: &mut RestoreReport) {
    let path = journal.path().to_owned();
    let shown = path.display();
    let contents = match journal::read(&path) {
        Ok(contents) => contents,
        Err(error) => {
            report.kept.push(format!("{shown} cannot be read: {error}; it is left there"));
            return;
        }
    };
    let Contents { header, mut changes, unknown, damaged } = contents;
    if let Some(why) = unknown {
        report.kept.push(format!(
            "{shown} is kept and not acted upon: it has {why}; settings that it names may still be changed: \
             put them back with the pagelab that wrote it, or by hand, then type: rm {shown}"
        ));
        return;
    }
    // The first line is on the medium before any change is made.
    let Some(header) = header else {
        if damaged == 0 {
            report.discarded.push(format!("{shown} has no first line, so nothing was changed under it"));
            journal.end(door, true);
        } else {
            report.kept.push(format!(
                "{shown} is kept: {damaged} of its lines are damaged; look at it, then type: rm {shown}"
            ));
        }
        return;
    };
    if !door.takes(&header.root) {
        let root = header.root.display();
        report.kept.push(format!(
            "{shown} is kept and not acted upon: it is about files below {root}, which is not the root of this host"
        ));
        return;
    }
    if facts::boot_id(&header.root) != header.boot_id {
        report.discarded.push(format!(
            "{shown} is of an earlier boot ({}): the kernel has started from its defaults since",
            header.boot_id.as_deref().unwrap_or("unknown"),
        ));
        journal.end(door, true);
        return;
    }
    let before = report.restored.len();
    undo(door, &header.root, &mut changes, Some(&mut journal), report);
    report.sign(before, header.pid);
    let settled = changes.iter().all(|change| change.settled);
    if damaged > 0 {
        report.kept.push(format!(
            "{shown} is kept: {damaged} of its lines are damaged, so that it may have known of more than was put back; \
             look at it, then type: rm {shown}"
        ));
    }
    if settled {
        // Before the journal goes: a lock that says what a setting was, without a journal, is an order to put it back.
        release_dead(&header.root, &path, &changes);
    }
    journal.end(door, settled && damaged == 0);
}

/// Removes the locks of a dead guard whose changes are undone.
fn release_dead(root: &Path, journal: &Path, changes: &[Change]) {
    let registry = state::registry(root);
    for folder in [Some(registry.as_path()), journal.parent()].into_iter().flatten() {
        for lock in locks::dead(folder) {
            let concerned = lock.left.as_ref().is_none_or(|claim| {
                claim.journal.as_deref() == Some(journal)
                    || changes.iter().any(|change| change.key == claim.key) && claim.journal.is_none()
            });
            if concerned {
                lock.release();
            }
        }
    }
}

/// A setting that a dead pagelab has left changed, and that could not be put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Standing {
    /// The key; `None` if only the journal is known, which cannot be read or understood.
    pub key: Option<String>,
    /// The value that it had before.
    pub previous: Option<String>,
    /// The dead process.
    pub pid: Option<u32>,
    /// The journal.
    pub journal: PathBuf,
}

/// What dead pagelabs have left changed on this host, as it is now; changes nothing. For the manifest of a recording:
/// what is measured is measured under these values.
pub fn standing() -> Vec<Standing> {
    standing_in(&state_dir(), &state::registry(Path::new("/")))
}

/// For tests: as [`standing`], for the kernel below `root`.
pub fn standing_of(root: &Path, state_dir: &Path) -> Vec<Standing> {
    standing_in(state_dir, &state::registry(root))
}

fn standing_in(state_dir: &Path, registry: &Path) -> Vec<Standing> {
    let mut found = Vec::new();
    for path in journals(&[state_dir, registry], Some(registry), &mut RestoreReport::default()) {
        let unheld = matches!(Journal::take_over(&path), Ok(Some(_)) | Err(_));
        match journal::read(&path) {
            Ok(contents) if unheld && contents.unknown.is_none() && contents.damaged == 0 => {
                let pid = contents.header.map(|header| header.pid);
                found.extend(contents.changes.into_iter().filter(|change| !change.settled).map(|change| Standing {
                    key: Some(change.key),
                    previous: Some(change.previous),
                    pid,
                    journal: path.clone(),
                }));
            }
            _ if unheld && path.exists() => {
                found.push(Standing { key: None, previous: None, pid: None, journal: path });
            }
            _ => {}
        }
    }
    for name in crate::files::names(registry) {
        // Another user than root sees only names.
        let pid = journal::author(&name).filter(|pid| is_dead(*pid));
        let journal = registry.join(&name);
        if pid.is_some() && Folder::open(registry).is_err() {
            found.push(Standing {
                key: None,
                previous: None,
                pid: pid.and_then(|pid| u32::try_from(pid).ok()),
                journal,
            });
        }
    }
    found
}
