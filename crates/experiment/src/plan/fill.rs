//! From the plan as written to what it means here: placeholders filled, settings checked against the host, harmless
//! differences drawn. Everything a plan can get wrong is found here, before anything runs or changes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pagelab_host::settings::{SettingError, check};
use pagelab_vocab::settings::{self as vocab, Scope, nearest};
use serde::{Deserialize, Serialize};

use super::{Boot, LabPlan, Plan, PlannedSetting, Variant, Work, lab};
use crate::decoys::{self, Decoy};
use crate::device::{NoDevice, block_device_of};
use crate::document::Place;
use crate::error::PlanError;

/// What begins a placeholder in a key; a path and `}` follow.
const DEVICE_OF: &str = "{device of ";

/// The placeholder for the plan's set directory in `workdir`.
const SET: &str = "{set}";

/// Where a plan is carried out.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// Below which /proc and /sys are; `/` but in tests.
    pub root: PathBuf,
    /// The set's directory, absolute; it need not exist.
    pub set: PathBuf,
    /// Seed for the draws.
    pub seed: u64,
}

/// One variant as it runs here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FilledVariant {
    /// Its name.
    pub name: String,
    /// What runs.
    pub work: Work,
    /// Settings of the host, by key; the guard makes and undoes them.
    pub host: BTreeMap<String, String>,
    /// Settings of the started process, by key.
    pub process: BTreeMap<String, String>,
    /// What its VM boots with, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<Boot>,
    /// Settings that are decided at boot, by key; they are looked for in the guest.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub booted: BTreeMap<String, String>,
}

/// The plan as it runs here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Filled {
    /// Directory that everything runs in.
    pub workdir: PathBuf,
    /// Variants in the order of the plan.
    pub variants: Vec<FilledVariant>,
    /// The harmless differences among their settings.
    pub decoys: Vec<Decoy>,
    /// What deserves a word.
    pub notes: Vec<String>,
}

pub(crate) fn has_placeholder(key: &str) -> bool {
    key.contains(DEVICE_OF)
}

impl Plan {
    /// Looks at the host and decides what the plan means there. Changes nothing.
    pub fn fill(&self, here: &Surroundings) -> Result<Filled, PlanError> {
        let workdir = self.workdir(&here.set);
        let mut notes = self.notes.clone();
        let mut variants = Vec::new();
        for variant in &self.variants {
            variants.push(match &self.lab {
                None => fill_variant(variant, here, &workdir)?,
                Some(lab) => fill_for_lab(variant, lab),
            });
        }
        let drawn = match &self.decoys {
            None => Vec::new(),
            Some(wanted) => {
                let drawn = decoys::draw(wanted, &here.root, here.seed, &variants)?;
                notes.extend(drawn.notes);
                drawn.decoys
            }
        };
        for decoy in &drawn {
            for (variant, value) in variants.iter_mut().zip(&decoy.values) {
                let side = if decoy.process { &mut variant.process } else { &mut variant.host };
                side.insert(decoy.key.clone(), value.clone());
            }
        }
        Ok(Filled { workdir, variants, decoys: drawn, notes })
    }

    /// The directory that runs happen in: as the plan says, relative to itself.
    fn workdir(&self, set: &Path) -> PathBuf {
        match &self.workdir {
            None => self.dir().to_owned(),
            Some(text) => self.dir().join(text.replace(SET, &set.display().to_string())),
        }
    }
}

fn fill_variant(variant: &Variant, here: &Surroundings, workdir: &Path) -> Result<FilledVariant, PlanError> {
    let mut host = BTreeMap::new();
    let mut process = BTreeMap::new();
    for (key, setting) in &variant.settings {
        let (key, scope) = fill_setting(key, setting, here, workdir)?;
        let side = if scope == Scope::Process { &mut process } else { &mut host };
        if side.insert(key.clone(), setting.value.clone()).is_some() {
            return Err(PlanError::Value {
                at: setting.at.clone(),
                key,
                found: "a second value".to_owned(),
                needed: "one value: two keys of the plan mean this one here".to_owned(),
            });
        }
    }
    let (name, work) = (variant.name.clone(), variant.work.clone());
    Ok(FilledVariant { name, work, host, process, boot: None, booted: BTreeMap::new() })
}

/// The same for a VM that is yet to be booted: its settings are checked inside it, [`crate::Runner::check`].
fn fill_for_lab(variant: &Variant, plan: &LabPlan) -> FilledVariant {
    let mut filled = FilledVariant {
        name: variant.name.clone(),
        work: variant.work.clone(),
        host: BTreeMap::new(),
        process: BTreeMap::new(),
        boot: Some(plan.boot(variant)),
        booted: BTreeMap::new(),
    };
    for (key, setting) in &variant.settings {
        let is_process = vocab::setting(key).is_some_and(|info| info.def.scope == Scope::Process);
        let side = match is_process {
            _ if lab::is_boot_key(key) => &mut filled.booted,
            true => &mut filled.process,
            false => &mut filled.host,
        };
        side.insert(key.clone(), setting.value.clone());
    }
    filled
}

/// The setting's key on this host and the component that makes the change, checked.
fn fill_setting(
    key: &str,
    setting: &PlannedSetting,
    here: &Surroundings,
    workdir: &Path,
) -> Result<(String, Scope), PlanError> {
    let key = fill_device(key, &setting.at, here, workdir)?;
    let wrong = |error| PlanError::Setting { at: setting.at.clone(), error };
    let info = check(&here.root, &key, &setting.value).map_err(wrong)?;
    Ok((info.key, info.def.scope))
}

/// `block.{device of DIR}.read_ahead_kb` with the name of the device that DIR lies on.
fn fill_device(key: &str, at: &Place, here: &Surroundings, workdir: &Path) -> Result<String, PlanError> {
    let Some((before, rest)) = key.split_once(DEVICE_OF) else { return Ok(key.to_owned()) };
    let Some((path, after)) = rest.split_once('}') else {
        let found = "a placeholder without its closing brace".to_owned();
        let error = SettingError::Unknown { key: key.to_owned(), found, nearest: nearest(&key.replace(DEVICE_OF, "")) };
        return Err(PlanError::Setting { at: at.clone(), error });
    };
    let device = block_device_of(&here.root, &workdir.join(path.trim())).map_err(|error| PlanError::Host {
        at: at.clone(),
        what: key.to_owned(),
        found: error.found,
        needed: error.needed,
    })?;
    Ok(format!("{before}{device}{after}"))
}

/// The same for settings that are about to be changed: keys with the device's name in the placeholder's stead.
pub(crate) fn filled_device(root: &Path, workdir: &Path, key: &str) -> Result<String, NoDevice> {
    let Some((before, rest)) = key.split_once(DEVICE_OF) else { return Ok(key.to_owned()) };
    let Some((path, after)) = rest.split_once('}') else { return Ok(key.to_owned()) };
    Ok(format!("{before}{}{after}", block_device_of(root, &workdir.join(path.trim()))?))
}
