//! The file system under a file, and the device under that.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::files::{trimmed, under};
use pagelab_residency::mounts::{Mount, table};

use super::ioctls::xfs_geometry;
use super::report::{Device, FileSystem, Stripe};

/// What decides about pages, by `f_type` of statfs (include/uapi/linux/magic.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Ext4,
    Xfs,
    Btrfs,
    Tmpfs,
    Hugetlbfs,
    Overlayfs,
    Other,
}

impl Kind {
    pub(super) fn of(magic: u64) -> Self {
        match magic {
            0xEF53 => Self::Ext4,
            0x5846_5342 => Self::Xfs,
            0x9123_683E => Self::Btrfs,
            0x0102_1994 => Self::Tmpfs,
            0x9584_58F6 => Self::Hugetlbfs,
            0x794C_7630 => Self::Overlayfs,
            _ => Self::Other,
        }
    }

    fn name(self) -> Option<&'static str> {
        match self {
            // ext2 and ext3 have the same magic number: the table of mounts tells them apart.
            Self::Ext4 | Self::Other => None,
            Self::Xfs => Some("xfs"),
            Self::Btrfs => Some("btrfs"),
            Self::Tmpfs => Some("tmpfs"),
            Self::Hugetlbfs => Some("hugetlbfs"),
            Self::Overlayfs => Some("overlayfs"),
        }
    }
}

/// A file system as it was found.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) kind: Kind,
    pub(super) told: FileSystem,
    /// `major:minor` of the block device, where there is one.
    pub(super) device: Option<String>,
    /// Bytes that can still be had by an ordinary user.
    pub(super) available_bytes: u64,
}

/// The file system of an open file. `root` is where `/proc` is looked for.
///
/// # Errors
/// statfs or statx failed.
pub(super) fn place(root: &Path, file: &File) -> io::Result<Place> {
    let statfs = rustix::fs::fstatfs(file)?;
    let mask = rustix::fs::StatxFlags::MNT_ID;
    let statx = rustix::fs::statx(file, "", rustix::fs::AtFlags::EMPTY_PATH, mask)?;
    // The kernel's field is as wide as a long; the numbers have 32 bits.
    let magic = u64::from(statfs.f_type as u32);
    let kind = Kind::of(magic);
    let mounts = table(root, None).unwrap_or_default();
    let mount = mounts.iter().find(|mount| mount.id == statx.stx_mnt_id);
    let name = kind.name().map(str::to_owned).or_else(|| mount.map(|mount| mount.fs.clone()));
    let block_size_bytes = u64::try_from(statfs.f_bsize).unwrap_or(0);
    let told = FileSystem {
        name: name.unwrap_or_else(|| format!("{magic:#x}")),
        magic: format!("{magic:#x}"),
        mount_point: mount.map(|mount| mount.mountpoint.clone()),
        source: mount.map(|mount| mount.source.clone()),
        mount_options: mount.map(options).unwrap_or_default(),
        block_size_bytes,
    };
    let device = device_number(root, mount, (statx.stx_dev_major, statx.stx_dev_minor));
    Ok(Place { kind, told, device, available_bytes: statfs.f_bavail.saturating_mul(block_size_bytes) })
}

fn options(mount: &Mount) -> Vec<String> {
    let mut options = mount.options.clone();
    options.extend(mount.fs_options.iter().filter(|option| !mount.options.contains(option)).cloned());
    options
}

/// The device that `st_dev` names; btrfs has numbers of its own there, and the mounted device in the table.
fn device_number(root: &Path, mount: Option<&Mount>, st_dev: (u32, u32)) -> Option<String> {
    let known = |number: &String| under(root, &format!("/sys/dev/block/{number}")).exists();
    let named = || {
        let metadata = std::fs::metadata(&mount?.source).ok()?;
        let rdev = std::os::unix::fs::MetadataExt::rdev(&metadata);
        Some(format!("{}:{}", rustix::fs::major(rdev), rustix::fs::minor(rdev)))
    };
    Some(format!("{}:{}", st_dev.0, st_dev.1)).filter(known).or_else(|| named().filter(known))
}

/// What `/sys` says of a block device; none if it is not there.
pub(super) fn device(root: &Path, number: &str) -> Option<Device> {
    let folder = format!("/sys/dev/block/{number}");
    let read = |name: &str| trimmed(root, &format!("{folder}/{name}"));
    if !under(root, &folder).exists() {
        return None;
    }
    let name = read("uevent").and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("DEVNAME="))?;
        Some(line.to_owned())
    });
    let is_partition = read("partition").is_some();
    // `start` counts units of 512 bytes whatever the device's own sectors are.
    let start = read("start").and_then(|start| start.parse::<u64>().ok()).unwrap_or(0);
    // A partition has no queue of its own.
    let queue = read("queue/dax").or_else(|| read("../queue/dax"));
    Some(Device {
        number: number.to_owned(),
        name,
        partition_start_bytes: start.saturating_mul(512),
        is_partition,
        loop_file: read("loop/backing_file").or_else(|| read("../loop/backing_file")),
        loop_offset_bytes: read("loop/offset")
            .or_else(|| read("../loop/offset"))
            .and_then(|offset| offset.parse().ok()),
        dax: queue.map(|dax| dax == "1"),
    })
}

/// The fields of an ext4 superblock (fs/ext4/ext4.h, `struct ext4_super_block`) that decide about layout and pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ext4Super {
    pub(super) stripe: Stripe,
    /// The file system can hold encrypted files.
    pub(super) encrypt: bool,
    /// The file system can hold files with verity.
    pub(super) verity: bool,
}

impl Ext4Super {
    /// From the 1024 bytes of the superblock; none if they are not one.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let half = |at: usize| Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
        if half(0x38)? != 0xEF53 {
            return None;
        }
        let block_bytes = 1024_u64.checked_shl(word(0x18)?).filter(|bytes| *bytes <= 65_536)?;
        Some(Self {
            stripe: Stripe {
                unit_bytes: u64::from(half(0x164)?) * block_bytes,
                width_bytes: u64::from(word(0x170)?) * block_bytes,
            },
            encrypt: word(0x60)? & 0x1_0000 != 0,
            verity: word(0x64)? & 0x8000 != 0,
        })
    }

    /// Reads it from the device, in words if that fails.
    pub(super) fn read(root: &Path, device: Option<&Device>) -> Result<Self, String> {
        let name = device.and_then(|device| device.name.as_ref()).ok_or("the device is not known")?;
        let path: PathBuf = under(root, &format!("/dev/{name}"));
        let why =
            |error: io::Error| format!("superblock: {}: {error}; needs the right to read the device", path.display());
        let mut bytes = vec![0; 1024];
        File::open(&path).map_err(why)?.read_exact_at(&mut bytes, 1024).map_err(why)?;
        Self::parse(&bytes).ok_or_else(|| format!("{}: found no superblock of ext4", path.display()))
    }
}

/// The stripe settings of the xfs that the file is on.
pub(super) fn xfs_stripe(file: &File) -> Result<Stripe, String> {
    let geometry = xfs_geometry(file).map_err(|error| format!("XFS_IOC_FSGEOMETRY: {error}"))?;
    let block = u64::from(geometry.block_bytes);
    Ok(Stripe {
        unit_bytes: u64::from(geometry.stripe_unit_blocks) * block,
        width_bytes: u64::from(geometry.stripe_width_blocks) * block,
    })
}

/// Whether the kernel has one of these functions, from its own list; none if that cannot be read.
pub(super) fn kernel_has(root: &Path, names: &[&str]) -> Option<bool> {
    use std::io::{BufRead, BufReader};
    let file = File::open(under(root, "/proc/kallsyms")).ok()?;
    for line in BufReader::with_capacity(1 << 16, file).split(b'\n') {
        let line = line.ok()?;
        // `address type name`, and for modules `\t[module]`.
        let Some(name) = line.split(|byte| *byte == b' ').nth(2) else { continue };
        let name = name.split(|byte| *byte == b'\t').next().unwrap_or_default();
        if names.iter().any(|wanted| wanted.as_bytes() == name) {
            return Some(true);
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn an_ext4_is_read_as_mkfs_made_it() {
        let dir = tempfile::tempdir().expect("tempdir");
        let image = dir.path().join("image");
        for (features, encrypt, verity) in [
            ("^encrypt,^verity", false, false),
            ("encrypt,^verity", true, false),
            ("^encrypt,verity", false, true),
            ("encrypt,verity", true, true),
        ] {
            let file = File::create(&image).expect("created");
            file.set_len(64 << 20).expect("length");
            let mut mkfs = Command::new("mkfs.ext4");
            mkfs.args(["-q", "-F", "-b", "4096", "-O", features, "-E", "stride=512,stripe_width=1024"]).arg(&image);
            assert!(mkfs.status().expect("mkfs.ext4 runs").success(), "{features}");
            let bytes = std::fs::read(&image).expect("read");
            let stripe = Stripe { unit_bytes: 2 << 20, width_bytes: 4 << 20 };
            assert_eq!(Ext4Super::parse(&bytes[1024..2048]), Some(Ext4Super { stripe, encrypt, verity }), "{features}");
            assert_eq!(Ext4Super::parse(&bytes[..1024]), None, "no superblock");
        }
    }
}
