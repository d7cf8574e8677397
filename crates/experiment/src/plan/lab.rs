//! `[lab]`: the VM that a plan's variants run in, and the settings that are decided when it boots.

use std::collections::BTreeMap;
use std::fmt::Write;

use pagelab_lab::{Accel, Kernel, LabError, Options, Pmem, PmemKind, Program};
use pagelab_vocab::nearest::hint_for;
use pagelab_vocab::units::parse_size;
use serde::{Deserialize, Serialize};

use super::{PlannedSetting, Variant, nowhere};
use crate::document::{Item, Place, Table};
use crate::error::PlanError;

/// Keys of the table.
const KEYS: &[&str] =
    &["kernel", "cmdline", "memory", "cpus", "pmem", "pmem_kind", "icount", "accel", "modules", "programs"];

/// The setting that names the kernel.
pub(crate) const KERNEL: &str = "kernel";

/// What settings of the kernel's command line begin with.
const CMDLINE: &str = "cmdline.";

/// The value of a parameter that has none.
const BARE: &str = "set";

/// The VM of a plan, as it was written; what is left out is as `pagelab lab up` has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabPlan {
    /// The kernel of variants that name none.
    pub kernel: Kernel,
    /// Kernel parameters of all variants, beside the lab's own.
    pub cmdline: Vec<String>,
    /// Memory beside the persistent one, bytes.
    pub memory_bytes: u64,
    /// Processors.
    pub cpus: u32,
    /// Persistent memory.
    pub pmem: Option<Pmem>,
    /// Count instructions: every guest instruction takes `2^shift` ns of the guest's time.
    pub icount_shift: Option<u8>,
    /// How instructions are run.
    pub accel: Accel,
    /// Kernel modules beyond those that every lab has.
    pub modules: Vec<String>,
    /// Programs of the host for the guest.
    pub programs: Vec<String>,
    /// Where it was written.
    #[serde(skip, default = "nowhere")]
    pub at: Place,
}

/// What is decided when the VM of a variant boots. Variants that have it in common share one VM.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Boot {
    /// The kernel's series.
    pub kernel: String,
    /// Kernel parameters beside the lab's own.
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

pub(super) fn lab(item: &Item<'_>) -> Result<LabPlan, PlanError> {
    let table = item.table()?;
    table.only(KEYS)?;
    let usual = Options::default();
    let mut plan = LabPlan {
        kernel: table.get("kernel").map_or(Ok(usual.kernel), |item| kernel(&item))?,
        cmdline: words(&table, "cmdline")?,
        memory_bytes: table.get("memory").map_or(Ok(usual.memory_bytes), |item| bytes(&item))?,
        cpus: table.get("cpus").map_or(Ok(u64::from(usual.cpus)), |item| item.number(1, 64))? as u32,
        pmem: pmem(&table, usual.pmem)?,
        icount_shift: table.get("icount").map(|item| item.number(0, 10)).transpose()?.map(|shift| shift as u8),
        accel: table.get("accel").map_or(Ok(usual.accel), |item| accel(&item))?,
        modules: names(&table, "modules", "the names of kernel modules")?,
        programs: names(&table, "programs", "names or paths of programs of this host")?,
        at: item.at.clone(),
    };
    plan.cmdline = plan.cmdline.iter().flat_map(|text| text.split_whitespace()).map(str::to_owned).collect();
    let first = Boot { kernel: plan.kernel.name().to_owned(), cmdline: plan.cmdline.clone() };
    plan.options(&first)?.validate().map_err(|error| refused(&table, item, &error))?;
    Ok(plan)
}

/// What the lab says about its options, about the key that the plan has for the option.
fn refused(table: &Table<'_>, item: &Item<'_>, error: &LabError) -> PlanError {
    let LabError::Option { option, found, needed } = error else {
        return item.wrong(error.to_string());
    };
    let key = option.trim_start_matches('-').replace('-', "_");
    let key = if key == "module" { "modules".to_owned() } else { key };
    let at = table.get(&key).map_or_else(|| item.at.clone(), |found| found.at);
    PlanError::Value { at, key: format!("lab.{key}"), found: found.clone(), needed: needed.clone() }
}

/// The known words, and the one that was probably meant.
fn one_of(item: &Item<'_>, found: &str, known: &[&str]) -> PlanError {
    let near = hint_for(found, known.iter().copied());
    item.wrong(format!("one of {}{}", known.join(", "), near))
}

/// A kernel may be written without quotes; TOML takes that for a number, which ends in the same digits or does not.
fn kernel(item: &Item<'_>) -> Result<Kernel, PlanError> {
    let known = Kernel::ALL.map(Kernel::name);
    let text = item.text().map_err(|_| one_of(item, "", &known))?;
    Kernel::parse(&text).map_err(|_| one_of(item, &text, &known))
}

fn accel(item: &Item<'_>) -> Result<Accel, PlanError> {
    let text = item.text()?;
    Accel::parse(&text).map_err(|_| one_of(item, &text, &["auto", "kvm", "tcg"]))
}

fn bytes(item: &Item<'_>) -> Result<u64, PlanError> {
    let text = item.setting_value()?;
    parse_size(&text).map_err(|_| item.wrong("a size: \"512M\", \"1G\", or bytes"))
}

fn pmem(table: &Table<'_>, usual: Option<Pmem>) -> Result<Option<Pmem>, PlanError> {
    let kind = match table.get("pmem_kind") {
        None => usual.map(|pmem| pmem.kind).unwrap_or_default(),
        Some(item) => {
            let text = item.text()?;
            PmemKind::parse(&text).map_err(|_| one_of(&item, &text, &["memmap", "nvdimm"]))?
        }
    };
    let Some(item) = table.get("pmem") else { return Ok(usual.map(|pmem| Pmem { kind, ..pmem })) };
    if item.text().is_ok_and(|text| text == "none") {
        return Ok(None);
    }
    let bytes = bytes(&item).map_err(|_| item.wrong("a size such as \"1G\", or \"none\""))?;
    Ok((bytes > 0).then_some(Pmem { bytes, kind }))
}

fn words(table: &Table<'_>, key: &str) -> Result<Vec<String>, PlanError> {
    table.get(key).map_or(Ok(Vec::new()), |item| item.texts())
}

fn names(table: &Table<'_>, key: &str, needed: &str) -> Result<Vec<String>, PlanError> {
    let names = words(table, key)?;
    match table.get(key) {
        Some(item) if names.iter().any(|name| name.trim().is_empty()) => Err(item.wrong(needed)),
        _ => Ok(names),
    }
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
        return Kernel::parse(&setting.value)
            .map(|_| ())
            .map_err(|_| wrong(format!("one of {}", Kernel::ALL.map(Kernel::name).join(", "))));
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
        let mut words = format!("{} CPUs, {} MiB", self.cpus, self.memory_bytes >> 20);
        if let Some(pmem) = self.pmem {
            let _ = write!(words, ", {} MiB persistent", pmem.bytes >> 20);
        }
        if let Some(shift) = self.icount_shift {
            let _ = write!(words, ", {} ns an instruction", 1u32 << shift);
        }
        words
    }

    /// What the VM of a variant boots with.
    pub(super) fn boot(&self, variant: &Variant) -> Boot {
        let settings = &variant.settings;
        let kernel = settings.get(KERNEL).map_or_else(|| self.kernel.name().to_owned(), |found| found.value.clone());
        let own: BTreeMap<&str, &str> = settings
            .iter()
            .filter_map(|(key, setting)| Some((key.strip_prefix(CMDLINE)?, setting.value.as_str())))
            .collect();
        // What a variant says goes before what the table says, as with all settings.
        let kept = self.cmdline.iter().filter(|word| !own.contains_key(parameter_name(word).as_str())).cloned();
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
            kernel,
            cmdline: boot.cmdline.clone(),
            memory_bytes: self.memory_bytes,
            cpus: self.cpus,
            pmem: self.pmem,
            icount_shift: self.icount_shift,
            accel: self.accel,
            modules: self.modules.clone(),
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
