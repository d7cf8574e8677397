//! Running pagelab where the kernel gives less.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use pagelab_recording::Recording;

use super::{binary, pagelab};

/// Any id that owns nothing.
pub(crate) const USER: u32 = 61_234;

/// A seccomp filter that answers EPERM to the calls given, as containers' do, and lets all others pass.
pub(crate) fn refuse(command: &mut Command, calls: &'static [libc::c_long]) {
    let install = move || {
        let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
        // The number of the call is the first word of struct seccomp_data.
        let mut filter = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0)];
        for call in calls {
            let code = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
            filter.push(libc::sock_filter { code, jt: 0, jf: 1, k: *call as u32 });
            filter.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32));
        }
        filter.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW));
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: the program and its statements outlive the calls, which copy them.
        let failed = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) != 0
        };
        if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
    };
    // SAFETY: between fork and exec it calls prctl and allocates a few statements; the test has no other thread that holds the
    // allocator's lock at that time for longer than a moment, because glibc's fork takes and frees it.
    unsafe { command.pre_exec(install) };
}

/// `pagelab record` of the program, begun by `before`.
pub(crate) fn record(before: &[&str], out: &Path, observe: &str, program: &[&str]) -> Command {
    let binary = reachable_binary(before, out);
    let argv: Vec<&str> = before.iter().copied().chain([binary.to_str().expect("text")]).collect();
    let mut command = Command::new(argv[0]);
    command.args(&argv[1..]).args(["record", "--observe", observe, "-o"]).arg(out).arg("--").args(program);
    command.env("LC_ALL", "C").current_dir(out.parent().expect("a directory"));
    command
}

/// Records a process that runs already for some seconds without BPF, once it has `threads` threads; it is killed then.
pub(crate) fn record_running(mut target: Child, threads: usize, observe: &str, seconds: &str, out: &Path) -> Recording {
    let pid = target.id().to_string();
    while fs::read_dir(format!("/proc/{pid}/task")).expect("it lives").count() < threads {
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut command = pagelab();
    command.args(["record", "--observe", observe, "--duration", seconds, "-p", &pid, "-o"]).arg(out);
    refuse(&mut command, &[libc::SYS_bpf]);
    let output = command.output();
    target.kill().expect("it lives");
    target.wait().expect("it ended");
    let output = output.expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Recording::open(out).expect("a recording")
}

/// The binary, or a copy of it if an ordinary user cannot come to where it lies.
fn reachable_binary(before: &[&str], out: &Path) -> PathBuf {
    let binary = binary();
    if before.is_empty()
        || Command::new(before[0])
            .args(&before[1..])
            .args(["test", "-x"])
            .arg(&binary)
            .status()
            .is_ok_and(|s| s.success())
    {
        return binary;
    }
    let copy = out.with_file_name("pagelab");
    if !copy.exists() {
        super::copy_binary(&copy);
    }
    copy
}
