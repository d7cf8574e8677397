//! Settings whose change for the worse brings a cause about.

use std::collections::BTreeMap;

use super::evidence::SettingChange;
use super::finding::{SettingSubject, SideName};
use super::quantity::Sign;
use super::scene::Scene;
use pagelab_vocab::settings::{matches, parse_size, setting};

/// Which way of a change is for the worse.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Worse {
    /// A smaller amount; no limit (`max`) is the largest.
    Lower,
    /// The same, and this is seen, without which the amount is never reached.
    LowerWith(&'static Sign),
    /// The same; 0 is no limit at all.
    LowerOrFromOff,
    /// A smaller limit of any device, in lines as those of `io.max`; what is not named, and `max`, is without limit.
    LowerLimits,
    /// A larger one, in such lines.
    HigherLimits,
    /// A larger amount.
    Higher,
    /// One of these words on the slow side, and not on the other.
    To(&'static [&'static str]),
    /// One of these words on the other side, and not on the slow one.
    From(&'static [&'static str]),
    /// Any change.
    Any,
    /// Another build id, or another hash of a file without one; one that is not there says nothing, and neither does when a file was
    /// written.
    AnotherBuild,
    /// At least twice as many, and not only a few more.
    ManyMore,
}

/// A setting that can bring a cause about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lever {
    /// Pattern of its keys, as in `vocab::settings`.
    pub pattern: &'static str,
    pub worse: Worse,
}

/// More by less than this is no reason for anything.
const FEW: f64 = 16.0;

/// The amount that a value stands for: `max` is without limit, of `QUOTA PERIOD` (`cgroup.cpu.max`) it is the quotient.
fn amount(value: &str) -> Option<f64> {
    let mut words = value.split_whitespace();
    let first = words.next()?;
    if matches!(first, "max" | "unlimited" | "none" | "-1") {
        return Some(f64::INFINITY);
    }
    let number = first.parse::<f64>().ok().or_else(|| parse_size(first).map(|bytes| bytes as f64))?;
    match words.next().and_then(|period| period.parse::<f64>().ok()) {
        Some(period) if period > 0.0 => Some(number / period),
        _ => Some(number),
    }
}

/// Limits by device and kind.
type Limits<'a> = BTreeMap<(&'a str, &'a str), f64>;

/// The limits in lines such as `8:0 rbps=max wbps=1048576` (Documentation/admin-guide/cgroup-v2.rst, io.max).
fn limits(value: Option<&str>) -> Limits<'_> {
    let mut limits = BTreeMap::new();
    for line in value.unwrap_or_default().lines() {
        let mut words = line.split_whitespace();
        let device = words.next().unwrap_or_default();
        for (kind, most) in words.filter_map(|word| word.split_once('=')) {
            limits.extend(amount(most).map(|most| ((device, kind), most)));
        }
    }
    limits
}

/// Whether any limit is lower than the other one's; what the other one does not name is without limit there.
fn has_lower_limit(one: &Limits<'_>, other: &Limits<'_>) -> bool {
    one.iter().any(|(of, most)| most < other.get(of).unwrap_or(&f64::INFINITY))
}

/// Words of a value: `rw,noatime` has two.
fn has_word(value: &str, wanted: &[&str]) -> bool {
    value.split([',', ' ']).any(|word| wanted.contains(&word))
}

impl Lever {
    /// Whether `slow` is worse than `fast`; a value that is not set has no amount and no words.
    pub(crate) fn is_worse(&self, slow: Option<&str>, fast: Option<&str>) -> bool {
        let amounts = || Some((amount(slow?)?, amount(fast?)?));
        let has = |value: Option<&str>, words: &[&str]| value.is_some_and(|value| has_word(value, words));
        match self.worse {
            Worse::Lower | Worse::LowerWith(_) => amounts().is_some_and(|(slow, fast)| slow < fast),
            Worse::LowerOrFromOff => {
                let in_force = |amount: f64| if amount > 0.0 { amount } else { f64::INFINITY };
                amounts().is_some_and(|(slow, fast)| in_force(slow) < in_force(fast))
            }
            Worse::LowerLimits => has_lower_limit(&limits(slow), &limits(fast)),
            Worse::HigherLimits => has_lower_limit(&limits(fast), &limits(slow)),
            Worse::Higher => amounts().is_some_and(|(slow, fast)| slow > fast),
            Worse::To(words) => has(slow, words) && !has(fast, words),
            Worse::From(words) => has(fast, words) && !has(slow, words),
            Worse::Any => slow != fast,
            Worse::AnotherBuild => {
                let is_id = |value: &str| value.bytes().all(|byte| byte.is_ascii_hexdigit());
                slow.zip(fast).is_some_and(|(slow, fast)| is_id(slow) && is_id(fast) && slow != fast)
            }
            Worse::ManyMore => amounts().is_some_and(|(slow, fast)| slow >= 2.0 * fast && slow - fast >= FEW),
        }
    }
}

/// The first lever of which a setting differs for the worse, with that setting.
pub(super) fn changed_setting(scene: &Scene<'_>, levers: &[Lever]) -> Option<SettingSubject> {
    let contrast = scene.evidence.contrast.as_ref()?;
    let is_reached = |lever: &&Lever| match lever.worse {
        Worse::LowerWith(sign) => sign.is_seen(scene) == Some(true),
        _ => true,
    };
    for lever in levers.iter().filter(is_reached) {
        // A pattern of several settings leaves those out that have a lever of their own.
        let is_meant = |key: &str| {
            matches(lever.pattern, key) && (lever.pattern == key || levers.iter().all(|other| other.pattern != key))
        };
        let is_of_target = |key: &str| {
            let info = setting(key);
            info.as_ref().and_then(|info| info.arg("dev")).is_none_or(|device| scene.uses(device))
        };
        let of_lever = |change: &&SettingChange| !change.follows && is_meant(&change.key) && is_of_target(&change.key);
        for change in contrast.differing.iter().filter(of_lever) {
            let (slow, fast) = match scene.slow.name {
                SideName::Test => (&change.test, &change.base),
                SideName::Base => (&change.base, &change.test),
            };
            if lever.is_worse(slow.as_deref(), fast.as_deref()) {
                return Some(SettingSubject {
                    key: change.key.clone(),
                    base: change.base.clone(),
                    test: change.test.clone(),
                    differs: true,
                });
            }
        }
    }
    levers.iter().filter(|lever| matches!(lever.worse, Worse::AnotherBuild)).find_map(|lever| moved_build(scene, lever))
}

/// Another build of a file that lies in another folder on each side (LD_LIBRARY_PATH, RPATH): each side has the key of its own.
fn moved_build(scene: &Scene<'_>, lever: &Lever) -> Option<SettingSubject> {
    let contrast = scene.evidence.contrast.as_ref()?;
    let name_of = |change: &SettingChange| {
        let path = setting(&change.key)?.arg("path")?.to_owned();
        Some(path.rsplit('/').next()?.to_owned())
    };
    let of_lever = || contrast.differing.iter().filter(|change| matches(lever.pattern, &change.key));
    let of_test = || of_lever().filter(|change| change.base.is_none());
    let of_base = of_lever().filter(|change| change.test.is_none());
    for base in of_base {
        let name = name_of(base);
        let is_other = |test: &&SettingChange| {
            name.is_some() && name_of(test) == name && lever.is_worse(test.test.as_deref(), base.base.as_deref())
        };
        if let Some(test) = of_test().find(is_other) {
            let key = if scene.slow.name == SideName::Test { &test.key } else { &base.key };
            let subject =
                SettingSubject { key: key.clone(), base: base.base.clone(), test: test.test.clone(), differs: true };
            return Some(subject);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lever(worse: Worse) -> Lever {
        Lever { pattern: "any", worse }
    }

    #[test]
    fn no_limit_is_the_largest_amount() {
        let lower = lever(Worse::Lower);
        assert!(lower.is_worse(Some("50000 100000"), Some("max 100000")));
        assert!(lower.is_worse(Some("20000 100000"), Some("50000 100000")));
        assert!(!lower.is_worse(Some("max"), Some("1048576")));
        assert!(lower.is_worse(Some("64M"), Some("1G")));
        assert!(!lower.is_worse(Some("64"), None), "an unknown value is not larger");
        assert!(lever(Worse::Higher).is_worse(Some("19"), Some("0")));
    }

    #[test]
    fn a_limit_of_nothing_is_none() {
        let lower = lever(Worse::LowerOrFromOff);
        assert!(lower.is_worse(Some("4194304"), Some("0")) && !lower.is_worse(Some("0"), Some("4194304")));
        assert!(lower.is_worse(Some("4194304"), Some("4000000000")));
        assert!(!lower.is_worse(Some("0"), Some("0")) && !lower.is_worse(Some("4194304"), None));
    }

    #[test]
    fn limits_are_compared_by_device_and_kind() {
        let limits = lever(Worse::LowerLimits);
        let some = "254:0 rbps=max wbps=max riops=1500 wiops=1500";
        assert!(limits.is_worse(Some(some), Some("max")) && !limits.is_worse(Some("max"), Some(some)));
        assert!(limits.is_worse(Some(some), None), "a group without the file has no limit");
        assert!(limits.is_worse(Some("8:0 wbps=1\n254:0 riops=9"), Some("254:0 riops=9")), "the first device");
        assert!(!limits.is_worse(Some("8:0 rbps=5 wbps=max"), Some("8:0 rbps=5 wbps=4")));
        assert!(limits.is_worse(Some("8:0 rbps=5 wbps=9"), Some("8:0 rbps=6 wbps=4")), "one of them suffices");
        let latency = lever(Worse::HigherLimits);
        assert!(latency.is_worse(Some("8:0 target=75000"), Some("8:0 target=1000")));
        assert!(latency.is_worse(None, Some("8:0 target=1000")) && !latency.is_worse(Some("8:0 target=1000"), None));
    }

    #[test]
    fn words_of_a_list_are_compared_whole() {
        let to = lever(Worse::To(&["sync"]));
        assert!(to.is_worse(Some("rw,sync"), Some("rw,noatime")));
        assert!(!to.is_worse(Some("rw,dirsync"), Some("rw")));
        assert!(!to.is_worse(Some("rw,sync"), Some("rw,sync")));
        assert!(lever(Worse::From(&["lazytime"])).is_worse(Some("rw"), Some("rw,lazytime")));
    }

    #[test]
    fn builds_and_pieces_differ_only_where_that_means_something() {
        let build = lever(Worse::AnotherBuild);
        assert!(build.is_worse(Some("ab12"), Some("cd34")) && !build.is_worse(Some("ab12"), Some("ab12")));
        assert!(!build.is_worse(Some("10 bytes, written at 5"), Some("10 bytes, written at 6")), "a copy");
        assert!(!build.is_worse(Some("ab12"), None), "not loaded yet");
        let pieces = lever(Worse::ManyMore);
        assert!(pieces.is_worse(Some("900"), Some("3")) && !pieces.is_worse(Some("2"), Some("1")));
        assert!(!pieces.is_worse(Some("120"), Some("100")));
    }
}
