//! What the kernel allows: the largest transparent huge page that a fault in anonymous memory may get.
//!
//! A model of `__thp_vma_allowable_orders` in mm/huge_memory.c (6.8 to 6.18; before 6.8 only the largest size exists):
//! the program's MADV_NOHUGEPAGE and the process's PR_SET_THP_DISABLE forbid all sizes (`except-advised`, since 6.18,
//! spares what asked for huge pages); then each size follows its own `enabled`, and `inherit` means `thp.enabled`.
//!
//! The model is asked "what if": a setting is to blame if the slow side, with that one value taken from the other side,
//! would be allowed what the other side is.

use std::collections::BTreeMap;

use pagelab_residency::thp::{ProcessSwitch, rule_of_size};
use pagelab_vocab::settings::{format_size, parse_size};

use crate::mappings::ThpAdvice;

/// The key that decides for all sizes.
pub(crate) const ENABLED: &str = "thp.enabled";
/// The key of the process.
pub(crate) const THP_DISABLE: &str = "mm.thp_disable";

/// The settings that decide, on one side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ThpPolicy {
    enabled: String,
    sizes: BTreeMap<u64, String>,
    process: Option<String>,
    largest: u64,
}

impl ThpPolicy {
    /// Reads the policy; `None` if `thp.enabled` is not known, without which nothing is.
    pub(crate) fn of(settings: &BTreeMap<String, String>, huge_bytes: u64) -> Option<Self> {
        let mut sizes: BTreeMap<u64, String> =
            settings.iter().filter_map(|(key, value)| Some((size_of_key(key)?, value.clone()))).collect();
        sizes.entry(huge_bytes).or_insert_with(|| "inherit".to_owned());
        Some(Self {
            enabled: settings.get(ENABLED)?.clone(),
            sizes,
            process: settings.get(THP_DISABLE).cloned(),
            largest: huge_bytes,
        })
    }

    /// The largest size allowed for memory with that advice; `None`: base pages only.
    pub(crate) fn allows(&self, advice: ThpAdvice) -> Option<u64> {
        let advised = advice == ThpAdvice::Huge;
        if !self.process_switch().allows(advised) || matches!(advice, ThpAdvice::NoHuge | ThpAdvice::Prctl) {
            return None;
        }
        let open = |own: &str| {
            let (rule, _) = rule_of_size(Some(&self.enabled), Some(own));
            rule.is_some_and(|rule| rule.allows(advised))
        };
        self.sizes.range(..=self.largest).rev().find(|(_, own)| open(own)).map(|(size, _)| *size)
    }

    fn process_switch(&self) -> ProcessSwitch {
        match self.process.as_deref() {
            Some("1") => ProcessSwitch::Closed,
            Some("except-advised") => ProcessSwitch::ExceptAdvised,
            _ => ProcessSwitch::Open,
        }
    }

    /// The same policy with one setting replaced.
    pub(crate) fn with(&self, key: &str, value: Option<&str>) -> Self {
        let mut other = self.clone();
        match (size_of_key(key), value) {
            (Some(size), Some(value)) => {
                other.sizes.insert(size, value.to_owned());
            }
            (Some(size), None) => {
                other.sizes.remove(&size);
            }
            (None, value) if key == THP_DISABLE => other.process = value.map(str::to_owned),
            (None, Some(value)) if key == ENABLED => value.clone_into(&mut other.enabled),
            (None, _) => {}
        }
        other
    }

    /// The setting that forbids here and now, for a lone recording: the first that, opened, would allow more.
    pub(crate) fn forbidding(&self, advice: ThpAdvice) -> Option<(String, String)> {
        let opened = |key: &str, value: &str| self.with(key, Some(value)).allows(advice) > self.allows(advice);
        if let Some(process) = self.process.as_deref().filter(|value| *value != "0" && opened(THP_DISABLE, "0")) {
            return Some((THP_DISABLE.to_owned(), process.to_owned()));
        }
        let own = self.sizes.get(&self.largest)?;
        let key = format!("thp.{}.enabled", format_size(self.largest));
        if own != "inherit" && opened(&key, "always") {
            return Some((key, own.clone()));
        }
        opened(ENABLED, "always").then(|| (ENABLED.to_owned(), self.enabled.clone()))
    }

    /// The same policy under a program that forbade huge pages for itself: prctl(PR_SET_THP_DISABLE).
    pub(crate) fn with_prctl(&self, advice: ThpAdvice) -> Self {
        if advice == ThpAdvice::Prctl { self.with(THP_DISABLE, Some("1")) } else { self.clone() }
    }

    /// Whether huge pages are forbidden for the whole process, whatever it asks for.
    pub(crate) fn process_forbids_all(&self) -> bool {
        self.process_switch() == ProcessSwitch::Closed
    }

    /// Whether the process has any prohibition.
    pub(crate) fn process_forbids(&self) -> bool {
        self.process.as_deref().is_some_and(|value| value != "0")
    }

    /// `thp.enabled`.
    pub(crate) fn enabled(&self) -> &str {
        &self.enabled
    }

    /// The largest page size.
    pub(crate) const fn largest(&self) -> u64 {
        self.largest
    }

    /// The largest size's own `enabled`, unless it follows `thp.enabled`.
    pub(crate) fn own_of_largest(&self) -> Option<&str> {
        self.sizes.get(&self.largest).map(String::as_str).filter(|own| *own != "inherit")
    }

    /// Whether `key` takes part in the decision.
    pub(crate) fn decides(key: &str) -> bool {
        key == ENABLED || key == THP_DISABLE || size_of_key(key).is_some()
    }
}

fn size_of_key(key: &str) -> Option<u64> {
    parse_size(key.strip_prefix("thp.")?.strip_suffix(".enabled")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUGE: u64 = 2 << 20;

    fn policy(settings: &[(&str, &str)]) -> ThpPolicy {
        let settings = settings.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        ThpPolicy::of(&settings, HUGE).expect("thp.enabled is given")
    }

    #[test]
    fn the_global_switch_and_the_advice_decide() {
        for (enabled, none, advised) in
            [("always", Some(HUGE), Some(HUGE)), ("madvise", None, Some(HUGE)), ("never", None, None)]
        {
            let policy = policy(&[("thp.enabled", enabled)]);
            assert_eq!(policy.allows(ThpAdvice::None), none, "{enabled}");
            assert_eq!(policy.allows(ThpAdvice::Huge), advised, "{enabled}, advised");
            assert_eq!(policy.allows(ThpAdvice::NoHuge), None);
            assert_eq!(policy.allows(ThpAdvice::Prctl), None);
        }
        assert_eq!(ThpPolicy::of(&BTreeMap::new(), HUGE), None, "nothing is assumed");
    }

    #[test]
    fn sizes_and_the_process_overrule() {
        let small = policy(&[("thp.enabled", "always"), ("thp.2M.enabled", "never"), ("thp.64K.enabled", "always")]);
        assert_eq!(small.allows(ThpAdvice::None), Some(64 << 10));
        let own = policy(&[("thp.enabled", "never"), ("thp.2M.enabled", "madvise")]);
        assert_eq!(own.allows(ThpAdvice::Huge), Some(HUGE));
        let barred = policy(&[("thp.enabled", "always"), ("mm.thp_disable", "1")]);
        assert_eq!(barred.allows(ThpAdvice::Huge), None);
        let spared = policy(&[("thp.enabled", "madvise"), ("mm.thp_disable", "except-advised")]);
        assert_eq!(spared.allows(ThpAdvice::Huge), Some(HUGE));
    }

    #[test]
    fn the_forbidding_setting_is_found() {
        let key = |policy: &ThpPolicy| policy.forbidding(ThpAdvice::None).map(|(key, _)| key);
        assert_eq!(key(&policy(&[("thp.enabled", "madvise")])).as_deref(), Some("thp.enabled"));
        assert_eq!(key(&policy(&[("thp.enabled", "always")])), None);
        let process = policy(&[("thp.enabled", "always"), ("mm.thp_disable", "1")]);
        assert_eq!(key(&process).as_deref(), Some("mm.thp_disable"));
        let size = policy(&[("thp.enabled", "always"), ("thp.2M.enabled", "never")]);
        assert_eq!(key(&size).as_deref(), Some("thp.2M.enabled"));
    }
}
