//! Two kernels: most settings that differ between their runs differ merely because the kernels do.
//!
//! A kernel of another series has thousands of other build options and dozens of knobs that the other lacks. Nobody
//! here decided any of them, and a list of all of them hides the few that matter. So options and knobs that are known
//! to affect speed little are listed separately ([`FollowingSetting`]); others that only one kernel has are reported as
//! derived from the kernel, and the kernel itself ranks as high as the highest of them.

use std::collections::BTreeMap;

use pagelab_vocab::settings::{Impact, SettingInfo, setting};

use super::make::Candidate;
use super::{FollowingSetting, SettingDiff};

/// The setting that says which kernel ran.
pub(super) const KERNEL: &str = "kernel";

/// Namespaces of the kernel's own settings. Settings of processes and mounts are somebody's decision.
const OF_THE_KERNEL: [&str; 8] = ["kconfig", "sysctl", "thp", "hugetlb", "mm", "cpu", "block", "kernel"];

/// Two kernels on machines with the same memory differ in the memory they manage by their own use: less than this part.
const OWN_MEMORY: f64 = 0.02;

/// Whether two values of a build option say the same: what a kernel does not know is not built in.
pub(super) fn same_option(key: &str, base: Option<&str>, test: Option<&str>) -> bool {
    key.starts_with("kconfig.") && base.unwrap_or("n") == test.unwrap_or("n")
}

/// Takes what follows from the kernel and bears little on speed out of the candidates.
pub(super) fn take_following(candidates: &mut BTreeMap<String, Candidate>) -> Vec<FollowingSetting> {
    if !candidates.contains_key(KERNEL) {
        return Vec::new();
    }
    let followers: Vec<String> =
        candidates.iter().filter(|(key, candidate)| follows(key, candidate)).map(|(key, _)| key.clone()).collect();
    let taken = followers.into_iter().filter_map(|key| candidates.remove_entry(&key));
    taken
        .map(|(key, candidate)| FollowingSetting {
            key,
            base: candidate.base.map(str::to_owned),
            test: candidate.test.map(str::to_owned),
            follows: KERNEL.to_owned(),
        })
        .collect()
}

fn follows(key: &str, candidate: &Candidate) -> bool {
    let Some(info) = &candidate.info else { return false };
    if key == KERNEL || !of_the_kernel(key) {
        return false;
    }
    // Options that the vocabulary does not single out: drivers, and what the compiler can do.
    let any_option = info.def.catch_all && key.starts_with("kconfig.");
    any_option || (one_sided(candidate) && info.def.impact <= Impact::Low)
}

fn of_the_kernel(key: &str) -> bool {
    OF_THE_KERNEL.contains(&key.split('.').next().unwrap_or(key))
}

fn one_sided(candidate: &Candidate) -> bool {
    candidate.base.is_none() != candidate.test.is_none()
}

/// Whether a setting that stays in the list is the kernel's doing.
pub(super) fn is_derived(key: &str, candidate: &Candidate) -> bool {
    if key == KERNEL || !of_the_kernel(key) {
        return false;
    }
    let bytes = |value: Option<&str>| value.and_then(|value| value.parse::<f64>().ok());
    let own_memory = key == "mm.total_bytes"
        && bytes(candidate.base)
            .zip(bytes(candidate.test))
            .is_some_and(|(base, test)| (base - test).abs() < OWN_MEMORY * base.max(test));
    one_sided(candidate) || key.starts_with("kconfig.") || own_memory
}

/// Makes one entry of those that one key pattern covers and that have the same values: `thp.64K.enabled` speaks for every
/// size.
pub(super) fn fold(differing: Vec<SettingDiff>) -> Vec<SettingDiff> {
    let mut out: Vec<SettingDiff> = Vec::new();
    for diff in differing {
        let pattern = |info: SettingInfo| info.def.pattern.contains("<size>").then_some(info.def.pattern);
        let family = |diff: &SettingDiff| {
            let derived = diff.derived_from.as_deref() == Some(KERNEL);
            derived.then(|| setting(&diff.key).and_then(pattern)).flatten()
        };
        let own = family(&diff);
        let same = |known: &&mut SettingDiff| {
            own.is_some() && family(known) == own && known.base == diff.base && known.test == diff.test
        };
        match out.iter_mut().find(same) {
            Some(known) => known.also.push(diff.key),
            None => out.push(diff),
        }
    }
    out
}
