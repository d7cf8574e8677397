//! The agent's place behind what it watches.
//!
//! A recorder that begins or closes a recording needs a processor for a few tenths of a second, and a program that was there first would be
//! put off for as long. With a low weight it takes what others leave, and a small share of what they do not.

use std::fs;

use rustix::process::{getpid, getpriority_process, getsid, setpriority_process};

/// Lowers the priority of this process, and of all that it starts, to `nice` or to what it has if that is lower.
///
/// Where sessions are groups of their own (`kernel.sched_autogroup_enabled`), nice values count within one alone: then the session's
/// is lowered, too, if the session is the agent's. Groups of systemd have `CPUWeight` for the same.
///
/// # Errors
/// The kernel refuses it, in words.
pub(crate) fn step_back(nice: i32) -> Result<(), String> {
    let nice = getpriority_process(None).map_or(nice, |now| now.max(nice));
    setpriority_process(None, nice).map_err(|error| format!("nice {nice}: {error}"))?;
    if getsid(None) == Ok(getpid()) {
        // Kernels without such groups have no such file.
        let _ = fs::write("/proc/self/autogroup", nice.to_string());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_is_lowered_and_never_raised() {
        let nice = || getpriority_process(None).expect("our own");
        let before = nice();
        step_back(before.max(0) + 1).expect("lower is always allowed");
        assert_eq!(nice(), before.max(0) + 1);
        step_back(before).expect("nothing to do");
        assert_eq!(nice(), before.max(0) + 1);
    }
}
