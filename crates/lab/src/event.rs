//! What `up` says while it works.

use std::fmt;
use std::time::Duration;

use crate::qemu::Machine;

/// A step of `up`; `Display` is a line for people.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Another process works in the cache.
    WaitingForCache,
    /// The package lists are read anew.
    ReadingLists,
    /// They could not be; the old ones will do.
    OldLists {
        /// Why not.
        why: String,
    },
    /// A package in the cache is not what the lists promise; it is fetched anew.
    Damaged {
        /// The file.
        file: String,
    },
    /// A package is fetched.
    Fetching {
        /// Its name and version.
        package: String,
        /// Its size.
        bytes: u64,
    },
    /// A package is unpacked.
    Unpacking {
        /// Its name and version.
        package: String,
    },
    /// A module of the lab's own is built.
    Building {
        /// Its name.
        module: &'static str,
        /// The kernel, as `uname -r` says it.
        release: String,
    },
    /// The guest's first file system is ready.
    Built {
        /// Its size.
        bytes: u64,
    },
    /// KVM is not used, and why; found out now, or before.
    NoKvm {
        /// Why not.
        why: String,
    },
    /// A boot begins.
    Booting {
        /// How instructions are run.
        machine: Machine,
        /// 1 is the first.
        attempt: u32,
        /// How long it may take.
        limit: Duration,
    },
    /// The guest did not answer in time; it is tried again.
    Hung {
        /// Which attempt.
        attempt: u32,
        /// After so long.
        after: Duration,
        /// The last line of the console.
        last: String,
    },
    /// The namespace of the NVDIMM is made.
    Namespace,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WaitingForCache => write!(f, "another lab is coming up; waiting until it is done with the cache"),
            Self::ReadingLists => write!(f, "reading the package lists"),
            Self::OldLists { why } => {
                write!(f, "the package lists could not be read anew, the old ones will do: {why}")
            }
            Self::Damaged { file } => write!(f, "{file} is damaged; it is fetched anew"),
            Self::Fetching { package, bytes } => write!(f, "fetching {package} ({} MiB)", bytes.div_ceil(1 << 20)),
            Self::Unpacking { package } => write!(f, "unpacking {package}"),
            Self::Building { module, release } => write!(f, "building the module {module} for Linux {release}"),
            Self::Built { bytes } => write!(f, "initramfs: {} MiB", bytes.div_ceil(1 << 20)),
            Self::NoKvm { why } => write!(f, "KVM is not used: {why}"),
            Self::Booting { machine, attempt, limit } => {
                let emulated = if *machine == Machine::Tcg { ", emulated: times in it are no measure" } else { "" };
                write!(f, "booting ({}{emulated}), attempt {attempt}, at most {} s", machine.name(), limit.as_secs())
            }
            Self::Hung { attempt, after, last } => {
                write!(f, "boot {attempt} hung: no answer in {} s; the console's last line: {last}", after.as_secs())
            }
            Self::Namespace => write!(f, "making a namespace of mode fsdax on the NVDIMM"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_in_whole_mib_rounded_up() {
        for (bytes, mib) in [(1, 1), (1 << 20, 1), ((1 << 20) + 1, 2), (64 << 20, 64)] {
            assert_eq!(Event::Built { bytes }.to_string(), format!("initramfs: {mib} MiB"));
            let fetching = Event::Fetching { package: "linux-image".to_owned(), bytes };
            assert_eq!(fetching.to_string(), format!("fetching linux-image ({mib} MiB)"));
        }
    }
}
