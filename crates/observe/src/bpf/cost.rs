//! What the BPF programs of this process cost: the kernel counts runs and time of each program while somebody asks for it.
//!
//! Counting costs time itself, two reads of the clock for each run, so it is off unless asked for.

use std::fs;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use libbpf_rs::libbpf_sys;

/// Keeps the kernel counting; dropping it ends that, unless somebody else asks for it too.
#[derive(Debug)]
pub struct RunStats {
    _fd: OwnedFd,
}

/// Runs of one program since it was loaded, as far as they were counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramCost {
    /// The program's name, cut to 15 letters by the kernel.
    pub name: String,
    /// How often it ran.
    pub runs: u64,
    /// How long altogether, ns.
    pub run_ns: u64,
}

impl RunStats {
    /// Begins to count, for all programs of the host (Linux 5.8, root).
    pub fn enable() -> io::Result<Self> {
        // SAFETY: the call takes a number and gives a fresh descriptor or a negative value.
        let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a fresh descriptor that nobody else owns.
        Ok(Self { _fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }
}

/// The programs that this process holds, with what was counted of each; programs of all objects, by name.
pub fn own_programs() -> Vec<ProgramCost> {
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let held = entries
        .filter(|entry| fs::read_link(entry.path()).is_ok_and(|target| target.to_string_lossy().contains("bpf-prog")));
    let mut programs: Vec<(u32, ProgramCost)> =
        held.filter_map(|entry| info(entry.file_name().to_string_lossy().parse().ok()?)).collect();
    // One program may be held by several descriptors.
    programs.sort_by_key(|(id, _)| *id);
    programs.dedup_by_key(|(id, _)| *id);
    programs.into_iter().map(|(_, program)| program).collect()
}

fn info(fd: i32) -> Option<(u32, ProgramCost)> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut len = size_of::<libbpf_sys::bpf_prog_info>() as u32;
    // SAFETY: the kernel writes at most `len` bytes into the structure, which is plain integers; all its pointers are 0,
    // so nothing is written elsewhere.
    let failed = unsafe { libbpf_sys::bpf_obj_get_info_by_fd(fd, (&raw mut info).cast(), &raw mut len) };
    if failed != 0 {
        return None;
    }
    let name: Vec<u8> = info.name.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
    let name = String::from_utf8_lossy(&name).into_owned();
    Some((info.id, ProgramCost { name, runs: info.run_cnt, run_ns: info.run_time_ns }))
}
