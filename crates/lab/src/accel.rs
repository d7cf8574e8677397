//! Whether KVM boots a guest here: found out by trying, remembered as long as the host is up.

use std::fs::File;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::folders::{make_open, write_whole};
use crate::qemu::Machine;

/// What is given to `-cpu` under KVM. Hypervisors above may refuse to let one register be set that `host` brings along.
pub(crate) const KVM_CPUS: [&str; 2] = ["host", "host,-arch-capabilities"];
/// Everything that TCG can do.
pub(crate) const TCG_CPU: &str = "max";

/// What trying has shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Verdict {
    boot_id: String,
    pub(crate) machine: Machine,
    /// The value of `-cpu`.
    pub(crate) cpu: String,
    /// Why not KVM.
    pub(crate) why: Option<String>,
}

impl Verdict {
    /// The result of a try since the host came up, if there was one.
    pub(crate) fn read(cache: &Path) -> Option<Self> {
        let verdict: Verdict = serde_json::from_slice(&std::fs::read(file(cache)).ok()?).ok()?;
        (Some(&verdict.boot_id) == boot_id().as_ref()).then_some(verdict)
    }

    /// Remembers it.
    pub(crate) fn write(cache: &Path, machine: Machine, cpu: &str, why: Option<String>) -> Result<()> {
        // Without an identifier of this boot it would be believed for ever.
        let Some(boot_id) = boot_id() else { return Ok(()) };
        make_open(cache)?;
        let verdict = Verdict { boot_id, machine, cpu: cpu.to_owned(), why };
        write_whole(&file(cache), &serde_json::to_vec(&verdict).unwrap_or_default())
    }
}

/// Why KVM cannot even be tried.
pub(crate) fn no_kvm() -> Option<String> {
    match File::options().read(true).write(true).open("/dev/kvm") {
        Ok(_) => None,
        Err(error) => Some(format!("/dev/kvm: {error}")),
    }
}

fn file(cache: &Path) -> PathBuf {
    cache.join("kvm.json")
}

fn boot_id() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_lasts_until_the_next_boot() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(Verdict::read(folder.path()), None);
        Verdict::write(folder.path(), Machine::Tcg, TCG_CPU, Some("it hung".to_owned())).expect("written");
        let read = Verdict::read(folder.path()).expect("read");
        assert_eq!((read.machine, read.why.as_deref()), (Machine::Tcg, Some("it hung")));
        let other = Verdict { boot_id: "another".to_owned(), ..read };
        std::fs::write(file(folder.path()), serde_json::to_vec(&other).expect("JSON")).expect("written");
        assert_eq!(Verdict::read(folder.path()), None);
    }
}
