//! Runs a program unchanged on huge pages, and looks at the pages it got.
//!
//! | part | how | what it needs |
//! |---|---|---|
//! | heap, `thp` | `GLIBC_TUNABLES=glibc.malloc.hugetlb=1`: malloc advises its memory | glibc 2.35, THP not `never` |
//! | heap, `thp`, always | `thp.enabled=always` while the program runs, put back by the guard; malloc grows in large steps | root |
//! | heap, `hugetlb` | `glibc.malloc.hugetlb=2`: malloc maps from the pool | glibc 2.35, pages in the pool |
//! | shared memory, `thp` | `thp.shmem_enabled=always` while the program runs, put back by the guard | root |
//! | System V segments, `hugetlb` | a preloaded shmget asks for them with SHM_HUGETLB | a dynamic program, pages in the pool |
//! | text, data | refused | they would have to be copied at start by code inside the program |
//!
//! Only the System V part preloads a library: a segment has pages of the pool if its maker passes SHM_HUGETLB, and no
//! setting of the host stands in for that. If the pool refuses a segment, it is made as the program meant it, and
//! reported.
//!
//! That malloc finds the host's mode is not certain: glibc 2.35 and 2.36 read `transparent_hugepage/enabled` into memory
//! without an end mark and compare it as a text, so that it depends on what lay there before. With Debian's 2.36 it went
//! well in about half of the starts. What became of it is looked at each time; `always` does not depend on it.
//!
//! What the program has is read from smaps while it runs, for it and its children. A look is taken whenever an eighth of
//! the time since the start has passed, at least four times a second, so that the last one is never far from the end.

mod memory;
mod program;
mod report;
mod shm;

use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use pagelab_vocab::settings::format_size;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags};
use serde::Serialize;

pub use memory::Memory;
pub use report::{ExecReport, Exit, Verdict};
pub use shm::Segments;

use self::program::{Kind, NEEDED, Program};
use self::shm::Preload;
use super::{HugetlbError, PoolState};
use crate::facts::default_huge_page_bytes;
use crate::guard::{Guard, GuardOptions, RestoreReport};
use crate::process::ProcessSettings;
use crate::settings;

/// Where the heap shall lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Heap {
    /// Transparent huge pages.
    Thp,
    /// Pages of the hugetlb pool.
    Hugetlb,
}

/// Where shared memory shall lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Shm {
    /// Transparent huge pages: System V segments, memfd, shared anonymous maps.
    Thp,
    /// Pages of the hugetlb pool: System V segments alone.
    Hugetlb,
}

/// What to run, and what of it to put on huge pages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecRequest {
    /// The heap: what malloc gives out.
    pub heap: Option<Heap>,
    /// Let the host give huge pages to all that can have them while the program runs (`thp.enabled=always`), with a heap
    /// on THP. It does not depend on what malloc finds out, and reaches other allocators; and other programs, too.
    pub always: bool,
    /// Page size of the pool that heap and segments come from, in bytes; the host's default size if none.
    pub page_bytes: Option<u64>,
    /// Shared memory.
    pub shm: Option<Shm>,
    /// The program's code: always refused, with the reason.
    pub text: bool,
    /// The program's static data: always refused, with the reason.
    pub data: bool,
    /// Program and arguments.
    pub command: Vec<OsString>,
}

/// Between two looks at most, and at least.
const SELDOM: Duration = Duration::from_millis(250);
const OFTEN: Duration = Duration::from_millis(1);

const TUNABLE: &str = "glibc.malloc.hugetlb";

/// How much malloc takes from the kernel at once, where the kernel gives huge pages unasked: it does so only where all of a
/// huge page's range is mapped at the first touch, and by default the heap grows by 132 KiB.
const STEP: (&str, u64) = ("glibc.malloc.top_pad", 32 << 20);

/// Runs the program, waits for its end, puts back the settings changed for it, and reports the pages it got.
///
/// # Errors
/// A part that cannot be had, with the reason: nothing was run then. A program that cannot be started; a setting that
/// cannot be changed.
pub fn exec(request: &ExecRequest, options: GuardOptions) -> Result<ExecReport, HugetlbError> {
    refuse_parts(request)?;
    let Some((name, arguments)) = request.command.split_first() else {
        return Err(HugetlbError::Program {
            program: "no command".to_owned(),
            reason: "found none after --".to_owned(),
        });
    };
    let root = options.root.clone();
    let program = Program::find(name)?;
    let mut notes = Vec::new();
    let environment = match request.heap {
        Some(heap) => Some(heap_environment(&root, request, heap, &program, &mut notes)?),
        None => None,
    };
    let settings = process_settings(environment.as_deref(), &mut notes)?;
    let wanted = host_settings(&root, request);
    let mut guard = None;
    let mut host_changes = Vec::new();
    if !wanted.is_empty() {
        let mut open = Guard::open_with(options)?;
        host_changes = open.set_all(wanted)?;
        guard = Some(open);
    }
    let preload = shared_memory(&root, request, &program, &mut notes)?;
    let mut command = Command::new(name);
    command.args(arguments).envs(settings.env()).envs(preload.iter().flat_map(Preload::environment));
    let in_child = settings.clone();
    // SAFETY: apply_in_child makes system calls and nothing else.
    unsafe { command.pre_exec(move || in_child.apply_in_child()) };
    let child = command.spawn().map_err(|error| HugetlbError::Program {
        program: name.to_string_lossy().into_owned(),
        reason: settings::plain(&error),
    })?;
    let watched = watch(&root, child);
    let restored = guard.map_or_else(RestoreReport::default, Guard::close);
    let watched = watched.map_err(|error| HugetlbError::unreadable("waiting for the program", &error))?;
    let segments = preload.map(Preload::segments).transpose();
    let segments = segments.map_err(|error| HugetlbError::unreadable("records of shmget", &error))?;
    let seen = ExecReport::seen(request, &root, &program.file, &watched, segments);
    Ok(ExecReport { glibc_tunables: environment, host_changes, restored, notes, ..seen })
}

fn refuse_parts(request: &ExecRequest) -> Result<(), HugetlbError> {
    let why = |what: &str| {
        format!(
            "{what} mapped from the file by the kernel and the loader; to move it, code inside the program has to copy it at start, \
             and pagelab puts no code into programs"
        )
    };
    if request.text {
        return Err(HugetlbError::Part {
            part: "text",
            why: why("code is"),
            instead: "on a kernel with CONFIG_READ_ONLY_THP_FOR_FS put the program on ext4 or xfs, link it with \
                      -Wl,-z,max-page-size=2097152, and khugepaged collapses it; or leave --text out"
                .to_owned(),
        });
    }
    if request.data {
        return Err(HugetlbError::Part {
            part: "data",
            why: why("static data is"),
            instead: "let the program allocate large tables (then --heap thp), or leave --data out".to_owned(),
        });
    }
    if request.heap.is_none() && request.shm.is_none() {
        return Err(HugetlbError::Contradiction {
            found: "nothing to put on huge pages".to_owned(),
            needed: "--heap thp, --heap hugetlb, --shm or --shm=hugetlb".to_owned(),
        });
    }
    Ok(())
}

/// The value of GLIBC_TUNABLES for the heap, after a look at whether it can act.
fn heap_environment(
    root: &Path,
    request: &ExecRequest,
    heap: Heap,
    program: &Program,
    notes: &mut Vec<String>,
) -> Result<String, HugetlbError> {
    check_malloc(program, request.always, notes)?;
    let present = std::env::var("GLIBC_TUNABLES").unwrap_or_default();
    let mode = settings::read(root, "thp.enabled").unwrap_or_default();
    match heap {
        Heap::Thp if request.always || mode == "always" => {
            let present = tunables(&present, TUNABLE, 1);
            // Whoever has set it knows the program better.
            Ok(if present.contains(STEP.0) { present } else { tunables(&present, STEP.0, STEP.1) })
        }
        Heap::Thp => {
            if mode == "never" {
                notes.push(
                    "thp.enabled is never, needed madvise or always: the heap will be on base pages; type: \
                     echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
                        .to_owned(),
                );
            }
            Ok(tunables(&present, TUNABLE, 1))
        }
        Heap::Hugetlb => Ok(tunables(&present, TUNABLE, hugetlb_value(root, request)?)),
    }
}

/// The tunable added to those that are set already, in place of one of the same name.
fn tunables(present: &str, name: &str, value: u64) -> String {
    let ours = format!("{name}={value}");
    let same = |part: &str| part.split('=').next() == Some(name);
    let others = present.split(':').filter(|part| !part.is_empty() && !same(part));
    others.map(str::to_owned).chain([ours]).collect::<Vec<_>>().join(":")
}

/// Refuses a malloc that does not heed the variable, unless the host gives huge pages unasked.
fn check_malloc(program: &Program, always: bool, notes: &mut Vec<String>) -> Result<(), HugetlbError> {
    let file = program.file.display();
    let needed = format!("needed glibc {}.{} or later", NEEDED.0, NEEDED.1);
    let mut refuse = |found: String| {
        let why = format!("{found}, {needed}, whose malloc heeds {TUNABLE}");
        if always {
            notes.push(format!("{why}; what it maps in large pieces can have huge pages all the same"));
            return Ok(());
        }
        let instead = "run it on a newer distribution, or with --heap thp --always".to_owned();
        Err(HugetlbError::Part { part: "heap", why, instead })
    };
    match &program.kind {
        Kind::Glibc(major, minor) if (*major, *minor) < NEEDED => {
            return refuse(format!("{file} runs with glibc {major}.{minor}"));
        }
        Kind::Glibc(..) => {}
        Kind::Loader(loader) => {
            return refuse(format!("{file} runs with {}, which says no version of glibc", loader.display()));
        }
        Kind::Static => {
            notes.push(format!("{file} has its malloc linked in; only one of glibc heeds the variable, {needed}"));
        }
        Kind::Unknown(why) => notes.push(format!("{file}: which malloc it has could not be found out ({why})")),
    }
    if program.is_setuid {
        notes.push(format!("{file} changes its user: the loader then ignores the variable"));
    }
    Ok(())
}

/// 2 for the default size, else the size in bytes; after a look at whether there is a page at all.
fn hugetlb_value(root: &Path, request: &ExecRequest) -> Result<u64, HugetlbError> {
    let page_bytes = pool_with_room(root, request, "heap")?;
    Ok(if default_huge_page_bytes(root) == Some(page_bytes) { 2 } else { page_bytes })
}

/// What is preloaded for the shared memory, if anything is.
fn shared_memory(
    root: &Path,
    request: &ExecRequest,
    program: &Program,
    notes: &mut Vec<String>,
) -> Result<Option<Preload>, HugetlbError> {
    match request.shm {
        None => Ok(None),
        Some(Shm::Thp) => {
            let note = "/dev/shm and other mounts of tmpfs keep their own huge= (type: mount -o remount,huge=advise /dev/shm); \
                        segments are on transparent huge pages (on those of the pool: --shm=hugetlb)";
            notes.push(note.to_owned());
            Ok(None)
        }
        Some(Shm::Hugetlb) => {
            let preload = Preload::new(program, pool_with_room(root, request, "shared memory")?)?;
            notes.push(preload.note());
            Ok(Some(preload))
        }
    }
}

/// The page size of the pool that is meant, in bytes; refused if it has no page to give.
fn pool_with_room(root: &Path, request: &ExecRequest, part: &'static str) -> Result<u64, HugetlbError> {
    let Some(page_bytes) = request.page_bytes.or_else(|| default_huge_page_bytes(root)) else {
        return Err(HugetlbError::NoPools { path: super::pools::POOLS.to_owned() });
    };
    let pool = PoolState::read(root, page_bytes)?;
    let room =
        pool.free_pages.saturating_sub(pool.reserved_pages) + pool.overcommit_pages.saturating_sub(pool.surplus_pages);
    if room == 0 {
        let size = format_size(page_bytes);
        return Err(HugetlbError::Part {
            part,
            why: format!("found no free page of {size} in the pool ({} in all), needed at least 1", pool.total_pages),
            instead: format!("type: pagelab hugepages set {size} N"),
        });
    }
    Ok(page_bytes)
}

/// What the program gets between fork and exec.
fn process_settings(environment: Option<&str>, notes: &mut Vec<String>) -> Result<ProcessSettings, HugetlbError> {
    let mut pairs: Vec<(&str, &str)> = environment.map(|value| ("env.GLIBC_TUNABLES", value)).into_iter().collect();
    // SAFETY: prctl with PR_GET_THP_DISABLE takes no pointers.
    if unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) } > 0 {
        pairs.push(("mm.thp_disable", "0"));
        notes.push(
            "transparent huge pages were switched off for this process (prctl); they are on for the program".to_owned(),
        );
    }
    let settings = ProcessSettings::from_pairs(pairs).map_err(crate::guard::GuardError::from)?;
    Ok(settings)
}

/// What of the host has to be different while the program runs.
fn host_settings(root: &Path, request: &ExecRequest) -> Vec<(&'static str, &'static str)> {
    let is = |key: &str, words: &[&str]| settings::read(root, key).is_ok_and(|word| words.contains(&word.as_str()));
    let mut wanted = Vec::new();
    let mut want = |key, word, good: &[&str]| {
        if !is(key, good) {
            wanted.push((key, word));
        }
    };
    // Below the switch for all there is one for each size on newer kernels (6.8, for shared memory 6.11); before, there is
    // no such file.
    let has = |key: &str| settings::read(root, key).is_ok();
    if request.heap == Some(Heap::Thp) && request.always {
        want("thp.enabled", "always", &["always"]);
        if has("thp.2M.enabled") {
            want("thp.2M.enabled", "inherit", &["inherit", "always"]);
        }
    }
    if request.shm == Some(Shm::Thp) {
        want("thp.shmem_enabled", "always", &["always", "force"]);
        if has("thp.2M.shmem_enabled") {
            want("thp.2M.shmem_enabled", "inherit", &["inherit", "always"]);
        }
    }
    wanted
}

/// Observations of a program.
pub(crate) struct Watched {
    exit: ExitStatus,
    elapsed: Duration,
    looks: u32,
    /// How long before the end the last look was.
    last_look: Option<Duration>,
    last: Option<Memory>,
    peak: Option<Memory>,
    /// Most processes that were there at once.
    processes: u32,
}

/// Looks at a program until it ends.
fn watch(root: &Path, mut child: Child) -> std::io::Result<Watched> {
    let start = Instant::now();
    let pid = child.id();
    let ended = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let ended = ended.and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
    let (mut looks, mut processes) = (0, 0);
    let (mut last, mut peak): (Option<Memory>, Option<Memory>) = (None, None);
    let mut looked_at = start;
    loop {
        if let Some((memory, count)) = memory::of_tree(root, pid) {
            looked_at = Instant::now();
            looks += 1;
            processes = processes.max(count);
            last = Some(memory);
            peak.get_or_insert(memory).raise_to(memory);
        }
        let pause = (start.elapsed() / 8).clamp(OFTEN, SELDOM);
        match &ended {
            Some(ended) => {
                let limit = Timespec::try_from(pause).ok();
                // Woken early by a signal it looks once more, which does no harm.
                let _ = poll(&mut [PollFd::new(ended, PollFlags::IN)], limit.as_ref());
            }
            None => std::thread::sleep(pause),
        }
        if let Some(exit) = child.try_wait()? {
            let last_look = last.map(|_| looked_at.elapsed());
            return Ok(Watched { exit, elapsed: start.elapsed(), looks, last_look, last, peak, processes });
        }
    }
}

impl Watched {
    fn exit(&self) -> Exit {
        Exit { code: self.exit.code(), signal: self.exit.signal() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tunable_joins_those_that_are_set() {
        assert_eq!(tunables("", TUNABLE, 1), "glibc.malloc.hugetlb=1");
        assert_eq!(
            tunables("glibc.malloc.arena_max=1:glibc.malloc.hugetlb=1", TUNABLE, 2),
            "glibc.malloc.arena_max=1:glibc.malloc.hugetlb=2"
        );
    }

    #[test]
    fn parts_that_cannot_be_had_are_refused_by_name() {
        let refused = |request: ExecRequest| exec(&request, GuardOptions::default()).expect_err("refused").to_string();
        let command = vec![OsString::from("true")];
        let text = refused(ExecRequest { text: true, command: command.clone(), ..ExecRequest::default() });
        assert!(text.starts_with("text on huge pages: refused"), "{text}");
        let data = refused(ExecRequest { data: true, command: command.clone(), ..ExecRequest::default() });
        assert!(data.starts_with("data on huge pages: refused"), "{data}");
        let nothing = refused(ExecRequest { command, ..ExecRequest::default() });
        assert!(nothing.contains("--heap thp"), "{nothing}");
        let none = refused(ExecRequest { heap: Some(Heap::Thp), ..ExecRequest::default() });
        assert!(none.contains("found none after --"), "{none}");
    }

    #[test]
    fn malloc_that_does_not_heed_the_variable_is_told() {
        let program = |kind| Program { file: "/bin/x".into(), kind, is_setuid: false };
        let check = |kind, always| {
            let mut notes = Vec::new();
            check_malloc(&program(kind), always, &mut notes).map(|()| notes).map_err(|error| error.to_string())
        };
        assert_eq!(check(Kind::Glibc(2, 35), false), Ok(vec![]));
        let old = check(Kind::Glibc(2, 34), false).expect_err("too old");
        assert!(old.contains("glibc 2.34, needed glibc 2.35"), "{old}");
        let other = check(Kind::Loader("/lib/ld-musl-x86_64.so.1".into()), false).expect_err("not glibc");
        assert!(other.contains("ld-musl"), "{other}");
        assert_eq!(check(Kind::Static, false).map(|notes| notes.len()), Ok(1));
        // Where the host gives huge pages unasked it is no obstacle, but worth saying.
        assert_eq!(check(Kind::Glibc(2, 34), true).map(|notes| notes.len()), Ok(1));
    }

    #[test]
    fn an_end_is_handed_on() {
        let run = |script: &str| {
            let request = ExecRequest {
                heap: Some(Heap::Thp),
                command: ["sh", "-c", script].map(OsString::from).to_vec(),
                ..ExecRequest::default()
            };
            exec(&request, GuardOptions::default()).expect("runs").exit
        };
        assert_eq!(run("exit 7"), Exit { code: Some(7), signal: None });
        assert_eq!(run("kill -9 $$"), Exit { code: None, signal: Some(9) });
    }
}
