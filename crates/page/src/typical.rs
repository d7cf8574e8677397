//! Which runs of a side are drawn where a picture has no room for all of them.

use pagelab_analysis::compare::{RunEntry, SideRuns};

/// Runs of a side that are drawn at most, the typical one among them.
const MOST_RUNS: usize = 10;

/// The runs that count.
pub(crate) fn counted(side: &SideRuns) -> impl Iterator<Item = &RunEntry> {
    side.runs.iter().filter(|run| run.excluded.is_none())
}

/// The runs that are drawn where a picture has room for few, the typical one first: it has the side's median of the primary metric,
/// the lower one of an even number; without a primary metric it is the first that counts. The others are in the order in which they were
/// made; of more than [`MOST_RUNS`] they are chosen evenly by rank, the least and the largest among them.
pub(crate) fn drawn(side: &SideRuns) -> Vec<&RunEntry> {
    let mut ranked: Vec<(usize, &RunEntry)> = counted(side).enumerate().collect();
    // Stable: runs without a number stay in their order, behind the others.
    ranked.sort_by(|(_, a), (_, b)| match (a.primary, b.primary) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    });
    let with_number = ranked.iter().filter(|(_, run)| run.primary.is_some()).count();
    if ranked.is_empty() {
        return Vec::new();
    }
    let (_, typical) = ranked.remove(with_number.saturating_sub(1) / 2);
    let others = ranked.len().min(MOST_RUNS - 1);
    let rank = |place: usize| place * (ranked.len() - 1) / others.saturating_sub(1).max(1);
    let mut chosen: Vec<(usize, &RunEntry)> =
        (0..others).filter_map(|place| ranked.get(rank(place)).copied()).collect();
    chosen.sort_by_key(|(made, _)| *made);
    std::iter::once(typical).chain(chosen.into_iter().map(|(_, run)| run)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn side(primaries: &[Option<f64>], left_out: usize) -> SideRuns {
        let run = |(place, primary): (usize, &Option<f64>)| {
            let excluded = (place == left_out).then(|| json!({"reason": "failed", "code": 1, "signal": null}));
            json!({"dir": place.to_string(), "run": place, "round": null, "excluded": excluded, "primary": primary, "notes": []})
        };
        let runs: Vec<_> = primaries.iter().enumerate().map(run).collect();
        serde_json::from_value(json!({"label": "base", "n": runs.len(), "runs": runs})).unwrap()
    }

    fn dirs(primaries: &[Option<f64>], left_out: usize) -> Vec<String> {
        drawn(&side(primaries, left_out)).into_iter().map(|run| run.dir.clone()).collect()
    }

    #[test]
    fn the_run_in_the_middle_is_first() {
        assert_eq!(dirs(&[Some(9.0), Some(1.0), Some(5.0)], 9), ["2", "0", "1"]);
        assert_eq!(dirs(&[Some(9.0), Some(1.0), Some(5.0)], 2), ["1", "0"], "what does not count is not drawn");
        assert_eq!(dirs(&[None, Some(3.0), Some(1.0), Some(2.0)], 9), ["3", "0", "1", "2"], "of those with a number");
        assert_eq!(dirs(&[None, None], 0), ["1"], "without a metric the first that counts");
        assert_eq!(dirs(&[], 0), Vec::<String>::new());
    }

    #[test]
    fn of_many_runs_some_are_drawn_with_the_ends() {
        let primaries: Vec<Option<f64>> = (0..101).map(|run| Some(f64::from(run * 37 % 101))).collect();
        let found = dirs(&primaries, 999);
        assert_eq!(found.len(), MOST_RUNS);
        let mut values: Vec<f64> = found.iter().map(|dir| primaries[dir.parse::<usize>().unwrap()].unwrap()).collect();
        assert!((values[0] - 50.0).abs() < 1e-9, "the median: {}", values[0]);
        values.sort_by(f64::total_cmp);
        assert_eq!((values[0], values[MOST_RUNS - 1]), (0.0, 100.0));
        assert!(values.windows(2).all(|two| two[1] - two[0] < 15.0), "evenly: {values:?}");
    }
}
