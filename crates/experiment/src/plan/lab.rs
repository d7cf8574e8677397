//! `[lab]`: the VM that a plan's variants run in, and the settings that are decided when it boots.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use pagelab_lab::{Kernel, LabError, Options, Program, Vm, VmArgs};
use serde::{Deserialize, Serialize};

use super::{PlannedSetting, Variant, nowhere};
use crate::document::{Document, Place};
use crate::error::PlanError;

/// The setting that names the kernel.
pub(crate) const KERNEL: &str = "kernel";

/// What settings of the kernel's command line begin with.
const CMDLINE: &str = "cmdline.";

/// The value of a parameter that has none.
const BARE: &str = "set";

/// The VM of a plan, as it was written; what is left out is as `pagelab lab up` has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabPlan {
    /// The VM; its kernel is that of variants that name none, its kernel parameters are those of all variants.
    #[serde(flatten)]
    pub vm: Vm,
    /// Programs of the host for the guest.
    pub programs: Vec<PathBuf>,
    /// Where it was written.
    #[serde(skip, default = "nowhere")]
    pub at: Place,
}

/// The choices made when the VM of a variant boots. Variants with the same choices share one VM.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Boot {
    /// The kernel's series.
    pub kernel: String,
    /// Kernel parameters in addition to the lab's own.
    pub cmdline: Vec<String>,
}

impl Boot {
    /// In one line.
    pub fn words(&self) -> String {
        let cmdline = if self.cmdline.is_empty() { String::new() } else { format!(", {}", self.cmdline.join(" ")) };
        format!("Linux {}{cmdline}", self.kernel)
    }
}

/// Whether a key is decided at boot.
pub(crate) fn is_boot_key(key: &str) -> bool {
    key == KERNEL || key.starts_with(CMDLINE)
}

pub(super) fn lab(args: &VmArgs, document: &Document<'_>) -> Result<LabPlan, PlanError> {
    let vm = args.vm().map_err(|error| refused(document, &error))?;
    Ok(LabPlan { vm, programs: args.programs.clone(), at: document.place(&document.span_of("lab")) })
}

/// What the lab says about an option, about the key that the plan has for it.
fn refused(document: &Document<'_>, error: &LabError) -> PlanError {
    let table = document.span_of("lab");
    let LabError::Option { option, found, needed } = error else {
        return document.wrong(&table, error.to_string());
    };
    let key = match *option {
        "--module" => "lab.modules".to_owned(),
        "--program" => "lab.programs".to_owned(),
        option => format!("lab.{}", option.trim_start_matches('-').replace('-', "_")),
    };
    // A key that is not written has its usual value, which another key does not go with.
    let span = Some(document.span_of(&key)).filter(|span| !span.is_empty()).unwrap_or(table);
    PlanError::Value { at: document.place(&span), key, found: found.clone(), needed: needed.clone() }
}

/// Checks a setting that is decided at boot.
pub(super) fn check_setting(key: &str, setting: &PlannedSetting) -> Result<(), PlanError> {
    let wrong = |needed: String| PlanError::Value {
        at: setting.at.clone(),
        key: key.to_owned(),
        found: format!("{:?}", setting.value),
        needed,
    };
    if key == KERNEL {
        return match Kernel::parse(&setting.value) {
            Err(LabError::Option { needed, .. }) => Err(wrong(needed)),
            Err(error) => Err(wrong(error.to_string())),
            Ok(_) => Ok(()),
        };
    }
    let name = key.strip_prefix(CMDLINE).unwrap_or_default();
    let odd = |c: char| c.is_whitespace() || c == '"' || c == '=' || c == '\0';
    if name.contains(odd) || setting.value.contains(['"', '\n', '\0']) || setting.value.trim().is_empty() {
        return Err(wrong(format!("the parameter's value without quotes, {BARE:?} for one that has none")));
    }
    Ok(())
}

impl LabPlan {
    /// Its hardware, in one line.
    pub fn words(&self) -> String {
        let mut words = format!("{} CPUs, {} MiB", self.vm.cpus, self.vm.memory_bytes >> 20);
        if let Some(pmem) = self.vm.pmem {
            let _ = write!(words, ", {} MiB persistent", pmem.bytes >> 20);
        }
        if let Some(shift) = self.vm.icount_shift {
            let _ = write!(words, ", {} ns an instruction", 1u32 << shift);
        }
        words
    }

    /// The boot choices of a variant's VM.
    pub(super) fn boot(&self, variant: &Variant) -> Boot {
        let settings = &variant.settings;
        let kernel = settings.get(KERNEL).map_or_else(|| self.vm.kernel.name().to_owned(), |found| found.value.clone());
        let own: BTreeMap<&str, &str> = settings
            .iter()
            .filter_map(|(key, setting)| Some((key.strip_prefix(CMDLINE)?, setting.value.as_str())))
            .collect();
        // A variant's value goes before the table's, as with all settings.
        let kept = self.vm.cmdline.iter().filter(|word| !own.contains_key(parameter_name(word).as_str())).cloned();
        let cmdline = kept.chain(own.iter().flat_map(|(name, value)| parameter_words(name, value))).collect();
        Boot { kernel, cmdline }
    }

    /// The lab's options for one boot.
    pub(crate) fn options(&self, boot: &Boot) -> Result<Options, PlanError> {
        let kernel = Kernel::parse(&boot.kernel).map_err(|error| PlanError::Value {
            at: self.at.clone(),
            key: "lab.kernel".to_owned(),
            found: boot.kernel.clone(),
            needed: error.to_string(),
        })?;
        Ok(Options {
            vm: Vm { kernel, cmdline: boot.cmdline.clone(), ..self.vm.clone() },
            programs: self.programs.iter().map(Program::whole).collect(),
            ..Options::default()
        })
    }
}

/// The name of a word of the command line as recordings spell it.
fn parameter_name(word: &str) -> String {
    let name = word.split('=').next().unwrap_or(word);
    if name.starts_with("sysctl.") { name.to_owned() } else { name.replace('-', "_") }
}

/// The words that make `cmdline.NAME` be VALUE. Several values are several words; the pages of one size follow its name.
fn parameter_words(name: &str, value: &str) -> Vec<String> {
    if let Some(size) = name.strip_prefix("hugepages.") {
        return vec![format!("hugepagesz={size}"), format!("hugepages={value}")];
    }
    let one = |value: &str| if value == BARE { name.to_owned() } else { format!("{name}={value}") };
    value.split_whitespace().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_become_words_of_the_command_line() {
        assert_eq!(parameter_words("transparent_hugepage", "never"), ["transparent_hugepage=never"]);
        assert_eq!(parameter_words("norandmaps", "set"), ["norandmaps"]);
        assert_eq!(parameter_words("console", "tty0 ttyS0"), ["console=tty0", "console=ttyS0"]);
        assert_eq!(parameter_words("hugepages.2M", "64"), ["hugepagesz=2M", "hugepages=64"]);
        assert_eq!(parameter_name("transparent-hugepage=x"), "transparent_hugepage");
        assert_eq!(parameter_name("sysctl.kernel.a-b=1"), "sysctl.kernel.a-b");
    }
}
