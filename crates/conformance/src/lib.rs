//! What the kernel promises about hugetlb pages and transparent huge pages, put to the test on the running kernel.
//!
//! - [`cases`] is the registry: for each case its name, what it proves, who verifies the same elsewhere, what it needs, and
//!   by which broken kernel call it is shown to fail.
//! - [`run()`] makes the pool, runs each case in a process of its own, and puts the host back as it was.
//! - [`Report`] has the results, for JSON, [`tap`] the same for harnesses that read TAP, [`markdown`] the page
//!   `docs/conformance.md`.
//!
//! ## What the binary has to do
//!
//! 1. Early in `main`: if the first argument is [`CHILD_COMMAND`], exit with [`child_main`] of the rest. The
//!    case is run in that process; it must have started no threads.
//! 2. What `pagelab_host` asks of it: the pool is made through its guard, whose helper is the same program.
//!
//! ```no_run
//! use pagelab_conformance::{Options, run, tap};
//!
//! let report = run(&Options::default(), &mut |case| eprintln!("{} {}", case.verdict.word(), case.name))?;
//! print!("{}", tap(&report));
//! std::process::exit(i32::from(report.failed()));
//! # #[allow(unreachable_code)]
//! # Ok::<(), pagelab_conformance::ConformanceError>(())
//! ```
//!
//! ## What a case may leave behind: nothing
//!
//! Settings are changed by the parent, through the guard's journal, also those that a case asks for on its way. Mounts
//! are never attached to a folder, so they end with the process that holds them. SysV segments are made in an IPC
//! namespace of the case's own. Processes that a case starts are in its process group and are killed with it.
//!
//! ## How to add a case
//!
//! 1. Write it in the file of its topic under `cases/`: a function that takes the [`Case`]'s context, acts, and compares what
//!    it finds with what the kernel promises. Counters go through `Context::at`, which compares them to the page.
//! 2. Use the functions of `sys.rs` for whatever the case is about. They are calls of libc and not raw system calls, so that
//!    the tests can put a broken kernel in their place.
//! 3. Name in `broken_by` the switch of `tests/shim/broken_kernel.c` that breaks what the case looks at; add one if
//!    none does.
//! 4. `PAGELAB_BLESS=1 cargo test -p pagelab-conformance --test docs`, then
//!    `cargo test -p pagelab-conformance --test host_suite -- --ignored --test-threads=1`.

mod case;
mod cases;
mod child;
mod docs;
mod outcome;
mod pool;
mod report;
mod run;
mod supervise;
mod sys;
mod tap;
mod view;

pub use case::{Case, Need, Topic, cases};
pub use child::{CHILD_COMMAND, Context, child_main};
pub use docs::markdown;
pub use outcome::{Outcome, Stop, Verdict};
pub use pool::Step;
pub use report::{CaseResult, Report};
pub use run::{ConformanceError, Options, run};
pub use tap::tap;
