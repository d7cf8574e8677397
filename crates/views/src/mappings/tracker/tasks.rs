//! Tasks: in which address space each one is, what it is called, and when an address space goes with its last user.

use super::slots::close_slot;
use super::{Refusal, Tracker};
use crate::mappings::events::{TaskChange, TaskEvent};

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Task {
    pub mm_id: Option<u32>,
    pub comm: u32,
    pub refused: Option<Refusal>,
}

impl Tracker {
    /// Applies an event of a task.
    pub(in crate::mappings) fn task(&mut self, event: &TaskEvent) {
        let before = self.tasks.get(&event.task_id).copied().unwrap_or_default();
        let comm = if event.comm == 0 { before.comm } else { event.comm };
        match event.change {
            TaskChange::Begins { .. } | TaskChange::Execs => {
                let parent = match event.change {
                    TaskChange::Begins { parent: Some(parent) } => self.tasks.get(&parent).and_then(|task| task.mm_id),
                    _ => before.mm_id,
                };
                if before.mm_id != event.mm_id {
                    self.enter(event.mm_id, parent);
                }
                if event.change == TaskChange::Execs && before.mm_id != event.mm_id {
                    self.leave(before.mm_id, event.ts);
                }
                self.tasks.insert(event.task_id, Task { mm_id: event.mm_id, comm, refused: None });
            }
            TaskChange::Ends => {
                self.tasks.remove(&event.task_id);
                self.leave(before.mm_id, event.ts);
            }
            TaskChange::Renamed => {
                self.tasks.entry(event.task_id).or_default().comm = comm;
            }
        }
    }

    fn enter(&mut self, mm_id: Option<u32>, parent: Option<u32>) {
        let Some(mm_id) = mm_id else { return };
        // The flag lives in mm->flags and is inherited by fork and exec (MMF_INIT_MASK).
        let forbidden = parent.and_then(|mm| self.spaces.get(&mm)).is_some_and(|space| space.thp_forbidden);
        let space = self.spaces.entry(mm_id).or_default();
        space.users += 1;
        space.thp_forbidden |= forbidden;
    }

    /// A task whose begin was not recorded uses an address space all the same.
    pub(super) fn register(&mut self, task_id: u32, mm_id: u32) {
        let task = self.tasks.entry(task_id).or_default();
        if task.mm_id.is_none() {
            task.mm_id = Some(mm_id);
            self.space(mm_id).users += 1;
        }
    }

    fn leave(&mut self, mm_id: Option<u32>, ts: i64) {
        let Some(mm_id) = mm_id else { return };
        let Some(space) = self.spaces.get_mut(&mm_id) else { return };
        space.users = space.users.saturating_sub(1);
        if space.users == 0 {
            self.drop_space(mm_id, Some(ts));
        }
    }

    pub(super) fn drop_space(&mut self, mm_id: u32, ts: Option<i64>) {
        let Some(mut space) = self.spaces.remove(&mm_id) else { return };
        self.cache = None;
        for (_, slot) in space.slots.drain() {
            close_slot(&mut self.ledger, &slot);
        }
        for (_, held) in std::mem::take(&mut space.held) {
            self.release(held.piece, mm_id, ts);
        }
    }
}
