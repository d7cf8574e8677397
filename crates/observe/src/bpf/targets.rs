//! Targets that run already: which tasks are members, and the walk that finds them (`bpf/targets.bpf.h`).

use std::fs;
use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use libbpf_rs::{Iter, MapCore};
use pagelab_residency::mounts;

use super::skeleton::{OpenObserverSkel, types};
use super::{BpfError, Members as M, Observer, refused, refused_io};

/// Walks after which what could not be listed is given up: a program that maps all the time holds its lock often, not
/// always.
const MAX_WALKS: u32 = 8;
/// Address spaces of a command's tasks whose birth was not seen, that one walk can list.
const MISSED_SPACES: u32 = 256;
/// How often tasks are looked for whose birth was not seen, at most; and how much longer than a look nothing is looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
const LOOK_SHARE: u32 = 1000;

const NEEDED_TO_WALK: &str = "BPF iterators over tasks (Linux 5.8)";

/// When tasks are looked for whose birth was not seen.
#[derive(Debug, Default)]
pub(super) struct Missed {
    next: Option<Instant>,
}

/// Which tasks are recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Members {
    /// A process that is adopted, and its descendants from then on.
    #[default]
    Started,
    /// Processes marked by [`Observer::want`], with all threads, and the children they fork.
    Processes {
        /// Also children that they have forked before.
        descendants: bool,
    },
    /// The tasks of a cgroup and of those below it, as long as they are in it.
    Cgroup(Cgroup),
    /// All tasks but the recorder's own.
    All,
}

/// A cgroup, as the kernel numbers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroup {
    /// Its folder.
    pub path: PathBuf,
    /// Its number in its hierarchy.
    pub id: u64,
    /// The hierarchy's number, as in `/proc/PID/cgroup`; 0: version 2.
    pub hierarchy: u32,
}

impl Cgroup {
    /// The cgroup whose folder is `path`.
    ///
    /// # Errors
    /// In words: what was found and what is needed.
    pub fn open(path: &Path) -> Result<Self, String> {
        let needed = "needed: the folder of a cgroup, such as /sys/fs/cgroup/system.slice";
        let wrong = |found: String| format!("--cgroup {}: {found}; {needed}", path.display());
        let path = fs::canonicalize(path).map_err(|error| wrong(error.to_string()))?;
        let id = fs::metadata(&path).map_err(|error| wrong(error.to_string()))?.ino();
        let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(|error| wrong(error.to_string()))?;
        let (kind, controllers) =
            mounted_at(&mounts, &path).ok_or_else(|| wrong("it is in no cgroup file system".into()))?;
        if !path.join("cgroup.procs").exists() {
            return Err(wrong("it holds no cgroup.procs".into()));
        }
        if kind == "cgroup2" {
            return Ok(Self { path, id, hierarchy: 0 });
        }
        let own = fs::read_to_string("/proc/self/cgroup").map_err(|error| wrong(error.to_string()))?;
        let hierarchy = hierarchy_of(&own, &controllers).ok_or_else(|| {
            wrong(format!("its hierarchy ({controllers}) has no controller, which the probes know it by"))
        })?;
        Ok(Self { path, id, hierarchy })
    }

    /// Whether no process is in it or below it.
    pub fn is_empty(&self) -> bool {
        is_empty(&self.path)
    }
}

fn is_empty(folder: &Path) -> bool {
    // A folder that is gone has no process.
    if fs::read_to_string(folder.join("cgroup.procs")).is_ok_and(|text| !text.trim().is_empty()) {
        return false;
    }
    let below = fs::read_dir(folder).into_iter().flatten().flatten();
    below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).all(|entry| is_empty(&entry.path()))
}

/// Type and options of the cgroup file system that `path` lies in, from the text of `/proc/self/mountinfo`.
fn mounted_at(mountinfo: &str, path: &Path) -> Option<(String, String)> {
    let mounts = mounts::parse(mountinfo);
    let mount = mounts::of_path(&mounts, path)?;
    mount.fs.starts_with("cgroup").then(|| (mount.fs.clone(), mount.fs_options.join(",")))
}

/// The number of the version 1 hierarchy with one of the controllers in the mount options, from `/proc/self/cgroup`.
fn hierarchy_of(own: &str, options: &str) -> Option<u32> {
    own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (number, controllers) = (fields.next()?, fields.next()?);
        let shared = controllers.split(',').any(|name| !name.is_empty() && options.split(',').any(|one| one == name));
        (shared && !controllers.starts_with("name=")).then(|| number.parse().ok())?
    })
}

/// Tells the programs, before they are loaded, whom to look for.
pub(super) fn configure(open: &mut OpenObserverSkel<'_>, members: &Members) -> libbpf_rs::Result<()> {
    open.progs.cgroup_moved.set_autoload(matches!(members, Members::Cgroup(_)));
    if *members == Members::Started {
        open.maps.found_spaces.set_max_entries(MISSED_SPACES)?;
    }
    if *members != Members::Started
        && let Some(data) = open.maps.data_data.as_deref_mut()
    {
        // No first task is put in by the recorder, so the first one found gets its number.
        (data.last_task_id, data.last_mm_id) = (0, 0);
    }
    let Some(rodata) = open.maps.rodata_data.as_deref_mut() else { return Ok(()) };
    let kind = match members {
        M::Started => types::target_kind::TARGET_STARTED,
        M::Processes { descendants } => {
            rodata.target_descendants = *descendants;
            types::target_kind::TARGET_PROCESSES
        }
        M::Cgroup(cgroup) => {
            (rodata.target_cgroup, rodata.target_hierarchy) = (cgroup.id, cgroup.hierarchy);
            types::target_kind::TARGET_CGROUP
        }
        M::All => types::target_kind::TARGET_ALL,
    };
    rodata.target_kind = kind.0;
    Ok(())
}

impl Observer {
    /// Marks a process as wanted; [`Observer::find`] then finds its threads.
    pub fn want(&mut self, pidfd: BorrowedFd<'_>) -> Result<(), BpfError> {
        let state = types::task_state { wanted: 1, ..Default::default() };
        self.put_state(pidfd, state).map_err(refused("attaching to the process", "a process that is still alive"))
    }

    /// Makes the tasks that run already members, as the options say; the programs must be attached. What is found comes
    /// through [`Observer::drain_events`]. Gives how many tasks there were.
    ///
    /// A task is met by the walk or seen being forked. The walk is repeated until it finds nothing new: children may
    /// come before their parents, and the mappings of a process that is just mapping cannot be listed at that instant.
    pub fn find(&mut self) -> Result<usize, BpfError> {
        if self.options.members == Members::Started {
            return Ok(0);
        }
        let needed = NEEDED_TO_WALK;
        let link = self.skel.progs.find_targets.attach().map_err(refused("task iterator", needed))?;
        let mut total = 0;
        for walk in 1..=MAX_WALKS {
            self.set_unlisted(0);
            let found = self.walk(&link).map_err(refused_io("walking over the tasks", needed))?;
            total += found;
            let unlisted = self.unlisted();
            if found == 0 && unlisted == 0 {
                break;
            }
            if walk == MAX_WALKS {
                self.add_failed_walks(unlisted);
            } else if unlisted > 0 {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
        self.forget_spaces();
        Ok(total)
    }

    /// Finds tasks of the target whose birth was not seen, if it is time to look: while other programs come to a tracepoint and go,
    /// the kernel leaves hits of it out. `now` looks at once.
    pub fn find_missed(&mut self, now: bool) -> Result<(), BpfError> {
        let begun = Instant::now();
        let next = *self.missed.next.get_or_insert(begun + LOOK_INTERVAL);
        if !now && begun < next {
            return Ok(());
        }
        let found = self.skel.progs.find_targets.attach().map_err(io::Error::other).and_then(|link| self.walk(&link));
        let found = found.map_err(|error| BpfError::Refused {
            step: "walking over the tasks",
            reason: error.to_string(),
            needed: NEEDED_TO_WALK,
        })?;
        if found > 0 {
            self.forget_spaces();
        }
        let ended = Instant::now();
        self.missed.next = Some(ended + LOOK_INTERVAL.max((ended - begun) * LOOK_SHARE));
        Ok(())
    }

    /// Follows tasks that were moved into the recorded cgroup, or out of it, since the last call.
    pub fn follow_moves(&mut self) -> Result<(), BpfError> {
        let moves = self.skel.maps.bss_data.as_deref().map_or(0, |bss| bss.cgroup_moves);
        if moves == self.moves_followed {
            return Ok(());
        }
        self.moves_followed = moves;
        self.find().map(drop)
    }

    /// Lets names of files begin at the recorder's own root, as they do for it in `/proc/PID/fd`. A kernel without iterators over
    /// tasks (before Linux 5.8) begins them at the root of the mount namespace.
    pub(super) fn note_root(&mut self) {
        let noted = self.skel.progs.note_root.attach().map_err(io::Error::other);
        if let Err(error) = noted.and_then(|link| self.walk(&link)) {
            tracing::warn!("names of files begin at the root of the mount namespace: {error}");
        }
    }

    /// Sends the calls that have not returned, and the times off the CPU that have not ended; to be called after
    /// [`Observer::detach`]. A kernel without iterators over tasks (before Linux 5.8) sends none.
    pub fn tell_unfinished(&mut self) {
        if self.options.calls.is_none() && !self.options.sched {
            return;
        }
        let told = self.skel.progs.tell_unfinished.attach().map_err(io::Error::other);
        if let Err(error) = told.and_then(|link| self.walk(&link)) {
            tracing::warn!("calls that have not returned are not recorded: {error}");
        }
    }

    /// One walk. Each task found gives a byte, so that the ring of events is emptied between two tasks.
    fn walk(&mut self, link: &libbpf_rs::Link) -> io::Result<usize> {
        let mut iter = Iter::new(link).map_err(io::Error::other)?;
        let (mut found, mut byte) = (0, [0_u8; 1]);
        loop {
            match iter.read(&mut byte) {
                Ok(0) => return Ok(found),
                Ok(_) => found += 1,
                // A long run of tasks that are not ours; the kernel lets others have the CPU and continues.
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(error) => return Err(error),
            }
            self.receive();
        }
    }

    fn unlisted(&self) -> u64 {
        self.skel.maps.bss_data.as_deref().map_or(0, |bss| bss.spaces_unlisted)
    }

    fn set_unlisted(&mut self, value: u64) {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.spaces_unlisted = value;
        }
    }

    fn add_failed_walks(&mut self, count: u64) {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.vma_walks_failed += count;
        }
    }

    fn forget_spaces(&mut self) {
        let spaces = &self.skel.maps.found_spaces;
        let keys: Vec<Vec<u8>> = spaces.keys().collect();
        for key in keys {
            // One that is gone already is what is wanted.
            let _ = spaces.delete(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "30 23 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
32 30 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
33 30 0:29 / /sys/fs/cgroup/unified rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate
";
    const OWN: &str = "9:name=systemd:/\n5:cpu,memory:/a\n0::/\n";

    #[test]
    fn a_folder_is_found_in_its_hierarchy() {
        let at = |path: &str| mounted_at(MOUNTS, Path::new(path));
        assert_eq!(at("/sys/fs/cgroup/unified/x"), Some(("cgroup2".into(), "rw,nsdelegate".into())));
        assert_eq!(at("/sys/fs/cgroup/memory").map(|(kind, _)| kind), Some("cgroup".into()));
        assert_eq!(at("/sys/fs/cgroup/other"), None, "the tmpfs that holds the mount points is no cgroup");
        assert_eq!(at("/tmp"), None);
        assert_eq!(hierarchy_of(OWN, "rw,memory"), Some(5));
        assert_eq!(hierarchy_of(OWN, "rw,name=systemd"), None, "has no controller");
    }

    #[test]
    fn what_is_no_cgroup_is_said() {
        for (path, word) in [("/tmp", "no cgroup file system"), ("/no/such", "No such file")] {
            let error = Cgroup::open(Path::new(path)).expect_err(path);
            assert!(error.contains(word) && error.contains(path), "{error}");
        }
    }
}
