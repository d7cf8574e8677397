//! Where the control groups of a process are, in both versions.
//!
//! A host can have controllers on both hierarchies at once. Which one a controller is on is read from /proc/PID/cgroup: a line of version
//! 1 names it; what no line names is on version 2 if its files are there.

use std::path::Path;

use pagelab_residency::mounts::Mount;

use crate::files::{text, tidy, under};

/// The controllers that are looked at.
pub(crate) const CONTROLLERS: &[&str] = &["memory", "cpu", "cpuset", "io", "pids", "hugetlb"];

/// Where a controller's files of a process are.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) version: u8,
    /// Folder of the group, absolute.
    pub(crate) folder: String,
    /// Folder of the hierarchy's visible root, absolute.
    pub(crate) top: String,
}

/// The group of a process, whose /proc/PID/cgroup is `lines`, in the hierarchy that a controller is on, or would be.
pub(crate) fn place(controller: &str, lines: &str, mounts: &[Mount]) -> Option<Group> {
    // On v1 the io controller is called blkio.
    let v1_name = if controller == "io" { "blkio" } else { controller };
    let mut v2_path = None;
    for line in lines.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(id), Some(list), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        if id == "0" && list.is_empty() {
            v2_path = Some(path);
        } else if list.split(',').any(|name| name == v1_name) {
            let mount = mounts
                .iter()
                .rev()
                .find(|mount| mount.fs == "cgroup" && mount.fs_options.iter().any(|option| option == v1_name))?;
            return Some(group(1, mount, path));
        }
    }
    let mount = mounts.iter().rev().find(|mount| mount.fs == "cgroup2")?;
    Some(group(2, mount, v2_path?))
}

fn group(version: u8, mount: &Mount, path: &str) -> Group {
    // A container sees its own subtree: the mount starts at the group that the path starts with.
    let inside = path.strip_prefix(mount.root.as_str()).filter(|_| mount.root != "/").unwrap_or(path);
    let folder = format!("{}/{}", mount.mountpoint.trim_end_matches('/'), inside.trim_matches('/'));
    Group { version, folder: folder.trim_end_matches('/').to_owned(), top: mount.mountpoint.clone() }
}

impl Group {
    /// The value of one of the group's files.
    pub(crate) fn value(&self, root: &Path, file: &str) -> Option<String> {
        text(&under(root, &format!("{}/{file}", self.folder))).ok().map(|text| tidy(&text))
    }

    /// The group and those above it, up to the visible root.
    pub(crate) fn upwards(&self) -> Vec<String> {
        let mut folders = vec![self.folder.clone()];
        let mut folder = self.folder.as_str();
        while folder.len() > self.top.len() {
            let Some((above, _)) = folder.rsplit_once('/') else { break };
            if above.len() < self.top.len() {
                break;
            }
            folders.push(above.to_owned());
            folder = above;
        }
        folders
    }
}
