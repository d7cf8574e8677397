//! Control groups of a process, of both versions, from the innermost to the top.

use std::fs;
use std::path::{Path, PathBuf};

/// A group's folder, and whether it is of version 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) folder: PathBuf,
    pub(crate) is_v2: bool,
}

impl Group {
    /// The number in a file of the group; `None` if it is not there. `max` is no limit, and no number.
    pub(crate) fn number(&self, file: &str) -> Option<u64> {
        fs::read_to_string(self.folder.join(file)).ok()?.trim().parse().ok()
    }

    /// The number behind a word of one of its files: `max 5` of `memory.events`.
    pub(crate) fn number_of(&self, file: &str, word: &str) -> Option<u64> {
        let text = fs::read_to_string(self.folder.join(file)).ok()?;
        text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' ')?.trim().parse().ok())
    }
}

/// The folders of the process's own groups that can have files of `controller`; of both versions where the host has both. `root`
/// stands for `/`, `process` is the process's folder (`/proc/self`). Empty if the process is gone.
pub fn own_groups(root: &Path, process: &Path, controller: &str) -> Vec<PathBuf> {
    own(root, process, controller).into_iter().map(|(group, _)| group.folder).collect()
}

/// The groups that can have `controller` for the process whose folder is `process` (`/proc/self`): its own, then those above. Where
/// the controller is on version 1, those of version 2 have no files of it.
pub(crate) fn of(root: &Path, process: &Path, controller: &str) -> Vec<Group> {
    let mut found = Vec::new();
    for (own, top) in own(root, process, controller) {
        let mut folder = own.folder;
        loop {
            found.push(Group { folder: folder.clone(), is_v2: own.is_v2 });
            if folder == top || !folder.pop() {
                break;
            }
        }
    }
    found
}

/// The process's own groups, each with the top of its tree.
fn own(root: &Path, process: &Path, controller: &str) -> Vec<(Group, PathBuf)> {
    let text = fs::read_to_string(process.join("cgroup")).unwrap_or_default();
    let mut found = Vec::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let is_v2 = controllers.is_empty();
        let tops: Vec<PathBuf> = if is_v2 {
            ["sys/fs/cgroup", "sys/fs/cgroup/unified"].map(|top| root.join(top)).into()
        } else if controllers.split(',').any(|name| name == controller) {
            vec![root.join("sys/fs/cgroup").join(controller)]
        } else {
            Vec::new()
        };
        let path = path.trim_start_matches('/');
        let below = |top: PathBuf| {
            let folder = if path.is_empty() { top.clone() } else { top.join(path) };
            (Group { folder, is_v2 }, top)
        };
        found.extend(tops.into_iter().map(below));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_told_from_the_inside_out() {
        let dir = tempfile::tempdir().expect("tempdir");
        let root = dir.path();
        let process = root.join("proc/7");
        fs::create_dir_all(&process).expect("mkdir");
        fs::write(process.join("cgroup"), "9:name=systemd:/x\n4:memory:/a/b\n0::/c\n").expect("write");
        let names = |controller| -> Vec<String> {
            let found = of(root, &process, controller);
            let name = |group: Group| group.folder.strip_prefix(root).expect("below").display().to_string();
            found.into_iter().map(name).collect()
        };
        let v2 = ["sys/fs/cgroup/c", "sys/fs/cgroup", "sys/fs/cgroup/unified/c", "sys/fs/cgroup/unified"];
        assert_eq!(names("hugetlb"), v2);
        let v1 = ["sys/fs/cgroup/memory/a/b", "sys/fs/cgroup/memory/a", "sys/fs/cgroup/memory"];
        assert_eq!(names("memory"), [&v1[..], &v2[..]].concat());
        assert!(of(root, &root.join("proc/8"), "memory").is_empty(), "a process that is gone");
        let own = ["memory/a/b", "c", "unified/c"].map(|folder| root.join("sys/fs/cgroup").join(folder));
        assert_eq!(own_groups(root, &process, "memory"), own);
    }

    /// `cpuset` and `cpuacct` are no `cpu`.
    #[test]
    fn controllers_are_told_by_their_whole_names() {
        let dir = tempfile::tempdir().expect("tempdir");
        let process = dir.path().join("proc/7");
        fs::create_dir_all(&process).expect("mkdir");
        fs::write(process.join("cgroup"), "9:cpuset,cpuacct:/x\n4:memory,cpu:/a\n").expect("write");
        let found = own_groups(dir.path(), &process, "cpu");
        assert_eq!(found, [dir.path().join("sys/fs/cgroup/cpu/a")]);
        assert!(
            own_groups(dir.path(), &process, "cpus").is_empty() && own_groups(dir.path(), &process, "mem").is_empty()
        );
    }
}
