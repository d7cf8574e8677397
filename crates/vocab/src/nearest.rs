//! The known word that a misspelt one probably meant, and how a message asks for it.

/// No word of pagelab is as long: what is longer is no slip of the fingers, and the distance takes quadratic time.
const LONGEST: usize = 128;

/// The one of `known` that `word` was probably meant to be, if any is near: a single slip away (a letter added, left out,
/// replaced, or swapped with its neighbour), or so few that they touch at most a third of the letters. Of equally near
/// ones the first in the order of the alphabet.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let slips = |name: &'a str| Some((slips(word, name)?, name));
    known.into_iter().filter_map(slips).min().map(|(_, name)| name)
}

/// The slips between two words that are near each other in the sense of [`nearest`]: the restricted Damerau-Levenshtein
/// distance, in which no part is edited twice. `None` if they are not near.
pub(crate) fn slips(word: &str, name: &str) -> Option<usize> {
    if word.len() > LONGEST || word.is_empty() {
        return None;
    }
    let slips = strsim::osa_distance(word, name);
    let letters = word.chars().count().max(name.chars().count());
    (slips * 3 <= letters || slips <= 1).then_some(slips)
}

/// What a message adds for the nearest word; nothing if none is near.
pub fn hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |nearest| format!(" (did you mean '{nearest}'?)"))
}

/// As [`hint`] of [`nearest`].
pub fn hint_for<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    hint(nearest(word, known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found_and_nonsense_is_not() {
        let options = ["runtime", "rw", "rwmixread", "numjobs", "bs"];
        for (typed, meant) in [
            ("runtmie", Some("runtime")),
            ("numjob", Some("numjobs")),
            ("bz", Some("bs")),
            ("quux_of_doom", None),
            ("xy", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, options), meant, "{typed}");
        }
        assert_eq!(nearest(&"x".repeat(1 << 20), options), None);
    }

    #[test]
    fn slips_are_counted_alike_from_both_sides() {
        let words = ["a", "ab", "ba", "enabled", "enable", "enabeld", "defrag"];
        for a in words {
            assert_eq!(slips(a, a), Some(0));
            for b in words {
                assert_eq!(slips(a, b), slips(b, a), "{a} {b}");
            }
        }
        assert_eq!(slips("enabeld", "enabled"), Some(1), "a swap is one slip");
    }

    #[test]
    fn a_message_asks_only_for_what_is_near() {
        assert_eq!(hint_for("numjob", ["numjobs"]), " (did you mean 'numjobs'?)");
        assert_eq!(hint_for("nothing", ["numjobs"]), "");
    }
}
