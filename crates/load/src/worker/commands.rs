//! `exec_prerun` and `exec_postrun`: a command of the job file, run by the shell before a worker's first operation and after its last.
//!
//! As in fio what it prints goes to `JOB.prerun.txt` or `JOB.postrun.txt` in the working directory, and a command that fails before
//! the work fails the job. It ends with the worker: a run that is stopped does not leave it behind.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::task::Task;
use crate::plan::outputs;
use crate::report::Failure;
use crate::safety;

/// Distance of looks at a command that is running.
const LOOK: Duration = Duration::from_millis(5);

/// Runs `exec_prerun`, if the job has one.
///
/// # Errors
/// It cannot be run, or failed.
pub(super) fn before(task: &Task<'_>) -> Result<(), Failure> {
    task.job.options.exec_prerun.as_deref().map_or(Ok(()), |command| run(task, command, "prerun"))
}

/// Runs `exec_postrun`, if the job has one. As in fio the job's result is what it is: a failure is only told.
pub(super) fn after(task: &Task<'_>) {
    let Some(command) = task.job.options.exec_postrun.as_deref() else { return };
    if let Err(failure) = run(task, command, "postrun") {
        // Standard error may be closed.
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            format!("pagelab: job '{}': {}\n", task.job.name, failure.message).as_bytes(),
        );
    }
}

fn run(task: &Task<'_>, command: &str, when: &str) -> Result<(), Failure> {
    let failed = |errno: i32, words: String| Failure { errno, message: format!("exec_{when}={command}: {words}") };
    let of_system = |error: std::io::Error| failed(error.raw_os_error().unwrap_or(libc::EIO), error.to_string());
    let path = outputs::printed(task.job, when);
    let printed = safety::make_own(&path, task.state_dir, task.allow_write)
        .map_err(|error| failed(libc::EACCES, error.to_string()))?;
    let also = printed.try_clone().map_err(of_system)?;
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command).stdin(Stdio::null()).stdout(printed).stderr(also);
    // SAFETY: between fork and exec only one system call is made.
    unsafe {
        shell.pre_exec(|| Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?));
    }
    let mut child = shell.spawn().map_err(of_system)?;
    loop {
        match child.try_wait().map_err(of_system)? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => {
                return Err(failed(libc::ECANCELED, format!("{status}; {} has what it printed", path.display())));
            }
            None if task.stopped() && when == "prerun" => {
                // Gone already is as good.
                let _ = child.kill();
                let _ = child.wait();
                return Ok(());
            }
            None => std::thread::sleep(LOOK),
        }
    }
}
