//! Settings that belong to one process: environment, resource limits, transparent huge pages on or off, how it is scheduled.
//!
//! [`ProcessSettings::from_pairs`] checks everything before the run; [`ProcessSettings::apply_in_child`] makes the
//! changes between fork and exec, where only async-signal-safe calls are allowed, so all is prepared beforehand. They
//! end with the process: nothing has to be undone. Limits of control groups need groups of the run's own
//! ([`ProcessSettings::make_groups`]), which the process is put into before it executes; mount options need a mount namespace of its
//! own ([`ProcessSettings::prepare_mounts`]).

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use pagelab_vocab::nearest::nearest;
use pagelab_vocab::settings::{Scope, parse_size};
use rustix::process::{Resource, Rlimit};

use crate::run_groups::{GroupLimits, RunGroups};
use crate::run_mounts::{MountOptions, RunMounts};
use crate::scheduling::Scheduling;
use crate::settings::{SettingError, known};

/// Whether a process may have transparent huge pages (prctl(PR_SET_THP_DISABLE)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThpDisable {
    /// As the host says.
    No,
    /// Never.
    Yes,
    /// Only where madvise asked for them; kernels before 6.18 refuse it with EINVAL.
    ExceptAdvised,
}

/// One resource limit; [`UNLIMITED`] is what the kernel takes for "no limit" (RLIM64_INFINITY).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limit {
    resource: Resource,
    soft: u64,
    hard: u64,
}

const UNLIMITED: u64 = u64::MAX;

/// What a started process gets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessSettings {
    env: BTreeMap<String, String>,
    limits: Vec<Limit>,
    thp_disable: Option<ThpDisable>,
    scheduling: Scheduling,
    groups: GroupLimits,
    mounts: MountOptions,
    pairs: BTreeMap<String, String>,
}

/// Names below `rlimit.` and the limits they stand for.
const RESOURCES: &[(&str, Resource)] = &[
    ("as", Resource::As),
    ("core", Resource::Core),
    ("cpu", Resource::Cpu),
    ("data", Resource::Data),
    ("fsize", Resource::Fsize),
    ("locks", Resource::Locks),
    ("memlock", Resource::Memlock),
    ("msgqueue", Resource::Msgqueue),
    ("nice", Resource::Nice),
    ("nofile", Resource::Nofile),
    ("nproc", Resource::Nproc),
    ("rss", Resource::Rss),
    ("rtprio", Resource::Rtprio),
    ("rttime", Resource::Rttime),
    ("sigpending", Resource::Sigpending),
    ("stack", Resource::Stack),
];

impl ProcessSettings {
    /// Takes `env.NAME`, `rlimit.NAME`, `task.NAME`, `cgroup.NAME`, `mount.PLACE.options` and `mm.thp_disable`. A limit is `N` (soft and hard), `SOFT:HARD`, either part
    /// `unlimited` or with a binary suffix (`64M`).
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, SettingError> {
        let mut settings = ProcessSettings::default();
        for (key, value) in pairs {
            settings.take(key, value)?;
        }
        Ok(settings)
    }

    fn take(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        let info = known(key)?;
        if info.def.scope != Scope::Process {
            let why = match info.def.scope {
                Scope::ReadOnly => info.def.help,
                _ => "it belongs to the host, not to a process",
            };
            let why = why.to_owned();
            return Err(SettingError::ReadOnly { key: info.key, why });
        }
        let refuse = |needed: &str| {
            Err(SettingError::Value { key: key.to_owned(), value: value.to_owned(), needed: needed.to_owned() })
        };
        if value.contains('\0') {
            return refuse("text without NUL bytes");
        }
        if let Some(name) = info.key.strip_prefix("env.") {
            if name.contains(['=', '\0']) {
                return refuse("a variable name without `=`");
            }
            self.env.insert(name.to_owned(), value.to_owned());
        } else if let Some(name) = info.key.strip_prefix("rlimit.") {
            let Some((_, resource)) = RESOURCES.iter().find(|(known, _)| *known == name) else {
                let nearest = nearest(name, RESOURCES.iter().map(|(known, _)| *known));
                return Err(SettingError::Unknown {
                    key: key.to_owned(),
                    found: "no such limit".to_owned(),
                    nearest: nearest.map(|name| format!("rlimit.{name}")),
                });
            };
            let Some((soft, hard)) = limit(value) else {
                return refuse("a number, `unlimited`, or SOFT:HARD with SOFT at most HARD");
            };
            self.limits.retain(|limit| limit.resource != *resource);
            self.limits.push(Limit { resource: *resource, soft, hard });
        } else if let Some(name) = info.key.strip_prefix("task.") {
            if let Err(needed) = self.scheduling.take(name, value) {
                return refuse(needed);
            }
        } else if let Some(name) = info.key.strip_prefix("cgroup.") {
            if let Err(needed) = self.groups.take(name, value) {
                return refuse(needed);
            }
        } else if let Some(name) = info.key.strip_prefix("mount.") {
            if let Err(needed) = self.mounts.take(name.strip_suffix(".options").unwrap_or(name), value) {
                return refuse(needed);
            }
        } else {
            self.thp_disable = Some(match value.trim() {
                "0" => ThpDisable::No,
                "1" => ThpDisable::Yes,
                "except-advised" => ThpDisable::ExceptAdvised,
                _ => return refuse("0, 1 or except-advised"),
            });
        }
        self.pairs.insert(info.key, value.to_owned());
        Ok(())
    }

    /// Whether there is nothing to apply.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The settings as keys and values, sorted.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Environment variables to set in the child, sorted.
    pub fn env(&self) -> impl Iterator<Item = (&str, &str)> {
        self.env.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether the child may have transparent huge pages, if that is set.
    pub fn thp_disable(&self) -> Option<ThpDisable> {
        self.thp_disable
    }

    /// Makes the control groups that the process is to be put into; none without `cgroup.*` settings.
    ///
    /// # Errors
    /// No hierarchy has the controller, or the kernel refuses a group or a value.
    pub fn make_groups(&self) -> io::Result<RunGroups> {
        RunGroups::make(Path::new("/"), &self.groups)
    }

    /// Looks at what the mounts of the process are to become; nothing without `mount.*` settings, and nothing is changed.
    ///
    /// # Errors
    /// Nothing is mounted at a place, an option is its file system's, or this is not root.
    pub fn prepare_mounts(&self) -> io::Result<RunMounts> {
        self.mounts.prepare(Path::new("/"))
    }

    /// Gives a process its processors once more: entering another group with a cpuset may have taken them, before Linux 6.2.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set_affinity_again(&self, pid: u32) -> io::Result<()> {
        if self.groups.is_empty() { Ok(()) } else { self.scheduling.set_affinity(pid) }
    }

    /// Sets limits, huge pages and scheduling of the calling process. For use between fork and exec
    /// ([`std::os::unix::process::CommandExt::pre_exec`]): it makes system calls and nothing else, so it is
    /// async-signal-safe. The environment is not touched; give [`ProcessSettings::env`] to the command.
    ///
    /// # Errors
    /// What the kernel says: EPERM for a hard limit above the present one without CAP_SYS_RESOURCE and for a better nice value without
    /// CAP_SYS_NICE, EINVAL for `except-advised` on a kernel without it and for processors that are not there.
    pub fn apply_in_child(&self) -> io::Result<()> {
        for limit in &self.limits {
            let bound = |value: u64| (value != UNLIMITED).then_some(value);
            let new = Rlimit { current: bound(limit.soft), maximum: bound(limit.hard) };
            rustix::process::setrlimit(limit.resource, new)?;
        }
        if let Some(disable) = self.thp_disable {
            let (on, flags) = match disable {
                ThpDisable::No => (0, 0),
                ThpDisable::Yes => (1, 0),
                ThpDisable::ExceptAdvised => (1, PR_THP_DISABLE_EXCEPT_ADVISED),
            };
            thp_disable(on, flags)?;
        }
        self.scheduling.apply()
    }
}

/// include/uapi/linux/prctl.h, since 6.18.
const PR_THP_DISABLE_EXCEPT_ADVISED: libc::c_ulong = 1 << 1;

fn thp_disable(on: libc::c_ulong, flags: libc::c_ulong) -> io::Result<()> {
    let zero: libc::c_ulong = 0;
    // SAFETY: prctl with PR_SET_THP_DISABLE takes integers only and changes a flag of the calling process.
    let result = unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, on, flags, zero, zero) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Soft and hard part of a limit.
fn limit(text: &str) -> Option<(u64, u64)> {
    let (soft, hard) = text.split_once(':').unwrap_or((text, text));
    let (soft, hard) = (limit_part(soft)?, limit_part(hard)?);
    (soft <= hard).then_some((soft, hard))
}

fn limit_part(text: &str) -> Option<u64> {
    match text.trim() {
        "unlimited" | "infinity" | "-1" => Some(UNLIMITED),
        text => text.parse().ok().or_else(|| parse_size(text)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn limits_are_read_as_typed() {
        assert_eq!(limit("1024"), Some((1024, 1024)));
        assert_eq!(limit("64M:unlimited"), Some((64 << 20, UNLIMITED)));
        assert_eq!(limit("unlimited"), Some((UNLIMITED, UNLIMITED)));
        for wrong in ["", "a", "2:1", "unlimited:5", "1:2:3", "-5"] {
            assert_eq!(limit(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn wrong_keys_and_values_say_what_is_needed() {
        let error =
            |key: &str, value: &str| ProcessSettings::from_pairs([(key, value)]).expect_err("refused").to_string();
        assert!(error("rlimit.memlok", "1").contains("rlimit.memlock"), "{}", error("rlimit.memlok", "1"));
        assert!(error("mm.thp_disabled", "1").contains("did you mean 'mm.thp_disable'?"));
        assert!(error("mm.thp_disable", "yes").contains("0, 1 or except-advised"));
        assert!(error("task.nice", "fast").contains("-20 to 19"));
        assert!(error("task.policy", "fifo").contains("fifo:N"));
        assert!(error("rlimit.nofile", "5:4").contains("SOFT:HARD"));
        assert!(error("thp.enabled", "always").contains("host"));
        assert!(error("env.A=B", "x").contains('='));
        assert!(error("nothing.known", "x").contains("unknown setting"));
    }

    #[test]
    fn a_child_gets_them_and_the_parent_does_not() {
        let before = rustix::process::getrlimit(Resource::Nofile);
        let pairs = [("env.PAGELAB_WORD", "x y"), ("rlimit.nofile", "77:99"), ("mm.thp_disable", "1")];
        let settings = ProcessSettings::from_pairs(pairs).expect("valid");
        assert_eq!(settings.pairs().count(), 3);
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg("echo $PAGELAB_WORD; ulimit -Sn; ulimit -Hn; grep THP_enabled /proc/self/status");
        command.envs(settings.env());
        // SAFETY: apply_in_child makes system calls only.
        unsafe { command.pre_exec(move || settings.apply_in_child()) };
        let output = command.output().expect("sh runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(lines.first().copied(), Some("x y"));
        assert_eq!(lines.get(1).copied(), Some("77"));
        assert_eq!(lines.get(2).copied(), Some("99"));
        // Kernels before 5.0 have no such line; those with it must show the flag.
        assert!(lines.get(3).is_none_or(|line| line.ends_with('0')), "{text}");
        assert_eq!(rustix::process::getrlimit(Resource::Nofile), before);
    }

    /// What a child was given, as the tools of util-linux and procps read it, and as a snapshot does.
    #[test]
    fn a_child_is_scheduled_as_asked() {
        let pairs = [
            ("task.nice", "7"),
            ("task.policy", "batch"),
            ("task.affinity", "0"),
            ("task.io_priority", "best-effort:6"),
        ];
        let settings = ProcessSettings::from_pairs(pairs).expect("valid");
        let mut command = Command::new("/bin/sleep");
        command.arg("60");
        // SAFETY: apply_in_child makes system calls only.
        unsafe { command.pre_exec(move || settings.apply_in_child()) };
        let mut child = command.spawn().expect("sleep runs");
        let pid = child.id();
        let said = |words: &[&str]| {
            let output = Command::new(words[0]).args(&words[1..]).arg(pid.to_string()).output().expect("it runs");
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        };
        let words = [
            said(&["ps", "-o", "ni=", "-p"]),
            said(&["chrt", "-p"]),
            said(&["taskset", "-cp"]),
            said(&["ionice", "-p"]),
        ];
        let read = pairs.map(|(key, _)| crate::settings::read_of(std::path::Path::new("/"), key, Some(pid)));
        child.kill().expect("it runs");
        child.wait().expect("it has ended");
        assert_eq!(words[0], "7");
        assert!(words[1].contains("SCHED_BATCH"), "{words:?}");
        assert!(words[2].ends_with(": 0"), "{words:?}");
        assert_eq!(words[3], "best-effort: prio 6");
        assert_eq!(read.map(|one| one.expect("readable")), pairs.map(|(_, value)| value.to_owned()));
    }

    /// The kernel tells what it was asked for: 1 for all of it, and with it 2 (include/uapi/linux/prctl.h) for all but advised memory.
    #[test]
    fn the_kernel_tells_which_huge_pages_a_child_may_not_have() {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
        let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map_while(|part| part.parse().ok());
        let version: [u32; 2] = std::array::from_fn(|_| numbers.next().unwrap_or(0));
        for (value, expected) in [("0", 0), ("1", 1), ("except-advised", 3)] {
            let settings = ProcessSettings::from_pairs([("mm.thp_disable", value)]).expect("valid");
            let mut command = Command::new("/bin/true");
            // SAFETY: system calls only.
            unsafe {
                command.pre_exec(move || {
                    settings.apply_in_child()?;
                    let told = libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0);
                    if told == expected { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EPROTO)) }
                });
            }
            match command.status() {
                Ok(status) => assert!(status.success(), "{value}"),
                Err(error) => {
                    assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{value}: {error}");
                    assert!(value == "except-advised" && version < [6, 18], "{value} on Linux {release}");
                }
            }
        }
    }
}
