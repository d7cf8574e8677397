//! Undoing changes, last one first.

use std::io;
use std::path::Path;

use pagelab_vocab::settings::{Companions, Form, setting};
use pagelab_vocab::terminal::shell_word;
use pagelab_vocab::units::hexadecimal;

use super::journal::{Journal, Record, Value, unhex};
use super::{Door, Failed, Left, RestoreReport, Restored, SideEffect};
use crate::settings::{SettingError, plain};

/// One change of one setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) seq: u64,
    pub(super) key: String,
    pub(super) previous: String,
    /// The bytes of the value found, where they are not `previous` and a newline.
    pub(super) bytes: Option<Vec<u8>>,
    pub(super) requested: String,
    /// What the kernel made of it; `None` if the guard died before it could write that down.
    pub(super) got: Option<String>,
    pub(super) companions: Vec<Companion>,
    /// Undoing it has begun.
    pub(super) undoing: Option<Begun>,
    /// Nothing more to do.
    pub(super) settled: bool,
}

/// The values of a setting's companions when undoing it began. The kernel rewrites companions when the setting goes
/// back, so whoever takes over in the middle can no longer see them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Begun {
    /// Those that are as the change left them.
    pub(super) own: Vec<String>,
    /// Those that somebody else gave this value, which the kernel would write over.
    pub(super) others: Vec<Value>,
}

/// A setting that the kernel may have changed along with another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Companion {
    pub(super) key: String,
    pub(super) previous: Option<String>,
    /// As in [`Change`].
    pub(super) bytes: Option<Vec<u8>>,
    pub(super) after: Option<String>,
    /// Whether `after` was looked at; it may be `None` because the knob was gone.
    pub(super) after_known: bool,
}

impl Companion {
    pub(super) fn found(value: Value) -> Self {
        let bytes = value.bytes.as_deref().and_then(unhex);
        Companion { key: value.key, previous: value.value, bytes, after: None, after_known: false }
    }
}

impl Change {
    pub(super) fn intent(&self) -> Record {
        let value = |companion: &Companion| Value {
            key: companion.key.clone(),
            value: companion.previous.clone(),
            bytes: companion.bytes.as_deref().map(hexadecimal),
        };
        Record::Intent {
            seq: self.seq,
            key: self.key.clone(),
            previous: self.previous.clone(),
            bytes: self.bytes.as_deref().map(hexadecimal),
            requested: self.requested.clone(),
            companions: self.companions.iter().map(value).collect(),
        }
    }

    pub(super) fn applied(&self) -> Record {
        let value =
            |companion: &Companion| Value { key: companion.key.clone(), value: companion.after.clone(), bytes: None };
        Record::Applied {
            seq: self.seq,
            got: self.got.clone(),
            companions: self.companions.iter().map(value).collect(),
        }
    }

    pub(super) fn take_applied(&mut self, got: Option<String>, after: Vec<Value>) {
        self.got = got;
        for value in after {
            for companion in self.companions.iter_mut().filter(|companion| companion.key == value.key) {
                companion.after.clone_from(&value.value);
                companion.after_known = true;
            }
        }
    }

    pub(super) fn side_effects(&self) -> Vec<SideEffect> {
        let changed = self.companions.iter().filter(|companion| companion.after != companion.previous);
        changed
            .map(|companion| SideEffect {
                key: companion.key.clone(),
                before: companion.previous.clone(),
                after: companion.after.clone(),
            })
            .collect()
    }
}

/// The bytes of a setting's file, if writing `value` would not give them back.
pub(super) fn other_bytes(door: &mut dyn Door, root: &Path, key: &str, value: &str) -> Option<Vec<u8>> {
    door.bytes(root, key).filter(|bytes| bytes.strip_suffix(b"\n").unwrap_or(bytes) != value.as_bytes())
}

/// Whether two texts are one value: the same words, or the same whole number.
pub(super) fn same(a: &str, b: &str) -> bool {
    let number = |text: &str| text.trim().parse::<i128>().ok();
    match (number(a), number(b)) {
        (Some(a), Some(b)) => a == b,
        _ => a.split_whitespace().eq(b.split_whitespace()),
    }
}

/// Undoes the changes that are not settled, the last one first, and notes in the journal what is begun and what done.
pub(super) fn undo(
    door: &mut dyn Door,
    root: &Path,
    changes: &mut [Change],
    mut journal: Option<&mut Journal>,
    report: &mut RestoreReport,
) {
    let mut note = |door: &mut dyn Door, record: &Record| {
        if let Some(journal) = journal.as_deref_mut()
            && let Err(error) = journal.append(door, record)
        {
            // The value goes back all the same; the journal only helps whoever has to take over.
            tracing::warn!("{error}");
        }
    };
    for change in changes.iter_mut().rev().filter(|change| !change.settled) {
        let seq = change.seq;
        let mut one = One { door: &mut *door, root, report: &mut *report };
        change.settled = match one.examine(change) {
            Verdict::Settled => true,
            Verdict::NotNow => false,
            Verdict::Ours(begun) => {
                let (companions, others) = (begun.own.clone(), begun.others.clone());
                note(one.door, &Record::Undoing { seq, companions, others });
                let done = one.put_back(change, &begun);
                change.undoing = Some(begun);
                done
            }
        };
        if change.settled {
            note(door, &Record::Undone { seq });
        }
    }
}

/// A setting as it was before.
#[derive(Clone, Copy)]
struct Former<'a> {
    key: &'a str,
    value: &'a str,
    bytes: Option<&'a [u8]>,
}

/// Whose the present value is.
enum Verdict {
    /// Somebody else's, or gone: reported, nothing to do.
    Settled,
    /// It cannot be read: reported, to be tried again.
    NotNow,
    /// Ours, with the values found of its companions.
    Ours(Begun),
}

/// Undoing one change.
struct One<'a> {
    door: &'a mut dyn Door,
    root: &'a Path,
    report: &'a mut RestoreReport,
}

impl One<'_> {
    fn examine(&mut self, change: &Change) -> Verdict {
        let current = match self.door.get(self.root, &change.key) {
            Ok(current) => current,
            Err(SettingError::Unknown { found, .. }) => {
                self.left(change, None, &format!("it is gone: {found}"));
                return Verdict::Settled;
            }
            Err(error) => {
                self.failed(&change.key, &change.previous, error.to_string());
                return Verdict::NotNow;
            }
        };
        if let Some(begun) = &change.undoing {
            return Verdict::Ours(begun.clone());
        }
        let ours = change.got.as_ref().is_none_or(|got| same(got, &current));
        if !ours && !same(&current, &change.previous) {
            // Its companions follow from the value that somebody else chose; they stay as well.
            self.left(change, Some(current), "somebody else changed it meanwhile");
            return Verdict::Settled;
        }
        Verdict::Ours(self.companions_of(change))
    }

    /// Puts one setting and its companions back; whether all of it is.
    fn put_back(&mut self, change: &Change, begun: &Begun) -> bool {
        let current = self.door.get(self.root, &change.key).ok();
        let mut companions: Vec<(Former<'_>, Option<String>)> = Vec::new();
        for companion in change.companions.iter().filter(|companion| begun.own.contains(&companion.key)) {
            if let Some(value) = companion.previous.as_deref() {
                let former = Former { key: &companion.key, value, bytes: companion.bytes.as_deref() };
                companions.push((former, self.door.get(self.root, &companion.key).ok()));
            }
        }
        let former = Former { key: &change.key, value: &change.previous, bytes: change.bytes.as_deref() };
        let mut written: Result<(), io::Error> = Ok(());
        if exclusive(&change.key) && same(&change.previous, "0") {
            // One member of such a group is in force and the others read 0, which the kernel sets but may not accept
            // (vm.dirty_bytes): the one in force goes first and brings the zero along.
            self.put_companions(&companions);
        }
        if !self.is(&change.key, &change.previous) {
            written = self.write(former);
        }
        self.put_companions(&companions);
        self.put_others(&begun.others);
        let mut done = true;
        let mut first = Some(written);
        for (former, before) in std::iter::once((former, current)).chain(companions) {
            let back = self.confirm(former, first.take().unwrap_or(Ok(())));
            if back && before.as_deref().is_none_or(|before| !same(before, former.value)) {
                let (key, to) = (former.key.to_owned(), former.value.to_owned());
                self.report.restored.push(Restored { key, from: before, to, pid: None });
            }
            done &= back;
        }
        done
    }

    /// Whose the companions are. One that somebody else changed since is reported and stays.
    fn companions_of(&mut self, change: &Change) -> Begun {
        let mut begun = Begun::default();
        for companion in &change.companions {
            let Some(previous) = companion.previous.as_deref() else { continue };
            let now = self.door.get(self.root, &companion.key).ok();
            let equal = |a: Option<&str>, b: Option<&str>| match (a, b) {
                (Some(a), Some(b)) => same(a, b),
                (None, None) => true,
                _ => false,
            };
            let untouched = !companion.after_known || equal(now.as_deref(), companion.after.as_deref());
            if untouched || equal(now.as_deref(), Some(previous)) {
                begun.own.push(companion.key.clone());
            } else {
                begun.others.push(Value { key: companion.key.clone(), value: now.clone(), bytes: None });
                self.report.left.push(Left {
                    key: companion.key.clone(),
                    previous: previous.to_owned(),
                    expected: companion.after.clone(),
                    found: now,
                    why: format!("somebody else changed it after {} had", change.key),
                });
            }
        }
        begun
    }

    /// Writes again what somebody else had set, where the kernel has rewritten it as the setting went back.
    fn put_others(&mut self, others: &[Value]) {
        for Value { key, value, .. } in others {
            // A part of a pool goes with the pool, and of settings that exclude each other the one in force was left.
            let follows = setting(key).is_none_or(|info| info.def.form == Form::Pool) || exclusive(key);
            if let (Some(value), false) = (value, follows)
                && !self.is(key, value)
                && let Err(error) = self.door.put(self.root, key, value)
            {
                tracing::warn!("{key}: {error}; somebody else had set it to {value}");
            }
        }
    }

    fn put_companions(&mut self, companions: &[(Former<'_>, Option<String>)]) {
        for (former, _) in companions {
            if !self.is(former.key, former.value)
                && let Err(error) = self.write(*former)
            {
                // Writing the others may yet bring it back; `confirm` decides.
                tracing::debug!("{}: {error}", former.key);
            }
        }
    }

    /// Writes the bytes found. Where there are none, or the kernel does not accept its own text, writes the value.
    fn write(&mut self, former: Former<'_>) -> io::Result<()> {
        if let Some(bytes) = former.bytes
            && self.door.put_bytes(self.root, former.key, bytes).is_ok()
            && self.is(former.key, former.value)
        {
            return Ok(());
        }
        self.door.put(self.root, former.key, former.value)
    }

    fn is(&mut self, key: &str, value: &str) -> bool {
        self.door.get(self.root, key).is_ok_and(|now| same(&now, value))
    }

    /// Whether the setting has the value, trying once more if not; a failure is reported.
    fn confirm(&mut self, former: Former<'_>, written: io::Result<()>) -> bool {
        let (key, previous) = (former.key, former.value);
        if self.is(key, previous) {
            return true;
        }
        let again = self.write(former);
        match self.door.get(self.root, key) {
            Ok(now) if same(&now, previous) => return true,
            Ok(now) => {
                let said = written.and(again).err().map_or_else(String::new, |error| format!("{}, ", plain(&error)));
                self.failed(key, previous, format!("{said}it is `{now}`"));
            }
            Err(error) => self.failed(key, previous, error.to_string()),
        }
        false
    }

    fn left(&mut self, change: &Change, found: Option<String>, why: &str) {
        self.report.left.push(Left {
            key: change.key.clone(),
            previous: change.previous.clone(),
            expected: change.got.clone(),
            found,
            why: why.to_owned(),
        });
    }

    fn failed(&mut self, key: &str, previous: &str, reason: String) {
        let path = setting(key).and_then(|info| info.path()).unwrap_or_default();
        let fix = format!("echo {} > {path}, or: pagelab restore", shell_word(previous));
        self.report.failed.push(Failed { key: key.to_owned(), previous: previous.to_owned(), reason, fix });
    }
}

fn exclusive(key: &str) -> bool {
    setting(key).is_some_and(|info| matches!(info.def.companions, Companions::Exclusive(_)))
}
