//! The key that a misspelt one probably meant.

use super::pattern;
use super::{definitions, setting};

/// The declared key nearest to `key`: `thp.enable` gives `thp.enabled`. Placeholders are filled with what stands at
/// their place in the misspelt key, or left as they are where that does not fit. `None` if nothing is near: more than
/// a third of the letters would have to change.
pub fn nearest(key: &str) -> Option<String> {
    let parts: Vec<&str> = key.split('.').collect();
    let mut best: Option<(usize, String)> = None;
    for def in definitions().filter(|def| !def.catch_all) {
        let candidate = aligned(def.pattern, &parts);
        let distance = distance(key, &candidate);
        if best.as_ref().is_none_or(|(known, _)| distance < *known) {
            best = Some((distance, candidate));
        }
    }
    let (distance, candidate) = best?;
    (distance * 3 <= candidate.chars().count().max(key.chars().count())).then_some(candidate)
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

/// The nearest of `names` to `name`, by the same measure as [`nearest`].
pub fn nearest_of<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let (distance, found) = names.into_iter().map(|known| (distance(name, known), known)).min()?;
    (distance * 3 <= found.chars().count().max(name.chars().count())).then_some(found)
}

/// Edits (insert, delete, replace, swap of neighbours) between two texts: Damerau-Levenshtein in the restricted form
/// in which no part is edited twice.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, to) in b.iter().enumerate() {
            let replace = above[j] + usize::from(from != to);
            let mut cost = replace.min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i - 1] == *to && b[j - 1] == *from {
                cost = cost.min(before[j - 1] + 1);
            }
            row.push(cost);
        }
        before = std::mem::replace(&mut above, row);
    }
    above.last().copied().unwrap_or(0)
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

    #[test]
    fn distance_is_a_metric_on_samples() {
        let words = ["", "a", "ab", "ba", "enabled", "enable", "enabeld", "defrag"];
        for a in words {
            assert_eq!(distance(a, a), 0);
            for b in words {
                assert_eq!(distance(a, b), distance(b, a), "{a} {b}");
                assert!(distance(a, b) <= a.len().max(b.len()));
                assert_eq!(distance(a, b) == 0, a == b);
            }
        }
        assert_eq!(distance("enabeld", "enabled"), 1);
    }
}
