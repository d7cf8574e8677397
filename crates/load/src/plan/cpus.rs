//! Whether the CPUs that a job names exist on this machine.

use pagelab_fiojob::JobSpec;

use crate::error::LoadError;

/// As fio does, a list with one CPU that the machine does not have is refused as a whole: the kernel would take the rest of it, and
/// the job would run on fewer CPUs than it names.
///
/// # Errors
/// The option, the CPU and how many there are.
pub(super) fn exist(job: &JobSpec) -> Result<(), LoadError> {
    check(job, configured())
}

fn check(job: &JobSpec, configured: u32) -> Result<(), LoadError> {
    let o = &job.options;
    let of_mask = o.cpumask.map(|mask| u64::BITS - 1 - mask.leading_zeros().min(u64::BITS - 1));
    let highest = [("cpus_allowed", o.cpus_allowed.0.iter().copied().max()), ("cpumask", of_mask)];
    for (option, highest) in highest {
        let Some(cpu) = highest.filter(|cpu| *cpu >= configured) else { continue };
        let last = configured.saturating_sub(1);
        return Err(LoadError::Target {
            job: job.name.clone(),
            reason: format!(
                "{option}: CPU {cpu} too large (max={last}): this machine has CPUs 0 to {last}; `lscpu -e` lists them"
            ),
        });
    }
    Ok(())
}

/// CPUs that this machine may have, those that are offline included.
fn configured() -> u32 {
    // SAFETY: sysconf(3) reads a number of the system and touches no memory of ours.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    // A C library that does not know: no CPU is refused here, the kernel refuses lists without any that exists.
    u32::try_from(count).ok().filter(|count| *count > 0).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cpu_that_is_named_has_to_exist() {
        let said = |words: &str| {
            let words = format!("--name=j --ioengine=null --size=1m {words}");
            let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
            let workload = pagelab_fiojob::parse_args(&words).expect("a workload");
            check(&workload.jobs[0], 2).err().map_or_else(String::new, |error| error.to_string())
        };
        for fits in ["", "--cpus_allowed=0-1", "--cpus_allowed=1", "--cpumask=3", "--cpumask=0"] {
            assert_eq!(said(fits), "", "{fits}");
        }
        for (option, found) in [
            ("--cpus_allowed=0-7", "cpus_allowed: CPU 7 too large (max=1)"),
            ("--cpus_allowed=2", "cpus_allowed: CPU 2 too large (max=1)"),
            ("--cpumask=255", "cpumask: CPU 7 too large (max=1)"),
        ] {
            assert!(said(option).contains(found), "{option}: {}", said(option));
        }
    }
}
