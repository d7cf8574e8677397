//! The account of a task's time: its components, each declared once.
//!
//! A task runs (RUN), could run and has no CPU (READY), or is off the CPU (OFF). RUN is split by what samples of the profile
//! show: the program's own code, and the kernel's [mechanisms](crate::mechanisms). READY is split by who had the CPU. OFF is split
//! by where in the kernel the task waited, as [`OFF_ANCHORS`] tell, and where none of them does by who woke it.
//!
//! A component is *active* if the time was spent for the task's work or taken from it by the system: all of RUN and READY, and
//! waits that an anchor tells. The rest is waiting for another task, for a request or reply, or for a time: it is shown and
//! never claimed, because a program that waits less for work is not faster.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::LazyLock;

use rustc_hash::FxHashSet;

use crate::mechanisms::{self, Anchor, FAULT_ENTRIES, MECHANISMS};
use crate::waits::{Holder, Waker};

/// What a task does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// It has a CPU.
    Run,
    /// It could run and has none.
    Ready,
    /// It is off the CPU and has not been woken.
    Off,
}

impl State {
    /// The word in documents.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Ready => "ready",
            Self::Off => "off",
        }
    }
}

/// A part of the account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Component {
    /// Stable identifier: `run.user`, `run.memory.clear`, `off.flush`.
    pub name: &'static str,
    /// The state that it is a part of.
    pub state: State,
    /// See the module's manual.
    pub is_active: bool,
    /// What the time was spent on.
    pub about: &'static str,
}

/// Whether a component is one of those named, or below a name that ends in a dot.
pub fn is_among(component: &str, names: &[&str]) -> bool {
    names.iter().any(|name| component == *name || (name.ends_with('.') && component.starts_with(name)))
}

/// Where tasks wait, as functions of the kernel tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffAnchor {
    /// The component.
    pub component: &'static str,
    /// What the wait is for.
    pub about: &'static str,
    /// The functions that tell it.
    pub anchors: &'static [Anchor],
}

const fn at(names: &'static [&'static str]) -> Anchor {
    Anchor { names, optional: false, own_time: false }
}

const fn may(names: &'static [&'static str]) -> Anchor {
    Anchor { names, optional: true, own_time: false }
}

const fn waits(component: &'static str, about: &'static str, anchors: &'static [Anchor]) -> OffAnchor {
    OffAnchor { component, about, anchors }
}

/// The component of waits for a lock of the kernel, and that of waits for the one of an address space.
const KERNEL_LOCK: &str = "off.kernel_lock";
const MMAP_LOCK: &str = "off.mmap_lock";

/// Whether a wait is for a lock that tasks have, so that a task ends it.
pub fn is_lock(component: &str) -> bool {
    [KERNEL_LOCK, MMAP_LOCK].contains(&component)
}

/// The anchors of both tables against the functions of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnchorsFound {
    /// Functions that the kernel has.
    pub functions: usize,
    /// Places that each kernel is to have and this one has not, by any of their names.
    pub missing: Vec<&'static [&'static str]>,
    /// Places that a kernel may lack, for its age, its configuration or its modules.
    pub optional: usize,
    /// Of those, the ones that this kernel has.
    pub optional_here: usize,
    /// The newest names of all places that this kernel has not.
    pub absent: Vec<&'static str>,
}

fn anchors() -> impl Iterator<Item = &'static Anchor> {
    let running = MECHANISMS.iter().flat_map(|mechanism| mechanism.anchors);
    running.chain(OFF_ANCHORS.iter().flat_map(|waits| waits.anchors))
}

/// Every name of the places that have one of these as their newest.
pub fn names_of_places(newest: &BTreeSet<String>) -> BTreeSet<&'static str> {
    let asked = |anchor: &&Anchor| anchor.names.first().is_some_and(|name| newest.contains(*name));
    anchors().filter(asked).flat_map(|anchor| anchor.names.iter().copied()).collect()
}

/// Looks for the anchors among the functions of a kernel, one by one.
pub struct AnchorSearch {
    // Looked into for each of 100,000 functions and more.
    wanted: FxHashSet<&'static str>,
    here: FxHashSet<&'static str>,
    functions: usize,
}

/// The names of each place that is looked for.
fn places() -> impl Iterator<Item = &'static [&'static str]> {
    anchors().map(|anchor| anchor.names).chain([&FAULT_ENTRIES[..]])
}

impl Default for AnchorSearch {
    fn default() -> Self {
        Self { wanted: places().flatten().copied().collect(), here: FxHashSet::default(), functions: 0 }
    }
}

impl AnchorSearch {
    /// The kernel has the function `name`.
    pub fn meet(&mut self, name: &str) {
        self.functions += 1;
        self.here.extend(self.wanted.get(mechanisms::plain_name(name)));
    }

    /// What was found among them.
    pub fn found(&self) -> AnchorsFound {
        let is_here = |names: &[&str]| names.iter().any(|name| self.here.contains(name));
        let needed = anchors().filter(|anchor| !anchor.optional).map(|anchor| anchor.names);
        let optional: Vec<&Anchor> = anchors().filter(|anchor| anchor.optional).collect();
        AnchorsFound {
            functions: self.functions,
            missing: needed.chain([&FAULT_ENTRIES[..]]).filter(|names| !is_here(names)).collect(),
            optional: optional.len(),
            optional_here: optional.iter().filter(|anchor| is_here(anchor.names)).count(),
            absent: places().filter(|names| !is_here(names)).filter_map(|names| names.first().copied()).collect(),
        }
    }
}

/// Looks for the anchors among the functions of `/proc/kallsyms`, given as its text.
pub fn anchors_in(kallsyms: &str) -> AnchorsFound {
    let mut search = AnchorSearch::default();
    for name in kallsyms.lines().filter_map(|line| line.split_whitespace().nth(2)) {
        search.meet(name);
    }
    search.found()
}

/// Waits of a kind, told by the first function from the innermost outwards that is one of theirs.
#[rustfmt::skip]
pub const OFF_ANCHORS: &[OffAnchor] = &[
    waits("off.dirty_throttling", "held back because too many pages were dirty", &[at(&["balance_dirty_pages"])]),
    waits("off.memory_cgroup", "held back by the memory cgroup's memory.high, or waiting for its OOM killer", &[
        may(&["__mem_cgroup_handle_over_high", "mem_cgroup_handle_over_high"]), may(&["mem_cgroup_out_of_memory"]), may(&["mem_cgroup_oom_synchronize"]),
    ]),
    waits("off.reclaim", "waiting for memory to be freed or moved together", &[
        at(&["try_to_free_pages"]), at(&["shrink_node"]), may(&["reclaim_throttle"]), may(&["try_to_free_mem_cgroup_pages"]), may(&["compact_zone"]), may(&["migrate_pages"]),
    ]),
    waits("off.swap", "waiting for pages from swap", &[at(&["do_swap_page"]), may(&["swap_read_folio", "swap_readpage"])]),
    waits("off.flush", "waiting until data are safe: flush of the device, commit of the journal", &[
        at(&["blkdev_issue_flush"]), may(&["jbd2_log_wait_commit"]), may(&["jbd2_complete_transaction"]), may(&["ext4_sync_file"]), may(&["xfs_log_force_seq"]), may(&["xlog_wait_on_iclog"]), may(&["btrfs_sync_log"]), may(&["btrfs_wait_for_commit"]),
    ]),
    waits("off.journal", "waiting for room in the journal, or for a commit to take a block up", &[
        may(&["start_this_handle"]), may(&["wait_transaction_locked"]), may(&["do_get_write_access"]), may(&["add_transaction_credits"]), may(&["xlog_grant_head_wait"]), may(&["jbd2_journal_commit_transaction"]), may(&["kjournald2"]),
    ]),
    waits("off.write_back", "waiting until pages are written", &[
        at(&["folio_wait_writeback"]), at(&["__filemap_fdatawait_range"]), may(&["__sync_dirty_buffer"]), may(&["fsync_buffers_list"]), may(&["writeback_sb_inodes"]), may(&["sync_inodes_sb"]),
    ]),
    waits("off.discard", "waiting until blocks are discarded", &[may(&["blkdev_issue_discard"]), may(&["blk_ioctl_discard", "blkdev_common_ioctl"])]),
    waits("off.direct_io", "waiting for direct I/O", &[
        may(&["__iomap_dio_rw"]), may(&["blkdev_direct_IO"]), may(&["__blkdev_direct_IO_simple"]), may(&["blkdev_read_iter"]), may(&["blkdev_write_iter"]), may(&["inode_dio_wait"]),
    ]),
    waits("off.async_io", "waiting for asynchronous I/O to be done", &[may(&["read_events"]), may(&["io_cqring_wait"])]),
    waits("off.read", "waiting for contents of files", &[
        at(&["filemap_read"]), at(&["filemap_fault"]), may(&["filemap_update_page"]), may(&["filemap_get_pages"]), may(&["filemap_read_folio"]), may(&["page_cache_ra_unbounded"]), may(&["__bread_gfp"]), may(&["__wait_on_buffer"]),
        may(&["ext4_bread"]), may(&["__ext4_get_inode_loc"]), may(&["ext4_read_block_bitmap"]), may(&["__read_extent_tree_block"]), may(&["ext4_sb_breadahead_unmovable"]), may(&["xfs_buf_iowait"]), may(&["read_extent_buffer_pages"]), may(&["swap_cluster_readahead"]), may(&["filemap_splice_read"]), may(&["generic_perform_write"]),
    ]),
    waits("off.block_queue", "waiting for room in the queue of a block device", &[
        at(&["blk_mq_get_tag"]), at(&["rq_qos_wait"]), may(&["__blk_mq_alloc_requests"]), may(&["blk_throtl_bio", "__blk_throtl_bio"]),
    ]),
    waits("off.tlb", "waiting until other CPUs have dropped a mapping, or have passed a grace period", &[may(&["synchronize_rcu"]), may(&["synchronize_rcu_expedited"]), may(&["wait_rcu_exp_gp"])]),
    waits(KERNEL_LOCK, "waiting for a lock of the kernel", &[
        at(&["rwsem_down_read_slowpath"]), at(&["rwsem_down_write_slowpath"]), may(&["__mutex_lock"]), may(&["__mutex_lock_slowpath"]), may(&["__lock_sock"]), may(&["percpu_rwsem_wait"]), may(&["__down_common"]), may(&["__rt_mutex_slowlock"]), may(&["rwsem_down_failed_common"]), may(&["vma_start_write"]), may(&["__vma_start_write"]),
    ]),
];

/// Functions that take the lock of an address space: a wait for a kernel lock that one of them called is for that.
const MMAP_LOCKERS: &[&str] = &[
    "lock_mm_and_find_vma",
    "vm_mmap_pgoff",
    "__vm_munmap",
    "do_mprotect_pkey",
    "__do_sys_brk",
    "__do_sys_mremap",
    "madvise_lock",
    "madvise_vma_behavior",
    "do_madvise",
    "dup_mm",
    "dup_mmap",
    "exit_mmap",
    "exit_mm",
    "proc_pid_cmdline_read",
    "lock_next_vma",
    "query_vma_setup",
    "m_start",
    "do_mlock",
    "mm_populate",
    "ksys_shmdt",
    "do_shmat",
    "userfaultfd_ioctl",
    "collapse_huge_page",
];
/// What lies between them: the lock's own functions.
const LOCK_HELPERS: &[&str] = &[
    "down_read",
    "down_read_killable",
    "down_read_interruptible",
    "down_write",
    "down_write_killable",
    "mmap_read_lock",
    "mmap_read_lock_killable",
    "mmap_write_lock",
    "mmap_write_lock_killable",
    "__mmap_lock_do_trace_start_locking",
];

/// The component of a wait, by the names of the kernel's functions from the innermost outwards; none where no anchor is among
/// them, and who woke the task tells ([`off_by_waker`]).
pub fn off_of_stack<'a>(innermost_first: impl IntoIterator<Item = &'a str>) -> Option<&'static str> {
    let mut waits_for_lock = false;
    for (depth, function) in innermost_first.into_iter().enumerate() {
        let name = mechanisms::plain_name(function);
        // Stacks of tasks that sleep begin below the scheduler's own functions, and the slow paths of locks are among those
        // (`__sched`): a function that takes the lock and sleeps by itself waits for it.
        if depth == 0 && MMAP_LOCKERS.contains(&name) {
            return Some(MMAP_LOCK);
        }
        if waits_for_lock {
            if LOCK_HELPERS.contains(&name) || is_of(KERNEL_LOCK, name) {
                continue;
            }
            return Some(if MMAP_LOCKERS.contains(&name) { MMAP_LOCK } else { KERNEL_LOCK });
        }
        let tells = |anchor: &Anchor| anchor.names.contains(&name);
        match OFF_ANCHORS.iter().find(|off| off.anchors.iter().any(tells)) {
            Some(off) if off.component == KERNEL_LOCK => waits_for_lock = true,
            Some(off) => return Some(off.component),
            None => {}
        }
    }
    waits_for_lock.then_some(KERNEL_LOCK)
}

fn is_of(component: &str, name: &str) -> bool {
    let of = |off: &&OffAnchor| off.component == component;
    OFF_ANCHORS.iter().find(of).is_some_and(|off| off.anchors.iter().any(|anchor| anchor.names.contains(&name)))
}

/// Of the wall account: time in which no task was active.
pub const IDLE: &str = "idle";

/// The program's own code.
pub const USER: &str = "run.user";
/// RUN that the kernel did not count as such: a hypervisor had the CPU.
pub const STOLEN: &str = "run.stolen";
/// The kernel, without an anchor.
pub const OTHER: &str = "run.other";
/// RUN in programs of a recorder: pagelab's own time.
pub const RECORDER: &str = "run.recorder";
/// RUN that no sample splits.
pub const UNSAMPLED: &str = "run.unsampled";
/// Waits that no anchor tells, uninterruptible or counted as I/O.
pub const OFF_OTHER: &str = "off.other";

/// The component of time on a CPU in the kernel.
pub fn run_of_mechanism(mechanism: &str) -> &'static str {
    let of = |component: &&Component| component.name.strip_prefix("run.") == Some(mechanism);
    COMPONENTS.iter().find(of).map_or(OTHER, |component| component.name)
}

/// The component of time without a CPU.
pub const fn ready_by(holder: Option<Holder>) -> &'static str {
    match holder {
        Some(Holder::Own) => "ready.own",
        Some(Holder::Foreign) => "ready.foreign",
        Some(Holder::Throttled) => "ready.throttled",
        Some(Holder::Nobody) => "ready.idle_cpu",
        Some(Holder::Wakeup) => "ready.wakeup",
        None => "ready.unknown",
    }
}

/// The component of a wait that no anchor tells.
pub const fn off_by_waker(waker: Option<Waker>) -> &'static str {
    match waker {
        Some(Waker::Own) => "off.dependent",
        Some(Waker::Foreign | Waker::Softirq | Waker::Irq) => "off.outside",
        Some(Waker::Timer) => "off.timer",
        None => "off.unknown",
    }
}

const fn component(name: &'static str, state: State, is_active: bool, about: &'static str) -> Component {
    Component { name, state, is_active, about }
}

/// What is not made of the tables of anchors.
#[rustfmt::skip]
const OTHERS: &[Component] = &[
    component(USER, State::Run, true, "the program's own code"),
    component(STOLEN, State::Run, true, "a hypervisor had the CPU: on it, and not counted by the kernel"),
    component(OTHER, State::Run, true, "the kernel, in functions that tell nothing"),
    component(UNSAMPLED, State::Run, true, "on a CPU, without a sample that says where"),
    component("ready.own", State::Ready, true, "another task of the target had the CPU"),
    component("ready.foreign", State::Ready, true, "a task that is not the target's had the CPU"),
    component("ready.throttled", State::Ready, true, "the cgroup had used up its quota of CPU time (cpu.max)"),
    component("ready.idle_cpu", State::Ready, true, "queued on an idle CPU, which had to switch to it"),
    component("ready.wakeup", State::Ready, true, "woken, and the CPU that was to run it had to be told, or to wake up"),
    component("ready.unknown", State::Ready, true, "it is not known who had the CPU"),
    component(MMAP_LOCK, State::Off, true, "waiting for the lock of an address space"),
    component(OFF_OTHER, State::Off, true, "uninterruptible or for I/O, in functions that tell nothing"),
    component("off.dependent", State::Off, false, "woken by another task of the target: futexes, pipes, children"),
    component("off.outside", State::Off, false, "woken from outside: clients, the network, other programs"),
    component("off.timer", State::Off, false, "woken by a timer"),
    component("off.unknown", State::Off, false, "not woken yet, or nobody saw by whom"),
];

/// Every component, in the order of states.
pub static COMPONENTS: LazyLock<Vec<Component>> = LazyLock::new(|| {
    let run = mechanisms::MECHANISMS.iter().map(|mechanism| Component {
        name: Box::leak(format!("run.{}", mechanism.name).into_boxed_str()),
        state: State::Run,
        is_active: true,
        about: mechanism.about,
    });
    let off = OFF_ANCHORS.iter().map(|off| component(off.component, State::Off, true, off.about));
    let mut all: Vec<Component> = OTHERS.iter().copied().chain(run).chain(off).collect();
    all.sort_by_key(|component| component.state);
    all
});

/// The component of this name.
pub fn component_of(name: &str) -> Option<&'static Component> {
    COMPONENTS.iter().find(|component| component.name == name)
}

/// The page `docs/budget.md`: every component, and the functions that tell it.
pub fn markdown() -> String {
    let mut out = String::from(
        "# Where time goes: the components of the account\n\n\
         Generated from the registry in `crates/vocab/src/budget.rs` and `mechanisms.rs`; run `make docs`.\n\n\
         `pagelab show DIR budget` splits the life of each task into RUN (it has a CPU), READY (it could run and has none) and OFF \
         (off the CPU until woken). The first function of a kernel stack, from the innermost outwards, that stands here tells the \
         component; of several names for one place a kernel has one. A component is active if its time was spent for the work, or \
         taken from it by the system; the rest is waiting for others, shown and never claimed as a cause. The wall account, which tells \
         what each moment counts for, is exact where the stream `sched` was recorded, and else told by sums of a second. \
         Without a PMU, samples that fall due with interrupts off on the way out of a fault or a call are taken in the program; where its \
         registers tell that nothing has run there since, they count as `run.fault.entry` and `run.call.entry` \
         (`samples.returned_from`). Between different kernels functions that one of them has not, or has inlined, tell nothing: their \
         time counts with their callers'.\n\n\
         | component | active | time spent on | told by |\n|---|---|---|---|\n",
    );
    for component in COMPONENTS.iter() {
        let active = if component.is_active { "yes" } else { "" };
        let Component { name, about, .. } = component;
        let _ = writeln!(out, "| `{name}` | {active} | {about} | {} |", functions(name).join(", "));
    }
    out
}

/// The functions that tell a component, alternatives of one place joined by `/`.
fn functions(component: &str) -> Vec<String> {
    let run = mechanisms::MECHANISMS.iter().filter(|one| component.strip_prefix("run.") == Some(one.name));
    let off = OFF_ANCHORS.iter().filter(|one| one.component == component);
    let anchors = run.flat_map(|one| one.anchors).chain(off.flat_map(|one| one.anchors));
    let mut found: Vec<String> = anchors.map(|anchor| format!("`{}`", anchor.names.join("`/`"))).collect();
    if component == MMAP_LOCK {
        found.push(format!("a lock of the kernel, taken by `{}`", MMAP_LOCKERS.join("`/`")));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_component_has_a_name_of_its_own_and_is_found_by_it() {
        let names: BTreeSet<&str> = COMPONENTS.iter().map(|component| component.name).collect();
        assert_eq!(names.len(), COMPONENTS.len());
        for component in COMPONENTS.iter() {
            assert_eq!(component_of(component.name), Some(component));
            assert!(component.name.starts_with(&format!("{}.", component.state.word())), "{component:?}");
        }
        assert_eq!(run_of_mechanism("memory.clear"), "run.memory.clear");
        assert_eq!(run_of_mechanism("what nobody knows"), OTHER);
        for holder in Holder::ALL.iter().copied().map(Some).chain([None]) {
            assert!(component_of(ready_by(holder)).is_some_and(|component| component.is_active), "{holder:?}");
        }
        for waker in Waker::ALL.iter().copied().map(Some).chain([None]) {
            assert!(component_of(off_by_waker(waker)).is_some_and(|component| !component.is_active), "{waker:?}");
        }
    }

    /// The page people read is the registry that the program uses.
    #[test]
    fn docs_page_of_components_matches_the_registry() {
        let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/budget.md");
        if std::env::var_os("PAGELAB_BLESS").is_some() {
            std::fs::write(&page, markdown()).expect("docs/budget.md can be written");
        }
        let stored = std::fs::read_to_string(&page).unwrap_or_default();
        assert!(stored == markdown(), "{} differs from the registry; run: make docs", page.display());
        for line in markdown().lines().filter(|line| line.starts_with("| `")) {
            assert_eq!(line.matches('|').count(), 5, "{line}");
        }
    }

    #[test]
    fn a_function_tells_one_kind_of_wait() {
        let mut functions = BTreeSet::new();
        for off in OFF_ANCHORS {
            for name in off.anchors.iter().flat_map(|anchor| anchor.names) {
                assert!(functions.insert(*name), "{name} is an anchor twice");
            }
        }
        for name in MMAP_LOCKERS.iter().chain(LOCK_HELPERS) {
            assert!(!functions.contains(name), "{name}");
        }
    }

    #[test]
    fn waits_are_told_by_the_innermost_anchor() {
        let of = |stack: &[&'static str]| off_of_stack(stack.iter().copied());
        let slept = ["__schedule", "schedule", "io_schedule", "folio_wait_bit_common"];
        assert_eq!(of(&[&slept[..], &["filemap_get_pages", "filemap_read", "vfs_read"]].concat()), Some("off.read"));
        let fsync =
            ["folio_wait_writeback", "__filemap_fdatawait_range", "file_write_and_wait_range", "ext4_sync_file"];
        assert_eq!(of(&[&slept[..], &fsync].concat()), Some("off.write_back"));
        assert_eq!(
            of(&["__vm_munmap", "__x64_sys_munmap", "do_syscall_64"]),
            Some("off.mmap_lock"),
            "the lock is left out"
        );
        assert_eq!(of(&["lock_mm_and_find_vma", "exc_page_fault", "asm_exc_page_fault"]), Some("off.mmap_lock"));
        assert_eq!(of(&["__schedule", "schedule", "jbd2_log_wait_commit", "ext4_sync_file"]), Some("off.flush"));
        // How a wait is done says nothing about what it is for.
        let flush =
            ["__schedule", "schedule", "io_schedule_timeout", "wait_for_completion_io_timeout", "submit_bio_wait"];
        assert_eq!(of(&[&flush[..], &["blkdev_issue_flush", "ext4_sync_file"]].concat()), Some("off.flush"));
        assert_eq!(of(&["__schedule", "schedule", "futex_do_wait", "do_futex"]), None);
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn the_lock_of_an_address_space_is_told_from_others() {
        let of = |stack: &[&'static str]| off_of_stack(stack.iter().copied());
        let slept = ["__schedule", "schedule", "schedule_preempt_disabled"];
        let write = ["rwsem_down_write_slowpath", "down_write_killable"];
        assert_eq!(of(&[&slept[..], &write, &["vm_mmap_pgoff", "do_syscall_64"]].concat()), Some(MMAP_LOCK));
        assert_eq!(of(&[&slept[..], &write, &["ext4_buffered_write_iter"]].concat()), Some(KERNEL_LOCK));
        assert_eq!(of(&[&slept[..], &write].concat()), Some(KERNEL_LOCK), "the stack was cut");
        let mutex = ["__mutex_lock.constprop.0", "pipe_release", "exit_mm"];
        assert_eq!(of(&[&slept[..], &mutex].concat()), Some(KERNEL_LOCK), "only who takes the lock is asked");
    }
}
