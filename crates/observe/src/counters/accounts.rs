//! The software events as the kernel itself counts them of every task, without an event on any (`bpf/accounts.bpf.c`).
//!
//! How they differ from perf's events of the same names:
//!
//! | event | the account | differs from perf's by |
//! |---|---|---|
//! | `task-clock` | `se.sum_exec_runtime` | the end of a task's exit, which perf does not count; of tasks that run at the time of reading, what they ran since the last tick |
//! | `context-switches` | `nvcsw + nivcsw` | each task's last, which perf does not count |
//! | `cpu-migrations` | `se.nr_migrations` | nothing |
//! | `minor-faults`, `major-faults` | `min_flt`, `maj_flt` | pages that the kernel touched for a task (arguments of exec, buffers of direct I/O), which perf does not count |
//! | `page-faults` | the faults that the stream `faults` has seen | nothing |

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use libbpf_rs::Link;
use libbpf_rs::skel::OpenSkel;
use perf_event::events::Software;

use super::events::Code;
use crate::bpf::{BpfError, attach_all, include_skeleton, not_loaded, open, refused, refused_io, share, walk_tasks};

include_skeleton!("accounts");

use skeleton::{AccountsSkel, AccountsSkelBuilder};

const NEEDED: &str = "raw tracepoints with BTF, task storage and iterators over tasks (Linux 5.11)";

/// A task is freed a grace period of RCU after its parent has asked for it; that is some ticks of the kernel's clock, and
/// more than 200 ms where processors are busy and other probes come and go.
const FREED_WITHIN: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Sums over all tasks of the tree, from the beginning of recording.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Accounts {
    /// Time on a CPU, ns.
    pub runtime_ns: u64,
    /// Context switches, voluntary and not.
    pub switches: u64,
    /// Times that a task was moved to another CPU.
    pub migrations: u64,
    /// Page faults that needed no I/O.
    pub minor_faults: u64,
    /// Page faults that did.
    pub major_faults: u64,
    /// Tasks that have ended and of which the sums lack the last steps: giving back memory and files. They were not seen freed
    /// (`bpf/accounts.bpf.c` says why).
    pub tasks_unfinished: u64,
}

impl Accounts {
    /// The count of one of perf's events. None for events that there is no account of, and for page faults, which are
    /// counted where they are recorded.
    pub fn of(&self, code: Code) -> Option<u64> {
        match code {
            Code::Software(Software::TASK_CLOCK) => Some(self.runtime_ns),
            Code::Software(Software::CONTEXT_SWITCHES) => Some(self.switches),
            Code::Software(Software::CPU_MIGRATIONS) => Some(self.migrations),
            Code::Software(Software::PAGE_FAULTS_MIN) => Some(self.minor_faults),
            Code::Software(Software::PAGE_FAULTS_MAJ) => Some(self.major_faults),
            _ => None,
        }
    }
}

/// The loaded programs.
pub struct TaskAccounts {
    links: Vec<Link>,
    walk: Link,
    skel: AccountsSkel<'static>,
}

impl TaskAccounts {
    /// Loads the programs, attaches them and reads where each task stands; `task_states` says which tasks are recorded
    /// (`bpf/membership.bpf.h`).
    ///
    /// # Errors
    /// The kernel refuses to load or to attach them.
    pub fn attach(task_states: BorrowedFd<'_>) -> Result<Self, BpfError> {
        let mut open = open::<AccountsSkelBuilder>(NEEDED)?;
        share(&mut open.maps.task_states, task_states, NEEDED)?;
        if let Some(bss) = open.maps.bss_data.as_deref_mut() {
            bss.first_walk = 1;
        }
        let skel = open.load().map_err(not_loaded)?;
        let programs = [
            ("sched_process_exec", &skel.progs.account_begins),
            ("sched_process_exit", &skel.progs.account_ends),
            ("sched_process_free", &skel.progs.account_is_final),
        ];
        let links = attach_all(programs, NEEDED)?;
        let walk = skel.progs.count_tasks.attach().map_err(refused("task iterator", NEEDED))?;
        let mut accounts = Self { links, walk, skel };
        accounts.walk().map_err(refused_io("walking over the tasks", NEEDED))?;
        if let Some(bss) = accounts.skel.maps.bss_data.as_deref_mut() {
            bss.first_walk = 0;
        }
        Ok(accounts)
    }

    /// What there is by now.
    ///
    /// # Errors
    /// The kernel could not walk over its tasks.
    pub fn read(&mut self) -> io::Result<Accounts> {
        self.walk()?;
        let bss = self.skel.maps.bss_data.as_deref().ok_or_else(|| io::Error::other("the programs' data is gone"))?;
        Ok(Accounts {
            runtime_ns: bss.total.runtime_ns,
            switches: bss.total.switches,
            migrations: bss.total.migrations,
            minor_faults: bss.total.minor_faults,
            major_faults: bss.total.major_faults,
            tasks_unfinished: bss.tasks_exited.saturating_sub(bss.tasks_freed + bss.tasks_dead),
        })
    }

    /// What there is when all tasks that have ended are freed, or soon will not be; detaches the programs.
    ///
    /// # Errors
    /// As [`TaskAccounts::read`].
    pub fn finish(&mut self) -> io::Result<Accounts> {
        let begun = Instant::now();
        let last = loop {
            let read = self.read()?;
            if read.tasks_unfinished == 0 || begun.elapsed() > FREED_WITHIN {
                break read;
            }
            std::thread::sleep(LOOK_AGAIN);
        };
        self.links.clear();
        Ok(last)
    }

    fn walk(&mut self) -> io::Result<()> {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.tasks_dead = 0;
        }
        walk_tasks(&self.walk)
    }
}
