//! What a command, processes, a cgroup or the whole system does now: once a second, in the terminal or as lines.
//!
//! [`watch`] runs a session as `pagelab record` does, with the stream `waits` alone (the states of tasks, summed up in the kernel),
//! into a temporary directory that keeps the last minute and is removed at the end, or into the one that the user names. An
//! [`Onlooker`](onlooker::Onlooker) steps with the session's probes. Once a second it takes the
//! [moment](pagelab_observe::moment) that the stream has made and the [sums](pagelab_observe::sums) of page faults and system
//! calls, and makes a [`Second`] of both: what happened since the second before. No event comes to user space, so that what this
//! costs grows with the number of tasks and not with what they do.
//!
//! A second goes through a channel to a thread of its own, which draws it ([`screen`]) or writes it as a line ([`lines`]): a terminal
//! that does not take its text, or a pipe that nobody reads, holds no probe up. What finds no room in the channel is left out, and
//! counted ([`Second::skipped`]).
//!
//! | module | holds |
//! |---|---|
//! | `options` | what is asked for |
//! | `run` | the session, and the thread that shows |
//! | `place` | where the recording lies meanwhile |
//! | `onlooker` | the probe in the session's loop |
//! | `states` | from moments to the time that tasks spent |
//! | `counts` | from sums to the faults and calls of a second |
//! | `names` | the tasks that live, by name |
//! | `cost` | what watching costs |
//! | `second` | what happened in a second |
//! | `history` | the last minute |
//! | `lines` | a line, or a JSON document, a second |
//! | `screen` | the terminal: keys, and the picture |
//!
//! The three states of a second sum to the lives of its tasks in it. Who had the CPU while a task waited for one, and who woke a
//! task, is known when the wait is over: so those parts of READY and of OFF are told by the waits that ended in the second, and the
//! rest is `unknown`. `run.calls` is time on a CPU between entry and return of system calls, and `run.program` all other: the
//! program's own code, its page faults, and interrupts.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod cost;
mod counts;
mod history;
mod lines;
mod names;
mod onlooker;
mod options;
mod place;
mod run;
mod screen;
mod second;
mod states;

pub use options::{How, Options};
pub use run::{Outcome, WatchError, watch};
pub use second::{Call, Component, Cost, Faults, Second, Thread, WaitRow};
