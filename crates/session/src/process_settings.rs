//! What of the settings is the target's own, as it was read at the start.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// By then a wrapper has become the program that it starts; few programs have done much of their work.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Beginnings of the keys that are the process's own. Mounts are of its namespace.
const OF_PROCESS: [&str; 8] = ["task.", "mm.thp_disable", "rlimit.", "env.", "cgroup.", "program.", "file.", "mount."];

/// Programs that a process may become one after the other, each read: wrappers of wrappers are few.
const MOST_PROGRAMS: u32 = 16;

/// The process's own settings at the start, and when they are read once more.
#[derive(Debug, Default)]
pub(crate) struct ProcessSettings {
    at_start: BTreeMap<String, Option<String>>,
    due: Option<Instant>,
    programs: u32,
}

impl ProcessSettings {
    /// Keeps what was read, if it is the process's own.
    pub(crate) fn note(&mut self, key: &str, value: Option<&str>) {
        if OF_PROCESS.iter().any(|begin| key.starts_with(begin)) {
            self.at_start.insert(key.to_owned(), value.map(str::to_owned));
        }
    }

    /// They are to be read again in a moment.
    pub(crate) fn read_again_soon(&mut self) {
        self.due = Some(Instant::now() + AGAIN_AFTER);
    }

    /// The process has become another program: what it runs under now is read as soon as may be, because the side that is faster may
    /// be over before [`AGAIN_AFTER`].
    pub(crate) fn became_another_program(&mut self) {
        self.programs += 1;
        if self.programs <= MOST_PROGRAMS {
            self.due = Some(Instant::now());
        }
    }

    /// Whether it is time to read them again; says so once.
    pub(crate) fn is_due(&mut self) -> bool {
        let is_due = self.due.is_some_and(|due| Instant::now() >= due);
        if is_due {
            self.due = None;
        }
        is_due
    }

    /// Whether the value is another one than at the start.
    pub(crate) fn differs(&self, key: &str, value: Option<&str>) -> bool {
        self.at_start.get(key).and_then(Option::as_deref) != value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_process_s_own_settings_are_kept_and_compared() {
        let mut settings = ProcessSettings::default();
        settings.note("task.nice", Some("0"));
        settings.note("sysctl.vm.swappiness", Some("60"));
        assert!(settings.differs("task.nice", Some("7")) && !settings.differs("task.nice", Some("0")));
        assert!(settings.differs("sysctl.vm.swappiness", Some("60")), "it was not kept");
        assert!(!settings.is_due(), "nobody asked");
        settings.read_again_soon();
        assert!(!settings.is_due(), "not yet");
        settings.became_another_program();
        assert!(settings.is_due() && !settings.is_due(), "at once, and once");
        (0..MOST_PROGRAMS).for_each(|_| settings.became_another_program());
        assert!(settings.is_due(), "those before the last");
        settings.became_another_program();
        assert!(!settings.is_due(), "a process that becomes programs for ever is not read for ever");
    }
}
