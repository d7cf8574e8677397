//! Calls grouped by name, task, name of the task or file.

use crate::calls::{Call, Totals};
use crate::fast::{FastMap, Tally};
use crate::read::{Comms, Tasks};

/// The grouping of calls.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// The call's name.
    Name(String),
    /// The task.
    Task(u32),
    /// The task's name at the time; none if it is not known.
    Comm(Option<String>),
    /// The file; none for calls on none.
    File(Option<u32>),
}

/// Calls with the same key.
pub(super) type Keyed = (Key, Totals);

/// Adds calls up by one sort of key.
#[derive(Debug)]
pub(super) struct Groups {
    by: &'static str,
    /// By number: of a name or a name of a task, else of what `numbers` says.
    totals: Vec<Totals>,
    names: FastMap<usize, String>,
    numbers: Tally<Option<u32>>,
    comms: Comms,
}

impl Groups {
    /// No calls yet. `by` is `name`, `task`, `comm` or `file`.
    pub(super) fn new(by: &'static str) -> Self {
        Self { by, totals: Vec::new(), names: FastMap::default(), numbers: Tally::default(), comms: Comms::default() }
    }

    /// Adds a call.
    pub(super) fn add(&mut self, call: &Call<'_>, tasks: &Tasks) {
        let number = match self.by {
            "name" => call.name_id,
            "task" => self.numbers.number(Some(call.task_id)),
            "file" => self.numbers.number(call.file_id),
            _ => self.comms.number(tasks, call.task_id, call.ts),
        };
        if number >= self.totals.len() {
            self.totals.resize_with(number + 1, Totals::default);
        }
        let Some(totals) = self.totals.get_mut(number) else { return };
        if totals.calls == 0 && self.by == "name" {
            self.names.insert(number, call.name.to_owned());
        }
        totals.add(call);
    }

    /// Groups so far.
    pub(super) fn len(&self) -> usize {
        self.totals.len()
    }

    /// The groups.
    pub(super) fn finish(mut self) -> Vec<Keyed> {
        let numbers: Vec<Option<u32>> = self.numbers.into_entries().into_iter().map(|(key, _)| key).collect();
        let mut out = Vec::new();
        for (number, totals) in self.totals.into_iter().enumerate().filter(|(_, totals)| totals.calls > 0) {
            let id = numbers.get(number).copied().flatten();
            let key = match self.by {
                "name" => Key::Name(self.names.remove(&number).unwrap_or_default()),
                "task" => Key::Task(id.unwrap_or_default()),
                "file" => Key::File(id),
                _ => Key::Comm(self.comms.name(number).map(str::to_owned)),
            };
            out.push((key, totals));
        }
        out
    }
}
