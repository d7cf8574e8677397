//! Values that are lists: which of their members differ.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A member of a list that is not the same on both sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct PartDiff {
    /// As the base has it; null if it does not.
    pub base: Option<String>,
    /// As the test side has it; null if it does not.
    pub test: Option<String>,
}

/// What stands between the members of a setting's value; `None`: it is no list.
fn separator(key: &str) -> Option<char> {
    match key {
        "command.arguments" | "kernel.cmdline" => Some(' '),
        "env.GLIBC_TUNABLES" => Some(':'),
        _ if key.starts_with("mount.") && key.ends_with(".options") => Some(','),
        _ => None,
    }
}

/// The name of a member that has a value: `commit` of `commit=30`.
fn name(part: &str) -> &str {
    part.split_once('=').map_or(part, |(name, _)| name)
}

/// The members that differ, in the order of the base and then of the test side; empty if the value is no list, or not there on
/// one side. A member with a name, such as `commit=30`, stands beside the one of that name.
pub(super) fn differing(key: &str, base: Option<&str>, test: Option<&str>) -> Vec<PartDiff> {
    let (Some(separator), Some(base), Some(test)) = (separator(key), base, test) else { return Vec::new() };
    // The quotes of a shell belong to the line, and may stand around several of its words.
    let is_quote = |letter: char| separator == ' ' && matches!(letter, '\'' | '"' | '\\');
    let parts = |text: &'_ str| -> Vec<String> {
        let bare = text.split(separator).map(|part| part.trim_matches(is_quote));
        bare.filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    let mut added = parts(test);
    let mut removed = Vec::new();
    for part in parts(base) {
        match added.iter().position(|other| *other == part) {
            Some(place) => _ = added.remove(place),
            None => removed.push(part),
        }
    }
    let mut differing = Vec::new();
    for part in removed {
        let same_name = added.iter().position(|other| part.contains('=') && name(other) == name(&part));
        let test = same_name.map(|place| added.remove(place));
        differing.push(PartDiff { base: Some(part), test });
    }
    differing.extend(added.into_iter().map(|part| PartDiff { base: None, test: Some(part) }));
    differing
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(key: &str, base: &str, test: &str) -> Vec<String> {
        let show = |side: Option<String>| side.unwrap_or_else(|| "-".to_owned());
        let told = |part: PartDiff| format!("{} > {}", show(part.base), show(part.test));
        differing(key, Some(base), Some(test)).into_iter().map(told).collect()
    }

    #[test]
    fn only_the_members_that_differ_are_listed() {
        assert_eq!(
            told("mount./.options", "commit=5,discard,rw", "commit=30,rw,sync"),
            ["commit=5 > commit=30", "discard > -", "- > sync"]
        );
        assert_eq!(told("command.arguments", "-c 5 -c x", "-c 6 -c x"), ["5 > -", "- > 6"]);
        let quoted = |value: &str| format!(r"-c 'psql -c '\''set a={value}'\'''");
        assert_eq!(
            told("command.arguments", &quoted("1"), &quoted("2")),
            ["a=1 > a=2"],
            "without the quotes of the line"
        );
        assert_eq!(told("env.GLIBC_TUNABLES", "a.b=1:c.d=2", "c.d=2:a.b=3"), ["a.b=1 > a.b=3"]);
        assert!(told("thp.enabled", "always", "never").is_empty(), "it is no list");
        assert!(differing("mount./.options", None, Some("rw")).is_empty());
    }
}
