//! Tasks: each one's address space and name, and when an address space goes with its last user.

use pagelab_recording::lifetimes::TaskOp;

use super::{Refusal, Tracker};
use crate::mappings::events::{TaskChange, TaskEvent};

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Task {
    pub comm: u32,
    pub refused: Option<Refusal>,
}

impl Tracker {
    /// Applies an event of a task.
    pub(in crate::mappings) fn task(&mut self, event: &TaskEvent) {
        let id = event.task_id;
        let left = match event.change {
            TaskChange::Begins { .. } | TaskChange::Execs => {
                let parent = match event.change {
                    TaskChange::Begins { parent: Some(parent) } => self.tasks.mm_of(&parent),
                    _ => self.tasks.mm_of(&id),
                };
                if self.tasks.mm_of(&id) != event.mm_id {
                    self.inherit(event.mm_id, parent);
                }
                let op = if event.change == TaskChange::Execs { TaskOp::Exec } else { TaskOp::Fork };
                let left = self.tasks.note(op, id, event.mm_id);
                self.task_mut(id).refused = None;
                left
            }
            TaskChange::Ends => self.tasks.note(TaskOp::Exit, id, None),
            TaskChange::Renamed => None,
        };
        if event.comm > 0 && event.change != TaskChange::Ends {
            self.task_mut(id).comm = event.comm;
        }
        if let Some(mm_id) = left {
            self.drop_space(mm_id, Some(event.ts));
        }
    }

    /// What is kept of a task, which is met here for the first time if it is not known.
    pub(super) fn task_mut(&mut self, task_id: u32) -> &mut Task {
        self.tasks.kept(task_id)
    }

    /// The flag lives in mm->flags and is inherited by fork and exec (MMF_INIT_MASK).
    fn inherit(&mut self, mm_id: Option<u32>, parent: Option<u32>) {
        let Some(mm_id) = mm_id else { return };
        let forbidden = parent.and_then(|mm| self.spaces.get(&mm)).is_some_and(|space| space.thp_forbidden);
        self.space(mm_id).thp_forbidden |= forbidden;
    }

    /// A task whose begin was not recorded uses an address space all the same.
    pub(super) fn register(&mut self, task_id: u32, mm_id: u32) {
        if self.tasks.mm_of(&task_id).is_none() {
            self.tasks.note(TaskOp::Fork, task_id, Some(mm_id));
        }
    }

    pub(super) fn drop_space(&mut self, mm_id: u32, ts: Option<i64>) {
        let Some(mut space) = self.spaces.remove(&mm_id) else { return };
        self.found.forget();
        for (_, number) in space.slots.drain() {
            self.slots.close(number, &mut self.ledger);
        }
        for (_, piece) in space.held.iter() {
            self.release(*piece, mm_id, ts);
        }
    }
}
