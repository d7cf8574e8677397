//! Requests of the block layer: how long each waited in the queue and how long the device took.
//!
//! All requests of the host's disks are recorded while a recording runs, with the task of the tree that submitted
//! them where there is one. The others have none: what a program writes into the page cache is written to the disk
//! later, by threads of the kernel, and leaving them out would hide most of a workload's writes. What other programs
//! do at the same time is there too; it takes the disk's time just as well. Requests that the recorder submits itself
//! are left out and counted; what it writes into the page cache is written back like everybody's, so a recording
//! belongs on another disk.
//!
//! A request that was in flight when recording began is not recorded; one still in flight at its end is, without a
//! duration ([`BlockProbe::unfinished`]).

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, OpenObject};

use crate::bpf::{BpfError, EventRing, listen_to_libbpf, not_loaded, refused, user_dev};
use crate::btf::{KernelTypes, Names};

#[allow(clippy::all, clippy::pedantic, clippy::undocumented_unsafe_blocks, clippy::unwrap_used, missing_docs)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/block.skel.rs"));
}

use skeleton::{BlockSkel, BlockSkelBuilder, types};

/// Tracepoint at which the block layer accepts a request, in newer kernels.
const ACCEPTED: &str = "block_io_start";
/// Without these there is nothing to see.
const NEEDED_TRACEPOINTS: [&str; 2] = ["block_rq_issue", "block_rq_complete"];
const NEEDED: &str =
    "root and the block tracepoints of the running kernel (CONFIG_BLOCK); try: sudo pagelab record ...";

/// Errno of a `blk_status_t` (include/linux/blk_types.h); the numbers have been the same since 4.13, with new ones
/// behind.
const STATUS_ERRNOS: [(i32, i32); 17] = [
    (1, libc::EOPNOTSUPP),
    (2, libc::ETIMEDOUT),
    (3, libc::ENOSPC),
    (4, libc::ENOLINK),
    (5, libc::EREMOTEIO),
    (6, libc::EBADE),
    (7, libc::ENODATA),
    (8, libc::EILSEQ),
    (9, libc::ENOMEM),
    (10, libc::EIO),
    (11, libc::EREMCHG),
    (12, libc::EAGAIN),
    (13, libc::EBUSY),
    (14, libc::ETOOMANYREFS),
    (15, libc::EOVERFLOW),
    (16, libc::ENODEV),
    (17, libc::ETIME),
];

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockRequest {
    /// When it was issued to the device, CLOCK_MONOTONIC, ns.
    pub issued_ns: u64,
    /// Time in the device; none if it has not completed.
    pub device_ns: Option<u64>,
    /// Time from when the block layer accepted it to the issue; none if the former was not seen.
    pub queue_ns: Option<u64>,
    /// The task of the tree that submitted it.
    pub task_id: Option<u32>,
    /// The whole disk, as `st_dev` has it.
    pub dev: u64,
    /// First sector, of 512 bytes; 0 where the operation is on no sector in particular.
    pub sector: u64,
    /// Length.
    pub bytes: u64,
    /// `read`, `write`, `flush`, `discard`, ...: the kernel's own word.
    pub op: String,
    /// Pieces that were merged into it.
    pub merged: u32,
    /// 0 or a negative errno; none if it has not completed.
    pub status: Option<i32>,
}

/// What the programs are to do.
#[derive(Debug, Clone, Copy)]
pub struct BlockOptions {
    /// The process whose own requests are left out.
    pub recorder: u32,
    /// Bytes of ring for all CPUs together; rounded up to a power of two, at least a page.
    pub ring_bytes: u32,
}

impl BlockOptions {
    /// For a recorder, with a ring that holds 25,000 requests: what a device of a million a second completes between
    /// two looks.
    pub fn of(recorder: u32) -> Self {
        Self { recorder, ring_bytes: 2 << 20 }
    }
}

/// What the programs have counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlockCounts {
    /// Requests issued and ended while recording, lost and left out ones included.
    pub seen: u64,
    /// Of these, the ones that found no room.
    pub lost: u64,
    /// Of these, the recorder's own.
    pub filtered: u64,
    /// Requests that ended without being issued, and are not among those seen: a flush without data is carried out by
    /// another request, of the kernel's own. `/proc/diskstats` counts them as writes of nothing.
    pub not_issued: u64,
}

/// The loaded programs.
pub struct BlockProbe {
    links: Vec<Link>,
    events: EventRing,
    received: Vec<types::block_event>,
    ops: BTreeMap<u32, String>,
    skel: BlockSkel<'static>,
}

/// The words of the operations, `read` for `REQ_OP_READ`.
fn words(names: Names) -> BTreeMap<u32, String> {
    names.into_iter().map(|(value, name)| (value as u32, name.to_ascii_lowercase())).collect()
}

/// The names of operations in this kernel.
fn ops(kernel: &KernelTypes) -> BTreeMap<u32, String> {
    // The name of the enumeration before 6.1 was req_opf.
    words(kernel.names(&["req_op", "req_opf"], "REQ_OP_"))
}

/// Whether the kernel has what is needed, without loading anything; its types, for the probe.
///
/// # Errors
/// The reason in words.
pub fn check() -> Result<Rc<KernelTypes>, String> {
    let kernel = KernelTypes::read()?;
    match NEEDED_TRACEPOINTS.iter().find(|name| !kernel.has_tracepoint(name)) {
        Some(missing) => Err(format!("the kernel has no tracepoint {missing}; needed: {NEEDED}")),
        None => Ok(kernel),
    }
}

impl BlockProbe {
    /// Loads the programs and attaches them. `task_states` says which tasks
    /// are recorded (`bpf/membership.bpf.h`).
    pub fn attach(
        kernel: &KernelTypes,
        options: BlockOptions,
        task_states: Option<BorrowedFd<'_>>,
    ) -> Result<Self, BpfError> {
        listen_to_libbpf();
        let sees_acceptance = kernel.has_tracepoint(ACCEPTED);
        // The object must not move while the skeleton borrows it. It is a pointer's worth of memory per recording.
        let storage: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = BlockSkelBuilder::default().open(storage).map_err(refused("open", NEEDED))?;
        if let Some(map) = task_states {
            open.maps.task_states.reuse_fd(map).map_err(refused("sharing the tree", NEEDED))?;
        }
        let ring_bytes = options.ring_bytes.next_power_of_two().max(rustix::param::page_size() as u32);
        open.maps.block_events.set_max_entries(ring_bytes).map_err(refused("sizing the ring", NEEDED))?;
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            rodata.recorder_pid = options.recorder;
        }
        open.progs.io_start.set_autoload(sees_acceptance);
        open.progs.getrq.set_autoload(!sees_acceptance);
        let mut skel = open.load().map_err(not_loaded)?;
        let links = attach(&mut skel, sees_acceptance)?;
        let events = EventRing::of(&skel.maps.block_events)?;
        Ok(Self { links, events, received: Vec::new(), ops: ops(kernel), skel })
    }

    /// Hands over the requests that have completed, in the order in which they did.
    pub fn drain(&mut self, mut sink: impl FnMut(BlockRequest)) {
        let mut received = std::mem::take(&mut self.received);
        self.events.consume(|bytes| received.extend(read::<types::block_event>(bytes)));
        for event in received.drain(..) {
            sink(self.request(&event.request, Some((event.completed_ts, event.error))));
        }
        self.received = received;
    }

    /// Hands over the requests that were issued and have not completed. To be called when the programs are detached,
    /// once.
    pub fn unfinished(&self, mut sink: impl FnMut(BlockRequest)) {
        let requests = &self.skel.maps.requests;
        for key in requests.keys() {
            // One that cannot be looked up has gone since.
            let Ok(Some(bytes)) = requests.lookup(&key, MapFlags::ANY) else { continue };
            let Some(request) = read::<types::block_request>(&bytes) else { continue };
            if request.issued_ts != 0 && request.own == 0 {
                sink(self.request(&request, None));
            }
        }
    }

    /// Detaches the programs. What they sent before stays in the ring.
    pub fn detach(&mut self) {
        // Issues go first and completions last: what is seen to begin is seen to end.
        while self.links.pop().is_some() {}
    }

    /// What the programs have counted.
    pub fn counts(&self) -> BlockCounts {
        self.skel.maps.bss_data.as_deref().map_or_else(BlockCounts::default, |bss| BlockCounts {
            seen: bss.block_seen,
            lost: bss.block_lost,
            filtered: bss.block_filtered,
            not_issued: bss.block_not_issued,
        })
    }

    fn request(&self, raw: &types::block_request, completed: Option<(u64, i32)>) -> BlockRequest {
        BlockRequest {
            issued_ns: raw.issued_ts,
            device_ns: completed.map(|(ts, _)| ts.saturating_sub(raw.issued_ts)),
            queue_ns: (raw.accepted_ts != 0).then(|| raw.issued_ts.saturating_sub(raw.accepted_ts)),
            task_id: (raw.task_id != 0).then_some(raw.task_id),
            dev: user_dev(raw.dev),
            sector: if raw.sector == u64::MAX { 0 } else { raw.sector },
            bytes: raw.bytes.into(),
            op: self.ops.get(&raw.op).cloned().unwrap_or_else(|| format!("op {}", raw.op)),
            merged: raw.merged,
            status: completed.map(|(_, error)| errno(error)),
        }
    }
}

/// The negative errno of what a kernel says of a completed request.
fn errno(said: i32) -> i32 {
    match said {
        ..=0 => said,
        status => {
            let known = STATUS_ERRNOS.iter().find(|(known, _)| *known == status);
            -known.map_or(libc::EIO, |(_, errno)| *errno)
        }
    }
}

fn attach(skel: &mut BlockSkel<'static>, sees_acceptance: bool) -> Result<Vec<Link>, BpfError> {
    let progs = &mut skel.progs;
    let wanted = [
        // What ends requests comes first, so that none is begun that cannot be ended.
        ("block_rq_complete", &mut progs.rq_complete),
        ("block_rq_merge", &mut progs.rq_merge),
        ("block_rq_requeue", &mut progs.rq_requeue),
        if sees_acceptance { (ACCEPTED, &mut progs.io_start) } else { ("block_getrq", &mut progs.getrq) },
        ("block_rq_issue", &mut progs.rq_issue),
    ];
    wanted.into_iter().map(|(name, program)| program.attach_trace().map_err(refused(name, NEEDED))).collect()
}

/// Marks the generated records that consist of integers only.
trait WireRecord {}
impl WireRecord for types::block_event {}
impl WireRecord for types::block_request {}

fn read<T: Copy + WireRecord>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < size_of::<T>() {
        return None;
    }
    // SAFETY: the slice holds at least size_of::<T>() bytes, the read is unaligned, and every bit pattern is a value.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_in_which_kernels_say_errors_are_understood() {
        assert_eq!((errno(0), errno(-5), errno(10), errno(250)), (0, -5, -libc::EIO, -libc::EIO));
        assert_eq!((errno(3), errno(1)), (-libc::ENOSPC, -libc::EOPNOTSUPP));
    }

    #[test]
    fn operations_have_the_words_of_the_running_kernel() {
        let Ok(kernel) = KernelTypes::read() else { return };
        let ops = ops(&kernel);
        assert_eq!(
            [0, 1, 2, 3].map(|op| ops.get(&op).map(String::as_str)),
            [Some("read"), Some("write"), Some("flush"), Some("discard")]
        );
        assert!(check().is_ok() && !kernel.has_tracepoint("block_rq_complet"));
    }

    #[test]
    fn a_record_cut_short_is_none() {
        assert!(read::<types::block_event>(&[0; 8]).is_none());
    }
}
