//! How the scheduler treats a process: `task.nice`, `task.policy`, `task.affinity`, `task.io_priority`. One form of each value, for
//! what is read of a process and for what a plan gives to the one it starts.

use std::io;

use rustix::process::{getpid, getpriority_process, getsid, setpriority_process};
use rustix::thread::CpuSet;

use crate::files::cpu_list;

/// Lowers the priority of this process, and of all that it starts, to `nice`, unless it is as low already.
///
/// Where sessions are groups of the scheduler (`kernel.sched_autogroup_enabled`), nice values count within one alone: then the
/// session's is lowered as well, if it is this process's own (sched(7), "The autogroup feature").
///
/// # Errors
/// The kernel refuses it.
pub fn step_back(nice: i32) -> io::Result<()> {
    let nice = getpriority_process(None).map_or(nice, |now| now.max(nice));
    setpriority_process(None, nice)?;
    if getsid(None) == Ok(getpid()) {
        // Kernels without such groups have no such file.
        let _ = std::fs::write("/proc/self/autogroup", nice.to_string());
    }
    Ok(())
}

/// The settings, as far as they are given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Scheduling {
    nice: Option<i32>,
    policy: Option<(libc::c_int, libc::c_int)>,
    affinity: Option<CpuSet>,
    io_priority: Option<u16>,
}

/// Policies by the kernel's numbers (include/uapi/linux/sched.h), and whether a priority belongs to them.
const POLICIES: &[(&str, libc::c_int, bool)] = &[
    ("other", libc::SCHED_OTHER, false),
    ("fifo", libc::SCHED_FIFO, true),
    ("rr", libc::SCHED_RR, true),
    ("batch", libc::SCHED_BATCH, false),
    ("idle", libc::SCHED_IDLE, false),
    ("deadline", libc::SCHED_DEADLINE, false),
    ("ext", 7, false),
];

/// Classes of requests by the kernel's numbers (include/uapi/linux/ioprio.h), and whether a level belongs to them.
const IO_CLASSES: &[(&str, u16, bool)] =
    &[("none", 0, false), ("realtime", 1, true), ("best-effort", 2, true), ("idle", 3, false)];
const IO_CLASS_SHIFT: u32 = 13;
const IO_LEVELS: u16 = 8;
const WHO_PROCESS: libc::c_int = 1;

impl Scheduling {
    /// Takes one of the settings by its name below `task.`; the error says what is needed instead.
    pub(crate) fn take(&mut self, name: &str, value: &str) -> Result<(), &'static str> {
        let value = value.trim();
        match name {
            "nice" => {
                let nice = value.parse().ok().filter(|nice| (-20..=19).contains(nice));
                self.nice = Some(nice.ok_or("a number from -20 to 19")?);
            }
            "policy" => {
                let needed = "other, batch, idle, fifo:N or rr:N with N from 1 to 99";
                self.policy = Some(policy(value).ok_or(needed)?);
            }
            "affinity" => self.affinity = Some(cpu_set(value).ok_or("a list of processors such as 0-3,8")?),
            _ => {
                let needed = "none, idle, realtime:N or best-effort:N with N from 0 to 7";
                self.io_priority = Some(io_priority(value).ok_or(needed)?);
            }
        }
        Ok(())
    }

    /// Gives the processors to another process, if they were asked for.
    pub(crate) fn set_affinity(&self, pid: u32) -> io::Result<()> {
        let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
        match &self.affinity {
            Some(cpus) => Ok(rustix::thread::sched_setaffinity(pid, cpus)?),
            None => Ok(()),
        }
    }

    /// Gives them to the calling thread, and so to what it executes and starts. Makes system calls only.
    ///
    /// # Errors
    /// What the kernel says: EPERM for a better nice value or a policy with a priority without CAP_SYS_NICE, EINVAL if none of the
    /// processors is there or allowed.
    pub(crate) fn apply(&self) -> io::Result<()> {
        if let Some(cpus) = &self.affinity {
            rustix::thread::sched_setaffinity(None, cpus)?;
        }
        if let Some((policy, priority)) = self.policy {
            // SAFETY: all zeros are a valid sched_param.
            let mut param: libc::sched_param = unsafe { std::mem::zeroed() };
            param.sched_priority = priority;
            // SAFETY: reads one sched_param, which is there.
            if unsafe { libc::sched_setscheduler(0, policy, &raw const param) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        if let Some(nice) = self.nice {
            rustix::process::setpriority_process(None, nice)?;
        }
        if let Some(value) = self.io_priority {
            // SAFETY: a plain system call on the calling thread (0).
            if unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, libc::c_int::from(value)) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }
}

fn policy(value: &str) -> Option<(libc::c_int, libc::c_int)> {
    let (word, priority) = value.split_once(':').map_or((value, None), |(word, priority)| (word, Some(priority)));
    let (_, number, has_priority) = POLICIES.iter().find(|(known, ..)| *known == word)?;
    let can_be_set = *has_priority || ["other", "batch", "idle"].contains(&word);
    let priority = match priority {
        Some(text) => text.parse().ok().filter(|priority| *has_priority && (1..=99).contains(priority))?,
        None if *has_priority => return None,
        None => 0,
    };
    can_be_set.then_some((*number, priority))
}

fn cpu_set(value: &str) -> Option<CpuSet> {
    let cpus = cpu_list(value).filter(|cpus| !cpus.is_empty())?;
    let mut set = CpuSet::new();
    for cpu in cpus {
        let cpu = usize::try_from(cpu).ok().filter(|cpu| *cpu < CpuSet::MAX_CPU)?;
        set.set(cpu);
    }
    Some(set)
}

fn io_priority(value: &str) -> Option<u16> {
    let (word, level) = value.split_once(':').map_or((value, None), |(word, level)| (word, Some(level)));
    let (_, class, has_level) = IO_CLASSES.iter().find(|(known, ..)| *known == word)?;
    let level = match level {
        Some(text) => text.parse().ok().filter(|level| *has_level && *level < IO_LEVELS)?,
        None if *has_level => return None,
        None => 0,
    };
    Some(class << IO_CLASS_SHIFT | level)
}

/// The word of a policy; its number where it has none.
pub(crate) fn policy_word(policy: i32, priority: u32) -> String {
    match POLICIES.iter().find(|(_, number, _)| *number == policy) {
        Some((word, _, true)) => format!("{word}:{priority}"),
        Some((word, ..)) => (*word).to_owned(),
        None => policy.to_string(),
    }
}

/// The priority of a process's requests, in words.
///
/// # Errors
/// What the kernel says: ESRCH if there is no such process.
pub(crate) fn io_priority_of(pid: u32) -> io::Result<String> {
    // SAFETY: a plain system call.
    let value = unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, pid) };
    let Ok(value) = u16::try_from(value) else { return Err(io::Error::last_os_error()) };
    let (class, level) = (value >> IO_CLASS_SHIFT, value & (IO_LEVELS - 1));
    Ok(match IO_CLASSES.iter().find(|(_, number, _)| *number == class) {
        Some((word, _, true)) => format!("{word}:{level}"),
        Some((word, ..)) => (*word).to_owned(),
        None => value.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_is_lowered_and_never_raised() {
        // Of this thread alone, as the kernel has it.
        let nice = || getpriority_process(None).expect("our own");
        let before = nice();
        // 19 is the lowest that there is: tests run at it, too.
        let lower = (before.max(0) + 1).min(19);
        step_back(lower).expect("lower is always allowed");
        assert_eq!(nice(), lower);
        step_back(before.min(lower - 1)).expect("nothing to do");
        assert_eq!(nice(), lower);
    }

    #[test]
    fn values_are_read_as_typed() {
        assert_eq!(policy("fifo:50"), Some((libc::SCHED_FIFO, 50)));
        assert_eq!(policy("batch"), Some((libc::SCHED_BATCH, 0)));
        for wrong in ["", "fifo", "fifo:0", "fifo:100", "other:1", "deadline", "nice"] {
            assert_eq!(policy(wrong), None, "{wrong:?}");
        }
        assert_eq!(io_priority("best-effort:7"), Some(2 << 13 | 7));
        assert_eq!(io_priority("idle"), Some(3 << 13));
        for wrong in ["", "best-effort", "best-effort:8", "idle:1", "realtime:-1"] {
            assert_eq!(io_priority(wrong), None, "{wrong:?}");
        }
        assert!(cpu_set("0-1").is_some_and(|set| set.count() == 2 && set.is_set(1)));
        for wrong in ["", "a", "1-0", "70000"] {
            assert!(cpu_set(wrong).is_none(), "{wrong:?}");
        }
        let mut scheduling = Scheduling::default();
        assert!(scheduling.take("nice", "20").is_err() && scheduling.take("nice", "-20").is_ok());
    }

    #[test]
    fn words_are_those_that_are_typed() {
        for word in ["other", "batch", "idle", "fifo:7", "rr:99"] {
            let (number, priority) = policy(word).expect("a policy");
            assert_eq!(policy_word(number, u32::try_from(priority).expect("not negative")), word);
        }
        assert_eq!(policy_word(42, 0), "42");
    }
}
