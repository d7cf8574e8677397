//! How many page faults and system calls there are, summed up in the kernel (`bpf/sums.bpf.c`): for those who look on while a target
//! is recorded, at a cost that does not grow with what they look at. It fills no table; the streams `faults` and `syscalls` record
//! each one.
//!
//! Sums only rise. The time of a call that has not returned is in them up to now ([`SumProbe::read`]).

use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;

use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{Link, MapCore, MapFlags};

use crate::bpf::{BpfError, attach_all, include_skeleton, not_loaded, open, refused, refused_io, share, walk_tasks};
use crate::syscalls::{CallFilter, Shapes};

include_skeleton!("sums");

use skeleton::{SumsSkel, SumsSkelBuilder, types};

const NEEDED: &str = "raw tracepoints with BTF, task storage and iterators over tasks (Linux 5.15)";

/// Words at the beginning of a CPU's sums: faults by the low bits of their error code.
const FAULT_KINDS: usize = 32;
/// Words of a call's sums: how many, ns, and of these ns without a CPU.
const CALL_WORDS: usize = 3;

const PRESENT: usize = 1;
const WRITE: usize = 2;
const USER: usize = 4;
const INSTRUCTION: usize = 16;

/// What calls of that number have no name for.
const UNNAMED: &str = "unnamed";

/// Page faults by kind. The kinds exclude each other, but for `major`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultSums {
    /// The program read a page that was not there.
    pub read: u64,
    /// It wrote one.
    pub write: u64,
    /// It ran code of one.
    pub execute: u64,
    /// The page was there and did not allow it: shared until written, mostly.
    pub protection: u64,
    /// The kernel touched memory of the program's, as the buffer of a call.
    pub kernel: u64,
    /// Of all, those that waited for I/O, as the kernel counts them.
    pub major: u64,
}

impl FaultSums {
    fn add(&mut self, error_code: usize, count: u64) {
        let has = |bit| error_code & bit != 0;
        let kind = match () {
            () if !has(USER) => &mut self.kernel,
            () if has(PRESENT) => &mut self.protection,
            () if has(INSTRUCTION) => &mut self.execute,
            () if has(WRITE) => &mut self.write,
            () => &mut self.read,
        };
        *kind += count;
    }
}

/// Calls of one name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallSums {
    /// That have returned.
    pub calls: u64,
    /// From entry to return, or until now.
    pub ns: u64,
    /// Of this, without a CPU.
    pub off_ns: u64,
}

/// Everything so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sums {
    /// Page faults.
    pub faults: FaultSums,
    /// System calls, by name.
    pub calls: BTreeMap<&'static str, CallSums>,
}

impl Sums {
    fn add_call(&mut self, name: &'static str, more: CallSums) {
        if more == CallSums::default() {
            return;
        }
        let name = if name.is_empty() { UNNAMED } else { name };
        let sum = self.calls.entry(name).or_default();
        sum.calls += more.calls;
        sum.ns += more.ns;
        sum.off_ns += more.off_ns;
    }

    /// Adds the sums of a CPU as the programs write them.
    fn add_cpu(&mut self, bytes: &[u8], names: &Shapes) {
        let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        let (faults, calls) = words.split_at(FAULT_KINDS.min(words.len()));
        for (error_code, count) in faults.iter().enumerate() {
            self.faults.add(error_code, *count);
        }
        for (number, [calls, ns, off_ns]) in (0..).zip(calls.as_chunks::<CALL_WORDS>().0) {
            self.add_call(names.get(number).name, CallSums { calls: *calls, ns: *ns, off_ns: *off_ns });
        }
    }
}

/// The loaded programs.
pub struct SumProbe {
    _links: Vec<Link>,
    walk: Link,
    cpus: u32,
    names: Shapes,
    skel: SumsSkel<'static>,
}

impl SumProbe {
    /// Loads the programs, attaches them, and looks at the calls that tasks sleep in; `task_states` says which tasks are recorded
    /// (`bpf/membership.bpf.h`).
    ///
    /// # Errors
    /// The kernel refuses to load or to attach them.
    pub fn attach(task_states: BorrowedFd<'_>) -> Result<Self, BpfError> {
        let cpus = libbpf_rs::num_possible_cpus().map_err(refused("counting CPUs", NEEDED))? as u32;
        let mut open = open::<SumsSkelBuilder>(NEEDED)?;
        share(&mut open.maps.task_states, task_states, NEEDED)?;
        open.maps.sums.set_max_entries(cpus).map_err(refused("sizing the sums", NEEDED))?;
        if let Some(bss) = open.maps.bss_data.as_deref_mut() {
            bss.first_walk = 1;
        }
        let skel = open.load().map_err(not_loaded)?;
        let programs = [
            ("sched_process_exit", &skel.progs.sum_ended),
            ("sched_switch", &skel.progs.sum_switched),
            ("sys_exit", &skel.progs.sum_returned),
            ("sys_enter", &skel.progs.sum_entered),
            ("page_fault_user", &skel.progs.sum_fault_user),
            ("page_fault_kernel", &skel.progs.sum_fault_kernel),
        ];
        let links = attach_all(programs, NEEDED)?;
        let walk = skel.progs.walk_sums.attach().map_err(refused("task iterator", NEEDED))?;
        let mut probe = Self { _links: links, walk, cpus, names: Shapes::of(&CallFilter::default()), skel };
        probe.walk().map_err(refused_io("walking over the tasks", NEEDED))?;
        if let Some(bss) = probe.skel.maps.bss_data.as_deref_mut() {
            bss.first_walk = 0;
        }
        Ok(probe)
    }

    /// Adds up the calls that have not returned.
    fn walk(&mut self) -> io::Result<()> {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.open_calls.fill(types::call_sum::default());
        }
        walk_tasks(&self.walk)
    }

    /// What there is by now.
    ///
    /// # Errors
    /// The kernel could not walk over its tasks, or does not give the sums.
    pub fn read(&mut self) -> io::Result<Sums> {
        self.walk()?;
        let mut sums = Sums::default();
        for cpu in 0..self.cpus {
            let found = self.skel.maps.sums.lookup(&cpu.to_ne_bytes(), MapFlags::ANY).map_err(io::Error::other)?;
            sums.add_cpu(&found.unwrap_or_default(), &self.names);
        }
        let bss = self.skel.maps.bss_data.as_deref().ok_or_else(|| io::Error::other("the programs' data is gone"))?;
        sums.faults.major = bss.major_faults;
        for (number, open) in (0..).zip(&bss.open_calls) {
            let open = CallSums { calls: 0, ns: open.ns, off_ns: open.off_ns };
            sums.add_call(self.names.get(number).name, open);
        }
        Ok(sums)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_cpu_are_read_by_kind_and_name() {
        let names = Shapes::of(&CallFilter::default());
        let mut words = vec![0_u64; FAULT_KINDS + 2 * CALL_WORDS];
        (words[USER], words[USER | WRITE], words[USER | INSTRUCTION]) = (1, 2, 3);
        (words[USER | WRITE | PRESENT], words[WRITE], words[PRESENT]) = (4, 5, 6);
        words[FAULT_KINDS + CALL_WORDS..].copy_from_slice(&[7, 80, 9]);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let mut sums = Sums::default();
        sums.add_cpu(&bytes, &names);
        sums.add_cpu(&bytes, &names);
        let faults = FaultSums { read: 2, write: 4, execute: 6, protection: 8, kernel: 22, major: 0 };
        assert_eq!(sums.faults, faults);
        // Call 0 was not made; 1 is write.
        assert_eq!(sums.calls, BTreeMap::from([("write", CallSums { calls: 14, ns: 160, off_ns: 18 })]));
        sums.add_cpu(&bytes[..5], &names);
        assert_eq!(sums.faults, faults, "cut short");
    }
}
