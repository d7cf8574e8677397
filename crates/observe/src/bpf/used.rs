//! What the recorded tree works on: file systems and block devices (`bpf/used.bpf.h`).

use std::mem::size_of;

use libbpf_rs::{MapCore, MapFlags};
use pagelab_vocab::syscalls::{self, ArgKind, Purpose, Returns, SyscallDef, Transfer};

use super::Observer;
use super::object::{WireRecord, read};
use super::skeleton::types;

/// A file system or block device as the tasks of a mount namespace see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UsedPlace {
    /// Inode number of the namespace.
    pub mnt_ns: u64,
    /// Device number of the file system, as the kernel encodes it: `major << 20 | minor`.
    pub dev: u32,
    /// Device number of the block device, where a file is one.
    pub rdev: Option<u32>,
}

/// It is worked on for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsedEvent {
    /// When, CLOCK_MONOTONIC, ns.
    pub ts: u64,
    /// The process.
    pub pid: u32,
    /// What.
    pub place: UsedPlace,
}

/// How much was done there. Amounts are estimates from some of the calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Use {
    /// Openings that were looked at.
    pub opens: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Calls that asked for data to be safe.
    pub syncs: u64,
}

// SAFETY: integers.
unsafe impl WireRecord for types::used_event {}
// SAFETY: as above.
unsafe impl WireRecord for types::used_key {}
// SAFETY: as above.
unsafe impl WireRecord for types::used_place {}

fn place(key: &types::used_key) -> UsedPlace {
    UsedPlace { mnt_ns: key.mnt_ns, dev: key.dev, rdev: (key.rdev != 0).then_some(key.rdev) }
}

pub(super) fn event(raw: &types::used_event) -> UsedEvent {
    UsedEvent { ts: raw.ts, pid: raw.pid, place: place(&raw.key) }
}

/// What the program looks at a call for: the flags of `enum used_what`.
pub(super) fn looked_at_for(call: &SyscallDef) -> u8 {
    let flag = |on: bool, flag: types::used_what| if on { flag.0 as u8 } else { 0 };
    let names_a_file = call.args.iter().any(|arg| arg.kind == ArgKind::Path);
    let is_of_fd = call.args.first().is_some_and(|arg| arg.kind == ArgKind::Fd);
    flag(call.returns == Returns::Fd && names_a_file, types::used_what::USED_MAKES_FD)
        | flag(is_of_fd && call.transfer == Some(Transfer::Read), types::used_what::USED_READS)
        | flag(is_of_fd && call.transfer == Some(Transfer::Write), types::used_what::USED_WRITES)
        | flag(is_of_fd && Purpose::Safety.is_all_of(call.name), types::used_what::USED_SAFETY)
}

/// The same of every call, by its number.
pub(super) fn configure(used_calls: &mut [u8]) {
    for call in syscalls::all() {
        if let Some(what) = used_calls.get_mut(call.number as usize) {
            *what = looked_at_for(call);
        }
    }
}

impl Observer {
    /// All places that the tree has worked on, and how much.
    pub fn used_places(&self) -> Vec<(UsedPlace, Use)> {
        let places = &self.skel.maps.used_places;
        let of_key = |bytes: Vec<u8>| {
            let key = read::<types::used_key>(&bytes)?;
            let value = places.lookup(&bytes, MapFlags::ANY).ok().flatten()?;
            debug_assert_eq!(value.len(), size_of::<types::used_place>());
            let found = read::<types::used_place>(&value)?;
            let types::used_place { opens, read_bytes, written_bytes, syncs, .. } = found;
            Some((place(&key), Use { opens, read_bytes, written_bytes, syncs }))
        };
        places.keys().filter_map(of_key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_looked_at_for_what_they_do() {
        use types::used_what as what;
        let of = |name: &str| looked_at_for(syscalls::by_name(name).expect(name));
        assert_eq!(of("openat"), what::USED_MAKES_FD.0 as u8);
        assert_eq!((of("pread64"), of("write")), (what::USED_READS.0 as u8, what::USED_WRITES.0 as u8));
        assert_eq!(of("fdatasync"), what::USED_SAFETY.0 as u8);
        // What makes descriptors of no file, works on none, or is no read or write of the first argument.
        assert_eq!((of("socket"), of("getpid"), of("sync"), of("mmap")), (0, 0, 0, 0));
    }
}
