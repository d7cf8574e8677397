//! The BPF observer: page faults, mapping actions and the life of tasks of one process tree.
//!
//! [`Observer::load`] loads the programs, [`Observer::attach`] attaches them, [`Observer::adopt`] names the first task
//! of the tree; from then on the owner calls [`Observer::drain_faults`] and [`Observer::drain_events`] often enough
//! that the rings do not fill (a ring of 4 MiB holds 0.2 s of faults at full speed). What was lost is counted.

mod rings;
mod wire;

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, OpenObject, PrintLevel, RingBuffer, RingBufferBuilder};

pub use rings::{FaultCounts, FaultRings};
pub(crate) use wire::user_dev;
pub use wire::{Event, FaultSlot, MAP_KINDS, MAP_OPS, MapEvent, PathEvent, Special, TaskEvent, TaskOp};

#[allow(clippy::all, clippy::pedantic, clippy::undocumented_unsafe_blocks, clippy::unwrap_used, missing_docs)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/observer.skel.rs"));
}

use skeleton::{ObserverSkel, ObserverSkelBuilder, types};

/// Why the BPF observer could not be had.
#[derive(Debug, thiserror::Error)]
pub enum BpfError {
    /// The kernel refused to load or attach.
    #[error("BPF {step}: {reason}; needed: {needed}")]
    Refused {
        /// What was being done.
        step: &'static str,
        /// What the kernel or libbpf said.
        reason: String,
        /// What would be needed, with the command where there is one.
        needed: &'static str,
    },
}

/// What the programs are to do.
#[derive(Debug, Clone)]
pub struct ObserverOptions {
    /// Bytes of fault ring per CPU; rounded down to a power of two of slots.
    pub ring_bytes_per_cpu: usize,
    /// Count faults and record nothing: the control in measurements of cost.
    pub counting_only: bool,
    /// Record page faults.
    pub faults: bool,
    /// Record mapping actions.
    pub maps: bool,
}

impl Default for ObserverOptions {
    fn default() -> Self {
        Self { ring_bytes_per_cpu: 4 << 20, counting_only: false, faults: true, maps: true }
    }
}

/// Counts of the rare events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// Events that the programs wanted to send.
    pub seen: u64,
    /// Of these, the ones that found no room.
    pub lost: u64,
    /// Address spaces whose mappings could not be listed.
    pub vma_walks_failed: u64,
}

/// The loaded programs and both roads to them.
pub struct Observer {
    links: Vec<Link>,
    events: RingBuffer<'static>,
    received: Rc<RefCell<Vec<Event>>>,
    rings: FaultRings,
    options: ObserverOptions,
    skel: ObserverSkel<'static>,
}

/// What libbpf said since the last load began: the verifier's words are only to be had this way.
static LIBBPF_SAID: Mutex<String> = Mutex::new(String::new());

pub(crate) fn listen_to_libbpf() {
    LIBBPF_SAID.lock().unwrap_or_else(PoisonError::into_inner).clear();
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, text| {
        tracing::debug!(target: "libbpf", "{}", text.trim_end());
        LIBBPF_SAID.lock().unwrap_or_else(PoisonError::into_inner).push_str(&text);
    })));
}

/// The line of libbpf that says most: what the verifier objected to, else the first complaint.
fn told_by_libbpf() -> Option<String> {
    let said = LIBBPF_SAID.lock().unwrap_or_else(PoisonError::into_inner);
    let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty());
    let verifier = lines().take_while(|line| !line.starts_with("processed ")).last();
    verifier.or_else(|| lines().next()).map(str::to_owned)
}

pub(crate) fn refused(step: &'static str, needed: &'static str) -> impl Fn(libbpf_rs::Error) -> BpfError {
    move |error| {
        let reason = told_by_libbpf().map_or_else(|| format!("{error:#}"), |said| format!("{error:#} ({said})"));
        BpfError::Refused { step, reason, needed }
    }
}

const NEEDED_TO_LOAD: &str = "root (or CAP_BPF and CAP_PERFMON), a kernel with BTF (/sys/kernel/btf/vmlinux) and raw tracepoints; try: sudo pagelab record ...";

const KERNEL_BTF: &str = "/sys/kernel/btf/vmlinux";

/// Why the programs could not be loaded. libbpf says no more than ESRCH when the kernel's types are missing.
pub(crate) fn not_loaded(error: libbpf_rs::Error) -> BpfError {
    if std::path::Path::new(KERNEL_BTF).exists() {
        return refused("load", NEEDED_TO_LOAD)(error);
    }
    BpfError::Refused {
        step: "load",
        reason: format!("the kernel's BTF is not there: found no {KERNEL_BTF} ({error:#})"),
        needed: "a kernel built with CONFIG_DEBUG_INFO_BTF=y, as Debian's are, and sysfs mounted; look: grep DEBUG_INFO_BTF /boot/config-$(uname -r)",
    }
}

impl Observer {
    /// Loads the programs; nothing is attached yet.
    pub fn load(options: ObserverOptions) -> Result<Self, BpfError> {
        listen_to_libbpf();
        let cpus =
            libbpf_rs::num_possible_cpus().map_err(refused("counting CPUs", "/sys/devices/system/cpu/possible"))?;
        let slots = ring_slots(options.ring_bytes_per_cpu);
        // The object must not move while the skeleton borrows it. It is a pointer's worth of memory per recording.
        let storage: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = ObserverSkelBuilder::default().open(storage).map_err(refused("open", NEEDED_TO_LOAD))?;
        open.maps.fault_rings.set_max_entries(cpus as u32).map_err(refused("sizing the rings", NEEDED_TO_LOAD))?;
        open.maps
            .fault_rings
            .set_value_size(rings::ring_bytes(slots) as u32)
            .map_err(refused("sizing the rings", NEEDED_TO_LOAD))?;
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            rodata.ring_slot_mask = slots - 1;
            rodata.counting_only = options.counting_only;
        }
        let skel = open.load().map_err(not_loaded)?;
        let rings = FaultRings::map(skel.maps.fault_rings.as_fd(), cpus, slots).map_err(|error| BpfError::Refused {
            step: "mapping the rings",
            reason: error.to_string(),
            needed: "memory for the rings of all CPUs; try: --ring-bytes with a smaller value",
        })?;
        let received: Rc<RefCell<Vec<Event>>> = Rc::default();
        let events = event_ring(&skel, &received)?;
        Ok(Self { links: Vec::new(), events, received, rings, options, skel })
    }

    /// Attaches the programs that the options ask for. Tasks must be attached first and detached last, so order matters.
    pub fn attach(&mut self) -> Result<(), BpfError> {
        let needed = "the raw tracepoint in the running kernel, and no other limit on BPF; look: cat /sys/kernel/security/lockdown";
        let progs = &mut self.skel.progs;
        let mut wanted = vec![
            ("sched_process_fork", &mut progs.process_fork),
            ("sched_process_exec", &mut progs.process_exec),
            ("sched_process_exit", &mut progs.process_exit),
            ("task_rename", &mut progs.task_rename),
        ];
        if self.options.maps {
            wanted.push(("sys_enter", &mut progs.sys_enter));
            wanted.push(("sys_exit", &mut progs.sys_exit));
        }
        if self.options.faults {
            wanted.push(("page_fault_user", &mut progs.page_fault_user));
            wanted.push(("page_fault_kernel", &mut progs.page_fault_kernel));
        }
        for (name, program) in wanted {
            let link = program.attach_trace().map_err(refused(name, needed))?;
            self.links.push(link);
        }
        Ok(())
    }

    /// Detaches all programs. What they sent before stays in the rings.
    pub fn detach(&mut self) {
        while self.links.pop().is_some() {}
    }

    /// Makes a process the first task of the recorded tree (task 1). Recording begins when it executes a program.
    pub fn adopt(&mut self, pidfd: BorrowedFd<'_>) -> Result<(), BpfError> {
        self.put_first_task(pidfd, 1)
    }

    /// Makes a process that is already running its program the first task: it is recorded from now on. Mappings that
    /// it has are not listed.
    pub fn adopt_running(&mut self, pidfd: BorrowedFd<'_>) -> Result<(), BpfError> {
        self.put_first_task(pidfd, 0)
    }

    fn put_first_task(&mut self, pidfd: BorrowedFd<'_>, waiting: u32) -> Result<(), BpfError> {
        let state = types::task_state { task_id: 1, mm_id: 1, waiting, ..Default::default() };
        // SAFETY: task_state is plain integers, its padding a member, and lives until the call returns.
        let value =
            unsafe { std::slice::from_raw_parts((&raw const state).cast::<u8>(), size_of::<types::task_state>()) };
        let key = pidfd.as_raw_fd().to_ne_bytes();
        self.skel
            .maps
            .task_states
            .update(&key, value, MapFlags::ANY)
            .map_err(refused("adopting the command", "a process that is still alive"))
    }

    /// The map that says which tasks are recorded, for other object files to share (`bpf/membership.bpf.h`).
    pub fn task_states(&self) -> BorrowedFd<'_> {
        self.skel.maps.task_states.as_fd()
    }

    /// Hands over all whole fault records, CPU by CPU; within a CPU they are in the order of time.
    pub fn drain_faults(&mut self, mut sink: impl FnMut(usize, &[FaultSlot])) -> usize {
        (0..self.rings.cpus()).map(|cpu| self.rings.drain(cpu, |slots| sink(cpu, slots))).sum()
    }

    /// Hands over all rare events, in the order in which the kernel reserved room for them.
    pub fn drain_events(&mut self, sink: impl FnMut(Event)) {
        // A negative result means that a callback failed; ours cannot.
        self.events.consume_raw();
        self.received.borrow_mut().drain(..).for_each(sink);
    }

    /// The fault rings, for their counts.
    pub fn rings(&self) -> &FaultRings {
        &self.rings
    }

    /// What the programs counted of the rare events.
    pub fn event_counts(&self) -> EventCounts {
        self.skel.maps.bss_data.as_deref().map_or_else(EventCounts::default, |bss| EventCounts {
            seen: bss.events_seen,
            lost: bss.events_lost,
            vma_walks_failed: bss.vma_walks_failed,
        })
    }
}

/// The greatest power of two of slots that fits, at least 64.
fn ring_slots(bytes: usize) -> u32 {
    let slots = (bytes / size_of::<FaultSlot>()).clamp(64, 1 << 26) as u32;
    1 << slots.ilog2()
}

fn event_ring(
    skel: &ObserverSkel<'static>,
    received: &Rc<RefCell<Vec<Event>>>,
) -> Result<RingBuffer<'static>, BpfError> {
    let needed = "the BPF ring buffer (Linux 5.8)";
    let sink = Rc::clone(received);
    let mut builder = RingBufferBuilder::new();
    builder
        .add(&skel.maps.events, move |bytes| {
            if let Some(event) = wire::decode(bytes) {
                sink.borrow_mut().push(event);
            }
            0
        })
        .map_err(refused("ring buffer", needed))?;
    builder.build().map_err(refused("ring buffer", needed))
}
