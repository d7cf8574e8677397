//! Control groups of a run's own: what `cgroup.*` settings of a plan become.
//!
//! A process that is to have limits gets a new group in each hierarchy that has one of the controllers, so that the limits of the
//! groups above hold as before: of version 1 below the recorder's own group, of version 2 beside it, since there a group that holds
//! processes cannot have groups with controllers below it (cgroups(7)). The groups end with the run: what is still in them then is moved
//! to the recorder's own. A recorder that is killed leaves its groups; the next pagelab removes those that are empty.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pagelab_residency::mounts::{Mount, table};
use pagelab_vocab::settings::parse_size;

use crate::cgroups::{CONTROLLERS, place};
use crate::files::{cpu_list, names, text, trimmed, under};

/// Beginning of the groups' names; the recorder's process id follows.
const PREFIX: &str = "pagelab-run-";
/// How long a group may be busy after its last process has ended.
const BUSY: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Limits that a process is started with, by the name below `cgroup.`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct GroupLimits {
    values: BTreeMap<String, String>,
}

impl GroupLimits {
    /// Takes a limit; the error says what is needed instead.
    pub(crate) fn take(&mut self, name: &str, value: &str) -> Result<(), &'static str> {
        let value = checked(name, value.trim())?;
        self.values.insert(name.to_owned(), value);
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// The value as version 2 of the control groups writes it.
fn checked(name: &str, value: &str) -> Result<String, &'static str> {
    let whole = |from: u64, to: u64| value.parse().is_ok_and(|number: u64| (from..=to).contains(&number));
    let is_good = match name {
        "cpu.max" => {
            let mut words = value.split_whitespace();
            let is_time = |word: Option<&str>| word.is_none_or(|word| word.parse().is_ok_and(|us: u64| us >= 1000));
            let quota = words.next();
            (quota == Some("max") || quota.is_some() && is_time(quota))
                && is_time(words.next())
                && words.next().is_none()
        }
        "cpu.weight" | "io.weight" => whole(1, 10_000),
        "cpuset.cpus" | "cpuset.mems" => cpu_list(value).is_some_and(|list| !list.is_empty()),
        "io.max" => value == "max" || value.lines().all(|line| IoLimit::parse(line).is_some()),
        "pids.max" => value == "max" || whole(1, u64::MAX),
        _ => {
            // Bytes.
            let bytes = value.parse().ok().or_else(|| parse_size(value));
            return match bytes {
                Some(bytes) => Ok(bytes.to_string()),
                None if value == "max" => Ok(value.to_owned()),
                None => Err("a number of bytes such as 512M, or max"),
            };
        }
    };
    match name {
        _ if is_good => Ok(value.to_owned()),
        "cpu.max" => Err("QUOTA PERIOD in us, such as `50000 100000`, or max"),
        "cpu.weight" | "io.weight" => Err("a number from 1 to 10000"),
        "cpuset.cpus" | "cpuset.mems" => Err("a list such as 0-3,8"),
        "io.max" => Err("`max`, or MAJOR:MINOR or a device's name with limits, such as `vda rbps=1048576 riops=500`"),
        _ => Err("a number, or max"),
    }
}

/// One line of io.max.
struct IoLimit<'a> {
    device: &'a str,
    /// By kind: `rbps`, `wbps`, `riops`, `wiops`; `None` is no limit.
    limits: Vec<(&'a str, Option<u64>)>,
}

/// The kinds of limits, and the files of version 1 (Documentation/admin-guide/cgroup-v1/blkio-controller.rst).
const IO_LIMITS: &[(&str, &str)] = &[
    ("rbps", "blkio.throttle.read_bps_device"),
    ("wbps", "blkio.throttle.write_bps_device"),
    ("riops", "blkio.throttle.read_iops_device"),
    ("wiops", "blkio.throttle.write_iops_device"),
];

impl<'a> IoLimit<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let device =
            words.next().filter(|device| !device.contains('=') && !device.contains("..") && !device.contains('/'))?;
        let limit = |word: &'a str| -> Option<(&'a str, Option<u64>)> {
            let (kind, value) = word.split_once('=')?;
            IO_LIMITS.iter().find(|(known, _)| *known == kind)?;
            Some((kind, if value == "max" { None } else { Some(value.parse().ok()?) }))
        };
        let limits: Vec<_> = words.map(limit).collect::<Option<_>>()?;
        (!limits.is_empty()).then_some(Self { device, limits })
    }

    /// The device as `MAJOR:MINOR`.
    fn number(&self, root: &Path) -> io::Result<String> {
        if self.device.split_once(':').is_some_and(|(a, b)| a.parse::<u32>().is_ok() && b.parse::<u32>().is_ok()) {
            return Ok(self.device.to_owned());
        }
        trimmed(root, &format!("/sys/class/block/{}/dev", self.device)).ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, format!("io.max: found no block device {}", self.device))
        })
    }
}

/// Where groups with a controller are made.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    version: u8,
    /// The recorder's own group.
    own: PathBuf,
    /// The group that new ones are made in.
    parent: PathBuf,
}

impl Place {
    fn of(root: &Path, mounts: &[Mount], lines: &str, controller: &str) -> Option<Self> {
        let group = place(controller, lines, mounts)?;
        let (own, top) = (under(root, &group.folder), under(root, &group.top));
        if group.version == 1 {
            return Some(Self { version: 1, parent: own.clone(), own });
        }
        let above = own.parent().filter(|above| above.starts_with(&top)).map(Path::to_owned);
        let parent = if own == top { top } else { above.unwrap_or(top) };
        let listed = text(&parent.join("cgroup.controllers")).ok()?;
        listed.split_whitespace().any(|name| name == controller).then_some(Self { version: 2, own, parent })
    }
}

/// A controller that groups in a folder could not have before.
#[derive(Debug)]
struct Enabled {
    /// cgroup.subtree_control of the folder.
    file: PathBuf,
    controller: String,
    /// The groups that were there.
    before: Vec<String>,
}

impl Drop for Enabled {
    /// Takes it back, unless a group came since: it would lose its limits.
    fn drop(&mut self) {
        let folder = self.file.parent().unwrap_or(&self.file);
        let is_new = |name: &String| folder.join(name).is_dir() && !self.before.contains(name);
        if !names(folder).iter().any(is_new) {
            _ = write(&self.file, &format!("-{}", self.controller));
        }
    }
}

/// A group, and the one that its processes go back to.
#[derive(Debug)]
struct Made {
    folder: PathBuf,
    own: PathBuf,
}

/// Groups that were made for a run. They are removed when this is dropped.
#[derive(Debug, Default)]
pub struct RunGroups {
    // In this order: a controller is given back when the groups that have it are gone.
    groups: Vec<Made>,
    enabled: Vec<Enabled>,
}

static MADE: AtomicU32 = AtomicU32::new(0);

impl RunGroups {
    /// Makes the groups, and writes the limits.
    ///
    /// # Errors
    /// No hierarchy has a controller, or the kernel refuses a group or a value. Nothing is left.
    pub(crate) fn make(root: &Path, limits: &GroupLimits) -> io::Result<Self> {
        let mut groups = Self::default();
        if limits.is_empty() {
            return Ok(groups);
        }
        let mounts = table(root, None)?;
        let lines = text(&under(root, "/proc/self/cgroup"))?;
        let name = format!("{PREFIX}{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        for (key, value) in &limits.values {
            let controller = key.split('.').next().unwrap_or(key);
            let missing = || {
                let found = format!("cgroup.{key}: found no mounted control groups with the controller {controller}");
                io::Error::new(io::ErrorKind::Unsupported, found)
            };
            let at = Place::of(root, &mounts, &lines, controller).ok_or_else(missing)?;
            let folder = groups.folder(&at, controller, &name)?;
            for (file, text) in written(root, at.version, key, value)? {
                write(&folder.join(&file), &text)?;
            }
        }
        Ok(groups)
    }

    /// The group at a place, made if it is not there.
    fn folder(&mut self, place: &Place, controller: &str, name: &str) -> io::Result<PathBuf> {
        let folder = place.parent.join(name);
        if place.version == 2 {
            self.enable(place, controller)?;
        }
        if !self.groups.iter().any(|made| made.folder == folder) {
            fs::create_dir(&folder).map_err(|error| told(&folder, &error))?;
            self.groups.push(Made { folder: folder.clone(), own: place.own.clone() });
        }
        if place.version == 1 && folder.join("cpuset.cpus").exists() {
            // Of version 1 a new group has none, and takes no process (cpusets(7)).
            for file in ["cpuset.cpus", "cpuset.mems"] {
                write(&folder.join(file), text(&place.parent.join(file))?.trim())?;
            }
        }
        Ok(folder)
    }

    fn enable(&mut self, place: &Place, controller: &str) -> io::Result<()> {
        let file = place.parent.join("cgroup.subtree_control");
        if text(&file)?.split_whitespace().any(|name| name == controller) {
            return Ok(());
        }
        let before = names(&place.parent);
        write(&file, &format!("+{controller}")).map_err(|error| match error.kind() {
            io::ErrorKind::ResourceBusy => io::Error::other(format!(
                "{error}: the group has processes of its own; give pagelab a group that may have others below it: \
                 systemd-run --scope -p Delegate=yes pagelab ..."
            )),
            _ => error,
        })?;
        self.enabled.push(Enabled { file, controller: controller.to_owned(), before });
        Ok(())
    }

    /// Puts a process into the groups; what it starts is in them, too.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn take(&self, pid: u32) -> io::Result<()> {
        self.groups.iter().try_for_each(|made| write(&made.folder.join("cgroup.procs"), &pid.to_string()))
    }
}

impl Drop for Made {
    /// Removes the group; what is in it goes to the recorder's own.
    fn drop(&mut self) {
        let began = std::time::Instant::now();
        let own = self.own.join("cgroup.procs");
        let is_there = || fs::remove_dir(&self.folder).is_err_and(|error| error.kind() != io::ErrorKind::NotFound);
        while is_there() && began.elapsed() < BUSY {
            for pid in text(&self.folder.join("cgroup.procs")).unwrap_or_default().lines() {
                // It may have ended.
                _ = write(&own, pid);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

/// Removes the empty groups of recorders that are gone, where this one would make its own.
pub(crate) fn remove_leftovers(root: &Path) {
    let (Ok(mounts), Ok(lines)) = (table(root, None), text(&under(root, "/proc/self/cgroup"))) else { return };
    let mut folders = BTreeSet::new();
    for controller in CONTROLLERS {
        let Some(group) = place(controller, &lines, &mounts) else { continue };
        let own = under(root, &group.folder);
        folders.extend(own.parent().map(Path::to_owned));
        folders.insert(own);
    }
    for folder in folders {
        for name in names(&folder) {
            let Some(rest) = name.strip_prefix(PREFIX) else { continue };
            let owner = rest.split('-').next().and_then(|pid| pid.parse::<u32>().ok());
            if owner.is_some_and(|pid| !under(root, &format!("/proc/{pid}")).exists()) {
                _ = fs::remove_dir(folder.join(&name));
            }
        }
    }
}

/// The files of a limit and what is written into them.
fn written(root: &Path, version: u8, key: &str, value: &str) -> io::Result<Vec<(String, String)>> {
    if key == "io.max" {
        return io_max(root, version, value);
    }
    let one = |file: &str, text: &str| Ok(vec![(file.to_owned(), text.to_owned())]);
    // The kernel writes a size with a B behind it.
    let huge = key.strip_prefix("hugetlb.").and_then(|rest| rest.strip_suffix(".max"));
    if version == 2 {
        return huge.map_or_else(|| one(key, value), |size| one(&format!("hugetlb.{size}B.max"), value));
    }
    let no_limit = |value: &str| if value == "max" { "-1".to_owned() } else { value.to_owned() };
    match key {
        "memory.max" => one("memory.limit_in_bytes", &no_limit(value)),
        "cpu.max" => {
            let mut words = value.split_whitespace();
            let quota = no_limit(words.next().unwrap_or("max"));
            // The period first: a quota is checked against it.
            let period = words.next().map(|period| ("cpu.cfs_period_us".to_owned(), period.to_owned()));
            Ok(period.into_iter().chain([("cpu.cfs_quota_us".to_owned(), quota)]).collect())
        }
        "cpu.weight" => {
            let weight: u64 = value.parse().unwrap_or(100);
            one("cpu.shares", &(weight * 1024 / 100).to_string())
        }
        "io.weight" => one("blkio.weight", value),
        "cpuset.cpus" | "cpuset.mems" | "pids.max" => one(key, value),
        _ => {
            let Some(size) = huge else {
                let found = format!("cgroup.{key}: found control groups of version 1, which do not have it");
                return Err(io::Error::new(io::ErrorKind::Unsupported, found));
            };
            one(&format!("hugetlb.{size}B.limit_in_bytes"), &no_limit(value))
        }
    }
}

fn io_max(root: &Path, version: u8, value: &str) -> io::Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    for limit in value.lines().filter_map(IoLimit::parse) {
        let number = limit.number(root)?;
        if version == 2 {
            let show = |(kind, limit): &(&str, Option<u64>)| {
                format!("{kind}={}", limit.map_or_else(|| "max".to_owned(), |limit| limit.to_string()))
            };
            let words: Vec<String> = limit.limits.iter().map(show).collect();
            files.push(("io.max".to_owned(), format!("{number} {}", words.join(" "))));
            continue;
        }
        for (kind, most) in limit.limits {
            let file = IO_LIMITS.iter().find(|(known, _)| *known == kind).map_or(kind, |(_, file)| *file);
            files.push((file.to_owned(), format!("{number} {}", most.unwrap_or(0))));
        }
    }
    Ok(files)
}

/// A file of the kernel is there or not: none is made.
fn write(file: &Path, text: &str) -> io::Result<()> {
    let written = fs::File::options().write(true).open(file).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| told(file, &error))
}

fn told(file: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(version: u8, key: &str, value: &str) -> Vec<(String, String)> {
        written(Path::new("/"), version, key, value).expect("it has such a limit")
    }

    fn pair(file: &str, text: &str) -> (String, String) {
        (file.to_owned(), text.to_owned())
    }

    #[test]
    fn limits_are_checked_before_anything_is_made() {
        let good = [
            ("memory.max", "512M"),
            ("memory.max", "max"),
            ("cpu.max", "50000 100000"),
            ("cpu.max", "max"),
            ("cpuset.cpus", "0-1"),
            ("io.max", "254:0 riops=500 wbps=max"),
            ("io.max", "max"),
        ];
        for (name, value) in good {
            assert!(checked(name, value).is_ok(), "{name}={value}");
        }
        let wrong = [
            ("memory.max", "lots"),
            ("cpu.max", ""),
            ("cpu.max", "10 100000"),
            ("cpu.max", "1000 2000 3000"),
            ("cpu.weight", "0"),
            ("io.max", "254:0"),
            ("io.max", "254:0 rips=5"),
            ("io.max", "../../x riops=5"),
            ("pids.max", "-1"),
        ];
        for (name, value) in wrong {
            assert!(checked(name, value).is_err(), "{name}={value}");
        }
        assert_eq!(checked("memory.max", "1M").as_deref(), Ok("1048576"));
    }

    #[test]
    fn both_versions_get_the_same_limits() {
        assert_eq!(files(2, "memory.max", "1048576"), [pair("memory.max", "1048576")]);
        assert_eq!(files(1, "memory.max", "max"), [pair("memory.limit_in_bytes", "-1")]);
        let periods = [pair("cpu.cfs_period_us", "100000"), pair("cpu.cfs_quota_us", "50000")];
        assert_eq!(files(1, "cpu.max", "50000 100000"), periods);
        assert_eq!(files(1, "cpu.weight", "100"), [pair("cpu.shares", "1024")]);
        assert_eq!(files(2, "io.max", "8:0 riops=500"), [pair("io.max", "8:0 riops=500")]);
        let each =
            [pair("blkio.throttle.read_iops_device", "8:0 500"), pair("blkio.throttle.write_bps_device", "8:0 0")];
        assert_eq!(files(1, "io.max", "8:0 riops=500 wbps=max"), each);
        assert_eq!(files(1, "hugetlb.2M.max", "4194304"), [pair("hugetlb.2MB.limit_in_bytes", "4194304")]);
        assert!(written(Path::new("/"), 1, "memory.high", "5").unwrap_err().to_string().contains("version 1"));
    }

    #[test]
    fn a_group_is_there_for_its_run_and_no_longer() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let mut limits = GroupLimits::default();
        limits.take("cpu.max", "50000 100000").expect("a limit");
        let groups = RunGroups::make(Path::new("/"), &limits).expect("groups");
        let folder = groups.groups[0].folder.clone();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        groups.take(child.id()).expect("it is there");
        let inside = text(&folder.join("cgroup.procs")).expect("the group");
        assert_eq!(inside.trim(), child.id().to_string());
        let group = fs::read_to_string(format!("/proc/{}/cgroup", child.id())).expect("the process");
        assert!(group.contains(PREFIX), "{group}");
        drop(groups);
        let group = fs::read_to_string(format!("/proc/{}/cgroup", child.id())).expect("it goes on");
        assert!(!folder.exists() && !group.contains(PREFIX), "{group}");
        child.kill().and_then(|()| child.wait().map(drop)).expect("our own child");
    }
}
