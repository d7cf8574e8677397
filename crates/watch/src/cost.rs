//! What watching costs: the CPU time of this process, and of its BPF programs where somebody asks for that.

use pagelab_observe::bpf::own_programs;
use rustix::time::{ClockId, clock_gettime};

use crate::second::Cost;

/// Watches the process's own CPU time.
#[derive(Debug)]
pub(crate) struct Costs {
    cpus: f64,
    with_bpf: bool,
    cpu_ns: u64,
    bpf_ns: u64,
}

fn own_cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Costs {
    /// From now on; `with_bpf` says that the kernel counts the run time of BPF programs.
    pub(crate) fn new(cpus: u32, with_bpf: bool) -> Self {
        Self { cpus: f64::from(cpus.max(1)), with_bpf, cpu_ns: own_cpu_ns(), bpf_ns: 0 }
    }

    /// Since the last time, which is `interval_ns` ago.
    pub(crate) fn take(&mut self, interval_ns: u64) -> Cost {
        let pct = |ns: u64| 100.0 * ns as f64 / (interval_ns.max(1) as f64 * self.cpus);
        let now_ns = own_cpu_ns();
        let cpu_ns = now_ns.saturating_sub(self.cpu_ns);
        self.cpu_ns = now_ns;
        let bpf_ns = self.with_bpf.then(|| {
            let now_ns: u64 = own_programs().iter().map(|program| program.run_ns).sum();
            now_ns.saturating_sub(std::mem::replace(&mut self.bpf_ns, now_ns))
        });
        Cost { cpu_ns, cpu_pct: pct(cpu_ns), bpf_ns, bpf_pct: bpf_ns.map(pct) }
    }
}
