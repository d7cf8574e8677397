//! Control groups, swap and a quiet khugepaged, which end with the test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders of control groups, the outer one first; removed when dropped.
pub(crate) struct Groups {
    folders: [PathBuf; 2],
    /// The controller was given to those below the top for this.
    given: Option<(PathBuf, String)>,
}

impl Groups {
    /// A group in the hierarchy `top`, and one inside it.
    pub(crate) fn new(top: &str, controller: &str) -> Self {
        let outer = PathBuf::from(top).join(format!("pagelab-reasons-{}", std::process::id()));
        let inner = outer.join("inner");
        let given = give(Path::new(top), controller).then(|| (top.into(), controller.to_owned()));
        let groups = Self { folders: [outer.clone(), inner.clone()], given };
        fs::create_dir(&outer).expect("a control group");
        give(&outer, controller);
        fs::create_dir(&inner).expect("a control group");
        groups
    }

    pub(crate) fn outer(&self) -> &Path {
        &self.folders[0]
    }

    pub(crate) fn inner(&self) -> &Path {
        &self.folders[1]
    }
}

/// Version 2 gives a controller to the groups below only when enabled; whether it was enabled now.
fn give(folder: &Path, controller: &str) -> bool {
    let file = folder.join("cgroup.subtree_control");
    let Ok(given) = fs::read_to_string(&file) else { return false };
    if given.split_ascii_whitespace().any(|one| one == controller) {
        return false;
    }
    fs::write(&file, format!("+{controller}")).expect("the controller is given to those below");
    true
}

pub(crate) fn limit(group: &Path, file: &str, bytes: &str) {
    let path = group.join(file);
    fs::write(&path, bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

impl Drop for Groups {
    fn drop(&mut self) {
        for folder in self.folders.iter().rev() {
            for _ in 0..100 {
                if fs::remove_dir(folder).is_ok() || !folder.exists() {
                    break;
                }
                // The last process is still on its way out.
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
        if let Some((top, controller)) = &self.given {
            let _ = fs::write(top.join("cgroup.subtree_control"), format!("-{controller}"));
        }
    }
}

/// A file of swap.
pub(crate) struct Swap(PathBuf);

impl Swap {
    pub(crate) fn on(folder: &Path) -> Self {
        let path = folder.join("swap");
        let file = fs::File::create(&path).expect("a file");
        std::io::Write::write_all(&mut &file, &vec![0; 64 << 20]).expect("written");
        file.sync_all().expect("on the disk");
        drop(file);
        let swap = Self(path);
        for program in ["mkswap", "swapon"] {
            let output = Command::new(program).arg(&swap.0).output().expect(program);
            assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
        }
        swap
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        let _ = Command::new("swapoff").arg(&self.0).status();
        let _ = fs::remove_file(&self.0);
    }
}
