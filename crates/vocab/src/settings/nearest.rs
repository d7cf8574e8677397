//! The key that a misspelt one probably meant.

use super::pattern;
use super::{definitions, setting};
use crate::nearest::slips;

/// The declared key nearest to `key`: `thp.enable` gives `thp.enabled`. Placeholders are filled with what stands at
/// their place in the misspelt key, or left as they are where that does not fit. Near is what [`crate::nearest`] calls so.
pub fn nearest(key: &str) -> Option<String> {
    let parts: Vec<&str> = key.split('.').collect();
    let candidates = definitions().filter(|def| !def.catch_all).map(|def| aligned(def.pattern, &parts));
    candidates.filter_map(|name| Some((slips(key, &name)?, name))).min_by_key(|(slips, _)| *slips).map(|(_, name)| name)
}

/// The pattern with each placeholder that is a whole part replaced by the key's part at that place, if it fits.
fn aligned(pattern: &str, parts: &[&str]) -> String {
    let filled: Vec<&str> = pattern
        .split('.')
        .enumerate()
        .map(|(place, part)| match parts.get(place) {
            Some(given) if part.starts_with('<') && part.ends_with('>') && pattern::matches(part, given) => *given,
            _ => part,
        })
        .collect();
    let candidate = filled.join(".");
    setting(&candidate).map_or(candidate, |info| info.key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_keys_find_their_neighbour() {
        for (typed, meant) in [
            ("thp.enable", "thp.enabled"),
            ("thp.enabeld", "thp.enabled"),
            ("thp.64k.enable", "thp.64K.enabled"),
            ("hugetlb.2M.nr_hugepage", "hugetlb.2M.nr_hugepages"),
            ("block.vda.readahead_kb", "block.vda.read_ahead_kb"),
            ("sysctl.vm.swapiness", "sysctl.vm.swappiness"),
            ("rlimit.memlok", "rlimit.memlock"),
            ("mm.thp_disabled", "mm.thp_disable"),
            ("tph.enabled", "thp.enabled"),
        ] {
            assert_eq!(nearest(typed).as_deref(), Some(meant), "{typed}");
        }
        assert_eq!(nearest("completely.unlike.anything.here"), None);
    }
}
