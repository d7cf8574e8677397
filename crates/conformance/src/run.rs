//! A run: the pool is made, cases run one after another, everything is put back.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pagelab_host::guard::{Guard, GuardError, GuardOptions, RestoreReport};
use pagelab_host::settings;

use crate::case::{Case, Need, cases};
use crate::child::{Answer, HUGETLB, SetAnswer};
use crate::outcome::{Stop, Verdict};
use crate::pool::{Counters, GIGANTIC, HUGE};
use crate::report::{CaseResult, Report};
use crate::supervise::supervise;
use crate::sys::{self, Region};

/// Pages of the pool, and how many more overcommit allows: the cases are written for these numbers.
const POOL_PAGES: u32 = 128;
/// Most tries of an inconclusive case: on a busy host contiguous memory comes and goes.
const ATTEMPTS: u32 = 3;
/// How long the pool may take to be as before after a case.
const CALM: Duration = Duration::from_millis(500);
const POOL_KEY: &str = "hugetlb.2M.nr_hugepages";
const OVERCOMMIT_KEY: &str = "hugetlb.2M.nr_overcommit_hugepages";
const GIGANTIC_KEY: &str = "hugetlb.1G.nr_hugepages";

/// How a run is made.
#[derive(Debug, Clone)]
pub struct Options {
    /// The program that is started as `PROGRAM __conformance NAME`, and as helper of the guard; `None` for the running one.
    pub program: Option<PathBuf>,
    /// Names of cases, or topics, or beginnings of names that end at a dot or an underscore; empty for all.
    pub only: Vec<String>,
    /// How long one case may take.
    pub limit: Duration,
    /// Environment that the processes of cases get on top of this one's.
    pub environment: Vec<(String, String)>,
}

impl Default for Options {
    fn default() -> Self {
        Options { program: None, only: Vec::new(), limit: Duration::from_secs(20), environment: Vec::new() }
    }
}

/// Why nothing was run. The host is as before in every case.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConformanceError {
    /// The suite changes settings of the host.
    #[error("conformance: found user {uid}, needed root (the suite makes a pool of huge pages); type: sudo {command}")]
    NotRoot {
        /// The effective user.
        uid: u32,
        /// The command that was typed.
        command: String,
    },
    /// A name that no case has.
    #[error("conformance: found no case `{name}`, needed a name or a topic; docs/conformance.md lists all")]
    NoSuchCase {
        /// As it was given.
        name: String,
    },
    /// The pool cannot be made: another pagelab holds it, or no journal can be kept.
    #[error(transparent)]
    Guard(#[from] GuardError),
}

/// Runs the cases and calls `sink` after each. Settings are changed through [`Guard`] and put back whatever happens.
pub fn run(options: &Options, sink: &mut dyn FnMut(&CaseResult)) -> Result<Report, ConformanceError> {
    let chosen = choose(&options.only)?;
    let uid = rustix::process::geteuid();
    if !uid.is_root() {
        let command = std::env::args().collect::<Vec<_>>().join(" ");
        return Err(ConformanceError::NotRoot { uid: uid.as_raw(), command });
    }
    let program = options.program.clone().unwrap_or_else(|| PathBuf::from("/proc/self/exe"));
    let mut defaults = GuardOptions::default();
    if options.program.is_some() {
        defaults.helper_exe.clone_from(&program);
    }
    let mut host = Host::new(Guard::open_with(defaults)?);
    host.pool = chosen.iter().any(|case| case.needs.iter().any(|need| matches!(need, Need::Pool(_))));
    host.make_pool()?;
    let (mut results, mut not_put_back) = (Vec::new(), Vec::new());
    for case in chosen {
        let mut result = host.attempt(case, &program, options, &mut not_put_back);
        while result.verdict == Verdict::Inconclusive && result.attempts < ATTEMPTS {
            // Most often contiguous free memory is missing. A kernel that refuses leaves things as they are.
            let _ = std::fs::write("/proc/sys/vm/compact_memory", "1");
            let attempts = result.attempts + 1;
            result = CaseResult { attempts, ..host.attempt(case, &program, options, &mut not_put_back) };
        }
        sink(&result);
        results.push(result);
    }
    not_put_back.extend(told(host.finish()));
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    Ok(Report { kernel, cases: results, not_put_back })
}

/// Settings left alone and failures; settings put back are as they should be.
fn told(trouble: RestoreReport) -> Vec<String> {
    let RestoreReport { left, failed, .. } = trouble;
    let only = RestoreReport { left, failed, ..RestoreReport::default() };
    only.to_string().lines().map(str::to_owned).collect()
}

fn choose(only: &[String]) -> Result<Vec<&'static Case>, ConformanceError> {
    let matches = |case: &Case, wanted: &str| {
        let rest = case.name.strip_prefix(wanted);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '_']) || wanted.ends_with(['.', '_']))
    };
    if let Some(name) = only.iter().find(|name| !cases().any(|case| matches(case, name))) {
        return Err(ConformanceError::NoSuchCase { name: name.clone() });
    }
    Ok(cases().filter(|case| only.is_empty() || only.iter().any(|name| matches(case, name))).collect())
}

/// The settings of the host during a run.
struct Host {
    guard: Guard,
    /// Whether any case needs the pool.
    pool: bool,
    /// Whether a case changed more than the pool.
    changed: bool,
    /// What could not be put back on the way.
    trouble: RestoreReport,
    /// Pages of the pool that the cases shall not have.
    aside: Vec<Region>,
    /// The pool as it was made, or as others have left it since.
    made: Option<Counters>,
}

impl Drop for Host {
    fn drop(&mut self) {
        for region in &self.aside {
            // If this fails the pages are reserved until the end of the process, and then go all the same.
            let _ = region.unmap();
        }
    }
}

impl Host {
    fn new(guard: Guard) -> Self {
        Host { guard, pool: false, changed: false, trouble: RestoreReport::default(), aside: Vec::new(), made: None }
    }

    /// Puts everything back, and says what could not be.
    fn finish(mut self) -> RestoreReport {
        let mut trouble = std::mem::take(&mut self.trouble);
        trouble.merge(self.guard.restore());
        trouble
    }

    /// Gives the suite its pool on top of what others use of the one there is, if any case needs it.
    fn make_pool(&mut self) -> Result<(), ConformanceError> {
        // A host without such pages has the reason in each case that is skipped.
        let Some(found) = HUGE.read().ok().filter(|_| self.pool) else { return Ok(()) };
        self.set_aside(found.free - found.resv - i64::from(POOL_PAGES));
        let Ok(found) = HUGE.read() else { return Ok(()) };
        let used = (found.nr - found.free + found.resv).max(0);
        let pages = (used + i64::from(POOL_PAGES)).to_string();
        let overcommit = POOL_PAGES.to_string();
        self.guard.set_all([(POOL_KEY, pages.as_str()), (OVERCOMMIT_KEY, overcommit.as_str())])?;
        self.made = HUGE.read().ok();
        Ok(())
    }

    /// Reserves the free pages beyond those that the cases are written for. The pool is not made smaller instead: pages
    /// given back might not be available again. If the reserve cannot be made (a limit of a cgroup) the pool is made
    /// smaller after all.
    fn set_aside(&mut self, pages: i64) {
        if let Some(bytes) =
            usize::try_from(pages).ok().and_then(|pages| pages.checked_mul(HUGE.page)).filter(|n| *n > 0)
            && let Ok(region) = sys::map(bytes, libc::MAP_PRIVATE | HUGETLB, None)
        {
            self.aside.push(region);
        }
    }

    /// Runs a case once; the pool is as before it afterwards.
    fn attempt(
        &mut self,
        case: &'static Case,
        program: &Path,
        options: &Options,
        not_put_back: &mut Vec<String>,
    ) -> CaseResult {
        self.calm_down();
        let begun = Instant::now();
        let (answer, ran) = match self.prepare(case) {
            Ok(()) => {
                let mut set = |key: &str, value: &str| self.set(key, value);
                (supervise(program, case.name, &options.environment, options.limit, &mut set), true)
            }
            Err(stop) => (Answer::new(Err(stop), Vec::new()), false),
        };
        let duration_ns = if ran { begun.elapsed().as_nanos() as u64 } else { 0 };
        if let Err(error) = self.settle() {
            // Cases that need the pool are skipped from here on; those that came before are worth a report.
            not_put_back.push(format!("after {}: the pool was not made again: {error}", case.name));
        }
        CaseResult::new(case, answer, duration_ns)
    }

    /// Waits until the pool is as it was made: a process that a case left behind may still be giving its pages back. Where it does
    /// not become so, others have begun to use it: that is how it is from then on, and cases that mind say so.
    fn calm_down(&mut self) {
        let deadline = Instant::now() + CALM;
        while self.made.is_some() && HUGE.read().ok() != self.made {
            if Instant::now() >= deadline {
                self.made = HUGE.read().ok();
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Checks the requirements of a case, and makes its settings.
    fn prepare(&mut self, case: &Case) -> Result<(), Stop> {
        for need in case.needs {
            match *need {
                Need::Pool(pages) => has_pages(pages)?,
                Need::Gigantic(pages) => self.gigantic(pages)?,
                Need::Setting(key, value) => {
                    self.set(key, value).map_err(|why| Stop::skip(format!("setting `{key}` to {value}: {why}")))?;
                }
                Need::Thp => has("/sys/kernel/mm/transparent_hugepage/enabled", "transparent huge pages")?,
                Need::SysV => has("/proc/sysvipc/shm", "SysV shared memory")?,
            }
        }
        Ok(())
    }

    fn gigantic(&mut self, pages: u32) -> Result<(), Stop> {
        let Ok(found) = GIGANTIC.read() else {
            return Err(Stop::skip(
                "the kernel has no pool of 1 GiB pages; needed: a processor with pdpe1gb in /proc/cpuinfo",
            ));
        };
        let wanted = found.nr - found.free + found.resv + i64::from(pages);
        let skip = |why: String| Stop::skip(format!("{why}; type: pagelab hugepages set 1G {wanted}"));
        self.set(GIGANTIC_KEY, &wanted.to_string()).map_err(skip)?;
        let free = GIGANTIC.read().map_or(0, |now| now.free - now.resv);
        if free < i64::from(pages) {
            return Err(skip(format!(
                "found {free} free pages of 1 GiB, needed {pages}: the kernel found no more memory in one piece"
            )));
        }
        Ok(())
    }

    /// Sets one setting for the case at hand, and says what the kernel has now.
    fn set(&mut self, key: &str, value: &str) -> SetAnswer {
        self.changed = true;
        self.guard.set(key, value).map(|applied| applied.got).map_err(|error| error.to_string())
    }

    /// After a case: its changes are undone, and the pool is as before it.
    fn settle(&mut self) -> Result<(), ConformanceError> {
        if !std::mem::take(&mut self.changed) {
            return Ok(());
        }
        self.trouble.merge(self.guard.restore());
        self.make_pool()
    }
}

fn has(path: &str, what: &str) -> Result<(), Stop> {
    if Path::new(path).exists() {
        Ok(())
    } else {
        Err(Stop::skip(format!("the kernel has no {what} ({path} is not there)")))
    }
}

/// The pool's own pages come first, surplus pages for the rest.
fn has_pages(pages: u32) -> Result<(), Stop> {
    let now = HUGE.read().map_err(|why| Stop::skip(format!("no pool of 2 MiB pages: {why}")))?;
    let overcommit = settings::read(Path::new("/"), OVERCOMMIT_KEY).ok().and_then(|text| text.parse::<i64>().ok());
    let found = now.free - now.resv + overcommit.unwrap_or(0) - now.surplus;
    if found < i64::from(pages) {
        return Err(Stop::skip(format!(
            "found {found} free pages of 2 MiB ({now}), needed {pages}; type: pagelab hugepages set 2M {pages}"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_chosen_by_name_topic_and_beginning() {
        let names = |only: &[&str]| {
            let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
            choose(&only).map(|chosen| chosen.iter().map(|case| case.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]).expect("all").len(), cases().count());
        assert_eq!(names(&["accounting.pool_table"]).expect("one"), ["accounting.pool_table"]);
        let accounting = names(&["accounting"]).expect("a topic");
        assert!(accounting.len() > 5 && accounting.iter().all(|name| name.starts_with("accounting.")));
        let error = names(&["accounting.pool_tabl"]).expect_err("no such case").to_string();
        assert!(error.contains("accounting.pool_tabl"), "{error}");
    }

    #[test]
    fn verdicts_that_are_not_pass_have_a_reason() {
        let stop = has("/nowhere", "such thing").expect_err("not there");
        assert_eq!(stop.verdict, Verdict::Skip);
        assert!(stop.reason.contains("/nowhere"));
    }
}
