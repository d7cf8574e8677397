//! Tasks and the address spaces they live in: from birth over exec to exit.
//!
//! A task begins with a fork or is found (`snapshot`); exec gives it another address space; exit or leaving the recorded
//! cgroup ends it. An address space lives as long as a task uses it: threads, and a child of `vfork` until it executes a
//! program, share one. Ids of tasks and address spaces are unique in a recording; numbers of processes and threads recur
//! ([`Lifetimes`] may be keyed by either: a task that begins under a number that is still in use ends the one before, whose
//! exit was lost).

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use crate::space::words;
use crate::tables::TasksRow;

words! {
    /// What happened to a task: the column `op` of `tasks`.
    TaskOp {
        /// It was forked.
        Fork = "fork",
        /// It executed a program.
        Exec = "exec",
        /// It ended.
        Exit = "exit",
        /// It was renamed.
        Comm = "comm",
        /// It was there when recording began, or moved into the recorded cgroup.
        Snapshot = "snapshot",
        /// It moved out of the recorded cgroup.
        Leave = "leave",
        /// It had not ended when recording did.
        Alive = "alive",
    }
}

impl TaskOp {
    /// Whether the task is not among the recorded ones any more.
    pub fn ends(self) -> bool {
        matches!(self, Self::Exit | Self::Leave)
    }

    /// Whether the task is among the recorded ones from now on.
    pub fn begins(self) -> bool {
        matches!(self, Self::Fork | Self::Snapshot)
    }
}

/// The living tasks, and how many of them use each address space. `K` is what tells tasks apart, `T` what else is kept of
/// each.
#[derive(Debug, Clone)]
pub struct Lifetimes<K, T = ()> {
    tasks: HashMap<K, Living<T>>,
    users: HashMap<u32, u32>,
}

#[derive(Debug, Clone)]
struct Living<T> {
    mm_id: Option<u32>,
    kept: T,
}

impl<K, T> Default for Lifetimes<K, T> {
    fn default() -> Self {
        Self { tasks: HashMap::new(), users: HashMap::new() }
    }
}

impl<K: Eq + Hash, T> Lifetimes<K, T> {
    /// A task begins in an address space; none for kernel threads. Returns the address space that nobody uses any more:
    /// that of a task of the same key, which must have ended unseen.
    pub fn begin(&mut self, key: K, mm_id: Option<u32>, kept: T) -> Option<u32> {
        self.use_space(mm_id);
        let before = self.tasks.insert(key, Living { mm_id, kept })?;
        self.leave(before.mm_id)
    }

    /// A living task is in that address space from now on. Returns the address space that nobody uses any more.
    pub fn enter(&mut self, key: &K, mm_id: Option<u32>) -> Option<u32> {
        let task = self.tasks.get_mut(key)?;
        if task.mm_id == mm_id {
            return None;
        }
        let before = std::mem::replace(&mut task.mm_id, mm_id);
        self.use_space(mm_id);
        self.leave(before)
    }

    /// A task ends. Returns its entry, and the address space that nobody uses any more. A task that was not known does
    /// not end: its birth was not counted.
    pub fn end(&mut self, key: &K) -> Option<(T, Option<u32>)> {
        let task = self.tasks.remove(key)?;
        let left = self.leave(task.mm_id);
        Some((task.kept, left))
    }

    /// A task goes on under another key, as a thread that executes a program does with the number of its process.
    pub fn rename(&mut self, before: &K, after: K) -> Option<u32> {
        let task = self.tasks.remove(before)?;
        let other = self.tasks.insert(after, task)?;
        self.leave(other.mm_id)
    }

    /// Whether the task lives.
    pub fn contains(&self, key: &K) -> bool {
        self.tasks.contains_key(key)
    }

    /// The address space that a task is in; none for kernel threads and tasks that are not known.
    pub fn mm_of(&self, key: &K) -> Option<u32> {
        self.tasks.get(key)?.mm_id
    }

    /// What is kept of a living task.
    pub fn get(&self, key: &K) -> Option<&T> {
        self.tasks.get(key).map(|task| &task.kept)
    }

    /// What is kept of a living task, to be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut T> {
        self.tasks.get_mut(key).map(|task| &mut task.kept)
    }

    /// All living tasks, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, Option<u32>, &T)> {
        self.tasks.iter().map(|(key, task)| (key, task.mm_id, &task.kept))
    }

    /// What is kept of each living task, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.tasks.values_mut().map(|task| &mut task.kept)
    }

    /// Whether a living task uses the address space.
    pub fn is_used(&self, mm_id: u32) -> bool {
        self.users.contains_key(&mm_id)
    }

    fn use_space(&mut self, mm_id: Option<u32>) {
        if let Some(mm_id) = mm_id {
            *self.users.entry(mm_id).or_default() += 1;
        }
    }

    fn leave(&mut self, mm_id: Option<u32>) -> Option<u32> {
        let mm_id = mm_id?;
        let users = self.users.get_mut(&mm_id)?;
        *users = users.saturating_sub(1);
        if *users > 0 {
            return None;
        }
        self.users.remove(&mm_id);
        Some(mm_id)
    }
}

impl<T: Default> Lifetimes<u32, T> {
    /// What is kept of a task, which is met here for the first time if it is not known.
    pub fn kept(&mut self, task_id: u32) -> &mut T {
        let unknown = || Living { mm_id: None, kept: T::default() };
        &mut self.tasks.entry(task_id).or_insert_with(unknown).kept
    }

    /// Applies a row of `tasks`. Returns the address space that nobody uses any more.
    pub fn apply(&mut self, row: &TasksRow<'_>) -> Option<u32> {
        let op = TaskOp::of_word(row.op)?;
        self.note(op, row.task_id, row.mm_id)
    }

    /// An event of a task, which is in `mm_id` then. A task that was not known begins with its first event that names
    /// an address space. Returns the address space that nobody uses any more.
    pub fn note(&mut self, op: TaskOp, task_id: u32, mm_id: Option<u32>) -> Option<u32> {
        if op.ends() {
            return self.end(&task_id).and_then(|(_, left)| left);
        }
        if self.contains(&task_id) {
            // A row without an address space is of a kernel thread, and such a one never had any.
            return mm_id.and_then(|mm_id| self.enter(&task_id, Some(mm_id)));
        }
        if mm_id.is_some() || op.begins() {
            self.begin(task_id, mm_id, T::default());
        }
        None
    }
}

/// Address spaces that nobody uses any more and that are kept for a while, because rows of their last moments come later.
#[derive(Debug, Clone)]
pub(crate) struct Departed {
    grace_ns: i64,
    left: VecDeque<(i64, u32)>,
}

impl Departed {
    /// Keeps each for `grace_ns`.
    pub(crate) fn new(grace_ns: i64) -> Self {
        Self { grace_ns, left: VecDeque::new() }
    }

    /// Nobody uses the address space since `ts`. Times come in their order.
    pub(crate) fn push(&mut self, ts: i64, mm_id: u32) {
        self.left.push_back((ts, mm_id));
    }

    /// When the next one is to be forgotten; `i64::MAX` if none is.
    pub(crate) fn next_ns(&self) -> i64 {
        self.left.front().map_or(i64::MAX, |(since, _)| since.saturating_add(self.grace_ns))
    }

    /// The next one that is to be forgotten at `now`. It may have been entered again since: ask [`Lifetimes::is_used`].
    pub(crate) fn pop(&mut self, now: i64) -> Option<u32> {
        if now < self.next_ns() {
            return None;
        }
        self.left.pop_front().map(|(_, mm_id)| mm_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(op: &'static str, task_id: u32, mm_id: u32) -> TasksRow<'static> {
        TasksRow { op, task_id, mm_id: Some(mm_id), ..TasksRow::default() }
    }

    #[test]
    fn an_address_space_goes_with_its_last_task() {
        let mut tasks = Lifetimes::<u32>::default();
        // A process, its thread, a child by vfork that executes a program.
        let rows = [row("snapshot", 1, 1), row("fork", 2, 1), row("fork", 3, 1), row("exec", 3, 2), row("exit", 1, 1)];
        assert_eq!(rows.map(|row| tasks.apply(&row)), [None; 5]);
        assert!(tasks.is_used(1), "the thread uses it");
        assert_eq!(tasks.apply(&row("comm", 2, 1)), None);
        assert_eq!(tasks.apply(&row("leave", 2, 1)), Some(1));
        assert_eq!(tasks.apply(&row("exec", 3, 4)), Some(2), "exec leaves the old one");
        assert_eq!(tasks.apply(&row("exit", 3, 4)), Some(4));
    }

    #[test]
    fn a_task_that_was_not_known_ends_nothing() {
        let mut tasks = Lifetimes::<u32>::default();
        tasks.apply(&row("snapshot", 1, 1));
        assert_eq!(tasks.apply(&row("exit", 9, 1)), None);
        assert!(tasks.is_used(1));
        // One whose birth was lost begins with its first event.
        tasks.apply(&row("comm", 8, 1));
        assert_eq!(tasks.apply(&row("exit", 1, 1)), None);
        assert_eq!(tasks.apply(&row("exit", 8, 1)), Some(1));
    }

    #[test]
    fn a_number_that_comes_again_ends_the_task_before() {
        let mut tasks = Lifetimes::<u32, &str>::default();
        tasks.begin(100, Some(1), "first");
        assert_eq!(tasks.begin(100, Some(2), "second"), Some(1));
        assert_eq!(tasks.get(&100), Some(&"second"));
        tasks.begin(101, Some(2), "thread");
        assert_eq!(tasks.rename(&101, 100), None, "both were in one address space");
        assert_eq!((tasks.get(&100), tasks.contains(&101)), (Some(&"thread"), false));
        assert_eq!(tasks.end(&100), Some(("thread", Some(2))));
    }

    #[test]
    fn what_nobody_uses_is_kept_for_a_while() {
        let mut departed = Departed::new(10);
        assert_eq!(departed.next_ns(), i64::MAX);
        departed.push(5, 1);
        departed.push(7, 2);
        assert_eq!((departed.pop(14), departed.next_ns()), (None, 15));
        assert_eq!((departed.pop(15), departed.pop(15), departed.pop(17)), (Some(1), None, Some(2)));
    }
}
