//! The known word that looks most like a misspelt one.

/// Edits (insert, delete, replace, swap of neighbours) between two words: the optimal string alignment distance.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, &ca) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &cb) in b.iter().enumerate() {
            let replace = last[j] + usize::from(ca != cb);
            let mut best = replace.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && ca == b[j - 1] && a[i - 1] == cb {
                best = best.min(before_last[j - 1] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

/// The candidate with the fewest edits, if it is near enough to be what was meant (at most a third of the word, rounded up).
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // A word longer than any option is not a slip of the fingers, and the distance is quadratic.
    if word.len() > 64 {
        return None;
    }
    let limit = word.chars().count().div_ceil(3);
    candidates
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(edits, _)| *edits <= limit)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// What a message adds for the nearest word; nothing if none is near.
pub fn hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |nearest| format!("; did you mean '{nearest}'?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found_and_nonsense_is_not() {
        let options = ["runtime", "rw", "rwmixread", "numjobs", "bs"];
        assert_eq!(nearest("runtmie", options.into_iter()), Some("runtime"));
        assert_eq!(nearest("numjob", options.into_iter()), Some("numjobs"));
        assert_eq!(nearest("quux_of_doom", options.into_iter()), None);
        assert_eq!(nearest(&"x".repeat(1 << 20), options.into_iter()), None);
    }

    #[test]
    fn a_swap_counts_once() {
        assert_eq!(distance("ab", "ba"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "abc"), 0);
    }
}
