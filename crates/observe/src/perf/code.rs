//! Code that the processes of this machine map: what stacks need where nobody follows the mappings of the recorded tasks.
//!
//! The kernel reports an area that may be executed when `mmap`, `mprotect` or an exec makes it, to whoever has an event open on
//! that CPU. Other calls take no other way than before. To follow all mappings takes a program at the end of every system call,
//! which sends each of them through the kernel's slow way out: a database makes a hundred thousand a second.
//!
//! It is not reported that an area goes; what is mapped there later replaces it.

use std::io;
use std::ops::Range;

use perf_event::events::Software;
use perf_event::{Builder, Clock, SampleFlag, Sampler};

use super::records::{self, Item, Layout, Mmap, Record, What};
use crate::cpu::online_cpus;

/// A program start maps some twenty areas of code, of 150 bytes each with its path.
const RING_BYTES: usize = 64 << 10;

/// A process has mapped code.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CodeMapping {
    /// CLOCK_MONOTONIC, ns.
    pub ts: u64,
    /// The process, in the recorder's pid namespace.
    pub pid: u32,
    pub area: Mmap,
}

impl CodeMapping {
    /// The addresses.
    pub(crate) fn range(&self) -> Range<u64> {
        self.area.start..self.area.start.saturating_add(self.area.len)
    }
}

/// The events, one per CPU, with their rings.
pub(crate) struct CodeMappings {
    rings: Vec<Sampler>,
    /// Those that are too young for what asks for them.
    waiting: Vec<CodeMapping>,
    /// Some found no room since the owner last asked.
    lost: bool,
}

/// The inode of the first pid namespace (`PROC_PID_INIT_INO`).
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

impl CodeMappings {
    /// Whether they can be had, and name processes as BPF does.
    pub(crate) fn are_available() -> bool {
        let namespace = std::fs::read_link("/proc/self/ns/pid");
        namespace.is_ok_and(|name| name.as_os_str() == FIRST_PID_NAMESPACE) && Self::open().is_ok()
    }

    /// Begins to see what is mapped, by all processes.
    ///
    /// # Errors
    /// The kernel refuses the events: they take root, or CAP_PERFMON.
    pub(crate) fn open() -> io::Result<Self> {
        let mut rings = Vec::new();
        for cpu in online_cpus()? {
            let mut builder = Builder::new(Software::DUMMY);
            builder.any_pid().one_cpu(cpu).enabled(false).clockid(Clock::MONOTONIC).sample_id_all(true);
            builder.sample(SampleFlag::TID).sample(SampleFlag::TIME).mmap(true).mmap2(true);
            let mut ring = builder.build()?.sampled(RING_BYTES)?;
            ring.as_counter_mut().enable()?;
            rings.push(ring);
        }
        Ok(Self { rings, waiting: Vec::new(), lost: false })
    }

    /// What was mapped before `until_ns`, in the order of time.
    pub(crate) fn take(&mut self, until_ns: u64) -> Vec<CodeMapping> {
        for ring in &mut self.rings {
            while let Some(record) = ring.next_record() {
                match records::read(record.ty(), record.misc(), &record.to_contiguous(), Layout::Fault) {
                    Some(Record::Item(Item { ts, pid, what: What::Mmap(area), .. })) => {
                        self.waiting.push(CodeMapping { ts, pid, area: *area });
                    }
                    Some(Record::Item(_) | Record::Other) => {}
                    Some(Record::Lost(_)) | None => self.lost = true,
                }
            }
        }
        self.waiting.sort_by_key(|mapping| mapping.ts);
        let ripe = self.waiting.partition_point(|mapping| mapping.ts < until_ns);
        self.waiting.drain(..ripe).collect()
    }

    /// Whether mappings were lost since the last time.
    pub(crate) fn take_lost(&mut self) -> bool {
        std::mem::take(&mut self.lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of code that is mapped to be executed, and that nothing else in this test maps.
    #[test]
    fn what_is_mapped_to_be_executed_is_seen_and_nothing_else_is() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let path = std::env::temp_dir().join(format!("pagelab-code-{}", std::process::id()));
        std::fs::write(&path, vec![0; 3 * 4096]).expect("ours");
        let file = std::fs::File::open(&path).expect("ours");
        std::fs::remove_file(&path).expect("ours");
        let mut code = CodeMappings::open().expect("root may open them");
        let map = |prot, offset| {
            use rustix::mm::{MapFlags, mmap, munmap};
            // SAFETY: the kernel chooses the place, and nothing refers to it.
            unsafe {
                let at = mmap(std::ptr::null_mut(), 4096, prot, MapFlags::PRIVATE, &file, offset).expect("mapped");
                munmap(at, 4096).expect("unmapped");
                at as u64
            }
        };
        map(rustix::mm::ProtFlags::READ, 4096);
        let start = map(rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::EXEC, 2 * 4096);
        let own = |mapping: &CodeMapping| mapping.pid == std::process::id() && mapping.area.ino != 0;
        let mut seen = code.take(u64::MAX);
        seen.retain(|mapping| own(mapping) && mapping.area.name.starts_with(path.as_os_str().as_encoded_bytes()));
        let areas: Vec<_> = seen.iter().map(|CodeMapping { area, .. }| (area.start, area.len, area.offset)).collect();
        assert_eq!(areas, [(start, 4096, 2 * 4096)]);
        assert!(!code.take_lost());
    }

    #[test]
    fn what_is_too_young_waits() {
        let at = |ts| CodeMapping { ts, pid: 1, area: Mmap::default() };
        let mut code = CodeMappings { rings: Vec::new(), waiting: vec![at(30), at(10), at(20)], lost: true };
        assert_eq!(code.take(20), [at(10)]);
        assert_eq!(code.take(31), [at(20), at(30)]);
        assert!(code.take_lost() && !code.take_lost());
    }
}
