//! Where and how a worker runs: CPUs, priorities, locked memory.

use pagelab_fiojob::JobSpec;
use pagelab_fiojob::contents::NumaMode;
use pagelab_fiojob::words::{CpusAllowedPolicy, PrioClass};
use rustix::process::{Resource, getrlimit, setrlimit};

use super::task::Task;
use crate::error::LoadError;

/// Puts the calling worker into the surroundings that its job asks for.
///
/// # Errors
/// The kernel refuses one of them.
pub(super) fn enter(task: &Task<'_>) -> Result<(), LoadError> {
    let job = task.job;
    if task.plan.files.len() > 1 {
        // Each open file takes a descriptor; the hard limit is what the user really allows.
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = limit.maximum;
        // Without it, opening says so.
        let _ = setrlimit(Resource::Nofile, limit);
    }
    let cpus = cpus(job)?;
    if !cpus.is_empty() {
        let own = match job.options.cpus_allowed_policy {
            CpusAllowedPolicy::Shared => cpus.clone(),
            CpusAllowedPolicy::Split => {
                // Counted over all workers, as in fio.
                cpus.get(task.plan.index % cpus.len()).copied().into_iter().collect()
            }
        };
        set_cpus(job, &own)?;
    }
    set_memory_policy(job)?;
    set_priorities(job)?;
    lock_memory(job)
}

/// `numa_mem_policy`, by set_mempolicy(2) for the calling thread.
fn set_memory_policy(job: &JobSpec) -> Result<(), LoadError> {
    let policy = &job.options.numa_mem_policy;
    // The numbers of linux/mempolicy.h.
    let mode = match policy.mode {
        None => return Ok(()),
        Some(NumaMode::Default) => 0_u64,
        Some(NumaMode::Prefer) => 1,
        Some(NumaMode::Bind) => 2,
        Some(NumaMode::Interleave) => 3,
        Some(NumaMode::Local) => 4,
    };
    let mut mask = [0_u64; 16];
    for node in &policy.nodes.0 {
        if let Some(word) = mask.get_mut(*node as usize / 64) {
            *word |= 1 << (node % 64);
        }
    }
    // The kernel uses one bit fewer than it is passed.
    let (start, bits) =
        if policy.nodes.0.is_empty() { (std::ptr::null(), 0) } else { (mask.as_ptr(), 64 * mask.len() + 1) };
    // SAFETY: the mask has the announced length less one, or is none at all; the call only reads it.
    if unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, start, bits) } == 0 {
        return Ok(());
    }
    let online = std::fs::read_to_string("/sys/devices/system/node/online").unwrap_or_default();
    Err(LoadError::Host {
        what: format!("job '{}': numa_mem_policy", job.name),
        found: format!("nodes {}: {}", online.trim(), std::io::Error::last_os_error()),
        needed: format!("nodes {:?}", policy.nodes.0),
        command: "name nodes that are online: cat /sys/devices/system/node/online".to_owned(),
    })
}

/// The CPUs that a job names; empty if it names none.
fn cpus(job: &JobSpec) -> Result<Vec<u32>, LoadError> {
    let o = &job.options;
    let mut cpus = o.cpus_allowed.0.clone();
    if let (true, Some(mask)) = (cpus.is_empty(), o.cpumask) {
        cpus = (0..64).filter(|cpu| mask >> cpu & 1 == 1).collect();
    }
    if !o.numa_cpu_nodes.0.is_empty() {
        let mut of_nodes = Vec::new();
        for node in &o.numa_cpu_nodes.0 {
            let path = format!("/sys/devices/system/node/node{node}/cpulist");
            let list = std::fs::read_to_string(&path).map_err(|error| {
                LoadError::system(format!("job '{}': numa_cpu_nodes={node}: reading {path}", job.name), error)
            })?;
            let mut set = pagelab_fiojob::contents::NumberSet::default();
            // A node without CPUs has an empty list.
            if pagelab_fiojob::value::OptionValue::assign(
                &mut set,
                &list,
                pagelab_fiojob::units::ParseContext::default(),
            )
            .is_ok()
            {
                of_nodes.extend(set.0);
            }
        }
        cpus = if cpus.is_empty() { of_nodes } else { cpus.into_iter().filter(|cpu| of_nodes.contains(cpu)).collect() };
        if cpus.is_empty() {
            return Err(LoadError::Target {
                job: job.name.clone(),
                reason: "numa_cpu_nodes and cpus_allowed leave no CPU".to_owned(),
            });
        }
    }
    Ok(cpus)
}

fn set_cpus(job: &JobSpec, cpus: &[u32]) -> Result<(), LoadError> {
    let mut set = rustix::thread::CpuSet::new();
    for cpu in cpus {
        set.set(*cpu as usize);
    }
    rustix::thread::sched_setaffinity(None, &set).map_err(|error| LoadError::Host {
        what: format!("job '{}': cpus_allowed", job.name),
        found: format!(
            "CPUs {}: {error}",
            std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default().trim()
        ),
        needed: format!("one of {cpus:?}"),
        command: "name CPUs that are online and that this process may use: taskset -p $$".to_owned(),
    })
}

fn set_priorities(job: &JobSpec) -> Result<(), LoadError> {
    let o = &job.options;
    if o.nice != 0 {
        let nice = i32::try_from(o.nice).unwrap_or(i32::MAX);
        rustix::process::nice(nice)
            .map_err(|error| LoadError::system(format!("job '{}': nice={nice}", job.name), error))?;
    }
    if o.prioclass != PrioClass::None || o.prio.is_some() {
        const WHO_PROCESS: libc::c_int = 1;
        const CLASS_SHIFT: u64 = 13;
        // As in fio a priority alone means the best-effort class of a process without class.
        let class = match o.prioclass {
            PrioClass::Realtime => 1_u64,
            PrioClass::None | PrioClass::BestEffort => 2,
            PrioClass::Idle => 3,
        };
        let value = class << CLASS_SHIFT | o.prio.unwrap_or(0);
        // SAFETY: a plain system call on the calling thread (0).
        if unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, value) } != 0 {
            let what = format!("job '{}': prioclass={class} prio={}", job.name, o.prio.unwrap_or(0));
            return Err(LoadError::system(what, std::io::Error::last_os_error()));
        }
    }
    Ok(())
}

fn lock_memory(job: &JobSpec) -> Result<(), LoadError> {
    let bytes = job.options.lockmem.0;
    if bytes == 0 {
        return Ok(());
    }
    let host = |error: rustix::io::Errno| {
        let limit = getrlimit(Resource::Memlock).current;
        LoadError::Host {
            what: format!("job '{}': lockmem={bytes}", job.name),
            found: format!(
                "{} bytes that may be locked (RLIMIT_MEMLOCK): {error}",
                limit.map_or_else(|| "any number of".to_owned(), |limit| limit.to_string())
            ),
            needed: format!("{bytes} for each worker"),
            command: format!("ulimit -l {}, or run as root, or lower lockmem=", bytes.div_ceil(1024)),
        }
    };
    let len = usize::try_from(bytes).unwrap_or(usize::MAX);
    // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing. It is left to the end of the worker: that is what
    // the option is for.
    unsafe {
        let start = rustix::mm::mmap_anonymous(
            std::ptr::null_mut(),
            len,
            rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE,
            rustix::mm::MapFlags::PRIVATE,
        )
        .map_err(host)?;
        rustix::mm::mlock(start, len).map_err(host)
    }
}
