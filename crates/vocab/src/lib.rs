//! The words of pagelab: settings, metrics, units and causes, each declared once.
//!
//! Recorder, analysis, plans and documentation use the same names because they all take them from here:
//!
//! - [`settings`]: every key that can be read from a host or a process, or set by a plan (`thp.enabled`,
//!   `sysctl.vm.swappiness`, `env.MALLOC_ARENA_MAX`): where it comes from, whether it may be written, what it bears on.
//!   `docs/settings.md` is generated from it.
//! - [`metrics`]: every series of measured values, with kind, unit and the direction that is better.
//! - [`counters`]: every event that processor and kernel count, and the quotients that are made of them.
//! - [`causes`]: every cause that a finding may name.
//! - [`budget`]: the account of time: its components, and where in the kernel tasks wait.
//! - [`mechanisms`]: what the kernel spends a task's time on, and the functions that tell it.
//! - [`errands`]: functions of the kernel that do much of many kinds for one purpose.
//! - [`streams`]: the streams of a recording, the tables that each fills, and how its losses are counted.
//! - [`waits`]: the states of tasks, who has the CPU that they wait for, and who wakes them.
//! - [`syscalls`]: every system call of x86-64 with its arguments, and the names of flags, errors and signals.
//! - [`abi`]: the numbers of mapping calls and page faults that rows carry.
//! - [`places`]: a glossary of functions: what time in them is, what brings it about, what governs it.
//! - [`nearest`]: the word that a misspelt one probably meant, and how a message asks for it.
//! - [`remedies`]: what is missing where a limit is reached, by error and place.
//! - [`units`]: how sizes, times and numbers are typed and printed.
//! - [`terminal`]: how text from elsewhere is shown on a terminal, and quoted for a shell.
//!
//! The crate knows nothing of the others and touches no file.
//!
//! ## How to add a setting
//!
//! 1. Add a line to the table of its namespace under `settings/` (one file for each group of namespaces).
//! 2. If it is the build-time or boot-time form of another key, name that one in `twins`, only when it is certain.
//! 3. If writing it makes the kernel rewrite others, name them in `companions`: the guard puts them back as well.
//! 4. `make docs` rewrites docs/settings.md; a test compares the two.

pub mod abi;
pub mod absence;
pub mod budget;
pub mod causes;
pub mod counters;
pub mod errands;
pub mod mechanisms;
pub mod metrics;
pub mod nearest;
pub mod places;
pub mod remedies;
pub mod samples;
pub mod settings;
pub mod streams;
pub mod syscalls;
pub mod terminal;
pub mod units;
pub mod waits;
mod words;
