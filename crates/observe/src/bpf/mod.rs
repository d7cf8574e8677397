//! The BPF observer: page faults, mapping actions and the life of tasks of one process tree.
//!
//! [`Observer::load`] loads the programs, [`Observer::attach`] attaches them, [`Observer::adopt`] names the first task
//! of the tree, or [`Observer::find`] finds the tasks that run already. From then on the owner calls
//! [`Observer::drain_faults`] and [`Observer::drain_events`] often enough that the rings do not fill (a ring of 4 MiB
//! holds 0.2 s of faults at full speed). Lost records are counted.

mod calls;
mod cost;
mod event_ring;
mod mapping;
mod names;
mod object;
mod renames;
pub(crate) mod rings;
mod targets;
mod task_stacks;
mod used;
mod watcher;
mod wire;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{Link, MapCore, MapFlags};

pub use calls::{Call, OffCpu};
pub use cost::{ProgramCost, RunStats, own_programs};
pub(crate) use event_ring::EventRing;
pub use names::ByNumber;
pub(crate) use object::{
    NEEDED_TO_LOAD, WireRecord, attach_all, attach_to_event, check, include_skeleton, not_loaded, open, read, refused,
    refused_io, share, walk_tasks,
};
pub use rings::{CallCounts, CallRings, FaultCounts, FaultRings};
pub use targets::{Cgroup, Members};
pub use task_stacks::{TaskStackOptions, TaskStacks};
pub use used::{Use, UsedEvent, UsedPlace};
pub use watcher::BpfWatcher;
pub(crate) use wire::user_dev;
pub use wire::{Event, FaultSlot, MAP_KINDS, MAP_OPS, MapEvent, PathEvent, Special, TaskEvent, TaskOp};

include_skeleton!("observer");

use crate::btf::KernelTypes;
use crate::streams::Stream;

use skeleton::{ObserverSkel, ObserverSkelBuilder, OpenObserverSkel, types};

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
    /// See mapping calls begin where every call enters, as on kernels that have no tracepoints for less (before 6.9).
    pub begin_at_entry: bool,
    /// Record system calls: what is to be known of each by its number, for those that are wanted.
    pub calls: Option<Vec<CallInfo>>,
    /// Record times off the CPU.
    pub sched: bool,
    /// Take stacks, too; they are had from [`TaskStacks::of`].
    pub stacks: Option<TaskStackOptions>,
    /// Bytes of ring for system calls per CPU; rounded down to a power of two of words.
    pub call_ring_bytes_per_cpu: usize,
    /// Which tasks are recorded.
    pub members: Members,
    /// How many names of files count as sent before the first one: for tests of large numbers.
    pub names_sent_before: u64,
}

impl ObserverOptions {
    /// How stacks are taken, if the events that they belong to are recorded at all.
    fn stacks(&self) -> Option<TaskStackOptions> {
        let of_sleep = |stacks: &TaskStackOptions| stacks.of_sleep && self.sched;
        let of_maps = |stacks: &TaskStackOptions| stacks.of_maps_from_bytes.is_some() && self.maps;
        self.stacks.filter(|stacks| of_sleep(stacks) || of_maps(stacks))
    }

    fn sleep_stacks(&self) -> bool {
        self.sched && self.stacks.is_some_and(|stacks| stacks.of_sleep)
    }
}

/// What the program must know of a system call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallInfo {
    /// Its number.
    pub nr: u32,
    /// How many arguments it takes.
    pub args: u8,
    /// Which of them is the descriptor that it works on.
    pub fd_arg: Option<u8>,
    /// It makes a descriptor and returns it.
    pub returns_fd: bool,
    /// It transfers at the file's position, and moves it.
    pub moves_position: bool,
    /// Its second and third argument are an array of buffers, whose lengths are summed up.
    pub sums_vector: bool,
}

/// `call_info.fd_arg` of a call without.
const NO_FD_ARG: u8 = 6;

impl Default for ObserverOptions {
    fn default() -> Self {
        Self {
            ring_bytes_per_cpu: 4 << 20,
            counting_only: false,
            faults: true,
            maps: true,
            begin_at_entry: false,
            calls: None,
            sched: false,
            stacks: None,
            members: Members::Started,
            call_ring_bytes_per_cpu: 8 << 20,
            names_sent_before: 0,
        }
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
    /// System calls whose file has no name although they worked on one: the call lasted longer than names are kept, and the
    /// descriptor was another file's when it returned.
    pub calls_unnamed: u64,
}

/// The loaded programs and both roads to them.
pub struct Observer {
    links: Vec<(Stream, Link)>,
    events: EventRing,
    received: Vec<Event>,
    rings: FaultRings,
    call_rings: CallRings,
    /// Where the producers of those were when the rare events were taken.
    call_marks: Vec<u64>,
    /// Where the producers of the fault rings were when they were marked.
    fault_marks: Vec<u64>,
    options: ObserverOptions,
    moves_followed: u64,
    /// When tasks are looked for whose birth was not seen.
    missed: targets::Missed,
    skel: ObserverSkel<'static>,
}

/// Most and least bytes of the ring of rare events.
const EVENT_RING_MOST: u64 = 8 << 20;
const EVENT_RING_LEAST: u64 = 2 << 20;

const NEEDED_TO_ATTACH: &str =
    "the raw tracepoint in the running kernel, and no other limit on BPF; look: cat /sys/kernel/security/lockdown";

/// What tells that a mapping call, and an exec, has begun, on kernels that have both (6.9).
const LOCK_WANTED: &str = "mmap_lock_start_locking";
const EXEC_PREPARED: &str = "sched_prepare_exec";

/// Whether the beginning of mapping calls must be looked for where all calls enter: because every call of the tree is seen
/// there anyway, or because the kernel has nothing else.
fn must_begin_at_entry(options: &ObserverOptions) -> bool {
    let kernel_has_more = || {
        let types = KernelTypes::read();
        types.is_ok_and(|types| [LOCK_WANTED, EXEC_PREPARED].iter().all(|name| types.has_tracepoint(name)))
    };
    options.begin_at_entry || options.calls.is_some() || (options.maps && !kernel_has_more())
}

impl Observer {
    /// Loads the programs; nothing is attached yet.
    pub fn load(mut options: ObserverOptions) -> Result<Self, BpfError> {
        options.begin_at_entry = must_begin_at_entry(&options);
        let cpus =
            libbpf_rs::num_possible_cpus().map_err(refused("counting CPUs", "/sys/devices/system/cpu/possible"))?;
        let mut open = open::<ObserverSkelBuilder>(NEEDED_TO_LOAD)?;
        // What nobody writes to is as small as may be: a ring is memory of ours as soon as it is mapped.
        let fault_bytes = if options.faults { options.ring_bytes_per_cpu } else { 0 };
        let slots = rings::ring_items::<types::fault_ring>(fault_bytes);
        let words = if options.calls.is_some() || options.sched {
            rings::ring_items::<types::call_ring>(options.call_ring_bytes_per_cpu)
        } else {
            rings::ring_items::<types::call_ring>(0)
        };
        size_rings(&mut open, cpus as u32, slots, words)?;
        open.maps
            .events
            .set_max_entries(event_ring_bytes(&options, cpus))
            .map_err(refused("sizing the ring of rare events", NEEDED_TO_LOAD))?;
        configure(&mut open, &options);
        task_stacks::configure(&mut open, &options, cpus as u32)
            .map_err(refused("sizing the rings", NEEDED_TO_LOAD))?;
        targets::configure(&mut open, &options.members).map_err(refused("choosing the target", NEEDED_TO_LOAD))?;
        let skel = open.load().map_err(not_loaded)?;
        let rings = FaultRings::map(skel.maps.fault_rings.as_fd(), cpus, slots)?;
        let call_rings = CallRings::map(skel.maps.call_rings.as_fd(), cpus, words)?;
        let events = EventRing::of(&skel.maps.events)?;
        let call_marks = Vec::new();
        let mut observer = Self {
            links: Vec::new(),
            events,
            received: Vec::new(),
            rings,
            call_rings,
            call_marks,
            fault_marks: Vec::new(),
            options,
            moves_followed: 0,
            missed: targets::Missed::default(),
            skel,
        };
        observer.note_root();
        observer.watch_renames();
        Ok(observer)
    }

    /// Lets the program ask in every call whether anything was renamed, instead of walking to the root.
    fn watch_renames(&mut self) {
        if self.options.calls.is_none() {
            return;
        }
        match (renames::address(), self.skel.maps.bss_data.as_deref_mut()) {
            (Ok(address), Some(bss)) => bss.renames_at = address,
            (Err(reason), _) => tracing::debug!("names of files are looked up in every call: {reason}"),
            (Ok(_), None) => {}
        }
    }

    /// Attaches the programs that the options ask for. Tasks must be attached first and detached last, so order matters.
    pub fn attach(&mut self) -> Result<(), BpfError> {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.detached = 0;
            bss.faults_on = u32::from(self.options.faults);
        }
        let progs = &mut self.skel.progs;
        let options = &self.options;
        let (calls, any_off) = (options.calls.is_some(), options.calls.is_some() || options.sched);
        let (maps, at_lock) = (options.maps && !calls, !options.begin_at_entry);
        let switched = if options.sleep_stacks() { &mut progs.switched_stacks } else { &mut progs.switched };
        let of_cgroup = matches!(options.members, Members::Cgroup(_));
        // Who needs it, the tracepoint, the program, whether it is wanted.
        let programs = [
            (Stream::Tasks, "task_newtask", &mut progs.new_task, true),
            (Stream::Tasks, "sched_process_exec", &mut progs.process_exec, true),
            (Stream::Tasks, "sched_process_exit", &mut progs.process_exit, true),
            (Stream::Tasks, "task_rename", &mut progs.task_rename, true),
            (Stream::Tasks, "cgroup_attach_task", &mut progs.cgroup_moved, of_cgroup),
            (Stream::Sched, "sched_waking", &mut progs.waking, options.sched),
            (if calls { Stream::Syscalls } else { Stream::Sched }, "sched_switch", switched, any_off),
            (Stream::Syscalls, "sched_process_exit", &mut progs.ended_in_call, calls),
            (Stream::Syscalls, "sys_enter", &mut progs.any_enter, calls),
            (Stream::Syscalls, "sys_exit", &mut progs.any_exit, calls),
            (Stream::Maps, LOCK_WANTED, &mut progs.mmap_lock_wanted, maps && at_lock),
            (Stream::Maps, EXEC_PREPARED, &mut progs.exec_prepared, maps && at_lock),
            (Stream::Maps, "sys_enter", &mut progs.sys_enter, maps && !at_lock),
            (Stream::Maps, "sys_exit", &mut progs.sys_exit, maps),
            (Stream::Faults, "page_fault_user", &mut progs.page_fault_user, options.faults),
            (Stream::Faults, "page_fault_kernel", &mut progs.page_fault_kernel, options.faults),
        ];
        for (stream, name, program, _) in programs.into_iter().filter(|(.., wanted)| *wanted) {
            let link = program.attach_trace().map_err(refused(name, NEEDED_TO_ATTACH))?;
            self.links.push((stream, link));
        }
        Ok(())
    }

    /// Detaches the programs of one stream, if it has some that nothing else needs; false if not.
    pub fn shed(&mut self, stream: Stream) -> bool {
        if !matches!(stream, Stream::Faults | Stream::Syscalls | Stream::Sched) {
            return false;
        }
        let before = self.links.len();
        self.links.retain(|(of, _)| *of != stream);
        self.options.faults &= stream != Stream::Faults;
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            match stream {
                Stream::Faults => bss.faults_on = 0,
                Stream::Sched => bss.sched_on = 0,
                _ => {}
            }
        }
        if stream == Stream::Syscalls && self.options.maps {
            // Mapping calls were seen among all others; now they are looked for alone.
            let progs = &mut self.skel.progs;
            for program in [&mut progs.sys_enter, &mut progs.sys_exit] {
                match program.attach_trace() {
                    Ok(link) => self.links.push((Stream::Maps, link)),
                    Err(error) => tracing::warn!("mapping calls are not recorded any more: {error:#}"),
                }
            }
        }
        self.links.len() < before
    }

    /// Whether it sees what the recorded tasks map.
    pub fn follows_maps(&self) -> bool {
        self.options.maps || self.options.calls.is_some()
    }

    /// Whether page faults are recorded, and have not been given up.
    pub fn sees_faults(&self) -> bool {
        self.options.faults
    }

    /// Detaches all programs. Records sent before stay in the rings, and none comes after: programs whose links a forked child
    /// still holds do nothing.
    pub fn detach(&mut self) {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.detached = 1;
            bss.faults_on = 0;
        }
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
        let state =
            types::task_state { task_id: 1, mm_id: 1, waiting, claimed: 1, entry_unseen: 1, ..Default::default() };
        self.put_state(pidfd, state).map_err(refused("adopting the command", "a process that is still alive"))
    }

    fn put_state(&mut self, pidfd: BorrowedFd<'_>, state: types::task_state) -> libbpf_rs::Result<()> {
        // SAFETY: task_state is plain integers, its padding a member, and lives until the call returns.
        let value =
            unsafe { std::slice::from_raw_parts((&raw const state).cast::<u8>(), size_of::<types::task_state>()) };
        let key = pidfd.as_raw_fd().to_ne_bytes();
        self.skel.maps.task_states.update(&key, value, MapFlags::ANY)
    }

    /// The map that says which tasks are recorded, for other object files to share (`bpf/membership.bpf.h`).
    pub fn task_states(&self) -> BorrowedFd<'_> {
        self.skel.maps.task_states.as_fd()
    }

    /// The map of the fault rings and how many slots each has, for other object files to share.
    pub(crate) fn fault_ring_map(&self) -> (BorrowedFd<'_>, u32) {
        (self.skel.maps.fault_rings.as_fd(), self.rings.items())
    }

    /// Remembers where the producers of the fault rings are, for [`Observer::drain_marked_faults`].
    pub fn mark_faults(&mut self) {
        self.fault_marks.clear();
        self.fault_marks.extend((0..self.rings.cpus()).map(|cpu| self.rings.produced(cpu)));
    }

    /// Hands over the fault records that were whole at [`Observer::mark_faults`], CPU by CPU: which CPU, the position in its ring
    /// of the first record, and the records, in the order of time.
    pub fn drain_marked_faults(&mut self, mut sink: impl FnMut(usize, u64, &[FaultSlot])) {
        for (cpu, mark) in self.fault_marks.iter().enumerate() {
            let pending = self.rings.pending_until(cpu, *mark);
            let first = mark - (pending.older.len() + pending.newer.len()) as u64;
            sink(cpu, first, pending.older);
            sink(cpu, first + pending.older.len() as u64, pending.newer);
            self.rings.release(cpu, *mark);
        }
    }

    /// Hands over all whole fault records, CPU by CPU; within a CPU they are in the order of time.
    pub fn drain_faults(&mut self, mut sink: impl FnMut(usize, &[FaultSlot])) -> usize {
        let mut drained = 0;
        for cpu in 0..self.rings.cpus() {
            let pending = self.rings.pending(cpu);
            for slots in [pending.older, pending.newer].into_iter().filter(|slots| !slots.is_empty()) {
                sink(cpu, slots);
                drained += slots.len();
            }
            let produced = pending.produced;
            self.rings.release(cpu, produced);
        }
        drained
    }

    /// Hands over the system calls that had returned, and the times off the CPU that had ended, when the rare events were taken the last time, in the order in which they
    /// returned. The names of their files are among those events.
    pub fn drain_calls(&mut self, sink: impl FnMut(&Call)) {
        let marked = || self.call_marks.iter().enumerate();
        let pending: Vec<_> = marked().map(|(cpu, mark)| self.call_rings.pending_until(cpu, *mark)).collect();
        calls::merge(&pending, sink);
        for (cpu, mark) in self.call_marks.iter().enumerate() {
            self.call_rings.release(cpu, *mark);
        }
    }

    /// Hands over all rare events, in the order in which the kernel reserved room for them.
    pub fn drain_events(&mut self, sink: impl FnMut(Event)) {
        self.call_marks.clear();
        self.call_marks.extend((0..self.call_rings.cpus()).map(|cpu| self.call_rings.produced(cpu)));
        self.receive();
        self.received.drain(..).for_each(sink);
    }

    /// Empties the ring of events.
    fn receive(&mut self) {
        let Self { events, received, .. } = self;
        events.consume(|bytes| received.extend(wire::decode(bytes)));
    }

    /// The fault rings, for their counts.
    pub fn rings(&self) -> &FaultRings {
        &self.rings
    }

    /// The rings of system calls, for their counts.
    pub fn call_rings(&self) -> &CallRings {
        &self.call_rings
    }

    /// What the programs counted of the rare events.
    pub fn event_counts(&self) -> EventCounts {
        self.skel.maps.bss_data.as_deref().map_or_else(EventCounts::default, |bss| EventCounts {
            seen: bss.events_seen,
            lost: bss.events_lost,
            vma_walks_failed: bss.vma_walks_failed,
            calls_unnamed: bss.calls_unnamed,
        })
    }
}

/// Bytes of the ring that all CPUs share: of tasks alone as much as the rings of all CPUs have, mappings and calls bring more.
fn event_ring_bytes(options: &ObserverOptions, cpus: usize) -> u32 {
    let asked = options.ring_bytes_per_cpu.saturating_mul(cpus) as u64;
    let is_tasks_alone = !options.maps && options.calls.is_none();
    let bytes = if is_tasks_alone { asked.clamp(EVENT_RING_LEAST, EVENT_RING_MOST) } else { EVENT_RING_MOST };
    bytes.next_power_of_two() as u32
}

fn size_rings(open: &mut OpenObserverSkel<'static>, cpus: u32, slots: u32, words: u32) -> Result<(), BpfError> {
    let maps = &mut open.maps;
    let slot_bytes = rings::ring_bytes::<types::fault_ring>(slots) as u32;
    let word_bytes = rings::ring_bytes::<types::call_ring>(words) as u32;
    maps.fault_rings
        .set_max_entries(cpus)
        .and_then(|()| maps.fault_rings.set_value_size(slot_bytes))
        .and_then(|()| maps.call_rings.set_max_entries(cpus))
        .and_then(|()| maps.call_rings.set_value_size(word_bytes))
        .map_err(refused("sizing the rings", NEEDED_TO_LOAD))?;
    if let Some(rodata) = maps.rodata_data.as_deref_mut() {
        rodata.ring_slot_mask = slots - 1;
        rodata.call_word_mask = words - 1;
    }
    Ok(())
}

/// Configures the programs, and leaves out those that are not to be attached: a tracepoint that the kernel lacks is an
/// error only for the streams that need it.
fn configure(open: &mut OpenObserverSkel<'static>, options: &ObserverOptions) {
    let (calls, stacks) = (options.calls.is_some(), options.sleep_stacks());
    let progs = &mut open.progs;
    for (program, wanted) in [
        (&mut progs.page_fault_user, options.faults),
        (&mut progs.page_fault_kernel, options.faults),
        (&mut progs.mmap_lock_wanted, options.maps && !options.begin_at_entry),
        (&mut progs.exec_prepared, options.maps && !options.begin_at_entry),
        (&mut progs.sys_enter, options.maps && options.begin_at_entry),
        (&mut progs.sys_exit, options.maps),
        (&mut progs.any_enter, calls),
        (&mut progs.any_exit, calls),
        (&mut progs.ended_in_call, calls),
        (&mut progs.switched, (calls || options.sched) && !stacks),
        (&mut progs.switched_stacks, stacks),
        (&mut progs.waking, options.sched),
        (&mut progs.tell_unfinished, calls || options.sched),
    ] {
        program.set_autoload(wanted);
    }
    if let Some(bss) = open.maps.bss_data.as_deref_mut() {
        bss.sched_on = u32::from(options.sched);
        bss.last_path_id = options.names_sent_before;
    }
    let Some(rodata) = open.maps.rodata_data.as_deref_mut() else { return };
    rodata.counting_only = options.counting_only;
    rodata.begins_at_lock = u32::from(!options.begin_at_entry);
    used::configure(&mut rodata.used_calls);
    for info in options.calls.iter().flatten() {
        let Some(known) = rodata.call_infos.get_mut(info.nr as usize) else { continue };
        known.args = info.args.min(6);
        known.fd_arg = info.fd_arg.unwrap_or(NO_FD_ARG);
        let flag = |on: bool, flag: types::call_flags| if on { flag.0 as u8 } else { 0 };
        known.flags = types::call_flags::CALL_WANTED.0 as u8
            | flag(info.returns_fd, types::call_flags::CALL_RETURNS_FD)
            | flag(info.moves_position, types::call_flags::CALL_MOVES_POSITION)
            | flag(info.sums_vector, types::call_flags::CALL_SUMS_VECTOR);
    }
}
