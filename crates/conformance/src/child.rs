//! The side of a case that runs in a process of its own.
//!
//! It speaks with the parent in lines of JSON: out on standard output, answers in on standard input. What the case prints
//! for people goes to standard error, which the parent shows if the case dies.

use std::ffi::OsString;
use std::io::{BufRead, Write};

use serde::{Deserialize, Serialize};

use crate::case::{Need, Topic, cases};
use crate::outcome::{Outcome, Stop, Verdict, must};
use crate::pool::{Counters, HUGE, Pool, Step};
use crate::sys::{self, Fd, Mount, Region};

/// The hidden command under which the binary calls [`child_main`]: `pagelab __conformance NAME`.
pub const CHILD_COMMAND: &str = "__conformance";

/// A case's report to the parent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Message {
    /// Asks for a setting of the host; the parent makes the change through its journal and answers.
    Set { key: String, value: String },
    /// The last word.
    Done(Answer),
}

/// The parent's answer to `Set`: the value that the kernel has now, or why it was not set.
pub(crate) type SetAnswer = Result<String, String>;

/// How the case ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) verdict: Verdict,
    pub(crate) reason: Option<String>,
    pub(crate) found: Option<String>,
    pub(crate) expected: Option<String>,
    pub(crate) steps: Vec<Step>,
}

impl Answer {
    pub(crate) fn new(outcome: Outcome, steps: Vec<Step>) -> Self {
        match outcome {
            Ok(()) => Answer { verdict: Verdict::Pass, reason: None, found: None, expected: None, steps },
            Err(stop) => Answer {
                verdict: stop.verdict,
                reason: Some(stop.reason),
                found: stop.found,
                expected: stop.expected,
                steps,
            },
        }
    }
}

/// Runs one case in this process and exits with what this returns: 0 if the case came to an end, whatever that was, 2
/// for wrong arguments. Call it with what follows [`CHILD_COMMAND`], before the program has started any thread.
pub fn child_main(args: &[OsString]) -> i32 {
    let [name] = args else {
        eprintln!("pagelab {CHILD_COMMAND}: needed: the name of a case; this command is for pagelab's own use");
        return 2;
    };
    let Some(case) = cases().find(|case| name.to_str() == Some(case.name)) else {
        eprintln!(
            "pagelab {CHILD_COMMAND}: there is no case {}; this command is for pagelab's own use",
            name.display()
        );
        return 2;
    };
    let mut context = Context { pool: HUGE, start: Counters::default(), steps: Vec::new() };
    let ready = match case.topic {
        Topic::Sysv if case.needs.contains(&Need::SysV) => {
            sys::own_ipc().map_err(|errno| Stop::skip(format!("no IPC namespace of its own: {errno}")))
        }
        _ => Ok(()),
    };
    let outcome = ready.and_then(|()| (case.run)(&mut context));
    i32::from(say(&Message::Done(Answer::new(outcome, context.steps))).is_err())
}

fn say(message: &Message) -> std::io::Result<()> {
    let mut line = serde_json::to_string(message)?;
    line.push('\n');
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes())?;
    out.flush()
}

/// The state of a case: the pool whose counters it follows, and the steps seen so far.
pub struct Context {
    pool: Pool,
    start: Counters,
    steps: Vec<Step>,
}

#[expect(clippy::unused_self, reason = "a case gets all that it works with from its context")]
impl Context {
    /// Takes the counters of the pool of 2 MiB pages as the start.
    pub(crate) fn start(&mut self) -> Outcome {
        self.start_with(HUGE)
    }

    /// Takes the counters of a pool as the start.
    pub(crate) fn start_with(&mut self, pool: Pool) -> Outcome {
        self.pool = pool;
        self.start = self.now()?;
        self.steps.push(Step::new("start", self.start));
        Ok(())
    }

    /// The counters at the start.
    pub(crate) fn begun(&self) -> Counters {
        self.start
    }

    fn now(&self) -> Result<Counters, Stop> {
        self.pool.read().map_err(Stop::inconclusive)
    }

    /// Demands that the counters have changed by this much since the start: [nr, free, resv, surplus], in pages.
    pub(crate) fn at(&mut self, after: &str, change: [i64; 4]) -> Outcome {
        let expected = self.start.plus(change);
        let seen = self.pool.settled(expected).map_err(Stop::inconclusive)?;
        self.steps.push(Step::new(after, seen));
        if seen == expected {
            return Ok(());
        }
        Err(Stop::fail(&format!("counters after {after}"), seen.to_string(), expected.to_string()))
    }

    /// Has the parent set a setting of the host, until the end of the case.
    pub(crate) fn set(&mut self, key: &str, value: &str) -> Outcome {
        let failed = |why: String| Stop::inconclusive(format!("setting `{key}` to {value}: {why}"));
        let message = Message::Set { key: key.to_owned(), value: value.to_owned() };
        say(&message).map_err(|error| failed(error.to_string()))?;
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map_err(|error| failed(error.to_string()))?;
        let answer: SetAnswer = serde_json::from_str(&line).map_err(|error| failed(error.to_string()))?;
        answer.map(drop).map_err(failed)
    }

    /// Maps this many anonymous 2 MiB pages.
    pub(crate) fn anonymous(&self, pages: usize, flags: i32) -> Result<Region, Stop> {
        must("mmap with MAP_HUGETLB", sys::map(pages * HUGE.page, flags | HUGETLB, None))
    }

    /// A hugetlbfs of its own.
    pub(crate) fn mount(&self, options: &[(&str, String)]) -> Result<Mount, Stop> {
        let mut all = vec![("pagesize", "2M".to_owned())];
        all.extend_from_slice(options);
        Mount::new(&all).map_err(|errno| match errno.0 {
            libc::ENOSYS | libc::EPERM | libc::ENODEV => Stop::skip(format!("hugetlbfs cannot be mounted: {errno}")),
            _ => Stop::fail("mounting hugetlbfs", errno.to_string(), "success"),
        })
    }

    /// A file on a hugetlbfs of its own, which lives as long as the descriptor.
    pub(crate) fn file(&self) -> Result<Fd, Stop> {
        let mount = self.mount(&[])?;
        let file = must("creating a file on hugetlbfs", mount.create(c"file"))?;
        must("removing its name", mount.unlink(c"file"))?;
        Ok(file)
    }

    /// Maps the first 2 MiB pages of a file, this many.
    pub(crate) fn map_file(&self, file: &Fd, pages: usize, flags: i32) -> Result<Region, Stop> {
        must("mmap of a hugetlbfs file", sys::map(pages * HUGE.page, flags, Some((file, 0))))
    }
}

/// MAP_HUGETLB with the size in the flags.
pub(crate) const HUGETLB: i32 = libc::MAP_HUGETLB | libc::MAP_HUGE_2MB;
