//! Requests of the block layer: how long each waited in the queue and how long the device took.
//!
//! While a recording runs, every request of the host's disks is recorded, with the task of the tree that submitted it,
//! if one did. The others have no task: what a program writes into the page cache is written to the disk later, by
//! kernel threads, and leaving those requests out would hide most of a workload's writes. Requests of other programs
//! are recorded too, as they use the disk's time just as well. Requests that the recorder submits itself are left out
//! and counted. What it writes into the page cache is written back like any other data, so a recording belongs on
//! another disk.
//!
//! A request that was in flight when recording began is not recorded; one still in flight at its end is, without a
//! duration ([`BlockProbe::unfinished`]).

use std::collections::{BTreeMap, HashMap};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::rc::Rc;

use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{Link, MapCore, MapFlags};
use pagelab_recording::RecordingWriter;
use pagelab_recording::tables::BlockIosRow;

use crate::bpf::{
    self, BpfError, EventRing, WireRecord, attach_all, include_skeleton, not_loaded, open, read, refused, share,
    user_dev,
};
use crate::btf::{KernelTypes, Names};
use crate::streams::Stream;
use crate::watcher::{AttachTo, Closing, Count, ProbeOptions, Round, Watcher};

include_skeleton!("block");

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

/// The programs' configuration.
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

/// The programs' counts.
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
    words: Words,
    skel: BlockSkel<'static>,
}

/// The rows' words for the programs' numbers.
#[derive(Debug, Default)]
struct Words {
    ops: BTreeMap<u32, String>,
    /// Names of devices, each as it was when the device was met first: another may get its number later.
    devices: HashMap<u64, Option<String>>,
}

/// The name of a disk, as sysfs under `root` has it.
fn device_name(root: &Path, dev: u64) -> Option<String> {
    let number = format!("sys/dev/block/{}:{}", libc::major(dev), libc::minor(dev));
    let target = std::fs::read_link(root.join(number)).ok()?;
    // What stands for a slash in a name is an exclamation mark there.
    Some(target.file_name()?.to_string_lossy().replace('!', "/"))
}

impl Words {
    /// Hands over the row of a request, and of its completion (time and status) if it has completed.
    fn with_row(
        &mut self,
        raw: &types::block_request,
        completed: Option<(u64, i32)>,
        sink: impl FnOnce(&BlockIosRow<'_>),
    ) {
        let Self { ops, devices } = self;
        let unnamed;
        let op = if let Some(op) = ops.get(&raw.op) {
            op
        } else {
            unnamed = format!("op {}", raw.op);
            &unnamed
        };
        let dev = user_dev(raw.dev);
        sink(&BlockIosRow {
            ts: raw.issued_ts as i64,
            dur: completed.map(|(ts, _)| ts.saturating_sub(raw.issued_ts) as i64),
            queue_ns: (raw.accepted_ts != 0).then(|| raw.issued_ts.saturating_sub(raw.accepted_ts)),
            task_id: (raw.task_id != 0).then_some(raw.task_id),
            dev,
            sector: if raw.sector == u64::MAX { 0 } else { raw.sector },
            bytes: raw.bytes.into(),
            op,
            merged: Some(raw.merged),
            status: completed.map(|(_, error)| errno(error)),
            device: devices.entry(dev).or_insert_with(|| device_name(Path::new("/"), dev)).as_deref(),
        });
    }
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
    bpf::check(&NEEDED_TRACEPOINTS, NEEDED)
}

impl BlockProbe {
    /// Loads the programs and attaches them. `task_states` says which tasks
    /// are recorded (`bpf/membership.bpf.h`).
    pub fn attach(
        kernel: &KernelTypes,
        options: BlockOptions,
        task_states: Option<BorrowedFd<'_>>,
    ) -> Result<Self, BpfError> {
        let sees_acceptance = kernel.has_tracepoint(ACCEPTED);
        let mut open = open::<BlockSkelBuilder>(NEEDED)?;
        if let Some(map) = task_states {
            share(&mut open.maps.task_states, map, NEEDED)?;
        }
        let ring_bytes = options.ring_bytes.next_power_of_two().max(rustix::param::page_size() as u32);
        open.maps.block_events.set_max_entries(ring_bytes).map_err(refused("sizing the ring", NEEDED))?;
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            rodata.recorder_pid = options.recorder;
        }
        open.progs.io_start.set_autoload(sees_acceptance);
        open.progs.getrq.set_autoload(!sees_acceptance);
        let skel = open.load().map_err(not_loaded)?;
        let links = attach(&skel, sees_acceptance)?;
        let events = EventRing::of(&skel.maps.block_events)?;
        let words = Words { ops: ops(kernel), devices: HashMap::new() };
        Ok(Self { links, events, words, skel })
    }

    /// Hands over the rows of the requests that have completed, in the order in which they did.
    pub fn drain(&mut self, mut sink: impl FnMut(&BlockIosRow<'_>)) {
        let Self { events, words, .. } = self;
        events.consume(|bytes| {
            if let Some(event) = read::<types::block_event>(bytes) {
                words.with_row(&event.request, Some((event.completed_ts, event.error)), &mut sink);
            }
        });
    }

    /// Hands over the rows of the requests that were issued and have not completed. To be called when the programs are
    /// detached, once.
    pub fn unfinished(&mut self, mut sink: impl FnMut(&BlockIosRow<'_>)) {
        let requests = &self.skel.maps.requests;
        for key in requests.keys() {
            // One that cannot be looked up has gone since.
            let Ok(Some(bytes)) = requests.lookup(&key, MapFlags::ANY) else { continue };
            let Some(request) = read::<types::block_request>(&bytes) else { continue };
            if request.issued_ts != 0 && request.own == 0 {
                self.words.with_row(&request, None, &mut sink);
            }
        }
    }

    /// Detaches the programs. What they sent before stays in the ring.
    pub fn detach(&mut self) {
        // Issues go first and completions last: what is seen to begin is seen to end.
        while self.links.pop().is_some() {}
    }

    /// The programs' counts.
    pub fn counts(&self) -> BlockCounts {
        self.skel.maps.bss_data.as_deref().map_or_else(BlockCounts::default, |bss| BlockCounts {
            seen: bss.block_seen,
            lost: bss.block_lost,
            filtered: bss.block_filtered,
            not_issued: bss.block_not_issued,
        })
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

fn attach(skel: &BlockSkel<'static>, sees_acceptance: bool) -> Result<Vec<Link>, BpfError> {
    let progs = &skel.progs;
    let programs = [
        // What ends requests comes first, so that none is begun that cannot be ended.
        ("block_rq_complete", &progs.rq_complete),
        ("block_rq_merge", &progs.rq_merge),
        ("block_rq_requeue", &progs.rq_requeue),
        if sees_acceptance { (ACCEPTED, &progs.io_start) } else { ("block_getrq", &progs.getrq) },
        ("block_rq_issue", &progs.rq_issue),
    ];
    attach_all(programs, NEEDED)
}

// SAFETY: integers without gaps.
unsafe impl WireRecord for types::block_event {}
// SAFETY: as above.
unsafe impl WireRecord for types::block_request {}

/// The streams that the watcher fills.
pub(crate) const STREAMS: &[Stream] = &[Stream::Block];

/// The stream `block`; the probe is there once there is a target.
struct BlockWatcher {
    kernel: Rc<KernelTypes>,
    probe: Option<BlockProbe>,
    unfinished: u64,
}

/// Finds out whether the kernel can be asked.
pub(crate) fn open_watcher(_: &ProbeOptions) -> Result<Box<dyn Watcher>, String> {
    Ok(Box::new(BlockWatcher { kernel: check()?, probe: None, unfinished: 0 }))
}

impl Watcher for BlockWatcher {
    fn streams(&self) -> &'static [Stream] {
        STREAMS
    }

    fn rung(&self) -> &'static str {
        "bpf"
    }

    fn begin(&mut self, target: &AttachTo<'_>) -> Result<(), String> {
        let options = BlockOptions::of(std::process::id());
        let probe = BlockProbe::attach(&self.kernel, options, target.task_states());
        self.probe = Some(probe.map_err(|error| error.to_string())?);
        Ok(())
    }

    fn step(&mut self, _: &mut Round, writer: &mut RecordingWriter) {
        let Some(probe) = &mut self.probe else { return };
        let columns = writer.table::<BlockIosRow<'_>>();
        probe.drain(|row| columns.push(row));
    }

    fn count(&self, counts: &mut Vec<Count>) {
        let Some(probe) = &self.probe else { return };
        let BlockCounts { seen, lost, filtered, .. } = probe.counts();
        counts.push(Count { stream: Stream::Block.name(), cpu: None, seen: seen + self.unfinished, lost, filtered });
    }

    fn shed(&mut self, _: Stream) -> bool {
        self.stop();
        true
    }

    fn stop(&mut self) {
        if let Some(probe) = &mut self.probe {
            probe.detach();
        }
    }

    fn finish(&mut self, closing: &mut Closing<'_>) {
        let Some(probe) = &mut self.probe else { return };
        let columns = closing.writer.table::<BlockIosRow<'_>>();
        let mut unfinished = 0;
        probe.unfinished(|row| {
            unfinished += 1;
            columns.push(row);
        });
        self.unfinished = unfinished;
        closing.note("unfinished", unfinished);
        closing.note("not_issued", probe.counts().not_issued);
    }
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

    #[test]
    fn a_disk_has_the_name_that_sysfs_gives_its_number() {
        let root = tempfile::tempdir().expect("a directory");
        let folder = root.path().join("sys/dev/block");
        std::fs::create_dir_all(&folder).expect("ours");
        for (number, target) in
            [("254:0", "../../devices/pci0/virtio0/block/vda"), ("104:16", "../../x/block/cciss!c0d1")]
        {
            std::os::unix::fs::symlink(target, folder.join(number)).expect("ours");
        }
        assert_eq!(device_name(root.path(), libc::makedev(254, 0)).as_deref(), Some("vda"));
        assert_eq!(device_name(root.path(), libc::makedev(104, 16)).as_deref(), Some("cciss/c0d1"));
        assert_eq!(device_name(root.path(), libc::makedev(7, 0)), None, "it is gone");
    }
}
