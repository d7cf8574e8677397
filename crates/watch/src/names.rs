//! The tasks that live, by name.

use std::collections::HashMap;

use pagelab_observe::bpf::{Event, TaskOp};

/// What a task is called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Name {
    pub pid: u32,
    pub tid: u32,
    /// As the task says it: any bytes, read as UTF-8.
    pub comm: String,
}

/// The tasks by their number in the recording.
#[derive(Debug, Default)]
pub(crate) struct Names {
    tasks: HashMap<u32, Name>,
    ended: Vec<u32>,
}

impl Names {
    /// Takes what a round has seen of tasks.
    pub(crate) fn take(&mut self, events: &[Event]) {
        for event in events {
            let Event::Task(task) = event else { continue };
            if matches!(task.op, TaskOp::Exit | TaskOp::Leave) {
                self.ended.push(task.task_id);
            }
            let comm = String::from_utf8_lossy(&task.comm).into_owned();
            self.tasks.insert(task.task_id, Name { pid: task.pid, tid: task.tid, comm });
        }
    }

    /// What a task is called; none if its beginning was not seen.
    pub(crate) fn get(&self, task_id: u32) -> Option<&Name> {
        self.tasks.get(&task_id)
    }

    /// Forgets those that have ended, once their last second has been told.
    pub(crate) fn forget_ended(&mut self) {
        for task_id in self.ended.drain(..) {
            self.tasks.remove(&task_id);
        }
    }
}
