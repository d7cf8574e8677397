//! What the target works on: the file systems and block devices of its files, with the mounts that it sees them by.
//!
//! The observer says when a task works on one for the first time. The mounts of its process are read then, in its own mount namespace:
//! a moment later the process may have ended, and the namespace with it. The manifest has the list (`used`), most used first; options
//! of mounts that the settings of the start do not have are rows of `settings`.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use pagelab_host::settings::{self, Setting};
use pagelab_observe::bpf::{Event, Use, UsedPlace};
use pagelab_residency::mounts::{self, Mount};
use serde::Serialize;

/// File systems without contents of their own: what is read there is no I/O.
const PSEUDO: &[&str] = &[
    "proc",
    "sysfs",
    "devtmpfs",
    "devpts",
    "cgroup",
    "cgroup2",
    "tracefs",
    "debugfs",
    "securityfs",
    "bpf",
    "mqueue",
    "configfs",
    "pstore",
    "efivarfs",
    "autofs",
    "nsfs",
];

/// One entry of the manifest's `used`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct UsedDevice {
    /// The whole block device, by the kernel's name; null where there is none (tmpfs, network), or it is not known.
    pub device: Option<String>,
    /// `major:minor` of the file system, or of the device itself.
    pub number: String,
    /// Type of the file system; null for a device that is worked on itself.
    pub fs: Option<String>,
    /// Where it is mounted, as the target sees it.
    pub mountpoint: Option<String>,
    /// Openings of files that were looked at; amounts are estimates, see `bpf/used.bpf.h`.
    pub opens: u64,
    /// Bytes read by calls.
    pub read_bytes: u64,
    /// Bytes written by calls.
    pub written_bytes: u64,
    /// Calls that asked for data to be safe.
    pub syncs: u64,
}

/// The places that were met.
#[derive(Debug, Default)]
pub(crate) struct Used {
    mounts: BTreeMap<UsedPlace, Option<Mount>>,
}

impl Used {
    /// Takes note of what a batch of events says; gives the settings of mounts that were not seen before.
    pub(crate) fn meet(&mut self, events: &[Event]) -> Vec<Setting> {
        let mut found = Vec::new();
        for event in events {
            let Event::Used(used) = event else { continue };
            if used.place.rdev.is_some() || self.mounts.contains_key(&used.place) {
                continue;
            }
            let mount = mount_of(used.pid, used.place.dev);
            if let Some(mount) = mount.as_ref().filter(|mount| !is_pseudo(mount)) {
                found.extend(settings::of_mount(mount, &format!("/proc/{}/mountinfo", used.pid)));
            }
            self.mounts.insert(used.place, mount);
        }
        found
    }

    /// The list for the manifest. What cannot be told from a pseudo file system or a pipe is left out.
    pub(crate) fn list(&self, places: &[(UsedPlace, Use)]) -> Vec<UsedDevice> {
        let mut list: Vec<UsedDevice> = Vec::new();
        for (place, amount) in places {
            let Some(one) = self.entry(place, *amount) else { continue };
            // Other namespaces see the same under other numbers.
            let same = |other: &&mut UsedDevice| other.number == one.number && other.mountpoint == one.mountpoint;
            match list.iter_mut().find(same) {
                Some(other) => other.add(&one),
                None => list.push(one),
            }
        }
        list.sort_by_key(|one| std::cmp::Reverse((one.read_bytes + one.written_bytes, one.syncs, one.opens)));
        list
    }

    fn entry(&self, place: &UsedPlace, amount: Use) -> Option<UsedDevice> {
        let Use { opens, read_bytes, written_bytes, syncs } = amount;
        let mut one = UsedDevice {
            device: None,
            number: number(place.rdev.unwrap_or(place.dev)),
            fs: None,
            mountpoint: None,
            opens,
            read_bytes,
            written_bytes,
            syncs,
        };
        if place.rdev.is_some() {
            one.device = whole_device(Path::new("/"), &one.number);
        } else {
            let mount = self.mounts.get(place)?.as_ref().filter(|mount| !is_pseudo(mount))?;
            (one.fs, one.mountpoint) = (Some(mount.fs.clone()), Some(mount.mountpoint.clone()));
            one.device = device_of(mount, &one.number);
        }
        Some(one)
    }
}

impl UsedDevice {
    fn add(&mut self, other: &Self) {
        self.opens += other.opens;
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
        self.syncs += other.syncs;
    }
}

fn is_pseudo(mount: &Mount) -> bool {
    PSEUDO.contains(&mount.fs.as_str())
}

/// The kernel's own encoding of a device number as `major:minor`.
fn number(dev: u32) -> String {
    format!("{}:{}", dev >> 20, dev & 0xf_ffff)
}

/// The mount by which a process sees a file system: of several the one that shows all of it, the last made.
fn mount_of(pid: u32, dev: u32) -> Option<Mount> {
    let wanted = number(dev);
    let table = mounts::table(Path::new("/"), Some(pid)).ok()?;
    table.into_iter().filter(|mount| mount.device == wanted).max_by_key(|mount| mount.root == "/")
}

/// The whole block device that a file system lies on. Its number tells; of one without a number of its own (btrfs, overlay) what is
/// mounted, or what the upper folder lies on.
fn device_of(mount: &Mount, number: &str) -> Option<String> {
    whole_device(Path::new("/"), number).or_else(|| {
        let of_path = |path: &str, own: bool| {
            let found = fs::metadata(path).ok()?;
            let (major, minor) = if own { split(found.dev()) } else { split(found.rdev()) };
            whole_device(Path::new("/"), &format!("{major}:{minor}"))
        };
        match mount.option("upperdir").or_else(|| mount.option("lowerdir")) {
            Some(folder) => of_path(folder.split(':').next().unwrap_or(folder), true),
            None => mount.source.starts_with("/dev/").then(|| of_path(&mount.source, false)).flatten(),
        }
    })
}

fn split(dev: u64) -> (u32, u32) {
    (rustix::fs::major(dev), rustix::fs::minor(dev))
}

/// The name below /sys/block of the device with this number, or of the one that it is a partition of.
fn whole_device(root: &Path, number: &str) -> Option<String> {
    let place = fs::canonicalize(root.join("sys/dev/block").join(number)).ok()?;
    let whole = if place.join("partition").exists() { place.parent()? } else { &place };
    Some(whole.file_name()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use pagelab_observe::bpf::UsedEvent;

    use super::*;

    fn place(dev: u32, rdev: Option<u32>) -> UsedPlace {
        UsedPlace { mnt_ns: 1, dev, rdev }
    }

    /// The device number of the file system that a path lies on, as the kernel encodes it.
    fn dev_of(path: &str) -> u32 {
        let (major, minor) = split(fs::metadata(path).expect(path).dev());
        major << 20 | minor
    }

    #[test]
    fn mounts_are_those_that_the_process_sees() {
        let (root, proc) = (dev_of("/"), dev_of("/proc"));
        let pid = std::process::id();
        let event = |dev| Event::Used(UsedEvent { ts: 1, pid, place: place(dev, None) });
        let mut used = Used::default();
        let settings = used.meet(&[event(root), event(proc), event(root)]);
        assert!(settings.iter().any(|one| one.key == "mount./.fs"), "{settings:?}");
        assert!(settings.iter().all(|one| !one.key.starts_with("mount./proc")), "{settings:?}");
        assert!(used.meet(&[event(root)]).is_empty(), "known by now");
        let some = Use { opens: 2, read_bytes: 4096, written_bytes: 0, syncs: 1 };
        let places = [
            (place(root, None), some),
            (UsedPlace { mnt_ns: 2, ..place(root, None) }, some),
            (place(proc, None), some),
        ];
        let list = used.list(&places);
        assert_eq!(list.len(), 1, "/proc is no place, and what another namespace's mounts are was not read: {list:?}");
        assert_eq!((list[0].mountpoint.as_deref(), list[0].opens), (Some("/"), 2));
    }

    #[test]
    fn partitions_stand_for_their_device() {
        let root = tempfile::tempdir().expect("a folder");
        let sys = root.path().join("sys");
        let disk = sys.join("devices/virtual/block/disk7/disk7p1");
        fs::create_dir_all(&disk).expect("folders");
        fs::write(disk.join("partition"), "1\n").expect("a file");
        fs::create_dir_all(sys.join("dev/block")).expect("folders");
        for (number, to) in [("250:0", "disk7"), ("250:1", "disk7/disk7p1")] {
            std::os::unix::fs::symlink(format!("../../devices/virtual/block/{to}"), sys.join("dev/block").join(number))
                .expect("a link");
        }
        assert_eq!(whole_device(root.path(), "250:1").as_deref(), Some("disk7"));
        assert_eq!(whole_device(root.path(), "250:0").as_deref(), Some("disk7"));
        assert_eq!(whole_device(root.path(), "0:45"), None);
    }

    #[test]
    fn the_most_used_comes_first() {
        let mut used = Used::default();
        for (dev, at) in [(1, "/one"), (2, "/two")] {
            let mount = mounts::parse(&format!("22 1 0:{dev} / {at} rw - tmpfs none rw\n")).pop();
            used.mounts.insert(place(dev, None), mount);
        }
        let amount = |written_bytes| Use { written_bytes, ..Use::default() };
        let list = used.list(&[(place(1, None), amount(10)), (place(2, None), amount(20))]);
        let order: Vec<_> = list.iter().filter_map(|one| one.mountpoint.as_deref()).collect();
        assert_eq!(order, ["/two", "/one"]);
    }
}
